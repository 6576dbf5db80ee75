//! What a rule can ask and write: a fact by its name, or a claim by where it stands in the token.

use std::fmt;

use serde_json::Value;

use super::fault::Fault;
use crate::codes::{RULE_MALFORMED, RULE_UNKNOWN_NAME};
use crate::workload::Facts;

/// `namespace`, or `claims./kubernetes.io/node/name`: a JSON pointer (RFC 6901) into the claims of the token that
/// proved the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// By its name.
    Named(String),
    /// The members on the way, outermost first, unescaped; at least one.
    Claim(Vec<String>),
}

/// Which names there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// Those that a proof of this crate gives.
    Of(&'static [&'static str]),
    /// Whatever the embedder's own proof gives.
    Any,
}

impl Names {
    /// Of a service account's token.
    pub(crate) const CLUSTER: Self = Self::Of(Facts::NAMES.split_at(CLUSTER_NAMES).0);
    /// Of an assertion.
    pub(crate) const ASSERTION: Self = Self::Of(Facts::NAMES.split_at(CLUSTER_NAMES).1);
}

impl Field {
    /// Reads `text` as it stands in a rule.
    ///
    /// # Errors
    /// No such name, or no pointer.
    pub(crate) fn parse(text: &str, names: Names) -> Result<Self, Fault> {
        if let Some(pointer) = text.strip_prefix(CLAIMS) {
            return Self::claim(text, pointer);
        }
        match names {
            Names::Any if !text.is_empty() => Ok(Self::Named(text.to_owned())),
            Names::Of(known) if known.contains(&text) => Ok(Self::Named(text.to_owned())),
            Names::Any | Names::Of(_) => Err(unknown(text, names)),
        }
    }

    fn claim(text: &str, pointer: &str) -> Result<Self, Fault> {
        let way = pointer.strip_prefix('/').ok_or_else(|| {
            let words =
                format!("{} is no claim: a JSON pointer begins with /, as in claims./team", shown(text));
            Fault::new(&RULE_MALFORMED, words)
        })?;
        let way: Option<Vec<_>> = way.split('/').map(unescaped).collect();
        way.map(Self::Claim).ok_or_else(|| {
            let words = format!("in {} a ~ is neither ~0 (a ~) nor ~1 (a /)", shown(text));
            Fault::new(&RULE_MALFORMED, words)
        })
    }

    /// What is known there.
    pub(crate) fn find<'a>(&self, facts: &'a Facts) -> Option<Found<'a>> {
        match self {
            Self::Named(name) => facts.named(name).map(Found::Text),
            Self::Claim(way) => {
                let (first, rest) = way.split_first()?;
                let first = facts.claims().get(first)?;
                rest.iter().try_fold(first, |value, member| inner(value, member)).map(Found::Json)
            }
        }
    }

    /// Whether it is the fact of this name.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        matches!(self, Self::Named(own) if own == name)
    }
}

/// As it is written in a rule.
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => f.write_str(name),
            Self::Claim(way) => {
                f.write_str(CLAIMS)?;
                way.iter()
                    .try_for_each(|member| write!(f, "/{}", member.replace('~', "~0").replace('/', "~1")))
            }
        }
    }
}

/// A value that is known of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Found<'a> {
    /// Facts are texts.
    Text(&'a str),
    /// Claims are whatever the token says.
    Json(&'a Value),
}

impl Found<'_> {
    /// As a text: strings as they are, whole numbers and booleans as JSON has them. Everything else has no text, or
    /// more than one: a fraction, and a number beyond 64 bits, which was rounded when it was read.
    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some((*text).to_owned()),
            Self::Json(Value::String(text)) => Some(text.clone()),
            Self::Json(Value::Bool(value)) => Some(value.to_string()),
            Self::Json(Value::Number(number)) if number.is_i64() || number.is_u64() => {
                Some(number.to_string())
            }
            Self::Json(_) => None,
        }
    }

    /// As JSON.
    pub(crate) fn json(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(*text),
            Self::Json(value) => (*value).clone(),
        }
    }
}

