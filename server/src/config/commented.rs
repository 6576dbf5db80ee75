//! The commented file: `oneseal config init`.
//!
//! Only what nobody can default is set in it, with an example to be replaced; every other key stands there with its
//! default behind a `#`. A `#` with a space begins prose, one without a space begins a key: so a test can take all of
//! the latter away and see that nothing changes.

use super::table::{self, Default, Key, List, SECTIONS};

/// The file, whole.
pub(crate) fn commented() -> String {
    let mut text = String::new();
    prose(&mut text, HEAD);
    for section in SECTIONS {
        text.push('\n');
        prose(&mut text, section.doc);
        text.push_str(&format!("[{}]\n", section.name));
        for key in section.keys {
            key_lines(&mut text, key);
        }
    }
    for list in table::lists() {
        text.push('\n');
        list_lines(&mut text, list);
    }
    text
}

/// One table as an example. Its required keys are in it; the others stand behind a second `#`.
fn list_lines(text: &mut String, list: &List) {
    prose(
        text,
        &format!(
            "{} There may be any number of these; none is there unless it is written. For example:",
            list.doc
        ),
    );
    text.push_str(&format!("#   [[{}]]\n", list.name));
    for key in list.keys {
        let (name, example) = (key.name(), key.example.toml());
        text.push_str("#\n");
        let line = match key.default {
            Default::Required(why) => {
                prose(text, &format!("{} Required: {why}.", key.doc));
                format!("{name} = {example}")
            }
            Default::Value(literal, why) => {
                prose(text, &format!("{} Why this default: {why}.", key.doc));
                format!("#{name} = {}", literal.toml())
            }
            Default::Unset(what) => {
                prose(text, &format!("{} No default: {what}.", key.doc));
                format!("#{name} = {example}")
            }
        };
        text.push_str(&format!("#   {line}\n"));
    }
}

fn key_lines(text: &mut String, key: &Key) {
    text.push('\n');
    let name = key.name();
    let example = key.example.toml();
    match key.default {
        Default::Value(literal, why) => {
            prose(text, &format!("{} Why this default: {why}.", key.doc));
            text.push_str(&format!("#{name} = {}\n", literal.toml()));
        }
        Default::Unset(what) if SET.contains(&key.path) => {
            prose(text, &format!("{} No default: {what}.", key.doc));
            text.push_str(&format!("{name} = {example}\n"));
        }
        Default::Unset(what) | Default::Required(what) => {
            prose(text, &format!("{} No default: {what}. For example:", key.doc));
            text.push_str(&format!("#   {name} = {example}\n"));
        }
    }
}

/// Adds comment lines of at most [`WIDTH`] characters; an empty line of `words` stays one.
fn prose(text: &mut String, words: &str) {
    for paragraph in words.lines() {
        let mut line = "#".to_owned();
        for word in paragraph.split_whitespace() {
            if line.chars().count() + 1 + word.chars().count() > WIDTH {
                text.push_str(&format!("{line}\n"));
                line = "#".to_owned();
            }
            line.push(' ');
            line.push_str(word);
        }
        text.push_str(&format!("{line}\n"));
    }
}

/// Keys without which a server does not start.
const SET: [&str; 3] = ["issuer.url", "provider.kind", "provider.path"];
const WIDTH: usize = 100;
const HEAD: &str = "\
Configuration of oneseal, with every key and its default.

Replace issuer.url and [provider]; the rest may stay as it is. To set a key, remove its #.
A variable is stronger than this file: ONESEAL__ISSUER__URL sets url of [issuer], and so on.
`oneseal check` reports all mistakes at once, `oneseal check --explain` what holds and why.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_short_and_words_stay_whole() {
        let mut text = String::new();
        prose(&mut text, &"word ".repeat(50));
        assert!(text.lines().all(|line| line.len() <= WIDTH && line.starts_with("# word")));
        assert_eq!(text.matches("word").count(), 50);
        assert!(commented().lines().all(|line| line.chars().count() <= 110));
    }
}
