//! AWS session tags: the claim by which `AssumeRoleWithWebIdentity` learns of a workload what a role's policy may ask.

use serde_json::{Map, Value, json};

use super::fault::{Fault, Unwritable};
use super::field::{Field, Names, shown};
use super::template::Template;
use crate::codes::RULE_SESSION_TAGS;
use crate::workload::Facts;

/// Tags with what is to stand there, and which of them stay when a role is left for another.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SessionTags {
    tags: Vec<(String, Tag)>,
    transitive: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
enum Tag {
    /// As it is: `/` and `:` may stand in a tag.
    Value(Field),
    Text(Template),
}

impl SessionTags {
    /// The claim's name.
    pub(crate) const CLAIM: &'static str = "https://aws.amazon.com/tags";

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.tags.is_empty() && self.transitive.is_empty()
    }

    /// Adds a tag.
    ///
    /// # Errors
    /// AWS would refuse it, whatever the workload.
    pub(crate) fn add(&mut self, key: &str, value: &str, names: Names) -> Result<(), Fault> {
        let fault = |words: String| Err(Fault::new(&RULE_SESSION_TAGS, format!("{} {words}", shown(key))));
        if let Some(words) = refused(key, MAX_KEY) {
            return fault(format!("as a key {words}"));
        }
        if key.is_empty() {
            return fault("is an empty key".to_owned());
        }
        if key.to_lowercase().starts_with("aws:") {
            return fault("begins with aws:, which is AWS's own".to_owned());
        }
        if self.tags.iter().any(|(known, _)| known.to_lowercase() == key.to_lowercase()) {
            return fault("is given twice; keys that differ in case alone are one".to_owned());
        }
        if self.tags.len() == MAX_TAGS {
            return fault(format!("is one more than the {MAX_TAGS} tags of a session"));
        }
        let template = Template::parse(value, names).map_err(|fault| fault.in_part(&shown(key)))?;
        let literals = template.literals().find_map(|text| refused(text, MAX_VALUE));
        if let Some(words) = literals {
            return fault(format!("has a value that {words}"));
        }
        let tag = template.only_value().cloned().map_or_else(|| Tag::Text(template), Tag::Value);
        self.tags.push((key.to_owned(), tag));
        Ok(())
    }

    /// Lets this tag stay with the roles that are assumed from the first one.
    pub(crate) fn keep(&mut self, key: &str) {
        self.transitive.push(key.to_owned());
    }

    /// What can be said only once all of them are there.
    pub(crate) fn faults(&self) -> Vec<Fault> {
        let is_there = |key: &String| self.tags.iter().any(|(known, _)| known == key);
        let unknown = self.transitive.iter().filter(|key| !is_there(key));
        unknown
            .map(|key| Fault::new(&RULE_SESSION_TAGS, format!("{} is transitive and no tag", shown(key))))
            .collect()
    }

    /// The claim of a token for a workload.
    ///
    /// # Errors
    /// The key of the tag that cannot be written, and why.
    pub(crate) fn write(&self, facts: &Facts) -> Result<Value, (String, Unwritable)> {
        let tags: Result<Map<_, _>, _> = self
            .tags
            .iter()
            .map(|(key, tag)| match written(tag, facts) {
                Ok(value) => Ok((key.clone(), json!([value]))),
                Err(why) => Err((key.clone(), why)),
            })
            .collect();
        let mut claim = json!({ "principal_tags": tags? });
        if !self.transitive.is_empty() {
            claim["transitive_tag_keys"] = json!(self.transitive);
        }
        Ok(claim)
    }
}

fn written(tag: &Tag, facts: &Facts) -> Result<String, Unwritable> {
    let text = match tag {
        Tag::Text(template) => template.write(facts)?,
        Tag::Value(field) => {
            let found = field.find(facts).ok_or_else(|| Unwritable::Missing(field.to_string()))?;
            found.text().ok_or_else(|| Unwritable::NotText(field.to_string()))?
        }
    };
    match refused(&text, MAX_VALUE) {
        Some(words) => Err(Unwritable::Tag(words)),
        None => Ok(text),
    }
}

