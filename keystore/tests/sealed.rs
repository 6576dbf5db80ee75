//! Sealed rings: who may read them, what is refused of those who can write the place but have no KEK, and how a ring
//! goes from one KEK to the next.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;

use oneseal_coordination::UnixTime;
use oneseal_keystore::executor::{ExecuteError, Executor, NoRegistry, Order};
use oneseal_keystore::fleet::{Facts, Fleet, Memory, Peer, PeerState};
use oneseal_keystore::seal::kek_of;
use oneseal_keystore::steps::Request;
use oneseal_keystore::{
    Algorithm, Findings, InitRequest, IssuerUrl, Kek, KeyId, Keystore, KeystoreOptions, Mode, RewrapError,
    RewrapRequest, Rewrapped, Snapshot, init, kek_uses, rewrap,
};
use oneseal_providers::{Entries, InlineProvider, SecretProvider};
use oneseal_testing::rings::{
    HostileEdit, Keeper, Scene, entries, hostile_edits, kek_bytes, kek_provider,
    leaked_signing_key_as_ring_key,
};
use oneseal_testing::{FixedClock, MemoryProvider};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

fn issuer() -> IssuerUrl {
    IssuerUrl::parse("https://oidc.example", "test").unwrap()
}

fn clock() -> Arc<FixedClock> {
    Arc::new(FixedClock::at(UnixTime(1_800_000_000)))
}

/// With the KEKs of these numbers, the first one current.
fn options(keks: &[u8]) -> KeystoreOptions {
    let mut options = KeystoreOptions::new(issuer());
    options.algorithms = vec![Algorithm::Es256, Algorithm::EdDsa];
    options.keks = keks.iter().map(|number| kek_provider(*number)).collect();
    options
}

fn public_only(pin: Option<&KeyId>) -> KeystoreOptions {
    let mut options = options(&[]);
    options.mode = Mode::PublicOnly;
    options.pin = pin.cloned();
    options
}

async fn start(document: &[u8], options: KeystoreOptions) -> Result<Arc<Snapshot>, Findings> {
    let provider = Arc::new(MemoryProvider::with(entries(document)));
    let (keystore, _follower) = Keystore::open(provider, options, clock()).await?;
    Ok(keystore.snapshot())
}

async fn codes_at_start(document: &[u8], options: KeystoreOptions) -> Vec<&'static str> {
    let found = start(document, options).await.expect_err("refused");
    found.iter().map(|finding| finding.code.name).collect()
}

fn ring_key(document: &[u8]) -> KeyId {
    let ring: Value = serde_json::from_slice(document).unwrap();
    KeyId::parse(ring["ring_key"]["kid"].as_str().unwrap()).unwrap()
}

fn kids(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.keys().iter().map(|key| key.kid.as_str()).collect()
}

