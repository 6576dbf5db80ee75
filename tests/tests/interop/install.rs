//! Installs a library by its language's ordinary client and its lock file, once for each state of its folder.
//!
//! Tests run side by side and in several processes: a lock file lets one install while the others wait.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use oneseal_keystore::Digest;
use oneseal_tests::require;

use crate::libraries::Library;

/// Installs `library` unless that has been done. `None` where a tool of it is missing, which the output then says.
///
/// # Panics
/// If the installation fails, with what the client said; or if a tool is missing with `TEST_REQUIRE=all`.
pub(crate) async fn installed(library: &'static Library) -> Option<PathBuf> {
    for tool in library.tools {
        if require::program(tool).is_none() {
            require::skip(library.name, &format!("{tool} is not installed"));
            return None;
        }
        if let Some((_, _, why)) =
            PROBES.iter().find(|(name, words, _)| name == tool && !works(library, words))
        {
            require::skip(library.name, why);
            return None;
        }
    }
    tokio::task::spawn_blocking(|| install(library)).await.unwrap();
    Some(out(library))
}

/// What a tool that is there must do, and why it is of no use otherwise. `scripts/need` asks the same.
const PROBES: &[(&str, &[&str], &str)] = &[
    ("go", &["go", "list", "-m"], "this Go is older than the one in go.mod, and may not fetch that"),
    ("javac", &["javac", "--release", "17", "-version"], "the JDK is older than 17"),
    (
        "python3",
        &["python3", "-c", "import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))"],
        "this Python is older than 3.11 or has no venv (Debian: apt-get install python3-venv)",
    ),
];

fn works(library: &Library, words: &[&str]) -> bool {
    let output = Command::new(words[0]).args(&words[1..]).current_dir(library.place()).output();
    output.is_ok_and(|output| output.status.success())
}

/// `word` with `{out}` and `{bin}` filled in.
pub(crate) fn fill(word: &str, out: &Path) -> String {
    let own = std::env::current_exe().unwrap();
    let bin = own.parent().and_then(Path::parent).expect("a test lies in target/PROFILE/deps");
    word.replace("{out}", &out.display().to_string()).replace("{bin}", &bin.display().to_string())
}

fn install(library: &Library) {
    let out = out(library);
    std::fs::create_dir_all(&out).unwrap();
    // Libraries of one folder share it, so they share its lock.
    let lock = File::create(out.join(".lock")).unwrap();
    lock.lock().unwrap();
    let stamp = out.join(".installed");
    let state = state(&library.place());
    let leaves = library.place().join(fill(library.leaves, &out));
    if std::fs::read_to_string(&stamp).is_ok_and(|found| found == state) && leaves.exists() {
        return;
    }
    for words in library.install {
        run(library, words, &out);
    }
    assert!(leaves.exists(), "{}: the installation left no {}", library.name, leaves.display());
    std::fs::write(stamp, state).unwrap();
}

fn run(library: &Library, words: &[&str], out: &Path) {
    let mut command = Command::new(fill(words[0], out));
    command.args(words[1..].iter().map(|word| fill(word, out))).current_dir(library.place());
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}: `{}` failed with {}:\n{}{}",
        library.name,
        words.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Beside what cargo builds for these tests.
fn out(library: &Library) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("interop").join(library.folder)
}

/// A digest of the folder's own files: another state is installed anew.
fn state(folder: &Path) -> String {
    let mut files = Vec::new();
    collect(folder, &mut files);
    files.sort();
    let mut parts = Vec::new();
    for file in &files {
        parts.push(file.strip_prefix(folder).unwrap().display().to_string().into_bytes());
        parts.push(std::fs::read(file).unwrap());
    }
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    Digest::of_parts(&parts).to_string()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_file() {
            files.push(path);
        } else if !MADE.contains(&name.as_str()) {
            collect(&path, files);
        }
    }
}

/// What installations and interpreters leave in a folder.
const MADE: &[&str] = &["node_modules", "target", "__pycache__", ".venv"];
