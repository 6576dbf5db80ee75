//! A workload whose identity somebody has verified: minting takes this, so a skipped check does not compile.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use crate::claims::{ClaimError, ExtraClaims, Subject};

/// Proof that a workload is who it says it is, together with who says so.
///
/// There is no constructor that asks nobody: each names the one who vouches, and that name stays with the value for
/// the audit line. What a [proof](crate::proofs) has verified has no subject of its own: the rule that lets it have a
/// token says what that is, from the [`Facts`].
///
/// ```compile_fail
/// use oneseal::{Audience, Issuer, Subject};
/// async fn mint(issuer: &Issuer, subject: Subject, audience: Audience) {
///     let _ = issuer.mint(&subject, &audience).await; // a name is no proof
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedWorkload {
    principal: String,
    subject: Option<Subject>,
    vouched_by: Voucher,
    strength: Strength,
    facts: Facts,
    claims: ExtraClaims,
}

/// Who verified a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Voucher {
    /// The program that embeds the issuer, which launched the workload itself.
    Embedder,
    /// Whoever called the admin interface, by the name that the listener authenticated.
    Admin(String),
    /// The cluster of this name, whose key verified a service account's token.
    Cluster(String),
    /// The assertion issuer of this name, whose key verified an assertion (RFC 7523).
    AssertionIssuer(String),
}

/// How much is known of a workload, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Strength {
    /// Its token has a good signature and has not expired. Whether the workload is still there was not asked, and the
    /// same token proves it again until it expires.
    Signed,
    /// The same, and the token has proved it this one time and never will again.
    SignedOnce,
    /// Its token has a good signature, and its cluster's API server said at this moment that the account, and the pod if
    /// it is bound to one, is there. The server may answer so for 10 s after they are gone.
    Reviewed,
    /// Whoever vouches knows it and needs no token.
    Vouched,
}

impl Strength {
    /// Its word in logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Signed => "signed",
            Self::SignedOnce => "signed_once",
            Self::Reviewed => "reviewed",
            Self::Vouched => "vouched",
        }
    }
}

impl fmt::Display for Strength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is known of a workload, for rules to ask and to write: names and texts, and the claims of the token that proved
/// it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    named: BTreeMap<String, String>,
    claims: Map<String, Value>,
}

impl Facts {
    /// The names that the proofs of this crate use. An embedder's own proof may use these and others.
    ///
    /// | proof | names |
    /// |---|---|
    /// | Kubernetes | `cluster`, `namespace`, `service_account`, `service_account_uid`; `pod`, `pod_uid` if the token is bound to one; `node`, `node_uid` if the cluster says them |
    /// | assertion | `assertion_issuer`, `subject` |
    pub const NAMES: [&str; 10] = [
        "cluster",
        "namespace",
        "service_account",
        "service_account_uid",
        "pod",
        "pod_uid",
        "node",
        "node_uid",
        "assertion_issuer",
        "subject",
    ];

    /// These names and no claims.
    pub fn new<N: Into<String>, T: Into<String>>(named: impl IntoIterator<Item = (N, T)>) -> Self {
        let named = named.into_iter().map(|(name, text)| (name.into(), text.into())).collect();
        Self { named, claims: Map::new() }
    }

    /// With these claims, as they stood in a verified token.
    #[must_use]
    pub fn with_claims(self, claims: Map<String, Value>) -> Self {
        Self { claims, ..self }
    }

    /// What is known under `name`.
    pub fn named(&self, name: &str) -> Option<&str> {
        self.named.get(name).map(String::as_str)
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        self.named.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// The claims of the token that proved it.
    pub fn claims(&self) -> &Map<String, Value> {
        &self.claims
    }
}

impl VerifiedWorkload {
    /// The embedding program's own word: it launched the workload and knows what it is.
    pub fn vouched_by_embedder(subject: Subject) -> Self {
        Self::vouched(Voucher::Embedder, subject)
    }

    /// The word of `caller`, whom the admin listener has authenticated.
    pub fn vouched_by_admin(caller: impl Into<String>, subject: Subject) -> Self {
        Self::vouched(Voucher::Admin(caller.into()), subject)
    }

    fn vouched(vouched_by: Voucher, subject: Subject) -> Self {
        Self {
            principal: subject.as_str().to_owned(),
            subject: Some(subject),
            vouched_by,
            strength: Strength::Vouched,
            facts: Facts::default(),
            claims: ExtraClaims::default(),
        }
    }

    /// What a proof of this crate has verified. `principal` names the workload among all that `vouched_by` vouches for.
    #[cfg(feature = "proofs")]
    pub(crate) fn proved(principal: String, vouched_by: Voucher, strength: Strength, facts: Facts) -> Self {
        Self { principal, subject: None, vouched_by, strength, facts, claims: ExtraClaims::default() }
    }

    /// Adds what rules may ask and write.
    #[must_use]
    pub fn with_facts(self, facts: Facts) -> Self {
        Self { facts, ..self }
    }

    /// Adds a claim about the workload, such as the pod's uid, to each of its tokens.
    ///
    /// # Errors
    /// A [`ClaimError`], for the issuer's own names among others; see [`ExtraClaims`].
    pub fn with_claim(
        mut self,
        name: impl Into<String>,
        value: impl Into<Value>,
    ) -> Result<Self, ClaimError> {
        self.claims = self.claims.with(name, value)?;
        Ok(self)
    }

    /// Its name in audit lines and for limits: the subject, if somebody vouched for that, else such as
    /// `system:serviceaccount:NAMESPACE:NAME` or an assertion's `sub`. Two workloads of one voucher never share it.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// The `sub` of its tokens, if whoever vouches said it; what a proof has verified gets it from the rule.
    pub fn subject(&self) -> Option<&Subject> {
        self.subject.as_ref()
    }

    /// Who says so.
    pub fn vouched_by(&self) -> &Voucher {
        &self.vouched_by
    }

    /// How much is known of it.
    pub fn strength(&self) -> Strength {
        self.strength
    }

    /// What is known of it.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// What its tokens say of it beside its subject.
    pub fn claims(&self) -> &ExtraClaims {
        &self.claims
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_vouched_stays_with_the_workload() {
        let subject = Subject::parse("pod-1").expect("good");
        let workload = VerifiedWorkload::vouched_by_admin("uid:1000", subject);
        assert_eq!(workload.vouched_by(), &Voucher::Admin("uid:1000".to_owned()));
        assert_eq!((workload.principal(), workload.strength()), ("pod-1", Strength::Vouched));
        let workload = workload.with_claim("pod_uid", "u").expect("good");
        assert_eq!(workload.claims().iter().collect::<Vec<_>>(), [("pod_uid", &Value::from("u"))]);
        assert!(workload.with_claim("azp", "x").is_err());
    }

    #[test]
    fn facts_are_told_by_their_names() {
        let facts = Facts::new([("namespace", "ci"), ("cluster", "prod")]);
        assert_eq!(facts.named("namespace"), Some("ci"));
        assert_eq!(facts.named("pod"), None);
        assert_eq!(facts.names().collect::<Vec<_>>(), [("cluster", "prod"), ("namespace", "ci")]);
    }
}
