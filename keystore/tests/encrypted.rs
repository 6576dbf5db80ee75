//! Encrypted keys: what opens, what is refused and why, and what it may cost.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[expect(dead_code, reason = "other tests read its tables")]
mod vectors;

use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::{Clock, SystemClock, UnixTime};
use oneseal_keystore::findings::{Exit, Finding};
use oneseal_keystore::material::{Passphrase, PrivateKey};
use oneseal_keystore::ring::{self, Reading};
use oneseal_keystore::{Algorithm, Findings, IssuerUrl, Keystore, KeystoreOptions};
use oneseal_providers::{Entries, ErrorKind};
use oneseal_testing::{FixedClock, MemoryProvider};
use tokio_util::sync::CancellationToken;
use vectors::read;

const OURS: &str = "correct-horse";

fn verdict(value: &[u8], passphrase: &str) -> Result<String, &'static str> {
    let passphrase = Passphrase::read(passphrase.as_bytes()).unwrap();
    let key = PrivateKey::parse_with(value, &passphrase).map_err(|error| error.code().name)?;
    Ok(key.public().thumbprint().to_string())
}

#[test]
fn what_openssl_encrypts_today_opens_with_its_passphrase_and_no_other() {
    for (file, plain) in [
        ("rsa.pbkdf2-sha256-aes256", "rsa"),
        ("p256.scrypt-aes256", "p256"),
        ("p384.pbkdf2-sha512-aes192", "p384"),
        ("ed25519.pbkdf2-sha1-aes128", "ed25519"),
        ("ed25519.pbkdf2-sha384-aes256", "ed25519"),
    ] {
        let value = read(&format!("forms/{file}.enc.pem"));
        let plain = PrivateKey::parse(&read(&format!("forms/{plain}.pkcs8.pem"))).unwrap();
        assert_eq!(verdict(&value, OURS), Ok(plain.public().thumbprint().to_string()), "{file}");
        assert_eq!(verdict(&value, "correct-horse "), Err("key.wrong_passphrase"), "{file}");
        assert_eq!(PrivateKey::parse(&value).unwrap_err().code().name, "key.encrypted", "{file}");
    }
}

#[test]
fn the_noise_of_a_wrong_passphrase_is_never_taken_for_a_damaged_key() {
    let value = read("forms/ed25519.pbkdf2-sha1-aes128.enc.pem");
    // Of 600, two or three decrypt to padding that looks right.
    for n in 0..600 {
        assert_eq!(verdict(&value, &format!("wrong {n}")), Err("key.wrong_passphrase"));
    }
}

#[test]
fn published_test_keys_get_past_their_encryption() {
    for (file, passphrase) in [
        ("ed25519-encpriv-aes128-gcm-scrypt.der", "hunter42"),
        ("ed25519-encpriv-aes256-gcm-scrypt.der", "hunter42"),
        ("ed25519-encpriv-aes128-pbkdf2-sha1.der", "hunter42"),
        ("ed25519-encpriv-aes256-pbkdf2-sha256.der", "hunter42"),
        ("ed25519-encpriv-aes256-scrypt.der", "hunter42"),
        ("smallstep.ed25519.enc.pem", "mypassword"),
        ("smallstep.p256.enc.pem", "mypassword"),
        ("smallstep.rsa2048.enc.pem", "mypassword"),
    ] {
        let value = read(&format!("encrypted/{file}"));
        let verdict_with = verdict(&value, passphrase);
        // Everybody has these keys: being known for it is the proof that they were opened.
        assert!(matches!(verdict_with, Ok(_) | Err("key.leaked")), "{file}: {verdict_with:?}");
        assert_eq!(verdict(&value, "other"), Err("key.wrong_passphrase"), "{file}");
    }
}

