//! The Postgres provider against real servers: the contract, directly and behind poolers, and what happens to networks
//! and databases.

#![cfg(feature = "postgres")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod conformance;
mod hints;
mod outages;
mod place;
mod roles;
mod rows;
mod silence;
