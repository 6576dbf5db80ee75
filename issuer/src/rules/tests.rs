//! What rules decide, and what is found wrong with them.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::*;
use crate::codes::{
    RULE_ALGORITHM_UNLISTED, RULE_NAME_TAKEN, RULE_SUBJECT_SHARED, RULE_TTL_CLAMPED, RULE_UNREACHABLE,
};

const HOUR: u64 = 3600;
const ENDPOINT: &str = "https://tokens.example/t/token";

fn audience(text: &str) -> Audience {
    Audience::parse(text).expect("a good audience")
}

fn rule(text: &str, ttl_s: u64) -> Rule {
    Rule::new(audience(text), TokenLifetime::new(Duration::from_secs(ttl_s)).expect("a good life"))
}

fn rules(list: Vec<Rule>, admin: &[&str]) -> Rules {
    let url = IssuerUrl::parse("https://oidc.example/t", "p").expect("a good URL");
    let admin = admin.iter().map(|text| audience(text)).collect();
    Rules::new(&url, Some(ENDPOINT), vec![Algorithm::Rs256, Algorithm::Es256], RuleSet::new(list), admin)
}

fn embedder() -> VerifiedWorkload {
    VerifiedWorkload::vouched_by_embedder(Subject::parse("pod").expect("good"))
}

fn admin() -> VerifiedWorkload {
    VerifiedWorkload::vouched_by_admin("ops", Subject::parse("pod").expect("good"))
}

fn decide(
    rules: &Rules,
    workload: &VerifiedWorkload,
    request: &MintRequest,
) -> Result<(u64, Algorithm), MintError> {
    rules
        .decide(&Known::of(workload), request, &Rotation::default())
        .map(|grant| (grant.ttl.as_secs(), grant.algorithm))
}

#[test]
fn nothing_is_allowed_until_a_rule_says_so_and_the_first_decides() {
    let rules =
        rules(vec![rule("a", HOUR), rule("a", 2 * HOUR), rule("b", 600).algorithm(Algorithm::Es256)], &[]);
    let ask = |text: &str| decide(&rules, &embedder(), &MintRequest::new(audience(text)));
    assert!(matches!(ask("c"), Err(MintError::NotAllowed { .. })));
    assert!(matches!(ask("A"), Err(MintError::NotAllowed { .. })), "audiences are compared byte for byte");
    assert_eq!(ask("a").expect("allowed"), (HOUR, Algorithm::Rs256));
    assert_eq!(ask("b").expect("allowed"), (600, Algorithm::Es256));
    assert!(rules.check(Mode::Full).contains(&RULE_UNREACHABLE));
}

#[test]
fn admin_audiences_are_for_admin_callers_alone() {
    let rules = rules(Vec::new(), &["probe"]);
    let request = MintRequest::new(audience("probe"));
    assert!(matches!(decide(&rules, &embedder(), &request), Err(MintError::NotAllowed { .. })));
    assert_eq!(decide(&rules, &admin(), &request).expect("allowed"), (HOUR, Algorithm::Rs256));
    let day = request.ttl(Duration::from_secs(24 * HOUR));
    assert_eq!(decide(&rules, &admin(), &day).expect("allowed"), (24 * HOUR, Algorithm::Rs256));
}

#[test]
fn the_issuer_and_its_token_endpoint_are_never_an_audience() {
    let own = ["https://oidc.example/t", "https://oidc.example/t/", "https://oidc.example/t/token", ENDPOINT];
    for text in own {
        let rules = rules(vec![rule(text, HOUR)], &[text]);
        let request = MintRequest::new(audience(text));
        for workload in [embedder(), admin()] {
            assert!(matches!(decide(&rules, &workload, &request), Err(MintError::OwnAudience(_))), "{text}");
        }
        assert_eq!(
            rules.check(Mode::Full).iter().filter(|found| found.code.name == "rule.own_audience").count(),
            2
        );
    }
}

