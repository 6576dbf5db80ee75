//! What a newcomer gets wrong, done for real with the real program, and what is said to it: each text is golden, in
//! `tests/golden/mistakes`, and names the cure. `TEST_BLESS=1` writes them anew; then read them as somebody would at
//! three in the morning. docs/troubleshooting.md quotes them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod place;

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use oneseal_tests::{Forwarder, Start, binary, state};
use place::{GOOD, Place, SELF_CHECK};
use serde_json::Value;

/// Compares with `tests/golden/mistakes/NAME.txt`, and asserts the exit code and that the cure's essential word is
/// there. The first letters of a key's text are not.
fn golden(name: &str, exit: i32, cure: &str, text: &str) {
    assert!(text.contains(&format!("\n? {exit}\n")), "{name} ends with another code: {text}");
    assert!(text.contains(cure), "{name} does not name the cure, {cure:?}: {text}");
    assert!(!text.contains("MII"), "{name} shows a key: {text}");
    compare(name, text);
}

fn compare(name: &str, text: &str) {
    let path = golden_dir().join(format!("{name}.txt"));
    if std::env::var_os("TEST_BLESS").is_some() {
        fs::create_dir_all(golden_dir()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, wanted, "{} differs; if that is meant, run with TEST_BLESS=1", path.display());
}

fn golden_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/mistakes")
}

/// docs/troubleshooting.md quotes each golden text under a mark with its name, and leaves none out.
#[test]
fn the_page_quotes_what_is_said() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/troubleshooting.md");
    let text = fs::read_to_string(&page).unwrap();
    let mut wanted = String::new();
    let mut left: BTreeSet<_> =
        fs::read_dir(golden_dir()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        wanted.push_str(&format!("{line}\n"));
        let Some(name) = line.strip_prefix("<!-- golden: ").and_then(|rest| rest.strip_suffix(" -->")) else {
            continue;
        };
        let golden = golden_dir().join(format!("{name}.txt"));
        let said = fs::read_to_string(&golden)
            .unwrap_or_else(|_| panic!("the page names {name}, which is no golden file"));
        wanted.push_str(&format!("```text\n{said}```\n"));
        left.remove(&golden);
        if lines.next_if(|line| *line == "```text").is_some() {
            while lines.next().is_some_and(|line| line != "```") {}
        }
    }
    assert!(left.is_empty(), "the page leaves out {left:?}");
    if std::env::var_os("TEST_BLESS").is_some() {
        fs::write(&page, &wanted).unwrap();
    } else {
        assert!(
            text == wanted,
            "docs/troubleshooting.md is out of date: run this test alone with TEST_BLESS=1"
        );
    }
}

/// The start as it is typed.
const SERVE: &str = "serve --config oneseal.toml --log-format human";

/// The start refuses, and the check says the same with the same exit code.
fn refused(place: &Place, name: &str, exit: i32, cure: &str) {
    let text = place.run(SERVE);
    let check = place.run("check --config oneseal.toml");
    let told = |text: &str| text.splitn(3, '\n').nth(2).unwrap_or_default().to_owned();
    assert_eq!(told(&text), told(&check), "serve and check differ");
    assert!(check.contains(&format!("\n? {exit}\n")), "check ends with another code: {check}");
    golden(name, exit, cure, &text);
}

fn configured(name: &str, exit: i32, cure: &str, from: &str, to: &str) {
    let place = Place::new();
    assert!(GOOD.contains(from));
    place.configure(&GOOD.replace(from, to));
    refused(&place, name, exit, cure);
}

#[test]
fn no_configuration() {
    let place = Place::new();
    golden("no-configuration", 78, "oneseal config init", &place.run("serve --log-format human"));
    fs::remove_file(place.path("oneseal.toml")).unwrap();
    golden("no-configuration-file", 78, "oneseal config init", &place.run(SERVE));
}

#[test]
fn no_key() {
    let place = Place::new();
    fs::remove_file(place.path("signing.pem")).unwrap();
    fs::create_dir(place.path("keys")).unwrap();
    place.configure(&GOOD.replace("signing.pem", "keys/keyring.json"));
    refused(&place, "no-key", 78, "oneseal keys init");
}

#[test]
fn a_wrong_path() {
    configured("key-path-wrong", 78, "signing.pem", "signing.pem", "singing.pem");
}

