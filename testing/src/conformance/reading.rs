//! What is read is what was put there.

use oneseal_providers::ErrorKind;
use uuid::Uuid;

use super::{ProviderFixture, assert_kind, assert_same_entries, entries, tag_of};

/// The description says of itself what the fixture does, and where it is.
pub async fn description_is_honest(fixture: &dyn ProviderFixture) {
    let capabilities = fixture.capabilities();
    if !capabilities.is_writable {
        // What a place can take may depend on what is there.
        fixture.put(entries(fixture, "put", Uuid::new_v4())).await;
    }
    let description = fixture.provider().describe();
    assert_eq!(description.writable, capabilities.is_writable, "writable");
    assert_eq!(description.journals, capabilities.journals, "journals");
    assert_eq!(description.is_static, capabilities.is_static, "is_static");
    assert!(!description.kind.is_empty() && !description.location.is_empty(), "{description:?}");
    assert!(description.max_bytes >= 64 * 1024, "no ring fits into {} bytes", description.max_bytes);
}

/// Without a record, `load` and `replace` say `NotFound`.
pub async fn missing_is_not_found(fixture: &dyn ProviderFixture) {
    let capabilities = fixture.capabilities();
    if !capabilities.can_be_missing {
        return;
    }
    let provider = fixture.provider();
    assert_kind(provider.load().await, ErrorKind::NotFound);
    if capabilities.is_writable {
        let nowhere = oneseal_providers::Revision::new("never written");
        let write =
            provider.replace(&nowhere, entries(fixture, "a", Uuid::new_v4()), super::change(Uuid::new_v4()));
        assert_kind(write.await, ErrorKind::NotFound);
        assert_kind(provider.load().await, ErrorKind::NotFound);
    }
}

/// Every entry comes back under its name with its bytes.
pub async fn entries_come_back_by_name(fixture: &dyn ProviderFixture) {
    let id = Uuid::new_v4();
    fixture.put(entries(fixture, "put", id)).await;
    let record = fixture.provider().load().await.expect("the record is there");
    assert_same_entries(&record.entries, &entries(fixture, "put", id));
}

/// The same content read by two handles has one revision; other content has another.
pub async fn revision_names_content(fixture: &dyn ProviderFixture) {
    fixture.put(entries(fixture, "first", Uuid::new_v4())).await;
    let (one, other) = (fixture.provider(), fixture.provider());
    let first = one.load().await.expect("the record is there");
    let again = other.load().await.expect("the record is there");
    assert_eq!(first.revision, again.revision);
    assert!(!first.revision.as_str().is_empty());
    if fixture.capabilities().is_static {
        return;
    }
    fixture.put(entries(fixture, "second", Uuid::new_v4())).await;
    let second = one.load().await.expect("the record is there");
    assert_eq!(tag_of(fixture, &second), "second");
    assert_ne!(first.revision, second.revision);
}
