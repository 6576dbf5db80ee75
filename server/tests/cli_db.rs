//! `oneseal db` on a real PostgreSQL, and the gate before one.

mod cli_support;

use std::fs;
use std::process::Command;

use cli_support::{ISSUER, Said, oneseal, run, text};
use oneseal_testing::parts::{Database, PgBouncer, Pooling, Postgres, PostgresOptions, Stop};
use tempfile::TempDir;

/// A directory with a ring, a configuration, and the file of a database's URL.
struct Place {
    dir: TempDir,
}

impl Place {
    fn new(url: &str) -> Self {
        let dir = TempDir::new().expect("a directory");
        let configuration = format!(
            "[issuer]\nurl = \"{ISSUER}\"\nself_check = false\n\
             [provider]\nkind = \"file\"\npath = \"{}\"\ndurable = true\n\
             [listen]\ndocuments = \"127.0.0.1:0\"\nops = \"127.0.0.1:0\"\nadmin = \"none\"\n\
             [process]\nboot_timeout = \"1s\"\n",
            dir.path().join("keyring.json").display()
        );
        fs::write(dir.path().join("oneseal.toml"), configuration).expect("written");
        let place = Self { dir };
        place.set_url(url);
        run(&mut place.command(&["keys", "init"])).done();
        place
    }

    fn set_url(&self, url: &str) {
        fs::write(self.dir.path().join("url"), format!("{url}\n")).expect("written");
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = oneseal(words);
        command.args(["--config", text(&self.dir.path().join("oneseal.toml"))]);
        command.env("ONESEAL__DATABASE__URL_FILE", self.dir.path().join("url"));
        command
    }

    fn db(&self, words: &[&str]) -> Said {
        run(self.command(&["db"]).args(words))
    }

    fn check(&self) -> Said {
        run(&mut self.command(&["check", "--offline", "--no-bind"]))
    }
}

fn empty() -> Option<(Database, Place)> {
    let database = Postgres::shared()?.create_database();
    let place = Place::new(&database.url());
    Some((database, place))
}

#[test]
fn tables_are_made_when_asked_for_and_twice_is_once() {
    let Some((database, place)) = empty() else { return };
    let before = place.db(&["status"]);
    assert_eq!(before.code, Some(1), "{before:?}");
    assert!(
        before.out.contains("coordination: version 0 of 2")
            && before.out.contains("pending: version 1 (expand)"),
        "{before:?}"
    );

    let plan = place.db(&["migrate", "--dry-run"]).done();
    assert!(plan.out.contains("would apply: coordination version 2"), "{plan:?}");
    assert_eq!(database.execute("SELECT to_regnamespace('oneseal') IS NULL"), "t", "nothing was applied");

    let made = place.db(&["migrate"]).done();
    assert!(made.err.contains("applied: coordination version 2, in "), "{made:?}");
    let again = place.db(&["migrate", "--json"]).done().json();
    assert_eq!(again["applied"], serde_json::json!([]));
    place.db(&["status"]).done();
    assert_eq!(
        database.execute("SELECT applied_by FROM oneseal.schema_version WHERE version = 1 LIMIT 1"),
        "oneseal 0.1.0"
    );
}

/// `serve` changes no schema: it says what to do.
#[test]
fn the_gate_names_what_is_missing_and_serve_makes_no_table() {
    let Some((database, place)) = empty() else { return };
    place.check().refused(78, &["database.migration_pending", "oneseal db migrate"]);
    run(&mut place.command(&["serve"])).refused(78, &["database.migration_pending"]);
    assert_eq!(database.execute("SELECT to_regnamespace('oneseal') IS NULL"), "t");
    place.db(&["migrate"]).done();
    place.check().done();

    database.execute("UPDATE oneseal.schema_version SET min_binary = '9.9.9' WHERE version = 2");
    place.check().refused(78, &["database.below_min_binary", "needs oneseal 9.9.9 or newer; this is 0.1.0"]);
    place.db(&["migrate"]).refused(78, &["database.below_min_binary"]);
    // Tables of a later version that old binaries can live with.
    database.execute(
        "UPDATE oneseal.schema_version SET min_binary = '0.1.0';
         INSERT INTO oneseal.schema_version (component, version, kind, min_binary, applied_by)
         VALUES ('coordination', 99, 'expand', '0.1.0', 'oneseal 7.0.0')",
    );
    place.check().done();
}

