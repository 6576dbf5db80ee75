//! The schema: which tables there are, which binaries may use them, and how they come to be.
//!
//! Each crate ships its own tables as a [`Component`], a list of numbered migrations. An *expand* adds and is invisible to
//! binaries that do not know it, so it is applied under a live fleet; a *contract* takes away what the previous release
//! still used, and is applied a release later, while nobody beats. Each row of `oneseal.schema_version` says which binary
//! is the oldest that can live with it: that, and not the number, decides whether a binary may run. So a binary that is
//! older than the schema works on, until something it needs is gone.
//!
//! Each migration is one transaction that first *tries* an advisory lock of that transaction. A session's lock would stay
//! behind on the server connection of a pooler, and to wait for one in the server would hold back everybody queued
//! behind; so whoever does not get it says who has it, and tries again.

mod check;
mod outgrown;
mod run;
mod version;

pub use check::{ComponentStatus, SchemaFault, Status, check, status};
pub use outgrown::judge_binary;
pub use run::{MigrateError, MigrateOptions, Progress, migrate};
pub use version::BinaryVersion;

/// The tables of one crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Component {
    /// Its name, never to be changed.
    pub name: &'static str,
    /// In the order of their versions, which count from 1 without a gap.
    pub migrations: &'static [Migration],
}

/// One step from one version of a component's tables to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// The version that it leads to.
    pub version: i32,
    /// Whether binaries that do not know it notice.
    pub kind: Kind,
    /// The oldest binary that works with the tables after it, such as `0.1.0`.
    pub min_binary: &'static str,
    /// Statements without values, which name every table in full.
    pub sql: &'static str,
}

/// What a migration does to those who do not know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It adds: applied under a live fleet.
    Expand,
    /// It takes away: applied while nobody beats.
    Contract,
}

impl Kind {
    /// Its word in `oneseal.schema_version`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Expand => "expand",
            Self::Contract => "contract",
        }
    }
}

/// The tables of this crate.
pub const COORDINATION: Component = Component {
    name: "coordination",
    migrations: &[
        Migration { version: 1, kind: Kind::Expand, min_binary: "0.1.0", sql: include_str!("../schema.sql") },
        Migration { version: 2, kind: Kind::Expand, min_binary: "0.1.0", sql: crate::events::TABLES },
    ],
};
