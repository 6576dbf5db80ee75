//! Tokens of workloads, and whom they are for: real servers on both sides.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod issuer;
mod page;
mod structured;
