//! Asks a cluster's API server: its keys, and about tokens, so many at once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use oneseal_coordination::Clock;
use oneseal_keystore::findings::chain;
use oneseal_providers::ErrorKind;
use oneseal_providers::kubernetes::{ApiServer, ApiServerError};
use oneseal_relying_party::{KeyDocument, KeySource, KeySourceError};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time;

use super::account::Account;
use super::bounded;
use super::cluster::Cluster;
use super::review::{self, Verdict};
use crate::proofs::ProofError;

/// The cluster's keys, at its API server, with our credentials: they go nowhere else, whatever its discovery says.
#[derive(Debug)]
pub(super) struct ApiKeys(ApiServer);

impl ApiKeys {
    pub(super) fn new(api: ApiServer) -> Self {
        Self(api)
    }

    async fn read_whole(&self) -> Result<KeyDocument, KeySourceError> {
        match self.0.get(KEYS).await {
            Ok(jwks) => Ok(KeyDocument { jwks, max_age: None }),
            Err(error) => Err(KeySourceError(Box::new(error))),
        }
    }
}

impl KeySource for ApiKeys {
    fn read(&self) -> BoxFuture<'_, Result<KeyDocument, KeySourceError>> {
        Box::pin(self.read_whole())
    }
}

/// Where every API server has its keys (`--service-account-jwks-uri` changes what discovery says, not this).
const KEYS: &str = "/openid/v1/jwks";

/// Has tokens reviewed.
pub(super) struct Reviewer {
    api: ApiServer,
    audience: String,
    clock: Arc<dyn Clock>,
    /// Of those that are asked.
    seats: Semaphore,
    /// Of those and of those that wait.
    places: Semaphore,
    longest_wait: Duration,
    counts: Counts,
    /// What went wrong last, so that an outage is told once.
    last: Mutex<Option<Outcome>>,
}

/// What reviews lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Right,
    Answer,
}

/// How a review ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Authenticated,
    Refused,
    Full,
    Throttled,
    Denied,
    Unauthenticated,
    Unavailable,
    Contradiction,
}

impl Reviewer {
    pub(super) fn new(
        api: ApiServer,
        audience: &str,
        max_reviews: usize,
        longest_wait: Duration,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            api,
            audience: audience.to_owned(),
            clock,
            seats: Semaphore::new(max_reviews),
            places: Semaphore::new(max_reviews * (1 + WAITING_PER_SEAT)),
            longest_wait,
            counts: Counts::new(),
            last: Mutex::new(None),
        }
    }

    /// Whether the API server says of `token`, just now, what its claims say: `account`.
    ///
    /// # Errors
    /// `Invalid` if it says honestly that the token is not good any more; `Unavailable` in all other cases.
    pub(super) async fn review(
        &self,
        cluster: &str,
        token: &str,
        account: &Account,
    ) -> Result<(), ProofError> {
        let began = self.clock.boot();
        let reviewed = self.ask(token, account).await;
        let outcome = reviewed.as_ref().map_or_else(|failed| failed.outcome, |()| Outcome::Authenticated);
        self.counts.count(outcome, self.clock.boot().since(began));
        self.tell(cluster, outcome, reviewed.as_ref().err());
        reviewed.map_err(|failed| failed.told(cluster))
    }

    /// Asks about a token that is none, which takes the same right and says whether it is there.
    ///
    /// # Errors
    /// What stands in the way, and whether that is a missing right.
    pub(super) async fn probe(&self) -> Result<(), (Missing, String)> {
        let answer = self.api.post(review::PATH, &review::question(NO_TOKEN, &self.audience)).await;
        match answer {
            Ok(answer) if review::is_no(&answer) => Ok(()),
            Ok(_) => Err((Missing::Answer, "what answered to a review is not the API server".to_owned())),
            Err(error) if error.kind() == ErrorKind::Denied => Err((Missing::Right, chain(&error))),
            Err(error) => Err((Missing::Answer, chain(&error))),
        }
    }

    async fn ask(&self, token: &str, account: &Account) -> Result<(), Failed> {
        let _seat = self.seat().await?;
        let answer = self.api.post(review::PATH, &review::question(token, &self.audience)).await?;
        let failed = |outcome, why: &str| Err(Failed::new(outcome, why));
        match review::judge(&answer, &self.audience, account) {
            Verdict::Authenticated => Ok(()),
            Verdict::Refused => failed(Outcome::Refused, "not authenticated"),
            Verdict::Undecided(said) => {
                failed(Outcome::Unavailable, &format!("the API server could not look: {said}"))
            }
            Verdict::Strange(why) => failed(Outcome::Contradiction, why),
        }
    }

    /// Who cannot even wait is told at once.
    async fn seat(&self) -> Result<(SemaphorePermit<'_>, SemaphorePermit<'_>), Failed> {
        let full = || Failed::new(Outcome::Full, "too many reviews wait");
        let place = self.places.try_acquire().map_err(|_| full())?;
        let seat = time::timeout(self.longest_wait, self.seats.acquire()).await;
        let seat = seat.map_err(|_| full())?.map_err(|_| full())?;
        Ok((place, seat))
    }

    /// An outage makes one line at its begin and one at its end, however many tokens it delays.
    fn tell(&self, cluster: &str, outcome: Outcome, failed: Option<&Failed>) {
        let is_answer = matches!(outcome, Outcome::Authenticated | Outcome::Refused);
        let now = (!is_answer).then_some(outcome);
        let before = {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *last, now)
        };
        match (before, now, failed) {
            (Some(_), None, _) => tracing::info!(cluster, "tokens are reviewed again"),
            (before, Some(now), Some(failed)) if before != Some(now) => {
                tracing::warn!(cluster, reason = now.label(), why = %failed.why, "tokens cannot be reviewed");
            }
            _ => {}
        }
    }
}

