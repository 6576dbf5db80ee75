//! What stands where a ring document was looked for: one that is encoded, or something else.

use oneseal_providers::Entries;

use super::document::{has_shape, one};
use crate::Findings;
use crate::codes::{RING_ENCODED, RING_MALFORMED};
use crate::material::{base64, form_of, is_key_like};

/// Why the value of an entry called `keyring.json` can be no ring document, if its first letter tells that.
pub(super) fn refusal(place: &str, value: &[u8], entries: &Entries) -> Option<Findings> {
    let text = value.strip_prefix(b"\xef\xbb\xbf").unwrap_or(value).trim_ascii_start();
    if text.starts_with(b"{") {
        return None;
    }
    encoded(place, value, entries).or_else(|| {
        let name = Entries::KEYRING;
        let mut message =
            format!("no ring document, as an entry called {name} must be; seen: {}", form_of(value));
        if is_key_like(value) {
            message.push_str("; a private key by itself goes into an entry called current.pem");
        }
        Some(one(&RING_MALFORMED, place, message))
    })
}

/// The refusal of a value that is a ring document once it is decoded.
pub(super) fn encoded(place: &str, value: &[u8], entries: &Entries) -> Option<Findings> {
    let times = times_encoded(value)?;
    let often = if times == 1 { String::new() } else { format!(", {times} times over") };
    let message = match entries.how_unencoded() {
        Some(how) => format!("the ring document was in base64{often} before the store encoded it: {how}"),
        None => format!("the ring document is in base64{often}, and is read as it is"),
    };
    Some(one(&RING_ENCODED, place, message))
}

fn times_encoded(value: &[u8]) -> Option<usize> {
    let mut inner = base64(value)?;
    for times in 1..=MOST_TIMES {
        if has_shape(&inner) {
            return Some(times);
        }
        inner = base64(&inner)?;
    }
    None
}

/// Nobody encodes more often by mistake.
const MOST_TIMES: usize = 3;

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn a_document_is_seen_through_base64_and_nothing_else_is() {
        let document = "{\"format\":1,\"keys\":[]}";
        let mut text = document.to_owned();
        assert_eq!(times_encoded(text.as_bytes()), None);
        for times in 1..=MOST_TIMES {
            text = STANDARD.encode(text);
            assert_eq!(times_encoded(text.as_bytes()), Some(times));
            let (left, right) = text.split_at(text.len() / 2);
            assert_eq!(times_encoded(format!("{left}\n{right}\n").as_bytes()), Some(times), "wrapped");
        }
        assert_eq!(times_encoded(STANDARD.encode(&text).as_bytes()), None);
        for other in ["", "hello", "aGVsbG8h", "{", &STANDARD.encode("{\"format\":\"PEM\",\"keys\":1}")] {
            assert_eq!(times_encoded(other.as_bytes()), None, "{other}");
        }
    }
}
