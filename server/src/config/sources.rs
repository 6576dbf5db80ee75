//! All that configuration is read from, as values: tests and `quickstart` make their own.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use oneseal_keystore::Findings;
use zeroize::Zeroize;

use super::disk::{self, ReadError};
use super::environment::{self, CONFIG, Environment};
use super::file::{self, Entry};
use super::hint;
use super::list::Lists;
use super::origin::Origin;
use super::table;
use super::value;
use super::values::Values;
use super::{codes, database};

/// Where configuration comes from: the command line, the environment and the file that one of them names.
pub(crate) struct Sources {
    config: Option<PathBuf>,
    default_file: PathBuf,
    flags: Vec<(&'static str, &'static str, String)>,
    variables: Variables,
    dev_tls: bool,
    yes: bool,
}

impl Sources {
    /// Sources with these environment variables, usually `std::env::vars_os()`, and no flags.
    pub(crate) fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self {
            config: None,
            default_file: PathBuf::from(DEFAULT_FILE),
            flags: Vec::new(),
            variables: Variables::ours(variables),
            dev_tls: false,
            yes: false,
        }
    }

    /// The file that `--config` names: it must exist.
    #[must_use]
    pub(crate) fn config(mut self, path: Option<PathBuf>) -> Self {
        self.config = path;
        self
    }

    /// What a flag sets: `.flag("--listen-ops", "listen.ops", args.listen_ops)`. Written as in a variable.
    #[must_use]
    pub(crate) fn flag(mut self, flag: &'static str, key: &'static str, value: Option<String>) -> Self {
        self.flags.extend(value.map(|value| (flag, key, value)));
        self
    }

    /// Whether `--dev-tls` was given. It is no key: what is good for one afternoon must not stand in a file.
    #[must_use]
    pub(crate) fn dev_tls(mut self, is_given: bool) -> Self {
        self.dev_tls = is_given;
        self
    }

    /// Whether `--yes` was given, which takes what would break a public issuer. No key either: it is said each time.
    #[must_use]
    pub(crate) fn yes(mut self, is_given: bool) -> Self {
        self.yes = is_given;
        self
    }

    /// The file that is read when none is named, and that may be absent.
    #[cfg(test)]
    pub(super) fn default_file(mut self, path: PathBuf) -> Self {
        self.default_file = path;
        self
    }

    /// The file that will be read, if there is one: the one that is named, else the default one if that is there.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        let of_variable = self.variables.0.iter().find(|(name, _)| name == CONFIG);
        let named = self.config.clone().or_else(|| of_variable.map(|(_, path)| path.into()));
        named.or_else(|| Some(self.default_file.clone()).filter(|path| path.exists()))
    }

    /// Reads everything.
    pub(super) fn gather(self) -> Gathered {
        let (mut gathered, mut entries, config) = of_environment(&self.variables.0);
        gathered.dev_tls = self.dev_tls;
        gathered.yes = self.yes;
        let named = self.config.map(|path| (path, "--config")).or(config.map(|path| (path.into(), CONFIG)));
        match named {
            Some((path, by)) => gathered.file(&path, Some(by), &mut entries),
            None => gathered.file(&self.default_file, None, &mut entries),
        }
        for (flag, path, text) in self.flags {
            match table::find(path) {
                Some(key) => {
                    entries.push(Entry {
                        key,
                        origin: Origin::Flag(flag),
                        value: value::from_text(key, &text),
                    });
                }
                None => unreachable!("the flag {flag} sets {path}, which is no key"),
            }
        }
        gathered.values.merge(entries, &mut gathered.findings);
        gathered
    }
}

/// Those whose names are ours; every value is wiped in the end, the others' at once: a copy of an environment is a copy of
/// all secrets in it.
struct Variables(Vec<(OsString, OsString)>);

impl Variables {
    fn ours(all: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let mut ours = Self(Vec::new());
        for (name, value) in all {
            if environment::is_ours(&name.to_string_lossy()) {
                ours.0.push((name, value));
            } else {
                wipe(value);
            }
        }
        ours
    }
}

impl Drop for Variables {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|(_, value)| wipe(value));
    }
}

