//! `oneseal keys`: create-only, public facts only.

mod cli_support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cli_support::{oneseal, run, text};
use serde_json::Value;
use tempfile::TempDir;

const ISSUER: &str = "https://oidc.example";

/// A key verb on the ring at `ring`. The place counts as durable: what is a memory file system here is none elsewhere.
fn keys(verb: &str, ring: &Path) -> Command {
    let mut command =
        oneseal(["keys", verb, "--issuer", ISSUER, "--provider", &format!("file:{}", text(ring))]);
    command.env("ONESEAL__PROVIDER__DURABLE", "true");
    command
}

fn ring(dir: &TempDir) -> PathBuf {
    dir.path().join("keyring.json")
}

/// Every private member of a JWK anywhere in `value` (RFC 7518 section 6, RFC 8037 section 2).
fn private_values(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                match value {
                    Value::String(text) if ["d", "p", "q", "dp", "dq", "qi"].contains(&name.as_str()) => {
                        found.push(text.clone());
                    }
                    _ => private_values(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| private_values(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn init_makes_a_ring_once_and_then_says_that_it_is_there() {
    let dir = TempDir::new().expect("a directory");
    let made = run(keys("init", &ring(&dir)).args(["--alg", "ES256,EdDSA", "--json"])).done().json();
    assert_eq!(made["created"], true);
    assert_eq!(made["keys"].as_array().map(Vec::len), Some(2));
    assert_eq!(fs::metadata(ring(&dir)).expect("there").permissions().mode() & 0o777, 0o600);
    let bytes = fs::read(ring(&dir)).expect("there");

    let again = run(keys("init", &ring(&dir)).args(["--alg", "ES256,EdDSA", "--json"])).done().json();
    assert_eq!(again["created"], false);
    for member in ["keys", "ring_key", "digest", "revision", "issuer", "provider"] {
        assert_eq!(again[member], made[member], "{member}");
    }
    let other = run(keys("init", &ring(&dir)).args(["--alg", "RS256"])).done();
    assert!(other.out.contains("already there") && other.err.contains("RS256"), "{other:?}");
    assert_eq!(fs::read(ring(&dir)).expect("there"), bytes);
}

#[test]
fn init_tells_the_setting_without_which_a_server_refuses_the_ring() {
    let said = |algorithms: &str| {
        let dir = TempDir::new().expect("a directory");
        run(keys("init", &ring(&dir)).args(["--alg", algorithms])).done().err
    };
    assert!(said("ES256").contains("also set issuer.algorithms = [\"ES256\"]"), "{}", said("ES256"));
    let two = said("RS256,EdDSA");
    assert!(two.contains("issuer.algorithms = [\"RS256\", \"EdDSA\"]"), "{two}");
    assert!(!said("RS256").contains("issuer.algorithms"));
}

#[test]
fn of_many_that_init_at_once_one_makes_the_ring_and_all_tell_of_the_same() {
    let dir = TempDir::new().expect("a directory");
    let spawn = || {
        let mut command = keys("init", &ring(&dir));
        command.args(["--alg", "ES256", "--json"]).stdout(Stdio::piped()).spawn().expect("starts")
    };
    let running: Vec<_> = (0..8).map(|_| spawn()).collect();
    let told: Vec<Value> = running
        .into_iter()
        .map(|child| child.wait_with_output().expect("ends"))
        .map(|output| serde_json::from_slice(&output.stdout).expect("JSON"))
        .collect();
    assert_eq!(told.iter().filter(|told| told["created"] == true).count(), 1, "{told:?}");
    assert!(told.iter().all(|other| other["keys"] == told[0]["keys"]), "{told:?}");
}

#[test]
fn init_refuses_what_is_no_ring_and_leaves_it() {
    let dir = TempDir::new().expect("a directory");
    fs::write(ring(&dir), "not a key").expect("written");
    fs::set_permissions(ring(&dir), fs::Permissions::from_mode(0o600)).expect("set");
    run(&mut keys("init", &ring(&dir))).refused(78, &["cure"]);
    assert_eq!(fs::read_to_string(ring(&dir)).expect("there"), "not a key");
    let nowhere = dir.path().join("no/such/dir/keyring.json");
    let said = run(&mut keys("init", &nowhere));
    assert!(said.code != Some(0) && said.err.contains("no/such/dir"), "{said:?}");
}

#[test]
fn list_and_export_tell_public_facts_alone() {
    let dir = TempDir::new().expect("a directory");
    run(keys("init", &ring(&dir)).args(["--alg", "RS256,ES256"])).done();
    let mut secrets = Vec::new();
    let document = serde_json::from_slice(&fs::read(ring(&dir)).expect("there")).expect("JSON");
    private_values(&document, &mut secrets);
    assert!(secrets.len() >= 3, "two keys and the ring key have private halves");

    let mut said =
        vec![run(&mut keys("list", &ring(&dir))).done(), run(keys("list", &ring(&dir)).arg("--json")).done()];
    let list = said[1].json();
    let facts: Vec<_> = list["keys"]
        .as_array()
        .expect("keys")
        .iter()
        .map(|key| (&key["alg"], &key["state"], &key["bits"]))
        .collect();
    assert_eq!(
        format!("{facts:?}"),
        r#"[(String("RS256"), String("active"), Number(2048)), (String("ES256"), String("active"), Number(256))]"#
    );

    let forms: [&[&str]; 4] =
        [&["--format", "jwks"], &["--format", "pem"], &["--format", "spki", "--json"], &["--json"]];
    said.extend(forms.map(|form| run(keys("export", &ring(&dir)).args(form)).done()));
    said.push(run(keys("show", &ring(&dir)).args(["--alg", "RS256"])).done());
    said.push(run(keys("show", &ring(&dir)).args(["--alg", "RS256", "--json"])).done());
    for said in &said {
        for secret in &secrets {
            assert!(
                !said.out.contains(secret.as_str()) && !said.err.contains(secret.as_str()),
                "a private half is told"
            );
        }
    }
    let [jwks, pem, spki, ..] = &said[2..] else { panic!("three formats") };
    assert!(!jwks.out.ends_with('\n'));
    let kids: Vec<_> =
        jwks.json()["keys"].as_array().expect("keys").iter().map(|key| key["kid"].clone()).collect();
    assert_eq!(pem.out.matches("-----BEGIN PUBLIC KEY-----").count(), 2);
    let told = spki.json();
    let told: Vec<_> = told["keys"].as_array().expect("keys").iter().map(|key| key["kid"].clone()).collect();
    assert_eq!(told, kids);
    let kid = kids[1].as_str().expect("a kid");
    let one = run(keys("export", &ring(&dir)).args(["--format", "pem", "--kid", &kid[..12]])).done();
    assert!(one.out.matches("BEGIN").count() == 1 && pem.out.ends_with(&one.out), "{one:?}");
}

/// A ring names its issuer; bare keys name none, and neither does a ring say where it rests.
#[test]
fn a_ring_that_is_looked_at_tells_whose_it_is_and_one_that_is_changed_is_asked_for() {
    let dir = TempDir::new().expect("a directory");
    run(keys("init", &ring(&dir)).args(["--alg", "ES256"])).done();
    let without = |words: &[&str], place: &Path| {
        let mut command = oneseal(["--config", "/dev/null", "keys"]);
        run(command.args(words).args(["--provider", &format!("file:{}", text(place))]))
    };
    let told = format!("no issuer is named; this ring is that of {ISSUER}");
    let list = run(keys("list", &ring(&dir)).arg("--json")).done();
    let said = without(&["list", "--json"], &ring(&dir)).done();
    assert_eq!(said.json(), list.json());
    assert!(said.err.contains(&told) && !list.err.contains("no issuer"), "{said:?} {list:?}");
    for words in [&["show"][..], &["export"]] {
        assert!(without(words, &ring(&dir)).done().err.contains(&told));
    }
    for words in [&["rotate"][..], &["init"], &["retire"]] {
        without(words, &ring(&dir)).refused(78, &["config.missing", "issuer.url", "--issuer"]);
    }
    let bare = dir.path().join("key.pem");
    fs::copy("../keystore/tests/vectors/ring/p256.pem", &bare).expect("copied");
    fs::set_permissions(&bare, fs::Permissions::from_mode(0o600)).expect("set");
    without(&["list"], &bare).refused(78, &["config.missing", "issuer.url"]);
    let mut broken = oneseal(["--config", "/dev/null", "keys", "list", "--issuer", "ftp://x"]);
    run(broken.args(["--provider", &format!("file:{}", text(&ring(&dir)))])).refused(78, &["issuer"]);
}

#[test]
fn a_kek_is_not_written_into_a_store_by_its_uri() {
    let dir = TempDir::new().expect("a directory");
    for place in ["k8s:oneseal/oneseal-kek", "aws:prod/kek"] {
        let mut command = oneseal(["keys", "new-kek", "--out", place]);
        run(command.current_dir(dir.path())).refused(64, &["a new file", place]);
    }
    assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 0);
}

/// What another program makes of a public key: its own SubjectPublicKeyInfo.
fn openssl(form: &str, file: &Path) -> Vec<u8> {
    let mut command = Command::new("openssl");
    command.args(["pkey", "-pubin", "-inform", form, "-outform", "DER", "-in", text(file)]);
    let output = command.output().expect("openssl is there");
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

#[test]
fn openssl_reads_what_is_exported_and_has_the_digest_that_show_tells() {
    let dir = TempDir::new().expect("a directory");
    run(keys("init", &ring(&dir)).args(["--alg", "RS256,ES384,EdDSA"])).done();
    let list = run(keys("list", &ring(&dir)).arg("--json")).done().json();
    for key in list["keys"].as_array().expect("keys") {
        let kid = key["kid"].as_str().expect("a kid");
        let export = |form: &str| {
            let file = dir.path().join(form);
            let arguments = ["--format", form, "--kid", kid, "--out", text(&file)];
            run(keys("export", &ring(&dir)).args(arguments)).done();
            file
        };
        let (pem, der) = (export("pem"), export("spki"));
        assert!(fs::read_to_string(&pem).expect("there").starts_with(&format!("# {kid} ")));
        let spki = openssl("PEM", &pem);
        assert_eq!((&spki, &spki), (&openssl("DER", &der), &fs::read(&der).expect("there")));
        let piped = keys("export", &ring(&dir)).args(["--format", "spki", "--kid", kid]).output();
        assert_eq!(piped.expect("ends").stdout, spki);
        let shown = run(keys("show", &ring(&dir)).args([kid, "--json"])).done().json();
        let digest = Command::new("openssl").args(["dgst", "-sha256", "-r", text(&der)]).output();
        let digest = String::from_utf8(digest.expect("ends").stdout).expect("text");
        assert_eq!(digest.split(' ').next(), shown["spki_sha256"].as_str());
    }
    // A bundle of several is read too: the first block counts.
    let all = dir.path().join("all.pem");
    run(keys("export", &ring(&dir)).args(["--format", "pem", "--out", text(&all)])).done();
    openssl("PEM", &all);
    run(keys("export", &ring(&dir)).args(["--format", "pem", "--kid", ""]))
        .refused(64, &["the kid is empty"]);
    run(keys("show", &ring(&dir)).arg("")).refused(64, &["the kid is empty"]);
    run(keys("export", &ring(&dir)).args(["--format", "spki"])).refused(64, &["--kid", "--json", "RS256"]);
}

#[test]
fn an_exported_file_is_replaced_whole_and_what_is_no_file_is_left_alone() {
    let dir = TempDir::new().expect("a directory");
    run(keys("init", &ring(&dir)).args(["--alg", "ES256"])).done();
    let file = dir.path().join("jwks.json");
    let export = |to: &Path| run(keys("export", &ring(&dir)).args(["--out", text(to), "--json"]));
    run(keys("export", &ring(&dir)).args(["--format", "pem", "--out", text(&file)])).done();
    let told = export(&file).done().json();
    let jwks = run(&mut keys("export", &ring(&dir))).done();
    assert_eq!(fs::read_to_string(&file).expect("there"), jwks.out);
    assert_eq!(told["bytes"], jwks.out.len());
    for (place, code) in [("/dev/full", 78), ("/no/such/dir/x", 78), (text(dir.path()), 78)] {
        let refused = export(Path::new(place));
        assert_eq!((refused.code, &refused.json()["exit"]), (Some(code), &code.into()), "{refused:?}");
    }
    let left = fs::read_dir(dir.path()).expect("there").map(|entry| entry.expect("there").file_name());
    let mut left: Vec<_> = left.filter(|name| !name.to_string_lossy().contains("lock")).collect();
    left.sort();
    assert_eq!(left, ["jwks.json", "keyring.json"]);
}

#[test]
fn an_export_replaces_neither_the_key_it_reads_nor_anything_else_of_worth() {
    let dir = TempDir::new().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    run(keys("init", &ring(&dir)).args(["--alg", "ES256"])).done();
    fs::hard_link(ring(&dir), at("same")).expect("linked");
    std::os::unix::fs::symlink(ring(&dir), at("link")).expect("linked");
    fs::write(at("pem"), "-----BEGIN PRIVATE KEY-----\nMC4CAQ\n-----END PRIVATE KEY-----\n")
        .expect("written");
    fs::write(at("notes"), "to do").expect("written");
    fs::write(at("empty"), "").expect("written");
    for name in ["keyring.json", "same", "link", "pem", "notes"] {
        let before = fs::read(at(name)).expect("there");
        for format in ["jwks", "pem", "spki"] {
            let said = run(keys("export", &ring(&dir)).args(["--format", format, "--out", text(&at(name))]));
            said.refused(78, &["left alone", name]);
            assert_eq!(fs::read(at(name)).expect("there"), before, "{name}");
        }
    }
    for format in ["jwks", "pem", "spki", "jwks"] {
        run(keys("export", &ring(&dir)).args(["--format", format, "--out", text(&at("empty"))])).done();
    }
}

#[test]
fn one_key_is_shown_with_all_that_the_ring_tells_of_it() {
    let dir = TempDir::new().expect("a directory");
    run(keys("init", &ring(&dir)).args(["--alg", "RS256,ES256"])).done();
    let list = run(keys("list", &ring(&dir)).arg("--json")).done().json();
    let kid = list["keys"][0]["kid"].as_str().expect("a kid");
    let shown = run(keys("show", &ring(&dir)).args([kid, "--json"])).done().json();
    for (member, value) in [
        ("kid", Value::from(kid)),
        ("alg", "RS256".into()),
        ("kty", "RSA".into()),
        ("crv", Value::Null),
        ("bits", 2048.into()),
        ("state", "active".into()),
        ("thumbprint", kid.into()),
        ("adopted_kid", false.into()),
        ("private", true.into()),
        ("place", "ring: keys[0]".into()),
    ] {
        assert_eq!(shown[member], value, "{member}: {shown}");
    }
    let history = &shown["history"];
    assert!(history["created_at"].as_i64().is_some_and(|at| at > 1_700_000_000), "{shown}");
    assert_eq!(history["created_at"], history["activated_at"]);
    let log = &history["log"][0];
    assert_eq!((&log["kind"], &log["actor"]), (&"key.activated".into(), &"oneseal keys init".into()));

    let by_alg = run(keys("show", &ring(&dir)).args(["--state", "active", "--alg", "ES256"])).done();
    for word in ["ES256", "EC P-256, 256 bits", "the same as the kid", "key.activated by oneseal keys init"] {
        assert!(by_alg.out.contains(word), "{word}: {by_alg:?}");
    }
    assert!(!by_alg.out.contains(kid));
}

#[test]
fn a_key_that_is_not_clear_is_refused_with_the_candidates() {
    let dir = TempDir::new().expect("a directory");
    run(keys("init", &ring(&dir)).args(["--alg", "RS256,ES256"])).done();
    let list = run(keys("list", &ring(&dir)).arg("--json")).done().json();
    let kid = |at: usize| list["keys"][at]["kid"].as_str().expect("a kid").to_owned();
    let show = |more: &[&str]| run(keys("show", &ring(&dir)).args(more));
    show(&[]).refused(64, &["2 keys fit", &kid(0), &kid(1)]);
    show(&["--state", "active"]).refused(64, &["2 keys fit", &kid(0), &kid(1)]);
    show(&["--state", "pending"]).refused(1, &["that is pending", &kid(0), &kid(1)]);
    show(&["-nothing-begins-so"]).refused(1, &["begins with -nothing", &kid(0)]);
    show(&["--state", "revoked"]).refused(64, &["possible values"]);
    show(&[&kid(0), "--alg", "ES256"]).refused(1, &["for ES256"]);
    let pasted = show(&["{\"kty\":\"EC\",\"x\":\"canary\"}"]);
    assert!(pasted.code == Some(64) && !pasted.err.contains("canary"), "{pasted:?}");
    let beginning = (1..).find(|length| kid(0)[..*length] != kid(1)[..*length]).expect("they differ");
    let shown = show(&[&kid(0)[..beginning], "--json"]).done().json();
    assert_eq!(shown["kid"], kid(0));
}

#[test]
fn a_private_half_is_not_exported_without_a_recipient() {
    let dir = TempDir::new().expect("a directory");
    run(keys("export", &ring(&dir)).arg("--private")).refused(64, &["named recipient", "--to-jwk"]);
    run(keys("export", &ring(&dir)).args(["--to-jwk", "x"])).refused(64, &["--private"]);
    run(keys("export", &ring(&dir)).args(["--private", "--format", "pem"])).refused(64, &["--format"]);
}

#[test]
fn a_key_pasted_for_a_provider_is_not_repeated() {
    for pasted in ["-----BEGIN PRIVATE KEY-----\ncanary\n", r#"{"kty":"EC","d":"canary"}"#] {
        let as_value = run(&mut oneseal(["keys", "list", "--issuer", ISSUER, "--provider", pasted]));
        as_value.refused(78, &["--provider"]);
        let as_argument = run(&mut oneseal(["keys", "list", pasted]));
        as_argument.refused(64, &["private key", "--provider"]);
        for said in [as_value, as_argument] {
            assert!(!said.err.contains("canary"), "{said:?}");
        }
    }
}

#[test]
fn bare_keys_are_listed_too() {
    let dir = TempDir::new().expect("a directory");
    // A ring of another form: the private JWK of a fresh ring, alone in its file.
    run(keys("init", &ring(&dir)).args(["--alg", "ES256"])).done();
    let document: Value = serde_json::from_slice(&fs::read(ring(&dir)).expect("there")).expect("JSON");
    let file = dir.path().join("key.jwk");
    fs::write(&file, document["keys"][0]["private"].to_string()).expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("set");
    let said = run(&mut keys("list", &file)).done();
    let kid = document["keys"][0]["kid"].as_str().expect("a kid");
    assert!(said.out.contains(kid) && said.out.contains("bare keys"), "{said:?}");
    let there = run(&mut keys("init", &file)).done();
    assert!(there.out.starts_with("already there, left as it is: bare keys, for https:"), "{there:?}");
    let shown = run(keys("show", &file).arg("--json")).done().json();
    assert_eq!((&shown["kid"], &shown["history"]), (&kid.into(), &Value::Null));
    assert!(run(&mut keys("show", &file)).done().out.contains("no ring document"));
}

#[test]
fn a_key_is_not_refused_for_a_mistake_of_the_configuration() {
    let dir = TempDir::new().expect("a directory");
    run(keys("init", &ring(&dir)).args(["--alg", "ES256"])).done();
    let provider = format!("file:{}", text(&ring(&dir)));
    let codes = |issuer: &str, algorithms: &str| -> Vec<String> {
        let mut check = oneseal([
            "check",
            "--config",
            "/dev/null",
            "--no-bind",
            "--offline",
            "--json",
            "--issuer",
            issuer,
        ]);
        check.args(["--provider", &provider]).env("ONESEAL__PROVIDER__DURABLE", "true");
        let report = run(check.env("ONESEAL__ISSUER__ALGORITHMS", algorithms)).json();
        let findings = report["findings"].as_array().expect("a list").iter();
        findings.map(|finding| finding["code"].as_str().expect("a code").to_owned()).collect()
    };
    assert_eq!(codes(ISSUER, "ES265"), ["config.bad_value"]);
    assert_eq!(codes("http://oidc.example", "ES256"), ["issuer.not_https"]);
}

#[test]
fn a_key_that_takes_long_is_told_in_one_line_and_has_the_size_asked_for() {
    let dir = TempDir::new().expect("a directory");
    let made =
        run(keys("init", &ring(&dir)).args(["--alg", "RS256,ES256", "--rsa-bits", "3072", "--json"])).done();
    let told = "making an RSA key of 3072 bits for RS256 (1 of 2); this can take a minute";
    assert_eq!(made.err.lines().filter(|line| line.contains("making")).collect::<Vec<_>>(), [told]);
    assert_eq!(made.json()["created"], true);
    let written: Value = serde_json::from_slice(&fs::read(ring(&dir)).expect("there")).expect("JSON");
    let n = written.pointer("/keys/0/public/n").and_then(Value::as_str).expect("an RSA key");
    assert_eq!(n.len(), 512, "3072 bits as base64url");

    let again = run(keys("init", &ring(&dir)).args(["--alg", "RS256,ES256", "--rsa-bits", "3072"])).done();
    assert!(!again.err.contains("making"), "nothing is made where there is a ring: {again:?}");
    let small = TempDir::new().expect("a directory");
    let made = run(keys("init", &ring(&small)).args(["--alg", "RS256"])).done();
    assert_eq!(made.err, "", "a key that does not take long is made without a word");
}

#[test]
fn a_size_that_no_key_can_have_is_a_usage_error_and_nothing_is_written() {
    let dir = TempDir::new().expect("a directory");
    for (arguments, words) in [
        (["--alg", "ES256", "--rsa-bits", "2048"], "an RSA key cannot sign with ES256"),
        (["--alg", "RS256", "--rsa-bits", "1024"], "RSA keys of 1024 bits are not generated"),
        (["--alg", "RS256", "--rsa-bits", "8192"], "2048, 3072 or 4096"),
        (["--alg", "RS256", "--rsa-bits", "many"], "--rsa-bits"),
    ] {
        run(keys("init", &ring(&dir)).args(arguments)).refused(64, &[words]);
        assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 0, "{arguments:?}");
    }
}

#[test]
fn an_interrupt_while_a_key_is_made_leaves_nothing_behind() {
    let dir = TempDir::new().expect("a directory");
    let mut command = keys("init", &ring(&dir));
    // Four of the largest: nobody makes them all before the signal arrives.
    command.args(["--alg", "RS256,RS384,RS512,PS256", "--rsa-bits", "4096"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    let mut line = String::new();
    BufReader::new(child.stderr.take().expect("piped")).read_line(&mut line).expect("a line");
    assert!(line.starts_with("making an RSA key of 4096 bits for RS256 (1 of 4)"), "{line}");
    let interrupted = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupted.expect("kill runs").success());
    assert_eq!(child.wait().expect("it ends").signal(), Some(2));
    assert_eq!(fs::read_dir(dir.path()).expect("there").count(), 0);
}

#[test]
fn an_encrypted_key_and_a_key_in_a_member_are_read_with_what_names_their_opener() {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../keystore/tests/vectors/forms");
    let dir = TempDir::new().expect("a directory");
    let place = |name: &str, value: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, value).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("private");
        path
    };
    let encrypted = fs::read(vectors.join("p256.scrypt-aes256.enc.pem")).expect("there");
    let encrypted = place("encrypted.pem", &encrypted);
    let passphrase = format!("file:{}", text(&place("passphrase", b"correct-horse\n")));

    let listed = run(keys("list", &encrypted).args(["--passphrase", &passphrase, "--json"])).done().json();
    assert_eq!(listed["keys"][0]["kid"], "fbiI3fpv4ICMK-4UxBbNd0E4bgv1Q5GC-0TPQ7hDT-I");
    run(keys("export", &encrypted).args(["--passphrase", &passphrase])).done();
    let there = run(keys("init", &encrypted).args(["--passphrase", &passphrase, "--json"])).done().json();
    assert_eq!(there["created"], false);
    let by_env = run(keys("list", &encrypted)
        .args(["--passphrase", "env:TEST_PASSPHRASE", "--json"])
        .env("TEST_PASSPHRASE", "correct-horse"));
    assert_eq!(by_env.done().json()["keys"][0]["kid"], listed["keys"][0]["kid"]);

    let pem = fs::read_to_string(vectors.join("ed25519.pkcs8.pem")).expect("there");
    let member = serde_json::json!({ "user": "u", "private_key": pem }).to_string();
    let member = place("secret.json", member.as_bytes());
    let listed = run(keys("list", &member).args(["--member", "private_key", "--json"])).done().json();
    assert_eq!(listed["keys"][0]["kid"], "03piUKMNawkbC6_Q2rvTLkBLRCCG3ww7irqKGcuZets");
}
