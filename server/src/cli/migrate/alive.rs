//! Whether replicas of the fleet run, as far as anybody can tell.

use oneseal_coordination::database::Database;
use oneseal_providers::postgres::fleets;

use super::side::Side;
use crate::cli::alive::{beating as beating_in, silent};
use crate::config::PartialConfig;
use crate::exit::{Exit, Failure};
use crate::refusals::{FLEET_RUNNING, FLEET_UNKNOWN};

/// Refuses while a replica of `fleet` runs, by whatever name either side has for it, naming who; and where no registry
/// can tell unless the operator does.
///
/// # Errors
/// A replica has beaten within three periods (75), nobody can tell (64), or a registry does not answer (69).
pub(super) async fn refuse_running_fleet(
    [from, to]: [&Side; 2],
    fleet: &str,
    config: &PartialConfig,
    is_stopped: bool,
) -> Result<(), Failure> {
    for side in [from, to] {
        let Some(database) = side.database(config)? else { continue };
        let mut names = vec![side.fleet().unwrap_or(fleet).to_owned()];
        if side == from && side.fleet().is_none() {
            add_only_fleet(&mut names, &database).await?;
        }
        let running = beating_in(&database, &names).await?;
        if running.is_empty() {
            continue;
        }
        let message = format!(
            "replicas of the fleet {} run, and would part from the ring: {}",
            names.join(" or "),
            running.join(", ")
        );
        return Err(Failure::new(Exit::TryLater, message).with_code(FLEET_RUNNING).with_hint(
            "Nothing was done. Stop them; a replica that was killed counts as stopped 12 s later. If another fleet of \
             that database is meant, name it by ?fleet=NAME in the URL.",
        ));
    }
    if !from.is_database() && !is_stopped {
        let message = format!(
            "whether replicas still serve from {from} cannot be told: there is no registry. Stop them, then say so \
             with --fleet-is-stopped"
        );
        return Err(Failure::usage(message).with_code(FLEET_UNKNOWN));
    }
    Ok(())
}

/// A ring that was read without a name may be the only one there, whatever it is called.
async fn add_only_fleet(names: &mut Vec<String>, database: &Database) -> Result<(), Failure> {
    let there = fleets(database).await.map_err(|error| silent(database, error))?;
    if let [only] = there.as_slice()
        && !names.contains(only)
    {
        names.push(only.clone());
        names.sort_unstable();
    }
    Ok(())
}
