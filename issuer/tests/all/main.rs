//! The issuer as its users see it: what is minted, what is published, what is counted.

#[path = "../support/mod.rs"]
mod support;

#[cfg(feature = "proofs")]
mod assertions;
mod atomicity;
mod building;
#[cfg(feature = "proofs")]
mod clusters;
mod documents;
mod metrics;
mod minting;
mod routing;
mod rules;
mod secrets;
mod token;
