//! What every [`SecretProvider`] must do, as tests that run against any of them.
//!
//! Tell what your backend can do in a [`ProviderFixture`], then let [`conformance_suite!`](crate::conformance_suite)
//! make one test of each behaviour:
//!
//! ```
//! use std::sync::Arc;
//! use oneseal_providers::SecretProvider;
//! use oneseal_testing::MemoryProvider;
//! use oneseal_testing::conformance::{Capabilities, ProviderFixture};
//!
//! struct Memory(MemoryProvider);
//!
//! impl ProviderFixture for Memory {
//!     fn capabilities(&self) -> Capabilities {
//!         Capabilities::writable()
//!     }
//!     fn provider(&self) -> Arc<dyn SecretProvider> {
//!         Arc::new(self.0.clone())
//!     }
//! }
//!
//! oneseal_testing::conformance_suite!(memory, Memory(MemoryProvider::new()));
//! # fn main() {}
//! ```
//!
//! The behaviours are the guarantees of the trait, no more: a provider may wake without cause, give a new revision
//! to old content, or refuse to write at all, and passes. Each test gets a fixture of its own, empty at first. A
//! behaviour that needs what the fixture does not have holds trivially; that the fixture tells the truth about it
//! is the first behaviour.

mod racing;
mod reading;
mod silence;
mod watching;
mod writing;

use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::{EventDraft, FenceToken};
use oneseal_providers::{BoxFuture, Change, Entries, ErrorKind, ProviderError, Record, SecretProvider};
use uuid::Uuid;

use crate::Outcome;

pub use racing::{no_reader_sees_a_torn_record, one_of_sixteen_creates, one_of_sixteen_replaces};
pub use reading::{
    description_is_honest, entries_come_back_by_name, missing_is_not_found, revision_names_content,
};
pub use silence::secrets_stay_secret;
pub use watching::{
    change_before_the_call_wakes, dropped_watch_loses_nothing, every_change_in_a_row_wakes,
    static_provider_never_wakes,
};
pub use writing::{
    cancelled_write_is_whole, change_id_comes_back, created_once, lost_answer_is_resolved_by_reload,
    read_only_refuses_writes, replaced_from_the_expected_revision_only, superseded_leader_is_fenced,
    too_large_is_refused_beforehand,
};

/// One backend, with a store of its own for one test.
pub trait ProviderFixture: Send + Sync + 'static {
    /// What the backend can do.
    fn capabilities(&self) -> Capabilities;

    /// A handle on the store: each call a new one, as another replica would have, all on the same record.
    fn provider(&self) -> Arc<dyn SecretProvider>;

    /// Puts the record there, as an operator would. Needed where the contract cannot write; by default it does.
    fn put(&self, entries: Entries) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let provider = self.provider();
            let written = match provider.load().await {
                Ok(record) => provider.replace(&record.revision, entries, change(Uuid::new_v4())).await,
                Err(_) => provider.create(entries, change(Uuid::new_v4())).await,
            };
            written.expect("the fixture's record can be put");
        })
    }

    /// Makes the answer to the next write get lost. Needed with [`Capabilities::losing_answers`].
    ///
    /// # Panics
    /// Unless implemented.
    fn lose_next_answer(&self, outcome: Outcome) {
        panic!("the fixture declares that it loses answers and does not know how ({outcome:?})");
    }

    /// Commits a later leadership. Needed with [`Capabilities::journaling`].
    ///
    /// # Panics
    /// Unless implemented.
    fn supersede(&self, by: &FenceToken) {
        panic!(
            "the fixture declares that it journals and does not know how to supersede (epoch {})",
            by.epoch
        );
    }
}

/// What a backend can do, as its fixture declares it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    is_writable: bool,
    is_static: bool,
    journals: bool,
    can_be_missing: bool,
    can_lose_answers: bool,
    takes_documents_only: bool,
    only_name: Option<&'static str>,
}

impl Capabilities {
    /// Any entries, written and watched.
    pub const fn writable() -> Self {
        Self {
            is_writable: true,
            is_static: false,
            journals: false,
            can_be_missing: true,
            can_lose_answers: false,
            takes_documents_only: false,
            only_name: None,
        }
    }

    /// Any entries, watched, put there by others.
    pub const fn read_only() -> Self {
        Self { is_writable: false, ..Self::writable() }
    }

    /// It takes one entry only, called `name`.
    #[must_use]
    pub const fn of_one_entry(mut self, name: &'static str) -> Self {
        self.only_name = Some(name);
        self
    }

    /// It takes ring documents only: values that have the shape of one.
    #[must_use]
    pub const fn of_documents(mut self) -> Self {
        self.takes_documents_only = true;
        self
    }

    /// It is read once, when the handle is made.
    #[must_use]
    pub const fn read_once(mut self) -> Self {
        self.is_static = true;
        self
    }

    /// There always is a value.
    #[must_use]
    pub const fn never_missing(mut self) -> Self {
        self.can_be_missing = false;
        self
    }

