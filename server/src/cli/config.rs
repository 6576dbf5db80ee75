//! `oneseal config`: what a configuration can say, as a file to begin from and as a schema.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

use super::Globals;
use crate::exit::{Exit, Failure};
use crate::{config, files, output};

/// What to write.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Write a configuration file that explains every key
    Init(InitArgs),
    /// Print the JSON Schema of the configuration file
    Schema(SchemaArgs),
}

#[derive(Debug, clap::Args)]
struct InitArgs {
    /// The file to write, which must not exist [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print one JSON object; without --output the file's text is a member of it
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct SchemaArgs {
    /// Tell failures as JSON; the schema is JSON in any case
    #[arg(long)]
    json: bool,
}

/// Writes it.
///
/// # Errors
/// The file is there already, or cannot be written.
pub(crate) async fn run(args: Args, _globals: &Globals) -> Result<Exit, Failure> {
    match args.verb {
        Verb::Init(args) => init(args),
        Verb::Schema(SchemaArgs { json: _ }) => {
            output::print(&config::schema())?;
            Ok(Exit::Done)
        }
    }
}

fn init(args: InitArgs) -> Result<Exit, Failure> {
    let InitArgs { output, json } = args;
    let text = config::commented();
    if let Some(path) = &output {
        write_new(path, &text).map_err(|error| files::not_written(path, error))?;
    }
    match (output, json) {
        (Some(path), true) => output::answer(json!({ "written": path.to_string_lossy() }), Exit::Done),
        (None, true) => output::answer(json!({ "written": null, "text": text }), Exit::Done),
        (Some(path), false) => {
            let path = path.display();
            output::print_line(&format!("wrote {path}; `oneseal check` judges it once it is filled in"))?;
            Ok(Exit::Done)
        }
        (None, false) => {
            output::print(&text)?;
            Ok(Exit::Done)
        }
    }
}

/// The file may come to hold secrets: it is its owner's alone.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
