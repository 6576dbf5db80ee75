//! The cases: one row each, a token made for one algorithm and the verdict that a relying party owes it.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oneseal::{Algorithm, SystemClock};
use oneseal_coordination::Clock;
use oneseal_keystore::KeyType;
use oneseal_tests::keys::TestKey;
use serde_json::{Value, json};

use crate::signing::{decode, encode, sign};

/// What the tokens are made from.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) issuer: String,
    /// The fleet's own keys, one for each algorithm.
    pub(crate) keys: Vec<TestKey>,
    /// Somebody else's, one for each of the same algorithms.
    pub(crate) foreign: Vec<TestKey>,
    /// The published key set, as served.
    pub(crate) jwks: String,
}

/// The verdict expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    Accepted,
    Refused,
    /// Both are right: the golden file tells which it is.
    AsRecorded,
}

/// One row.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) expect: Expect,
    /// The token for one key of the fleet; `None` where the case makes no sense for its algorithm.
    pub(crate) token: fn(&Scene, &TestKey) -> Option<String>,
}

use Expect::{Accepted, AsRecorded, Refused};

const fn case(name: &'static str, expect: Expect, token: fn(&Scene, &TestKey) -> Option<String>) -> Case {
    Case { name, expect, token }
}

#[rustfmt::skip]
pub(crate) const CASES: &[Case] = &[
    case("control: signed here as a replica would", Accepted, |s, k| Some(s.good(k))),
    case("tampered payload", Refused, |s, k| Some(promoted(&s.good(k)))),
    case("tampered signature", Refused, |s, k| Some(flipped(&s.good(k)))),
    case("signature of another token", Refused, |s, k| Some(borrowed(&s.good(k), &s.own(k, &s.with("sub", "other".into()))))),
    case("empty signature", Refused, |s, k| Some(format!("{}.", unsigned(&s.good(k))))),
    case("signature left out with its dot", Refused, |s, k| Some(unsigned(&s.good(k)))),
    case("token cut short", Refused, |s, k| Some(shortened(&s.good(k)))),
    case("signed by another key under our kid", Refused, |s, k| Some(sign(s.stranger(k), k.algorithm, &header(k), &s.claims()))),
    case("key of the signer in the header (jwk)", Refused, |s, k| Some(s.with_own_key(k))),
    case("unknown kid", Refused, |s, k| Some(sign(k, k.algorithm, &json!({ "alg": k.algorithm.as_str(), "kid": "nobody", "typ": "JWT" }), &s.claims()))),
    case("kid missing, several keys published", AsRecorded, |s, k| Some(sign(k, k.algorithm, &json!({ "alg": k.algorithm.as_str(), "typ": "JWT" }), &s.claims()))),
    case("kid of a key of another algorithm", Refused, |s, k| Some(sign(k, k.algorithm, &json!({ "alg": k.algorithm.as_str(), "kid": s.other(k).kid.as_str(), "typ": "JWT" }), &s.claims()))),
    case("our RSA key used with an algorithm it is not for", Refused, |s, k| s.repadded(k)),
    case("unknown critical header (crit)", Refused, |s, k| Some(sign(k, k.algorithm, &json!({ "alg": k.algorithm.as_str(), "kid": k.kid.as_str(), "typ": "JWT", "crit": ["x-unknown"], "x-unknown": 1 }), &s.claims()))),
    case("wrong audience", Refused, |s, k| Some(s.own(k, &s.with("aud", "other".into())))),
    case("no audience", Refused, |s, k| Some(s.own(k, &s.without("aud")))),
    case("wrong issuer", Refused, |s, k| Some(s.own(k, &s.with("iss", "https://oidc.example".into())))),
    case("issuer with a slash at its end", Refused, |s, k| Some(s.own(k, &s.with("iss", format!("{}/", s.issuer).into())))),
    case("no issuer", Refused, |s, k| Some(s.own(k, &s.without("iss")))),
    case("expired an hour ago", Refused, |s, k| Some(s.own(k, &s.expired(3600)))),
    case("expired 30 seconds ago", AsRecorded, |s, k| Some(s.own(k, &s.expired(30)))),
    case("no expiry", AsRecorded, |s, k| Some(s.own(k, &s.without("exp")))),
    case("valid in an hour", Refused, |s, k| Some(s.own(k, &s.with("nbf", (now() + 3600).into())))),
    case("valid in 30 seconds", AsRecorded, |s, k| Some(s.own(k, &s.with("nbf", (now() + 30).into())))),
    case("alg none", Refused, |s, k| Some(s.none(k, "none"))),
    case("alg None", Refused, |s, k| Some(s.none(k, "None"))),
    case("alg nOnE", Refused, |s, k| Some(s.none(k, "nOnE"))),
    case("alg none with the signature kept", Refused, |s, k| Some(format!("{}{}", s.none(k, "none"), encode("signature")))),
    case("HS256 keyed with our public PEM", Refused, |s, k| Some(s.hmac(k, pem(k).as_bytes()))),
    case("HS256 keyed with our public PEM without its last line end", Refused, |s, k| Some(s.hmac(k, pem(k).trim_end().as_bytes()))),
    case("HS256 keyed with our public DER", Refused, |s, k| Some(s.hmac(k, &k.public.spki_der()))),
    case("HS256 keyed with our bare public key", Refused, |s, k| Some(s.hmac(k, &bare(k)))),
    case("HS256 keyed with our JWK", Refused, |s, k| Some(s.hmac(k, s.published(k).as_bytes()))),
    case("HS256 keyed with our key set", Refused, |s, k| Some(s.hmac(k, s.jwks.as_bytes()))),
    case("HS256 keyed with nothing", Refused, |s, k| Some(s.hmac(k, b""))),
    case("no token", Refused, |_, _| Some(String::new())),
];

