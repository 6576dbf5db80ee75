//! docs/relying-parties.md: its tables are made from the golden files and from the table of the libraries.
//!
//! `TEST_BLESS=1` writes them anew between their marks; everything else on the page is written by hand.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::libraries::{LIBRARIES, Late, Library, Notices};
use crate::matrix::{UNCONFIGURED, golden};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/relying-parties.md");

#[test]
fn the_page_tells_what_the_golden_files_tell() {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let mut wanted = page.clone();
    let tables =
        [("verdicts", verdicts()), ("notices", notices()), ("later", later()), ("removals", removals())];
    for (name, table) in tables {
        wanted = with_table(&wanted, name, &table);
    }
    if std::env::var_os("TEST_BLESS").is_some() {
        std::fs::write(PAGE, &wanted).unwrap();
    } else {
        assert!(page == wanted, "TEST_BLESS=1 writes the tables of docs/relying-parties.md anew");
    }
    for library in LIBRARIES {
        let told = format!("{} {}", library.title, library.locked_version());
        assert!(page.contains(&told), "the page names {told}");
    }
}

fn with_table(page: &str, name: &str, table: &str) -> String {
    let (begin, end) = (format!("<!-- {name}: made by a test -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = page.split_once(&begin).unwrap_or_else(|| panic!("the page has no mark {begin}"));
    let (_, after) = rest.split_once(&end).unwrap_or_else(|| panic!("the page has no mark {end}"));
    format!("{before}{begin}\n{table}\n{end}{after}")
}

/// Cases down, libraries across.
fn verdicts() -> String {
    let columns: Vec<_> = LIBRARIES.iter().map(column).collect();
    let mut cases: Vec<&String> = Vec::new();
    for case in columns.iter().flat_map(|(order, _)| order) {
        if !cases.contains(&case) {
            cases.push(case);
        }
    }
    let names: Vec<_> = LIBRARIES.iter().map(|library| library.name).collect();
    let mut text = format!("| case | {} |\n|---|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for case in cases {
        let cells: Vec<_> = columns.iter().map(|(_, cells)| cells[case].as_str()).collect();
        let _ = writeln!(text, "| {case} | {} |", cells.join(" | "));
    }
    text
}

/// The cases of a golden file in their order, and what it tells of each.
fn column(library: &Library) -> (Vec<String>, BTreeMap<String, String>) {
    let text = std::fs::read_to_string(golden(library)).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| ")).skip(1);
    let mut order = Vec::new();
    let mut found: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [case, algorithms, verdict, _] = cells[..] else { panic!("{}: {row}", library.name) };
        // Without the reason, which the golden file and the notes below the table give.
        let mut verdict = verdict.split(' ').next().unwrap().to_owned();
        let (case, is_unconfigured) =
            case.strip_suffix(UNCONFIGURED).map_or((case, false), |case| (case, true));
        if !order.contains(&case.to_owned()) {
            order.push(case.to_owned());
        }
        let told = found.entry(case.to_owned()).or_default();
        if is_unconfigured {
            // Another name for the same verdict is of no interest here.
            if told.iter().any(|(_, known)| *known == verdict) {
                continue;
            }
            verdict = format!("{verdict}{UNCONFIGURED}");
        }
        match told.iter_mut().find(|(_, known)| *known == verdict) {
            Some((known, _)) => *known = format!("{known} {algorithms}"),
            None => told.push((algorithms.to_owned(), verdict)),
        }
    }
    let cells = found.into_iter().map(|(case, told)| (case, cell(&told))).collect();
    (order, cells)
}

fn cell(told: &[(String, String)]) -> String {
    match told {
        [(_, verdict)] => verdict.clone(),
        several => {
            let parts = several.iter().map(|(algorithms, verdict)| format!("{verdict}: {algorithms}"));
            parts.collect::<Vec<_>>().join("; ")
        }
    }
}

/// What each library notices, which the tests hold it to.
fn notices() -> String {
    let mut text = "| library | a new key's first token | fetches caused by 20 unknown kids | because |\n|---|---|---|---|\n".to_owned();
    for library in LIBRARIES {
        let when = match library.notices {
            Notices::AtOnce => "accepted".to_owned(),
            Notices::Within(bound_s) => {
                format!("refused for up to {bound_s} s after the last fetch, then accepted")
            }
        };
        let fetches = match library.fetches_under_attack {
            20 => "20".to_owned(),
            most => format!("at most {most}"),
        };
        let _ = writeln!(text, "| {} | {when} | {fetches} | {} |", library.name, library.because);
    }
    text
}

/// What each library takes of an algorithm that comes later.
fn later() -> String {
    let mut text =
        "| library | listed before | listed since | it has its algorithms from |\n|---|---|---|---|\n"
            .to_owned();
    let verdict = |late| match late {
        Late::Taken => "accepted",
        Late::Refused(_) => "refused until it is made anew",
    };
    for library in LIBRARIES {
        let later = library.later;
        let (before, since) = (verdict(later.listed_before), verdict(later.listed_since));
        let _ = writeln!(text, "| {} | {before} | {since} | {} |", library.name, later.because);
    }
    text
}

/// How long each library trusts a key that is gone.
fn removals() -> String {
    let mut text = "| library | a removed key's tokens are refused |\n|---|---|\n".to_owned();
    for library in LIBRARIES {
        let when = library.trusts_removed_for_s.map_or_else(
            || "when something else makes it fetch; not within 660 s".to_owned(),
            |life_s| format!("{life_s} s after its last fetch"),
        );
        let _ = writeln!(text, "| {} | {when} |", library.name);
    }
    text
}
