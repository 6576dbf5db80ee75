//! `oneseal token` against an issuer that is not well. Against a real one it is tried in `tests/tests/workloads`.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;

use serde_json::json;

use crate::cli_support::issuer::{Issuer, PROOF, Turn, gives, good, says};
use crate::cli_support::{oneseal, run, text};

#[test]
fn the_token_alone_is_printed_and_asked_for_as_the_standards_say() {
    let issuer = Issuer::with(|url| vec![gives(url)]);
    let said = issuer.token(&[]).done();
    let token = said.out.strip_suffix('\n').expect("one line");
    assert_eq!((token, &*said.err), (good(&issuer.url)["access_token"].as_str().expect("one"), ""));
    for (name, value) in [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token", PROOF),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:jwt"),
        ("requested_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("audience", "rp"),
    ] {
        assert_eq!(issuer.value(0, name), value);
    }
    let assertion = issuer.path("assertion");
    fs::write(&assertion, "a.b.c").expect("written");
    let mut command = oneseal(["token", "--issuer", &issuer.url, "--aud", "rp", "--json"]);
    let said = run(command.args(["--assertion", text(&assertion)])).done().json();
    assert_eq!((&said["sub"], &said["aud"], &said["kid"]), (&json!("ci"), &json!("rp"), &json!("k")));
    assert_eq!(issuer.value(1, "grant_type"), "urn:ietf:params:oauth:grant-type:jwt-bearer");
    assert_eq!(issuer.value(1, "assertion"), "a.b.c");
}

#[test]
fn what_is_for_now_is_tried_again_with_the_proof_of_that_moment() {
    let issuer = Issuer::with(|url| {
        let busy = Turn::Answers(429, "retry-after: 1\r\n", String::new());
        vec![says(503, "temporarily_unavailable"), Turn::HangsUp, busy, says(502, ""), gives(url)]
    });
    issuer.token(&[]).done();
    let proofs: Vec<_> = (0..5).map(|i| issuer.value(i, "subject_token")).collect();
    assert_eq!(proofs[0], PROOF);
    assert!(proofs.windows(2).all(|two| two[0] != two[1]), "read anew each time: {proofs:?}");
}

#[test]
fn what_is_refused_is_not_tried_again_and_no_proof_is_repeated() {
    for (error, code, told) in [
        ("invalid_target", "token.audience", "[[rule]]"),
        ("invalid_request", "token.proof_refused", "`aud` does not name"),
        ("unsupported_grant_type", "token.not_offered", "[[cluster]]"),
    ] {
        let echo = json!({"error": error, "error_description": format!("what is {PROOF}?")}).to_string();
        let issuer = Issuer::with(|_| vec![Turn::Answers(400, "", echo)]);
        let said = issuer.token(&["--json"]);
        let failure = &said.json()["error"];
        assert_eq!(failure["code"], code, "{said:?}");
        assert!(said.out.contains(told) && !said.out.contains("Y2FuYXJ5"), "{said:?}");
        assert_eq!(issuer.times_asked(), 1);
    }
}

#[test]
fn what_makes_no_sense_is_told_before_any_proof_leaves() {
    let issuer = Issuer::with(|url| vec![gives(url)]);
    for wrong in [["--audience", ""], ["--audience", "a b"], ["--mode", "0600"]] {
        let mut command =
            oneseal(["token", "--issuer", &issuer.url, "--source", text(&issuer.path("proof"))]);
        if wrong[0] == "--mode" {
            command.args(["--audience", "rp"]);
        }
        run(command.args(wrong)).refused(64, &["--help"]);
    }
    let elsewhere = issuer.path("nowhere");
    assert_eq!(issuer.times_asked(), 0);
    issuer.token(&["--out", text(&elsewhere.join("token"))]).refused(78, &["file.not_written"]);
    issuer.token(&["--out", text(issuer.dir.path())]).refused(78, &["file.not_written"]);
}

#[test]
fn a_file_is_replaced_whole_or_stays_as_it_was() {
    let issuer = Issuer::with(|url| {
        let mut other = good(url);
        other["access_token"] = good("http://other.example")["access_token"].clone();
        vec![gives(url), gives(url), Turn::Answers(200, "", other.to_string()), says(400, "invalid_target")]
    });
    let out = issuer.path("token");
    let said = issuer.token(&["--out", text(&out)]).done();
    assert!(said.out.is_empty() && said.err.starts_with("written: "), "{said:?}");
    let first = fs::metadata(&out).expect("there");
    let said = issuer.token(&["--out", text(&out), "--mode", "0600", "--json"]).done().json();
    assert_eq!((&said["out"], said.get("token")), (&json!(text(&out)), None));
    let second = fs::metadata(&out).expect("there");
    assert_eq!((first.mode() & 0o777, second.mode() & 0o777), (0o640, 0o600));
    assert_ne!(first.ino(), second.ino(), "a reader of the old one keeps it");
    let token = fs::read(&out).expect("there");
    assert_eq!(token, good(&issuer.url)["access_token"].as_str().expect("one").as_bytes());

    issuer.token(&["--out", text(&out)]).refused(78, &["token.unsound", "another issuer"]);
    issuer.token(&["--out", text(&out)]).refused(77, &["token.audience"]);
    assert_eq!(fs::read(&out).expect("there"), token);
    assert_eq!(fs::read_dir(issuer.dir.path()).expect("there").count(), 2, "proof and token");
}

#[test]
fn an_issuer_that_hangs_leads_astray_or_floods_is_given_up_in_time() {
    let hanging = Issuer::with(|_| vec![Turn::Hangs]);
    hanging.token(&["--timeout", "300ms"]).refused(69, &["token.no_answer", "--timeout"]);
    let then_hanging = Issuer::with(|_| vec![says(503, "temporarily_unavailable"), Turn::Hangs]);
    then_hanging.token(&["--timeout", "2s"]).refused(69, &["(503 temporarily_unavailable", "no answer from"]);
    let later = Issuer::with(|_| vec![Turn::Answers(503, "retry-after: 3600\r\n", String::new())]);
    later.token(&[]).refused(69, &["3600 s", "--timeout is 30s"]);
    let astray =
        Issuer::with(|_| vec![Turn::Answers(307, "location: http://127.0.0.1:9/\r\n", String::new())]);
    astray.token(&[]).refused(78, &["goes to nobody else"]);
    let flood = Issuer::with(|_| vec![Turn::Answers(200, "", "x".repeat(1 << 20))]);
    flood.token(&[]).refused(78, &["token.no_endpoint"]);
    assert_eq!([&later, &astray, &flood].map(Issuer::times_asked), [1, 1, 1]);

    let nobody = TcpListener::bind(("127.0.0.1", 0)).expect("a port").local_addr().expect("bound");
    let mut command = oneseal(["token", "--issuer", &format!("http://{nobody}"), "--audience", "rp"]);
    let proof = hanging.path("proof");
    run(command.args(["--timeout", "1s", "--source", text(&proof)])).refused(69, &["reachable"]);
    let mut command = oneseal(["token", "--issuer", "https://oidc.example", "--audience", "rp"]);
    let clear = ["--token-endpoint", "http://oidc.example/token", "--source", text(&proof)];
    run(command.args(clear)).refused(78, &["in clear"]);
}
