//! Reads the files of this folder.

use std::path::PathBuf;

use serde_json::Value;

/// The bytes of one file of this folder.
pub(crate) fn read(name: &str) -> Vec<u8> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors")).join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// One JSON file of this folder.
pub(crate) fn json(name: &str) -> Value {
    serde_json::from_slice(&read(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A member that is text.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no text at {pointer}"))
}

/// A member that is an array.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).unwrap_or_else(|| panic!("no array at {pointer}"))
}
