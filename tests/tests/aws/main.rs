//! Real servers on a ring in AWS Secrets Manager: what they share, what an outage and a rotation do to them, and
//! whether AWS takes their tokens.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../interop/signing.rs"]
mod signing;
mod sts;
mod support;
