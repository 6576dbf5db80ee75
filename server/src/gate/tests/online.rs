//! What `check --online` makes of an issuer's URL.

use oneseal::{Clock, Issuer, SystemClock};
use serde_json::json;

use super::site::{DISCOVERY, JWKS, Site, answer, issuer, key};
use crate::config::{Config, Sources};
use crate::gate::online::{Seen, look};

/// Looks with a configuration that says no more than whose issuer it is and what it signs with.
async fn looked(site: &Site, ours: Option<&Issuer>, clock: &dyn Clock) -> Seen {
    let sources = [("issuer.url", site.url().as_str()), ("provider.uri", "env:UNUSED")]
        .iter()
        .fold(Sources::new([("ONESEAL_CONFIG".into(), "/dev/null".into())]), |sources, (key, value)| {
            sources.flag("--flag", key, Some((*value).to_owned()))
        });
    let (mut config, _) = Config::load(sources).expect("good");
    config.settings.algorithms = vec![oneseal::Algorithm::Es256];
    let snapshot = ours.map(Issuer::snapshot);
    look(&config.issuer, &config.settings, snapshot.as_deref(), clock).await
}

async fn names(site: &Site, ours: Option<&Issuer>) -> Vec<&'static str> {
    looked(site, ours, &SystemClock).await.findings.iter().map(|finding| finding.code.name).collect()
}

#[tokio::test]
async fn a_good_issuer_is_measured_and_nothing_is_remarked() {
    let (site, ours) = Site::of(&key()).await;
    let seen = looked(&site, Some(&ours), &SystemClock).await;
    assert_eq!(seen.findings.to_string(), "");
    let set = ours.snapshot().jwks().len();
    let measured: Vec<_> = seen.measures.iter().map(|one| (one.document, one.bytes)).collect();
    assert_eq!(measured, [("discovery", Some(site.discovery(&site.url()).len())), ("jwks", Some(set))]);
    assert_eq!(seen.measures[1].cache_control.as_deref(), Some("public, max-age=300"));
    let asked =
        ["GET", "HEAD"].map(|method| [DISCOVERY, JWKS].map(|path| format!("{method} {path}"))).concat();
    assert_eq!(site.seen(), asked);
}

