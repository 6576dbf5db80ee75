//! `--claim`: a claim on the command line, as a text or as JSON.

use std::str::FromStr;

use serde_json::{Map, Value};

use crate::exit::Failure;

/// One claim of the command line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Claim {
    name: String,
    value: Value,
}

impl FromStr for Claim {
    type Err = String;

    /// `name=text` is a string whatever it looks like; `name:=JSON` is what the JSON says.
    fn from_str(text: &str) -> Result<Self, String> {
        let (before, after) = text.split_once('=').ok_or("want name=text or name:=JSON")?;
        let (name, value) = match before.strip_suffix(':') {
            Some(name) => {
                let value = serde_json::from_str(after);
                (
                    name,
                    value.map_err(|error| {
                        format!("what follows := is no JSON ({error}); name=text takes a text as it is")
                    })?,
                )
            }
            None => (before, Value::from(after)),
        };
        if name.is_empty() {
            return Err("the claim's name is missing before the =".to_owned());
        }
        Ok(Self { name: name.to_owned(), value })
    }
}

/// All of them by their names.
///
/// # Errors
/// One is given twice (64).
pub(crate) fn collect(claims: Vec<Claim>) -> Result<Map<String, Value>, Failure> {
    let mut map = Map::new();
    for Claim { name, value } in claims {
        if map.contains_key(&name) {
            return Err(Failure::usage(format!("--claim {name} is given twice; a claim has one value")));
        }
        map.insert(name, value);
    }
    Ok(map)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_is_a_text_or_json_as_its_sign_says() {
        for (text, name, value) in [
            ("a=b", "a", json!("b")),
            ("a=", "a", json!("")),
            ("a=1", "a", json!("1")),
            ("a=b=c", "a", json!("b=c")),
            ("a:=1", "a", json!(1)),
            (r#"a:={"b":[true]}"#, "a", json!({"b": [true]})),
            (r#"a:="x:=y""#, "a", json!("x:=y")),
            ("https://aws.amazon.com/tags=x", "https://aws.amazon.com/tags", json!("x")),
        ] {
            assert_eq!(text.parse(), Ok(Claim { name: name.to_owned(), value }), "{text}");
        }
        for text in ["", "a", "=b", ":=1", "a:=", "a:=b", "a:={"] {
            assert!(text.parse::<Claim>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_claim_given_twice_is_refused() {
        let claim = |text: &str| text.parse::<Claim>().expect("a claim");
        assert_eq!(collect(vec![claim("a=1"), claim("b=2")]).expect("two").len(), 2);
        assert!(collect(vec![claim("a=1"), claim("a=1")]).is_err());
    }
}
