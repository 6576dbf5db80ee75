//! The event log on a real PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod appending;
mod following;
mod pruning;
mod support;
mod writers;
