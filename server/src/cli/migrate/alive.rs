//! Whether replicas of the fleet run, as far as anybody can tell.

use oneseal_providers::postgres::fleets;
use oneseal_providers::{PostgresUrl, ProviderUri};

use super::held::Held;
use crate::cli::alive::{beating as beating_in, silent};
use crate::exit::{Exit, Failure};

/// Refuses while a replica runs, naming who, and where no registry can tell unless the operator does.
///
/// # Errors
/// A replica has beaten within three periods (75), nobody can tell (64), or a registry does not answer (69).
pub(super) async fn refuse_running_fleet(
    from: &ProviderUri,
    to: &ProviderUri,
    held: &Held,
    is_stopped: bool,
) -> Result<(), Failure> {
    let mut running = Vec::new();
    for side in [from, to] {
        let ProviderUri::Postgres(url) = side else { continue };
        running.extend(beating(url, held).await?);
    }
    if !running.is_empty() {
        let message =
            format!("replicas of this fleet run, and would part from the ring: {}", running.join(", "));
        return Err(Failure::new(Exit::TryLater, message).with_hint(
            "Nothing was done. Stop them; a replica that was killed counts as stopped 12 s later.",
        ));
    }
    if !matches!(from, ProviderUri::Postgres(_)) && !is_stopped {
        let message = format!(
            "whether replicas still serve from {from} cannot be told: there is no registry. Stop them, then say so \
             with --fleet-is-stopped"
        );
        return Err(Failure::usage(message));
    }
    Ok(())
}

/// Who has beaten within three periods, according to the registry beside this ring.
async fn beating(url: &PostgresUrl, held: &Held) -> Result<Vec<String>, Failure> {
    let database = url.database().map_err(|error| Failure::usage(error.to_string()))?;
    let mut names = vec![held.fleet()];
    match url.fleet() {
        Some(fleet) => names.push(fleet.to_owned()),
        // The only one there, whatever it is called.
        None => names.extend(fleets(&database).await.map_err(|error| silent(&database, error))?),
    }
    names.sort_unstable();
    names.dedup();
    beating_in(&database, &names).await
}
