//! The limit of signing: aws-lc-rs with a parsed key, and nothing else of ours.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, ED25519, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
    ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, VerificationAlgorithm,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal_coordination::{Clock, SystemClock};
use oneseal_keystore::Algorithm;
use serde::Serialize;

/// Who issues, for whom, about whom: the claims of every token that a bench makes.
pub const ISSUER: &str = "https://oidc.example";
/// `aud`.
pub const AUDIENCE: &str = "sts.amazonaws.com";
/// `sub`.
pub const SUBJECT: &str = "system:serviceaccount:builds:runner";

/// A key of RS256 (2048 bits), ES256 or EdDSA.
pub struct Raw {
    algorithm: Algorithm,
    random: SystemRandom,
    /// The header, encoded already, since it never changes.
    header: String,
    key: Key,
    pkcs8: Vec<u8>,
}

enum Key {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl std::fmt::Debug for Raw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Raw({})", self.algorithm)
    }
}

impl Raw {
    /// A new key.
    ///
    /// # Panics
    /// If `algorithm` is none of the three.
    pub fn generate(algorithm: Algorithm) -> Self {
        let random = SystemRandom::new();
        let pkcs8 = match algorithm {
            Algorithm::Rs256 => {
                let key = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
                let der: Pkcs8V1Der<'_> = key.as_der().expect("DER");
                der.as_ref().to_vec()
            }
            Algorithm::Es256 => {
                let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
                key.expect("a key").as_ref().to_vec()
            }
            Algorithm::EdDsa => Ed25519KeyPair::generate_pkcs8(&random).expect("a key").as_ref().to_vec(),
            other => panic!("there is no raw {other} here"),
        };
        let key = match algorithm {
            Algorithm::Rs256 => Key::Rsa(Box::new(RsaKeyPair::from_pkcs8(&pkcs8).expect("its own key"))),
            Algorithm::Es256 => Key::P256(
                EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &pkcs8).expect("its own key"),
            ),
            _ => Key::Ed25519(Ed25519KeyPair::from_pkcs8(&pkcs8).expect("its own key")),
        };
        let kid = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFG";
        let header = serde_json::json!({ "alg": algorithm.as_str(), "kid": kid, "typ": "JWT" });
        Self { algorithm, random, header: URL_SAFE_NO_PAD.encode(header.to_string()), key, pkcs8 }
    }

    /// A whole token: the same claims, JSON and base64 as everybody's, and the primitive.
    ///
    /// # Panics
    /// If the primitive fails.
    pub fn token(&self) -> String {
        let mut token = self.header.clone();
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(claims(), &mut token);
        let signature = self.sign(token.as_bytes());
        token.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut token);
        token
    }

    /// The primitive alone.
    ///
    /// # Panics
    /// If it fails.
    pub fn sign(&self, input: &[u8]) -> Vec<u8> {
        match &self.key {
            Key::Rsa(key) => {
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &self.random, input, &mut signature).expect("it signs");
                signature
            }
            Key::P256(key) => key.sign(&self.random, input).expect("it signs").as_ref().to_vec(),
            Key::Ed25519(key) => key.sign(input).as_ref().to_vec(),
        }
    }

    /// The public half, parsed.
    ///
    /// # Panics
    /// If it cannot be.
    pub fn verifier(&self) -> ParsedPublicKey {
        let (algorithm, key): (&'static dyn VerificationAlgorithm, &[u8]) = match &self.key {
            Key::Rsa(key) => (&RSA_PKCS1_2048_8192_SHA256, key.public_key().as_ref()),
            Key::P256(key) => (&ECDSA_P256_SHA256_FIXED, key.public_key().as_ref()),
            Key::Ed25519(key) => (&ED25519, key.public_key().as_ref()),
        };
        ParsedPublicKey::new(algorithm, key).expect("its own key")
    }

    /// The same key as PKCS#8, for oneseal to read.
    pub fn pkcs8(&self) -> &[u8] {
        &self.pkcs8
    }
}

/// The claims of a token made now.
#[derive(Clone, Debug, Serialize)]
pub struct Claims {
    iss: &'static str,
    sub: &'static str,
    aud: &'static str,
    iat: i64,
    nbf: i64,
    exp: i64,
    jti: String,
}

impl Claims {
    /// What every token costs anybody before it is JSON: a clock and an id.
    pub fn now() -> Self {
        let now = SystemClock.wall().as_secs();
        let jti = uuid::Uuid::new_v4().to_string();
        Self { iss: ISSUER, sub: SUBJECT, aud: AUDIENCE, iat: now, nbf: now, exp: now + 3600, jti }
    }
}

/// [`Claims::now`] as JSON.
///
/// # Panics
/// Never: it is plain data.
pub fn claims() -> Vec<u8> {
    serde_json::to_vec(&Claims::now()).expect("plain data")
}
