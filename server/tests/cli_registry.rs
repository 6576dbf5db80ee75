//! The registry as `oneseal check` and `oneseal replicas forget --direct` see it, without a replica that runs.

mod cli_support;

use std::fs;
use std::process::Command;

use cli_support::{ISSUER, Said, oneseal, run, text};
use oneseal_testing::parts::{Database, Postgres};
use serde_json::Value;
use tempfile::TempDir;

/// A ring in a file, and a migrated database that a service of few rights uses.
struct Place {
    dir: TempDir,
    database: Database,
    role: &'static str,
}

impl Place {
    fn new(role: &'static str) -> Option<Self> {
        let database = Postgres::shared()?.create_database();
        let place = Self { dir: TempDir::new().expect("a directory"), database, role };
        let configuration = format!(
            "[issuer]\nurl = \"{ISSUER}\"\nself_check = false\n\
             [provider]\nkind = \"file\"\npath = \"{}\"\ndurable = true\n\
             [listen]\ndocuments = \"127.0.0.1:0\"\nops = \"127.0.0.1:18999\"\nadmin = \"none\"\n\
             [ops]\ninstance = \"r-0\"\n[ring]\nfleet = \"f\"\n[process]\nboot_timeout = \"1s\"\n",
            place.path("keyring.json")
        );
        fs::write(place.path("oneseal.toml"), configuration).expect("written");
        run(&mut place.command(&["keys", "init"])).done();
        place.set_url(&place.database.url());
        run(&mut place.command(&["db", "migrate"])).done();
        // As docs/postgres.md has it.
        place.database.execute(&format!(
            "CREATE ROLE {role} LOGIN PASSWORD 'right-horse';
             GRANT USAGE ON SCHEMA oneseal TO {role};
             GRANT SELECT ON oneseal.schema_version, oneseal.event_floor TO {role};
             GRANT SELECT, INSERT, UPDATE ON oneseal.rings, oneseal.settings, oneseal.worker_epochs TO {role};
             GRANT SELECT, INSERT ON oneseal.ring_history, oneseal.events TO {role};
             GRANT SELECT, UPDATE ON oneseal.event_head TO {role};
             GRANT SELECT, INSERT, UPDATE, DELETE ON oneseal.replicas, oneseal.used_once TO {role}"
        ));
        let user = format!("{role}:right-horse");
        place.set_url(&place.database.url().replace("postgres:correct-horse-battery", &user));
        Some(place)
    }

    fn path(&self, name: &str) -> String {
        text(&self.dir.path().join(name)).to_owned()
    }

    fn set_url(&self, url: &str) {
        fs::write(self.path("url"), format!("{url}\n")).expect("written");
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = oneseal(words);
        command.args(["--config", &self.path("oneseal.toml")]);
        if fs::exists(self.path("url")).expect("its directory") {
            command.env("ONESEAL__DATABASE__URL_FILE", self.path("url"));
        }
        command
    }

    fn check(&self) -> Said {
        run(&mut self.command(&["check", "--offline", "--no-bind"]))
    }

    /// Both refuse for `code`, with the same exit code.
    #[track_caller]
    fn both_refuse(&self, exit: i32, words: &[&str]) {
        self.check().refused(exit, words);
        run(&mut self.command(&["serve"])).refused(exit, &words[..1]);
    }

    /// A row of `instance`, with these times and facts.
    fn row(&self, instance: &str, beat_at: &str, facts: &Value) {
        self.database.execute(&format!(
            "INSERT INTO oneseal.replicas SELECT 'f', '{instance}', gen_random_uuid(), 'live', \
             'http://127.0.0.1:18999', '{facts}', now(), now(), {beat_at}"
        ));
    }

    /// What a replica tells that serves another content under the number of this place's ring.
    fn contradiction(&self) -> Value {
        let ring: Value =
            serde_json::from_slice(&fs::read(self.path("keyring.json")).expect("a ring")).expect("JSON");
        let digest = "0".repeat(64);
        serde_json::json!({
            "version": "0", "issuer": ISSUER, "keys": [], "max_age_s": 300, "serving": true,
            "ring": {
                "incarnation": 1, "incarnation_id": ring["incarnation"]["id"], "revision": 1,
                "digest": digest, "jwks_digest": digest,
            },
        })
    }
}

#[test]
fn a_right_that_is_missing_is_named_as_the_statement_that_gives_it() {
    let Some(place) = Place::new("service_of_rights") else { return };
    let said = place.check().done();
    assert!(!said.out.contains("database."), "the page's grants are enough: {said:?}");
    let role = place.role;
    let change = |what: &str| drop(place.database.execute(what));
    for (table, privilege) in [
        ("replicas", "SELECT"),
        ("replicas", "INSERT"),
        ("replicas", "UPDATE"),
        ("replicas", "DELETE"),
        ("event_head", "SELECT"),
        ("schema_version", "SELECT"),
    ] {
        change(&format!("REVOKE {privilege} ON oneseal.{table} FROM {role}"));
        let cure = format!("GRANT {privilege} ON oneseal.{table} TO {role};");
        place.both_refuse(77, &["database.denied", &cure]);
        change(&cure);
    }
    change(&format!("REVOKE USAGE ON SCHEMA oneseal FROM {role}"));
    let cure = format!("GRANT USAGE ON SCHEMA oneseal TO {role};");
    place.both_refuse(77, &["database.denied", &cure]);
    change(&cure);
    for (table, privilege) in [
        ("ring_history", "INSERT"),
        ("rings", "UPDATE"),
        ("events", "INSERT"),
        ("event_head", "UPDATE"),
        ("event_floor", "SELECT"),
        ("settings", "SELECT"),
        ("worker_epochs", "UPDATE"),
    ] {
        change(&format!("REVOKE {privilege} ON oneseal.{table} FROM {role}"));
        let cure = format!("GRANT {privilege} ON oneseal.{table} TO {role};");
        let said = place.check().done();
        assert!(said.out.contains("database.grant_missing") && said.out.contains(&cure), "{said:?}");
        change(&cure);
    }
    assert_eq!(place.check().done().out, said.out);
}

