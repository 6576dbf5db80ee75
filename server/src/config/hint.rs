//! Words for what was mistyped: the nearest known name, and how much of the text a message may repeat.

use std::path::Path;

use crate::admin_token;

/// The candidate that `text` is most likely meant to be, or `None` if none is near.
pub(crate) fn nearest<'a>(text: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let text: String = text.chars().take(MAX_COMPARED).collect::<String>().to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| {
            (strsim::normalized_damerau_levenshtein(&text, &candidate.to_lowercase()), candidate)
        })
        .filter(|(likeness, _)| *likeness >= NEAR)
        // The first of equals wins: `max_by` would take the last.
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, candidate)| candidate)
}

/// The known key that a path is most likely meant to be: one that is spelt alike, or one of the same name in another
/// table.
pub(crate) fn nearest_key<'a>(path: &str, known: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let name = last(path);
    nearest(path, known.clone()).or_else(|| known.clone().find(|key| last(key) == name)).or_else(|| {
        nearest(name, known.clone().map(last)).and_then(|near| known.clone().find(|key| last(key) == near))
    })
}

/// A value as a message may repeat it. Whatever is long, structured or PEM-like is only described.
pub(crate) fn shown(text: &str) -> String {
    if is_harmless(text) { format!("{text:?}") } else { described(text) }
}

/// A path as a message may repeat it, whole. What does not begin like one may be a secret where its file was meant.
pub(crate) fn shown_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_path = text.starts_with(['/', '.']) && !text.contains('\n') && !is_secret(&text);
    if is_path || is_harmless(&text) { text.escape_debug().to_string() } else { described(&text) }
}

/// A name as a message may repeat it: in one line, and cut.
pub(crate) fn shown_name(name: &str) -> String {
    if is_secret(name) {
        return described(name);
    }
    let cut: String = name.chars().take(MAX_NAME_SHOWN).collect();
    let dots = if cut.len() < name.len() { "…" } else { "" };
    format!("{}{dots}", cut.escape_debug())
}

fn is_harmless(text: &str) -> bool {
    text.len() <= MAX_SHOWN && !text.contains(['\n', '{']) && !text.contains("-----") && !is_secret(text)
}

fn is_secret(text: &str) -> bool {
    oneseal_providers::looks_like_key(text) || admin_token::is_in(text)
}

fn described(text: &str) -> String {
    format!("a text of {} bytes", text.len())
}

fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Two of three letters in place: `algoritms` is near `algorithms`, `file` is not near `time`.
const NEAR: f64 = 0.67;
/// Longer names are nobody's typing mistake, and comparing costs the product of both lengths.
const MAX_COMPARED: usize = 80;
/// A 256-bit secret in base64 has 43 characters; whatever we would want to show is shorter.
const MAX_SHOWN: usize = 40;
const MAX_NAME_SHOWN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 5] =
        ["issuer.url", "issuer.algorithms", "provider.uri", "rotation.token_ttl", "listen.documents"];

    #[test]
    fn the_nearest_key_is_found_across_tables() {
        for (typed, meant) in [
            ("issuer.ulr", "issuer.url"),
            ("issuer.URL", "issuer.url"),
            ("issuer.algorithm", "issuer.algorithms"),
            ("isuer.url", "issuer.url"),
            ("token_ttl", "rotation.token_ttl"),
            ("admin.token_ttl", "rotation.token_ttl"),
            ("listeners.document", "listen.documents"),
        ] {
            assert_eq!(nearest_key(typed, KNOWN.into_iter()), Some(meant), "{typed}");
        }
        for far in ["", "x", "database", "issuer.colour", &"a".repeat(10_000)] {
            assert_eq!(nearest_key(far, KNOWN.into_iter()), None, "{far}");
        }
    }

    #[test]
    fn what_may_be_a_key_is_described_and_not_repeated() {
        assert_eq!(shown("15x"), "\"15x\"");
        for text in ["-----BEGIN PRIVATE KEY-----", "{\"kty\":\"RSA\"}", "a\nb", &"A".repeat(43)] {
            assert_eq!(shown(text), format!("a text of {} bytes", text.len()));
        }
        assert_eq!(shown_path(Path::new("oneseal.toml")), "oneseal.toml");
        assert_eq!(shown_path(Path::new(&format!("/{}", "a/".repeat(100)))).len(), 201);
        assert_eq!(shown_path(Path::new(&"A".repeat(43))), "a text of 43 bytes");
        assert_eq!(shown_name("a\u{1b}b"), "a\\u{1b}b");
        assert!(shown_name(&"é".repeat(100)).ends_with('…'));
    }
}
