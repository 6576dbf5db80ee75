//! `oneseal migrate` between a file and a row of Postgres, as an operator moves a fleet there and back.

mod cli_support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cli_support::{Said, oneseal, run, text};
use oneseal_coordination::SystemClock;
use oneseal_coordination::database::{Database, DatabaseOptions, DatabaseUrl};
use oneseal_coordination::migrate::{COORDINATION, MigrateOptions, migrate};
use oneseal_coordination::once::ONCE;
use oneseal_keystore::IssuerUrl;
use oneseal_providers::postgres::migrations::COMPONENT;
use oneseal_testing::block_on;
use oneseal_testing::parts::{self, Postgres};
use oneseal_testing::rings::Keeper;
use tempfile::TempDir;

const ISSUER: &str = "https://oidc.example";
const FLEET: &str = "oidc.example";

/// A sealed ring in a file, and a database with the tables.
struct Places {
    dir: TempDir,
    keeper: Keeper,
    ring: Vec<u8>,
    database: parts::Database,
}

impl Places {
    fn new() -> Option<Self> {
        let database = Postgres::shared()?.create_database();
        let url = DatabaseUrl::parse(&database.url()).expect("a URL");
        let pool = Database::new(DatabaseOptions::new(url)).expect("a database");
        let keeper = Keeper::new(&IssuerUrl::parse(ISSUER, "a test").expect("an issuer"), 1);
        let ring = block_on(async {
            let components = [COORDINATION, ONCE, COMPONENT];
            migrate(&pool, &components, &MigrateOptions::default(), |_| ()).await.expect("tables");
            keeper.first(&SystemClock).await
        });
        let places = Self { dir: TempDir::new().expect("a directory"), keeper, ring, database };
        places.write(&places.ring);
        Some(places)
    }

    fn write(&self, ring: &[u8]) {
        let file = self.dir.path().join("ring.json");
        fs::write(&file, ring).expect("written");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
    }

    fn file(&self, name: &str) -> String {
        format!("file:{}", text(&self.dir.path().join(name)))
    }

    fn to_postgres(&self, more: &[&str]) -> Said {
        migrate_by(&self.file("ring.json"), &self.database.url(), &[&["--fleet-is-stopped"], more].concat())
    }

    fn row(&self) -> Vec<u8> {
        let hex = self.database.execute("SELECT encode(document, 'hex') FROM oneseal.rings");
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
        (0..hex.len()).step_by(2).map(digit).collect()
    }
}

fn migrate_by(from: &str, to: &str, more: &[&str]) -> Said {
    run(oneseal(["migrate", "--durable", "--from", from, "--to", to]).args(more))
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).expect("there")
}

#[test]
fn a_sealed_ring_goes_to_postgres_and_back_byte_for_byte_with_its_event() {
    let Some(places) = Places::new() else { return };
    let there = places.to_postgres(&["--yes", "--json"]).done().json();
    assert_eq!((&there["copied"], &there["dry_run"]), (&1.into(), &false.into()));
    assert_eq!(places.row(), places.ring);
    let told = places.database.execute("SELECT fleet, written_by FROM oneseal.rings");
    assert_eq!(told, format!("{FLEET}|oneseal migrate"));
    let events =
        "SELECT kind, issuer, payload::json ->> 'document_sha256' FROM oneseal.events ORDER BY seq LIMIT 1";
    let digest = there["document_sha256"].as_str().expect("a digest");
    assert_eq!(places.database.execute(events), format!("ring.migrated|{ISSUER}|{digest}"));

    let again = places.to_postgres(&["--yes", "--json"]).done().json();
    assert_eq!((&again["copied"], &again["skipped"]), (&0.into(), &1.into()));
    assert_eq!(
        places.database.execute("SELECT string_agg(kind, ' ' ORDER BY seq) FROM oneseal.events"),
        "ring.migrated ring.checkpoint"
    );

    let back =
        migrate_by(&places.database.url(), &places.file("back.json"), &["--yes", "--json"]).done().json();
    assert_eq!(back["jwks_sha256"], there["jwks_sha256"]);
    assert_eq!(read(&places.dir.path().join("back.json")), places.ring);
}

#[test]
fn an_earlier_revision_is_replaced_and_a_later_one_stays() {
    let Some(places) = Places::new() else { return };
    places.to_postgres(&["--yes"]).done();
    let later = places.keeper.next(&places.ring, |_| ());
    places.write(&later);
    let raised = places.to_postgres(&["--yes", "--json"]).done().json();
    assert_eq!((&raised["copied"], &raised["replaced_revision"]), (&1.into(), &1.into()));
    assert_eq!(places.row(), later);

    places.write(&places.ring);
    let late = places.to_postgres(&["--yes"]);
    assert_eq!(late.code, Some(75), "{late:?}");
    assert!(late.out.contains("a later revision"), "{late:?}");
    assert_eq!(places.row(), later);
}