impl Scene {
    /// What a replica mints.
    pub(crate) fn claims(&self) -> Value {
        let iat = now() - 30;
        json!({
            "iss": self.issuer, "sub": "pod-1", "aud": "test", "iat": iat, "nbf": iat, "exp": iat + 600, "jti": "1",
        })
    }

    fn with(&self, name: &str, value: Value) -> Value {
        let mut claims = self.claims();
        claims[name] = value;
        claims
    }

    /// As it was ten minutes before its end, which is `ago_s` seconds ago.
    fn expired(&self, ago_s: u64) -> Value {
        let exp = now() - ago_s;
        let mut claims = self.with("exp", exp.into());
        claims["iat"] = (exp - 600).into();
        claims["nbf"] = (exp - 600).into();
        claims
    }

    fn without(&self, name: &str) -> Value {
        let mut claims = self.claims();
        claims.as_object_mut().unwrap().remove(name);
        claims
    }

    fn good(&self, key: &TestKey) -> String {
        self.own(key, &self.claims())
    }

    fn own(&self, key: &TestKey, claims: &Value) -> String {
        sign(key, key.algorithm, &header(key), claims)
    }

    fn stranger(&self, key: &TestKey) -> &TestKey {
        self.foreign.iter().find(|foreign| foreign.algorithm == key.algorithm).unwrap()
    }

    /// The next of our keys, of another algorithm.
    fn other(&self, key: &TestKey) -> &TestKey {
        let at = self.keys.iter().position(|own| own.kid == key.kid).unwrap();
        &self.keys[(at + 1) % self.keys.len()]
    }

    fn with_own_key(&self, key: &TestKey) -> String {
        let stranger = self.stranger(key);
        let mut header = header(stranger);
        header["jwk"] = Value::Object(stranger.public.to_jwk_map());
        sign(stranger, stranger.algorithm, &header, &self.claims())
    }

    fn repadded(&self, key: &TestKey) -> Option<String> {
        let algorithm = match key.algorithm {
            Algorithm::Ps256 => Algorithm::Rs256,
            other if other.key_type() == KeyType::Rsa => Algorithm::Ps256,
            _ => return None,
        };
        let header = json!({ "alg": algorithm.as_str(), "kid": key.kid.as_str(), "typ": "JWT" });
        Some(sign(key, algorithm, &header, &self.claims()))
    }

    fn none(&self, key: &TestKey, spelled: &str) -> String {
        let header = json!({ "alg": spelled, "kid": key.kid.as_str(), "typ": "JWT" });
        format!("{}.{}.", encode(header.to_string()), encode(self.claims().to_string()))
    }

    fn hmac(&self, key: &TestKey, secret: &[u8]) -> String {
        let header = json!({ "alg": "HS256", "kid": key.kid.as_str(), "typ": "JWT" });
        let input = format!("{}.{}", encode(header.to_string()), encode(self.claims().to_string()));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), input.as_bytes());
        format!("{input}.{}", encode(tag))
    }

    /// The key as it stands in the key set, byte for byte.
    fn published(&self, key: &TestKey) -> &str {
        let at = self.jwks.find(key.kid.as_str()).unwrap();
        let begin = self.jwks[..at].rfind('{').unwrap();
        &self.jwks[begin..=at + self.jwks[at..].find('}').unwrap()]
    }
}

fn now() -> u64 {
    SystemClock.wall().as_secs().try_into().unwrap()
}

fn header(key: &TestKey) -> Value {
    json!({ "alg": key.algorithm.as_str(), "kid": key.kid.as_str(), "typ": "JWT" })
}

/// Header and payload.
fn unsigned(token: &str) -> String {
    token.rsplit_once('.').unwrap().0.to_owned()
}

/// Cut between groups of four characters, so that what is left is base64url, whatever the signature.
fn shortened(token: &str) -> String {
    let (signed, signature) = token.rsplit_once('.').unwrap();
    format!("{signed}.{}", &signature[..signature.len() / 4 * 4 - 20])
}

/// One bit of the signature is another.
fn flipped(token: &str) -> String {
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let mut bytes = decode(signature);
    bytes[10] ^= 1;
    format!("{signed}.{}", encode(bytes))
}

/// The same signature under other claims.
fn promoted(token: &str) -> String {
    let parts: Vec<_> = token.split('.').collect();
    let mut claims: Value = serde_json::from_slice(&decode(parts[1])).unwrap();
    claims["sub"] = "admin".into();
    format!("{}.{}.{}", parts[0], encode(claims.to_string()), parts[2])
}

/// The signature of `other`, by the same key.
fn borrowed(token: &str, other: &str) -> String {
    format!("{}.{}", unsigned(token), other.rsplit_once('.').unwrap().1)
}

fn pem(key: &TestKey) -> String {
    let text = STANDARD.encode(key.public.spki_der());
    let lines: Vec<_> = text.as_bytes().chunks(64).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", lines.join("\n"))
}

/// PKCS#1 of an RSA key, the point of the others: what is left of the SPKI without its algorithm.
fn bare(key: &TestKey) -> Vec<u8> {
    let spki = key.public.spki_der();
    let at = match key.public.key_type() {
        KeyType::Rsa => 24,
        KeyType::P256 => spki.len() - 65,
        KeyType::P384 => spki.len() - 97,
        KeyType::Ed25519 => spki.len() - 32,
    };
    spki[at..].to_vec()
}