    /// It commits events and honours fences.
    #[must_use]
    pub const fn journaling(mut self) -> Self {
        self.journals = true;
        self
    }

    /// The fixture can make an answer get lost.
    #[must_use]
    pub const fn losing_answers(mut self) -> Self {
        self.can_lose_answers = true;
        self
    }
}

/// One test of each behaviour, in a module of this name, for the fixture that the expression makes.
#[macro_export]
macro_rules! conformance_suite {
    ($module:ident, $fixture:expr) => {
        mod $module {
            use super::*;

            $crate::conformance_suite! { @each $fixture =>
                description_is_honest
                missing_is_not_found
                entries_come_back_by_name
                revision_names_content
                created_once
                replaced_from_the_expected_revision_only
                change_id_comes_back
                too_large_is_refused_beforehand
                read_only_refuses_writes
                lost_answer_is_resolved_by_reload
                superseded_leader_is_fenced
                cancelled_write_is_whole
                one_of_sixteen_creates
                one_of_sixteen_replaces
                no_reader_sees_a_torn_record
                every_change_in_a_row_wakes
                change_before_the_call_wakes
                dropped_watch_loses_nothing
                static_provider_never_wakes
                secrets_stay_secret
            }
        }
    };
    (@each $fixture:expr => $($behaviour:ident)*) => {
        $(
            #[test]
            fn $behaviour() {
                let fixture = $fixture;
                $crate::block_on($crate::conformance::$behaviour(&fixture));
            }
        )*
    };
}

/// A write by nobody in particular.
fn change(id: Uuid) -> Change {
    Change {
        id,
        actor: "conformance".to_owned(),
        reason: "a test".to_owned(),
        event: EventDraft::new("test.changed", "{}"),
        fence: None,
    }
}

/// The record that `tag` and `id` make: a JSON document that names its change, as the ring does, and where there
/// may be more entries, two that must always agree with it.
fn entries(fixture: &dyn ProviderFixture, tag: &str, id: Uuid) -> Entries {
    let filler = tag.repeat(8192 / tag.len());
    let document = document(&format!(r#""change_id":"{id}","tag":"{tag}","filler":"{filler}""#));
    let Some(name) = fixture.capabilities().only_name else {
        let mut entries = Entries::single(Entries::KEYRING, document);
        entries.insert("current.pem", tag);
        entries.insert("next.pem", filler);
        return entries;
    };
    Entries::single(name, document)
}

/// The shape of a ring document, with `members` in it.
fn document(members: &str) -> String {
    let ring = r#""format":1,"issuer":"https://conformance.invalid","incarnation":{"number":1},"revision":1,"keys":[]"#;
    format!("{{{ring},{members}}}")
}

/// A value that holds `text`: that alone, where the backend does not want a document around it.
fn value(fixture: &dyn ProviderFixture, text: &str) -> String {
    if fixture.capabilities().takes_documents_only {
        document(&format!(r#""filler":"{text}""#))
    } else {
        text.to_owned()
    }
}

/// The tag of a record made by [`entries`], after asserting that all of it is what that tag makes.
#[track_caller]
fn tag_of(fixture: &dyn ProviderFixture, record: &Record) -> String {
    let name = fixture.capabilities().only_name.unwrap_or(Entries::KEYRING);
    let value = record.entries.get(name).unwrap_or_else(|| panic!("no entry {name} in {record:?}"));
    let text = std::str::from_utf8(value.expose()).expect("the document is text");
    let member = |name: &str| {
        let (_, rest) = text.split_once(&format!(r#""{name}":""#)).expect("the document has the member");
        rest.split_once('"').expect("the member's value ends").0
    };
    let (tag, id) = (member("tag"), Uuid::parse_str(member("change_id")).expect("the id is a UUID"));
    assert_same_entries(&record.entries, &entries(fixture, tag, id));
    tag.to_owned()
}

#[track_caller]
fn assert_same_entries(found: &Entries, wanted: &Entries) {
    let is_same = found.len() == wanted.len()
        && wanted
            .iter()
            .all(|(name, value)| found.get(name).is_some_and(|other| other.expose() == value.expose()));
    assert!(is_same, "the record is torn: found {found:?}, want {wanted:?}");
}

#[track_caller]
fn assert_kind<T: std::fmt::Debug>(outcome: Result<T, ProviderError>, kind: ErrorKind) -> ProviderError {
    let error = outcome.expect_err("this must be refused");
    assert_eq!(error.kind(), kind, "{error}");
    error
}

/// Gives up long after any provider should have answered: a test that would hang fails instead.
async fn in_time<F: Future>(what: &str, future: F) -> F::Output {
    let limit = Duration::from_secs(60);
    let outcome = tokio::time::timeout(limit, future).await;
    outcome.unwrap_or_else(|_| panic!("{what}: nothing happened for {limit:?}"))
}
