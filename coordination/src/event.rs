//! What happened, told together with the change itself.

/// An event that a change wants recorded by the same write. A backend that journals commits it in the same
/// transaction; others drop it, since the ring document's own `log` already carries the change.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventDraft {
    /// What kind of event, dotted, such as `ring.created`.
    pub kind: String,
    /// A JSON object as text. Never holds key material.
    pub payload: String,
}

impl EventDraft {
    /// An event of `kind` whose payload is the JSON object `payload`.
    pub fn new(kind: impl Into<String>, payload: impl Into<String>) -> Self {
        Self { kind: kind.into(), payload: payload.into() }
    }
}
