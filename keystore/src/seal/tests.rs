//! What is sealed opens for its own key alone, and nothing else opens at all.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::{Kek, KekError, Keks, Purpose, SealError, SealedFor, header_for, jwe, kek_of};
use crate::material::PrivateKey;
use crate::{Algorithm, Digest, IssuerUrl, KeyId};

const P256: &[u8] = include_bytes!("../../tests/vectors/ring/p256.pem");
/// Sealed once, by the first version that sealed; see `the_golden_half_opens_for_ever`.
const GOLDEN: &str = include_str!("../../tests/golden/sealed-half.jwe");
const SECRET: &str = r#"{"kty":"OKP","d":"canary"}"#;

fn kek(number: u8) -> Kek {
    Kek::from_bytes(*Digest::of(&[number]).as_bytes()).expect("random enough")
}

fn issuer() -> IssuerUrl {
    IssuerUrl::parse("https://oidc.example/tenant", "test").expect("good")
}

fn key() -> PrivateKey {
    PrivateKey::parse(P256).expect("a good key")
}

/// What one case is sealed for, as owned values.
#[derive(Clone)]
struct Whose {
    purpose: Purpose,
    kid: KeyId,
    alg: Algorithm,
    issuer: IssuerUrl,
}

impl Whose {
    fn ours() -> Self {
        Self {
            purpose: Purpose::Signing,
            kid: key().public().thumbprint(),
            alg: Algorithm::Es256,
            issuer: issuer(),
        }
    }

    fn sealed_for(&self) -> SealedFor<'_> {
        SealedFor { purpose: self.purpose, key_kid: &self.kid, key_alg: self.alg, issuer: &self.issuer }
    }
}

fn secret() -> Zeroizing<String> {
    Zeroizing::new(SECRET.to_owned())
}

#[test]
fn what_is_sealed_opens_for_its_own_key_alone() {
    let (kek, ours) = (kek(1), Whose::ours());
    let jwe = kek.seal(&ours.sealed_for(), &secret()).expect("sealed");
    assert_eq!(kek.open(&ours.sealed_for(), &jwe).expect("opened").as_str(), SECRET);
    let others = [
        ("purpose", Whose { purpose: Purpose::Ring, ..ours.clone() }),
        ("key_kid", Whose { kid: KeyId::parse("another").expect("good"), ..ours.clone() }),
        ("key_alg", Whose { alg: Algorithm::Es384, ..ours.clone() }),
        (
            "iss",
            Whose { issuer: IssuerUrl::parse("https://oidc.example/tenant/", "test").expect("good"), ..ours },
        ),
    ];
    for (member, other) in others {
        assert_eq!(kek.open(&other.sealed_for(), &jwe), Err(SealError::Another { member }));
    }
}

#[test]
fn no_two_seals_are_alike_and_none_shows_the_secret() {
    let (kek, ours) = (kek(1), Whose::ours());
    let [one, two] = [(), ()].map(|()| kek.seal(&ours.sealed_for(), &secret()).expect("sealed"));
    let parts = |jwe: &str| jwe.split('.').map(str::to_owned).collect::<Vec<_>>();
    for (i, (one, two)) in parts(&one).iter().zip(&parts(&two)).enumerate() {
        assert_eq!(one == two, i == 0, "part {i}: only the header is the same");
    }
    let decoded = one.split('.').flat_map(|part| URL_SAFE_NO_PAD.decode(part).expect("base64url"));
    assert!(!decoded.collect::<Vec<_>>().windows(6).any(|window| window == b"canary"));
}

#[test]
fn another_kek_opens_nothing_and_is_told_by_its_id() {
    let (one, two, ours) = (kek(1), kek(2), Whose::ours());
    let jwe = one.seal(&ours.sealed_for(), &secret()).expect("sealed");
    let id = one.id().to_owned();
    assert_eq!(kek_of(&jwe).as_deref(), Ok(one.id()));
    assert_eq!(two.open(&ours.sealed_for(), &jwe), Err(SealError::OtherKek { kek: id.clone() }));
    let none = Keks::default();
    assert_eq!(none.open(&ours.sealed_for(), &jwe), Err(SealError::NoKek { kek: id.clone() }));
    let other = Keks::new(kek(3), [kek(2)]);
    assert_eq!(other.open(&ours.sealed_for(), &jwe), Err(SealError::OtherKek { kek: id }));
    let both = Keks::new(kek(2), [kek(1), kek(2)]);
    assert_eq!(both.open(&ours.sealed_for(), &jwe).expect("opened").as_str(), SECRET);
    assert_eq!(both.ids().collect::<Vec<_>>(), [two.id(), one.id()], "each once, the current one first");
}

