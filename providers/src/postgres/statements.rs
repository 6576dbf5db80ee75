//! The statements that write, each with the row's history and its hint in one: what a row says and what its history
//! says cannot come apart.
//!
//! Names are written in full: behind a pooler the `search_path` may be somebody else's. Values go as parameters in
//! binary form and never into the text, which servers log.

/// Reads the row, and what tells whether it may be believed: whether the server takes writes, and which binaries may use
/// the tables, as [`oneseal_coordination::migrate::judge_binary`] wants it.
macro_rules! statement {
    ($more:literal) => {
        concat!(
            "SELECT fleet, incarnation, revision, digest",
            $more,
            ", current_setting('default_transaction_read_only') AS read_only, \
             (SELECT array_agg(component || ' ' || version || ' ' || min_binary) FROM oneseal.schema_version) \
                 AS oldest_binaries \
             FROM oneseal.rings WHERE $1::text IS NULL OR fleet = $1 ORDER BY fleet LIMIT 2"
        )
    };
}

/// The new row, if there is none. Parameters: fleet, incarnation, revision, document, change id, actor, public document.
pub(super) const CREATE: &str = "
WITH written AS (
    INSERT INTO oneseal.rings (fleet, incarnation, revision, document, change_id, written_at, written_by)
    VALUES ($1, $2, $3, $4, $5::text::uuid, clock_timestamp(), $6)
    ON CONFLICT (fleet) DO NOTHING
    RETURNING fleet, incarnation, revision, digest, change_id, written_at, written_by
), kept AS (
    INSERT INTO oneseal.ring_history
        (fleet, incarnation, revision, digest, public_document, change_id, written_at, written_by)
    SELECT fleet, incarnation, revision, digest, $7, change_id, written_at, written_by FROM written
)
SELECT digest, pg_notify('oneseal_ring', fleet)::text FROM written";

/// The row in place of the one with the expected incarnation, revision and digest. Parameters: as of [`CREATE`], then
/// those three.
pub(super) const REPLACE: &str = "
WITH written AS (
    UPDATE oneseal.rings
    SET incarnation = $2, revision = $3, document = $4, change_id = $5::text::uuid,
        written_at = clock_timestamp(), written_by = $6
    WHERE fleet = $1 AND incarnation = $8 AND revision = $9 AND digest = $10
    RETURNING fleet, incarnation, revision, digest, change_id, written_at, written_by
), kept AS (
    INSERT INTO oneseal.ring_history
        (fleet, incarnation, revision, digest, public_document, change_id, written_at, written_by)
    SELECT fleet, incarnation, revision, digest, $7, change_id, written_at, written_by FROM written
)
SELECT digest, pg_notify('oneseal_ring', fleet)::text FROM written";

/// The row of one fleet, or with a null for its name up to two of all fleets: one is the only one, two are too many. A
/// document above the limit is not sent. Parameters: fleet, limit in bytes.
pub(super) const LOAD: &str = statement!(
    ", change_id::text, octet_length(document), CASE WHEN octet_length(document) <= $2 THEN document END AS document"
);

/// What names the revision, without the document. Parameter: fleet, or null for the only one.
pub(super) const LOOK: &str = statement!("");

/// The names of the fleets, up to two.
pub(super) const FLEETS: &str = "SELECT fleet FROM oneseal.rings ORDER BY fleet LIMIT 2";

/// Where a write tells the fleet's name.
pub(super) const CHANNEL: &str = "oneseal_ring";
