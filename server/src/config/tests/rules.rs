//! `[[rule]]`, as a file writes it.

use oneseal_keystore::Algorithm;

use super::{Case, LEAST};

const CLUSTERS: &str = "[[cluster]]\nname = \"prod\"\nissuer = \"https://kubernetes.default.svc\"\njwks_file = \"/k\"\n\
                        review = \"off\"\n";

#[test]
fn a_rule_with_every_key_is_read_and_one_with_the_least_has_the_defaults() {
    let least = "[[rule]]\nname = \"least\"\ncluster = \"prod\"\nsub = \"{cluster}\"\naudiences = [\"b\"]\n";
    let every = "[[rule]]\nname = \"every\"\ncluster = [\"prod\"]\nnamespace = [\"ci\", { prefix = \"team-\" }]\n\
                 service_account = \"x\"\nwhen = { \"claims./a/b\" = [1, true], node = \"n1\" }\nunbound = true\n\
                 sub = \"{cluster}:{namespace}\"\naudiences = [\"a\"]\nalgorithm = \"ES256\"\nttl = \"15m\"\n\
                 claims = { team = \"{namespace}\", deep = { list = [\"{pod}\", 1] } }\n\
                 aws_session_tags = { project = \"{namespace}\" }\naws_transitive_tags = [\"project\"]\n";
    let (config, warnings) = Case::file(
        format!("{LEAST}{CLUSTERS}{every}{least}")
            .replace("[provider]", "algorithms = [\"RS256\", \"ES256\"]\n[provider]"),
    )
    .load();
    assert_eq!(warnings, [] as [&str; 0]);
    let names: Vec<_> = config.settings.rules.iter().map(oneseal::Rule::name).collect();
    assert_eq!(names, ["every", "least"]);
    assert_eq!(config.settings.algorithms, [Algorithm::Rs256, Algorithm::Es256]);
}

#[test]
fn a_rule_for_the_token_endpoint_is_refused_wherever_that_is() {
    let rule = "[[rule]]\nname = \"a\"\ncluster = \"prod\"\nsub = \"{cluster}:{namespace}\"\n\
                audiences = [\"https://tokens.example/t\"]\n";
    let at = |endpoint: &str| {
        let file = format!("{LEAST}{CLUSTERS}{rule}");
        Case::file(file.replace("[provider]", &format!("token_endpoint = \"{endpoint}\"\n[provider]")))
    };
    let told = at("https://tokens.example/t").refused();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("rule.own_audience at rule 1 (oneseal.toml:"), "{told:?}");
    at("https://tokens.example/u").load();
}

#[test]
fn every_mistake_of_a_rule_is_told_with_its_number_and_line() {
    let rule = |name: &str, rest: &str| {
        format!("[[rule]]\nname = \"{name}\"\nsub = \"{{cluster}}\"\naudiences = [\"a\"]\n{rest}\n")
    };
    let text = [
        rule("a", ""),
        rule("b", "cluster = \"prod\"\nassertion_issuer = \"x\""),
        rule("c", "cluster = \"prd\""),
        rule("d", "cluster = \"prod\"\nwhen = { name_space = \"x\" }\nttl = \"5s\""),
        rule("e", "cluster = \"prod\"\nalgorithm = \"ES384\""),
    ];
    let mut told = Case::file(format!("{LEAST}{CLUSTERS}{}", text.concat())).refused();
    told.sort_unstable();
    assert_eq!(
        told,
        [
            "config.conflict at rule 2, assertion_issuer (oneseal.toml:20): `cluster` is set as well; write a rule for each",
            "config.missing at rule 1 (oneseal.toml:10): it is for nobody: name the `cluster` or the `assertion_issuer` that vouches for them",
            "rule.algorithm_unlisted at rule 5 (oneseal.toml:33): ES384 is not among the issuer's",
            "rule.malformed at rule 4 (oneseal.toml:26): ttl: a token cannot live 5 s; ask for 60 s to 86400 s",
            "rule.unknown_name at rule 4 (oneseal.toml:26): the condition `name_space`: `name_space` is not known of these workloads; did you mean namespace?",
            "rule.unknown_voucher at rule 3 (oneseal.toml:21): cluster: `prd` is none; there are prod",
        ]
    );
}