#[test]
fn a_life_asked_for_is_refused_above_the_limit_and_one_not_asked_for_is_cut() {
    let rules = rules(vec![rule("a", HOUR)], &[]);
    let ask = |ttl_s| MintRequest::new(audience("a")).ttl(Duration::from_secs(ttl_s));
    assert_eq!(decide(&rules, &embedder(), &ask(600)).expect("less is fine").0, 600);
    let refused = decide(&rules, &embedder(), &ask(HOUR + 1)).expect_err("above the rule");
    assert_eq!(
        refused.to_string(),
        "a life of 3601 s was asked for, but at most 3600 s is allowed; ask for less"
    );
    assert!(matches!(decide(&rules, &embedder(), &ask(5)), Err(MintError::Invalid(_))));

    let mut ring = Rotation::default();
    ring.max_token_ttl_s = 900;
    let cut = rules.decide(&Known::of(&embedder()), &MintRequest::new(audience("a")), &ring).expect("cut");
    assert_eq!(cut.ttl.as_secs(), 900);
    let refused = rules.decide(&Known::of(&embedder()), &ask(901), &ring);
    assert!(matches!(refused, Err(MintError::LifetimeTooLong { .. })));
    assert!(rules.check_against(&ring).contains(&RULE_TTL_CLAMPED));
    assert!(rules.check_against(&Rotation::default()).is_empty());
}

#[test]
fn a_token_is_never_born_expired() {
    let rules = rules(vec![rule("a", 60)], &[]);
    let mut ring = Rotation::default();
    ring.backdate_s = 60;
    let refused = rules.decide(&Known::of(&embedder()), &MintRequest::new(audience("a")), &ring);
    assert!(matches!(refused, Err(MintError::LifetimeTooShort { .. })));
}

#[test]
fn an_algorithm_must_be_the_rules_or_one_that_discovery_names() {
    let rules = rules(vec![rule("a", 600), rule("b", 600).algorithm(Algorithm::Es256)], &[]);
    let ask = |text: &str, algorithm| {
        decide(&rules, &embedder(), &MintRequest::new(audience(text)).algorithm(algorithm)).map(|got| got.1)
    };
    assert_eq!(ask("a", Algorithm::Es256).expect("listed"), Algorithm::Es256);
    assert!(matches!(ask("a", Algorithm::EdDsa), Err(MintError::AlgorithmNotAllowed { .. })));
    assert!(matches!(ask("b", Algorithm::Rs256), Err(MintError::AlgorithmNotAllowed { .. })));
    let unlisted = self::rules(vec![rule("a", 600).algorithm(Algorithm::EdDsa)], &[]);
    assert!(unlisted.check(Mode::Full).contains(&RULE_ALGORITHM_UNLISTED));
}

#[test]
fn no_rule_at_all_is_worth_a_word() {
    let findings = rules(Vec::new(), &[]).check(Mode::Full);
    assert!(findings.contains(&RULE_NONE) && !findings.has_errors());
}

fn facts(namespace: &str, account: &str) -> Facts {
    let named = [
        ("cluster", "prod"),
        ("namespace", namespace),
        ("service_account", account),
        ("pod", "job-1"),
        ("pod_uid", "5c1e"),
    ];
    let claims =
        json!({"kubernetes.io": {"node": {"name": "n1"}}, "run": 7, "groups": ["a", "b"], "flag": true});
    Facts::new(named).with_claims(claims.as_object().expect("an object").clone())
}

fn cluster(name: &str) -> Voucher {
    Voucher::Cluster(name.to_owned())
}

fn ci() -> Rule {
    Rule::of_clusters("ci", ["prod"], "k8s:{cluster}:{namespace}:{service_account}").audiences(["a"])
}

/// What the rules let this workload have for `a`.
fn grant(rules: &Rules, voucher: &Voucher, facts: &Facts) -> Result<Grant, MintError> {
    let known = Known { voucher, subject: None, facts };
    rules.decide(&known, &MintRequest::new(audience("a")), &Rotation::default())
}

fn found(list: Vec<Rule>) -> Vec<(&'static str, String)> {
    let findings = rules(list, &[]).check(Mode::Full);
    findings.iter().map(|finding| (finding.code.name, finding.message.clone())).collect()
}

