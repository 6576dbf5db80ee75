//! Whatever is written, the reader answers.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use proptest::prelude::*;

use super::super::choose::{Need, choose};
use super::super::table;
use super::super::{Sources, environment, file, value};

/// A piece of something like our file.
fn piece() -> impl Strategy<Value = String> {
    let keys: Vec<_> = table::keys().map(|key| key.name()).collect();
    let sections: Vec<_> = table::SECTIONS.iter().map(|section| section.name).collect();
    prop_oneof![
        proptest::sample::select(keys).prop_map(|key| format!("{key} = ")),
        proptest::sample::select(sections).prop_map(|section| format!("\n[{section}]\n")),
        proptest::sample::select(vec![
            "\"",
            "'",
            "\"\"\"",
            "\n",
            "\r",
            "[",
            "]",
            "{",
            "}",
            "=",
            ".",
            "#",
            "\\u",
            "1",
            "15m",
            "true",
            "\u{feff}",
            "\0",
            "é",
            "1979-05-27",
            "0x",
            "inf",
            "file:/k",
            "https://h",
            "[[rule]]",
            "a.b.c.d = 1\n",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ]
}

proptest! {
    #[test]
    fn any_file_is_read_or_refused(pieces in proptest::collection::vec(piece(), 0..40)) {
        let text = pieces.concat();
        let parsed = file::parse(&text, "f");
        prop_assert!(parsed.is_toml || parsed.findings.has_errors());
        for finding in parsed.findings.iter() {
            prop_assert!(!finding.message.is_empty() && !finding.message.contains('\n'));
        }
    }

    #[test]
    fn any_variable_is_read_or_refused(
        name in "ONESEAL_[A-Z_a-z0-9é]{0,40}",
        tail in proptest::collection::vec(any::<u8>(), 0..4),
        value in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let name = OsString::from_vec([name.as_bytes(), &tail].concat());
        environment::read(&[(name, OsString::from_vec(value))]);
    }

    #[test]
    fn any_text_of_any_key_makes_a_configuration_or_a_finding(
        texts in proptest::collection::vec(
            (proptest::sample::select(table::keys().map(|key| key.path).collect::<Vec<_>>()), any::<String>()), 0..8
        ),
    ) {
        let sources = texts.iter().fold(Sources::new([]), |sources, (key, text)| {
            sources.flag("--flag", key, Some(text.clone()))
        });
        choose(sources.default_file("/nonexistent".into()).gather(), Need::Serve);
    }

    #[test]
    fn a_value_that_is_read_is_read_again_from_what_is_shown(
        key in proptest::sample::select(table::keys().filter(|key| !key.is_secret()).collect::<Vec<_>>()),
        text in prop_oneof![any::<String>(), "[0-9a-zA-Z:/.,\\[\\] -]{0,20}"],
    ) {
        if let Ok(read) = value::from_text(key, &text) {
            let toml = format!("v = {}", table::toml_of(&read.shown()));
            let document = toml::de::DeTable::parse(&toml).unwrap();
            let again = value::from_toml(key, document.get_ref()["v"].get_ref());
            prop_assert_eq!(again.map(|value| value.shown()).unwrap(), read.shown());
        }
    }
}
