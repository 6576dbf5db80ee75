//! The files in `docs/` are what the table renders. `TEST_BLESS=1 cargo test -p oneseal-server` writes them anew.

use std::fs;
use std::path::Path;

use super::super::table::{self, Default};
use super::super::{Config, commented, docs, schema};
use super::Case;

fn golden(name: &str, rendered: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    if std::env::var_os("TEST_BLESS").is_some() {
        fs::write(&path, rendered).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == rendered, "docs/{name} is not what the table renders; look at it with TEST_BLESS=1");
}

#[test]
fn the_page_is_of_the_table() {
    golden("configuration.md", &docs());
}

#[test]
fn the_schema_is_of_the_table() {
    golden("configuration.schema.json", &schema());
}

#[test]
fn the_commented_file_is_of_the_table() {
    golden("oneseal.toml", &commented());
}

#[test]
fn the_commented_file_says_what_holds_anyway() {
    let load = |text: &str| {
        let case = Case::file(text);
        let (config, warnings) = case.load();
        assert_eq!(warnings, [] as [&str; 0]);
        format!("{:?}", (config.issuer, config.provider, config.settings.listen, config.settings.process))
            + &format!("{:?}", (config.settings.admin, config.settings.rotation, config.settings.algorithms))
    };
    let text = commented();
    let set = |line: &str| match line.strip_prefix('#') {
        Some(key) if key.starts_with(|c: char| c.is_ascii_lowercase()) => key.to_owned(),
        _ => line.to_owned(),
    };
    let uncommented: String = text.lines().map(|line| set(line) + "\n").collect();
    assert_eq!(load(&text), load(&uncommented));
    let gathered = Case::file(&uncommented).sources().gather();
    for key in table::keys().filter(|key| matches!(key.default, Default::Value(..))) {
        let set = gathered.values.find(key.path).unwrap();
        assert!(set.origin.to_string().contains("oneseal.toml:"), "{} is not in the file", key.path);
    }
}

#[test]
fn what_explain_prints_says_the_same_again() {
    let case = Case::file(commented());
    let (config, _) = case.load();
    let printed = config.settings.effective.to_string();
    let again = Case::file(&printed);
    let (same, _) = Config::load(again.sources()).unwrap();
    assert_eq!(format!("{:?}", same.provider), format!("{:?}", config.provider));
    assert_eq!(same.settings.rotation, config.settings.rotation);
    assert_eq!(printed.lines().count(), same.settings.effective.to_string().lines().count());
}

#[test]
fn the_schema_has_every_key_with_its_default_and_no_other() {
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    let sections = schema["properties"].as_object().unwrap();
    let mut count = 0;
    for (section, object) in sections {
        let object = if object["type"] == "array" { &object["items"] } else { object };
        assert_eq!(object["additionalProperties"], false);
        for (name, property) in object["properties"].as_object().unwrap() {
            let path = format!("{section}.{name}");
            let mut of_lists = table::lists().flat_map(|list| list.keys);
            let key = table::find(&path).or_else(|| of_lists.find(|key| key.path == path)).unwrap();
            if let Default::Value(literal, _) = key.default {
                assert_eq!(property["default"], literal.json());
            }
            count += 1;
        }
    }
    assert_eq!(count, table::keys().count() + table::lists().flat_map(|list| list.keys).count());
}
