//! A key, and a KEK, in a Kubernetes Secret and in AWS Secrets Manager.

use oneseal_providers::Description;

use super::super::{Config, ProviderChoice};
use super::Case;

const HEAD: &str = "[issuer]\nurl = \"https://oidc.example\"\n[provider]\n";
const ARN: &str = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:ring-AbCdEf";

fn described(choice: Option<&ProviderChoice>) -> Description {
    let Some(ProviderChoice::Remote(provider)) = choice else { panic!("{choice:?}") };
    provider.describe()
}

fn place(config: &Config) -> String {
    let Description { kind, location, .. } = described(Some(&config.provider));
    format!("{kind}:{location}")
}

#[test]
fn each_is_named_by_kind_or_by_uri() {
    for (provider, wanted) in [
        ("kind = \"kubernetes\"\nnamespace = \"ci\"\nname = \"ring\"\ncontext = \"a@b\"\n", "k8s:ci/ring"),
        ("uri = \"k8s:ci/ring?context=a@b&kubeconfig=/k\"\n", "k8s:ci/ring"),
        ("uri = \"k8s:ring\"\n", "k8s:ring"),
        ("kind = \"aws\"\nsecret = \"prod/ring\"\nregion = \"eu-west-1\"\n", "aws:prod/ring in eu-west-1"),
        ("uri = \"aws:prod/ring?region=eu-west-1\"\n", "aws:prod/ring in eu-west-1"),
    ] {
        assert_eq!(place(&Case::file(format!("{HEAD}{provider}")).load().0), wanted, "{provider}");
    }
    let by_arn = Case::file(format!("{HEAD}kind = \"aws\"\nsecret = {ARN:?}\n")).load().0;
    assert_eq!(place(&by_arn), format!("aws:{ARN}"));
}

#[test]
fn a_member_is_taken_out_by_aws_itself() {
    for provider in ["kind = \"aws\"\nsecret = \"r\"\n", "uri = \"aws:r\"\n"] {
        let (config, _) = Case::file(format!("{HEAD}{provider}member = \"key\"\n")).load();
        assert_eq!(config.unlocking.member, None, "not to be looked for again in what it holds");
        assert!(format!("{:?}", config.provider).contains("key"), "{:?}", config.provider);
    }
    let (config, _) =
        Case::file(format!("{HEAD}kind = \"kubernetes\"\nname = \"r\"\nmember = \"key\"\n")).load();
    assert_eq!(config.unlocking.member.as_deref(), Some("key"));
    // Another place from a stronger source: the member was of the weaker one.
    let weak = Case::file(format!("{HEAD}kind = \"aws\"\nsecret = \"r\"\nmember = \"key\"\n"));
    let (config, _) = weak.flag("--provider", "provider.uri", "aws:other").load();
    assert!(!format!("{:?}", config.provider).contains("key"), "{:?}", config.provider);
}

#[test]
fn what_is_missing_contradicts_or_cannot_be_is_named_at_its_key() {
    for (provider, wanted) in [
        ("kind = \"kubernetes\"\n", "config.missing at provider.name"),
        ("kind = \"aws\"\n", "config.missing at provider.secret"),
        ("namespace = \"ci\"\n", "it belongs to kind = \"kubernetes\""),
        ("region = \"eu-west-1\"\n", "it belongs to kind = \"aws\""),
        ("kind = \"aws\"\nsecret = \"r\"\nnamespace = \"ci\"\n", "config.conflict at provider.namespace"),
        ("uri = \"k8s:ci/ring\"\nregion = \"eu-west-1\"\n", "config.conflict at provider.region"),
        ("kind = \"kubernetes\"\nname = \"Ring\"\n", "config.bad_value at provider.name"),
        ("kind = \"aws\"\nsecret = \"a b\"\n", "config.bad_value at provider.secret"),
        ("kind = \"aws\"\nsecret = \"r\"\nregion = \"Europe!\"\n", "config.bad_value at provider.secret"),
        ("kind = \"aws\"\nsecret = \"r\"\nendpoint = \"nowhere\"\n", "the endpoint is no URL"),
        ("uri = \"aws:r?colour=red\"\n", "config.bad_value at provider.uri"),
        ("uri = \"k8s:ci/\"\n", "config.bad_value at provider.uri"),
    ] {
        let lines = Case::file(format!("{HEAD}{provider}")).refused().join("\n");
        assert!(lines.contains(wanted), "{provider}: {lines}");
    }
    let elsewhere = Case::file(format!("{HEAD}kind = \"aws\"\nsecret = {ARN:?}\nregion = \"us-east-1\"\n"));
    assert!(elsewhere.refused().join("\n").contains("the region is set to us-east-1"));
}

#[test]
fn a_kek_may_rest_in_either_with_those_that_only_open() {
    let head = "[issuer]\nurl = \"https://oidc.example\"\n[provider]\nuri = \"file:/k\"\n[kek]\n";
    for (kek, wanted) in [
        ("kind = \"kubernetes\"\nnamespace = \"ci\"\nname = \"kek\"\n", "ci/kek"),
        ("kind = \"aws\"\nsecret = \"kek\"\nregion = \"eu-west-1\"\nmember = \"m\"\n", "kek in eu-west-1"),
        ("uri = \"aws:kek?region=eu-west-1\"\nprevious = [\"k8s:ci/old\"]\n", "kek in eu-west-1"),
    ] {
        let sealing = Case::file(format!("{head}{kek}")).load().0.unlocking.sealing;
        assert_eq!(described(sealing.kek.as_ref()).location, wanted, "{kek}");
        let previous: Vec<_> =
            sealing.previous.iter().map(|choice| described(Some(choice)).location).collect();
        assert!(previous.iter().all(|place| place == "ci/old"), "{previous:?}");
    }
    for (kek, wanted) in [
        ("kind = \"kubernetes\"\n", "config.missing at kek.name"),
        ("kind = \"aws\"\nsecret = \"k\"\nname = \"k\"\n", "config.conflict at kek.name"),
        ("kind = \"file\"\npath = \"/k\"\nmember = \"m\"\n", "config.conflict at kek.member"),
        ("uri = \"postgres://h/d\"\n", "takes a KEK from no \"postgres:\" provider"),
    ] {
        let lines = Case::file(format!("{head}{kek}")).refused().join("\n");
        assert!(lines.contains(wanted), "{kek}: {lines}");
    }
}
