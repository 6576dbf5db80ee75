//! Opens encrypted PKCS#8 (RFC 5958 section 3) of the scheme PBES2 (RFC 8018 section 6.2).
//!
//! What it costs to try a passphrase is written in the key itself, by whoever made it, so it is read and bounded
//! before any work is done: a hostile key must not hold a replica up, nor take its memory. The schemes before PBES2
//! rest on DES, RC2 or one round of MD5; they are named and refused, and the cure converts them.

use std::cell::Cell;

use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::asn1::{AnyRef, ObjectIdentifier};
use pkcs8::der::{Decode, Tag, Tagged};
use pkcs8::pkcs5::EncryptionScheme;
use pkcs8::pkcs5::pbes2::{Parameters, Salt};
use zeroize::Zeroizing;

use super::{KeyError, Passphrase, der};

/// A passphrase, and how much work may still be done with it: over all keys of one record, since whoever writes one
/// costly key can write many.
#[derive(Debug)]
pub(crate) struct Opener<'a> {
    passphrase: &'a Passphrase,
    /// In iterations of PBKDF2.
    left: Cell<u64>,
}

impl<'a> Opener<'a> {
    /// For one record.
    pub(crate) fn new(passphrase: &'a Passphrase) -> Self {
        Self { passphrase, left: Cell::new(MAX_RECORD_ITERATIONS) }
    }

    /// Takes a key's cost from what is left, before it is paid.
    fn spend(&self, iterations: u64) -> Result<(), KeyError> {
        let left = self.left.get().checked_sub(iterations).ok_or_else(|| {
            costly(format!(
                "together with the keys before it, more work than {MAX_RECORD_ITERATIONS} iterations of PBKDF2; so much \
                 is done for all keys of a place"
            ))
        })?;
        self.left.set(left);
        Ok(())
    }
}

/// The DER of the private key inside, in memory that is wiped.
///
/// # Errors
/// The scheme, then the cost, then the passphrase: what no passphrase could cure is said first.
pub(super) fn open(der: &[u8], opener: Option<&Opener<'_>>) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let cost = check(der)?;
    let info = EncryptedPrivateKeyInfoRef::from_der(der).map_err(|_| malformed())?;
    let EncryptionScheme::Pbes2(parameters) = &info.encryption_algorithm else { return Err(malformed()) };
    let encrypted = info.encrypted_data.as_bytes();
    if encrypted.len() < BLOCK_LEN {
        return Err(malformed());
    }
    let opener = opener.ok_or(KeyError::Encrypted)?;
    opener.spend(cost)?;
    decrypt(parameters, encrypted, opener.passphrase)
}

fn decrypt(
    parameters: &Parameters,
    encrypted: &[u8],
    passphrase: &Passphrase,
) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    let mut buffer = Zeroizing::new(encrypted.to_vec());
    let opened = parameters.decrypt_in_place(passphrase.expose(), &mut buffer);
    let len = opened.map_err(|_| KeyError::WrongPassphrase)?.len();
    // What follows in the buffer is padding; it is wiped with the rest.
    let opened = Zeroizing::new(buffer[..len].to_vec());
    // Of the wrong passphrases one in 256 gives padding that looks right, and then noise.
    if der::is_whole(&opened) { Ok(opened) } else { Err(KeyError::WrongPassphrase) }
}

