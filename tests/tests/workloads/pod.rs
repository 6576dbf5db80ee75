//! A pod's way, whole: the token that its cluster gave it becomes one that others take.
//!
//! The cluster is a real API server, which also is one of those others. The pod is the one of `deploy/`, the rule and the
//! role are those of the page, and three replicas share the ring.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal::Algorithm;
use oneseal_testing::parts::{Aws, KubeApiserver, KubeApiserverOptions, Pod};
use oneseal_tests::{binary, require, state};
use serde_json::{Value, json};

use crate::issuer::Issuer;
use crate::page::{self, CLUSTER};
use crate::structured::user;
use crate::{adaptor, libraries};

const POD: &str = include_str!("../../../deploy/kubernetes/examples/pod.yaml");
const STS: &str = "sts.amazonaws.com";
const SUBJECT: &str = "k8s:prod:ci:builder";

#[tokio::test(flavor = "multi_thread")]
async fn the_pod_that_is_shipped_gets_a_token_that_each_relying_party_takes() {
    let Some(scene) = Scene::start().await else { return };
    let sts = scene.init_container_runs();
    assert_eq!(claims(&sts)["sub"], SUBJECT);
    taken_in_four_languages(&scene, &sts).await;
    taken_by_aws(&scene, &sts);
    taken_by_the_cluster(&scene);
    refused_by_name(&scene);
}

struct Scene {
    issuer: Issuer,
    cluster: KubeApiserver,
    /// As the server took it.
    pod: Value,
}

impl Scene {
    /// An API server that takes the issuer's tokens, and an issuer that takes the API server's.
    async fn start() -> Option<Self> {
        let mut issuer = Issuer::new().await;
        // It looks for the issuer when it starts, and again only ten seconds later.
        let mint = format!("[admin]\nmint = true\nmint_audiences = [{CLUSTER:?}]\n");
        issuer.serve(1, Algorithm::Rs256, "", &mint).await;
        let trusts = page::authentication(&[(issuer.url.as_str(), &issuer.ca)]);
        let options = KubeApiserverOptions { authentication_config: Some(trusts), ..Default::default() };
        let cluster = KubeApiserver::start(options)?;
        let known = issuer.try_mint(&json!({"sub": "x", "aud": CLUSTER})).await.json();
        let known = known["token"].as_str().unwrap().to_owned();
        state::until("the API server knows the issuer", async || user(&cluster, &known)).await;

        let kubeconfig = issuer.path("kubeconfig");
        std::fs::write(&kubeconfig, cluster.kubeconfig_admin()).unwrap();
        let rules = page::block("toml", "[[rule]]");
        let rules = rules.replace("https://kubernetes.default.svc.cluster.local", &cluster.url());
        let rules = rules.replace("[[rule]]", &format!("kubeconfig = {kubeconfig:?}\n\n[[rule]]"));
        issuer.serve(3, Algorithm::Rs256, "", &rules).await;

        cluster.request("POST", "/api/v1/namespaces", Some(&json!({"metadata": {"name": "ci"}})));
        let objects = cluster.apply(&POD.replace(page::ISSUER, issuer.url.as_str()), false);
        let pod = objects.into_iter().find(|applied| applied.object["kind"] == "Pod").unwrap().object;
        Some(Self { issuer, cluster, pod })
    }

