//! A few connections, opened when they are needed and thrown away when in doubt.
//!
//! It is ours because of what a pool must not do here: hand out a connection to a server that was demoted meanwhile, keep
//! a slot for one that hangs (the driver sets no keepalive), send anything over a broken one before it is given up, or
//! run tasks that nobody owns. There is no life beyond use: a connection that has failed in any way is closed, and with it
//! all that lie idle, since what happened to one has likely happened to all.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::DatabaseOptions;
use super::error::{DatabaseError, DatabaseErrorKind};
use super::url::{DatabaseUrl, Host, TlsMode};
use crate::clock::{BootTime, Clock, SystemClock};

#[derive(Debug)]
pub(super) struct Pool {
    url: DatabaseUrl,
    application_name: String,
    place: String,
    slots: Arc<Semaphore>,
    most: u32,
    acquire_timeout: Duration,
    connect_timeout: Duration,
    idle_limit: Duration,
    age_limit: Duration,
    idle: Mutex<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    connection: PgConnection,
    opened: BootTime,
    since: BootTime,
}

/// A connection in use. Dropped, it is closed: only [`Lease::give_back`] keeps it.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) connection: PgConnection,
    /// Whether it has been used before, so that what fails at once may only be old.
    pub(super) is_used: bool,
    opened: BootTime,
    pool: Arc<Pool>,
    _slot: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(options: &DatabaseOptions) -> Self {
        let most = options.max_connections.max(1);
        Self {
            url: options.url.clone(),
            application_name: options.application_name.clone(),
            place: options.url.location(),
            slots: Arc::new(Semaphore::new(most as usize)),
            most,
            acquire_timeout: options.acquire_timeout,
            connect_timeout: options.connect_timeout,
            idle_limit: options.idle_limit,
            age_limit: options.age_limit,
            idle: Mutex::default(),
        }
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// An idle connection, or a new one.
    ///
    /// Cancel safety: dropped, it takes nothing.
    pub(super) async fn acquire(self: &Arc<Self>) -> Result<Lease, DatabaseError> {
        let slot = timeout(self.acquire_timeout, Arc::clone(&self.slots).acquire_owned()).await;
        let Ok(Ok(slot)) = slot else {
            let message = format!(
                "database {}: all {} connections were in use for {} s",
                self.place,
                self.most,
                self.acquire_timeout.as_secs_f32()
            );
            return Err(DatabaseError::new(DatabaseErrorKind::Unavailable, message));
        };
        if let Some(Idle { connection, opened, .. }) = self.take_idle() {
            return Ok(Lease { connection, is_used: true, opened, pool: Arc::clone(self), _slot: slot });
        }
        let opened = SystemClock.boot();
        let connection = self.open().await?;
        Ok(Lease { connection, is_used: false, opened, pool: Arc::clone(self), _slot: slot })
    }

    /// Closes what lies idle: the server is not what it was.
    pub(super) fn forget_idle(&self) {
        self.idle().clear();
    }

    async fn open(&self) -> Result<PgConnection, DatabaseError> {
        // Made anew each time: they show the password to whoever prints them.
        let options = connect_options(&self.url, &self.application_name);
        match timeout(self.connect_timeout, options.connect()).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(error)) => Err(DatabaseError::from_pooled(&self.place, error)),
            Err(_) => {
                let seconds = self.connect_timeout.as_secs_f32();
                let message = format!("database {} did not take a connection within {seconds} s", self.place);
                Err(DatabaseError::new(DatabaseErrorKind::Unavailable, message))
            }
        }
    }

    /// The one used last, so that those that are not needed grow old.
    fn take_idle(&self) -> Option<Idle> {
        let now = SystemClock.boot();
        let mut idle = self.idle();
        idle.retain(|one| now.since(one.since) < self.idle_limit && now.since(one.opened) < self.age_limit);
        idle.pop()
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lease {
    /// Keeps the connection for the next caller. Only for one that has just answered, outside any transaction.
    pub(super) fn give_back(self) {
        let Self { connection, opened, pool, .. } = self;
        let since = SystemClock.boot();
        pool.idle().push(Idle { connection, opened, since });
    }
}

/// The driver's options, every part from our reading of the URL and none from its own.
fn connect_options(url: &DatabaseUrl, application_name: &str) -> PgConnectOptions {
    let mut options = PgConnectOptions::new_without_pgpass()
        .port(url.port)
        .username(&url.user)
        .password(url.password())
        .database(&url.database)
        .application_name(application_name)
        // A parameter that PgBouncer refuses.
        .extra_float_digits(None)
        // Behind a pooler a statement prepared once is another server's the next time.
        .statement_cache_capacity(0)
        .ssl_mode(match url.tls {
            TlsMode::Disable => PgSslMode::Disable,
            TlsMode::VerifyCa => PgSslMode::VerifyCa,
            TlsMode::VerifyFull => PgSslMode::VerifyFull,
        });
    options = match &url.host {
        Host::Tcp(host) => options.host(host),
        Host::Socket(path) => options.socket(path),
    };
    if let Some(file) = &url.root_certificate {
        options = options.ssl_root_cert(file);
    }
    // Statements may hold a ring; none belongs into a log.
    options.disable_statement_logging()
}
