//! Values that are made of others: names, conditions, claims. They stand in the file alone.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value as Json};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::admin_tokens;
use super::hint;
use super::table::{Key, Kind};
use super::value::{Fault, Value, bad, not_a, refuse_key, wrong_type};
use crate::admin_token;

/// What something must be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Match {
    /// Exactly this: a string, a number or a boolean.
    Exactly(Json),
    /// A string that begins like this, and is not empty.
    Prefix(String),
}

impl Match {
    /// As it stands in the file.
    pub(crate) fn json(&self) -> Json {
        match self {
            Self::Exactly(value) => value.clone(),
            Self::Prefix(prefix) => {
                Json::Object(Map::from_iter([(PREFIX.to_owned(), prefix.as_str().into())]))
            }
        }
    }
}

/// Reads names, conditions or claims.
///
/// # Errors
/// [`Fault`] with the first thing that is wrong and where it stands.
pub(super) fn from_toml(key: &Key, value: &DeValue<'_>) -> Result<Value, Fault> {
    match (key.kind, value) {
        (Kind::Names, DeValue::String(text)) => Ok(Value::Names(vec![name(key, text)?])),
        (Kind::Names, DeValue::Array(items)) => names(key, items),
        (Kind::Matches, _) => matches(key, value, Takes::Texts).map(Value::Matches),
        (Kind::Conditions, DeValue::Table(table)) => conditions(key, table),
        (Kind::Claims, DeValue::Table(table)) => members(key, table, Takes::Anything).map(Value::Table),
        (Kind::Texts, DeValue::Table(table)) => members(key, table, Takes::Texts).map(Value::Table),
        _ => Err(wrong_type(key, value)),
    }
}

/// A name that logs, metrics and templates can have as it is.
pub(super) fn name(key: &Key, text: &str) -> Result<String, Fault> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    refuse_secret(key, text)?;
    if (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_letter) {
        return Ok(text.to_owned());
    }
    Err(not_a(key, text))
}

/// What single values may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Texts,
    Scalars,
    Anything,
}

fn names(key: &Key, items: &DeArray<'_>) -> Result<Value, Fault> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for item in items {
        let read = match item.get_ref() {
            DeValue::String(text) => name(key, text),
            other => Err(wrong_type(key, other)),
        };
        let name = read.map_err(|fault| at(fault, item))?;
        if !seen.insert(name.clone()) {
            return Err(at(bad(format!("\"{name}\" stands there twice")), item));
        }
        all.push(name);
    }
    not_empty(&all)?;
    Ok(Value::Names(all))
}

fn conditions(key: &Key, table: &DeTable<'_>) -> Result<Value, Fault> {
    let mut all = Vec::new();
    for (name, value) in table {
        refuse_secret(key, name.get_ref())?;
        let of = matches(key, value.get_ref(), Takes::Scalars).map_err(|fault| {
            let message = format!("{}: {}", hint::shown_name(name.get_ref()), fault.message);
            at(Fault { message, ..fault }, value)
        })?;
        all.push((name.get_ref().to_string(), of));
    }
    // What the parser's map makes of the order depends on its features.
    all.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(Value::Conditions(all))
}

fn matches(key: &Key, value: &DeValue<'_>, takes: Takes) -> Result<Vec<Match>, Fault> {
    let DeValue::Array(items) = value else { return Ok(vec![one_match(key, value, takes)?]) };
    let all: Result<Vec<_>, _> = items
        .iter()
        .map(|item| one_match(key, item.get_ref(), takes).map_err(|fault| at(fault, item)))
        .collect();
    let all = all?;
    not_empty(&all)?;
    Ok(all)
}

fn one_match(key: &Key, value: &DeValue<'_>, takes: Takes) -> Result<Match, Fault> {
    let DeValue::Table(table) = value else { return json(key, value, takes, 0).map(Match::Exactly) };
    let prefix = match table.get(PREFIX).map(Spanned::get_ref) {
        Some(DeValue::String(prefix)) if table.len() == 1 => prefix,
        Some(other) if table.len() == 1 => {
            return Err(bad(format!("`{PREFIX}` is of type {}, but must be a string", other.type_str())));
        }
        _ => return Err(bad(format!("a table here has `{PREFIX}` and nothing else"))),
    };
    refuse_secret(key, prefix)?;
    if prefix.is_empty() {
        return Err(bad(
            "everything begins with an empty prefix; leave the key out if that is meant".to_owned()
        ));
    }
    Ok(Match::Prefix(prefix.to_string()))
}