#[test]
fn old_schemes_are_named_whatever_the_passphrase() {
    for (file, scheme) in [
        ("forms/ed25519.pbes1-md5-des.enc.pem", "PBES1 with MD5 and DES"),
        ("forms/ed25519.pkcs12-3des.enc.pem", "PKCS#12 with triple DES"),
        ("forms/ed25519.pbkdf2-sha256-3des.enc.pem", "PBES2 with triple DES"),
        ("forms/rsa.proc-type.enc.pem", "Proc-Type: 4,ENCRYPTED"),
        ("encrypted/ed25519-encpriv-des-pbkdf2-sha256.der", "PBES2 with DES"),
        ("encrypted/ed25519-encpriv-des3-pbkdf2-sha256.der", "PBES2 with triple DES"),
        ("encrypted/smallstep.p384.enc.pem", "PBES2 with DES"),
        ("encrypted/cosign.enc.pem", "cosign"),
        ("encrypted/rsa.enc.priv.json", "a JWE"),
    ] {
        let value = read(file);
        for passphrase in [None, Some(Passphrase::read(OURS.as_bytes()).unwrap())] {
            let refused = match &passphrase {
                Some(passphrase) => PrivateKey::parse_with(&value, passphrase),
                None => PrivateKey::parse(&value),
            };
            let refused = refused.expect_err(file);
            assert_eq!(refused.code().name, "key.encryption_unsupported", "{file}");
            assert!(refused.to_string().contains(scheme), "{file}: {refused}");
            assert!(refused.code().cure.contains("openssl pkcs8 -topk8"));
        }
    }
    assert_eq!(verdict(&read("encrypted/nebula.key"), OURS), Err("key.unsupported_form"));
}

/// DER of one value.
fn der(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let head = match len {
        0..128 => vec![tag, u8::try_from(len).unwrap()],
        128..256 => vec![tag, 0x81, u8::try_from(len).unwrap()],
        _ => [&[tag, 0x82][..], &u16::try_from(len).unwrap().to_be_bytes()].concat(),
    };
    [head, content.to_vec()].concat()
}

fn integer(value: u64) -> Vec<u8> {
    let octets = [&[0][..], &value.to_be_bytes()].concat();
    let start = (0..8).find(|i| octets[*i] != 0 || octets[i + 1] >= 0x80).unwrap_or(8);
    der(2, &octets[start..])
}

/// An encrypted key of these parameters around noise.
fn hostile(kdf_oid: &[u8], salt: &[u8], counts: &[Vec<u8>]) -> Vec<u8> {
    let aes256 = der(0x30, &[der(6, &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 42]), der(4, &[7; 16])].concat());
    let parameters = der(0x30, &[der(4, salt), counts.concat()].concat());
    let kdf = der(0x30, &[der(6, kdf_oid), parameters].concat());
    let pbes2 = der(6, &[0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 5, 13]);
    let algorithm = der(0x30, &[pbes2, der(0x30, &[kdf, aes256].concat())].concat());
    der(0x30, &[algorithm, der(4, &[9; 64])].concat())
}

const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 13, 1, 5, 12];
const SCRYPT: &[u8] = &[0x2b, 6, 1, 4, 1, 0xda, 0x47, 4, 11];

#[test]
fn a_key_that_asks_for_too_much_is_refused_before_any_work() {
    let scrypt = |n, r, p| hostile(SCRYPT, b"saltsalt", &[integer(n), integer(r), integer(p)]);
    let pbkdf2 = |iterations| hostile(PBKDF2, b"saltsalt", &[integer(iterations)]);
    let beyond = der(2, &[1; 40]);
    for value in [
        pbkdf2(2_000_001),
        pbkdf2(u64::MAX),
        hostile(PBKDF2, b"saltsalt", std::slice::from_ref(&beyond)),
        hostile(PBKDF2, &[1; 33], &[integer(2048)]),
        hostile(PBKDF2, &[1; 60_000], &[integer(2048)]),
        scrypt(1 << 17, 8, 1),
        scrypt(1 << 62, 1, 1),
        scrypt(1 << 14, 8, 17),
        scrypt(2, 65_535, 65_535),
        scrypt(1 << 14, u64::MAX, 1),
        hostile(SCRYPT, b"s", &[integer(1 << 14), integer(8), beyond]),
    ] {
        assert_eq!(verdict(&value, OURS), Err("key.encryption_cost"));
        assert_eq!(PrivateKey::parse(&value).unwrap_err().code().name, "key.encryption_cost");
    }
}

