//! The table of refusals in docs/rotation.md, held against the code.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The codes of key verbs that stand in `text`, between these marks.
fn codes(text: &str, mark: char) -> BTreeSet<&str> {
    let is_code = |part: &&str| {
        part.strip_prefix("keys.").is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|letter| letter.is_ascii_lowercase() || letter == b'_')
        })
    };
    text.split(mark).filter(is_code).collect()
}

#[test]
fn each_code_of_a_key_verb_has_its_row_and_each_row_its_code() {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read =
        |path: &str| fs::read_to_string(home.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let files = ["src/steps/refusal.rs", "src/executor/error.rs", "src/executor/recover/decide.rs"];
    let sources = files.map(read);
    let of_verbs = read("../server/src/refusals.rs");
    // Key verbs want `--yes` as others do. The rest of that file is explained in docs/json/README.md.
    let (wants_yes, _) = of_verbs.split_once("pub(crate) const").unwrap();
    let sources = sources.iter().map(String::as_str).chain([wants_yes]);
    let given: BTreeSet<_> = sources.flat_map(|source| codes(source, '"')).collect();
    assert!(given.len() > 20, "{given:?}");
    let page = read("../docs/rotation.md");
    let table: String =
        page.lines().filter(|line| line.starts_with('|')).flat_map(|line| [line, "\n"]).collect();
    assert_eq!(given, codes(&table, '`'));
}
