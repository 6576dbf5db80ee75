//! Where a command line may find itself: no terminal, no home, no environment, no directory, no room, nobody who
//! reads.

mod cli_support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use cli_support::{Said, oneseal, run, text};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

const ISSUER: &str = "https://oidc.example";

struct Ring {
    dir: TempDir,
    provider: String,
}

impl Ring {
    fn new() -> Self {
        let dir = TempDir::new().expect("a directory");
        let provider = format!("file:{}", text(&dir.path().join("keyring.json")));
        let mut init =
            oneseal(["keys", "init", "--issuer", ISSUER, "--provider", &provider, "--alg", "RS256"]);
        run(init.env("ONESEAL__PROVIDER__DURABLE", "true")).done();
        Self { dir, provider }
    }

    /// Verbs that read, with nothing but their arguments.
    fn verbs(&self) -> Vec<Vec<&str>> {
        let place = ["--issuer", ISSUER, "--provider", &self.provider];
        vec![
            vec!["version"],
            vec!["config", "init"],
            vec!["completions", "bash"],
            vec!["man", "keys", "export"],
            [&["keys", "list"][..], &place].concat(),
            [&["keys", "list", "--json"][..], &place].concat(),
            [&["keys", "show"][..], &place].concat(),
            [&["keys", "export", "--format", "spki"][..], &place].concat(),
        ]
    }
}

