//! The server and command line `oneseal`: what runs.
//!
//! A library in name only, so that benches and fuzz targets can reach its readers: it promises nothing to other crates,
//! whose library is `oneseal`.

mod admin_token;
mod app;
mod cli;
mod client;
mod codes;
mod config;
mod exit;
mod files;
mod fleet;
mod gate;
mod hardening;
mod http;
mod key_answers;
mod lifecycle;
mod links;
mod logging;
mod metrics;
mod notify;
mod output;
mod panics;
mod process;
mod proofs;
mod quickstart;
mod ready_file;
mod refusals;
mod report;
mod rules_file;
mod state;
mod times;
mod tls;
mod whole_file;

use std::num::NonZeroUsize;
use std::process::ExitCode;

use tokio::runtime::{Builder, Runtime};

use cli::Cli;
use exit::{Exit, Failure};

/// Does what the command line asks for, and tells how the process ends.
pub fn main() -> ExitCode {
    panics::in_one_line();
    let as_json = cli::wants_json(std::env::args_os());
    let exit = panics::caught(|| run().unwrap_or_else(|failure| ended(&failure, as_json)));
    // The panic has been told on standard error; a script reads standard output.
    exit.unwrap_or_else(|| {
        if as_json {
            output::fail(&Failure::internal("a fault of oneseal itself; please report it"), true);
        }
        Exit::Internal
    })
    .into()
}

fn run() -> Result<Exit, Failure> {
    let cli = match Cli::read(std::env::args_os()) {
        Ok(cli) => cli,
        Err(answer) => return cli::answer(&answer),
    };
    cli::refuse_keys(std::env::args_os())?;
    let runtime = runtime().map_err(|error| Failure::internal("threads cannot be started").because(error))?;
    let exit = runtime.block_on(cli.run());
    // Not waiting for threads that still work for somebody who is no longer there.
    runtime.shutdown_background();
    oneseal::providers::kubernetes::end_credential_plugins();
    exit
}

fn ended(failure: &Failure, as_json: bool) -> Exit {
    output::fail(failure, as_json);
    failure.exit()
}

/// Reads a configuration file's text as `serve` does, and drops what it says: the door of fuzz targets.
#[doc(hidden)]
pub fn read_configuration(text: &[u8]) {
    config::read_text(text);
}

/// Threads for connections. Signing with RSA has its own, so a few are enough for any machine.
fn runtime() -> std::io::Result<Runtime> {
    let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    Builder::new_multi_thread().worker_threads(processors.min(MAX_WORKERS)).enable_all().build()
}

/// Two answer more requests than a network brings; each costs memory.
const MAX_WORKERS: usize = 4;
