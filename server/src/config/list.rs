//! Lists of tables: `[[assertion_issuer]]`. Every mistake in them is told, with the list, the number of the table and the
//! line.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use oneseal_keystore::Findings;
use oneseal_keystore::findings::Code;
use toml::de::{DeArray, DeTable, DeValue};

use super::codes;
use super::file::Lines;
use super::hint;
use super::origin::Origin;
use super::table::{Default as Fallback, Key, List};
use super::value::{self, Value};
use super::values::{Set, mismatch};

/// One table of a list.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    list: &'static List,
    number: usize,
    origin: Origin,
    sets: BTreeMap<&'static str, Set>,
    is_faulty: bool,
}

/// A mistake: its row of the table of findings, where it is, and what.
pub(super) struct Mistake {
    pub(super) code: &'static Code,
    pub(super) place: String,
    pub(super) message: String,
}

/// Where a list stands.
pub(super) struct Source<'a> {
    /// What messages call the file.
    pub(super) name: &'a str,
    /// Its lines.
    pub(super) lines: &'a Lines,
}

/// Reads all tables of a list; one that has a mistake is there too, and says so.
pub(super) fn read(
    list: &'static List,
    items: &DeArray<'_>,
    source: &Source<'_>,
) -> (Vec<Item>, Vec<Mistake>) {
    let mut mistakes = Vec::new();
    let mut all = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let origin = source.origin(item.span().start);
        let mut read = Item { list, number: index + 1, origin, sets: BTreeMap::new(), is_faulty: false };
        match item.get_ref() {
            DeValue::Table(table) => mistakes.extend(read.take(table, source)),
            other => {
                mistakes.push(read.fault(format!("it is of type {}, but must be a table", other.type_str())))
            }
        }
        all.push(read);
    }
    for key in list.distinct {
        mistakes.extend(distinct(&mut all, key));
    }
    (all, mistakes)
}

impl Source<'_> {
    fn origin(&self, at: usize) -> Origin {
        Origin::File { file: self.name.to_owned(), line: self.lines.line(at) }
    }
}

impl Item {
    fn take(&mut self, table: &DeTable<'_>, source: &Source<'_>) -> Vec<Mistake> {
        let mut mistakes = Vec::new();
        for (name, value) in table {
            let origin = source.origin(name.span().start);
            let Some(key) = self.list.keys.iter().find(|key| key.name() == name.get_ref()) else {
                mistakes.push(self.unknown(name.get_ref(), &origin));
                continue;
            };
            match value::from_toml(key, value.get_ref()) {
                Ok(value) => drop(self.sets.insert(key.name(), Set { value, origin })),
                Err(fault) => {
                    let origin = fault.at.map_or(origin, |at| source.origin(at));
                    self.is_faulty = true;
                    let place = self.place_of(key.name(), &origin);
                    mistakes.push(Mistake { code: fault.code, place, message: fault.message });
                }
            }
        }
        for key in self.list.keys {
            let is_there = table.contains_key(key.name());
            match key.default {
                Fallback::Required(why) if !is_there => mistakes.push(self.missing(key, why)),
                Fallback::Value(literal, _) if !is_there => {
                    if let Ok(value) = value::from_literal(key, literal) {
                        self.sets.insert(key.name(), Set { value, origin: Origin::Default });
                    }
                }
                _ => {}
            }
        }
        mistakes
    }

    fn unknown(&mut self, name: &str, origin: &Origin) -> Mistake {
        self.is_faulty = true;
        let near = hint::nearest(name, self.list.keys.iter().map(Key::name));
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        let place = self.place_of(&hint::shown_name(name), origin);
        Mistake { code: &codes::UNKNOWN_KEY, place, message: format!("unknown key{near}") }
    }

    fn missing(&mut self, key: &Key, why: &str) -> Mistake {
        self.is_faulty = true;
        let message = format!("it has no `{}`: {why}", key.name());
        Mistake { code: &codes::MISSING, place: self.place(), message }
    }

    fn fault(&mut self, message: String) -> Mistake {
        self.is_faulty = true;
        Mistake { code: &codes::BAD_VALUE, place: self.place(), message }
    }

