//! Assertions: a JWT that a CI system or a scheduler has signed for a workload becomes a [`VerifiedWorkload`], once
//! (RFC 7523 section 2.1).
//!
//! ```text
//! assertion ─► iss ─► its issuer's keys ─► signature ─► aud, exp, life, jti ─► used before? ─► VerifiedWorkload
//!                                          all of it offline                   the one question
//! ```
//! The mark that it was used is set last, when everything else holds: nobody who cannot sign can use anything up, or fill
//! the memory of what was used. When that memory cannot be asked, the assertion is neither taken nor used up.
//!
//! The audience is this issuer, as a text and not as a list: an assertion that is for somebody else as well could be
//! handed on by that one. The token endpoint's URL, which RFC 7523 allows too, is not taken: an attacker's server that
//! names our endpoint as its own would otherwise get assertions that are good here.

mod codes;
mod guard;
mod issuer;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use oneseal_coordination::UnixTime;
use oneseal_keystore::IssuerUrl;
use oneseal_keystore::findings::{Findings, chain};
use oneseal_keystore::verify::VerifyError as JwsError;
use oneseal_relying_party::{Builder as Verifier, Claims, Invalid, VerifyError};

pub use codes::ASSERTION_NO_REPLAY_GUARD;
pub(crate) use codes::CODES;
pub use guard::{ReplayGuard, ReplayUnavailable, SingleProcess};
pub use issuer::AssertionIssuer;

use super::{Grant, Proof, ProofError, unverified};
use crate::workload::{Facts, Strength, VerifiedWorkload, Voucher};
use codes::*;
use issuer::{Verifying, place_of};

/// Takes assertions of some issuers as proof, each once. Clones share everything.
///
/// ```
/// use std::sync::Arc;
/// use oneseal::proofs::{AssertionIssuer, AssertionProof, SingleProcess};
/// use oneseal::IssuerUrl;
///
/// # let jwks = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
/// let own = IssuerUrl::parse("https://oidc.example", "issuer")?;
/// let ci = AssertionIssuer::new("ci", "https://ci.example")
///     .algorithms([oneseal::Algorithm::EdDsa])
///     .jwks(jwks);
/// // For one process; a fleet has the guard of its database.
/// let proof = AssertionProof::new(vec![ci], &own, Arc::new(SingleProcess::new()))?;
/// # Ok::<(), oneseal::Findings>(())
/// ```
#[derive(Clone)]
pub struct AssertionProof {
    issuers: Arc<[Verifying]>,
    guard: Arc<dyn ReplayGuard>,
}

impl AssertionProof {
    /// Takes the assertions of `issuers` that are for `own`, this issuer; `guard` remembers which were used, and is one for
    /// all replicas. Reads files and the system's certificates, which may block for some milliseconds, and asks nobody.
    ///
    /// # Errors
    /// All that is wrong with them, as `assertion.*`, each at `assertion_issuer NAME`.
    pub fn new(
        issuers: Vec<AssertionIssuer>,
        own: &IssuerUrl,
        guard: Arc<dyn ReplayGuard>,
    ) -> Result<Self, Findings> {
        let mut findings = Findings::new();
        for (index, issuer) in issuers.iter().enumerate() {
            let before = &issuers[..index];
            for (what, is_taken) in [
                ("name", before.iter().any(|other| other.name == issuer.name)),
                ("issuer", before.iter().any(|other| other.issuer == issuer.issuer)),
            ] {
                if is_taken {
                    findings.push(
                        &ASSERTION_TWICE,
                        place_of(&issuer.name),
                        format!("another has its {what}"),
                    );
                }
            }
        }
        let verifying: Vec<_> =
            issuers.iter().filter_map(|issuer| issuer.verifier(own, &mut findings)).collect();
        if findings.has_errors() { Err(findings) } else { Ok(Self { issuers: verifying.into(), guard }) }
    }

    /// Reads the keys of each issuer, all at once: to warm up, and for `oneseal check`. What is found are warnings: the
    /// keys may be there in a minute, and the others, and the documents, are served without them.
    ///
    /// # Cancel safety
    /// Changes nothing but which keys are held; may be dropped at any time.
    pub async fn probe(&self) -> Findings {
        let mut findings = Findings::new();
        let read = self.issuers.iter().map(|one| async move { (one, one.verifier.refresh().await) });
        for (one, read) in join_all(read).await {
            if let Err(unavailable) = read {
                findings.push(&ASSERTION_KEYS_UNREADABLE, place_of(&one.name), chain(&unavailable));
            }
        }
        findings
    }

    async fn prove(&self, assertion: &str) -> Result<VerifiedWorkload, ProofError> {
        let issuer = unverified::issuer(assertion)?;
        let one = self.issuers.iter().find(|one| one.issuer == issuer).ok_or_else(|| {
            ProofError::invalid("unknown_issuer", "nobody whose assertions are taken here has this `iss`")
        })?;
        let verified = one.verifier.verify(assertion).await.map_err(|error| told(one, &error))?;
        let used = Used::of(&verified.claims)?;
        match self.guard.use_once(&one.issuer, used.id, used.until).await {
            Ok(true) => Ok(workload(one, &verified.claims)),
            Ok(false) => Err(ProofError::invalid(
                "replayed",
                "the assertion was used before: each is taken once, by its `jti`; let its issuer sign another",
            )),
            Err(error) => {
                tracing::warn!(assertion_issuer = %one.name, error = %chain(&error), "an assertion could not be taken");
                let message = "whether the assertion was used before cannot be told just now; try again with the same one";
                Err(ProofError::unavailable("replay_guard", message, ASK_AGAIN))
            }
        }
    }
}

