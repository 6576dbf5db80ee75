//! The boot gate of the library: no key, no issuer; every fault at once; nothing is made.

use std::sync::Arc;
use std::time::Duration;

use oneseal::providers::{Entries, ErrorKind, SecretProvider};
use oneseal::{Algorithm, Findings, Issuer, Rotation};
use oneseal_testing::MemoryProvider;

use crate::support::{ES256, HOUR, RS256, URL, bare, get, ring, start_on};

async fn faults(url: &str, provider: &MemoryProvider) -> Findings {
    let writes = provider.writes();
    let built = Issuer::builder(url, provider.clone()).allow("aud", HOUR).build().await;
    assert_eq!(provider.writes(), writes, "building writes nothing");
    built.expect_err("a refusal")
}

fn names(findings: &Findings) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.code.name).collect()
}

/// P1: every way in which the key can be missing or unusable is a typed refusal, and no key is made.
#[tokio::test]
async fn without_a_usable_key_there_is_no_issuer() {
    let missing = MemoryProvider::new();
    assert_eq!(names(&faults(URL, &missing).await), ["provider.not_found"]);
    assert_eq!(missing.load().await.expect_err("still nothing").kind(), ErrorKind::NotFound);

    let down = MemoryProvider::with(bare(&[("current.pem", RS256)]));
    down.set_outage(Some(ErrorKind::Unavailable));
    let findings = faults(URL, &down).await;
    assert_eq!(names(&findings), ["provider.unavailable"]);
    assert_eq!(findings.exit().map(|exit| exit.code()), Some(69));

    for (text, what) in [("", "empty"), ("not a key", "text"), (&RS256[..200], "a torn PEM")] {
        let unusable = MemoryProvider::with(Entries::single("current.pem", text));
        let findings = faults(URL, &unusable).await;
        assert!(findings.has_errors(), "{what}");
        assert_eq!(findings.exit().map(|exit| exit.code()), Some(78), "{what}: {findings}");
    }
}

#[tokio::test]
async fn all_faults_are_told_at_once_in_the_words_of_check() {
    let mut rotation = Rotation::default();
    rotation.staleness_limit_s = 1;
    let findings = Issuer::builder("https://Oidc.example/?a#b", MemoryProvider::new())
        .allow("two words", HOUR)
        .allow("vault", Duration::from_secs(1))
        .algorithms([Algorithm::Rs256, Algorithm::Rs256])
        .rotation(rotation)
        .signing_threads(0)
        .build()
        .await
        .expect_err("much is wrong");
    let mut found = names(&findings);
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "config.algorithm_twice",
            "config.inequality",
            "config.signing_threads",
            "issuer.fragment",
            "issuer.host_case",
            "issuer.query",
            "provider.not_found",
            "rule.malformed",
            "rule.malformed",
        ]
    );
    let text = findings.to_string();
    for part in ["error provider.not_found at memory", "cure: ", "rule vault", "two words"] {
        assert!(text.contains(part), "{part:?} in\n{text}");
    }
}

#[tokio::test]
async fn our_own_audience_in_a_rule_is_a_fault() {
    let provider = MemoryProvider::with(bare(&[("current.pem", RS256)]));
    let builder =
        Issuer::builder(URL, provider).allow(URL, HOUR).mint_audiences(["https://oidc.example/token"]);
    let findings = builder.build().await.expect_err("refused");
    assert_eq!(names(&findings), ["rule.own_audience", "rule.own_audience"]);
}

#[tokio::test]
async fn an_empty_list_of_algorithms_is_one_fault_and_not_several() {
    let provider = MemoryProvider::with(bare(&[("current.pem", RS256)]));
    let builder = Issuer::builder(URL, provider).allow("aud", HOUR).algorithms([]);
    assert_eq!(names(&builder.build().await.expect_err("refused")), ["config.algorithms_empty"]);
}

#[tokio::test]
async fn a_ring_of_another_issuer_is_refused() {
    let provider = ring("https://other.example", &[Algorithm::Es256]).await;
    let builder = Issuer::builder(URL, provider).algorithms([Algorithm::Es256]);
    let findings = builder.build().await.expect_err("another's ring");
    assert!(names(&findings).contains(&"ring.issuer_mismatch"), "{findings}");
}

#[tokio::test]
async fn warnings_are_kept_and_do_not_stop_it() {
    let provider = MemoryProvider::with(bare(&[("current.pem", ES256)]));
    let running =
        start_on("https://oidc.example:8443/", provider, |builder| builder.algorithms([Algorithm::Es256]))
            .await;
    let found = names(running.issuer.findings());
    for name in ["issuer.port", "issuer.trailing_slash", "issuer.no_rs256"] {
        assert!(found.contains(&name), "{name} in {found:?}");
    }
    assert!(!running.issuer.findings().has_errors());
}

#[tokio::test]
async fn a_ring_document_and_a_shared_provider_work_as_well() {
    let shared: Arc<dyn SecretProvider> = Arc::new(ring(URL, &[Algorithm::Es256]).await);
    let (issuer, _tasks) = Issuer::builder(URL, Arc::clone(&shared))
        .algorithms([Algorithm::Es256])
        .allow("aud", HOUR)
        .build()
        .await
        .expect("a good issuer");
    assert_eq!(get(&issuer, "/.well-known/jwks.json").headers()["x-oneseal-revision"], "1.1");
    assert_eq!(issuer.snapshot().identity().revision, 1);
}

#[test]
fn codes_are_distinct_and_have_their_words() {
    let mut seen = std::collections::BTreeSet::new();
    for code in oneseal::all_codes() {
        assert!(seen.insert(code.name), "{} is declared twice", code.name);
        assert!(!code.meaning.is_empty() && !code.cure.is_empty(), "{}", code.name);
    }
    assert!(seen.contains("rule.own_audience") && seen.contains("provider.not_found"));
}
