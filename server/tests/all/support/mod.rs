//! A place with a ring, a server on free ports, and what one asks it.

#[cfg(target_os = "linux")]
pub(crate) mod confined;
pub(crate) mod http;
pub(crate) mod place;
pub(crate) mod server;
pub(crate) mod tls;

use std::time::{Duration, Instant};

/// Waits until `look` finds something.
///
/// # Panics
/// After ten seconds: ten times what the slowest of these waits needs.
pub(crate) fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    within(Duration::from_secs(10), what, look)
}

/// As [`until`], with another limit.
#[expect(clippy::disallowed_methods, reason = "between two looks; other processes tell nobody")]
pub(crate) fn within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = now() + limit;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(now() < end, "waited {limit:?} for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's own deadline")]
pub(crate) fn now() -> Instant {
    Instant::now()
}