/// Each stays below what one key may cost; the sum of the first three is all that is done.
#[test]
fn many_costly_keys_cost_no_more_than_a_few() {
    let value = hostile(PBKDF2, b"saltsalt", &[integer(2_000_000)]);
    let names = ["current", "next", "previous"]
        .into_iter()
        .flat_map(|role| ["RS256", "ES256", "EdDSA"].map(|algorithm| format!("{role}.{algorithm}.der")));
    let mut entries = Entries::new();
    for name in names {
        entries.insert(name, value.clone());
    }
    let passphrase = Passphrase::read(OURS.as_bytes()).unwrap();
    let issuer = IssuerUrl::parse("https://oidc.example", "--issuer").unwrap();
    let reading = Reading { passphrase: Some(&passphrase), ..Reading::default() };
    let found = ring::read_with(&entries, &issuer, &reading).unwrap_err();
    let count = |code| found.iter().filter(|finding| finding.code.name == code).count();
    assert_eq!((count("key.wrong_passphrase"), count("key.encryption_cost")), (3, 6), "{found}");
}

#[test]
fn nonsense_parameters_are_malformed_and_never_panic() {
    let scrypt = |n, r, p| hostile(SCRYPT, b"saltsalt", &[integer(n), integer(r), integer(p)]);
    for value in [
        scrypt(0, 8, 1),
        scrypt(1, 8, 1),
        scrypt(3, 8, 1),
        scrypt(16, 0, 1),
        scrypt(16, 8, 0),
        hostile(PBKDF2, b"saltsalt", &[integer(0)]),
        hostile(PBKDF2, b"saltsalt", &[der(2, &[0xff])]),
        hostile(PBKDF2, b"saltsalt", &[]),
        hostile(SCRYPT, b"saltsalt", &[integer(16)]),
    ] {
        assert_eq!(verdict(&value, OURS), Err("key.malformed_der"));
    }
    let other = hostile(&[0x2a, 3], b"saltsalt", &[integer(1)]);
    assert_eq!(verdict(&other, OURS), Err("key.encryption_unsupported"));
    assert_eq!(verdict(&hostile(PBKDF2, b"saltsalt", &[integer(1)]), OURS), Err("key.wrong_passphrase"));
}

#[test]
fn large_values_are_answered_at_once() {
    let clock = SystemClock;
    let began = clock.boot();
    let block = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    let members: String = (0..100_000).map(|n| format!("\"m{n}\":0,")).collect();
    for value in [
        block.repeat(10_000),
        "TUlJ".repeat(1 << 18),
        "A".repeat(64).repeat(1 << 14),
        format!("{{{}\"last\":0}}", members),
        format!("{{\"keys\":[{}{{}}]}}", "{\"kty\":\"RSA\"},".repeat(50_000)),
        format!("{{\"keys\":{}", "[".repeat(1 << 20)),
        format!("{{\"kty\":\"RSA\",\"d\":{}", "{\"d\":".repeat(1 << 17)),
        "-----BEGIN ".repeat(90_000),
        "-----BEGIN PRIVATE KEY-----\n".to_owned() + &"A".repeat(1 << 20),
    ] {
        assert!(PrivateKey::parse(value.as_bytes()).is_err());
        assert!(!oneseal_keystore::material::form_of(value.as_bytes()).is_empty());
    }
    let took = clock.boot().since(began);
    assert!(took < Duration::from_secs(20), "{took:?} for nine values, unoptimised");
}

