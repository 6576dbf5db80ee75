//! The TOML file: every value with its line, and every mistake at once.
//!
//! The document is walked by hand rather than deserialized by serde, which stops at the first mistake and whose
//! messages quote the text they stumble over. A line of the file is never quoted: it may hold a secret.

use oneseal_keystore::Findings;
use toml::de::{DeTable, DeValue};

use super::codes;
use super::hint;
use super::list::{self, Lists, Source};
use super::origin::Origin;
use super::table::{self, Key, List, SECTIONS};
use super::value::{self, Fault, Value};

/// One value that a source gives.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its row.
    pub(crate) key: &'static Key,
    /// Where it stands.
    pub(crate) origin: Origin,
    /// The value, or what is wrong with it.
    pub(crate) value: Result<Value, Fault>,
}

/// What a file says.
#[derive(Debug)]
pub(crate) struct Parsed {
    /// Its values.
    pub(crate) entries: Vec<Entry>,
    /// The tables of its lists.
    pub(crate) lists: Lists,
    /// Its mistakes, apart from those of single values.
    pub(crate) findings: Findings,
    /// Whether it is TOML: if not, nothing is known of what it was meant to say.
    pub(crate) is_toml: bool,
}

/// Reads `text`, the content of the file that messages call `name`.
pub(crate) fn parse(text: &str, name: &str) -> Parsed {
    let lines = Lines::new(text);
    let (document, errors) = DeTable::parse_recoverable(text);
    let mut walk =
        Walk { name, lines: &lines, entries: Vec::new(), lists: Lists::default(), findings: Findings::new() };
    if errors.is_empty() {
        walk.document(document.get_ref());
    } else {
        walk.syntax(&errors, text);
    }
    Parsed { entries: walk.entries, lists: walk.lists, findings: walk.findings, is_toml: errors.is_empty() }
}

struct Walk<'a> {
    name: &'a str,
    lines: &'a Lines,
    entries: Vec<Entry>,
    lists: Lists,
    findings: Findings,
}

impl Walk<'_> {
    fn syntax(&mut self, errors: &[toml::de::Error], text: &str) {
        for error in errors {
            let at = error.span().map_or(text.len(), |span| span.start);
            let (line, column) = self.lines.position(text, at);
            let key = known_name_at(text, at).map_or(String::new(), |name| format!(", at {name}"));
            let place = format!("{}:{line}:{column}", self.name);
            if !self.report(&codes::SYNTAX, place, format!("{}{key}", error.message())) {
                return;
            }
        }
    }

    fn document(&mut self, document: &DeTable<'_>) {
        for (name, value) in document {
            let line = self.lines.line(name.span().start);
            let name = name.get_ref().as_ref();
            let section = SECTIONS.iter().find(|section| section.name == name);
            let more = match (section, value.get_ref()) {
                (None, value) if table::list(name).is_some() => {
                    table::list(name).is_none_or(|list| self.list(list, value, line))
                }
                (Some(section), DeValue::Table(table)) => self.section(section.name, table),
                (Some(_), _) => {
                    let message = format!("it is a table: write [{name}] once, and its keys below");
                    self.report(&codes::BAD_VALUE, self.place(name, line), message)
                }
                (None, DeValue::Table(table)) if !table::is_later(name) && !table.is_empty() => {
                    self.unknown_table(name, table)
                }
                (None, _) => self.unknown(name, line),
            };
            if !more {
                return;
            }
        }
    }

    /// Whether there is room for more findings; so do all below.
    fn section(&mut self, section: &str, table: &DeTable<'_>) -> bool {
        table.iter().all(|(name, value)| {
            let line = self.lines.line(name.span().start);
            let path = format!("{section}.{}", name.get_ref());
            let Some(key) = table::find(&path) else {
                return self.unknown(&path, line);
            };
            let value = value::from_toml(key, value.get_ref());
            let exactly = value.as_ref().err().and_then(|fault| fault.at);
            let line = exactly.map_or(line, |at| self.lines.line(at));
            let origin = Origin::File { file: self.name.to_owned(), line };
            self.entries.push(Entry { key, origin, value });
            true
        })
    }

    fn list(&mut self, list: &'static List, value: &DeValue<'_>, line: usize) -> bool {
        let DeValue::Array(items) = value else {
            let message = format!("there may be several of it: write [[{0}]], with two brackets", list.name);
            return self.report(&codes::BAD_VALUE, self.place(list.name, line), message);
        };
        let (items, mistakes) = list::read(list, items, &Source { name: self.name, lines: self.lines });
        self.lists.add(list, items);
        mistakes.into_iter().all(|mistake| self.report(mistake.code, mistake.place, mistake.message))
    }

    fn unknown_table(&mut self, section: &str, table: &DeTable<'_>) -> bool {
        table.keys().all(|name| {
            let line = self.lines.line(name.span().start);
            self.unknown(&format!("{section}.{}", name.get_ref()), line)
        })
    }

    fn unknown(&mut self, path: &str, line: usize) -> bool {
        let place = self.place(&hint::shown_name(path), line);
        if table::is_later(path) {
            let message = format!("`{}` is not in this version", hint::shown_name(path));
            return self.report(&codes::NOT_AVAILABLE, place, message);
        }
        let near = hint::nearest_key(path, table::keys().map(|key| key.path));
        let section = hint::nearest(path, SECTIONS.iter().map(|section| section.name));
        let list =
            hint::nearest(path.split('.').next().unwrap_or(path), table::lists().map(|list| list.name));
        let message = match (near, section, list) {
            (_, _, Some(list)) => format!("unknown table; did you mean [[{list}]]?"),
            (Some(key), _, _) => format!("unknown key; did you mean `{key}`?"),
            (None, Some(section), _) => format!("unknown table; did you mean [{section}]?"),
            (None, None, None) => "unknown key".to_owned(),
        };
        self.report(&codes::UNKNOWN_KEY, place, message)
    }

    fn place(&self, path: &str, line: usize) -> String {
        format!("{path} ({}:{line})", self.name)
    }

    fn report(
        &mut self,
        code: &'static oneseal_keystore::findings::Code,
        place: String,
        message: String,
    ) -> bool {
        if self.findings.len() == MAX_FINDINGS {
            let message = format!("only the first {MAX_FINDINGS} mistakes of the file are shown");
            self.findings.push(&codes::TOO_MANY, self.name, message);
            return false;
        }
        self.findings.push(code, place, message);
        true
    }
}

