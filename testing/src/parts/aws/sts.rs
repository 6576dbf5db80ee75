//! AssumeRoleWithWebIdentity, as far as moto does not look: the token.
//!
//! AWS fetches the discovery document and the keys of the token's issuer over https, and takes a token that is signed
//! by one of these keys, not expired, and made out to an audience that the issuer is registered with. Then the role's
//! trust policy decides by audience and subject. The codes are AWS's; where AWS's reference gives no message for a
//! case, the message is ours.

use std::time::Duration;

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::JwkSet;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use oneseal_coordination::UnixTime;
use serde_json::Value;

use super::asked::Asked;
use super::https;
use super::refusal::Refusal;

/// The action of STS that this is about.
pub(super) const ACTION: &str = "AssumeRoleWithWebIdentity";

/// Whom the account trusts.
#[derive(Clone, Debug, Default)]
pub(super) struct Trust {
    pub(super) issuers: Vec<Issuer>,
    pub(super) roles: Vec<Role>,
    /// How long its sessions last; an hour, where nothing is said.
    pub(super) session: Option<Duration>,
}

/// An identity provider of the account.
#[derive(Clone, Debug)]
pub(super) struct Issuer {
    pub(super) url: String,
    /// Client ids.
    pub(super) audiences: Vec<String>,
    /// In PEM: who vouches for its certificate.
    pub(super) ca: String,
}

/// A role, with the conditions of its trust policy.
#[derive(Clone, Debug)]
pub(super) struct Role {
    pub(super) name: String,
    pub(super) issuer: String,
    pub(super) audience: String,
    pub(super) subject: String,
}

/// What AWS looks at. Times must be whole numbers.
#[derive(Clone, Debug)]
struct Claims {
    issuer: String,
    subject: String,
    audiences: Vec<String>,
}

impl Trust {
    /// Whether AWS would give out credentials.
    ///
    /// # Errors
    /// Why not, as AWS says it.
    pub(super) async fn verify(&self, asked: &Asked, account: &str) -> Result<(), Refusal> {
        let token = asked.field("WebIdentityToken").unwrap_or_default();
        if !(4..=20_000).contains(&token.len()) {
            let message =
                "1 validation error detected: Value at 'webIdentityToken' failed to satisfy constraint";
            return Err(Refusal::new(400, "ValidationError", message));
        }
        let unverified = unverified(&token)?;
        let Some(issuer) = self.issuers.iter().find(|issuer| issuer.url == unverified.issuer) else {
            let message =
                format!("No OpenIDConnect provider found in your account for {}", unverified.issuer);
            return Err(invalid(message));
        };
        let keys = issuer.keys().await.map_err(|error| unreachable(&error))?;
        let claims = issuer.verified(&token, &keys)?;
        let role = asked.field("RoleArn").unwrap_or_default();
        let is_it = |known: &&Role| role == format!("arn:aws:iam::{account}:role/{}", known.name);
        let allows = |role: &Role| {
            role.issuer == claims.issuer
                && role.subject == claims.subject
                && claims.audiences.contains(&role.audience)
        };
        match self.roles.iter().find(is_it) {
            Some(role) if allows(role) => Ok(()),
            _ => Err(Refusal::new(403, "AccessDenied", format!("Not authorized to perform sts:{ACTION}"))),
        }
    }
}

impl Issuer {
    async fn keys(&self) -> Result<JwkSet, String> {
        let url = format!("{}/.well-known/openid-configuration", self.url.trim_end_matches('/'));
        let discovery = https::fetch(&url, &self.ca).await?;
        if discovery["issuer"] != self.url {
            return Err(format!("{url}: it is of the issuer {}", discovery["issuer"]));
        }
        let url = discovery["jwks_uri"].as_str().ok_or_else(|| format!("{url}: it has no jwks_uri"))?;
        let keys = https::fetch(url, &self.ca).await?;
        serde_json::from_value(keys).map_err(|error| format!("{url}: {error}"))
    }

