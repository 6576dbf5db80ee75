//! The effective configuration with the origin of each value: what `check --explain` prints.

use std::fmt;

use serde::Serialize;

use super::list::{Item, Lists};
use super::table;
use super::values::Values;

/// Every value in force, in the order of the table, secrets masked.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Effective(Vec<Row>);

#[derive(Clone, Debug, Serialize)]
struct Row {
    key: &'static str,
    value: serde_json::Value,
    from: String,
}

impl Effective {
    /// What these values and lists say.
    pub(super) fn of(values: &Values, lists: &Lists) -> Self {
        let rows = table::keys().filter_map(|key| {
            let set = values.find(key.path)?;
            Some(Row { key: key.path, value: set.value.shown(), from: set.origin.to_string() })
        });
        let lists = table::lists().filter_map(|list| {
            let items = lists.of(list.name);
            let from = items.first()?.origin().to_string();
            Some(Row { key: list.name, value: items.iter().map(Item::shown).collect(), from })
        });
        Self(rows.chain(lists).collect())
    }

    /// The keys and lists, but for `rule`, that `now` says otherwise, or says alone, or not at all. Secrets are masked here,
    /// so a new one is none.
    pub(crate) fn differences(&self, now: &Self) -> Vec<&'static str> {
        let value =
            |of: &Self, key: &str| of.0.iter().find(|row| row.key == key).map(|row| row.value.clone());
        let mut keys: Vec<_> = self.0.iter().chain(&now.0).map(|row| row.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.retain(|key| *key != "rule" && value(self, key) != value(now, key));
        keys
    }

    /// With what holds where nothing is said and the table has no default, since it is made from other settings.
    pub(super) fn with(mut self, key: &'static str, value: String, from: &str) -> Self {
        self.0.push(Row { key, value: value.into(), from: from.to_owned() });
        self
    }
}

/// A TOML file that says the same, except for secrets, with the origins as comments.
impl fmt::Display for Effective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<_> =
            self.0.iter().map(|row| format!("{} = {}", row.key, table::toml_of(&row.value))).collect();
        let width = lines.iter().map(|line| line.chars().count()).filter(|width| *width <= MAX_WIDTH).max();
        let width = width.unwrap_or_default();
        for (line, row) in lines.iter().zip(&self.0) {
            writeln!(f, "{line:width$}  # {}", row.from)?;
        }
        Ok(())
    }
}

/// One long line must not push all comments out of sight.
const MAX_WIDTH: usize = 72;