#[tokio::test]
async fn each_fault_has_its_own_code() {
    let (site, ours) = Site::of(&key()).await;
    let set = String::from_utf8(ours.snapshot().jwks().to_vec()).expect("JSON");
    let with = |fields: &str| answer(&format!("{fields}\r\n"), &set);
    let status = |line: &str| format!("HTTP/1.1 {line}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    let json = "Content-Type: application/json";
    let cached = "Cache-Control: max-age=300";
    let many: Vec<_> = (0..11).map(|n| json!({ "kty": "none", "n": n })).collect();
    let keys = |more: serde_json::Value| {
        let mut set: serde_json::Value = serde_json::from_str(&set).expect("JSON");
        set["keys"].as_array_mut().expect("a list").extend(more.as_array().expect("a list").clone());
        answer("", &set.to_string())
    };
    for (path, whole, expected) in [
        (DISCOVERY, status("404 Not Found"), "online.status"),
        (DISCOVERY, status("401 Unauthorized"), "online.credentials"),
        (JWKS, status("403 Forbidden"), "online.credentials"),
        (JWKS, status("503 Service Unavailable"), "online.status"),
        (JWKS, status("301 Moved Permanently"), "online.redirect"),
        (DISCOVERY, answer("", "<html>"), "online.not_an_issuer"),
        (JWKS, answer("", r#"{"keys":[]}"#), "online.not_an_issuer"),
        (JWKS, answer("", &with_private(&set)), "online.private_key"),
        (JWKS, answer("", r#"{"keys":[{"kty":"oct","k":"AAAA"}]}"#), "online.private_key"),
        (JWKS, with(&format!("{json}\r\n{cached}\r\nContent-Encoding: gzip")), "online.encoded"),
        (DISCOVERY, answer("", &site.discovery("https://other.example")), "online.issuer_differs"),
        (DISCOVERY, answer("", &site.discovery(&site.url()).replace("jwks_uri", "x")), "online.jwks_uri"),
        (
            DISCOVERY,
            answer("", &site.discovery(&site.url()).replace("ES256", "RS256")),
            "online.algorithm_missing",
        ),
        (JWKS, with(&format!("Content-Type: text/html\r\n{cached}")), "online.content_type"),
        (JWKS, with(cached), "online.content_type"),
        (JWKS, with(json), "online.no_cache_control"),
        (JWKS, with(&format!("{json}\r\nCache-Control: public")), "online.no_cache_control"),
        (JWKS, with(&format!("{json}\r\nCache-Control: max-age=604800")), "online.cached_longer"),
        (JWKS, with(&format!("{json}\r\n{cached}, s-maxage=301")), "online.cached_longer"),
        (JWKS, with(&format!("{json}\r\n{cached}\r\nVary: Accept-Encoding")), "online.varies"),
        (JWKS, with(&format!("{json}\r\n{cached}\r\nSet-Cookie: a=b")), "online.cookie"),
        ("HEAD /.well-known/jwks.json", status("405 Method Not Allowed"), "online.head"),
        (JWKS, answer("", &format!("{set}{}", " ".repeat(60_000))), "online.too_large"),
        (JWKS, keys(json!(many)), "online.too_many_keys"),
        (JWKS, keys(json!([{ "kty": "oct", "k": "AAAA" }])), "online.private_key"),
    ] {
        let (site_of_case, ours) = (&site, Some(&ours));
        site_of_case.serve_keys(ours.expect("there"));
        site_of_case.answer(path, &whole);
        assert_eq!(names(site_of_case, ours).await, [expected], "{whole:.200}");
        site_of_case.forget("HEAD /.well-known/jwks.json");
    }
}

/// The only entry of the set with a private half beside it.
fn with_private(set: &str) -> String {
    let mut set: serde_json::Value = serde_json::from_str(set).expect("JSON");
    set["keys"][0]["d"] = "AAAA".into();
    set.to_string()
}

#[tokio::test]
async fn our_key_under_another_algorithm_is_a_fault() {
    let site = Site::start().await;
    let rsa = include_str!("../../../../keystore/tests/vectors/ring/rsa.pem");
    let ours = Issuer::builder(site.url(), oneseal_providers::InlineProvider::new(rsa.as_bytes().to_vec()));
    let ours = ours.build().await.expect("a good key").0;
    site.answer(DISCOVERY, &answer("", &site.discovery(&site.url())));
    let set = String::from_utf8(ours.snapshot().jwks().to_vec()).expect("JSON");
    for (alg, expected) in [("RS256", vec![]), ("PS256", vec!["online.algorithm_differs"])] {
        let set = set.replace("RS256", alg);
        site.answer(JWKS, &answer("", &set));
        let seen = names(&site, Some(&ours)).await;
        let told: Vec<_> = seen.into_iter().filter(|name| *name != "online.head").collect();
        assert_eq!(told, expected, "{set}");
    }
}

#[tokio::test]
async fn keys_that_are_missing_foreign_or_others_are_named() {
    let (site, ours) = Site::of(&key()).await;
    let other = issuer(&site.url(), &key()).await;
    let entry = |issuer: &Issuer| {
        let snapshot = issuer.snapshot();
        serde_json::from_slice::<serde_json::Value>(snapshot.jwks()).expect("JSON")["keys"][0].clone()
    };
    site.answer(JWKS, &answer("", &json!({ "keys": [entry(&ours), entry(&other)] }).to_string()));
    let seen = looked(&site, Some(&ours), &SystemClock).await;
    let beyond = other.snapshot().keys()[0].kid.to_string();
    assert!(seen.findings.to_string().contains(&format!("served besides: {beyond}")), "{}", seen.findings);
    site.serve_keys(&other);
    assert_eq!(names(&site, Some(&ours)).await, ["issuer.serves_other_keys"]);
    assert_eq!(names(&site, None).await, [] as [&str; 0], "without a key there is nothing to compare");
}

#[tokio::test]
async fn several_faults_are_told_at_once() {
    let (site, ours) = Site::of(&key()).await;
    site.serve_keys(&issuer(&site.url(), &key()).await);
    let fields = "Content-Type: text/plain\r\nVary: Origin\r\nSet-Cookie: a=b\r\n";
    site.answer(DISCOVERY, &answer(fields, &site.discovery("https://other.example")));
    let expected = [
        "online.issuer_differs",
        "online.content_type",
        "online.no_cache_control",
        "online.varies",
        "online.cookie",
        "issuer.serves_other_keys",
    ];
    assert_eq!(names(&site, Some(&ours)).await, expected);
}

/// Half a second passes at each look.
#[derive(Debug)]
struct Slow(std::sync::atomic::AtomicU64);

impl Clock for Slow {
    fn wall(&self) -> oneseal::UnixTime {
        SystemClock.wall()
    }

    fn boot(&self) -> oneseal::BootTime {
        let looks = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        oneseal::BootTime(std::time::Duration::from_millis(501 * looks))
    }
}

#[tokio::test]
async fn more_than_half_a_second_for_a_document_is_slow() {
    let (site, ours) = Site::of(&key()).await;
    let seen = looked(&site, Some(&ours), &Slow(Default::default())).await;
    let told: Vec<_> = seen.findings.iter().map(|one| (one.code.name, one.message.as_str())).collect();
    assert_eq!(told, [("online.slow", "it took 501 ms"); 2]);
    assert_eq!(seen.measures[0].ms, 501);
}
