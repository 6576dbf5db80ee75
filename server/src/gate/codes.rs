//! The rows of the table of findings that only asking the issuer's own URL can cause.
//!
//! `issuer.*` are those of the start: is this replica one of the fleet that serves now? `online.*` are those of
//! `check --online`: would the relying parties of the field take what is served? The numbers in them are theirs.

use oneseal_keystore::findings::{Code, Exit};

/// The rows of this room.
pub(crate) static CODES: &[&Code] = &[
    &ISSUER_UNREACHABLE,
    &ISSUER_SERVES_OTHER_KEYS,
    &ISSUER_PUBLISHES_PRIVATE_KEY,
    &CLOCK_SKEWED,
    &ONLINE_UNREACHABLE,
    &ONLINE_CERTIFICATE,
    &ONLINE_STATUS,
    &ONLINE_CREDENTIALS,
    &ONLINE_REDIRECT,
    &ONLINE_ENCODED,
    &ONLINE_NOT_AN_ISSUER,
    &ONLINE_ISSUER_DIFFERS,
    &ONLINE_JWKS_URI,
    &ONLINE_KEYS_MISSING,
    &ONLINE_KEYS_BEYOND,
    &ONLINE_PRIVATE_KEY,
    &ONLINE_ALGORITHM_MISSING,
    &ONLINE_ALGORITHM_DIFFERS,
    &ONLINE_SLOW,
    &ONLINE_TOO_LARGE,
    &ONLINE_TOO_MANY_KEYS,
    &ONLINE_CONTENT_TYPE,
    &ONLINE_NO_CACHE_CONTROL,
    &ONLINE_CACHED_LONGER,
    &ONLINE_VARIES,
    &ONLINE_COOKIE,
    &ONLINE_HEAD,
];

pub(super) static ISSUER_UNREACHABLE: Code = Code::warning(
    "issuer.unreachable",
    "The issuer's own URL did not answer as an issuer, so nobody knows whether other replicas serve other keys.",
    "Nothing, if this is the issuer's first replica; else make the URL reachable from here, name its private CA by issuer.ca_bundle, or say `check --offline` or issuer.self_check = false where it cannot be.",
);
pub(super) static ISSUER_SERVES_OTHER_KEYS: Code = Code::refused(
    "issuer.serves_other_keys",
    "The issuer's own URL serves a key set that has no key in common with this replica's: they would refuse each other's tokens.",
    "Give this replica the fleet's key; to replace the fleet's key and break every token in use, start once with --allow-key-replacement.",
);
pub(super) static ISSUER_PUBLISHES_PRIVATE_KEY: Code = Code::warning(
    "issuer.publishes_private_key",
    "The set at the issuer's own URL holds a private or symmetric key: everybody has read it, and may sign with it.",
    "At once: find who writes that set, take the key out, and hold it compromised: replace it wherever it signs.",
);
pub(crate) static CLOCK_SKEWED: Code = Code::warning(
    "clock.skewed",
    "This host's clock differs from the issuer's by more than rotation.skew, or from the database's by more than half of rotation.backdate: tokens may be refused as from the future or as expired.",
    "Let a time service set the clocks of all hosts.",
);

