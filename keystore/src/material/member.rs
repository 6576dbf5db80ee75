//! The key in a member of a JSON object: what key/value secrets hold.

use zeroize::Zeroizing;

use super::KeyError;
use super::form::without_mark;
use super::private_jwk::shown;
use crate::json;

/// What the member called `name` of the object `value` holds: the content of a string, or the text of an object,
/// which is then a JWK or JWKS.
///
/// # Errors
/// `value` is no JSON object, or has no such member; the error lists the names that it has.
pub(crate) fn member(value: &[u8], name: &str) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let nothing = || KeyError::MemberOfNothing { member: shown(name) };
    let text = str::from_utf8(without_mark(value)).map_err(|_| nothing())?;
    if !text.trim_start().starts_with('{') {
        return Err(nothing());
    }
    let members = json::members(text).map_err(KeyError::MalformedJson)?;
    let Some((_, raw)) = members.iter().find(|(known, _)| known == name) else {
        let members = members.iter().take(16).map(|(name, _)| shown(name)).collect();
        return Err(KeyError::NoMember { member: shown(name), members });
    };
    let raw = raw.get();
    if raw.starts_with('{') {
        return Ok(Zeroizing::new(raw.as_bytes().to_vec()));
    }
    let content: Result<String, _> = serde_json::from_str(raw);
    content
        .map(|content| Zeroizing::new(content.into_bytes()))
        .map_err(|_| KeyError::MemberType { member: shown(name) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_is_unescaped_and_an_object_is_taken_as_it_stands() {
        let value = b"\xef\xbb\xbf {\"a\":\"x\\ny\",\"b\":{\"kty\": \"OKP\"},\"c\":7} ";
        assert_eq!(*member(value, "a").expect("text"), b"x\ny");
        assert_eq!(*member(value, "b").expect("an object"), b"{\"kty\": \"OKP\"}");
        assert_eq!(member(value, "c"), Err(KeyError::MemberType { member: "c".to_owned() }));
    }

    #[test]
    fn a_missing_member_is_told_with_those_that_are_there() {
        let refused = member(br#"{"username":"u","private_key":"k"}"#, "key").expect_err("no such member");
        assert_eq!(
            refused.to_string(),
            "the JSON object has no member key; its members are: username, private_key"
        );
        for value in [&b"-----BEGIN PRIVATE KEY-----"[..], b"[]", b"", b"\xff"] {
            assert_eq!(member(value, "key"), Err(KeyError::MemberOfNothing { member: "key".to_owned() }));
        }
        assert!(matches!(member(br#"{"key":"a","key":"b"}"#, "key"), Err(KeyError::MalformedJson(_))));
    }
}
