//! `oneseal events prune`: the beginning of the log, cut off.

use std::time::Duration;

use oneseal::{Clock, SystemClock};
use oneseal_coordination::events::{Before, PruneError, PrunePlan, plan_prune, prune};
use oneseal_keystore::findings::chain;
use serde_json::json;

use super::super::Globals;
use crate::exit::{Exit, Failure};
use crate::refusals::{EVENTS_MOVED, EVENTS_NOT_OWNER, Noun};
use crate::{output, times};

/// How far.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// What stays: the event of this number and later ones, or those since a time such as 2026-01-01T00:00:00Z, or those of
    /// a span until now such as 90d
    #[arg(long, value_name = "SEQ|TIME|SPAN", value_parser = before)]
    before: Before,
    /// The issuer of a ring that is no more, so that its last checkpoint holds nothing back; may be repeated
    #[arg(long, value_name = "ISSUER")]
    without: Vec<String>,
    /// Do it
    #[arg(long)]
    yes: bool,
    /// Print one JSON object: count, floor, cut, cut_at, held_by, done
    #[arg(long)]
    json: bool,
}

/// Says what goes, and with --yes cuts it off.
///
/// # Errors
/// There was no --yes (64), the user may not (77), the log is broken (1), somebody else cuts it too (75), or the database does not answer.
pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { before, without, yes, json } = args;
    let database = super::open(globals)?;
    let plan = plan_prune(&database, &before, &without).await.map_err(failed)?;
    let is_done = yes && plan.count() > 0;
    if is_done {
        let actor = format!("cli uid:{}", rustix::process::getuid().as_raw());
        prune(&database, &actor, &plan, |_| {}).await.map_err(failed)?;
    }
    if !yes && plan.count() > 0 {
        let would = told(&plan, false);
        return Err(Failure::wants_yes(Noun::Events, would).with_hint("Nothing was done. --yes does it."));
    }
    if json {
        return output::answer(as_json(&plan, is_done), Exit::Done);
    }
    output::print_line(&told(&plan, is_done))?;
    Ok(Exit::Done)
}

fn told(plan: &PrunePlan, is_done: bool) -> String {
    let held = plan.held_by.as_ref().map_or_else(String::new, |(issuer, seq)| {
        format!(
            "; event {seq} and later ones are kept, from which the ring of {issuer} follows (--without {issuer} if it is no more)"
        )
    });
    if plan.count() == 0 {
        return format!("nothing to cut off: the log begins after {}{held}", plan.floor.cursor());
    }
    let words = if is_done { "cut off" } else { "would be cut off" };
    let at = plan.cut_at.as_deref().unwrap_or_default();
    format!(
        "{} {words}, up to {} of {at}{held}",
        super::events(plan.count().unsigned_abs()),
        plan.cut.cursor()
    )
}

fn as_json(plan: &PrunePlan, is_done: bool) -> serde_json::Value {
    let held = plan.held_by.as_ref().map(|(issuer, seq)| json!({ "issuer": issuer, "seq": seq }));
    json!({
        "count": plan.count(),
        "floor": plan.floor.cursor().to_string(),
        "cut": plan.cut.cursor().to_string(),
        "cut_at": plan.cut_at,
        "held_by": held,
        "done": is_done,
    })
}

fn failed(error: PruneError) -> Failure {
    match &error {
        PruneError::Broken(_) => Failure::new(Exit::No, chain(&error)),
        PruneError::NotOwner { .. } => {
            Failure::new(Exit::Denied, error.to_string()).with_code(EVENTS_NOT_OWNER)
        }
        PruneError::Moved => Failure::new(Exit::TryLater, error.to_string()).with_code(EVENTS_MOVED),
        PruneError::Database(error) => super::failed(error),
        PruneError::Log(_) => Failure::refused(chain(&error)),
        _ => Failure::new(Exit::Unavailable, chain(&error)),
    }
}

/// A number is one of an event: a moment in Unix seconds would look the same.
fn before(text: &str) -> Result<Before, String> {
    if let Ok(seq) = text.parse() {
        return Ok(Before::Seq(seq));
    }
    let at = match humantime::parse_duration(text) {
        Ok(span) => ago(span),
        Err(_) => times::parse(text).map_err(|_| WANTED.to_owned())?,
    };
    let moment = times::rfc3339(at);
    let moment = moment.strip_suffix('Z').ok_or(WANTED)?;
    Ok(Before::Moment(format!("{moment}.000000Z")))
}

fn ago(span: Duration) -> oneseal::UnixTime {
    SystemClock.wall() - span
}

const WANTED: &str = "write the number of an event, a time as 2026-01-01T00:00:00Z, or a span such as 90d";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_is_named_by_number_time_or_span() {
        assert_eq!(before("41"), Ok(Before::Seq(41)));
        let moment = |text: &str| Ok(Before::Moment(text.to_owned()));
        assert_eq!(before("2026-01-01T00:00:00Z"), moment("2026-01-01T00:00:00.000000Z"));
        assert!(matches!(before("90d"), Ok(Before::Moment(_))));
        for bad in ["", "soon", "2026-01-01", "-1d", "90000y", "99999999999999999999"] {
            assert!(before(bad).is_err(), "{bad}");
        }
    }
}
