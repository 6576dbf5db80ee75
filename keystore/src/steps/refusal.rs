//! Why a step is not taken: what stands against it, until when, and which setting costs most of the wait.

use std::fmt;

use oneseal_coordination::UnixTime;

use super::conditions::BEAT_S;
use super::{Cost, Key, Lagging};
use crate::Algorithm;
use crate::findings::Exit;
use crate::fleet::FLEET_CANNOT_OPEN;
use crate::ring::KeyState;

/// What stands against a step. Nothing has been changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Its time has not come.
    TooEarly {
        /// What would be done.
        what: String,
        /// From then on it may be done.
        until: UnixTime,
        /// What costs most of the wait.
        because: Cost,
    },
    /// Replicas that may be answering do not serve the key, or do not say.
    Blocked {
        /// Which, each with why.
        replicas: Vec<Lagging>,
        /// From about when it may be done, with what costs most of the wait, if they tell with their next beats; `None`
        /// where beats will not bring it about.
        soonest: Option<(UnixTime, Cost)>,
    },
    /// Replicas that sign could not with this key.
    CannotOpen {
        /// Which.
        replicas: Vec<String>,
        /// The id of the KEK that its private half is, or would be, sealed under.
        kek: String,
    },
    /// Nobody can say who serves what, and time alone was not accepted.
    Unproven,
    /// A replica serves a newer ring than the store holds.
    Behind {
        /// Which.
        replica: String,
        /// Incarnation and revision there.
        served: (u64, u64),
        /// Incarnation and revision in the store.
        stored: (u64, u64),
    },
    /// A replica serves another ring of the same number.
    Differs {
        /// Which.
        replica: String,
        /// Of this revision.
        revision: u64,
    },
    /// No key of that name, or beginning of one.
    NoSuchKey {
        /// Whether it was here once.
        was_here: bool,
    },
    /// More than one key fits.
    SeveralKeys {
        /// Which, each with its algorithm and state.
        fitting: Vec<String>,
    },
    /// The key is in a state in which this cannot be done.
    WrongState {
        /// Which.
        kid: String,
        /// What it is.
        state: KeyState,
        /// What it would have to be.
        wanted: &'static str,
    },
    /// Keys that were made for this are waiting already.
    AlreadyPending {
        /// Which.
        kid: String,
        /// When it may sign, as far as is known now. Not until when this is refused: no time alone makes room for
        /// another.
        may_sign_from: UnixTime,
    },
    /// Nothing to do, now or later.
    Nothing(&'static str),
    /// The ring would be left without a key that signs.
    LastKey {
        /// Which.
        kid: String,
    },
    /// The rollback window is over.
    WindowOver {
        /// Which.
        kid: String,
        /// Since then.
        since: Option<UnixTime>,
    },
    /// Relying parties read ten keys and no more.
    TooManyKeys {
        /// When the next one leaves, if any is on its way out.
        until: Option<UnixTime>,
    },
    /// The name is, or was, another key's, or the key is, or was, here under another name.
    KidTaken {
        /// The name under which it was to come in.
        kid: String,
        /// What stands against it.
        by: Taken,
    },
    /// A former issuer's key was promised to verify for longer.
    Promised {
        /// Which.
        kid: String,
        /// Until then.
        until: UnixTime,
    },
    /// Discovery does not announce the algorithm: every replica would refuse the ring.
    Unlisted {
        /// Which.
        algorithm: Algorithm,
    },
    /// The key from elsewhere cannot be taken in like this.
    Unfit(String),
}

/// Why a key from elsewhere cannot have its name, or cannot come in at all.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Taken {
    /// Another key has the name.
    ByAnother,
    /// The key is here already, under this name.
    IsHere(String),
    /// The name was a key's that is gone.
    ByOneThatIsGone,
    /// The key was here and is gone.
    WasHere,
    /// The set has the name, or the key, twice.
    Twice,
}

