//! The live keystore: what it accepts from its provider, what it refuses, and what it goes on serving.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::UnixTime;
use oneseal_keystore::findings::Finding;
use oneseal_keystore::{
    Algorithm, Findings, InitError, InitRequest, IssuerUrl, KeyType, Keystore, KeystoreOptions, Making,
    Snapshot, init, init_telling,
};
use oneseal_providers::{Durability, Entries, EnvProvider, ErrorKind, SecretProvider};
use oneseal_testing::{Canary, FixedClock, MemoryProvider};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const RSA: &str = include_str!("vectors/ring/rsa.pem");
const P256: &str = include_str!("vectors/ring/p256.pem");
const ED25519: &str = include_str!("vectors/ring/ed25519.pem");
const OTHER_ED25519: &str = include_str!("vectors/ring/other-ring-key.pem");
const GOLDEN: &[u8] = include_bytes!("golden/ring-1.json");

fn issuer() -> IssuerUrl {
    IssuerUrl::parse("https://oidc.example", "test").unwrap()
}

fn options() -> KeystoreOptions {
    let mut options = KeystoreOptions::new(issuer());
    options.algorithms = vec![Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];
    options
}

fn entries(pairs: &[(&str, &str)]) -> Entries {
    let mut entries = Entries::new();
    pairs.iter().for_each(|(name, value)| entries.insert(*name, *value));
    entries
}

/// A keystore that follows a memory provider, with every swap in a channel.
struct Live {
    provider: Arc<MemoryProvider>,
    clock: Arc<FixedClock>,
    keystore: Keystore,
    swaps: UnboundedReceiver<Arc<Snapshot>>,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Live {
    async fn open(first: Entries) -> Self {
        Self::open_with(first, options()).await
    }

    async fn open_with(first: Entries, options: KeystoreOptions) -> Self {
        let provider = Arc::new(MemoryProvider::with(first));
        let clock = Arc::new(FixedClock::at(UnixTime(1_800_000_000)));
        let (keystore, follower) = Keystore::open(provider.clone(), options, clock.clone()).await.unwrap();
        let (sender, swaps) = unbounded_channel();
        let cancel = CancellationToken::new();
        let run = follower.run(cancel.clone(), move |snapshot| drop(sender.send(snapshot.clone())));
        #[expect(clippy::disallowed_methods, reason = "the handle is kept and joined in close()")]
        let task = tokio::spawn(run);
        Self { provider, clock, keystore, swaps, cancel, task }
    }

    async fn swap(&mut self) -> Arc<Snapshot> {
        tokio::time::timeout(Duration::from_secs(20), self.swaps.recv()).await.unwrap().unwrap()
    }

    /// Waits until the follower has refused or failed, and says why.
    async fn fault(&self) -> Findings {
        wait_for(|| self.keystore.status().last_fault).await
    }

    async fn close(self) {
        self.cancel.cancel();
        self.task.await.unwrap();
    }
}

async fn wait_for<T>(mut state: impl FnMut() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(found) = state() {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), wait).await.expect("the state was reached in time")
}

fn names(findings: &Findings) -> Vec<&'static str> {
    findings.iter().map(|Finding { code, .. }| code.name).collect()
}

async fn boot_faults(provider: MemoryProvider) -> Vec<&'static str> {
    let clock = Arc::new(FixedClock::at(UnixTime(0)));
    names(&Keystore::open(Arc::new(provider), options(), clock).await.map(drop).unwrap_err())
}

#[tokio::test]
async fn a_record_that_nearly_fills_its_place_is_told_before_the_next_one_does_not_fit() {
    let size = entries(&[("current.pem", ED25519)]).total_bytes();
    for (most, is_told) in
        [(size * 2, false), (size * 4 / 3 + 4, false), (size * 4 / 3 - 4, true), (size, true)]
    {
        let provider = MemoryProvider::with(entries(&[("current.pem", ED25519)])).max_bytes(most);
        let clock = Arc::new(FixedClock::at(UnixTime(1_800_000_000)));
        let (keystore, _follower) = Keystore::open(Arc::new(provider), options(), clock).await.unwrap();
        let told = keystore
            .advice()
            .iter()
            .find(|it| it.code.name == "provider.nearly_full")
            .map(Finding::to_string);
        assert_eq!(told.is_some(), is_told, "{most}: {told:?}");
        assert!(told.is_none_or(|told| told.contains(&format!("{size} bytes of {most}"))));
    }
}

