//! What this user may do with the tables: asked for at once, and before anything fails for lack of it.

use sqlx::Row;

use super::{Database, DatabaseError, DatabaseErrorKind};

/// A right to a table of the schema `oneseal`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// The table, without its schema.
    pub table: &'static str,
    /// `SELECT`, `INSERT`, `UPDATE` or `DELETE`.
    pub privilege: &'static str,
}

/// What stands between this user and a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The schema may not be used at all.
    Schema,
    /// There is no such table.
    Table(&'static str),
    /// The table is there, and this may not be done with it.
    Right(Right),
}

/// What this user lacks of `wanted`, in that order, and under which name the database knows it. One query.
///
/// # Errors
/// As [`Database::read`].
///
/// # Cancel safety
/// Changes nothing.
pub async fn lacking(database: &Database, wanted: &[Right]) -> Result<Lacking, DatabaseError> {
    let (tables, privileges): (Vec<_>, Vec<_>) =
        wanted.iter().map(|right| (right.table.to_owned(), right.privilege.to_owned())).unzip();
    let mut tx = database.read().await?;
    let rows = tx.fetch_all(sqlx::query(LOOK).bind(tables).bind(privileges)).await?;
    tx.end().await;
    read(&rows, wanted).map_err(|error| {
        let message = format!("the database does not tell what its user may do: {error}");
        DatabaseError::new(DatabaseErrorKind::Internal, message)
    })
}

/// What a user lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lacking {
    /// The user, as GRANT names it.
    pub user: String,
    /// What is missing: the schema alone, if that may not be used.
    pub lacks: Vec<Lack>,
}

fn read(rows: &[sqlx::postgres::PgRow], wanted: &[Right]) -> Result<Lacking, sqlx::Error> {
    let mut found = Lacking::default();
    for (row, right) in rows.iter().zip(wanted) {
        found.user = row.try_get("who")?;
        if !row.try_get("has_schema")? {
            found.lacks = vec![Lack::Schema];
            return Ok(found);
        }
        match row.try_get::<Option<bool>, _>("is_granted")? {
            None => found.lacks.push(Lack::Table(right.table)),
            Some(false) => found.lacks.push(Lack::Right(*right)),
            Some(true) => {}
        }
    }
    found.lacks.dedup();
    Ok(found)
}

/// By the catalogs, which everybody may read: a name that is resolved wants the right to its schema. A schema that is not
/// there is for the migrations to tell.
const LOOK: &str = "SELECT quote_ident(current_user) AS who, \
        coalesce(has_schema_privilege(n.oid, 'USAGE'), true) AS has_schema, \
        has_table_privilege(c.oid, w.privilege) AS is_granted \
    FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS w(name, privilege, place) \
        LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = 'oneseal' \
        LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = w.name AND c.relkind IN ('r', 'p', 'v') \
    ORDER BY w.place";