pub(super) static ONLINE_UNREACHABLE: Code = Code::error(
    "online.unreachable",
    Exit::Unavailable,
    "The issuer's own URL does not answer, so no relying party can read its keys.",
    "Look at DNS, firewall and proxy in front of the replicas; from inside a network that cannot reach it, ask from outside.",
);
pub(super) static ONLINE_CERTIFICATE: Code = Code::refused(
    "online.certificate",
    "The certificate at the issuer's URL does not verify: AWS, Google and Entra take public ones alone.",
    "Renew it, serve its whole chain, let it name the issuer's host; a private CA is named by issuer.ca_bundle.",
);
pub(super) static ONLINE_STATUS: Code = Code::error(
    "online.status",
    Exit::Unavailable,
    "A document at the issuer's URL is answered with a status other than 200.",
    "Route the issuer's path to the replicas' documents listener; a 5xx comes from a proxy that reaches none.",
);
pub(super) static ONLINE_CREDENTIALS: Code = Code::refused(
    "online.credentials",
    "A document at the issuer's URL wants credentials, which no relying party has.",
    "Let everybody read discovery and key set: they are public.",
);
pub(super) static ONLINE_REDIRECT: Code = Code::refused(
    "online.redirect",
    "A document at the issuer's URL is answered with a redirect, which jose, Fulcio and others do not follow.",
    "Serve both documents at the very URL; a redirect from http to https does not hurt.",
);
pub(super) static ONLINE_ENCODED: Code = Code::refused(
    "online.encoded",
    "A document comes compressed although nobody asked for that.",
    "Switch compression off for these paths in the proxy or CDN.",
);
pub(super) static ONLINE_NOT_AN_ISSUER: Code = Code::refused(
    "online.not_an_issuer",
    "What answers at the issuer's URL is no discovery document or no key set.",
    "Route the issuer's path to the replicas; an HTML page is a proxy's or a login's.",
);
pub(super) static ONLINE_ISSUER_DIFFERS: Code = Code::refused(
    "online.issuer_differs",
    "The discovery document names another issuer than issuer.url; relying parties compare them byte for byte.",
    "Set issuer.url to what relying parties have configured, on every replica.",
);
pub(super) static ONLINE_JWKS_URI: Code = Code::refused(
    "online.jwks_uri",
    "The discovery document has no jwks_uri that relying parties fetch: an absolute https URL.",
    "Serve the document as oneseal writes it.",
);
pub(super) static ONLINE_KEYS_MISSING: Code = Code::refused(
    "online.keys_missing",
    "Keys of this replica are not in the served set: tokens signed by them are refused.",
    "Wait for jwks_max_age if a key is new; else purge the cache in front, or give all replicas the same key.",
);
pub(super) static ONLINE_KEYS_BEYOND: Code = Code::warning(
    "online.keys_beyond",
    "The served set has keys that this replica has not.",
    "Wait for jwks_max_age if a key was removed; else purge the cache in front, or find the replica that has them.",
);
pub(super) static ONLINE_PRIVATE_KEY: Code = Code::refused(
    "online.private_key",
    "The served set holds a private or symmetric key, which everybody has read by now.",
    "Find who writes the set, remove the key, and hold it compromised.",
);
pub(super) static ONLINE_ALGORITHM_MISSING: Code = Code::warning(
    "online.algorithm_missing",
    "The served discovery document does not name an algorithm of issuer.algorithms; those who go by it refuse its tokens.",
    "Give every replica the same issuer.algorithms, and long-lived relying parties a day to read it.",
);
pub(super) static ONLINE_ALGORITHM_DIFFERS: Code = Code::refused(
    "online.algorithm_differs",
    "A key of this replica is served with another `alg` than it signs with here: its tokens are refused.",
    "Give every replica the same ring and issuer.algorithms, purge the cache in front, and let no proxy rewrite the set.",
);
pub(super) static ONLINE_SLOW: Code = Code::warning(
    "online.slow",
    "A document took more than 500 ms: Nimbus, as Spring uses it, gives up then; AWS, PyPI and jose wait 5 s.",
    "Put a cache in front, or bring it nearer; see whether DNS or TLS takes the time.",
);
pub(super) static ONLINE_TOO_LARGE: Code = Code::warning(
    "online.too_large",
    "A document has more than 50 KiB, which Nimbus does not read.",
    "Remove keys that have been retired, and whatever a proxy adds.",
);
pub(super) static ONLINE_TOO_MANY_KEYS: Code = Code::warning(
    "online.too_many_keys",
    "The set has more keys than some relying parties read: OCI API Gateway 10, Entra the first 100, AWS 100 of a kind.",
    "Retire keys whose tokens have expired.",
);
pub(super) static ONLINE_CONTENT_TYPE: Code = Code::warning(
    "online.content_type",
    "A document is not served as JSON, which strict clients refuse.",
    "Serve it as application/json; application/jwk-set+json will do for the key set.",
);
pub(super) static ONLINE_NO_CACHE_CONTROL: Code = Code::warning(
    "online.no_cache_control",
    "A document comes without a Cache-Control of a max-age: kube-apiserver and others then guess, or ask each time.",
    "Let the header that oneseal sends pass through the proxy, or set it on the bucket.",
);
pub(super) static ONLINE_CACHED_LONGER: Code = Code::warning(
    "online.cached_longer",
    "A document may be cached for longer than rotation.jwks_max_age says, so that a new key signs before all have seen it.",
    "Let the header that oneseal sends pass through the CDN, or raise rotation.jwks_max_age to what is served.",
);
pub(super) static ONLINE_VARIES: Code = Code::warning(
    "online.varies",
    "A document comes with Vary, so that caches keep a copy for each kind of client, each of another age.",
    "Switch off what adds it: compression, or CORS handling in the proxy; these documents are the same for all.",
);
pub(super) static ONLINE_COOKIE: Code = Code::warning(
    "online.cookie",
    "A document sets a cookie, so that shared caches do not keep it.",
    "Switch off sticky sessions and bot protection for these paths.",
);
pub(super) static ONLINE_HEAD: Code = Code::warning(
    "online.head",
    "A document is not answered to HEAD as it is to GET; health checks and some clients ask so first.",
    "Let the proxy pass HEAD through.",
);
