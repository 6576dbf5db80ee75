//! A Secret as the API has it: enough of it to read it, and all of it to write it back.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use aws_lc_rs::digest::{Context, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use uuid::Uuid;
use zeroize::{Zeroize, Zeroizing};

use crate::{Entries, Record, Revision};

/// Where a write leaves its change's id.
pub(super) const CHANGE_ID: &str = "oneseal.dev/change-id";

/// Where `kubectl apply` keeps a copy of what it was given.
pub(super) const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How a value gets into a Secret in base64 once.
const UNENCODED: &str = "put it under `stringData` as it is, or its base64 under `data`, or leave it to `kubectl create \
                         secret generic NAME --from-file`, which encodes by itself";

/// The types whose data is read.
const OPAQUE: &str = "Opaque";
const TLS: &str = "kubernetes.io/tls";

/// One Secret. Its values, and whatever a tool has put into its annotations, are wiped when it is dropped.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Secret {
    api_version: String,
    kind: String,
    metadata: Metadata,
    /// Absent: `Opaque`.
    #[serde(rename = "type", default, skip_serializing_if = "String::is_empty")]
    kind_of_data: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    immutable: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<BTreeMap<String, Value64>>,
}

impl Secret {
    /// A first one, called `name`.
    pub(super) fn first(name: &str, entries: Entries, change_id: Uuid) -> Self {
        let metadata = json!({"name": name, "labels": {"app.kubernetes.io/managed-by": "oneseal"}});
        let mut secret = Self {
            api_version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            metadata: Metadata(metadata.as_object().cloned().unwrap_or_default()),
            kind_of_data: OPAQUE.to_owned(),
            immutable: None,
            data: None,
        };
        secret.put(entries, change_id);
        secret
    }

    /// What the API answered, if it is a Secret. The error says what is wrong with it and repeats nothing of it.
    pub(super) fn read(body: &[u8]) -> Result<Self, &'static str> {
        let secret = Self::unstored(body)?;
        if secret.uid().is_empty() || secret.resource_version().is_empty() {
            return Err("it is a Secret without uid and resourceVersion");
        }
        Ok(secret)
    }

    /// The same of one that a dry run would have made: it has no resourceVersion.
    pub(super) fn unstored(body: &[u8]) -> Result<Self, &'static str> {
        let secret: Self = serde_json::from_slice(body).map_err(|_| "it is no Secret in JSON")?;
        if secret.kind != "Secret" || secret.api_version != "v1" {
            return Err("it is another object than a Secret");
        }
        Ok(secret)
    }

    /// As the API takes it.
    pub(super) fn body(&self) -> Zeroizing<Vec<u8>> {
        // Counted first: a buffer that grows leaves copies behind.
        let mut length = Counter(0);
        let counted = serde_json::to_writer(&mut length, self);
        let mut body = Zeroizing::new(Vec::with_capacity(length.0));
        let written = serde_json::to_writer(&mut *body, self);
        debug_assert!(counted.is_ok() && written.is_ok(), "maps of text can be written");
        body
    }

    pub(super) fn uid(&self) -> &str {
        self.metadata.text("uid")
    }

    pub(super) fn resource_version(&self) -> &str {
        self.metadata.text("resourceVersion")
    }

    /// Whether nothing of it can be changed.
    pub(super) fn is_immutable(&self) -> bool {
        self.immutable == Some(true)
    }

    /// Whether it is a certificate's, which some other tool keeps.
    pub(super) fn is_certificate(&self) -> bool {
        self.kind_of_data == TLS
    }

    /// The type, if its data is none that is read here.
    pub(super) fn foreign_type(&self) -> Option<&str> {
        let kind = self.kind_of_data.as_str();
        (!matches!(kind, "" | OPAQUE | TLS)).then_some(kind)
    }

    /// Whether a copy of values is kept among the annotations. By its look: reading it would make more copies.
    pub(super) fn is_applied(&self) -> bool {
        let applied = self.metadata.annotation(LAST_APPLIED);
        ["\"data\":{\"", "\"stringData\":{\""].iter().any(|values| applied.contains(values))
    }

    /// Whether it has no data at all, as one that was made to be filled.
    pub(super) fn is_empty(&self) -> bool {
        self.data.as_ref().is_none_or(BTreeMap::is_empty)
    }

    /// Puts `entries` in place of its data. All else stays as it is.
    pub(super) fn put(&mut self, entries: Entries, change_id: Uuid) {
        let value = |value: &[u8]| Value64(Zeroizing::new(value.to_vec()));
        let data = entries.iter().map(|(name, bytes)| (name.to_owned(), value(bytes.expose()))).collect();
        self.data = Some(data);
        self.metadata.annotate(CHANGE_ID, change_id.to_string());
    }

    /// What names its content: see the module.
    pub(super) fn revision(&self) -> Revision {
        let mut digest = Context::new(&SHA256);
        let mut add = |bytes: &[u8]| {
            // With its length, so that no two contents are written as one.
            digest.update(&(bytes.len() as u64).to_be_bytes());
            digest.update(bytes);
        };
        add(self.metadata.annotation(CHANGE_ID).as_bytes());
        for (name, value) in self.data.iter().flatten() {
            add(name.as_bytes());
            add(&value.0);
        }
        let hex: String = digest.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        Revision::new(format!("{}.{hex}", self.uid()))
    }

    pub(super) fn into_record(mut self) -> Record {
        let revision = self.revision();
        let change_id = Uuid::parse_str(self.metadata.annotation(CHANGE_ID)).ok();
        let mut entries = Entries::new();
        for (name, mut value) in self.data.take().into_iter().flatten() {
            entries.insert(name, std::mem::take(&mut *value.0));
        }
        Record::new(revision, change_id, entries.decoded_by_store(UNENCODED))
    }
}

