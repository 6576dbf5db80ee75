//! `oneseal db migrate`: brings the tables to this version.

use std::time::Duration;

use oneseal_coordination::database::Database;
use oneseal_coordination::migrate::{
    Component, Kind, MigrateError, MigrateOptions, Progress, Status, migrate, status,
};
use serde_json::{Value, json};

use super::{Globals, open};
use crate::exit::{Exit, Failure};
use crate::gate::{self, COMPONENTS};
use crate::output;
use crate::refusals::Noun;

/// How far.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Say what would be applied, and apply nothing
    #[arg(long)]
    dry_run: bool,
    /// Also apply what takes something away; no replica may run meanwhile
    #[arg(long)]
    contract: bool,
    /// Do what --contract says: older versions of oneseal cannot be used afterwards
    #[arg(long)]
    yes: bool,
    /// How long to wait for somebody else who migrates or holds a table
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = humantime::parse_duration)]
    wait: Duration,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let database = open(globals, "oneseal-migrate")?;
    let before = status(&database, COMPONENTS)
        .await
        .map_err(|error| Failure::found(gate::of_database_error(&error)))?;
    if args.dry_run {
        return tell_plan(&before, &database, args.contract, args.json);
    }
    refuse_contract_without_yes(&before, &args)?;
    let options = MigrateOptions { contract: args.contract, wait: args.wait, ..MigrateOptions::default() };
    apply(&database, COMPONENTS, &options, args.json).await
}

async fn apply(
    database: &Database,
    components: &[Component],
    options: &MigrateOptions,
    as_json: bool,
) -> Result<Exit, Failure> {
    let (mut applied, mut left) = (Vec::new(), Vec::new());
    let done = migrate(database, components, options, |progress| {
        if !as_json {
            // Lines of progress, for whoever watches; the answer comes on standard output.
            output::complain(&words(&progress));
        }
        match progress {
            Progress::Applied { component, version, .. } => applied.push((component, version)),
            Progress::Left { component, version } => left.push((component, version)),
            _ => {}
        }
    });
    done.await.map_err(failure)?;
    if as_json {
        return output::answer(
            json!({ "database": database.location(), "applied": rows(&applied), "left": rows(&left) }),
            Exit::Done,
        );
    }
    output::print_line(&match applied.len() {
        0 => format!("{}: nothing to apply", database.location()),
        count => format!("{}: {count} applied", database.location()),
    })?;
    Ok(Exit::Done)
}

fn tell_plan(before: &Status, database: &Database, contract: bool, as_json: bool) -> Result<Exit, Failure> {
    let (mut apply, mut left) = (Vec::new(), Vec::new());
    for component in &before.components {
        let mut is_held = false;
        for migration in &component.pending {
            is_held |= migration.kind == Kind::Contract && !contract;
            let list = if is_held { &mut left } else { &mut apply };
            list.push((component.name, migration.version));
        }
    }
    if as_json {
        return output::answer(
            json!({ "database": database.location(), "would_apply": rows(&apply), "left": rows(&left) }),
            Exit::Done,
        );
    }
    for (name, version) in &apply {
        output::print_line(&format!("would apply: {name} version {version}"))?;
    }
    for (name, version) in &left {
        output::print_line(&format!("would leave for --contract: {name} version {version}"))?;
    }
    if apply.is_empty() && left.is_empty() {
        output::print_line(&format!("{}: nothing to apply", database.location()))?;
    }
    Ok(Exit::Done)
}

fn refuse_contract_without_yes(before: &Status, args: &Args) -> Result<(), Failure> {
    let takes_away = before.components.iter().flat_map(|component| &component.pending);
    let is_asked = args.contract && takes_away.clone().any(|migration| migration.kind == Kind::Contract);
    if !is_asked || args.yes {
        return Ok(());
    }
    let needed = takes_away.map(|migration| migration.min_binary).max().unwrap_or_default();
    let message = format!("this takes away what oneseal before {needed} needs, and cannot be undone");
    Err(Failure::wants_yes(Noun::Db, message).with_hint("Nothing was done. --yes does it."))
}

fn failure(error: MigrateError) -> Failure {
    match error {
        MigrateError::Database(error) => Failure::found(gate::of_database_error(&error)),
        MigrateError::Schema(fault) => Failure::found(gate::of_schema_fault(&fault)),
        MigrateError::Busy { .. } | MigrateError::FleetIsRunning { .. } => {
            Failure::new(Exit::TryLater, error.to_string())
                .with_hint("What was applied before stays; run it again.")
        }
        _ => Failure::internal(error.to_string()),
    }
}

fn words(progress: &Progress) -> String {
    match progress {
        Progress::Waiting { holder } => format!("waiting: in the way is {holder}"),
        Progress::Applying { component, version, kind } => {
            format!("applying: {component} version {version} ({})", kind.as_str())
        }
        Progress::Applied { component, version, took } => {
            format!("applied: {component} version {version}, in {} ms", took.as_millis())
        }
        Progress::Left { component, version } => {
            format!("left for --contract: {component} version {version} takes something away")
        }
        other => format!("{other:?}"),
    }
}

fn rows(list: &[(&str, i32)]) -> Vec<Value> {
    list.iter().map(|(name, version)| json!({ "component": name, "version": version })).collect()
}
