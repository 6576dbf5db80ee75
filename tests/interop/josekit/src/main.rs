//! josekit as a relying party, behind the protocol of ../README.md.
//!
//! josekit checks signatures and claims and fetches nothing: discovery, the key set and when to fetch it again are the
//! few lines of [`source`], with an HTTP client.

mod source;

use std::error::Error as _;
use std::io::{BufRead, Read, Write};
use std::process::ExitCode;

use clap::Parser;
use josekit::JoseError;
use josekit::jwk::Jwk;
use josekit::jws::{ES256, ES384, EdDSA, JwsVerifier, PS256, RS256, RS384, RS512};
use josekit::jwt::{self, JwtPayloadValidator};
use serde_json::{Map, Value, json};

use source::{KeySource, SourceError};

const ALGORITHMS: [&str; 7] = ["RS256", "RS384", "RS512", "PS256", "ES256", "ES384", "EdDSA"];

/// Verifies one token; without words it serves the protocol of tests/interop/README.md.
#[derive(Parser)]
struct Words {
    /// The issuer's URL.
    #[arg(long)]
    issuer: String,
    /// The audience that the token must be for.
    #[arg(long)]
    audience: String,
    /// What it may be signed with; default: what josekit can verify.
    #[arg(long, value_delimiter = ',')]
    algorithms: Option<Vec<String>>,
    /// The token, or `-` for standard input.
    token: String,
}

/// A verifier of one issuer's tokens for one audience.
struct RelyingParty {
    keys: KeySource,
    claims: JwtPayloadValidator,
    algorithms: Vec<String>,
}

/// Why a token is refused, or nothing can be said of it.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(transparent)]
    Jose(#[from] JoseError),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error("{0}")]
    BadRequest(String),
}

impl RelyingParty {
    fn discover(issuer: &str, audience: &str, algorithms: Option<Vec<String>>) -> Result<Self, Refusal> {
        let mut claims = JwtPayloadValidator::new();
        claims.set_issuer(issuer);
        claims.set_audience(audience);
        let algorithms = algorithms.unwrap_or_else(|| ALGORITHMS.map(str::to_owned).into());
        Ok(Self { keys: KeySource::discover(issuer)?, claims, algorithms })
    }

    fn verify(&mut self, token: &str) -> Result<Map<String, Value>, Refusal> {
        let header = jwt::decode_header(token)?;
        let kid = header.claim("kid").and_then(Value::as_str).unwrap_or_default();
        let verifiers = self.verifiers(kid)?;
        let (payload, _) = jwt::decode_with_verifier_selector(token, |header| {
            let alg = header.algorithm();
            Ok(verifiers.iter().map(AsRef::as_ref).find(|verifier| Some(verifier.algorithm().name()) == alg))
        })?;
        self.claims.validate(&payload)?;
        Ok(payload.claims_set().clone())
    }

    /// Those of the keys called `kid` whose own algorithm is allowed.
    fn verifiers(&mut self, kid: &str) -> Result<Vec<Box<dyn JwsVerifier>>, Refusal> {
        let keys = self.keys.named(kid)?;
        let allowed = keys
            .iter()
            .filter(|jwk| self.algorithms.iter().any(|name| Some(name.as_str()) == jwk.algorithm()));
        allowed.map(verifier).collect()
    }
}

/// By the algorithm that the key says it is for, never by the token's.
fn verifier(jwk: &Jwk) -> Result<Box<dyn JwsVerifier>, Refusal> {
    let verifier: Box<dyn JwsVerifier> = match jwk.algorithm() {
        Some("RS256") => Box::new(RS256.verifier_from_jwk(jwk)?),
        Some("RS384") => Box::new(RS384.verifier_from_jwk(jwk)?),
        Some("RS512") => Box::new(RS512.verifier_from_jwk(jwk)?),
        Some("PS256") => Box::new(PS256.verifier_from_jwk(jwk)?),
        Some("ES256") => Box::new(ES256.verifier_from_jwk(jwk)?),
        Some("ES384") => Box::new(ES384.verifier_from_jwk(jwk)?),
        _ => Box::new(EdDSA.verifier_from_jwk(jwk)?),
    };
    Ok(verifier)
}

impl Refusal {
    /// josekit's own name, that of the variant; of a line that is none of the protocol's, the protocol's.
    fn name(&self) -> String {
        let text = match self {
            Self::Jose(error) => format!("{error:?}"),
            Self::Source(error) => format!("{error:?}"),
            Self::BadRequest(_) => "bad_request".to_owned(),
        };
        text.split(['(', ' ']).next().unwrap_or_default().to_owned()
    }

    fn text(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text = format!("{text}: {error}");
            cause = error.source();
        }
        text
    }
}

/// The one that was built in, by the lock file; josekit itself does not tell.
fn version() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../Cargo.lock");
    let lock = std::fs::read_to_string(path).unwrap_or_default();
    let entry = lock.split_once("name = \"josekit\"\nversion = \"").map_or("", |(_, rest)| rest);
    entry.split('"').next().unwrap_or_default().to_owned()
}

fn serve() -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let hello = json!({ "library": "josekit", "version": version(), "algorithms": ALGORITHMS });
    writeln!(out, "{hello}")?;
    let mut relying_party = None;
    for line in std::io::stdin().lock().split(b'\n') {
        let answer = answer(&mut relying_party, &line?).unwrap_or_else(
            |refusal| json!({ "ok": false, "error": refusal.name(), "message": refusal.text() }),
        );
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(relying_party: &mut Option<RelyingParty>, line: &[u8]) -> Result<Value, Refusal> {
    let request: Value =
        serde_json::from_slice(line).map_err(|error| Refusal::BadRequest(error.to_string()))?;
    let text = |name: &str| request[name].as_str().unwrap_or_default();
    if !["configure", "verify"].contains(&text("verb")) {
        return Err(Refusal::BadRequest("wanted: configure or verify".to_owned()));
    }
    if text("verb") == "configure" {
        *relying_party = None;
        let algorithms = request["algorithms"]
            .as_array()
            .map(|names| names.iter().filter_map(Value::as_str).map(str::to_owned).collect());
        *relying_party = Some(RelyingParty::discover(text("issuer"), text("audience"), algorithms)?);
        return Ok(json!({ "ok": true }));
    }
    let unconfigured =
        || Refusal::BadRequest("verify before a configure that was answered with ok".to_owned());
    let claims = relying_party.as_mut().ok_or_else(unconfigured)?.verify(text("token"))?;
    Ok(json!({ "ok": true, "claims": claims }))
}

fn once(words: Words) -> Result<Map<String, Value>, Refusal> {
    let mut token = words.token;
    if token == "-" {
        token.clear();
        // What cannot be read is no token, and refused as such.
        drop(std::io::stdin().read_to_string(&mut token));
    }
    RelyingParty::discover(&words.issuer, &words.audience, words.algorithms)?.verify(token.trim())
}

fn main() -> ExitCode {
    if std::env::args_os().len() == 1 {
        return serve().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let words = match Words::try_parse() {
        Ok(words) => words,
        Err(error) => {
            drop(error.print());
            return ExitCode::from(if error.use_stderr() { 64 } else { 0 });
        }
    };
    let (told, code) = match once(words) {
        Ok(claims) => (writeln!(std::io::stdout(), "{}", Value::Object(claims)), ExitCode::SUCCESS),
        Err(refusal) => {
            (writeln!(std::io::stderr(), "{}: {}", refusal.name(), refusal.text()), ExitCode::FAILURE)
        }
    };
    told.map_or(ExitCode::FAILURE, |()| code)
}
