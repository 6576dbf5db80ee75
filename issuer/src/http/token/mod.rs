//! `POST ISS/token`: a workload shows what it has and gets the token that its relying party wants.
//!
//! ```text
//! headers, body ─► form ─► request ─► can this replica mint? ─► proof ─► limit ─► rules, signature ─► audit line ─► answer
//!                 (form)  (request)                           (proofs)  (limits)      (mint)           (audit)   (answer)
//! ```
//! What costs nothing is judged first: an assertion that can be used once is not used up for a request that would have
//! been refused anyway, nor while this replica could not mint. The limit comes after the proof, so that nobody uses up
//! another's.

mod answer;
mod audit;
mod body;
pub(crate) mod endpoint;
pub(crate) mod form;
pub(crate) mod limits;
mod request;

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body::Body;
use tokio::time::timeout;

use self::answer::{Fault, Refusal, granted};
use self::audit::Lines;
use self::form::Form;
use self::limits::{Budgets, Rate};
use self::request::TokenRequest;
use crate::Issuer;
use crate::claims::Audience;
use crate::error::MintError;
use crate::mint::Minted;
use crate::proofs::{Grant, ProofError};
use crate::workload::{Strength, VerifiedWorkload};

pub(crate) use self::answer::Fault as TokenFault;

/// How much `POST ISS/token` takes.
///
/// # Defaults
/// 600 requests a minute and 100 at once for each workload, 200,000 of which are remembered (some 6 MiB); a body of 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenLimits {
    /// What each workload may ask for, once it has proved who it is: by its voucher, its name, and its pod if its token is
    /// bound to one.
    pub subject: Rate,
    /// How many workloads are remembered. Where there are more, those that ask least are forgotten, and nobody is refused.
    pub subjects: usize,
    /// The largest body, in bytes. A token has at most 16 KiB.
    pub max_body: usize,
}

impl Default for TokenLimits {
    fn default() -> Self {
        Self { subject: Rate::new(600, 100), subjects: 200_000, max_body: 64 * 1024 }
    }
}

/// What the endpoint keeps from one request to the next.
#[derive(Debug)]
pub(crate) struct TokenState {
    max_body: usize,
    subjects: Budgets,
    lines: Lines,
}

impl TokenState {
    pub(crate) fn new(limits: TokenLimits) -> Self {
        Self {
            max_body: limits.max_body,
            subjects: Budgets::new(limits.subject, limits.subjects),
            lines: Lines::default(),
        }
    }
}

impl Issuer {
    /// Answers a request to `ISS/token`, in any framework or none; `None` if its path is another one, or if no
    /// [proof](crate::proofs) is configured. A query is not looked at. [`router`](Self::router) has it too.
    ///
    /// The body is read here, and refused once it is larger than
    /// [`TokenLimits::max_body`] or takes longer than 2 s. The answer is there after 17 s at the latest.
    ///
    /// # Cancel safety
    /// Dropped, it has given out no token. An assertion that can be used once may be used up all the same, as it is where
    /// the answer is lost on its way: the client sends a new one.
    pub async fn respond_token<B>(&self, request: Request<B>) -> Option<Response<Bytes>>
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        if !self.is_token_path(request.uri().path()) {
            return None;
        }
        let began = self.clock().boot();
        let (parts, body) = request.into_parts();
        let mut seen = Seen::default();
        let answered = self.exchange(&parts.method, &parts.headers, body, &mut seen).await;
        let took = self.clock().boot().since(began);
        let fault = answered.as_ref().err().map(|refusal| refusal.fault);
        self.metrics().count_token_request(seen.grant, took, fault);
        Some(answered.unwrap_or_else(|refusal| {
            self.token_state().lines.tell(&refusal, &seen, self.clock().boot());
            refusal.response()
        }))
    }

    /// Whether `path` is that of the token endpoint, byte for byte, and there is one.
    pub fn is_token_path(&self, path: &str) -> bool {
        self.live().endpoints().is_token(path)
    }

    async fn exchange<B>(
        &self,
        method: &Method,
        headers: &HeaderMap,
        body: B,
        seen: &mut Seen,
    ) -> Result<Response<Bytes>, Refusal>
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        if *method != Method::POST {
            return Err(Refusal::new(Fault::Method, "method", "tokens are asked for with POST"));
        }
        request::check_headers(headers)?;
        let form = body::read(body, self.token_state().max_body).await?;
        let form =
            Form::parse(&form).map_err(|error| Refusal::new(Fault::Request, "form", error.to_string()))?;
        let grant = request::grant(headers, &form, self.proofs().grants())?;
        seen.grant = Some(grant);
        let asked = TokenRequest::read(grant, &form)?;
        seen.audience = Some(asked.audience.clone());
        if self.rules().is_own(&asked.audience) {
            return Err(MintError::OwnAudience(asked.audience).into());
        }
        self.check_minting()?;
        let minted = timeout(DEADLINE, self.prove_and_mint(&asked, seen)).await;
        let minted =
            minted.unwrap_or_else(|_| Err(too_slow())).map_err(|refusal| seen.with_what_is_spent(refusal))?;
        let expires_in = minted.exp.as_secs().saturating_sub(self.clock().wall().as_secs());
        Ok(granted(&minted.token, asked.token_type, u64::try_from(expires_in).unwrap_or(0)))
    }

    async fn prove_and_mint(&self, asked: &TokenRequest, seen: &mut Seen) -> Result<Minted, Refusal> {
        let proved = self.prove(asked.grant, &asked.proof).await;
        let workload = &*seen.workload.insert(proved.map_err(|error| Refusal::of_proof(asked.grant, error))?);
        self.limit(workload)?;
        let minted = self.mint(workload, &asked.audience).await?;
        audit::minted(asked.grant, workload, &asked.audience, &minted);
        Ok(minted)
    }

    /// Pods of one service account do not share a budget: one that is restarted over and over takes nothing from the
    /// others.
    fn limit(&self, workload: &VerifiedWorkload) -> Result<(), Refusal> {
        let who =
            (audit::voucher(workload.vouched_by()), workload.principal(), workload.facts().named("pod_uid"));
        self.token_state().subjects.take(who, self.clock().boot()).map_err(|wait| {
            let words = "this workload asks for tokens too often; keep a token until it has used most of its life, and try \
                         again after the time in Retry-After";
            Refusal::passing(Fault::Limited, "subject_limit", words, wait)
        })
    }
}

/// What is known of a request, for its log line.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    grant: Option<Grant>,
    audience: Option<Audience>,
    /// Verified.
    workload: Option<VerifiedWorkload>,
}

impl Seen {
    /// A client that tries again with an assertion that is used up would be told of a replay, and of nothing else.
    fn with_what_is_spent(&self, refusal: Refusal) -> Refusal {
        match self.workload.as_ref().map(VerifiedWorkload::strength) {
            Some(Strength::SignedOnce) => {
                refusal.and("the assertion is used up, so send a new one the next time")
            }
            _ => refusal,
        }
    }
}

fn too_slow() -> Refusal {
    let words = "what vouches for this workload does not answer in time; try again";
    let error = ProofError::unavailable("deadline", words, Duration::from_secs(5));
    // Which grant is of no matter where nothing is refused.
    Refusal::of_proof(Grant::TokenExchange, error)
}

/// For the proof and the signature: a question to an API server and one to a database, each with its own limit below
/// this, and a client's patience above.
const DEADLINE: Duration = Duration::from_secs(15);
