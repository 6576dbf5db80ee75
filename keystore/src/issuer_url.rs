//! The issuer's name, compared byte for byte and never normalised.
//!
//! A relying party compares `iss` as a string (OpenID Connect Discovery 1.0 section 4.3, RFC 8414 section 3.3), so
//! what the operator wrote is what goes out everywhere. The text is therefore *checked* here and never rebuilt;
//! only the well-known URLs are derived from it, with a trailing slash dropped for that purpose alone.

use std::fmt;
use std::net::IpAddr;

use oneseal_providers::looks_like_key;

use crate::findings::{Code, Findings};

/// An issuer identifier: an absolute `https` URL without query, fragment and userinfo, with a lower-case host.
/// Plain `http` is taken for loopback hosts only. At most 255 bytes, the limit of AWS.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct IssuerUrl {
    text: String,
    /// Where the path begins in `text`: its length if there is none.
    path_at: usize,
    port: Option<u16>,
}

impl IssuerUrl {
    /// Checks `text` and reports every fault at once.
    ///
    /// # Errors
    /// Findings of the `issuer.*` codes, at `place`. Warnings alone are not an error: see [`advice`](Self::advice).
    pub fn parse(text: &str, place: &str) -> Result<Self, Findings> {
        let mut findings = Findings::new();
        match Self::read(text, place, &mut findings) {
            Some(url) if !findings.has_errors() => Ok(url),
            _ => Err(findings),
        }
    }

    /// The identifier as the operator wrote it: what stands in `iss`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The path without a trailing slash: empty, or beginning with `/`.
    pub fn base_path(&self) -> &str {
        self.text[self.path_at..].trim_end_matches('/')
    }

    /// Scheme, host and port, such as `https://oidc.example`.
    pub fn origin(&self) -> &str {
        &self.text[..self.path_at]
    }

    /// Host without port and brackets.
    pub fn host(&self) -> &str {
        split_authority(self.authority()).0
    }

    /// The port, written or implied by the scheme.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.is_https() { 443 } else { 80 })
    }

    /// Whether the scheme is `https`.
    pub fn is_https(&self) -> bool {
        self.text.starts_with(HTTPS)
    }

    /// Whether the host is a loopback address or `localhost`: an issuer for this machine only.
    pub fn is_loopback(&self) -> bool {
        is_loopback(self.host())
    }

    /// Path of the discovery document (OpenID Connect Discovery 1.0 section 4).
    pub fn discovery_path(&self) -> String {
        format!("{}/.well-known/openid-configuration", self.base_path())
    }

    /// Path of the RFC 8414 document: the well-known part stands before the issuer's path.
    pub fn oauth_metadata_path(&self) -> String {
        format!("/.well-known/oauth-authorization-server{}", self.base_path())
    }

    /// Path of the key set.
    pub fn jwks_path(&self) -> String {
        format!("{}/.well-known/jwks.json", self.base_path())
    }

    /// Path of the authorization endpoint, which discovery must name and which only ever answers 400.
    pub fn authorize_path(&self) -> String {
        format!("{}/authorize", self.base_path())
    }

    /// Path of the token endpoint.
    pub fn token_path(&self) -> String {
        format!("{}/token", self.base_path())
    }

    /// The URL of one of the paths above.
    pub fn url_of(&self, path: &str) -> String {
        format!("{}{path}", self.origin())
    }

    /// Warnings: forms that are legal and that some relying party refuses or mistakes.
    pub fn advice(&self, place: &str) -> Findings {
        let mut findings = Findings::new();
        if self.port.is_some() && !self.is_loopback() {
            findings.push(&PORT, place, format!("{} names a port", self.text));
        }
        if self.text.len() > self.path_at && self.text.ends_with('/') {
            findings.push(&TRAILING_SLASH, place, format!("{} ends in a slash", self.text));
        }
        findings
    }

    fn authority(&self) -> &str {
        let start = if self.is_https() { HTTPS.len() } else { HTTP.len() };
        &self.text[start..self.path_at]
    }

    fn read(text: &str, place: &str, findings: &mut Findings) -> Option<Self> {
        let mut fault = |code: &'static Code, message: String| findings.push(code, place, message);
        if looks_like_key(text) {
            fault(&MALFORMED, "it looks like a key itself, not like the URL of an issuer".to_owned());
            return None;
        }
        if text.is_empty() || text.len() > MAX_LEN || !text.bytes().all(is_url_byte) {
            fault(&MALFORMED, describe_malformed(text));
            return None;
        }
        if text.contains('?') {
            fault(&QUERY, format!("{text} has a query"));
        }
        if text.contains('#') {
            fault(&FRAGMENT, format!("{text} has a fragment"));
        }
        let Some(start) = scheme_len(text) else {
            fault(&NOT_HTTPS, format!("{text} does not begin with https://"));
            return None;
        };
        let path_at = text[start..].find(['/', '?', '#']).map_or(text.len(), |at| start + at);
        let authority = &text[start..path_at];
        if authority.contains('@') {
            // The text may hold a password: it is not repeated.
            fault(&USERINFO, "the URL has a user name before its host".to_owned());
            return None;
        }
        let (host, port) = split_authority(authority);
        if host.is_empty() || !is_host(host) || port.is_some_and(|port| !is_port(port)) {
            fault(&MALFORMED, format!("{text} has no valid host or port"));
            return None;
        }
        if host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            fault(&HOST_CASE, format!("the host {host} has capital letters"));
        }
        if text.starts_with(HTTP) && !is_loopback(host) {
            fault(&NOT_HTTPS, format!("{text} is plain http and {host} is not loopback"));
        }
        if has_odd_path(&text[path_at..]) {
            fault(&MALFORMED, format!("{text} has an empty or dotted path segment"));
        }
        let port = port.and_then(|port| port.parse().ok());
        Some(Self { text: text.to_owned(), path_at, port })
    }
}

