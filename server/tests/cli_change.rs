//! The key verbs of the command line, on a ring in a file and through a replica.

mod cli_support;

use std::fs;
use std::path::PathBuf;

use cli_support::{Said, oneseal, run, text};
use serde_json::{Value, json};
use tempfile::TempDir;

const ISSUER: &str = "http://127.0.0.1:9";

/// A directory with an ES256 ring of a laboratory.
struct Lab {
    dir: TempDir,
}

impl Lab {
    fn new() -> Self {
        let lab = Self { dir: tempfile::tempdir().expect("a directory") };
        let made = lab.keys("init", &["--alg", "ES256"]);
        assert_eq!(made.code, Some(0), "{made:?}");
        lab
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn keys(&self, verb: &str, more: &[&str]) -> Said {
        let ring = format!("file:{}", self.path("ring.json").display());
        let mut command =
            oneseal(["keys", verb, "--issuer", ISSUER, "--provider", &ring, "--config", "/dev/null"]);
        command.env("ONESEAL__ROTATION__PRESET", "lab").env("ONESEAL__PROVIDER__DURABLE", "true");
        command.env("ONESEAL__ISSUER__ALGORITHMS", "ES256,RS256");
        run(command.args(more))
    }

    fn ring(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("ring.json")).expect("there")).expect("JSON")
    }

    fn states(&self) -> Vec<String> {
        let ring = self.ring();
        let keys = ring["keys"].as_array().expect("keys");
        keys.iter().map(|key| key["state"].as_str().expect("a state").to_owned()).collect()
    }

    /// Until the verb is not too early any more.
    fn until_done(&self, verb: &str, more: &[&str]) -> Said {
        loop {
            let said = self.keys(verb, more);
            if said.code != Some(75) {
                assert_eq!(said.code, Some(0), "{said:?}");
                return said;
            }
        }
    }
}

