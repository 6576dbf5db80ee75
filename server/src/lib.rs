//! The server and command line `oneseal`: what runs.
//!
//! A library in name only, so that benches and fuzz targets can reach its readers: it promises nothing to other crates,
//! whose library is `oneseal`.

mod app;
mod cli;
mod codes;
mod config;
mod exit;
mod gate;
mod hardening;
mod http;
mod lifecycle;
mod logging;
mod metrics;
mod output;
mod process;
mod quickstart;
mod ready_file;
mod report;
mod state;

use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Parser;
use tokio::runtime::{Builder, Runtime};

use cli::Cli;
use exit::Exit;

/// Does what the command line asks for, and tells how the process ends.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(answer) => return cli::answer(&answer).into(),
    };
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::complain(&format!("oneseal: threads cannot be started: {error}"));
            return Exit::Internal.into();
        }
    };
    let exit = runtime.block_on(cli.run()).unwrap_or_else(|failure| {
        output::complain(&format!("oneseal: {}", failure.in_full()));
        failure.exit()
    });
    // Not waiting for threads that still work for somebody who is no longer there.
    runtime.shutdown_background();
    exit.into()
}

/// Threads for connections. Signing with RSA has its own, so a few are enough for any machine.
fn runtime() -> std::io::Result<Runtime> {
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    Builder::new_multi_thread().worker_threads(processors.min(MAX_WORKERS)).enable_all().build()
}

/// Two answer more requests than a network brings; each costs memory.
const MAX_WORKERS: usize = 4;