/// Without its values.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("uid", &self.uid()).finish_non_exhaustive()
    }
}

/// `metadata`, with members that this version does not know. `kubectl apply` keeps a copy of the whole Secret among the
/// annotations, so it is as secret as the data.
#[derive(Deserialize, Serialize)]
#[serde(transparent)]
struct Metadata(Map<String, Value>);

impl Metadata {
    fn text(&self, member: &str) -> &str {
        self.0.get(member).and_then(Value::as_str).unwrap_or_default()
    }

    fn annotation(&self, name: &str) -> &str {
        let annotations = self.0.get("annotations");
        annotations.and_then(|annotations| annotations.get(name)).and_then(Value::as_str).unwrap_or_default()
    }

    fn annotate(&mut self, name: &str, value: String) {
        let annotations = self.0.entry("annotations").or_insert(Value::Null);
        if !annotations.is_object() {
            *annotations = Value::Object(Map::new());
        }
        annotations[name] = Value::String(value);
    }
}

impl Drop for Metadata {
    fn drop(&mut self) {
        self.0.values_mut().for_each(wipe);
    }
}

fn wipe(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(values) => values.iter_mut().for_each(wipe),
        Value::Object(members) => members.values_mut().for_each(wipe),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Bytes that are base64 on the wire.
struct Value64(Zeroizing<Vec<u8>>);

impl<'de> Deserialize<'de> for Value64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Value64;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("base64")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Value64, E> {
                let bytes = STANDARD.decode(text).map(Zeroizing::new);
                bytes.map(Value64).map_err(|_| E::custom("it is no base64"))
            }

            fn visit_unit<E: serde::de::Error>(self) -> Result<Value64, E> {
                Ok(Value64(Zeroizing::new(Vec::new())))
            }
        }

        deserializer.deserialize_any(Text).map_err(|_| D::Error::custom("a value is no base64"))
    }
}

impl Serialize for Value64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = Zeroizing::new(STANDARD.encode(&*self.0));
        serializer.serialize_str(&text)
    }
}

