//! Who gets what: deny by default, and the first rule that matches decides.

use std::sync::Arc;
use std::time::Duration;

use oneseal_keystore::{Algorithm, Findings, IssuerUrl, Mode, Rotation};

use crate::claims::{Audience, ExtraClaims, Subject, TokenLifetime};
use crate::codes::{
    RULE_ALGORITHM_UNLISTED, RULE_NONE, RULE_OWN_AUDIENCE, RULE_TTL_CLAMPED, RULE_UNREACHABLE,
};
use crate::error::MintError;
use crate::mint::MintRequest;
use crate::workload::{VerifiedWorkload, Voucher};

/// Allows tokens for one audience.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    audience: Audience,
    ttl: TokenLifetime,
    algorithm: Option<Algorithm>,
}

impl Rule {
    /// Tokens for `audience` that live at most `ttl`, and just that when nobody asks for less.
    pub fn new(audience: Audience, ttl: TokenLifetime) -> Self {
        Self { audience, ttl, algorithm: None }
    }

    /// Signed with `algorithm` and no other. Without it: the first of the issuer's algorithms, or the one asked for.
    #[must_use]
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = Some(algorithm);
        self
    }
}

/// What one token gets, decided.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Grant {
    /// By its name.
    pub(crate) rule: Arc<str>,
    pub(crate) subject: Subject,
    pub(crate) ttl: TokenLifetime,
    pub(crate) algorithm: Algorithm,
    /// What the rule adds.
    pub(crate) claims: ExtraClaims,
}

/// All rules of an issuer, in order.
#[derive(Debug)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    /// What an admin caller may mint for besides.
    admin_audiences: Vec<Audience>,
    /// Identifiers of the issuer itself, none of which may be an audience.
    own: [String; 2],
    algorithms: Vec<Algorithm>,
}

impl Rules {
    /// `algorithms` must not be empty.
    pub(crate) fn new(
        url: &IssuerUrl,
        algorithms: Vec<Algorithm>,
        rules: Vec<Rule>,
        admin_audiences: Vec<Audience>,
    ) -> Self {
        let own = [url.as_str(), &url.url_of(&url.token_path())].map(|name| without_slash(name).to_owned());
        Self { rules, admin_audiences, own, algorithms }
    }

    /// The algorithm of a token for which neither rule nor request names one.
    pub(crate) fn default_algorithm(&self) -> Algorithm {
        self.algorithms.first().copied().unwrap_or(Algorithm::Rs256)
    }

    /// What is wrong with the rules themselves.
    pub(crate) fn check(&self, mode: Mode) -> Findings {
        let mut findings = Findings::new();
        for (i, rule) in self.rules.iter().enumerate() {
            let audience = &rule.audience;
            let place = format!("rule {audience}");
            if self.is_own(audience) {
                findings.push(&RULE_OWN_AUDIENCE, &place, format!("the audience {audience} is this issuer"));
            }
            if let Some(algorithm) = rule.algorithm.filter(|algorithm| !self.algorithms.contains(algorithm)) {
                findings.push(
                    &RULE_ALGORITHM_UNLISTED,
                    &place,
                    format!("{algorithm} is not among the issuer's"),
                );
            }
            if self.rules[..i].iter().any(|earlier| earlier.audience == *audience) {
                findings.push(&RULE_UNREACHABLE, &place, format!("{audience} is allowed before"));
            }
        }
        for audience in self.admin_audiences.iter().filter(|audience| self.is_own(audience)) {
            let message = format!("the audience {audience} is this issuer");
            findings.push(&RULE_OWN_AUDIENCE, ADMIN, message);
        }
        // Where nothing is ever minted, no rule would change that.
        if mode == Mode::Full && self.rules.is_empty() && self.admin_audiences.is_empty() {
            findings.push(&RULE_NONE, "rule", "no audience is allowed, so nothing can be minted here");
        }
        findings
    }

    /// Which rules the times in force will cut short.
    pub(crate) fn check_against(&self, rotation: &Rotation) -> Findings {
        let mut findings = Findings::new();
        for Rule { audience, ttl, .. } in &self.rules {
            let limit = rotation.max_token_ttl_s;
            if ttl.as_secs() > limit {
                findings.push(
                    &RULE_TTL_CLAMPED,
                    format!("rule {audience}"),
                    format!("{ttl} is above {limit} s"),
                );
            }
        }
        findings
    }