    fn verified(&self, token: &str, keys: &JwkSet) -> Result<Claims, Refusal> {
        let header = jsonwebtoken::decode_header(token).map_err(|_| no_jwt())?;
        if !TAKEN.contains(&header.alg) {
            return Err(invalid(format!(
                "The token is signed with {:?}, which is not supported",
                header.alg
            )));
        }
        let kid = header.kid.ok_or_else(|| invalid("Missing a required header parameter: kid"))?;
        let key = keys.find(&kid).ok_or_else(|| unreachable(&format!("it has no key {kid}")))?;
        let key = DecodingKey::from_jwk(key).map_err(|error| unreachable(&error.to_string()))?;
        let mut validation = Validation::new(header.alg);
        // AWS names no leeway; both clocks here are one.
        validation.leeway = 0;
        validation.validate_nbf = true;
        validation.set_required_spec_claims(&["exp", "iss", "sub", "aud"]);
        validation.set_issuer(&[&self.url]);
        validation.set_audience(&self.audiences);
        let verified =
            jsonwebtoken::decode::<Value>(token, &key, &validation).map_err(|error| refusal(error.kind()))?;
        Claims::read(&verified.claims)
    }
}

/// Those of its list that the verifier here knows, too; ES512 it does not.
const TAKEN: [Algorithm; 5] =
    [Algorithm::RS256, Algorithm::RS384, Algorithm::RS512, Algorithm::ES256, Algorithm::ES384];

impl Claims {
    fn read(claims: &Value) -> Result<Self, Refusal> {
        let text = |name: &str| {
            let text = claims[name].as_str().filter(|text| !text.is_empty());
            text.map(str::to_owned).ok_or_else(|| invalid(format!("Missing a required claim: {name}")))
        };
        for time in ["exp", "iat"] {
            claims[time].as_u64().ok_or_else(|| invalid(format!("Missing a required claim: {time}")))?;
        }
        // Where a token says who asked for it, AWS takes that for its audience.
        let audience = if claims["azp"].is_string() { &claims["azp"] } else { &claims["aud"] };
        let audiences = match audience {
            Value::Array(all) => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
            one => one.as_str().map(str::to_owned).into_iter().collect(),
        };
        Ok(Self { issuer: text("iss")?, subject: text("sub")?, audiences })
    }
}

/// What the token says before anybody has looked at its signature: enough to find who could have signed it.
fn unverified(token: &str) -> Result<Claims, Refusal> {
    let decoded = jsonwebtoken::dangerous::insecure_decode::<Value>(token).map_err(|_| no_jwt())?;
    Claims::read(&decoded.claims)
}

fn refusal(kind: &ErrorKind) -> Refusal {
    match kind {
        ErrorKind::ExpiredSignature => Refusal::new(
            400,
            "ExpiredTokenException",
            "Token expired: current date/time must be before the expiration date/time",
        ),
        ErrorKind::InvalidAudience => invalid("Incorrect token audience"),
        ErrorKind::InvalidSignature => invalid("The signature of the token is not valid"),
        ErrorKind::MissingRequiredClaim(name) => invalid(format!("Missing a required claim: {name}")),
        other => invalid(format!("The token is not valid: {other:?}")),
    }
}

fn no_jwt() -> Refusal {
    invalid("The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)")
}

/// AWS says no more than the first sentence, and that only after some attempts.
fn unreachable(why: &str) -> Refusal {
    invalid(format!("Couldn't retrieve verification key from your identity provider ({why})"))
}

fn invalid(message: impl Into<String>) -> Refusal {
    Refusal::new(400, "InvalidIdentityToken", message)
}

/// The access key in what STS hands out, and the answer with `until` as the end of its session.
pub(super) fn session(answer: &[u8], until: UnixTime) -> Option<(String, String)> {
    let answer = std::str::from_utf8(answer).ok()?;
    let id = element(answer, "AccessKeyId")?;
    let end = element(answer, "Expiration")?;
    Some((id.to_owned(), answer.replacen(end, &until.to_string(), 1)))
}

fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = xml.split_once(&format!("<{name}>"))?;
    after.split_once(&format!("</{name}>")).map(|(text, _)| text)
}
