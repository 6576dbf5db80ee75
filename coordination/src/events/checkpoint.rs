//! Checkpoints: events that hold the whole public state of a ring, so that what came before them may be cut off.
//!
//! This crate knows no rings: who writes one asks whether a checkpoint is due and gives what it is to hold, in the
//! transaction that writes the ring.

use serde_json::value::RawValue;
use sqlx::Row as _;

use super::draft::DraftError;
use super::read::unexpected;
use crate::EventDraft;
use crate::database::{DatabaseError, WriteTx};

/// The kind of a checkpoint.
pub const CHECKPOINT: &str = "ring.checkpoint";

/// A checkpoint of a ring that is now at (incarnation, revision), whose document has that SHA-256, in hex, and whose public document, a JSON object without any private
/// part, is `document`.
///
/// # Errors
/// The document is no JSON object.
pub fn checkpoint(
    incarnation: i64,
    revision: i64,
    document_sha256: &str,
    document: &str,
) -> Result<EventDraft, DraftError> {
    let raw: &RawValue = serde_json::from_str(document).map_err(|_| DraftError::Payload)?;
    if !raw.get().starts_with('{') {
        return Err(DraftError::Payload);
    }
    let sha256 = serde_json::Value::from(document_sha256);
    let payload = format!(
        "{{\"document\":{},\"document_sha256\":{sha256},\"incarnation\":{incarnation},\"revision\":{revision}}}",
        raw.get()
    );
    Ok(EventDraft::new(CHECKPOINT, payload))
}

impl WriteTx {
    /// Whether the log needs a checkpoint of the ring of `issuer`: there is none yet, so that a log begins with one, or
    /// more than [`EVERY`] events have come since. Then append a [`checkpoint`], after the event of the change itself.
    ///
    /// # Errors
    /// The database does not answer, or refuses.
    ///
    /// # Cancel safety
    /// Dropped, the transaction is of no further use; it is rolled back when it is dropped.
    pub async fn is_checkpoint_due(&mut self, issuer: &str) -> Result<bool, DatabaseError> {
        let query = sqlx::query(IS_DUE).bind(CHECKPOINT).bind(issuer).bind(EVERY);
        let row = self.fetch_optional(query).await?;
        // One row comes always; without it, one checkpoint more does no harm.
        row.map_or(Ok(true), |row| row.try_get(0).map_err(unexpected))
    }
}

/// Looks no further back than it must, so that a long log costs nothing.
const IS_DUE: &str = "\
SELECT NOT EXISTS (
    SELECT 1 FROM oneseal.events
    WHERE seq > (SELECT seq FROM oneseal.event_head) - $3 AND kind = $1 AND issuer = $2
)";

/// How many events there may be between two checkpoints of one ring.
pub const EVERY: i64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_holds_the_document_as_an_object() {
        let draft = checkpoint(1, 7, "ab\"", r#"{"format":1}"#).expect("an object");
        let payload: serde_json::Value = serde_json::from_str(&draft.payload).expect("JSON");
        assert_eq!(draft.kind, CHECKPOINT);
        assert_eq!(payload["document"]["format"], 1);
        assert_eq!((&payload["document_sha256"], &payload["revision"]), (&"ab\"".into(), &7.into()));
        for bad in ["", "[]", "1", "{", "{},\"x\":{}"] {
            assert_eq!(checkpoint(1, 1, "", bad), Err(DraftError::Payload), "{bad}");
        }
    }
}