#[test]
fn a_directory_in_place_of_a_file() {
    let place = Place::new();
    place.key("keys/signing.pem", "signing.pem");
    place.write("keys/README", b"our keys", 0o600);
    fs::set_permissions(place.path("keys"), fs::Permissions::from_mode(0o700)).unwrap();
    place.configure(&GOOD.replace("signing.pem", "keys"));
    refused(&place, "directory-instead-of-file", 78, "the one file itself");
}

#[test]
fn a_public_key() {
    let place = Place::new();
    place.key("signing.pem", "public.pem");
    refused(&place, "public-key", 78, "private");
}

#[test]
fn a_wrong_passphrase() {
    let place = Place::new();
    place.key("signing.pem", "encrypted.pem");
    refused(&place, "passphrase-missing", 78, "provider.passphrase");
    place.write("passphrase", b"correct-house\n", 0o600);
    place.configure(&GOOD.replace("\n[listen]", "passphrase = \"file:/srv/oneseal/passphrase\"\n\n[listen]"));
    refused(&place, "passphrase-wrong", 78, "openssl pkey -in KEY -passin");
    place.write("passphrase", b"correct-horse\n", 0o600);
    assert!(place.run("check --config oneseal.toml").contains("\n? 0\n"), "the right one opens it");
}

#[test]
fn a_slash_at_the_end_of_the_issuer() {
    let place = Place::new();
    let init = "keys init --provider file:ring.json --issuer https://oidc.example/ --alg RS256";
    assert!(place.run(init).contains("\n? 0\n"));
    place.configure(&GOOD.replace("signing.pem", "ring.json"));
    refused(&place, "issuer-trailing-slash", 78, "slash");
}

#[test]
fn an_issuer_without_tls() {
    configured("issuer-http", 78, "https", "https://", "http://");
}

#[test]
fn a_port_that_is_taken() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    place.configure(
        &GOOD.replace("documents = \"127.0.0.1:0\"", &format!("documents = \"127.0.0.1:{port}\"")),
    );
    let text = place.run(SERVE).replace(&port, "8080");
    golden("port-taken", 71, "listen.documents", &text);
}

#[test]
fn a_key_that_all_can_read() {
    let place = Place::new();
    fs::set_permissions(place.path("signing.pem"), fs::Permissions::from_mode(0o644)).unwrap();
    refused(&place, "key-readable-by-all", 78, "chmod 0600");
}

#[test]
fn a_misspelt_setting() {
    configured("setting-misspelt", 78, "did you mean", "documents", "documnets");
}

/// A pod whose key lies in an emptyDir: the directory that kubelet makes for the pod, mounted into a mount namespace of
/// its own. Such a mount takes root, as CI is.
#[test]
fn a_key_in_an_empty_dir() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var("TEST_REQUIRE").as_deref() != Ok("all"), "mounting takes root");
        return println!("skipped: a_key_in_an_empty_dir: mounting takes root");
    }
    let place = Place::new();
    let volume = "kubelet/pods/9b1f/volumes/kubernetes.io~empty-dir/keys";
    place.key(&format!("{volume}/signing.pem"), "signing.pem");
    fs::create_dir(place.path("keys")).unwrap();
    place.configure(&GOOD.replace("signing.pem", "keys/signing.pem"));
    let script = format!("mount --bind {volume} keys && exec \"$0\" {SERVE}");
    let unshare = ["--mount", "--propagation", "private", "--", "sh", "-c", &script];
    let mut command = Command::new("unshare");
    command.args(unshare).arg(binary()).current_dir(place.path("")).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let text = place.told(SERVE, &command.output().unwrap());
    golden("empty-dir", 78, "a durable volume or in a Secret", &text);
}

