//! What a panic may say, and how it ends: one line and exit code 70.
//!
//! A panic is a fault of ours. Its message may hold whatever the code at that place had in its hands, a key included,
//! so of its words only those are told that stand in the source; a backtrace is for whoever has that source.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};

use crate::output;

/// From now on a panic is one line on standard error, whatever `RUST_BACKTRACE` says. A verb that logs replaces this
/// by a log line.
pub(crate) fn in_one_line() {
    panic::set_hook(Box::new(|panic| {
        output::complain(&format!("oneseal: a fault of oneseal itself: {}; please report it", told(panic)));
    }));
}

/// Does `work`; `None` if it panicked, which the hook has told.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Option<T> {
    // Nothing that it touched is looked at again: the process ends.
    panic::catch_unwind(AssertUnwindSafe(work)).ok()
}

/// What a panic may say: a text that stands in the source, and nothing that was formatted at run time.
pub(crate) fn words(payload: &dyn Any) -> &'static str {
    payload.downcast_ref::<&'static str>().copied().unwrap_or("its message is withheld, see the place")
}

fn told(panic: &PanicHookInfo<'_>) -> String {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    format!("panicked at {place}: {}", words(panic.payload()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_panic_says_what_stands_in_the_source_and_nothing_that_was_made_at_run_time() {
        assert_eq!(words(&"index out of reach"), "index out of reach");
        let made = words(&format!("bad key {}", "canary"));
        assert!(!made.contains("canary"), "{made}");
    }

    /// The child of the test below: the hook is process-wide, so it gets a process.
    #[test]
    fn child_that_panics() {
        if std::env::var_os(CHILD).is_none() {
            return;
        }
        in_one_line();
        let outcome = caught(|| panic!("bad key {}", std::env::var(CHILD).unwrap_or_default()));
        assert_eq!(outcome, None::<()>);
    }

    #[test]
    fn a_panic_is_one_line_without_a_secret_or_a_backtrace() {
        let mut command = Command::new(std::env::current_exe().expect("this test"));
        command.args(["--exact", "--nocapture", "panics::tests::child_that_panics"]);
        let output = command.env(CHILD, "canary").env("RUST_BACKTRACE", "1").output().expect("runs");
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && out.contains("1 passed"), "{out} {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        assert!(err.starts_with("oneseal: a fault of oneseal itself: panicked at "), "{err}");
        assert!(err.contains("panics.rs") && !err.contains("canary"), "{err}");
    }

    const CHILD: &str = "TEST_PANIC_CHILD";
}
