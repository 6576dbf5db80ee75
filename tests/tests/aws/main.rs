//! Real servers on a ring in AWS Secrets Manager: what they share, what an outage and a rotation do to them, and
//! whether AWS takes their tokens.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../rotation/caches.rs"]
mod caches;
mod fleet;
mod identity;
mod outage;
mod replaced;
mod rotation;
#[path = "../interop/signing.rs"]
mod signing;
mod sts;
mod support;
#[path = "../postgres/world.rs"]
mod world;
