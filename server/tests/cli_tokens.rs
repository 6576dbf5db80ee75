//! `oneseal mint`, `verify` and `healthcheck` on one running replica, and `token`.

mod cli_support;
#[path = "cli_tokens/exchange.rs"]
mod exchange;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use cli_support::{ISSUER, MINTING, Replica, oneseal, run, run_with, text};
use serde_json::Value;

#[test]
fn a_minted_token_verifies_with_all_that_was_asked_for() {
    let replica = Replica::minting();
    let minted = replica
        .mint(&["--ttl", "10m", "--claim", "team=a", "--claim", "n:=[1,true]", "--alg", "ES256"])
        .done();
    let token = minted.out.strip_suffix('\n').expect("one line");
    assert!(minted.err.is_empty() && token.split('.').count() == 3 && !token.contains(char::is_whitespace));

    let verified = replica.verify(&minted.out, &["--aud", "rp", "--json"]).done().json();
    assert_eq!((&verified["valid"], &verified["alg"]), (&Value::from(true), &Value::from("ES256")));
    let claims = &verified["claims"];
    assert_eq!(
        (&claims["iss"], &claims["sub"], &claims["aud"]),
        (&ISSUER.into(), &"pod".into(), &"rp".into())
    );
    assert_eq!((&claims["team"], &claims["n"]), (&"a".into(), &serde_json::json!([1, true])));

    let as_json = replica.mint(&["--json"]).done().json();
    assert_eq!(as_json["kid"], verified["kid"]);
    let argument = as_json["token"].as_str().expect("a token");
    let connect_to = replica.address("documents");
    let said = run(&mut oneseal([
        "verify",
        argument,
        "--issuer",
        ISSUER,
        "--aud",
        "rp",
        "--connect-to",
        connect_to,
    ]))
    .done();
    assert_eq!(said.json()["exp"], as_json["exp"]);
    assert!(said.err.contains("verified"), "{said:?}");
}

#[test]
fn a_replica_behind_a_tls_proxy_is_reached_in_plain_http() {
    let issuer = "https://oidc.example";
    let replica = Replica::start_as(issuer, MINTING);
    let token = replica.mint(&[]).done().out;
    let address = format!("http://{}", replica.address("documents"));
    let mut verify =
        oneseal(["verify", "-", "--issuer", issuer, "--aud", "rp", "--connect-to", &address, "--json"]);
    let verified = run_with(&mut verify, &token).done().json();
    assert_eq!((&verified["valid"], &verified["claims"]["iss"]), (&true.into(), &issuer.into()));
}

#[test]
fn a_token_that_does_not_hold_is_refused_with_the_reason() {
    let replica = Replica::minting();
    let token = replica.mint(&[]).done().out;
    replica.verify(&token, &["--aud", "other"]).refused(1, &["aud"]);
    let (signed, signature) = token.trim().rsplit_once('.').expect("three parts");
    let first = if signature.starts_with('A') { 'B' } else { 'A' };
    let forged = format!("{signed}.{first}{}", &signature[1..]);
    let said = replica.verify(&forged, &["--aud", "rp", "--json"]);
    assert_eq!((said.code, &said.json()["valid"]), (Some(1), &Value::from(false)));
    for garbage in ["", "a.b", "\u{0}", "a.b.c"] {
        replica.verify(garbage, &["--aud", "rp"]).refused(1, &["refused"]);
    }
    let mut elsewhere = oneseal(["verify", "-", "--issuer", "http://127.0.0.1:10", "--aud", "rp"]);
    let said = run_with(elsewhere.args(["--connect-to", replica.address("documents"), "--json"]), &token);
    assert_ne!(said.code, Some(0), "a token of one issuer is none of another: {said:?}");
}

#[test]
fn an_issuer_that_is_not_there_is_no_verdict() {
    let replica = Replica::minting();
    let token = replica.mint(&[]).done().out;
    let said = run_with(&mut oneseal(["verify", "-", "--issuer", ISSUER, "--aud", "rp", "--json"]), &token);
    assert_eq!((said.code, &said.json()["valid"]), (Some(69), &Value::Null), "{said:?}");
    run_with(&mut oneseal(["verify", "-", "--issuer", ISSUER, "--aud", "rp"]), &token)
        .refused(69, &["not judged", ISSUER]);
}

