//! The built program as its users meet it: started, asked, stopped.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod admin;
mod admin_tcp;
#[cfg(target_os = "linux")]
mod binding;
mod boot;
mod check;
mod documents;
mod hostile;
mod keys;
#[cfg(target_os = "linux")]
mod memory;
mod mounts;
#[cfg(target_os = "linux")]
mod notify;
mod ops;
mod rules;
mod secrets;
mod shutdown;
mod support;
#[cfg(target_os = "linux")]
mod systemd;
mod tls;
mod token;
