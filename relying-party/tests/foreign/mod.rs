//! Tokens and key sets from outside, each through a whole relying party.

use std::path::Path;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal_coordination::{Clock, SystemClock};
use oneseal_relying_party::{BuildError, RelyingParty};
use serde_json::{Value, json};

use crate::support::{AUDIENCE, CLOCK, ISSUER, clock, issuer_url, token, vectors};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn holding(jwks: &Value) -> Result<RelyingParty, BuildError> {
    let builder = RelyingParty::builder(issuer_url(ISSUER)).audience(AUDIENCE).clock(clock());
    builder.types(["", "JWT", "JOSE"]).jwks(jwks.to_string()).build()
}

/// Wycheproof's signatures and encryptions and all outputs of the JOSE cookbook: none is a token of this issuer, and
/// none may be taken for want of keys, or cost more than a look.
#[tokio::test]
async fn every_outside_token_is_refused_for_good() {
    let relying_party = holding(&vectors()["jwks"]).unwrap();
    let mut seen = 0;
    for (source, member) in
        [("json_web_signature", "jws"), ("json_web_crypto", "token"), ("json_web_encryption", "token")]
    {
        let outside = read(&format!("../keystore/tests/vectors/wycheproof/{source}.json"));
        let outside: Value = serde_json::from_str(&outside).unwrap();
        for group in outside["groups"].as_array().unwrap() {
            // Their own key where it can be held, ours where not.
            let own = holding(&json!({ "keys": [group["public"]] })).ok();
            for test in group["tests"].as_array().unwrap() {
                let judge = own.as_ref().unwrap_or(&relying_party);
                let refused = judge.verify(test[member].as_str().unwrap()).await.unwrap_err();
                assert!(!refused.is_unavailable(), "{source} {}: {refused:?}", test["tcId"]);
                seen += 1;
            }
        }
    }
    for line in read("../keystore/tests/vectors/jose-cookbook/tokens.tsv").lines() {
        let (example, token) = line.rsplit_once('\t').unwrap();
        let refused = relying_party.verify(token).await.unwrap_err();
        assert!(!refused.is_unavailable(), "{example}: {refused:?}");
        seen += 1;
    }
    assert_eq!(seen, 401 + 83 + 139 + 69);
}

/// Who can ask for a key to be derived, or a text inflated, before anything is verified, can ask for all the memory.
#[tokio::test]
async fn encrypted_tokens_are_refused_by_their_form_whatever_they_ask_for() {
    let relying_party = holding(&vectors()["jwks"]).unwrap();
    for header in [
        json!({ "alg": "dir", "enc": "A256GCM", "zip": "DEF" }),
        json!({ "alg": "PBES2-HS256+A128KW", "enc": "A128CBC-HS256", "p2c": 2_147_483_647_u32, "p2s": "AAAA" }),
        json!({ "alg": "RSA-OAEP-256", "enc": "A256GCM", "kid": "rs1" }),
    ] {
        let token = format!("{}.AAAA.AAAA.AAAA.AAAA", URL_SAFE_NO_PAD.encode(header.to_string()));
        assert_eq!(relying_party.verify(&token).await.unwrap_err().reason(), "encrypted");
        let three = format!("{}.AAAA.AAAA", URL_SAFE_NO_PAD.encode(header.to_string()));
        assert_eq!(relying_party.verify(&three).await.unwrap_err().reason(), "encrypted");
    }
}

