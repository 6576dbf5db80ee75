//! Builds an issuer: the library's part of the boot gate.
//!
//! Everything that could be wrong is looked at before anything is said, so that one run shows every fault. The text
//! of the [`Findings`] is what `oneseal check` prints.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use http::HeaderName;
use oneseal_coordination::{Clock, SystemClock};
use oneseal_keystore::{
    Algorithm, Findings, Follower, IssuerUrl, KeyId, Keystore, KeystoreOptions, Mode, Rotation,
};
use oneseal_providers::SecretProvider;
use tokio_util::sync::CancellationToken;

use crate::claims::set::json_string;
use crate::claims::{Audience, ClaimError, TokenLifetime};
use crate::codes::{
    ALGORITHM_TWICE, ALGORITHMS_EMPTY, RULE_MALFORMED, RULE_NONE, SIGNING_THREADS, TOKEN_ENDPOINT,
};
use crate::http::documents::{Endpoints, TokenMetadata};
use crate::http::token::{TokenLimits, TokenState, endpoint};
use crate::issuer::{Inner, Issuer};
use crate::metrics::Metrics;
use crate::pool::Pool;
use crate::proofs::{Proof, Proofs};
use crate::published::Live;
use crate::rules::{Rule, RuleSet, Rules};
use crate::tasks::Tasks;

/// What an issuer is to be. Made by [`Issuer::builder`].
///
/// # Defaults
/// No rule (nothing is minted) · no proof (whoever embeds it vouches) · algorithm RS256 · the times of [`Rotation::default`], which a ring document
/// overrides · a single key replaced by another is refused · no passphrase, no member: the value is the key, unencrypted ·
/// no KEK and no pin: the right to write the ring is the trust · it signs · tokens are asked for at `ISS/token`, within
/// the limits of [`TokenLimits`] ·
/// the system's clock · one signing thread for each
/// processor · no header reserved.
#[derive(Debug)]
#[must_use = "an issuer exists only once it is built"]
pub struct Builder {
    url: String,
    provider: Arc<dyn SecretProvider>,
    rules: Vec<Rule>,
    proofs: Vec<Arc<dyn Proof>>,
    token_endpoint: Option<String>,
    token_limits: TokenLimits,
    admin_audiences: Vec<Audience>,
    algorithms: Vec<Algorithm>,
    rotation: Rotation,
    max_lag: Duration,
    allow_key_replacement: bool,
    passphrase: Option<Arc<dyn SecretProvider>>,
    member: Option<String>,
    keks: Vec<Arc<dyn SecretProvider>>,
    pin: Option<KeyId>,
    mode: Mode,
    clock: Arc<dyn Clock>,
    signing_threads: Option<usize>,
    reserved_header: Option<HeaderName>,
    /// Found in what the setters were given; told by `build` with all the rest.
    faults: Findings,
}

impl Builder {
    pub(crate) fn new(url: String, provider: Arc<dyn SecretProvider>) -> Self {
        Self {
            url,
            provider,
            rules: Vec::new(),
            proofs: Vec::new(),
            token_endpoint: None,
            token_limits: TokenLimits::default(),
            admin_audiences: Vec::new(),
            algorithms: vec![Algorithm::Rs256],
            rotation: Rotation::default(),
            max_lag: Duration::ZERO,
            allow_key_replacement: false,
            passphrase: None,
            member: None,
            keks: Vec::new(),
            pin: None,
            mode: Mode::Full,
            clock: Arc::new(SystemClock),
            signing_threads: None,
            reserved_header: None,
            faults: Findings::new(),
        }
    }

    /// Allows tokens for `audience` that live `ttl` (60 s to 24 h), or less if less is asked for. Rules are tried in
    /// the order in which they are given, and the first that matches decides.
    pub fn allow(mut self, audience: impl Into<String>, ttl: Duration) -> Self {
        let audience = audience.into();
        let place = place_of(&audience);
        let audience = self.kept(&place, Audience::parse(audience));
        let ttl = self.kept(&place, TokenLifetime::new(ttl));
        self.rules.extend(audience.zip(ttl).map(|(audience, ttl)| Rule::new(audience, ttl)));
        self
    }

