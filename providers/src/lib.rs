//! Where the signing key rests: the [`SecretProvider`] contract and the backends that keep it.
//!
//! A provider hands out a [`Record`]: named entries of secret bytes with an opaque revision. It **never parses a
//! key**: what the bytes mean is the keystore's business, so every backend stays a few calls around one store, and
//! one conformance suite (`oneseal-testing`) judges them all.
//!
//! ```text
//! file · env · inline · k8s · aws · postgres ──►  Record { revision, change_id, entries }  ──►  keystore
//!                                            ◄──  replace / create (compare-and-swap)      ◄──
//! ```
//!
//! ```
//! use oneseal_providers::{InlineProvider, SecretProvider};
//!
//! let provider = InlineProvider::new("-----BEGIN PRIVATE KEY-----…");
//! assert_eq!(provider.describe().kind, "inline");
//! assert!(!provider.describe().writable);
//! ```
//!
//! A provider can also be named by a URI, as configuration and command line do: see [`ProviderUri`].
//!
//! # Features
//! | feature | brings |
//! |---|---|
//! | `file` (default) | [`FileProvider`]: a file, or a directory in kubelet's layout |
//! | `inline` (default) | [`EnvProvider`] and [`InlineProvider`]: one value, read once |
//! | `kubernetes` | `KubernetesProvider`: the data of one Secret, read and followed over the API |
//! | `postgres` | `PostgresProvider`: the ring's row in a database, with its history and events |
//! | `aws` | `AwsProvider`: the stages of a secret in AWS Secrets Manager |

#[cfg(feature = "aws")]
pub mod aws;
mod error;
#[cfg(feature = "file")]
pub mod file;
#[cfg(feature = "inline")]
pub mod inline;
#[cfg(any(feature = "aws", feature = "file", feature = "kubernetes", feature = "postgres"))]
mod jitter;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
mod pasted;
#[cfg(feature = "postgres")]
pub mod postgres;
mod provider;
mod record;
mod uri;
#[cfg(any(feature = "inline", feature = "kubernetes"))]
mod withheld;

#[cfg(feature = "aws")]
pub use aws::{AwsOptions, AwsProvider};
pub use error::{ErrorKind, ProviderError};
#[cfg(feature = "file")]
pub use file::FileProvider;
#[cfg(feature = "inline")]
pub use inline::{EnvProvider, InlineProvider};
#[cfg(feature = "kubernetes")]
pub use kubernetes::{KubernetesOptions, KubernetesProvider};
pub use pasted::looks_like_key;
#[cfg(feature = "postgres")]
pub use postgres::PostgresProvider;
pub use provider::{Advice, BoxFuture, Change, Description, Durability, SecretProvider};
pub use record::{Entries, Record, Revision, SecretBytes};
pub use uri::{AwsUri, PostgresUrl, ProviderUri, UriError};

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