    /// Decides one token. A life that is asked for and exceeds what is allowed is refused, never silently cut; a
    /// life that nobody asked for is the rule's, cut to the ring's `max_token_ttl`.
    ///
    /// # Errors
    /// [`MintError::OwnAudience`], [`MintError::NotAllowed`], [`MintError::AlgorithmNotAllowed`],
    /// [`MintError::LifetimeTooLong`], [`MintError::LifetimeTooShort`], [`MintError::Invalid`].
    pub(crate) fn decide(
        &self,
        workload: &VerifiedWorkload,
        request: &MintRequest,
        rotation: &Rotation,
    ) -> Result<Grant, MintError> {
        if self.is_own(&request.audience) {
            return Err(MintError::OwnAudience(request.audience.clone()));
        }
        let allowed = self.allowed(workload, &request.audience, rotation)?;
        Ok(Grant {
            ttl: life(request.ttl, &allowed, rotation)?,
            algorithm: self.choose(request.algorithm, allowed.algorithm)?,
            subject: workload.subject().cloned().ok_or(MintError::NoSubject)?,
            rule: allowed.name,
            claims: ExtraClaims::default(),
        })
    }

    fn allowed(
        &self,
        workload: &VerifiedWorkload,
        audience: &Audience,
        rotation: &Rotation,
    ) -> Result<Allowed, MintError> {
        if let Some(rule) = self.rules.iter().find(|rule| rule.audience == *audience) {
            let name = rule.audience.as_str().into();
            return Ok(Allowed { name, usual: rule.ttl, limit: rule.ttl, algorithm: rule.algorithm });
        }
        let is_admin = matches!(workload.vouched_by(), Voucher::Admin(_));
        if is_admin && self.admin_audiences.contains(audience) {
            let [usual, limit] = [rotation.token_ttl_s, rotation.max_token_ttl_s].map(Duration::from_secs);
            let [usual, limit] = [TokenLifetime::new(usual)?, TokenLifetime::new(limit)?];
            return Ok(Allowed { name: ADMIN.into(), usual, limit, algorithm: None });
        }
        Err(MintError::NotAllowed(audience.clone()))
    }

    fn choose(&self, asked: Option<Algorithm>, ruled: Option<Algorithm>) -> Result<Algorithm, MintError> {
        let asked = asked.or(ruled).unwrap_or_else(|| self.default_algorithm());
        let is_allowed = ruled.map_or_else(|| self.algorithms.contains(&asked), |ruled| ruled == asked);
        if !is_allowed {
            let allowed = ruled.map_or_else(|| self.algorithms.clone(), |ruled| vec![ruled]);
            return Err(MintError::AlgorithmNotAllowed { asked, allowed });
        }
        Ok(asked)
    }

    /// With or without a trailing slash: who compares carelessly must not be fooled.
    fn is_own(&self, audience: &Audience) -> bool {
        self.own.iter().any(|own| own == without_slash(audience.as_str()))
    }
}

struct Allowed {
    name: Arc<str>,
    /// The life of a token for which none is asked.
    usual: TokenLifetime,
    /// The longest that may be asked for.
    limit: TokenLifetime,
    algorithm: Option<Algorithm>,
}

fn life(asked: Option<Duration>, allowed: &Allowed, rotation: &Rotation) -> Result<TokenLifetime, MintError> {
    let [usual, limit] = [allowed.usual, allowed.limit].map(|life| life.at_most(rotation.max_token_ttl_s));
    let life = asked.map(TokenLifetime::new).transpose()?.unwrap_or(usual);
    if life > limit {
        return Err(MintError::LifetimeTooLong { asked: life, limit });
    }
    if life.as_secs() <= rotation.backdate_s {
        return Err(MintError::LifetimeTooShort { life, backdate_s: rotation.backdate_s });
    }
    Ok(life)
}

fn without_slash(text: &str) -> &str {
    text.trim_end_matches('/')
}