    /// Whether something in it has been told already, so that nothing can be made of it.
    pub(crate) fn is_faulty(&self) -> bool {
        self.is_faulty
    }

    /// Where it begins.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Where it stands: `rule 2 (oneseal.toml:14)`.
    pub(crate) fn place(&self) -> String {
        format!("{} {} ({})", self.list.name, self.number, self.origin)
    }

    /// Where a key of it stands: `rule 2, sub (oneseal.toml:16)`; the whole table for one that does not.
    pub(crate) fn place_at(&self, key: &str) -> String {
        match self.sets.get(key) {
            Some(Set { origin: origin @ Origin::File { .. }, .. }) => self.place_of(key, origin),
            _ => self.place(),
        }
    }

    fn place_of(&self, key: &str, origin: &Origin) -> String {
        format!("{} {}, {key} ({origin})", self.list.name, self.number)
    }

    /// Adds a finding about one of its keys; nothing is made of it then.
    pub(crate) fn refuse(
        &mut self,
        code: &'static Code,
        key: &str,
        message: impl Into<String>,
        findings: &mut Findings,
    ) {
        self.is_faulty = true;
        findings.push(code, self.place_at(key), message.into());
    }

    /// Whether the file says something for this key.
    pub(crate) fn is_set(&self, key: &str) -> bool {
        self.sets.get(key).is_some_and(|set| set.origin != Origin::Default)
    }

    /// The value of a key, if it has one.
    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.sets.get(key).map(|set| &set.value)
    }

    /// A string.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        match self.value(key)? {
            Value::Text(text) => Some(text.clone()),
            other => mismatch(key, other),
        }
    }

    /// A path.
    pub(crate) fn path(&self, key: &str) -> Option<PathBuf> {
        match self.value(key)? {
            Value::Path(path) => Some(path.clone()),
            other => mismatch(key, other),
        }
    }

    /// A length of time.
    pub(crate) fn duration(&self, key: &str) -> Option<Duration> {
        match self.value(key)? {
            Value::Duration(span, _) => Some(*span),
            other => mismatch(key, other),
        }
    }

    /// All that holds, as JSON in the order of the table.
    pub(crate) fn shown(&self) -> serde_json::Value {
        let shown = |key: &Key| Some((key.name().to_owned(), self.value(key.name())?.shown()));
        serde_json::Value::Object(self.list.keys.iter().filter_map(shown).collect())
    }
}

/// Of those with the same value every one after the first is a mistake.
fn distinct(all: &mut [Item], key: &str) -> Vec<Mistake> {
    let mut seen = BTreeMap::new();
    let mut twice = Vec::new();
    for (index, item) in all.iter().enumerate() {
        let Some(text) = item.text(key) else { continue };
        match seen.get(&text) {
            Some(first) => twice.push((index, format!("{} {first} has the same `{key}`", item.list.name))),
            None => drop(seen.insert(text, item.number)),
        }
    }
    let mut mistakes = Vec::new();
    for (index, message) in twice {
        if let Some(item) = all.get_mut(index) {
            item.is_faulty = true;
            mistakes.push(Mistake { code: &codes::CONFLICT, place: item.place_at(key), message });
        }
    }
    mistakes
}

/// The tables of each list, in the order of the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists(BTreeMap<&'static str, Vec<Item>>);

impl Lists {
    /// Adds the tables of one list.
    pub(super) fn add(&mut self, list: &'static List, items: Vec<Item>) {
        self.0.entry(list.name).or_default().extend(items);
    }

    /// Takes the tables of a list out.
    pub(super) fn take(&mut self, list: &str) -> Vec<Item> {
        self.0.remove(list).unwrap_or_default()
    }

