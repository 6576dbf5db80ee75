//! What a rule writes, with what is known of the workload in it.
//!
//! ```text
//! template    = *( literal / "{{" / "}}" / "{" field "}" )
//! field       = NAME / "claims." JSON-POINTER          ; RFC 6901, without braces
//! ```
//! A value that stands beside other text is percent-encoded (RFC 3986 section 2.1) but for letters, digits and
//! `. _ ~ -`, and two values have a literal between them with at least one character that no encoded value can have.
//! So no value can end where another begins: two workloads have the same text only if all values in it are the same.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::fault::{Fault, Unwritable};
use super::field::{Field, Names, shown};
use crate::codes::{RULE_MALFORMED, RULE_TEMPLATE_AMBIGUOUS};
use crate::workload::Facts;

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    Value(Field),
}

impl Template {
    /// Reads `text`.
    ///
    /// # Errors
    /// It is none, names what is not known, or two values in it could not be told apart.
    pub(crate) fn parse(text: &str, names: Names) -> Result<Self, Fault> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let (brace, after) = (&rest[at..=at], &rest[at + 1..]);
            if let Some(twice) = after.strip_prefix(brace) {
                literal.push_str(brace);
                rest = twice;
                continue;
            }
            if brace == "}" {
                return Err(malformed("a } closes nothing; write }} for the character"));
            }
            let Some((field, after)) = after.split_once('}') else {
                return Err(malformed("a { is never closed; write {{ for the character"));
            };
            if field.contains('{') {
                return Err(malformed(&format!("{} holds a {{; close the one before it", shown(field))));
            }
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Value(Field::parse(field, names)?));
            rest = after;
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        let template = Self(parts);
        template.refuse_ambiguity()?;
        Ok(template)
    }

    fn refuse_ambiguity(&self) -> Result<(), Fault> {
        let mut before: Option<&Field> = None;
        let mut is_apart = true;
        for part in &self.0 {
            match (part, before) {
                (Part::Literal(text), _) => is_apart = text.chars().any(|letter| !may_be_in_a_value(letter)),
                (Part::Value(field), Some(before)) if !is_apart => {
                    let words = format!(
                        "between {{{before}}} and {{{field}}} stands nothing that neither of them can hold, so two \
                         workloads could get one text; put : or / between them"
                    );
                    return Err(Fault::new(&RULE_TEMPLATE_AMBIGUOUS, words));
                }
                (Part::Value(field), _) => (before, is_apart) = (Some(field), false),
            }
        }
        Ok(())
    }

    /// The text about a workload.
    ///
    /// # Errors
    /// A value is missing, empty or no text.
    pub(crate) fn write(&self, facts: &Facts) -> Result<String, Unwritable> {
        let mut out = String::new();
        for part in &self.0 {
            match part {
                Part::Literal(text) => out.push_str(text),
                Part::Value(field) => out.extend(utf8_percent_encode(&text_of(field, facts)?, ENCODED)),
            }
        }
        Ok(out)
    }

    /// The one value that it is, without any text around it.
    pub(crate) fn only_value(&self) -> Option<&Field> {
        match self.0.as_slice() {
            [Part::Value(field)] => Some(field),
            _ => None,
        }
    }

    /// The text that it is, if no value stands in it.
    pub(crate) fn only_literal(&self) -> Option<&str> {
        match self.0.as_slice() {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Its text without the values.
    pub(crate) fn literals(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Literal(text) => Some(text.as_str()),
            Part::Value(_) => None,
        })
    }

    /// The values that stand in it.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Field> {
        self.0.iter().filter_map(|part| match part {
            Part::Literal(_) => None,
            Part::Value(field) => Some(field),
        })
    }

    /// Whether the fact of this name stands in it.
    pub(crate) fn names(&self, name: &str) -> bool {
        self.values().any(|field| field.is_named(name))
    }
}

fn text_of(field: &Field, facts: &Facts) -> Result<String, Unwritable> {
    let found = field.find(facts).ok_or_else(|| Unwritable::Missing(field.to_string()))?;
    let text = found.text().ok_or_else(|| Unwritable::NotText(field.to_string()))?;
    if text.is_empty() { Err(Unwritable::Empty(field.to_string())) } else { Ok(text) }
}

fn malformed(words: &str) -> Fault {
    Fault::new(&RULE_MALFORMED, words)
}

/// Whether an encoded value may hold it: the unreserved characters of RFC 3986 section 2.3, and what encodes the rest.
fn may_be_in_a_value(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_' | '~' | '-' | '%')
}

