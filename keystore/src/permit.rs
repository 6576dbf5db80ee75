//! The only licence to make a key.

use crate::ring::{KeyState, Origin, Ring, RingKey};

/// Proof that a new key is wanted: [`material::generate`](crate::material::generate) takes one, and only
/// [`init`](crate::init) can make it, or a [`Draft`](crate::ring::edit::Draft) of a valid ring that was opened with its
/// ring key and has a key that is active or pending, or a rewrap of one. No boot, load, follow, mint or publish path holds one, so none of
/// them can ever replace a missing key by a fresh one.
///
/// Generating with a permit in hand compiles:
/// ```
/// # use oneseal_keystore::{Algorithm, GenerationPermit, material};
/// fn with(permit: &GenerationPermit) {
///     let _ = material::generate(permit, Algorithm::Es256);
/// }
/// ```
/// Making the permit does not:
/// ```compile_fail,E0423
/// # use oneseal_keystore::{Algorithm, GenerationPermit, material};
/// let _ = material::generate(&GenerationPermit(()), Algorithm::Es256);
/// ```
/// nor does asking for a default or for a copy that outlives the one who was allowed:
/// ```compile_fail,E0277
/// # use oneseal_keystore::GenerationPermit;
/// fn needs<T: Default>() {}
/// needs::<GenerationPermit>();
/// ```
/// ```compile_fail,E0277
/// # use oneseal_keystore::GenerationPermit;
/// fn needs<T: Clone>() {}
/// needs::<GenerationPermit>();
/// ```
#[derive(Debug)]
pub struct GenerationPermit(());

impl GenerationPermit {
    /// For `init` alone, which writes what it makes by `create` and so can only ever be first.
    pub(crate) fn for_first_ring() -> Self {
        Self(())
    }

    /// For what makes a key beside others: only of a ring that was read whole, with a private half open that signs now
    /// or soon. A ring that is missing, or that does not open, yields none.
    pub(crate) fn for_opened_ring(ring: &Ring) -> Option<Self> {
        let is_open = |key: &RingKey| key.private.is_some() || key.kept.is_some();
        let signs = |key: &RingKey| matches!(key.state, KeyState::Active | KeyState::Pending);
        let is_document = matches!(ring.origin, Origin::Document { .. });
        (is_document && ring.keys.iter().any(|key| signs(key) && is_open(key))).then_some(Self(()))
    }

    /// For a draft alone, which has looked that there is a key to follow.
    pub(crate) fn for_next_key() -> Self {
        Self(())
    }
}