#[tokio::test]
async fn every_way_to_have_no_key_is_refused_by_name() {
    assert_eq!(boot_faults(MemoryProvider::new()).await, ["provider.not_found"]);
    let denied = MemoryProvider::new();
    denied.set_outage(Some(ErrorKind::Denied));
    assert_eq!(boot_faults(denied).await, ["provider.denied"]);
    let down = MemoryProvider::new();
    down.set_outage(Some(ErrorKind::Unavailable));
    assert_eq!(boot_faults(down).await, ["provider.unavailable"]);
    let tmpfs = MemoryProvider::new().durability(Durability::Ephemeral("tmpfs".to_owned()));
    assert_eq!(boot_faults(tmpfs).await, ["provider.ephemeral", "provider.not_found"]);
    let other = MemoryProvider::with(entries(&[("tls.crt", "x"), ("ca.crt", "y")]));
    assert_eq!(
        boot_faults(other).await,
        ["provider.not_found", "provider.ignored_entry", "provider.ignored_entry"]
    );
}

/// A variable cannot be written by us, and a passphrase is not made: only where a ring can be made is that advised.
#[tokio::test]
async fn what_is_missing_is_told_with_what_to_do_about_it_at_that_place() {
    let said = async |provider: Arc<dyn SecretProvider>, options| {
        let clock = Arc::new(FixedClock::at(UnixTime(0)));
        let found = Keystore::open(provider, options, clock).await.map(drop).unwrap_err();
        found.iter().map(|Finding { message, .. }| message.clone()).collect::<Vec<_>>().join("\n")
    };
    let writable = said(Arc::new(MemoryProvider::new()), options()).await;
    assert!(writable.contains("`oneseal keys init`"), "{writable}");
    let variable = said(Arc::new(EnvProvider::captured("SIGNING_KEY", None)), options()).await;
    assert!(variable.contains("give this process the variable") && !variable.contains("init"), "{variable}");
    let mut locked = options();
    locked.passphrase = Some(Arc::new(MemoryProvider::new()));
    let key = Arc::new(MemoryProvider::with(entries(&[("current", RSA)])));
    let passphrase = said(key, locked).await;
    assert!(
        passphrase.contains("correct provider.passphrase") && !passphrase.contains("init"),
        "{passphrase}"
    );
}

#[tokio::test]
async fn an_ephemeral_place_is_refused_although_a_good_key_is_there() {
    let provider = MemoryProvider::with(entries(&[("current", RSA)]))
        .durability(Durability::Ephemeral("tmpfs".to_owned()));
    assert!(boot_faults(provider).await.contains(&"provider.ephemeral"));
}

#[tokio::test]
async fn bare_keys_take_their_roles_from_their_names() {
    let live =
        Live::open(entries(&[("current.pem", RSA), ("next.pem", P256), ("previous.pem", ED25519)])).await;
    let snapshot = live.keystore.snapshot();
    let states: Vec<_> = snapshot.keys().iter().map(|key| (key.algorithm, key.state.as_str())).collect();
    assert_eq!(
        states,
        [(Algorithm::Rs256, "active"), (Algorithm::Es256, "pending"), (Algorithm::EdDsa, "retiring")]
    );
    assert_eq!(snapshot.algorithms().collect::<Vec<_>>(), [Algorithm::Rs256]);
    assert_eq!(snapshot.identity().revision, 0);
    live.close().await;
}

#[tokio::test]
async fn one_key_in_two_roles_counts_once_and_two_active_ones_are_refused() {
    let live = Live::open(entries(&[("AWSCURRENT", RSA), ("AWSPENDING", RSA)])).await;
    assert_eq!(live.keystore.snapshot().keys().len(), 1);
    assert!(names(live.keystore.advice()).contains(&"provider.ignored_entry"));
    live.close().await;
    let two =
        MemoryProvider::with(entries(&[("current.pem", ED25519), ("current.EdDSA.pem", OTHER_ED25519)]));
    assert_eq!(boot_faults(two).await, ["ring.two_active"]);
}

