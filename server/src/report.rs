//! Findings as their reader gets them: text for people, JSON for scripts, and the page that explains each.

use oneseal_keystore::findings::{Code, Severity};
use oneseal_keystore::{Finding, Findings};
use serde_json::{Value, json};

use crate::codes;

/// One block a finding, the worst last, where a terminal shows the end; with a line that counts them.
pub(crate) fn human(findings: &Findings) -> String {
    let mut sorted: Vec<_> = findings.iter().collect();
    sorted.sort_by_key(|finding| finding.code.severity);
    let blocks: Vec<_> =
        sorted.into_iter().map(|finding| format!("{finding}\n  see: {}\n", see(finding.code))).collect();
    format!("{}{}\n", blocks.concat(), summary(findings))
}

/// The same for scripts.
///
/// ```json
/// {"ok": false, "exit": 78, "findings": [{"severity", "code", "place", "message", "cure", "see"}]}
/// ```
pub(crate) fn json(findings: &Findings, exit: u8) -> Value {
    json!({ "ok": exit == 0, "exit": exit, "findings": list(findings) })
}

/// Each finding as an object, in the order of finding.
pub(crate) fn list(findings: &Findings) -> Vec<Value> {
    findings.iter().map(finding_json).collect()
}

/// The table of all codes for programs, in the order of the page.
///
/// ```json
/// {"ok": true, "exit": 0, "codes": [{"code", "severity", "exit", "meaning", "cure", "see"}]}
/// ```
/// `exit` is `null` for what does not keep the process from starting.
pub(crate) fn codes_json() -> Value {
    let list: Vec<_> = sorted_codes().into_iter().map(code_json).collect();
    json!({ "ok": true, "exit": 0, "codes": list })
}

/// Where a code is explained.
pub(crate) fn see(code: &Code) -> String {
    format!("{PAGE}#{}", anchor(code))
}

/// The page of all codes: `docs/findings.md`.
pub(crate) fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    for code in sorted_codes() {
        let exit = exit_of(code).map_or_else(
            || "does not keep the process from starting".to_owned(),
            |exit| format!("exit code {exit}"),
        );
        let (name, severity, meaning) = (code.name, code.severity.as_str(), code.meaning);
        page.push_str(&format!(
            "\n<a id=\"{}\"></a>\n## `{name}`\n\n{severity}, {exit}.\n\n{meaning}\n\n**Cure.** {}\n",
            anchor(code),
            code.cure
        ));
    }
    page
}

fn sorted_codes() -> Vec<&'static Code> {
    let mut codes = codes::all();
    codes.sort_by_key(|code| code.name);
    codes
}

fn code_json(code: &Code) -> Value {
    json!({
        "code": code.name,
        "severity": code.severity.as_str(),
        "exit": exit_of(code),
        "meaning": code.meaning,
        "cure": code.cure,
        "see": see(code),
    })
}

/// The exit code that a finding of this kind asks for.
fn exit_of(code: &Code) -> Option<u8> {
    (code.severity == Severity::Error).then(|| code.exit.code())
}

fn finding_json(finding: &Finding) -> Value {
    let Finding { code, place, message } = finding;
    json!({
        "severity": code.severity.as_str(),
        "code": code.name,
        "place": place,
        "message": message,
        "cure": code.cure,
        "see": see(code),
    })
}

fn summary(findings: &Findings) -> String {
    let count = |severity| findings.iter().filter(|finding| finding.code.severity == severity).count();
    let parts: Vec<_> =
        [(Severity::Error, "error"), (Severity::Warning, "warning"), (Severity::Info, "remark")]
            .into_iter()
            .map(|(severity, word)| (count(severity), word))
            .filter(|(count, _)| *count > 0)
            .map(|(count, word)| format!("{count} {word}{}", if count == 1 { "" } else { "s" }))
            .collect();
    if parts.is_empty() { "nothing to remark".to_owned() } else { parts.join(", ") }
}

/// GitHub would drop the dot from a heading's own anchor, and a runbook's link must never change.
fn anchor(code: &Code) -> String {
    code.name.replace('.', "-")
}

const PAGE: &str = "docs/findings.md";

const INTRODUCTION: &str = "\
# Findings

What `oneseal check` and the start of `oneseal serve` can report. An *error* keeps the process from starting; of
several the strongest exit code decides: 78 before 77 before 69 before 71 before 75. `oneseal check --strict` takes
warnings for errors (78). This page is made from the table in the program.
";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::codes::LISTEN_NO_IPV6;

    #[test]
    fn the_page_in_the_repository_is_the_table_of_the_program() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/findings.md");
        if std::env::var_os("TEST_BLESS").is_some() {
            std::fs::write(&path, page()).expect("docs/ can be written");
        }
        let written = std::fs::read_to_string(&path).expect("docs/findings.md");
        assert!(written == page(), "docs/findings.md is out of date: run the tests once with TEST_BLESS=1");
    }

    #[test]
    fn every_code_has_an_anchor_of_its_own_and_whole_words() {
        let mut anchors = std::collections::BTreeSet::new();
        for code in codes::all() {
            assert!(anchors.insert(anchor(code)), "{} stands there twice", code.name);
            assert!(
                code.name.split_once('.').is_some_and(|(a, b)| !a.is_empty() && !b.is_empty()),
                "{}",
                code.name
            );
            assert!(code.meaning.ends_with('.'), "{}: a meaning is a sentence", code.name);
            assert!(!code.cure.is_empty(), "{}", code.name);
        }
    }

    #[test]
    fn the_report_names_code_place_words_cure_and_page() {
        let mut findings = Findings::new();
        assert_eq!(human(&findings), "nothing to remark\n");
        findings.push(&LISTEN_NO_IPV6, "listen.ops", "no such address family");
        let text = human(&findings);
        for part in
            ["warning listen.no_ipv6 at listen.ops", "see: docs/findings.md#listen-no_ipv6", "1 warning\n"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let json = json(&findings, 0);
        assert_eq!(json["findings"][0]["see"], "docs/findings.md#listen-no_ipv6");
        assert_eq!(json["ok"], true);
    }
}
