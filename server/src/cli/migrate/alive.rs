//! Whether replicas of the fleet run, as far as anybody can tell.

use oneseal_providers::postgres::fleets;
use oneseal_providers::{PostgresUrl, ProviderUri};

use super::held::Held;
use crate::cli::alive::{beating as beating_in, silent};
use crate::exit::{Exit, Failure};
use crate::refusals::{FLEET_RUNNING, FLEET_UNKNOWN};

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
    for (side, uri) in [(Side::From, from), (Side::To, to)] {
        let ProviderUri::Postgres(url) = uri else { continue };
        let (fleets, running) = beating(url, held, side).await?;
        if running.is_empty() {
            continue;
        }
        let message = format!(
            "replicas of the fleet {} run, and would part from the ring: {}",
            fleets.join(" or "),
            running.join(", ")
        );
        return Err(Failure::new(Exit::TryLater, message).with_code(FLEET_RUNNING).with_hint(
            "Nothing was done. Stop them; a replica that was killed counts as stopped 12 s later. If another fleet of \
             that database is meant, name it by ?fleet=NAME in the URL.",
        ));
    }
    if !matches!(from, ProviderUri::Postgres(_)) && !is_stopped {
        let message = format!(
            "whether replicas still serve from {from} cannot be told: there is no registry. Stop them, then say so \
             with --fleet-is-stopped"
        );
        return Err(Failure::usage(message).with_code(FLEET_UNKNOWN));
    }
    Ok(())
}

/// What the fleet of the ring at `url` is called, and who of it has beaten within three periods, according to the registry
/// there. Other fleets that share the database are no matter of ours.
async fn beating(url: &PostgresUrl, held: &Held, side: Side) -> Result<(Vec<String>, Vec<String>), Failure> {
    let database = url.database().map_err(|error| Failure::usage(error.to_string()))?;
    let mut names = match url.fleet() {
        Some(fleet) => vec![fleet.to_owned()],
        None => vec![held.fleet()],
    };
    if side == Side::From && url.fleet().is_none() {
        // It was read without a name, so it is the only one there, whatever it is called.
        names.extend(fleets(&database).await.map_err(|error| silent(&database, error))?);
        names.sort_unstable();
        names.dedup();
    }
    let running = beating_in(&database, &names).await?;
    Ok((names, running))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    From,
    To,
}
