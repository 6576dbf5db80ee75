//! Expectations of rules, as they stand in files.

use std::time::Duration;

use oneseal::{Algorithm, Audience, MintError, MintRequest, Rehearsed};
use oneseal_keystore::json;
use serde_json::{Map, Value};

use super::workload::Workload;
use crate::config::nearest;

/// One of them.
#[derive(Debug)]
pub(super) struct Expectation {
    /// What it is called, if it is.
    pub(super) name: Option<String>,
    pub(super) workload: Workload,
    pub(super) request: MintRequest,
    wanted: Wanted,
}

#[derive(Debug)]
enum Wanted {
    Denied,
    Token {
        rule: Option<String>,
        sub: Option<String>,
        ttl_s: Option<u64>,
        algorithm: Option<Algorithm>,
        claims: Map<String, Value>,
    },
}

/// Reads the text of a file.
///
/// # Errors
/// What is wrong with it, and in which expectation.
pub(super) fn read(text: &str) -> Result<Vec<Expectation>, String> {
    let members = document(text)?;
    if let Some(unknown) = members.keys().find(|name| *name != LIST) {
        return Err(format!("there is no `{}`; the file is a list `{LIST}`", unknown.escape_debug()));
    }
    let Some(Value::Array(list)) = members.get(LIST) else {
        return Err(format!("it expects nothing: write [[{LIST}]]"));
    };
    if list.is_empty() {
        return Err(format!("it expects nothing: `{LIST}` is empty"));
    }
    let read =
        |(at, one): (usize, &Value)| expectation(one).map_err(|words| format!("{LIST} {}: {words}", at + 1));
    list.iter().enumerate().map(read).collect()
}

impl Expectation {
    /// In what the outcome differs from what is wanted; nothing if it does not.
    pub(super) fn differences(&self, outcome: &Result<Rehearsed, MintError>) -> Vec<String> {
        match (&self.wanted, outcome) {
            (Wanted::Denied, Err(MintError::NotAllowed { .. } | MintError::OwnAudience(_))) => Vec::new(),
            // A rule lets it in and cannot: who waits for that token finds an outage, and no denial.
            (Wanted::Denied, Err(error)) => vec![format!("it is not denied, but has no token: {error}")],
            (Wanted::Denied, Ok(token)) => {
                vec![format!(
                    "it is not denied: the rule {} gives it the sub {}",
                    token.rule,
                    quoted(token.subject.as_str())
                )]
            }
            (Wanted::Token { .. }, Err(error)) => vec![format!("it is denied: {error}")],
            (Wanted::Token { rule, sub, ttl_s, algorithm, claims }, Ok(token)) => {
                let mut all = Vec::new();
                let mut compare = |what: &str, is: Value, wanted: Option<Value>| {
                    if let Some(wanted) = wanted.filter(|wanted| *wanted != is) {
                        all.push(format!("{what} is {is}, not {wanted}"));
                    }
                };
                compare("rule", (*token.rule).into(), rule.clone().map(Value::from));
                compare("sub", token.subject.as_str().into(), sub.clone().map(Value::from));
                compare("ttl", token.ttl.as_secs().into(), ttl_s.map(Value::from));
                compare(
                    "algorithm",
                    token.algorithm.as_str().into(),
                    algorithm.map(|one| one.as_str().into()),
                );
                let said: Value = serde_json::from_str(&token.claims).unwrap_or_default();
                for (name, wanted) in claims {
                    let is = said.get(name).cloned().unwrap_or(Value::Null);
                    compare(&format!("the claim {}", quoted(name)), is, Some(wanted.clone()));
                }
                all
            }
        }
    }
}

/// JSON if it begins like an object, which TOML cannot.
fn document(text: &str) -> Result<Map<String, Value>, String> {
    if text.trim_start().starts_with('{') {
        return json::parse_object(text.as_bytes()).map_err(|error| error.to_string());
    }
    toml::from_str(text).map_err(|error| {
        let line =
            error.span().map_or(1, |span| 1 + text[..span.start.min(text.len())].matches('\n').count());
        format!("line {line}: {}", error.message())
    })
}

fn expectation(one: &Value) -> Result<Expectation, String> {
    let Value::Object(members) = one else { return Err("it must be a table".to_owned()) };
    if let Some(unknown) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        let near =
            nearest(unknown, MEMBERS).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        return Err(format!("there is no `{}`{near}", unknown.escape_debug()));
    }
    let Some(Value::Object(workload)) = members.get("workload") else {
        return Err("it needs a table `workload`".to_owned());
    };
    let workload = Workload::from_json(workload).map_err(|words| format!("workload: {words}"))?;
    let audience = text(members, "audience")?.ok_or("it needs an `audience`")?;
    let audience = Audience::parse(audience).map_err(|error| error.to_string())?;
    let (name, request, wanted) = (text(members, "name")?, MintRequest::new(audience), wanted(members)?);
    Ok(Expectation { name, workload, request, wanted })
}

