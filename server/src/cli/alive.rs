//! The replicas of a ring, as the registry in its database tells a verb that has not joined them.

use oneseal_coordination::database::{Database, DatabaseError, DatabaseErrorKind};
use oneseal_coordination::registry::{self, Row};
use oneseal_keystore::fleet::Fleet;

use crate::app;
use crate::config::{Config, ProviderChoice};
use crate::exit::{Exit, Failure};
use crate::fleet::rows_of;
use crate::refusals::{FLEET_RUNNING, FLEET_UNKNOWN};

/// The names of those who have beaten within three periods. A database without a registry has no replicas either.
///
/// # Errors
/// The registry does not answer (69).
pub(super) async fn beating(database: &Database, fleets: &[String]) -> Result<Vec<String>, Failure> {
    let mut running = Vec::new();
    for fleet in fleets {
        match registry::rows(database, fleet).await {
            Ok(rows) => running.extend(rows.into_iter().filter(Row::beats).map(|row| row.instance)),
            Err(error) if error.kind() == DatabaseErrorKind::Schema => {}
            Err(error) => return Err(silent(database, error)),
        }
    }
    Ok(running)
}

/// Refuses a change beside replicas of the configured ring that run.
///
/// # Errors
/// Somebody has beaten within three periods (75), or the registry does not answer (69).
pub(super) async fn refuse_beside_replicas(config: &Config) -> Result<(), Failure> {
    let Some(database) = registry_of(config)? else { return Ok(()) };
    let running = beating(&database, &names(config)).await?;
    if running.is_empty() {
        return Ok(());
    }
    let message = format!(
        "nothing was done: replicas of this ring run, and --direct would pass them by: {}",
        running.join(", ")
    );
    Err(Failure::new(Exit::TryLater, message)
        .with_code(FLEET_RUNNING)
        .with_hint("Let one of them do it, by --admin SOCKET|URL, or stop them; one that was killed counts as stopped 12 s later."))
}

/// Everybody in the registry beside the configured ring; `None` where there is no registry.
///
/// # Errors
/// The registry does not answer (69).
pub(super) async fn fleet(config: &Config) -> Result<Option<Fleet>, Failure> {
    let Some(database) = registry_of(config)? else { return Ok(None) };
    let mut all: Option<Fleet> = None;
    for name in names(config) {
        match rows_of(&database, &name).await {
            Ok(fleet) => match &mut all {
                Some(all) => all.peers.extend(fleet.peers),
                None => all = Some(fleet),
            },
            Err(error) if error.kind() == DatabaseErrorKind::Schema => return Ok(None),
            Err(error) => return Err(silent(&database, error)),
        }
    }
    Ok(all)
}

/// The configured database, or the one that holds the ring.
fn registry_of(config: &Config) -> Result<Option<Database>, Failure> {
    let of_ring = match &config.provider {
        ProviderChoice::Postgres { database, .. } => Some(database.clone()),
        _ => None,
    };
    Ok(app::database(&config.settings)?.or(of_ring))
}

/// What replicas of the configured ring may call their fleet.
fn names(config: &Config) -> Vec<String> {
    let mut names = vec![config.fleet()];
    if let ProviderChoice::Postgres { fleet: Some(fleet), .. } = &config.provider
        && !names.contains(fleet)
    {
        names.push(fleet.clone());
    }
    names
}

/// The registry did not tell.
pub(super) fn silent(database: &Database, error: DatabaseError) -> Failure {
    let message = format!("whether replicas run cannot be told by the registry in {}", database.location());
    Failure::new(Exit::Unavailable, message).with_code(FLEET_UNKNOWN).because(error)
}
