//! Who acts, and what happened: the plain words that oneseal's replicas coordinate with.
//!
//! This crate sits at the bottom: every other room may use it, and it knows nothing of keys, JWTs or HTTP. By default it
//! holds what needs no database: the [`clock`], the [`FenceToken`] a leader's write carries, and the [`EventDraft`] that is
//! committed together with the change it tells of.
//!
//! With the feature `postgres` come the `database` itself, `migrate` for the tables of every crate, the event log
//! `events`, the `registry` of replicas with its beat, what was used `once`, and `settings`. They elect nobody, and change no schema unless
//! told to.
//!
//! ```
//! use oneseal_coordination::{Clock, SystemClock};
//!
//! let clock = SystemClock;
//! let started = clock.boot();
//! assert!(clock.boot() >= started);
//! ```

pub mod clock;
#[cfg(feature = "postgres")]
pub mod database;
mod event;
#[cfg(feature = "postgres")]
pub mod events;
mod fence;
#[cfg(feature = "postgres")]
pub mod migrate;
#[cfg(feature = "postgres")]
pub mod once;
#[cfg(feature = "postgres")]
pub mod registry;
#[cfg(feature = "postgres")]
pub mod settings;

pub use clock::{BootTime, Clock, SystemClock, UnixTime};
pub use event::EventDraft;
pub use fence::FenceToken;
