//! Lists of tables, from the file to what a server runs with.

use std::path::PathBuf;
use std::time::Duration;

use oneseal_keystore::Algorithm;

use super::super::{AssertionKeys, ClusterKeys, Config, Fetch};
use super::{Case, LEAST};

fn with(lists: &str) -> Case {
    Case::file(format!("{LEAST}\n{lists}"))
}

#[test]
fn assertion_issuers_are_read_with_their_defaults() {
    let (config, warnings) = with(
        "[[assertion_issuer]]\n\
         name = \"jenkins\"\n\
         issuer = \"https://ci.example.com\"\n\
         [[assertion_issuer]]\n\
         name = \"batch\"\n\
         issuer = \"https://batch.example.com\"\n\
         jwks_uri = \"https://batch.example.com/keys\"\n\
         algorithms = [\"ES256\", \"RS256\"]\n\
         ca_bundle = \"/ca.pem\"\n\
         proxy = \"http://proxy:3128\"\n\
         timeout = \"1s\"\n\
         [[assertion_issuer]]\n\
         name = \"cron\"\n\
         issuer = \"https://cron.example.com\"\n\
         jwks_file = \"/keys.json\"\n",
    )
    .load();
    assert_eq!(warnings, [] as [&str; 0]);
    let [jenkins, batch, cron] = &config.settings.assertion_issuers[..] else { panic!("three") };
    assert_eq!((jenkins.name.as_str(), jenkins.issuer.as_str()), ("jenkins", "https://ci.example.com"));
    assert_eq!((&jenkins.keys, jenkins.timeout), (&AssertionKeys::Discovery, Duration::from_secs(5)));
    assert_eq!(jenkins.algorithms, [Algorithm::Rs256]);
    assert_eq!((&jenkins.ca_bundle, &jenkins.proxy), (&None, &None));
    assert_eq!(batch.keys, AssertionKeys::Uri("https://batch.example.com/keys".to_owned()));
    assert_eq!(batch.algorithms, [Algorithm::Es256, Algorithm::Rs256]);
    assert_eq!(batch.ca_bundle, Some(PathBuf::from("/ca.pem")));
    assert_eq!((batch.proxy.as_deref(), batch.timeout), (Some("http://proxy:3128"), Duration::from_secs(1)));
    assert_eq!(cron.keys, AssertionKeys::File(PathBuf::from("/keys.json")));
    assert!(
        cron.place.starts_with("assertion_issuer 3 (") && cron.place.contains("oneseal.toml:"),
        "{}",
        cron.place
    );
}

#[test]
fn what_does_not_go_together_is_refused_where_it_stands() {
    let one = |rest: &str| format!("[[assertion_issuer]]\nname = \"ci\"\n{rest}\n");
    for (lists, line) in [
        (
            one("issuer = \"https://ci.example\"\njwks_uri = \"https://ci.example/k\"\njwks_file = \"/k\""),
            "config.conflict at assertion_issuer 1, jwks_file (oneseal.toml:10): `jwks_uri` is set as well",
        ),
        (
            one("issuer = \"https://oidc.example\""),
            "config.conflict at assertion_issuer 1, issuer (oneseal.toml:8): it is `issuer.url`: our own tokens are never taken as proof",
        ),
        (
            one("issuer = \"http://ci.example\""),
            "config.bad_value at assertion_issuer 1, issuer (oneseal.toml:8): it is no https URL without query and fragment, as discovery and its tokens' `iss` have it",
        ),
        (
            one("issuer = \"https://ci.example\"\nca_bundle = \"/x\"\nproxy = \"proxy:1\""),
            "config.bad_value at assertion_issuer 1, proxy (oneseal.toml:10): \"proxy:1\" is not the http URL of a proxy, such as \"http://proxy.internal:3128\"",
        ),
        (
            "[assertion_issuer]\nname = \"ci\"\n".to_owned(),
            "config.bad_value at assertion_issuer (oneseal.toml:6): there may be several of it: write [[assertion_issuer]], with two brackets",
        ),
        (
            "[[assertion_isuer]]\nname = \"ci\"\n".to_owned(),
            "config.unknown_key at assertion_isuer (oneseal.toml:6): unknown table; did you mean [[assertion_issuer]]?",
        ),
        (
            "[assertion_issuers]\nname = \"ci\"\n".to_owned(),
            "config.unknown_key at assertion_issuers.name (oneseal.toml:7): unknown table; did you mean [[assertion_issuer]]?",
        ),
    ] {
        assert_eq!(with(&lists).refused(), [line], "{lists}");
    }
    assert_eq!(
        with("").var("ONESEAL__ASSERTION_ISSUER__NAME", "x").refused(),
        [
            "config.unknown_key at ONESEAL__ASSERTION_ISSUER__NAME: there may be several tables [[assertion_issuer]], so no \
             variable sets them; write them into the file"
        ]
    );
    let (_, warnings) =
        with(&one("issuer = \"https://ci.example\"\njwks_file = \"/k\"\nproxy = \"http://proxy:1\"")).load();
    assert_eq!(
        warnings,
        ["config.no_effect at assertion_issuer 1, proxy (oneseal.toml:10): keys of a file are not fetched"]
    );
}

