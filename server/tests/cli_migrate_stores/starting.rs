//! First rings, reports and refused starts, with the key in a Kubernetes Secret and in AWS Secrets Manager.

use std::path::{Path, PathBuf};

use oneseal_testing::parts::{Fault, Meddling};
use oneseal_testing::rings::kek_bytes;
use serde_json::{Value, json};

use crate::cli_support::{Said, run, text};
use crate::world::{At, ISSUER, Kind, Place, World};

/// A configuration with `provider` and `kek` as whole tables.
fn configured(world: &World, name: &str, tables: &str) -> PathBuf {
    let listen = "documents = \"127.0.0.1:0\"\nops = \"127.0.0.1:0\"\nadmin = \"none\"";
    let text = format!(
        "[issuer]\nurl = {ISSUER:?}\nalgorithms = [\"ES256\"]\nself_check = false\n{tables}[listen]\n{listen}\n\
         [process]\nboot_timeout = \"1s\"\n"
    );
    world.write(name, text.as_bytes())
}

/// The table of `section` that names `place`.
fn table(world: &World, section: &str, place: &Place) -> String {
    let rest = match &place.at {
        At::Kubernetes(name) => format!(
            "kind = \"kubernetes\"\nnamespace = {:?}\nname = {name:?}\nkubeconfig = {:?}\n",
            world.namespace,
            world.dir.path().join("kubeconfig")
        ),
        At::Aws(name) => format!("kind = \"aws\"\nsecret = {name:?}\nregion = \"eu-central-1\"\n"),
        _ => unreachable!("of the two"),
    };
    format!("[{section}]\n{rest}")
}

fn codes(said: &Said) -> Vec<String> {
    let report = said.json();
    let all = report["findings"].as_array().cloned().unwrap_or_default();
    let errors = all.iter().filter(|finding| finding["severity"] == "error");
    errors.map(|finding| finding["code"].as_str().expect("a code").to_owned()).collect()
}

fn check(world: &World, config: &Path) -> Said {
    run(&mut world.command(&["check", "--config", text(config), "--json"]))
}

fn serve(world: &World, config: &Path) -> Said {
    run(&mut world.command(&["serve", "--config", text(config), "--log-format", "human"]))
}

/// Each with the KEK in the other one.
#[test]
fn a_sealed_ring_is_made_in_each_with_its_kek_in_the_other_and_read_back() {
    let Some(world) = World::new() else { return };
    for (kind, other) in [(Kind::Kubernetes, Kind::Aws), (Kind::Aws, Kind::Kubernetes)] {
        let (place, kek) = (world.place(kind), world.place(other));
        let hex: String = kek_bytes(2).iter().map(|byte| format!("{byte:02x}")).collect();
        match &kek.at {
            At::Aws(name) => {
                drop(world.aws.call("CreateSecret", &json!({ "Name": name, "SecretString": hex })))
            }
            At::Kubernetes(name) => {
                drop(world.cluster.create_secret(
                    &world.namespace,
                    name,
                    "Opaque",
                    &[("kek", &kek_bytes(3))],
                ));
            }
            _ => unreachable!("of the two"),
        }
        let tables = format!("{}{}", table(&world, "provider", &place), table(&world, "kek", &kek));
        let config = configured(&world, &format!("{kind:?}.toml"), &tables);
        let missing = check(&world, &config);
        assert_eq!((missing.code, codes(&missing)), (Some(78), vec!["provider.not_found".to_owned()]));
        let init = ["keys", "init", "--config", text(&config), "--alg", "ES256", "--json"];
        let made = run(&mut world.command(&init)).done().json();
        assert_eq!(made["created"], true, "{kind:?}: {made}");
        let again = run(&mut world.command(&init)).done().json();
        assert_eq!((&again["created"], &again["keys"]), (&false.into(), &made["keys"]), "{kind:?}");
        let good = check(&world, &config);
        assert_eq!((good.code, codes(&good)), (Some(0), Vec::new()), "{kind:?}: {good:?}");
        let document: Value = serde_json::from_slice(&world.document(&place).expect("a ring")).expect("JSON");
        assert!(document["keys"][0]["sealed"].is_string(), "{kind:?}");

        let explained = run(&mut world.command(&["check", "--config", text(&config), "--explain"]));
        for key in ["provider.kind", "kek.kind"] {
            assert!(explained.out.contains(key), "{kind:?}: {explained:?}");
        }
        let listed =
            ["keys", "list", "--issuer", ISSUER, "--provider", &place.uri, "--kek", &kek.uri, "--json"];
        let listed = run(&mut world.command(&listed)).done().json();
        assert_eq!(listed["keys"].as_array().map(Vec::len), Some(1), "by URI alone: {listed}");
        // The region that was found, too, says where it is.
        let region = if kind == Kind::Aws { " in eu-central-1" } else { "" };
        let location = format!("{}{region}", place.uri.split_once(':').expect("a kind").1);
        assert!(
            listed["provider"]["location"].as_str().is_some_and(|told| location.starts_with(told)),
            "{listed}"
        );
        assert!(
            listed["provider"]["location"].as_str().is_some_and(|told| told.ends_with(region)),
            "{listed}"
        );
        let rotated = ["keys", "rotate", "--config", text(&config), "--unproven-replicas", "--json"];
        let rotated = run(&mut world.command(&rotated)).done().json();
        assert_eq!(rotated["revision"], 2, "{kind:?}: {rotated}");
    }
}

#[test]
fn a_store_that_is_silent_denies_or_holds_nothing_ends_a_start_with_69_77_and_78() {
    let Some(world) = World::new() else { return };
    let (secret, aws) = (world.place(Kind::Kubernetes), world.place(Kind::Aws));
    let of_secret = configured(&world, "k8s.toml", &table(&world, "provider", &secret));
    let of_aws = configured(&world, "aws.toml", &table(&world, "provider", &aws));
    for config in [&of_secret, &of_aws] {
        serve(&world, config).refused(78, &["provider.not_found"]);
    }
    let denial = Meddling::Answer {
        status: 403,
        headers: vec![("content-type", "application/json")],
        body: json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
            "code": 403, "message": "secrets is forbidden" })
        .to_string(),
    };
    world.gateway.meddle("get", denial, usize::MAX);
    world.aws.fault("*", Fault::denied("secretsmanager:DescribeSecret", "ring"), usize::MAX);
    for config in [&of_secret, &of_aws] {
        serve(&world, config).refused(77, &["provider.denied"]);
        assert_eq!(codes(&check(&world, config)), ["provider.denied"]);
    }
    world.aws.clear_faults();
    world.gateway.meddle("get", Meddling::CutBefore, usize::MAX);
    world.aws.fault("*", Fault::Throttle, usize::MAX);
    for config in [&of_secret, &of_aws] {
        serve(&world, config).refused(69, &["provider.unavailable"]);
        assert_eq!(check(&world, config).code, Some(69));
    }
}

#[test]
fn no_call_is_made_where_neither_is_configured() {
    let Some(world) = World::new() else { return };
    world.aws.reset_counts();
    let place = world.place(Kind::File);
    let init = ["keys", "init", "--alg", "ES256", "--issuer", ISSUER, "--provider", &place.uri];
    run(&mut world.command(&init)).done();
    assert!(world.aws.counts().is_empty(), "{:?}", world.aws.counts());
}
