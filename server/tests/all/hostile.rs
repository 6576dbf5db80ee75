//! Places that are no key's and no configuration's: `check` answers each of them at once, with a code and a place.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::place::{DURABLE, ISSUER, Place};
use crate::support::within;

/// The promise is a second, and one more for a pipe into which nobody writes. These tests share few processors with many
/// others; what hangs takes longer than this all the same.
const AT_ONCE: Duration = Duration::from_secs(10);

/// Something hostile.
struct Case {
    name: &'static str,
    /// Makes it, and gives its path.
    make: fn(&Place) -> PathBuf,
    /// The code with which it is refused as a key, and words of place or message.
    as_key: (&'static str, &'static str),
    /// The same as a configuration.
    as_config: (&'static str, &'static str),
}

const CASES: &[Case] = &[
    Case {
        name: "a sparse GiB",
        make: |place| sparse(place, 1 << 30),
        as_key: ("provider.malformed", "larger than"),
        as_config: ("config.unreadable", "larger than 1024 KiB"),
    },
    Case {
        name: "a FIFO",
        make: fifo,
        as_key: ("provider.malformed", "a FIFO"),
        as_config: ("config.unreadable", "a FIFO into which nothing writes"),
    },
    Case {
        name: "a socket",
        make: socket,
        as_key: ("provider.malformed", "a socket"),
        as_config: ("config.unreadable", "a socket"),
    },
    Case {
        name: "/dev/zero",
        make: |_| "/dev/zero".into(),
        as_key: ("provider.malformed", "a device"),
        as_config: ("config.unreadable", "larger than 1024 KiB"),
    },
    Case {
        name: "/dev/random",
        make: |_| "/dev/random".into(),
        as_key: ("provider.malformed", "a device"),
        as_config: ("config.unreadable", "larger than 1024 KiB"),
    },
    Case {
        name: "a symlink loop",
        make: |place| link(place, "loop", "loop"),
        as_key: ("provider.malformed", "in a circle"),
        as_config: ("config.unreadable", "symbolic links"),
    },
    Case {
        name: "a link to nowhere",
        make: |place| link(place, "dangling", "nowhere"),
        as_key: ("provider.not_found", "a link to nowhere"),
        as_config: ("config.not_found", "does not exist"),
    },
    Case {
        name: "a directory of hidden files",
        make: directory,
        as_key: ("provider.not_found", "holds no files"),
        as_config: ("config.unreadable", "a directory"),
    },
    Case {
        name: "a directory of two thousand files",
        make: crowded,
        as_key: ("provider.malformed", "more than 1024 names"),
        as_config: ("config.unreadable", "a directory"),
    },
    Case {
        name: "a deep directory",
        make: deep,
        as_key: ("provider.not_found", "holds no files"),
        as_config: ("config.unreadable", "a directory"),
    },
    Case {
        name: "a name too long",
        make: |place| place.path(&"x".repeat(300)),
        as_key: ("provider.not_found", "longer than"),
        as_config: ("config.unreadable", "too long"),
    },
    Case {
        name: "a name with a line break",
        make: |place| place.path("no\nkey"),
        as_key: ("provider.not_found", "no such file"),
        as_config: ("config.not_found", "does not exist"),
    },
    Case {
        name: "a part of the path that is a file",
        make: |place| place.path("ring.json/key"),
        as_key: ("provider.not_found", "not a directory"),
        as_config: ("config.unreadable", "ot a directory"),
    },
    Case {
        name: "a process's memory",
        make: |_| "/proc/self/mem".into(),
        as_key: ("provider.malformed", "empty"),
        as_config: ("config.unreadable", "error"),
    },
    Case { name: "binary", make: binary, as_key: ("key.", ""), as_config: ("config.syntax", "not UTF-8") },
];

fn sparse(place: &Place, size: u64) -> PathBuf {
    let path = place.write("huge", "");
    OpenOptions::new().write(true).open(&path).unwrap().set_len(size).unwrap();
    path
}

fn fifo(place: &Place) -> PathBuf {
    let path = place.path("fifo");
    assert!(Command::new("mkfifo").args(["-m", "600"]).arg(&path).status().unwrap().success());
    path
}

fn socket(place: &Place) -> PathBuf {
    let path = place.path("socket");
    // The file stays when the listener goes.
    drop(UnixListener::bind(&path).unwrap());
    path
}

fn link(place: &Place, name: &str, target: &str) -> PathBuf {
    symlink(target, place.path(name)).unwrap();
    place.path(name)
}

