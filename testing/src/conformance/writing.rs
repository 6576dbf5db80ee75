//! A write happens as a whole, from where the writer thinks the record stands, or not at all.

use futures_util::FutureExt;
use oneseal_coordination::FenceToken;
use oneseal_providers::{Change, Entries, ErrorKind, SecretProvider};
use uuid::Uuid;

use super::{ProviderFixture, assert_kind, change, entries, in_time, tag_of, value};
use crate::Outcome;

/// `create` writes the first record and tells its revision; a second one finds it and leaves it alone.
pub async fn created_once(fixture: &dyn ProviderFixture) {
    if !fixture.capabilities().is_writable {
        return;
    }
    let provider = fixture.provider();
    let created = provider.create(entries(fixture, "first", Uuid::new_v4()), change(Uuid::new_v4())).await;
    let record = provider.load().await.expect("the record is there");
    assert_eq!(record.revision, created.expect("nothing was there"));
    assert_eq!(tag_of(fixture, &record), "first");

    let other = fixture.provider();
    let second = other.create(entries(fixture, "second", Uuid::new_v4()), change(Uuid::new_v4())).await;
    assert_kind(second, ErrorKind::AlreadyExists);
    assert_eq!(provider.load().await.expect("still there").revision, record.revision);
}

/// `replace` from the current revision succeeds and tells the new one; from an older one it conflicts.
pub async fn replaced_from_the_expected_revision_only(fixture: &dyn ProviderFixture) {
    if !fixture.capabilities().is_writable {
        return;
    }
    fixture.put(entries(fixture, "first", Uuid::new_v4())).await;
    let provider = fixture.provider();
    let first = provider.load().await.expect("the record is there").revision;
    let replaced =
        provider.replace(&first, entries(fixture, "second", Uuid::new_v4()), change(Uuid::new_v4())).await;
    let record = provider.load().await.expect("the record is there");
    assert_eq!(record.revision, replaced.expect("it is at the expected revision"));
    assert_eq!(tag_of(fixture, &record), "second");

    let late = provider.replace(&first, entries(fixture, "third", Uuid::new_v4()), change(Uuid::new_v4()));
    assert_kind(late.await, ErrorKind::Conflict);
    assert_eq!(provider.load().await.expect("still there").revision, record.revision);
}

/// The id of the change that made a record comes back with it, after `create` and after `replace`.
pub async fn change_id_comes_back(fixture: &dyn ProviderFixture) {
    if !fixture.capabilities().is_writable {
        return;
    }
    let provider = fixture.provider();
    let (first, second) = (Uuid::new_v4(), Uuid::new_v4());
    let revision =
        provider.create(entries(fixture, "first", first), change(first)).await.expect("nothing was there");
    assert_eq!(provider.load().await.expect("the record is there").change_id, Some(first));
    provider
        .replace(&revision, entries(fixture, "second", second), change(second))
        .await
        .expect("nobody interferes");
    assert_eq!(provider.load().await.expect("the record is there").change_id, Some(second));
}

/// A record above the limit is refused by `create` and `replace` and nothing changes; one of just the limit is
/// taken and comes back.
pub async fn too_large_is_refused_beforehand(fixture: &dyn ProviderFixture) {
    let capabilities = fixture.capabilities();
    if !capabilities.is_writable {
        return;
    }
    let provider = fixture.provider();
    let limit = provider.describe().max_bytes;
    let name = capabilities.only_name.unwrap_or(Entries::KEYRING);
    let around = name.len() + value(fixture, "").len();
    let sized = |total: usize| Entries::single(name, value(fixture, &"x".repeat(total - around)));

    assert_kind(provider.create(sized(limit + 1), change(Uuid::new_v4())).await, ErrorKind::TooLarge);
    assert_kind(provider.load().await, ErrorKind::NotFound);

    fixture.put(entries(fixture, "kept", Uuid::new_v4())).await;
    let kept = provider.load().await.expect("the record is there");
    let write = provider.replace(&kept.revision, sized(limit + 1), change(Uuid::new_v4()));
    assert_kind(write.await, ErrorKind::TooLarge);
    let record = provider.load().await.expect("still there");
    assert_eq!((record.revision, tag_of(fixture, &kept)), (kept.revision.clone(), "kept".to_owned()));

    provider
        .replace(&kept.revision, sized(limit), change(Uuid::new_v4()))
        .await
        .expect("the limit itself fits");
    assert_eq!(provider.load().await.expect("it comes back").entries.total_bytes(), limit);
}

