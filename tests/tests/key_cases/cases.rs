//! The table of cases: `tests/vectors/keys/expected.tsv` and the files that it names.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// One row: an input and what is said to it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// The file, below `tests/vectors/keys` or (`keystore/…`) below the keystore's vectors; behind a `#` the pointer of
    /// the JSON member that is the input.
    pub(crate) name: String,
    /// Given with it; empty if none is.
    pub(crate) passphrase: String,
    /// The thumbprint of the key that is taken, or the code of the refusal.
    pub(crate) verdict: String,
    /// What the name does not tell.
    pub(crate) why: String,
}

impl Case {
    /// The bytes that a provider is given.
    pub(crate) fn value(&self) -> Vec<u8> {
        let (file, pointer) = self.name.split_once('#').unwrap_or((&self.name, ""));
        let bytes = read(&path(file));
        if pointer.is_empty() {
            return bytes;
        }
        let document: Value =
            serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{file}: {error}"));
        let member = document.pointer(pointer).unwrap_or_else(|| panic!("{}: no such member", self.name));
        member.to_string().into_bytes()
    }

    /// Whether a key is taken.
    pub(crate) fn is_accepted(&self) -> bool {
        !self.verdict.contains('.')
    }
}

/// Every row, in the order of the file.
pub(crate) fn all() -> Vec<Case> {
    let text = fs::read_to_string(table()).expect("the table of cases");
    text.lines().skip(1).map(row).collect()
}

/// Writes the table anew, with these verdicts.
pub(crate) fn bless(cases: &[Case]) {
    let rows = cases.iter().map(|case| {
        let Case { name, passphrase, verdict, why } = case;
        format!("{name}\t{passphrase}\t{verdict}\t{why}\n")
    });
    fs::write(table(), rows.fold(format!("{HEADER}\n"), |text, row| text + &row)).expect("a writable table");
}

/// Adds a row for each file that has none.
pub(crate) fn add_missing(cases: &mut Vec<Case>) {
    let named: BTreeSet<_> = cases.iter().map(|case| case.name.clone()).collect();
    let row = |name: &String| Case {
        name: name.clone(),
        passphrase: String::new(),
        verdict: String::new(),
        why: String::new(),
    };
    cases.extend(files().difference(&named).map(row));
    cases.sort_by(|one, other| (&one.name, &one.passphrase).cmp(&(&other.name, &other.passphrase)));
}

/// Every file that should be in the table, as it is named there.
pub(crate) fn files() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    collect(&own(), "", &mut names);
    for folder in ["keys", "mangled-keys", "weak"] {
        collect(&keystore().join(folder), &format!("keystore/{folder}/"), &mut names);
    }
    names
}

/// A JSON document beside the cases, by which its source gives its own verdicts.
pub(crate) fn document(file: &str) -> Value {
    serde_json::from_slice(&read(&path(file))).expect("JSON")
}

fn row(line: &str) -> Case {
    let mut columns = line.split('\t').map(str::to_owned);
    let mut column = || columns.next().unwrap_or_else(|| panic!("four columns in: {line}"));
    Case { name: column(), passphrase: column(), verdict: column(), why: column() }
}

fn collect(folder: &Path, prefix: &str, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a folder of cases") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().into_string().expect("a name in UTF-8");
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{prefix}{name}/"), names);
        } else if !is_about_cases(&name) {
            names.insert(format!("{prefix}{name}"));
        }
    }
}

/// Sources and licences, passwords, and our own tables: what is no case itself.
fn is_about_cases(name: &str) -> bool {
    let known = ["SOURCE.md", "expected.tsv", "cases.json", "weak-keys.json"];
    known.contains(&name) || name.contains("LICENSE") || (name.starts_with("pass") && name.ends_with(".txt"))
}

fn path(file: &str) -> PathBuf {
    match file.strip_prefix("keystore/") {
        Some(file) => keystore().join(file),
        None => own().join(file),
    }
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn table() -> PathBuf {
    own().join("expected.tsv")
}

fn own() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/keys")
}

fn keystore() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../keystore/tests/vectors")
}

const HEADER: &str = "file\tpassphrase\tverdict\twhy";