fn directory(place: &Place) -> PathBuf {
    fs::create_dir(place.path("directory")).unwrap();
    place.write("directory/.hidden", "");
    place.path("directory")
}

fn crowded(place: &Place) -> PathBuf {
    fs::create_dir(place.path("crowded")).unwrap();
    (0..2000)
        .for_each(|index| drop(File::create(place.path("crowded").join(format!("{index}.pem"))).unwrap()));
    place.path("crowded")
}

fn deep(place: &Place) -> PathBuf {
    fs::create_dir_all(place.path("deep").join("below/".repeat(200))).unwrap();
    place.path("deep")
}

fn binary(place: &Place) -> PathBuf {
    let path = place.write("binary", "");
    fs::write(&path, [0x30, 0x82, 0xff, 0x00, 0xfe]).unwrap();
    path
}

/// Runs `check --json` to its end, which must come in time; gives exit code and report.
#[track_caller]
fn checked(place: &Place, what: &str, args: &[&str], variables: &[(&str, &Path)]) -> (Option<i32>, Value) {
    let mut command = place.command(["check", "--json", "--no-bind"]);
    command.args(args).envs(variables.iter().copied()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let status = within(AT_ONCE, what, || child.try_wait().unwrap());
    let output = child.wait_with_output().unwrap();
    let report = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{what}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
    (status.code(), report)
}

/// A finding of this code, whose place and message together have these words, and which has a cure.
#[track_caller]
fn assert_told(report: &Value, code: &str, words: &str) {
    let found = report["findings"].as_array().unwrap();
    let is_it = |finding: &&Value| {
        let said = format!("{} {}", finding["place"], finding["message"]);
        finding["code"].as_str().unwrap().starts_with(code) && said.contains(words)
    };
    let finding = found.iter().find(is_it).unwrap_or_else(|| panic!("{code}, {words}: {report}"));
    assert!(!finding["cure"].as_str().unwrap().is_empty());
}

#[test]
fn a_hostile_place_of_the_key_is_answered_at_once() {
    for Case { name, make, as_key: (code, words), .. } in CASES {
        let place = Place::with_ring("ES256");
        let uri = format!("file:{}", make(&place).display());
        let (exit, report) = checked(&place, name, &["--issuer", ISSUER, "--provider", &uri], &[]);
        assert_eq!(exit, Some(78), "{name}: {report}");
        assert_told(&report, code, words);
    }
}

#[test]
fn a_hostile_configuration_is_answered_at_once() {
    for Case { name, make, as_config: (code, words), .. } in CASES {
        let place = Place::with_ring("ES256");
        let path = make(&place);
        let (exit, report) = checked(&place, name, &["--config", path.to_str().unwrap()], &[]);
        assert_eq!(exit, Some(78), "{name}: {report}");
        assert_told(&report, code, words);
    }
}

#[test]
fn a_hostile_file_of_a_secret_is_answered_at_once() {
    for Case { name, make, as_config: (_, words), .. } in CASES {
        let place = Place::with_ring("ES256");
        let path = make(&place);
        place.write("inline.toml", &format!("[issuer]\nurl = \"{ISSUER}\"\n[provider]\nkind = \"inline\"\n"));
        let variables = [("ONESEAL__PROVIDER__VALUE_FILE", path.as_path())];
        let (exit, report) = checked(&place, name, &["--config", "inline.toml"], &variables);
        assert_eq!(exit, Some(78), "{name}: {report}");
        assert_told(&report, "config.", words);
    }
}

#[test]
fn a_path_that_is_no_text_is_answered_at_once() {
    let place = Place::with_ring("ES256");
    let name = OsString::from_vec(b"not-utf8-\xff".to_vec());
    let mut command = place.command(["check", "--json", "--no-bind", "--config"]);
    let output = command.arg(&name).output().unwrap();
    assert_eq!(output.status.code(), Some(78), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_told(&report, "config.not_found", "not-utf8");
}

/// `--config <(decrypt …)` and `decrypt … | oneseal --config /dev/stdin`.
#[test]
fn a_configuration_that_another_program_writes_is_read_whole() {
    let place = Place::with_ring("ES256");
    let path = place.configure("");
    let script = r#""$0" check --json --no-bind --config <(head -n 2 "$1"; tail -n +3 "$1")"#;
    let piped = r#"{ head -n 2 "$1"; tail -n +3 "$1"; } | "$0" check --json --no-bind --config /dev/stdin"#;
    for script in [script, piped] {
        let program = env!("CARGO_BIN_EXE_oneseal");
        let output = Command::new("bash")
            .args(["-c", script, program])
            .arg(&path)
            .env(DURABLE, "true")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
    }
}
