//! What the kernel says about this process (proc(5)).

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

/// One reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usage {
    /// Processor time, user and system.
    pub(crate) cpu_seconds: f64,
    /// Resident memory.
    pub(crate) resident_bytes: u64,
    /// Wall time of the start, in seconds since the Unix epoch.
    pub(crate) started_at_s: u64,
    /// Open file descriptors.
    pub(crate) open_files: u64,
    /// File descriptors that may be open.
    pub(crate) max_files: u64,
}

/// Reads it now; `None` where there is no `/proc`.
pub(crate) fn usage() -> Option<Usage> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses and may hold anything.
    let fields: Vec<u64> =
        stat.rsplit_once(')')?.1.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    let field = |number: usize| fields.get(number - FIRST_FIELD).copied();
    let ticks = clock_ticks_per_second();
    Some(Usage {
        cpu_seconds: (field(14)? + field(15)?) as f64 / ticks as f64,
        resident_bytes: field(24)? * page_size() as u64,
        started_at_s: boot_time()? + field(22)? / ticks,
        open_files: fs::read_dir("/proc/self/fd").ok()?.count() as u64,
        max_files: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
    })
}

/// Wall time of the machine's boot.
fn boot_time() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// The number, in proc_pid_stat(5), of the field after the program's name.
const FIRST_FIELD: usize = 3;
