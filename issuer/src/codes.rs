//! The rows of the table of findings that building an issuer can add to those of the keystore.

use oneseal_keystore::findings::Code;

/// Every code that [`Builder::build`](crate::Builder::build) can report, the keystore's included.
pub fn all_codes() -> Vec<&'static Code> {
    #[cfg(feature = "proofs")]
    let (of_clusters, of_assertions) = (crate::proofs::kubernetes::CODES, crate::proofs::assertion::CODES);
    #[cfg(not(feature = "proofs"))]
    let (of_clusters, of_assertions): (&[&Code], &[&Code]) = (&[], &[]);
    [&oneseal_keystore::all_codes(), CODES, of_clusters, of_assertions].concat()
}

static CODES: &[&Code] = &[
    &ALGORITHMS_EMPTY,
    &ALGORITHM_TWICE,
    &SIGNING_THREADS,
    &TOKEN_ENDPOINT,
    &RULE_MALFORMED,
    &RULE_UNKNOWN_NAME,
    &RULE_UNKNOWN_VOUCHER,
    &RULE_NAME_TAKEN,
    &RULE_TEMPLATE_AMBIGUOUS,
    &RULE_CLAIMS,
    &RULE_SESSION_TAGS,
    &RULE_SUBJECT_SHARED,
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
pub(crate) static TOKEN_ENDPOINT: Code = Code::refused(
    "config.token_endpoint",
    "Clients could not be sent to issuer.token_endpoint with a credential.",
    "Write https://HOST/PATH, without user name and fragment; http is for loopback alone.",
);
pub(crate) static RULE_MALFORMED: Code = Code::refused(
    "rule.malformed",
    "A part of a rule is none that it could be: a name, an audience, a life, a condition or a template.",
    "Correct the named part; docs/rules.md says what may stand there.",
);
pub(crate) static RULE_UNKNOWN_NAME: Code = Code::refused(
    "rule.unknown_name",
    "A condition or template asks for a fact that the proof of these workloads does not give.",
    "Name one of the facts of docs/rules.md, or a claim as claims./POINTER.",
);
pub(crate) static RULE_UNKNOWN_VOUCHER: Code = Code::refused(
    "rule.unknown_voucher",
    "A rule is for a cluster or an assertion issuer that is not configured, so nobody could vouch for its workloads.",
    "Correct the name, or configure it by [[cluster]] or [[assertion_issuer]].",
);
pub(crate) static RULE_NAME_TAKEN: Code = Code::refused(
    "rule.name_taken",
    "Two rules have one name, so an audit line would not tell which of them decided.",
    "Give each rule a name of its own.",
);
pub(crate) static RULE_TEMPLATE_AMBIGUOUS: Code = Code::refused(
    "rule.template_ambiguous",
    "Two values stand in a template so close that two different workloads could get one text.",
    "Put a character between them that no value can hold, such as : or /.",
);
pub(crate) static RULE_CLAIMS: Code = Code::refused(
    "rule.claims",
    "A rule adds a claim that no token can have, or that is the issuer's own.",
    "Rename, shorten or leave out the named claim.",
);
pub(crate) static RULE_SESSION_TAGS: Code = Code::refused(
    "rule.session_tags",
    "AWS would refuse the session tags that a rule writes.",
    "Keep within 50 tags, keys of 128 and values of 256 characters: letters, digits, space and _ . : / = + - @.",
);
pub(crate) static RULE_SUBJECT_SHARED: Code = Code::warning(
    "rule.subject_shared",
    "Workloads that different clusters or assertion issuers vouch for, or service accounts of different namespaces, can get \
     one sub, so that no relying party could tell them apart.",
    "Put {cluster}, {assertion_issuer} or {namespace} into the sub, or name the namespaces one by one, unless they are meant \
     to be one.",
);
pub(crate) static RULE_OWN_AUDIENCE: Code = Code::refused(
    "rule.own_audience",
    "A rule would let tokens be minted for the issuer itself: our token must not be our proof.",
    "Name the relying party that the token is for.",
);
pub(crate) static RULE_UNREACHABLE: Code = Code::warning(
    "rule.unreachable",
    "Whatever the rule matches an earlier one matches before, so this one never decides.",
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
    "If this process is meant to mint, give it a [[rule]], or admin.mint = true and admin.mint_audiences = \
     [\"AUDIENCE\"]; in the library, Builder::allow or Builder::rule.",
);
