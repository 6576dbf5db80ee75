//! Which key signs, and which keys are published: material, ring document, snapshot, live handle.
//!
//! The route of a key is one way: a provider's record becomes a [`ring`], the ring a [`Snapshot`], and from the
//! snapshot alone a replica signs and publishes. The crate knows no HTTP, no rules and no backend.
//!
//! ```text
//! provider ─► Record ─► ring (document or bare keys) ─► Snapshot { jwks, signers, verifiers } ─► sign · publish
//!                              accept(served, new)  ▲
//!                                                   └ Follower, one task: reload, judge, swap
//! ```
//!
//! The smallest program, on a provider that already holds a key:
//! ```no_run
//! use std::sync::Arc;
//! use oneseal_coordination::SystemClock;
//! use oneseal_keystore::{Algorithm, IssuerUrl, Keystore, KeystoreOptions};
//! use oneseal_providers::SecretProvider;
//!
//! # async fn run(provider: Arc<dyn SecretProvider>) -> Result<(), Box<dyn std::error::Error>> {
//! let issuer = IssuerUrl::parse("https://oidc.example", "issuer")?;
//! let (keystore, follower) =
//!     Keystore::open(provider, KeystoreOptions::new(issuer), Arc::new(SystemClock)).await?;
//! let token = keystore.snapshot().sign(Algorithm::Rs256, br#"{"sub":"pod"}"#).await?;
//! # drop((token, follower));
//! # Ok(())
//! # }
//! ```

mod accept;
pub mod algorithm;
mod codes;
mod digest;
pub mod executor;
#[cfg(feature = "seal")]
pub mod export;
pub mod findings;
pub mod fleet;
mod init;
pub mod issuer_url;
pub mod json;
pub mod jwk;
pub mod keystore;
pub mod material;
mod permit;
mod place;
mod reading;
mod rewrap;
pub mod ring;
pub mod rotation;
pub mod seal;
pub mod signer;
pub mod snapshot;
pub mod steps;
pub mod verify;
pub mod weakness;

pub use algorithm::{Algorithm, KeyType};
pub use codes::{
    DATABASE_BELOW_MIN_BINARY, DATABASE_MIGRATION_PENDING, DATABASE_UNUSABLE, FLEET_KID_REUSED,
    all as all_codes,
};
pub use digest::Digest;
pub use findings::{Finding, Findings};
pub use init::{InitError, InitRequest, Initialised, Making, init, init_telling};
pub use issuer_url::IssuerUrl;
pub use jwk::{KeyId, PublicKey};
pub use keystore::{Follower, Freshness, Kept, Keystore, KeystoreOptions};
pub use permit::GenerationPermit;
pub use place::provider_findings;
pub use rewrap::{KekUse, RewrapError, RewrapRequest, Rewrapped, Rewrapping, kek_uses, rewrap};
pub use ring::Mode;
pub use rotation::Rotation;
pub use seal::{Kek, Keks};
pub use signer::Signer;
pub use snapshot::{Identity, Snapshot};