#[test]
fn a_rule_of_one_cluster_gives_nothing_to_the_same_names_in_another() {
    let rules = rules(vec![ci().when("namespace", ["ci"]).when("service_account", ["builder"])], &[]);
    let builder = facts("ci", "builder");
    let granted = grant(&rules, &cluster("prod"), &builder).expect("its own");
    assert_eq!((granted.subject.as_str(), &*granted.rule), ("k8s:prod:ci:builder", "ci"));
    assert_eq!((granted.ttl.as_secs(), granted.algorithm), (HOUR, Algorithm::Rs256));
    for voucher in [
        cluster("dev"),
        cluster("Prod"),
        cluster("prod "),
        cluster(""),
        Voucher::AssertionIssuer("prod".to_owned()),
        Voucher::Embedder,
    ] {
        let refused = grant(&rules, &voucher, &builder);
        assert!(matches!(refused, Err(MintError::NotAllowed { .. })), "{voucher:?}");
    }
    for (namespace, account) in [
        ("ci", "Builder"),
        ("ci", "builder2"),
        ("ci ", "builder"),
        ("c", "i:builder"),
        ("ci:builder", ""),
        ("CI", "builder"),
        ("ci", "bu\u{456}lder"),
        ("team-ci", "builder"),
    ] {
        let refused = grant(&rules, &cluster("prod"), &facts(namespace, account));
        assert!(matches!(refused, Err(MintError::NotAllowed { .. })), "{namespace} {account}");
    }
}

#[test]
fn an_assertion_is_for_the_rules_of_its_issuer_alone() {
    let rule = Rule::of_assertion_issuers("jobs", ["jenkins"], "{assertion_issuer}:{subject}")
        .audiences(["a"])
        .when("subject", [Pattern::prefix("job-")]);
    let rules = rules(vec![rule], &[]);
    let facts = Facts::new([("assertion_issuer", "jenkins"), ("subject", "job-1/x")]);
    let granted = grant(&rules, &Voucher::AssertionIssuer("jenkins".to_owned()), &facts).expect("its own");
    assert_eq!(granted.subject.as_str(), "jenkins:job-1%2Fx");
    for voucher in [Voucher::AssertionIssuer("other".to_owned()), cluster("jenkins"), Voucher::Embedder] {
        assert!(grant(&rules, &voucher, &facts).is_err(), "{voucher:?}");
    }
}

#[test]
fn the_first_rule_of_which_all_holds_decides_and_without_one_nothing_is_minted() {
    let named = |name: &str| Rule::of_clusters(name, ["prod"], "{cluster}/{namespace}").audiences(["a"]);
    let rules = rules(
        vec![
            named("node").when("claims./kubernetes.io/node/name", ["n2"]),
            named("run").when("claims./run", [Pattern::exactly(7)]).when("namespace", ["ci"]),
            named("all").ttl(Duration::from_secs(600)).algorithm(Algorithm::Es256),
        ],
        &[],
    );
    let decided = |namespace: &str| grant(&rules, &cluster("prod"), &facts(namespace, "x")).expect("granted");
    assert_eq!(&*decided("ci").rule, "run");
    let all = decided("dev");
    assert_eq!((&*all.rule, all.ttl.as_secs(), all.algorithm), ("all", 600, Algorithm::Es256));
    let none = self::rules(vec![ci().when("namespace", ["nobodys"])], &[]);
    assert!(matches!(grant(&none, &cluster("prod"), &facts("ci", "x")), Err(MintError::NotAllowed { .. })));
    let empty = self::rules(Vec::new(), &[]);
    assert!(matches!(grant(&empty, &cluster("prod"), &facts("ci", "x")), Err(MintError::NotAllowed { .. })));
}

#[test]
fn a_token_bound_to_no_pod_is_taken_only_where_a_rule_says_so() {
    let unbound = Facts::new([("cluster", "prod"), ("namespace", "ci"), ("service_account", "x")]);
    let rules = [ci(), ci().unbound(true)].map(|rule| rules(vec![rule], &[]));
    let granted = rules.each_ref().map(|rules| grant(rules, &cluster("prod"), &unbound).is_ok());
    assert_eq!(granted, [false, true]);
    assert!(rules.iter().all(|rules| grant(rules, &cluster("prod"), &facts("ci", "x")).is_ok()));
}