    /// Adds a rule that is already made.
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// Takes the tokens of `proof` as proof. Which proof a token is for is decided by its issuer, in the order in which
    /// they are given.
    pub fn proof(mut self, proof: impl Proof) -> Self {
        self.proofs.push(Arc::new(proof));
        self
    }

    /// Where workloads ask for tokens, as discovery says it, if that is not `ISS/token`: the address by which a listener
    /// or a proxy of their own is reached. The path that is answered stays `ISS/token`. Like that one it can be no
    /// audience.
    pub fn token_endpoint(mut self, url: impl Into<String>) -> Self {
        let url = url.into();
        if let Err(message) = endpoint::check(&url) {
            self.faults.push(&TOKEN_ENDPOINT, TOKEN_ENDPOINT_PLACE, message);
        }
        self.token_endpoint = Some(url);
        self
    }

    /// How much the token endpoint takes.
    pub fn token_limits(mut self, limits: TokenLimits) -> Self {
        self.token_limits = limits;
        self
    }

    /// Lets admin callers mint for these audiences besides those of the rules, with the ring's usual life.
    pub fn mint_audiences(mut self, audiences: impl IntoIterator<Item = impl Into<String>>) -> Self {
        for audience in audiences {
            let audience = self.kept("admin.mint_audiences", Audience::parse(audience));
            self.admin_audiences.extend(audience);
        }
        self
    }