fn options(passphrase: Option<Arc<MemoryProvider>>) -> KeystoreOptions {
    let mut options = KeystoreOptions::new(IssuerUrl::parse("https://oidc.example", "test").unwrap());
    options.algorithms = Algorithm::ALL.to_vec();
    options.passphrase = passphrase.map(|provider| provider as _);
    options
}

fn memory(name: &str, value: &[u8]) -> Arc<MemoryProvider> {
    Arc::new(MemoryProvider::with(Entries::single(name, value.to_vec())))
}

async fn open(provider: Arc<MemoryProvider>, options: KeystoreOptions) -> Result<Keystore, Findings> {
    let clock = Arc::new(FixedClock::at(UnixTime(1_800_000_000)));
    Keystore::open(provider, options, clock).await.map(|(keystore, _)| keystore)
}

/// How a finding names an entry of the provider in memory.
fn entry(name: &str) -> String {
    format!("{name} (memory:memory)")
}

fn told(findings: &Findings) -> Vec<(&'static str, String)> {
    findings.iter().map(|Finding { code, place, .. }| (code.name, place.clone())).collect()
}

const ENCRYPTED: &str = "forms/ed25519.pbkdf2-sha384-aes256.enc.pem";

#[tokio::test]
async fn the_passphrase_comes_from_another_provider_and_its_faults_have_their_own_place() {
    let key = || memory("current.pem", &read(ENCRYPTED));
    for (name, value) in [("current", "correct-horse\n"), ("anything", "correct-horse\r\n")] {
        open(key(), options(Some(memory(name, value.as_bytes())))).await.unwrap();
    }
    let place = "passphrase (memory:memory)".to_owned();
    let missing = Arc::new(MemoryProvider::new());
    let found = open(key(), options(Some(missing))).await.unwrap_err();
    assert_eq!(told(&found), [("provider.not_found", place.clone())]);
    let down = memory("current", b"x");
    down.set_outage(Some(ErrorKind::Unavailable));
    let found = open(key(), options(Some(down.clone()))).await.unwrap_err();
    assert_eq!(told(&found), [("provider.unavailable", place.clone())]);
    assert_eq!(found.exit(), Some(Exit::Unavailable), "a boot tries again");
    let found = open(Arc::new(MemoryProvider::new()), options(Some(down))).await.unwrap_err();
    assert_eq!(found.len(), 2, "both faults at once: {found}");
    let found = open(key(), options(Some(memory("current", b"\n")))).await.unwrap_err();
    assert_eq!(told(&found), [("key.passphrase_empty", place)]);
    let found = open(key(), options(Some(memory("current", b"other")))).await.unwrap_err();
    assert_eq!(told(&found), [("key.wrong_passphrase", entry("current.pem"))]);
    assert!(found.to_string().contains("seen: PEM (ENCRYPTED PRIVATE KEY)"), "{found}");
    let found = open(key(), options(None)).await.unwrap_err();
    assert_eq!(told(&found), [("key.encrypted", entry("current.pem"))]);
    assert!(found.to_string().contains("provider.passphrase"), "{found}");
}

#[tokio::test]
async fn a_passphrase_that_opens_nothing_is_warned_about() {
    let plain = memory("current", &read("forms/ed25519.pkcs8.pem"));
    let keystore = open(plain, options(Some(memory("current", b"x")))).await.unwrap();
    let names: Vec<_> = keystore.advice().iter().map(|finding| finding.code.name).collect();
    assert!(names.contains(&"key.passphrase_unused"), "{names:?}");
}

