//! What an order came to.

use oneseal_coordination::UnixTime;
use uuid::Uuid;

use super::{ExecuteError, Order};
use crate::ring::edit::Told;
use crate::steps::{EMERGENCY_JOINED, Next, State, Step};

/// The ring as the store holds it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Keys {
    /// Its public facts.
    pub state: State,
    /// What may come next, soonest first.
    pub next: Vec<Next>,
}

/// An order that was carried out.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Done {
    /// Its id; `None` where nothing was written under it.
    pub change_id: Option<Uuid>,
    /// The verb.
    pub verb: &'static str,
    /// When, by the ring's own clock.
    pub at: UnixTime,
    /// What was done, in order; what was due besides among it.
    pub changes: Vec<Changed>,
    /// The ring now; of a dry run, the ring as it stays.
    pub state: State,
    /// What may come next, soonest first; of a dry run, what might if it were done, but for keys that are yet to be made.
    pub next: Vec<Next>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
    /// Whether an earlier order had done it: one of the same id, or another one of the same content, and then no key is
    /// among the changes. `state` is that of now.
    pub is_repeated: bool,
    /// Whether nothing was done at all, and this is what would be.
    pub is_dry_run: bool,
}

/// One change of one key, or of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The kind of its entry in the log, such as `key.activated`.
    pub kind: String,
    /// Which key; `None` for the ring, and for one that is not made yet.
    pub kid: Option<String>,
}

pub(super) fn done(
    order: &Order,
    step: &Step,
    changes: Vec<(String, Option<String>)>,
    state: State,
    next: Vec<Next>,
    at: UnixTime,
) -> Done {
    Done {
        change_id: Some(order.change_id),
        verb: order.request.verb(),
        at,
        changes: changes.into_iter().map(|(kind, kid)| Changed { kind, kid }).collect(),
        state,
        next,
        notes: step.notes.clone(),
        is_repeated: step.is_absorbed(),
        is_dry_run: false,
    }
}

/// What would be done.
pub(super) fn dry(order: &Order, step: &Step, state: State, next: Vec<Next>, at: UnixTime) -> Done {
    let of_edit = |edit: &crate::steps::Edit| (edit.kind().to_owned(), edit.kid().map(str::to_owned));
    let changes = step.edits.iter().map(of_edit).collect();
    Done { change_id: None, is_dry_run: true, ..done(order, step, changes, state, next, at) }
}

/// Everything that is asked for had been done by others.
pub(super) fn done_before(order: &Order, step: &Step, state: State, next: Vec<Next>, at: UnixTime) -> Done {
    let (is_repeated, is_dry_run) = (true, order.dry_run);
    Done { change_id: None, is_repeated, is_dry_run, ..done(order, step, Vec::new(), state, next, at) }
}

/// What the ring's log tells of an order that was carried out before.
pub(super) fn repeated(
    order: &Order,
    Told { changes, at, request }: Told,
    state: State,
    next: Vec<Next>,
) -> Result<Done, ExecuteError> {
    let is_same = match request {
        Some(request) => request == order.request.fingerprint(),
        // Written by a version that kept none, or what it was has left the log: the verb is known by its traces.
        None => changes.iter().any(|(kind, _)| order.request.kinds().contains(&kind.as_str())),
    };
    if !is_same {
        return Err(ExecuteError::ChangeIdTaken);
    }
    let mut step = Step::default();
    if changes.iter().all(|(kind, _)| kind == EMERGENCY_JOINED) {
        step.notes.push(JOINED.to_owned());
    }
    Ok(Done { is_repeated: true, ..done(order, &step, changes, state, next, at) })
}

const JOINED: &str = "it came while an emergency was open, whose keys were burned already, and burned none itself; what has \
                      come since was not touched: to burn that too, give a new order with another id";
