//! The manifests: taken by a strict API server, and in agreement with the program that they run.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use oneseal_testing::parts::KubeApiserver;
use serde_json::{Value, json};

use crate::shipped::{self, NAMESPACE, applied, configuration, in_force, manifests, moved, only, span};
use crate::support::{Place, SECRET};

#[test]
fn a_strict_server_takes_every_manifest_and_refuses_a_field_that_is_misspelt() {
    let Some(server) = KubeApiserver::shared() else { return };
    let namespace = server.create_namespace();
    let mut kinds = Vec::new();
    for (name, manifest) in manifests() {
        let manifest = moved(&manifest, &namespace);
        for applied in server.apply(&manifest, true) {
            assert!(applied.warnings.is_empty(), "{name}: {:?}", applied.warnings);
            kinds.push(applied.object["kind"].as_str().unwrap().to_owned());
        }
        for (right, wrong) in MISSPELT {
            if !manifest.contains(right) {
                continue;
            }
            let refusal = server.try_apply(&manifest.replacen(right, wrong, 1), true).unwrap_err();
            let field = wrong.trim().trim_end_matches(':');
            assert!(refusal.contains(&format!("{field}: field not declared in schema")), "{refusal}");
        }
    }
    for (right, _) in MISSPELT {
        assert!(manifests().iter().any(|(_, text)| text.contains(right)), "no manifest has {right}");
    }
    kinds.sort();
    for kind in [
        "ConfigMap",
        "Deployment",
        "Namespace",
        "NetworkPolicy",
        "PodDisruptionBudget",
        "Service",
        "ServiceAccount",
    ] {
        assert_eq!(kinds.iter().filter(|found| *found == kind).count(), 1, "{kind} in {kinds:?}");
    }
}

/// A field of each manifest that would be left out without a word by a server that is not strict.
const MISSPELT: &[(&str, &str)] = &[
    ("\ndata:", "\ndat:"),
    ("automountServiceAccountToken:", "automountServiceAcountToken:"),
    ("enableServiceLinks:", "enableServiceLink:"),
    ("terminationGracePeriodSeconds:", "terminationGracePeriod:"),
    ("startupProbe:", "startProbe:"),
    ("failureThreshold:", "failureThresholds:"),
    ("readOnlyRootFilesystem:", "readonlyRootFilesystem:"),
    ("matchLabelKeys:", "matchLabelsKeys:"),
    ("policyTypes:", "policyType:"),
    ("minAvailable:", "minimumAvailable:"),
    ("targetPort:", "targetPorts:"),
];

#[test]
fn the_pods_keep_to_the_restricted_standard_and_need_each_of_its_settings() {
    let Some(server) = KubeApiserver::shared() else { return };
    let (namespace, objects) = applied(server);
    let template = &only(&objects, "Deployment")["spec"]["template"];
    let try_pod = |spec: &Value| {
        let pod =
            json!({"metadata": {"name": "one", "labels": template["metadata"]["labels"]}, "spec": spec});
        server.request("POST", &format!("/api/v1/namespaces/{namespace}/pods?dryRun=All"), Some(&pod))
    };
    let (status, answer) = try_pod(&template["spec"]);
    assert_eq!(status, 201, "{answer}");
    let of_container = "/containers/0/securityContext";
    for (place, member) in [
        ("/securityContext", "runAsNonRoot"),
        ("/securityContext", "seccompProfile"),
        (of_container, "allowPrivilegeEscalation"),
        (of_container, "capabilities"),
    ] {
        let mut spec = template["spec"].clone();
        spec.pointer_mut(place).unwrap().as_object_mut().unwrap().remove(member).unwrap();
        let (status, answer) = try_pod(&spec);
        assert_eq!(status, 403, "without {member}: {answer}");
        assert!(
            answer["message"].as_str().unwrap().contains("violates PodSecurity \"restricted:latest\""),
            "{answer}"
        );
    }
    let (pod, container) =
        (&template["spec"]["securityContext"], template["spec"].pointer(of_container).unwrap());
    assert_eq!(container["readOnlyRootFilesystem"], true);
    let user = format!("USER {}:{}\n", pod["runAsUser"], pod["runAsGroup"]);
    assert!(shipped::text("Dockerfile").contains(&user), "the image's user is not {user}");
    assert_eq!(pod["fsGroup"], pod["runAsGroup"], "mode 0440 of a mounted Secret");
}

