//! Every JSON answer against its schema in `docs/json`.

mod cli_support;

use std::fs;
use std::path::PathBuf;

use cli_support::issuer::{Issuer, gives, says};
use cli_support::{ISSUER, Replica, Said, oneseal, run, run_with, text};
use oneseal_testing::parts::Postgres;
use serde_json::Value;

/// A replica with a key of its own, whose answers are judged.
struct Judge {
    replica: Replica,
    seen: std::cell::RefCell<std::collections::BTreeSet<String>>,
}

fn schemas() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/json")
}

fn schema(name: &str) -> Value {
    let path = schemas().join(format!("{name}.schema.json"));
    serde_json::from_slice(&fs::read(&path).expect("there")).expect("JSON")
}

impl Judge {
    #[track_caller]
    fn judge(&self, name: &str, said: &Said) {
        let (schema, answer) = (schema(name), said.json());
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let faults: Vec<_> = validator.iter_errors(&answer).map(|error| error.to_string()).collect();
        assert!(faults.is_empty(), "{name}: {faults:?}: {answer}");
        // A report is read by people too.
        assert!(name.starts_with("check") || said.out.lines().count() == 1, "{name}: one line");
        assert_eq!(answer["exit"].as_i64().map(|code| code as i32), said.code, "{name}");
        self.seen.borrow_mut().insert(format!("{name}.schema.json"));
        // A schema that takes anything would prove nothing.
        let mut other = answer.clone();
        other["unheard_of"] = true.into();
        assert!(!validator.is_valid(&other), "{name} takes unknown members");
        other = answer;
        other.as_object_mut().expect("an object").remove("exit");
        assert!(!validator.is_valid(&other), "{name} does without exit");
    }

    fn keys(&self, verb: &str, more: &[&str]) -> Said {
        let config = self.replica.dir.path().join("oneseal.toml");
        run(oneseal(["keys", verb, "--config", text(&config), "--json"]).args(more))
    }
}

