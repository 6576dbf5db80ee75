//! The environment: variables that set keys, the three plain names, and whatever else begins like ours.
//!
//! It is passed in as data and nothing here reads the process's own, so a test needs no global and a library user
//! keeps theirs.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use oneseal_keystore::Findings;

use super::codes;
use super::disk;
use super::file::Entry;
use super::hint;
use super::origin::Origin;
use super::service_link::is_service_link;
use super::table::{self, Key, SECTIONS, VARIABLE_PREFIX};
use super::value::{self, Fault, Value};

/// What the environment says.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    /// Values of keys.
    pub(crate) entries: Vec<Entry>,
    /// Mistakes, apart from those of single values.
    pub(crate) findings: Findings,
    /// Variables that look like ours and are not, with what to say about them.
    pub(crate) ignored: Vec<(String, String)>,
    /// `ONESEAL_CONFIG`.
    pub(crate) config: Option<OsString>,
    /// `ONESEAL_LOG`.
    pub(crate) log: Option<String>,
    /// `ONESEAL_WORKERS`.
    pub(crate) workers: Option<String>,
}

/// Reads all variables whose name begins with `ONESEAL_`, in any case.
pub(crate) fn read(variables: &[(OsString, OsString)]) -> Environment {
    let mut ours: Vec<_> = variables
        .iter()
        .map(|(name, value)| (name.to_string_lossy(), value))
        .filter(|(name, _)| is_ours(name))
        .collect();
    // The order of an environment is chance; a report's should not be.
    ours.sort();
    let mut environment = Environment::default();
    for (name, value) in ours {
        environment.variable(&name, value);
    }
    environment
}

/// Whether a variable of this name is read at all.
pub(super) fn is_ours(name: &str) -> bool {
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

impl Environment {
    fn variable(&mut self, name: &str, value: &OsStr) {
        match name {
            CONFIG => self.config = Some(value.to_owned()),
            LOG => self.log = self.plain(name, value),
            WORKERS => self.workers = self.plain(name, value),
            _ if self.is_setting(name, value) => {}
            _ if is_service_link(name, &value.to_string_lossy()) => {}
            _ if name.to_ascii_uppercase().starts_with(VARIABLE_PREFIX) => self.unknown(name),
            _ => self.ignored.push((hint::shown_name(name), ignored_message(name))),
        }
    }

    fn plain(&mut self, name: &str, value: &OsStr) -> Option<String> {
        let text = value.to_str().map(str::to_owned);
        if text.is_none() {
            self.findings.push(&codes::BAD_VALUE, name, NOT_UTF8);
        }
        text
    }

    /// Takes the variable if it sets a key.
    fn is_setting(&mut self, name: &str, value: &OsStr) -> bool {
        if let Some(key) = table::keys().find(|key| key.variable() == name) {
            let value = value.to_str().ok_or_else(|| bad(NOT_UTF8.to_owned()));
            let value = value.and_then(|text| value::from_text(key, text));
            self.push(key, Origin::Variable(name.to_owned()), value);
            return true;
        }
        let Some(key) =
            name.strip_suffix(FILE_SUFFIX).and_then(|name| table::keys().find(|key| key.variable() == name))
        else {
            return false;
        };
        if !key.is_secret() {
            let message = format!("only secrets are read from a file; set {} itself", key.variable());
            self.findings.push(&codes::UNKNOWN_KEY, name, message);
            return true;
        }
        if let Some(entry) = self.entries.iter().find(|entry| entry.key.path == key.path) {
            let message = format!("{} is set as well", entry.origin.place(key));
            self.findings.push(&codes::CONFLICT, name, message);
            return true;
        }
        let file = value.to_string_lossy().into_owned();
        self.push(
            key,
            Origin::VariableFile { variable: name.to_owned(), file },
            read_secret(key, Path::new(value)),
        );
        true
    }

    fn push(&mut self, key: &'static Key, origin: Origin, value: Result<Value, Fault>) {
        self.entries.push(Entry { key, origin, value });
    }

    fn unknown(&mut self, name: &str) {
        let upper = name.to_ascii_uppercase();
        let path = upper[VARIABLE_PREFIX.len()..].replace("__", ".").to_ascii_lowercase();
        let place = hint::shown_name(name);
        if table::is_later(&path) {
            let message = format!("`{}` is not in this version", hint::shown_name(&path));
            return self.findings.push(&codes::NOT_AVAILABLE, place, message);
        }
        let message = if table::find(&path).is_some() {
            format!("variable names have capital letters only: {upper}")
        } else if SECTIONS.iter().any(|section| section.name == path) {
            format!("it is a table; its keys are set one by one, {upper}__KEY")
        } else if let Some(list) = table::list(path.split('.').next().unwrap_or(&path)) {
            format!(
                "there may be several tables [[{}]], so no variable sets them; write them into the file",
                list.name
            )
        } else {
            match near(&path) {
                Some(key) => format!("unknown key; did you mean {}?", key.variable()),
                None => "unknown key".to_owned(),
            }
        };
        self.findings.push(&codes::UNKNOWN_KEY, place, message);
    }
}

/// Reads a secret and drops one line break at its end, which editors and `echo` leave there.
fn read_secret(key: &Key, path: &Path) -> Result<Value, Fault> {
    let content = disk::read(path).map_err(|error| Fault {
        code: &codes::UNREADABLE,
        message: format!("cannot read {}: {error}", hint::shown_path(path)),
        at: None,
    })?;
    let text = content.text.strip_suffix('\n').unwrap_or(&content.text);
    value::from_text(key, text.strip_suffix('\r').unwrap_or(text))
}

/// `ONESEAL_ISSUER_URL` is what many write before they have read how it is done.
fn ignored_message(name: &str) -> String {
    let rest = &name[PREFIX.len()..];
    let upper = name.to_ascii_uppercase();
    if upper != name && [CONFIG, LOG, WORKERS].contains(&upper.as_str()) {
        return format!("it is ignored; variable names have capital letters only: {upper}");
    }
    match table::keys().find(|key| key.path.replace('.', "_").eq_ignore_ascii_case(rest)) {
        Some(key) => format!("it is ignored; did you mean {}, with two underscores?", key.variable()),
        None => "it is ignored".to_owned(),
    }
}

fn near(path: &str) -> Option<&'static Key> {
    hint::nearest_key(path, table::keys().map(|key| key.path)).and_then(table::find)
}

fn bad(message: String) -> Fault {
    Fault { code: &codes::BAD_VALUE, message, at: None }
}

/// Beginning of all names that somebody may have meant for us.
const PREFIX: &str = "ONESEAL_";
/// Names the configuration file.
pub(crate) const CONFIG: &str = "ONESEAL_CONFIG";
/// Filters log lines.
pub(crate) const LOG: &str = "ONESEAL_LOG";
/// Names the workers that this replica runs.
pub(crate) const WORKERS: &str = "ONESEAL_WORKERS";
const FILE_SUFFIX: &str = "_FILE";
const NOT_UTF8: &str = "its value is not UTF-8";