#[test]
fn what_may_not_be_minted_is_refused_with_the_cure() {
    let replica = Replica::minting();
    let asks = |aud: &str, more: &[&str]| {
        run(oneseal(["mint", "--admin", text(&replica.admin()), "--sub", "pod", "--aud", aud]).args(more))
    };
    asks("other", &[]).refused(77, &["other", "admin.mint_audiences"]);
    asks("rp", &["--ttl", "100d"]).refused(64, &["86400 s"]);
    asks("rp", &["--claim", "iss=me"]).refused(64, &["iss"]);
    asks("rp", &["--alg", "RS256"]).refused(77, &["RS256"]);
    let off = Replica::start("");
    off.mint(&[]).refused(77, &["admin.mint = true"]);
}

#[test]
fn the_socket_is_that_of_the_configuration() {
    let replica = Replica::minting();
    let configured = replica.dir.path().join("oneseal.toml");
    let asks = || oneseal(["mint", "--config", text(&configured), "--sub", "pod", "--aud", "rp"]);
    run(&mut asks()).done();
    run(asks().env("ONESEAL__LISTEN__ADMIN", "none")).refused(64, &["listen.admin", "--admin"]);
    let without = || {
        let mut asks = asks();
        let tokens = format!("[{{name='ci',scopes=['mint'],sha256='{}'}}]", "1".repeat(64));
        asks.env("ONESEAL__LISTEN__ADMIN", "none").env("ONESEAL__LISTEN__ADMIN_TCP", "127.0.0.1:9090");
        asks.env("ONESEAL__ADMIN__TOKENS", tokens);
        asks
    };
    let instead = ["there is no socket", "--admin http://HOST:9090"];
    run(&mut without()).refused(64, &instead);
    run(without().args(["--admin-token-env", "CI_TOKEN"])).refused(64, &instead);
    run(asks().args(["--admin-token-env", "CI_TOKEN"])).refused(64, &["a socket asks for no token"]);
    run(asks().env("ONESEAL__LISTEN__ADMIN", "off")).refused(78, &["ONESEAL__LISTEN__ADMIN", "./"]);
}

#[test]
fn health_is_readiness() {
    let mut replica = Replica::minting();
    let ops = replica.address("ops").to_owned();
    run(&mut oneseal(["healthcheck", "--ops", &ops])).done();
    run(&mut oneseal(["healthcheck", "--url", &format!("http://{ops}/readyz")])).done();
    run(&mut oneseal(["healthcheck", "--url", &format!("http://{ops}/nothing")])).refused(1, &["404"]);
    let configured = configuration_with_ops(replica.dir.path(), &ops);
    run(&mut oneseal(["healthcheck", "--config", &configured])).done();
    replica.child.kill().expect("killed");
    replica.child.wait().expect("ended");
    run(&mut oneseal(["healthcheck", "--config", &configured])).refused(1, &["no answer", &ops]);
}

fn configuration_with_ops(dir: &Path, ops: &str) -> String {
    let path = dir.join("health.toml");
    fs::write(&path, format!("[listen]\nops = {ops:?}\n")).expect("written");
    text(&path).to_owned()
}