fn wanted(members: &Map<String, Value>) -> Result<Wanted, String> {
    let of_token = OF_TOKEN.into_iter().find(|name| members.contains_key(*name));
    match (members.get("denied"), of_token) {
        (Some(Value::Bool(true)), None) => return Ok(Wanted::Denied),
        (Some(Value::Bool(true)), Some(name)) => {
            return Err(format!("`denied` and `{name}` exclude each other"));
        }
        (Some(_), _) => return Err("`denied` is true or left out".to_owned()),
        (None, None) => {
            return Err(format!("it wants nothing: say `denied = true`, or one of {}", OF_TOKEN.join(", ")));
        }
        (None, Some(_)) => {}
    }
    let algorithm = match text(members, "algorithm")? {
        None => None,
        Some(name) => Some(name.parse().map_err(|_| "`algorithm` is none of ours".to_owned())?),
    };
    let claims = match members.get("claims") {
        None => Map::new(),
        Some(Value::Object(claims)) => claims.clone(),
        Some(_) => return Err("`claims` must be a table".to_owned()),
    };
    let (rule, sub) = (text(members, "rule")?, text(members, "sub")?);
    Ok(Wanted::Token { rule, sub, ttl_s: seconds(members)?, algorithm, claims })
}

fn seconds(members: &Map<String, Value>) -> Result<Option<u64>, String> {
    let wrong = || "`ttl` must be a duration, such as \"15m\", or whole seconds".to_owned();
    match members.get("ttl") {
        None => Ok(None),
        Some(Value::String(text)) => {
            humantime::parse_duration(text).map(|span: Duration| Some(span.as_secs())).map_err(|_| wrong())
        }
        Some(number) => number.as_u64().map(Some).ok_or_else(wrong),
    }
}

fn text(members: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match members.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{name}` must be a string")),
    }
}

fn quoted(text: &str) -> Value {
    Value::from(text)
}

const LIST: &str = "expect";
const OF_TOKEN: [&str; 5] = ["rule", "sub", "ttl", "algorithm", "claims"];
const MEMBERS: [&str; 9] =
    ["name", "workload", "audience", "denied", "rule", "sub", "ttl", "algorithm", "claims"];

#[cfg(test)]
mod tests {
    use oneseal::NoRule;

    use super::*;

    #[test]
    fn toml_and_json_say_the_same() {
        let toml =
            "[[expect]]\nname = \"x\"\nworkload = { cluster = \"prod\" }\naudience = \"a\"\nttl = \"15m\"\n";
        let json =
            r#"{"expect": [{"name": "x", "workload": {"cluster": "prod"}, "audience": "a", "ttl": 900}]}"#;
        let [one, other] = [toml, json].map(|text| format!("{:?}", read(text).expect(text)));
        assert_eq!(one, other);
    }

    #[test]
    fn a_rule_that_lets_in_and_cannot_write_denies_nothing() {
        let text = "[[expect]]\nworkload = { cluster = \"prod\" }\naudience = \"a\"\ndenied = true\n";
        let expected = &read(text).expect("good")[0];
        let audience = Audience::parse("a").expect("good");
        for denial in [
            MintError::NotAllowed { audience: audience.clone(), why: NoRule::Audience, against: Vec::new() },
            MintError::OwnAudience(audience),
        ] {
            assert!(expected.differences(&Err(denial)).is_empty());
        }
        let outage = expected.differences(&Err(MintError::NoSubject));
        assert!(outage[0].starts_with("it is not denied, but has no token: "), "{outage:?}");
    }

    #[test]
    fn a_file_that_expects_nothing_or_something_unknown_is_refused() {
        let one = |rest: &str| {
            format!("[[expect]]\nworkload = {{ cluster = \"prod\" }}\naudience = \"a\"\n{rest}\n")
        };
        for (text, words) in [
            (String::new(), "it expects nothing"),
            ("{}".to_owned(), "it expects nothing"),
            ("expect = []".to_owned(), "it expects nothing"),
            ("expct = []".to_owned(), "there is no `expct`"),
            ("expect = [1]".to_owned(), "expect 1: it must be a table"),
            ("[[expect]]\nx =".to_owned(), "line 2: "),
            (r#"{"expect": [], "expect": []}"#.to_owned(), "twice"),
            (one(""), "expect 1: it wants nothing"),
            (one("denied = false"), "`denied` is true or left out"),
            (one("denied = true\nsub = \"x\""), "`denied` and `sub` exclude each other"),
            (one("subb = \"x\""), "did you mean `sub`?"),
            (one("sub = 1"), "`sub` must be a string"),
            (one("ttl = \"soon\""), "`ttl` must be a duration"),
            (one("ttl = -1"), "`ttl` must be a duration"),
            (one("algorithm = \"HS256\""), "`algorithm` is none"),
            (one("claims = 1"), "`claims` must be a table"),
            ("[[expect]]\nworkload = {}\naudience = \"a\"\ndenied = true".to_owned(), "workload: it needs"),
            ("[[expect]]\nworkload = { cluster = \"a\" }\ndenied = true".to_owned(), "an `audience`"),
        ] {
            let said = read(&text).map(|all| format!("{all:?}")).expect_err(words);
            assert!(said.contains(words), "{text}: {said}");
        }
    }
}
