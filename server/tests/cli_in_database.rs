//! Key verbs on a ring in a database, beside a replica that serves it and without one.

mod cli_support;

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use cli_support::{ISSUER, oneseal, run, text, until};
use oneseal_testing::parts::{self, Postgres};
use serde_json::Value;
use tempfile::TempDir;

/// A migrated database, two KEKs, and the configuration of one host.
struct Host {
    dir: TempDir,
    database: parts::Database,
}

impl Host {
    fn new() -> Option<Self> {
        let host = Self {
            dir: TempDir::new().expect("a directory"),
            database: Postgres::shared()?.create_database(),
        };
        for kek in ["one", "two"] {
            run(oneseal(["keys", "new-kek", "--out"]).arg(host.path(kek))).done();
        }
        fs::write(host.path("oneseal.toml"), host.configuration(ISSUER)).expect("written");
        run(&mut host.command(&["db", "migrate"])).done();
        Some(host)
    }

    fn configuration(&self, issuer: &str) -> String {
        format!(
            "[issuer]\nurl = {issuer:?}\nalgorithms = [\"ES256\"]\n[provider]\nkind = \"postgres\"\n\
             [database]\nurl = {:?}\n[ops]\ninstance = \"pod-1\"\n\
             [listen]\ndocuments = \"127.0.0.1:0\"\nops = \"127.0.0.1:0\"\nadmin = {:?}\n",
            self.database.url(),
            self.path("admin.sock"),
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn kek(&self, name: &str) -> String {
        format!("file:{}", text(&self.path(name)))
    }

    /// With the first KEK.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.without_kek(arguments);
        command.env("ONESEAL__KEK__URI", self.kek("one"));
        command
    }

    fn without_kek(&self, arguments: &[&str]) -> Command {
        let mut command = oneseal(arguments);
        command.arg("--config").arg(self.path("oneseal.toml"));
        command
    }

    fn serve(&self) -> Served {
        let ready = self.path("ready.json");
        let mut serve = self.command(&["serve", "--ready-file", text(&ready)]);
        let child = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        let served = Served(child);
        until("a ready replica", || serde_json::from_slice::<Value>(&fs::read(&ready).ok()?).ok());
        served
    }

    fn revision(&self) -> String {
        self.database.execute("SELECT revision FROM oneseal.rings")
    }

    fn last_actor(&self) -> String {
        self.database.execute("SELECT written_by FROM oneseal.ring_history ORDER BY id DESC LIMIT 1")
    }
}

/// A replica, killed with its test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn no_ring_is_made_that_could_not_be_written_or_opened() {
    let Some(host) = Host::new() else { return };
    let init = ["keys", "init"];
    run(&mut host.without_kek(&init)).refused(78, &["no KEK is named", "oneseal keys new-kek", "--kek"]);
    let public = |command: &mut Command| run(command.env("ONESEAL__RING__MODE", "public-only"));
    public(&mut host.without_kek(&init)).refused(78, &["public-only", "ring.pin"]);
    let file = host.path("ring.json");
    let provider = format!("file:{}", text(&file));
    let mut in_file = oneseal(["keys", "init", "--issuer", ISSUER, "--provider", &provider]);
    public(in_file.env("ONESEAL__PROVIDER__DURABLE", "true")).refused(78, &["public-only", "ring.pin"]);
    assert!(!file.exists());
    assert_eq!(host.database.execute("SELECT count(*) FROM oneseal.rings"), "0");
    run(&mut host.command(&init)).done();
    assert_eq!(host.revision(), "1");
}

