//! What the process asks of the operating system before it touches a key.

use std::io;

#[cfg(target_os = "linux")]
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Keeps the private key out of core dumps and out of reach of debuggers run by the same user: a crash must not
/// write memory to a disk that backups and crash collectors read.
///
/// On Linux this also makes `/proc/PID` of the process root's, so that another process of the same user cannot read
/// its memory. `serve --allow-debugging` leaves all of it as it was.
///
/// # Errors
/// The operating system does not let us. The server is no less correct for it, only less careful.
pub(crate) fn deny_dumps() -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    #[cfg(target_os = "linux")]
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// Raises the limit of open files to what this process may have, and returns it. Many systems start programs with
/// 1024, which some connections and one watch would use up.
pub(crate) fn open_files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum.unwrap_or(u64::MAX),
        // As it was: nothing has changed.
        Err(_) => limit.current.unwrap_or(u64::MAX),
    }
}
