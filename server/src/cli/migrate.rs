//! `oneseal migrate`: the ring of one provider, byte for byte in another.
//!
//! It writes by create-if-absent or by compare-and-swap, reads back, and compares: the key set that a replica would
//! serve is the same before and after, or the command has failed. Nothing is taken away from where the ring was. Run
//! again, it finds the ring there already.
//!
//! A replica that serves from the old place while another rotates in the new one would split the fleet, so it wants
//! the fleet stopped. Where a database is on either side its registry tells; a file has none, and then the operator
//! says so.
//!
//! `postgres:` alone is the configured database, so that no password stands on a command line.

use std::sync::Arc;

use oneseal_coordination::EventDraft;
use oneseal_providers::{Change, Durability, ErrorKind, Revision, SecretProvider};
use serde_json::{Value, json};
use uuid::Uuid;

use super::Globals;
use crate::config::PartialConfig;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::refusals::{MIGRATE_CONFLICT, MIGRATE_PLACE, Noun};
use held::Held;
use plan::Step;
use side::Side;

mod alive;
mod held;
mod plan;
mod side;

/// From where to where.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the ring is: file:PATH, k8s:NS/NAME, aws:NAME-OR-ARN or postgres://URL; postgres: is the configured database
    // Texts here: clap would repeat a key that is pasted by mistake, and a database's password.
    #[arg(long, value_name = "URI", allow_hyphen_values = true)]
    from: String,
    /// Where it shall be
    #[arg(long, value_name = "URI", allow_hyphen_values = true)]
    to: String,
    /// Say that no replica of this fleet runs, where no registry can tell
    #[arg(long)]
    fleet_is_stopped: bool,
    /// Say that the new place outlives this host or container although it does not look like it
    #[arg(long)]
    durable: bool,
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Do it
    #[arg(long)]
    yes: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Does it.
///
/// # Errors
/// A side cannot be read or written, holds no ring, or replicas run.
///
/// # Cancel safety
/// Dropped, the ring is in the new place, whole, or not at all; run again, it tells.
pub(crate) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let (from, to) = (Side::parse("--from", &args.from)?, Side::parse("--to", &args.to)?);
    if from == to {
        return Err(Failure::usage("--from and --to name the same place"));
    }
    let config = globals.partial_config()?;
    let source = from.open("--from", configured_fleet(&config).as_deref(), &config)?;
    let held = held::read(&source).await?;
    let fleet = fleet_of(&held, &config);
    let target = to.open("--to", Some(&fleet), &config)?;
    let there = there(&target).await?;
    let step = plan::decide(&held, there.as_ref());
    if matches!(step, Step::Create | Step::Raise { .. }) {
        check_place(&to, &target, &held, args.durable)?;
        alive::refuse_running_fleet([&from, &to], &fleet, &config, args.fleet_is_stopped).await?;
    }
    let is_asked = args.yes && !args.dry_run;
    let report = Report { held: &held, source: &source, target: &target, step: &step, is_done: is_asked };
    let writes = matches!(step, Step::Create | Step::Raise { .. });
    if writes && !args.yes && !args.dry_run {
        return Err(
            Failure::wants_yes(Noun::Migrate, report.told()).with_hint("Nothing was done. --yes does it.")
        );
    }
    if writes && is_asked {
        write(&held, there.as_ref().map(|there| &there.revision), &source, &target).await?;
        confirm(&held, &target).await?;
    }
    let exit = if matches!(step, Step::Conflict(_)) { Exit::TryLater } else { Exit::Done };
    if args.json {
        return output::answer(report.json(), exit);
    }
    output::print(&report.told())?;
    Ok(exit)
}

/// The fleet of the configuration, where that has one.
fn configured_fleet(config: &PartialConfig) -> Option<String> {
    let of_issuer = || config.issuer.as_ref().map(crate::config::fleet_of);
    config.settings.fleet.clone().or_else(of_issuer)
}

/// The fleet of a ring that has been read: as the configuration of its issuer calls it, or as its issuer makes it.
fn fleet_of(held: &Held, config: &PartialConfig) -> String {
    let is_of_this = config.issuer.as_ref().is_none_or(|issuer| issuer == &held.issuer);
    config.settings.fleet.clone().filter(|_| is_of_this).unwrap_or_else(|| held.fleet())
}

/// What is there, or nothing.
async fn there(target: &Arc<dyn SecretProvider>) -> Result<Option<Held>, Failure> {
    match target.load().await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(held::refused(&error).with_hint(NOTHING_DONE)),
        Ok(_) => held::read(target).await.map(Some),
    }
}

/// Refuses a place that would lose the ring or not take it, before anything is sent there.
fn check_place(
    to: &Side,
    target: &Arc<dyn SecretProvider>,
    held: &Held,
    is_durable: bool,
) -> Result<(), Failure> {
    let description = target.describe();
    let place = format!("{}:{}", description.kind, description.location);
    if !description.writable {
        return Err(
            Failure::refused(format!("{place} cannot be written; nothing was done")).with_code(MIGRATE_PLACE)
        );
    }
    if let (false, Durability::Ephemeral(why) | Durability::ImageLayer(why)) =
        (is_durable, &description.durability)
    {
        let message = format!("{place} would not keep the ring: {why}; nothing was done");
        return Err(Failure::refused(message)
            .with_code(MIGRATE_PLACE)
            .with_hint("If it does all the same, say --durable."));
    }
    let (size, most) = (held.entries.total_bytes(), description.max_bytes);
    if size > most {
        let message = format!(
            "the ring has {size} bytes, and {place} takes {most}; nothing was done, and nothing was sent"
        );
        return Err(Failure::refused(message).with_code(MIGRATE_PLACE).with_hint(
            "Keys that have left, and their tombstones, stay in the ring: a place of another kind takes more.",
        ));
    }
    if to.is_database() {
        let fits = oneseal_providers::postgres::check(&place, &held.entries);
        fits.map_err(|error| held::refused(&error).with_hint(NOTHING_DONE))?;
    }
    Ok(())
}

