//! What must hold of a workload: texts byte for byte, numbers and booleans by their type, prefixes of texts. No
//! expression language: whoever reads a rule sees at once whom it lets in.

use std::fmt;

use serde_json::Value;

use super::fault::Fault;
use super::field::{Field, Found, Names, shown};
use crate::codes::RULE_MALFORMED;
use crate::workload::Facts;

/// One thing that a fact or claim may be.
///
/// Texts are compared byte for byte: no case is folded, no Unicode form normalised. A number is no text: `1` does not
/// match `"1"`. A list matches nothing, whatever is in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern(Kind);

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Exactly(Value),
    Prefix(String),
}

impl Pattern {
    /// This string, whole number or boolean.
    pub fn exactly(value: impl Into<Value>) -> Self {
        Self(Kind::Exactly(value.into()))
    }

    /// A text that begins so. `team-` takes `team-a` and `team-`; `team` would take `teamster` too.
    pub fn prefix(text: impl Into<String>) -> Self {
        Self(Kind::Prefix(text.into()))
    }

    fn matches(&self, found: &Found<'_>) -> bool {
        match (&self.0, found) {
            (Kind::Exactly(wanted), Found::Json(value)) => wanted == *value,
            (Kind::Exactly(wanted), Found::Text(text)) => wanted.as_str() == Some(*text),
            (Kind::Prefix(prefix), Found::Text(text)) => text.starts_with(prefix),
            (Kind::Prefix(prefix), Found::Json(value)) => {
                value.as_str().is_some_and(|text| text.starts_with(prefix))
            }
        }
    }

    /// Whether whatever matches `other` matches this.
    fn includes(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Kind::Prefix(prefix), Kind::Prefix(longer)) => longer.starts_with(prefix),
            (Kind::Prefix(prefix), Kind::Exactly(value)) => {
                value.as_str().is_some_and(|text| text.starts_with(prefix))
            }
            (Kind::Exactly(one), Kind::Exactly(another)) => one == another,
            (Kind::Exactly(_), Kind::Prefix(_)) => false,
        }
    }

    /// Why it can match nothing, or nothing but everything.
    fn fault(&self, field: &Field, names: Names) -> Option<String> {
        let words = match &self.0 {
            Kind::Prefix(prefix) if prefix.is_empty() => {
                "an empty prefix says nothing; leave the condition out"
            }
            Kind::Prefix(text) | Kind::Exactly(Value::String(text)) => {
                return ObjectName::of(field, names)?.fault(text, matches!(self.0, Kind::Prefix(_)));
            }
            Kind::Exactly(_) if matches!(field, Field::Named(_)) => {
                "every fact is a text, so this never matches; write it in quotes"
            }
            Kind::Exactly(Value::Bool(_)) => return None,
            Kind::Exactly(Value::Number(number)) if number.is_i64() || number.is_u64() => return None,
            Kind::Exactly(_) => "a condition is a string, a whole number, true or false",
        };
        Some(words.to_owned())
    }
}

impl From<&str> for Pattern {
    fn from(text: &str) -> Self {
        Self::exactly(text)
    }
}

impl From<String> for Pattern {
    fn from(text: String) -> Self {
        Self::exactly(text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Exactly(value) => write!(f, "{value}"),
            Kind::Prefix(prefix) => write!(f, "{}…", Value::from(prefix.as_str())),
        }
    }
}

/// A fact or claim must be one of these.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Condition {
    pub(crate) field: Field,
    any_of: Vec<Pattern>,
}

impl Condition {
    pub(crate) fn new(field: Field, any_of: Vec<Pattern>) -> Self {
        Self { field, any_of }
    }

    /// Each of which it never holds, or always does. `names` are those of the workloads it is asked of.
    pub(crate) fn faults(&self, names: Names) -> Vec<Fault> {
        let words = |words: String| Fault::new(&RULE_MALFORMED, words);
        if self.any_of.is_empty() {
            return vec![words("an empty list matches nothing; name what may stand there".to_owned())];
        }
        self.any_of.iter().filter_map(|pattern| pattern.fault(&self.field, names)).map(words).collect()
    }

    /// Whether it names all that may stand there, one by one.
    pub(crate) fn is_exact(&self) -> bool {
        self.any_of.iter().all(|pattern| matches!(pattern.0, Kind::Exactly(_)))
    }

    pub(crate) fn holds(&self, facts: &Facts) -> bool {
        let found = self.field.find(facts);
        found.is_some_and(|found| self.any_of.iter().any(|pattern| pattern.matches(&found)))
    }

