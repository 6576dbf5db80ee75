//! A sealed ring on the command line: a KEK is made, the ring is sealed under it, goes to another, gets another ring
//! key; each state is judged by `check`.

mod cli_support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use cli_support::{oneseal, run, text};
use serde_json::Value;
use tempfile::TempDir;

/// A ring's place, and KEKs beside it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A new KEK, by its URI.
    fn kek(&self, name: &str) -> String {
        let path = self.path(name);
        run(oneseal(["keys", "new-kek", "--out"]).arg(&path)).done();
        uri(&path)
    }

    fn keys(&self, verb: &str, kek: Option<&str>) -> Command {
        let mut command = oneseal(["keys", verb, "--issuer", "https://oidc.example"]);
        command.args(["--provider", &uri(&self.path("ring.json"))]).env("ONESEAL__PROVIDER__DURABLE", "true");
        if let Some(kek) = kek {
            command.args(["--kek", kek]);
        }
        command
    }

    /// What `check` finds, by code.
    fn check(&self, variables: &[(&str, &str)]) -> (Option<i32>, Vec<String>) {
        let mut command = oneseal(["check", "--json", "--offline", "--no-bind"]);
        command
            .env("ONESEAL__PROVIDER__DURABLE", "true")
            .env("ONESEAL__PROVIDER__URI", uri(&self.path("ring.json")))
            .env("ONESEAL__ISSUER__URL", "https://oidc.example")
            .env("ONESEAL__ISSUER__ALGORITHMS", "ES256");
        command.envs(variables.iter().copied());
        let said = run(&mut command);
        let findings = said.json()["findings"].as_array().expect("findings").clone();
        (
            said.code,
            findings.iter().map(|finding| finding["code"].as_str().unwrap_or_default().to_owned()).collect(),
        )
    }

    fn ring(&self) -> String {
        fs::read_to_string(self.path("ring.json")).expect("there")
    }
}

fn uri(path: &Path) -> String {
    format!("file:{}", text(path))
}

const KEK: &str = "ONESEAL__KEK__URI";

#[test]
fn a_kek_is_made_for_one_file_or_for_a_pipe_and_never_over_another() {
    let place = Place::new();
    place.kek("kek");
    let file = place.path("kek");
    assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
    let before = fs::read(&file).expect("there");
    run(oneseal(["keys", "new-kek", "--out"]).arg(&file)).refused(78, &["there already"]);
    assert_eq!(fs::read(&file).expect("there"), before);
    let printed = run(&mut oneseal(["keys", "new-kek"])).done();
    assert_eq!(printed.out.trim_end().len(), 43);
    assert!(!printed.err.contains(printed.out.trim_end()), "it is said once");
    let told = run(&mut oneseal(["keys", "new-kek", "--json"])).done().json();
    assert_eq!(told["kek_id"].as_str().map(str::len), Some(32));
}

#[test]
fn a_ring_is_sealed_from_the_start_goes_to_another_kek_and_to_another_ring_key() {
    let place = Place::new();
    let (one, two) = (place.kek("one"), place.kek("two"));
    let made = run(place.keys("init", Some(&one)).args(["--alg", "ES256", "--json"])).done().json();
    assert!(made["sealed_under"].is_string() && !place.ring().contains("\"d\":"), "{made}");
    assert_eq!(place.check(&[(KEK, &one)]).0, Some(0));
    let (code, found) = place.check(&[]);
    assert!(code == Some(78) && found.contains(&"ring.sealed_without_kek".to_owned()), "{found:?}");

    let before = place.ring();
    run(place.keys("rewrap", Some(&one)).args(["--to-kek", &two])).refused(64, &["--yes", "seals the ring"]);
    let to_two = ["--to-kek", &two, "--dry-run", "--json"];
    let plan = run(place.keys("rewrap", Some(&one)).args(to_two)).done().json();
    assert_eq!((&plan["changed"], &plan["is_due"]), (&Value::Bool(false), &Value::Bool(true)), "{plan}");
    assert_eq!(plan["configure_next"], serde_json::json!({ "kek_uri": two, "kek_previous": [one] }));
    assert_eq!(place.ring(), before);
    let done =
        run(place.keys("rewrap", Some(&one)).args(["--to-kek", &two, "--yes", "--json"])).done().json();
    assert_eq!((&done["changed"], &done["revision"]), (&Value::Bool(true), &Value::from(2)));
    assert_eq!(done["kek_before"][0], made["sealed_under"]);
    assert_eq!(place.check(&[(KEK, &one)]).0, Some(78), "the old one is of no use any more");
    // As it is configured until it follows: the same without --to-kek would lead back.
    let after = place.ring();
    let mut back = place.keys("rewrap", Some(&one));
    back.env("ONESEAL__KEK__PREVIOUS", &two).arg("--yes");
    run(&mut back).refused(78, &["kek.direction_unsaid", "keys keks"]);
    assert_eq!(place.ring(), after);
    let mut keks = place.keys("keks", Some(&one));
    let keks = run(keks.env("ONESEAL__KEK__PREVIOUS", &two).arg("--json")).done().json();
    assert_eq!(
        (&keks["keks"][0]["uri"], &keks["keks"][0]["seals"]),
        (&one.as_str().into(), &serde_json::json!([]))
    );
    assert_eq!(
        (&keks["keks"][1]["setting"], &keks["keks"][1]["kek_id"]),
        (&"kek.previous[0]".into(), &done["kek_id"])
    );
    assert_eq!(keks["keks"][1]["seals"][1], "ring_key", "{keks}");
    let (code, found) = place.check(&[(KEK, &two), ("ONESEAL__KEK__PREVIOUS", &one)]);
    assert!(code == Some(0) && found.contains(&"kek.previous_unneeded".to_owned()), "{found:?}");
    let again = run(place.keys("rewrap", Some(&two)).args(["--yes", "--json"])).done().json();
    assert_eq!(again["changed"], false);

    let pin = made["ring_key"].as_str().expect("a thumbprint");
    let public = [("ONESEAL__RING__MODE", "public-only"), ("ONESEAL__RING__PIN", pin)];
    assert_eq!(place.check(&public).0, Some(0));
    let (code, found) = place.check(&public[..1]);
    assert!(code == Some(78) && found.contains(&"ring.unpinned".to_owned()), "{found:?}");
    let done =
        run(place.keys("rewrap", Some(&two)).args(["--new-ring-key", "--yes", "--json"])).done().json();
    assert_eq!(done["ring_key_before"].as_str(), Some(pin));
    assert_eq!(place.check(&public).0, Some(0), "the old pin leads to the new key");
}

#[test]
fn an_unsealed_ring_is_refused_under_a_kek_until_it_is_sealed_by_hand() {
    let place = Place::new();
    let kek = place.kek("kek");
    run(place.keys("init", None).args(["--alg", "ES256"])).done();
    let (code, found) = place.check(&[(KEK, &kek)]);
    assert!(code == Some(78) && found.contains(&"ring.unauthentic".to_owned()), "{found:?}");
    run(place.keys("rewrap", Some(&kek)).arg("--yes")).refused(78, &["ring.unauthentic", "--from-unsealed"]);
    let told = run(place.keys("rewrap", Some(&kek)).args(["--from-unsealed", "--yes"])).done();
    assert!(told.out.starts_with("sealed anew: "), "{told:?}");
    assert_eq!(place.check(&[(KEK, &kek)]).0, Some(0));
    run(&mut place.keys("rewrap", None)).refused(78, &["kek.not_configured"]);
    run(place.keys("rewrap", None).arg("--yes")).refused(78, &["kek.not_configured"]);
}
