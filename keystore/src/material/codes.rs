//! What each refusal of a key means, and its cure: the rows of this module in the table of findings.

use crate::findings::Code;

/// The codes of this module.
pub static CODES: &[&Code] = &[
    &EMPTY,
    &UNRECOGNISED,
    &UNSUPPORTED_FORM,
    &ENCODED_TWICE,
    &JSON_MEMBERS,
    &MALFORMED_PEM,
    &MALFORMED_DER,
    &MALFORMED_JSON,
    &MALFORMED_JWK,
    &PUBLIC_ONLY,
    &CERTIFICATE_ONLY,
    &SYMMETRIC,
    &TWO_PRIVATE_KEYS,
    &ENCRYPTED,
    &WRONG_PASSPHRASE,
    &PASSPHRASE_EMPTY,
    &PASSPHRASE_UNUSED,
    &ENCRYPTION_UNSUPPORTED,
    &ENCRYPTION_COST,
    &NO_MEMBER,
    &UNKNOWN_TYPE,
    &UNKNOWN_CURVE,
    &NOT_FOR_SIGNING,
    &UNKNOWN_ALGORITHM,
    &ALGORITHM_UNFIT,
    &RSA_TOO_SMALL,
    &RSA_TOO_LARGE,
    &RSA_LARGE,
    &RSA_EXPONENT,
    &RSA_MULTI_PRIME,
    &RSA_EQUAL_PRIMES,
    &RSA_INCONSISTENT,
    &RSA_SMALL_FACTOR,
    &RSA_LOPSIDED,
    &RSA_CLOSE_PRIMES,
    &RSA_ROCA,
    &RSA_PATTERN,
    &RSA_PRIME_MODULUS,
    &RSA_SMALL_PRIVATE_EXPONENT,
    &LEAKED,
    &SCALAR_OUT_OF_RANGE,
    &NOT_ON_CURVE,
    &MISMATCH,
    &PROBE,
    &GENERATE_SIZE,
    &GENERATE,
];

