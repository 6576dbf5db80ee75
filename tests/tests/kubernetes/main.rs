//! oneseal on Kubernetes: what `deploy/` ships, judged by a real API server, and fleets whose ring is in a Secret there.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../rotation/caches.rs"]
mod caches;
mod fleet;
mod image;
mod manifests;
mod outage;
mod page;
mod proofs;
mod secret;
mod shipped;
mod support;
#[path = "../postgres/world.rs"]
mod world;
