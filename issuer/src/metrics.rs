//! What operators see: one registry for each issuer, so that two issuers in one process never mix, and nothing
//! global is installed.
//!
//! `docs/metrics.md` lists every metric; a test compares the two. Labels are closed sets, apart from `kid`, of which
//! a ring has at most ten at a time.

pub(crate) mod agents;
mod collector;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use oneseal_keystore::{Algorithm, Keystore};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::error::{MintError, VerifyError};
use crate::http::documents::Endpoint;
use crate::http::token::TokenFault;
use crate::proofs::Grant;
use crate::published::Live;
use collector::Readings;

/// The content type of [`Issuer::encode_metrics`](crate::Issuer::encode_metrics): OpenMetrics text 1.0.0.
pub const METRICS_CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// An issuer's metrics.
pub(crate) struct Metrics {
    registry: Registry,
    mints: Family<[Label; 2], Counter>,
    mint_seconds: Family<[Label; 1], Histogram, fn() -> Histogram>,
    verifications: Family<[Label; 1], Counter>,
    token_requests: Family<[Label; 2], Counter>,
    token_seconds: Family<[Label; 1], Histogram, fn() -> Histogram>,
    /// By endpoint and status: looked up by position, since every document request counts here.
    documents: [[Counter; STATUSES.len()]; Endpoint::ALL.len()],
}

type Label = (&'static str, &'static str);

impl Metrics {
    pub(crate) fn new(live: Arc<Live>, keystore: Keystore, algorithms: &[Algorithm]) -> Self {
        let mut registry = Registry::with_prefix("oneseal");
        let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The version of oneseal that runs", build);
        let metrics = Self {
            mints: mints(&mut registry, algorithms),
            mint_seconds: mint_seconds(&mut registry, algorithms),
            verifications: verifications(&mut registry),
            token_requests: token_requests(&mut registry),
            token_seconds: token_seconds(&mut registry),
            documents: documents(&mut registry),
            registry: Registry::default(),
        };
        let algorithm = algorithms.first().copied().unwrap_or(Algorithm::Rs256);
        registry.register_collector(Box::new(Readings::new(live, keystore, algorithm)));
        Self { registry, ..metrics }
    }

    /// Appends everything as OpenMetrics text, without the `# EOF` that ends it.
    pub(crate) fn write(&self, out: &mut String) {
        // Writing to a String cannot fail.
        let _ = encode_registry(out, &self.registry);
    }

    pub(crate) fn end(out: &mut String) {
        let _ = encode_eof(out);
    }

    pub(crate) fn count_mint(&self, algorithm: Algorithm, took: Duration, failure: Option<&MintError>) {
        let result = failure.map_or("ok", MintError::label);
        self.mints.get_or_create(&mint_labels(algorithm, result)).inc();
        if failure.is_none() {
            self.mint_seconds.get_or_create(&[("alg", algorithm.as_str())]).observe(took.as_secs_f64());
        }
    }

    pub(crate) fn count_verification(&self, failure: Option<&VerifyError>) {
        let result = if failure.is_some() { "refused" } else { "ok" };
        self.verifications.get_or_create(&[("result", result)]).inc();
    }

    /// `grant` is `None` where the request did not come that far.
    pub(crate) fn count_token_request(
        &self,
        grant: Option<Grant>,
        took: Duration,
        fault: Option<TokenFault>,
    ) {
        let result = fault.map_or("ok", TokenFault::error);
        let grant = grant.map_or(NO_GRANT, Grant::label);
        self.token_requests.get_or_create(&[("grant", grant), ("result", result)]).inc();
        if grant != NO_GRANT {
            self.token_seconds.get_or_create(&[("grant", grant)]).observe(took.as_secs_f64());
        }
    }

