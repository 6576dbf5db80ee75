//! Rules without an issuer: what they would do for a workload that somebody supposes.

use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::UnixTime;
use oneseal_keystore::{Algorithm, Findings, IssuerUrl, Mode, Rotation};
use uuid::Uuid;

use super::{Grant, Known, Mismatch, RuleSet, Rules};
use crate::claims::set::{ClaimSet, json_string};
use crate::claims::{Subject, TokenLifetime};
use crate::error::MintError;
use crate::mint::MintRequest;
use crate::workload::{Facts, Voucher};

/// What an issuer's rules would do. Needs no key and no running issuer, believes whatever it is told of a workload, and
/// so can mint nothing.
#[derive(Debug)]
pub struct Rehearsal {
    rules: Rules,
    rotation: Rotation,
    issuer_json: String,
}

/// What a token would say.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Rehearsed {
    /// The rule that decides, by its name.
    pub rule: Arc<str>,
    /// The claims as JSON. A token that is minted has times and a `jti` of its own.
    pub claims: String,
    /// The `sub`.
    pub subject: Subject,
    /// The life.
    pub ttl: TokenLifetime,
    /// What would sign it.
    pub algorithm: Algorithm,
}

/// What one rule has to say of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Considered {
    /// Its name.
    pub rule: Arc<str>,
    /// Why it does not match; `None` if it does.
    pub mismatch: Option<Mismatch>,
}

impl Rehearsal {
    /// The rules of an issuer with these identifiers of its own, algorithms (the default first) and times.
    pub fn new(
        issuer: &IssuerUrl,
        token_endpoint: Option<&str>,
        algorithms: Vec<Algorithm>,
        rotation: Rotation,
        rules: RuleSet,
    ) -> Self {
        let issuer_json = json_string(issuer.as_str());
        let rules = Rules::new(issuer, token_endpoint, algorithms, rules, Vec::new());
        Self { rules, rotation, issuer_json }
    }

    /// What is wrong with the rules, as an issuer would tell when it is built.
    pub fn check(&self) -> Findings {
        let set = self.rules.current();
        let mut findings = self.rules.check(Mode::Full);
        findings.extend(set.check_against(&self.rotation));
        findings
    }

    /// What a token would say that is minted at `now`.
    ///
    /// # Errors
    /// As [`Issuer::mint_with`](crate::Issuer::mint_with), as far as rules decide.
    pub fn preview(
        &self,
        voucher: &Voucher,
        facts: &Facts,
        request: &MintRequest,
        now: UnixTime,
    ) -> Result<Rehearsed, MintError> {
        let known = Known { voucher, subject: None, facts };
        let grant = self.rules.decide(&known, request, &self.rotation)?;
        let Grant { rule, subject, ttl, algorithm, claims } = grant;
        let issued_at = now - Duration::from_secs(self.rotation.backdate_s);
        let set = ClaimSet {
            issuer_json: &self.issuer_json,
            subject: &subject,
            audience: &request.audience,
            issued_at,
            expires_at: issued_at + ttl.as_duration(),
            id: Uuid::new_v4(),
            extra: &claims,
        };
        Ok(Rehearsed { claims: set.to_json(), rule, subject, ttl, algorithm })
    }

    /// What each rule has to say, in their order. All that match are told, though the first decides.
    pub fn consider(&self, voucher: &Voucher, facts: &Facts, request: &MintRequest) -> Vec<Considered> {
        let set = self.rules.current();
        set.iter()
            .map(|rule| Considered {
                rule: rule.shared_name(),
                mismatch: rule.mismatch(voucher, facts, &request.audience),
            })
            .collect()
    }
}