#[tokio::test]
async fn a_published_algorithm_that_discovery_does_not_name_is_refused() {
    let provider = Arc::new(MemoryProvider::with(entries(&[("current", P256)])));
    let clock = Arc::new(FixedClock::at(UnixTime(0)));
    let found = Keystore::open(provider, KeystoreOptions::new(issuer()), clock).await.map(drop).unwrap_err();
    assert!(names(&found).contains(&"issuer.algorithm_unlisted"), "{found}");
}

#[tokio::test]
async fn a_disjoint_replacement_is_refused_and_the_old_set_stays_byte_for_byte() {
    let live = Live::open(entries(&[("current", RSA)])).await;
    let before = live.keystore.snapshot();
    live.provider.set(entries(&[("current", P256)]));
    assert_eq!(names(&live.fault().await), ["fleet.key_replaced"]);
    assert_eq!(live.keystore.snapshot().jwks(), before.jwks());
    live.provider.set(entries(&[("current", RSA)]));
    wait_for(|| live.keystore.status().last_fault.is_none().then_some(())).await;
    live.close().await;
}

#[tokio::test]
async fn a_disjoint_replacement_passes_once_when_it_is_allowed() {
    let mut options = options();
    options.allow_key_replacement = true;
    let mut live = Live::open_with(entries(&[("current", RSA)]), options).await;
    live.provider.set(entries(&[("current", P256)]));
    assert_eq!(live.swap().await.algorithms().collect::<Vec<_>>(), [Algorithm::Es256]);
    live.provider.set(entries(&[("current", ED25519)]));
    assert_eq!(names(&live.fault().await), ["fleet.key_replaced"], "the permission is spent");
    live.close().await;
}

#[tokio::test]
async fn garbage_changes_nothing_and_heals_at_once() {
    let mut live = Live::open(entries(&[("current", RSA)])).await;
    let before = live.keystore.snapshot();
    for garbage in
        ["", "garbage", &RSA[..RSA.len() / 2], "{\"format\":1,\"keys\":[", "{\"format\":1,\"keys\":[]}"]
    {
        let refused = live.keystore.status().records_refused;
        live.provider.set(entries(&[("current", garbage)]));
        wait_for(|| (live.keystore.status().records_refused > refused).then_some(())).await;
        assert_eq!(live.keystore.snapshot().identity(), before.identity());
    }
    live.provider.set(entries(&[("current", RSA), ("next", P256)]));
    assert_eq!(live.swap().await.keys().len(), 2);
    live.close().await;
}

#[tokio::test]
async fn a_current_key_that_was_never_published_waits_while_the_old_one_signs_on() {
    let mut live = Live::open(entries(&[("current.EdDSA", ED25519)])).await;
    let old = live.keystore.snapshot().signer(Algorithm::EdDsa).unwrap().kid().clone();
    live.provider.set(entries(&[("current.EdDSA", OTHER_ED25519), ("previous.EdDSA", ED25519)]));
    let held = live.swap().await;
    assert_eq!(held.keys().len(), 2, "published at once");
    assert_eq!(held.signer(Algorithm::EdDsa).unwrap().kid(), &old);

    // Another change does not end the wait.
    live.provider.set(entries(&[
        ("current.EdDSA", OTHER_ED25519),
        ("previous.EdDSA", ED25519),
        ("next", P256),
    ]));
    let still_held = live.swap().await;
    assert_eq!(still_held.keys().len(), 3);
    assert_eq!(still_held.signer(Algorithm::EdDsa).unwrap().kid(), &old);

    live.clock.advance(held.rotation().propagation());
    live.provider.set(entries(&[
        ("current.EdDSA", OTHER_ED25519),
        ("previous.EdDSA", ED25519),
        ("next", P256),
    ]));
    let released = live.swap().await;
    assert_ne!(released.signer(Algorithm::EdDsa).unwrap().kid(), &old);
    assert_eq!(released.jwks(), still_held.jwks(), "only the signer changed");
    live.close().await;
}

