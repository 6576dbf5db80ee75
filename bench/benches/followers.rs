//! From a commit in Postgres to the last of fifty followers that serves it.
//!
//! All followers live in this process, each with a pool, a session that listens and a keystore of its own, as fifty
//! replicas would; the database is a real one on this machine. The clock starts before COMMIT is sent, and stops when
//! each follower's snapshot is the new one. What the writer itself takes is told beside it.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use oneseal_bench::report::{self, Report, Table};
use oneseal_bench::verdict::Target;
use oneseal_bench::{median, now};
use oneseal_coordination::database::{Database, DatabaseOptions, DatabaseUrl};
use oneseal_coordination::migrate::{COORDINATION, MigrateOptions, migrate};
use oneseal_coordination::{EventDraft, SystemClock};
use oneseal_keystore::{Algorithm, IssuerUrl, Keystore, KeystoreOptions};
use oneseal_providers::postgres::migrations::COMPONENT;
use oneseal_providers::{Change, Entries, PostgresProvider, SecretProvider};
use oneseal_testing::parts::{Postgres, PostgresOptions};
use oneseal_testing::rings::{Keeper, kek_provider};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const FOLLOWERS: usize = 50;
const COMMITS_A_ROUND: usize = 40;
const FLEET: &str = "bench";
const KEK: u8 = 1;

fn main() -> ExitCode {
    report::run("followers", |plan, report| {
        // A session and a pooled connection each.
        let settings = vec![("max_connections".to_owned(), "200".to_owned())];
        let Some(server) = Postgres::start(PostgresOptions { settings, ..PostgresOptions::default() }) else {
            report.note("PostgreSQL is not installed: nothing was measured");
            return;
        };
        let commits = COMMITS_A_ROUND * plan.rounds;
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(measure(&server.create_database().url(), commits, report));
    })
}

async fn measure(url: &str, commits: usize, report: &mut Report) {
    migrate(&connect(url), &[COORDINATION, COMPONENT], &MigrateOptions::default(), |_| ())
        .await
        .expect("tables");
    let issuer = IssuerUrl::parse("https://oidc.example", "bench").expect("an issuer");
    let keeper = Keeper::new(&issuer, KEK);
    let writer = PostgresProvider::new(connect(url), FLEET);
    let mut document = keeper.first(&SystemClock).await;
    let first = Entries::single(Entries::KEYRING, document.clone());
    let mut at = writer.create(first, change()).await.expect("the first revision");

    let (swapped, mut swaps) = unbounded_channel();
    let cancel = CancellationToken::new();
    let mut followers = JoinSet::new();
    for _ in 0..FOLLOWERS {
        let provider = Arc::new(PostgresProvider::new(connect(url), FLEET));
        follow(provider, &issuer, swapped.clone(), cancel.clone(), &mut followers).await;
    }
    let (mut last, mut all, mut writing) = (Vec::new(), Vec::new(), Vec::new());
    for commit in 0..commits + WARM_UP {
        document = keeper.next(&document, |_| ());
        let entries = Entries::single(Entries::KEYRING, document.clone());
        let started = now();
        at = writer.replace(&at, entries, change()).await.expect("nobody interferes");
        let written = started.elapsed();
        let spans = served(&mut swaps, started).await;
        if commit >= WARM_UP {
            writing.push(written.as_secs_f64() * 1e3);
            last.push(spans.iter().copied().fold(0.0, f64::max));
            all.extend(spans);
        }
    }
    cancel.cancel();
    while followers.join_next().await.is_some() {}

    let mut table = Table::new("from before COMMIT, ms", &["", "p50", "p99"]);
    for (name, spans) in [("the write itself", &writing), ("each follower", &all), ("the last of all", &last)]
    {
        table.row([name.to_owned(), format!("{:.2}", median(spans.clone())), format!("{:.2}", p99(spans))]);
    }
    report.table(table);
    report.verdict("commit to all of 50 followers serving it, ms (p99)", p99(&last), Target::Below(10.0));
}

/// Sessions that begin to listen, and first looks.
const WARM_UP: usize = 10;

async fn follow(
    provider: Arc<dyn SecretProvider>,
    issuer: &IssuerUrl,
    swapped: UnboundedSender<Instant>,
    cancel: CancellationToken,
    followers: &mut JoinSet<()>,
) {
    let mut options = KeystoreOptions::new(issuer.clone());
    options.algorithms = Algorithm::ALL.to_vec();
    options.keks = vec![kek_provider(KEK)];
    let opened = Keystore::open(provider, options, Arc::new(SystemClock)).await;
    let (_keystore, follower) = opened.expect("the ring is good");
    followers.spawn(follower.run(cancel, move |_| {
        // Nobody counts any more when the bench is over.
        let _ = swapped.send(now());
    }));
}

/// How long after `started` each follower has swapped, in milliseconds.
async fn served(swaps: &mut UnboundedReceiver<Instant>, started: Instant) -> Vec<f64> {
    let mut spans = Vec::with_capacity(FOLLOWERS);
    while spans.len() < FOLLOWERS {
        let swapped = swaps.recv().await.expect("the followers run");
        spans.push(swapped.duration_since(started).as_secs_f64() * 1e3);
    }
    spans
}

fn p99(spans: &[f64]) -> f64 {
    let mut sorted = spans.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((sorted.len() * 99 / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

fn connect(url: &str) -> Database {
    let mut options = DatabaseOptions::new(DatabaseUrl::parse(url).expect("a URL"));
    options.max_connections = 1;
    Database::new(options).expect("a database")
}

fn change() -> Change {
    Change {
        id: Uuid::new_v4(),
        actor: "bench".to_owned(),
        reason: "a bench".to_owned(),
        event: EventDraft::new("bench.changed", "{}"),
        fence: None,
    }
}
