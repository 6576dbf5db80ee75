//! The rows of the table of findings that configuration can cause.

use oneseal_keystore::findings::Code;

/// The rows of this room.
pub(crate) static CODES: &[&Code] = &[
    &UNKNOWN_KEY,
    &NOT_AVAILABLE,
    &BAD_VALUE,
    &SYNTAX,
    &MISSING,
    &CONFLICT,
    &NOT_FOUND,
    &UNREADABLE,
    &TOO_MANY,
    &IGNORED_VARIABLE,
    &NO_EFFECT,
    &EXPOSED,
    &PROVIDER_NOT_CONFIGURED,
];

pub(crate) static UNKNOWN_KEY: Code = Code::refused(
    "config.unknown_key",
    "There is no such key: a mistyped one must not pass for its default.",
    "Correct or remove it; `oneseal config init` lists every key.",
);
pub(crate) static NOT_AVAILABLE: Code = Code::refused(
    "config.not_available",
    "This version of oneseal does not have this setting.",
    "Remove it, or run a version that has it.",
);
pub(crate) static BAD_VALUE: Code = Code::refused(
    "config.bad_value",
    "The value is not one that this key takes.",
    "Write a value of the named kind.",
);
pub(crate) static SYNTAX: Code = Code::refused(
    "config.syntax",
    "The file is not TOML.",
    "Correct the named place; nothing of the file was used.",
);
pub(crate) static MISSING: Code = Code::refused(
    "config.missing",
    "A setting that nobody can default is missing.",
    "Set it in the file (`oneseal config init` writes one with every key explained), by its flag or its variable.",
);
pub(crate) static CONFLICT: Code =
    Code::refused("config.conflict", "Two settings exclude each other.", "Keep one of the two.");
pub(crate) static NOT_FOUND: Code = Code::refused(
    "config.not_found",
    "The configuration file that was named does not exist.",
    "Correct --config or ONESEAL_CONFIG, or write the file with `oneseal config init`.",
);
pub(crate) static UNREADABLE: Code =
    Code::refused("config.unreadable", "A file cannot be read.", "Make it a readable file of ordinary size.");
pub(crate) static TOO_MANY: Code = Code::refused(
    "config.too_many",
    "There are more mistakes than a report can show.",
    "Correct those that are shown, then look again.",
);
pub(crate) static IGNORED_VARIABLE: Code = Code::warning(
    "config.ignored_variable",
    "An environment variable looks like one of ours and is not.",
    "Rename it if it is meant for oneseal; else nothing.",
);
pub(crate) static NO_EFFECT: Code = Code::warning(
    "config.no_effect",
    "A setting has no effect beside the others.",
    "Remove it, or set what it needs.",
);
pub(crate) static EXPOSED: Code = Code::warning(
    "config.exposed",
    "Every user of this host may read a secret that stands in the configuration file.",
    "chmod 0600 the file, or give the secret by its ..._FILE variable.",
);
pub(crate) static PROVIDER_NOT_CONFIGURED: Code = Code::refused(
    "provider.not_configured",
    "An issuer is configured and no place for its signing key: oneseal never makes up a key of its own.",
    "Set [provider] kind and that kind's key, or provider.uri.",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_over_both_crates_and_every_row_has_a_cure() {
        let mut names = std::collections::BTreeSet::new();
        for code in CODES.iter().copied().chain(oneseal_keystore::all_codes()) {
            assert!(names.insert(code.name), "{} stands there twice", code.name);
            assert!(!code.meaning.is_empty() && !code.cure.is_empty(), "{}", code.name);
        }
    }

    #[test]
    fn every_refusal_exits_with_78() {
        for code in CODES {
            assert_eq!(code.exit.code(), 78, "{}", code.name);
        }
    }
}
