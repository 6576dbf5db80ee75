//! How the process ends: one code for each kind of answer, and the failure that is printed with it.
//!
//! A failure has two forms with the same content: text on standard error for people, and under `--json` one object on
//! standard output, where the answer would have been.
//!
//! The codes are those of sysexits.h where it has one, so that a supervisor can tell "will never work" (78, 77) from
//! "try again" (69, 75) without reading text.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use oneseal::UnixTime;
use oneseal_keystore::Findings;
use oneseal_keystore::findings::{self, Severity, chain};
use serde_json::{Value, json};

use crate::refusals::{self, Noun};
use crate::{report, times};

/// What the exit code says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// 0: done.
    Done,
    /// 1: it was done, and the answer is no: a token that does not verify, a drill that failed.
    No,
    /// 64: the command line makes no sense.
    Usage,
    /// 69: a provider, a database or a server does not answer.
    Unavailable,
    /// 70: a fault in oneseal itself.
    Internal,
    /// 71: a socket could not be bound.
    CannotBind,
    /// 75: too early, or in conflict with somebody else; the same may work later.
    TryLater,
    /// 77: not permitted.
    Denied,
    /// 78: configuration or key refused.
    Refused,
    /// 128 + its number: a second signal cut the shutdown short, as a shell reports a process that a signal killed.
    Signal(u8),
}

impl Exit {
    /// The process's exit code.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::No => 1,
            Self::Usage => 64,
            Self::Unavailable => 69,
            Self::Internal => 70,
            Self::CannotBind => 71,
            Self::TryLater => 75,
            Self::Denied => 77,
            Self::Refused => 78,
            Self::Signal(number) => number.saturating_add(128),
        }
    }

    /// The name of a failure that has none of its own, in `error.code`: what it says is in its words alone.
    fn plain_code(self) -> &'static str {
        match self {
            Self::Done => "cli.done",
            Self::No => "cli.no",
            Self::Usage => "cli.usage",
            Self::Unavailable => "cli.unavailable",
            Self::Internal => "cli.internal",
            Self::CannotBind => "cli.cannot_bind",
            Self::TryLater => "cli.try_later",
            Self::Denied => "cli.denied",
            Self::Refused => "cli.refused",
            Self::Signal(_) => "cli.signal",
        }
    }

    /// One word for scripts, in `error.kind`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::No => "no",
            Self::Usage => "usage",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
            Self::CannotBind => "cannot_bind",
            Self::TryLater => "try_later",
            Self::Denied => "denied",
            Self::Refused => "refused",
            Self::Signal(_) => "signal",
        }
    }
}

impl From<findings::Exit> for Exit {
    fn from(exit: findings::Exit) -> Self {
        match exit {
            findings::Exit::Refused => Self::Refused,
            findings::Exit::Denied => Self::Denied,
            findings::Exit::Unavailable => Self::Unavailable,
            findings::Exit::CannotBind => Self::CannotBind,
            findings::Exit::TryLater => Self::TryLater,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The setting that costs most of a wait, and how many seconds of it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
pub(crate) struct Cost {
    /// Its key in the configuration, or the option that it came from.
    pub(crate) setting: String,
    /// Its share.
    pub(crate) seconds: u64,
}

/// What a refusal of a rule tells besides.
#[derive(Debug, Default)]
struct More {
    code: Option<String>,
    not_before: Option<UnixTime>,
    because: Option<Cost>,
}

/// Why a verb did not do what it was asked for: words for its user, and the code to end with.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    findings: Findings,
    hint: Option<String>,
    /// Boxed, since few have any of it and every result of a verb has room for a failure.
    more: Box<More>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// A failure that ends with `exit`. The message says what is wrong, where, and what to do.
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            findings: Findings::new(),
            hint: None,
            more: Box::default(),
            source: None,
        }
    }

    /// All that was found, with the exit code of the strongest.
    pub(crate) fn found(findings: Findings) -> Self {
        let exit = findings.exit().map_or(Exit::Refused, Exit::from);
        Self { findings, ..Self::new(exit, "refused") }
    }

