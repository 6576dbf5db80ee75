//! What an issuer's URL shows to whoever holds keys of that issuer.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use oneseal_relying_party::fetch::{FetchError, FetchOptions, Fetcher};
use oneseal_relying_party::survey::{ServedKeys, survey};
use support::{Answer, DISCOVERY, FakeIssuer, clock, discovery, issuer_url, jwks_of, vectors};

fn fetcher() -> Fetcher {
    let mut options = FetchOptions::default();
    options.https = false;
    Fetcher::new(&options).unwrap()
}

#[tokio::test]
async fn one_look_tells_every_fault_and_goes_on_to_the_keys_of_a_misnamed_document() {
    let server = FakeIssuer::http().await;
    let url = server.url("/tenant");
    server.answer(DISCOVERY, Answer::ok(discovery("https://other.example", &server.url("/tenant/jwks"))));
    server.answer("/tenant/jwks", Answer::status(503));
    let seen = survey(&fetcher(), &issuer_url(&url), &*clock()).await;
    let faults: Vec<_> = seen.faults.iter().map(|fault| fault.reason()).collect();
    assert_eq!(faults, ["issuer_mismatch", "status"]);
    assert!(seen.keys.is_none() && seen.jwks.unwrap().fetched.is_none());
}

#[tokio::test]
async fn a_good_issuer_has_no_fault_and_all_its_keys() {
    let server = FakeIssuer::http().await;
    let url = server.url("/tenant");
    server.answer(DISCOVERY, Answer::ok(discovery(&url, &server.url("/tenant/jwks"))));
    server.answer("/tenant/jwks", Answer::ok(vectors()["jwks"].to_string()));
    let seen = survey(&fetcher(), &issuer_url(&url), &*clock()).await;
    assert!(seen.faults.is_empty(), "{:?}", seen.faults);
    assert_eq!(seen.keys.unwrap().entries(), vectors()["jwks"]["keys"].as_array().unwrap().len());
}

#[test]
fn entries_that_no_token_of_ours_could_name_count_and_are_left_out() {
    let kid = vectors()["jwks"]["keys"][0]["kid"].as_str().unwrap();
    let mut set: serde_json::Value = serde_json::from_str(&jwks_of(&[kid])).unwrap();
    let first = set["keys"][0].clone();
    let list = set["keys"].as_array_mut().unwrap();
    let mut nameless = first;
    nameless.as_object_mut().unwrap().remove("kid");
    list.extend([nameless, serde_json::json!({ "kty": "oct", "k": "AA" }), serde_json::json!(7)]);
    let keys = ServedKeys::read(set.to_string().as_bytes()).unwrap();
    assert_eq!((keys.entries(), keys.private(), keys.kids().count()), (4, 1, 1));
    assert!(ServedKeys::read(br#"{"keys":[]}"#).is_err());
}

#[tokio::test]
async fn a_certificate_that_does_not_verify_is_told_from_a_broken_connection() {
    let server = FakeIssuer::good().await;
    let mut options = FetchOptions::default();
    options.https = false;
    options.connect_to = Some(oneseal_relying_party::fetch::ConnectTo::AsUrl(server.address()));
    let outcome = Fetcher::new(&options).unwrap().get("https://issuer.example/").await;
    assert!(matches!(outcome, Err(FetchError::Certificate(_))), "{outcome:?}");
}

#[tokio::test]
async fn an_authority_in_place_of_a_server_is_told_in_a_sentence_with_its_cure() {
    let authority = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    for (is_ca, is_good) in [(authority, false), (rcgen::IsCa::ExplicitNoCa, true)] {
        let server = FakeIssuer::https_as(is_ca, Answer::ok("{}")).await;
        let mut options = FetchOptions::default();
        options.extra_roots = vec![server.certificate().to_owned()];
        options.connect_to = Some(oneseal_relying_party::fetch::ConnectTo::AsUrl(server.address()));
        let outcome = Fetcher::new(&options).unwrap().get("https://issuer.example/").await;
        match outcome {
            Ok(_) => assert!(is_good),
            Err(error) => {
                let told = oneseal_keystore::findings::chain(&error);
                assert!(!is_good && told.contains("basicConstraints=CA:FALSE"), "{told}");
                assert!(!told.contains("CaUsedAsEndEntity") && !told.contains("  "), "{told}");
                assert!(matches!(error, FetchError::AuthorityAsServer), "{error:?}");
            }
        }
    }
}

#[tokio::test]
async fn head_brings_the_fields_and_no_body() {
    let server = FakeIssuer::http().await;
    server.answer("/a", Answer::ok("here").with_field("x-more", "1"));
    let fetched = fetcher().head(&server.url("/a")).await.unwrap();
    assert_eq!(
        (fetched.status.as_u16(), &fetched.headers["x-more"], fetched.body.len()),
        (200, &"1".parse().unwrap(), 0)
    );
}
