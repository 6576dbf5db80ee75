//! What a process has cost, by the kernel's word (proc(5)).
//!
//! Requests a second are those of server and client together; processor time for each request is the server's alone,
//! and is the figure to trust. The kernel counts it in ticks of 10 ms: a round of seconds is exact to a few parts in a
//! thousand.

use std::fs;

/// User and system time that a process, its threads and its children that still live have used, in seconds. nginx
/// works in a child.
///
/// # Panics
/// If there is no such process.
pub fn cpu_s(pid: u32) -> f64 {
    let ticks: u64 = family(pid).iter().filter_map(|pid| stat(*pid)).map(|stat| stat.ticks).sum();
    assert!(ticks > 0 || stat(pid).is_some(), "process {pid} has gone");
    ticks as f64 / TICKS_A_SECOND
}

/// What of the process is in memory (`VmRSS`), in MB of 2^20 bytes.
///
/// # Panics
/// If there is no such process.
pub fn resident_mb(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("a process that lives, on Linux");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib / 1024.0
}

/// Ticks that this process has used, with those of its children that have ended and been waited for, and theirs.
pub(crate) fn own_ticks() -> u64 {
    stat(std::process::id()).map_or(0, |stat| stat.ticks + stat.ended)
}

/// The process and its children.
fn family(pid: u32) -> Vec<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let children = numbers.filter(|number| stat(*number).is_some_and(|stat| stat.parent == pid));
    std::iter::once(pid).chain(children).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// `utime` and `stime`.
    ticks: u64,
    /// `cutime` and `cstime`.
    ended: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in the second field may hold anything, parentheses too; what follows the last one is fields from the third.
fn parse_stat(line: &str) -> Option<Stat> {
    let (_, rest) = line.rsplit_once(')')?;
    let fields: Vec<_> = rest.split_ascii_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Stat {
        parent: fields.get(1)?.parse().ok()?,
        ticks: ticks(11)? + ticks(12)?,
        ended: ticks(13)? + ticks(14)?,
    })
}

/// `USER_HZ`, the same on every architecture that we ship for.
pub(crate) const TICKS_A_SECOND: f64 = 100.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_system_time_are_added_whatever_the_name() {
        let line = "77 (a (b) c) S 42 77 77 0 -1 4194560 1 2 3 4 150 25 9 9 20 0 4 0 100 200 300";
        assert_eq!(parse_stat(line), Some(Stat { parent: 42, ticks: 175, ended: 18 }));
        assert_eq!(parse_stat("77 (cut"), None);
    }

    #[test]
    fn this_process_has_memory_and_a_parent() {
        assert!(resident_mb(std::process::id()) > 1.0);
        assert!(stat(std::process::id()).is_some_and(|stat| stat.parent > 0));
        assert!(cpu_s(std::process::id()) >= 0.0);
    }
}
