//! `oneseal migrate` between files: what it copies, what it leaves alone, what it refuses.

mod cli_support;

use std::fs;
use std::path::{Path, PathBuf};

use cli_support::{Said, oneseal, run, text};
use tempfile::TempDir;

const ISSUER: &str = "https://oidc.example";

struct Places {
    dir: TempDir,
}

impl Places {
    /// A ring at `source.json`.
    fn with_ring() -> Self {
        let places = Self { dir: TempDir::new().expect("a directory") };
        places.init("source.json", ISSUER);
        places
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn init(&self, name: &str, issuer: &str) {
        let provider = format!("file:{}", text(&self.path(name)));
        let mut init =
            oneseal(["keys", "init", "--alg", "ES256", "--issuer", issuer, "--provider", &provider]);
        run(init.env("ONESEAL__PROVIDER__DURABLE", "true")).done();
    }

    fn migrate(&self, to: &str, more: &[&str]) -> Said {
        let (from, to) = (uri(&self.path("source.json")), uri(&self.path(to)));
        run(oneseal(["migrate", "--durable", "--from", &from, "--to", &to]).args(more))
    }
}

fn uri(path: &Path) -> String {
    format!("file:{}", text(path))
}

const DO_IT: [&str; 2] = ["--fleet-is-stopped", "--yes"];

#[test]
fn the_document_comes_over_byte_for_byte_and_a_second_run_finds_it_there() {
    let places = Places::with_ring();
    let bytes = fs::read(places.path("source.json")).expect("there");
    let first = places.migrate("copy.json", &DO_IT).done();
    assert!(first.out.contains("copied 1, skipped 0, conflict 0"), "{first:?}");
    assert_eq!(fs::read(places.path("copy.json")).expect("there"), bytes);
    assert_eq!(fs::read(places.path("source.json")).expect("there"), bytes);

    let second = places.migrate("copy.json", &[&DO_IT[..], &["--json"]].concat()).done().json();
    assert_eq!((&second["copied"], &second["skipped"]), (&0.into(), &1.into()));
    // It writes nothing, so nobody need be stopped for it.
    let third = places.migrate("copy.json", &[]).done();
    assert!(third.out.contains("already there"), "{third:?}");
}

#[test]
fn nothing_is_done_without_yes_or_while_nobody_says_that_the_fleet_is_stopped() {
    let places = Places::with_ring();
    places.migrate("copy.json", &["--yes"]).refused(64, &["--fleet-is-stopped", "no registry"]);
    places.migrate("copy.json", &["--fleet-is-stopped"]).refused(64, &["would be copied", "--yes does it"]);
    let dry = places.migrate("copy.json", &["--fleet-is-stopped", "--dry-run", "--json"]).done().json();
    assert_eq!((&dry["copied"], &dry["dry_run"]), (&1.into(), &true.into()));
    let both = places.migrate("copy.json", &[&DO_IT[..], &["--dry-run"]].concat()).done();
    assert!(both.out.contains("would be copied"), "{both:?}");
    assert!(!places.path("copy.json").exists());
}

#[test]
fn another_ring_is_a_conflict_and_stays() {
    let places = Places::with_ring();
    for (name, issuer, why) in
        [("other.json", "https://other.example", "another issuer"), ("same.json", ISSUER, "another life")]
    {
        places.init(name, issuer);
        let bytes = fs::read(places.path(name)).expect("there");
        let said = places.migrate(name, &DO_IT);
        assert_eq!(said.code, Some(75), "{said:?}");
        assert!(said.out.contains("conflict 1") && said.out.contains(why), "{said:?}");
        assert_eq!(fs::read(places.path(name)).expect("there"), bytes);
    }
}

#[test]
fn what_is_no_ring_or_no_place_is_refused_by_name() {
    let places = Places::with_ring();
    let source = uri(&places.path("source.json"));
    let migrate =
        |from: &str, to: &str| run(oneseal(["migrate", "--durable", "--from", from, "--to", to]).args(DO_IT));
    migrate("file:/no/such/ring.json", &source).refused(78, &["provider.not_found"]);
    migrate(&source, &source).refused(64, &["the same place"]);
    migrate("/etc/ring.json", &source).refused(64, &["--from", "did you mean `file:/etc/ring.json`"]);
    migrate(&source, "vault:ring").refused(64, &["--to", "no kind of provider"]);
    migrate(&source, "env:RING").refused(78, &["cannot be written"]);

    fs::write(places.path("key.pem"), "-----BEGIN PRIVATE KEY-----\n").expect("written");
    let mode = <fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o600);
    fs::set_permissions(places.path("key.pem"), mode).expect("its mode");
    migrate(&uri(&places.path("key.pem")), "file:x").refused(78, &["no ring document", "keys adopt"]);

    let mut ring = fs::read(places.path("source.json")).expect("there");
    let at = ring.len() / 2;
    ring[at] ^= 1;
    fs::write(places.path("source.json"), ring).expect("written");
    let said = migrate(&source, &uri(&places.path("copy.json")));
    assert_eq!(said.code, Some(78), "{said:?}");
    assert!(!places.path("copy.json").exists());
}

#[test]
fn a_key_or_a_password_in_place_of_a_name_is_not_repeated() {
    let canary = "s3cret-c4f1";
    for (from, to) in [
        (format!("postgres://u:{canary}@127.0.0.1:1/db"), "file:x".to_owned()),
        ("file:x".to_owned(), format!("postgres://u:{canary}@other.example/db?sslmode=require")),
        (format!("-----BEGIN PRIVATE KEY-----{canary}"), "file:x".to_owned()),
    ] {
        let said = run(oneseal(["migrate", "--from", &from, "--to", &to]).args(DO_IT));
        assert_ne!(said.code, Some(0));
        assert!(!said.err.contains(canary) && !said.out.contains(canary), "{said:?}");
    }
}
