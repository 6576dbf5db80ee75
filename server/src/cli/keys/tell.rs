//! What a key verb came to, for people and for scripts.

use oneseal::UnixTime;
use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::{output, times};

/// Prints the answer.
pub(super) fn answer(answer: Value, json: bool) -> Result<Exit, Failure> {
    if json {
        return output::answer(answer, Exit::Done);
    }
    output::print(&told(&answer))?;
    Ok(Exit::Done)
}

/// What was done, or would be, a line each.
pub(super) fn changes(answer: &Value) -> String {
    let would = if answer["dry_run"] == true { "would be: " } else { "" };
    let line = |change: &Value| format!("  {would}{}  {}", text(&change["kind"]), text(&change["kid"]));
    let lines: Vec<_> = list(&answer["changes"]).iter().map(line).collect();
    lines.join("\n")
}

fn told(answer: &Value) -> String {
    let again = if answer["repeated"] == true { ", done before" } else { "" };
    let dry = if answer["dry_run"] == true { ", nothing was done" } else { "" };
    let mut out = format!(
        "{}{again}{dry}: the ring is at revision {} (change {})\n{}\n",
        text(&answer["verb"]),
        answer["revision"],
        text(&answer["change_id"]),
        changes(answer)
    );
    for note in list(&answer["notes"]) {
        out.push_str(&format!("  {}\n", text(note)));
    }
    for next in list(&answer["next"]) {
        out.push_str(&format!("  {}\n", of_next(next)));
    }
    out
}

fn of_next(next: &Value) -> String {
    let (what, kid) = (text(&next["what"]), text(&next["kid"]));
    let time = |value: &Value| value.as_i64().map(|at| times::rfc3339(UnixTime(at)));
    let when = match (time(&next["not_before"]), time(&next["until"])) {
        (_, Some(until)) => format!("until {until}"),
        (Some(from), None) => format!("from {from}"),
        (None, None) => format!("not yet: {}", text(&next["blocked"])),
    };
    let because = &next["because"];
    let why = match because["setting"].as_str() {
        Some(setting) => format!(" ({setting}, {} s)", because["seconds"]),
        None => String::new(),
    };
    format!("next: {what} {kid} {when}{why}")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A replica's words, without what a terminal would take for an order.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or("-").chars().filter(|letter| !letter.is_control()).collect()
}
