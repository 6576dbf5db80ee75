//! How many streams there may be: each costs a connection for minutes, and one caller must not have them all.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::http::caller::Caller;

/// The streams of one replica, over its socket and over TCP.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// By who they are; those that have none are not in it.
    by_caller: HashMap<String, usize>,
}

/// A stream's place, for as long as it is kept.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    caller: String,
}

/// There is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoSeat {
    /// For nobody.
    Full,
    /// For this caller, who has as many as one may.
    OfCaller {
        /// That many.
        most: usize,
    },
}

impl Seats {
    /// A place for `caller`.
    pub(super) fn take(seats: &Arc<Self>, caller: &Caller) -> Result<Seat, NoSeat> {
        let caller = name(caller);
        let mut taken = seats.taken();
        let own = taken.by_caller.get(&caller).copied().unwrap_or_default();
        if own >= MOST_OF_ONE {
            return Err(NoSeat::OfCaller { most: MOST_OF_ONE });
        }
        if taken.all >= MOST {
            return Err(NoSeat::Full);
        }
        taken.all += 1;
        taken.by_caller.insert(caller.clone(), own + 1);
        drop(taken);
        Ok(Seat { seats: Arc::clone(seats), caller })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        taken.all -= 1;
        if let Entry::Occupied(mut own) = taken.by_caller.entry(std::mem::take(&mut self.caller)) {
            *own.get_mut() -= 1;
            if *own.get() == 0 {
                own.remove();
            }
        }
    }
}

/// Who is one caller: a user of this host, or the holder of a token, from wherever.
fn name(caller: &Caller) -> String {
    match caller {
        Caller::Local { uid, .. } => format!("uid:{uid}"),
        Caller::Token { name, .. } => format!("token:{name}"),
        Caller::Remote(ends) => ends.peer.ip().to_string(),
    }
}

/// Browsers, dashboards and log shippers of one fleet are a few.
const MOST: usize = 128;
/// Half: two who forget to close theirs do not shut out the others.
const MOST_OF_ONE: usize = MOST / 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_has_half_of_them_and_gives_them_back() {
        let seats = Arc::new(Seats::default());
        let local = |uid, pid| Caller::Local { uid, gid: 0, pid: Some(pid) };
        let take =
            |uid| -> Vec<_> { (0..).map_while(|pid| Seats::take(&seats, &local(uid, pid)).ok()).collect() };
        let mut one = take(1);
        assert_eq!(one.len(), MOST_OF_ONE);
        assert_eq!(
            Seats::take(&seats, &local(1, 1)).expect_err("none"),
            NoSeat::OfCaller { most: MOST_OF_ONE }
        );
        let two = take(2);
        assert_eq!(two.len(), MOST - MOST_OF_ONE);
        assert_eq!(Seats::take(&seats, &local(3, 1)).expect_err("none"), NoSeat::Full);
        one.pop();
        let three = Seats::take(&seats, &local(3, 1));
        assert!(three.is_ok());
        drop((one, two, three));
        let taken = seats.taken();
        assert!(taken.all == 0 && taken.by_caller.is_empty());
    }
}