#[test]
fn a_replica_of_this_host_changes_the_ring_and_direct_passes_none_by() {
    let Some(host) = Host::new() else { return };
    run(&mut host.command(&["keys", "init"])).done();
    let rotate = ["keys", "rotate", "--json"];
    let direct = ["keys", "rotate", "--direct", "--json"];
    run(&mut host.command(&rotate)).refused(64, &["--admin", "--direct"]);
    assert_eq!(host.revision(), "1");

    let served = host.serve();
    let done = run(&mut host.without_kek(&rotate)).done().json();
    assert_eq!(done["verb"], "rotate", "{done}");
    assert_eq!(host.revision(), "2");
    assert!(!host.last_actor().starts_with("oneseal keys"), "by the replica: {}", host.last_actor());
    run(&mut host.command(&direct)).refused(75, &["pod-1", "--admin"]);
    // What is asked of the socket is never asked of somebody else's replica.
    fs::write(host.path("oneseal.toml"), host.configuration("http://127.0.0.1:10")).expect("written");
    run(&mut host.command(&rotate)).refused(64, &[ISSUER, "http://127.0.0.1:10"]);
    fs::write(host.path("oneseal.toml"), host.configuration(ISSUER)).expect("written");
    assert_eq!(host.revision(), "2");

    drop(served);
    run(&mut host.command(&rotate)).refused(64, &["--direct"]);
    run(&mut host.command(&direct)).refused(75, &["pod-1"]);
    // Three periods later.
    host.database.execute("UPDATE oneseal.replicas SET beat_at = beat_at - interval '20 s'");
    let done = run(&mut host.command(&["keys", "revoke", "--direct", "--dry-run", "--json"])).done().json();
    assert_eq!(done["verb"], "revoke", "{done}");
}

#[test]
fn a_ring_is_not_sealed_under_what_a_replica_cannot_open() {
    let Some(host) = Host::new() else { return };
    run(&mut host.command(&["keys", "init"])).done();
    let two = host.kek("two");
    let rewrap = ["keys", "rewrap", "--yes", "--json", "--to-kek", &two];
    {
        let _served = host.serve();
        run(&mut host.command(&rewrap)).refused(75, &["fleet.cannot_open", "pod-1"]);
        let preview = ["keys", "rewrap", "--dry-run", "--to-kek", &two];
        run(&mut host.command(&preview)).refused(75, &["fleet.cannot_open", "pod-1"]);
        assert_eq!(host.revision(), "1");
        // What it has, it says.
        let done =
            run(&mut host.command(&["keys", "rewrap", "--yes", "--json", "--new-ring-key"])).done().json();
        assert_eq!(done["changed"], true, "{done}");
    }
    // Killed, it may have been cut off as well, and serve on.
    run(&mut host.command(&rewrap)).refused(75, &["fleet.cannot_open", "pod-1"]);
    host.database.execute("DELETE FROM oneseal.replicas");
    assert_eq!(run(&mut host.command(&rewrap)).done().json()["changed"], true);
}

/// Not in the emergency.
#[test]
fn that_no_change_would_be_written_is_told_before_one_is_wanted() {
    let Some(host) = Host::new() else { return };
    run(&mut host.command(&["keys", "init"])).done();
    let check = || {
        let checked = run(&mut host.command(&["check", "--json"])).json();
        let findings = checked["findings"].as_array().expect("findings").clone();
        findings.into_iter().find(|finding| finding["code"] == "database.not_writable")
    };
    let preview = ["keys", "revoke", "--direct", "--dry-run"];
    let rows =
        "SELECT (SELECT count(*) FROM oneseal.events) || ' ' || (SELECT count(*) FROM oneseal.ring_history)";
    let before = host.database.execute(rows);
    assert_eq!(check(), None);
    run(&mut host.command(&preview)).done();
    for (breaks, mends) in [
        (
            "UPDATE oneseal.event_head SET at = 'zzz'",
            "UPDATE oneseal.event_head SET at = (SELECT max(at) FROM oneseal.events)",
        ),
        (
            "ALTER TABLE oneseal.event_head RENAME at TO moment",
            "ALTER TABLE oneseal.event_head RENAME moment TO at",
        ),
        (
            "ALTER TABLE oneseal.rings RENAME written_by TO hand",
            "ALTER TABLE oneseal.rings RENAME hand TO written_by",
        ),
        (
            "ALTER TABLE oneseal.ring_history RENAME digest TO sum",
            "ALTER TABLE oneseal.ring_history RENAME sum TO digest",
        ),
        // The owner of the tables is above row level security; what it does to others is what a trigger does to all.
        (
            "CREATE FUNCTION oneseal.no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE insufficient_privilege; END'; \
             CREATE TRIGGER no BEFORE INSERT ON oneseal.events FOR EACH ROW EXECUTE FUNCTION oneseal.no()",
            "DROP FUNCTION oneseal.no() CASCADE",
        ),
    ] {
        host.database.execute(breaks);
        let found = check().unwrap_or_else(|| panic!("{breaks}: nothing is found"));
        assert_eq!(found["severity"], "warning", "{found}");
        let refused = run(&mut host.command(&preview));
        assert!(refused.code != Some(0) && refused.out.is_empty(), "{breaks}: {refused:?}");
        host.database.execute(mends);
        assert_eq!(check(), None, "{mends}");
    }
    assert_eq!(host.database.execute(rows), before, "nothing was left behind");
    assert_eq!(host.revision(), "1");
}