#[test]
fn a_token_is_verified_offline_by_a_key_set_at_hand_and_as_of_any_time() {
    let replica = Replica::minting();
    let kept = tempfile::tempdir().expect("a directory");
    let minted = replica.mint(&["--json"]).done().json();
    let token = minted["token"].as_str().expect("a token");
    let exp = minted["exp"].as_i64().expect("a time");
    let jwks = kept.path().join("jwks.json");
    let provider = format!("file:{}", text(&replica.dir.path().join("keyring.json")));
    let mut export =
        oneseal(["keys", "export", "--issuer", ISSUER, "--provider", &provider, "--out", text(&jwks)]);
    run(&mut export).done();
    let url = format!("http://{}/.well-known/jwks.json", replica.address("documents"));
    let verify = |keys: &str, more: &[&str]| {
        let arguments = ["verify", "-", "--issuer", ISSUER, "--aud", "rp", "--jwks", keys, "--json"];
        run_with(oneseal(arguments).args(more), token)
    };
    let by_url = verify(&url, &[]).done().json();
    drop(replica);
    assert_eq!(verify(text(&jwks), &[]).done().json(), by_url, "nobody is asked");
    let said = verify(&url, &[]);
    assert_eq!((said.code, &said.json()["reason"]), (Some(69), &"connect".into()), "{said:?}");

    let at = |time: i64, leeway: &str| {
        let said = verify(text(&jwks), &[&format!("--at={time}"), "--leeway", leeway]);
        (said.code, said.json()["reason"].as_str().map(str::to_owned))
    };
    assert_eq!(at(exp - 1, "0s"), (Some(0), None));
    assert_eq!(at(exp + 1, "0s"), (Some(1), Some("expired".to_owned())));
    assert_eq!(at(exp + 1, "10s"), (Some(0), None));
    assert_eq!(at(0, "60s"), (Some(1), Some("not_yet_valid".to_owned())));
    let when = verify(text(&jwks), &["--at", "2100-01-01T00:00:00Z"]);
    assert_eq!((when.code, &when.json()["reason"]), (Some(1), &"expired".into()));
    assert!(when.json()["meaning"].as_str().is_some_and(|meaning| meaning.contains("`exp`")), "{when:?}");
}

#[test]
fn a_key_set_that_is_none_is_refused_by_its_place() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("jwks.json");
    let verify = |keys: &str, more: &[&str]| {
        let arguments = ["verify", "a.b.c", "--issuer", ISSUER, "--aud", "rp", "--jwks", keys];
        run(oneseal(arguments).args(more))
    };
    verify(text(&file), &[]).refused(78, &["--jwks", text(&file), "does not exist"]);
    verify("/dev/zero", &[]).refused(78, &["/dev/zero", "larger than"]);
    for (content, words) in [
        ("", "no JSON object"),
        ("{}", "array `keys`"),
        (r#"{"keys":[]}"#, "usable key"),
        ("[]", "no JSON object"),
    ] {
        fs::write(&file, content).expect("written");
        verify(text(&file), &[]).refused(78, &[words, "keys export --out jwks.json"]);
    }
    verify(text(&file), &["--connect-to", "127.0.0.1:1"]).refused(64, &["nothing is fetched"]);
    verify("http://oidc.example/jwks.json", &[]).refused(78, &["plain http"]);
    verify(text(&file), &["--at", "soon"]).refused(64, &["Unix seconds"]);
    verify(text(&file), &["--leeway", "1h"]).refused(64, &["at most 10m"]);
    // The file with the token where the token itself belongs.
    let said = run(&mut oneseal(["verify", text(&file), "--issuer", ISSUER, "--aud", "rp"]));
    said.refused(64, &[&format!("oneseal verify - --aud … < {}", text(&file))]);
}

/// A replica that is asked over TCP, and the token for it.
fn over_tcp() -> (Replica, String, tempfile::TempDir) {
    let made = run(&mut oneseal(["admin", "token", "new", "--name", "ci", "--scopes", "mint"])).done();
    let kept = tempfile::tempdir().expect("a directory");
    fs::write(kept.path().join("token"), &made.out).expect("written");
    let replica = Replica::start(&format!("admin_tcp = \"127.0.0.1:0\"\n{MINTING}{}", made.err));
    (replica, made.out.trim_end().to_owned(), kept)
}

