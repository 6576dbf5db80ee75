//! The Kubernetes provider against a real API server: the contract with the documented rights and no others, and what
//! happens to networks, gateways, credentials and stores.

#![cfg(feature = "kubernetes")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod api_server;
#[path = "../common/mod.rs"]
mod common;
mod conformance;
mod credentials;
mod outages;
mod place;
mod plugins;
mod rights;
mod secrets;
mod watching;
mod writing;
