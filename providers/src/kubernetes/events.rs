//! What a watch tells: one JSON object a line, for as long as the connection lasts.
//!
//! A watch begins with what is there (`resourceVersion=0`), so that nothing is missed between two of them; that it is told
//! again is no change. What the server has at hand for that may be a little old, and what came later follows.
//!
//! Bookmarks, by which a server says that it lives, are not asked for: with a beginning of this kind a server on an etcd
//! before 3.4.25 refuses them. So a watch that has gone silent looks like a quiet one. It costs no more than a delay,
//! since the Secret is read at every refresh all the same, and it ends with the watch's life.

use std::sync::Arc;
use std::time::Duration;

use http_body_util::BodyExt;
use kube::client::Body;
use oneseal_coordination::{Clock, SystemClock};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time;
use zeroize::Zeroizing;

use super::ask::{Ask, Verb, append};
use super::fault::Trouble;
use super::place::Place;
use super::watch::{Heard, Looked};
use crate::jitter::with_jitter;
use crate::{ErrorKind, ProviderError};

/// The task that watches.
pub(super) struct Watcher {
    pub(super) place: Arc<Place>,
    pub(super) heard: watch::Sender<Heard>,
    pub(super) looked: Arc<Looked>,
}

/// Why a watch is over.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The server ended it, as it does after a while.
    Ended,
    /// The server says that it cannot go on, such as 410: what it would have to go on from is gone.
    Failed(i32),
    /// Its time is over, and the server has not ended it.
    Silent,
    /// The connection broke, or what came is no watch.
    Broken,
}

impl Watcher {
    /// One watch after the other; while there is none, the poll is left.
    pub(super) async fn run(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.begin().await {
                Ok(body) => {
                    let (life, begun) = (self.place.options.watch, SystemClock.boot());
                    self.turn(true);
                    let end = time::timeout(life.mul_f64(1.2) + GRACE, self.hear(body)).await;
                    self.turn(false);
                    let end = end.unwrap_or(End::Silent);
                    tracing::debug!(?end, "the watch of the Secret is over; another one is begun");
                    // Whoever ends it at once each time is not asked faster and faster.
                    let has_lived = SystemClock.boot().since(begun) >= life / 10;
                    pause = if has_lived { FIRST_PAUSE } else { longer(pause) };
                }
                Err(error) if error.kind() == ErrorKind::Denied => {
                    tracing::warn!(%error, "the Secret cannot be watched; it is read now and then");
                    pause = DENIED_PAUSE;
                }
                Err(error) => {
                    tracing::debug!(%error, "no watch of the Secret; it is read now and then");
                    pause = longer(pause);
                }
            }
            time::sleep(with_jitter(pause)).await;
        }
    }

    async fn begin(&self) -> Result<Body, ProviderError> {
        // Replicas that began together do not begin again together.
        let seconds = with_jitter(self.place.options.watch).as_secs().max(1);
        let ask = Ask::watch(&self.place.options.name, seconds);
        self.place.follow(&ask).await.map_err(|trouble: Trouble| self.place.told(Verb::Watch, trouble))
    }

    /// Counts what is told until it ends.
    async fn hear(&self, mut body: Body) -> End {
        let mut line = Zeroizing::new(Vec::with_capacity(4096));
        loop {
            let data = match body.frame().await {
                None => return End::Ended,
                Some(Err(_)) => return End::Broken,
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            };
            for piece in data.split_inclusive(|byte| *byte == b'\n') {
                if line.len() + piece.len() > LONGEST_LINE {
                    return End::Broken;
                }
                append(&mut line, piece);
                if piece.ends_with(b"\n") {
                    match serde_json::from_slice(&line) {
                        Ok(event) => {
                            if let Some(end) = self.take(&event) {
                                return end;
                            }
                        }
                        Err(_) => return End::Broken,
                    }
                    line = Zeroizing::new(Vec::with_capacity(4096));
                }
            }
        }
    }

    fn take(&self, event: &Event) -> Option<End> {
        let Event { kind, object } = event;
        let is_ours = object.metadata.name == self.place.options.name;
        match kind.as_str() {
            "ERROR" => return Some(End::Failed(object.code)),
            "ADDED" | "MODIFIED" if is_ours && !self.looked.is_at(&object.metadata.resource_version) => {
                self.heard.send_modify(|heard| heard.hints += 1);
            }
            "DELETED" if is_ours => self.heard.send_modify(|heard| heard.hints += 1),
            _ => {}
        }
        None
    }

    fn turn(&self, is_live: bool) {
        self.heard.send_modify(|heard| *heard = Heard { is_live, watches: heard.watches + 1, ..*heard });
    }
}

fn longer(pause: Duration) -> Duration {
    (pause * 2).min(LONGEST_PAUSE)
}

/// One line.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Object,
}

/// The metadata of a Secret, or a Status.
#[derive(Deserialize)]
struct Object {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    code: i32,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    resource_version: String,
}

/// On top of its life: for the server to end it.
const GRACE: Duration = Duration::from_secs(1);
/// Before the next one is begun: at first, at most, and where RBAC stands in between, which changes seldom.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);
const DENIED_PAUSE: Duration = Duration::from_secs(600);
/// Metadata may hold a copy of the whole Secret, as `kubectl apply` leaves one.
const LONGEST_LINE: usize = 8 * 1024 * 1024;
