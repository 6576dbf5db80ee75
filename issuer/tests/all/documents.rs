//! Discovery and key set: bytes, headers, methods, conditions.

use std::fmt::Write as _;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use oneseal::{Algorithm, Issuer, Rotation};

use crate::support::{ES256, RS256, URL, bare, es256, get, golden, headers, json, start};

const DISCOVERY: &str = "/.well-known/openid-configuration";
const OAUTH: &str = "/.well-known/oauth-authorization-server";
const JWKS: &str = "/.well-known/jwks.json";
const AUTHORIZE: &str = "/authorize";

#[tokio::test]
async fn discovery_and_headers_are_as_agreed() {
    let keys = bare(&[("current.RS256.pem", RS256), ("current.ES256.pem", ES256)]);
    let running = start(URL, keys, |builder| builder.algorithms([Algorithm::Rs256, Algorithm::Es256])).await;
    let discovery = get(&running.issuer, DISCOVERY);
    golden("discovery.json", &pretty(&discovery));
    golden("discovery.headers", &shown(&discovery));
    let jwks = get(&running.issuer, JWKS);
    golden("jwks.json", &pretty(&jwks));
    golden("jwks.headers", &shown(&jwks));
    assert_eq!(get(&running.issuer, OAUTH).body(), discovery.body());
    assert_eq!(shown(&get(&running.issuer, OAUTH)), shown(&discovery));
}

#[tokio::test]
async fn the_key_set_holds_no_private_member() {
    let running = start(URL, bare(&[("current.pem", RS256)]), |builder| builder).await;
    let jwks = json(&get(&running.issuer, JWKS));
    for key in jwks["keys"].as_array().expect("a list") {
        let names: Vec<_> = key.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(names.len(), 6, "{names:?}");
        assert!(names.iter().all(|name| ["kty", "use", "alg", "kid", "n", "e"].contains(name)), "{names:?}");
    }
}

#[tokio::test]
async fn a_declared_shared_cache_gets_a_grace_period() {
    let mut rotation = Rotation::default();
    rotation.shared_cache = true;
    rotation.jwks_max_age_s = 120;
    rotation.publish_lead_s = Some(100_000);
    let running = start(URL, bare(&[("current.pem", ES256)]), |builder| {
        builder.algorithms([Algorithm::Es256]).rotation(rotation)
    });
    let jwks = get(&running.await.issuer, JWKS);
    assert_eq!(jwks.headers()["cache-control"], "public, max-age=120, stale-if-error=3600");
}

/// Each method on each path, with and without a slash at the end (bug report D4).
#[tokio::test]
async fn methods_and_paths_make_a_matrix() {
    let running = es256().await;
    let mut matrix = String::new();
    let methods = [
        Method::GET,
        Method::HEAD,
        Method::OPTIONS,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::PATCH,
        Method::TRACE,
    ];
    for path in [DISCOVERY, OAUTH, JWKS, AUTHORIZE, "/token", "/"] {
        for path in [path.to_owned(), format!("{path}/"), format!("{path}?a=b")] {
            for method in &methods {
                let response = running.issuer.respond(method, &path, &HeaderMap::new());
                let answer = response.map_or_else(|| "not ours".to_owned(), |response| summary(&response));
                writeln!(matrix, "{method} {path}: {answer}").expect("a String takes all");
            }
        }
    }
    golden("matrix.txt", &matrix);
}

#[tokio::test]
async fn head_has_the_headers_of_get_and_no_body() {
    let running = es256().await;
    for path in [DISCOVERY, OAUTH, JWKS, AUTHORIZE] {
        let get = running.issuer.respond(&Method::GET, path, &HeaderMap::new()).expect("ours");
        let head = running.issuer.respond(&Method::HEAD, path, &HeaderMap::new()).expect("ours");
        assert_eq!(head.status(), get.status());
        assert_eq!(head.headers(), get.headers());
        assert!(head.body().is_empty());
        assert_eq!(head.headers()["content-length"], get.body().len().to_string());
    }
}

