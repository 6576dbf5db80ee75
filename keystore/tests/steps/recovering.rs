//! What the store has lost and a replica still has: written back, or why not.

use std::sync::Arc;

use oneseal_keystore::executor::{ExecuteError, Executor, NoRegistry, Recovered, Recovery};
use oneseal_keystore::{Algorithm, InitRequest, Kept, Keystore, Rotation, init};
use oneseal_providers::{Entries, EnvProvider, ErrorKind, SecretProvider};
use oneseal_testing::{FixedClock, MemoryProvider, Outcome};
use uuid::Uuid;

use super::{Bench, T0, activate, issuer, options, order, rotate};

const P256: &str = include_str!("../vectors/ring/p256.pem");
const ED25519: &str = include_str!("../vectors/ring/ed25519.pem");

fn recovery(dry_run: bool) -> Recovery {
    Recovery { change_id: Uuid::new_v4(), actor: "test".to_owned(), reason: "lost".to_owned(), dry_run }
}

/// What a replica keeps that reads `provider` now.
async fn kept(provider: Arc<dyn SecretProvider>) -> Option<Arc<Kept>> {
    let clock = Arc::new(FixedClock::at(T0));
    let (keystore, _follower) = Keystore::open(provider, options(Rotation::lab()), clock).await.unwrap();
    keystore.kept()
}

impl Bench {
    async fn kept(&self) -> Option<Arc<Kept>> {
        kept(self.provider.clone()).await
    }

    async fn recover(&self, kept: &Option<Arc<Kept>>) -> Result<Recovered, ExecuteError> {
        self.executor.recover(&recovery(false), kept.as_deref()).await
    }

    async fn bytes(&self) -> Vec<u8> {
        let record = self.provider.load().await.unwrap();
        let (_, value) = record.entries.iter().next().unwrap();
        value.expose().to_vec()
    }
}

fn ring_of(bytes: &[u8]) -> Entries {
    Entries::single(Entries::KEYRING, bytes.to_vec())
}

/// A ring of somebody else for the same issuer.
async fn another_ring() -> Vec<u8> {
    let provider = MemoryProvider::new();
    let mut request = InitRequest::new(issuer());
    request.algorithms = vec![Algorithm::Es256];
    init(&provider, request, &FixedClock::at(T0)).await.unwrap();
    let record = provider.load().await.unwrap();
    record.entries.get(Entries::KEYRING).unwrap().expose().to_vec()
}

#[tokio::test]
async fn whatever_has_become_of_the_record_it_comes_back_byte_for_byte() {
    let bench = Bench::on(MemoryProvider::new().journaling(), Rotation::lab()).await;
    let first = bench.bytes().await;
    bench.order(rotate()).await.unwrap();
    let (second, kept) = (bench.bytes().await, bench.kept().await);
    let half = second[..second.len() / 2].to_vec();
    let other = another_ring().await;
    let none: &[&str] = &[];
    let cases = [
        ("gone", None, none),
        ("cut", Some(half), &["ring.malformed"]),
        ("emptied", Some(Vec::new()), none),
        ("of no key", Some(b"{\"format\":1,\"keys\":[]}".to_vec()), &["ring.malformed"]),
        ("older", Some(first), &["ring.rolled_back"]),
        ("of somebody else", Some(other), &["ring.rolled_back"]),
    ];
    for (case, there, codes) in cases {
        match there {
            Some(bytes) => drop(bench.provider.set(ring_of(&bytes))),
            None => bench.provider.remove(),
        }
        let writes = bench.provider.writes();
        let plan = bench.executor.recover(&recovery(true), kept.as_deref()).await.unwrap();
        assert!(plan.found.is_some() && plan.change_id.is_none() && plan.is_dry_run, "{case}: {plan:?}");
        assert_eq!(bench.provider.writes(), writes, "{case}: a plan writes nothing");
        let done = bench.recover(&kept).await.unwrap();
        assert!(done.found.is_some() && done.change_id.is_some(), "{case}: {done:?}");
        assert_eq!((bench.bytes().await, done.identity.revision), (second.clone(), 2), "{case}");
        let event = bench.provider.events().pop().unwrap();
        assert_eq!(event.kind, "ring.recovered", "{case}");
        let payload: serde_json::Value = serde_json::from_str(&event.payload).unwrap();
        if !codes.is_empty() {
            assert_eq!(payload["found"], serde_json::json!(codes), "{case}");
        }
        let again = bench.recover(&kept).await.unwrap();
        assert!(again.found.is_none() && again.change_id.is_none(), "{case}: it is there");
    }
    // What came back is a ring like every other.
    bench.pass(3600);
    bench.order(activate()).await.unwrap();
}