#[tokio::test]
async fn a_current_key_that_was_next_before_signs_at_once() {
    let mut live = Live::open(entries(&[("current.EdDSA", ED25519), ("next.EdDSA", OTHER_ED25519)])).await;
    let old = live.keystore.snapshot().signer(Algorithm::EdDsa).unwrap().kid().clone();
    live.provider.set(entries(&[("current.EdDSA", OTHER_ED25519), ("previous.EdDSA", ED25519)]));
    assert_ne!(live.swap().await.signer(Algorithm::EdDsa).unwrap().kid(), &old);
    live.close().await;
}

#[tokio::test]
async fn an_outage_ages_what_is_served_and_never_changes_it() {
    let live = Live::open(entries(&[("current", RSA)])).await;
    let before = live.keystore.snapshot();
    live.provider.set_outage(Some(ErrorKind::Unavailable));
    live.clock.advance(Duration::from_secs(3600));
    assert!(!live.keystore.freshness().is_stale(), "the limit itself is still good");
    live.clock.advance(Duration::from_secs(1));
    assert!(live.keystore.freshness().is_stale());
    assert_eq!(live.keystore.snapshot().jwks(), before.jwks());
    live.provider.set_outage(None);
    live.provider.set(entries(&[("current", RSA)]));
    wait_for(|| (!live.keystore.freshness().is_stale()).then_some(())).await;
    live.close().await;
}

#[tokio::test]
async fn a_copy_that_may_lag_ends_minting_that_much_sooner_and_holds_a_new_key_back_that_much_longer() {
    let mut lagging = options();
    lagging.max_lag = Duration::from_secs(150);
    let mut live = Live::open_with(entries(&[("current.EdDSA", ED25519)]), lagging.clone()).await;
    assert_eq!(live.keystore.freshness().limit, Some(Duration::from_secs(3600 - 150)));
    let old = live.keystore.snapshot().signer(Algorithm::EdDsa).unwrap().kid().clone();
    let swapped = [("current.EdDSA", OTHER_ED25519), ("previous.EdDSA", ED25519)];
    live.provider.set(entries(&swapped));
    let held = live.swap().await;
    live.clock.advance(held.rotation().propagation() + Duration::from_secs(149));
    live.provider.set(entries(&[swapped[0], swapped[1], ("next", P256)]));
    assert_eq!(
        live.swap().await.signer(Algorithm::EdDsa).unwrap().kid(),
        &old,
        "some replica may not have it"
    );
    live.clock.advance(Duration::from_secs(1));
    live.provider.set(entries(&swapped));
    wait_for(|| (live.keystore.snapshot().signer(Algorithm::EdDsa)?.kid() != &old).then_some(())).await;
    live.close().await;

    // Nothing would be minted between two looks.
    lagging.max_lag = Duration::from_secs(3600);
    let provider = Arc::new(MemoryProvider::with(entries(&[("current", ED25519)])));
    let found = Keystore::open(provider, lagging, Arc::new(FixedClock::at(UnixTime(0)))).await.unwrap_err();
    assert_eq!(names(&found).last(), Some(&"config.inequality"), "{found}");
    assert!(
        found.to_string().contains("provider.max_lag") && found.to_string().contains("3655 s"),
        "{found}"
    );
}

#[tokio::test]
async fn a_refused_record_is_told_apart_from_a_silent_provider_until_it_is_put_right() {
    let live = Live::open(entries(&[("current", ED25519)])).await;
    assert!(live.keystore.refusal().is_none());
    live.provider.set(entries(&[("current", OTHER_ED25519)]));
    let refused = wait_for(|| live.keystore.refusal()).await;
    assert_eq!(refused.code.name, "fleet.key_replaced");
    assert!(refused.message.contains("offered: "), "{}", refused.message);
    live.provider.set(entries(&[("current", ED25519)]));
    wait_for(|| live.keystore.refusal().is_none().then_some(())).await;
    live.provider.set_outage(Some(ErrorKind::Unavailable));
    live.provider.set(entries(&[("current", ED25519)]));
    assert_eq!(names(&live.fault().await), ["provider.unavailable"]);
    assert!(live.keystore.refusal().is_none(), "nothing came that could be refused");
    live.close().await;
}

