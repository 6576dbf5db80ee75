//! `oneseal keys recover` on a Secret and on a secret that were deleted while a replica serves.

use std::fs;
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::cli_support::{run, text, until};
use crate::world::{At, ISSUER, Kind, Place, World};

/// Ended with its test.
struct Replica(Child);

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serving(world: &World, name: &str, place: &Place) -> Replica {
    let path = |end: &str| world.dir.path().join(format!("{name}{end}"));
    let configuration = format!(
        "[issuer]\nurl = {ISSUER:?}\nalgorithms = [\"ES256\"]\nself_check = false\n[provider]\nuri = {:?}\n[ops]\ninstance = \
         {name:?}\n[listen]\ndocuments = \"127.0.0.1:0\"\nops = \"127.0.0.1:0\"\nadmin = {:?}\n",
        place.uri,
        path(".sock"),
    );
    let config = world.write(&format!("{name}.toml"), configuration.as_bytes());
    let init = ["keys", "init", "--config", text(&config), "--alg", "ES256"];
    run(&mut world.command(&init)).done();
    let ready = path(".ready");
    let serve = ["serve", "--config", text(&config), "--ready-file", text(&ready)];
    let mut command = world.command(&serve);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    let replica = Replica(child);
    until("a ready replica", || serde_json::from_slice::<Value>(&fs::read(&ready).ok()?).ok());
    replica
}

#[test]
fn a_secret_that_was_deleted_comes_back_from_the_replica_that_serves_it() {
    let Some(world) = World::new() else { return };
    for (kind, name) in [(Kind::Kubernetes, "k8s-0"), (Kind::Aws, "aws-0")] {
        let place = world.place(kind);
        let _replica = serving(&world, name, &place);
        let before = world.document(&place).expect("a ring");
        match &place.at {
            At::Kubernetes(name) => {
                let path = format!("/api/v1/namespaces/{}/secrets/{name}", world.namespace);
                assert_eq!(world.cluster.request("DELETE", &path, None).0, 200);
            }
            At::Aws(name) => {
                let deletion = json!({ "SecretId": name, "ForceDeleteWithoutRecovery": true });
                drop(world.aws.call("DeleteSecret", &deletion));
            }
            _ => unreachable!("of the two"),
        }
        assert_eq!(world.document(&place), None, "{kind:?}");
        let socket = world.dir.path().join(format!("{name}.sock"));
        let recover = ["keys", "recover", "--from-replica", name, "--admin", text(&socket)];
        run(&mut world.command(&recover)).refused(64, &["keys.wants_yes", "there is no record"]);
        let done =
            run(&mut world.command(&[recover.as_slice(), &["--yes", "--json"]].concat())).done().json();
        assert_eq!(done["changes"][0]["kind"], "ring.recovered", "{kind:?}: {done}");
        assert_eq!(done["notes"][0], "written back; until then: there is no record", "{kind:?}: {done}");
        assert!(world.document(&place) == Some(before), "{kind:?}: byte for byte");
        let again =
            run(&mut world.command(&[recover.as_slice(), &["--yes", "--json"]].concat())).done().json();
        assert_eq!(again["repeated"], true, "{kind:?}: {again}");
    }
}
