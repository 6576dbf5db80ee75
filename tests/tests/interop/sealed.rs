//! A sealed private half is a JWE that others open, and we open what others seal.

use std::io::Write;
use std::process::{Command, Stdio};

use oneseal_keystore::material::PrivateKey;
use oneseal_keystore::seal::{Purpose, SealedFor};
use oneseal_keystore::{Algorithm, IssuerUrl, Kek};
use oneseal_testing::rings::kek_bytes;
use serde_json::{Value, json};

use crate::{install, libraries};

const KEY: &[u8] = include_bytes!("../../../keystore/tests/vectors/ring/p256.pem");

#[tokio::test]
async fn jose_opens_what_we_seal_and_we_open_what_jose_seals() {
    let library = libraries::by_name("jose");
    if install::installed(library).await.is_none() {
        return;
    }
    let (kek, key) = (Kek::from_bytes(kek_bytes(1)).unwrap(), PrivateKey::parse(KEY).unwrap());
    let issuer = IssuerUrl::parse("https://oidc.example/tenant", "test").unwrap();
    let kid = key.public().thumbprint();
    let whose =
        SealedFor { purpose: Purpose::Signing, key_kid: &kid, key_alg: Algorithm::Es256, issuer: &issuer };
    let jwk = key.expose_jwk();
    let header = json!({
        "alg": "A256KW", "enc": "A256GCM", "cty": "jwk+json", "kid": kek.id(), "purpose": "signing",
        "key_kid": kid.as_str(), "key_alg": "ES256", "iss": issuer.as_str(),
    });
    let question = json!({
        "kek": kek.expose_base64url().as_str(),
        "sealed": kek.seal(&whose, &jwk).unwrap(),
        "jwk": jwk.as_str(),
        "header": header,
    });
    let mut child = Command::new("node")
        .arg("sealed.mjs")
        .current_dir(library.place())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(question.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["opened"], jwk.as_str());
    assert_eq!(answer["header"], header);
    assert_eq!(*kek.open(&whose, answer["sealed"].as_str().unwrap()).unwrap(), *jwk);
}