#[test]
fn why_no_rule_decides_is_told_by_what_is_nearest_to_a_token() {
    let of = |name: &str, namespace: &str, to: &str| {
        Rule::of_clusters(name, ["prod"], "{cluster}").audiences([to]).when("namespace", [namespace])
    };
    let unbound = Facts::new([("cluster", "prod"), ("namespace", "ci"), ("service_account", "x")]);
    let of_pod = of("pod", "ci", "a").when("pod", [Pattern::prefix("job-")]);
    let others = Rule::of_clusters("dev", ["dev"], "{cluster}").audiences(["a"]);
    for (list, facts, expected, rules) in [
        (vec![], facts("ci", "x"), NoRule::Audience, ""),
        (vec![of("b", "ci", "b"), others.clone()], facts("ci", "x"), NoRule::Audience, ""),
        (
            vec![others, of("team", "team", "a")],
            facts("ci", "x"),
            NoRule::Workload,
            "team: namespace is not \"team\"",
        ),
        (vec![of("team", "team", "a")], unbound.clone(), NoRule::Workload, "team: namespace is not \"team\""),
        (
            vec![of("team", "team", "a"), of_pod],
            unbound,
            NoRule::Unbound,
            "team: namespace is not \"team\"; pod: it wants",
        ),
    ] {
        let refused = grant(&rules_of(list), &cluster("prod"), &facts).expect_err("none");
        let MintError::NotAllowed { why, against, .. } = &refused else { panic!("{refused:?}") };
        assert_eq!(*why, expected);
        let told: Vec<_> = against
            .iter()
            .map(|one| format!("{}: {}", one.rule, one.mismatch.as_ref().expect("none matches")))
            .collect();
        assert!(told.join("; ").starts_with(rules) && told.is_empty() == rules.is_empty(), "{told:?}");
        assert!(!refused.to_string().contains("team"), "what rules ask for is not for workloads: {refused}");
    }
}

fn rules_of(list: Vec<Rule>) -> Rules {
    rules(list, &[])
}

#[test]
fn what_an_admin_caller_gets_is_bounded_by_the_first_rule_of_the_audience_and_nothing_else_of_it() {
    let rule = ci().when("namespace", ["nobodys"]).ttl(Duration::from_secs(600)).algorithm(Algorithm::Es256);
    let rules = rules(vec![rule.claims(&Map::from_iter([("team".to_owned(), json!("{pod}"))]))], &["a"]);
    let asked = MintRequest::new(audience("a"));
    let granted = rules.decide(&Known::of(&admin()), &asked, &Rotation::default()).expect("by the rule");
    assert_eq!((granted.subject.as_str(), granted.ttl.as_secs()), ("pod", 600));
    assert_eq!((granted.algorithm, granted.claims.is_empty()), (Algorithm::Es256, true));
    let refused = decide(&rules, &admin(), &asked.ttl(Duration::from_secs(601)));
    assert!(matches!(refused, Err(MintError::LifetimeTooLong { .. })), "not as admin.mint_audiences has it");
}

#[test]
fn an_embedders_own_facts_can_be_asked_and_written() {
    let rule = Rule::new(audience("a"), TokenLifetime::HOUR).when("region", ["eu"]).subject("{region}/{run}");
    let rules = rules(vec![rule, Rule::new(audience("b"), TokenLifetime::HOUR)], &[]);
    let workload = embedder().with_facts(Facts::new([("region", "eu"), ("run", "a/b")]));
    let decide = |workload: &VerifiedWorkload, to: &str| {
        rules.decide(&Known::of(workload), &MintRequest::new(audience(to)), &Rotation::default())
    };
    assert_eq!(decide(&workload, "a").expect("granted").subject.as_str(), "eu/a%2Fb");
    assert_eq!(decide(&workload, "b").expect("granted").subject.as_str(), "pod");
    assert!(matches!(decide(&embedder(), "a"), Err(MintError::NotAllowed { .. })));
}

#[test]
fn claims_and_tags_are_written_or_the_mint_is_refused_with_rule_and_placeholder() {
    let claims = json!({"team": "{namespace}", "run": "{claims./run}", "groups": "{claims./groups}"});
    let rule = ci()
        .claims(claims.as_object().expect("an object"))
        .aws_session_tags([("project", "{namespace}"), ("node", "{claims./kubernetes.io/node/name}")])
        .aws_transitive_tags(["project"]);
    let rules = rules(vec![rule], &[]);
    let granted = grant(&rules, &cluster("prod"), &facts("ci", "x")).expect("granted");
    let written: Map<String, Value> =
        granted.claims.iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    assert_eq!(
        Value::Object(written),
        json!({
            "team": "ci", "run": 7, "groups": ["a", "b"],
            "https://aws.amazon.com/tags": {
                "principal_tags": {"project": ["ci"], "node": ["n1"]}, "transitive_tag_keys": ["project"]
            }
        })
    );
    let pods = facts("ci", "x").with_claims(Map::from_iter([("groups".to_owned(), json!([]))]));
    let refused = grant(&rules, &cluster("prod"), &pods).expect_err("no run");
    assert!(
        refused
            .to_string()
            .starts_with("the rule ci cannot write `claims.run`: `{claims./run}` is not known"),
        "{refused}"
    );
    let secret = "s3cr3t".repeat(30);
    let refused = grant(&rules, &cluster("prod"), &facts(&secret, "x")).expect_err("too long");
    let words = "the rule ci cannot write `sub`: `sub` is 191 bytes long; it must have 1 to 127";
    assert!(refused.to_string().starts_with(words), "{refused}");
    assert!(!refused.to_string().contains("s3cr3t"));
}