/// cert-manager renews a key under the same name: a Secret's mount is swapped for one with another `tls.key`.
#[tokio::test]
async fn a_key_that_is_renewed_in_place() {
    let place = Place::new();
    mount(&place, "..2026_01_01", "signing.pem");
    place.configure(&GOOD.replace("signing.pem", "tls"));
    golden("key-that-is-renewed", 0, "rotationPolicy: Never", &place.run("check --config oneseal.toml"));
    let start = Start::with_file(place.path("replica"), "https://oidc.example", &place.path("tls"));
    let replica = start.ready().await;
    let before = replica.get("/.well-known/jwks.json").await.unwrap().body;
    mount(&place, "..2026_03_31", "other.pem");
    let mut line = state::until("the refusal of the new key", async || {
        let log = replica.log_text();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.into_iter().find(|line| line["code"] == "fleet.key_replaced")
    })
    .await;
    // In one order, whatever a build's serde_json keeps.
    line.sort_all_objects();
    let fields = line
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| !["timestamp", "target"].contains(&name.as_str()));
    let told: String = fields.map(|(name, value)| format!("{name}: {}\n", value.as_str().unwrap())).collect();
    let text = place.shown(&told);
    assert!(line["level"] == "ERROR" && line["cure"].as_str().unwrap().contains("previous"), "{text}");
    compare("key-renewed-in-place", &text);
    let after = replica.get("/.well-known/jwks.json").await.unwrap().body;
    assert_eq!(before, after, "the old key goes on being served");
}

/// A Secret of kind kubernetes.io/tls as kubelet mounts it, swapped in whole.
fn mount(place: &Place, unit: &str, key: &str) {
    place.key(&format!("tls/{unit}/tls.key"), key);
    place.write(&format!("tls/{unit}/tls.crt"), b"a certificate", 0o644);
    for name in ["tls.key", "tls.crt"] {
        drop(symlink(format!("..data/{name}"), place.path("tls").join(name)));
    }
    symlink(unit, place.path("tls/..data_tmp")).unwrap();
    fs::rename(place.path("tls/..data_tmp"), place.path("tls/..data")).unwrap();
}

/// A token that is not in the configuration, one whose scopes are too few, and a name that the replica does not know.
#[tokio::test]
async fn an_admin_that_refuses() {
    let place = Place::new();
    let table = |name: &str| {
        let output = place.command(&format!("admin token new --name {name} --scopes read")).output().unwrap();
        place.write(name, &output.stdout, 0o600);
        String::from_utf8(output.stderr).unwrap()
    };
    let configured = table("ci.token");
    table("other.token");
    let key = place.path("signing.pem");
    let mut start = Start::with_file(place.path("replica"), "https://oidc.example", &key);
    start.more = format!("admin_tcp = \"127.0.0.1:0\"\n{}{configured}", start.more);
    let _replica = start.ready().await;
    let ready: Value = serde_json::from_slice(&fs::read(place.path("replica/ready.json")).unwrap()).unwrap();
    let address = ready["admin_tcp"].as_str().unwrap();
    let refused = |name: &str, exit: i32, cure: &str, admin: &str| {
        let text = place.run(&format!("mint --admin {admin} --sub pod --aud test"));
        golden(name, exit, cure, &text.replace(address, "127.0.0.1:9090"));
    };
    let here = format!("http://{address}");
    refused(
        "admin-token-unknown",
        77,
        "oneseal admin token new",
        &format!("{here} --admin-token-file other.token"),
    );
    refused("admin-scope-missing", 77, "scope", &format!("{here} --admin-token-file ci.token"));
    let elsewhere = format!("https://admin.example --connect-to {here} --admin-token-file ci.token");
    refused("admin-host-unknown", 77, "admin.hosts", &elsewhere);
}

/// Two replicas of one issuer, each with a key that somebody made for it alone.
#[tokio::test]
async fn two_replicas_with_different_keys() {
    let place = Place::new();
    let forwarder = Forwarder::start().await;
    let issuer = format!("http://{}", forwarder.address());
    let first = Start::with_file(place.path("first"), &issuer, &place.path("signing.pem")).ready().await;
    forwarder.set_backends(vec![first.documents]);
    place.key("other.pem", "other.pem");
    place.configure(&GOOD.replace("https://oidc.example", &issuer).replace("signing.pem", "other.pem"));
    let mut second = tokio::process::Command::from(place.command(SERVE));
    let ending = second.env_remove(SELF_CHECK).kill_on_drop(true).output();
    // A replica that serves would not end by itself.
    let ended = tokio::time::timeout(Duration::from_secs(60), ending).await;
    let output = ended.expect("the second replica refuses to start").unwrap();
    let text = place.told(SERVE, &output).replace(&forwarder.address().to_string(), "127.0.0.1:8443");
    golden("two-replicas", 78, "issuer.serves_other_keys", &text);
}