/// What allows admin callers what no rule does.
const ADMIN: &str = "admin.mint_audiences";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Subject;

    const HOUR: u64 = 3600;

    fn audience(text: &str) -> Audience {
        Audience::parse(text).expect("a good audience")
    }

    fn rule(text: &str, ttl_s: u64) -> Rule {
        Rule::new(audience(text), TokenLifetime::new(Duration::from_secs(ttl_s)).expect("a good life"))
    }

    fn rules(list: Vec<Rule>, admin: &[&str]) -> Rules {
        let url = IssuerUrl::parse("https://oidc.example/t", "p").expect("a good URL");
        let admin = admin.iter().map(|text| audience(text)).collect();
        Rules::new(&url, vec![Algorithm::Rs256, Algorithm::Es256], list, admin)
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
            .decide(workload, request, &Rotation::default())
            .map(|grant| (grant.ttl.as_secs(), grant.algorithm))
    }

    #[test]
    fn nothing_is_allowed_until_a_rule_says_so_and_the_first_decides() {
        let rules = rules(
            vec![rule("a", HOUR), rule("a", 2 * HOUR), rule("b", 600).algorithm(Algorithm::Es256)],
            &[],
        );
        let ask = |text: &str| decide(&rules, &embedder(), &MintRequest::new(audience(text)));
        assert!(matches!(ask("c"), Err(MintError::NotAllowed(_))));
        assert!(matches!(ask("A"), Err(MintError::NotAllowed(_))), "audiences are compared byte for byte");
        assert_eq!(ask("a").expect("allowed"), (HOUR, Algorithm::Rs256));
        assert_eq!(ask("b").expect("allowed"), (600, Algorithm::Es256));
        assert!(rules.check(Mode::Full).contains(&RULE_UNREACHABLE));
    }

    #[test]
    fn admin_audiences_are_for_admin_callers_alone() {
        let rules = rules(Vec::new(), &["probe"]);
        let request = MintRequest::new(audience("probe"));
        assert!(matches!(decide(&rules, &embedder(), &request), Err(MintError::NotAllowed(_))));
        assert_eq!(decide(&rules, &admin(), &request).expect("allowed"), (HOUR, Algorithm::Rs256));
        let day = request.ttl(Duration::from_secs(24 * HOUR));
        assert_eq!(decide(&rules, &admin(), &day).expect("allowed"), (24 * HOUR, Algorithm::Rs256));
    }

    #[test]
    fn the_issuer_and_its_token_endpoint_are_never_an_audience() {
        let own = ["https://oidc.example/t", "https://oidc.example/t/", "https://oidc.example/t/token"];
        for text in own {
            let rules = rules(vec![rule(text, HOUR)], &[text]);
            let request = MintRequest::new(audience(text));
            for workload in [embedder(), admin()] {
                assert!(
                    matches!(decide(&rules, &workload, &request), Err(MintError::OwnAudience(_))),
                    "{text}"
                );
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
        let cut = rules.decide(&embedder(), &MintRequest::new(audience("a")), &ring).expect("cut");
        assert_eq!(cut.ttl.as_secs(), 900);
        let refused = rules.decide(&embedder(), &ask(901), &ring);
        assert!(matches!(refused, Err(MintError::LifetimeTooLong { .. })));
        assert!(rules.check_against(&ring).contains(&RULE_TTL_CLAMPED));
        assert!(rules.check_against(&Rotation::default()).is_empty());
    }

    #[test]
    fn a_token_is_never_born_expired() {
        let rules = rules(vec![rule("a", 60)], &[]);
        let mut ring = Rotation::default();
        ring.backdate_s = 60;
        let refused = rules.decide(&embedder(), &MintRequest::new(audience("a")), &ring);
        assert!(matches!(refused, Err(MintError::LifetimeTooShort { .. })));
    }

    #[test]
    fn an_algorithm_must_be_the_rules_or_one_that_discovery_names() {
        let rules = rules(vec![rule("a", 600), rule("b", 600).algorithm(Algorithm::Es256)], &[]);
        let ask = |text: &str, algorithm| {
            decide(&rules, &embedder(), &MintRequest::new(audience(text)).algorithm(algorithm))
                .map(|got| got.1)
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
}