#[test]
fn what_is_wrong_with_a_rule_is_found_when_it_is_read() {
    let claims = |value: Value| value.as_object().expect("an object").clone();
    let own = "https://oidc.example/t";
    for (rule, code, words) in [
        (Rule::of_clusters("", ["prod"], "{cluster}"), "rule.malformed", "name: "),
        (Rule::of_clusters("a b", ["prod"], "{cluster}"), "rule.malformed", "name: "),
        (Rule::of_clusters(ADMIN, ["prod"], "{cluster}"), "rule.malformed", "name: "),
        (Rule::of_clusters("x", Vec::<String>::new(), "{cluster}"), "rule.malformed", "cluster: "),
        (Rule::of_clusters("x", ["prod"], "{cluster}"), "rule.malformed", "audiences: "),
        (ci().audiences(["a b"]), "rule.malformed", "audiences: `a b`: "),
        (ci().audiences([own]), "rule.own_audience", "is this issuer"),
        (ci().audiences([ENDPOINT]), "rule.own_audience", "is this issuer"),
        (ci().ttl(Duration::from_secs(5)), "rule.malformed", "ttl: "),
        (ci().algorithm(Algorithm::EdDsa), "rule.algorithm_unlisted", "EdDSA"),
        (ci().when("name_space", ["x"]), "rule.unknown_name", "did you mean namespace?"),
        (ci().when("namespace", Vec::<Pattern>::new()), "rule.malformed", "the condition `namespace`: "),
        (ci().when("namespace", [Pattern::exactly(1)]), "rule.malformed", "every fact is a text"),
        (ci().when("claims./x", [Pattern::exactly(1.5)]), "rule.malformed", "a condition is"),
        (ci().when("claims.x", ["x"]), "rule.malformed", "begins with /"),
        (ci().when("namespace", ["ci", "ci-*"]), "rule.malformed", "write { prefix = \"ci-\" }"),
        (
            ci().when("pod", [Pattern::prefix("Job")]),
            "rule.malformed",
            "the condition `pod`: no pod's name can begin",
        ),
        (ci().claims(&claims(json!({"iss": 1, "Typ": 2}))), "rule.claims", "claims: the claim `iss`"),
        (ci().claims(&claims(json!({"iss": 1, "Typ": 2}))), "rule.claims", "claims: the claim `Typ`"),
        (
            ci().subject("{cluster}{namespace}"),
            "rule.template_ambiguous",
            "sub: between {cluster} and {namespace}",
        ),
        (ci().subject("{custer}"), "rule.unknown_name", "did you mean cluster?"),
        (ci().subject(""), "rule.malformed", "sub: "),
        (ci().subject("a {cluster}"), "rule.malformed", "white space"),
        (ci().subject("x".repeat(128)), "rule.malformed", "128 bytes"),
        (ci().subject("x".repeat(127) + "{cluster}"), "rule.malformed", "127 bytes"),
        (ci().claims(&claims(json!({"AUD": "x"}))), "rule.claims", "claims: "),
        (ci().claims(&claims(json!({"x": "{nope}"}))), "rule.unknown_name", "claims: x: `nope`"),
        (ci().aws_session_tags([("aws:x", "x")]), "rule.session_tags", "aws_session_tags: "),
        (ci().aws_transitive_tags(["x"]), "rule.session_tags", "aws_transitive_tags: `x`"),
        (
            ci().aws_session_tags([("x", "y")]).claims(&claims(json!({"https://aws.amazon.com/tags": {}}))),
            "rule.claims",
            "what aws_session_tags write",
        ),
        (
            Rule::of_assertion_issuers("x", ["ci"], "{assertion_issuer}").audiences(["a"]).unbound(true),
            "rule.malformed",
            "unbound: ",
        ),
        (
            Rule::of_assertion_issuers("x", ["ci"], "{assertion_issuer}").audiences(["a"]).when("pod", ["x"]),
            "rule.unknown_name",
            "`pod` is not known",
        ),
    ] {
        let found = found(vec![rule]);
        assert!(
            found.iter().any(|(name, told)| *name == code && told.contains(words)),
            "{code} {words}: {found:?}"
        );
    }
    let twice = rules(vec![ci(), ci().audiences(["b"])], &[]).check(Mode::Full);
    assert!(twice.contains(&RULE_NAME_TAKEN));
    let places = rules(vec![ci().at("rule[2] (oneseal.toml:7)").subject("{")], &[]).check(Mode::Full);
    assert_eq!(
        places.iter().map(|found| found.place.as_str()).collect::<Vec<_>>(),
        ["rule[2] (oneseal.toml:7)"]
    );
}

