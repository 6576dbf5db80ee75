//! The rows of the table of findings that this crate can find in a provider and in a ring.

use oneseal_providers::ErrorKind;

use crate::findings::{Code, Exit};

/// Every code of this crate, by the file that finds it.
pub fn all() -> Vec<&'static Code> {
    [
        crate::issuer_url::CODES,
        CODES,
        crate::fleet::CODES,
        crate::material::CODES,
        &crate::rewrap::codes(),
        crate::rotation::CODES,
        crate::seal::CODES,
    ]
    .concat()
}

/// The row for a provider's failure.
pub(crate) fn of_provider_error(kind: ErrorKind) -> &'static Code {
    match kind {
        ErrorKind::NotFound => &PROVIDER_NOT_FOUND,
        ErrorKind::Denied => &PROVIDER_DENIED,
        ErrorKind::Exposed => &PROVIDER_EXPOSED,
        ErrorKind::Malformed | ErrorKind::TooLarge => &PROVIDER_MALFORMED,
        ErrorKind::Ambiguous => &PROVIDER_AMBIGUOUS,
        ErrorKind::Unprepared => &DATABASE_MIGRATION_PENDING,
        ErrorKind::Outgrown => &DATABASE_BELOW_MIN_BINARY,
        ErrorKind::Unauthenticated => &PROVIDER_UNAUTHENTICATED,
        ErrorKind::NoCredentials => &PROVIDER_NO_CREDENTIALS,
        ErrorKind::Unusable => &PROVIDER_UNUSABLE,
        ErrorKind::DatabaseUnusable => &DATABASE_UNUSABLE,
        ErrorKind::Misconfigured => &PROVIDER_MISCONFIGURED,
        ErrorKind::ReadOnly => &PROVIDER_READ_ONLY,
        ErrorKind::Unsealed => &PROVIDER_UNSEALED,
        ErrorKind::Conflict | ErrorKind::ChangeIdUsed | ErrorKind::AlreadyExists | ErrorKind::Fenced => {
            &PROVIDER_CONFLICT
        }
        // Kinds added later are first of all a provider that did not answer as hoped.
        _ => &PROVIDER_UNAVAILABLE,
    }
}

/// The rows of this file.
pub(crate) static CODES: &[&Code] = &[
    &PROVIDER_NOT_FOUND,
    &PROVIDER_DENIED,
    &PROVIDER_UNAUTHENTICATED,
    &PROVIDER_NO_CREDENTIALS,
    &PROVIDER_UNUSABLE,
    &PROVIDER_EXPOSED,
    &PROVIDER_UNAVAILABLE,
    &PROVIDER_MALFORMED,
    &PROVIDER_AMBIGUOUS,
    &PROVIDER_MISCONFIGURED,
    &DATABASE_MIGRATION_PENDING,
    &DATABASE_BELOW_MIN_BINARY,
    &DATABASE_UNUSABLE,
    &PROVIDER_UNSEALED,
    &PROVIDER_EPHEMERAL,
    &PROVIDER_IMAGE_LAYER,
    &PROVIDER_INIT_IN_IMAGE,
    &PROVIDER_WORLD_READABLE,
    &PROVIDER_REPLACEABLE,
    &PROVIDER_NEVER_UPDATES,
    &PROVIDER_NEARLY_FULL,
    &PROVIDER_COPIED,
    &PROVIDER_READ_ONLY,
    &PROVIDER_CONFLICT,
    &PROVIDER_IGNORED,
    &PROVIDER_ROTATES_IN_PLACE,
    &RING_MALFORMED,
    &RING_ENCODED,
    &RING_FORMAT,
    &RING_ISSUER_MISMATCH,
    &RING_NO_ACTIVE,
    &RING_EMERGENCY,
    &RING_TWO_ACTIVE,
    &RING_DUPLICATE_KEY,
    &RING_SEALED_WITHOUT_KEK,
    &RING_HALF_UNOPENED,
    &RING_UNPINNED,
    &RING_UNAUTHENTIC,
    &RING_ROLLED_BACK,
    &RING_ACTIVATED_UNPUBLISHED,
    &RING_NO_SIGNER,
    &RING_OTHER_TIMES,
    &FLEET_KEY_REPLACED,
    &FLEET_KID_REUSED,
    &ISSUER_ALGORITHM_UNLISTED,
    &ISSUER_NO_RS256,
    &ISSUER_ALGORITHM_WITHOUT_KEY,
];