/// Writes the ring where it shall be; where the answer is lost, looks.
async fn write(
    held: &Held,
    expected: Option<&Revision>,
    source: &Arc<dyn SecretProvider>,
    target: &Arc<dyn SecretProvider>,
) -> Result<(), Failure> {
    let change = change(held, source);
    let written = match expected {
        None => target.create(held.copy(), change).await,
        Some(expected) => target.replace(expected, held.copy(), change).await,
    };
    match written {
        Ok(_) => Ok(()),
        // What is there now tells whether it was written.
        Err(error) if error.kind() == ErrorKind::OutcomeUnknown => Ok(()),
        Err(error) => Err(held::refused(&error).with_hint(NOTHING_DONE)),
    }
}

/// The change's id is the document's own, if it tells: who asks for that change finds it in the new place as well.
fn change(held: &Held, source: &Arc<dyn SecretProvider>) -> Change {
    let from = source.describe();
    let payload = json!({
        "issuer": held.head.issuer,
        "incarnation": held.head.incarnation.number,
        "revision": held.head.revision,
        "document_sha256": held.document.to_string(),
        "from": format!("{}:{}", from.kind, from.location),
    });
    Change {
        id: held.change_id.unwrap_or_else(Uuid::new_v4),
        actor: "oneseal migrate".to_owned(),
        reason: "the ring moves to another provider".to_owned(),
        event: EventDraft::new("ring.migrated", payload.to_string()),
        fence: None,
    }
}

/// Reads back: the same bytes, and the same key set.
async fn confirm(held: &Held, target: &Arc<dyn SecretProvider>) -> Result<(), Failure> {
    let there = held::read(target).await?;
    if there.document == held.document && there.jwks == held.jwks {
        return Ok(());
    }
    let location = target.describe().location;
    let message = format!(
        "{location} does not hold what was written there: somebody else writes there; run this again"
    );
    Err(Failure::new(Exit::TryLater, message).with_code(MIGRATE_CONFLICT))
}

const NOTHING_DONE: &str = "Nothing was done.";

/// What is told of it.
struct Report<'a> {
    held: &'a Held,
    source: &'a Arc<dyn SecretProvider>,
    target: &'a Arc<dyn SecretProvider>,
    step: &'a Step,
    is_done: bool,
}

impl Report<'_> {
    fn told(&self) -> String {
        let (Held { head, keys, jwks, .. }, from, to) = (self.held, place(self.source), place(self.target));
        let ring = format!(
            "the ring of {}, incarnation {}, revision {}, {keys} published",
            head.issuer, head.incarnation.number, head.revision
        );
        let will = |what: &str| if self.is_done { what.to_owned() } else { format!("would be {what}") };
        let what = match self.step {
            Step::Create => will("copied"),
            Step::Raise { from } => format!("{}, over revision {from}", will("copied")),
            Step::Skip => "already there".to_owned(),
            Step::Conflict(why) => format!("conflict, nothing was done: {why}"),
        };
        let [copied, skipped, conflict] = self.counts();
        let mut text = format!("{ring}\n  from  {from}\n  to    {to}\n{what}\n");
        let copied = format!("{} {copied}", if self.is_done { "copied" } else { "would copy" });
        text.push_str(&format!("{copied}, skipped {skipped}, conflict {conflict}\n"));
        if !matches!(self.step, Step::Conflict(_)) {
            let when = if self.is_done || self.step == &Step::Skip { "before and after" } else { "before" };
            text.push_str(&format!("JWKS sha256 {when} {jwks}\n"));
        }
        if self.is_done && !matches!(self.step, Step::Conflict(_)) {
            text.push_str("Now name the new place as the provider. The old one was left as it is.\n");
        }
        text
    }

    /// ```json
    /// {"copied": 1, "skipped": 0, "conflict": 0, "dry_run", "from", "to", "issuer", "incarnation", "revision",
    ///  "jwks_sha256", "document_sha256", "replaced_revision": null, "reason": null}
    /// ```
    fn json(&self) -> Value {
        let Held { head, jwks, document, .. } = self.held;
        let [copied, skipped, conflict] = self.counts();
        let (replaced, reason) = match self.step {
            Step::Raise { from } => (Some(*from), None),
            Step::Conflict(why) => (None, Some(why)),
            Step::Create | Step::Skip => (None, None),
        };
        json!({
            "copied": copied,
            "skipped": skipped,
            "conflict": conflict,
            "dry_run": !self.is_done,
            "from": place(self.source),
            "to": place(self.target),
            "issuer": head.issuer,
            "incarnation": head.incarnation.number,
            "revision": head.revision,
            "jwks_sha256": jwks.to_string(),
            "document_sha256": document.to_string(),
            "replaced_revision": replaced,
            "reason": reason,
        })
    }

    /// Copied, skipped, in conflict.
    fn counts(&self) -> [u32; 3] {
        match self.step {
            Step::Create | Step::Raise { .. } => [1, 0, 0],
            Step::Skip => [0, 1, 0],
            Step::Conflict(_) => [0, 0, 1],
        }
    }
}

fn place(provider: &Arc<dyn SecretProvider>) -> String {
    let description = provider.describe();
    format!("{}:{}", description.kind, description.location)
}
