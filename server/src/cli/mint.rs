//! `oneseal mint`: a token from one running replica, through its admin socket or over TCP.

use std::fmt;
use std::time::Duration;

use http::Method;
use oneseal_keystore::Algorithm;
use oneseal_keystore::verify::UnverifiedJws;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Globals;
use super::claim::{Claim, collect};
use super::replica::{Answer, Call, Purpose, Replica, Target};
use crate::exit::{Exit, Failure};
use crate::output;

/// What to mint, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Who the token speaks of
    #[arg(long, value_name = "SUBJECT")]
    sub: String,
    /// Whom it is for; one of the server's `admin.mint_audiences`
    #[arg(long, value_name = "AUDIENCE")]
    aud: String,
    /// How long it lives, such as 10m: 1m to 24h, and no more than rotation.max_token_ttl [default: the fleet's rotation.token_ttl]
    #[arg(long, value_name = "DURATION", value_parser = whole_seconds)]
    ttl: Option<Duration>,
    /// What to sign with [default: the first of issuer.algorithms]
    #[arg(long, value_name = "ALG")]
    alg: Option<Algorithm>,
    /// A further claim: `name=text`, or `name:=JSON`; may be repeated
    #[arg(long = "claim", value_name = "NAME=TEXT|NAME:=JSON")]
    claims: Vec<Claim>,
    /// Print the claims that a token would have, and mint none
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object: token, kid, exp
    #[arg(long)]
    json: bool,
}

/// Mints and prints.
///
/// # Errors
/// The socket is not known or cannot be opened, or the server refuses; each with what to do about it.
pub(crate) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { target, sub, aud, ttl, alg, claims, dry_run, json } = args;
    let request = MintRequest {
        sub,
        aud,
        ttl_s: ttl.map(|ttl| ttl.as_secs()),
        alg: alg.map(|alg| alg.as_str().to_owned()),
        claims: collect(claims)?,
        dry_run,
    };
    let replica = Replica::of(target, globals).await?;
    if dry_run {
        let preview: Preview = replica.ask(&request.call()?).await?;
        let claims = preview.claims.to_string();
        return tell(&preview, &claims, json);
    }
    let minted: Minted = replica.ask(&request.call()?).await?;
    tell(&minted, &minted.token, json)
}

fn tell(answer: &impl Serialize, line: &str, json: bool) -> Result<Exit, Failure> {
    if json {
        let members = serde_json::to_value(answer);
        let members = members.map_err(|error| Failure::internal("no JSON").because(error))?;
        return output::answer(members, Exit::Done);
    }
    output::print_line(line)?;
    Ok(Exit::Done)
}

/// What to mint.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct MintRequest {
    /// The token's subject.
    pub(crate) sub: String,
    /// The token's one audience.
    pub(crate) aud: String,
    /// Its life in seconds; the fleet's `token_ttl` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ttl_s: Option<u64>,
    /// The algorithm to sign with; the first of `issuer.algorithms` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) alg: Option<String>,
    /// Further claims.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(crate) claims: Map<String, Value>,
    /// Whether to answer what would be signed in place of a token.
    #[serde(skip_serializing_if = "is_false")]
    pub(crate) dry_run: bool,
}

impl MintRequest {
    /// What is asked of a replica for it.
    ///
    /// # Errors
    /// None of ours.
    pub(crate) fn call(&self) -> Result<Call, Failure> {
        let body = serde_json::to_vec(self).map_err(|error| Failure::internal("no JSON").because(error))?;
        let path = "/admin/v1/mint".to_owned();
        Ok(Call { method: Method::POST, path, body: Some(body.into()), purpose: PURPOSE })
    }
}

const PURPOSE: Purpose = Purpose {
    answer: "a token",
    does: "mints",
    if_absent: "set admin.mint = true and admin.mint_audiences, and restart it",
};

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls it with")]
fn is_false(value: &bool) -> bool {
    !value
}

/// What a token would say.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Preview {
    /// Always true: a server that does not know the word refuses it.
    pub(crate) dry_run: bool,
    /// The key that would sign.
    pub(crate) kid: String,
    /// Its algorithm.
    pub(crate) alg: String,
    /// When it would expire, in Unix seconds.
    pub(crate) exp: i64,
    /// The claims.
    pub(crate) claims: Value,
}

/// A token, as the admin API returns it. `Debug` leaves the token out: whoever has it is its subject.
#[derive(Clone, Deserialize, Serialize)]
pub(crate) struct Minted {
    /// The compact JWS.
    pub(crate) token: String,
    /// The key that signed it.
    pub(crate) kid: String,
    /// When it expires, in Unix seconds.
    pub(crate) exp: i64,
}

impl fmt::Debug for Minted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Minted").field("kid", &self.kid).field("exp", &self.exp).finish_non_exhaustive()
    }
}

impl Answer for Minted {
    fn is_sound(&self) -> bool {
        UnverifiedJws::parse(&self.token).is_ok()
    }
}

impl Answer for Preview {
    fn is_sound(&self) -> bool {
        self.dry_run && self.claims.is_object()
    }
}

fn whole_seconds(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(span) if span.subsec_nanos() == 0 && !span.is_zero() => Ok(span),
        Ok(_) => Err("want one second or more, and whole ones".to_owned()),
        Err(error) => Err(format!("{error}; write it as 90s, 10m or 1h")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_life_is_of_whole_seconds() {
        assert_eq!(whole_seconds("10m"), Ok(Duration::from_secs(600)));
        for text in ["", "10", "0s", "1500ms", "-1s", "soon"] {
            assert!(whole_seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_preview_says_that_it_is_one() {
        let judged = |dry_run: bool| {
            let body = json!({"dry_run": dry_run, "kid": "k", "alg": "ES256", "exp": 1, "claims": {}});
            serde_json::from_value::<Preview>(body).expect("its shape").is_sound()
        };
        assert!(judged(true));
        assert!(!judged(false), "it may have minted");
    }

    #[test]
    fn a_token_is_not_shown_by_debug() {
        let minted = Minted { token: "canary".to_owned(), kid: "k".to_owned(), exp: 1 };
        assert_eq!(format!("{minted:?}"), r#"Minted { kid: "k", exp: 1, .. }"#);
    }

    #[test]
    fn absent_members_are_left_out() {
        let request = MintRequest {
            sub: "s".to_owned(),
            aud: "a".to_owned(),
            ttl_s: None,
            alg: None,
            claims: Map::new(),
            dry_run: false,
        };
        assert_eq!(serde_json::to_string(&request).expect("JSON"), r#"{"sub":"s","aud":"a"}"#);
    }
}
