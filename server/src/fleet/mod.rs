//! This replica among the others: it joins them before it serves, tells them what it serves, looks at what they do, and
//! leaves when its listener has closed.
//!
//! ```text
//! key loaded ─► join ─► judged by the others' rows ─► sockets ─► live ─► a beat every four seconds ─► closed ─► left
//!                           │ conflict: 78, 75             (its own row out, all rows in, judged again: told, never stopped)
//! ```
//! The database is asked by this task and by nothing that serves. When it is away, beats fail, are counted and told, and
//! what was last known stays: documents, verification and tokens do not notice (the ring's own age is the keystore's
//! matter).

mod beat;
mod join;
mod membership;
mod metrics;
mod naming;
mod news;
mod observe;
mod open;
pub(crate) mod peers;
mod store;

pub(crate) use beat::run as beat;
pub(crate) use membership::{Membership, View};
pub(crate) use metrics::FleetCollector;
pub(crate) use naming::{ops_url, outward};
pub(crate) use observe::Witness;
pub(crate) use open::{Look, instance_name, look, open};
pub(crate) use store::{Forgotten, StoreError, forget, rows_of};

/// A membership whose database is nowhere, and which has not been asked.
#[cfg(test)]
pub(crate) fn without_database() -> std::sync::Arc<Membership> {
    use oneseal_coordination::database::{Database, DatabaseOptions, DatabaseUrl};
    let url = DatabaseUrl::parse("postgres://u@127.0.0.1:9/d").expect("a URL");
    let database = Database::new(DatabaseOptions::new(url)).expect("nothing is opened");
    let boot_id = uuid::Uuid::nil();
    let store = store::Store::new(database, "f", "a", boot_id, None).expect("a name");
    std::sync::Arc::new(Membership::new(store, "f".to_owned(), "a".to_owned(), boot_id))
}