#[test]
fn every_answer_is_as_its_schema_says() {
    let judge = Judge { replica: Replica::minting(), seen: std::cell::RefCell::default() };
    let dir = tempfile::tempdir().expect("a directory");
    let file = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();

    judge.judge("keys-init", &judge.keys("init", &["--alg", "RS256,ES256"]));
    judge.judge("keys-list", &judge.keys("list", &[]));
    judge.judge("keys-show", &judge.keys("show", &[]));
    for format in ["jwks", "pem", "spki"] {
        judge.judge("keys-export", &judge.keys("export", &["--format", format]));
    }
    judge.judge("keys-export", &judge.keys("export", &["--out", &file("jwks.json")]));
    judge.judge("keys-export", &judge.keys("export", &["--site", &file("site")]));
    let recipient = concat!(env!("CARGO_MANIFEST_DIR"), "/../keystore/tests/vectors/recipient/p256.pub.jwk");
    let private = ["--private", "--to-jwk", recipient, "--yes"];
    judge.judge("keys-export", &judge.keys("export", &private));
    let out = file("key.jwe");
    judge.judge("keys-export", &judge.keys("export", &[&private[..], &["--out", &out]].concat()));
    judge.judge("error", &judge.keys("export", &private[..3]));

    let socket = judge.replica.admin();
    let recover = |more: &[&str]| {
        run(oneseal(["keys", "recover", "--json", "--from-replica", text(&socket)]).args(more))
    };
    judge.judge("keys-recover", &recover(&["--yes"]));
    let ring = judge.replica.dir.path().join("keyring.json");
    let bytes = fs::read(&ring).expect("there");
    fs::remove_file(&ring).expect("removed");
    judge.judge("error", &recover(&[]));
    judge.judge("keys-recover", &recover(&["--dry-run"]));
    judge.judge("keys-recover", &recover(&["--yes"]));
    assert_eq!(fs::read(&ring).expect("back"), bytes);

    judge.judge("keys-change", &judge.keys("rotate", &["--dry-run"]));
    judge.judge("keys-change", &judge.keys("rotate", &["--reason", "a test"]));
    judge.judge("error", &judge.keys("activate", &["--unproven-replicas"]));

    let minted = judge.replica.mint(&["--json"]);
    judge.judge("mint", &minted);
    judge.judge("mint", &judge.replica.mint(&["--dry-run", "--claim", "team=a", "--json"]));
    let issuer = Issuer::with(|url| vec![gives(url), gives(url), says(400, "invalid_target")]);
    judge.judge("token", &issuer.token(&["--json"]));
    judge.judge("token", &issuer.token(&["--json", "--out", &file("token")]));
    judge.judge("error", &issuer.token(&["--json"]));
    let new = ["admin", "token", "new", "--json", "--name", "ci", "--scopes"];
    judge.judge("admin-token-new", &run(oneseal(new).arg("mint,read")));
    judge.judge("admin-token-new", &run(oneseal(new).args(["keys", "--expires", "90d"])));
    let token = minted.json()["token"].as_str().expect("a token").to_owned();
    let jwks = file("jwks.json");
    let verify = |aud: &str, keys: &[&str]| {
        let arguments = ["verify", "-", "--issuer", ISSUER, "--aud", aud, "--json"];
        run_with(oneseal(arguments).args(keys), &token)
    };
    judge.judge("verify", &verify("rp", &["--jwks", &jwks]));
    judge.judge("verify", &verify("other", &["--jwks", &jwks]));
    judge.judge("verify", &verify("rp", &[]));

    judge.judge(
        "healthcheck",
        &run(&mut oneseal(["healthcheck", "--json", "--ops", judge.replica.address("ops")])),
    );
    let rules = file("rules.toml");
    let table = "[issuer]\nurl = \"https://oidc.example\"\n\
                 [[cluster]]\nname = \"prod\"\nissuer = \"https://kubernetes.default.svc\"\n\
                 [[rule]]\nname = \"ci\"\ncluster = \"prod\"\nsub = \"{cluster}:{namespace}\"\naudiences = [\"a\"]\n";
    fs::write(&rules, table).expect("written");
    let preview = |audience: &str| {
        let pod = ["--cluster", "prod", "--namespace", "ci", "--pod-uid", "5c1e", "--audience", audience];
        run(oneseal(["rules", "preview", "--json", "--config", &rules]).args(pod))
    };
    judge.judge("rules-preview", &preview("a"));
    judge.judge("rules-preview", &preview("b"));
    for wanted in [r#""denied": true"#, r#""sub": "prod:ci""#] {
        let workload = r#"{"cluster": "prod", "namespace": "ci", "pod_uid": "5c1e"}"#;
        let text = format!(r#"{{"expect": [{{"workload": {workload}, "audience": "a", {wanted}}}]}}"#);
        let test = ["rules", "test", "--json", "--config", &rules, "-"];
        judge.judge("rules-test", &run_with(&mut oneseal(test), &text));
    }
    let admin = judge.replica.admin();
    judge.judge("replicas-list", &run(&mut oneseal(["replicas", "list", "--json", "--admin", text(&admin)])));
    judge.judge("version", &run(&mut oneseal(["version", "--json"])));
    judge.judge("config-init", &run(&mut oneseal(["config", "init", "--json"])));
    judge.judge("config-init", &run(&mut oneseal(["config", "init", "--json", "--output", &file("x.toml")])));
    judge.judge("man", &run(&mut oneseal(["man", "--json", "--out", text(dir.path())])));

    let quickstart = ["quickstart", "--json", "--dir", &file("quickstart")];
    judge.judge("quickstart", &run(&mut oneseal(quickstart)));
    let config = judge.replica.dir.path().join("oneseal.toml");
    let check = |more: &[&str]| run(oneseal(["check", "--json", "--config", text(&config)]).args(more));
    judge.judge("check", &check(&["--offline", "--no-bind", "--explain"]));
    judge.judge("check", &check(&["--online", "--explain", "--strict"]));
    judge.judge("check", &run(&mut oneseal(["check", "--json", "--offline", "--config", "/dev/null"])));
    judge.judge("check-codes", &run(&mut oneseal(["check", "--codes", "--json"])));

    let migrate = |to: &str, more: &[&str]| {
        let ring = format!("file:{}", text(&judge.replica.dir.path().join("keyring.json")));
        let arguments = ["migrate", "--json", "--fleet-is-stopped", "--from", &ring, "--to", to];
        run(oneseal(arguments).args(more))
    };
    let elsewhere = format!("file:{}", file("copy.json"));
    judge.judge("migrate", &migrate(&elsewhere, &["--dry-run"]));
    let other = format!("file:{}", file("quickstart/keyring.json"));
    judge.judge("migrate", &migrate(&other, &["--yes"]));
    judge.judge("error", &migrate("file:/no/such/ring.json", &["--yes"]));
    judge.judge("keys-new-kek", &run(&mut oneseal(["keys", "new-kek", "--json"])));
    let (kek, uri) = (file("kek"), format!("file:{}", file("kek")));
    judge.judge("keys-new-kek", &run(&mut oneseal(["keys", "new-kek", "--json", "--out", &kek])));
    judge.judge("keys-rewrap", &judge.keys("rewrap", &["--from-unsealed", "--kek", &uri, "--yes"]));
    judge.judge("keys-rewrap", &judge.keys("rewrap", &["--kek", &uri, "--yes"]));
    let other = file("other-kek");
    run(&mut oneseal(["keys", "new-kek", "--out", &other])).done();
    let other = format!("file:{other}");
    judge.judge("keys-rewrap", &judge.keys("rewrap", &["--kek", &uri, "--to-kek", &other, "--dry-run"]));
    judge.judge("keys-keks", &judge.keys("keks", &["--kek", &other]));

    if let Some(server) = Postgres::shared() {
        let url = server.create_database().url();
        let db = |more: &[&str]| {
            run(oneseal(["db"]).args(more).args(["--json"]).env("ONESEAL__DATABASE__URL", &url))
        };
        judge.judge("db-status", &db(&["status"]));
        judge.judge("db-migrate", &db(&["migrate", "--dry-run"]));
        judge.judge("db-migrate", &db(&["migrate"]));
        judge.judge("db-status", &db(&["status"]));
        let events = |more: &[&str]| {
            run(oneseal(["events"]).args(more).args(["--json"]).env("ONESEAL__DATABASE__URL", &url))
        };
        judge.judge("events-export", &events(&["export", "--output", &file("events.ndjson")]));
        judge.judge("events-verify", &events(&["verify"]));
        judge.judge("events-prune", &events(&["prune", "--before", "1d"]));
    } else {
        let ours =
            ["events-export", "events-verify", "events-prune"].map(|name| format!("{name}.schema.json"));
        judge.seen.borrow_mut().extend(ours);
        judge.seen.borrow_mut().extend(["db-status", "db-migrate"].map(|name| format!("{name}.schema.json")));
    }

    judge.judge("error", &run(&mut oneseal(["brew", "--json"])));
    judge.judge("error", &judge.keys("show", &["no-such-key"]));
    judge.judge("error", &run(&mut oneseal(["keys", "list", "--json", "--config", "/dev/null"])));
    judge
        .judge("error", &run(&mut oneseal(["mint", "--json", "--admin", "/no", "--sub", "a", "--aud", "b"])));

    let files = fs::read_dir(schemas()).expect("there").map(|entry| entry.expect("there").file_name());
    let files = files.map(|name| name.into_string().expect("UTF-8")).filter(|name| name.ends_with(".json"));
    let others: Vec<_> = files.filter(|name| !judge.seen.borrow().contains(name)).collect();
    assert_eq!(others, [""; 0], "a schema that nothing was held against");
}
