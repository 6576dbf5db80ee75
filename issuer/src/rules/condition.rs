//! What must hold of a workload: texts byte for byte, numbers and booleans by their type, prefixes of texts. No
//! expression language: whoever reads a rule sees at once whom it lets in.

use std::fmt;

use serde_json::Value;

use super::fault::Fault;
use super::field::{Field, Found};
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

    fn fault(&self, field: &Field) -> Option<&'static str> {
        match &self.0 {
            Kind::Prefix(prefix) if prefix.is_empty() => {
                Some("an empty prefix says nothing; leave the condition out")
            }
            Kind::Prefix(_) | Kind::Exactly(Value::String(_)) => None,
            Kind::Exactly(_) if matches!(field, Field::Named(_)) => {
                Some("every fact is a text, so this never matches; write it in quotes")
            }
            Kind::Exactly(Value::Bool(_)) => None,
            Kind::Exactly(Value::Number(number)) if number.is_i64() || number.is_u64() => None,
            Kind::Exactly(_) => Some("a condition is a string, a whole number, true or false"),
        }
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
    /// # Errors
    /// It never holds, or always does.
    pub(crate) fn new(field: Field, any_of: Vec<Pattern>) -> Result<Self, Fault> {
        if any_of.is_empty() {
            return Err(Fault::new(
                &RULE_MALFORMED,
                "an empty list matches nothing; name what may stand there",
            ));
        }
        match any_of.iter().find_map(|pattern| pattern.fault(&field)) {
            Some(words) => Err(Fault::new(&RULE_MALFORMED, words)),
            None => Ok(Self { field, any_of }),
        }
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

const MAX_TOLD: usize = 5;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::field::Names;
    use super::*;

    fn condition(field: &str, any_of: Vec<Pattern>) -> Condition {
        Condition::new(Field::parse(field, Names::CLUSTER).expect(field), any_of).expect("good")
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
        let refused = |field: &str, any_of| {
            Condition::new(Field::parse(field, Names::CLUSTER).expect(field), any_of).is_err()
        };
        assert!(refused("namespace", Vec::new()));
        assert!(refused("namespace", vec![Pattern::prefix("")]));
        assert!(refused("namespace", vec![Pattern::exactly(1)]));
        for value in [json!(null), json!(1.5), json!([]), json!({})] {
            assert!(refused("claims./x", vec![Pattern::exactly(value)]));
        }
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