fn not_empty<T>(all: &[T]) -> Result<(), Fault> {
    if all.is_empty() {
        Err(bad("it is an empty list, which nothing could match".to_owned()))
    } else {
        Ok(())
    }
}

fn members(key: &Key, table: &DeTable<'_>, takes: Takes) -> Result<Map<String, Json>, Fault> {
    object(key, table, takes, 0)
}

fn object(key: &Key, table: &DeTable<'_>, takes: Takes, depth: usize) -> Result<Map<String, Json>, Fault> {
    let mut members = Vec::new();
    for (name, value) in table {
        refuse_secret(key, name.get_ref())?;
        let read = json(key, value.get_ref(), takes, depth + 1).map_err(|fault| {
            let message = format!("{}: {}", hint::shown_name(name.get_ref()), fault.message);
            at(Fault { message, ..fault }, value)
        })?;
        members.push((name.get_ref().to_string(), read));
    }
    members.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(Map::from_iter(members))
}

fn json(key: &Key, value: &DeValue<'_>, takes: Takes, depth: usize) -> Result<Json, Fault> {
    let refused = |what: &str| Err(bad(format!("it is of type {}, but must be {what}", value.type_str())));
    match value {
        DeValue::String(text) => {
            refuse_secret(key, text)?;
            Ok(text.as_ref().into())
        }
        _ if takes == Takes::Texts => refused("a string"),
        DeValue::Boolean(value) => Ok((*value).into()),
        DeValue::Integer(value) => i64::from_str_radix(value.as_str(), value.radix())
            .map(Json::from)
            .map_err(|_| bad("it is a number that no JSON reader is sure to keep".to_owned())),
        DeValue::Float(value) => {
            let number = value.as_str().parse().ok().and_then(Number::from_f64);
            number.map(Json::Number).ok_or_else(|| bad("it is a number that JSON does not have".to_owned()))
        }
        DeValue::Datetime(_) => refused("a string: JSON has no dates"),
        _ if takes == Takes::Scalars => refused("a string, a number, true or false"),
        _ if depth >= MAX_DEPTH => Err(bad(format!("it is nested more than {MAX_DEPTH} deep"))),
        DeValue::Array(items) => {
            let items = items
                .iter()
                .map(|item| json(key, item.get_ref(), takes, depth + 1).map_err(|fault| at(fault, item)));
            items.collect::<Result<Vec<_>, _>>().map(Json::Array)
        }
        DeValue::Table(table) => object(key, table, takes, depth).map(Json::Object),
    }
}

fn refuse_secret(key: &Key, text: &str) -> Result<(), Fault> {
    if admin_token::is_in(text) {
        return Err(admin_tokens::in_clear());
    }
    refuse_key(key, text)
}

/// The innermost place stays.
fn at<T>(fault: Fault, place: &Spanned<T>) -> Fault {
    Fault { at: fault.at.or(Some(place.span().start)), ..fault }
}

