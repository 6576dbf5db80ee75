//! Hostile and heavy clients against a real server: each is served or refused within bounds, memory stays flat, and a
//! well-behaved client beside them is served throughout.
//!
//! Every test has a server of its own, so that the peak of its memory is that of this attack. The figures are printed:
//! `cargo test -p oneseal-tests --test clients -- --nocapture`. Counts grow with `TEST_SOAK` (`make soak`).
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod connections;
mod http1;
mod http2;
mod slow;
mod target;
mod tls;