/// What AWS has against a text (IAM User Guide, "Pass session tags in AWS STS").
fn refused(text: &str, most: usize) -> Option<&'static str> {
    let is_allowed = |letter: char| letter.is_alphanumeric() || " _.:/=+-@".contains(letter);
    if text.chars().count() > most {
        return Some(if most == MAX_KEY {
            "has more than 128 characters"
        } else {
            "has more than 256 characters"
        });
    }
    (!text.chars().all(is_allowed))
        .then_some("has a character other than letters, digits, space and _ . : / = + - @")
}

const MAX_TAGS: usize = 50;
const MAX_KEY: usize = 128;
const MAX_VALUE: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(list: &[(&str, &str)]) -> Result<SessionTags, Fault> {
        let mut tags = SessionTags::default();
        for (key, value) in list {
            tags.add(key, value, Names::CLUSTER)?;
        }
        Ok(tags)
    }

    fn claims(members: Value) -> Facts {
        Facts::new([("namespace", "ci"), ("cluster", "prod")])
            .with_claims(members.as_object().expect("an object").clone())
    }

    #[test]
    fn the_claim_is_as_aws_has_it() {
        let mut tags =
            tags(&[("project", "{namespace}"), ("path", "{cluster}/{namespace}"), ("Cost Center", "42")])
                .expect("good");
        tags.keep("project");
        assert_eq!(tags.faults(), []);
        assert_eq!(
            tags.write(&claims(json!({}))).expect("written"),
            json!({
                "principal_tags": {"project": ["ci"], "path": ["prod/ci"], "Cost Center": ["42"]},
                "transitive_tag_keys": ["project"]
            })
        );
        tags.keep("nope");
        assert_eq!(tags.faults()[0].message, "`nope` is transitive and no tag");
    }

    #[test]
    fn a_value_alone_is_not_encoded_and_must_be_one_that_aws_takes() {
        let tags = tags(&[("team", "{claims./team}")]).expect("good");
        let write = |team: Value| tags.write(&claims(json!({ "team": team }))).map_err(|(_, why)| why);
        for good in ["a/b:c=d+e@f", "", "Zürich 1", &"x".repeat(256)] {
            assert_eq!(write(json!(good)).expect(good)["principal_tags"]["team"], json!([good]));
        }
        assert_eq!(write(json!(7)).expect("a number")["principal_tags"]["team"], json!(["7"]));
        for bad in [json!("a~b"), json!("a%b"), json!("a\nb"), json!("x".repeat(257))] {
            assert!(matches!(write(bad.clone()), Err(Unwritable::Tag(_))), "{bad}");
        }
        assert!(matches!(write(json!(["a"])), Err(Unwritable::NotText(_))));
        assert!(matches!(tags.write(&claims(json!({}))), Err((_, Unwritable::Missing(_)))));
    }

    #[test]
    fn what_aws_refuses_of_every_workload_is_refused_when_the_rule_is_read() {
        let long = "k".repeat(129);
        for (list, words) in [
            (vec![("", "x")], "empty key"),
            (vec![(long.as_str(), "x")], "more than 128"),
            (vec![("a~b", "x")], "a character other than"),
            (vec![("AWS:x", "x")], "AWS's own"),
            (vec![("Team", "x"), ("team", "y")], "given twice"),
            (vec![("a", "x%y")], "a value that has a character"),
            (vec![("a", "~{namespace}")], "a value that has a character"),
            (vec![("a", "{nope}")], "`a`: `nope` is not known"),
        ] {
            let fault = tags(&list).expect_err(words);
            assert!(fault.message.contains(words), "{list:?}: {}", fault.message);
        }
        let many: Vec<_> = (0..51).map(|at| format!("k{at}")).collect();
        let many: Vec<_> = many.iter().map(|key| (key.as_str(), "v")).collect();
        assert!(tags(&many[..50]).is_ok());
        assert!(tags(&many).expect_err("51").message.contains("one more than the 50"));
    }
}