/// `script` in a shell, the program as `$0` and `arguments` behind it.
fn shell(script: &str, arguments: &[&str]) -> Said {
    let mut command = Command::new("sh");
    let output = command
        .args(["-c", script, env!("CARGO_BIN_EXE_oneseal")])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("starts");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

#[test]
fn an_empty_environment_is_enough() {
    let ring = Ring::new();
    for verb in ring.verbs() {
        let output = oneseal(&verb).env_clear().output().expect("starts");
        assert!(output.status.success() && output.stderr.is_empty(), "{verb:?}: {output:?}");
    }
    let mut init = oneseal(["keys", "init", "--issuer", ISSUER, "--provider", &ring.provider]);
    let said = run(init.env_clear());
    assert!(said.code == Some(0) || said.err.contains("provider.ephemeral"), "{said:?}");
}

#[test]
fn empty_variables_are_as_good_as_none() {
    let ring = Ring::new();
    for verb in ring.verbs() {
        let mut command = oneseal(&verb);
        for name in ["HOME", "TERM", "LANG", "PATH", "COLUMNS", "NO_COLOR", "XDG_CONFIG_HOME", "TMPDIR"] {
            command.env(name, "");
        }
        assert!(command.output().expect("starts").status.success(), "{verb:?}");
    }
}

#[test]
fn no_directory_is_needed_to_stand_in() {
    let ring = Ring::new();
    for verb in ring.verbs() {
        let gone = shell(r#"d=$(mktemp -d) && cd "$d" && rmdir "$d" && exec "$0" "$@""#, &verb);
        assert_eq!((gone.code, gone.err.as_str()), (Some(0), ""), "{verb:?}: {gone:?}");
        let fixed = run(oneseal(["version"]).current_dir("/proc"));
        fixed.done();
    }
    let from_gone = r#"d=$(mktemp -d) && cd "$d" && rmdir "$d" && exec "$0" "$@""#;
    let relative = shell(from_gone, &["keys", "list", "--issuer", ISSUER, "--provider", "file:keyring.json"]);
    assert_eq!(relative.code, Some(78), "{relative:?}");
    assert!(relative.err.contains("provider.not_found"), "{relative:?}");
    for verb in [&["config", "init", "--output", "x.toml"][..], &["man", "--out", "x"]] {
        let written = shell(from_gone, verb);
        assert!(written.code == Some(78) && written.err.contains("which is gone"), "{verb:?}: {written:?}");
    }
    let wanted = shell(from_gone, &["quickstart", "--once"]);
    assert!(wanted.code == Some(78) && wanted.err.contains("--dir"), "{wanted:?}");
}

#[test]
fn an_answer_that_cannot_be_written_is_no_success() {
    let ring = Ring::new();
    for verb in ring.verbs() {
        let said = shell(r#"exec "$0" "$@" 1</dev/null"#, &verb);
        assert_eq!(said.code, Some(70), "{verb:?}: {said:?}");
        assert!(said.err.contains("standard output could not be written"), "{verb:?}: {said:?}");
    }
}

#[test]
fn closed_standard_streams_are_no_fault() {
    let ring = Ring::new();
    for verb in ring.verbs() {
        for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
            let said = shell(&format!(r#"exec "$0" "$@" {closed}"#), &verb);
            assert_eq!(said.code, Some(0), "{verb:?} {closed}: {said:?}");
        }
    }
    let token = shell(r#"exec "$0" "$@" <&-"#, &["verify", "--issuer", ISSUER, "--aud", "rp", "--json"]);
    assert!(token.code == Some(1) && token.out.contains(r#""reason":"shape""#), "{token:?}");
}

#[test]
fn a_ring_is_not_written_into_by_what_is_printed_when_streams_are_closed() {
    let ring = Ring::new();
    let file = ring.dir.path().join("keyring.json");
    let before = fs::read(&file).expect("there");
    for verb in ring.verbs() {
        shell(r#"exec "$0" "$@" <&- >&- 2>&-"#, &verb);
    }
    assert_eq!(fs::read(&file).expect("there"), before);
}

#[test]
fn a_full_disk_under_the_answer_is_told_and_ends_with_a_code() {
    let ring = Ring::new();
    let mut verbs = ring.verbs();
    verbs.extend([vec!["--help"], vec!["--version"], vec!["keys", "show", "--help"]]);
    for verb in verbs {
        let said = shell(r#"exec "$0" "$@" >/dev/full"#, &verb);
        assert_eq!(said.code, Some(70), "{verb:?}: {said:?}");
        let words = "oneseal: standard output could not be written: No space left on device";
        assert!(said.err.starts_with(words) && said.err.lines().count() == 1, "{verb:?}: {said:?}");
        let silent = shell(r#"exec "$0" "$@" >/dev/full 2>/dev/full"#, &verb);
        assert_eq!(silent.code, Some(70), "{verb:?}: {silent:?}");
    }
    // What went wrong before is told where there is room.
    let said = shell(r#"exec "$0" "$@" >/dev/full"#, &["keys", "list", "--config", "/dev/null", "--json"]);
    assert!(said.code == Some(78) && said.err.contains("config.missing"), "{said:?}");
}

#[test]
fn a_reader_that_leaves_is_no_fault() {
    let ring = Ring::new();
    for verb in ring.verbs() {
        let said = shell(r#"{ "$0" "$@"; echo "ended $?" >&2; } | head -c 1 >/dev/null"#, &verb);
        assert_eq!(said.err, "ended 0\n", "{verb:?}");
        let said = shell(r#"{ "$0" "$@"; echo "ended $?" >&2; } | :"#, &verb);
        assert_eq!(said.err, "ended 0\n", "{verb:?}");
    }
}

#[test]
fn a_dumb_narrow_or_colourless_terminal_gets_plain_text() {
    let ring = Ring::new();
    for (name, value) in
        [("TERM", "dumb"), ("NO_COLOR", "1"), ("COLUMNS", "1"), ("COLUMNS", "0"), ("COLUMNS", "x")]
    {
        for verb in ring.verbs().into_iter().chain([vec!["--help"], vec!["keys", "export", "--help"]]) {
            let output = oneseal(&verb).env(name, value).output().expect("starts");
            assert!(output.status.success(), "{name}={value} {verb:?}: {output:?}");
            let is_der = verb.contains(&"spki");
            assert!(is_der || !output.stdout.contains(&0x1b), "{name}={value} {verb:?}");
        }
        let mistake = run(oneseal(["keys", "melt"]).env(name, value));
        assert!(mistake.code == Some(64) && !mistake.err.contains('\u{1b}'), "{mistake:?}");
    }
}

#[test]
fn arguments_that_are_no_utf8_are_refused_or_taken_as_paths() {
    let odd = OsStr::from_bytes(b"/no/such/\xff\xfe");
    for verb in [&["keys", "list", "--issuer"][..], &["keys", "show"], &["verify", "--aud"], &["man"]] {
        let said = run(oneseal(verb).arg(odd));
        assert!(said.code == Some(64) && said.err.contains("invalid UTF-8"), "{verb:?}: {said:?}");
        let said = run(oneseal(verb).arg("--json").arg(odd));
        assert!(said.code == Some(64), "{verb:?}: {said:?}");
    }
    let said = run(oneseal(["config", "init", "--output"]).arg(odd));
    assert!(said.code == Some(78) && said.err.contains("/no/such/"), "{said:?}");
    let dir = TempDir::new().expect("a directory");
    let path = dir.path().join(OsStr::from_bytes(b"\xff.toml"));
    run(oneseal(["config", "init", "--json", "--output"]).arg(&path)).done();
    assert!(path.exists());
}

#[test]
fn without_a_terminal_nothing_is_drawn() {
    let dir = TempDir::new().expect("a directory");
    let provider = format!("file:{}", text(&dir.path().join("keyring.json")));
    let mut init = oneseal(["keys", "init", "--issuer", ISSUER, "--provider", &provider]);
    let said = run(init.env("ONESEAL__PROVIDER__DURABLE", "true")).done();
    assert!(!said.err.contains(['\u{1b}', '\r']) && !said.out.contains(['\u{1b}', '\r']), "{said:?}");
}

/// A file system that nobody may write to stands in for a read-only one: root may write anywhere else.
#[test]
fn a_fifo_that_nobody_writes_into_is_given_up() {
    let dir = TempDir::new().expect("a directory");
    let fifo = dir.path().join("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO");
    let verify = ["verify", "token", "--aud", "rp", "--issuer", ISSUER];
    let ask = ["healthcheck", "--url", "https://127.0.0.1:9/readyz"];
    for (verb, flag) in [(&verify[..], "--jwks"), (&verify, "--ca"), (&ask, "--ca")] {
        let said = run(oneseal(verb).args([flag, text(&fifo)]));
        assert!(said.code.is_some_and(|code| [64, 78].contains(&code)), "{said:?}");
        assert!(said.err.contains(flag) && said.err.contains("FIFO"), "{said:?}");
    }
}

#[test]
fn a_place_that_may_not_be_written_is_denied_by_name() {
    let ring = Ring::new();
    let place = ["--issuer", ISSUER, "--provider", &ring.provider];
    for target in ["/proc/jwks.json", "/sys/jwks.json"] {
        let said = run(oneseal(["keys", "export", "--out", target]).args(place));
        assert!(matches!(said.code, Some(77 | 78)) && said.err.contains(target), "{said:?}");
    }
    let said = run(oneseal(["keys", "export", "--site", "/proc"]).args(place));
    assert!(matches!(said.code, Some(77 | 78)) && said.err.contains("/proc"), "{said:?}");
    let closed = ring.dir.path().join("closed");
    fs::create_dir(&closed).expect("made");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).expect("set");
    let said = run(oneseal(["keys", "export", "--out", text(&closed.join("x"))]).args(place));
    let expected = if is_root() { 0 } else { 77 };
    assert_eq!(said.code, Some(expected), "{said:?}");
}

fn is_root() -> bool {
    fs::read_dir(Path::new("/root")).is_ok()
}
