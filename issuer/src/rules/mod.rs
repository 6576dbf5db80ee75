//! Who gets what: deny by default, and the first rule that matches decides.
//!
//! ```text
//! VerifiedWorkload ─► whose word is it? ─► conditions ─► audience ─► the first rule of which all hold
//!                                                                      └─► sub, ttl, algorithm, claims
//! ```
//! Rules are few words without an expression language: what a rule lets in can be read off it, and a former rule that
//! leaves a later one nothing is found when they are loaded.

mod claims;
mod condition;
mod denial;
mod fault;
mod field;
mod mismatch;
mod rehearsal;
mod rule;
mod set;
mod tags;
mod template;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use oneseal_keystore::{Algorithm, Findings, IssuerUrl, Mode, Rotation};

pub use condition::Pattern;
pub use denial::NoRule;
pub use fault::Unwritable;
pub use mismatch::Mismatch;
pub use rehearsal::{Considered, Rehearsal, Rehearsed};
pub use rule::Rule;
pub use set::RuleSet;

use crate::claims::{Audience, ExtraClaims, Subject, TokenLifetime};
use crate::codes::{RULE_NONE, RULE_OWN_AUDIENCE};
use crate::error::MintError;
use crate::mint::MintRequest;
use crate::workload::{Facts, VerifiedWorkload, Voucher};

/// What one token gets, decided.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grant {
    /// By its name.
    pub(crate) rule: Arc<str>,
    pub(crate) subject: Subject,
    pub(crate) ttl: TokenLifetime,
    pub(crate) algorithm: Algorithm,
    /// What the rule adds.
    pub(crate) claims: ExtraClaims,
}

/// What rules ask of a workload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    pub(crate) voucher: &'a Voucher,
    pub(crate) subject: Option<&'a Subject>,
    pub(crate) facts: &'a Facts,
}

impl<'a> Known<'a> {
    pub(crate) fn of(workload: &'a VerifiedWorkload) -> Self {
        Self { voucher: workload.vouched_by(), subject: workload.subject(), facts: workload.facts() }
    }
}

/// The rules of an issuer, and what beside them decides.
#[derive(Debug)]
pub(crate) struct Rules {
    set: ArcSwap<RuleSet>,
    /// What an admin caller may mint for besides.
    admin_audiences: Vec<Audience>,
    /// Identifiers of the issuer itself, none of which may be an audience; without a slash at the end.
    own: Vec<String>,
    algorithms: Vec<Algorithm>,
}

impl Rules {
    /// `algorithms` must not be empty. `token_endpoint`: where it is reached, if that is not below the issuer's URL.
    pub(crate) fn new(
        url: &IssuerUrl,
        token_endpoint: Option<&str>,
        algorithms: Vec<Algorithm>,
        set: RuleSet,
        admin_audiences: Vec<Audience>,
    ) -> Self {
        let usual_endpoint = url.url_of(&url.token_path());
        let own = [Some(url.as_str()), Some(&usual_endpoint), token_endpoint];
        let own = own.into_iter().flatten().map(|name| without_slash(name).to_owned()).collect();
        Self { set: ArcSwap::from_pointee(set), admin_audiences, own, algorithms }
    }

    /// Those in force.
    pub(crate) fn current(&self) -> Arc<RuleSet> {
        self.set.load_full()
    }

    /// From now on these; a token that is being decided has the former ones, whole.
    pub(crate) fn replace(&self, set: RuleSet) {
        self.set.store(Arc::new(set));
    }

    /// Whether `audience` is the issuer itself.
    pub(crate) fn is_own(&self, audience: &Audience) -> bool {
        is_own(&self.own, audience)
    }

    /// The algorithm of a token for which neither rule nor request names one.
    pub(crate) fn default_algorithm(&self) -> Algorithm {
        self.algorithms.first().copied().unwrap_or(Algorithm::Rs256)
    }

    /// What is wrong with the rules themselves.
    pub(crate) fn check(&self, mode: Mode) -> Findings {
        self.check_set(&self.current(), mode)
    }

    /// The same of others.
    pub(crate) fn check_set(&self, set: &RuleSet, mode: Mode) -> Findings {
        let mut findings = set.check(&self.own, &self.algorithms);
        for audience in self.admin_audiences.iter().filter(|audience| is_own(&self.own, audience)) {
            let message = format!("the audience {audience} is this issuer");
            findings.push(&RULE_OWN_AUDIENCE, ADMIN, message);
        }
        // Where nothing is ever minted, no rule would change that.
        if mode == Mode::Full && set.is_empty() && self.admin_audiences.is_empty() {
            findings.push(&RULE_NONE, "rule", "no audience is allowed, so nothing can be minted here");
        }
        findings
    }

    /// Which rules the times in force will cut short.
    pub(crate) fn check_against(&self, rotation: &Rotation) -> Findings {
        self.current().check_against(rotation)
    }