fn inner<'a>(value: &'a Value, member: &str) -> Option<&'a Value> {
    match value {
        Value::Object(members) => members.get(member),
        Value::Array(items) => items.get(index(member)?),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Digits without a leading zero (RFC 6901 section 4).
fn index(member: &str) -> Option<usize> {
    let is_canonical = member == "0" || !member.starts_with('0');
    let is_number = is_canonical && member.bytes().all(|digit| digit.is_ascii_digit());
    member.parse().ok().filter(|_| is_number)
}

/// `~1` is a slash and `~0` a tilde; nothing else is an escape (RFC 6901 section 3).
fn unescaped(member: &str) -> Option<String> {
    let mut parts = member.split('~');
    let mut out = parts.next()?.to_owned();
    for part in parts {
        let (escaped, rest) = match part.as_bytes().first()? {
            b'0' => ('~', &part[1..]),
            b'1' => ('/', &part[1..]),
            _ => return None,
        };
        out.push(escaped);
        out.push_str(rest);
    }
    Some(out)
}

fn unknown(text: &str, names: Names) -> Fault {
    let Names::Of(known) = names else {
        return Fault::new(&RULE_MALFORMED, "a name is empty");
    };
    let near = known
        .iter()
        .map(|name| (strsim::normalized_damerau_levenshtein(text, name), *name))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .reduce(|best, next| if next.0 > best.0 { next } else { best });
    let hint = match near {
        Some((_, near)) => format!("did you mean {near}?"),
        None => format!("there are {}, and claims./POINTER", known.join(", ")),
    };
    Fault::new(&RULE_UNKNOWN_NAME, format!("{} is not known of these workloads; {hint}", shown(text)))
}

/// A name of a rule, cut and in one line.
pub(super) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(MAX_SHOWN).collect();
    let dots = if cut.len() < text.len() { "…" } else { "" };
    format!("`{}{dots}`", cut.escape_debug())
}

/// How many of [`Facts::NAMES`] are of service accounts.
const CLUSTER_NAMES: usize = 8;
const CLAIMS: &str = "claims.";
/// Two of three letters in place.
const NEAR: f64 = 0.67;
const MAX_SHOWN: usize = 64;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn find(text: &str, claims: &Value) -> Option<Value> {
        let facts = Facts::default().with_claims(claims.as_object().expect("an object").clone());
        Field::parse(text, Names::CLUSTER).expect(text).find(&facts).map(|found| found.json())
    }

    #[test]
    fn a_pointer_is_that_of_rfc_6901() {
        let claims = json!({
            "foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "m~n": 8, "~1": 9, "deep": {"er": {"": [{"x": true}]}}
        });
        for (text, value) in [
            ("claims./foo/0", json!("bar")),
            ("claims./foo", json!(["bar", "baz"])),
            ("claims./", json!(0)),
            ("claims./a~1b", json!(1)),
            ("claims./c%d", json!(2)),
            ("claims./m~0n", json!(8)),
            ("claims./~01", json!(9)),
            ("claims./deep/er//0/x", json!(true)),
        ] {
            assert_eq!(find(text, &claims), Some(value), "{text}");
            assert_eq!(Field::parse(text, Names::Any).expect(text).to_string(), text);
        }
        for text in [
            "claims./foo/2",
            "claims./foo/00",
            "claims./foo/+1",
            "claims./foo/-",
            "claims./foo/",
            "claims./FOO",
            "claims./foo/0/0",
            "claims./a/b",
            "claims./deep/er/0",
            "claims./foo/18446744073709551616",
        ] {
            assert_eq!(find(text, &claims), None, "{text}");
        }
        for text in ["claims.", "claims.foo", "claims./a~", "claims./a~2", "claims./~~0"] {
            assert_eq!(Field::parse(text, Names::Any).expect_err(text).code.name, "rule.malformed");
        }
    }

    #[test]
    fn a_name_is_one_that_the_proof_gives() {
        for name in Facts::NAMES {
            let of = [Names::CLUSTER, Names::ASSERTION].map(|names| Field::parse(name, names).is_ok());
            let is_assertions = matches!(name, "assertion_issuer" | "subject");
            assert_eq!(of, [!is_assertions, is_assertions], "{name}");
        }
        let refused = Field::parse("name_space", Names::CLUSTER).expect_err("mistyped");
        assert!(refused.message.ends_with("did you mean namespace?"), "{}", refused.message);
        let refused = Field::parse("pod", Names::ASSERTION).expect_err("none of an assertion");
        assert!(refused.message.ends_with("there are assertion_issuer, subject, and claims./POINTER"));
        assert!(Field::parse("region", Names::Any).is_ok());
        assert!(Field::parse("", Names::Any).is_err());
    }

    #[test]
    fn only_what_has_one_text_is_a_text() {
        for (value, text) in [
            (json!("a"), Some("a")),
            (json!(""), Some("")),
            (json!(-7), Some("-7")),
            (json!(u64::MAX), Some("18446744073709551615")),
            (json!(true), Some("true")),
            (json!(1.0), None),
            (serde_json::from_str("18446744073709551616").expect("JSON"), None),
            (json!(null), None),
            (json!(["a"]), None),
            (json!({}), None),
        ] {
            assert_eq!(Found::Json(&value).text().as_deref(), text, "{value}");
        }
    }
}