#[tokio::test]
async fn a_record_that_is_good_or_later_is_never_written_over() {
    let bench = Bench::new(Rotation::lab()).await;
    let kept = bench.kept().await;
    let first = bench.bytes().await;
    bench.order(rotate()).await.unwrap();
    let refused = bench.recover(&kept).await.unwrap_err();
    assert_eq!((refused.code(), refused.exit().unwrap().code()), ("keys.not_lost", 78), "{refused}");
    assert!(refused.to_string().contains("takes when it looks next"), "{refused}");

    // Two that rotated the same revision, each for itself: neither follows the other.
    let ours = bench.kept().await;
    bench.provider.set(ring_of(&first));
    bench.order(rotate()).await.unwrap();
    let beside = bench.bytes().await;
    bench.recover(&ours).await.unwrap();
    assert_ne!(bench.bytes().await, beside, "of the same number the one that is served comes back");
    bench.provider.set(ring_of(&beside));
    bench.pass(3600);
    bench.order(activate()).await.unwrap();
    let later = bench.bytes().await;
    let refused = bench.recover(&ours).await.unwrap_err();
    assert_eq!(refused.code(), "keys.not_lost", "{refused}");
    assert!(refused.to_string().contains("does not follow"), "{refused}");
    assert_eq!(bench.bytes().await, later);
}

#[tokio::test]
async fn who_keeps_nothing_or_cannot_judge_refuses() {
    let bench = Bench::new(Rotation::lab()).await;
    let variable = EnvProvider::captured("SIGNING_KEY", Some(P256.to_owned().into()));
    let none = kept(Arc::new(variable)).await;
    let refused = bench.recover(&none).await.unwrap_err();
    assert_eq!(refused.code(), "keys.nothing_kept", "{refused}");

    let kept = bench.kept().await;
    let mut document = bench.document().await;
    document["format"] = 99.into();
    bench.provider.set(ring_of(document.to_string().as_bytes()));
    let refused = bench.recover(&kept).await.unwrap_err();
    assert!(refused.code() == "keys.not_judged" && refused.to_string().contains("ring.format"), "{refused}");

    bench.provider.set_outage(Some(ErrorKind::Unavailable));
    let refused = bench.recover(&kept).await.unwrap_err();
    assert_eq!(refused.exit().unwrap().code(), 69, "{refused}");
    bench.provider.set_outage(None);
    bench.provider.remove();
    // A plan finds out as well, before anybody relies on it.
    for dry_run in [true, false] {
        bench.provider.fail_next_write(ErrorKind::Denied);
        let refused = bench.executor.recover(&recovery(dry_run), kept.as_deref()).await.unwrap_err();
        assert_eq!(refused.exit().unwrap().code(), 77, "{refused}");
    }
}

#[tokio::test]
async fn bare_keys_come_back_as_they_were() {
    let mut entries = Entries::single("current.pem", P256);
    entries.insert("next.pem", ED25519);
    entries.insert("README", "kept here too");
    let pairs = |entries: &Entries| {
        entries.iter().map(|(name, value)| (name.to_owned(), value.expose().to_vec())).collect::<Vec<_>>()
    };
    let wanted = pairs(&entries);
    let provider = Arc::new(MemoryProvider::with(entries));
    let clock = Arc::new(FixedClock::at(T0));
    let times = options(Rotation::lab());
    let executor = Executor::new(provider.clone(), times, Arc::new(NoRegistry), clock);
    let kept = kept(provider.clone()).await;
    for there in
        [None, Some(Entries::single("current.pem", "no key")), Some(Entries::single("current.pem", ED25519))]
    {
        match there {
            Some(entries) => drop(provider.set(entries)),
            None => provider.remove(),
        }
        let done = executor.recover(&recovery(false), kept.as_deref()).await;
        if let Err(refused) = &done {
            // The key that is `next` may become current: that is a swap by hand, and no loss.
            assert_eq!(refused.code(), "keys.not_lost", "{refused}");
            continue;
        }
        let done = done.unwrap();
        assert_eq!((done.identity.incarnation, done.identity.revision), (0, 0));
        assert_eq!(pairs(&provider.load().await.unwrap().entries), wanted);
    }
}

#[tokio::test]
async fn an_answer_that_was_lost_and_a_writer_in_between_are_found_by_looking() {
    for outcome in [Outcome::Committed, Outcome::Dropped] {
        let bench = Bench::new(Rotation::lab()).await;
        let (kept, before) = (bench.kept().await, bench.bytes().await);
        bench.provider.remove();
        bench.provider.lose_next_answer(outcome);
        bench.recover(&kept).await.unwrap();
        assert_eq!(bench.bytes().await, before, "{outcome:?}");
    }
    let bench = Bench::new(Rotation::lab()).await;
    let (kept, before) = (bench.kept().await, bench.bytes().await);
    bench.provider.remove();
    for kind in [ErrorKind::AlreadyExists, ErrorKind::Conflict] {
        bench.provider.fail_next_write(kind);
        bench.recover(&kept).await.unwrap();
        assert_eq!(bench.bytes().await, before, "{kind:?}");
        bench.provider.set(Entries::single("keyring.json", "broken"));
    }
    // Two at once: one writes, and both find it there.
    let (one, two) = tokio::join!(bench.recover(&kept), bench.recover(&kept));
    assert!([one, two].iter().all(Result::is_ok));
    assert_eq!(bench.bytes().await, before);
}

#[tokio::test]
async fn a_reason_is_one_line() {
    let bench = Bench::new(Rotation::lab()).await;
    let kept = bench.kept().await;
    let asked = Recovery { reason: "two\nlines".to_owned(), ..recovery(false) };
    let refused = bench.executor.recover(&asked, kept.as_deref()).await.unwrap_err();
    assert_eq!(refused.code(), "keys.bad_reason");
    assert!(bench.executor.execute(&order(rotate())).await.is_ok());
}
