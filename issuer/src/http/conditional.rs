//! `If-None-Match` (RFC 9110 section 13.1.2).

use http::HeaderMap;
use http::header::IF_NONE_MATCH;

/// Whether the client already has the representation tagged `etag` (quoted, strong). Comparison is weak, as the RFC
/// wants it here: `W/"x"` matches `"x"`. What cannot be read matches nothing, so the client gets the whole document.
pub(crate) fn none_match_hits(headers: &HeaderMap, etag: &str) -> bool {
    headers.get_all(IF_NONE_MATCH).iter().any(|value| {
        // The usual case first: one tag, sent back as it was given.
        value.as_bytes() == etag.as_bytes() || value.to_str().is_ok_and(|list| list_hits(list, etag))
    })
}

fn list_hits(list: &str, etag: &str) -> bool {
    if list.trim() == "*" {
        return true;
    }
    let mut rest = list;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        rest = rest.strip_prefix("W/").unwrap_or(rest);
        let Some(len) = tag_len(rest) else { return false };
        let (tag, after) = rest.split_at(len);
        if tag == etag {
            return true;
        }
        rest = after;
    }
}

/// Length of the quoted tag that `text` begins with.
fn tag_len(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('"')?;
    Some(inner.find('"')? + 2)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn hits(values: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(IF_NONE_MATCH, HeaderValue::from_str(value).expect("a header value"));
        }
        none_match_hits(&headers, "\"abc-_9\"")
    }

    #[test]
    fn every_form_that_names_the_tag_hits() {
        for values in [
            &["\"abc-_9\""] as &[&str],
            &["W/\"abc-_9\""],
            &["*"],
            &[" * "],
            &["\"x\", \"abc-_9\""],
            &["\"x\",\"y\" , W/\"abc-_9\", \"z\""],
            &["\"a,b\", \"abc-_9\""],
            &[",, \"abc-_9\""],
            &["\"x\"", "\"abc-_9\""],
        ] {
            assert!(hits(values), "{values:?}");
        }
    }

    #[test]
    fn nothing_else_does() {
        for values in [
            &[] as &[&str],
            &[""],
            &["abc-_9"],
            &["\"abc-_9"],
            &["\"abc\""],
            &["\"ABC-_9\""],
            &["w/\"abc-_9\""],
            &["\"x\" garbage \"abc-_9\""],
            &["\"**\""],
            &["*, \"x\""],
        ] {
            assert!(!hits(values), "{values:?}");
        }
    }
}
