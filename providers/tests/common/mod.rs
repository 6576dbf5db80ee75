//! What the tests of the file provider share: own directories, kubelet's way of writing, other users.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unreachable_pub, dead_code, reason = "each test binary uses its part")]

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use oneseal_coordination::EventDraft;
use oneseal_providers::{Change, Entries, FileProvider};
use tempfile::TempDir;
use uuid::Uuid;

/// A poll so slow that only an event can wake a test in time.
pub const NO_POLL: Duration = Duration::from_secs(3600);

/// The user of distroless images.
pub const NONROOT: u32 = 65532;

pub fn temp_dir() -> TempDir {
    tempfile::Builder::new().prefix("oneseal-").tempdir().unwrap()
}

pub fn watched(path: impl Into<PathBuf>) -> FileProvider {
    FileProvider::new(path).poll_every(NO_POLL)
}

pub fn change(id: Uuid) -> Change {
    Change {
        id,
        actor: "test".to_owned(),
        reason: "a test".to_owned(),
        event: EventDraft::new("test.changed", "{}"),
        fence: None,
    }
}

/// Writes a file with these permission bits, whatever the umask is.
pub fn write(path: &Path, text: impl AsRef<[u8]>, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Puts the file there by rename, as a careful tool does.
pub fn rename_into_place(path: &Path, text: impl AsRef<[u8]>) {
    let temp = path.with_file_name(format!(".{}", Uuid::new_v4()));
    write(&temp, text, 0o600);
    fs::rename(temp, path).unwrap();
}

/// Does what kubelet and the Secrets Store CSI driver do to a volume (`AtomicWriter`): new directory, link swapped, names
/// linked, old directory removed. A name may have directories in it, as a projected path has.
pub fn kubelet_update(volume: &Path, entries: &Entries, mode: u32) {
    let old = fs::read_link(volume.join("..data")).ok();
    let name = format!("..2026_03_01_12_00_00.{}", Uuid::new_v4().as_u128());
    let unit = volume.join(&name);
    fs::create_dir(&unit).unwrap();
    fs::set_permissions(&unit, Permissions::from_mode(0o755)).unwrap();
    for (name, value) in entries.iter() {
        let file = unit.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        write(&file, value.expose(), mode);
    }
    symlink(&name, volume.join("..data_tmp")).unwrap();
    fs::rename(volume.join("..data_tmp"), volume.join("..data")).unwrap();
    for (name, _) in entries.iter() {
        let first = Path::new(name).iter().next().unwrap();
        let link = volume.join(first);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new("..data").join(first), link).unwrap();
        }
    }
    if let Some(old) = old {
        fs::remove_dir_all(volume.join(old)).unwrap();
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Runs the ignored test `name` of this test binary as [`NONROOT`], with `dir` as its `TEST_DIR`.
pub fn run_as_nonroot(name: &str, dir: &Path) {
    let binary = Binary::copy();
    let output = Command::new(binary.path())
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env("TEST_DIR", dir)
        .current_dir("/")
        .uid(NONROOT)
        .gid(NONROOT)
        .output()
        .unwrap();
    let told =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && told.contains("1 passed"), "{told}");
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
pub fn skipped(test: &str, because: &str) {
    eprintln!("skipped: {test}: {because}");
}

/// A copy of this test binary that every user may run: the build directory may be closed to others.
pub struct Binary {
    place: TempDir,
}

impl Binary {
    pub fn copy() -> Self {
        let place = temp_dir();
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        let copy = Self { place };
        // By another process: a file that this one has open for writing, a child that another test starts in that moment
        // has open too, and then it cannot be run.
        let mut install = Command::new("install");
        install.args(["-m", "755"]).arg(std::env::current_exe().unwrap()).arg(copy.path());
        assert!(install.status().unwrap().success());
        copy
    }

    pub fn path(&self) -> PathBuf {
        self.place.path().join("test")
    }

    /// Runs the ignored test `name` in a mount namespace of its own, in which it may mount as it likes. What it
    /// mounts goes with it.
    pub fn run_with_own_mounts(&self, name: &str, variables: &[(&str, &str)]) -> String {
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private"])
            .arg(self.path())
            .env("TEST_BINARY", self.path());
        told_by(command.args(["--exact", name, "--ignored", "--nocapture"]).envs(variables.iter().copied()))
    }
}

/// As [`Binary::run_with_own_mounts`] has it, from within: the same binary once more, as [`NONROOT`].
pub fn again_as_nonroot(name: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::var_os("TEST_BINARY").unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]).envs(variables.iter().copied());
    told_by(command.current_dir("/").uid(NONROOT).gid(NONROOT))
}

fn told_by(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}\n{complained}");
    told
}

/// Whether file systems can be mounted here, in a namespace of their own.
pub fn can_mount() -> bool {
    let script = "mount -t tmpfs tmpfs /mnt";
    is_root()
        && Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", script])
            .output()
            .is_ok_and(|done| done.status.success())
}

/// `mount ARGS… POINT`, making the point.
pub fn mount(args: &[&str], point: &Path) {
    if !point.exists() {
        fs::create_dir_all(point).unwrap();
    }
    let done = Command::new("mount").args(args).arg(point).output().unwrap();
    assert!(done.status.success(), "{args:?} {}: {}", point.display(), String::from_utf8_lossy(&done.stderr));
}
