//! The database: one URL, a few pooled connections, and a session that is never pooled.
//!
//! ```no_run
//! use oneseal_coordination::database::{Database, DatabaseOptions, DatabaseUrl};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let url = DatabaseUrl::parse("postgres://oneseal@localhost/oneseal")?;
//! let database = Database::new(DatabaseOptions::new(url))?;
//! let mut read = database.read().await?;
//! let rows = read.fetch_all(sqlx::query("SELECT seq FROM oneseal.event_head")).await?;
//! read.end().await;
//! # Ok(())
//! # }
//! ```
//! What holds for every call: it ends in bounded time; it speaks to the primary or fails; it names its tables in full; and
//! it works behind PgBouncer in transaction mode, of versions that know nothing of prepared statements too. When the
//! database was away, the next call finds it again by itself.

mod direct;
mod error;
mod listen;
mod pool;
mod rights;
mod tls;
mod tx;
mod url;

use std::sync::Arc;
use std::time::Duration;

pub use self::direct::{DirectSession, Notification};
pub use self::error::{CommitError, DatabaseError, DatabaseErrorKind};
pub use self::listen::ListenError;
use self::pool::Pool;
pub use self::rights::{Lack, Lacking, Right, lacking};
use self::tx::Limits;
pub use self::tx::{ReadTx, WriteTx};
pub use self::url::{DatabaseUrl, UrlError};

/// How a database is reached.
///
/// # Defaults
/// No direct URL, application name `oneseal`, four connections, each idle for a minute and used for half an hour at most,
/// five seconds for each of connecting, waiting for a
/// connection and a statement, two for a lock, ten idle in a transaction.
#[derive(Clone, Debug)]
pub struct DatabaseOptions {
    /// Where it is, by way of a pooler or not.
    pub url: DatabaseUrl,
    /// Where it is without a pooler, if `url` leads to one.
    pub direct_url: Option<DatabaseUrl>,
    /// What `pg_stat_activity` shows. Cut to the 63 bytes that PostgreSQL takes.
    pub application_name: String,
    /// How many pooled connections there may be at once, at least one.
    pub max_connections: u32,
    /// How long a pooled connection may lie idle: longer than a beat, shorter than firewalls and poolers allow.
    pub idle_limit: Duration,
    /// How old a pooled connection may become before the next is opened, by which a name that leads elsewhere is asked
    /// again. Direct sessions know no such limit.
    pub age_limit: Duration,
    /// For opening a connection, TLS and password included.
    pub connect_timeout: Duration,
    /// For waiting until one of the connections is free.
    pub acquire_timeout: Duration,
    /// For one statement, by the server's watch. Two seconds more are given for the way.
    pub statement_timeout: Duration,
    /// For waiting for a lock, by the server's watch.
    pub lock_timeout: Duration,
    /// For the pause between two statements of a transaction, by the server's watch.
    pub idle_in_transaction_timeout: Duration,
}

impl DatabaseOptions {
    /// The defaults, for `url`.
    pub fn new(url: DatabaseUrl) -> Self {
        Self {
            url,
            direct_url: None,
            application_name: "oneseal".to_owned(),
            max_connections: 4,
            idle_limit: Duration::from_secs(60),
            age_limit: Duration::from_secs(30 * 60),
            connect_timeout: Duration::from_secs(5),
            acquire_timeout: Duration::from_secs(5),
            statement_timeout: Duration::from_secs(5),
            lock_timeout: Duration::from_secs(2),
            idle_in_transaction_timeout: Duration::from_secs(10),
        }
    }
}

/// A database. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Database {
    pool: Arc<Pool>,
    options: Arc<DatabaseOptions>,
}

impl Database {
    /// Opens nothing: the first call does.
    ///
    /// # Errors
    /// `Configuration` if `sslrootcert` of one of the URLs cannot be used.
    pub fn new(mut options: DatabaseOptions) -> Result<Self, DatabaseError> {
        for url in [Some(&options.url), options.direct_url.as_ref()].into_iter().flatten() {
            if url.root_certificate.is_some() {
                tls::client_config(url)?;
            }
        }
        options.application_name = cut(&options.application_name);
        Ok(Self { pool: Arc::new(Pool::new(&options)), options: Arc::new(options) })
    }

    /// `HOST:PORT/DATABASE`, for messages.
    pub fn location(&self) -> String {
        self.pool.place().to_owned()
    }

    /// Begins to read.
    ///
    /// # Errors
    /// `Unavailable`, `Standby`, `Denied`, `Untrusted` or `Configuration`.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it leaves nothing behind.
    pub async fn read(&self) -> Result<ReadTx, DatabaseError> {
        ReadTx::begin(&self.pool, self.limits()).await
    }

    /// Begins to write.
    ///
    /// # Errors
    /// As [`Database::read`].
    ///
    /// # Cancel safety
    /// Dropped in the middle, it leaves nothing behind.
    pub async fn write(&self) -> Result<WriteTx, DatabaseError> {
        WriteTx::begin(&self.pool, self.limits()).await
    }

    /// As [`Database::write`], with statements that may take as long as `statement`.
    pub(crate) async fn write_for(&self, statement: Duration) -> Result<WriteTx, DatabaseError> {
        WriteTx::begin(&self.pool, Limits { statement, ..self.limits() }).await
    }

    /// Opens a session of its own, at the direct URL if there is one.
    ///
    /// # Errors
    /// As [`Database::read`].
    ///
    /// # Cancel safety
    /// Dropped in the middle, it leaves nothing behind.
    pub async fn direct(&self) -> Result<DirectSession, DatabaseError> {
        let url = self.options.direct_url.as_ref().unwrap_or(&self.options.url);
        DirectSession::open(url, &self.options).await
    }

    /// Whether what should be sessions of one's own are lent out by a pooler, statement by statement or transaction by
    /// transaction: LISTEN then hears nothing, and what is locked in one session is held in another.
    ///
    /// Two sessions are opened. One leaves a mark in its session; the other must not see it, and must not move the first
    /// to another server process by occupying one.
    ///
    /// # Errors
    /// As [`Database::direct`].
    ///
    /// # Cancel safety
    /// Dropped in the middle, it leaves nothing behind but, in a pooler's session, a mark of no meaning.
    pub async fn is_direct_shared(&self) -> Result<bool, DatabaseError> {
        let (one, other) = (self.direct().await?, self.direct().await?);
        let mark = uuid::Uuid::new_v4().to_string();
        let look = "SELECT coalesce(current_setting('oneseal.mark', true), '')";
        one.run(&format!("SELECT set_config('oneseal.mark', '{mark}', false)")).await?;
        if other.run(look).await? == [mark.clone()] {
            return Ok(true);
        }
        other.run("BEGIN; SELECT pg_backend_pid()").await?;
        let stays = one.run(look).await? == [mark];
        Ok(!stays)
    }

    fn limits(&self) -> Limits {
        Limits {
            statement: self.options.statement_timeout,
            lock: self.options.lock_timeout,
            idle_in_transaction: self.options.idle_in_transaction_timeout,
        }
    }
}

/// PostgreSQL cuts longer names too, in the middle of a character if need be.
fn cut(name: &str) -> String {
    const LONGEST: usize = 63 - "/direct".len();
    let mut end = name.len().min(LONGEST);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_owned()
}
