//! `oneseal completions`: the script that completes this command line in a shell.

use clap_complete::Shell;

use super::{Globals, command};
use crate::exit::{Exit, Failure};
use crate::output;

/// Which shell.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell, such as bash: `oneseal completions bash > /etc/bash_completion.d/oneseal`
    shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) async fn run(args: Args, _globals: &Globals) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "oneseal", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
