//! A session that has been shown to hear.
//!
//! A pooler in transaction mode answers LISTEN and then hands the server connection that listens to somebody else, who
//! gets notifications that he has not asked for, and drivers that break on them. So a session is believed to be one's
//! own only after a trial: what was set in it stays there while another connection is kept busy. And once it listens, it
//! must hear a call that another connection makes; where it does not, the server connection that was left listening is
//! ended, so that nobody inherits it.

use std::time::Duration;

use tokio::time::timeout;
use uuid::Uuid;

use super::{Database, DatabaseError, DirectSession};

/// Why there is no session that hears.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The session is lent out by a pooler, which will be so the next time too.
    #[error(
        "notifications (LISTEN) are not heard through the connection to database {location}: a pooler in transaction \
         mode stands in between; database.direct_url names a way past it"
    )]
    Pooled {
        /// Which database, without its password.
        location: String,
    },
    /// The database does not answer, or refuses.
    #[error(transparent)]
    Database(#[from] DatabaseError),
}

impl Database {
    /// Opens a session of its own that listens on `channel` and has been shown to hear. While it is tried, whoever else
    /// listens there may get a call of no meaning: [`is_call`](super::Notification::is_call).
    ///
    /// # Errors
    /// Through a pooler that lends out sessions nothing is heard, or the database does not answer.
    ///
    /// # Cancel safety
    /// Dropped in the middle, it leaves nothing behind but, in a pooler's session that is not known as one yet, that it
    /// listens.
    pub async fn listen(&self, channel: &str) -> Result<DirectSession, ListenError> {
        let mut session = self.direct().await?;
        if !self.is_ones_own(&session).await? {
            return Err(self.pooled());
        }
        // In one message, so that both are said by the same server connection whatever stands in between.
        let quoted = channel.replace('"', "\"\"");
        let said = session.run(&format!("LISTEN \"{quoted}\"; SELECT pg_backend_pid()")).await?;
        let call = format!("{CALL_PREFIX}{}", Uuid::new_v4());
        self.tell(sqlx::query("SELECT pg_notify($1, $2)").bind(channel).bind(&call)).await?;
        let answer = async {
            while let Some(told) = session.notification().await {
                if told.payload == call {
                    return true;
                }
            }
            false
        };
        if timeout(HEARING, answer).await.unwrap_or(false) {
            return Ok(session);
        }
        let pid: i32 = said.first().and_then(|pid| pid.parse().ok()).unwrap_or_default();
        self.tell(sqlx::query("SELECT pg_terminate_backend($1)").bind(pid)).await?;
        Err(self.pooled())
    }

    /// Whether what is set in the session stays set while another connection holds a transaction open. A pooler gives
    /// that one the server connection which the session has just used, and the session another.
    async fn is_ones_own(&self, session: &DirectSession) -> Result<bool, DatabaseError> {
        let nonce = Uuid::new_v4().to_string();
        session.run(&format!("SELECT set_config('oneseal.session', '{nonce}', false)")).await?;
        for _ in 0..TRIALS {
            let mut other = self.read().await?;
            other.fetch_all(sqlx::query("SELECT pg_backend_pid()")).await?;
            // With a pool of one, the session is not answered at all before the other is done.
            let asked = session.run("SELECT current_setting('oneseal.session', true)");
            let said = timeout(HEARING, asked).await;
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
        let mut telling = self.read().await?;
        telling.fetch_all(query).await?;
        telling.end().await;
        Ok(())
    }

    fn pooled(&self) -> ListenError {
        ListenError::Pooled { location: self.location() }
    }
}

/// How the payload of a call begins: no name of a fleet and no number can.
pub(super) const CALL_PREFIX: char = '?';

/// How often the session is tried.
const TRIALS: u32 = 2;

/// How long a call may take to be heard: thousands of times what it does.
const HEARING: Duration = Duration::from_secs(3);
