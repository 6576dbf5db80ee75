//! The commands of `docs/kubernetes.md`, run as they stand there.

use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oneseal_testing::parts::KubeApiserver;
use oneseal_tests::binary;
use oneseal_tests::require::program;
use serde_json::json;

use crate::shipped::{NAMESPACE, manifests, moved};

const PAGE: &str = include_str!("../../../docs/kubernetes.md");

/// The lines of the page's blocks of commands below this heading.
fn commands(heading: &str) -> Vec<&'static str> {
    let section = PAGE.split("\n## ").find(|section| section.starts_with(heading)).unwrap();
    let blocks = section.split("```console\n").skip(1).map(|block| block.split("```").next().unwrap());
    blocks.flat_map(str::lines).map(|line| line.strip_prefix("$ ").unwrap()).collect()
}

/// A shell's place: the manifests for `namespace`, the program, and an administrator's credentials.
struct Laptop<'s> {
    server: &'s KubeApiserver,
    namespace: String,
    home: tempfile::TempDir,
    /// Elsewhere the API server is asked in its place.
    has_kubectl: bool,
}

impl<'s> Laptop<'s> {
    fn of(server: &'s KubeApiserver) -> Self {
        let home = tempfile::tempdir().unwrap();
        let namespace = format!("page-{}", uuid::Uuid::new_v4());
        let folder = home.path().join("deploy/kubernetes");
        std::fs::create_dir_all(&folder).unwrap();
        for (name, manifest) in manifests() {
            std::fs::write(folder.join(name), moved(&manifest, &namespace)).unwrap();
        }
        std::fs::write(home.path().join("kubeconfig"), server.kubeconfig_admin()).unwrap();
        Self { server, namespace, home, has_kubectl: program("kubectl").is_some() }
    }

    /// The page's command, for this namespace.
    fn run(&self, command: &str) -> String {
        let command = command.replace(&format!("-n {NAMESPACE} "), &format!("-n {} ", self.namespace));
        let command = command.replace(&format!("k8s:{NAMESPACE}/"), &format!("k8s:{}/", self.namespace));
        if !self.has_kubectl && command.starts_with("kubectl ") {
            self.ask(&command);
            return String::new();
        }
        let path = [binary().parent().unwrap().to_str().unwrap(), &std::env::var("PATH").unwrap()].join(":");
        let output = Command::new("sh")
            .args(["-ec", &command])
            .current_dir(&self.home)
            .env("PATH", path)
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.home.path().join("kubeconfig"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// What kubectl would ask.
    fn ask(&self, command: &str) {
        let words: Vec<_> = command.split_whitespace().collect();
        match words[..] {
            ["kubectl", "apply", ..] => {
                for file in words.iter().filter(|word| word.ends_with(".yaml")) {
                    self.server.apply(&std::fs::read_to_string(self.home.path().join(file)).unwrap(), false);
                }
            }
            ["kubectl", "-n", _, "create", "secret", "generic", name] => {
                self.server.create_secret(&self.namespace, name, "Opaque", &[]);
            }
            _ => panic!("{command}: nobody can run that here"),
        }
    }

    fn secret(&self, name: &str) -> serde_json::Value {
        let path = format!("/api/v1/namespaces/{}/secrets/{name}", self.namespace);
        let (status, secret) = self.server.request("GET", &path, None);
        assert_eq!(status, 200, "{secret}");
        secret
    }
}

#[test]
fn five_commands_set_it_up_and_a_second_time_changes_nothing() {
    let Some(server) = KubeApiserver::shared() else { return };
    let laptop = Laptop::of(server);
    let commands = commands("Set it up");
    assert_eq!(commands.len(), 5);
    for command in &commands {
        laptop.run(command);
    }
    let made = laptop.secret("oneseal-ring");
    assert!(
        made["data"]["keyring.json"].is_string() && made["metadata"]["annotations"].is_object(),
        "{made}"
    );
    for command in commands.iter().filter(|command| !command.contains("create secret")) {
        laptop.run(command);
    }
    assert_eq!(laptop.secret("oneseal-ring"), made);
    let account = format!("system:serviceaccount:{}:oneseal", laptop.namespace);
    let may = |verb: &str| {
        let asked = json!({
            "namespace": laptop.namespace, "verb": verb, "group": "", "resource": "secrets", "name": "oneseal-ring"
        });
        server.is_allowed(&account, &asked)
    };
    let allowed: Vec<_> =
        ["get", "list", "watch", "create", "update", "delete"].into_iter().filter(|verb| may(verb)).collect();
    assert_eq!(allowed, ["get", "watch", "update"]);
}

#[test]
fn a_kek_in_a_namespace_of_its_own_is_read_by_the_replicas_and_by_them_alone() {
    let Some(server) = KubeApiserver::shared() else { return };
    let laptop = Laptop::of(server);
    if !laptop.has_kubectl {
        println!("skipped: a_kek_in_a_namespace_of_its_own: no kubectl here");
        return;
    }
    let (kek, ring) = (commands("A key-encryption key"), commands("Set it up"));
    assert_eq!(kek.len(), 6);
    for command in kek {
        laptop.run(command);
    }
    for command in ring {
        let sealed = format!("ONESEAL__KEK__URI=k8s:oneseal-kek/oneseal-kek {command}");
        let said = laptop.run(if command.starts_with("oneseal ") { &sealed } else { command });
        assert!(!said.contains("kek."), "{said}");
    }
    let ring = laptop.secret("oneseal-ring")["data"]["keyring.json"].to_string();
    let ring = STANDARD.decode(ring.trim_matches('"')).unwrap();
    assert!(String::from_utf8(ring).unwrap().contains("\"sealed\""));
    let may = |verb: &str| {
        let asked = json!({
            "namespace": "oneseal-kek", "verb": verb, "group": "", "resource": "secrets", "name": "oneseal-kek"
        });
        server.is_allowed("system:serviceaccount:oneseal:oneseal", &asked)
    };
    assert!(may("get") && !may("update") && !may("list"));
}

#[test]
fn bare_keys_are_swapped_by_one_change_of_the_secret() {
    let Some(server) = KubeApiserver::shared() else { return };
    let laptop = Laptop::of(server);
    if !laptop.has_kubectl || program("jq").is_none() || !Path::new("/bin/sh").exists() {
        // Not required anywhere: a convenience of whoever has these.
        println!("skipped: bare_keys_are_swapped_by_one_change_of_the_secret: no kubectl or no jq here");
        return;
    }
    laptop.run("kubectl apply -f deploy/kubernetes/namespace.yaml");
    let data: [(&str, &[u8]); 2] = [("current.pem", b"old"), ("next.pem", b"new")];
    server.create_secret(&laptop.namespace, "oneseal-keys", "Opaque", &data);
    for command in commands("Rotating by hand") {
        laptop.run(command);
    }
    assert_eq!(laptop.secret("oneseal-keys")["data"], json!({"previous.pem": "b2xk", "current.pem": "bmV3"}));
}