#[tokio::test]
async fn the_key_is_found_in_the_member_that_is_named() {
    let pem = String::from_utf8(read("forms/ed25519.pkcs8.pem")).unwrap();
    let value = serde_json::json!({ "private_key": pem, "user": "u" }).to_string();
    let with = |member: Option<&str>| {
        let mut options = options(None);
        options.member = member.map(str::to_owned);
        open(memory("current", value.as_bytes()), options)
    };
    with(Some("private_key")).await.unwrap();
    let found = with(Some("key")).await.unwrap_err();
    assert_eq!(told(&found), [("key.no_member", entry("current"))]);
    assert!(found.to_string().contains("private_key, user"), "{found}");
    let found = with(None).await.unwrap_err();
    assert_eq!(told(&found), [("key.json_members", entry("current"))]);
    assert!(found.to_string().contains("provider.member"), "{found}");
}

#[tokio::test]
async fn a_tls_key_beside_its_certificate_is_warned_about() {
    let pem = read("forms/ed25519.pkcs8.pem");
    let advice = async |other: &str| {
        let mut entries = Entries::single("tls.key", pem.clone());
        entries.insert(other, "x");
        let keystore = open(Arc::new(MemoryProvider::with(entries)), options(None)).await.unwrap();
        told(keystore.advice())
    };
    let rotates = ("provider.rotates_in_place", entry("tls.key"));
    assert!(advice("tls.crt").await.contains(&rotates));
    assert!(!advice("ca.crt").await.contains(&rotates));
}

#[tokio::test]
async fn key_and_passphrase_change_together_and_only_an_encrypted_key_asks() {
    let plain = read("forms/ed25519.pkcs8.pem");
    let provider = memory("current", &plain);
    let passphrase = memory("current", b"old");
    let clock = Arc::new(FixedClock::at(UnixTime(1_800_000_000)));
    let mut options = options(Some(passphrase.clone()));
    options.rotation.refresh_s = 1;
    let (keystore, follower) = Keystore::open(provider.clone(), options, clock).await.unwrap();
    let cancel = CancellationToken::new();
    #[expect(clippy::disallowed_methods, reason = "the handle is kept and joined below")]
    let task = tokio::spawn(follower.run(cancel.clone(), |_| {}));

    // Nothing encrypted is read: the passphrase may be away.
    passphrase.set_outage(Some(ErrorKind::Unavailable));
    let mut two = Entries::single("current", plain.clone());
    two.insert("next", read("forms/p256.pkcs8.pem"));
    provider.set(two);
    until(|| keystore.snapshot().keys().len() == 2).await;
    passphrase.set_outage(None);

    // The key first, its passphrase later: the last good set stays until both are there.
    let mut encrypted = Entries::single("current", plain);
    encrypted.insert("next", read("forms/p384.pbkdf2-sha512-aes192.enc.pem"));
    provider.set(encrypted);
    until(|| keystore.status().last_fault.is_some()).await;
    let fault = keystore.status().last_fault.unwrap();
    assert_eq!(told(&fault), [("key.wrong_passphrase", entry("next"))]);
    passphrase.set(Entries::single("current", "correct-horse\n"));
    until(|| keystore.snapshot().keys().iter().any(|key| key.algorithm == Algorithm::Es384)).await;
    cancel.cancel();
    task.await.unwrap();
}

async fn until(mut reached: impl FnMut() -> bool) {
    let wait = async {
        while !reached() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), wait).await.expect("the state was reached in time");
}

/// On one thread: if deriving ran on it, nobody else would get a turn.
#[tokio::test(flavor = "current_thread")]
async fn deriving_holds_up_no_worker() {
    let costly = hostile(PBKDF2, b"saltsalt", &[integer(2_000_000)]);
    let opening = open(memory("current", &costly), options(Some(memory("current", b"x"))));
    tokio::pin!(opening);
    let mut turns = 0_u64;
    let refused = loop {
        tokio::select! {
            opened = &mut opening => break opened.unwrap_err(),
            () = tokio::task::yield_now() => turns += 1,
        }
    };
    assert_eq!(told(&refused), [("key.wrong_passphrase", entry("current"))]);
    assert!(turns > 1000, "only {turns} turns for others meanwhile");
}