impl Proof for AssertionProof {
    fn name(&self) -> &'static str {
        "assertion"
    }

    fn grant(&self) -> Grant {
        Grant::JwtBearer
    }

    fn is_for(&self, issuer: &str) -> bool {
        self.issuers.iter().any(|one| one.issuer == issuer)
    }

    fn verify<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Result<VerifiedWorkload, ProofError>> {
        Box::pin(self.prove(token))
    }
}

impl fmt::Debug for AssertionProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AssertionProof").field("issuers", &self.issuers).field("guard", &self.guard).finish()
    }
}

/// What of an assertion is remembered, and how long.
struct Used<'a> {
    id: &'a str,
    until: UnixTime,
}

impl<'a> Used<'a> {
    /// As long as the verifier takes it: to `exp`, whose fraction was dropped, and the leeway.
    fn of(claims: &'a Claims) -> Result<Self, ProofError> {
        let malformed = |name: &str, is: &str| {
            ProofError::invalid("claim_malformed", format!("the claim `{name}` must be {is}"))
        };
        let is_printable = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        let id = claims.claim("jti").and_then(serde_json::Value::as_str).unwrap_or_default();
        if !(1..=MAX_ID).contains(&id.len()) || !is_printable(id) {
            return Err(malformed("jti", "a text of 1 to 255 printable ASCII characters"));
        }
        if claims.subject().len() > MAX_SUBJECT {
            return Err(malformed("sub", "a text of at most 255 bytes"));
        }
        let until = claims.expires_at() + Verifier::DEFAULT_LEEWAY + Duration::from_secs(1);
        Ok(Self { id, until })
    }
}

fn workload(one: &Verifying, claims: &Claims) -> VerifiedWorkload {
    let subject = claims.subject();
    let facts = Facts::new([("assertion_issuer", one.name.as_str()), ("subject", subject)])
        .with_claims(claims.as_map().clone());
    let voucher = Voucher::AssertionIssuer(one.name.clone());
    VerifiedWorkload::proved(subject.to_owned(), voucher, Strength::SignedOnce, facts)
}

/// In words for whoever sent it. `Invalid` quotes nothing of the assertion.
fn told(one: &Verifying, error: &VerifyError) -> ProofError {
    match error {
        VerifyError::Invalid(invalid) => {
            let message = format!("the assertion is refused: {}{}", chain(invalid), cure(invalid));
            ProofError::invalid(invalid.reason(), message)
        }
        _ => {
            let wait = error.retry_after().unwrap_or(ASK_AGAIN);
            let message = format!(
                "the keys of the assertion issuer {} cannot be had just now; try again with the same assertion, and if it stays \
                 so `oneseal check` with the issuer's configuration says why",
                one.name
            );
            ProofError::unavailable("keys_unavailable", message, wait.max(Duration::from_secs(1)))
        }
    }
}

fn cure(invalid: &Invalid) -> &'static str {
    match invalid {
        Invalid::Audience => {
            "; it must be this issuer's URL, as a text and not as a list, and not that of its token endpoint"
        }
        Invalid::Lifetime => "; from `iat`, or from now without one, to `exp` it may be 300 s",
        Invalid::Missing("jti") | Invalid::Malformed("jti") => {
            "; each assertion has one of its own, a text of 1 to 255 printable ASCII characters"
        }
        Invalid::Type => "; `JWT` and `authorization-grant+jwt` are taken, and none at all",
        Invalid::Jws(JwsError::Signature) => {
            "; either it was changed on its way, or another key signed it than the one it names"
        }
        Invalid::UnknownKid => "; a key that its issuer has published since is known within a minute",
        Invalid::IssuedInFuture | Invalid::NotYetValid => "; look at the clock of whoever signed it",
        _ => "",
    }
}

/// RFC 7519 section 5.1, and the type that draft-ietf-oauth-rfc7523bis gives to assertions that are a grant. Most signers
/// write none, which is the empty one.
const TYPES: [&str; 3] = ["", "JWT", "authorization-grant+jwt"];
/// Beside `iss`, `sub`, `aud` and `exp`.
const REQUIRED: [&str; 1] = ["jti"];
/// It is made for one request; what lives longer is stolen for longer, and remembered for longer.
const LONGEST_LIFE: Duration = Duration::from_secs(300);
/// A UUID has 36, a hash in hexadecimal 64.
const MAX_ID: usize = 255;
/// OpenID Connect Core 1.0 section 2, of `sub`.
const MAX_SUBJECT: usize = 255;
/// A database that fails over is back in seconds.
const ASK_AGAIN: Duration = Duration::from_secs(5);