/// With the times that are in force: those of the ConfigMap, else the program's own.
#[test]
fn probes_and_grace_agree_with_the_times_of_the_process() {
    let Some(server) = KubeApiserver::shared() else { return };
    let (_, objects) = applied(server);
    let config = configuration(&objects);
    let [boot_timeout, drain_delay, shutdown_timeout] = ["boot_timeout", "drain_delay", "shutdown_timeout"]
        .map(|key| span(&config, &format!("process.{key}")));
    let pod = &only(&objects, "Deployment")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let probe = |name: &str| Probe::of(&container[name]);

    let startup = probe("startupProbe");
    let slowest = boot_timeout + LAST_ATTEMPT + SELF_CHECK;
    assert!(startup.patience() >= slowest, "killed after {:?}, {slowest:?} may pass", startup.patience());
    let readiness = probe("readinessProbe");
    assert!(readiness.patience() <= drain_delay, "{:?}, {drain_delay:?}", readiness.patience());
    let liveness = probe("livenessProbe");
    assert!(liveness.patience() >= Duration::from_secs(30), "{:?}", liveness.patience());
    assert_eq!([&*startup.path, &*readiness.path, &*liveness.path], ["/livez", "/readyz", "/livez"]);

    let grace = seconds(&pod["terminationGracePeriodSeconds"]);
    assert!(
        drain_delay < shutdown_timeout && shutdown_timeout < grace,
        "{drain_delay:?}, {shutdown_timeout:?}, {grace:?}"
    );
    let progress = seconds(&only(&objects, "Deployment")["spec"]["progressDeadlineSeconds"]);
    assert!(progress > startup.patience());
}

/// What a last attempt may take that began just before the end: one read of a provider.
const LAST_ATTEMPT: Duration = oneseal_keystore::rotation::PROVIDER_TIMEOUT;
/// The look at the issuer's own URL.
const SELF_CHECK: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Probe {
    path: String,
    delay: Duration,
    period: Duration,
    timeout: Duration,
    failures: u32,
}

impl Probe {
    fn of(probe: &Value) -> Self {
        assert_eq!(probe["httpGet"]["port"], "ops", "{probe}");
        Self {
            path: probe["httpGet"]["path"].as_str().unwrap().to_owned(),
            delay: seconds(&probe.get("initialDelaySeconds").cloned().unwrap_or(json!(0))),
            period: seconds(&probe["periodSeconds"]),
            timeout: seconds(&probe["timeoutSeconds"]),
            failures: probe["failureThreshold"].as_u64().unwrap().try_into().unwrap(),
        }
    }

    /// How long nothing but failures must be seen before kubelet acts on it.
    fn patience(&self) -> Duration {
        self.delay + self.period * self.failures + self.timeout
    }
}

fn seconds(value: &Value) -> Duration {
    Duration::from_secs(value.as_u64().unwrap_or_else(|| panic!("no seconds: {value}")))
}

