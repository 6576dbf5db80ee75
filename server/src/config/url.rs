//! URLs of others: where their keys are fetched, and through which proxy.

use std::net::IpAddr;

use http::Uri;

use super::hint;
use super::table::Key;
use super::value::{Fault, Value, bad};

/// `https`, or plain `http` on this host. What a URL must not have, a name and a password before its host or a fragment,
/// is named, and not repeated.
pub(super) fn of_keys(key: &Key, text: &str) -> Result<Value, Fault> {
    https_or_loopback(key, text, "keys that come over plain http can be anybody's; it must be https")
}

/// The same for what clients send a credential to.
pub(super) fn of_endpoint(key: &Key, text: &str) -> Result<Value, Fault> {
    https_or_loopback(key, text, "a token that is sent over plain http is anybody's; it must be https")
}

fn https_or_loopback(key: &Key, text: &str, why: &str) -> Result<Value, Fault> {
    let uri = parse(key, text)?;
    let host = uri.host().unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_loopback =
        host == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match uri.scheme_str() {
        Some("https") => Ok(Value::Text(text.to_owned())),
        Some("http") if is_loopback => Ok(Value::Text(text.to_owned())),
        Some("http") => Err(bad(why.to_owned())),
        _ => Err(not_a(key, text)),
    }
}

/// `http`: what goes through it is encrypted beyond it.
pub(super) fn of_proxy(key: &Key, text: &str) -> Result<Value, Fault> {
    let uri = parse(key, text)?;
    let has_path = !matches!(uri.path(), "" | "/") || uri.query().is_some();
    if uri.scheme_str() != Some("http") || has_path {
        return Err(not_a(key, text));
    }
    Ok(Value::Text(text.to_owned()))
}

fn parse(key: &Key, text: &str) -> Result<Uri, Fault> {
    if text.contains('#') {
        return Err(bad("it has a fragment (#…), which no server gets to see".to_owned()));
    }
    let uri: Uri = text.parse().map_err(|_| not_a(key, text))?;
    let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
    if authority.contains('@') {
        return Err(bad("it has a name or a password before its host, which is not repeated".to_owned()));
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(not_a(key, text));
    }
    Ok(uri)
}

fn not_a(key: &Key, text: &str) -> Fault {
    // Whatever stands before an @ may be a password.
    let found = if text.contains('@') { "it".to_owned() } else { hint::shown(text) };
    bad(format!("{found} is not {}", key.kind.words()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table::{Default, Kind, Literal};

    fn key(kind: Kind) -> Key {
        Key { path: "a.b", kind, default: Default::Unset("x"), doc: "X.", example: Literal::Text("x") }
    }

    #[test]
    fn keys_come_by_https_or_from_this_host() {
        let key = key(Kind::KeysUrl);
        for good in [
            "https://ci.example/keys",
            "https://ci.example:8443",
            "http://127.0.0.1:80/k?x=1",
            "http://[::1]/k",
            "http://localhost:9/k",
        ] {
            assert!(of_keys(&key, good).is_ok(), "{good}");
        }
        for (bad, words) in [
            ("http://ci.example/keys", "must be https"),
            ("http://10.0.0.1/keys", "must be https"),
            ("http://localhost.evil.example/keys", "must be https"),
            ("ftp://ci.example/keys", "is not an https URL"),
            ("ci.example/keys", "is not an https URL"),
            ("/keys", "is not an https URL"),
            ("https:///keys", "is not an https URL"),
            ("https://ci.example/keys#a", "has a fragment"),
            ("https://user:CANARY@ci.example/", "a password before its host"),
            ("user:CANARY@ci.example", "a password before its host"),
        ] {
            let fault = of_keys(&key, bad).expect_err(bad);
            assert!(fault.message.contains(words) && !fault.message.contains("CANARY"), "{}", fault.message);
        }
    }

    #[test]
    fn a_proxy_is_an_http_url_without_a_path() {
        let key = key(Kind::ProxyUrl);
        for good in ["http://proxy:3128", "http://10.0.0.1:3128/", "http://[fd00::1]:3128"] {
            assert!(of_proxy(&key, good).is_ok(), "{good}");
        }
        for bad in
            ["proxy:3128", "https://proxy:3128", "socks5://proxy:1", "http://proxy/path", "http://a:b@proxy"]
        {
            assert!(of_proxy(&key, bad).is_err(), "{bad}");
        }
    }
}