struct Counter(usize);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::read(text.as_bytes()).expect(text)
    }

    fn with_data(data: &str) -> Secret {
        secret(&format!(
            r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"uid":"u","resourceVersion":"7"}},"data":{data}}}"#
        ))
    }

    #[test]
    fn a_revision_names_the_data_and_nothing_else() {
        let at = |data: &str| with_data(data).revision();
        assert_eq!(at(r#"{"a":"MQ==","b":"Mg=="}"#), at(r#"{"b":"Mg==","a":"MQ=="}"#));
        let others = [r#"{"a":"MQ=="}"#, r#"{"ab":"Mg==","":"MQ=="}"#, r#"{"a":"MWI=","":"Mg=="}"#, "{}"];
        for other in others {
            assert_ne!(at(r#"{"a":"MQ==","b":"Mg=="}"#), at(other), "{other}");
        }
        let labelled = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"uid":"u","resourceVersion":"9","labels":{"x":"y"}},"data":{"a":"MQ=="}}"#;
        assert_eq!(secret(labelled).revision(), at(r#"{"a":"MQ=="}"#));
        let again = labelled.replace(r#""uid":"u""#, r#""uid":"v""#);
        assert_ne!(secret(&again).revision(), at(r#"{"a":"MQ=="}"#), "made again, it is another");
        let mut written = with_data(r#"{"a":"MQ=="}"#);
        written.put(Entries::single("a", "1"), Uuid::nil());
        assert_ne!(written.revision(), at(r#"{"a":"MQ=="}"#), "a write is another revision");
    }

    #[test]
    fn what_is_not_data_is_written_back_as_it_was_read() {
        let text = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"n","uid":"u","resourceVersion":"7","annotations":{"a":"b"},"ownerReferences":[{"uid":"o"}],"later":{"than":["this"]}},"type":"Opaque","immutable":false,"data":{"a":"MQ==","empty":""}}"#;
        let mut read = secret(text);
        assert_eq!(serde_json::from_slice::<Value>(&read.body()).ok(), serde_json::from_str(text).ok());
        read.put(Entries::single("b", "2"), Uuid::nil());
        let written: Value = serde_json::from_slice(&read.body()).expect("JSON");
        let mut expected: Value = serde_json::from_str(text).expect("JSON");
        expected["data"] = json!({"b": "Mg=="});
        expected["metadata"]["annotations"][CHANGE_ID] = json!(Uuid::nil().to_string());
        assert_eq!(written, expected);
        assert_eq!(read.body().capacity(), read.body().len(), "no copy was left behind by growing");
    }

    #[test]
    fn a_copy_that_kubectl_has_left_is_seen_if_it_holds_values() {
        let with = |applied: Value| {
            let applied = applied.to_string();
            let metadata =
                json!({"uid": "u", "resourceVersion": "7", "annotations": {LAST_APPLIED: applied}});
            secret(&json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata}).to_string())
                .is_applied()
        };
        assert!(with(json!({"kind": "Secret", "data": {"a": "MQ=="}})));
        assert!(with(json!({"kind": "Secret", "stringData": {"a": "1"}})));
        assert!(
            !with(json!({"kind": "Secret", "data": {}})) && !with(json!({"kind": "Secret", "data": null}))
        );
        assert!(!with_data(r#"{"a":"MQ=="}"#).is_applied());
    }

    #[test]
    fn what_is_no_secret_is_refused_without_being_repeated() {
        for (text, why) in [
            ("", "JSON"),
            ("<html>canary</html>", "JSON"),
            (r#"{"apiVersion":"v1","kind":"Status","metadata":{},"message":"canary"}"#, "another object"),
            (r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"canary"}}"#, "uid"),
            (
                r#"{"apiVersion":"v1","kind":"Secret","metadata":{"uid":"u","resourceVersion":"7"},"data":{"a":"canary!"}}"#,
                "JSON",
            ),
            (
                r#"{"apiVersion":"v1","kind":"Secret","metadata":{"uid":"u","resourceVersion":"7"},"data":{"a":7}}"#,
                "JSON",
            ),
        ] {
            let refused = Secret::read(text.as_bytes()).expect_err(text);
            assert!(refused.contains(why) && !refused.contains("canary"), "{text}: {refused}");
        }
        let shown = format!("{:?}", with_data(r#"{"a":"Y2FuYXJ5"}"#));
        assert!(!shown.contains("canary") && !shown.contains("Y2Fu"), "{shown}");
    }

    #[test]
    fn an_entry_without_a_value_is_an_empty_one() {
        let record = with_data(r#"{"a":"","b":null}"#).into_record();
        let values: Vec<_> = record.entries.iter().map(|(name, value)| (name, value.len())).collect();
        assert_eq!(values, [("a", 0), ("b", 0)]);
        assert!(record.entries.how_unencoded().is_some_and(|how| how.contains("stringData")));
        assert!(with_data("{}").is_empty() && with_data("null").is_empty());
        assert!(!with_data(r#"{"a":""}"#).is_empty());
    }
}
