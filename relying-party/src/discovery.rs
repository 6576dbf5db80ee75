//! Reads a discovery document (OpenID Connect Discovery 1.0 section 4.2): whose it is and where the keys are.

use http::Uri;
use oneseal_keystore::{Algorithm, IssuerUrl, json};
use serde_json::{Map, Value};

use crate::error::{Document, SourceError};
use crate::fetch::{self, FetchError};

/// What a relying party reads of a discovery document. Nothing of it is believed yet.
#[derive(Clone, Debug)]
pub struct Discovery(Map<String, Value>);

impl Discovery {
    /// Reads a document of whatever issuer.
    ///
    /// # Errors
    /// [`SourceError::Json`].
    pub fn read(body: &[u8]) -> Result<Self, SourceError> {
        let document = json::parse_object(body)
            .map_err(|source| SourceError::Json { document: Document::Discovery, source })?;
        Ok(Self(document))
    }

    /// Whether the document names `issuer`, byte for byte (section 4.3): otherwise one tenant's document, served at
    /// another's address, would lend it its keys.
    pub fn is_of(&self, issuer: &IssuerUrl) -> bool {
        self.0.get("issuer").and_then(Value::as_str) == Some(issuer.as_str())
    }

    /// Where the keys are. That may be another host, as behind some clouds, but not plain http unless the issuer
    /// itself is a loopback one.
    ///
    /// # Errors
    /// [`SourceError::JwksUri`].
    pub fn jwks_uri(&self, issuer: &IssuerUrl) -> Result<&str, SourceError> {
        let uri = self.0.get("jwks_uri").and_then(Value::as_str).ok_or(SourceError::JwksUri)?;
        let parsed = fetch::parse_url(uri).map_err(|_| SourceError::JwksUri)?;
        if issuer.is_https() && !is_https(&parsed) {
            return Err(SourceError::JwksUri);
        }
        Ok(uri)
    }

    /// Where tokens are exchanged (RFC 8414 section 2); `None` where the document names no such place.
    ///
    /// # Errors
    /// [`FetchError::Url`]; [`FetchError::PlainHttp`] unless the issuer itself is a loopback one.
    pub fn token_endpoint(&self, issuer: &IssuerUrl) -> Result<Option<&str>, FetchError> {
        let Some(named) = self.0.get("token_endpoint") else { return Ok(None) };
        let uri = named.as_str().ok_or(FetchError::Url)?;
        let parsed = fetch::parse_url(uri)?;
        if issuer.is_https() && !is_https(&parsed) {
            return Err(FetchError::PlainHttp);
        }
        Ok(Some(uri))
    }

    /// Whether `id_token_signing_alg_values_supported` names this algorithm.
    pub fn names_algorithm(&self, algorithm: Algorithm) -> bool {
        let named = self.0.get("id_token_signing_alg_values_supported").and_then(Value::as_array);
        named.is_some_and(|named| named.iter().any(|name| name.as_str() == Some(algorithm.as_str())))
    }
}

/// The `jwks_uri` of `issuer`'s discovery document.
///
/// # Errors
/// [`SourceError::Json`], [`SourceError::IssuerMismatch`], [`SourceError::JwksUri`].
pub(crate) fn jwks_uri(body: &[u8], issuer: &IssuerUrl) -> Result<String, SourceError> {
    let document = Discovery::read(body)?;
    if !document.is_of(issuer) {
        return Err(SourceError::IssuerMismatch);
    }
    document.jwks_uri(issuer).map(str::to_owned)
}

fn is_https(uri: &Uri) -> bool {
    uri.scheme_str() == Some("https")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(issuer: &str, document: &str) -> Result<String, &'static str> {
        let issuer = IssuerUrl::parse(issuer, "issuer").expect("good");
        jwks_uri(document.as_bytes(), &issuer).map_err(|error| error.reason())
    }

    #[test]
    fn the_jwks_uri_of_the_very_issuer_is_taken() {
        let document = r#"{"issuer":"https://a.example/t","jwks_uri":"https://keys.example/a","more":1}"#;
        assert_eq!(read("https://a.example/t", document), Ok("https://keys.example/a".to_owned()));
        for other in
            ["https://a.example/t/", "https://a.example", "https://a.example:443/t", "https://a.example/T"]
        {
            assert_eq!(read(other, document), Err("issuer_mismatch"), "{other}");
        }
    }

    #[test]
    fn a_jwks_uri_that_leads_astray_is_refused() {
        for uri in [
            r#""/jwks""#,
            r#""http://a.example/jwks""#,
            r#""http://127.0.0.1/jwks""#,
            r#""file:///etc/passwd""#,
            r#""https://u:p@a.example/""#,
            r#""""#,
            "null",
            r#"["https://a.example/jwks"]"#,
        ] {
            let document = format!(r#"{{"issuer":"https://a.example","jwks_uri":{uri}}}"#);
            assert_eq!(read("https://a.example", &document), Err("jwks_uri"), "{uri}");
        }
        assert_eq!(read("https://a.example", r#"{"issuer":"https://a.example"}"#), Err("jwks_uri"));
    }

    #[test]
    fn a_token_endpoint_that_would_take_proofs_in_clear_is_refused() {
        let read = |issuer: &str, members: &str| {
            let issuer = IssuerUrl::parse(issuer, "issuer").expect("good");
            let document = Discovery::read(format!("{{{members}}}").as_bytes()).expect("JSON");
            document.token_endpoint(&issuer).map(|uri| uri.map(str::to_owned)).map_err(|error| error.reason())
        };
        let at = |uri: &str| format!(r#""token_endpoint":"{uri}""#);
        assert_eq!(read("https://a.example", ""), Ok(None));
        let apart = "https://tokens.a.example/token";
        assert_eq!(read("https://a.example", &at(apart)), Ok(Some(apart.to_owned())));
        let local = "http://127.0.0.1:1/token";
        assert_eq!(read("http://127.0.0.1:1", &at(local)), Ok(Some(local.to_owned())));
        for uri in ["http://a.example/token", local] {
            assert_eq!(read("https://a.example", &at(uri)), Err("plain_http"), "{uri}");
        }
        for uri in ["/token", "", "https://u:p@a.example/"] {
            assert_eq!(read("https://a.example", &at(uri)), Err("url"), "{uri}");
        }
        assert_eq!(read("https://a.example", r#""token_endpoint":null"#), Err("url"));
    }

    #[test]
    fn a_loopback_issuer_may_have_a_plain_loopback_key_set_alone() {
        let document = |uri| format!(r#"{{"issuer":"http://127.0.0.1:1","jwks_uri":"{uri}"}}"#);
        assert!(read("http://127.0.0.1:1", &document("http://127.0.0.1:1/jwks")).is_ok());
        assert_eq!(read("http://127.0.0.1:1", &document("http://a.example/jwks")), Err("jwks_uri"));
    }

    #[test]
    fn loose_json_is_refused() {
        for document in ["", "<html>", "[]", r#"{"issuer":"https://a.example","issuer":"https://a.example"}"#]
        {
            assert_eq!(read("https://a.example", document), Err("not_json"), "{document}");
        }
    }
}