pub(super) static EMPTY: Code = Code::refused(
    "key.empty",
    "The place where the key should be holds nothing.",
    "Put the private key there; for a new issuer make one with `oneseal keys init`. A template or a mount that \
     failed leaves an empty file too.",
);
pub(super) static UNRECOGNISED: Code = Code::refused(
    "key.unrecognised",
    "The value is no private key in any form that is read.",
    "Give a private key as PEM (PKCS#8, PKCS#1, SEC1), DER, JWK or JWKS, or base64 of one of these.",
);
pub(super) static UNSUPPORTED_FORM: Code = Code::refused(
    "key.unsupported_form",
    "The value holds a key in a form that is not read (OpenSSH, PKCS#12).",
    "Convert it to PKCS#8: `ssh-keygen -p -m PKCS8 -f KEY` on a copy of an OpenSSH key, `openssl pkcs12 -in FILE \
     -nocerts -nodes` for PKCS#12.",
);
pub(super) static ENCODED_TWICE: Code = Code::refused(
    "key.encoded_twice",
    "The value was encoded twice: base64 of base64, or base64 in a store that encodes every value itself, as a Kubernetes \
     Secret does.",
    "Decode the value once more (`base64 -d`) and store what comes out; the finding says how, where the store encodes by \
     itself.",
);
pub(super) static JSON_MEMBERS: Code = Code::refused(
    "key.json_members",
    "The value is a JSON object that is no JWK, such as a key/value secret.",
    "Name the member that holds the key: `provider.member = \"NAME\"` (`--member`); or store the key itself, not an \
     object around it.",
);
pub(super) static MALFORMED_PEM: Code = Code::refused(
    "key.malformed_pem",
    "A PEM block is cut off or its text is damaged.",
    "Copy the file again, whole, from `-----BEGIN` to `-----END …-----`; in an environment variable write each \
     newline as `\\n`, or give the file's base64.",
);
pub(super) static MALFORMED_DER: Code = Code::refused(
    "key.malformed_der",
    "The binary structure inside the key is cut off or damaged.",
    "Copy the key again and check it with `openssl pkey -in KEY -check -noout`.",
);
pub(super) static MALFORMED_JSON: Code = Code::refused(
    "key.malformed_json",
    "The value begins like JSON and is none, or an object holds a member twice.",
    "Write the JWK or JWKS again as one JSON object (RFC 7517).",
);
pub(super) static MALFORMED_JWK: Code = Code::refused(
    "key.malformed_jwk",
    "A member of the JWK is missing, of the wrong type, or not in canonical unpadded base64url.",
    "Export the JWK again with a tool that follows RFC 7518 section 6.",
);
pub(super) static PUBLIC_ONLY: Code = Code::refused(
    "key.public_only",
    "A public key stands where the private one must.",
    "Give the private key; its public half is derived.",
);
pub(super) static CERTIFICATE_ONLY: Code = Code::refused(
    "key.certificate_only",
    "A certificate stands where the private key must.",
    "Give the certificate's private key (`tls.key`, not `tls.crt`).",
);
pub(super) static SYMMETRIC: Code = Code::refused(
    "key.symmetric",
    "A symmetric key cannot be published, so nobody could verify with it.",
    "Use an RSA, EC (P-256, P-384) or Ed25519 key.",
);
pub(super) static TWO_PRIVATE_KEYS: Code = Code::refused(
    "key.two_private_keys",
    "Several private keys stand in one entry, and which one signs is not to be guessed.",
    "Give each key an entry of its own: `current`, `next`, `previous`.",
);
pub(crate) static ENCRYPTED: Code = Code::refused(
    "key.encrypted",
    "The private key is encrypted with a passphrase, and none is configured.",
    "Say where the passphrase rests: `provider.passphrase = \"file:PATH\"` or `\"env:NAME\"` (`--passphrase`); or \
     decrypt it into the secret store: `openssl pkcs8 -topk8 -nocrypt -in KEY -out KEY.unencrypted`.",
);
pub(crate) static WRONG_PASSPHRASE: Code = Code::refused(
    "key.wrong_passphrase",
    "The passphrase is not the one that the private key was encrypted with.",
    "Point provider.passphrase at this key's passphrase; try it with `openssl pkey -in KEY -passin file:PATH -noout`. \
     One line end at its end is dropped, blank space counts.",
);
pub(super) static PASSPHRASE_EMPTY: Code = Code::refused(
    "key.passphrase_empty",
    "The place where the passphrase should be holds nothing, or a line end alone.",
    "Put the passphrase there; for a key that is not encrypted leave provider.passphrase out.",
);
/// Found by who opens the keystore.
pub(crate) static PASSPHRASE_UNUSED: Code = Code::warning(
    "key.passphrase_unused",
    "A passphrase is configured, and no key is encrypted: whoever reads the store has the key.",
    "Encrypt the key (`openssl pkcs8 -topk8 -v2 aes-256-cbc -in KEY -out KEY.encrypted`), or leave \
     provider.passphrase out.",
);
pub(super) static ENCRYPTION_UNSUPPORTED: Code = Code::refused(
    "key.encryption_unsupported",
    "The private key is encrypted with a scheme that is old and weak (PBES1, DES, RC2, `Proc-Type: 4,ENCRYPTED`), or \
     one tool's own. PBES2 is read: PBKDF2 or scrypt, with AES.",
    "Convert it: `openssl pkcs8 -topk8 -v2 aes-256-cbc -v2prf hmacWithSHA256 -in KEY -out KEY.pem` (DES and RC2: with \
     `-provider legacy -provider default`); a key that another tool encrypted is first exported from it.",
);
pub(super) static ENCRYPTION_COST: Code = Code::refused(
    "key.encryption_cost",
    "The encrypted key, or all of one place together, names so many iterations, so much memory or so long a salt that \
     trying a passphrase could hold the process up.",
    "Encrypt it again with usual parameters: `openssl pkcs8 -topk8 -v2 aes-256-cbc -iter 600000 -in KEY -out KEY.pem`.",
);
pub(super) static NO_MEMBER: Code = Code::refused(
    "key.no_member",
    "The value has not the member that provider.member names, or that one holds no key.",
    "Set provider.member (`--member`) to the member that holds the key, or leave it out where the value is the key.",
);
pub(super) static UNKNOWN_TYPE: Code = Code::refused(
    "key.unknown_type",
    "The key is of a kind that no algorithm here signs with.",
    "Use an RSA, EC (P-256, P-384) or Ed25519 key.",
);
pub(super) static UNKNOWN_CURVE: Code = Code::refused(
    "key.unknown_curve",
    "The key is on a curve that no algorithm here signs with.",
    "Use P-256 (`openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256`), P-384 or Ed25519.",
);
pub(super) static NOT_FOR_SIGNING: Code = Code::refused(
    "key.not_for_signing",
    "The JWK's `use` is not `sig`, or its `key_ops` lacks `sign`.",
    "Use a key made for signing; a key that also decrypts should not sign tokens.",
);
pub(super) static UNKNOWN_ALGORITHM: Code = Code::refused(
    "key.unknown_algorithm",
    "The JWK's `alg` is none that is signed with here.",
    "Use RS256, RS384, RS512, PS256, ES256, ES384 or EdDSA, or leave `alg` out.",
);
pub(super) static ALGORITHM_UNFIT: Code = Code::refused(
    "key.algorithm_unfit",
    "The algorithm does not fit the kind of key.",
    "RS256, RS384, RS512 and PS256 want RSA, ES256 wants P-256, ES384 wants P-384, EdDSA wants Ed25519.",
);
pub(super) static RSA_TOO_SMALL: Code = Code::refused(
    "key.rsa_too_small",
    "An RSA key below 2048 bits can be factored by those who care to, and relying parties refuse it.",
    "Use 2048, 3072 or 4096 bits: `openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048`.",
);
pub(super) static RSA_TOO_LARGE: Code = Code::refused(
    "key.rsa_too_large",
    "An RSA key above 8192 bits is refused by relying parties and too slow to sign with.",
    "Use 2048, 3072 or 4096 bits.",
);
/// The one warning among them.
pub(super) static RSA_LARGE: Code = Code::warning(
    "key.rsa_large",
    "An RSA key above 4096 bits signs slowly, and some relying parties refuse it.",
    "Prefer 2048 or 3072 bits, or ES256 where every relying party takes it.",
);
pub(super) static RSA_EXPONENT: Code = Code::refused(
    "key.rsa_exponent",
    "The RSA public exponent is even, below 65537 or not below 2^32.",
    "Make the key with the usual exponent, 65537.",
);
pub(super) static RSA_MULTI_PRIME: Code = Code::refused(
    "key.rsa_multi_prime",
    "The RSA key has more than two primes.",
    "Make a key with two primes, as every tool does unless asked.",
);
pub(super) static RSA_EQUAL_PRIMES: Code = Code::refused(
    "key.rsa_equal_primes",
    "Both primes of the RSA key are the same, so its square root reveals it.",
    "Discard the key and the tool that made it.",
);
pub(super) static RSA_INCONSISTENT: Code = Code::refused(
    "key.rsa_inconsistent",
    "The components of the RSA key contradict each other: it is damaged, and signing with it could reveal it.",
    "Restore the key from its source; check with `openssl pkey -in KEY -check -noout`.",
);
pub(super) static RSA_SMALL_FACTOR: Code = Code::refused(
    "key.rsa_small_factor",
    "A small prime divides the RSA modulus, so that it is damaged or can be factored.",
    "Restore the key from its source; if that has the factor too, make a new key and discard the tool that made \
     this one.",
);
pub(super) static RSA_LOPSIDED: Code = Code::refused(
    "key.rsa_lopsided",
    "One prime of the RSA key is much shorter than the other, and the key as weak as the shorter one.",
    "Make a new key whose primes have half of the modulus each, as every common tool does.",
);
pub(super) static RSA_CLOSE_PRIMES: Code = Code::refused(
    "key.rsa_close_primes",
    "The primes of the RSA key are so close to each other that Fermat's method finds them at once (FIPS 186-5 \
     appendix A.1.3).",
    "Make a new key, and discard the tool that made this one.",
);
pub(super) static RSA_ROCA: Code = Code::refused(
    "key.rsa_roca",
    "The RSA modulus has the fingerprint of the Infineon library that makes factorable keys (ROCA, CVE-2017-15361).",
    "Make a new key outside the smart card, TPM or token that made this one.",
);
pub(super) static RSA_PATTERN: Code = Code::refused(
    "key.rsa_pattern",
    "The RSA modulus consists of zero octets to an extent that no random primes make; such numbers can be factored.",
    "Make a new key, and discard the tool that made this one.",
);
pub(super) static RSA_PRIME_MODULUS: Code = Code::refused(
    "key.rsa_prime_modulus",
    "The RSA modulus is a prime, so that everybody can compute the private exponent.",
    "Make a new key, and discard the tool that made this one.",
);
pub(super) static RSA_SMALL_PRIVATE_EXPONENT: Code = Code::refused(
    "key.rsa_small_private_exponent",
    "The RSA private exponent is so short that the public half reveals it (Wiener; Boneh and Durfee; FIPS 186-5 \
     appendix A.1.1).",
    "Make a new key with the usual public exponent, 65537.",
);
pub(super) static LEAKED: Code = Code::refused(
    "key.leaked",
    "The private half is published, in an RFC, a test suite or a list of broken keys: everybody can sign with it.",
    "Make a new key (`oneseal keys init`, or `openssl genpkey`). If tokens were signed with this one, revoke it at \
     once.",
);
pub(super) static SCALAR_OUT_OF_RANGE: Code = Code::refused(
    "key.scalar_out_of_range",
    "The private scalar is zero or not below the order of its curve.",
    "Discard the key; no tool makes such a one.",
);
pub(super) static NOT_ON_CURVE: Code = Code::refused(
    "key.not_on_curve",
    "The public point is not on the curve that the key names.",
    "Restore the key from its source.",
);
pub(super) static MISMATCH: Code = Code::refused(
    "key.mismatch",
    "The public half written in the key belongs to another private half.",
    "Restore the key from its source; do not mix halves by hand.",
);
pub(super) static PROBE: Code = Code::refused(
    "key.probe_failed",
    "A probe signed with the key does not verify with its own public half.",
    "Discard the key, and suspect the machine's memory or processor if it has worked before.",
);
pub(super) static GENERATE_SIZE: Code = Code::refused(
    "key.generate_size",
    "RSA keys are generated with 2048, 3072 or 4096 bits.",
    "Ask for 2048, 3072 or 4096 bits.",
);
pub(super) static GENERATE: Code = Code::refused(
    "key.generate_failed",
    "The cryptographic library could not make a key.",
    "Try again; if it stays, the system's random source is broken.",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_dotted_and_cured() {
        let mut names: Vec<_> = CODES.iter().map(|code| code.name).collect();
        assert!(names.iter().all(|name| name.starts_with("key.")));
        assert!(CODES.iter().all(|code| code.meaning.ends_with('.') && code.cure.ends_with('.')));
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
