//! `oneseal keys new-kek`: a key-encryption key, for the place where it will rest.

use std::path::PathBuf;

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
        files::create_private(path, &text)?;
    }
    if args.json {
        let file = args.out.as_ref().map(|path| path.to_string_lossy());
        let secret = args.out.is_none().then(|| text.as_str());
        output::answer(json!({ "kek_id": kek.id(), "file": file, "kek": secret }), Exit::Done)?;
    } else if let Some(path) = &args.out {
        output::print(&format!("made: the KEK {} in file:{}\n", kek.id(), path.display()))?;
    } else {
        output::print(&format!("{}\n", *text))?;
        output::complain(&format!("the KEK {}: keep it apart from the ring, and a copy in a safe", kek.id()));
    }
    Ok(Exit::Done)
}
