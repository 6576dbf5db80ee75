//! The database at the gate: is it there, may we use it, and do its tables and this binary go together.

use oneseal::Findings;
use oneseal_coordination::database::{Database, DatabaseError, DatabaseErrorKind, DatabaseOptions};
use oneseal_coordination::migrate::{COORDINATION, Component, SchemaFault, check};
use oneseal_coordination::once::ONCE;
use oneseal_keystore::DATABASE_BELOW_MIN_BINARY as BELOW_MIN_BINARY;
pub(super) use oneseal_keystore::DATABASE_MIGRATION_PENDING as MIGRATION_PENDING;
use oneseal_keystore::DATABASE_UNUSABLE as UNUSABLE;
use oneseal_keystore::Mode;
use oneseal_keystore::findings::{Code, Exit};
use oneseal_providers::postgres::migrations::COMPONENT as PROVIDERS;

use super::rights::{self, Judged};

/// The tables of every crate below, in the order in which they are made.
pub(crate) const COMPONENTS: &[Component] = &[COORDINATION, ONCE, PROVIDERS];

/// The rows that the database can cause.
pub(super) static CODES: &[&Code] = &[
    &UNAVAILABLE,
    &STANDBY,
    &DENIED,
    &GRANT_MISSING,
    &NOT_WRITABLE,
    &UNTRUSTED,
    &DATABASE_IN_CLEAR,
    &POOLED_FENCE,
    &TOO_OLD,
];

/// What keeps `serve` from using the database; one attempt. Nothing, if none is configured.
///
/// # Cancel safety
/// Changes nothing.
pub(crate) async fn judge(options: Option<&DatabaseOptions>, mode: Mode) -> Findings {
    let Some(options) = options else { return Findings::new() };
    let mut findings = Findings::new();
    match Database::new(options.clone()) {
        Ok(database) => findings.extend(judge_tables(&database, mode).await),
        Err(error) => push_error(&error, &mut findings),
    }
    findings
}

/// The tables as they are said to be, and then whether they are there and may be used.
async fn judge_tables(database: &Database, mode: Mode) -> Findings {
    let mut findings = Findings::new();
    let error = match check(database, COMPONENTS).await {
        Ok(faults) => {
            faults.iter().for_each(|fault| push_fault(fault, &mut findings));
            None
        }
        Err(error) => Some(error),
    };
    // Tables that are yet to be made are missing, and cannot be granted.
    if findings.has_errors() {
        return findings;
    }
    let is_denied = error.as_ref().is_none_or(|error| error.kind() == DatabaseErrorKind::Denied);
    let judged = if is_denied { rights::judge(database, mode).await } else { Ok(Judged::default()) };
    match (judged, error) {
        (Ok(judged), _) if judged.errors.has_errors() => findings.extend(judged.errors),
        (_, Some(error)) | (Err(error), None) => push_error(&error, &mut findings),
        (Ok(_), None) => {}
    }
    findings
}

/// What does not keep `serve` from starting: asked once the database has been found good.
///
/// # Cancel safety
/// Changes nothing.
pub(crate) async fn advise(options: Option<&DatabaseOptions>, mode: Mode) -> Findings {
    let mut findings = Findings::new();
    let Some(database) = options.and_then(|options| Database::new(options.clone()).ok()) else {
        return findings;
    };
    // One that does not answer now has answered before: nothing to advise.
    if database.is_direct_shared().await.unwrap_or_default() {
        let message = "a session opened there is lent out between transactions, so that it hears no hints";
        findings.push(&POOLED_FENCE, DIRECT_PLACE, message);
    }
    findings.extend(rights::judge(&database, mode).await.unwrap_or_default().warnings);
    findings
}

/// As a finding, for verbs that need the database.
pub(crate) fn of_error(error: &DatabaseError) -> Findings {
    let mut findings = Findings::new();
    push_error(error, &mut findings);
    findings
}

/// As a finding, for verbs that change the schema.
pub(crate) fn of_fault(fault: &SchemaFault) -> Findings {
    let mut findings = Findings::new();
    push_fault(fault, &mut findings);
    findings
}