pub(crate) static PROVIDER_NOT_FOUND: Code = Code::refused(
    "provider.not_found",
    "There is no key, or no passphrase, where the provider looks.",
    "Put there what is missing, or correct the location; the finding says how, for the place that it names. Where replicas \
     still serve the key that was there, one of them puts it back: `oneseal keys recover --from-replica NAME`.",
);
pub(crate) static PROVIDER_DENIED: Code = Code::error(
    "provider.denied",
    Exit::Denied,
    "The provider or the file system does not let this process read the key.",
    "Grant this process's identity what the finding names, on that one secret and no more.",
);
pub(crate) static PROVIDER_UNAUTHENTICATED: Code = Code::error(
    "provider.unauthenticated",
    Exit::Denied,
    "The provider does not know who asks, or there is nobody to ask as: the credentials are missing, have expired, were \
     revoked, or are another's.",
    "Renew or correct the credentials where the finding says that they come from; no right has to be granted for it.",
);
pub(crate) static PROVIDER_NO_CREDENTIALS: Code = Code::error(
    "provider.no_credentials",
    Exit::Unavailable,
    "There are no credentials to ask the provider with.",
    "Give this process credentials in one of the ways that the finding names; where that is done, let what hands them out \
     answer: oneseal asks it again.",
);
pub(crate) static PROVIDER_UNUSABLE: Code = Code::refused(
    "provider.unusable",
    "The provider answers, and in the state it is in it takes no such request, whoever asks.",
    "Do what the finding says: take back what is being deleted, make room under a limit, or correct what is refused. Never \
     make a first ring in the place of one that still can be had.",
);
pub(crate) static PROVIDER_EXPOSED: Code = Code::refused(
    "provider.exposed",
    "Others on this host may read or replace the key.",
    "chmod 0600 the file (0700 the directory) and make this process's user its owner.",
);
pub(crate) static PROVIDER_UNAVAILABLE: Code = Code::error(
    "provider.unavailable",
    Exit::Unavailable,
    "The provider does not answer.",
    "Let it run and be reached from here, as the cause says; oneseal waits for it, and never makes another key instead.",
);
pub(crate) static PROVIDER_MALFORMED: Code = Code::refused(
    "provider.malformed",
    "What rests there is not a readable record.",
    "Put it there again from where it was made: mend the template or mount that left this, restore a database's row from \
     its backup; a replica that still serves puts it back as well (`oneseal keys recover --from-replica NAME`). A key is never \
     repaired by guessing.",
);
pub(crate) static PROVIDER_AMBIGUOUS: Code = Code::refused(
    "provider.ambiguous",
    "Several fleets have their rings in the database, and none of them was named.",
    "Name the fleet: by `?fleet=NAME` in the database's URL, by ring.fleet, or by issuer.url in the configuration, from \
     which its name follows.",
);
/// Found by a server as well, which uses the database for its registry.
pub static DATABASE_UNUSABLE: Code = Code::refused(
    "database.unusable",
    "There is no such database, a pooler in between is set up so that transactions cannot work, or the event log in it \
     does not hold together.",
    "Create the database; set the pooler's pool_mode to transaction or session; a log is mended as docs/events.md says \
     under \"A log that is broken\".",
);
/// Found by a server as well, which looks at the tables of its registry.
pub static DATABASE_MIGRATION_PENDING: Code = Code::refused(
    "database.migration_pending",
    "The database lacks tables or columns that this version of oneseal needs.",
    "Run `oneseal db migrate` with this version and the URL of the tables' owner, who may create them; older replicas that \
     still run are not disturbed.",
);
/// Found by a server as well, which looks at the tables of its registry.
pub static DATABASE_BELOW_MIN_BINARY: Code = Code::refused(
    "database.below_min_binary",
    "The tables have been migrated to a form that this version of oneseal does not understand any more.",
    "Run the version that the message names, or a newer one.",
);
pub(crate) static PROVIDER_UNSEALED: Code = Code::refused(
    "provider.unsealed",
    "A private half in plain text would go into a store that takes sealed ones alone.",
    "Configure `[kek]`, so that what is written is sealed; a ring that is in plain text elsewhere is sealed by `oneseal \
     keys rewrap --from-unsealed`.",
);
pub(crate) static PROVIDER_MISCONFIGURED: Code = Code::refused(
    "provider.misconfigured",
    "The way to the provider is set up so that it cannot be gone, and waiting mends nothing.",
    "Correct what the finding names: the configuration of oneseal, the environment (such as AWS_REGION), the kubeconfig or \
     the pod's spec.",
);
pub(crate) static PROVIDER_EPHEMERAL: Code = Code::refused(
    "provider.ephemeral",
    "The key would not outlive a restart of this host or pod.",
    "Keep it on a durable volume or in a Secret; `provider.durable = true` if something outside puts it there.",
);
pub(crate) static PROVIDER_IMAGE_LAYER: Code = Code::warning(
    "provider.image_layer",
    "The key lies in a container's own layer and goes with the container.",
    "Mount it from a volume or a Secret; `provider.durable = true` says that you know.",
);
pub(crate) static PROVIDER_INIT_IN_IMAGE: Code = Code::refused(
    "provider.init_in_image",
    "A new key would be written into a container's own layer, and be lost with the container.",
    "Mount a volume there; `provider.durable = true` says that the place outlives the container.",
);
pub(crate) static PROVIDER_WORLD_READABLE: Code = Code::warning(
    "provider.world_readable",
    "Every user in the container may read the mounted key.",
    "Set `defaultMode: 0440` on the volume and `fsGroup` on the pod.",
);
pub(crate) static PROVIDER_REPLACEABLE: Code = Code::warning(
    "provider.replaceable",
    "Anyone on this host may put another key in this one's place.",
    "chmod o-w the directory, or keep the key in one of its own with mode 0700.",
);
pub(crate) static PROVIDER_NEVER_UPDATES: Code = Code::warning(
    "provider.never_updates",
    "The key's file is mounted by itself, so one that takes its place later is never seen here.",
    "Mount its directory and name the file in it; in a pod, mount the volume without `subPath`.",
);
pub(crate) static PROVIDER_NEARLY_FULL: Code = Code::warning(
    "provider.nearly_full",
    "The record takes up more than three quarters of what its place holds; a larger one is not written.",
    "Retire keys that nobody needs, or `oneseal migrate` to a place that holds more: AWS takes 64 KiB, a Secret 1 MiB.",
);
pub(crate) static PROVIDER_COPIED: Code = Code::warning(
    "provider.copied",
    "A second copy of the key lies beside it, where `kubectl apply` has left what it was given: a private half that is erased \
     in the ring is not erased there, and the next `apply` puts the old ring back.",
    "Take the copy away (`kubectl annotate secret NAME kubectl.kubernetes.io/last-applied-configuration-`), and make the \
     Secret with `kubectl create` from now on.",
);
pub(crate) static PROVIDER_READ_ONLY: Code = Code::refused(
    "provider.read_only",
    "This provider cannot be written.",
    "Name a provider that can, such as file:PATH.",
);
pub(crate) static PROVIDER_CONFLICT: Code = Code::error(
    "provider.conflict",
    Exit::TryLater,
    "Somebody else changed the record at the same time.",
    "Look at what is there now, then decide again.",
);
pub(crate) static PROVIDER_IGNORED: Code = Code::info(
    "provider.ignored_entry",
    "An entry is no signing key and was left aside.",
    "Nothing, if it is not meant to be one; else name it current, next or previous, with .pem, .der or .jwk.",
);
pub(crate) static PROVIDER_ROTATES_IN_PLACE: Code = Code::warning(
    "provider.rotates_in_place",
    "The key lies where cert-manager puts it, which renews `tls.key` in place with another key unless told not to: \
     tokens then break until every relying party has fetched the new one.",
    "Set `privateKey.rotationPolicy: Never` in the Certificate, or keep the key in a Secret that nothing renews; a \
     new key is added as `next` first.",
);
pub(crate) static RING_MALFORMED: Code = Code::refused(
    "ring.malformed",
    "The ring document breaks its own rules.",
    "Restore the last good revision, by `oneseal keys recover --from-replica NAME` where a replica still serves it; nothing of a \
     malformed one is used. Where no ring was ever served, take the entry away: a first one is made by `oneseal keys \
     init`.",
);
pub(crate) static RING_ENCODED: Code = Code::refused(
    "ring.encoded",
    "The ring document stands there in base64: encoded by hand, and once more where the store encodes every value itself, as \
     a Kubernetes Secret does.",
    "Decode it (`base64 -d`) and store the document as it is; the finding says how, where the store encodes by itself.",
);
pub(crate) static RING_FORMAT: Code = Code::refused(
    "ring.format",
    "The ring document is of a format or JWKS writer that this version does not know.",
    "Run the version of oneseal that wrote it, or a newer one.",
);
pub(crate) static RING_ISSUER_MISMATCH: Code = Code::refused(
    "ring.issuer_mismatch",
    "The ring belongs to another issuer.",
    "Set issuer.url to the ring's issuer, byte for byte, or point the provider at this issuer's ring: in a database that \
     others share, by a ring.fleet of its own, or ?fleet=NAME in the provider's URL. If no token was ever minted with a \
     ring in a file, move it away and run `keys init` again.",
);
pub(crate) static RING_NO_ACTIVE: Code = Code::refused(
    "ring.no_active",
    "No key is active, so nothing could be signed.",
    "Name the signing key `current`, or activate a pending one.",
);
pub(crate) static RING_EMERGENCY: Code = Code::warning(
    "ring.emergency",
    "The keys that signed have been revoked and their successors are not active yet: the key set is published, and \
     minting answers 503.",
    "Run `oneseal keys activate`, which `keys revoke` does by itself unless it is told not to.",
);
pub(crate) static RING_TWO_ACTIVE: Code = Code::refused(
    "ring.two_active",
    "Two keys of one algorithm are active: which signs would depend on chance.",
    "Leave one `current` for each algorithm; call the others `next` or `previous`.",
);
pub(crate) static RING_DUPLICATE_KEY: Code = Code::refused(
    "ring.duplicate_key",
    "A key or kid occurs twice, or had been retired: a kid is never used again.",
    "Remove the copy; make a new key instead of bringing one back.",
);
pub(crate) static RING_SEALED_WITHOUT_KEK: Code = Code::refused(
    "ring.sealed_without_kek",
    "A private half is sealed under a key-encryption key that this process has not.",
    "Give this process the KEK that the finding names, as [kek] or among kek.previous; `ring.mode = \"public-only\"` \
     serves the documents without one.",
);
pub(crate) static RING_HALF_UNOPENED: Code = Code::warning(
    "ring.half_unopened",
    "A private half is sealed under a key-encryption key that this replica has not: its key is published, and this \
     replica could not sign with it after a restart.",
    "Give this replica the KEK that the finding names, as [kek] or among kek.previous, before it restarts.",
);
pub(crate) static RING_UNPINNED: Code = Code::refused(
    "ring.unpinned",
    "The ring is sealed, and a replica that opens nothing cannot tell whether it is the fleet's.",
    "Set ring.pin to the ring key's thumbprint, which `keys init` printed and `keys list` shows where the KEK is.",
);
pub(crate) static RING_UNAUTHENTIC: Code = Code::refused(
    "ring.unauthentic",
    "Nobody vouches for the ring: it is not signed by the ring key that is believed here, a half was tampered with, its \
     log was altered, or it is not sealed although [kek] or ring.pin is set.",
    "Where a pin is named, compare ring.pin first with the ring key that `keys list` shows where the KEK is. Else restore \
     the last good revision and find out who wrote this one; a ring of your own that was never sealed is sealed once by \
     `keys rewrap --from-unsealed`.",
);
pub(crate) static RING_ROLLED_BACK: Code = Code::refused(
    "ring.rolled_back",
    "The ring is older than, or another than, the one this replica has served.",
    "Have a replica that still serves the newer revision write it back: `oneseal keys recover --from-replica NAME`. Where none \
     does any more, put it there from a backup that has it; where it is lost for good, stop every replica, forget those that stay silent (`oneseal replicas forget --direct`), and start them anew: they take what the store holds, and tokens of \
     keys that only the newer one had are refused.",
);
pub(crate) static RING_ACTIVATED_UNPUBLISHED: Code = Code::warning(
    "ring.activated_unpublished",
    "A new `current` key appeared that relying parties have not been able to fetch; the old one signs on for now.",
    "Next time add the key as `next` first, wait for the caches, then swap `current` and `previous`.",
);
pub(crate) static RING_NO_SIGNER: Code = Code::refused(
    "ring.no_signer",
    "An active key has no private half here, so it cannot sign.",
    "Give this replica the private half.",
);
pub(crate) static RING_OTHER_TIMES: Code = Code::warning(
    "ring.other_times",
    "The ring brings its own times, and those of [rotation] are not in force.",
    "Raise rotation.generation above the ring's, and the next key verb writes them into it; or take them out of \
     [rotation].",
);
pub(crate) static FLEET_KEY_REPLACED: Code = Code::refused(
    "fleet.key_replaced",
    "The key set shares no key with the one being served: every token in use would break at once.",
    "Put the old key beside the new one (`previous`), or start once with --allow-key-replacement.",
);
/// Found by the start of a server as well, which asks the issuer what it serves.
pub static FLEET_KID_REUSED: Code = Code::refused(
    "fleet.kid_reused",
    "A kid now names another key than before.",
    "Give the new key its own kid: its thumbprint, which is the default.",
);
pub(crate) static ISSUER_ALGORITHM_UNLISTED: Code = Code::refused(
    "issuer.algorithm_unlisted",
    "A published key is of an algorithm that discovery does not name.",
    "Add the algorithm to issuer.algorithms and give relying parties a day to read it.",
);
pub(crate) static ISSUER_NO_RS256: Code = Code::warning(
    "issuer.no_rs256",
    "RS256 is not among issuer.algorithms; Entra, PyPI and many libraries accept nothing else.",
    "Add RS256 and a key for it, unless you know each of your relying parties.",
);
pub(crate) static ISSUER_ALGORITHM_WITHOUT_KEY: Code = Code::warning(
    "issuer.algorithm_without_key",
    "Discovery names an algorithm for which no key is active.",
    "Add a key of that algorithm, activate the one that waits, or take it out of issuer.algorithms.",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_that_is_no_database_is_never_told_to_mend_one() {
        for (kind, name, exit) in [
            (ErrorKind::Denied, "provider.denied", Exit::Denied),
            (ErrorKind::Unauthenticated, "provider.unauthenticated", Exit::Denied),
            (ErrorKind::NoCredentials, "provider.no_credentials", Exit::Unavailable),
            (ErrorKind::Unusable, "provider.unusable", Exit::Refused),
            (ErrorKind::Misconfigured, "provider.misconfigured", Exit::Refused),
            (ErrorKind::Unavailable, "provider.unavailable", Exit::Unavailable),
        ] {
            let code = of_provider_error(kind);
            assert_eq!((code.name, code.exit), (name, exit), "{kind:?}");
            assert!(!code.cure.contains("database"), "{kind:?}: {}", code.cure);
        }
        assert_eq!(of_provider_error(ErrorKind::DatabaseUnusable).name, "database.unusable");
    }
}
