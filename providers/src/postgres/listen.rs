//! The session that hears hints.
//!
//! A pooler in transaction mode answers LISTEN and then hands the server connection that listens to somebody else, who
//! gets notifications that he has not asked for, and drivers that break on them. So a session is believed to be one's
//! own only after a trial: what was set in it stays there while another connection is kept busy. And once it listens, it
//! must hear a call that another connection makes; where it does not, the server connection that was left listening is
//! ended, so that nobody inherits it.

use std::time::Duration;

use oneseal_coordination::database::{Database, DatabaseError, DirectSession};
use tokio::sync::watch;
use tokio::time;
use tokio_postgres::SimpleQueryMessage;
use uuid::Uuid;

use super::statements::{CALL, CHANNEL, END_SESSION, WHO};
use super::watch::Heard;
use crate::jitter::with_jitter;

/// The task that listens.
pub(super) struct Listener {
    pub(super) database: Database,
    pub(super) fleet: Option<String>,
    pub(super) heard: watch::Sender<Heard>,
}

impl Listener {
    /// One session after the other; when there is none, the poll is left.
    pub(super) async fn run(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.session().await {
                Ok(mut session) => {
                    pause = FIRST_PAUSE;
                    self.turn(true);
                    self.hear(&mut session).await;
                    self.turn(false);
                }
                Err(Deaf::Unreachable(error)) => {
                    tracing::debug!(%error, "no session for hints of changes; the ring's row is polled");
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(Deaf::Pooled) => {
                    tracing::warn!(
                        database = self.database.location(),
                        "hints of changes (LISTEN) are not heard through this connection: a pooler in transaction \
                         mode stands in between. The ring's row is polled; database.direct_url names a way past it"
                    );
                    pause = POOLED_PAUSE;
                }
            }
            time::sleep(with_jitter(pause)).await;
        }
    }

    /// A session that has been shown to hear.
    async fn session(&self) -> Result<DirectSession, Deaf> {
        let mut session = self.database.direct().await?;
        if !self.is_our_own(&session).await? {
            return Err(Deaf::Pooled);
        }
        // In one message, so that both are said by the same server connection whatever stands in between.
        let said = ask(&session, &format!("LISTEN {CHANNEL}; SELECT pg_backend_pid()")).await?;
        // No name of a fleet can begin so: for others this is no hint.
        let call = format!("?{}", Uuid::new_v4());
        self.tell(sqlx::query(CALL).bind(&call)).await?;
        let answer = async {
            while let Some(told) = session.notification().await {
                if told.payload == call {
                    return true;
                }
            }
            false
        };
        if time::timeout(HEARING, answer).await.unwrap_or(false) {
            return Ok(session);
        }
        let pid: i32 = said.first().and_then(|pid| pid.parse().ok()).unwrap_or_default();
        self.tell(sqlx::query(END_SESSION).bind(pid)).await?;
        Err(Deaf::Pooled)
    }

    /// Whether what is set in the session stays set while another connection holds a transaction open. A pooler gives
    /// that one the server connection which the session has just used, and the session another.
    async fn is_our_own(&self, session: &DirectSession) -> Result<bool, Deaf> {
        let nonce = Uuid::new_v4().to_string();
        ask(session, &format!("SELECT set_config('oneseal.session', '{nonce}', false)")).await?;
        for _ in 0..TRIALS {
            let mut other = self.database.read().await?;
            other.fetch_all(sqlx::query(WHO)).await?;
            let asked = ask(session, "SELECT current_setting('oneseal.session', true)");
            // With a pool of one, the session is not answered at all before the other is done.
            let said = time::timeout(HEARING, asked).await;
            other.end().await;
            let Ok(said) = said else { return Ok(false) };
            if said?.first() != Some(&nonce) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn tell(
        &self,
        query: sqlx::query::Query<'_, sqlx::Postgres, sqlx::postgres::PgArguments>,
    ) -> Result<(), DatabaseError> {
        let mut telling = self.database.read().await?;
        telling.fetch_all(query).await?;
        telling.end().await;
        Ok(())
    }

    /// Counts hints until the session ends.
    async fn hear(&self, session: &mut DirectSession) {
        while let Some(told) = session.notification().await {
            if told.channel == CHANNEL && self.is_ours(&told.payload) {
                self.heard.send_modify(|heard| heard.hints += 1);
            }
        }
    }

    fn is_ours(&self, payload: &str) -> bool {
        self.fleet.as_ref().map_or(!payload.starts_with('?'), |fleet| fleet == payload)
    }

    fn turn(&self, is_live: bool) {
        self.heard.send_modify(|heard| *heard = Heard { is_live, sessions: heard.sessions + 1, ..*heard });
    }
}

/// Why there is no session that hears.
enum Deaf {
    Unreachable(Box<dyn std::error::Error + Send + Sync>),
    Pooled,
}

impl From<DatabaseError> for Deaf {
    fn from(error: DatabaseError) -> Self {
        Self::Unreachable(error.into())
    }
}

impl From<tokio_postgres::Error> for Deaf {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Unreachable(error.into())
    }
}

/// The first column of each row of the answer.
async fn ask(session: &DirectSession, sql: &str) -> Result<Vec<String>, Deaf> {
    let answer = time::timeout(ANSWER, session.client().simple_query(sql)).await;
    let messages = answer.map_err(|late| Deaf::Unreachable(late.into()))??;
    let first = |message| match message {
        SimpleQueryMessage::Row(row) => Some(row.get(0).unwrap_or_default().to_owned()),
        _ => None,
    };
    Ok(messages.into_iter().filter_map(first).collect())
}

/// How often the session is tried.
const TRIALS: u32 = 2;

/// How long a call may take to be heard: thousands of times what it does.
const HEARING: Duration = Duration::from_secs(3);

/// How long a statement may take.
const ANSWER: Duration = Duration::from_secs(7);

/// Before the next session is tried: at first, at most, and where a pooler stands in between, which changes seldom.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
const POOLED_PAUSE: Duration = Duration::from_secs(600);
