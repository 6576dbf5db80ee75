//! The handle that a controller holds.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::{BootTime, Clock};
use oneseal_keystore::findings::Finding;
use oneseal_keystore::{Findings, Identity, IssuerUrl, Kept, Keystore, Snapshot};
use oneseal_providers::SecretProvider;
use tokio_util::sync::DropGuard;

use crate::builder::Builder;
use crate::claims::Audience;
use crate::codes::RULE_NONE;
use crate::error::VerifyError;
use crate::health::{self, Health};
use crate::http::token::TokenState;
use crate::metrics::Metrics;
use crate::pool::Pool;
use crate::proofs::Proofs;
use crate::published::Live;
use crate::rules::{RuleSet, Rules};
use crate::verify::{self, Claims};

/// An OIDC issuer in this process. Cheap to clone; all clones are one. Several issuers can live side by side.
///
/// The layers and routers made from it are handles too. When the last one is dropped its signing threads end (the
/// drop waits for a signature under way, a few milliseconds at most) and its [`Tasks`](crate::Tasks) return.
#[derive(Clone)]
pub struct Issuer {
    inner: Arc<Inner>,
}

/// All of an issuer; made by the builder.
pub(crate) struct Inner {
    pub(crate) url: IssuerUrl,
    /// `iss` as a JSON string.
    pub(crate) issuer_json: String,
    pub(crate) rules: Rules,
    pub(crate) proofs: Proofs,
    pub(crate) token: TokenState,
    pub(crate) live: Arc<Live>,
    pub(crate) keystore: Keystore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) pool: Pool,
    pub(crate) metrics: Metrics,
    pub(crate) findings: Findings,
    /// Ends the tasks when the last handle goes.
    pub(crate) _alive: DropGuard,
}

impl Issuer {
    /// Begins to build the issuer called `url` with the key that `provider` keeps: the two things that nobody can
    /// default.
    pub fn builder(url: impl Into<String>, provider: impl SecretProvider) -> Builder {
        Builder::new(url.into(), Arc::new(provider))
    }

    pub(crate) fn from_inner(inner: Inner) -> Self {
        Self { inner: Arc::new(inner) }
    }

    /// What stands in `iss`.
    pub fn url(&self) -> &IssuerUrl {
        &self.inner.url
    }

    /// The warnings that were found when it was built, in the words of `oneseal check`.
    pub fn findings(&self) -> &Findings {
        &self.inner.findings
    }

