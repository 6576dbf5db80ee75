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
    &LAB_PRESET,
    &EXPOSED,
    &PROVIDER_NOT_CONFIGURED,
    &ADMIN_NO_TOKENS,
    &ADMIN_TOKEN_IN_CLEAR,
    &ADMIN_TOKEN_NAME_TAKEN,
    &ADMIN_PLAINTEXT,
    &ADMIN_PLAINTEXT_DECLARED,
    &ADMIN_TOKEN_EXPIRED,
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
pub(crate) static LAB_PRESET: Code = Code::refused(
    "config.lab_preset",
    "The times of a laboratory are set for an issuer that others rely on.",
    "Remove rotation.preset; or say --yes where every relying party is one of a test.",
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
pub(crate) static ADMIN_NO_TOKENS: Code = Code::refused(
    "admin.no_tokens",
    "The admin API is to be on TCP, and nobody is named who may call it there: a port is open to every user and \
     program of the host, loopback too.",
    "Run `oneseal admin token new --name NAME --scopes mint` and put the table that it prints into the configuration; \
     or remove listen.admin_tcp.",
);
pub(crate) static ADMIN_TOKEN_IN_CLEAR: Code = Code::refused(
    "admin.token_in_clear",
    "An admin token itself stands in the configuration, where only its hash belongs.",
    "Make a new one with `oneseal admin token new`, put the table that it prints there, and give this token up: it has \
     been where it should not be. For one that nobody has seen, `printf %s \"$TOKEN\" | sha256sum` is the sha256.",
);
pub(crate) static ADMIN_TOKEN_NAME_TAKEN: Code = Code::refused(
    "admin.token_name_taken",
    "Two tokens of the admin API have one name: the audit log names who asked, and could not tell them apart.",
    "Give each a name of its own, such as ci-2 for the successor of ci: `oneseal admin token new --name ci-2 --scopes SCOPES`, or \
     change the name in its table. Both are taken until the old one's table is removed.",
);
pub(crate) static ADMIN_PLAINTEXT: Code = Code::refused(
    "admin.plaintext",
    "Admin tokens would cross the network in clear: the admin API is to be on an address that other hosts reach, \
     without TLS.",
    "Set tls.certificate and tls.private_key, or a loopback address such as 127.0.0.1:9090; where a mesh encrypts, say \
     admin.danger_plaintext = true.",
);
pub(crate) static ADMIN_PLAINTEXT_DECLARED: Code = Code::warning(
    "admin.plaintext_declared",
    "The admin API is on an address that other hosts reach, without TLS, and admin.danger_plaintext says that something \
     else encrypts.",
    "See that it does; with [tls] this program does it itself.",
);
pub(crate) static ADMIN_TOKEN_EXPIRED: Code = Code::warning(
    "admin.token_expired",
    "A token of the admin API has expired and is refused.",
    "Remove its table; if its holder still needs one, make another with `oneseal admin token new`.",
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