    /// Decides one token. A life that is asked for and exceeds what is allowed is refused, never silently cut; a
    /// life that nobody asked for is the rule's, cut to the ring's `max_token_ttl`.
    ///
    /// # Errors
    /// [`MintError::OwnAudience`], [`MintError::NotAllowed`], [`MintError::NoSubject`], [`MintError::Unwritable`],
    /// [`MintError::AlgorithmNotAllowed`], [`MintError::LifetimeTooLong`], [`MintError::LifetimeTooShort`],
    /// [`MintError::Invalid`].
    pub(crate) fn decide(
        &self,
        known: &Known<'_>,
        request: &MintRequest,
        rotation: &Rotation,
    ) -> Result<Grant, MintError> {
        if is_own(&self.own, &request.audience) {
            return Err(MintError::OwnAudience(request.audience.clone()));
        }
        let set = self.set.load();
        let allowed = self.allowed(&set, known, &request.audience, rotation)?;
        let ttl = life(request.ttl, &allowed, rotation)?;
        let algorithm = self.choose(request.algorithm, allowed.algorithm)?;
        let written = allowed.writer.map(|rule| rule.write_subject(known.facts)).transpose()?.flatten();
        let subject = written.or_else(|| known.subject.cloned()).ok_or(MintError::NoSubject)?;
        let claims = allowed.writer.map(|rule| rule.write_claims(known.facts)).transpose()?;
        Ok(Grant { rule: allowed.name, subject, ttl, algorithm, claims: claims.unwrap_or_default() })
    }

    fn allowed<'a>(
        &self,
        set: &'a RuleSet,
        known: &Known<'_>,
        audience: &Audience,
        rotation: &Rotation,
    ) -> Result<Allowed<'a>, MintError> {
        let is_admin = matches!(known.voucher, Voucher::Admin(_));
        // Whoever calls the admin interface says who the workload is; a rule only bounds what it gets.
        let decides = |rule: &&Rule| {
            if is_admin {
                rule.audiences.contains(audience)
            } else {
                rule.mismatch(known.voucher, known.facts, audience).is_none()
            }
        };
        if let Some(rule) = set.iter().find(decides) {
            let writer = Some(rule).filter(|_| !is_admin);
            let (name, algorithm) = (rule.shared_name(), rule.algorithm);
            return Ok(Allowed { name, usual: rule.ttl, limit: rule.ttl, algorithm, writer });
        }
        if is_admin && self.admin_audiences.contains(audience) {
            let [usual, limit] = [rotation.token_ttl_s, rotation.max_token_ttl_s].map(Duration::from_secs);
            let [usual, limit] = [TokenLifetime::new(usual)?, TokenLifetime::new(limit)?];
            return Ok(Allowed { name: ADMIN.into(), usual, limit, algorithm: None, writer: None });
        }
        Err(set.denial(known, audience))
    }

    fn choose(&self, asked: Option<Algorithm>, ruled: Option<Algorithm>) -> Result<Algorithm, MintError> {
        let asked = asked.or(ruled).unwrap_or_else(|| self.default_algorithm());
        let is_allowed = ruled.map_or_else(|| self.algorithms.contains(&asked), |ruled| ruled == asked);
        if !is_allowed {
            let allowed = ruled.map_or_else(|| self.algorithms.clone(), |ruled| vec![ruled]);
            return Err(MintError::AlgorithmNotAllowed { asked, allowed });
        }
        Ok(asked)
    }
}

struct Allowed<'a> {
    name: Arc<str>,
    /// The life of a token for which none is asked.
    usual: TokenLifetime,
    /// The longest that may be asked for.
    limit: TokenLifetime,
    algorithm: Option<Algorithm>,
    /// What says who the workload is, unless whoever vouches does.
    writer: Option<&'a Rule>,
}

fn life(
    asked: Option<Duration>,
    allowed: &Allowed<'_>,
    rotation: &Rotation,
) -> Result<TokenLifetime, MintError> {
    let [usual, limit] = [allowed.usual, allowed.limit].map(|life| life.at_most(rotation.max_token_ttl_s));
    let life = asked.map(TokenLifetime::new).transpose()?.unwrap_or(usual);
    if life > limit {
        return Err(MintError::LifetimeTooLong { asked: life, limit });
    }
    if life.as_secs() <= rotation.backdate_s {
        return Err(MintError::LifetimeTooShort { life, backdate_s: rotation.backdate_s });
    }
    Ok(life)
}

/// With or without a trailing slash: who compares carelessly must not be fooled.
fn is_own(own: &[String], audience: &Audience) -> bool {
    own.iter().any(|own| own == without_slash(audience.as_str()))
}

fn without_slash(text: &str) -> &str {
    text.trim_end_matches('/')
}

/// What allows admin callers what no rule does.
const ADMIN: &str = "admin.mint_audiences";