/// Bundles of SPIFFE: plain keys are keys, and those that say what else they are for are none here.
#[tokio::test]
async fn a_spiffe_bundle_is_no_key_set_and_its_jwt_keys_alone_are() {
    let bundle = |file: &str| {
        let text = read(&format!("../tests/vectors/keys/go-spiffe/{file}"));
        holding(&serde_json::from_str(&text).unwrap())
    };
    // Of the last one's two keys one has no `kid`, and serves tokens without.
    for (file, kids) in [("jwks_valid_1", 1), ("jwks_valid_2", 2), ("jwks_missing_kid", 1)] {
        let relying_party = bundle(&format!("jwtbundle/{file}.json")).unwrap();
        relying_party.refresh().await.unwrap();
        assert_eq!(
            (relying_party.held_kids().len(), relying_party.dropped_keys().total()),
            (kids, 0),
            "{file}"
        );
    }
    for (file, reason) in [
        ("missing_kid", "no_usable_key"),
        ("multiple_x509", "no_usable_key"),
        ("valid_1", "no_usable_key"),
        ("valid_2", "no_usable_key"),
        ("valid_with_wit", "no_usable_key"),
        ("no_keys", "no_keys_member"),
    ] {
        let refused = bundle(&format!("spiffebundle/spiffebundle_{file}.json")).unwrap_err();
        let BuildError::Jwks(source) = refused else { panic!("{file}: {refused:?}") };
        assert_eq!(source.reason(), reason, "{file}");
    }
}

/// A key of a trust domain, and the tokens that it signs.
struct Authority {
    kid: &'static str,
    pair: EcdsaKeyPair,
}

impl Authority {
    fn make(kid: &'static str) -> Self {
        Self { kid, pair: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap() }
    }

    fn jwk(&self) -> Value {
        let (x, y) = self.pair.public_key().as_ref()[1..].split_at(32);
        let [x, y] = [x, y].map(|coordinate| URL_SAFE_NO_PAD.encode(coordinate));
        json!({ "kty": "EC", "crv": "P-256", "kid": self.kid, "x": x, "y": y })
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let [header, claims] = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string()));
        let input = format!("{header}.{claims}");
        let signature = self.pair.sign(&SystemRandom::new(), input.as_bytes()).unwrap();
        format!("{input}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// `base` with these members, null for none.
fn with(base: &Value, changes: Value) -> Value {
    let mut changed = base.as_object().unwrap().clone();
    for (name, value) in changes.as_object().unwrap() {
        changed.remove(name);
        if !value.is_null() {
            changed.insert(name.clone(), value.clone());
        }
    }
    changed.into()
}

/// What is verdict of SPIFFE's and not of a verifier's stands with its reason.
#[tokio::test]
async fn jwt_svids_have_their_verdicts() {
    let cases: Value = serde_json::from_str(include_str!("../vectors/jwt-svid-cases.json")).unwrap();
    let (a, a2, b) = (Authority::make("key1"), Authority::make("key2"), Authority::make("keyb"));
    // A trust domain is an issuer here: each has a relying party of its own, and they share no keys.
    let trust_domain = holding(&json!({ "keys": [a.jwk(), a2.jwk()] })).unwrap();
    let header = json!({ "alg": "ES256", "typ": "JWT", "kid": "key1" });
    let now = CLOCK.as_secs();
    let claims = json!({ "iss": ISSUER, "sub": "spiffe://a.example/w", "aud": [AUDIENCE], "exp": now + 300 });
    let signed = |header_changes: Value, claim_changes: Value| {
        a.sign(&with(&header, header_changes), &with(&claims, claim_changes))
    };
    let (none, good) = (|| json!({}), signed(json!({}), json!({})));
    let [protected, payload, signature]: [&str; 3] = good.split('.').collect::<Vec<_>>().try_into().unwrap();
    let flattened = json!({ "protected": protected, "payload": payload, "signature": signature });
    let unprotected = with(&flattened, json!({ "header": { "kid": "key1" } }));
    for case in cases["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let (token, wanted) = match name {
            "success" => (good.clone(), "ok"),
            "malformed" => ("not a JWT".to_owned(), "shape"),
            "unsupported algorithm" => (signed(json!({ "alg": "none" }), none()), "algorithm_not_allowed"),
            "missing subject" => (signed(none(), json!({ "sub": null })), "claim_missing"),
            "missing expiration" => (signed(none(), json!({ "exp": null })), "claim_missing"),
            "expired" => (signed(none(), json!({ "exp": now - 60 })), "expired"),
            "unexpected audience" => (signed(none(), json!({ "aud": ["another"] })), "audience"),
            // Which subjects are good is for whoever has rules on them: an OIDC subject is any text.
            "invalid subject" => (signed(none(), json!({ "sub": "https://a.example/w" })), "ok"),
            "missing kid" => (signed(json!({ "kid": null }), none()), "ambiguous_key"),
            "no bundle for trust domain" => (signed(none(), json!({ "iss": "https://b.example" })), "issuer"),
            "no authority for kid" => (signed(json!({ "kid": "key3" }), none()), "unknown_kid"),
            "mismatched authority" => (a2.sign(&header, &claims), "signature"),
            "invalid typ" => (signed(json!({ "typ": "at+jwt" }), none()), "type"),
            "aud absent" => (signed(none(), json!({ "aud": null })), "claim_missing"),
            "JSON serialisation" => (flattened.to_string(), "shape"),
            "unprotected header" => (unprotected.to_string(), "shape"),
            "kid of trust domain A, sub of trust domain B" => {
                (b.sign(&with(&header, json!({ "kid": "keyb" })), &claims), "unknown_kid")
            }
            other => panic!("no token for {other}"),
        };
        let outcome = trust_domain.verify(&token).await;
        let verdict = outcome.map_or_else(|refused| refused.reason(), |_| "ok");
        assert_eq!(verdict, wanted, "{name}");
        let theirs = case["expect"].as_str().unwrap();
        assert!(name == "invalid subject" || (verdict == "ok") == (theirs == "accept"), "{name}: {theirs}");
    }
    assert_eq!(cases["cases"].as_array().unwrap().len(), 17);
    let jose = signed(json!({ "typ": "JOSE" }), none());
    assert!(trust_domain.verify(&jose).await.is_ok());
}