#[test]
fn a_fleet_that_runs_is_named_and_nothing_is_written() {
    let Some(places) = Places::new() else { return };
    let beats = |instance: &str, ago: &str, state: &str| {
        places.database.execute(&format!(
            "INSERT INTO oneseal.replicas \
             (fleet, instance, boot, state, ops_address, facts, joined_at, state_since, beat_at) \
             SELECT '{FLEET}', '{instance}', gen_random_uuid(), '{state}', '', '{{}}', at, at, at \
             FROM (SELECT clock_timestamp() - interval '{ago}' AS at) AS beat"
        ));
    };
    beats("replica-gone", "0", "gone");
    beats("replica-silent", "1 hour", "live");
    beats("replica-7", "0", "live");
    places.to_postgres(&["--yes"]).refused(75, &["replica-7", "Nothing was done"]);
    let said = places.to_postgres(&["--yes"]);
    assert!(!said.err.contains("replica-gone") && !said.err.contains("replica-silent"), "{said:?}");
    assert_eq!(places.database.execute("SELECT count(*) FROM oneseal.rings"), "0");

    assert!(said.err.contains(FLEET) && said.err.contains("?fleet=NAME"), "{said:?}");

    places.database.execute("DELETE FROM oneseal.replicas WHERE instance = 'replica-7'");
    places.to_postgres(&["--yes"]).done();
}

#[test]
fn another_fleet_of_the_same_database_may_run() {
    let Some(places) = Places::new() else { return };
    migrate_by(
        &places.file("ring.json"),
        &format!("{}?fleet=neighbour", places.database.url()),
        &["--fleet-is-stopped", "--yes"],
    )
    .done();
    places.database.execute(
        "INSERT INTO oneseal.replicas \
         SELECT 'neighbour', 'n-0', gen_random_uuid(), 'live', '', '{}', at, at, at FROM (SELECT now() AS at) AS beat",
    );
    places.to_postgres(&["--yes"]).done();
    // Both are there: the configuration says which one is meant, as it does for every other verb.
    let back = places.file("back.json");
    let nameless = migrate_by(&places.database.url(), &back, &["--yes"]);
    nameless.refused(78, &["provider.ambiguous", "?fleet=NAME"]);
    assert!(!nameless.err.contains("backup"), "nothing is broken: {nameless:?}");
    let with_issuer = |more: &[&str]| {
        let words = ["migrate", "--durable", "--from", &places.database.url(), "--to", &back];
        let mut command = oneseal(words);
        run(command.args(more).env("ONESEAL__ISSUER__URL", ISSUER))
    };
    with_issuer(&["--yes"]).done();
    assert_eq!(read(&places.dir.path().join("back.json")), places.ring);
    fs::remove_file(places.dir.path().join("back.json")).expect("it was there");
    // One that is read without a name is the only one there, so this is about its replicas.
    places.database.execute("DELETE FROM oneseal.rings WHERE fleet <> 'neighbour'");
    let said = migrate_by(&places.database.url(), &places.file("back.json"), &["--yes"]);
    said.refused(75, &["n-0", "neighbour"]);
}

/// The password stands in a file, as docs/postgres.md has it, and on no command line.
#[test]
fn the_configured_database_is_named_without_its_password() {
    let Some(places) = Places::new() else { return };
    let url = places.dir.path().join("url");
    fs::write(&url, places.database.url()).expect("written");
    let by = |from: &str, to: &str, more: &[&str]| {
        let mut command = oneseal(["migrate", "--durable", "--from", from, "--to", to, "--yes"]);
        run(command.args(more).env("ONESEAL__DATABASE__URL_FILE", &url))
    };
    by(&places.file("ring.json"), "postgres:", &["--fleet-is-stopped"]).done();
    assert_eq!(places.row(), places.ring);
    by(&places.file("ring.json"), "postgres:?fleet=other", &["--fleet-is-stopped"]).done();
    by("postgres:?fleet=other", &places.file("back.json"), &[]).done();
    assert_eq!(read(&places.dir.path().join("back.json")), places.ring);
    let without = migrate_by(&places.file("ring.json"), "postgres:", &["--fleet-is-stopped", "--yes"]);
    without.refused(78, &["none is configured", "ONESEAL__DATABASE__URL_FILE"]);
}

#[test]
fn a_ring_in_plain_text_is_refused_with_its_cure() {
    let Some(places) = Places::new() else { return };
    let plain = places.file("plain.json");
    let init = ["keys", "init", "--alg", "ES256", "--issuer", ISSUER, "--provider", &plain];
    run(oneseal(init).env("ONESEAL__PROVIDER__DURABLE", "true")).done();
    for more in [["--fleet-is-stopped", "--yes"], ["--fleet-is-stopped", "--dry-run"]] {
        let refused = migrate_by(&plain, &places.database.url(), &more);
        refused.refused(78, &["provider.unsealed", "keys[0].private", "keys rewrap --from-unsealed"]);
    }
    assert_eq!(places.database.execute("SELECT count(*) FROM oneseal.rings"), "0");
}

#[test]
fn a_database_that_is_not_there_or_has_no_tables_is_told_as_such() {
    let Some(places) = Places::new() else { return };
    let ring = places.file("ring.json");
    let do_it = ["--fleet-is-stopped", "--yes"];
    migrate_by(&ring, "postgres://u:s3cret@127.0.0.1:1/db", &do_it).refused(69, &["provider.unavailable"]);
    let empty = Postgres::shared().expect("it runs").create_database();
    migrate_by(&ring, &empty.url(), &do_it).refused(78, &["oneseal db migrate"]);
}