    pub(crate) fn count_document(&self, endpoint: Endpoint, status: StatusCode) {
        let column = STATUSES.iter().position(|(code, _)| *code == status);
        if let Some(column) = column {
            self.documents[endpoint as usize][column].inc();
        }
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

fn mints(registry: &mut Registry, algorithms: &[Algorithm]) -> Family<[Label; 2], Counter> {
    let family = Family::default();
    for algorithm in algorithms {
        for result in ["ok"].into_iter().chain(MintError::LABELS) {
            drop(family.get_or_create(&mint_labels(*algorithm, result)));
        }
    }
    registry.register("mints", "Tokens asked for, by algorithm and how it ended", family.clone());
    family
}

fn mint_seconds(
    registry: &mut Registry,
    algorithms: &[Algorithm],
) -> Family<[Label; 1], Histogram, fn() -> Histogram> {
    let family = Family::new_with_constructor((|| Histogram::new(MINT_BUCKETS)) as fn() -> Histogram);
    for algorithm in algorithms {
        drop(family.get_or_create(&[("alg", algorithm.as_str())]));
    }
    let help = "Time to mint a token, waiting for a signing thread included";
    registry.register_with_unit("mint_duration", help, Unit::Seconds, family.clone());
    family
}

fn verifications(registry: &mut Registry) -> Family<[Label; 1], Counter> {
    let family = Family::default();
    for result in ["ok", "refused"] {
        drop(family.get_or_create(&[("result", result)]));
    }
    registry.register("verifications", "Tokens of ours that were verified here, by result", family.clone());
    family
}

fn token_requests(registry: &mut Registry) -> Family<[Label; 2], Counter> {
    let family = Family::default();
    for grant in Grant::ALL.map(Grant::label).into_iter().chain([NO_GRANT]) {
        for result in ["ok"].into_iter().chain(TokenFault::ERRORS) {
            if grant != NO_GRANT || BEFORE_THE_GRANT.contains(&result) {
                drop(family.get_or_create(&[("grant", grant), ("result", result)]));
            }
        }
    }
    let help = "Requests to the token endpoint, by grant and how they ended";
    registry.register("token_requests", help, family.clone());
    family
}

fn token_seconds(registry: &mut Registry) -> Family<[Label; 1], Histogram, fn() -> Histogram> {
    let family = Family::new_with_constructor((|| Histogram::new(TOKEN_BUCKETS)) as fn() -> Histogram);
    for grant in Grant::ALL {
        drop(family.get_or_create(&[("grant", grant.label())]));
    }
    let help = "Time from the head of a token request, with a grant that is taken, to its answer";
    registry.register_with_unit("token_request_duration", help, Unit::Seconds, family.clone());
    family
}

fn documents(registry: &mut Registry) -> [[Counter; STATUSES.len()]; Endpoint::ALL.len()] {
    let family = Family::<[Label; 2], Counter>::default();
    let counters = Endpoint::ALL.map(|endpoint| {
        STATUSES.map(|(code, status)| {
            if can_answer(endpoint, code) {
                return family.get_or_create_owned(&[("document", endpoint.label()), ("status", status)]);
            }
            Counter::default()
        })
    });
    registry.register("document_requests", "Answers at the issuer's paths, by document and status", family);
    counters
}

fn can_answer(endpoint: Endpoint, status: StatusCode) -> bool {
    let is_authorize = endpoint == Endpoint::Authorize;
    status == StatusCode::METHOD_NOT_ALLOWED || is_authorize == (status == StatusCode::BAD_REQUEST)
}

fn mint_labels(algorithm: Algorithm, result: &'static str) -> [Label; 2] {
    [("alg", algorithm.as_str()), ("result", result)]
}

/// Every status that the issuer's paths answer.
const STATUSES: [(StatusCode, &str); 5] = [
    (StatusCode::OK, "200"),
    (StatusCode::NO_CONTENT, "204"),
    (StatusCode::NOT_MODIFIED, "304"),
    (StatusCode::BAD_REQUEST, "400"),
    (StatusCode::METHOD_NOT_ALLOWED, "405"),
];

/// From below one ES256 signature to a queue that is nearly full.
const MINT_BUCKETS: [f64; 14] =
    [0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0];

/// Of a request that names no grant which is taken, or of which so much cannot be read.
const NO_GRANT: &str = "none";
const BEFORE_THE_GRANT: [&str; 4] =
    ["invalid_request", "unsupported_grant_type", "invalid_client", "method_not_allowed"];
/// From an ES256 exchange that is judged offline to a review that is given up.
const TOKEN_BUCKETS: [f64; 14] =
    [0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0];
