//! What makes a replaced leader's late write fail.

/// Proof of leadership that a write carries: the store refuses it once a later epoch has been committed.
///
/// The numbering follows Kleppmann's fencing tokens: an epoch is handed out at takeover only and rises by one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FenceToken {
    /// The fleet whose worker is leading.
    pub fleet: String,
    /// The worker that leads, such as `rotator`.
    pub worker: String,
    /// The leadership's number; a higher one supersedes it.
    pub epoch: u64,
    /// Who holds it, for messages only.
    pub holder: String,
}

impl FenceToken {
    /// The token of `holder`'s leadership number `epoch` over `worker` in `fleet`.
    pub fn new(
        fleet: impl Into<String>,
        worker: impl Into<String>,
        epoch: u64,
        holder: impl Into<String>,
    ) -> Self {
        Self { fleet: fleet.into(), worker: worker.into(), epoch, holder: holder.into() }
    }
}