#[test]
fn clusters_are_read_with_their_defaults_and_refused_where_their_keys_are_in_two_places() {
    let one = |rest: &str| {
        format!("[[cluster]]\nname = \"prod\"\nissuer = \"https://kubernetes.default.svc\"\n{rest}")
    };
    let (config, warnings) = with(&one("")).load();
    assert_eq!(warnings, [] as [&str; 0]);
    let [prod] = &config.settings.clusters[..] else { panic!("one") };
    assert_eq!((prod.name.as_str(), &prod.audience, &prod.kubeconfig), ("prod", &None, &None));
    assert_eq!((&prod.keys, prod.is_reviewed, prod.max_reviews), (&ClusterKeys::Api, true, 32));
    assert_eq!((prod.max_lifetime, prod.timeout), (Duration::from_secs(3607), Duration::from_secs(5)));
    for (rest, keys) in [
        ("keys = \"discovery\"", ClusterKeys::Discovery(Fetch::default())),
        (
            "jwks_uri = \"https://keys.example\"\nca_bundle = \"/ca.pem\"\nproxy = \"http://proxy:1\"",
            ClusterKeys::Uri(
                "https://keys.example".to_owned(),
                Fetch { ca_bundle: Some("/ca.pem".into()), proxy: Some("http://proxy:1".to_owned()) },
            ),
        ),
        ("jwks_file = \"/keys.json\"\nreview = \"off\"", ClusterKeys::File("/keys.json".into())),
    ] {
        let (config, warnings) = with(&one(rest)).load();
        assert_eq!(warnings, [] as [&str; 0], "{rest}");
        assert_eq!(config.settings.clusters[0].keys, keys, "{rest}");
        assert_eq!(config.settings.clusters[0].is_reviewed, !rest.contains("off"), "{rest}");
    }
    for (rest, line) in [
        (
            "keys = \"api\"\njwks_uri = \"https://keys.example\"",
            "config.conflict at cluster 1, keys (oneseal.toml:9): `jwks_uri` or `jwks_file` is set as well, and says where its keys are",
        ),
        (
            "jwks_file = \"/k\"\njwks_uri = \"https://keys.example\"",
            "config.conflict at cluster 1, jwks_file (oneseal.toml:9): `jwks_uri` is set as well",
        ),
    ] {
        assert_eq!(with(&one(rest)).refused(), [line], "{rest}");
    }
    let ours = one("").replace("kubernetes.default.svc", "oidc.example");
    let told = with(&ours).refused();
    assert!(told[0].contains("our own tokens are never taken as proof") && told.len() == 1, "{told:?}");
    let idle =
        "review = \"off\"\njwks_file = \"/k\"\nkubeconfig = \"/c\"\nmax_reviews = 1\nproxy = \"http://p:1\"";
    let (_, warnings) = with(&one(idle)).load();
    let keys: Vec<_> =
        warnings.iter().filter_map(|line| line.split([',', '(']).nth(1)).map(str::trim).collect();
    assert_eq!(keys, ["kubeconfig", "max_reviews", "proxy"], "{warnings:?}");
}

#[test]
fn what_is_explained_says_the_same_again() {
    let (config, _) = with(
        "[[assertion_issuer]]\nname = \"a\"\nissuer = \"https://a.example\"\n\
         [[assertion_issuer]]\nname = \"b\"\nissuer = \"https://b.example\"\njwks_file = \"/k \\\"x\\\"\"\n",
    )
    .load();
    let printed = config.settings.effective.to_string();
    assert!(printed.contains("assertion_issuer = [{ name = \"a\", "), "{printed}");
    let again = Case::file(&printed);
    let (same, _) = Config::load(again.sources()).unwrap();
    let without_place = |config: &Config| {
        let mut all = config.settings.assertion_issuers.clone();
        all.iter_mut().for_each(|one| one.place.clear());
        all
    };
    assert_eq!(without_place(&same), without_place(&config));
}

/// A thousand mistakes are not a thousand lines.
#[test]
fn a_list_of_mistakes_is_cut() {
    let lines = with(&"[[assertion_issuer]]\nx = 1\n".repeat(500)).refused();
    assert!(lines[..50].iter().all(|line| line.contains(" at assertion_issuer ")));
    assert!(lines.len() < 60 && lines[50].starts_with("config.too_many"), "{}", lines[50]);
}
