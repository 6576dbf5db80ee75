//! `oneseal keys keks`: which of the configured key-encryption keys is which, and what of the ring is sealed under each.

use oneseal_keystore::{KekUse, kek_uses};
use oneseal_providers::Description;
use serde_json::{Value, json};

use super::{Globals, Place};
use crate::app;
use crate::exit::{Exit, Failure};
use crate::output;

/// Which ring.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let config = super::load(args.place.sources(globals).yes(true))?;
    let keks = app::keks(&config.unlocking.sealing);
    let provider = app::provider(&config.provider);
    let uses = kek_uses(&*provider, &keks).await.map_err(Failure::found)?;
    let rows: Vec<_> = uses.iter().map(|kek| Row::of(kek, |i| keks[i].describe())).collect();
    if args.json {
        let rows: Vec<_> = rows.iter().map(Row::as_json).collect();
        return output::answer(json!({ "keks": rows }), Exit::Done);
    }
    output::print(&told(&rows))?;
    Ok(Exit::Done)
}

struct Row<'a> {
    kek: &'a KekUse,
    /// Its setting.
    setting: Option<String>,
    uri: Option<String>,
}

impl<'a> Row<'a> {
    fn of(kek: &'a KekUse, describe: impl Fn(usize) -> Description) -> Self {
        let setting = kek.position.map(|position| match position.checked_sub(1) {
            None => "kek".to_owned(),
            Some(i) => format!("kek.previous[{i}]"),
        });
        let uri = kek.position.map(|position| uri(&describe(position)));
        Self { kek, setting, uri }
    }

    fn as_json(&self) -> Value {
        json!({ "kek_id": self.kek.id, "setting": self.setting, "uri": self.uri, "seals": self.kek.seals })
    }
}

/// As it is written in a configuration and on a command line.
pub(super) fn uri(description: &Description) -> String {
    format!("{}:{}", description.kind, description.location)
}

fn told(rows: &[Row<'_>]) -> String {
    if rows.is_empty() {
        return "no KEK is configured, and nothing of the ring is sealed\n".to_owned();
    }
    let mut text = String::new();
    for Row { kek, setting, uri } in rows {
        let place = match (setting, uri) {
            (Some(setting), Some(uri)) => format!("{setting} at {uri}"),
            _ => "not configured here".to_owned(),
        };
        let seals = if kek.seals.is_empty() { "nothing".to_owned() } else { kek.seals.join(", ") };
        text.push_str(&format!("{}  {place}\n  seals {seals}\n", kek.id));
    }
    text
}