#[test]
fn a_binary_that_the_tables_have_outgrown_is_told_to_be_replaced_and_not_to_migrate() {
    let Some(host) = Host::new() else { return };
    run(&mut host.command(&["keys", "init"])).done();
    host.database.execute("UPDATE oneseal.schema_version SET min_binary = '9.9.9'");
    for verb in [&["keys", "list"][..], &["check", "--no-bind"], &["keys", "rotate", "--direct"]] {
        let said = run(&mut host.command(verb));
        said.refused(78, &["database.below_min_binary", "9.9.9"]);
        assert!(!format!("{said:?}").contains("migration_pending"), "{said:?}");
    }
}

#[test]
fn a_private_half_leaves_only_once_the_log_has_it_and_by_names_alone() {
    let Some(host) = Host::new() else { return };
    run(&mut host.command(&["keys", "init"])).done();
    let recipient = host.path("recipient.jwk");
    let public = r#"{"kty":"EC","crv":"P-256","kid":"safe","alg":"ECDH-ES+A256KW","use":"enc",
        "x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}"#;
    fs::write(&recipient, public).expect("written");
    let export = ["keys", "export", "--private", "--to-jwk", text(&recipient), "--yes"];
    let jwe = run(&mut host.command(&export)).done().out;
    let select = "SELECT payload FROM oneseal.events WHERE kind = 'key.private_exported'";
    let payload: Value = serde_json::from_str(&host.database.execute(select)).expect("one event");
    assert_eq!(payload["recipient"]["kid"], "safe");
    assert!(payload["kid"].is_string() && payload["recipient"]["thumbprint"].is_string(), "{payload}");
    assert!(!payload.to_string().contains(jwe.trim_end()));

    // What does not leave is no event, whatever keeps it.
    let count = "SELECT count(*) FROM oneseal.events WHERE kind = 'key.private_exported'";
    let to = |out: &str| run(host.command(&export).args(["--out", out, "--json"]));
    let (there, nowhere) = (host.path("key.jwe"), host.path("no/such/key.jwe"));
    to(text(&there)).done();
    for (out, code) in [(&there, "file.exists"), (&nowhere, "file.not_written")] {
        let refused = to(text(out));
        assert_eq!((refused.code, &refused.json()["error"]["code"]), (Some(78), &Value::from(code)));
    }
    assert_eq!(host.database.execute(count), "2");

    host.database.execute("UPDATE oneseal.event_head SET at = 'zzz'");
    let refused = run(&mut host.command(&export));
    refused.refused(78, &["keys.not_logged: nothing was exported", "does not hold together"]);
    assert_eq!(refused.out, "", "{refused:?}");
    let unlogged = host.path("unlogged.jwe");
    to(text(&unlogged));
    assert!(!unlogged.exists(), "a place that was opened and got nothing is gone");
}
