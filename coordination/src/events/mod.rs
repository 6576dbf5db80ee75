//! What happened: one gapless, hash-chained log for the whole database, written by the transactions that it tells of.
//!
//! The number of an event comes from one row, `oneseal.event_head`, which a transaction raises by its last statement before
//! COMMIT. A sequence would hand numbers out earlier: a reader that has seen 2 would then miss the 1 that commits after
//! it, and a roll-back would leave a hole that looks the same. With the row, the order of numbers is the order of
//! commits, nothing is ever missing, and so whatever *is* missing has been taken away. The price is that writers stand in
//! a queue from that statement to their COMMIT; tokens that are minted are therefore no events.
//!
//! ```text
//! WriteTx: … change … ─► append (head + insert, one statement) ─► COMMIT      at = database clock, hash = SHA-256 in SQL
//!                              └─ pg_notify: a hint
//! Follower: one poll per process ─► broadcast ─► Subscription ─► events after a Position, each chained to the last
//!           (the truth)                          (what it missed it reads from the database)
//! ```
//! [`Event`] is a line, [`Verifier`] the judge of all that is read, [`Position`] and [`Cursor`] say where a reader stands.

mod append;
mod chain;
mod checkpoint;
mod cursor;
mod draft;
mod follow;
mod head;
mod hint;
mod line;
mod page;
mod prune;
mod read;

pub use append::{AppendError, AppendedEvent};
pub use chain::{Broken, Fault, ReadError, Verifier, read_lines};
pub use checkpoint::{CHECKPOINT, EVERY, checkpoint};
pub use cursor::{Cursor, NotACursor, Position};
pub use draft::DraftError;
pub use follow::{Delivery, Follower, Subscription};
pub use head::audit;
pub use line::{Event, Hash, NotAHash, NotALine};
pub use page::{From, Reset, ResetReason};
pub use prune::{Before, PruneError, PrunePlan, plan_prune, prune};
pub use read::{LogError, PAGE, RawPage, Read, Reader, read_raw};

/// The tables of the log, with nothing in them: `oneseal.events`, `oneseal.event_head` and `oneseal.event_floor`. For the
/// component of migrations of this crate; the schema `oneseal` must be there.
pub const TABLES: &str = include_str!("schema.sql");