    /// Those of a list.
    pub(super) fn of(&self, list: &str) -> &[Item] {
        self.0.get(list).map(Vec::as_slice).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table::LISTS;

    fn read_all(text: &str) -> (Vec<Item>, Vec<String>) {
        let document = DeTable::parse(text).expect("TOML");
        let source = Source { name: "oneseal.toml", lines: &Lines::new(text) };
        let (mut all, mut mistakes) = (Vec::new(), Vec::new());
        for list in LISTS {
            if let Some(DeValue::Array(items)) =
                document.get_ref().get(list.name).map(|value| value.get_ref())
            {
                let (items, found) = read(list, items, &source);
                all.extend(items);
                mistakes.extend(found);
            }
        }
        let line =
            |mistake: Mistake| format!("{} at {}: {}", mistake.code.name, mistake.place, mistake.message);
        (all, mistakes.into_iter().map(line).collect())
    }

    #[test]
    fn every_example_is_a_value_of_its_key_and_defaults_hold() {
        for list in LISTS {
            let example = |key: &Key| format!("{} = {}\n", key.name(), key.example.toml());
            let whole: String = list.keys.iter().map(example).collect();
            let (items, mistakes) = read_all(&format!("[[{}]]\n{whole}", list.name));
            assert_eq!(mistakes, [] as [String; 0]);
            assert!(list.keys.iter().all(|key| items[0].is_set(key.name())), "{}", list.name);
            let required = list.keys.iter().filter(|key| matches!(key.default, Fallback::Required(_)));
            let least: String = required.map(example).collect();
            let (items, mistakes) = read_all(&format!("[[{}]]\n{least}", list.name));
            assert_eq!((items.len(), mistakes), (1, Vec::new()));
            for key in list.keys {
                if let Fallback::Value(literal, _) = key.default {
                    assert_eq!(items[0].value(key.name()).expect(key.path).shown(), literal.json());
                    assert!(!items[0].is_set(key.name()));
                }
            }
        }
    }

    #[test]
    fn every_mistake_is_told_with_list_number_and_line() {
        let (items, mistakes) = read_all(
            "[[assertion_issuer]]\n\
             name = \"ci\"\n\
             issuer = \"https://ci.example\"\n\
             [[assertion_issuer]]\n\
             name = \"ci\"\n\
             isuer = \"https://ci.example\"\n\
             algorithms = [\"RS265\"]\n\
             [[rule]]\n\
             name = \"a b\"\n\
             sub = 1\n\
             namespace = [\"x\",\n\
             { prefix = \"\" }]\n",
        );
        assert_eq!(items.iter().map(Item::is_faulty).collect::<Vec<_>>(), [false, true, true]);
        let mut mistakes: Vec<_> = mistakes.iter().map(String::as_str).collect();
        mistakes.sort_unstable();
        assert_eq!(
            mistakes,
            [
                "config.bad_value at assertion_issuer 2, algorithms (oneseal.toml:7): \"RS265\" is not one of RS256, RS384, RS512, PS256, ES256, ES384, EdDSA; did you mean \"RS256\"?",
                "config.bad_value at rule 1, name (oneseal.toml:9): \"a b\" is not a name of 1 to 64 letters, digits, dots, underscores and hyphens",
                "config.bad_value at rule 1, namespace (oneseal.toml:12): everything begins with an empty prefix; leave the key out if that is meant",
                "config.bad_value at rule 1, sub (oneseal.toml:10): it is an integer, but must be a template, such as \"k8s:{cluster}:{namespace}:{service_account}\"",
                "config.conflict at assertion_issuer 2, name (oneseal.toml:5): assertion_issuer 1 has the same `name`",
                "config.missing at assertion_issuer 2 (oneseal.toml:4): it has no `issuer`: its assertions are found by it, and no two may have the same",
                "config.missing at rule 1 (oneseal.toml:8): it has no `audiences`: a token is for somebody",
                "config.unknown_key at assertion_issuer 2, isuer (oneseal.toml:6): unknown key; did you mean `issuer`?",
            ]
        );
        let (items, mistakes) = read_all("rule = [1]\ncluster = []\n");
        assert_eq!((items.len(), items[0].is_faulty()), (1, true));
        assert_eq!(
            mistakes,
            ["config.bad_value at rule 1 (oneseal.toml:1): it is of type integer, but must be a table"]
        );
    }
}
