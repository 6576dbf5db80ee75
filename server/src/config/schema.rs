//! The JSON Schema of the file (draft 2020-12), for editors: `oneseal config schema`.
//!
//! It takes what the parser takes of each key by itself; what keys must be to each other only the parser knows.
//! Nothing is `required`, since a variable may give what the file leaves out.

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::{Value, json};

use super::admin_tokens;
use super::table::{Default, Key, Kind, SECTIONS, Section};
use super::value::{DURATION_UNITS, MAX_AUDIENCE, MAX_HOST, MAX_LINE, MAX_NAME, MAX_SOCKET_PATH};
use crate::admin_token::Scope;

/// The schema, pretty-printed with a line break at the end.
pub(crate) fn schema() -> String {
    let root = Object {
        schema: Some("https://json-schema.org/draft/2020-12/schema"),
        title: Some("oneseal.toml"),
        description: "Configuration of oneseal.".to_owned(),
        kind: "object",
        properties: Ordered(SECTIONS.iter().map(|section| (section.name, of_section(section))).collect()),
        additional_properties: false,
    };
    let mut text = serde_json::to_string_pretty(&root).unwrap_or_else(|error| unreachable!("{error}"));
    text.push('\n');
    text
}

fn of_section(section: &Section) -> Object<Property> {
    Object {
        schema: None,
        title: None,
        description: section.doc.to_owned(),
        kind: "object",
        properties: Ordered(section.keys.iter().map(|key| (key.name(), of_key(key))).collect()),
        additional_properties: false,
    }
}

fn of_key(key: &Key) -> Property {
    let (default, words) = match key.default {
        Default::Value(literal, why) => {
            (Some(literal.json()), format!("Default: {}. Why: {why}.", literal.toml()))
        }
        Default::Unset(what) => (None, format!("No default: {what}.")),
    };
    Property {
        description: format!("{} {words}", key.doc),
        examples: [key.example.json()],
        default,
        constraints: sorted(constraints(key.kind)),
    }
}

/// In the same order in every build, whatever the features of serde_json.
fn sorted(mut value: Value) -> Value {
    value.sort_all_objects();
    value
}

/// The keywords that narrow a value down.
fn constraints(kind: Kind) -> Value {
    match kind {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Integer { most } => json!({ "type": "integer", "minimum": 0, "maximum": most }),
        Kind::Duration { .. } => {
            let units = DURATION_UNITS.join("|");
            json!({ "type": "string", "pattern": format!("^ *[0-9]+({units})( *[0-9]+({units}))* *$") })
        }
        Kind::Choice { words, .. } => json!({ "type": "string", "enum": words }),
        Kind::IssuerUrl => json!({ "type": "string", "pattern": "^https?://", "maxLength": MAX_AUDIENCE }),
        Kind::MemberName => json!({ "type": "string", "minLength": 1, "maxLength": MAX_NAME }),
        Kind::ProviderUri => {
            json!({ "type": "string", "pattern": "^(file|env|k8s|aws|postgres|postgresql):." })
        }
        Kind::PassphraseUri => json!({ "type": "string", "pattern": "^(file|env):." }),
        Kind::KekUri => json!({ "type": "string", "pattern": "^(file|env|k8s|aws):." }),
        Kind::Line { .. } => json!({ "type": "string", "minLength": 1, "maxLength": MAX_LINE }),
        Kind::ObjectName => json!({
            "type": "string",
            "pattern": "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$",
            "maxLength": MAX_HOST
        }),
        Kind::VariableName => {
            json!({ "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "maxLength": MAX_NAME })
        }
        Kind::FleetName => json!({
            "type": "string",
            "pattern": "^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$",
            "maxLength": MAX_NAME
        }),
        Kind::InstanceName => json!({ "type": "string", "pattern": "^[A-Za-z0-9._:-]{1,128}$" }),
        Kind::Advertised => json!({
            "type": "string",
            "pattern": "^(http://)?([A-Za-z0-9._-]+|\\[[0-9A-Fa-f:.]+\\])(:[0-9]{1,5})?/?$"
        }),
        Kind::Secret => json!({ "type": "string", "minLength": 1, "writeOnly": true }),
        Kind::Path => json!({ "type": "string", "minLength": 1 }),
        Kind::Address => {
            json!({ "type": "string", "pattern": "^([0-9.]+|\\[[0-9A-Fa-f:.]+(%[0-9]+)?\\]):[0-9]{1,5}$" })
        }
        Kind::Socket => {
            json!({ "type": "string", "pattern": "^(|none|.*/.*)$", "maxLength": MAX_SOCKET_PATH })
        }
        Kind::Algorithms => {
            let names = oneseal_keystore::Algorithm::ALL.map(|algorithm| algorithm.as_str());
            let names: Vec<_> = names.into_iter().chain(["Ed25519"]).collect();
            json!({ "type": "array", "items": { "enum": names }, "minItems": 1, "uniqueItems": true })
        }
        Kind::Audiences => json!({
            "type": "array",
            "items": { "type": "string", "minLength": 1, "maxLength": MAX_AUDIENCE },
            "uniqueItems": true
        }),
        Kind::KekUris => json!({
            "type": "array",
            "items": { "type": "string", "pattern": "^(file|env|k8s|aws):." },
            "uniqueItems": true,
        }),
        Kind::Hosts => json!({
            "type": "array",
            "items": { "type": "string", "pattern": "^[A-Za-z0-9._:-]+$", "maxLength": MAX_HOST },
            "uniqueItems": true
        }),
        Kind::AdminTokens => json!({
            "type": "array",
            "maxItems": admin_tokens::MAX_TOKENS,
            "items": {
                "type": "object",
                "properties": {
                    "name": { "type": "string", "pattern": "^[A-Za-z0-9_.@-]+$", "maxLength": admin_tokens::MAX_NAME },
                    "scopes": {
                        "type": "array",
                        "items": { "enum": Scope::ALL.map(Scope::as_str) },
                        "minItems": 1,
                        "uniqueItems": true
                    },
                    "sha256": { "type": "string", "pattern": "^([0-9A-Fa-f]{64}|[A-Za-z0-9_-]{43}=?)$" },
                    "expires": { "type": "string" }
                },
                "required": ["name", "scopes", "sha256"],
                "additionalProperties": false
            }
        }),
    }
}

/// A schema of an object whose members are all known.
#[derive(Serialize)]
struct Object<P: Serialize> {
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    schema: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'static str>,
    description: String,
    #[serde(rename = "type")]
    kind: &'static str,
    properties: Ordered<P>,
    #[serde(rename = "additionalProperties")]
    additional_properties: bool,
}

#[derive(Serialize)]
struct Property {
    description: String,
    #[serde(flatten)]
    constraints: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<Value>,
    examples: [Value; 1],
}

/// Members in the order of the table, whichever map serde_json is built with.
struct Ordered<V>(Vec<(&'static str, V)>);

impl<V: Serialize> Serialize for Ordered<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}
