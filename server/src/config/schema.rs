//! The JSON Schema of the file (draft 2020-12), for editors: `oneseal config schema`.
//!
//! It takes what the parser takes of each key by itself; what keys must be to each other only the parser knows.
//! Nothing of a table is `required`, since a variable may give what the file leaves out; of a list no variable can.

use serde::Serialize;
use serde::ser::Serializer;
use serde_json::{Value, json};

use super::admin_tokens;
use super::compound;
use super::table::{self, Default, Key, Kind, List, SECTIONS, Section};
use super::value::{
    DURATION_UNITS, MAX_AUDIENCE, MAX_HOST, MAX_LINE, MAX_NAME, MAX_SOCKET_PATH, MAX_TAG_KEY,
};
use crate::admin_token::Scope;

/// The schema, pretty-printed with a line break at the end.
pub(crate) fn schema() -> String {
    let root = Object {
        schema: Some("https://json-schema.org/draft/2020-12/schema"),
        title: Some("oneseal.toml"),
        description: "Configuration of oneseal.".to_owned(),
        kind: "object",
        properties: Ordered(SECTIONS.iter().map(of_section).chain(table::lists().map(of_list)).collect()),
        required: Vec::new(),
        additional_properties: false,
    };
    let mut text = serde_json::to_string_pretty(&root).unwrap_or_else(|error| unreachable!("{error}"));
    text.push('\n');
    text
}

fn of_section(section: &Section) -> (&'static str, Member) {
    (section.name, Member::Table(of_keys(section.doc, section.keys)))
}

fn of_list(list: &List) -> (&'static str, Member) {
    let items = of_keys(&format!("One of [[{}]].", list.name), list.keys);
    (list.name, Member::List { description: list.doc, kind: "array", items })
}

/// `required` names what no variable can give instead.
fn of_keys(doc: &str, keys: &'static [Key]) -> Object<Property> {
    let required = keys.iter().filter(|key| matches!(key.default, Default::Required(_)));
    Object {
        schema: None,
        title: None,
        description: doc.to_owned(),
        kind: "object",
        properties: Ordered(keys.iter().map(|key| (key.name(), of_key(key))).collect()),
        required: required.map(Key::name).collect(),
        additional_properties: false,
    }
}

fn of_key(key: &Key) -> Property {
    let (default, words) = match key.default {
        Default::Value(literal, why) => {
            (Some(literal.json()), format!("Default: {}. Why: {why}.", literal.toml()))
        }
        Default::Unset(what) => (None, format!("No default: {what}.")),
        Default::Required(why) => (None, format!("Required: {why}.")),
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
            json!({ "type": "array", "items": { "enum": algorithm_names() }, "minItems": 1, "uniqueItems": true })
        }
        Kind::Audiences => json!({
            "type": "array",
            "items": { "type": "string", "minLength": 1, "maxLength": MAX_AUDIENCE },
            "uniqueItems": true
        }),
        Kind::TagKeys => json!({
            "type": "array",
            "items": { "type": "string", "minLength": 1, "maxLength": MAX_TAG_KEY },
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
        Kind::Networks => json!({
            "type": "array",
            "items": { "type": "string", "pattern": "^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$" },
            "uniqueItems": true
        }),
        Kind::Algorithm => json!({ "enum": algorithm_names() }),
        Kind::KeysUrl | Kind::EndpointUrl => {
            json!({ "type": "string", "pattern": "^https?://[^#@]+$", "maxLength": MAX_LINE })
        }
        Kind::ProxyUrl => json!({ "type": "string", "pattern": "^http://[^/#@]+/?$" }),
        Kind::Name => name(),
        Kind::Names => one_or_several(&name()),
        Kind::Matches => one_or_several(&one_of(&[json!({ "type": "string" }), prefix()])),
        Kind::Conditions => {
            let scalar = json!({ "type": ["string", "number", "boolean"] });
            json!({ "type": "object", "additionalProperties": one_or_several(&one_of(&[scalar, prefix()])) })
        }
        Kind::Claims => json!({ "type": "object" }),
        Kind::Texts => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
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

fn algorithm_names() -> Vec<&'static str> {
    let names = oneseal_keystore::Algorithm::ALL.map(|algorithm| algorithm.as_str());
    names.into_iter().chain(["Ed25519"]).collect()
}

fn name() -> Value {
    json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]+$", "maxLength": compound::MAX_NAME })
}

fn prefix() -> Value {
    json!({
        "type": "object",
        "properties": { "prefix": { "type": "string", "minLength": 1 } },
        "required": ["prefix"],
        "additionalProperties": false
    })
}

fn one_of(all: &[Value]) -> Value {
    json!({ "anyOf": all })
}

/// One, or a list of at least one.
fn one_or_several(one: &Value) -> Value {
    one_of(&[one.clone(), json!({ "type": "array", "items": one, "minItems": 1 })])
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    required: Vec<&'static str>,
    #[serde(rename = "additionalProperties")]
    additional_properties: bool,
}

/// What stands at the top of the file.
#[derive(Serialize)]
#[serde(untagged)]
enum Member {
    Table(Object<Property>),
    List {
        description: &'static str,
        #[serde(rename = "type")]
        kind: &'static str,
        items: Object<Property>,
    },
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
