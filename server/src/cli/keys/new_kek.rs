//! `oneseal keys new-kek`: a key-encryption key, for the place where it will rest.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use oneseal_keystore::Kek;
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::{files, output};

/// Where it goes.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Write it to this new file, mode 0600, instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print one JSON object; without --out it holds the KEK
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let kek = Kek::generate().map_err(|error| Failure::internal("no KEK was made").because(error))?;
    let text = kek.expose_base64url();
    if let Some(path) = &args.out {
        create(path, &text).map_err(|error| files::not_written(path, error))?;
    }
    if args.json {
        let file = args.out.as_ref().map(|path| path.to_string_lossy());
        let secret = args.out.is_none().then(|| text.as_str());
        output::answer(json!({ "kek_id": kek.id(), "file": file, "kek": secret }), Exit::Done)?;
    } else if let Some(path) = &args.out {
        output::print(&format!("made: the KEK {} in {}\n", kek.id(), path.display()))?;
    } else {
        output::print(&format!("{}\n", *text))?;
        output::complain(&format!("the KEK {}: keep it apart from the ring, and a copy in a safe", kek.id()));
    }
    Ok(Exit::Done)
}

/// Never over what is there: a KEK that was overwritten takes its ring with it.
fn create(path: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}
