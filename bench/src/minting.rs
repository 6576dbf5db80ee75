//! `POST /admin/v1/mint` over TCP, with a bearer token, as a caller on another host does it.

use std::fmt::Write as _;
use std::net::SocketAddr;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::probe;
use crate::raw::{AUDIENCE, SUBJECT};
use crate::wrk::Wrk;

/// The path.
pub const MINT: &str = "/admin/v1/mint";

/// A caller that may mint.
#[derive(Debug)]
pub struct Minting {
    authorization: String,
    sha256: String,
}

/// Whether a token is wanted, or all of it but the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A token.
    Token,
    /// `dry_run`: what minting costs without signing.
    DryRun,
}

impl Minting {
    /// A caller with a new token, of the form that `docs/http.md` has.
    ///
    /// # Panics
    /// If the system gives no random bytes.
    pub fn caller() -> Self {
        let mut random = [0; 32];
        rand::fill(&mut random).expect("random bytes");
        let body = format!("oneseal_admin_{}", URL_SAFE_NO_PAD.encode(random));
        let token = format!("{body}_{}", &hex_sha256(&body)[..8]);
        Self { authorization: format!("Bearer {token}"), sha256: hex_sha256(&token) }
    }

    /// `[listen]` and `[admin]` of a server that lets this caller mint at a free port of loopback, and nobody else.
    pub fn tables(&self) -> String {
        format!(
            "[listen]\ndocuments = \"127.0.0.1:0\"\nops = \"127.0.0.1:0\"\nadmin = \"none\"\n\
             admin_tcp = \"127.0.0.1:0\"\n\
             [admin]\nmint = true\nmint_audiences = [{AUDIENCE:?}]\n\
             [[admin.tokens]]\nname = \"bench\"\nscopes = [\"mint\"]\nsha256 = {:?}\n",
            self.sha256
        )
    }

    /// The endpoint under load, after one answer has been seen to be what was asked for.
    ///
    /// # Errors
    /// wrk is not installed.
    ///
    /// # Panics
    /// If the answer is a refusal.
    pub fn load(
        &self,
        address: SocketAddr,
        algorithm: &str,
        ask: Ask,
        connections: usize,
    ) -> Result<Wrk, String> {
        let headers = self.headers();
        let body = body(algorithm, ask);
        let answer = probe::post(address, MINT, &headers, &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.body.contains("\"token\":"), ask == Ask::Token, "{answer:?}");
        Wrk::post(format!("http://{address}{MINT}"), &headers, &body, connections)
    }

    /// Who calls, and with what.
    pub fn headers(&self) -> [(&str, &str); 2] {
        [("authorization", &self.authorization), ("content-type", "application/json")]
    }
}

/// The smallest request that names its algorithm.
pub fn body(algorithm: &str, ask: Ask) -> String {
    let mut asked = serde_json::json!({ "sub": SUBJECT, "aud": AUDIENCE, "alg": algorithm });
    if ask == Ask::DryRun {
        asked["dry_run"] = true.into();
    }
    asked.to_string()
}

fn hex_sha256(text: &str) -> String {
    let mut hex = String::new();
    for byte in digest(&SHA256, text.as_bytes()).as_ref() {
        write!(hex, "{byte:02x}").expect("a String");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_caller_has_a_token_of_its_own_of_the_form() {
        let (one, other) = (Minting::caller(), Minting::caller());
        assert_ne!(one.authorization, other.authorization);
        let token = one.authorization.strip_prefix("Bearer ").expect("a bearer token");
        let (body, checksum) = token.rsplit_once('_').expect("a checksum");
        assert_eq!(hex_sha256(body)[..8], *checksum);
        assert_eq!(hex_sha256("abc")[..8], *"ba7816bf");
    }
}
