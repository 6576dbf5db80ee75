//! `oneseal db status`: which tables there are, and for whom.

use oneseal_coordination::migrate::{BinaryVersion, Status, status};
use serde_json::{Value, json};

use super::{Globals, open};
use crate::exit::{Exit, Failure};
use crate::gate::{self, COMPONENTS};
use crate::output;

/// In which form.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let database = open(globals, "oneseal-status")?;
    let found = status(&database, COMPONENTS)
        .await
        .map_err(|error| Failure::found(gate::of_database_error(&error)))?;
    let faults = found.faults(BinaryVersion::own());
    let exit = if faults.is_empty() { Exit::Done } else { Exit::No };
    if args.json {
        let mut answer = as_json(&found, &database.location());
        answer["faults"] = faults.iter().map(ToString::to_string).collect();
        return output::answer(answer, exit);
    }
    output::print(&as_text(&found, &database.location()))?;
    for fault in &faults {
        output::print_line(&format!("this oneseal cannot use it: {fault}"))?;
    }
    Ok(exit)
}

fn as_json(found: &Status, location: &str) -> Value {
    let component = |one: &oneseal_coordination::migrate::ComponentStatus| {
        let pending = one.pending.iter().map(|migration| {
            json!({ "version": migration.version, "kind": migration.kind.as_str(), "min_binary": migration.min_binary })
        });
        json!({
            "name": one.name,
            "version": one.applied,
            "known": one.known,
            "min_binary": one.min_binary,
            "pending": pending.collect::<Vec<_>>(),
        })
    };
    json!({
        "database": location,
        "server_version_num": found.server,
        "binary": BinaryVersion::own().to_string(),
        "components": found.components.iter().map(component).collect::<Vec<_>>(),
    })
}

fn as_text(found: &Status, location: &str) -> String {
    let (major, minor) = (found.server / 10_000, found.server % 10_000);
    let mut text = format!("{location}, PostgreSQL {major}.{minor}\n");
    for one in &found.components {
        let needs = one
            .min_binary
            .as_deref()
            .map_or_else(String::new, |least| format!(", for oneseal {least} and newer"));
        text.push_str(&format!("  {}: version {} of {}{needs}\n", one.name, one.applied, one.known));
        for migration in &one.pending {
            text.push_str(&format!(
                "    pending: version {} ({})\n",
                migration.version,
                migration.kind.as_str()
            ));
        }
    }
    text
}