/// A provider that does not write says so, and what is there stays.
pub async fn read_only_refuses_writes(fixture: &dyn ProviderFixture) {
    if fixture.capabilities().is_writable {
        return;
    }
    fixture.put(entries(fixture, "kept", Uuid::new_v4())).await;
    let provider = fixture.provider();
    let kept = provider.load().await.expect("the record is there");
    let replaced =
        provider.replace(&kept.revision, entries(fixture, "new", Uuid::new_v4()), change(Uuid::new_v4()));
    assert_kind(replaced.await, ErrorKind::ReadOnly);
    let created = provider.create(entries(fixture, "new", Uuid::new_v4()), change(Uuid::new_v4())).await;
    let refused = created.expect_err("a record is there, and it is read-only").kind();
    assert!(matches!(refused, ErrorKind::ReadOnly | ErrorKind::AlreadyExists), "{refused:?}");
    assert_eq!(provider.load().await.expect("still there").revision, kept.revision);
}

/// After `OutcomeUnknown` a reload tells whether it happened: the record carries the change's id or does not.
pub async fn lost_answer_is_resolved_by_reload(fixture: &dyn ProviderFixture) {
    let capabilities = fixture.capabilities();
    if !capabilities.is_writable || !capabilities.can_lose_answers {
        return;
    }
    fixture.put(entries(fixture, "first", Uuid::new_v4())).await;
    let provider = fixture.provider();
    for outcome in [Outcome::Dropped, Outcome::Committed] {
        let id = Uuid::new_v4();
        let before = provider.load().await.expect("the record is there").revision;
        fixture.lose_next_answer(outcome);
        let write = provider.replace(&before, entries(fixture, "second", id), change(id));
        assert_kind(write.await, ErrorKind::OutcomeUnknown);
        let record = provider.load().await.expect("the record is there");
        assert_eq!(record.change_id == Some(id), outcome == Outcome::Committed, "{outcome:?}");
        assert_eq!(record.revision != before, outcome == Outcome::Committed, "{outcome:?}");
    }
}

/// Where the backend journals, a write under a superseded leadership is fenced and changes nothing; the successor's
/// succeeds.
pub async fn superseded_leader_is_fenced(fixture: &dyn ProviderFixture) {
    if !fixture.capabilities().journals {
        return;
    }
    let leadership = |epoch| FenceToken::new("fleet", "rotator", epoch, format!("replica-{epoch}"));
    let led = |epoch| Change { fence: Some(leadership(epoch)), ..change(Uuid::new_v4()) };
    fixture.put(entries(fixture, "first", Uuid::new_v4())).await;
    let provider = fixture.provider();
    let first = provider.load().await.expect("the record is there").revision;

    fixture.supersede(&leadership(1));
    let second = provider.replace(&first, entries(fixture, "second", Uuid::new_v4()), led(1)).await;
    let second = second.expect("it leads");
    fixture.supersede(&leadership(2));
    let late = provider.replace(&second, entries(fixture, "late", Uuid::new_v4()), led(1)).await;
    assert_kind(late, ErrorKind::Fenced);
    let record = provider.load().await.expect("the record is there");
    assert_eq!((&record.revision, tag_of(fixture, &record)), (&second, "second".to_owned()));
    let third = provider.replace(&second, entries(fixture, "third", Uuid::new_v4()), led(2)).await;
    third.expect("the successor leads");
}

/// A write whose future is dropped has happened or not; the record is the old or the new one, whole, and can be
/// written from there.
pub async fn cancelled_write_is_whole(fixture: &dyn ProviderFixture) {
    if !fixture.capabilities().is_writable {
        return;
    }
    fixture.put(entries(fixture, "settled", Uuid::new_v4())).await;
    let provider = fixture.provider();
    for polls in 1..=8 {
        let before = provider.load().await.expect("the record is there").revision;
        let mut write =
            provider.replace(&before, entries(fixture, "cancelled", Uuid::new_v4()), change(Uuid::new_v4()));
        for _ in 0..polls {
            if (&mut write).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(write);
        let found = tag_of(fixture, &provider.load().await.expect("the record is there"));
        assert!(found == "settled" || found == "cancelled", "{found}");
        in_time("writing after a cancelled write", settle(fixture, provider.as_ref())).await;
    }
}

/// Writes until a write succeeds: the cancelled one may still get in between.
async fn settle(fixture: &dyn ProviderFixture, provider: &dyn SecretProvider) {
    loop {
        let current = provider.load().await.expect("the record is there").revision;
        let write =
            provider.replace(&current, entries(fixture, "settled", Uuid::new_v4()), change(Uuid::new_v4()));
        match write.await {
            Ok(_) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
        }
    }
}
