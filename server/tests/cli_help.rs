//! The help and the manual pages: whole, in step with the program, and with examples that run.

mod cli_support;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use cli_support::{oneseal, run, text, until};
use oneseal_testing::parts::Postgres;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Verbs without verbs below them, as the pages name them.
fn verbs(pages: &Path) -> Vec<Vec<String>> {
    let names = fs::read_dir(pages).expect("there").map(|entry| entry.expect("there").file_name());
    let names = names.map(|name| name.into_string().expect("UTF-8").trim_end_matches(".1").to_owned());
    let mut names: Vec<_> = names.collect();
    names.sort();
    let is_leaf = |name: &&String| !names.iter().any(|other| other.starts_with(&format!("{name}-")));
    // The one verb that has a hyphen itself, as no page's name can tell.
    let words = |name: &String| {
        let name = name.replace("new-kek", "new_kek");
        name.split('-').skip(1).map(|word| word.replace('_', "-")).collect()
    };
    names.iter().filter(is_leaf).map(words).collect()
}

fn pages() -> TempDir {
    let dir = TempDir::new().expect("a directory");
    run(&mut oneseal(["man", "--out", text(dir.path())])).done();
    dir
}

#[test]
fn every_verb_has_a_page_that_renders_with_exit_status_and_environment() {
    let dir = pages();
    let leaves = verbs(dir.path());
    assert!(leaves.len() >= 15, "{leaves:?}");
    let root = Path::new("oneseal.1");
    for page in fs::read_dir(dir.path()).expect("there").map(|entry| entry.expect("there").path()) {
        assert!(fs::read(&page).expect("there").is_ascii(), "{} is not for every reader", page.display());
        let output = Command::new("groff")
            .args(["-man", "-Tascii", "-P-c", "-P-b", "-P-u", "-ww", text(&page)])
            .output();
        let output = output.expect("groff is there");
        let (shown, warned) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && warned.is_empty(), "{}: {warned}", page.display());
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "ENVIRONMENT", "ONESEAL_CONFIG"] {
            assert!(shown.contains(section), "{} has no {section}", page.display());
        }
        assert!(
            shown.contains("oneseal-keys") || !page.ends_with(root),
            "the first page leads to the others"
        );
    }
}

#[test]
fn a_page_is_printed_by_the_words_of_its_verb() {
    let one = run(&mut oneseal(["man", "keys", "show"])).done();
    let dir = pages();
    assert_eq!(one.out, fs::read_to_string(dir.path().join("oneseal-keys-show.1")).expect("there"));
    run(&mut oneseal(["man", "keys", "melt"])).refused(64, &["no such verb", "export"]);
    run(&mut oneseal(["man", "check", "--json"])).refused(64, &["--json"]);
    run(&mut oneseal(["man", "--out", "/no/such/dir"])).refused(78, &["/no/such/dir", "make it first"]);
    run(&mut oneseal(["man", "--out", text(&dir.path().join("made"))])).done();
    assert!(dir.path().join("made/oneseal.1").is_file());
    fs::remove_dir_all(dir.path().join("made")).expect("there");
    let told = run(&mut oneseal(["man", "--out", text(dir.path()), "--json"])).done().json();
    assert_eq!(
        told["written"].as_array().map(Vec::len),
        Some(fs::read_dir(dir.path()).expect("there").count())
    );
}

#[test]
fn each_help_names_how_its_verb_ends() {
    for verb in verbs(pages().path()) {
        let long = run(oneseal(&verb).arg("--help")).done().out;
        assert!(long.contains("Exit codes:\n    0  ") && long.contains("\n   64  "), "{verb:?}: {long}");
        let short = run(oneseal(&verb).arg("-h")).done().out;
        assert!(short.contains("Exit codes: 0, "), "{verb:?}: {short}");
    }
}

/// What a reader of `--help` would type.
fn examples(verb: &[String]) -> Vec<String> {
    // So wide that no line is broken.
    let help = run(oneseal(verb).arg("--help").env("COLUMNS", "1000")).done().out;
    help.lines().filter_map(|line| line.strip_prefix("  $ ")).map(str::to_owned).collect()
}