impl fmt::Debug for IssuerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IssuerUrl({})", self.text)
    }
}

impl fmt::Display for IssuerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn describe_malformed(text: &str) -> String {
    match text.len() {
        0 => "it is empty".to_owned(),
        len if len > MAX_LEN => format!("it is {len} bytes long; the limit is {MAX_LEN}"),
        _ => "it has spaces, control or non-ASCII characters".to_owned(),
    }
}

fn scheme_len(text: &str) -> Option<usize> {
    [HTTPS, HTTP].into_iter().find(|scheme| text.starts_with(scheme)).map(str::len)
}

fn is_url_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}')
}

/// Host (brackets dropped) and port text.
fn split_authority(authority: &str) -> (&str, Option<&str>) {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']').unwrap_or(("", rest));
        return (host, after.strip_prefix(':'));
    }
    match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    }
}

fn is_host(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok()
        || host.split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
}

fn is_port(port: &str) -> bool {
    port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// `//`, `/./` and `/../` mean different things to different clients.
fn has_odd_path(path: &str) -> bool {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    !path.is_empty() && path.split('/').any(|segment| matches!(segment, "" | "." | ".."))
}

const HTTPS: &str = "https://";
const HTTP: &str = "http://";
/// AWS takes no longer provider URL (IAM, CreateOpenIDConnectProvider).
const MAX_LEN: usize = 255;

/// The rows of this file.
pub static CODES: &[&Code] =
    &[&MALFORMED, &NOT_HTTPS, &QUERY, &FRAGMENT, &USERINFO, &HOST_CASE, &PORT, &TRAILING_SLASH];

static MALFORMED: Code = Code::refused(
    "issuer.malformed",
    "The issuer is no URL that every relying party reads alike.",
    "Write it as https://host or https://host/path: ASCII, at most 255 bytes, no empty or dotted path segment.",
);
static NOT_HTTPS: Code = Code::refused(
    "issuer.not_https",
    "The issuer is not an https URL; only a loopback issuer may be plain http.",
    "Use an https URL; TLS may end at a proxy in front of oneseal.",
);
static QUERY: Code = Code::refused(
    "issuer.query",
    "The issuer has a query (forbidden by OpenID Connect Discovery 1.0 section 3).",
    "Drop everything from the question mark on.",
);
static FRAGMENT: Code = Code::refused(
    "issuer.fragment",
    "The issuer has a fragment (forbidden by OpenID Connect Discovery 1.0 section 3).",
    "Drop everything from the # on.",
);
static USERINFO: Code = Code::refused(
    "issuer.userinfo",
    "The issuer carries a user name or password.",
    "Drop everything between // and @.",
);
static HOST_CASE: Code = Code::refused(
    "issuer.host_case",
    "The issuer's host has capital letters: some relying parties lower them, others compare bytes.",
    "Write the host in lower case.",
);
static PORT: Code = Code::warning(
    "issuer.port",
    "The issuer names a port, which AWS and others advise against or refuse.",
    "Serve it on 443 and leave the port out.",
);
static TRAILING_SLASH: Code = Code::warning(
    "issuer.trailing_slash",
    "The issuer ends in a slash; relying parties that trim it will not match `iss`.",
    "Leave the slash out, unless relying parties already trust the issuer in this form.",
);

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<&'static str> {
        match IssuerUrl::parse(text, "issuer.url") {
            Ok(url) => url.advice("issuer.url").iter().map(|finding| finding.code.name).collect(),
            Err(findings) => findings.iter().map(|finding| finding.code.name).collect(),
        }
    }

    #[test]
    fn good_forms_are_kept_byte_for_byte() {
        for text in [
            "https://oidc.example",
            "https://oidc.example/tenants/a",
            "http://127.0.0.1:8080",
            "http://[::1]:8080/x",
            "http://localhost:1",
        ] {
            let url = IssuerUrl::parse(text, "p").expect("good");
            assert_eq!(url.as_str(), text);
            assert_eq!(names(text), [] as [&str; 0], "{text}");
        }
    }

    #[test]
    fn each_odd_form_has_its_code() {
        for (text, expected) in [
            ("http://oidc.example", "issuer.not_https"),
            ("oidc.example", "issuer.not_https"),
            ("ftp://oidc.example", "issuer.not_https"),
            ("https://oidc.example?x=1", "issuer.query"),
            ("https://oidc.example/#x", "issuer.fragment"),
            ("https://user:pw@oidc.example", "issuer.userinfo"),
            ("https://Oidc.example", "issuer.host_case"),
            ("https://oidc.example:8443", "issuer.port"),
            ("https://oidc.example/", "issuer.trailing_slash"),
            ("https://oidc.example/a/", "issuer.trailing_slash"),
            ("", "issuer.malformed"),
            ("https://", "issuer.malformed"),
            ("https:///path", "issuer.malformed"),
            ("https://oidc.example:", "issuer.malformed"),
            ("https://oidc.example:0", "issuer.malformed"),
            ("https://oidc.example:99999", "issuer.malformed"),
            ("https://oidc.example//a", "issuer.malformed"),
            ("https://oidc.example/../a", "issuer.malformed"),
            ("https://oïdc.example", "issuer.malformed"),
            ("https://oidc.example /x", "issuer.malformed"),
            (" https://oidc.example", "issuer.malformed"),
        ] {
            assert_eq!(names(text), [expected], "{text}");
        }
        assert_eq!(names(&format!("https://h/{}", "a".repeat(250))), ["issuer.malformed"]);
    }

    #[test]
    fn several_faults_are_told_at_once() {
        assert_eq!(
            names("https://Oidc.example/?a#b"),
            ["issuer.query", "issuer.fragment", "issuer.host_case"]
        );
    }

    #[test]
    fn a_password_is_not_repeated() {
        let findings = IssuerUrl::parse("https://user:canary@oidc.example", "p").expect_err("userinfo");
        assert!(!findings.to_string().contains("canary"));
    }

    #[test]
    fn paths_hang_under_the_issuer_and_the_slash_is_dropped_for_them_alone() {
        let url = IssuerUrl::parse("https://oidc.example/t/a/", "p").expect("good");
        assert_eq!(url.discovery_path(), "/t/a/.well-known/openid-configuration");
        assert_eq!(url.oauth_metadata_path(), "/.well-known/oauth-authorization-server/t/a");
        assert_eq!(url.url_of(&url.jwks_path()), "https://oidc.example/t/a/.well-known/jwks.json");
        assert_eq!(url.as_str(), "https://oidc.example/t/a/");
    }

    #[test]
    fn host_and_port_are_read_from_every_form() {
        let url = IssuerUrl::parse("http://[::1]:8080", "p").expect("good");
        assert_eq!((url.host(), url.port()), ("::1", 8080));
        let url = IssuerUrl::parse("https://oidc.example", "p").expect("good");
        assert_eq!((url.host(), url.port()), ("oidc.example", 443));
    }
}