    /// What kubelet would put into the volume `source`.
    fn projected(&self) -> PathBuf {
        let volumes = self.pod["spec"]["volumes"].as_array().unwrap();
        let source =
            &volumes.iter().find(|volume| volume["name"] == "source").unwrap()["projected"]["sources"][0];
        let source = &source["serviceAccountToken"];
        let pod = Pod { name: "builder".to_owned(), uid: text(&self.pod["metadata"]["uid"]).to_owned() };
        let audience = text(&source["audience"]);
        let seconds = source["expirationSeconds"].as_u64().unwrap().try_into().unwrap();
        let token = self.cluster.token("ci", "builder", &[audience], seconds, Some(&pod));
        self.write("source", &token)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.issuer.path(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The command of the pod's init container, with this machine's paths in place of the pod's; once for each replica.
    fn init_container_runs(&self) -> String {
        let container = &self.pod["spec"]["initContainers"][0];
        let mounts = container["volumeMounts"].as_array().unwrap();
        let source = mounts.iter().find(|mount| mount["name"] == "source").unwrap();
        let help = Command::new(binary()).args(["token", "--help"]).output().unwrap();
        let default = format!("{}/token", text(&source["mountPath"]));
        assert!(String::from_utf8(help.stdout).unwrap().contains(&default), "--source is not {default}");
        let out = self.issuer.path("aws");
        let words = container["args"].as_array().unwrap().iter().map(|word| {
            text(word)
                .replace("/etc/oneseal-ca/ca.crt", self.issuer.path("ca.crt").to_str().unwrap())
                .replace("/run/tokens/aws", out.to_str().unwrap())
        });
        let words: Vec<_> = words.chain([format!("--source={}", self.projected().display())]).collect();
        let mut seen = BTreeSet::new();
        for _ in 0..3 {
            let run = Command::new(binary()).args(&words).output().unwrap();
            assert!(run.status.success() && run.stdout.is_empty(), "{run:?}");
            seen.insert(std::fs::read_to_string(&out).unwrap());
        }
        assert_eq!(seen.len(), 3, "a token each time, of each replica");
        seen.pop_first().unwrap()
    }

    /// `oneseal token` for this audience, with the proof in `source`.
    fn token(&self, source: &Path, audience: &str) -> Output {
        let mut command = Command::new(binary());
        command.args(["token", "--issuer", self.issuer.url.as_str(), "--audience", audience, "--ca"]);
        command.arg(self.issuer.path("ca.crt")).arg("--source").arg(source).output().unwrap()
    }
}

/// Each by its own HTTP client, its own discovery and its own cryptography.
async fn taken_in_four_languages(scene: &Scene, token: &str) {
    let ca = scene.issuer.path("ca.crt");
    for name in ["go_oidc", "jose", "nimbus", "pyjwt"] {
        let library = libraries::by_name(name);
        for (token, code) in [(token.to_owned(), 0), (tampered(token), 1)] {
            let Some(mut command) = adaptor::command(library).await else { break };
            command.env("SSL_CERT_FILE", &ca).env("NODE_EXTRA_CA_CERTS", &ca);
            command.env("JAVA_TOOL_OPTIONS", java_trusts(&ca));
            command.args(["--issuer", scene.issuer.url.as_str(), "--audience", STS]).arg(token);
            let output = command.output().await.unwrap();
            assert_eq!(output.status.code(), Some(code), "{name}: {output:?}");
        }
    }
}

/// Java reads authorities from a store of its own.
fn java_trusts(ca: &Path) -> String {
    let store = ca.with_extension("p12");
    if !store.exists() && require::program("keytool").is_some() {
        let mut keytool = Command::new("keytool");
        keytool.args(["-importcert", "-noprompt", "-alias", "ca", "-storetype", "PKCS12"]);
        keytool.args(["-storepass", "changeit", "-file"]).arg(ca).arg("-keystore").arg(&store);
        let made = keytool.output().unwrap();
        assert!(made.status.success(), "{made:?}");
    }
    format!("-Djavax.net.ssl.trustStore={} -Djavax.net.ssl.trustStorePassword=changeit", store.display())
}

/// By AWS's SDK for Python and a verifier that fetches the keys from the issuer, with the role of the page.
fn taken_by_aws(scene: &Scene, token: &str) {
    let Some(aws) = Aws::start() else { return };
    let policy: Value = serde_json::from_str(page::block("json", "sts:AssumeRoleWithWebIdentity")).unwrap();
    let conditions = &policy["Statement"][0]["Condition"]["StringEquals"];
    let host = page::ISSUER.strip_prefix("https://").unwrap();
    let wanted = |name: &str| text(&conditions[format!("{host}:{name}")]).to_owned();
    let url = scene.issuer.url.as_str();
    aws.trust_issuer(url, &[STS], &scene.issuer.ca);
    let role = aws.create_role("builder", url, &wanted("aud"), &wanted("sub"));
    let Some(python) = Aws::python() else { return require::skip("boto3", "moto is not of scripts/moto") };
    for (token, cause) in [(token.to_owned(), None), (tampered(token), Some("InvalidIdentityToken"))] {
        let file = scene.write("web-identity", &token);
        let mut command = Command::new(&python);
        command.args(["-c", WHO_AM_I]).envs(aws.web_identity_environment(&role, &file));
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"] {
            command.env_remove(name);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.success(), cause.is_none(), "{}", text_of(&output.stderr));
        let told = String::from_utf8_lossy(if cause.is_none() { &output.stdout } else { &output.stderr })
            .into_owned();
        assert!(told.contains(cause.unwrap_or("assumed-role/builder/")), "{told}");
    }
}

const WHO_AM_I: &str = "
import boto3, os
token = open(os.environ['AWS_WEB_IDENTITY_TOKEN_FILE']).read()
role = os.environ['AWS_ROLE_ARN']
sts = boto3.client('sts')
given = sts.assume_role_with_web_identity(RoleArn=role, RoleSessionName='builder', WebIdentityToken=token)
print(given['AssumedRoleUser']['Arn'])
";

fn taken_by_the_cluster(scene: &Scene) {
    let run = scene.token(&scene.projected(), CLUSTER);
    assert!(run.status.success(), "{run:?}");
    let token = String::from_utf8(run.stdout).unwrap();
    let name = user(&scene.cluster, token.trim_end());
    assert_eq!(name.as_deref(), Some(&*format!("oneseal:{SUBJECT}")));
}

fn refused_by_name(scene: &Scene) {
    let said = |run: Output| (run.status.code(), String::from_utf8(run.stderr).unwrap());
    let (code, told) = said(scene.token(&scene.projected(), "https://other.example.com"));
    assert!(code == Some(77) && told.contains("token.audience"), "{told}");
    scene.cluster.service_account("ci", "builder-2");
    let alike = scene.cluster.token("ci", "builder-2", &[scene.issuer.url.as_str()], 600, None);
    let (code, told) = said(scene.token(&scene.write("alike", &alike), STS));
    assert!(code == Some(77), "{told}");
    let of_the_cluster = scene.cluster.token("ci", "builder", &[], 600, None);
    let (code, told) = said(scene.token(&scene.write("other", &of_the_cluster), STS));
    assert!(
        code == Some(77) && told.contains("token.proof_refused") && told.contains("`audience: "),
        "{told}"
    );
    let own = scene.token(&scene.projected(), STS);
    let (code, told) = said(scene.token(&scene.write("own", text_of(&own.stdout)), STS));
    assert!(code == Some(77) && told.contains("token.proof_refused"), "our own token is no proof: {told}");
}

/// The token with another subject, under the signature that it had.
fn tampered(token: &str) -> String {
    let parts: Vec<_> = token.split('.').collect();
    let mut claims = claims(token);
    claims["sub"] = json!("k8s:prod:ci:admin");
    format!("{}.{}.{}", parts[0], encode(&claims.to_string()), parts[2])
}

fn claims(token: &str) -> Value {
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap());
    serde_json::from_slice(&payload.unwrap()).unwrap()
}

fn encode(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(text)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

fn text_of(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap().trim_end()
}