    /// The keys that are published now, and that sign.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.live().published().snapshot)
    }

    /// Returns once another ring than `since` is published, and at once if one is already.
    ///
    /// # Cancel safety
    /// Changes nothing; a change is not missed by who asks again with what was seen last.
    pub async fn changed(&self, since: &Identity) {
        self.live().changed(since).await;
    }

    /// Looks at the key provider now and not only when it is due, for whoever has just written there, and returns once
    /// the ring of this `incarnation` and `revision`, or a later one, is published and signs here. Where the provider
    /// does not answer, or its record is refused, that never comes: bound it.
    ///
    /// # Cancel safety
    /// Dropped, the look goes on.
    pub async fn catch_up(&self, incarnation: u64, revision: u64) {
        self.keystore().look_now();
        loop {
            let served = *self.live().published().snapshot.identity();
            if (served.incarnation, served.revision) >= (incarnation, revision) {
                return;
            }
            self.changed(&served).await;
        }
    }

    /// Looks at the key provider now and not only when it is due, for whoever knows that something else is there.
    pub fn look_now(&self) {
        self.keystore().look_now();
    }

    /// The record that was accepted last, as it came, for
    /// [`Executor::recover`](oneseal_keystore::executor::Executor::recover). `None` where the provider is read once.
    pub fn kept(&self) -> Option<Arc<Kept>> {
        self.keystore().kept()
    }

    /// The rules in force.
    pub fn current_rules(&self) -> Arc<RuleSet> {
        self.rules().current()
    }

    /// Puts these rules in the place of those in force, all of them at once, unless something is wrong with them; what
    /// admin callers may mint for besides stays. Warnings come back.
    ///
    /// # Errors
    /// All that is wrong with them, warnings among it. The rules in force stay.
    pub fn set_rules(&self, rules: RuleSet) -> Result<Findings, Findings> {
        let snapshot = self.snapshot();
        let mut findings = self.rules().check_set(&rules, snapshot.mode());
        findings.extend(rules.check_against(snapshot.rotation()));
        if findings.has_errors() {
            findings.drop_if_refused(RULE_NONE.name);
            return Err(findings);
        }
        self.rules().replace(rules);
        Ok(findings)
    }

    /// Tells what another clock that is trusted more, such as a database's, read when this host's boot clock read `at`:
    /// milliseconds since the Unix epoch, give or take `within`, such as half the time that the question took. From then on this host's wall clock is held against it, without asking again;
    /// while the two are further apart than the ring's `skew`, nothing is minted.
    pub fn set_reference_clock(&self, wall_ms: i64, at: BootTime, within: Duration) {
        self.live().reference().set(wall_ms, at, within);
    }

    /// How far this host's wall clock lies ahead of the reference now, in milliseconds and right to half a second;
    /// `None` where no reference was told.
    pub fn clock_offset_ms(&self) -> Option<i64> {
        self.live().reference().offset_ms()
    }

    /// The ids of the key-encryption keys that this replica has, the one that it seals with first.
    pub fn kek_ids(&self) -> Vec<String> {
        self.keystore().keks().ids().map(str::to_owned).collect()
    }

    /// How it is doing: for readiness probes and status pages. No I/O.
    pub fn health(&self) -> Health {
        health::read(self.live(), self.keystore(), self.rules().default_algorithm())
    }

    /// The first thing that is wrong with the provider's record, if the last look found one and refused it: what is served
    /// is then the last good one. No I/O.
    pub fn refusal(&self) -> Option<Finding> {
        self.keystore().refusal()
    }

    /// The first thing that was wrong at the last look at the provider: that it gave no record, or what is wrong with the one
    /// that it gave. No I/O.
    pub fn fault(&self) -> Option<Finding> {
        self.keystore().fault()
    }

    /// Verifies a token of this issuer for `audience`, offline, by the keys that this replica publishes; tokens of
    /// every other replica included. Goes on while the provider is down. Clocks may differ by the ring's `skew`.
    ///
    /// # Errors
    /// A [`VerifyError`]: the first reason not to believe it.
    pub fn verify(&self, token: &str, audience: &Audience) -> Result<Claims, VerifyError> {
        let now = self.clock().wall();
        let result = verify::verify(&self.live().published().snapshot, self.url(), token, audience, now);
        self.metrics().count_verification(result.as_ref().err());
        result
    }

    /// All metrics as OpenMetrics text, to be served as [`METRICS_CONTENT_TYPE`](crate::METRICS_CONTENT_TYPE). What
    /// there is stands in `docs/metrics.md`.
    pub fn encode_metrics(&self) -> String {
        let mut out = String::new();
        self.write_metrics(&mut out);
        Metrics::end(&mut out);
        out
    }

    /// Appends all metrics to `out` without the closing `# EOF`, for a program that has metrics of its own to add.
    pub fn write_metrics(&self, out: &mut String) {
        self.metrics().write(out);
        self.proofs().write_metrics(out);
    }

    pub(crate) fn issuer_json(&self) -> &str {
        &self.inner.issuer_json
    }

    pub(crate) fn rules(&self) -> &Rules {
        &self.inner.rules
    }

    pub(crate) fn proofs(&self) -> &Proofs {
        &self.inner.proofs
    }

    pub(crate) fn token_state(&self) -> &TokenState {
        &self.inner.token
    }

    pub(crate) fn live(&self) -> &Live {
        &self.inner.live
    }

    pub(crate) fn keystore(&self) -> &Keystore {
        &self.inner.keystore
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.inner.clock
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.inner.pool
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Issuer({}, {:?})", self.url(), self.health().minting)
    }
}
