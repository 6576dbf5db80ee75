//! Discovery and key set as bytes with their headers, built once for each snapshot.
//!
//! Answering then is a path comparison, a clone of a small header map and a reference count: no I/O, no lock, no
//! copy of the body. Nothing in an answer comes from the request or differs between replicas that serve the same
//! ring: a cache in front may take any replica's answer for any other's.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use oneseal_keystore::{Algorithm, Digest, IssuerUrl, Rotation, Snapshot};
use serde::Serialize;

use crate::proofs::Grant;

/// The paths of one issuer and the discovery document, which depend on configuration alone.
#[derive(Debug)]
pub(crate) struct Endpoints {
    discovery_path: String,
    oauth_metadata_path: String,
    jwks_path: String,
    authorize_path: String,
    /// Where tokens are asked for, if anybody can prove anything.
    token_path: Option<String>,
    discovery: Bytes,
    /// A header that somebody else fills in.
    reserved: Option<HeaderName>,
}

/// One of the paths that an issuer answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// The key set.
    Jwks,
    /// OpenID Connect Discovery 1.0 section 4.
    Discovery,
    /// RFC 8414 section 3: the same document under the path that OAuth clients look at.
    OauthMetadata,
    /// Named by discovery, since clients want one, and always a refusal.
    Authorize,
}

impl Endpoint {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Jwks, Self::Discovery, Self::OauthMetadata, Self::Authorize];

    /// The `document` label of the request counter.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Jwks => "jwks",
            Self::Discovery => "discovery",
            Self::OauthMetadata => "oauth_metadata",
            Self::Authorize => "authorize",
        }
    }
}

impl Endpoints {
    pub(crate) fn new(
        url: &IssuerUrl,
        algorithms: &[Algorithm],
        tokens: Option<&TokenMetadata>,
        reserved: Option<HeaderName>,
    ) -> Self {
        Self {
            reserved,
            token_path: tokens.map(|_| url.token_path()),
            discovery_path: url.discovery_path(),
            oauth_metadata_path: url.oauth_metadata_path(),
            jwks_path: url.jwks_path(),
            authorize_path: url.authorize_path(),
            discovery: Bytes::from(Discovery::new(url, algorithms, tokens).to_json()),
        }
    }

    /// Which of them `path` is, byte for byte: no slash is forgiven and nothing is decoded.
    pub(crate) fn find(&self, path: &str) -> Option<Endpoint> {
        Endpoint::ALL.into_iter().find(|endpoint| self.path(*endpoint) == path)
    }

    /// Whether `path` is the token endpoint's, byte for byte.
    pub(crate) fn is_token(&self, path: &str) -> bool {
        self.token_path.as_deref() == Some(path)
    }

    /// Where tokens are asked for, if anybody can prove anything.
    pub(crate) fn token_path(&self) -> Option<&str> {
        self.token_path.as_deref()
    }

    pub(crate) fn path(&self, endpoint: Endpoint) -> &str {
        match endpoint {
            Endpoint::Jwks => &self.jwks_path,
            Endpoint::Discovery => &self.discovery_path,
            Endpoint::OauthMetadata => &self.oauth_metadata_path,
            Endpoint::Authorize => &self.authorize_path,
        }
    }
}

/// What discovery says about tokens that can be asked for.
#[derive(Clone, Debug)]
pub(crate) struct TokenMetadata {
    /// Where, if not at `ISS/token`.
    pub(crate) endpoint: Option<String>,
    /// How.
    pub(crate) grants: Vec<Grant>,
}

/// The documents of one snapshot.
#[derive(Debug)]
pub(crate) struct Documents {
    pub(crate) discovery: Document,
    pub(crate) jwks: Document,
}

impl Documents {
    pub(crate) fn new(snapshot: &Snapshot, endpoints: &Endpoints) -> Self {
        let rotation = snapshot.rotation();
        let mut discovery =
            Document::new(endpoints.discovery.clone(), &hex_etag(&endpoints.discovery), rotation);
        let mut jwks = Document::new(snapshot.jwks().clone(), snapshot.etag(), rotation);
        let identity = snapshot.identity();
        jwks.set(REVISION, &format!("{}.{}", identity.incarnation, identity.revision));
        for document in [&mut discovery, &mut jwks] {
            if let Some(reserved) = &endpoints.reserved {
                document.headers.insert(reserved, HeaderValue::from_static(""));
            }
            document.seal();
        }
        Self { discovery, jwks }
    }
}

/// A body with the headers of its two answers.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) body: Bytes,
    pub(crate) etag: String,
    /// Of 200, for GET and HEAD alike.
    pub(crate) headers: HeaderMap,
    /// Of 304: the same without what describes a body (RFC 9110 section 15.4.5).
    pub(crate) not_modified: HeaderMap,
}

impl Document {
    fn new(body: Bytes, etag: &str, rotation: &Rotation) -> Self {
        let mut document =
            Self { etag: etag.to_owned(), headers: HeaderMap::new(), not_modified: HeaderMap::new(), body };
        document.set(CONTENT_LENGTH, &document.body.len().to_string());
        document.set(ETAG, etag);
        document.set(CACHE_CONTROL, &cache_control(rotation));
        // A static value is cloned without counting references, which each of the others costs twice an answer.
        for (name, value) in
            [(CONTENT_TYPE, JSON), (ACCESS_CONTROL_ALLOW_ORIGIN, "*"), (X_CONTENT_TYPE_OPTIONS, "nosniff")]
        {
            document.headers.insert(name, HeaderValue::from_static(value));
        }
        document
    }

