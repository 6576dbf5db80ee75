//! `keys export --private`: one private half leaves, for its recipient alone, and nothing of it is seen on the way.

mod cli_support;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use cli_support::{Said, oneseal, run, text};
use josekit::jwe::{ECDH_ES_A256KW, deserialize_compact};
use josekit::jwk::Jwk;
use serde_json::Value;
use tempfile::TempDir;

const RECIPIENT: &str = include_str!("../../keystore/tests/vectors/recipient/p256.jwk");
const ISSUER: &str = "https://oidc.example";

struct Lab(TempDir);

impl Lab {
    fn new() -> Self {
        let lab = Self(TempDir::new().expect("a directory"));
        let public = include_str!("../../keystore/tests/vectors/recipient/p256.pub.jwk");
        fs::write(lab.path("recipient.jwk"), public).expect("written");
        lab
    }

    /// With a ring that is not sealed, whose private half is the canary.
    fn with_ring() -> (Self, String) {
        let lab = Self::new();
        run(lab.keys("init", &["--alg", "ES256"]).env("ONESEAL__PROVIDER__DURABLE", "true")).done();
        let canary = lab.ring()["keys"][0]["private"]["d"].as_str().expect("not sealed").to_owned();
        (lab, canary)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn keys(&self, verb: &str, more: &[&str]) -> Command {
        let ring = format!("file:{}", text(&self.path("ring.json")));
        let mut command = oneseal(["keys", verb, "--issuer", ISSUER, "--provider", &ring]);
        command.env("ONESEAL__PROVIDER__DURABLE", "true").args(more);
        command
    }

    fn export(&self, more: &[&str]) -> Said {
        let recipient = self.path("recipient.jwk");
        run(self.keys("export", &["--private", "--to-jwk", text(&recipient)]).args(more))
    }

    fn ring(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("ring.json")).expect("there")).expect("JSON")
    }
}

/// By a library that had no part in wrapping the content key.
fn opened(jwe: &str) -> Value {
    let jwk = Jwk::from_bytes(RECIPIENT.as_bytes()).expect("a JWK");
    let decrypter = ECDH_ES_A256KW.decrypter_from_jwk(&jwk).expect("a key");
    let (plaintext, header) = deserialize_compact(jwe.trim_end(), &decrypter).expect("it opens");
    assert_eq!(header.key_id(), Some("recipient-p256"));
    serde_json::from_slice(&plaintext).expect("a JWK")
}

#[test]
fn it_is_said_what_goes_to_whom_and_nothing_goes_without_yes() {
    let (lab, canary) = Lab::with_ring();
    let (kid, out) = (lab.ring()["keys"][0]["kid"].as_str().expect("a kid").to_owned(), lab.path("key.jwe"));
    let said = lab.export(&["--out", text(&out)]);
    said.refused(64, &["nothing was exported", &kid, "recipient-p256", "thumbprint", "--yes"]);
    assert!(!out.exists() && said.out.is_empty() && !said.err.contains(&canary), "{said:?}");
}

#[test]
fn the_recipient_opens_what_was_written_and_nobody_else_reads_it_anywhere() {
    let (lab, canary) = Lab::with_ring();
    let out = lab.path("key.jwe");
    let written = lab.export(&["--yes", "--out", text(&out)]).done();
    assert_eq!(fs::metadata(&out).expect("there").permissions().mode() & 0o777, 0o600);
    let file = fs::read_to_string(&out).expect("there");
    let printed = lab.export(&["--yes"]).done();
    let as_json = lab.export(&["--yes", "--json"]).done();
    for said in [&written, &printed, &as_json] {
        assert!(!said.out.contains(&canary) && !said.err.contains(&canary), "{said:?}");
        let logged: Vec<_> = said.err.lines().filter(|line| line.contains("key.private_exported")).collect();
        assert_eq!(logged.len(), 1, "{said:?}");
    }
    assert!(!file.contains(&canary));
    let ring = lab.ring();
    for jwe in [&file, &printed.out, as_json.json()["jwe"].as_str().expect("a JWE")] {
        let key = opened(jwe);
        assert_eq!((&key["kid"], &key["alg"]), (&ring["keys"][0]["kid"], &ring["keys"][0]["alg"]));
        assert_eq!(key["d"], canary);
    }

    lab.export(&["--yes", "--out", text(&out)]).refused(78, &["there already"]);
    assert_eq!(fs::read_to_string(&out).expect("there"), file, "it is left alone");
    lab.export(&["--yes", "--kid", "none"]).refused(1, &["begins with none"]);
}

#[test]
fn a_sealed_ring_wants_its_kek_and_a_place_that_opens_private_halves() {
    let lab = Lab::new();
    run(oneseal(["keys", "new-kek", "--out"]).arg(lab.path("kek"))).done();
    let kek = format!("file:{}", text(&lab.path("kek")));
    let made = run(&mut lab.keys("init", &["--alg", "ES256", "--kek", &kek, "--json"])).done().json();
    let pin = made["ring_key"].as_str().expect("a thumbprint");
    assert!(opened(&lab.export(&["--yes", "--kek", &kek]).done().out)["d"].is_string());
    lab.export(&["--yes"]).refused(78, &["ring.sealed_without_kek"]);

    let recipient = lab.path("recipient.jwk");
    let mut public_only = lab.keys("export", &["--private", "--to-jwk", text(&recipient), "--yes"]);
    public_only.env("ONESEAL__RING__MODE", "public-only").env("ONESEAL__RING__PIN", pin);
    run(&mut public_only).refused(78, &["public-only"]);
}

#[test]
fn a_bare_key_leaves_too() {
    let lab = Lab::new();
    let bare = lab.path("ring.json");
    fs::write(&bare, include_str!("../../keystore/tests/vectors/ring/p256.pem")).expect("written");
    fs::set_permissions(&bare, fs::Permissions::from_mode(0o600)).expect("set");
    let key = opened(&lab.export(&["--yes"]).done().out);
    assert_eq!((&key["alg"], &key["crv"]), (&"ES256".into(), &"P-256".into()));
}

#[test]
fn a_recipient_that_is_none_is_refused_before_the_ring_is_read() {
    let (lab, canary) = Lab::with_ring();
    let ring = lab.ring();
    for (content, words) in [
        (RECIPIENT.to_owned(), "private half as well"),
        (ring["keys"][0]["private"].to_string(), "private half as well"),
        (ring["keys"][0]["public"].to_string(), "a key of this ring"),
        (ring.to_string(), "a key set"),
        ("{}".to_owned(), "`kty`"),
        (String::new(), "no public JWK"),
    ] {
        fs::write(lab.path("recipient.jwk"), content).expect("written");
        let said = lab.export(&["--yes"]);
        said.refused(78, &[words]);
        assert!(!said.err.contains(&canary) && said.out.is_empty(), "{said:?}");
    }
    fs::remove_file(lab.path("recipient.jwk")).expect("there");
    lab.export(&["--yes"]).refused(78, &["recipient.jwk cannot be read"]);
}