    /// The command line makes no sense (64).
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// A fault of our own (70).
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Exit::Internal, message)
    }

    /// What cannot be undone was not confirmed (64): the message says what it would do.
    pub(crate) fn wants_yes(noun: Noun, message: impl Into<String>) -> Self {
        Self::usage(message).with_code(refusals::wants_yes(noun))
    }

    /// Something asked for is refused (78).
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(Exit::Refused, message)
    }

    /// With its cause, which is printed after it.
    #[must_use]
    pub(crate) fn because(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// With a line that says what else would do, printed last.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// With the time from which on the same may work.
    #[must_use]
    pub(crate) fn with_time(mut self, not_before: Option<UnixTime>) -> Self {
        self.more.not_before = not_before;
        self
    }

    /// With its name, dotted like those of findings, by which scripts know it and pages explain it.
    #[must_use]
    pub(crate) fn with_code(mut self, code: impl Into<String>) -> Self {
        self.more.code = Some(code.into());
        self
    }

    /// With the setting that costs most of the wait.
    #[must_use]
    pub(crate) fn with_cost(mut self, because: Option<Cost>) -> Self {
        self.more.because = because;
        self
    }

    /// Its own name; else that of the strongest finding, by which the process ends; else the one of its exit code.
    pub(crate) fn code(&self) -> &str {
        let of_finding = || {
            let is_error = |finding: &&findings::Finding| finding.code.severity == Severity::Error;
            let errors = self.findings.iter().filter(is_error);
            errors.min_by_key(|finding| finding.code.exit).map(|finding| finding.code.name)
        };
        self.more.code.as_deref().or_else(of_finding).unwrap_or(self.exit.plain_code())
    }

    /// From when on the same may work, if that is known.
    pub(crate) fn not_before(&self) -> Option<UnixTime> {
        self.more.not_before
    }

    /// How the process ends.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// For people: the name, if it has one, the message and every cause in one line, `name: what: why: why`, then the
    /// findings and the hint.
    pub(crate) fn in_full(&self) -> String {
        let mut text = chain(self);
        if let Some(code) = &self.more.code {
            text.insert_str(0, &format!("{code}: "));
        }
        if !self.findings.is_empty() {
            text.push('\n');
            text.push_str(report::human(&self.findings).trim_end());
        }
        if let Some(at) = self.more.not_before {
            text.push_str(&format!("\nIt may be done from {} on.", times::rfc3339(at)));
        }
        if let Some(hint) = &self.hint {
            text.push('\n');
            text.push_str(hint);
        }
        text
    }

    /// For scripts; `docs/json/error.schema.json` describes it.
    ///
    /// ```json
    /// {"ok": false, "exit": 78, "error": {"kind", "code", "message", "causes": [], "hint", "findings": []}}
    /// ```
    /// Where they are known, `error` has `not_before` and `because` besides.
    pub(crate) fn to_json(&self) -> Value {
        let mut causes = Vec::new();
        let mut cause = self.source();
        while let Some(error) = cause {
            causes.push(error.to_string());
            cause = error.source();
        }
        let mut error = json!({
            "kind": self.exit.word(),
            "code": self.code(),
            "message": self.message,
            "causes": causes,
            "hint": self.hint,
            "findings": report::list(&self.findings),
        });
        if let Some(at) = self.more.not_before {
            error["not_before"] = at.as_secs().into();
        }
        if let Some(Cost { setting, seconds }) = &self.more.because {
            error["because"] = json!({ "setting": setting, "seconds": seconds });
        }
        json!({ "ok": false, "exit": self.exit.code(), "error": error })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| source.as_ref() as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_are_those_of_the_design() {
        let codes = [
            (Exit::Done, 0),
            (Exit::No, 1),
            (Exit::Usage, 64),
            (Exit::Unavailable, 69),
            (Exit::Internal, 70),
            (Exit::CannotBind, 71),
            (Exit::TryLater, 75),
            (Exit::Denied, 77),
            (Exit::Refused, 78),
            (Exit::Signal(15), 143),
        ];
        for (exit, code) in codes {
            assert_eq!(exit.code(), code, "{exit:?}");
        }
    }

    #[test]
    fn a_finding_and_the_process_agree_on_every_code() {
        use findings::Exit::{CannotBind, Denied, Refused, TryLater, Unavailable};
        for exit in [Refused, Denied, Unavailable, CannotBind, TryLater] {
            assert_eq!(Exit::from(exit).code(), exit.code());
        }
    }

    #[test]
    fn both_forms_tell_the_same() {
        let mut findings = Findings::new();
        findings.push(&crate::codes::LISTEN_IN_USE, "listen.ops", "taken");
        let failure = Failure::found(findings).with_hint("Try another.");
        assert_eq!(failure.exit(), Exit::CannotBind);
        let (text, json) = (failure.in_full(), failure.to_json());
        assert!(text.starts_with("refused\nerror listen.in_use at listen.ops\n"), "{text}");
        assert!(text.ends_with("1 error\nTry another."), "{text}");
        assert_eq!((&json["ok"], &json["exit"]), (&false.into(), &71.into()));
        assert_eq!(json["error"]["kind"], "cannot_bind");
        assert_eq!(json["error"]["findings"][0]["code"], "listen.in_use");
        assert_eq!(json["error"]["hint"], "Try another.");
    }

    #[test]
    fn a_refusal_that_has_a_name_is_told_by_it_in_both_forms() {
        let cost = Cost { setting: "rotation.rp_propagation".to_owned(), seconds: 9 };
        let failure = Failure::new(Exit::TryLater, "wait")
            .with_code("keys.too_early")
            .with_cost(Some(cost))
            .with_time(Some(UnixTime(1_767_225_600)));
        assert_eq!(failure.in_full(), "keys.too_early: wait\nIt may be done from 2026-01-01T00:00:00Z on.");
        let error = &failure.to_json()["error"];
        assert_eq!((&error["code"], &error["not_before"]), (&json!("keys.too_early"), &json!(1_767_225_600)));
        assert_eq!(error["because"], json!({ "setting": "rotation.rp_propagation", "seconds": 9 }));
    }

    #[test]
    fn every_failure_has_a_name() {
        let mut findings = Findings::new();
        findings.push(&crate::codes::LISTEN_NO_IPV6, "listen.ops", "none");
        findings.push(&crate::codes::LISTEN_IN_USE, "listen.ops", "taken");
        let exits = [
            Exit::Done,
            Exit::No,
            Exit::Usage,
            Exit::Unavailable,
            Exit::Internal,
            Exit::CannotBind,
            Exit::TryLater,
            Exit::Denied,
            Exit::Refused,
            Exit::Signal(2),
        ];
        let all = exits.map(|exit| (Failure::new(exit, "x"), format!("cli.{}", exit.word()))).into_iter();
        for (failure, code) in all.chain([
            (Failure::usage("x"), "cli.usage".to_owned()),
            (Failure::internal("x"), "cli.internal".to_owned()),
            (Failure::refused("x"), "cli.refused".to_owned()),
            (Failure::found(findings.clone()), "listen.in_use".to_owned()),
            (Failure::found(findings).with_code("a.b"), "a.b".to_owned()),
            (Failure::found(Findings::new()), "cli.refused".to_owned()),
            (Failure::wants_yes(Noun::Keys, "x"), "keys.wants_yes".to_owned()),
        ]) {
            assert_eq!(failure.to_json()["error"]["code"], code);
        }
        assert_eq!(Failure::wants_yes(Noun::Db, "say --yes").in_full(), "db.wants_yes: say --yes");
        assert_eq!(Failure::usage("what?").in_full(), "what?", "the name would tell a person nothing");
    }

    #[test]
    fn causes_are_told_in_order() {
        let failure = Failure::new(Exit::Unavailable, "no answer").because(std::io::Error::other("refused"));
        assert_eq!(failure.in_full(), "no answer: refused");
        assert_eq!(failure.to_json()["error"]["causes"], json!(["refused"]));
    }
}