/// A directory as the examples have it, without a replica yet.
fn scene() -> TempDir {
    let dir = TempDir::new().expect("a directory");
    let configuration = "[issuer]\nurl = \"https://oidc.example\"\n\
                         [provider]\nkind = \"file\"\npath = \"keyring.json\"\ndurable = true\n\
                         [listen]\ndocuments = \"127.0.0.1:0\"\nops = \"127.0.0.1:0\"\nadmin = \"./admin.sock\"\n\
                         [process]\ndrain_delay = \"0s\"\n\
                         [admin]\nmint = true\nmint_audiences = [\"rp\"]\n";
    fs::write(dir.path().join("oneseal.toml"), configuration).expect("written");
    let recipient = include_str!("../../keystore/tests/vectors/recipient/p256.pub.jwk");
    fs::write(dir.path().join("recipient.jwk"), recipient).expect("written");
    let rules = "[issuer]\nurl = \"https://oidc.example\"\n\
                 [[cluster]]\nname = \"prod\"\nissuer = \"https://kubernetes.default.svc\"\n\
                 [[rule]]\nname = \"ci\"\ncluster = \"prod\"\nsub = \"{cluster}:{namespace}\"\n\
                 audiences = [\"sts.amazonaws.com\"]\n";
    fs::write(dir.path().join("rules.toml"), rules).expect("written");
    let workload = r#"{"cluster": "prod", "namespace": "ci", "pod_uid": "5c1e"}"#;
    fs::write(dir.path().join("workload.json"), workload).expect("written");
    let expectations =
        format!(r#"{{"expect": [{{"workload": {workload}, "audience": "rp", "denied": true}}]}}"#);
    fs::write(dir.path().join("expectations.toml"), expectations).expect("written");
    dir
}

/// `line` in a shell, in `dir`, with the program under test in the PATH.
fn shell(line: &str, dir: &Path) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_oneseal")).parent().expect("a directory");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").expect("a PATH"));
    let mut command = Command::new("sh");
    command.args(["-e", "-c", line]).current_dir(dir).env("PATH", path).stdin(Stdio::null());
    command.env("ONESEAL__PROVIDER__DURABLE", "true");
    command
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn every_example_of_the_help_runs() {
    let dir = scene();
    let run_all = |verb: &[&str], replace: (&str, &str)| {
        let verb: Vec<_> = verb.iter().map(|word| (*word).to_owned()).collect();
        let lines = examples(&verb);
        assert!(!lines.is_empty(), "{verb:?} has none");
        for line in lines {
            let said = run(&mut shell(&line.replace(replace.0, replace.1), dir.path()));
            assert_eq!(said.code, Some(0), "{line}: {said:?}");
        }
    };
    run_all(&["keys", "init"], ("", ""));
    let [serve] = examples(&["serve".to_owned()]).try_into().expect("one example");
    let mut command = shell(&format!("exec {serve}"), dir.path());
    let mut replica = Killed(command.stderr(Stdio::null()).process_group(0).spawn().expect("starts"));
    let ready = dir.path().join("ready.json");
    let ready: Value = until("a ready replica", || serde_json::from_slice(&fs::read(&ready).ok()?).ok());
    let ops = ready["ops"].as_str().expect("an address");

    let mut done = vec!["keys init".to_owned(), "serve".to_owned()];
    // The key set that `verify` uses is exported by an example of its own.
    for verb in [
        // First: what comes after changes the file, which the replica follows when it looks next.
        "keys recover",
        "check",
        "keys list",
        "keys show",
        "keys export",
        "keys rotate",
        "keys revoke",
        "migrate",
        "mint",
        "admin token new",
        "verify",
        "config init",
        "config schema",
        "healthcheck",
        "version",
        "completions",
        "man",
        "quickstart",
        "replicas list",
        // Last: what came before has no key-encryption key.
        "keys new-kek",
        "keys rewrap",
        "keys keks",
    ] {
        let words: Vec<_> = verb.split(' ').collect();
        run_all(&words, ("127.0.0.1:8081", ops));
        done.push(verb.to_owned());
    }
    // They ask a configuration of their own and no replica.
    for verb in ["rules preview", "rules test"] {
        run_all(&verb.split(' ').collect::<Vec<_>>(), ("oneseal.toml", "rules.toml"));
        done.push(verb.to_owned());
    }
    // Their time has not come here, or what they name is not there; the line itself is one that is understood.
    for verb in ["keys activate", "keys retire", "keys rollback", "keys adopt", "token"] {
        for line in examples(&verb.split(' ').map(str::to_owned).collect::<Vec<_>>()) {
            let said = run(&mut shell(&line, dir.path()));
            assert!(matches!(said.code, Some(75 | 78)), "{line}: {said:?}");
        }
        done.push(verb.to_owned());
    }
    if let Some(server) = Postgres::shared() {
        // After the replica has started, which uses no database.
        let toml = dir.path().join("oneseal.toml");
        let text = fs::read_to_string(&toml).expect("there");
        fs::write(&toml, format!("{text}[database]\nurl = \"{}\"\n", server.create_database().url()))
            .expect("written");
        run_all(&["db", "migrate"], ("", ""));
        run_all(&["db", "status"], ("", ""));
        for verb in ["export", "verify", "follow", "prune"] {
            run_all(&["events", verb], ("", ""));
        }
    }
    done.extend(["db migrate", "db status"].map(str::to_owned));
    done.extend(["export", "verify", "follow", "prune"].map(|verb| format!("events {verb}")));
    // It needs a replica that was killed: tests/tests/fleet/registry.rs.
    done.push("replicas forget".to_owned());
    let mut all: Vec<_> = verbs(pages().path()).iter().map(|words| words.join(" ")).collect();
    all.sort();
    done.sort();
    assert_eq!(done, all, "a verb whose examples nobody has tried");

    let pid = i32::try_from(replica.0.id()).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(pid, Signal::TERM).expect("it is there");
    assert_eq!(replica.0.wait().expect("ends").code(), Some(0));
}
