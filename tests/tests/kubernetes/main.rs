//! oneseal on Kubernetes: what `deploy/` ships, judged by a real API server, and fleets whose ring is in a Secret there.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod image;
mod manifests;
mod page;
mod shipped;
