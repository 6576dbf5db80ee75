//! Rules of a configuration file: checked, previewed, and followed by a server that runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::http::get;
use crate::support::place::Place;
use crate::support::server::Server;
use crate::support::until;

/// A place whose cluster's keys lie in a file, so that nobody is asked anything.
fn place() -> Place {
    let place = Place::with_ring("ES256");
    place.configure("");
    let keys = place.run(["keys", "export", "--config", "oneseal.toml"]);
    place.write("cluster.jwks.json", &text(&keys.stdout));
    place
}

/// The configuration with these rules, and `more` tables.
fn tables(place: &Place, more: &str, audiences: &[&str]) -> String {
    let jwks = place.path("cluster.jwks.json");
    let rules = audiences.iter().enumerate().map(|(at, audience)| {
        format!(
            "[[rule]]\nname = \"r{at}\"\ncluster = \"prod\"\nsub = \"k8s:{{cluster}}:{{namespace}}\"\n\
             audiences = [\"{audience}\"]\nttl = \"10m\"\n"
        )
    });
    format!(
        "[admin]\nmint = true\n{more}\n[[cluster]]\nname = \"prod\"\nissuer = \"https://kubernetes.default.svc\"\n\
         jwks_file = {jwks:?}\nreview = \"off\"\n{}",
        rules.collect::<String>()
    )
}

/// Puts another text in the configuration's place by a rename.
fn replace(place: &Place, tables: &str) {
    let before = fs::read_to_string(place.path("oneseal.toml")).unwrap();
    let head = before.split("[admin]").next().unwrap();
    let new = place.write("oneseal.toml.new", &format!("{head}{tables}"));
    fs::rename(new, place.path("oneseal.toml")).unwrap();
}