impl Refusal {
    /// These keys fit, and one is to be named.
    pub(super) fn several<'k>(fitting: impl Iterator<Item = &'k Key>) -> Self {
        let told = |key: &Key| format!("{} ({}, {})", key.kid, key.algorithm.as_str(), key.state.as_str());
        Self::SeveralKeys { fitting: fitting.map(told).collect() }
    }

    /// How a process ends that was refused so.
    pub fn exit(&self) -> Exit {
        match self {
            Self::TooEarly { .. }
            | Self::Blocked { .. }
            | Self::CannotOpen { .. }
            | Self::Behind { .. }
            | Self::Differs { .. }
            | Self::TooManyKeys { until: Some(_) } => Exit::TryLater,
            _ => Exit::Refused,
        }
    }

    /// Its name, dotted like those of findings: scripts match on it.
    pub fn code(&self) -> &'static str {
        match self {
            Self::TooEarly { .. } => "keys.too_early",
            Self::Blocked { .. } => "keys.not_everywhere",
            Self::CannotOpen { .. } => FLEET_CANNOT_OPEN.name,
            Self::Unproven => "keys.unproven_replicas",
            Self::Behind { .. } => "fleet.behind",
            Self::Differs { .. } => "fleet.jwks_differs",
            Self::NoSuchKey { .. } => "keys.no_such_key",
            Self::SeveralKeys { .. } => "keys.several_keys",
            Self::WrongState { .. } => "keys.wrong_state",
            Self::AlreadyPending { .. } => "keys.already_pending",
            Self::Nothing(_) => "keys.nothing_to_do",
            Self::LastKey { .. } => "keys.last_key",
            Self::WindowOver { .. } => "keys.window_over",
            Self::TooManyKeys { .. } => "keys.too_many",
            Self::KidTaken { .. } => "keys.kid_taken",
            Self::Promised { .. } => "keys.promised",
            Self::Unlisted { .. } => "issuer.algorithm_unlisted",
            Self::Unfit(_) => "keys.unfit",
        }
    }

    /// When to try again, where that is known.
    pub fn not_before(&self) -> Option<UnixTime> {
        match self {
            Self::TooEarly { until, .. } => Some(*until),
            Self::TooManyKeys { until } => *until,
            Self::Blocked { soonest, .. } => soonest.map(|(until, _)| until),
            _ => None,
        }
    }

    /// The setting that costs most of the wait.
    pub fn because(&self) -> Option<Cost> {
        match self {
            Self::TooEarly { because, .. } => Some(*because),
            Self::Blocked { soonest, .. } => soonest.map(|(_, because)| because),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooEarly { what, until, because } => {
                write!(f, "too early to {what}: not before {until}; {because}")
            }
            Self::Blocked { replicas, soonest } => blocked(f, replicas, soonest.as_ref()),
            Self::CannotOpen { replicas, kek } => write!(
                f,
                "{} could not sign with it: not said to open what is sealed under the KEK {kek}. Give that to every \
                 replica, as [kek] or among kek.previous, and restart it; `oneseal keys keks` tells which KEK has which \
                 id. If it is a wrong one, configure the right one where this was ordered, or order it from another \
                 replica",
                replicas.join(", ")
            ),
            Self::Unproven => f.write_str(
                "there is no registry of replicas, so that nobody can say whether all of them serve the key; if time \
                 alone is to be trusted, say --unproven-replicas",
            ),
            Self::Behind { replica, served, stored } => write!(
                f,
                "{replica} serves revision {} of incarnation {}, and the store holds revision {} of incarnation {}: \
                 the store has lost something, or a backup was put in its place. Restore what the replica serves",
                served.1, served.0, stored.1, stored.0
            ),
            Self::Differs { replica, revision } => write!(
                f,
                "{replica} serves another content of revision {revision} than the store holds: find out which is right \
                 before anything is changed"
            ),
            Self::NoSuchKey { was_here: true } => f.write_str("that key was here once and is gone for good"),
            Self::NoSuchKey { was_here: false } => f.write_str("the ring has no key of that kid"),
            Self::SeveralKeys { fitting } => write!(
                f,
                "more than one key fits: name one by its kid, or by more of its beginning: {}",
                fitting.join(", ")
            ),
            Self::WrongState { kid, state, wanted } => {
                write!(f, "the key {kid} is {}, and would have to be {wanted}", state.as_str())
            }
            Self::AlreadyPending { kid, may_sign_from } => write!(
                f,
                "the key {kid} is published already and waits to sign: activate it first, which may be done from \
                 {may_sign_from} on, or take it out with `oneseal keys retire {kid}`"
            ),
            Self::Nothing(what) => f.write_str(what),
            Self::LastKey { kid } => {
                write!(f, "without {kid} no key would sign: rotate and activate another first")
            }
            Self::WindowOver { kid, since: Some(since) } => {
                write!(f, "the rollback window of {kid} is over since {since}")
            }
            Self::WindowOver { kid, since: None } => {
                write!(f, "{kid} cannot sign again: its private half is not here")
            }
            Self::TooManyKeys { until } => {
                f.write_str("relying parties exist that read ten keys and no more, and there would be more")?;
                match until {
                    Some(until) => write!(f, ": the next one leaves after {until}"),
                    None => f.write_str(": retire one first"),
                }
            }
            Self::KidTaken { kid, by } => taken(f, kid, by),
            Self::Promised { kid, until } => write!(
                f,
                "the tokens of {kid} were promised to verify until {until}, which is not taken back: name that time or a \
                 later one; `oneseal keys revoke --kid` takes it out at once"
            ),
            Self::Unlisted { algorithm } => write!(
                f,
                "issuer.algorithms does not list {algorithm}, and every replica would refuse the ring: add it there, and \
                 give relying parties a day to read it"
            ),
            Self::Unfit(why) => f.write_str(why),
        }
    }
}