#[test]
fn a_token_of_the_api_is_shown_once_and_its_table_is_what_a_server_takes() {
    let (replica, token, kept) = over_tcp();
    let (url, file) = (format!("http://{}", replica.address("admin_tcp")), kept.path().join("token"));
    fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("set");
    let mint = |more: &[&str]| {
        run(oneseal(["mint", "--admin", &url, "--sub", "pod", "--aud", "rp"])
            .args(more)
            .env("CI_TOKEN", &token))
    };
    let minted = mint(&["--admin-token-file", text(&file)]).done();
    assert!(minted.err.is_empty() && minted.out.trim_end().split('.').count() == 3, "{minted:?}");
    replica.verify(&minted.out, &["--aud", "rp"]).done();
    mint(&["--admin-token-env", "CI_TOKEN", "--json"]).done();
    let piped = oneseal(["mint", "--admin", &url, "--sub", "pod", "--aud", "rp", "--admin-token-file", "-"]);
    let mut piped = piped;
    run_with(&mut piped, &format!("{token}\n")).done();
    run_with(&mut piped, "").refused(64, &["standard input", "holds no admin token"]);
    for (mode, may) in [(0o604, "may read"), (0o602, "may change")] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).expect("set");
        let warned = mint(&["--admin-token-file", text(&file)]).done();
        assert!(warned.err.contains(may) && warned.err.contains("chmod 0600"), "{warned:?}");
    }
    let claims = mint(&["--admin-token-env", "CI_TOKEN", "--dry-run"]).done().json();
    assert_eq!((&claims["iss"], &claims["sub"]), (&ISSUER.into(), &"pod".into()));
    let through_socket = replica.mint(&["--dry-run", "--json"]).done().json();
    assert_eq!((&through_socket["dry_run"], &through_socket["token"]), (&true.into(), &Value::Null));
}

#[test]
fn each_refusal_over_tcp_says_what_to_do_and_repeats_no_token() {
    let (replica, token, kept) = over_tcp();
    let (url, file) = (format!("http://{}", replica.address("admin_tcp")), kept.path().join("token"));
    let file = text(&file).to_owned();
    let mint = |admin: &str, more: &[&str]| {
        let said = run(oneseal(["mint", "--admin", admin, "--sub", "pod", "--aud", "rp"]).args(more));
        assert!(!said.out.contains(&token[14..]) && !said.err.contains(&token[14..]), "{said:?}");
        said
    };
    let with = ["--admin-token-file", file.as_str()];
    mint(&url, &[]).refused(64, &["--admin-token-file FILE", "oneseal admin token new"]);
    mint(&url, &["--admin-token-env", "NO_SUCH"]).refused(64, &["--admin-token-env NO_SUCH"]);
    mint(&url, &["--admin-token-file", "/no/such"]).refused(64, &["/no/such", "cannot be read"]);
    mint(&url, &["--admin-token-file", &token]).refused(64, &["looks like a key"]);
    mint(&url, &["--admin", &token]).refused(64, &["looks like a key"]);
    mint("http://admin.example:9090", &with).refused(64, &["in clear", "https://"]);
    mint(&url.replace("http:", "https:"), &with).refused(69, &["does not speak TLS"]);
    mint("http://127.0.0.1:9", &with).refused(69, &["listen.admin_tcp"]);
    mint(&format!("{url}/admin"), &with).refused(64, &["https://HOST:PORT"]);
    mint(text(&replica.admin()), &with).refused(64, &["a socket asks for no token"]);
    mint(replica.address("admin_tcp"), &with).refused(64, &["no scheme", "begins with https://"]);
    let documents = format!("http://{}", replica.address("documents"));
    mint(&documents, &with)
        .refused(77, &["listen.admin_tcp, and not another of its listeners", "admin.mint = true"]);
    mint(replica.address("admin_tcp"), &[]).refused(69, &["begins with https://"]);
    let other = run(&mut oneseal(["admin", "token", "new", "--name", "x", "--scopes", "mint"])).done().out;
    fs::write(&file, &other).expect("written");
    mint(&url, &with).refused(77, &["invalid_token", "none of admin.tokens", "oneseal admin token new"]);
    for none in ["", "password", &token[..40], &"x".repeat(200_000)] {
        fs::write(&file, none).expect("written");
        mint(&url, &with).refused(64, &["holds no admin token", &file]);
    }
}

