//! The session that is never pooled.

use std::future::poll_fn;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, SimpleQueryMessage, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::DatabaseOptions;
use super::error::{DatabaseError, DatabaseErrorKind};
use super::listen::CALL_PREFIX;
use super::tls;
use super::url::{DatabaseUrl, Host, TlsMode};

/// A session of its own with the primary, for LISTEN and whatever hangs on one session staying the same.
///
/// It is not mended: when it is lost, everything that hung on it is. [`DirectSession::is_closed`] says so, and
/// [`DirectSession::notification`] returns `None`. TCP keepalives find a dead peer within about 15 s.
#[derive(Debug)]
pub struct DirectSession {
    client: Client,
    notifications: mpsc::Receiver<Notification>,
    place: String,
    limit: Duration,
    /// Drives the connection; ends with it, and is aborted when this is dropped.
    _driver: JoinSet<()>,
}

/// What a NOTIFY carried. It is a hint: any number of them may be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The channel it came on.
    pub channel: String,
    /// Its text, at most 8000 bytes.
    pub payload: String,
}

impl Notification {
    /// Whether it is the trial of a session, see [`Database::listen`](super::Database::listen), and says nothing else.
    pub fn is_call(&self) -> bool {
        self.payload.starts_with(CALL_PREFIX)
    }
}

/// How many hints wait; more of them say nothing more.
const HINTS: usize = 64;

impl DirectSession {
    /// Opens one at `url`, within the time-outs of `options`.
    pub(super) async fn open(url: &DatabaseUrl, options: &DatabaseOptions) -> Result<Self, DatabaseError> {
        let place = url.location();
        let limit = options.connect_timeout;
        let opened = timeout(limit, connect(url, options)).await;
        let late = || {
            let message = format!("database {place} did not take a session within {} s", limit.as_secs_f32());
            DatabaseError::new(DatabaseErrorKind::Unavailable, message)
        };
        let (client, notifications, driver) = opened.map_err(|_| late())??;
        let limit = options.statement_timeout + Duration::from_secs(2);
        let session = Self { client, notifications, place, limit, _driver: driver };
        session.require_primary().await?;
        Ok(session)
    }

    /// The driver's client, for what the methods here do not cover. The caller bounds the time.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Whether the session has ended.
    pub fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Listens on `channel`.
    ///
    /// # Errors
    /// What the server says; `Unavailable` if it says nothing in time.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it may or may not listen; listening twice is once.
    pub async fn listen(&self, channel: &str) -> Result<(), DatabaseError> {
        let quoted = channel.replace('"', "\"\"");
        self.run(&format!("LISTEN \"{quoted}\"")).await.map(drop)
    }

    /// Lets the server end the session when it has been idle for `limit`: a holder that was stopped in its tracks is
    /// then rid of what it held, although its kernel still answers keepalives.
    ///
    /// # Errors
    /// As [`DirectSession::listen`].
    ///
    /// # Cancel safety
    /// Dropped in the middle, it may or may not be set.
    pub async fn set_idle_session_timeout(&self, limit: Duration) -> Result<(), DatabaseError> {
        self.run(&format!("SET idle_session_timeout = {}", limit.as_millis())).await.map(drop)
    }

    /// The next hint; `None` when the session has ended.
    ///
    /// # Cancel safety
    /// Dropped in the middle, no hint is lost.
    pub async fn notification(&mut self) -> Option<Notification> {
        self.notifications.recv().await
    }

    /// Runs statements without values, and gives back the first columns of their rows.
    pub(super) async fn run(&self, sql: &str) -> Result<Vec<String>, DatabaseError> {
        let messages = match timeout(self.limit, self.client.simple_query(sql)).await {
            Ok(Ok(messages)) => messages,
            Ok(Err(error)) => return Err(DatabaseError::from_direct(&self.place, error)),
            Err(_) => {
                let seconds = self.limit.as_secs_f32();
                let message = format!("database {} did not answer within {seconds} s", self.place);
                return Err(DatabaseError::new(DatabaseErrorKind::Unavailable, message));
            }
        };
        let first = |message| match message {
            SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
            _ => None,
        };
        Ok(messages.into_iter().filter_map(first).collect())
    }

    /// NOTIFY reaches nobody on a standby, and locks there are nobody's.
    async fn require_primary(&self) -> Result<(), DatabaseError> {
        let said = self.run("SHOW in_hot_standby").await?;
        if said == ["off"] {
            return Ok(());
        }
        let message = format!("database {} is a standby; the primary is needed", self.place);
        Err(DatabaseError::new(DatabaseErrorKind::Standby, message))
    }
}

async fn connect(
    url: &DatabaseUrl,
    options: &DatabaseOptions,
) -> Result<(Client, mpsc::Receiver<Notification>, JoinSet<()>), DatabaseError> {
    let config = config(url, options);
    if url.tls == TlsMode::Disable {
        return connect_with(&config, NoTls, url).await;
    }
    connect_with(&config, MakeRustlsConnect::new(tls::client_config(url)?), url).await
}

async fn connect_with<T>(
    config: &Config,
    tls: T,
    url: &DatabaseUrl,
) -> Result<(Client, mpsc::Receiver<Notification>, JoinSet<()>), DatabaseError>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let connected = config.connect(tls).await;
    let (client, connection) =
        connected.map_err(|error| DatabaseError::from_direct(&url.location(), error))?;
    let (hints, notifications) = mpsc::channel(HINTS);
    let mut driver = JoinSet::new();
    driver.spawn(drive(connection, hints));
    Ok((client, notifications, driver))
}

/// Until the connection ends; the client's calls then fail by themselves.
async fn drive<S, T>(mut connection: Connection<S, T>, hints: mpsc::Sender<Notification>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(told) = message {
            let hint =
                Notification { channel: told.channel().to_owned(), payload: told.payload().to_owned() };
            // Whoever does not read them has enough hints waiting.
            let _ = hints.try_send(hint);
        }
    }
}

fn config(url: &DatabaseUrl, options: &DatabaseOptions) -> Config {
    let mut config = Config::new();
    config
        .user(&url.user)
        .password(url.password())
        .dbname(&url.database)
        .port(url.port)
        .application_name(format!("{}/direct", options.application_name))
        .connect_timeout(options.connect_timeout)
        .keepalives_idle(Duration::from_secs(5))
        .keepalives_interval(Duration::from_secs(3))
        .keepalives_retries(3)
        .tcp_user_timeout(Duration::from_secs(10))
        .ssl_mode(match url.tls {
            TlsMode::Disable => tokio_postgres::config::SslMode::Disable,
            TlsMode::VerifyCa | TlsMode::VerifyFull => tokio_postgres::config::SslMode::Require,
        });
    match &url.host {
        Host::Tcp(host) => config.host(host),
        Host::Socket(path) => config.host_path(path),
    };
    config
}