/// A keystore that follows a memory provider.
struct Live {
    provider: Arc<MemoryProvider>,
    keystore: Keystore,
    swaps: UnboundedReceiver<Arc<Snapshot>>,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Live {
    async fn open(document: &[u8], options: KeystoreOptions) -> Self {
        let provider = Arc::new(MemoryProvider::with(entries(document)));
        let opened = Keystore::open(provider.clone(), options, clock()).await;
        let (keystore, follower) = opened.unwrap_or_else(|found| panic!("{found}"));
        let (swapped, swaps) = unbounded_channel();
        let cancel = CancellationToken::new();
        let on_swap = move |snapshot: &Arc<Snapshot>| drop(swapped.send(Arc::clone(snapshot)));
        #[expect(clippy::disallowed_methods, reason = "the handle is kept and joined in stop()")]
        let task = tokio::spawn(follower.run(cancel.clone(), on_swap));
        Self { provider, keystore, swaps, cancel, task }
    }

    fn put(&self, document: &[u8]) {
        self.provider.set(entries(document));
    }

    async fn swapped(&mut self) -> Arc<Snapshot> {
        self.swaps.recv().await.unwrap()
    }

    /// Waits until a record more has been refused, and returns why.
    async fn refused(&self, before: u64) -> String {
        loop {
            let status = self.keystore.status();
            if status.records_refused > before {
                return status.last_fault.unwrap().to_string();
            }
            tokio::task::yield_now().await;
        }
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap();
    }
}

/// Two issuers that have been given one place: no forgery, so nothing else is said of a ring that is whole.
#[tokio::test]
async fn the_ring_of_another_issuer_is_called_that_and_not_forged() {
    let other = IssuerUrl::parse("https://oidc.example:8443", "test").unwrap();
    let theirs = Keeper::new(&other, 1).first(&*clock()).await;
    assert_eq!(codes_at_start(&theirs, options(&[1])).await, ["ring.issuer_mismatch"]);
    // One whose name alone was changed is what it was called: its halves and its signature are for another.
    let renamed = String::from_utf8(theirs).unwrap().replace(other.as_str(), issuer().as_str());
    assert!(codes_at_start(renamed.as_bytes(), options(&[1])).await.contains(&"ring.unauthentic"));
}

#[tokio::test]
async fn every_hostile_edit_is_named_at_the_start() {
    let (scene, keeper) = (Scene::at(&issuer(), 1, &*clock()).await, Keeper::new(&issuer(), 1));
    assert!(start(&scene.current, options(&[1])).await.is_ok(), "the scene itself is good");
    for edit in all(&scene, &keeper) {
        match (start(&edit.document, options(&[1])).await, edit.at_start) {
            (Err(found), Some(code)) => {
                let codes: Vec<_> = found.iter().map(|finding| finding.code.name).collect();
                assert!(codes.contains(&code), "{}: {found}", edit.name);
            }
            (Ok(snapshot), None) => assert!(snapshot.identity().revision > 0, "{}", edit.name),
            (other, _) => panic!("{}: {other:?}", edit.name),
        }
    }
}

#[tokio::test]
async fn every_hostile_edit_leaves_a_serving_replica_as_it_is() {
    let (scene, keeper) = (Scene::at(&issuer(), 1, &*clock()).await, Keeper::new(&issuer(), 1));
    let mut live = Live::open(&scene.current, options(&[1])).await;
    let served = live.keystore.snapshot();
    for edit in all(&scene, &keeper) {
        let before = live.keystore.status().records_refused;
        live.put(&edit.document);
        let why = live.refused(before).await;
        assert!(why.contains(edit.live), "{}: {why}", edit.name);
        assert!(Arc::ptr_eq(&served, &live.keystore.snapshot()), "{}: the last good one stays", edit.name);
    }
    let next = keeper.next(&scene.current, |ring| ring["reason"] = "the next good one".into());
    live.put(&next);
    assert_eq!(live.swapped().await.identity().revision, served.identity().revision + 1);
    live.stop().await;
}

/// The same table for a replica that has no KEK, only the pin: what touches the public half is refused there too.
#[tokio::test]
async fn a_pinned_replica_without_kek_refuses_what_touches_the_public_half() {
    let scene = Scene::at(&issuer(), 1, &*clock()).await;
    let pin = ring_key(&scene.current);
    let good = start(&scene.current, public_only(Some(&pin))).await.unwrap();
    for edit in hostile_edits(&scene).into_iter().filter(|edit| edit.at_start.is_some()) {
        match start(&edit.document, public_only(Some(&pin))).await {
            Ok(snapshot) => assert_eq!(snapshot.jwks(), good.jwks(), "{}: only a sealed half", edit.name),
            Err(found) => assert!(found.to_string().contains("ring.unauthentic"), "{}: {found}", edit.name),
        }
    }
}

fn all(scene: &Scene, keeper: &Keeper) -> Vec<HostileEdit> {
    let mut edits = hostile_edits(scene);
    assert!(edits.len() >= 18);
    edits.push(leaked_signing_key_as_ring_key(keeper, &scene.current));
    edits
}

#[tokio::test]
async fn a_sealed_ring_serves_and_signs_where_its_kek_is() {
    let first = Keeper::new(&issuer(), 1).first(&*clock()).await;
    assert!(!String::from_utf8_lossy(&first).contains("\"d\":"), "nothing private lies open");
    let snapshot = start(&first, options(&[1])).await.unwrap();
    let token = snapshot.sign(Algorithm::Es256, b"{}").await.unwrap();
    assert_eq!(snapshot.verify(&token).unwrap(), b"{}");
}

#[tokio::test]
async fn a_missing_wrong_or_unreadable_kek_refuses_the_start_and_says_which_it_wants() {
    let first = Keeper::new(&issuer(), 1).first(&*clock()).await;
    assert!(codes_at_start(&first, options(&[])).await.contains(&"ring.sealed_without_kek"));
    let found = start(&first, options(&[2])).await.expect_err("another KEK");
    assert!(found.to_string().contains("ring.sealed_without_kek"), "{found}");
    let mut wrong = options(&[]);
    wrong.keks = vec![Arc::new(InlineProvider::new(b"too short".to_vec()))];
    assert_eq!(codes_at_start(&first, wrong).await, ["kek.malformed"]);
    let mut weak = options(&[]);
    weak.keks = vec![Arc::new(InlineProvider::new(vec![0; 32]))];
    assert_eq!(codes_at_start(&first, weak).await, ["kek.weak"]);
    let mut absent = options(&[]);
    absent.keks = vec![Arc::new(MemoryProvider::new())];
    let found = start(&first, absent).await.expect_err("no KEK there");
    assert!(found.to_string().contains("provider.not_found at kek"), "{found}");
}

#[tokio::test]
async fn what_is_not_sealed_is_not_believed_where_there_is_a_kek() {
    let golden = include_bytes!("golden/ring-1.json");
    let codes = codes_at_start(golden, options(&[1])).await;
    assert!(codes.contains(&"ring.unauthentic"), "{codes:?}");
    let bare = include_bytes!("vectors/ring/p256.pem");
    assert_eq!(codes_at_start(bare, options(&[1])).await, ["ring.unauthentic"]);
}

#[tokio::test]
async fn a_public_only_replica_publishes_the_same_bytes_and_signs_nothing() {
    let first = Keeper::new(&issuer(), 1).first(&*clock()).await;
    let full = start(&first, options(&[1])).await.unwrap();
    assert_eq!(codes_at_start(&first, public_only(None)).await, ["ring.unpinned"]);
    let pin = ring_key(&first);
    let public = start(&first, public_only(Some(&pin))).await.unwrap();
    assert_eq!(
        (public.jwks(), public.etag(), public.identity()),
        (full.jwks(), full.etag(), full.identity())
    );
    assert_eq!(public.algorithms().count(), 0);
    assert!(public.sign(Algorithm::Es256, b"{}").await.is_err());
    let other = KeyId::parse("another").unwrap();
    assert_eq!(codes_at_start(&first, public_only(Some(&other))).await, ["ring.unauthentic"]);
    let unsealed = include_bytes!("golden/ring-1.json");
    let mut open = public_only(None);
    open.algorithms = Algorithm::ALL.to_vec();
    assert_eq!(start(unsealed, open).await.unwrap().algorithms().count(), 0, "an unsealed one needs no pin");
}

/// Where a ring rests, for rewraps.
async fn sealed_ring(keks: &[u8]) -> MemoryProvider {
    let provider = MemoryProvider::new();
    let mut request = InitRequest::new(issuer());
    request.algorithms = vec![Algorithm::Es256, Algorithm::EdDsa];
    request.keks = keks.iter().map(|number| kek_provider(*number)).collect();
    init(&provider, request, &*clock()).await.unwrap();
    provider
}

async fn document(provider: &MemoryProvider) -> Vec<u8> {
    let record = provider.load().await.unwrap();
    record.entries.iter().next().unwrap().1.expose().to_vec()
}

async fn rewrapped(
    provider: &MemoryProvider,
    keks: &[u8],
    change: impl FnOnce(&mut RewrapRequest),
) -> Result<Rewrapped, RewrapError> {
    let keks = keks.iter().map(|number| kek_provider(*number)).collect();
    let mut request = RewrapRequest::new(issuer(), keks);
    change(&mut request);
    rewrap(provider, request, &*clock(), |_| ()).await
}

#[tokio::test]
async fn a_ring_goes_to_another_kek_in_one_write_and_a_second_run_changes_nothing() {
    let provider = sealed_ring(&[1]).await;
    let before = document(&provider).await;
    let done = rewrapped(&provider, &[1], |request| request.to_kek = Some(kek_provider(2))).await.unwrap();
    assert!(done.changed && done.kek_before.len() == 1 && done.ring_key_before.is_none());
    let after = document(&provider).await;
    let (old, new) =
        (start(&before, options(&[1])).await.unwrap(), start(&after, options(&[2])).await.unwrap());
    assert_eq!(kids(&old), kids(&new));
    assert_eq!((old.jwks(), new.identity().revision), (new.jwks(), 2));
    assert!(start(&after, options(&[1])).await.is_err(), "the old KEK opens nothing any more");
    let again = rewrapped(&provider, &[2, 1], |_| ()).await.unwrap();
    assert!(!again.changed);
    assert_eq!(document(&provider).await, after, "byte for byte");
    assert_eq!(ring_key(&before), ring_key(&after));
}

#[tokio::test]
async fn to_kek_names_the_new_one_and_the_configured_ones_open() {
    let provider = sealed_ring(&[1]).await;
    let done = rewrapped(&provider, &[1], |request| request.to_kek = Some(kek_provider(3))).await.unwrap();
    assert!(done.changed);
    assert!(start(&document(&provider).await, options(&[3])).await.is_ok());
}

/// Both ways look alike in a configuration: the KEK that the ring is under stands among the previous ones.
#[tokio::test]
async fn a_ring_that_went_to_a_new_kek_does_not_go_back_unless_that_is_said() {
    let provider = sealed_ring(&[1]).await;
    let plan = rewrapped(&provider, &[1], |request| {
        (request.to_kek, request.dry_run) = (Some(kek_provider(2)), true);
    });
    let plan = plan.await.unwrap();
    assert!(plan.is_due && !plan.changed && plan.identity.revision == 1);
    let done = rewrapped(&provider, &[1], |request| request.to_kek = Some(kek_provider(2))).await.unwrap();
    assert_eq!((&done.kek, &done.kek_before), (&plan.kek, &plan.kek_before));
    let after = document(&provider).await;
    for is_dry in [true, false] {
        let back = rewrapped(&provider, &[1, 2], |request| request.dry_run = is_dry).await.unwrap_err();
        assert!(back.to_string().contains("kek.direction_unsaid"), "{back}");
    }
    assert_eq!(document(&provider).await, after, "nothing was written");
    // However much comes after it: the log may have forgotten the way here.
    let rotated = Arc::new(provider.clone());
    executor(&rotated, &[2, 1]).execute(&rotate()).await.unwrap();
    let bare = rewrapped(&provider, &[1, 2], |_| ()).await.unwrap_err();
    assert!(bare.to_string().contains("kek.direction_unsaid"), "{bare}");
    let keks = [1, 2].map(kek_provider).map(|kek| kek as Arc<dyn SecretProvider>);
    let uses = kek_uses(&provider, &keks).await.unwrap();
    assert!(uses[0].seals.is_empty() && uses[1].id == done.kek && uses[1].position == Some(1), "{uses:?}");
    assert!(uses[1].seals.contains(&"ring_key".to_owned()), "{uses:?}");
    let alone = kek_uses(&provider, &keks[..1]).await.unwrap();
    assert_eq!((alone[1].position, &alone[1].seals), (None, &uses[1].seals), "named by the ring alone");
    // The configuration follows, and there is nothing to do.
    assert!(!rewrapped(&provider, &[2, 1], |_| ()).await.unwrap().changed);
    let back = rewrapped(&provider, &[1, 2], |request| request.to_kek = Some(kek_provider(1))).await.unwrap();
    assert!(back.changed, "who names it means it");
}

/// Each state that a rotation of the KEK goes through, and a restart in each.
#[tokio::test]
async fn a_replica_starts_in_every_state_of_a_kek_rotation() {
    let keeper = Keeper::new(&issuer(), 1);
    let before = keeper.first(&*clock()).await;
    let other = Keeper::new(&issuer(), 2);
    // Half-way: a key that was made under the new KEK beside those under the old one.
    let pending = include_bytes!("vectors/ring/p256.pem");
    let half_way = {
        let sealed: Value =
            serde_json::from_slice(&other.with_pending(&other.first(&*clock()).await, pending)).unwrap();
        keeper.next(&before, |ring| {
            ring["keys"].as_array_mut().unwrap().push(sealed["keys"][2].clone());
        })
    };
    for (keks, works) in [(&[1][..], true), (&[1, 2], true), (&[2, 1], true), (&[2], false)] {
        assert_eq!(start(&before, options(keks)).await.is_ok(), works, "before, {keks:?}");
    }
    // The pending key does not sign: a replica that cannot open it yet starts and says so.
    for (keks, note) in
        [(&[1][..], "ring.half_unopened"), (&[1, 2], "kek.previous_needed"), (&[2, 1], "kek.previous_needed")]
    {
        let provider = Arc::new(MemoryProvider::with(entries(&half_way)));
        let (keystore, _follower) = Keystore::open(provider, options(keks), clock()).await.unwrap();
        assert!(keystore.advice().to_string().contains(note), "half-way, {keks:?}: {}", keystore.advice());
    }
    assert!(start(&half_way, options(&[2])).await.is_err(), "half-way, without the old one");
    let provider = MemoryProvider::with(entries(&half_way));
    rewrapped(&provider, &[1], |request| request.to_kek = Some(kek_provider(2))).await.unwrap();
    let after = document(&provider).await;
    for (keks, works) in [(&[2][..], true), (&[2, 1], true), (&[1, 2], true), (&[1], false)] {
        assert_eq!(start(&after, options(keks)).await.is_ok(), works, "after, {keks:?}");
    }
    let provider = Arc::new(MemoryProvider::with(entries(&after)));
    let (keystore, _follower) = Keystore::open(provider, options(&[2, 1]), clock()).await.unwrap();
    assert!(keystore.advice().to_string().contains("kek.previous_unneeded"), "{}", keystore.advice());
}

#[tokio::test]
async fn a_serving_replica_without_the_new_kek_publishes_and_signs_on_until_it_restarts() {
    let provider = sealed_ring(&[1]).await;
    let mut live = Live::open(&document(&provider).await, options(&[1])).await;
    rewrapped(&provider, &[1], |request| request.to_kek = Some(kek_provider(2))).await.unwrap();
    let after = document(&provider).await;
    live.put(&after);
    let snapshot = live.swapped().await;
    assert_eq!(snapshot.identity().revision, 2);
    let token = snapshot.sign(Algorithm::Es256, b"{}").await.unwrap();
    assert!(snapshot.verify(&token).is_ok());
    assert!(start(&after, options(&[1])).await.is_err(), "but not after a restart");
    live.stop().await;
}

/// Which KEKs a file holds may change while a replica runs, as a mounted Secret does.
#[tokio::test]
async fn a_kek_that_comes_later_is_read_when_a_record_names_it() {
    let provider = sealed_ring(&[1]).await;
    let slot = Arc::new(MemoryProvider::with(Entries::single("kek", kek_bytes(1).to_vec())));
    let mut with_slot = options(&[]);
    with_slot.keks = vec![slot.clone(), kek_provider(1)];
    let mut live = Live::open(&document(&provider).await, with_slot).await;
    slot.set(Entries::single("kek", kek_bytes(2).to_vec()));
    rewrapped(&provider, &[1], |request| request.to_kek = Some(kek_provider(2))).await.unwrap();
    live.put(&document(&provider).await);
    live.swapped().await;
    assert_eq!(live.keystore.keks().ids().count(), 2, "the new one and the old");
    live.stop().await;
}

#[tokio::test]
async fn an_unsealed_ring_is_sealed_only_when_asked_and_keeps_its_keys() {
    let provider = sealed_ring(&[]).await;
    let before = document(&provider).await;
    let refused = rewrapped(&provider, &[1], |_| ()).await.unwrap_err();
    assert!(refused.to_string().contains("ring.unauthentic"), "{refused}");
    assert_eq!(document(&provider).await, before);
    let done = rewrapped(&provider, &[1], |request| request.from_unsealed = true).await.unwrap();
    assert!(done.changed && done.kek_before.is_empty());
    let after = document(&provider).await;
    assert!(!String::from_utf8_lossy(&after).contains("\"private\""));
    let (old, new) =
        (start(&before, options(&[])).await.unwrap(), start(&after, options(&[1])).await.unwrap());
    assert_eq!(old.jwks(), new.jwks());
}

#[tokio::test]
async fn a_new_ring_key_is_followed_from_the_pin_and_by_serving_replicas_and_never_back() {
    let provider = sealed_ring(&[1]).await;
    let first = document(&provider).await;
    let pin = ring_key(&first);
    let (mut full, mut public) =
        (Live::open(&first, options(&[1])).await, Live::open(&first, public_only(Some(&pin))).await);
    let (mut last, mut fifth) = (first.clone(), Vec::new());
    for round in 1..=18 {
        let done = rewrapped(&provider, &[1], |request| request.new_ring_key = true).await.unwrap();
        assert_eq!(done.ring_key_before, Some(ring_key(&last)));
        last = document(&provider).await;
        if round == 5 {
            fifth.clone_from(&last);
        }
        full.put(&last);
        assert_eq!(full.swapped().await.identity().revision, round + 1);
        let is_reached = start(&last, public_only(Some(&pin))).await.is_ok();
        assert_eq!(is_reached, round <= 16, "sixteen endorsements lead from the pin: {round}");
        if round == 16 {
            public.put(&last);
            assert_eq!(public.swapped().await.identity().revision, 17, "it missed fifteen");
        }
    }
    // A thief with an earlier ring key and its sealed half, which the KEK still opens.
    let keeper = Keeper::new(&issuer(), 1);
    let forged = keeper.next(&fifth, |ring| ring["revision"] = 99.into());
    let before = full.keystore.status().records_refused;
    full.put(&forged);
    assert!(full.refused(before).await.contains("ring.rolled_back"));
    full.stop().await;
    public.stop().await;
}

#[tokio::test]
async fn bare_keys_and_no_kek_are_not_rewrapped() {
    let bare = MemoryProvider::with(entries(include_bytes!("vectors/ring/p256.pem")));
    let refused = rewrapped(&bare, &[1], |request| request.from_unsealed = true).await.unwrap_err();
    assert!(refused.to_string().contains("ring.bare"), "{refused}");
    let sealed = sealed_ring(&[1]).await;
    let refused = rewrapped(&sealed, &[], |_| ()).await.unwrap_err();
    assert!(refused.to_string().contains("kek.not_configured"), "{refused}");
    let refused = rewrapped(&sealed, &[2], |_| ()).await.unwrap_err();
    assert!(refused.to_string().contains("ring.sealed_without_kek"), "{refused}");
}

/// A follower need not open and judge again what did not change.
#[tokio::test]
async fn a_new_revision_opens_only_the_halves_that_changed() {
    let keeper = Keeper::new(&issuer(), 1);
    let first = keeper.first(&*clock()).await;
    let mut live = Live::open(&first, options(&[1])).await;
    let before = live.keystore.snapshot();
    live.put(&keeper.with_pending(&first, include_bytes!("vectors/ring/p256.pem")));
    let after = live.swapped().await;
    for algorithm in [Algorithm::Es256, Algorithm::EdDsa] {
        let (old, new) = (before.signer(algorithm).unwrap(), after.signer(algorithm).unwrap());
        assert!(Arc::ptr_eq(old, new), "{algorithm}: the key that was open stays open");
    }
    assert_eq!(after.keys().iter().filter(|key| key.has_private).count(), 3);
    live.stop().await;
}

fn executor(provider: &Arc<MemoryProvider>, keks: &[u8]) -> Executor {
    Executor::new(provider.clone(), options(keks), Arc::new(NoRegistry), clock())
}

fn rotate() -> Order {
    Order {
        change_id: uuid::Uuid::new_v4(),
        actor: "test".to_owned(),
        reason: "because".to_owned(),
        request: Request::Rotate { algorithms: vec![Algorithm::Es256], rsa_bits: None },
        unproven_replicas: true,
        dry_run: false,
    }
}

#[tokio::test]
async fn a_verb_on_a_sealed_ring_seals_what_it_makes_and_wants_the_kek() {
    let provider = Arc::new(sealed_ring(&[1]).await);
    for keks in [&[][..], &[2]] {
        let refused = unreadable(executor(&provider, keks).execute(&rotate()).await.unwrap_err());
        assert!(refused.contains("ring.sealed_without_kek"), "{refused}");
    }
    // Half-way through a rotation of the KEK: what is made now is sealed under the new one.
    let plan = executor(&provider, &[2, 1]).execute(&Order { dry_run: true, ..rotate() }).await.unwrap();
    let done = executor(&provider, &[2, 1]).execute(&rotate()).await.unwrap();
    for told in [plan, done] {
        let ids = [1, 2].map(|n| Kek::from_bytes(kek_bytes(n)).unwrap().id().to_owned());
        assert!(ids.iter().all(|id| told.notes.iter().any(|note| note.contains(id))), "{:?}", told.notes);
    }
    let document = document(&provider).await;
    assert!(!String::from_utf8_lossy(&document).contains("\"private\""));
    let ring: Value = serde_json::from_slice(&document).unwrap();
    let keys = ring["keys"].as_array().unwrap();
    let keks: BTreeSet<_> = keys.iter().map(|key| kek_of(key["sealed"].as_str().unwrap()).unwrap()).collect();
    assert_eq!((keys.len(), keks.len()), (3, 2));
    assert!(start(&document, options(&[2, 1])).await.is_ok());
    let unsealed = Arc::new(sealed_ring(&[]).await);
    let refused = unreadable(executor(&unsealed, &[1]).execute(&rotate()).await.unwrap_err());
    assert!(refused.contains("ring.unauthentic"), "{refused}");
}

fn unreadable(error: ExecuteError) -> String {
    match error {
        ExecuteError::Unreadable(findings) => findings.to_string(),
        other => panic!("{other:?}"),
    }
}

/// What a replica that signs has not said that it can open is not sealed.
#[tokio::test]
async fn a_rewrap_waits_for_every_replica_that_signs() {
    let provider = sealed_ring(&[1]).await;
    let ids: Vec<String> =
        [1, 2].iter().map(|n| Kek::from_bytes(kek_bytes(*n)).unwrap().id().to_owned()).collect();
    let live = Live::open(&document(&provider).await, options(&[1])).await;
    let snapshot = live.keystore.snapshot();
    let memory = Memory::new(&snapshot);
    let mut facts = Facts::of(issuer().as_str(), &snapshot, &memory, &*clock());
    let now = UnixTime(1_800_000_000);
    let peer = |facts: Facts| Peer {
        instance: "a-1".to_owned(),
        boot_id: "1".to_owned(),
        state: PeerState::Live,
        seen_at: now,
        joined_at: now,
        ops_address: None,
        facts: Ok(facts),
    };
    let fleet = |facts: Facts| Fleet { now, peers: vec![peer(facts)] };
    facts.kek_ids = vec![ids[0].clone()];
    let held = fleet(facts.clone());
    let to_two = |fleet| {
        move |request: &mut RewrapRequest| {
            (request.fleet, request.to_kek) = (Some(fleet), Some(kek_provider(2)));
        }
    };
    let refused = rewrapped(&provider, &[1], to_two(held)).await.unwrap_err();
    let told = refused.to_string();
    assert!(told.contains("fleet.cannot_open at a-1") && told.contains(&ids[1]), "{told}");
    facts.kek_ids = ids;
    // An older state of the store, which is as authentic as the newer one that is served.
    let mut newer = facts.clone();
    newer.ring.revision = 9;
    let mut other = facts.clone();
    other.ring.digest = "0".repeat(64);
    for ahead in [newer, other].map(fleet) {
        let refused = rewrapped(&provider, &[1], to_two(ahead)).await.unwrap_err();
        assert!(refused.to_string().contains("fleet.ahead at a-1"), "{refused}");
    }
    let ready = fleet(facts);
    assert!(rewrapped(&provider, &[1], to_two(ready)).await.unwrap().changed);
    live.stop().await;
}