const PREFIX: &str = "prefix";
/// What `sub` and metrics can carry.
pub(crate) const MAX_NAME: usize = 64;
/// Nobody's claims are deeper, and readers of JSON have limits of their own.
const MAX_DEPTH: usize = 16;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::config::table::{Default, Literal};
    use crate::config::value;

    fn read(kind: Kind, toml: &str) -> Result<Value, Fault> {
        let key = Key {
            path: "rule.x",
            kind,
            default: Default::Unset("x"),
            doc: "X.",
            example: Literal::Text("x"),
        };
        value::from_toml(&key, DeValue::parse(toml).expect("TOML").get_ref())
    }

    #[test]
    fn what_matches_is_written_in_every_form() {
        for (kind, toml, shown) in [
            (Kind::Names, "'prod'", json!(["prod"])),
            (Kind::Names, "['prod', 'eu-1.x_y']", json!(["prod", "eu-1.x_y"])),
            (Kind::Matches, "'ci'", json!(["ci"])),
            (Kind::Matches, "{ prefix = 'team-' }", json!([{ "prefix": "team-" }])),
            (Kind::Matches, "['ci', { prefix = 'team-' }]", json!(["ci", { "prefix": "team-" }])),
            (
                Kind::Conditions,
                "{ subject = { prefix = 'job-' }, 'claims./a/b' = [1, true, 'x', 1.5], z = false }",
                json!({ "claims./a/b": [1, true, "x", 1.5], "subject": [{ "prefix": "job-" }], "z": [false] }),
            ),
            (Kind::Conditions, "{}", json!({})),
            (
                Kind::Claims,
                "{ a = 'b', n = [1, { c = true }], x.y = 0x10 }",
                json!({ "a": "b", "n": [1, { "c": true }], "x": { "y": 16 } }),
            ),
            (Kind::Texts, "{ project = '{namespace}' }", json!({ "project": "{namespace}" })),
        ] {
            let value = read(kind, toml).map_err(|fault| fault.message).expect(toml);
            assert_eq!(value.shown(), shown, "{toml}");
        }
    }

    #[test]
    fn each_mistake_says_what_to_write() {
        for (kind, toml, words) in [
            (Kind::Names, "[]", "empty list"),
            (Kind::Names, "['a', 'a']", "\"a\" stands there twice"),
            (Kind::Names, "['a b']", "\"a b\" is not a name"),
            (Kind::Names, "''", "is not a name"),
            (Kind::Names, "[1]", "it is an integer, but must be a name"),
            (Kind::Names, "true", "it is a boolean, but must be a name"),
            (Kind::Matches, "[]", "empty list"),
            (Kind::Matches, "1", "of type integer, but must be a string"),
            (Kind::Matches, "{ prefix = '' }", "empty prefix"),
            (Kind::Matches, "{ prefix = 1 }", "`prefix` is of type integer"),
            (Kind::Matches, "{ suffix = 'x' }", "has `prefix` and nothing else"),
            (Kind::Matches, "{ prefix = 'x', suffix = 'x' }", "has `prefix` and nothing else"),
            (Kind::Matches, "[['a']]", "of type array"),
            (Kind::Conditions, "'x'", "but must be a table"),
            (Kind::Conditions, "{ a = [] }", "a: it is an empty list"),
            (Kind::Conditions, "{ a = [['x']] }", "a: it is of type array"),
            (Kind::Conditions, "{ a = 2027-01-31 }", "a: it is of type datetime"),
            (Kind::Claims, "{ a = inf }", "a: it is a number that JSON does not have"),
            (Kind::Claims, "{ a = { b = 2027-01-31 } }", "a: b: it is of type datetime"),
            (Kind::Claims, "{ a = 99999999999999999999 }", "a: it is a number"),
            (Kind::Texts, "{ a = 1 }", "a: it is of type integer, but must be a string"),
        ] {
            let fault = read(kind, toml).expect_err(toml);
            assert!(fault.message.contains(words), "{toml}: {}", fault.message);
        }
        let deep = format!("{{ a = {}1{} }}", "[".repeat(40), "]".repeat(40));
        assert!(read(Kind::Claims, &deep).expect_err("deep").message.contains("nested more than 16"));
    }

    #[test]
    fn a_secret_is_refused_wherever_it_stands_and_not_repeated() {
        let token = admin_token::Token::generate().expect("random bytes");
        let token = token.expose();
        let pem = "-----BEGIN PRIVATE KEY-----CANARY";
        for (kind, toml) in [
            (Kind::Names, format!("['{token}']")),
            (Kind::Matches, format!("{{ prefix = '{token}' }}")),
            (Kind::Conditions, format!("{{ a = '{token}' }}")),
            (Kind::Conditions, format!("{{ '{token}' = 'a' }}")),
            (Kind::Claims, format!("{{ a = [{{ b = '{token}' }}] }}")),
            (Kind::Claims, format!("{{ a = '{pem}' }}")),
            (Kind::Texts, format!("{{ '{pem}' = 'a' }}")),
        ] {
            let fault = read(kind, &toml).expect_err("a secret");
            assert!(
                !fault.message.contains(&token[14..]) && !fault.message.contains("CANARY"),
                "{}",
                fault.message
            );
        }
    }
}
