//! Sixteen writers at once, with roll-backs and killed sessions among them, cuts in between, and a reader who follows:
//! nothing is missed, nothing comes twice or out of order, the chain holds.

use std::collections::BTreeSet;
use std::sync::Arc;

use oneseal_coordination::EventDraft;
use oneseal_coordination::events::{Before, Delivery, Follower, From, Subscription, plan_prune, prune};
use proptest::prelude::*;
use proptest::test_runner::Config;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::support::{Place, next};

const WRITERS: usize = 16;

/// What one writer does in one transaction.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Appends so many events and commits.
    Commit(u8),
    /// Appends so many and rolls back.
    RollBack(u8),
    /// Appends so many, and its session is killed before it commits.
    Killed(u8),
}

#[derive(Clone, Debug)]
enum Step {
    /// All writers at once, each with acts of its own.
    Write(Vec<Vec<Act>>),
    /// Cuts off so many percent of what is kept.
    Prune(u8),
    /// The reader goes away and comes back with where it stood.
    Reconnect,
}

/// What must be there.
#[derive(Clone, Debug, Default)]
struct Expected {
    /// Events committed.
    count: i64,
}

struct Model;

impl ReferenceStateMachine for Model {
    type State = Expected;
    type Transition = Step;

    fn init_state() -> BoxedStrategy<Expected> {
        Just(Expected::default()).boxed()
    }

    fn transitions(_: &Expected) -> BoxedStrategy<Step> {
        let act = prop_oneof![
            4 => (1_u8..4).prop_map(Act::Commit),
            2 => (1_u8..4).prop_map(Act::RollBack),
            1 => (1_u8..3).prop_map(Act::Killed),
        ];
        let acts = proptest::collection::vec(proptest::collection::vec(act, 0..5), WRITERS);
        prop_oneof![
            6 => acts.prop_map(Step::Write),
            1 => (0_u8..=100).prop_map(Step::Prune),
            2 => Just(Step::Reconnect),
        ]
        .boxed()
    }

    fn apply(mut state: Expected, step: &Step) -> Expected {
        state.count += match step {
            Step::Write(writers) => writers
                .iter()
                .flatten()
                .map(|act| if let Act::Commit(count) = act { i64::from(*count) } else { 0 })
                .sum(),
            // A cut is an event itself, if there is anything to cut.
            Step::Prune(_) | Step::Reconnect => 0,
        };
        state
    }
}

struct Log {
    runtime: Runtime,
    place: Arc<Place>,
    follower: Follower,
    stop: CancellationToken,
    tasks: JoinSet<()>,
    reader: Option<Subscription>,
    /// The last that the reader has.
    last: i64,
    last_hash: oneseal_coordination::events::Hash,
    cuts: i64,
    /// The payloads of all that the reader has got.
    seen: BTreeSet<String>,
}

struct Test;

impl StateMachineTest for Test {
    type SystemUnderTest = Option<Log>;
    type Reference = Model;

    fn init_test(_: &Expected) -> Option<Log> {
        let runtime = Runtime::new().unwrap();
        let place = Arc::new(runtime.block_on(Place::new())?);
        let follower = Follower::new(place.database.clone());
        let (stop, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let (runs, ends) = (follower.clone(), stop.clone());
        tasks.spawn_on(async move { runs.run(ends).await }, runtime.handle());
        let reader = Some(follower.subscribe(From::Floor));
        let last_hash = oneseal_coordination::events::Hash::ZERO;
        Some(Log {
            runtime,
            place,
            follower,
            stop,
            tasks,
            reader,
            last: 0,
            last_hash,
            cuts: 0,
            seen: BTreeSet::new(),
        })
    }

    fn apply(log: Option<Log>, expected: &Expected, step: Step) -> Option<Log> {
        let mut log = log?;
        let handle = log.runtime.handle().clone();
        handle.block_on(async {
            match step {
                Step::Write(writers) => write(&log.place, writers).await,
                Step::Prune(percent) => {
                    let kept = log.place.read_all().await;
                    let at = kept.len() * usize::from(percent) / 100;
                    let before = Before::Seq(kept.get(at).map_or(i64::MAX, |event| event.seq));
                    let plan = plan_prune(&log.place.database, &before, &[]).await.unwrap();
                    prune(&log.place.database, "test", &plan, |_| {}).await.unwrap();
                    log.cuts += i64::from(plan.count() > 0);
                }
                Step::Reconnect => {
                    let position =
                        oneseal_coordination::events::Position { seq: log.last, hash: log.last_hash };
                    log.reader = Some(log.follower.subscribe(From::Cursor(position.cursor())));
                }
            }
            log.catch_up(expected.count + log.cuts).await;
        });
        let kept = handle.block_on(log.place.read_all());
        assert_eq!(kept.last().map_or(log.last, |event| event.seq), expected.count + log.cuts, "gapless");
        Some(log)
    }

    fn teardown(log: Option<Log>, _: Expected) {
        let Some(mut log) = log else { return };
        log.stop.cancel();
        log.runtime.block_on(async { while log.tasks.join_next().await.is_some() {} });
    }
}

impl Log {
    /// Reads until `head`, which must be there, and nothing else.
    async fn catch_up(&mut self, head: i64) {
        while self.last < head {
            match next(self.reader.as_mut().unwrap()).await {
                Delivery::Stands(position) => assert_eq!(position.seq, self.last),
                Delivery::Event(event) => {
                    assert_eq!(
                        (event.seq, event.prev_hash),
                        (self.last + 1, self.last_hash),
                        "missed or twice"
                    );
                    assert!(self.seen.insert(event.payload.clone()), "twice: {}", event.payload);
                    assert!(!event.payload.contains("lost"), "not committed: {}", event.payload);
                    (self.last, self.last_hash) = (event.seq, event.hash);
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(self.last, head, "more than was committed");
    }
}

async fn write(place: &Arc<Place>, writers: Vec<Vec<Act>>) {
    let mut tasks = JoinSet::new();
    for acts in writers {
        let place = Arc::clone(place);
        tasks.spawn(async move {
            for act in acts {
                perform(&place, act).await;
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
}

async fn perform(place: &Place, act: Act) {
    let (count, word) = match act {
        Act::Commit(count) => (count, "kept"),
        Act::RollBack(count) | Act::Killed(count) => (count, "lost"),
    };
    let mut tx = place.database.write().await.unwrap();
    for _ in 0..count {
        let payload = serde_json::json!({ word: uuid::Uuid::new_v4().to_string() }).to_string();
        tx.append("writer", "https://a.example", &EventDraft::new("test.written", payload)).await.unwrap();
    }
    match act {
        Act::Commit(_) => tx.commit().await.unwrap(),
        Act::RollBack(_) => tx.roll_back().await,
        Act::Killed(_) => {
            let killed = sqlx::query("SELECT pg_terminate_backend(pg_backend_pid())");
            assert!(tx.execute(killed).await.is_err(), "its session is gone");
            assert!(tx.commit().await.is_err());
        }
    }
}

proptest_state_machine::prop_state_machine! {
    #![proptest_config(Config { cases: 4, failure_persistence: None, max_shrink_iters: 20, ..Config::default() })]

    #[test]
    fn sixteen_writers_and_a_reader_make_one_gapless_log(sequential 4..9 => Test);
}