/// The known key or table in whose line `at` lies. A name that is none of ours is not told: in a multi-line secret, what
/// stands before an equals sign may be the secret.
fn known_name_at(text: &str, at: usize) -> Option<String> {
    let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at))?;
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let line = text[start..].lines().next()?;
    let name = line.split('=').next()?.trim();
    if let Some(table) = name.strip_prefix('[').and_then(|name| name.split(']').next()) {
        if let Some(list) = table.strip_prefix('[') {
            let known = table::list(list.trim())?;
            return Some(format!("a table [[{}]]", known.name));
        }
        let known = SECTIONS.iter().find(|section| section.name == table.trim())?;
        return Some(format!("the table [{}]", known.name));
    }
    table::keys()
        .chain(table::lists().flat_map(|list| list.keys))
        .map(|key| if name.contains('.') { key.path } else { key.name() })
        .find(|known| *known == name)
        .map(|key| format!("the key `{key}`"))
}

/// Where lines begin, so that a file of many mistakes is not counted through for each.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn new(text: &str) -> Self {
        Self(std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    /// The line of a byte, from 1.
    pub(super) fn line(&self, at: usize) -> usize {
        self.0.partition_point(|start| *start <= at).max(1)
    }

    /// Line and column, in characters, from 1.
    fn position(&self, text: &str, at: usize) -> (usize, usize) {
        let line = self.line(at);
        let start = self.0.get(line - 1).copied().unwrap_or_default();
        let before = text.get(start..at.min(text.len())).map_or(0, |before| before.chars().count());
        (line, before + 1)
    }
}

/// Nobody reads further.
const MAX_FINDINGS: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_in_a_later_table_is_placed_there() {
        let table = |digit: &str| {
            format!(
                "[[admin.tokens]]\nname = \"ci\"\nscopes = [\"mint\"]\nsha256 = \"{}\"\n",
                digit.repeat(64)
            )
        };
        let text = format!("[listen]\nadmin = \"none\"\n{}\n{}", table("1"), table("2"));
        let parsed = parse(&text, "oneseal.toml");
        let entry = parsed.entries.iter().find(|entry| entry.key.path == "admin.tokens").expect("there");
        assert_eq!(entry.value.as_ref().expect_err("one name").code.name, "admin.token_name_taken");
        assert_eq!(entry.origin.place(entry.key), "admin.tokens (oneseal.toml:8)");
    }
}
