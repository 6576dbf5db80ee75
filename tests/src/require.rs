//! A part that a test needs and this machine may not have: skipped by name, or a failure where all are required.

use std::path::{Path, PathBuf};

/// Says that `what` is skipped and `why`.
///
/// # Panics
/// With `TEST_REQUIRE=all`, as in CI.
pub fn skip(what: &str, why: &str) {
    assert!(std::env::var("TEST_REQUIRE").as_deref() != Ok("all"), "required, but missing: {what}: {why}");
    #[expect(clippy::print_stderr, reason = "a skipped part is named in the test's output")]
    {
        eprintln!("SKIPPED: {what}: {why}");
    }
}

/// The program `name` on `PATH`, or where Debian keeps its servers.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    places.map(|place| place.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