/// The documents are served without them, and they may be there in a minute.
#[test]
fn keys_of_an_assertion_issuer_that_cannot_be_had_are_a_warning_for_who_may_ask() {
    let Some((_database, place)) = empty() else { return };
    place.db(&["migrate"]).done();
    let file = place.dir.path().join("oneseal.toml");
    let configuration = fs::read_to_string(&file).expect("there");
    let issuer = "[[assertion_issuer]]\nname = \"ci\"\nissuer = \"https://ci.example\"\n\
                  jwks_uri = \"http://127.0.0.1:1/keys\"\n";
    fs::write(&file, format!("{configuration}{issuer}")).expect("written");
    let asked = run(&mut place.command(&["check", "--no-bind"])).done();
    assert!(
        asked.out.contains("assertion.keys_unreadable") && asked.out.contains("127.0.0.1:1"),
        "{asked:?}"
    );
    let offline = place.check().done();
    assert!(!offline.out.contains("assertion."), "{offline:?}");
}

#[test]
fn who_cannot_be_reached_or_does_not_let_in_is_told_without_the_password() {
    let Some((database, place)) = empty() else { return };
    let Some(pooler) = PgBouncer::start(Postgres::shared().expect("there"), Pooling::Statement, 2) else {
        return;
    };
    let address = database.url().split_once('@').expect("a host").1.to_owned();
    let secret = "hunter2-hunter2";
    let host = address.split('/').next().expect("a host");
    for (url, code, finding) in [
        (format!("postgres://postgres:{secret}@{address}"), 77, "database.denied"),
        (format!("postgres://postgres:{secret}@127.0.0.1:1/{}", database.name()), 69, "database.unavailable"),
        (format!("postgres://postgres:{secret}@{address}?sslmode=verify-full"), 78, "database.untrusted"),
        (format!("postgres://postgres:{secret}@{address}?sslmode=require"), 78, "sslmode=require"),
        (format!("{}?sslrootcert=/nowhere.pem", database.url()), 78, "/nowhere.pem"),
        (database.url_at(pooler.address()), 78, "database.unusable"),
        (format!("{}_none", database.url()), 78, "database.unusable"),
    ] {
        place.set_url(&url);
        for said in [place.check(), place.db(&["status"]), place.db(&["migrate"])] {
            assert_eq!(said.code, Some(code), "{finding}: {said:?}");
            let all = format!("{}{}", said.out, said.err);
            assert!(
                all.contains(finding) && !all.contains(secret) && !all.contains("correct-horse"),
                "{said:?}"
            );
        }
    }
    assert!(!host.is_empty());
    place.set_url("");
    place.check().refused(78, &["is empty"]);
    let mut without = place.command(&["db", "status"]);
    without.env_remove("ONESEAL__DATABASE__URL_FILE");
    run(&mut without).refused(78, &["no database is configured", "ONESEAL__DATABASE__URL_FILE"]);
}

#[test]
fn a_pooler_that_lends_out_sessions_is_a_warning_with_a_cure() {
    let Some((database, place)) = empty() else { return };
    let Some(pooler) = PgBouncer::start(Postgres::shared().expect("there"), Pooling::Transaction, 3) else {
        return;
    };
    place.db(&["migrate"]).done();
    place.set_url(&database.url_at(pooler.address()));
    place.db(&["status"]).done();
    let said = place.check().done();
    assert!(said.out.contains("database.pooled_fence at database.direct_url"), "{said:?}");
    let mut around = place.command(&["check", "--offline", "--no-bind"]);
    let said = run(around.env("ONESEAL__DATABASE__DIRECT_URL", database.url())).done();
    assert!(!said.out.contains("pooled_fence"), "{said:?}");
}

#[test]
fn a_database_that_is_away_is_waited_for_and_a_standby_is_no_primary() {
    let Some(mut server) = Postgres::start(PostgresOptions::default()) else { return };
    let place = Place::new(&server.url());
    place.db(&["migrate"]).done();
    let standby = server.standby();
    server.stop(Stop::Fast);
    run(&mut place.command(&["serve"])).refused(69, &["database.unavailable", "does not answer yet"]);
    place.set_url(&standby.url());
    place.check().refused(69, &["database.standby"]);
    standby.promote();
    place.check().done();
}

#[test]
fn what_somebody_else_holds_is_waited_for_and_named() {
    let Some((database, place)) = empty() else { return };
    place.db(&["migrate"]).done();
    database.execute("DROP SCHEMA oneseal CASCADE");
    let mut holder = Command::new("psql");
    let sql = format!(
        "BEGIN; SELECT pg_advisory_xact_lock({}); SELECT pg_sleep(60)",
        i64::from_be_bytes(*b"onesealm")
    );
    let mut holder = holder.args([&database.url(), "-c", &sql]).spawn().expect("psql is there");
    let held = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database \
                WHERE l.locktype = 'advisory' AND d.datname = current_database()";
    cli_support::until("the lock to be held", || (database.execute(held) == "1").then_some(()));
    let said = place.db(&["migrate", "--wait", "300ms"]);
    holder.kill().expect("it runs");
    holder.wait().expect("it ends");
    said.refused(75, &["psql, process "]);
    assert!(said.err.contains("waiting: in the way is"), "{said:?}");
}
