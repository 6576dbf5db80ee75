//! What the API server was asked, by whom, and what it said.

use std::path::Path;

use serde_json::Value;

/// One line of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audited {
    /// Such as `system:serviceaccount:NAMESPACE:NAME`, `admin`, `system:anonymous`.
    pub user: String,
    /// As in RBAC: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, ….
    pub verb: String,
    /// With the subresource, as in RBAC: `secrets`, `serviceaccounts/token`. Empty where it is a plain path.
    pub resource: String,
    /// Empty where there is none.
    pub namespace: String,
    /// Of a list or watch too, where it is of one object (`fieldSelector=metadata.name=…`). Empty where there is none.
    pub name: String,
    /// The status.
    pub code: u16,
    /// The path with its query.
    pub uri: String,
    /// `ResponseComplete`; a watch is first told when it begins, `ResponseStarted`.
    pub stage: String,
}

/// Who, what and how it ended, of each request; no bodies.
pub(super) const POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
";

/// The lines that are whole.
pub(super) fn read(log: &Path) -> Vec<Audited> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.filter_map(|line| serde_json::from_str(line).ok()).map(|event| audited(&event)).collect()
}

fn audited(event: &Value) -> Audited {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let subresource = text("/objectRef/subresource");
    let separator = if subresource.is_empty() { "" } else { "/" };
    let code = event.pointer("/responseStatus/code").and_then(Value::as_u64);
    Audited {
        user: text("/user/username"),
        verb: text("/verb"),
        resource: format!("{}{separator}{subresource}", text("/objectRef/resource")),
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        code: code.and_then(|code| code.try_into().ok()).unwrap_or_default(),
        uri: text("/requestURI"),
        stage: text("/stage"),
    }
}