/// As docs/postgres.md has it for such a replica.
#[test]
fn a_replica_that_only_publishes_is_asked_for_less() {
    let Some(place) = Place::new("service_that_publishes") else { return };
    let role = place.role;
    place.database.execute(&format!(
        "REVOKE ALL ON ALL TABLES IN SCHEMA oneseal FROM {role};
         GRANT SELECT ON oneseal.schema_version, oneseal.event_head, oneseal.rings TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON oneseal.replicas TO {role}"
    ));
    // Whose ring it is does not matter here, and is a finding of its own.
    let told = || {
        let mut command = place.command(&["check", "--offline", "--no-bind"]);
        let said =
            run(command.env("ONESEAL__RING__MODE", "public-only").env("ONESEAL__RING__PIN", "A".repeat(43)));
        said.out + &said.err
    };
    assert!(!told().contains("database."), "{}", told());
    let said = place.check().done();
    assert!(
        said.out.contains("GRANT INSERT, UPDATE ON oneseal.rings"),
        "one that signs wants more: {said:?}"
    );
    place.database.execute(&format!("REVOKE SELECT ON oneseal.rings FROM {role}"));
    let told = told();
    let cure = format!("GRANT SELECT ON oneseal.rings TO {role};");
    assert!(told.contains("database.grant_missing") && told.contains(&cure), "{told}");
}

#[test]
fn a_table_that_is_not_there_is_found_before_the_start() {
    let Some(place) = Place::new("service_of_tables") else { return };
    place.database.execute("ALTER TABLE oneseal.replicas RENAME TO elsewhere");
    place.both_refuse(78, &["database.migration_pending", "oneseal.replicas"]);
}

#[test]
fn a_name_that_is_in_use_is_found_unless_it_is_one_s_own() {
    let Some(place) = Place::new("service_of_names") else { return };
    place.row("r-0", "now() + interval '10 s'", &Value::Null);
    // The row's probes are where this configuration's are: with --no-bind that is the server beside which it is checked.
    place.check().done();
    run(&mut place.command(&["check", "--offline"])).refused(75, &["fleet.instance_in_use", "r-0"]);
    place.database.execute("UPDATE oneseal.replicas SET ops_address = 'http://127.0.0.1:18998'");
    place.both_refuse(75, &["fleet.instance_in_use", "r-0"]);
    for beat_at in ["now() - interval '12 s'", "'infinity'", "now() + interval '1 day'"] {
        place.database.execute(&format!("UPDATE oneseal.replicas SET beat_at = {beat_at}"));
        place.check().done();
    }
    place.database.execute("UPDATE oneseal.replicas SET beat_at = now() + interval '10 s', state = 'gone'");
    place.check().done();
}

#[test]
fn a_row_that_cannot_be_read_is_told_and_keeps_nobody_out() {
    let Some(place) = Place::new("service_of_readers") else { return };
    for beat_at in ["'infinity'", "'-infinity'", "now() + interval '1 day'"] {
        place.row("odd", beat_at, &place.contradiction());
        let said = place.check().done();
        assert!(
            said.out.contains("fleet.unreadable") && said.out.contains("replica odd"),
            "{beat_at}: {said:?}"
        );
        run(&mut place.command(&["replicas", "forget", "odd", "--direct", "--yes"])).done();
        assert!(!place.check().done().out.contains("fleet."), "{beat_at}");
        place.database.execute("DELETE FROM oneseal.replicas");
    }
}

/// The fleet is down, and so nobody could be asked to forget.
#[test]
fn a_lying_row_that_stops_every_start_is_forgotten_without_a_replica() {
    let Some(place) = Place::new("service_of_the_direct_way") else { return };
    place.row("liar", "now() - interval '1 hour'", &place.contradiction());
    place.both_refuse(78, &["fleet.jwks_differs", "replica liar", "--direct"]);
    let forget = |more: &[&str]| run(place.command(&["replicas", "forget", "--direct"]).args(more));
    forget(&["liar"]).refused(64, &["--yes"]);
    forget(&["nobody", "--yes"]).refused(64, &["no replica of this name", "fleet f"]);
    let forgotten = forget(&["liar", "--yes", "--json"]).done().json();
    assert_eq!(forgotten["forgotten"], "liar");
    assert_eq!(forget(&["liar", "--yes"]).done().out, "forgotten: liar\n", "twice is once");
    place.check().done();
    let events = "SELECT kind, issuer, payload::json ->> 'instance', actor LIKE 'oneseal replicas forget (uid %)' \
                  FROM oneseal.events";
    assert_eq!(place.database.execute(events), format!("replica.forgotten|{ISSUER}|liar|t"));

    place.row("alive", "now() + interval '5 s'", &Value::Null);
    forget(&["alive", "--yes"]).refused(75, &["alive", "Stop it first"]);
    place.set_url("postgres://u@127.0.0.1:9/d");
    forget(&["alive", "--yes"]).refused(69, &["database.unavailable"]);
}