#[test]
fn a_redirect_is_not_followed_with_the_token() {
    use std::io::{Read, Write};
    let elsewhere = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    elsewhere.set_nonblocking(true).expect("set");
    let lying = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", lying.local_addr().expect("bound"));
    let location = format!("http://{}/admin/v1/mint", elsewhere.local_addr().expect("bound"));
    let answering = std::thread::Builder::new().name("lying".to_owned()).spawn(move || {
        let (mut stream, _) = lying.accept().expect("asked");
        let mut head = [0; 8192];
        let read = stream.read(&mut head).expect("read");
        let answer =
            format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
        stream.write_all(answer.as_bytes()).expect("written");
        String::from_utf8_lossy(&head[..read]).into_owned()
    });
    let answering = answering.expect("a thread");
    let token = run(&mut oneseal(["admin", "token", "new", "--name", "x", "--scopes", "mint"])).done().out;
    let arguments =
        ["mint", "--admin", &url, "--admin-token-file", "/dev/stdin", "--sub", "pod", "--aud", "rp"];
    run_with(&mut oneseal(arguments), &token).refused(69, &["leads elsewhere", "nobody else"]);
    let asked = answering.join().expect("answered");
    assert!(asked.starts_with("POST /admin/v1/mint HTTP/1.1") && asked.contains(token.trim_end()));
    assert!(elsewhere.accept().is_err(), "nobody else was asked");
}

#[test]
fn a_token_of_the_api_is_made_as_asked_for_or_not_at_all() {
    let new = |more: &[&str]| run(oneseal(["admin", "token", "new"]).args(more));
    let made = new(&["--name", "on-call@site.1", "--scope", "read,mint", "--expires", "2099-01-31"]).done();
    assert!(made.out.starts_with("oneseal_admin_") && made.out.lines().count() == 1, "{made:?}");
    assert!(
        made.err.contains("scopes = [\"read\", \"mint\"]\nsha256 = \"")
            && made.err.contains("expires = 2099-01-31T")
    );
    assert!(!made.err.contains(made.out.trim_end()));
    new(&["--name", "a b", "--scopes", "read"]).refused(64, &["a name is 1 to 64"]);
    new(&["--name", "a", "--scopes", "mnt"]).refused(64, &["did you mean \"mint\"?"]);
    new(&["--name", "a", "--scopes", "read,read"]).refused(64, &["twice"]);
    new(&["--name", "a", "--scopes", ""]).refused(64, &["scope"]);
    new(&["--name", "a", "--scopes", "read", "--expires", "2020-01-01"]).refused(64, &["over already"]);
    new(&["--name", "a", "--scopes", "read", "--expires", "5"]).refused(64, &["write 5d for days"]);
    let json = new(&["--name", "a", "--scopes", "read", "--expires", "2099-01-31", "--json"]).done().json();
    assert_eq!(json["expires"], "2099-01-31T00:00:00Z");
    let kept = tempfile::tempdir().expect("a directory");
    let file = kept.path().join("admin.token");
    let out = ["--name", "a", "--scopes", "read", "--out", text(&file)];
    let made = new(&out).done();
    let token = fs::read_to_string(&file).expect("written");
    assert!(token.starts_with("oneseal_admin_") && token.ends_with('\n') && made.out.is_empty(), "{made:?}");
    assert!(made.err.contains(text(&file)) && !made.err.contains(token.trim_end()), "{made:?}");
    assert_eq!(fs::metadata(&file).expect("there").permissions().mode() & 0o777, 0o600);
    new(&out).refused(78, &["is there already"]);
    assert_eq!(fs::read_to_string(&file).expect("there"), token, "left as it is");
    new(&["--name", "a", "--scopes", "read", "--out", "/no/such/dir/t"]).refused(78, &["/no/such/dir/t"]);
    let second = kept.path().join("second.token");
    let json = new(&["--name", "a", "--scopes", "read", "--out", text(&second), "--json"]).done().json();
    assert_eq!(json["token"], Value::Null);
    new(&["--scopes", "read"]).refused(64, &["--name"]);
}