/// The attack on the header alone: a half of another KEK that bears our KEK's id.
#[test]
fn a_header_that_lies_about_its_kek_does_not_open() {
    let (ours, forger, mine) = (Whose::ours(), kek(9), kek(1));
    let forged = jwe::encrypt(header_for(&ours.sealed_for(), mine.id()), SECRET.as_bytes(), &forger_bytes());
    assert_eq!(forger.id(), kek(9).id());
    assert_eq!(mine.open(&ours.sealed_for(), &forged.expect("made")), Err(SealError::Unopened));
}

fn forger_bytes() -> [u8; 32] {
    *Digest::of(&[9]).as_bytes()
}

/// Sealed by the right KEK, as josekit would do for anybody, but under another header than ours.
#[test]
fn a_header_with_anything_but_our_members_is_refused_although_the_kek_is_right() {
    let (kek, ours) = (kek(1), Whose::ours());
    let bytes = Digest::of(&[1]);
    let made = |change: &dyn Fn(&mut Map<String, Value>)| {
        let mut header = header_for(&ours.sealed_for(), kek.id());
        change(&mut header);
        jwe::encrypt(header, SECRET.as_bytes(), bytes.as_bytes()).expect("made")
    };
    let with = |name: &'static str, value: Value| {
        made(&move |header| {
            header.insert(name.to_owned(), value.clone());
        })
    };
    let without = |name: &'static str| {
        made(&move |header| {
            header.remove(name);
        })
    };
    let refused = |jwe: &str| kek.open(&ours.sealed_for(), jwe).expect_err("refused");
    assert_eq!(
        refused(&with("zip", json!("DEF"))),
        SealError::Refused("it is compressed, and nothing is inflated")
    );
    for (name, value) in [
        ("crit", json!(["exp"])),
        ("typ", json!("JWE")),
        ("jku", json!("https://x.example")),
        ("x", json!(1)),
    ] {
        let why = SealError::Refused("its protected header has a member that is none of ours");
        assert_eq!(refused(&with(name, value)), why, "{name}");
    }
    assert_eq!(refused(&with("cty", json!("text"))), SealError::Refused("its `cty` is not jwk+json"));
    assert_eq!(refused(&without("cty")), SealError::Refused("its `cty` is not jwk+json"));
    for member in ["purpose", "key_kid", "key_alg", "iss"] {
        assert_eq!(refused(&without(member)), SealError::Another { member });
        assert_eq!(refused(&with(member, json!("other"))), SealError::Another { member });
    }
    for kid in [json!("1"), json!(kek.id().to_uppercase()), json!("")] {
        assert_eq!(refused(&with("kid", kid)), SealError::Malformed("its `kid` is not the id of a KEK"));
    }
}

