//! The provider's tables, as a component of the database's schema.
//!
//! `rings` has one row for each fleet; several fleets may share a database. Its `digest` is computed by the database
//! from the stored bytes, so that it is true whoever wrote them: a row that was changed by hand has another revision,
//! and a replica that follows it looks again.
//!
//! `ring_history` keeps what every revision said in public. It never has a private half, not even a sealed one: what
//! was erased from the ring must not live on beside it.

use oneseal_coordination::migrate::{COORDINATION, Component, Kind, Migration};

/// The tables of this crate, for the runner in [`oneseal_coordination::migrate`].
pub const COMPONENT: Component = Component {
    name: "providers",
    migrations: &[Migration { version: 1, kind: Kind::Expand, min_binary: "0.1.0", sql: RINGS_AND_HISTORY }],
};

/// The tables that a ring is read from and written to, the event log's among them.
pub(super) const USED: [Component; 2] = [COMPONENT, COORDINATION];

const RINGS_AND_HISTORY: &str = "
CREATE TABLE oneseal.rings (
    fleet text PRIMARY KEY CHECK (fleet <> ''),
    incarnation bigint NOT NULL,
    revision bigint NOT NULL,
    document bytea NOT NULL,
    digest text NOT NULL GENERATED ALWAYS AS (encode(sha256(document), 'hex')) STORED,
    change_id uuid NOT NULL,
    written_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    written_by text NOT NULL
);
COMMENT ON TABLE oneseal.rings IS 'One sealed key ring for each fleet. Change it by the command line of oneseal alone.';
CREATE TABLE oneseal.ring_history (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fleet text NOT NULL,
    incarnation bigint NOT NULL,
    revision bigint NOT NULL,
    digest text NOT NULL,
    public_document text NOT NULL,
    change_id uuid NOT NULL,
    written_at timestamptz NOT NULL,
    written_by text NOT NULL
);
COMMENT ON TABLE oneseal.ring_history IS 'What each revision said in public: no private halves, sealed or not.';
CREATE INDEX ring_history_by_ring ON oneseal.ring_history (fleet, incarnation, revision);
";
