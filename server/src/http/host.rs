//! The host by which a request calls us (RFC 9112 section 3.2, RFC 9110 section 7.2, RFC 3986 section 3.2).

use std::net::Ipv6Addr;

/// Host, without its port, of `host`, `host:port`, `[address]` or `[address]:port`; `None` if it is none of them. It may
/// be empty, as in a request whose target has no authority.
pub(crate) fn of(authority: &[u8]) -> Option<&str> {
    let authority = std::str::from_utf8(authority).ok()?;
    let end = match authority.strip_prefix('[') {
        Some(rest) => rest.find(']')? + 2,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at(end);
    let is_host = match host.strip_prefix('[') {
        Some(rest) => rest.trim_end_matches(']').parse::<Ipv6Addr>().is_ok(),
        None => is_name(host.as_bytes()),
    };
    (is_host && is_port(port)).then_some(host)
}

/// A registered name or an IPv4 address: unreserved characters, marks, and percent-encoded bytes.
fn is_name(host: &[u8]) -> bool {
    let is_encoded =
        |at: usize| host.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit));
    host.iter().enumerate().all(|(at, byte)| match byte {
        b'%' => is_encoded(at),
        byte => byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte),
    })
}

/// Nothing, or a colon and a port that there is; the colon may stand alone.
fn is_port(port: &str) -> bool {
    match port.strip_prefix(':') {
        None => port.is_empty(),
        Some("") => true,
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_what_stands_before_its_port() {
        for (authority, name) in [
            ("localhost", "localhost"),
            ("localhost:9090", "localhost"),
            ("localhost:", "localhost"),
            ("my_service.name-space:65535", "my_service.name-space"),
            ("[::1]:9090", "[::1]"),
            ("[::1]", "[::1]"),
            ("[::ffff:127.0.0.1]", "[::ffff:127.0.0.1]"),
            ("127.0.0.1:1", "127.0.0.1"),
            ("a%20b", "a%20b"),
            ("", ""),
            (":9090", ""),
        ] {
            assert_eq!(of(authority.as_bytes()), Some(name), "{authority}");
        }
    }

    #[test]
    fn what_is_no_host_is_none() {
        for authority in [
            "localhost:9090:1",
            "localhost:x",
            "localhost:99999",
            "localhost:+1",
            "[::1",
            "[::1]x",
            "[::1]]",
            "[127.0.0.1]",
            "[localhost]",
            "[]",
            "::1",
            "a@b",
            "a@b/c d",
            "a b",
            "a/b",
            "a?b",
            "a#b",
            "a\\b",
            "a%2",
            "a%zz",
            "ä",
            "a\u{0}",
            "a\t",
            "<a>",
            "[fe80::1%25eth0]",
        ] {
            assert_eq!(of(authority.as_bytes()), None, "{authority}");
        }
        assert_eq!(of(b"a\xff"), None);
    }
}