    /// Our values are ASCII without control characters; one that were not would be left out.
    fn set(&mut self, name: HeaderName, value: &str) {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
    }

    /// Derives the headers of 304 once those of 200 are complete.
    fn seal(&mut self) {
        self.not_modified = self.headers.clone();
        self.not_modified.remove(CONTENT_TYPE);
        self.not_modified.remove(CONTENT_LENGTH);
    }
}

/// The discovery document (OpenID Connect Discovery 1.0 section 3, RFC 8414 section 2), members in written order.
#[derive(Serialize)]
struct Discovery<'a> {
    issuer: &'a str,
    authorization_endpoint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_endpoint: Option<String>,
    jwks_uri: String,
    response_types_supported: [&'static str; 1],
    #[serde(skip_serializing_if = "Option::is_none")]
    grant_types_supported: Option<Vec<&'static str>>,
    subject_types_supported: [&'static str; 1],
    id_token_signing_alg_values_supported: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_endpoint_auth_methods_supported: Option<[&'static str; 1]>,
    scopes_supported: [&'static str; 1],
    claims_supported: [&'static str; 7],
}

impl<'a> Discovery<'a> {
    fn new(url: &'a IssuerUrl, algorithms: &[Algorithm], tokens: Option<&TokenMetadata>) -> Self {
        let token_endpoint =
            tokens.map(|tokens| tokens.endpoint.clone().unwrap_or_else(|| url.url_of(&url.token_path())));
        Self {
            token_endpoint,
            grant_types_supported: tokens
                .map(|tokens| tokens.grants.iter().map(|grant| grant.as_str()).collect()),
            token_endpoint_auth_methods_supported: tokens.map(|_| ["none"]),
            issuer: url.as_str(),
            authorization_endpoint: url.url_of(&url.authorize_path()),
            jwks_uri: url.url_of(&url.jwks_path()),
            response_types_supported: ["id_token"],
            subject_types_supported: ["public"],
            id_token_signing_alg_values_supported: algorithms
                .iter()
                .map(|algorithm| algorithm.as_str())
                .collect(),
            scopes_supported: ["openid"],
            claims_supported: ["iss", "sub", "aud", "iat", "nbf", "exp", "jti"],
        }
    }

    fn to_json(&self) -> Vec<u8> {
        // Strings and lists of strings always serialise.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

fn cache_control(rotation: &Rotation) -> String {
    let max_age = rotation.jwks_max_age_s;
    match rotation.stale_if_error_s() {
        0 => format!("public, max-age={max_age}"),
        grace => format!("public, max-age={max_age}, stale-if-error={grace}"),
    }
}

fn hex_etag(body: &[u8]) -> String {
    format!("\"{}\"", Digest::of(body))
}

/// For the key set too: every relying party takes it, while some refuse `application/jwk-set+json`.
pub(crate) const JSON: &str = "application/json";

/// Incarnation and revision of the ring, such as `1.41`; `0.0` for bare keys.
pub(crate) const REVISION: HeaderName = HeaderName::from_static("x-oneseal-revision");

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(url: &str) -> Endpoints {
        Endpoints::new(
            &IssuerUrl::parse(url, "p").expect("good"),
            &[Algorithm::Rs256, Algorithm::Es256],
            None,
            None,
        )
    }

    #[test]
    fn paths_are_compared_byte_for_byte() {
        let endpoints = endpoints("https://oidc.example/t");
        assert_eq!(endpoints.find("/t/.well-known/jwks.json"), Some(Endpoint::Jwks));
        assert_eq!(
            endpoints.find("/.well-known/oauth-authorization-server/t"),
            Some(Endpoint::OauthMetadata)
        );
        for path in [
            "/.well-known/jwks.json",
            "/t/.well-known/jwks.json/",
            "/t//.well-known/jwks.json",
            "/T/.well-known/jwks.json",
            "/t/%2Ewell-known/jwks.json",
            "/t/.well-known/oauth-authorization-server",
            "/t",
            "",
        ] {
            assert_eq!(endpoints.find(path), None, "{path}");
        }
    }

    #[test]
    fn a_declared_shared_cache_gets_stale_if_error() {
        let mut rotation = Rotation::default();
        assert_eq!(cache_control(&rotation), "public, max-age=300");
        rotation.shared_cache = true;
        assert_eq!(cache_control(&rotation), "public, max-age=300, stale-if-error=3600");
    }

    #[test]
    fn the_slash_of_an_issuer_stays_in_its_name_alone() {
        let discovery = endpoints("https://oidc.example/t/").discovery;
        let text = std::str::from_utf8(&discovery).expect("UTF-8");
        assert!(text.starts_with(r#"{"issuer":"https://oidc.example/t/","#), "{text}");
        assert!(text.contains(r#""jwks_uri":"https://oidc.example/t/.well-known/jwks.json""#), "{text}");
    }
}