    /// What discovery names, the default first. A published key of another algorithm is refused.
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }

    /// The times for bare keys. A ring document brings its own.
    pub fn rotation(mut self, rotation: Rotation) -> Self {
        self.rotation = rotation;
        self
    }

    /// How much older than its source what the provider gives may be, in whole seconds, as
    /// [`KeystoreOptions::max_lag`](oneseal_keystore::KeystoreOptions::max_lag) has it: kubelet's copy of a Secret in a volume,
    /// for example.
    pub fn max_lag(mut self, max_lag: Duration) -> Self {
        self.max_lag = max_lag;
        self
    }

    /// Accepts a key set that shares no key with the one being served. Breaks every token in use: for once, by hand.
    pub fn allow_key_replacement(mut self, allow: bool) -> Self {
        self.allow_key_replacement = allow;
        self
    }

    /// Where the passphrase of encrypted keys (PKCS#8, PBES2) rests: a provider of its own, of which the only entry,
    /// or the one called `passphrase`, is taken. It is read at the start, and again for each new record that needs
    /// it.
    pub fn passphrase(mut self, provider: impl SecretProvider) -> Self {
        self.passphrase = Some(Arc::new(provider));
        self
    }

    /// The member that holds the key, where each value is a JSON object of several members.
    pub fn member(mut self, name: impl Into<String>) -> Self {
        self.member = Some(name.into());
        self
    }

    /// Where a key-encryption key of a sealed ring rests: a provider of its own, of which the only entry, or the one
    /// called `kek`, is taken: 32 random bytes, or base64, base64url, hex or a JWK of them. The first that is named is
    /// the current one; further ones only open. With any, nothing that is not sealed is believed. Opening takes the
    /// feature `seal`.
    pub fn kek(mut self, provider: impl SecretProvider) -> Self {
        self.keks.push(Arc::new(provider));
        self
    }

    /// The thumbprint of the ring key that is believed, or of an earlier one whose endorsements lead to it. With it
    /// nothing that is not sealed is believed.
    pub fn pin(mut self, ring_key: KeyId) -> Self {
        self.pin = Some(ring_key);
        self
    }

    /// Whether this replica signs. In [`Mode::PublicOnly`] it publishes and verifies, opens no private half and needs no
    /// KEK; every mint is refused with [`MintError::PublicOnly`](crate::MintError::PublicOnly).
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Another source of time, for tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// How many threads sign with RSA: 1 to 256. More than there are processors gains nothing.
    pub fn signing_threads(mut self, threads: usize) -> Self {
        self.signing_threads = Some(threads);
        self
    }

    /// A header that a layer outside puts into every answer, such as `x-request-id`: answers with a document come with
    /// it, empty, and are to be given its value by [`HeaderMap::insert`](http::HeaderMap::insert). A map of headers that
    /// has to grow for one more costs an answer as much as all that it holds.
    pub fn reserve_header(mut self, name: HeaderName) -> Self {
        self.reserved_header = Some(name);
        self
    }

    /// Loads and judges the key, and builds the issuer with the tasks that keep it up to date. Binds nothing, spawns
    /// no task, makes no key: without a usable one it fails. Run the [`Tasks`]; until then nothing is minted.
    ///
    /// # Errors
    /// Every fault found, warnings among them. [`Findings::exit`] is the exit code for a process that gives up.
    ///
    /// # Cancel safety
    /// Changes nothing outside itself.
    pub async fn build(self) -> Result<(Issuer, Tasks), Findings> {
        self.open_all().await.map_err(|mut findings| {
            findings.drop_if_refused(RULE_NONE.name);
            findings
        })
    }

    async fn open_all(mut self) -> Result<(Issuer, Tasks), Findings> {
        let mut findings = std::mem::take(&mut self.faults);
        findings.extend(self.check_algorithms());
        findings.extend(self.rotation.check("rotation"));
        let threads = self.threads(&mut findings);
        let url = match IssuerUrl::parse(&self.url, URL_PLACE) {
            Ok(url) => url,
            Err(found) => {
                findings.extend(found);
                findings.extend(self.faults_of_keys_alone().await);
                return Err(findings);
            }
        };
        findings.extend(url.advice(URL_PLACE));
        let rules = self.make_rules(&url);
        findings.extend(rules.check(self.mode));
        let (keystore, follower) = match self.open(url.clone()).await {
            Ok(opened) => opened,
            Err(found) => {
                findings.extend(found);
                return Err(findings);
            }
        };
        findings.extend(keystore.advice().clone());
        findings.extend(rules.check_against(keystore.snapshot().rotation()));
        let Some(threads) = threads.filter(|_| !findings.has_errors()) else { return Err(findings) };
        match Pool::start(threads) {
            Ok(pool) => Ok(self.assemble(Parts { url, rules, keystore, follower, pool, findings })),
            Err(error) => {
                findings.push(
                    &SIGNING_THREADS,
                    "signing_threads",
                    format!("{threads} were asked for: {error}"),
                );
                Err(findings)
            }
        }
    }

    fn assemble(self, parts: Parts) -> (Issuer, Tasks) {
        let Parts { url, rules, keystore, follower, pool, findings } = parts;
        let proofs = Proofs::new(self.proofs);
        let tokens = TokenMetadata { endpoint: self.token_endpoint, grants: proofs.grants().collect() };
        let tokens = Some(&tokens).filter(|tokens| !tokens.grants.is_empty());
        let endpoints = Endpoints::new(&url, &self.algorithms, tokens, self.reserved_header);
        let live = Arc::new(Live::new(keystore.snapshot(), endpoints, Arc::clone(&self.clock)));
        let orphaned = CancellationToken::new();
        let tasks = Tasks::new(Arc::clone(&live), follower, Arc::clone(&self.clock), orphaned.clone());
        let issuer = Issuer::from_inner(Inner {
            issuer_json: json_string(url.as_str()),
            metrics: Metrics::new(Arc::clone(&live), keystore.clone(), &self.algorithms),
            url,
            rules,
            proofs,
            token: TokenState::new(self.token_limits),
            live,
            keystore,
            clock: self.clock,
            pool,
            findings,
            _alive: orphaned.drop_guard(),
        });
        (issuer, tasks)
    }

    fn make_rules(&mut self, url: &IssuerUrl) -> Rules {
        let rules = RuleSet::new(std::mem::take(&mut self.rules));
        let endpoint = self.token_endpoint.as_deref();
        let audiences = std::mem::take(&mut self.admin_audiences);
        Rules::new(url, endpoint, self.algorithms.clone(), rules, audiences)
    }

    async fn open(&self, issuer: IssuerUrl) -> Result<(Keystore, Follower), Findings> {
        let mut options = KeystoreOptions::new(issuer);
        if !self.algorithms.is_empty() {
            options.algorithms.clone_from(&self.algorithms);
        }
        options.rotation = self.rotation.clone();
        options.max_lag = self.max_lag;
        options.allow_key_replacement = self.allow_key_replacement;
        options.passphrase.clone_from(&self.passphrase);
        options.member.clone_from(&self.member);
        options.keks.clone_from(&self.keks);
        options.pin.clone_from(&self.pin);
        options.mode = self.mode;
        Keystore::open(Arc::clone(&self.provider), options, Arc::clone(&self.clock)).await
    }

    /// What is wrong with provider and keys, whatever the issuer is called: so that a bad URL does not hide a missing
    /// key until the next attempt.
    async fn faults_of_keys_alone(&self) -> Findings {
        let Ok(stand_in) = IssuerUrl::parse("https://issuer.invalid", URL_PLACE) else {
            return Findings::new();
        };
        let found = self.open(stand_in).await.err().unwrap_or_default();
        let mut kept = Findings::new();
        for finding in found.iter().filter(|finding| is_of_keys(finding.code.name)) {
            kept.push(finding.code, finding.place.clone(), finding.message.clone());
        }
        kept
    }

    fn check_algorithms(&self) -> Findings {
        let mut findings = Findings::new();
        if self.algorithms.is_empty() {
            findings.push(&ALGORITHMS_EMPTY, ALGORITHMS_PLACE, "the list is empty");
        }
        let mut seen = BTreeSet::new();
        for algorithm in &self.algorithms {
            if !seen.insert(algorithm) {
                findings.push(&ALGORITHM_TWICE, ALGORITHMS_PLACE, format!("{algorithm} stands there twice"));
            }
        }
        findings
    }

    fn threads(&self, findings: &mut Findings) -> Option<NonZeroUsize> {
        let asked = self.signing_threads.unwrap_or_else(processors);
        let threads = NonZeroUsize::new(asked).filter(|threads| threads.get() <= MAX_SIGNING_THREADS);
        if threads.is_none() {
            findings.push(&SIGNING_THREADS, "signing_threads", format!("{asked} were asked for"));
        }
        threads
    }

    fn kept<T>(&mut self, place: &str, parsed: Result<T, ClaimError>) -> Option<T> {
        parsed.map_err(|error| self.faults.push(&RULE_MALFORMED, place, error.to_string())).ok()
    }
}

/// What `build` has found good.
struct Parts {
    url: IssuerUrl,
    rules: Rules,
    keystore: Keystore,
    follower: Follower,
    pool: Pool,
    findings: Findings,
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZeroUsize::get).min(MAX_SIGNING_THREADS)
}

fn is_of_keys(code: &str) -> bool {
    ["provider.", "key.", "kek."].iter().any(|prefix| code.starts_with(prefix))
}

/// Where a rule stands, by its audience, cut short and escaped since it may be anything.
fn place_of(audience: &str) -> String {
    let shown: String = audience.chars().take(64).collect();
    if shown.is_empty() { "rule \"\"".to_owned() } else { format!("rule {}", shown.escape_debug()) }
}

const URL_PLACE: &str = "issuer.url";
const TOKEN_ENDPOINT_PLACE: &str = "issuer.token_endpoint";
const ALGORITHMS_PLACE: &str = "issuer.algorithms";
/// A slip of the keyboard beyond this; more never help.
const MAX_SIGNING_THREADS: usize = 256;
