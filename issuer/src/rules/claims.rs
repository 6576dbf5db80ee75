//! Claims that a rule adds: JSON whose strings are templates.

use serde_json::{Map, Value};

use super::fault::{Fault, Unwritable};
use super::field::{Field, Names};
use super::template::Template;
use crate::claims::{ClaimError, ExtraClaims};
use crate::codes::RULE_CLAIMS;
use crate::workload::Facts;

/// Names with what is to stand there. A string that is one placeholder and nothing else becomes the value itself,
/// whatever its type; every other string is a template.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClaimTemplates(Vec<(String, Node)>);

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Literal(Value),
    Value(Field),
    Text(Template),
    List(Vec<Self>),
    Object(Vec<(String, Self)>),
}

impl ClaimTemplates {
    /// Reads the members of a JSON object.
    ///
    /// # Errors
    /// All that is wrong: templates that are none, reserved names, more than a token can hold, whatever the workload.
    pub(crate) fn parse(claims: &Map<String, Value>, names: Names) -> Result<Self, Vec<Fault>> {
        // First, so that what is nested too deeply is not walked.
        let (good, refused) = ExtraClaims::sift(claims.iter().map(bounded).collect());
        let mut faults: Vec<_> = refused.into_iter().map(fault).collect();
        let mut nodes = Vec::new();
        for (name, value) in good.iter().filter_map(|(name, _)| claims.get_key_value(name)) {
            match node(value, names) {
                Ok(node) => nodes.push((name.clone(), node)),
                Err(fault) => faults.push(fault.in_part(name)),
            }
        }
        if faults.is_empty() { Ok(Self(nodes)) } else { Err(faults) }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there is one of this name.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|(own, _)| own == name)
    }

    /// The claims of a token for a workload.
    ///
    /// # Errors
    /// The name of the claim that cannot be written, and why.
    pub(crate) fn write(&self, facts: &Facts) -> Result<Map<String, Value>, (String, Unwritable)> {
        self.0
            .iter()
            .map(|(name, node)| match written(node, facts) {
                Ok(value) => Ok((name.clone(), value)),
                Err(why) => Err((name.clone(), why)),
            })
            .collect()
    }
}

/// The name, and the value but for its strings, which are not what will stand there.
fn bounded((name, value): (&String, &Value)) -> (String, Value) {
    fn hollow(value: &Value, levels: usize) -> Value {
        match value {
            Value::String(_) => Value::from(""),
            Value::Array(items) if levels > 0 => items.iter().map(|item| hollow(item, levels - 1)).collect(),
            Value::Object(members) if levels > 0 => {
                members.iter().map(|(name, value)| (name.clone(), hollow(value, levels - 1))).collect()
            }
            other => other.clone(),
        }
    }
    // One level more than is allowed is enough to be refused.
    (name.clone(), hollow(value, ExtraClaims::MAX_DEPTH + 1))
}

