//! The provider of AWS Secrets Manager against an account of one's own: the contract, AWS's rotation, what secrets hold,
//! refusals, cuts and limits.

#![cfg(feature = "aws")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod chain;
mod conformance;
mod outages;
mod place;
mod refusals;
mod rotation;
mod silence;
mod values;
mod writing;