#[tokio::test]
async fn a_known_tag_gets_304_without_a_body() {
    let running = es256().await;
    for path in [DISCOVERY, OAUTH, JWKS] {
        let whole = get(&running.issuer, path);
        let etag = whole.headers()["etag"].to_str().expect("text").to_owned();
        for value in [etag.clone(), format!("W/{etag}"), "*".to_owned(), format!("\"x\", {etag}")] {
            for method in [Method::GET, Method::HEAD] {
                let conditional = headers(&[("if-none-match", value.as_str())]);
                let response = running.issuer.respond(&method, path, &conditional).expect("ours");
                assert_eq!(response.status(), StatusCode::NOT_MODIFIED, "{path} {value}");
                assert!(response.body().is_empty());
                for name in ["etag", "cache-control", "access-control-allow-origin"] {
                    assert_eq!(response.headers()[name], whole.headers()[name], "{name}");
                }
                assert!(!response.headers().contains_key("content-length"));
            }
        }
        let other = headers(&[("if-none-match", "\"other\"")]);
        assert_eq!(running.issuer.respond(&Method::GET, path, &other).expect("ours").body(), whole.body());
    }
}

#[tokio::test]
async fn a_reserved_header_comes_empty_with_every_document_and_only_if_it_is_asked_for() {
    let key = || bare(&[("current.pem", RS256)]);
    let name = HeaderName::from_static("x-request-id");
    let with = start(URL, key(), |builder| builder.reserve_header(name.clone())).await.issuer;
    let without = start(URL, key(), |builder| builder).await.issuer;
    for path in [JWKS, DISCOVERY, OAUTH] {
        let plain = get(&with, path);
        let etag = plain.headers()["etag"].to_str().expect("text");
        let known = with.respond(&Method::GET, path, &headers(&[("if-none-match", etag)])).expect("ours");
        assert_eq!(known.status(), StatusCode::NOT_MODIFIED);
        for mut answer in [plain, known] {
            let answer = answer.headers_mut();
            assert_eq!(answer.insert(&name, HeaderValue::from_static("7")).expect("reserved"), "");
        }
        assert_eq!(get(&without, path).headers().get(&name), None);
    }
}

#[tokio::test]
async fn any_origin_may_read_documents_and_nothing_else() {
    let running = es256().await;
    let asked = headers(&[("origin", "https://spa.example"), ("access-control-request-method", "GET")]);
    for path in [DISCOVERY, OAUTH, JWKS] {
        let preflight = running.issuer.respond(&Method::OPTIONS, path, &asked).expect("ours");
        assert_eq!(preflight.status(), StatusCode::NO_CONTENT);
        assert_eq!(preflight.headers()["access-control-allow-origin"], "*");
        assert_eq!(preflight.headers()["access-control-allow-methods"], "GET, HEAD, OPTIONS");
        assert!(!preflight.headers().contains_key("access-control-allow-credentials"));
        let response = running.issuer.respond(&Method::GET, path, &asked).expect("ours");
        assert_eq!(response.headers()["access-control-allow-origin"], "*");
        assert!(!response.headers().contains_key("set-cookie"));
    }
    for method in [Method::GET, Method::OPTIONS] {
        let refused = running.issuer.respond(&method, AUTHORIZE, &asked).expect("ours");
        assert!(!refused.headers().contains_key("access-control-allow-origin"), "{method}");
    }
}

#[tokio::test]
async fn authorize_is_a_refusal_that_no_cache_keeps_and_that_never_redirects() {
    let running = es256().await;
    let path = "/authorize?response_type=id_token&redirect_uri=https://evil.example";
    let refused = get(&running.issuer, path);
    assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
    assert_eq!(refused.headers()["cache-control"], "no-store");
    assert_eq!(refused.headers()["content-type"], "application/json");
    assert!(!refused.headers().contains_key("location"));
    assert_eq!(json(&refused)["error"], "unsupported_response_type");
}