#[test]
fn a_rotation_by_hand_on_a_file() {
    let lab = Lab::new();
    let told = lab.keys("rotate", &["--reason", "monthly"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(
        told.out.contains("the ring is at revision 2") && told.out.contains("next: activate"),
        "{told:?}"
    );
    lab.keys("activate", &[]).refused(78, &["oneseal: keys.unproven_replicas: ", "--unproven-replicas"]);
    let early = lab.keys("activate", &["--unproven-replicas", "--json"]);
    assert_eq!(early.code, Some(75), "{early:?}");
    let early = early.json();
    assert!(early["error"]["not_before"].is_i64(), "{early}");
    assert_eq!(early["error"]["code"], "keys.too_early", "{early}");
    assert_eq!(early["error"]["because"]["setting"], "rotation.rp_propagation", "{early}");
    assert!(early["error"]["message"].as_str().expect("words").contains("rotation."), "{early}");
    lab.until_done("activate", &["--unproven-replicas"]);
    assert_eq!(lab.states(), ["retiring", "active"]);
    lab.keys("retire", &[]).refused(75, &["It may be done from", "rotation."]);
    assert_eq!(lab.keys("rollback", &[]).code, Some(0));
    assert_eq!(lab.states(), ["active", "retiring"]);
    assert_eq!(lab.ring()["log"][2]["reason"], "monthly");
}

#[test]
fn what_cannot_be_undone_wants_yes_and_says_what_it_would_do() {
    let lab = Lab::new();
    let before = lab.ring();
    lab.keys("revoke", &[])
        .refused(64, &["keys.wants_yes: nothing was done", "--yes", "would be: key.revoked"]);
    assert_eq!(lab.ring(), before);
    let burned = lab.keys("revoke", &["--yes", "--json", "--reason", "leaked"]);
    assert_eq!(burned.code, Some(0), "{burned:?}");
    let kinds: Vec<_> = burned.json()["changes"]
        .as_array()
        .expect("changes")
        .iter()
        .map(|change| change["kind"].clone())
        .collect();
    assert_eq!(kinds, [json!("key.revoked"), json!("key.published"), json!("key.activated")]);
    assert_eq!(lab.states(), ["active"]);
    assert_ne!(lab.ring()["keys"][0]["kid"], before["keys"][0]["kid"]);
    let new = lab.keys("rotate", &["--json"]).json()["changes"][0]["kid"].clone();
    let kid = new.as_str().expect("a kid");
    lab.keys("retire", &[kid]).refused(64, &["--yes"]);
    assert_eq!(lab.keys("retire", &[kid, "--yes"]).code, Some(0));
    assert_eq!(lab.states(), ["active"]);
}

/// Whichever of them comes last to the second commit finds it done.
#[test]
fn two_that_wait_for_the_end_of_one_emergency_both_see_it() {
    let lab = Lab::new();
    assert_eq!(lab.keys("revoke", &["--yes", "--no-wait"]).code, Some(0));
    let answers: Vec<_> = std::thread::scope(|scope| {
        let ask = || lab.keys("revoke", &["--yes", "--json"]);
        let both = [scope.spawn(ask), scope.spawn(ask)];
        both.into_iter().map(|one| one.join().expect("no panic")).collect()
    });
    for answer in &answers {
        assert_eq!(answer.code, Some(0), "{answer:?}");
    }
    let changes: Vec<_> = answers.iter().map(|answer| answer.json()["changes"].clone()).collect();
    let changes: Vec<_> = changes.iter().flat_map(|changes| changes.as_array().expect("changes")).collect();
    let activated = changes.iter().filter(|change| change["kind"] == "key.activated").count();
    assert_eq!(activated, 1, "one of them let it sign: {answers:?}");
    assert_eq!(lab.states(), ["active"]);
}

#[test]
fn the_same_change_id_does_it_once() {
    let lab = Lab::new();
    let id = ["--change-id", "6f9619ff-8b86-4011-b42d-00c04fc964ff", "--json"];
    let (first, again) = (lab.keys("rotate", &id).json(), lab.keys("rotate", &id).json());
    assert_eq!((&first["repeated"], &again["repeated"]), (&json!(false), &json!(true)));
    assert_eq!(first["changes"], again["changes"]);
    assert_eq!(lab.states().len(), 2);
    assert!(lab.keys("rollback", &id).out.contains("change id"));
}

#[test]
fn a_key_from_elsewhere_is_taken_in_under_its_own_name() {
    let lab = Lab::new();
    let other = Lab::new();
    let key = lab.path("key.jwk");
    fs::write(&key, other.ring()["keys"][0]["private"].to_string()).expect("written");
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("set");
    let taken = lab.keys("adopt", &[text(&key), "--kid", "2024-key"]);
    assert_eq!(taken.code, Some(0), "{taken:?}");
    assert_eq!(lab.states(), ["active", "pending"]);
    assert_eq!(lab.ring()["keys"][1]["kid"], "2024-key");
    lab.keys("adopt", &[text(&key)]).refused(78, &["keys.kid_taken: ", "under the kid 2024-key"]);
    lab.keys("adopt", &[text(&key), "--already-published"]).refused(69, &["gives no key set"]);
    lab.keys("adopt", &["/nowhere.pem"]).refused(78, &["cannot be read"]);
    let wired = run(&mut oneseal(["keys", "adopt", text(&key), "--admin", "/x.sock"]));
    wired.refused(64, &["no private half crosses the wire"]);
}

#[test]
fn an_encrypted_key_is_taken_in_with_its_passphrase() {
    let lab = Lab::new();
    let (key, passphrase) = (lab.path("key.enc.pem"), lab.path("passphrase"));
    let encrypted = include_str!("../../keystore/tests/vectors/forms/p256.scrypt-aes256.enc.pem");
    for (path, content) in [(&key, encrypted), (&passphrase, "wrong canary\n")] {
        fs::write(path, content).expect("written");
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("set");
    }
    let uri = format!("file:{}", text(&passphrase));
    let adopt = [text(&key), "--kid", "2024-key"];
    let with = [&adopt[..], &["--passphrase", &uri]].concat();
    lab.keys("adopt", &adopt).refused(78, &["key.encrypted", "--passphrase"]);
    let wrong = lab.keys("adopt", &with);
    wrong.refused(78, &["key.wrong_passphrase"]);
    assert!(!wrong.err.contains("canary"), "{wrong:?}");
    let gone = [&adopt[..], &["--passphrase", "file:/no/such/passphrase"]].concat();
    lab.keys("adopt", &gone).refused(78, &["provider.not_found", "passphrase"]);
    assert_eq!(lab.states(), ["active"]);

    fs::write(&passphrase, "correct-horse\n").expect("written");
    let taken = lab.keys("adopt", &with);
    assert_eq!(taken.code, Some(0), "{taken:?}");
    assert_eq!(lab.ring()["keys"][1]["kid"], "2024-key");
    assert_eq!(lab.states(), ["active", "pending"]);
}

/// kube-apiserver's: RS256, and a kid that is the hash of the SPKI (kubernetes/pkg/serviceaccount/jwt.go).
#[test]
fn a_former_issuers_set_shows_its_thumbprints_and_wants_yes() {
    let lab = Lab::new();
    let set = lab.path("former.json");
    let jwks = json!({ "keys": [{
        "use": "sig", "kty": "RSA", "alg": "RS256", "e": "AQAB", "kid": "wJTTFmO8jJ8RGVcW0GJxWEkVAoNFH_Gv0jTGgvZ0uGo",
        "n": include_str!("../../keystore/tests/golden/ring-1.json").split("\"n\":\"").nth(1).and_then(|rest| rest.split('"').next()),
    }] });
    fs::write(&set, jwks.to_string()).expect("written");
    let until = "2099-01-01T00:00:00Z";
    let adopt = ["--from-jwks", text(&set), "--public-only", "--until", until];
    lab.keys("adopt", &adopt)
        .refused(64, &["thumbprint gOXBu7HW_BqG6XG3BzvOKosatTNDuBWPGjN2Hdza9iM", until, "--yes"]);
    let taken = lab.keys("adopt", &[&adopt[..], &["--yes"]].concat());
    assert_eq!(taken.code, Some(0), "{taken:?}");
    let ring = lab.ring();
    assert_eq!(
        (&ring["keys"][1]["state"], &ring["keys"][1]["remove_after"]),
        (&json!("retiring"), &json!(4_070_908_800_i64))
    );
    assert!(ring["keys"][1].get("private").is_none());
    lab.keys(
        "adopt",
        &["--from-jwks", "http://former.example/jwks", "--public-only", "--until", until, "--yes"],
    )
    .refused(64, &["only https"]);
    lab.keys("adopt", &["--from-jwks", text(&set)]).refused(64, &["--public-only"]);
}
