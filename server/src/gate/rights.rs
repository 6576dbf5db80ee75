//! What the service's user must be allowed in the database, as docs/postgres.md grants it: which of it keeps a server from
//! starting, and which only keeps it from changing the ring, writing events or taking assertions. A replica that only publishes does neither,
//! and is asked for less.

use oneseal::Findings;
use oneseal_coordination::database::{Database, DatabaseError, Lack, Lacking, Right, lacking};
use oneseal_keystore::Mode;
use oneseal_keystore::findings::Code;

use super::database::{DENIED, GRANT_MISSING, MIGRATION_PENDING, PLACE};

/// What is lacking.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// What keeps a server from starting.
    pub(super) errors: Findings,
    /// What it can start without, and will miss.
    pub(super) warnings: Findings,
}

/// Asks once what the user of `database` lacks for a replica of this `mode`.
///
/// # Errors
/// The database does not say.
///
/// # Cancel safety
/// Changes nothing.
pub(super) async fn judge(database: &Database, mode: Mode) -> Result<Judged, DatabaseError> {
    let grants = grants(mode);
    let wanted: Vec<_> = grants.iter().flat_map(Grant::rights).collect();
    let Lacking { user, lacks } = lacking(database, &wanted).await?;
    let mut judged = Judged::default();
    let tables: Vec<_> = lacks.iter().filter_map(missing_table).collect();
    if !tables.is_empty() {
        let message = format!(
            "not there, though oneseal.schema_version says that they were made: {}; put them back from a backup",
            tables.join(", ")
        );
        judged.errors.push(&MIGRATION_PENDING, PLACE, message);
    }
    let (needed, other): (Vec<_>, Vec<_>) = lacks.iter().partition(|lack| is_needed(grants, lack));
    tell(&mut judged.errors, &DENIED, grants, &user, &needed);
    tell(&mut judged.warnings, &GRANT_MISSING, grants, &user, &other);
    Ok(judged)
}

fn missing_table(lack: &Lack) -> Option<String> {
    match lack {
        Lack::Table(table) => Some(format!("oneseal.{table}")),
        Lack::Schema | Lack::Right(_) => None,
    }
}

fn is_needed(grants: &[Grant], lack: &Lack) -> bool {
    let Lack::Right(right) = lack else { return true };
    grants.iter().any(|grant| grant.table == right.table && grant.needed.contains(&right.privilege))
}

/// As the statements that would cure it.
fn tell(findings: &mut Findings, code: &'static Code, grants: &[Grant], user: &str, lacks: &[&Lack]) {
    let mut statements = Vec::new();
    if lacks.contains(&&Lack::Schema) {
        statements.push(format!("GRANT USAGE ON SCHEMA oneseal TO {user};"));
    }
    for grant in grants {
        let privileges: Vec<_> = lacks.iter().filter_map(|lack| grant.lacking(lack)).collect();
        if !privileges.is_empty() {
            statements.push(format!("GRANT {} ON oneseal.{} TO {user};", privileges.join(", "), grant.table));
        }
    }
    if !statements.is_empty() {
        findings.push(code, PLACE, format!("the user {user} lacks: {}", statements.join(" ")));
    }
}

/// What is granted on one table.
struct Grant {
    table: &'static str,
    /// Without these no replica starts: the way into the registry, and the beat.
    needed: &'static [&'static str],
    /// Without these it does, and fails when it changes the ring, logs an event or takes an assertion.
    other: &'static [&'static str],
}

impl Grant {
    fn rights(&self) -> impl Iterator<Item = Right> {
        let table = self.table;
        self.needed.iter().chain(self.other).map(move |privilege| Right { table, privilege })
    }

    fn lacking(&self, lack: &Lack) -> Option<&'static str> {
        match lack {
            Lack::Right(right) if right.table == self.table => Some(right.privilege),
            _ => None,
        }
    }
}

fn grants(mode: Mode) -> &'static [Grant] {
    match mode {
        Mode::PublicOnly => OF_PUBLIC_ONLY,
        Mode::Full => GRANTS,
    }
}

/// As in docs/postgres.md, for a replica that only publishes: its row among the others, and the ring to read.
const OF_PUBLIC_ONLY: &[Grant] = &[
    Grant { table: "schema_version", needed: &["SELECT"], other: &[] },
    Grant { table: "replicas", needed: &["SELECT", "INSERT", "UPDATE", "DELETE"], other: &[] },
    Grant { table: "event_head", needed: &["SELECT"], other: &[] },
    Grant { table: "rings", needed: &[], other: &["SELECT"] },
];

/// As in docs/postgres.md.
const GRANTS: &[Grant] = &[
    Grant { table: "schema_version", needed: &["SELECT"], other: &[] },
    Grant { table: "replicas", needed: &["SELECT", "INSERT", "UPDATE", "DELETE"], other: &[] },
    Grant { table: "event_head", needed: &["SELECT"], other: &["UPDATE"] },
    Grant { table: "event_floor", needed: &[], other: &["SELECT"] },
    Grant { table: "events", needed: &[], other: &["SELECT", "INSERT"] },
    Grant { table: "rings", needed: &[], other: &["SELECT", "INSERT", "UPDATE"] },
    Grant { table: "ring_history", needed: &[], other: &["SELECT", "INSERT"] },
    Grant { table: "settings", needed: &[], other: &["SELECT", "INSERT", "UPDATE"] },
    Grant { table: "worker_epochs", needed: &[], other: &["SELECT", "INSERT", "UPDATE"] },
    Grant { table: "used_once", needed: &[], other: &["SELECT", "INSERT", "UPDATE", "DELETE"] },
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// `GRANT A, B ON oneseal.x, oneseal.y TO somebody;`
    fn granted(line: &str, role: &str) -> Option<Vec<(String, String)>> {
        let (privileges, rest) = line.strip_prefix("GRANT ")?.split_once(" ON oneseal.")?;
        let (tables, _) = rest.split_once(&format!(" TO {role};"))?;
        let tables: Vec<_> = tables.split(", ").map(|table| table.trim_start_matches("oneseal.")).collect();
        let of_table = |table: &str| -> Vec<_> {
            privileges.split(", ").map(|privilege| (table.to_owned(), privilege.to_owned())).collect()
        };
        Some(tables.into_iter().flat_map(of_table).collect())
    }

    #[test]
    fn what_is_looked_for_is_what_the_page_grants() {
        let page = include_str!("../../../docs/postgres.md");
        for (mode, role) in [(Mode::Full, "oneseal_service"), (Mode::PublicOnly, "oneseal_publisher")] {
            let granted: BTreeSet<_> =
                page.lines().filter_map(|line| granted(line, role)).flatten().collect();
            let wanted: BTreeSet<_> = grants(mode)
                .iter()
                .flat_map(Grant::rights)
                .map(|right| (right.table.to_owned(), right.privilege.to_owned()))
                .collect();
            assert!(!granted.is_empty());
            assert_eq!(wanted, granted, "{role}");
        }
    }
}
