//! `oneseal keys export --site`: what a bucket serves is what the server serves.

mod cli_support;

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use cli_support::{Replica, Said, oneseal, run, text};
use serde_json::Value;
use tempfile::TempDir;

/// A ring and its configuration in a directory, and another directory for the documents.
struct Place {
    dir: TempDir,
    issuer: String,
}

impl Place {
    fn new(issuer: &str, algorithms: &str) -> Self {
        let place = Self { dir: TempDir::new().expect("a directory"), issuer: issuer.to_owned() };
        run(place.keys("init").args(["--alg", algorithms])).done();
        place
    }

    fn ring(&self) -> PathBuf {
        self.dir.path().join("keyring.json")
    }

    fn site(&self) -> PathBuf {
        self.dir.path().join("site")
    }

    fn keys(&self, verb: &str) -> Command {
        let provider = format!("file:{}", text(&self.ring()));
        let mut command = oneseal(["keys", verb, "--issuer", &self.issuer, "--provider", &provider]);
        command.args(["--config", "/dev/null"]).env("ONESEAL__PROVIDER__DURABLE", "true");
        command
    }

    fn export(&self, more: &[&str]) -> Said {
        run(self.keys("export").args(["--site", text(&self.site())]).args(more))
    }
}

/// One answer, its head and its body.
fn get(address: &str, path: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("answered");
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
    (String::from_utf8(answer[..end].to_vec()).expect("text").to_lowercase(), answer[end + 4..].to_vec())
}

#[test]
fn every_file_has_the_bytes_and_names_the_headers_of_the_server() {
    for (issuer, discovery, oauth) in [
        ("http://127.0.0.1:9", ".well-known/openid-configuration", ".well-known/oauth-authorization-server"),
        (
            "https://oidc.example/tenant/a",
            "tenant/a/.well-known/openid-configuration",
            ".well-known/oauth-authorization-server/tenant/a",
        ),
        (
            "https://oidc.example/t/",
            "t/.well-known/openid-configuration",
            ".well-known/oauth-authorization-server/t",
        ),
    ] {
        let replica = Replica::start_as(issuer, "");
        let site = replica.dir.path().join("site");
        let config = replica.dir.path().join("oneseal.toml");
        let arguments = ["keys", "export", "--config", text(&config), "--site", text(&site), "--json"];
        let told = run(&mut oneseal(arguments)).done().json();
        let files = told["files"].as_array().expect("files");
        let paths: Vec<_> = files.iter().map(|file| file["path"].as_str().expect("a path")).collect();
        let jwks = discovery.replace("openid-configuration", "jwks.json");
        assert_eq!(paths, [jwks.as_str(), discovery, oauth], "the key set comes first");
        for (file, path) in files.iter().zip(paths) {
            let (head, body) = get(replica.address("documents"), &format!("/{path}"));
            assert!(head.starts_with("http/1.1 200"), "{head}");
            assert_eq!(fs::read(site.join(path)).expect("there"), body, "{path}");
            let headers = file["headers"].as_object().expect("headers");
            assert_eq!(headers.len(), 4, "{headers:?}");
            for (name, value) in headers {
                let line = format!("\r\n{name}: {}", value.as_str().expect("a text")).to_lowercase();
                assert!(head.contains(&line), "{line}: {head}");
            }
        }
        assert!(told["cannot"].as_array().is_some_and(|lines| !lines.is_empty()));
    }
}

#[test]
fn it_is_written_once_and_nothing_else_is_touched() {
    let place = Place::new("https://oidc.example", "RS256");
    fs::create_dir(place.site()).expect("made");
    fs::write(place.site().join("index.html"), "mine").expect("written");
    let first = place.export(&[]).done();
    for word in ["wrote", ".well-known/jwks.json", "Cache-Control: public, max-age=300", "cannot"] {
        assert!(first.out.contains(word), "{word}: {first:?}");
    }
    let jwks = place.site().join(".well-known/jwks.json");
    let before = fs::metadata(&jwks).expect("there").modified().expect("a time");
    let again = place.export(&["--json"]).done().json();
    for file in again["files"].as_array().expect("files") {
        assert_eq!(file["status"], "unchanged");
    }
    assert_eq!(fs::metadata(&jwks).expect("there").modified().expect("a time"), before);
    assert_eq!(fs::read_to_string(place.site().join("index.html")).expect("there"), "mine");
    let names = |dir: &Path| -> usize { fs::read_dir(dir).expect("there").count() };
    assert_eq!((names(&place.site()), names(&place.site().join(".well-known"))), (2, 3));
}