fn push_error(error: &DatabaseError, findings: &mut Findings) {
    let code = match error.kind() {
        DatabaseErrorKind::Standby => &STANDBY,
        DatabaseErrorKind::Denied => &DENIED,
        DatabaseErrorKind::Untrusted => &UNTRUSTED,
        DatabaseErrorKind::Configuration => &UNUSABLE,
        DatabaseErrorKind::Schema => &MIGRATION_PENDING,
        DatabaseErrorKind::Outgrown => &BELOW_MIN_BINARY,
        _ => &UNAVAILABLE,
    };
    findings.push(code, PLACE, error.to_string());
}

fn push_fault(fault: &SchemaFault, findings: &mut Findings) {
    let code = match fault {
        SchemaFault::MigrationPending { .. } => &MIGRATION_PENDING,
        SchemaFault::TooOld { .. } => &TOO_OLD,
        // Whatever else keeps this binary from these tables.
        _ => &BELOW_MIN_BINARY,
    };
    findings.push(code, PLACE, fault.to_string());
}

pub(super) static NOT_WRITABLE: Code = Code::warning(
    "database.not_writable",
    "A change of the ring was tried out and taken back, and did not go through: every key verb would be refused, `keys revoke` in an emergency among them.",
    "The message says what stands against it. A log whose head somebody has written: docs/events.md, \"A log that is broken\". Columns that are missing: put the tables back from a backup, or run `oneseal db migrate`. Row level security is for none of these tables: take it off.",
);

/// Where a finding about the database is: its URL holds a password, its name is in the message.
pub(super) const PLACE: &str = "database.url";

const DIRECT_PLACE: &str = "database.direct_url";

static UNAVAILABLE: Code = Code::error(
    "database.unavailable",
    Exit::Unavailable,
    "The database does not answer, or not as PostgreSQL does.",
    "See whether it runs and can be reached from here; the start asks again until process.boot_timeout is over.",
);
static STANDBY: Code = Code::error(
    "database.standby",
    Exit::Unavailable,
    "The database answers and takes no writes: it is a standby, or a primary that was demoted.",
    "Let database.url lead to the primary; during a failover the start asks again until process.boot_timeout is over.",
);
pub(super) static DENIED: Code = Code::error(
    "database.denied",
    Exit::Denied,
    "The database does not accept the user, or does not let it read and write the tables of the schema oneseal.",
    "Where the user or its password is refused, correct database.url. Where a table is, run the GRANT that names it in docs/postgres.md, \"Roles and grants\". `db migrate` and `events prune` want the URL of the tables' owner.",
);
pub(super) static GRANT_MISSING: Code = Code::warning(
    "database.grant_missing",
    "The user may not do with the tables all that a server does: it starts and serves, and changing the ring or logging \
     an event fails.",
    "Let the owner of the tables run the statements that the message names (docs/postgres.md#roles-and-grants).",
);
static UNTRUSTED: Code = Code::refused(
    "database.untrusted",
    "The database speaks no TLS, or its certificate leads to no trusted authority or is another host's.",
    "Name the authority by sslrootcert=PATH in database.url and the host as the certificate does; where the network itself is trusted, write sslmode=danger-disable.",
);
pub(crate) static DATABASE_IN_CLEAR: Code = Code::warning(
    "database.in_clear",
    "Password and data go to the database without TLS (sslmode=danger-disable): who can listen on the way can also answer in its place.",
    "Nothing, where the network itself is trusted; else let the server speak TLS and write sslmode=verify-full.",
);
static POOLED_FENCE: Code = Code::warning(
    "database.pooled_fence",
    "The session that should be this replica's own is shared by a pooler: changes are seen by polling alone, and no worker may lead through it.",
    "Set database.direct_url to the server itself, beside the pooler, or the pooler's pool_mode to session.",
);
static TOO_OLD: Code = Code::refused(
    "database.too_old",
    "The server is older than PostgreSQL 14.",
    "Upgrade it: PostgreSQL 13 and older are maintained no more.",
);