/// Names every algorithm that is not read, which the reader of the structure itself would call a damaged one, and
/// bounds what deriving costs, which is returned in iterations of PBKDF2.
fn check(der: &[u8]) -> Result<u64, KeyError> {
    let outer = der::children(der).ok_or_else(malformed)?;
    let [algorithm, _] = outer.as_slice() else { return Err(malformed()) };
    let (scheme, parameters) = identifier(*algorithm)?;
    if scheme != PBES2 {
        return Err(unsupported(scheme));
    }
    let parameters = sequence(parameters)?;
    let [kdf, cipher] = parameters.as_slice() else { return Err(malformed()) };
    let (cipher, _) = identifier(*cipher)?;
    if !CIPHERS.contains(&cipher) {
        return Err(unsupported(cipher));
    }
    let (kdf, parameters) = identifier(*kdf)?;
    let parameters = sequence(parameters)?;
    let salt_len = parameters.first().ok_or_else(malformed)?.value().len();
    if salt_len > Salt::MAX_LEN {
        return Err(costly(format!("a salt of {salt_len} octets; at most {} are read", Salt::MAX_LEN)));
    }
    let counts = parameters.iter().skip(1).filter(|part| part.tag() == Tag::Integer);
    let counts = counts.map(|count| number(count.value())).collect::<Result<Vec<_>, _>>()?;
    match (kdf, counts.as_slice(), parameters.last()) {
        (PBKDF2, [iterations, ..], last) => {
            check_iterations(*iterations)?;
            last.map_or(Ok(()), |last| check_prf(*last))?;
            Ok(*iterations)
        }
        (SCRYPT, [n, r, p, ..], _) => check_scrypt(*n, *r, *p),
        (PBKDF2 | SCRYPT, ..) => Err(malformed()),
        (other, ..) => Err(unsupported(other)),
    }
}

fn check_iterations(iterations: u64) -> Result<(), KeyError> {
    if iterations > MAX_ITERATIONS {
        return Err(costly(format!(
            "PBKDF2 with {iterations} iterations; at most {MAX_ITERATIONS} are done"
        )));
    }
    Ok(())
}

/// The last part, if it is there at all; SHA-1 is meant where it is not.
fn check_prf(last: AnyRef<'_>) -> Result<(), KeyError> {
    if last.tag() != Tag::Sequence {
        return Ok(());
    }
    let (prf, _) = identifier(last)?;
    if PRFS.contains(&prf) { Ok(()) } else { Err(unsupported(prf)) }
}

/// RFC 7914 section 2: 128 · N · r octets of memory, gone through p times.
fn check_scrypt(n: u64, r: u64, p: u64) -> Result<u64, KeyError> {
    if n < 2 || !n.is_power_of_two() || r == 0 || p == 0 {
        return Err(malformed());
    }
    let memory = n.saturating_mul(r).saturating_mul(128);
    if memory > MAX_SCRYPT_MEMORY || memory.saturating_mul(p) > MAX_SCRYPT_WORK {
        let most = "at most 64 MiB (128 · N · r) are taken, and gone through 4 times (p)";
        return Err(costly(format!("scrypt with N = {n}, r = {r}, p = {p}; {most}")));
    }
    // The most that is taken of the one counts as the most of the other.
    Ok((memory * p).div_ceil(MAX_SCRYPT_WORK / MAX_ITERATIONS))
}

/// A positive INTEGER; what is beyond 64 bits counts as the most, since it costs too much whatever it means.
fn number(octets: &[u8]) -> Result<u64, KeyError> {
    match octets {
        [first, ..] if *first >= 0x80 => Err(malformed()),
        [0] | [] => Err(malformed()),
        [0, rest @ ..] | rest if rest.len() <= 8 => {
            Ok(rest.iter().fold(0, |number, octet| number << 8 | u64::from(*octet)))
        }
        _ => Ok(u64::MAX),
    }
}

/// An AlgorithmIdentifier (RFC 5280 section 4.1.1.2) taken apart.
fn identifier(any: AnyRef<'_>) -> Result<(ObjectIdentifier, Option<AnyRef<'_>>), KeyError> {
    let parts = sequence(Some(any))?;
    let (oid, parameters) = parts.split_first().ok_or_else(malformed)?;
    let oid = oid.decode_as::<ObjectIdentifier>().map_err(|_| malformed())?;
    Ok((oid, parameters.first().copied()))
}