#[tokio::test]
async fn a_ring_document_is_never_left_for_bare_keys_or_an_other_ring() {
    let live = Live::open(Entries::single("keyring.json", GOLDEN.to_vec())).await;
    let before = live.keystore.snapshot();
    live.provider.set(entries(&[("current", RSA)]));
    assert_eq!(names(&live.fault().await), ["ring.rolled_back"]);
    assert_eq!(live.keystore.snapshot().identity(), before.identity());
    live.close().await;
}

#[tokio::test]
async fn init_makes_one_ring_however_many_try() {
    let provider = Arc::new(MemoryProvider::new());
    let clock = Arc::new(FixedClock::at(UnixTime(1_800_000_000)));
    let tries = (0..8).map(|_| {
        let (provider, clock) = (Arc::clone(&provider), Arc::clone(&clock));
        async move {
            let mut request = InitRequest::new(issuer());
            request.algorithms = vec![Algorithm::Es256];
            init(&*provider, request, &*clock).await.unwrap()
        }
    });
    let made = futures(tries).await;
    assert_eq!(made.iter().filter(|made| made.created).count(), 1);
    assert!(
        made.iter().all(|other| other.identity == made[0].identity && other.ring_key == made[0].ring_key)
    );
    let record = provider.load().await.unwrap();
    assert_eq!(record.entries.len(), 1);
    assert!(record.entries.get(Entries::KEYRING).is_some());
}

#[tokio::test]
async fn init_refuses_an_unfit_place_and_never_overwrites() {
    let clock = FixedClock::at(UnixTime(0));
    for (durability, code) in [
        (Durability::Ephemeral("tmpfs".to_owned()), "provider.ephemeral"),
        (Durability::ImageLayer("overlay".to_owned()), "provider.init_in_image"),
    ] {
        let provider = MemoryProvider::new().durability(durability);
        let refused = init(&provider, InitRequest::new(issuer()), &clock).await.unwrap_err();
        let InitError::Refused(findings) = &refused else { panic!("{refused:?}") };
        let found: Vec<_> = findings.iter().map(|finding| finding.code.name).collect();
        assert!(found == [code] && findings.has_errors(), "{refused}");
        assert_eq!(provider.writes(), 0);
    }
    for kind in [ErrorKind::Denied, ErrorKind::Unavailable, ErrorKind::Malformed] {
        let provider = MemoryProvider::new();
        provider.set_outage(Some(kind));
        assert!(init(&provider, InitRequest::new(issuer()), &clock).await.is_err());
        assert_eq!(provider.writes(), 0, "{kind:?} is not NotFound");
    }
    let bare = MemoryProvider::with(entries(&[("current", RSA)]));
    let found = init(&bare, InitRequest::new(issuer()), &clock).await.unwrap();
    assert!(!found.created && found.ring_key.is_none());
    let garbage = MemoryProvider::with(entries(&[("current", "garbage")]));
    assert!(init(&garbage, InitRequest::new(issuer()), &clock).await.is_err());
}

#[tokio::test]
async fn no_secret_shows_in_debug_texts_or_refusals() {
    let d = "d";
    let ring: serde_json::Value = serde_json::from_slice(GOLDEN).unwrap();
    let secrets = ring["keys"].as_array().unwrap().iter().map(|key| key["private"][d].as_str().unwrap());
    let live = Live::open(Entries::single("keyring.json", GOLDEN.to_vec())).await;
    let mut shown = format!("{:?} {:?}", live.keystore, live.keystore.snapshot());
    let mut broken = ring.clone();
    broken["keys"][0]["private"]["p"] = "AAAA".into();
    live.provider.set(Entries::single("keyring.json", broken.to_string()));
    let fault = live.fault().await;
    shown.push_str(&format!("{fault} {fault:?}"));
    for secret in secrets {
        Canary::of(secret.as_bytes()).assert_absent("debug and refusals", &shown);
    }
    live.close().await;
}

