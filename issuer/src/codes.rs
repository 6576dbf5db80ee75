//! The rows of the table of findings that building an issuer can add to those of the keystore.

use oneseal_keystore::findings::Code;

/// Every code that [`Builder::build`](crate::Builder::build) can report, the keystore's included.
pub fn all_codes() -> Vec<&'static Code> {
    #[cfg(feature = "proofs")]
    let of_proofs = crate::proofs::kubernetes::CODES;
    #[cfg(not(feature = "proofs"))]
    let of_proofs = &[];
    [&oneseal_keystore::all_codes(), CODES, of_proofs].concat()
}

static CODES: &[&Code] = &[
    &ALGORITHMS_EMPTY,
    &ALGORITHM_TWICE,
    &SIGNING_THREADS,
    &RULE_MALFORMED,
    &RULE_OWN_AUDIENCE,
    &RULE_UNREACHABLE,
    &RULE_TTL_CLAMPED,
    &RULE_ALGORITHM_UNLISTED,
    &RULE_NONE,
];

pub(crate) static ALGORITHMS_EMPTY: Code = Code::refused(
    "config.algorithms_empty",
    "No algorithm is named, so no token could be signed.",
    "Name at least one in issuer.algorithms, or leave it out for RS256.",
);
pub(crate) static ALGORITHM_TWICE: Code = Code::refused(
    "config.algorithm_twice",
    "An algorithm is named twice.",
    "Name each algorithm once, the default one first.",
);
pub(crate) static SIGNING_THREADS: Code = Code::refused(
    "config.signing_threads",
    "The threads that sign with RSA cannot be started.",
    "Ask for 1 to 256 signing threads, and see that the process may start that many.",
);
pub(crate) static RULE_MALFORMED: Code = Code::refused(
    "rule.malformed",
    "A rule names an audience or a life that no token can have.",
    "Correct the named value.",
);
pub(crate) static RULE_OWN_AUDIENCE: Code = Code::refused(
    "rule.own_audience",
    "A rule would let tokens be minted for the issuer itself: our token must not be our proof.",
    "Name the relying party that the token is for.",
);
pub(crate) static RULE_UNREACHABLE: Code = Code::warning(
    "rule.unreachable",
    "An earlier rule for the same audience decides, so this one never does.",
    "Remove one of the two, or put the intended one first.",
);
pub(crate) static RULE_TTL_CLAMPED: Code = Code::warning(
    "rule.ttl_clamped",
    "A rule allows a longer life than the ring does; tokens get the ring's limit.",
    "Lower the rule's life, or raise max_token_ttl in the rotation settings.",
);
pub(crate) static RULE_ALGORITHM_UNLISTED: Code = Code::refused(
    "rule.algorithm_unlisted",
    "A rule names an algorithm that discovery does not.",
    "Add it to issuer.algorithms, or name another in the rule.",
);
pub(crate) static RULE_NONE: Code = Code::info(
    "rule.none",
    "No rule allows anything, so nothing can be minted here; documents are served.",
    "Set admin.mint = true and admin.mint_audiences = [\"AUDIENCE\"] if this process is meant to mint; in the library, \
     Builder::allow.",
);
