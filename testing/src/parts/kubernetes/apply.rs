//! Manifests, as `kubectl apply --server-side` sends them.

use serde_json::Value;

use super::KubeApiserver;
use super::client::{By, Question};

/// One object of a manifest, as the server took it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Applied {
    /// With the server's defaults.
    pub object: Value,
    /// What the server says about it: deprecated fields, a pod that a policy would refuse. Not unknown fields, which it
    /// refuses.
    pub warnings: Vec<String>,
}

impl KubeApiserver {
    /// Applies each document of `yaml` in turn, server-side and with strict validation: unknown and duplicate fields are
    /// refused, fields that somebody else owns are taken. An object that names no namespace goes to `default`. With
    /// `dry_run` the server does all but store it; a namespace that the documents themselves make is then not there for
    /// those that follow.
    ///
    /// # Panics
    /// If the server refuses one, with what it says.
    pub fn apply(&self, yaml: &str, dry_run: bool) -> Vec<Applied> {
        self.try_apply(yaml, dry_run).unwrap_or_else(|error| panic!("{error}"))
    }

    /// As [`KubeApiserver::apply`]. The first refusal ends it; what was applied before stays.
    ///
    /// # Errors
    /// Which object, and what the server says about it.
    pub fn try_apply(&self, yaml: &str, dry_run: bool) -> Result<Vec<Applied>, String> {
        let mut applied = Vec::new();
        for document in documents(yaml) {
            if let Some(head) = Head::read(&document)? {
                applied.push(self.apply_one(&head, &document, dry_run)?);
            }
        }
        Ok(applied)
    }

    fn apply_one(&self, head: &Head, document: &str, dry_run: bool) -> Result<Applied, String> {
        let mut path = self.path_of(head)?;
        path.push_str("?fieldManager=oneseal-testing&force=true&fieldValidation=Strict");
        if dry_run {
            path.push_str("&dryRun=All");
        }
        let question = Question {
            method: "PATCH",
            path: &path,
            media_type: "application/apply-patch+yaml",
            // As it stands: a field that is there twice is the server's to see.
            body: document,
            by: By::Admin,
        };
        let answer = self.client.ask(question)?;
        if !matches!(answer.status, 200 | 201) {
            let why = answer.body["message"].as_str().map_or_else(|| answer.body.to_string(), str::to_owned);
            return Err(format!("{head}: {}: {why}", answer.status));
        }
        Ok(Applied { object: answer.body, warnings: answer.warnings })
    }

    /// Where objects of that kind are, as the server itself tells.
    fn path_of(&self, head: &Head) -> Result<String, String> {
        let root = if head.version.contains('/') { "apis" } else { "api" };
        let root = format!("/{root}/{}", head.version);
        let (_, found) = self.try_request("GET", &root, None)?;
        let is_it = |resource: &&Value| {
            resource["kind"] == head.kind.as_str()
                && !resource["name"].as_str().is_some_and(|name| name.contains('/'))
        };
        let resource = found["resources"].as_array().and_then(|resources| resources.iter().find(is_it));
        let resource =
            resource.ok_or_else(|| format!("{head}: the server has no such kind in {}", head.version))?;
        let plural = resource["name"].as_str().unwrap_or_default();
        let is_namespaced = resource["namespaced"] == true;
        let namespace = if is_namespaced { format!("/namespaces/{}", head.namespace) } else { String::new() };
        Ok(format!("{root}{namespace}/{plural}/{}", head.name))
    }
}

/// What a document is about.
#[derive(Debug)]
struct Head {
    version: String,
    kind: String,
    name: String,
    namespace: String,
}

impl Head {
    /// `None` where nothing but comments is in it.
    fn read(document: &str) -> Result<Option<Self>, String> {
        let shown = |error: serde_saphyr::Error| format!("no YAML: {error}\n{document}");
        // What is there twice is told by the server.
        let options = serde_saphyr::options! { duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins };
        let found: Value = serde_saphyr::from_str_with_options(document, options).map_err(shown)?;
        if found.is_null() {
            return Ok(None);
        }
        let text = |pointer: &str| found.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let needed = |pointer: &str| text(pointer).ok_or_else(|| format!("it has no {pointer}:\n{document}"));
        Ok(Some(Self {
            version: needed("/apiVersion")?,
            kind: needed("/kind")?,
            name: needed("/metadata/name")?,
            namespace: text("/metadata/namespace").unwrap_or_else(|| "default".to_owned()),
        }))
    }
}

impl std::fmt::Display for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// As kubectl takes a file apart: at lines that begin with `---`.
fn documents(yaml: &str) -> Vec<String> {
    let mut documents = vec![String::new()];
    for line in yaml.split_inclusive('\n') {
        if line.starts_with("---") {
            documents.push(String::new());
        } else {
            documents.last_mut().expect("there is a first one").push_str(line);
        }
    }
    documents
}
