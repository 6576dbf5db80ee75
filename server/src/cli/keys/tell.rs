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
    let kid = |change: &Value| match &change["kid"] {
        Value::Null if change["kind"] == "key.published" => "  a new key".to_owned(),
        // Of the ring as a whole.
        Value::Null => String::new(),
        kid => format!("  {}", text(kid)),
    };
    let line = |change: &Value| format!("  {would}{}{}", text(&change["kind"]), kid(change));
    let lines: Vec<_> = list(&answer["changes"]).iter().map(line).collect();
    lines.join("\n")
}

fn told(answer: &Value) -> String {
    let again = if answer["repeated"] == true { ", done before" } else { "" };
    let dry = if answer["dry_run"] == true { ", nothing was done" } else { "" };
    // What was not written has no id by which it could be found.
    let change = answer["change_id"].as_str().map(|_| format!(" (change {})", text(&answer["change_id"])));
    let ring = match answer["incarnation"].as_u64() {
        Some(0) => "the keys are bare".to_owned(),
        _ => format!("the ring is at revision {}", answer["revision"]),
    };
    let mut out = format!("{}{again}{dry}: {ring}{}\n", text(&answer["verb"]), change.unwrap_or_default());
    if !list(&answer["changes"]).is_empty() {
        out.push_str(&format!("{}\n", changes(answer)));
    }
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
    let blocked = &next["blocked"];
    let when = match (time(&next["not_before"]), time(&next["until"])) {
        (_, Some(until)) => format!("until {until}"),
        (Some(from), None) if blocked.is_string() => format!("from about {from}"),
        (Some(from), None) => format!("from {from}"),
        (None, None) => return format!("next: {what} {kid} not yet: {}", text(blocked)),
    };
    let because = &next["because"];
    let why = match because["setting"].as_str() {
        Some(setting) => format!(" ({setting}, {} s)", because["seconds"]),
        None => String::new(),
    };
    let first = blocked.as_str().map(|_| format!(", {}", text(blocked))).unwrap_or_default();
    format!("next: {what} {kid} {when}{why}{first}")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A replica's words, without what a terminal would take for an order.
fn text(value: &Value) -> String {
    value.as_str().unwrap_or("-").chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_comes_next_is_told_with_its_time_what_costs_most_and_what_has_to_come_about() {
        let next = json!({
            "what": "activate", "kid": "k", "not_before": 1_767_225_600, "until": null,
            "because": { "setting": "rotation.rp_propagation", "seconds": 90_720 },
            "blocked": "once every live replica has told that it serves it",
        });
        assert_eq!(
            of_next(&next),
            "next: activate k from about 2026-01-01T00:00:00Z (rotation.rp_propagation, 90720 s), once every live \
             replica has told that it serves it"
        );
        let stuck = json!({ "what": "activate", "kid": "k", "not_before": null, "until": null, "because": null,
            "blocked": "x is silent" });
        assert_eq!(of_next(&stuck), "next: activate k not yet: x is silent");
    }

    #[test]
    fn a_change_of_the_whole_ring_has_no_key() {
        let answer = json!({ "dry_run": false, "changes": [{ "kind": "ring.recovered", "kid": null }] });
        assert_eq!(changes(&answer), "  ring.recovered");
    }

    #[test]
    fn a_dry_run_names_no_change_that_nobody_could_find() {
        let answer = json!({
            "verb": "rotate", "revision": 1, "change_id": null, "repeated": false, "dry_run": true, "notes": [],
            "next": [], "changes": [{ "kind": "key.published", "kid": null }],
        });
        let said = told(&answer);
        assert_eq!(
            said,
            "rotate, nothing was done: the ring is at revision 1\n  would be: key.published  a new key\n"
        );
    }
}