fn wipe(value: OsString) {
    value.into_encoded_bytes().zeroize();
}

/// Names without values: an environment is full of secrets, ours and others'.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("config", &self.config)
            .field("default_file", &self.default_file)
            .field("flags", &self.flags.iter().map(|(flag, ..)| flag).collect::<Vec<_>>())
            .field("variables", &self.variables.0.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish()
    }
}

/// What all sources say together, before it is made into a configuration.
#[derive(Debug)]
pub(super) struct Gathered {
    /// The strongest value of each key.
    pub(super) values: Values,
    /// The tables of the file's lists.
    pub(super) lists: Lists,
    /// Mistakes so far.
    pub(super) findings: Findings,
    /// Variables that look like ours and are not, with what to say about them.
    pub(super) ignored: Vec<(String, String)>,
    /// `ONESEAL_LOG`.
    pub(super) log: Option<String>,
    /// `ONESEAL_WORKERS`.
    pub(super) workers: Option<String>,
    /// `--dev-tls`.
    pub(super) dev_tls: bool,
    /// `--yes`.
    pub(super) yes: bool,
    /// Whether the file could be read: if not, what it was to say is unknown and not *missing*.
    pub(super) is_file_known: bool,
    /// The file that is read where none is named, if it is not there.
    pub(super) absent_file: Option<String>,
}

impl Gathered {
    /// Reads the file. `by` names who named it; the default file may be absent.
    fn file(&mut self, path: &Path, by: Option<&str>, entries: &mut Vec<Entry>) {
        let name = hint::shown_path(path);
        let content = match disk::read(path) {
            Ok(content) => content,
            Err(ReadError::NotFound) if by.is_none() => {
                self.absent_file = Some(name);
                return;
            }
            Err(error) => return self.unreadable(&name, by, &error),
        };
        let parsed = file::parse(&content.text, &name);
        self.is_file_known = parsed.is_toml;
        self.findings.extend(parsed.findings);
        if let Some(secret) =
            parsed.entries.iter().find(|entry| content.is_world_readable && database::is_secret(entry))
        {
            let place = secret.origin.place(secret.key);
            self.findings.push(&codes::EXPOSED, place, format!("{name} is readable by everyone"));
        }
        entries.extend(parsed.entries);
        self.lists = parsed.lists;
    }

    fn unreadable(&mut self, name: &str, by: Option<&str>, error: &ReadError) {
        self.is_file_known = false;
        let place = by.unwrap_or(name).to_owned();
        match error {
            ReadError::NotFound if name.is_empty() => {
                self.findings.push(&codes::BAD_VALUE, place, "it is empty; leave it out if no file is meant");
            }
            ReadError::NotFound => {
                self.findings.push(&codes::NOT_FOUND, place, format!("{name} does not exist"))
            }
            ReadError::NotUtf8 { .. } => self.findings.push(&codes::SYNTAX, name, error.to_string()),
            _ => self.findings.push(&codes::UNREADABLE, place, format!("cannot read {name}: {error}")),
        }
    }
}

/// What a file of this text says, with no other source beside it.
pub(super) fn of_text(text: &str) -> Gathered {
    let (mut gathered, _, _) = of_environment(&[]);
    let parsed = file::parse(text, "oneseal.toml");
    gathered.is_file_known = parsed.is_toml;
    gathered.findings.extend(parsed.findings);
    gathered.lists = parsed.lists;
    gathered.values.merge(parsed.entries, &mut gathered.findings);
    gathered
}

/// What the environment says: its mistakes, its values, which are not merged yet, and the file that it names.
fn of_environment(variables: &[(OsString, OsString)]) -> (Gathered, Vec<Entry>, Option<OsString>) {
    let Environment { entries, findings, ignored, config, log, workers } = environment::read(variables);
    let gathered = Gathered {
        values: Values::default(),
        lists: Lists::default(),
        findings,
        ignored,
        log,
        workers,
        dev_tls: false,
        yes: false,
        is_file_known: true,
        absent_file: None,
    };
    (gathered, entries, config)
}

/// Read when no other file is named.
pub(super) const DEFAULT_FILE: &str = "/etc/oneseal/oneseal.toml";
