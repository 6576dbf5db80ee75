//! Keys, clocks and a running issuer for the tests.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Method, Response};
use oneseal::keystore::{InitRequest, init};
use oneseal::providers::{Entries, SecretProvider};
use oneseal::{
    Algorithm, Audience, Builder, Issuer, IssuerUrl, Rotation, Subject, SystemClock, UnixTime,
    VerifiedWorkload,
};
use oneseal_testing::{FixedClock, MemoryProvider};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub(crate) const URL: &str = "https://oidc.example";
pub(crate) const AUDIENCE: &str = "sts.amazonaws.com";
pub(crate) const NOW: UnixTime = UnixTime(1_800_000_000);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) const RS256: &str = include_str!("../fixtures/rs256.pem");
pub(crate) const ES256: &str = include_str!("../fixtures/es256.pem");
pub(crate) const ES256_OTHER: &str = include_str!("../fixtures/es256-other.pem");
pub(crate) const ES256_THIRD: &str = include_str!("../fixtures/es256-third.pem");

/// An issuer whose tasks run, with everything a test wants to turn.
pub(crate) struct Running {
    pub(crate) issuer: Issuer,
    pub(crate) provider: MemoryProvider,
    pub(crate) clock: Arc<FixedClock>,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: JoinSet<()>,
}

/// Bare keys: name and PEM of each.
pub(crate) fn bare(keys: &[(&str, &str)]) -> Entries {
    let mut entries = Entries::new();
    for (name, pem) in keys {
        entries.insert(*name, *pem);
    }
    entries
}

/// A ring document with a new key for each of `algorithms`.
pub(crate) async fn ring(url: &str, algorithms: &[Algorithm]) -> MemoryProvider {
    let provider = MemoryProvider::new();
    let mut request = InitRequest::new(IssuerUrl::parse(url, "test").expect("a good URL"));
    request.algorithms = algorithms.to_vec();
    request.rotation = quick();
    init(&provider, request, &SystemClock).await.expect("a first ring");
    provider
}

/// What a provider holds under its only or given name, as text.
pub(crate) async fn text_of(provider: &MemoryProvider, name: &str) -> String {
    let record = provider.load().await.expect("a record");
    let value = record.entries.get(name).expect("an entry of this name");
    String::from_utf8(value.expose().to_vec()).expect("text")
}

/// The usual times, but for a look at the provider every second.
pub(crate) fn quick() -> Rotation {
    let mut rotation = Rotation::default();
    rotation.refresh_s = 1;
    rotation
}

/// An ES256 issuer on a bare key, allowed to mint for [`AUDIENCE`], running.
pub(crate) async fn es256() -> Running {
    start(URL, bare(&[("current.pem", ES256)]), |builder| builder.algorithms([Algorithm::Es256])).await
}

/// Builds an issuer over `entries` and starts its tasks.
pub(crate) async fn start(url: &str, entries: Entries, adjust: impl FnOnce(Builder) -> Builder) -> Running {
    start_on(url, MemoryProvider::with(entries), adjust).await
}

pub(crate) async fn start_on(
    url: &str,
    provider: MemoryProvider,
    adjust: impl FnOnce(Builder) -> Builder,
) -> Running {
    let clock = Arc::new(FixedClock::at(NOW));
    let builder =
        Issuer::builder(url, provider.clone()).allow(AUDIENCE, HOUR).rotation(quick()).clock(clock.clone());
    let (issuer, work) = adjust(builder).build().await.expect("a good issuer");
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    tasks.spawn(work.run(stop.clone()));
    until("the tasks run", || metric(&issuer, "oneseal_tasks_running") == "1").await;
    Running { issuer, provider, clock, stop, tasks }
}

/// Yields until `reached`; panics after half a minute.
pub(crate) async fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let waiting = async {
        while !reached() {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    waited.unwrap_or_else(|_| panic!("not reached: {what}"));
}

pub(crate) fn audience(text: &str) -> Audience {
    Audience::parse(text).expect("a good audience")
}

pub(crate) fn pod() -> VerifiedWorkload {
    VerifiedWorkload::vouched_by_embedder(Subject::parse("project:42:env:prod").expect("a good subject"))
}

/// The value of a metric's sample, `name` with its labels as written.
pub(crate) fn metric(issuer: &Issuer, sample: &str) -> String {
    let text = issuer.encode_metrics();
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no sample {sample} in:\n{text}")).to_owned()
}

pub(crate) fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in pairs {
        headers.append(*name, HeaderValue::from_str(value).expect("a header value"));
    }
    headers
}

pub(crate) fn get(issuer: &Issuer, path: &str) -> Response<bytes::Bytes> {
    issuer.respond(&Method::GET, path, &HeaderMap::new()).expect("one of the issuer's paths")
}

/// A body as JSON.
pub(crate) fn json(response: &Response<bytes::Bytes>) -> Value {
    serde_json::from_slice(response.body()).expect("a JSON body")
}

/// The header or payload of a compact JWS.
pub(crate) fn segment(token: &str, at: usize) -> Value {
    use base64::Engine;
    let segment = token.split('.').nth(at).expect("a segment");
    let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(segment).expect("base64url");
    serde_json::from_slice(&bytes).expect("JSON")
}

/// Compares with a file under `tests/golden`, or writes it when `TEST_BLESS=1`.
pub(crate) fn golden(name: &str, actual: &str) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    compare_with_file(&path, actual);
}

pub(crate) fn compare_with_file(path: &str, actual: &str) {
    if std::env::var_os("TEST_BLESS").is_some() {
        std::fs::write(path, actual).expect("the golden file can be written");
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(actual, expected, "{path} differs; if that is meant, run the test with TEST_BLESS=1");
}
