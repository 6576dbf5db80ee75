//! Ratios against limits and peers, measured in the same run.
//!
//! Absolute rates depend on the machine, so a goal is always a ratio: ours and the yardstick take turns
//! ([`rounds`]), each server alone on its core ([`pin`]), its cost by the kernel's count ([`proc`]), and the median of
//! the rounds' ratios is compared with the target ([`verdict`]). `make bench` prints each line with its verdict and exits
//! 1 if one fails; a peer that is not installed is no pass. `docs/performance.md` has the figures and how to read them.
//!
//! ```text
//! benches/documents ─┐            ┌─► server           oneseal itself, as it ships
//! benches/tls        ├─ rounds ───┼─► nginx, oidc_provider   peers/
//! benches/mint_http  │  of turns  ├─► hyper_raw, in_handler  yardsticks, in this very program (role)
//! benches/…         ─┘            └─► raw              the primitive alone
//! ```

pub mod child;
pub mod embedded;
pub mod handshakes;
pub mod hyper_raw;
pub mod in_handler;
pub mod machine;
pub mod minting;
pub mod nginx;
pub mod oidc_provider;
pub mod pin;
pub mod probe;
pub mod proc;
pub mod raw;
pub mod report;
pub mod role;
pub mod rounds;
pub mod server;
pub mod verdict;
pub mod wrk;

use std::time::{Duration, Instant};

/// The middle one.
///
/// # Panics
/// If there are none.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "a bench measures spans; nothing is decided by them")]
pub fn now() -> Instant {
    Instant::now()
}

/// Looks every few milliseconds until `look` finds something.
///
/// # Panics
/// After ten seconds, naming `what` was waited for.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "waited 10 s for: {what}");
        #[expect(clippy::disallowed_methods, reason = "a state of another process is looked at again")]
        std::thread::sleep(Duration::from_millis(2));
    }
}