#[test]
fn ports_and_paths_are_those_of_the_program() {
    let Some(server) = KubeApiserver::shared() else { return };
    let (_, objects) = applied(server);
    let config = configuration(&objects);
    let pod = &only(&objects, "Deployment")["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let port = |name: &str| {
        let ports = container["ports"].as_array().unwrap();
        ports.iter().find(|port| port["name"] == name).unwrap()["containerPort"].as_u64().unwrap()
    };
    for name in ["documents", "ops"] {
        let address: SocketAddr = in_force(&config, &format!("listen.{name}")).parse().unwrap();
        assert!(address.ip().is_unspecified(), "kubelet and the Service come from elsewhere: {address}");
        assert_eq!(port(name), u64::from(address.port()), "{name}");
        assert!(shipped::text("Dockerfile").contains(&format!(" {}", address.port())), "EXPOSE {address}");
    }
    let service = &only(&objects, "Service")["spec"];
    assert_eq!(service["ports"][0]["targetPort"], "documents");
    let labels = &only(&objects, "Deployment")["spec"]["template"]["metadata"]["labels"];
    assert_eq!(&service["selector"], labels);
    for kind in ["NetworkPolicy", "PodDisruptionBudget"] {
        let spec = &only(&objects, kind)["spec"];
        let selector = spec.get("podSelector").or(spec.get("selector")).unwrap();
        assert_eq!(&selector["matchLabels"], labels, "{kind}");
    }
    let budget = &only(&objects, "PodDisruptionBudget")["spec"]["minAvailable"];
    let replicas = &only(&objects, "Deployment")["spec"]["replicas"];
    assert_eq!((replicas, budget), (&json!(3), &json!(2)));

    let mounted = |path: &Path| {
        let mounts = container["volumeMounts"].as_array().unwrap();
        let mount = mounts.iter().find(|mount| Path::new(mount["mountPath"].as_str().unwrap()) == path);
        let name = &mount.unwrap_or_else(|| panic!("nothing is mounted at {}", path.display()))["name"];
        pod["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == *name).unwrap().clone()
    };
    let help = shipped::printed(&["serve", "--help"]);
    let file = Path::new("/etc/oneseal/oneseal.toml");
    assert!(help.contains(file.to_str().unwrap()), "the default of --config");
    assert_eq!(
        mounted(file.parent().unwrap())["configMap"]["name"],
        only(&objects, "ConfigMap")["metadata"]["name"]
    );
    let socket = in_force(&config, "listen.admin");
    assert!(mounted(Path::new(&socket).parent().unwrap())["emptyDir"].is_object());
    assert_eq!(pod["serviceAccountName"], only(&objects, "ServiceAccount")["metadata"]["name"]);
    assert_eq!(pod["enableServiceLinks"], false);
}

#[test]
fn the_image_has_the_version_of_the_program() {
    let version = shipped::printed(&["version"]);
    let version = version.lines().next().unwrap().strip_prefix("oneseal ").unwrap();
    for (file, text) in [
        ("kubernetes/deployment.yaml", format!("image: oneseal:{version}\n")),
        ("Dockerfile", format!("-t oneseal:{version} ")),
    ] {
        assert!(shipped::text(file).contains(&text), "{file} has no {text}");
    }
    let wanted = shipped::text("../Cargo.toml");
    let rust =
        wanted.lines().find_map(|line| line.strip_prefix("rust-version = ")).unwrap().trim_matches('"');
    assert!(shipped::text("Dockerfile").contains(&format!("ARG RUST={rust}\n")), "Rust {rust}");
}

/// In a pod of the Deployment the program would start: with the file of the ConfigMap, as the ServiceAccount.
#[tokio::test(flavor = "multi_thread")]
async fn the_program_takes_the_configuration_that_is_shipped() {
    let Some(place) = Place::new().await else { return };
    let file = place.shipped_configuration();
    let issuer = in_force(&std::fs::read_to_string(&file).unwrap(), "issuer.url");
    let by = |who: &str, words: &[&str]| {
        let mut command = std::process::Command::new(oneseal_tests::binary());
        command.args(words).env_clear().env("KUBECONFIG", place.kubeconfig(who)).envs(place.variables());
        command.output().unwrap()
    };
    let ring = format!("k8s:{}/{SECRET}", place.namespace);
    let made = by("admin", &["keys", "init", "--provider", &ring, "--issuer", &issuer]);
    assert!(made.status.success(), "{made:?}");
    let words = ["check", "--strict", "--json", "--no-bind", "--offline", "--config", file.to_str().unwrap()];
    let checked = by("replica", &words);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    let report: Value = serde_json::from_slice(&checked.stdout).unwrap();
    let codes: Vec<_> = report["findings"].as_array().unwrap().iter().map(|found| &found["code"]).collect();
    assert_eq!(
        codes,
        ["rule.none"],
        "who may have tokens is for its operator to say; and no service link is one of ours"
    );
    // Another key than there is would be one of ours.
    std::fs::write(&file, std::fs::read_to_string(&file).unwrap().replace("kind =", "kin =")).unwrap();
    assert_eq!(by("replica", &words).status.code(), Some(78));
}

/// The one command of the page that changes files.
#[test]
fn the_page_puts_registry_and_issuer_where_they_belong() {
    let page = shipped::text("../docs/deploy.md");
    let command = page.lines().find_map(|line| line.strip_prefix("$ sed ")).unwrap();
    let copy = tempfile::tempdir().unwrap();
    let folder = copy.path().join("deploy/kubernetes");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, manifest) in manifests() {
        std::fs::write(folder.join(name), manifest).unwrap();
    }
    let mut shell = std::process::Command::new("sh");
    let done = shell.args(["-c", &format!("sed {command}")]).current_dir(copy.path()).status().unwrap();
    assert!(done.success());
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert!(read("deployment.yaml").contains("        image: registry.example/oneseal:"));
    assert!(read("config.yaml").contains("    url = \"https://oidc.my.example\"\n"));
    let changed = manifests().into_iter().filter(|(name, before)| read(name) != *before);
    assert_eq!(changed.map(|(name, _)| name).collect::<Vec<_>>(), ["config.yaml", "deployment.yaml"]);
}

#[test]
fn every_object_is_in_the_namespace_that_is_shipped() {
    for (name, manifest) in manifests().into_iter().filter(|(name, _)| name != "namespace.yaml") {
        let documents =
            manifest.split("\n---").filter(|text| text.contains("\nkind:") || text.starts_with("kind:"));
        // A ClusterRole is of none; who has it is said by its binding.
        for document in documents.filter(|text| !text.contains("\nkind: ClusterRole\n")) {
            assert!(document.contains(&format!("namespace: {NAMESPACE}\n")), "{name}:\n{document}");
        }
    }
}