#[test]
fn an_unfit_directory_is_refused_before_anything_is_written() {
    let place = Place::new("https://oidc.example/t", "RS256");
    let site = place.site();
    let well_known = site.join("t/.well-known");
    let refused = |words: &[&str]| place.export(&[]).refused(78, words);

    fs::write(&site, "a file").expect("written");
    refused(&["is no directory"]);
    fs::remove_file(&site).expect("removed");

    fs::create_dir_all(&well_known).expect("made");
    fs::write(well_known.join("openid-configuration"), r#"{"issuer":"https://other.example"}"#)
        .expect("written");
    refused(&["openid-configuration", "left alone"]);
    fs::remove_file(well_known.join("openid-configuration")).expect("removed");
    fs::write(well_known.join("jwks.json"), "no JSON").expect("written");
    refused(&["jwks.json", "left alone"]);
    fs::remove_file(well_known.join("jwks.json")).expect("removed");
    symlink("/etc/hostname", well_known.join("jwks.json")).expect("a link");
    refused(&["jwks.json", "left alone"]);
    fs::remove_file(well_known.join("jwks.json")).expect("removed");

    // Where the root issuer has a file, an issuer with a path needs a directory.
    fs::create_dir_all(site.join(".well-known")).expect("made");
    fs::write(site.join(".well-known/oauth-authorization-server"), "{}").expect("written");
    refused(&["oauth-authorization-server", "one --site directory per issuer"]);
    fs::remove_file(site.join(".well-known/oauth-authorization-server")).expect("removed");
    assert_eq!(fs::read_dir(&well_known).expect("there").count(), 0, "nothing was written on the way");

    let inside = run(place.keys("export").args(["--site", text(place.dir.path())]));
    inside.refused(78, &["the private key rests below"]);
    place.export(&[]).done();
}

#[test]
fn the_key_set_of_another_ring_is_replaced_only_on_purpose() {
    let place = Place::new("https://oidc.example", "RS256");
    place.export(&[]).done();
    let jwks = place.site().join(".well-known/jwks.json");
    let old = fs::read(&jwks).expect("there");
    fs::remove_file(place.ring()).expect("removed");
    run(&mut place.keys("init")).done();
    place.export(&[]).refused(78, &["shares no key", "--allow-key-replacement"]);
    assert_eq!(fs::read(&jwks).expect("there"), old);
    let told = place.export(&["--allow-key-replacement", "--json"]).done().json();
    let statuses: Vec<_> =
        told["files"].as_array().expect("files").iter().map(|file| &file["status"]).collect();
    assert_eq!(statuses, ["written", "unchanged", "unchanged"]);
    assert_ne!(fs::read(&jwks).expect("there"), old);
}

#[test]
fn discovery_names_what_is_configured_and_a_ring_that_would_not_be_served_is_not_exported() {
    let place = Place::new("https://oidc.example", "ES256");
    place.export(&[]).refused(78, &["issuer.algorithm_unlisted"]);
    assert!(!place.site().exists());
    place.export(&["--alg", "ES256"]).done();
    let discovery = fs::read(place.site().join(".well-known/openid-configuration")).expect("there");
    let discovery: Value = serde_json::from_slice(&discovery).expect("JSON");
    assert_eq!(discovery["id_token_signing_alg_values_supported"], serde_json::json!(["ES256"]));
    let escaped = Place::new("https://oidc.example/a%20b", "RS256");
    escaped.export(&[]).refused(78, &["percent-encoded"]);
    run(place.keys("export").args(["--alg", "ES256"])).refused(64, &["--site"]);
    place.export(&["--format", "pem"]).refused(64, &["--format"]);
}
