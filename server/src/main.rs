//! The oneseal server and command line.

mod config;

fn main() {}
