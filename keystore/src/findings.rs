//! What the boot gate found: every fault at once, each with a code, a place, words and a cure.
//!
//! A [`Code`] is a row of a table and is declared once, as a `static`, beside the code that finds it. Each crate
//! lists its own in a `CODES` slice; the server renders all of them as `docs/findings.md`.

use std::fmt;

/// A kind of finding: what stays the same whenever it occurs.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// Dotted name, such as `provider.not_found`. Public: scripts match on it, runbooks anchor to it.
    pub name: &'static str,
    /// How bad.
    pub severity: Severity,
    /// Which exit code an error of this kind asks for. Meaningless for warnings.
    pub exit: Exit,
    /// What it means, one sentence.
    pub meaning: &'static str,
    /// What to do about it.
    pub cure: &'static str,
}

impl Code {
    /// An error that exits with 78.
    pub const fn refused(name: &'static str, meaning: &'static str, cure: &'static str) -> Self {
        Self::error(name, Exit::Refused, meaning, cure)
    }

    /// An error that exits as `exit` says.
    pub const fn error(name: &'static str, exit: Exit, meaning: &'static str, cure: &'static str) -> Self {
        Self { name, severity: Severity::Error, exit, meaning, cure }
    }

    /// A warning.
    pub const fn warning(name: &'static str, meaning: &'static str, cure: &'static str) -> Self {
        Self { name, severity: Severity::Warning, exit: Exit::Refused, meaning, cure }
    }

    /// A remark.
    pub const fn info(name: &'static str, meaning: &'static str, cure: &'static str) -> Self {
        Self { name, severity: Severity::Info, exit: Exit::Refused, meaning, cure }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Works, but will bite.
    Warning,
    /// The process must not start.
    Error,
}

impl Severity {
    /// The word in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// Exit codes of a refusal to boot (sysexits.h where it has one), strongest first: of several faults the first in
/// this order decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exit {
    /// 78: configuration or key refused, not found, ephemeral.
    Refused,
    /// 77: the provider or the file's permissions say no.
    Denied,
    /// 69: provider or database unavailable.
    Unavailable,
    /// 71: cannot bind a socket.
    CannotBind,
    /// 75: too early or in conflict; try later.
    TryLater,
}

impl Exit {
    /// The process exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Refused => 78,
            Self::Denied => 77,
            Self::Unavailable => 69,
            Self::CannotBind => 71,
            Self::TryLater => 75,
        }
    }
}

/// One finding.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Its kind.
    pub code: &'static Code,
    /// Where: a configuration key, an entry of a provider, a URL.
    pub place: String,
    /// What was found there. Holds no secret.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, place, message } = self;
        write!(f, "{} {}", code.severity.as_str(), code.name)?;
        if !place.is_empty() {
            write!(f, " at {place}")?;
        }
        writeln!(f)?;
        writeln!(f, "  {message}")?;
        write!(f, "  cure: {}", code.cure)
    }
}

/// All that was found, in the order of finding.
#[derive(Clone, Debug, Default)]
pub struct Findings(Vec<Finding>);

impl Findings {
    /// Nothing found.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, code: &'static Code, place: impl Into<String>, message: impl Into<String>) {
        self.0.push(Finding { code, place: place.into(), message: message.into() });
    }

    /// Adds all of `other`.
    pub fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Drops those of `code` where something else forbids to boot: a remark on how it will run helps nobody then.
    pub fn drop_if_refused(&mut self, code: &str) {
        if self.has_errors() {
            self.0.retain(|finding| finding.code.name != code);
        }
    }

    /// Each finding.
    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.0.iter()
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether a finding of this code is among them.
    pub fn contains(&self, code: &Code) -> bool {
        self.iter().any(|finding| finding.code.name == code.name)
    }

    /// Whether one of them forbids to boot.
    pub fn has_errors(&self) -> bool {
        self.exit().is_some()
    }

    /// The exit code that the errors among them ask for; `None` if there are only warnings.
    pub fn exit(&self) -> Option<Exit> {
        self.iter()
            .filter(|finding| finding.code.severity == Severity::Error)
            .map(|finding| finding.code.exit)
            .min()
    }
}

