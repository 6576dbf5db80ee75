//! A sealed ring in a row of a real PostgreSQL under real servers: what a hostile writer of the row, a KEK that is
//! missing and a rotation by hand do to what is served.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../rotation/caches.rs"]
mod caches;
mod former;
mod hostile;
mod keks;
mod rotation;
mod support;
mod world;
