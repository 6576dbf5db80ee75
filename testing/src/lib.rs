//! Test your controller against oneseal without a store, a cluster or a second to wait.
//!
//! - [`MemoryProvider`] keeps the record in memory and fails on request: an outage, a lost answer, a superseded
//!   leader. It is also the reference for every other provider.
//! - [`FixedClock`] stands still until told otherwise.
//! - [`Canary`] is a secret that can be searched for in logs, errors and `Debug` texts, in whatever encoding.
//! - [`conformance`] is the suite that every [`SecretProvider`](oneseal_providers::SecretProvider) passes; if you
//!   write your own, run it: [`conformance_suite!`] makes one test of each behaviour.
//! - With the feature `parts`: a real PostgreSQL, PgBouncer and Kubernetes API server and an account at an emulated
//!   AWS, started by the test, and a proxy that breaks connections.
//!
//! What it will not do: it is for tests, keeps nothing, and has no place in a program that serves. Use it as a
//! dev-dependency.
//!
//! ```
//! use std::time::Duration;
//! use oneseal_coordination::{Clock, UnixTime};
//! use oneseal_providers::{Entries, ErrorKind, SecretProvider};
//! use oneseal_testing::{FixedClock, MemoryProvider};
//!
//! # oneseal_testing::block_on(async {
//! let provider = MemoryProvider::with(Entries::single("current.pem", "-----BEGIN PRIVATE KEY-----…"));
//! assert!(provider.load().await.is_ok());
//!
//! provider.set_outage(Some(ErrorKind::Unavailable));
//! assert_eq!(provider.load().await.unwrap_err().kind(), ErrorKind::Unavailable);
//!
//! let clock = FixedClock::at(UnixTime(1_700_000_000));
//! clock.advance(Duration::from_secs(3600));
//! assert_eq!(clock.wall(), UnixTime(1_700_003_600));
//! # });
//! ```

pub mod canary;
mod clock;
pub mod conformance;
mod memory;
#[cfg(feature = "parts")]
pub mod parts;
#[cfg(feature = "rings")]
pub mod rings;

pub use canary::Canary;
pub use clock::FixedClock;
pub use memory::{MemoryProvider, Outcome};

/// Runs `future` to its end on a runtime of its own with four threads, time and I/O.
///
/// # Panics
/// If no runtime can be started here.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    runtime.expect("a runtime can be started").block_on(future)
}

/// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