/// The text that `oneseal check` prints: one block a finding, worst last where a terminal shows the end.
impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<_> = self.iter().collect();
        sorted.sort_by_key(|finding| finding.code.severity);
        for (i, finding) in sorted.into_iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{finding}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Findings {}

/// An error and every cause, in one line: `what: why: why`. An error's own text speaks for itself alone, so this is
/// what a log or a finding shows, once. Some tell their cause in their own text, and some pass on that of another: no
/// part of the line is said twice.
pub fn chain(error: &dyn std::error::Error) -> String {
    chain_after(error.to_string(), error.source())
}

/// As [`chain`], where the words of the first are others than its own.
pub fn chain_after(words: impl Into<String>, mut cause: Option<&dyn std::error::Error>) -> String {
    let mut text = words.into();
    while let Some(error) = cause {
        let told = error.to_string();
        if !is_told(&text, &told) {
            for part in told.split(": ").filter(|part| !is_told(&text, part)).collect::<Vec<_>>() {
                text.push_str(": ");
                text.push_str(part);
            }
        }
        cause = error.source();
    }
    text
}

/// Whether `part` stands in `text` as a part of its own, or is how it ends.
fn is_told(text: &str, part: &str) -> bool {
    text.match_indices(part).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + part.len()..]);
        let is_whole = before.is_empty()
            || before.ends_with([':', ';'])
            || before.ends_with(": ")
            || before.ends_with("; ");
        match after.chars().next() {
            None => is_whole || before.ends_with(' '),
            Some(next) => is_whole && matches!(next, ':' | ';'),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    static WARN: Code =
        Code { name: "t.w", severity: Severity::Warning, exit: Exit::Refused, meaning: "", cure: "" };
    static DENIED: Code =
        Code { name: "t.d", severity: Severity::Error, exit: Exit::Denied, meaning: "", cure: "" };
    static REFUSED: Code =
        Code { name: "t.r", severity: Severity::Error, exit: Exit::Refused, meaning: "", cure: "ask" };

    #[test]
    fn the_strongest_exit_wins_and_warnings_have_none() {
        let mut findings = Findings::new();
        findings.push(&WARN, "here", "odd");
        assert_eq!(findings.exit(), None);
        findings.push(&DENIED, "here", "no");
        findings.push(&REFUSED, "there", "bad");
        assert_eq!(findings.exit().map(Exit::code), Some(78));
    }

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Link {
        text: &'static str,
        source: Option<Box<Self>>,
    }

    fn link(text: &'static str, source: Option<Link>) -> Link {
        Link { text, source: source.map(Box::new) }
    }

    #[test]
    fn a_chain_tells_every_cause_once() {
        assert_eq!(chain(&link("a", Some(link("b", Some(link("c", None)))))), "a: b: c");
        assert_eq!(chain(&link("x", Some(link("x", None)))), "x");
        assert_eq!(chain(&link("a: b", Some(link("b", Some(link("c", None)))))), "a: b: c");
        assert_eq!(chain(&link("a: b: c", Some(link("b: c", Some(link("c", None)))))), "a: b: c");
        assert_eq!(
            chain(&link("no: db down: refused", Some(link("db down: refused", None)))),
            "no: db down: refused"
        );
        assert_eq!(chain(&link("db down: refused", Some(link("io: refused", None)))), "db down: refused: io");
        assert_eq!(chain(&link("ab", Some(link("b", None)))), "ab: b", "a piece of a word is not the word");
        assert_eq!(chain(&link("of a; b", Some(link("b", None)))), "of a; b");
        let cause = link("db down: refused", Some(link("refused", None)));
        assert_eq!(chain_after("db down: refused", Some(&cause)), "db down: refused");
    }

    #[test]
    fn text_has_code_place_words_and_cure_with_errors_last() {
        let mut findings = Findings::new();
        findings.push(&REFUSED, "there", "bad");
        findings.push(&WARN, "here", "odd");
        assert_eq!(
            findings.to_string(),
            "warning t.w at here\n  odd\n  cure: \nerror t.r at there\n  bad\n  cure: ask"
        );
    }
}
