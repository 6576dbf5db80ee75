//! Many at once: one wins, and nobody sees half of anything.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oneseal_providers::{ErrorKind, ProviderError, Revision};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::{ProviderFixture, change, entries, in_time, tag_of};

const WRITERS: usize = 16;

/// Of sixteen concurrent first writers one wins; the others find its record.
pub async fn one_of_sixteen_creates(fixture: &dyn ProviderFixture) {
    if fixture.capabilities().is_writable {
        one_wins(fixture, None, ErrorKind::AlreadyExists).await;
    }
}

/// Of sixteen concurrent writers that expect the same revision one wins, five times over.
pub async fn one_of_sixteen_replaces(fixture: &dyn ProviderFixture) {
    if !fixture.capabilities().is_writable {
        return;
    }
    fixture.put(entries(fixture, "first", Uuid::new_v4())).await;
    for _ in 0..5 {
        let expected = fixture.provider().load().await.expect("the record is there").revision;
        one_wins(fixture, Some(expected), ErrorKind::Conflict).await;
    }
}

/// While four writers make sixty changes, whatever four readers see is one of them, whole.
pub async fn no_reader_sees_a_torn_record(fixture: &dyn ProviderFixture) {
    if !fixture.capabilities().is_writable {
        return;
    }
    const CHANGES: usize = 60;
    fixture.put(entries(fixture, "first", Uuid::new_v4())).await;
    let committed = Arc::new(AtomicUsize::new(0));
    let write = async |writer: usize| {
        let provider = fixture.provider();
        while committed.load(Ordering::Relaxed) < CHANGES {
            let revision = provider.load().await.expect("the record is there").revision;
            let id = Uuid::new_v4();
            let tag = format!("writer-{writer}-{}", id.simple());
            match provider.replace(&revision, entries(fixture, &tag, id), change(id)).await {
                Ok(_) => committed.fetch_add(1, Ordering::Relaxed),
                Err(error) if error.kind() == ErrorKind::Conflict => 0,
                Err(error) => panic!("a writer may lose, not fail: {error}"),
            };
        }
    };
    let read = async || {
        let provider = fixture.provider();
        let mut seen = 0_usize;
        while committed.load(Ordering::Relaxed) < CHANGES || seen == 0 {
            tag_of(fixture, &provider.load().await.expect("the record is there all the time"));
            seen += 1;
            tokio::task::yield_now().await;
        }
    };
    let writers = futures_util::future::join_all((0..4).map(&write));
    let readers = futures_util::future::join_all((0..4).map(|_| read()));
    in_time("writers and readers", futures_util::future::join(writers, readers)).await;
}

async fn one_wins(fixture: &dyn ProviderFixture, expected: Option<Revision>, loses_with: ErrorKind) {
    let start = Arc::new(Barrier::new(WRITERS));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let (provider, start, expected) = (fixture.provider(), Arc::clone(&start), expected.clone());
        let (tag, id) = (format!("writer-{writer}"), Uuid::new_v4());
        let entries = entries(fixture, &tag, id);
        writers.spawn(async move {
            start.wait().await;
            let outcome = match &expected {
                Some(expected) => provider.replace(expected, entries, change(id)).await,
                None => provider.create(entries, change(id)).await,
            };
            (tag, id, outcome)
        });
    }
    let outcomes = in_time("sixteen writers", writers.join_all()).await;
    let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(|(.., outcome)| outcome.is_ok());
    let kinds: Vec<_> =
        lost.iter().filter_map(|(.., outcome)| outcome.as_ref().err().map(ProviderError::kind)).collect();
    assert_eq!(kinds, vec![loses_with; WRITERS - 1], "one wins, the others are told why not");

    let (tag, id, outcome) = &won[0];
    let record = fixture.provider().load().await.expect("the record is there");
    assert_eq!(outcome.as_ref().ok(), Some(&record.revision));
    assert_eq!(record.change_id, Some(*id));
    assert_eq!(&tag_of(fixture, &record), tag);
}