/// What each of these makes a process grow by is measured in one of its own, where nothing else runs.
#[test]
fn hostile_tokens_cost_no_memory() {
    const NAME: &str = "foreign::hostile_tokens_cost_no_memory";
    if std::env::var_os("TEST_ALONE").is_none() {
        let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
        let outcome = alone.args([NAME, "--exact", "--nocapture"]).env("TEST_ALONE", "1").output().unwrap();
        let said =
            String::from_utf8_lossy(&outcome.stdout).into_owned() + &String::from_utf8_lossy(&outcome.stderr);
        assert!(outcome.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let good = token("ok-es256");
    let (header, rest) = good.split_once('.').unwrap();
    let (_, signature) = rest.split_once('.').unwrap();
    let with_payload = |payload: String| format!("{header}.{}.{signature}", URL_SAFE_NO_PAD.encode(payload));
    let claims: String = (0..10_000).map(|n| format!(",\"c{n}\":{n}")).collect();
    let tokens = [
        ("periods-1m", ".".repeat(1_000_000)),
        ("1 MiB", format!("{header}.{}.{signature}", "A".repeat(1024 * 1024))),
        (
            "payload-10mb",
            with_payload(format!("{{\"iss\":\"{ISSUER}\",\"x\":\"{}\"}}", "x".repeat(10_000_000))),
        ),
        ("nesting-100k", with_payload("[".repeat(100_000) + &"]".repeat(100_000))),
        ("nesting as deep as fits", with_payload("[".repeat(11_000))),
        ("10,000 claims", with_payload(format!("{{\"iss\":\"{ISSUER}\"{claims}}}"))),
    ];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let relying_party = holding(&vectors()["jwks"]).unwrap();
    runtime.block_on(relying_party.refresh()).unwrap();
    let before = peak_kib();
    let clock = SystemClock;
    let began = clock.boot();
    for (name, token) in &tokens {
        for _ in 0..100 {
            let refused = runtime.block_on(relying_party.verify(token)).unwrap_err();
            assert!(["too_long", "payload"].contains(&refused.reason()), "{name}: {refused:?}");
        }
    }
    let grown = peak_kib() - before;
    assert!(grown < 4 * 1024, "{grown} KiB more at the peak");
    let took = clock.boot().since(began);
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// The most memory that this process has had in its life (`VmHWM` of proc_pid_status(5)), in KiB.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