fn node(value: &Value, names: Names) -> Result<Node, Fault> {
    Ok(match value {
        Value::String(text) => {
            let template = Template::parse(text, names)?;
            match (template.only_literal(), template.only_value()) {
                (Some(text), _) => Node::Literal(Value::from(text)),
                (None, Some(field)) => Node::Value(field.clone()),
                (None, None) => Node::Text(template),
            }
        }
        Value::Array(items) => {
            Node::List(items.iter().map(|item| node(item, names)).collect::<Result<_, _>>()?)
        }
        Value::Object(members) => {
            let members = members.iter().map(|(name, value)| Ok((name.clone(), node(value, names)?)));
            Node::Object(members.collect::<Result<_, Fault>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Node::Literal(value.clone()),
    })
}

fn written(node: &Node, facts: &Facts) -> Result<Value, Unwritable> {
    Ok(match node {
        Node::Literal(value) => value.clone(),
        Node::Value(field) => field.find(facts).ok_or_else(|| Unwritable::Missing(field.to_string()))?.json(),
        Node::Text(template) => Value::from(template.write(facts)?),
        Node::List(items) => items.iter().map(|item| written(item, facts)).collect::<Result<_, _>>()?,
        Node::Object(members) => {
            let members = members.iter().map(|(name, node)| Ok((name.clone(), written(node, facts)?)));
            Value::Object(members.collect::<Result<_, Unwritable>>()?)
        }
    })
}

fn fault(error: ClaimError) -> Fault {
    Fault::new(&RULE_CLAIMS, error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(claims: Value) -> Result<ClaimTemplates, Vec<Fault>> {
        ClaimTemplates::parse(claims.as_object().expect("an object"), Names::CLUSTER)
    }

    fn facts() -> Facts {
        let claims = json!({"run": 7, "groups": ["a", "b"], "k": {"deep": true}, "empty": "", "null": null});
        Facts::new([("namespace", "team/a")]).with_claims(claims.as_object().expect("an object").clone())
    }

    #[test]
    fn one_placeholder_keeps_the_values_type_and_text_around_it_makes_a_template() {
        let claims = parse(json!({
            "ns": "{namespace}", "run": "{claims./run}", "groups": "{claims./groups}", "k": ["{claims./k/deep}", 1],
            "path": "ns:{namespace}", "nested": {"a": {"b": "run-{claims./run}", "c": null}}, "brace": "{{x}}",
            "empty": "{claims./empty}", "none": "{claims./null}", "fixed": true
        }))
        .expect("good");
        assert_eq!(
            Value::Object(claims.write(&facts()).expect("written")),
            json!({
                "ns": "team/a", "run": 7, "groups": ["a", "b"], "k": [true, 1],
                "path": "ns:team%2Fa", "nested": {"a": {"b": "run-7", "c": null}}, "brace": "{x}",
                "empty": "", "none": null, "fixed": true
            })
        );
    }

    #[test]
    fn what_a_workload_lacks_is_named_with_its_claim() {
        let claims = parse(json!({"fine": 1, "team": {"a": ["{node}"]}})).expect("good");
        let (name, why) = claims.write(&facts()).expect_err("no node");
        assert_eq!(
            (name.as_str(), why.to_string().as_str()),
            ("team", "`{node}` is not known of this workload")
        );
    }

    #[test]
    fn names_and_sizes_that_no_token_can_have_are_refused_when_the_rule_is_read() {
        let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        for (claims, words) in [
            (json!({"aud": "x"}), "the issuer's own"),
            (json!({"AZP": "x"}), "the issuer's own"),
            (json!({"": 1}), "1 to 256 bytes"),
            (json!({"a": 1, "A": 2}), "given twice"),
            (json!({"a": nested(9)}), "nested deeper"),
            (json!({"a": nested(100)}), "nested deeper"),
            (json!({"a": 9_007_199_254_740_993_u64}), "readers round"),
            (json!({"a": vec![0; 4096]}), "the limit is 4096"),
            (json!({"a": {"b": "{nope}"}}), "a: `nope` is not known"),
        ] {
            let faults = parse(claims.clone()).expect_err("bad");
            assert!(faults[0].message.contains(words), "{claims}: {faults:?}");
            assert_eq!(faults.len(), 1, "{claims}: {faults:?}");
        }
        assert!(parse(json!({"a": nested(8)})).is_ok());
    }

    #[test]
    fn every_claim_that_is_wrong_is_told_and_not_the_first_alone() {
        let claims = json!({"azp": "x", "iss": "y", "Typ": "z", "a": "{nope}", "b": "{", "c": "{namespace}"});
        let faults = parse(claims).expect_err("five of six are wrong");
        let told: Vec<_> = faults.iter().map(|fault| fault.message.as_str()).collect();
        for (told, words) in
            told.iter().zip(["`azp`", "`iss`", "`Typ`", "a: `nope`", "b: a { is never closed"])
        {
            assert!(told.contains(words), "{told}");
        }
        assert_eq!(told.len(), 5, "{told:?}");
    }
}
