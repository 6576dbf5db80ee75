//! The public members of a ring document of format 1, as they stand in its JSON.
//!
//! Only what the code needs to read has a field here. Members that a later version adds stay in the map from which
//! a view is read, and come back unchanged when the document is written again.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::KeyState;
use crate::Rotation;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct DocumentView {
    pub(crate) format: u64,
    pub(crate) jwks_writer: u64,
    pub(crate) issuer: String,
    pub(crate) incarnation: IncarnationView,
    pub(crate) revision: u64,
    pub(crate) prev_digest: Option<String>,
    pub(crate) change_id: String,
    pub(crate) written_at: i64,
    pub(crate) writer: Option<WriterView>,
    pub(crate) ring_key: RingKeyView,
    pub(crate) keys: Vec<KeyView>,
    pub(crate) tombstones: Vec<TombstoneView>,
    pub(crate) rotation: Rotation,
    pub(crate) log: Vec<LogEntry>,
}

/// A ring's life between restores.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct IncarnationView {
    pub(crate) number: u64,
    pub(crate) id: String,
}

/// The leadership under which the revision was written; `null` when nobody leads.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WriterView {
    pub(crate) fleet: String,
    pub(crate) epoch: u64,
    pub(crate) holder: String,
}

/// The key that signs the document.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RingKeyView {
    pub(crate) kid: String,
    pub(crate) public: Map<String, Value>,
    pub(crate) endorsements: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeyView {
    pub(crate) kid: String,
    pub(crate) alg: String,
    pub(crate) state: KeyState,
    pub(crate) public: Map<String, Value>,
    pub(crate) created_at: i64,
    pub(crate) published_at: Option<i64>,
    pub(crate) activated_at: Option<i64>,
    pub(crate) retiring_at: Option<i64>,
    pub(crate) erase_private_after: Option<i64>,
    pub(crate) remove_after: Option<i64>,
    pub(crate) ttl_high_water_s: Option<u64>,
    /// Of a pending key: the earliest time at which it may sign, by the times that held when it was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) activate_after: Option<i64>,
    /// Of a pending key that takes the place of one that was burned: when that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) emergency_at: Option<i64>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub(crate) adopted_kid: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_false(value: &bool) -> bool {
    !value
}

/// A key that is gone for ever.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct TombstoneView {
    pub(crate) kid: String,
    pub(crate) thumbprint: String,
    pub(crate) state: TombstoneState,
    pub(crate) at: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TombstoneState {
    Retired,
    Revoked,
}

/// One change, chained to the one before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogEntry {
    pub(crate) at: i64,
    pub(crate) kind: String,
    pub(crate) kid: Option<String>,
    pub(crate) actor: String,
    pub(crate) reason: String,
    pub(crate) change_id: String,
    /// What was asked for, by its fingerprint, in the first entry of a request's change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<String>,
    pub(crate) prev_hash: String,
    pub(crate) hash: String,
}