    /// Whether this holds wherever `other` does.
    pub(crate) fn follows_from(&self, other: &Self) -> bool {
        let is_included = |pattern: &Pattern| self.any_of.iter().any(|own| own.includes(pattern));
        self.field == other.field && other.any_of.iter().all(is_included)
    }

    /// What may stand there, in words.
    pub(crate) fn wanted(&self) -> String {
        let shown =
            self.any_of.iter().take(MAX_TOLD).map(Pattern::to_string).collect::<Vec<_>>().join(" or ");
        if self.any_of.len() > MAX_TOLD { format!("{shown} or others") } else { shown }
    }
}

/// What an object of a cluster can be called (RFC 1123 labels, one or several with dots between them): whatever is no such
/// name nothing ever has.
struct ObjectName {
    kind: &'static str,
    is_dotted: bool,
}

impl ObjectName {
    fn of(field: &Field, names: Names) -> Option<Self> {
        let Field::Named(name) = field else { return None };
        let (kind, is_dotted) = match name.as_str() {
            "namespace" => ("namespace", false),
            "service_account" => ("service account", true),
            "pod" => ("pod", true),
            "node" => ("node", true),
            _ => return None,
        };
        (names == Names::CLUSTER).then_some(Self { kind, is_dotted })
    }

    fn fault(&self, text: &str, is_prefix: bool) -> Option<String> {
        if self.may_be(text, is_prefix) {
            return None;
        }
        let Self { kind, is_dotted } = self;
        let (verb, dots, most) = (
            if is_prefix { "begin with" } else { "be" },
            if *is_dotted { ", dots" } else { "" },
            self.most(),
        );
        let cure = match text.strip_suffix('*').filter(|_| !is_prefix) {
            Some(begin) if self.may_be(begin, true) => {
                format!(
                    "; no character is a wildcard: for all that begin so write {{ prefix = \"{begin}\" }}"
                )
            }
            _ => String::new(),
        };
        Some(format!(
            "no {kind}'s name can {verb} {}: it has at most {most} lower-case letters, digits{dots} and hyphens, and none \
             of the last two at its ends{cure}",
            shown(text)
        ))
    }

    fn may_be(&self, text: &str, is_prefix: bool) -> bool {
        let is_inner = |byte: u8| is_outer(byte) || byte == b'-' || (self.is_dotted && byte == b'.');
        let is_outer_at_end = text.bytes().next_back().is_some_and(|last| is_prefix || is_outer(last));
        text.len() <= self.most()
            && text.bytes().all(is_inner)
            && text.bytes().next().is_some_and(is_outer)
            && is_outer_at_end
    }

    fn most(&self) -> usize {
        if self.is_dotted { 253 } else { 63 }
    }
}