#[test]
fn every_fault_of_every_rule_is_told_at_once() {
    let found = found(vec![
        ci().subject("{").ttl(Duration::ZERO).when("x", ["y"]).audiences([""]),
        ci().named("b").algorithm(Algorithm::Es384),
    ]);
    let codes: Vec<_> = found.iter().map(|(code, _)| *code).collect();
    assert_eq!(
        codes,
        [
            "rule.malformed",
            "rule.malformed",
            "rule.unknown_name",
            "rule.malformed",
            "rule.algorithm_unlisted"
        ]
    );
}

#[test]
fn a_rule_that_a_former_one_leaves_nothing_is_found() {
    let named = |name: &str| ci().named(name);
    let is_found = |list: Vec<Rule>| found(list).iter().any(|(code, _)| *code == RULE_UNREACHABLE.name);
    let narrow = |name: &str| named(name).when("namespace", ["ci"]);
    assert!(is_found(vec![named("a"), narrow("b")]));
    assert!(is_found(vec![narrow("a"), narrow("b").when("pod", ["x"])]));
    assert!(is_found(vec![
        named("a").when("namespace", [Pattern::prefix("team-")]),
        named("b").when("namespace", ["team-a"])
    ]));
    assert!(!is_found(vec![narrow("a"), named("b")]));
    assert!(!is_found(vec![named("a"), narrow("b").audiences(["other"])]), "one audience is left to it");
    assert!(!is_found(vec![named("a"), narrow("b").unbound(true)]), "it takes what the former does not");
    let dev = Rule::of_clusters("b", ["prod", "dev"], "{cluster}").audiences(["a"]);
    assert!(!is_found(vec![named("a"), dev.clone()]));
    assert!(is_found(vec![dev.named("a"), named("b")]));
}

#[test]
fn two_clusters_that_can_give_one_sub_are_told() {
    let is_found = |list: Vec<Rule>| found(list).iter().any(|(code, _)| *code == RULE_SUBJECT_SHARED.name);
    let of = |name: &str, clusters: &[&str], sub: &str| {
        Rule::of_clusters(name, clusters.to_vec(), sub).audiences([name])
    };
    assert!(is_found(vec![of("a", &["prod", "dev"], "{namespace}")]));
    assert!(is_found(vec![of("a", &["prod"], "k8s:{namespace}"), of("b", &["dev"], "k8s:{namespace}")]));
    assert!(!is_found(vec![of("a", &["prod", "dev"], "{cluster}:{namespace}")]));
    assert!(!is_found(vec![of("a", &["prod"], "{namespace}"), of("b", &["prod"], "{namespace}")]));
    assert!(!is_found(vec![of("a", &["prod"], "p:{namespace}"), of("b", &["dev"], "d:{namespace}")]));
    let jobs = Rule::of_assertion_issuers("c", ["x", "y"], "{subject}").audiences(["a"]);
    assert!(is_found(vec![jobs]));
}