/// Why there is no good review.
struct Failed {
    outcome: Outcome,
    /// For the log.
    why: String,
    retry_after: Option<Duration>,
}

impl Failed {
    fn new(outcome: Outcome, why: &str) -> Self {
        Self { outcome, why: why.to_owned(), retry_after: None }
    }

    /// In words that say nothing of the inside.
    fn told(&self, cluster: &str) -> ProofError {
        if self.outcome == Outcome::Refused {
            return ProofError::invalid(
                "not_authenticated",
                "the cluster does not take this token any more: its pod or its service account is gone, or was made anew",
            );
        }
        let asked = format!("the cluster {cluster} cannot be asked about the token");
        let message = if self.outcome.is_for_people() {
            format!(
                "{asked} until somebody puts right what `oneseal check` with the issuer's configuration tells"
            )
        } else {
            format!(
                "{asked} just now; try again, and if it stays so `oneseal check` with the issuer's configuration says why"
            )
        };
        let wait = self.retry_after.unwrap_or(self.outcome.usual_wait());
        ProofError::unavailable(self.outcome.reason(), message, bounded(wait))
    }
}

impl From<ApiServerError> for Failed {
    fn from(error: ApiServerError) -> Self {
        let outcome = match error.kind() {
            ErrorKind::Denied => Outcome::Denied,
            ErrorKind::Unauthenticated => Outcome::Unauthenticated,
            _ if error.is_throttled() => Outcome::Throttled,
            _ => Outcome::Unavailable,
        };
        Self { outcome, why: chain(&error), retry_after: error.retry_after() }
    }
}

impl Outcome {
    const ALL: [Self; 8] = [
        Self::Authenticated,
        Self::Refused,
        Self::Full,
        Self::Throttled,
        Self::Denied,
        Self::Unauthenticated,
        Self::Unavailable,
        Self::Contradiction,
    ];

    /// In metrics.
    fn label(self) -> &'static str {
        match self {
            Self::Authenticated => "authenticated",
            Self::Refused => "refused",
            Self::Full => "full",
            Self::Throttled => "throttled",
            Self::Denied => "denied",
            Self::Unauthenticated => "unauthenticated",
            Self::Unavailable => "unavailable",
            Self::Contradiction => "contradiction",
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Authenticated | Self::Refused => "not_authenticated",
            Self::Full => "reviews_full",
            Self::Throttled => "review_throttled",
            Self::Denied => "review_denied",
            Self::Unauthenticated => "review_unauthenticated",
            Self::Unavailable => "review_unavailable",
            Self::Contradiction => "review_contradiction",
        }
    }

    /// Whether it stays so until rights or credentials are others.
    fn is_for_people(self) -> bool {
        matches!(self, Self::Denied | Self::Unauthenticated)
    }

    /// Where the API server says none: rights and credentials are put right by people.
    fn usual_wait(self) -> Duration {
        match self {
            Self::Authenticated | Self::Refused | Self::Full | Self::Throttled => Duration::from_secs(1),
            Self::Unavailable => Duration::from_secs(5),
            Self::Denied | Self::Unauthenticated | Self::Contradiction => Duration::from_secs(30),
        }
    }
}

/// What one cluster's reviews came to.
#[derive(Clone)]
struct Counts {
    results: [Counter; Outcome::ALL.len()],
    seconds: Histogram,
}

impl Counts {
    fn new() -> Self {
        Self { results: Outcome::ALL.map(|_| Counter::default()), seconds: Histogram::new(BUCKETS) }
    }

    fn count(&self, outcome: Outcome, took: Duration) {
        self.results[outcome as usize].inc();
        self.seconds.observe(took.as_secs_f64());
    }
}

/// Makes what the reviewed clusters count a part of `registry`.
pub(super) fn register(registry: &mut Registry, clusters: &mut [Cluster]) {
    let results = Family::<[Label; 2], Counter>::default();
    let constructor = (|| Histogram::new(BUCKETS)) as fn() -> Histogram;
    let seconds = Family::<[Label; 1], Histogram, fn() -> Histogram>::new_with_constructor(constructor);
    for cluster in clusters {
        let Some(reviewer) = &mut cluster.reviewer else { continue };
        let name = || ("cluster", cluster.name.clone());
        reviewer.counts = Counts {
            results: Outcome::ALL.map(|outcome| {
                results.get_or_create_owned(&[name(), ("result", outcome.label().to_owned())])
            }),
            seconds: seconds.get_or_create_owned(&[name()]),
        };
    }
    registry.register(
        "token_reviews",
        "Service account tokens reviewed, by cluster and how it ended",
        results,
    );
    let help = "Time of a review, waiting for its turn included";
    registry.register_with_unit("token_review_duration", help, Unit::Seconds, seconds);
}

type Label = (&'static str, String);

/// Of no form that a token has.
const NO_TOKEN: &str = "oneseal-check";

/// As many wait for each that is asked, so that a burst of pods is served within a few answers.
const WAITING_PER_SEAT: usize = 4;

/// From an API server beside us to the longest time-out.
const BUCKETS: [f64; 12] = [0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
