//! Tokens of workloads, and whom they are for: real servers on both sides.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "of the libraries only the command line is used here")]
#[path = "../interop/adaptor.rs"]
mod adaptor;
#[path = "../interop/install.rs"]
mod install;
mod issuer;
#[expect(dead_code, reason = "of the libraries only the command line is used here")]
#[path = "../interop/libraries.rs"]
mod libraries;
mod page;
mod pod;
mod structured;
