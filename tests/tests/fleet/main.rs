//! Replicas that know of each other: real servers on a real PostgreSQL.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod joining;
mod outage;
mod registry;
mod staleness;
mod support;
