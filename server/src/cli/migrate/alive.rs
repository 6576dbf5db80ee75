//! Whether replicas of the fleet run, as far as anybody can tell.

use oneseal_coordination::database::{Database, DatabaseError, DatabaseErrorKind};
use oneseal_coordination::registry::{self, ReplicaState, Row, SILENT_AFTER};
use oneseal_providers::postgres::fleets;
use oneseal_providers::{PostgresUrl, ProviderUri};

use super::held::Held;
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
    let mut running = Vec::new();
    for fleet in names {
        match registry::rows(&database, &fleet).await {
            Ok(rows) => running.extend(rows.into_iter().filter(is_running).map(|row| row.instance)),
            // A database without a registry has no replicas either.
            Err(error) if error.kind() == DatabaseErrorKind::Schema => {}
            Err(error) => return Err(silent(&database, error)),
        }
    }
    Ok(running)
}

fn is_running(row: &Row) -> bool {
    row.state != ReplicaState::Gone && row.beat_age < SILENT_AFTER
}

fn silent(database: &Database, error: DatabaseError) -> Failure {
    let message = format!("whether replicas run cannot be told by the registry in {}", database.location());
    Failure::new(Exit::Unavailable, message).because(error)
}