/// Bug reports D2 and O6: neither a proxy's headers nor content negotiation change a byte.
#[tokio::test]
async fn nothing_in_the_request_shows_in_the_answer() {
    let running = es256().await;
    let odd = headers(&[
        ("host", "evil.example"),
        ("x-forwarded-host", "evil.example"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-prefix", "/evil"),
        ("forwarded", "host=evil.example;proto=http"),
        ("accept-encoding", "gzip, br, zstd"),
        ("accept", "text/html"),
        ("range", "bytes=0-3"),
        ("if-modified-since", "Sun, 29 Nov 2026 00:00:00 GMT"),
    ]);
    for path in [DISCOVERY, OAUTH, JWKS] {
        let plain = get(&running.issuer, path);
        let asked = running.issuer.respond(&Method::GET, path, &odd).expect("ours");
        assert_eq!((asked.status(), asked.headers()), (plain.status(), plain.headers()));
        assert_eq!(asked.body(), plain.body());
        for name in ["vary", "content-encoding", "date", "server", "set-cookie"] {
            assert!(!plain.headers().contains_key(name), "{name}");
        }
    }
}

/// Bug reports D1 and D6: the issuer is one string, kept byte for byte, and the paths hang under it.
#[tokio::test]
async fn the_issuer_is_kept_byte_for_byte() {
    for (url, base) in [
        ("https://oidc.example", ""),
        ("https://oidc.example/", ""),
        ("https://oidc.example/tenants/a", "/tenants/a"),
        ("https://oidc.example/tenants/a/", "/tenants/a"),
        ("https://oidc.example:8443/x", "/x"),
        ("http://127.0.0.1:8080", ""),
        ("https://oidc.example/:odd/*seg", "/:odd/*seg"),
    ] {
        let keys = bare(&[("current.pem", ES256)]);
        let running = start(url, keys, |builder| builder.algorithms([Algorithm::Es256])).await;
        let origin =
            url[..url.find("//").map_or(0, |at| at + 2)].to_owned() + url.split('/').nth(2).expect("a host");
        for path in [format!("{base}{DISCOVERY}"), format!("{OAUTH}{base}")] {
            let discovery = json(&get(&running.issuer, &path));
            assert_eq!(discovery["issuer"], url);
            assert_eq!(discovery["jwks_uri"], format!("{origin}{base}{JWKS}"));
            assert_eq!(discovery["authorization_endpoint"], format!("{origin}{base}/authorize"));
            assert!(discovery.get("token_endpoint").is_none());
        }
        assert_eq!(get(&running.issuer, &format!("{base}{JWKS}")).status(), StatusCode::OK);
        if !base.is_empty() {
            for path in [DISCOVERY, OAUTH, JWKS] {
                assert!(running.issuer.respond(&Method::GET, path, &HeaderMap::new()).is_none(), "{path}");
            }
        }
        assert_token_and_discovery_agree(&running.issuer, url).await;
    }
}

async fn assert_token_and_discovery_agree(issuer: &Issuer, url: &str) {
    use crate::support::{AUDIENCE, audience, pod, segment};
    let minted = issuer.mint(&pod(), &audience(AUDIENCE)).await.expect("minted");
    assert_eq!(segment(&minted.token, 1)["iss"], url);
}

#[tokio::test]
async fn two_replicas_of_one_ring_answer_alike() {
    let first = es256().await;
    let second = es256().await;
    for path in [DISCOVERY, OAUTH, JWKS, AUTHORIZE] {
        let (one, other) = (get(&first.issuer, path), get(&second.issuer, path));
        assert_eq!(
            (one.status(), one.headers(), one.body()),
            (other.status(), other.headers(), other.body())
        );
    }
}

fn pretty(response: &Response<Bytes>) -> String {
    // Members stay in written order, one a line: what is compared is what was sent, but for the line breaks.
    let text = std::str::from_utf8(response.body()).expect("UTF-8");
    text.replace(",\"", ",\n\"").replace('{', "{\n") + "\n"
}

fn shown(response: &Response<Bytes>) -> String {
    let mut lines: Vec<_> = response
        .headers()
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_str().expect("text")))
        .collect();
    lines.sort();
    format!("{}\n{}\n", response.status(), lines.join("\n"))
}

fn summary(response: &Response<Bytes>) -> String {
    let allow =
        response.headers().get("allow").map(|allow| format!(", allow {}", allow.to_str().expect("text")));
    let body = if response.body().is_empty() { "no body" } else { "a body" };
    let cache = response.headers().get("cache-control").map(|cache| cache.to_str().expect("text"));
    format!(
        "{}, {body}, {}{}",
        response.status(),
        cache.unwrap_or("no cache-control"),
        allow.unwrap_or_default()
    )
}