/// What never comes as far as the library: forms with other algorithms, and what is no compact JWE.
#[test]
fn other_algorithms_and_other_forms_are_refused_on_sight() {
    let (kek, ours) = (kek(1), Whose::ours());
    let jwe = kek.seal(&ours.sealed_for(), &secret()).expect("sealed");
    let parts: Vec<_> = jwe.split('.').collect();
    let under = |header: &str| {
        let header = URL_SAFE_NO_PAD.encode(header);
        [header.as_str(), parts[1], parts[2], parts[3], parts[4]].join(".")
    };
    let open = |jwe: &str| kek.open(&ours.sealed_for(), jwe).expect_err("refused");
    for alg in
        ["dir", "A128KW", "A256GCMKW", "PBES2-HS512+A256KW", "RSA-OAEP-256", "ECDH-ES+A256KW", "none", ""]
    {
        let header =
            under(&format!(r#"{{"alg":"{alg}","enc":"A256GCM","cty":"jwk+json","p2c":2000000000}}"#));
        assert_eq!(open(&header), SealError::Refused("its `alg` is not A256KW"), "{alg}");
    }
    for enc in ["A128GCM", "A256CBC-HS512", "a256gcm"] {
        let header = under(&format!(r#"{{"alg":"A256KW","enc":"{enc}","cty":"jwk+json"}}"#));
        assert_eq!(open(&header), SealError::Refused("its `enc` is not A256GCM"), "{enc}");
    }
    let twice = under(r#"{"alg":"dir","alg":"A256KW","enc":"A256GCM","cty":"jwk+json"}"#);
    assert!(matches!(open(&twice), SealError::Malformed(_)), "a member twice");
    for header in ["", "[]", "{", "null", "\"A256KW\"", "{}"] {
        assert!(matches!(open(&under(header)), SealError::Malformed(_) | SealError::Refused(_)), "{header}");
    }
    let long = format!("{jwe}{}", "A".repeat(20_000));
    for text in
        ["", ".", "....", "a.b.c", &parts[..4].join("."), &format!("{jwe}.x"), &long, "{\"protected\":\"\"}"]
    {
        assert!(matches!(open(text), SealError::Malformed(_)), "{}", &text[..text.len().min(40)]);
    }
}

/// One half has one spelling: nothing that a lenient decoder takes for the same.
#[test]
fn only_canonical_base64url_of_the_right_lengths_is_read() {
    let (kek, ours) = (kek(1), Whose::ours());
    let jwe = kek.seal(&ours.sealed_for(), &secret()).expect("sealed");
    let parts: Vec<Vec<u8>> =
        jwe.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).expect("decoded")).collect();
    let open = |text: &str| kek.open(&ours.sealed_for(), text).expect_err("refused");
    for i in 0..5 {
        for (what, change) in [
            ("padded", &(|part: &[u8]| format!("{}=", URL_SAFE.encode(part))) as &dyn Fn(&[u8]) -> String),
            ("spaced", &|part| format!("{} ", URL_SAFE_NO_PAD.encode(part))),
            ("of the standard alphabet", &|part| format!("{}+/", STANDARD.encode(part))),
        ] {
            let text = rejoin(&parts, i, change);
            assert_eq!(open(&text), SealError::Malformed("a part is not canonical base64url"), "{i} {what}");
        }
        if i > 0 {
            let cut = rejoin(&parts, i, &|part| URL_SAFE_NO_PAD.encode(&part[..part.len() / 2]));
            let grown = rejoin(&parts, i, &|part| URL_SAFE_NO_PAD.encode([part, b"x"].concat()));
            let none = rejoin(&parts, i, &|_| String::new());
            for text in [cut, grown, none] {
                assert!(matches!(open(&text), SealError::Malformed(_) | SealError::Unopened), "{i}");
            }
        }
    }
    let leftover = {
        let tag = jwe.rsplit('.').next().expect("a tag");
        let last = tag.bytes().last().expect("a letter");
        let next = char::from(if last == b'Z' { b'b' } else { last + 1 });
        format!("{}{next}", &jwe[..jwe.len() - 1])
    };
    assert_eq!(open(&leftover), SealError::Malformed("a part is not canonical base64url"), "bits left over");
}

fn rejoin(parts: &[Vec<u8>], at: usize, change: &dyn Fn(&[u8]) -> String) -> String {
    let each = parts.iter().enumerate().map(|(i, part)| match i == at {
        true => change(part),
        false => URL_SAFE_NO_PAD.encode(part),
    });
    each.collect::<Vec<_>>().join(".")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_half_with_any_bit_turned_never_opens(part in 0_usize..5, at in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let (kek, ours) = (kek(1), Whose::ours());
        let jwe = kek.seal(&ours.sealed_for(), &secret()).expect("sealed");
        let parts: Vec<_> = jwe.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).expect("decoded")).collect();
        let turned = rejoin(&parts, part, &|octets| {
            let mut octets = octets.to_vec();
            let at = at.index(octets.len());
            octets[at] ^= 1 << bit;
            URL_SAFE_NO_PAD.encode(octets)
        });
        prop_assert!(kek.open(&ours.sealed_for(), &turned).is_err());
    }

    #[test]
    fn no_text_makes_it_panic(text in "[A-Za-z0-9_.=-]{0,300}") {
        prop_assert!(kek(1).open(&Whose::ours().sealed_for(), &text).is_err());
    }
}

#[test]
fn what_the_cipher_vouches_for_but_is_no_text_is_refused() {
    let (kek, ours) = (kek(1), Whose::ours());
    let bytes = Digest::of(&[1]);
    let jwe = jwe::encrypt(header_for(&ours.sealed_for(), kek.id()), b"\xff\xfe", bytes.as_bytes());
    let refused = kek.open(&ours.sealed_for(), &jwe.expect("made"));
    assert_eq!(refused, Err(SealError::Malformed("what it holds is no text")));
}

/// The form is for ever: this half was written once and must open in every later version. `TEST_BLESS` makes one only
/// where none is.
#[test]
fn the_golden_half_opens_for_ever() {
    let (kek, ours, key) = (kek(1), Whose::ours(), key());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/sealed-half.jwe");
    if std::env::var_os("TEST_BLESS").is_some() && GOLDEN.trim().is_empty() {
        let jwe = kek.seal(&ours.sealed_for(), &key.expose_jwk()).expect("sealed");
        std::fs::write(path, jwe + "\n").expect("writable");
    }
    assert_eq!(kek.id(), "925fea9d7d80a67ac602c78de703389d");
    let opened = kek.open(&ours.sealed_for(), GOLDEN.trim_end()).expect("opened");
    assert_eq!(*opened, *key.expose_jwk());
    let header = GOLDEN.split('.').next().expect("a header");
    let header = String::from_utf8(URL_SAFE_NO_PAD.decode(header).expect("base64url")).expect("text");
    assert_eq!(
        header,
        format!(
            r#"{{"alg":"A256KW","cty":"jwk+json","enc":"A256GCM","iss":"https://oidc.example/tenant","key_alg":"ES256","key_kid":"{}","kid":"{}","purpose":"signing"}}"#,
            key.public().thumbprint(),
            kek.id()
        )
    );
}

#[test]
fn a_kek_is_read_in_every_form_that_it_is_kept_in() {
    let bytes = *Digest::of(&[1]).as_bytes();
    let hex = Digest::of(&[1]).to_string();
    let url = URL_SAFE_NO_PAD.encode(bytes);
    for value in [
        bytes.to_vec(),
        STANDARD.encode(bytes).into_bytes(),
        format!("{}\n", STANDARD.encode(bytes)).into_bytes(),
        format!("\u{feff} {url}\r\n").into_bytes(),
        format!("\"{url}\"").into_bytes(),
        URL_SAFE.encode(bytes).into_bytes(),
        hex.clone().into_bytes(),
        format!("{}\n", hex.to_uppercase()).into_bytes(),
        format!(r#"{{"kty":"oct","k":"{url}","kid":"x"}}"#).into_bytes(),
    ] {
        assert_eq!(Kek::read(&value).map(|kek| kek.id().to_owned()).as_deref(), Ok(kek(1).id()));
    }
}

#[test]
fn what_is_no_kek_is_refused_by_what_it_is() {
    let twice = STANDARD.encode(STANDARD.encode(Digest::of(&[1]).as_bytes()));
    for (value, error) in [
        (&b""[..], KekError::Empty),
        (b" \n", KekError::Empty),
        (&[0; 32], KekError::Weak("all its bytes are zero")),
        (&[7; 32], KekError::Weak("a few bytes repeat")),
        (&[1; 31], KekError::Length { bytes: 31 }),
        (&[0xf1; 33], KekError::Length { bytes: 33 }),
        (
            b"correct horse battery staple....",
            KekError::Weak("it is a text of 32 characters, such as a passphrase or the hex of 16 bytes"),
        ),
        (b"hunter2", KekError::Length { bytes: 7 }),
        (b"-----BEGIN PRIVATE KEY-----", KekError::Pem),
        (br#"{"kty":"RSA","n":"AQAB"}"#, KekError::Jwk),
        (br#"{"kty":"oct","k":"AQAB"}"#, KekError::Length { bytes: 3 }),
        (br#"{"kty":"oct","k":7}"#, KekError::Jwk),
        (b"{", KekError::Jwk),
        (twice.as_bytes(), KekError::Twice),
    ] {
        assert_eq!(Kek::read(value).err(), Some(error), "{}", String::from_utf8_lossy(value));
    }
    let counting: Vec<u8> = (0..32).collect();
    assert_eq!(Kek::read(&counting).err(), Some(KekError::Weak("its bytes count up")));
}

#[test]
fn a_new_kek_is_another_each_time_and_its_text_is_read_back() {
    let [one, two] = [(), ()].map(|()| Kek::generate().expect("randomness"));
    assert_ne!(one.id(), two.id());
    let text = one.expose_base64url();
    assert_eq!(Kek::read(text.as_bytes()).expect("a KEK").id(), one.id());
    assert!(!format!("{one:?} {:?}", Keks::new(two, [])).contains(text.as_str()));
}
