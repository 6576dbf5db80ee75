//! The command line on every store that can be written, each of them real: a file, a row of Postgres, a Kubernetes Secret
//! and a secret of AWS Secrets Manager.

#[path = "../cli_support/mod.rs"]
mod cli_support;
mod recovering;
mod starting;
mod twelve;
mod world;
