//! The rows of the table of findings that assertion issuers can cause.

use oneseal_keystore::findings::Code;

pub(crate) static CODES: &[&Code] = &[
    &ASSERTION_MALFORMED,
    &ASSERTION_ISSUER,
    &ASSERTION_OWN_ISSUER,
    &ASSERTION_KEYS,
    &ASSERTION_TWICE,
    &ASSERTION_NO_REPLAY_GUARD,
    &ASSERTION_KEYS_UNREADABLE,
];

pub(super) static ASSERTION_MALFORMED: Code = Code::refused(
    "assertion.malformed",
    "The name of an assertion issuer cannot be used.",
    "Give it a name of 1 to 64 letters, digits, dots, underscores and hyphens.",
);
pub(super) static ASSERTION_ISSUER: Code = Code::refused(
    "assertion.issuer",
    "An assertion issuer's `iss` is not an https URL without query and fragment.",
    "Give the `iss` of its assertions as it stands there; what cannot have an https URL of its own can name one that \
     leads nowhere, together with jwks_uri or jwks_file.",
);
pub(super) static ASSERTION_OWN_ISSUER: Code = Code::refused(
    "assertion.own_issuer",
    "An assertion issuer is this issuer itself, whose tokens are never taken as proof.",
    "Name the issuer that vouches for workloads.",
);
pub(super) static ASSERTION_KEYS: Code = Code::refused(
    "assertion.keys",
    "The keys of an assertion issuer cannot be read in the way that is configured.",
    "Correct what the message names; docs/assertions.md has each way.",
);
pub(super) static ASSERTION_TWICE: Code = Code::refused(
    "assertion.twice",
    "Two assertion issuers have one name, or one `iss`, so nobody could tell whose an assertion is.",
    "Give each a name and an issuer of its own; several keys of one issuer go into one JWKS.",
);
/// Assertions are to be taken, and nobody sees to it that each is used once.
pub static ASSERTION_NO_REPLAY_GUARD: Code = Code::refused(
    "assertion.no_replay_guard",
    "Assertions are to be taken, and there is no database in which all replicas see that one was used: whoever reads \
     one on its way could use it again at another replica.",
    "Set [database], and run `oneseal db migrate`; or remove [[assertion_issuer]].",
);
pub(super) static ASSERTION_KEYS_UNREADABLE: Code = Code::warning(
    "assertion.keys_unreadable",
    "The keys of an assertion issuer could not be read just now; until they can be, its assertions are answered with 503.",
    "See what stands in the way: the message says where the keys were looked for.",
);
