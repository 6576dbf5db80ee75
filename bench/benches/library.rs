//! The library in process: minting beside the primitive and beside `jsonwebtoken`, verifying beside the primitive with
//! its parsed key, answering for a document beside the copies that any answer needs.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Duration;

use aws_lc_rs::signature::ParsedPublicKey;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, Method, Response};
use jsonwebtoken::{EncodingKey, Header};
use oneseal_bench::embedded::Embedded;
use oneseal_bench::raw::{Claims, Raw};
use oneseal_bench::report::{self, Report};
use oneseal_bench::rounds::{Plan, rate, ratio};
use oneseal_bench::server::JWKS;
use oneseal_bench::verdict::Target;
use oneseal_keystore::Algorithm;
use serde::Deserialize;

fn main() -> ExitCode {
    report::run("library", measure)
}

fn measure(plan: Plan, report: &mut Report) {
    for algorithm in [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa] {
        let raw = Raw::generate(algorithm);
        let embedded = Embedded::new(&raw, algorithm);
        mint(plan, &raw, &embedded, algorithm, report);
        verify(plan, &raw, &embedded, algorithm, report);
        if algorithm == Algorithm::Rs256 {
            respond(plan, &embedded, report);
        }
    }
}

/// RSA against the primitive is in the bench `sign`, since its way through the signing threads is another one.
fn mint(plan: Plan, raw: &Raw, embedded: &Embedded, algorithm: Algorithm, report: &mut Report) {
    let ours = || {
        drop(black_box(if algorithm == Algorithm::Rs256 {
            embedded.mint()
        } else {
            embedded.mint_in_place()
        }));
    };
    if algorithm != Algorithm::Rs256 {
        let figure = ratio(plan, ours, || drop(black_box(raw.token())));
        report.verdict(&format!("mint {algorithm} / raw aws-lc-rs"), figure, Target::AtLeast(0.95));
    }
    let (by_jsonwebtoken, key, target) = match algorithm {
        Algorithm::Rs256 => (jsonwebtoken::Algorithm::RS256, EncodingKey::from_rsa_pem(&pem(raw)), 2.5),
        Algorithm::Es256 => (jsonwebtoken::Algorithm::ES256, EncodingKey::from_ec_pem(&pem(raw)), 1.4),
        _ => return,
    };
    let (header, key) = (Header::new(by_jsonwebtoken), key.expect("a key"));
    let theirs = || {
        drop(black_box(jsonwebtoken::encode(&header, &Claims::now(), &key).expect("it signs")));
    };
    let name = format!("mint {algorithm} / jsonwebtoken::encode");
    report.verdict(&name, ratio(plan, ours, theirs), Target::AtLeast(target));
}

/// Both take the text of a token and give its claims.
fn verify(plan: Plan, raw: &Raw, embedded: &Embedded, algorithm: Algorithm, report: &mut Report) {
    let token = embedded.mint();
    let key = raw.verifier();
    let ours = || drop(black_box(embedded.issuer.verify(&token, &embedded.audience).expect("a good token")));
    let limit = || drop(black_box(verified_by(&key, &token).expect("a good token")));
    // For the others the reference had no goal; their curves leave more of a core to the rest.
    let target = if algorithm == Algorithm::Rs256 { Target::AtLeast(0.90) } else { Target::None };
    report.verdict(&format!("verify {algorithm} / raw parsed key"), ratio(plan, ours, limit), target);
}

fn respond(plan: Plan, embedded: &Embedded, report: &mut Report) {
    let (method, headers) = (Method::GET, HeaderMap::new());
    let ours = || black_box(embedded.issuer.respond(&method, JWKS, &headers)).expect("a document of ours");
    let (head, body) = ours().into_parts();
    let copies = || {
        let mut response = Response::new(Bytes::clone(&body));
        *response.headers_mut() = head.headers.clone();
        black_box(response)
    };
    let figure = ratio(plan, || drop(ours()), || drop(copies()));
    report.verdict("respond() to GET JWKS / the copies that it needs", figure, Target::None);
    let ns = 1e9 / rate(|| drop(ours()), Duration::from_millis(500));
    report.verdict("respond() to GET JWKS, ns", ns, Target::None);
}

/// As a relying party in Rust would have them.
#[derive(Deserialize)]
#[expect(dead_code, reason = "what is read is not looked at")]
struct Read {
    iss: String,
    sub: String,
    aud: String,
    iat: i64,
    nbf: i64,
    exp: i64,
    jti: String,
}

fn verified_by(key: &ParsedPublicKey, token: &str) -> Option<Read> {
    let (signed, signature) = token.rsplit_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    key.verify_sig(signed.as_bytes(), &signature).ok()?;
    let payload = URL_SAFE_NO_PAD.decode(signed.split_once('.')?.1).ok()?;
    serde_json::from_slice(&payload).ok()
}

fn pem(raw: &Raw) -> Vec<u8> {
    let body = STANDARD.encode(raw.pkcs8());
    format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n").into_bytes()
}