async fn futures<T>(all: impl Iterator<Item = impl Future<Output = T> + Send + 'static>) -> Vec<T>
where
    T: Send + 'static,
{
    let mut set = tokio::task::JoinSet::new();
    all.for_each(|one| drop(set.spawn(one)));
    set.join_all().await
}

/// On a runtime of one thread: whoever makes a key there stops everybody else.
#[tokio::test(flavor = "current_thread")]
async fn others_go_on_while_keys_are_made_one_after_the_other() {
    let provider = MemoryProvider::new();
    let clock = FixedClock::at(UnixTime(1_800_000_000));
    let mut request = InitRequest::new(issuer());
    request.algorithms = Algorithm::ALL.to_vec();
    let (go, went) = std::sync::mpsc::channel();
    let (told, mut makings) = unbounded_channel();
    let tell = move |making: Making| {
        told.send(making).unwrap();
        went.recv_timeout(Duration::from_secs(60)).expect("the other task advances meanwhile");
    };
    let other = async move {
        let mut seen = Vec::new();
        while let Some(making) = makings.recv().await {
            seen.push(making);
            go.send(()).unwrap();
        }
        seen
    };
    let (initialised, seen) = tokio::join!(init_telling(&provider, request, &clock, tell), other);
    assert!(initialised.unwrap().created);
    let algorithms: Vec<_> = seen.iter().map(|making| making.algorithm).collect();
    assert_eq!(algorithms, Algorithm::ALL);
    for (i, making) in seen.iter().enumerate() {
        let bits = (making.algorithm.key_type() == KeyType::Rsa).then_some(2048);
        assert_eq!((making.number, making.of, making.rsa_bits), (i + 1, Algorithm::ALL.len(), bits));
    }
    let quiet = |_: Making| panic!("nothing is made where there is a ring");
    assert!(!init_telling(&provider, InitRequest::new(issuer()), &clock, quiet).await.unwrap().created);
}

#[tokio::test]
async fn rsa_keys_are_made_in_the_size_that_is_asked_for() {
    let clock = FixedClock::at(UnixTime(1_800_000_000));
    let provider = Arc::new(MemoryProvider::new());
    let mut request = InitRequest::new(issuer());
    request.algorithms = vec![Algorithm::Es256, Algorithm::Ps256];
    request.rsa_bits = Some(3072);
    init(&*provider, request.clone(), &clock).await.unwrap();
    let mut options = options();
    options.algorithms = request.algorithms.clone();
    let (keystore, _follower) = Keystore::open(provider, options, Arc::new(clock)).await.unwrap();
    let jwks: serde_json::Value = serde_json::from_slice(keystore.snapshot().jwks()).unwrap();
    // 3072 bits are 512 characters of base64url.
    let lengths: Vec<_> =
        jwks["keys"].as_array().unwrap().iter().map(|key| key["n"].as_str().map(str::len)).collect();
    assert_eq!(lengths, [Some(512), None]);
}

#[tokio::test]
async fn sizes_that_no_key_can_have_are_refused_and_nothing_is_written() {
    let clock = FixedClock::at(UnixTime(1_800_000_000));
    for (algorithm, bits) in [(Algorithm::Es256, 2048), (Algorithm::Rs256, 1024), (Algorithm::Rs256, 8192)] {
        let provider = MemoryProvider::new();
        let mut request = InitRequest::new(issuer());
        request.algorithms = vec![algorithm];
        request.rsa_bits = Some(bits);
        let refused = init(&provider, request, &clock).await.unwrap_err();
        let InitError::Generate(why) = refused else { panic!("{refused}") };
        let code = if algorithm == Algorithm::Es256 { "key.algorithm_unfit" } else { "key.generate_size" };
        assert_eq!(why.code().name, code);
        assert_eq!(provider.load().await.unwrap_err().kind(), ErrorKind::NotFound);
    }
}
