//! The answers, for any framework: a method, a path and headers in, a response out.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};

use super::conditional::none_match_hits;
use super::documents::{Document, Endpoint, JSON};
use crate::Issuer;
use crate::metrics::agents::Agent;

impl Issuer {
    /// Answers a request for one of the issuer's paths, in any framework or none; `None` if `path` is not one of
    /// them. A query in `path` is not looked at.
    ///
    /// | path | methods | answer |
    /// |---|---|---|
    /// | both discovery documents, the key set | GET, HEAD | 200, or 304 if `If-None-Match` names the `ETag` |
    /// | | OPTIONS | 204 with CORS headers |
    /// | `ISS/authorize` | GET, HEAD, POST | 400: nobody can log in here |
    /// | any of them | others | 405 with `Allow` |
    ///
    /// The answer depends on what is published and on nothing else in the request: not on `Host`, not on
    /// `X-Forwarded-*`, not on `Accept-Encoding`.
    pub fn respond(&self, method: &Method, path: &str, headers: &HeaderMap) -> Option<Response<Bytes>> {
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let endpoint = self.live().endpoints().find(path)?;
        let response = match endpoint {
            Endpoint::Authorize => authorize(method),
            _ if *method == Method::OPTIONS => preflight(),
            _ => {
                return Some(
                    self.document(endpoint, method, headers).unwrap_or_else(|| self.refuse(endpoint)),
                );
            }
        };
        self.count(endpoint, &response);
        Some(response)
    }

    /// The fast path: GET and HEAD of a document; `None` for everything else.
    pub(crate) fn respond_document(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
    ) -> Option<Response<Bytes>> {
        if *method != Method::GET && *method != Method::HEAD {
            return None;
        }
        let endpoint = self.live().endpoints().find(path)?;
        self.document(endpoint, method, headers)
    }

    fn document(&self, endpoint: Endpoint, method: &Method, headers: &HeaderMap) -> Option<Response<Bytes>> {
        let with_body = match *method {
            Method::GET => true,
            Method::HEAD => false,
            _ => return None,
        };
        let published = self.live().published();
        let document = match endpoint {
            Endpoint::Jwks => &published.documents.jwks,
            Endpoint::Discovery | Endpoint::OauthMetadata => &published.documents.discovery,
            Endpoint::Authorize => return None,
        };
        if endpoint == Endpoint::Jwks && with_body {
            published
                .fetched(headers.get(USER_AGENT).map_or(Agent::Other, |agent| Agent::of(agent.as_bytes())));
        }
        let response = answer(document, with_body, headers);
        self.count(endpoint, &response);
        Some(response)
    }

    fn refuse(&self, endpoint: Endpoint) -> Response<Bytes> {
        let response = method_not_allowed("GET, HEAD, OPTIONS");
        self.count(endpoint, &response);
        response
    }

    fn count(&self, endpoint: Endpoint, response: &Response<Bytes>) {
        self.metrics().count_document(endpoint, response.status());
    }
}

fn answer(document: &Document, with_body: bool, headers: &HeaderMap) -> Response<Bytes> {
    let is_known = none_match_hits(headers, &document.etag);
    let body = if with_body && !is_known { document.body.clone() } else { Bytes::new() };
    let mut response = Response::new(body);
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.headers_mut() = document.not_modified.clone();
    } else {
        *response.headers_mut() = document.headers.clone();
    }
    response
}

/// Any origin may read public documents; no credentials are named, so none are sent.
fn preflight() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    *response.headers_mut() = fixed([
        (ALLOW, "GET, HEAD, OPTIONS"),
        (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, OPTIONS"),
        (ACCESS_CONTROL_ALLOW_HEADERS, "*"),
        (ACCESS_CONTROL_MAX_AGE, "86400"),
    ]);
    response
}

/// Discovery must name an authorization endpoint (OpenID Connect Discovery 1.0 section 3), and ours has no way in.
/// It never redirects, since no client is registered whose address could be trusted.
fn authorize(method: &Method) -> Response<Bytes> {
    match *method {
        Method::GET | Method::POST => error(StatusCode::BAD_REQUEST, AUTHORIZE, true),
        Method::HEAD => error(StatusCode::BAD_REQUEST, AUTHORIZE, false),
        _ => method_not_allowed("GET, HEAD, POST"),
    }
}

fn method_not_allowed(allow: &'static str) -> Response<Bytes> {
    let mut response = error(StatusCode::METHOD_NOT_ALLOWED, METHOD_NOT_ALLOWED, true);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
    response
}

/// An error that no cache keeps.
fn error(status: StatusCode, body: &'static str, with_body: bool) -> Response<Bytes> {
    let mut response =
        Response::new(if with_body { Bytes::from_static(body.as_bytes()) } else { Bytes::new() });
    *response.status_mut() = status;
    *response.headers_mut() =
        fixed([(CONTENT_TYPE, JSON), (CACHE_CONTROL, "no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff")]);
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    response
}

fn fixed<const N: usize>(headers: [(HeaderName, &'static str); N]) -> HeaderMap {
    headers.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect()
}

const AUTHORIZE: &str = r#"{"error":"unsupported_response_type","error_description":"this issuer gives tokens to workloads and has no interactive login"}"#;
const METHOD_NOT_ALLOWED: &str = r#"{"error":"method_not_allowed","error_description":"see the Allow header for the methods of this path"}"#;