fn sequence(any: Option<AnyRef<'_>>) -> Result<Vec<AnyRef<'_>>, KeyError> {
    let any = any.filter(|any| any.tag() == Tag::Sequence).ok_or_else(malformed)?;
    der::parts(any).ok_or_else(malformed)
}

fn unsupported(oid: ObjectIdentifier) -> KeyError {
    let text = oid.to_string();
    let known = NAMES.iter().find(|(known, _)| *known == text);
    KeyError::EncryptionUnsupported { scheme: known.map_or(text, |(_, name)| (*name).to_owned()) }
}

fn costly(what: String) -> KeyError {
    KeyError::EncryptionCost { what }
}

fn malformed() -> KeyError {
    KeyError::MalformedDer { form: "the encrypted PKCS#8 structure" }
}

/// OWASP's advice of 2023 is 600,000 with SHA-256 and 1,300,000 with SHA-1; 2,000,000 take about a second.
const MAX_ITERATIONS: u64 = 2_000_000;
/// Three keys, as of current, next and previous, may cost the most, or ten what OWASP advises.
const MAX_RECORD_ITERATIONS: u64 = 3 * MAX_ITERATIONS;
/// Four times what OpenSSL and RustCrypto write (N = 16384, r = 8).
const MAX_SCRYPT_MEMORY: u64 = 64 << 20;
/// Octets mixed in all; this much takes less than a second.
const MAX_SCRYPT_WORK: u64 = 4 * MAX_SCRYPT_MEMORY;
/// The block of AES and the tag of GCM.
const BLOCK_LEN: usize = 16;

/// RFC 8018 appendix C, RFC 7914 section 7.
const PBES2: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.5.13");
const PBKDF2: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.5.12");
const SCRYPT: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.4.1.11591.4.11");

/// HMAC with SHA-1, SHA-224, SHA-256, SHA-384 and SHA-512. HMAC does not rest on collisions, and SHA-1 is what older
/// OpenSSL wrote and what the structure means when it names none.
const PRFS: [ObjectIdentifier; 5] = [
    ObjectIdentifier::new_unwrap("1.2.840.113549.2.7"),
    ObjectIdentifier::new_unwrap("1.2.840.113549.2.8"),
    ObjectIdentifier::new_unwrap("1.2.840.113549.2.9"),
    ObjectIdentifier::new_unwrap("1.2.840.113549.2.10"),
    ObjectIdentifier::new_unwrap("1.2.840.113549.2.11"),
];

/// AES-128, AES-192 and AES-256 in CBC, AES-128 and AES-256 in GCM, which RustCrypto writes.
const CIPHERS: [ObjectIdentifier; 5] = [
    ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.1.2"),
    ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.1.22"),
    ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.1.42"),
    ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.1.6"),
    ObjectIdentifier::new_unwrap("2.16.840.1.101.3.4.1.46"),
];

/// What people call the schemes that are refused.
const NAMES: &[(&str, &str)] = &[
    ("1.2.840.113549.1.5.1", "PBES1 with MD2 and DES"),
    ("1.2.840.113549.1.5.3", "PBES1 with MD5 and DES"),
    ("1.2.840.113549.1.5.4", "PBES1 with MD2 and RC2"),
    ("1.2.840.113549.1.5.6", "PBES1 with MD5 and RC2"),
    ("1.2.840.113549.1.5.10", "PBES1 with SHA-1 and DES"),
    ("1.2.840.113549.1.5.11", "PBES1 with SHA-1 and RC2"),
    ("1.2.840.113549.1.12.1.1", "PKCS#12 with RC4 (128 bits)"),
    ("1.2.840.113549.1.12.1.2", "PKCS#12 with RC4 (40 bits)"),
    ("1.2.840.113549.1.12.1.3", "PKCS#12 with triple DES"),
    ("1.2.840.113549.1.12.1.4", "PKCS#12 with double DES"),
    ("1.2.840.113549.1.12.1.5", "PKCS#12 with RC2 (128 bits)"),
    ("1.2.840.113549.1.12.1.6", "PKCS#12 with RC2 (40 bits)"),
    ("1.2.840.113549.3.2", "PBES2 with RC2"),
    ("1.2.840.113549.3.7", "PBES2 with triple DES"),
    ("1.3.14.3.2.7", "PBES2 with DES"),
];
