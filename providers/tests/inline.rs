//! Environment variables and direct values, beyond what every provider does.

#![cfg(feature = "inline")]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use oneseal_providers::{Entries, EnvProvider, ErrorKind, InlineProvider, SecretProvider};
use oneseal_testing::{Canary, block_on};

#[test]
fn a_variable_is_read_from_the_environment() {
    // Cargo sets it for every test.
    let provider = EnvProvider::new("CARGO_PKG_NAME");
    let record = block_on(provider.load()).expect("cargo sets the variable");
    assert_eq!(record.entries.get(Entries::CURRENT).expect("one entry").expose(), b"oneseal-providers");
    assert_eq!(
        (provider.variable(), provider.describe().location),
        ("CARGO_PKG_NAME", "CARGO_PKG_NAME".to_owned())
    );
}

#[test]
fn an_unset_an_empty_and_a_binary_variable_are_told_apart() {
    for (value, kind, words) in [
        (None, ErrorKind::NotFound, "is not set"),
        (Some(OsString::new()), ErrorKind::NotFound, "set to nothing"),
        (Some(OsString::from_vec(vec![0xff, 0xfe])), ErrorKind::Malformed, "not UTF-8"),
    ] {
        let provider = EnvProvider::captured("SIGNING_KEY", value);
        let error = block_on(provider.load()).expect_err(words);
        assert_eq!(error.kind(), kind);
        assert_eq!(error.location(), "SIGNING_KEY");
        assert!(error.detail().contains(words), "{error}");
    }
    let unset = EnvProvider::new("A_VARIABLE_THAT_NOBODY_SETS");
    assert_eq!(block_on(unset.load()).expect_err("unset").kind(), ErrorKind::NotFound);
}

#[test]
fn a_binary_value_is_not_told() {
    let canary = Canary::random();
    let mut bytes = canary.bytes().to_vec();
    bytes.push(0xff);
    let provider = EnvProvider::captured("SIGNING_KEY", Some(OsString::from_vec(bytes)));
    let error = block_on(provider.load()).expect_err("not UTF-8");
    canary.assert_absent("provider and error", &format!("{provider:?} {error:?} {error}"));
}

#[test]
fn an_empty_or_oversized_value_is_refused() {
    let empty = block_on(InlineProvider::new("").load()).expect_err("empty");
    assert_eq!(empty.kind(), ErrorKind::Malformed);
    let huge = InlineProvider::new("x".repeat(1024 * 1024));
    assert_eq!(block_on(huge.load()).expect_err("too large").kind(), ErrorKind::Malformed);
}