fn is_outer(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

const MAX_TOLD: usize = 5;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn condition(field: &str, any_of: Vec<Pattern>) -> Condition {
        Condition::new(Field::parse(field, Names::CLUSTER).expect(field), any_of)
    }

    fn claim(value: Value) -> Facts {
        Facts::default().with_claims(serde_json::Map::from_iter([("x".to_owned(), value)]))
    }

    #[test]
    fn a_text_matches_byte_for_byte_and_no_look_alike_does() {
        let holds = |wanted: Pattern, account: &str| {
            condition("service_account", vec![wanted]).holds(&Facts::new([("service_account", account)]))
        };
        assert!(holds("builder".into(), "builder"));
        for other in [
            "Builder",
            "builder ",
            " builder",
            "builder\0",
            "builder2",
            "build",
            "",
            "buìlder",
            "b\u{443}ilder",
            "builder\u{200b}",
            "ci:builder",
            "builder%",
        ] {
            assert!(!holds("builder".into(), other), "{other:?}");
        }
        assert!(!holds("caf\u{e9}".into(), "cafe\u{301}"), "Unicode forms stay different");
        assert!(holds(Pattern::prefix("team-"), "team-a") && holds(Pattern::prefix("team-"), "team-"));
        assert!(!holds(Pattern::prefix("team-"), "team") && !holds(Pattern::prefix("team-"), "Team-a"));
    }

    #[test]
    fn numbers_and_booleans_match_by_their_type() {
        let holds = |wanted: Pattern, value| condition("claims./x", vec![wanted]).holds(&claim(value));
        assert!(holds(Pattern::exactly(1), json!(1)) && holds(Pattern::exactly(true), json!(true)));
        assert!(holds("1".into(), json!("1")));
        for (wanted, value) in [
            (Pattern::exactly(1), json!("1")),
            (Pattern::exactly(1), json!(true)),
            (Pattern::exactly(1), json!(1.0)),
            (Pattern::exactly("1"), json!(1)),
            (Pattern::exactly("true"), json!(true)),
            (Pattern::exactly("a"), json!(["a"])),
            (Pattern::exactly("a"), json!({"a": "a"})),
            (Pattern::exactly("null"), json!(null)),
            (Pattern::prefix("a"), json!(["a"])),
            (Pattern::prefix("1"), json!(12)),
        ] {
            assert!(!holds(wanted.clone(), value.clone()), "{wanted} {value}");
        }
    }

    #[test]
    fn what_is_not_known_matches_nothing() {
        for wanted in [Pattern::exactly(""), Pattern::prefix("a")] {
            assert!(!condition("pod", vec![wanted.clone()]).holds(&Facts::default()));
            assert!(!condition("claims./y/z", vec![wanted]).holds(&claim(json!(1))));
        }
    }

    #[test]
    fn a_condition_that_never_or_always_holds_is_refused() {
        let refused = |field: &str, any_of| !condition(field, any_of).faults(Names::CLUSTER).is_empty();
        assert!(refused("namespace", Vec::new()));
        assert!(refused("namespace", vec![Pattern::prefix("")]));
        assert!(refused("namespace", vec![Pattern::exactly(1)]));
        for value in [json!(null), json!(1.5), json!([]), json!({})] {
            assert!(refused("claims./x", vec![Pattern::exactly(value)]));
        }
    }

    #[test]
    fn a_name_that_no_object_can_have_is_told_and_each_of_a_list() {
        let faults = |field: &str, any_of: Vec<Pattern>| {
            let faults = condition(field, any_of).faults(Names::CLUSTER);
            faults.into_iter().map(|fault| fault.message).collect::<Vec<_>>()
        };
        let prefix = Pattern::prefix;
        for (field, good) in [
            ("namespace", vec!["ci".into(), "1-a".into(), prefix("team-"), "a".repeat(63).into()]),
            ("service_account", vec!["ci.builder".into(), prefix("ci."), "a".repeat(253).into()]),
            ("node", vec!["ip-10-0-0-1.ec2.internal".into()]),
            ("pod_uid", vec!["whatever It is".into()]),
            ("claims./kubernetes.io/namespace", vec!["ci-*".into()]),
        ] {
            assert_eq!(faults(field, good), [] as [String; 0], "{field}");
        }
        for (field, bad) in [
            ("namespace", Pattern::exactly("")),
            ("namespace", "CI".into()),
            ("namespace", "ci ".into()),
            ("namespace", "-ci".into()),
            ("namespace", "ci-".into()),
            ("namespace", "ci.prod".into()),
            ("namespace", "caf\u{e9}".into()),
            ("namespace", "a".repeat(64).into()),
            ("namespace", prefix("Team")),
            ("namespace", prefix("-")),
            ("service_account", "ci:builder".into()),
            ("service_account", "builder.".into()),
            ("pod", "job_1".into()),
            ("node", prefix("node/")),
        ] {
            assert_eq!(faults(field, vec!["good".into(), bad.clone()]).len(), 1, "{field} {bad}");
        }
        let told = faults("namespace", vec!["ci-*".into(), "*".into()]);
        assert!(told[0].ends_with("write { prefix = \"ci-\" }"), "{told:?}");
        assert!(
            told[1].starts_with("no namespace's name can be `*`: ") && !told[1].contains("prefix"),
            "{told:?}"
        );
        let own = Condition::new(Field::parse("namespace", Names::Any).expect("any"), vec!["A*".into()]);
        assert!(own.faults(Names::Any).is_empty(), "an embedder's facts are what it says");
    }

    #[test]
    fn one_condition_follows_from_a_narrower_one() {
        let wide = condition("namespace", vec!["ci".into(), Pattern::prefix("team-")]);
        for (any_of, follows) in [
            (vec!["ci".into()], true),
            (vec!["team-a".into(), "ci".into()], true),
            (vec![Pattern::prefix("team-a")], true),
            (vec![Pattern::prefix("team")], false),
            (vec!["ci".into(), "prod".into()], false),
        ] {
            assert_eq!(wide.follows_from(&condition("namespace", any_of.clone())), follows, "{any_of:?}");
        }
        assert!(!wide.follows_from(&condition("pod", vec!["ci".into()])));
    }
}
