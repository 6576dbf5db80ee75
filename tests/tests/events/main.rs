//! The event log as clients see it: streams from real replicas on a real PostgreSQL, and the verbs of the command line.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cli;
mod place;
mod streams;
mod survival;
