//! The harness: real oneseal processes on free ports, each test with a place of its own.
//!
//! ```text
//! Place (temporary directory, one key for all) ─► Fleet (N replicas behind a round-robin forwarder or nginx)
//!                                                   └─ Replica: a process that can be killed and started again
//! ```
//! Waits are on state: a ready file, an answer, an exit. Whatever a test starts is killed when it is dropped.

mod fleet;
mod forwarder;
pub mod http;
pub mod keys;
pub mod nginx;
mod replica;
pub mod require;
pub mod state;

pub use fleet::{Fleet, FleetOptions};
pub use forwarder::Forwarder;
pub use replica::{Replica, Start, binary};
