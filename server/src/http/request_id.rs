//! A name for each request, so that a log line here and one at the caller can be put side by side.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use uuid::Uuid;

use crate::admin_token;

/// Where the name comes and goes.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Makes names: one random part for the life of the process, and a number.
#[derive(Debug)]
pub(crate) struct RequestIds {
    /// 16 hexadecimal digits and a hyphen.
    prefix: [u8; PREFIX_LEN],
    next: AtomicU64,
}

impl RequestIds {
    /// A new random part.
    pub(crate) fn new() -> Self {
        let mut prefix = [b'-'; PREFIX_LEN];
        let random = Uuid::new_v4().simple().to_string();
        prefix[..PREFIX_LEN - 1].copy_from_slice(&random.as_bytes()[..PREFIX_LEN - 1]);
        Self { prefix, next: AtomicU64::new(1) }
    }

    /// The caller's own name if it is one that can safely stand in a log, or a new one.
    pub(crate) fn of(&self, headers: &HeaderMap) -> HeaderValue {
        headers.get(X_REQUEST_ID).filter(|id| is_sane(id)).cloned().unwrap_or_else(|| self.make())
    }

    /// Digits are written by hand: through `format!` one name costs as much as all other headers of a document.
    fn make(&self) -> HeaderValue {
        let mut number = self.next.fetch_add(1, Ordering::Relaxed);
        let digits = number.checked_ilog(16).map_or(1, |last| last as usize + 1);
        let mut name = vec![b'0'; PREFIX_LEN + digits];
        name[..PREFIX_LEN].copy_from_slice(&self.prefix);
        for digit in name[PREFIX_LEN..].iter_mut().rev() {
            *digit = b"0123456789abcdef"[(number & 15) as usize];
            number >>= 4;
        }
        // Hexadecimal digits and a hyphen are always a header value.
        HeaderValue::from_maybe_shared(Bytes::from(name)).unwrap_or(HeaderValue::from_static("-"))
    }
}

const PREFIX_LEN: usize = 17;

/// Letters, digits and a few marks, at most 128: UUIDs, ULIDs, trace ids, what proxies make. Nothing that ends a
/// line, opens a quotation or fills a disk, and no token.
fn is_sane(id: &HeaderValue) -> bool {
    let bytes = id.as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:=+/@".contains(byte);
    (1..=128).contains(&bytes.len())
        && bytes.iter().all(is_plain)
        && id.to_str().is_ok_and(|id| !admin_token::is_in(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin_token::Token;

    #[test]
    fn a_sane_name_is_kept_and_another_replaced() {
        let ids = RequestIds::new();
        let of = |value: &[u8]| {
            let mut headers = HeaderMap::new();
            headers.insert(X_REQUEST_ID, HeaderValue::from_bytes(value).expect("a header value"));
            ids.of(&headers)
        };
        for sane in ["a", "01890a5d-ac96-774b-bcce-b302099a8057", "Root=1-67891233-abcdef012345678912345678"]
        {
            assert_eq!(of(sane.as_bytes()), sane);
        }
        let token = Token::generate().expect("random bytes");
        for odd in [&b""[..], b"a b", b"a\"b", b"a\xffb", &[b'a'; 129], token.expose().as_bytes()] {
            assert_ne!(of(odd), HeaderValue::from_bytes(odd).expect("a header value"), "{odd:?}");
        }
    }

    #[test]
    fn names_differ_and_are_themselves_sane() {
        let ids = RequestIds::new();
        let (first, second) = (ids.of(&HeaderMap::new()), ids.of(&HeaderMap::new()));
        assert_ne!(first, second);
        assert!(is_sane(&first) && is_sane(&second));
        assert_ne!(RequestIds::new().prefix, RequestIds::new().prefix);
    }

    #[test]
    fn the_number_is_hexadecimal_without_zeros_in_front() {
        let ids = RequestIds::new();
        for (number, digits) in [
            (1, "1"),
            (15, "f"),
            (16, "10"),
            (0xabc_def0, "abcdef0"),
            (u64::MAX, "ffffffffffffffff"),
            (0, "0"),
        ] {
            ids.next.store(number, Ordering::Relaxed);
            let name = ids.of(&HeaderMap::new());
            let (prefix, shown) = name.to_str().expect("ASCII").split_once('-').expect("a hyphen");
            assert_eq!((prefix.len(), shown), (16, digits));
        }
    }
}
