//! Whoever waits for a change learns of it.

use futures_util::FutureExt;
use oneseal_providers::{Revision, SecretProvider};
use uuid::Uuid;

use super::{ProviderFixture, entries, in_time, tag_of};

/// Five changes one after the other wake the waiting reader five times: a watch does not end with the first.
pub async fn every_change_in_a_row_wakes(fixture: &dyn ProviderFixture) {
    if fixture.capabilities().is_static {
        return;
    }
    fixture.put(entries(fixture, "change-0", Uuid::new_v4())).await;
    let provider = fixture.provider();
    let mut known = provider.load().await.expect("the record is there").revision;
    for number in 1..=5 {
        let tag = format!("change-{number}");
        let waiting = seen_other_than(provider.as_ref(), &known);
        let changing = fixture.put(entries(fixture, &tag, Uuid::new_v4()));
        let (seen, ()) = in_time(&tag, futures_util::future::join(waiting, changing)).await;
        let record = provider.load().await.expect("the record is there");
        assert_eq!(tag_of(fixture, &record), tag);
        assert_eq!(record.revision, seen);
        known = seen;
    }
}

/// A change made before anyone waits wakes at once.
pub async fn change_before_the_call_wakes(fixture: &dyn ProviderFixture) {
    if fixture.capabilities().is_static {
        return;
    }
    fixture.put(entries(fixture, "before", Uuid::new_v4())).await;
    let provider = fixture.provider();
    let known = provider.load().await.expect("the record is there").revision;
    fixture.put(entries(fixture, "after", Uuid::new_v4())).await;
    in_time("a change before the call", provider.changed(&known)).await;
}

/// A dropped watch takes nothing with it: the next one sees a change made while nobody waited.
pub async fn dropped_watch_loses_nothing(fixture: &dyn ProviderFixture) {
    if fixture.capabilities().is_static {
        return;
    }
    fixture.put(entries(fixture, "before", Uuid::new_v4())).await;
    let provider = fixture.provider();
    let known = provider.load().await.expect("the record is there").revision;
    for polls in 1..=4 {
        let mut waiting = provider.changed(&known);
        for _ in 0..polls {
            if (&mut waiting).now_or_never().is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    let mut dropped = provider.changed(&known);
    let _ = (&mut dropped).now_or_never();
    fixture.put(entries(fixture, "after", Uuid::new_v4())).await;
    drop(dropped);
    in_time("a change after a dropped watch", seen_other_than(provider.as_ref(), &known)).await;
}

/// A record that is read once never wakes.
pub async fn static_provider_never_wakes(fixture: &dyn ProviderFixture) {
    if !fixture.capabilities().is_static {
        return;
    }
    fixture.put(entries(fixture, "only", Uuid::new_v4())).await;
    let provider = fixture.provider();
    let elsewhere = Revision::new("another revision");
    let mut waiting = provider.changed(&elsewhere);
    for _ in 0..100 {
        assert!((&mut waiting).now_or_never().is_none(), "there is nothing to wake for");
        tokio::task::yield_now().await;
    }
}

/// Waits as the keystore does: a wake may have no cause.
async fn seen_other_than(provider: &dyn SecretProvider, known: &Revision) -> Revision {
    loop {
        provider.changed(known).await;
        match provider.load().await {
            Ok(record) if record.revision != *known => return record.revision,
            _ => tokio::task::yield_now().await,
        }
    }
}