#[test]
fn one_sub_for_several_namespaces_is_told_unless_they_are_named() {
    let is_found = |rule: Rule| found(vec![rule]).iter().any(|(code, _)| *code == RULE_SUBJECT_SHARED.name);
    let of = |sub: &str| Rule::of_clusters("a", ["prod"], sub).audiences(["a"]);
    for sub in ["k8s:{cluster}:{service_account}", "k8s:{cluster}:{pod}", "{claims./team}", "fixed"] {
        assert!(is_found(of(sub)), "{sub}");
        assert!(is_found(of(sub).when("namespace", ["ci".into(), Pattern::prefix("team-")])), "{sub}");
        assert!(is_found(of(sub).when("service_account", ["builder"])), "{sub}");
        assert!(!is_found(of(sub).when("namespace", ["ci"])), "{sub}");
        assert!(!is_found(of(sub).when("namespace", ["ci", "prod"])), "{sub}: both are named");
        let by_claim = of(sub).when("claims./sub", ["system:serviceaccount:ci:builder"]);
        assert!(!is_found(by_claim), "{sub}");
    }
    for sub in ["{namespace}:{service_account}", "{claims./kubernetes.io/namespace}/x", "{pod_uid}"] {
        assert!(!is_found(of(sub)), "{sub}");
    }
    assert!(!is_found(Rule::of_assertion_issuers("b", ["ci"], "jobs").audiences(["a"])));
}

#[test]
fn a_cluster_that_is_not_configured_is_told_by_its_name() {
    let set =
        RuleSet::new([ci(), Rule::of_assertion_issuers("x", ["jenkins"], "{subject}").audiences(["a"])]);
    assert!(set.check_vouchers(["prod"], ["jenkins"]).is_empty());
    let found = set.check_vouchers(["prd", "dev"], []);
    let told: Vec<_> = found.iter().map(|found| format!("{}: {}", found.place, found.message)).collect();
    assert_eq!(
        told,
        [
            "rule ci: cluster: `prod` is none; there are dev, prd",
            "rule x: assertion_issuer: `jenkins` is none; there is none"
        ]
    );
}

#[test]
fn a_thousand_rules_are_checked_and_the_last_decides() {
    let rule = |at: usize| ci().named(format!("rule-{at}")).when("namespace", [format!("team-{at}")]);
    let rules = rules((0..1000).map(rule).collect(), &[]);
    assert!(rules.check(Mode::Full).is_empty());
    let granted = grant(&rules, &cluster("prod"), &facts("team-999", "x")).expect("granted");
    assert_eq!(&*granted.rule, "rule-999");
    assert!(grant(&rules, &cluster("prod"), &facts("team-1000", "x")).is_err());
}

#[test]
fn rules_are_replaced_whole_and_a_rehearsal_says_what_each_has_against_a_workload() {
    let url = IssuerUrl::parse("https://oidc.example/t", "p").expect("a good URL");
    let set = RuleSet::new([
        Rule::of_clusters("dev", ["dev"], "{cluster}").audiences(["a"]),
        ci().named("b").audiences(["b"]).when("namespace", ["x"]),
        ci().named("node").when("node", ["n1"]),
        ci().named("all"),
        ci().named("later").when("pod", ["job-1"]),
    ]);
    let rehearsal = Rehearsal::new(&url, None, vec![Algorithm::Rs256], Rotation::default(), set);
    let (voucher, facts, asked) = (cluster("prod"), facts("ci", "x"), MintRequest::new(audience("a")));
    let told: Vec<_> = rehearsal
        .consider(&voucher, &facts, &asked)
        .into_iter()
        .map(|one| one.mismatch.map(|mismatch| mismatch.to_string()).unwrap_or_default())
        .collect();
    assert_eq!(
        told,
        [
            "it is for workloads of others",
            "namespace is not \"x\"",
            "node is not known, and must be \"n1\"",
            "",
            ""
        ]
    );
    let previewed =
        rehearsal.preview(&voucher, &facts, &asked, oneseal_coordination::UnixTime(1_800_000_000));
    let previewed = previewed.expect("the rule `all`");
    let claims: Value = serde_json::from_str(&previewed.claims).expect("JSON");
    assert_eq!((&*previewed.rule, &claims["sub"]), ("all", &json!("k8s:prod:ci:x")));
    assert_eq!((&claims["iat"], &claims["exp"]), (&json!(1_799_999_970), &json!(1_800_003_570)));
    let members: BTreeSet<_> = claims.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(members, BTreeSet::from(["iss", "sub", "aud", "iat", "nbf", "exp", "jti"]));
}