/// Each sort of replica has another cure: to forget one that serves would break tokens.
fn blocked(
    f: &mut fmt::Formatter<'_>,
    replicas: &[Lagging],
    soonest: Option<&(UnixTime, Cost)>,
) -> fmt::Result {
    let told: Vec<_> = replicas.iter().map(ToString::to_string).collect();
    write!(f, "not every replica serves the key, as far as they have told: {}", told.join(", "))?;
    if replicas.iter().any(Lagging::is_live) {
        write!(
            f,
            ". One that is live tells with its next beat, within {BEAT_S} s; else its log says what it waits for"
        )?;
    }
    if replicas.iter().any(Lagging::is_silent) {
        f.write_str(
            ". Bring back one that is silent, or say that it is gone with `oneseal replicas forget`",
        )?;
    }
    if replicas.iter().any(Lagging::is_unreadable) {
        f.write_str(". Bring all replicas to one version")?;
    }
    match soonest {
        Some((at, because)) => write!(f, ". Not before about {at}; {because}"),
        None => Ok(()),
    }
}

fn taken(f: &mut fmt::Formatter<'_>, kid: &str, by: &Taken) -> fmt::Result {
    match by {
        Taken::ByAnother => {
            write!(f, "another key of this ring has the kid {kid}: a kid is never used again")
        }
        Taken::IsHere(name) => write!(f, "that key is in this ring already, under the kid {name}"),
        Taken::ByOneThatIsGone => write!(f, "{kid} was a key of this ring: a kid is never used again"),
        Taken::WasHere => {
            write!(f, "the key that is to be called {kid} was in this ring once: it never comes back")
        }
        Taken::Twice => write!(f, "{kid}, or its key, is there twice"),
    }
}

impl std::error::Error for Refusal {}

/// In the words of a report.
impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "most of the wait is {} ({} s)", self.knob, self.seconds)
    }
}
