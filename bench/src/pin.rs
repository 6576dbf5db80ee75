//! Which core the server has, and which one its load.
//!
//! A load generator on the server's core measures itself: each bench that speaks HTTP gives the server a core of its
//! own and all of the load another. A process inherits the cores of the thread that starts it, so whoever starts a
//! server does so in [`Cores::for_server`]; a server that counts its cores then finds one, and has one worker.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The two cores of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The server's.
    pub server: usize,
    /// That of the load and of the bench itself.
    pub load: usize,
}

impl Cores {
    /// Chooses among those this process may use, and moves the calling thread to the one of the load. The two are
    /// no siblings of one physical core if that can be had.
    ///
    /// # Errors
    /// There is only one, or the kernel does not say.
    pub fn choose() -> io::Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect();
        let &[server, next, ..] = allowed.as_slice() else {
            return Err(io::Error::other(
                "two processor cores are needed, one for the server and one for the load",
            ));
        };
        let siblings = siblings_of(server);
        let load = allowed[1..].iter().copied().find(|core| !siblings.contains(core)).unwrap_or(next);
        let cores = Self { server, load };
        stay_on(load)?;
        Ok(cores)
    }

    /// Runs `start` on the server's core; processes and threads that it starts stay there.
    ///
    /// # Panics
    /// If the kernel does not let a thread move.
    pub fn for_server<T>(self, start: impl FnOnce() -> T) -> T {
        stay_on(self.server).expect("a core that this thread may use");
        let started = start();
        stay_on(self.load).expect("a core that this thread may use");
        started
    }
}

fn stay_on(core: usize) -> io::Result<()> {
    let mut only = CpuSet::new();
    only.set(core);
    Ok(sched_setaffinity(None, &only)?)
}

/// The cores that share a physical one with `core`, itself included; none if the kernel does not tell.
fn siblings_of(core: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list");
    std::fs::read_to_string(path).map_or_else(|_| Vec::new(), |list| parse_list(&list))
}

/// `0,2-3`, as the kernel writes sets of cores.
fn parse_list(list: &str) -> Vec<usize> {
    let mut cores = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse()) {
            cores.extend(first..=last);
        }
    }
    cores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lists_are_read() {
        assert_eq!(parse_list("0\n"), [0]);
        assert_eq!(parse_list("0,32\n"), [0, 32]);
        assert_eq!(parse_list("0-1,4-6"), [0, 1, 4, 5, 6]);
        assert!(parse_list("").is_empty());
    }
}
