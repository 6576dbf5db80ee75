//! `[database]`: which one, and what its URL says is trusted.

use oneseal_coordination::database::{Database, DatabaseOptions, DatabaseUrl};
use oneseal_keystore::Findings;
use secrecy::ExposeSecret;

use super::codes;
use super::file::Entry;
use super::value::Value;
use super::values::{Values, mismatch};
use crate::gate::DATABASE_IN_CLEAR;

/// Makes the options, if there is a database and nothing is wrong with it.
pub(super) fn choose(values: &Values, findings: &mut Findings) -> Option<DatabaseOptions> {
    let connections = connections(values, findings);
    let direct = url(values, DIRECT_URL, findings);
    let url = url(values, URL, findings);
    if direct.is_some() && values.find(URL).is_none() && !values.is_faulty(URL) {
        let message = "without database.url there is no database";
        findings.push(&codes::NO_EFFECT, values.place(DIRECT_URL), message);
    }
    let mut options = DatabaseOptions::new(url?);
    options.direct_url = direct;
    options.max_connections = connections?;
    match Database::new(options.clone()) {
        Ok(_) => Some(options),
        Err(error) => {
            findings.push(&codes::BAD_VALUE, values.place(URL), error.to_string());
            None
        }
    }
}

const URL: &str = "database.url";
const DIRECT_URL: &str = "database.direct_url";
const MAX_CONNECTIONS: &str = "database.max_connections";

fn url(values: &Values, path: &str, findings: &mut Findings) -> Option<DatabaseUrl> {
    let text = match &values.find(path)?.value {
        Value::Secret(text) => text,
        other => mismatch(path, other),
    };
    let place = values.place(path);
    match DatabaseUrl::parse(text.expose_secret()) {
        Ok(url) => {
            if !url.is_protected() {
                let message = format!("{} is spoken to in clear", url.location());
                findings.push(&DATABASE_IN_CLEAR, place, message);
            }
            Some(url)
        }
        Err(error) => {
            findings.push(&codes::BAD_VALUE, place, format!("it {error}"));
            None
        }
    }
}

/// Whether a value must not be read by everybody: of a database's URL, its password alone.
pub(super) fn is_secret(entry: &Entry) -> bool {
    match &entry.value {
        Ok(Value::Secret(text)) if [URL, DIRECT_URL].contains(&entry.key.path) => {
            DatabaseUrl::parse(text.expose_secret()).map_or(true, |url| url.has_password())
        }
        _ => entry.key.is_secret(),
    }
}

fn connections(values: &Values, findings: &mut Findings) -> Option<u32> {
    let count = values.integer(MAX_CONNECTIONS);
    if count == 0 {
        let message = "with 0 connections nothing can be asked; 4 is the default";
        findings.push(&codes::BAD_VALUE, values.place(MAX_CONNECTIONS), message);
        return None;
    }
    u32::try_from(count).ok()
}
