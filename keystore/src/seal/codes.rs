//! The rows of the table of findings about key-encryption keys.

use crate::findings::Code;

/// The rows of this file.
pub static CODES: &[&Code] = &[
    &KEK_MALFORMED,
    &KEK_WEAK,
    &KEK_PREVIOUS_NEEDED,
    &KEK_PREVIOUS_UNNEEDED,
    &KEK_WITH_RING,
    &KEK_NEAR_RING,
];

pub(super) static KEK_MALFORMED: Code = Code::refused(
    "kek.malformed",
    "What the provider of the key-encryption key holds is none: 32 random bytes, or base64, base64url, hex or a JWK \
     (`oct`) of them.",
    "Put the KEK there that the ring is sealed under; for a new ring make one with `oneseal keys new-kek`.",
);
pub(super) static KEK_WEAK: Code = Code::refused(
    "kek.weak",
    "The key-encryption key is plainly not random, and whoever guesses it can write the ring.",
    "Make one with `oneseal keys new-kek`; if the ring is sealed under this one, name it as previous and run `keys \
     rewrap --to-kek` with the URI of the new one.",
);
pub(crate) static KEK_PREVIOUS_NEEDED: Code = Code::warning(
    "kek.previous_needed",
    "Private halves are still sealed under a previous KEK: a replica without it could not sign.",
    "Keep it configured. If it is the newer of the two, as after `keys rewrap --to-kek`, make it [kek] and the other one \
     kek.previous, replica by replica; if it is the older one, seal the ring under [kek] by `oneseal keys rewrap \
     --to-kek` with its URI. `oneseal keys keks` tells which configured KEK has which id.",
);
pub(crate) static KEK_PREVIOUS_UNNEEDED: Code = Code::info(
    "kek.previous_unneeded",
    "No private half is sealed under this previous KEK any more.",
    "Take it out of kek.previous when the oldest backup that you would restore is sealed under the current one.",
);
pub(super) static KEK_WITH_RING: Code = Code::warning(
    "kek.with_ring",
    "The key-encryption key rests in the very place that holds the ring: whoever may read or write that place has both, and \
     sealing protects from nobody.",
    "Keep the KEK elsewhere: in another store, or at least in a Secret or secret of its own to which fewer have rights.",
);
pub(super) static KEK_NEAR_RING: Code = Code::info(
    "kek.near_ring",
    "The key-encryption key rests in the same Kubernetes namespace as the ring: whoever may create pods there, or read every \
     Secret of it, has both.",
    "Nothing, if nobody else has rights in that namespace; else keep the KEK in another namespace, in AWS Secrets Manager or \
     in a file.",
);
