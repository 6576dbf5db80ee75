//! Signs any input with a key of the fleet's, under any header: what no replica would do.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPairComponents, PublicKeyComponents};
use aws_lc_rs::signature::{self, EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal::Algorithm;
use oneseal_tests::keys::TestKey;
use serde_json::Value;

/// A compact JWS of `header` and `claims`, signed by `key` as `algorithm` wants, whatever the header says.
pub(crate) fn sign(key: &TestKey, algorithm: Algorithm, header: &Value, claims: &Value) -> String {
    let input = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
    let signature = signature(key, algorithm, input.as_bytes());
    format!("{input}.{}", encode(signature))
}

pub(crate) fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn decode(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}

fn signature(key: &TestKey, algorithm: Algorithm, input: &[u8]) -> Vec<u8> {
    let jwk: Value = serde_json::from_str(&key.private.expose_jwk()).unwrap();
    let member = |name: &str| decode(jwk[name].as_str().unwrap());
    let random = SystemRandom::new();
    let ecdsa = |kind| {
        let point = [vec![4], member("x"), member("y")].concat();
        let pair = EcdsaKeyPair::from_private_key_and_public_key(kind, &member("d"), &point).unwrap();
        pair.sign(&random, input).unwrap().as_ref().to_vec()
    };
    let rsa = |padding| {
        let pair = RsaKeyPair::from_components(&KeyPairComponents {
            public_key: PublicKeyComponents { n: member("n"), e: member("e") },
            d: member("d"),
            p: member("p"),
            q: member("q"),
            dP: member("dp"),
            dQ: member("dq"),
            qInv: member("qi"),
        })
        .unwrap();
        let mut signature = vec![0; pair.public_modulus_len()];
        pair.sign(padding, &random, input, &mut signature).unwrap();
        signature
    };
    match algorithm {
        Algorithm::Rs256 => rsa(&signature::RSA_PKCS1_SHA256),
        Algorithm::Rs384 => rsa(&signature::RSA_PKCS1_SHA384),
        Algorithm::Rs512 => rsa(&signature::RSA_PKCS1_SHA512),
        Algorithm::Ps256 => rsa(&signature::RSA_PSS_SHA256),
        Algorithm::Es256 => ecdsa(&signature::ECDSA_P256_SHA256_FIXED_SIGNING),
        Algorithm::Es384 => ecdsa(&signature::ECDSA_P384_SHA384_FIXED_SIGNING),
        Algorithm::EdDsa => {
            let pair = Ed25519KeyPair::from_seed_and_public_key(&member("d"), &member("x")).unwrap();
            pair.sign(input).as_ref().to_vec()
        }
    }
}
