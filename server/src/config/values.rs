//! The strongest value of each key, with its origin.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use oneseal_keystore::Findings;

use super::file::Entry;
use super::origin::{Origin, Rank};
use super::table::{self, Default as Fallback};
use super::value::{self, Value};

/// A value and where it came from.
#[derive(Clone, Debug)]
pub(crate) struct Set {
    /// The value.
    pub(crate) value: Value,
    /// Its source.
    pub(crate) origin: Origin,
}

/// Every key that has a value.
#[derive(Debug)]
pub(crate) struct Values {
    sets: BTreeMap<&'static str, Set>,
    faulty: BTreeSet<&'static str>,
}

/// All defaults.
impl Default for Values {
    fn default() -> Self {
        let sets = table::keys().filter_map(|key| match key.default {
            Fallback::Value(literal, _) => {
                let value = value::from_literal(key, literal).ok()?;
                Some((key.path, Set { value, origin: Origin::Default }))
            }
            Fallback::Unset(_) | Fallback::Required(_) => None,
        });
        Self { sets: sets.collect(), faulty: BTreeSet::new() }
    }
}

impl Values {
    /// Takes in what the sources say, weakest or strongest first, and reports each faulty value.
    pub(crate) fn merge(&mut self, entries: Vec<Entry>, findings: &mut Findings) {
        for Entry { key, origin, value } in entries {
            match value {
                Ok(value) if origin.rank() >= self.rank(key.path) => {
                    self.sets.insert(key.path, Set { value, origin });
                }
                Ok(_) => {}
                Err(fault) => {
                    findings.push(fault.code, origin.place(key), fault.message);
                    self.faulty.insert(key.path);
                }
            }
        }
    }

    /// The value of a key, if it has one.
    pub(crate) fn find(&self, path: &str) -> Option<&Set> {
        self.sets.get(path)
    }

    /// How strong the source of a key's value is.
    pub(crate) fn rank(&self, path: &str) -> Rank {
        self.find(path).map_or(Rank::Default, |set| set.origin.rank())
    }

    /// Whether some source gave a value that is none, which has been reported.
    pub(crate) fn is_faulty(&self, path: &str) -> bool {
        self.faulty.contains(path)
    }

    /// Whether that holds for any key that begins like this.
    pub(crate) fn is_any_faulty(&self, prefix: &str) -> bool {
        self.faulty.iter().any(|path| path.starts_with(prefix))
    }

    /// Another default, where one setting changes what is usual for another; a value that somebody gave stays.
    pub(crate) fn default_to(&mut self, path: &'static str, value: Value) {
        if self.rank(path) == Rank::Default {
            self.sets.insert(path, Set { value, origin: Origin::Default });
        }
    }

    /// Forgets a value that a stronger choice has made meaningless.
    pub(crate) fn remove(&mut self, path: &str) {
        self.sets.remove(path);
    }

    /// Where a finding about a key is.
    pub(crate) fn place(&self, path: &str) -> String {
        match (self.find(path), table::find(path)) {
            (Some(set), Some(key)) => set.origin.place(key),
            _ => path.to_owned(),
        }
    }

    /// A boolean.
    pub(crate) fn bool(&self, path: &str) -> bool {
        match self.with_default(path) {
            Value::Bool(value) => *value,
            other => mismatch(path, other),
        }
    }

    /// A number.
    pub(crate) fn integer(&self, path: &str) -> u64 {
        match self.with_default(path) {
            Value::Integer(value) => *value,
            other => mismatch(path, other),
        }
    }

    /// A length of time.
    pub(crate) fn duration(&self, path: &str) -> Duration {
        match self.with_default(path) {
            Value::Duration(span, _) => *span,
            other => mismatch(path, other),
        }
    }

    /// An address.
    pub(crate) fn address(&self, path: &str) -> SocketAddr {
        match self.with_default(path) {
            Value::Address(address) => *address,
            other => mismatch(path, other),
        }
    }

    /// Any value of a key that has a default.
    pub(crate) fn with_default(&self, path: &str) -> &Value {
        match self.find(path) {
            Some(set) => &set.value,
            None => unreachable!("{path} has no default"),
        }
    }
}

/// The table gives every key one kind, and every load reads every key: the first test would end here.
pub(crate) fn mismatch(path: &str, value: &Value) -> ! {
    unreachable!("{path} is of another kind: {value:?}")
}
