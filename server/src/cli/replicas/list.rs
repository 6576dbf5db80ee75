//! `oneseal replicas list`.

use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::Globals;
use crate::cli::replica::{Answer, Call, Purpose, Replica, Target};
use crate::exit::{Exit, Failure};
use crate::output;

/// Whom to ask.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    target: Target,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What a replica answers. Members that a newer one has besides come through in JSON.
#[derive(Debug, Deserialize, Serialize)]
struct Listed {
    fleet: Option<String>,
    #[serde(rename = "self")]
    own: String,
    database: String,
    age_s: Option<u64>,
    replicas: Vec<Row>,
    conflicts: Vec<Conflict>,
    #[serde(flatten)]
    more: serde_json::Map<String, Value>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Row {
    instance: String,
    state: String,
    seen_s_ago: i64,
    facts: Value,
    #[serde(flatten)]
    more: serde_json::Map<String, Value>,
}

#[derive(Debug, Deserialize, Serialize)]
struct Conflict {
    code: String,
    severity: String,
    place: String,
    message: String,
    cure: String,
}

impl Answer for Listed {
    fn is_sound(&self) -> bool {
        true
    }
}

/// Lists them.
///
/// # Errors
/// No replica answers, or it has no registry.
pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let replica = Replica::of(args.target, globals).await?;
    let call = Call { method: Method::GET, path: PATH.to_owned(), body: None, purpose: PURPOSE };
    let listed: Listed = replica.ask(&call).await?;
    let is_in_conflict = listed.conflicts.iter().any(|conflict| conflict.severity == "error");
    let exit = if is_in_conflict { Exit::No } else { Exit::Done };
    if args.json {
        let members =
            serde_json::to_value(&listed).map_err(|error| Failure::internal("no JSON").because(error))?;
        return output::answer(members, exit);
    }
    output::print(&told(&listed))?;
    Ok(exit)
}

fn told(listed: &Listed) -> String {
    let widest =
        listed.replicas.iter().map(|row| row.instance.chars().count()).max().unwrap_or_default().max(8);
    let mut text = format!(
        "{:widest$}  {:<7}  {:>5}  {:>8}  {:<12}  {:<12}  version\n",
        "instance", "state", "seen", "revision", "digest", "minting"
    );
    for row in &listed.replicas {
        let facts = &row.facts;
        let revision =
            facts["ring"]["revision"].as_u64().map_or_else(|| "?".to_owned(), |number| number.to_string());
        let word = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        let digest: String = word(&facts["ring"]["digest"]).chars().take(12).collect();
        // What one said last that is not heard of any more is not what it does.
        let beats = matches!(row.state.as_str(), "joining" | "live");
        let minting = if beats { word(&facts["minting"]) } else { "-".to_owned() };
        let line = format!(
            "{:widest$}  {:<7}  {:>4}s  {revision:>8}  {digest:<12}  {minting:<12}  {}",
            row.instance,
            row.state,
            row.seen_s_ago,
            word(&facts["version"])
        );
        text.push_str(&output::fit_for_terminal(line.trim_end()));
        text.push('\n');
    }
    let Listed { fleet, own, database, age_s, .. } = listed;
    let age = match (database.as_str(), age_s) {
        ("up", _) => String::new(),
        (_, Some(age_s)) => format!("; the database does not answer, so this is {age_s} s old"),
        (_, None) => "; the database does not answer".to_owned(),
    };
    let known = match fleet {
        Some(fleet) => format!("fleet {fleet}, asked {own}{age}"),
        None => "without a [database] a replica knows of itself alone".to_owned(),
    };
    text.push_str(&output::fit_for_terminal(&known));
    text.push('\n');
    for Conflict { code, severity, place, message, cure } in &listed.conflicts {
        for line in
            [format!("{severity} {code} at {place}"), format!("  {message}"), format!("  cure: {cure}")]
        {
            text.push_str(&output::fit_for_terminal(&line));
            text.push('\n');
        }
    }
    text
}

const PATH: &str = "/admin/v1/replicas";
const PURPOSE: Purpose = Purpose {
    answer: "a list of replicas",
    does: "lists replicas",
    if_absent: "it runs an older version of oneseal",
};

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_is_for_people_and_tells_conflicts_with_their_cure() {
        let digest = "ab".repeat(32);
        let listed: Listed = serde_json::from_value(json!({
            "fleet": "f", "self": "a", "database": "down", "age_s": 9, "event_head": 3,
            "replicas": [
                { "instance": "a", "state": "live", "seen_s_ago": 1, "ops_address": null,
                  "facts": { "ring": { "revision": 7, "digest": digest }, "minting": "on", "version": "1" } },
                { "instance": "b\u{1b}", "state": "silent", "seen_s_ago": 100, "facts": null },
            ],
            "conflicts": [ { "code": "c.d", "severity": "error", "place": "p", "message": "m", "cure": "do" } ],
        }))
        .expect("its shape");
        let text = told(&listed);
        assert_eq!(
            text,
            "instance  state     seen  revision  digest        minting       version\n\
             a         live        1s         7  abababababab  on            1\n\
             b\\u{1b}        silent    100s         ?  ?             -             ?\n\
             fleet f, asked a; the database does not answer, so this is 9 s old\n\
             error c.d at p\n  m\n  cure: do\n"
        );
        assert_eq!(serde_json::to_value(&listed).expect("JSON")["event_head"], 3, "nothing is lost");
    }
}