/// Whether an admin caller, whom rules bound, gets a token for `audience`.
fn is_minted(server: &Server, audience: &str) -> bool {
    server.mint(&format!(r#"{{"sub":"pod","aud":"{audience}"}}"#)).status == 200
}

fn status(server: &Server) -> Value {
    server.admin("GET", "/admin/v1/status", "").json()["rules"].clone()
}

fn metric(server: &Server, name: &str) -> String {
    let text = get(server.ops, "/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).to_owned()
}

fn lines(server: &Server, message: &str) -> Vec<Value> {
    let all = server.log_lines().into_iter();
    all.filter(|line| line["message"].as_str().unwrap().contains(message)).collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn new_rules_are_in_force_without_a_restart_and_what_is_broken_keeps_the_last_good_ones() {
    let place = place();
    let server = place.serve(&tables(&place, "", &["a"]));
    assert!(is_minted(&server, "a") && !is_minted(&server, "b"));
    assert_eq!(
        (status(&server)["count"].as_i64(), metric(&server, "oneseal_rules")),
        (Some(1), "1".to_owned())
    );

    replace(&place, &tables(&place, "", &["b", "c"]));
    until("the new rules", || is_minted(&server, "b").then_some(()));
    assert!(is_minted(&server, "c") && !is_minted(&server, "a"), "all of them or none");
    assert_eq!(metric(&server, "oneseal_rules_reloads_total{outcome=\"ok\"}"), "1");
    assert_eq!(lines(&server, "new rules are in force")[0]["rules"], 2);

    // No TOML; a rule with a mistake; a mistake elsewhere; a cluster that is none; gone.
    let good = tables(&place, "", &["d"]);
    for (broken, code) in [
        ("[admin]\n[[rule]]\nname =".to_owned(), "config.syntax"),
        (good.replace("{namespace}", "{namespace}{pod}"), "rule.template_ambiguous"),
        (good.replace("mint = true", "mnt = true"), "config.unknown_key"),
        (good.replace("cluster = \"prod\"", "cluster = \"prd\""), "rule.unknown_voucher"),
        (String::new(), "config.not_found"),
    ] {
        if code == "config.not_found" {
            fs::rename(place.path("oneseal.toml"), place.path("kept.toml")).unwrap();
        } else {
            replace(&place, &broken);
        }
        until(code, || (status(&server)["refused"][0]["code"] == code).then_some(()));
        assert!(is_minted(&server, "b") && !is_minted(&server, "d"), "{code}");
        let told = lines(&server, "the last good rules stay in force");
        assert!(told.last().unwrap()["why"].as_str().unwrap().contains(code), "{told:?}");
    }
    assert_eq!(metric(&server, "oneseal_rules_reloads_total{outcome=\"failed\"}"), "5");

    // Back, with rules, and with something that takes a restart.
    fs::rename(place.path("kept.toml"), place.path("oneseal.toml")).unwrap();
    replace(&place, &tables(&place, "[process]\ndrain_delay = \"1s\"", &["d"]));
    until("the newest rules", || is_minted(&server, "d").then_some(()));
    let now =
        until("no refusal", || Some(status(&server)).filter(|now| now["refused"] == serde_json::json!([])));
    assert_eq!(now["restart_for"], serde_json::json!(["process.drain_delay"]));
    assert_eq!(lines(&server, "need a restart")[0]["keys"], "process.drain_delay");

    // A file that lets nobody have anything is taken: that is how everything is taken away.
    replace(&place, &tables(&place, "", &[]));
    until("no rules", || (!is_minted(&server, "d")).then_some(()));
    assert_eq!(status(&server)["count"], 0);
    let told = until("the warning", || lines(&server, "nobody gets a token").pop());
    assert_eq!((&told["level"], &told["lost"]), (&"WARN".into(), &1.into()), "{told}");
    assert_eq!(status(&server)["last_change"], serde_json::json!({"added": 0, "kept": 0, "lost": 1}));

    // Cut between two tables, a file is as good as any: the numbers tell.
    replace(&place, &tables(&place, "", &["a", "b", "c"]));
    until("three rules", || is_minted(&server, "c").then_some(()));
    replace(&place, &tables(&place, "", &["a"]));
    until("the first of them", || (!is_minted(&server, "c")).then_some(()));
    let told = until("the warning", || lines(&server, "is the file whole?").pop());
    assert_eq!((&told["kept"], &told["lost"]), (&1.into(), &2.into()), "{told}");
    assert_eq!(told["level"], "WARN");
    assert_eq!(metric(&server, "oneseal_rules_lost_total"), "4");
}

/// The whole configuration with rules for these audiences, which stands nowhere yet.
fn text_of(place: &Place, audiences: &[&str]) -> String {
    let path = place.configure(&tables(place, "", audiences));
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(path).unwrap();
    text
}

#[test]
fn a_mounted_configuration_is_followed_through_kubelets_swap() {
    let place = place();
    let [first, second] = [text_of(&place, &["a"]), text_of(&place, &["b"])];
    let swap = |unit: &str, text: &str| {
        fs::create_dir(place.path(unit)).unwrap();
        fs::write(place.path(unit).join("oneseal.toml"), text).unwrap();
        symlink(unit, place.path("..data_tmp")).unwrap();
        fs::rename(place.path("..data_tmp"), place.path("..data")).unwrap();
    };
    swap("..1", &first);
    symlink("..data/oneseal.toml", place.path("oneseal.toml")).unwrap();
    let server = Server::start(&place, &[]);
    assert!(is_minted(&server, "a"));
    swap("..2", &second);
    fs::remove_dir_all(place.path("..1")).unwrap();
    until("the second rules", || is_minted(&server, "b").then_some(()));
    assert!(!is_minted(&server, "a"));
}

/// The outer of two links is swapped, which no watch sees, and the next poll is fifteen seconds away.
#[test]
fn sighup_looks_at_the_rules_at_once() {
    let place = place();
    let [first, second] = [text_of(&place, &["a"]), text_of(&place, &["b"])];
    let swap = |name: &str, text: &str| {
        fs::create_dir_all(place.path(name).join("inner")).unwrap();
        fs::write(place.path(name).join("inner/oneseal.toml"), text).unwrap();
        symlink(name, place.path("new")).unwrap();
        fs::rename(place.path("new"), place.path("live")).unwrap();
    };
    swap("first", &first);
    symlink("live/inner/oneseal.toml", place.path("oneseal.toml")).unwrap();
    let server = Server::start(&place, &[]);
    assert!(is_minted(&server, "a"));
    swap("second", &second);
    server.signal(Signal::HUP);
    until("the second rules", || is_minted(&server, "b").then_some(()));
}

#[test]
fn check_tells_every_mistake_of_the_rules_with_number_and_line() {
    let place = place();
    let good = tables(&place, "", &["a", "a"]);
    place.configure(&good.replace("{cluster}:{namespace}", "{custer}:{namespace}"));
    let checked = place.run(["check", "--config", "oneseal.toml", "--offline", "--no-bind", "--json"]);
    let report: Value = serde_json::from_slice(&checked.stdout).unwrap();
    let found: Vec<_> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|found| found["code"] == "rule.unknown_name")
        .collect();
    assert_eq!((checked.status.code(), found.len()), (Some(78), 2), "{report}");
    assert_eq!(found[1]["place"], "rule 2 (oneseal.toml:25)");
    assert_eq!(found[1]["message"], "sub: `custer` is not known of these workloads; did you mean cluster?");

    place.configure(&good);
    let warned = place.run(["check", "--config", "oneseal.toml", "--offline", "--no-bind", "--json"]);
    let report: Value = serde_json::from_slice(&warned.stdout).unwrap();
    let codes: Vec<_> = report["findings"].as_array().unwrap().iter().map(|found| &found["code"]).collect();
    assert_eq!(codes.iter().filter(|code| **code == "rule.unreachable").count(), 1, "{report}");
    assert_eq!(warned.status.code(), Some(0));
}

#[test]
fn a_token_is_previewed_by_what_it_says_unverified_and_a_failed_expectation_ends_with_1() {
    use base64::Engine as _;
    let place = place();
    place.configure(&tables(&place, "", &["a"]));
    let claims = serde_json::json!({
        "iss": "https://kubernetes.default.svc", "sub": "system:serviceaccount:team-a:x",
        "kubernetes.io": {"pod": {"name": "p", "uid": "5c1e"}}
    });
    let encode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(text);
    let token =
        format!("{}.{}.{}", encode(r#"{"alg":"RS256"}"#), encode(&claims.to_string()), encode("none"));
    place.write("token", &token);
    let preview = ["rules", "preview", "--config", "oneseal.toml", "--audience", "a", "--token", "token"];
    let shown = place.run(preview);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown.stderr));
    assert!(text(&shown.stdout).contains("sub        k8s:prod:team-a\n"), "{}", text(&shown.stdout));
    assert!(text(&shown.stderr).contains("the token was not verified"));
    assert!(!text(&shown.stdout).contains(&token) && !text(&shown.stderr).contains(&token));

    let workload = r#"workload = { cluster = "prod", namespace = "team-a", pod_uid = "5c1e" }"#;
    let expectation =
        format!("[[expect]]\nname = \"x\"\n{workload}\naudience = \"a\"\nsub = \"k8s:dev:team-a\"\n");
    place.write("expect.toml", &expectation);
    let test = place.run(["rules", "test", "--config", "oneseal.toml", "expect.toml"]);
    assert_eq!(
        (test.status.code(), text(&test.stdout)),
        (
            Some(1),
            "FAILED  expect.toml 1  x\n        sub is \"k8s:prod:team-a\", not \"k8s:dev:team-a\"\n\
             1 expected, 1 failed, by 1 rules\n"
                .to_owned()
        )
    );
    place.write("empty.toml", "");
    assert_eq!(
        place.run(["rules", "test", "--config", "oneseal.toml", "empty.toml"]).status.code(),
        Some(64)
    );
    let neither = ["rules", "preview", "--config", "oneseal.toml", "--audience", "a"];
    assert_eq!(place.run(neither).status.code(), Some(64));
}

/// The blocks of a page that begin with this fence.
fn blocks<'a>(page: &'a str, fence: &str) -> Vec<&'a str> {
    let begin = format!("\n```{fence}\n");
    page.split(&begin).skip(1).map(|rest| rest.split("\n```").next().unwrap()).collect()
}

/// What is printed, but for the times and the id that each token has of its own.
fn without_times(text: &str) -> String {
    let its_own =
        |line: &str| ["iat", "nbf", "exp", "jti"].iter().any(|name| line.contains(&format!("\"{name}\": ")));
    let cut = |line: &str| {
        if its_own(line) {
            format!("{}: …\n", line.split(": ").next().unwrap())
        } else {
            format!("{line}\n")
        }
    };
    text.lines().map(cut).collect()
}

#[test]
fn every_example_of_the_page_says_what_it_says_there() {
    let page = include_str!("../../../docs/rules.md");
    let place = Place::empty();
    let [configuration, expectations] = blocks(page, "toml").try_into().unwrap();
    place.write("oneseal.toml", configuration);
    place.write("expectations.toml", expectations);
    let [workload] = blocks(page, "json").try_into().unwrap();
    place.write("workload.json", workload);
    let examples = blocks(page, "console");
    assert_eq!(examples.len(), 4);
    for example in examples {
        let (command, wanted) = example.split_once('\n').unwrap();
        let words = command.strip_prefix("$ oneseal ").unwrap().split(' ');
        let Output { status, stdout, stderr } = place.command(words).stderr(Stdio::piped()).output().unwrap();
        let code = if status.success() { String::new() } else { format!("? {}\n", status.code().unwrap()) };
        let said = without_times(&format!("{code}{}", text(&stdout)));
        assert_eq!(said, without_times(wanted), "{command}\n{}", text(&stderr));
    }
}
