//! What can go wrong with the database, sorted by what a caller does about it.

use std::error::Error as StdError;
use std::fmt;

use super::url::UrlError;

/// A failed call to the database. It speaks for itself; the driver's own words are its [`source`](StdError::source).
///
/// No message holds a password, a statement or a value.
#[derive(Debug)]
pub struct DatabaseError {
    kind: DatabaseErrorKind,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// What a caller can do about a [`DatabaseError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DatabaseErrorKind {
    /// It is down, slow, full or starting: the same call may work later.
    Unavailable,
    /// It answers, and takes no writes: a standby, or a primary that was demoted. The same call may work later.
    Standby,
    /// It does not accept this user, or the user may not do this.
    Denied,
    /// Its certificate is not trusted, or not the host's; or it has no TLS.
    Untrusted,
    /// A later leader has taken over. The caller leads no more.
    Fenced,
    /// Somebody else was faster, or holds what is needed: decide anew.
    Conflict,
    /// Its tables are not those that this binary knows: `oneseal db migrate`.
    Schema,
    /// Its tables need a newer binary than this one, which must leave them alone.
    Outgrown,
    /// The configuration cannot work: no such database, a pooler in statement mode, a file that cannot be read.
    Configuration,
    /// Anything else: a fault of ours, or of the data.
    Internal,
}

impl DatabaseError {
    pub(crate) fn new(kind: DatabaseErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), source: None }
    }

    pub(crate) fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// The URL `what` cannot be used.
    pub fn of_url(what: &str, error: &UrlError) -> Self {
        Self::new(DatabaseErrorKind::Configuration, format!("{what} {error}"))
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> DatabaseErrorKind {
        self.kind
    }

    /// Whether the same call may work later without anybody changing anything.
    pub fn is_transient(&self) -> bool {
        use DatabaseErrorKind::{Conflict, Standby, Unavailable};
        matches!(self.kind, Unavailable | Standby | Conflict)
    }

    /// From the pool's driver, at `place` (`HOST:PORT/DATABASE`).
    pub(crate) fn from_pooled(place: &str, error: sqlx::Error) -> Self {
        let answer = match &error {
            sqlx::Error::Database(answer) => Some(Answer {
                code: answer.code().unwrap_or_default().into_owned(),
                message: answer.message().to_owned(),
            }),
            _ => None,
        };
        let (kind, message) = match (&error, answer) {
            (_, Some(answer)) => answer.judge(place),
            (sqlx::Error::Tls(cause), _) => untrusted(place, &cause.to_string()),
            (sqlx::Error::Io(cause), _) => of_stream(place, cause),
            // What is no answer of PostgreSQL at all, as when a proxy closes in the middle of one.
            (sqlx::Error::Protocol(_), _) => (
                DatabaseErrorKind::Unavailable,
                format!("database {place} does not answer as PostgreSQL does"),
            ),
            (sqlx::Error::Configuration(cause), _) => {
                (DatabaseErrorKind::Configuration, format!("database {place}: {cause}"))
            }
            _ => (DatabaseErrorKind::Internal, format!("database {place} answered what was not expected")),
        };
        let new = Self::new(kind, message);
        match error {
            // All that the server said stands in the message; the driver adds a line of PostgreSQL's own source.
            sqlx::Error::Database(_) => new,
            sqlx::Error::Io(cause) => new.because(cause),
            error => new.because(error),
        }
    }

    /// From the driver of the session that is never pooled.
    pub(crate) fn from_direct(place: &str, error: tokio_postgres::Error) -> Self {
        let answer = error.as_db_error().map(|answer| Answer {
            code: answer.code().code().to_owned(),
            message: answer.message().to_owned(),
        });
        let io = StdError::source(&error).and_then(|source| source.downcast_ref::<std::io::Error>());
        let (kind, message) = match (answer, io) {
            (Some(answer), _) => answer.judge(place),
            (None, Some(io)) => of_stream(place, io),
            // The server has answered that it has no TLS.
            (None, None) if error.to_string().contains("TLS") => {
                untrusted(place, &StdError::source(&error).map_or_else(String::new, ToString::to_string))
            }
            (None, None) => {
                (DatabaseErrorKind::Unavailable, format!("database {place}: the session has ended"))
            }
        };
        Self::new(kind, message).because(error)
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for DatabaseError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Why a [`WriteTx::commit`](super::WriteTx::commit) did not answer that it has committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Nothing was changed.
    #[error("nothing was changed: {0}")]
    NotCommitted(#[source] DatabaseError),
    /// The request went out, and no answer came: it may or may not be there. Read again before deciding anything.
    #[error("whether the change was made is not known: {0}")]
    OutcomeUnknown(#[source] DatabaseError),
}

/// What the server, or a pooler before it, said.
struct Answer {
    code: String,
    message: String,
}

impl Answer {
    /// SQLSTATE classes, PostgreSQL's manual, appendix A. Poolers answer `08P01` for everything of their own.
    fn judge(self, place: &str) -> (DatabaseErrorKind, String) {
        use DatabaseErrorKind::{Configuration, Conflict, Denied, Internal, Schema, Standby, Unavailable};
        let Self { code, message } = self;
        let said = |kind, what: &str| (kind, format!("database {place} {what}: {message} ({code})"));
        match &*code {
            "25006" => said(Standby, "takes no writes"),
            "28000" | "28P01" => said(Denied, "does not accept this user"),
            "42501" => said(Denied, "does not let this user do that"),
            "3D000" => said(Configuration, "does not exist"),
            "42P01" | "3F000" | "42703" => {
                said(Schema, "lacks tables that this version needs; run `oneseal db migrate`")
            }
            "40001" | "40P01" | "23505" => said(Conflict, "had somebody else change the same"),
            "55P03" => said(Conflict, "had somebody else hold what is needed"),
            "57014" => said(Unavailable, "took too long"),
            "08P01" if message.contains("statement pooling") => said(
                Configuration,
                "is reached through a pooler in statement mode, which cuts transactions apart; set its pool_mode to transaction or session",
            ),
            "08P01" if message.contains("unsupported startup parameter") => {
                said(Configuration, "is reached through a pooler that refuses the connection")
            }
            "08P01" if message.contains("authentication failed") || message.contains("no such user") => {
                said(Denied, "is reached through a pooler that does not accept this user")
            }
            "08P01" if message.contains("no such database") => {
                said(Configuration, "does not exist for the pooler in between")
            }
            code if ["08", "53", "57", "58"].iter().any(|class| code.starts_with(class)) => {
                said(Unavailable, "is not available")
            }
            _ => said(Internal, "refused a statement"),
        }
    }
}

fn untrusted(place: &str, cause: &str) -> (DatabaseErrorKind, String) {
    let message = if cause.contains("not support TLS") {
        format!(
            "database {place} does not speak TLS; let it (ssl = on), or write sslmode=danger-disable where the network itself is trusted"
        )
    } else {
        format!(
            "database {place} has a certificate that is not trusted: {cause}; name its authority by sslrootcert=PATH, and the host as the certificate does"
        )
    };
    (DatabaseErrorKind::Untrusted, message)
}

/// A stream that fails: in the handshake by a fault of TLS, which comes wrapped, else by the network.
fn of_stream(place: &str, cause: &std::io::Error) -> (DatabaseErrorKind, String) {
    if cause.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
        return untrusted(place, &cause.to_string());
    }
    (DatabaseErrorKind::Unavailable, format!("database {place} cannot be reached: {cause}"))
}