const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'.').remove(b'_').remove(b'~').remove(b'-');

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Map, Value, json};

    use super::*;

    fn parse(text: &str) -> Template {
        Template::parse(text, Names::CLUSTER).unwrap_or_else(|fault| panic!("{text}: {}", fault.message))
    }

    fn facts() -> Facts {
        let claims = json!({"team": "a/b:c", "run": 7, "ok": true, "list": ["x"], "none": null, "empty": "", "f": 1.5});
        Facts::new([("namespace", "ci"), ("service_account", "b{0}%"), ("pod", "")])
            .with_claims(claims.as_object().expect("an object").clone())
    }

    #[test]
    fn values_are_encoded_and_literals_are_not() {
        for (template, text) in [
            ("k8s:{namespace}:{service_account}", "k8s:ci:b%7B0%7D%25"),
            ("{claims./team}", "a%2Fb%3Ac"),
            ("é {{{namespace}}} %41", "é {ci} %41"),
            ("{claims./run}/{claims./ok}", "7/true"),
            ("fixed", "fixed"),
            ("", ""),
        ] {
            assert_eq!(parse(template).write(&facts()).as_deref(), Ok(text), "{template}");
        }
    }

    #[test]
    fn what_cannot_be_written_is_named_and_its_value_is_not() {
        for (template, words) in [
            ("x:{node}", "`{node}` is not known of this workload"),
            ("x:{claims./no/such}", "`{claims./no/such}` is not known of this workload"),
            ("x:{claims./team/0}", "`{claims./team/0}` is not known of this workload"),
            ("x:{claims./list}", "`{claims./list}` is no string, whole number or boolean"),
            ("x:{claims./none}", "`{claims./none}` is no string, whole number or boolean"),
            ("x:{claims./f}", "`{claims./f}` is no string, whole number or boolean"),
            ("x:{claims./empty}", "`{claims./empty}` is empty"),
            ("x:{pod}", "`{pod}` is empty"),
        ] {
            assert_eq!(parse(template).write(&facts()).expect_err(template).to_string(), words);
        }
    }

    #[test]
    fn a_template_that_is_none_is_refused() {
        for (text, words) in [
            ("{namespace", "never closed"),
            ("namespace}", "closes nothing"),
            ("{namespace}}", "closes nothing"),
            ("{{namespace}", "closes nothing"),
            ("{", "never closed"),
            ("{}", "`` is not known"),
            ("{ namespace }", "did you mean namespace?"),
            ("{name{space}", "holds a {"),
            ("{Namespace}", "did you mean namespace?"),
            ("{subject}", "is not known of these workloads"),
            ("{claims.team}", "begins with /"),
        ] {
            let fault = Template::parse(text, Names::CLUSTER).expect_err(text);
            assert!(fault.message.contains(words), "{text}: {}", fault.message);
        }
    }

    #[test]
    fn two_values_need_something_between_them_that_neither_can_hold() {
        for text in [
            "{namespace}{pod}",
            "{namespace}-{pod}",
            "a:{namespace}.x_~%2F{pod}:b",
            "{namespace}:{pod}--{node}",
        ] {
            let fault = Template::parse(text, Names::CLUSTER).expect_err(text);
            assert_eq!(fault.code.name, "rule.template_ambiguous", "{text}");
        }
        for text in [
            "{namespace}:{pod}",
            "{namespace}-/-{pod}",
            "{namespace}{{{pod}",
            "{namespace} {pod}",
            "{namespace}é{pod}",
        ] {
            parse(text);
        }
    }

    fn value() -> impl Strategy<Value = String> {
        prop_oneof!["[a-c:/%.{}~-]{1,6}", "\\PC{1,6}", "(%[0-9A-F]{2}|:){1,3}"]
    }

    /// What stands between two values: anything with one character that no value can hold.
    fn between() -> impl Strategy<Value = String> {
        ("[a-z.%-]{0,2}", "[:/@ é]", "[a-z.:%-]{0,2}")
            .prop_map(|(before, apart, after)| before + &apart + &after)
    }

    proptest! {
        #[test]
        fn two_workloads_have_one_text_only_if_all_values_in_it_are_the_same(
            literals in proptest::collection::vec(between(), 4),
            one in proptest::collection::vec(value(), 3),
            another in proptest::collection::vec(value(), 3),
        ) {
            let [a, b, c, d] = literals.try_into().expect("four");
            let template = parse(&format!("{a}{{claims./0}}{b}{{claims./1}}{c}{{claims./2}}{d}"));
            let write = |values: &[String]| {
                let claims = values.iter().enumerate().map(|(at, value)| (at.to_string(), Value::from(value.as_str())));
                template.write(&Facts::default().with_claims(claims.collect::<Map<_, _>>())).expect("texts")
            };
            prop_assert_eq!(write(&one) == write(&another), one == another);
        }
    }
}
