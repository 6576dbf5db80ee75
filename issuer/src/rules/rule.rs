//! One rule: whom it is for, what must hold of them, and what their tokens say.

use std::sync::Arc;
use std::time::Duration;

use oneseal_keystore::Algorithm;
use serde_json::{Map, Value};

use super::claims::ClaimTemplates;
use super::condition::{Condition, Pattern};
use super::fault::{Fault, Unwritable};
use super::field::{Field, Names, shown};
use super::mismatch::Mismatch;
use super::tags::SessionTags;
use super::template::Template;
use crate::claims::{Audience, ClaimError, ExtraClaims, Subject, TokenLifetime};
use crate::codes::{RULE_CLAIMS, RULE_MALFORMED};
use crate::error::MintError;
use crate::workload::{Facts, Voucher};

/// Lets some workloads have tokens for some relying parties.
///
/// What is wrong with a part is kept and told with all the rest, by [`Builder::build`](crate::Builder::build) or
/// [`Issuer::set_rules`](crate::Issuer::set_rules).
///
/// ```
/// use std::time::Duration;
/// use oneseal::{Pattern, Rule};
///
/// let ci = Rule::of_clusters("ci", ["prod"], "k8s:{cluster}:{namespace}:{service_account}")
///     .audiences(["sts.amazonaws.com"])
///     .when("namespace", ["ci".into(), Pattern::prefix("team-")])
///     .ttl(Duration::from_secs(900));
/// # drop(ci);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "a rule holds once it is part of an issuer's"]
pub struct Rule {
    name: Arc<str>,
    place: Option<String>,
    pub(super) whom: Whom,
    pub(super) conditions: Vec<Condition>,
    /// Whether a service account's token may be bound to no pod.
    pub(super) unbound: bool,
    pub(super) subject: Option<Template>,
    pub(super) audiences: Vec<Audience>,
    pub(super) ttl: TokenLifetime,
    pub(super) algorithm: Option<Algorithm>,
    claims: ClaimTemplates,
    tags: SessionTags,
    faults: Vec<Fault>,
}

/// Who vouches for those it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whom {
    Embedder,
    Clusters(Vec<String>),
    AssertionIssuers(Vec<String>),
}

impl Rule {
    /// Tokens for `audience` that live at most `ttl`, and just that when nobody asks for less, for whomever the
    /// embedding program vouches for. It is called as its audience is, unless it is [`named`](Self::named).
    pub fn new(audience: Audience, ttl: TokenLifetime) -> Self {
        Self { audiences: vec![audience.clone()], ttl, ..Self::empty(audience.as_str(), Whom::Embedder) }
    }

    /// Tokens for service accounts that one of these clusters vouches for, by the clusters' names, with this template
    /// for their `sub`. They live an hour. Lets nobody in until it has [`audiences`](Self::audiences).
    pub fn of_clusters(
        name: impl AsRef<str>,
        clusters: impl IntoIterator<Item = impl Into<String>>,
        sub: impl AsRef<str>,
    ) -> Self {
        let clusters = clusters.into_iter().map(Into::into).collect();
        Self::of(name.as_ref(), Whom::Clusters(clusters), sub.as_ref())
    }

    /// Tokens for whoever has an assertion of one of these issuers, by the issuers' names in the configuration; else as
    /// [`of_clusters`](Self::of_clusters).
    pub fn of_assertion_issuers(
        name: impl AsRef<str>,
        issuers: impl IntoIterator<Item = impl Into<String>>,
        sub: impl AsRef<str>,
    ) -> Self {
        let issuers = issuers.into_iter().map(Into::into).collect();
        Self::of(name.as_ref(), Whom::AssertionIssuers(issuers), sub.as_ref())
    }

    fn of(name: &str, whom: Whom, sub: &str) -> Self {
        let mut rule = Self::empty(name, whom).subject(sub);
        let (word, names) = match &rule.whom {
            Whom::Clusters(names) => ("cluster", names),
            Whom::AssertionIssuers(names) => ("assertion_issuer", names),
            Whom::Embedder => return rule,
        };
        if names.is_empty() {
            rule.fault(Fault::new(
                &RULE_MALFORMED,
                format!("{word}: an empty list lets nobody in; name one"),
            ));
        }
        rule
    }

    fn empty(name: &str, whom: Whom) -> Self {
        Self {
            name: name.into(),
            place: None,
            whom,
            conditions: Vec::new(),
            unbound: false,
            subject: None,
            audiences: Vec::new(),
            ttl: DEFAULT_TTL,
            algorithm: None,
            claims: ClaimTemplates::default(),
            tags: SessionTags::default(),
            faults: Vec::new(),
        }
    }

    /// Called so in audit lines, findings and previews.
    pub fn named(self, name: impl AsRef<str>) -> Self {
        Self { name: name.as_ref().into(), ..self }
    }

    /// Where it stands, for findings, such as a file and a line; without it `rule NAME`.
    pub fn at(self, place: impl Into<String>) -> Self {
        Self { place: Some(place.into()), ..self }
    }

    /// Also for these relying parties.
    pub fn audiences(mut self, audiences: impl IntoIterator<Item = impl Into<String>>) -> Self {
        for audience in audiences {
            let audience = audience.into();
            match Audience::parse(audience.as_str()) {
                Ok(audience) => self.audiences.push(audience),
                Err(error) => {
                    let words = format!("audiences: {}: {error}", shown(&audience));
                    self.fault(Fault::new(&RULE_MALFORMED, words));
                }
            }
        }
        self
    }

    /// Living at most this long, 60 s to 24 h, and just that when nobody asks for less.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        match TokenLifetime::new(ttl) {
            Ok(ttl) => self.ttl = ttl,
            Err(error) => self.fault(Fault::new(&RULE_MALFORMED, format!("ttl: {error}"))),
        }
        self
    }

    /// Signed with `algorithm` and no other. Without it: the first of the issuer's algorithms, or the one asked for.
    pub fn algorithm(mut self, algorithm: Algorithm) -> Self {
        self.algorithm = Some(algorithm);
        self
    }

    /// Only where this fact, or the claim at `claims./POINTER` (RFC 6901), is one of `any_of`.
    pub fn when(
        mut self,
        field: impl AsRef<str>,
        any_of: impl IntoIterator<Item = impl Into<Pattern>>,
    ) -> Self {
        let part = format!("the condition {}", shown(field.as_ref()));
        let field = Field::parse(field.as_ref(), self.names());
        if let Some(field) = kept(&mut self.faults, &part, field) {
            let condition = Condition::new(field, any_of.into_iter().map(Into::into).collect());
            let faults = condition.faults(self.names()).into_iter();
            self.faults.extend(faults.map(|fault| fault.in_part(&part)));
            self.conditions.push(condition);
        }
        self
    }

    /// Whether it also takes service accounts' tokens that are bound to no pod, which outlive whatever they were made
    /// for.
    pub fn unbound(mut self, unbound: bool) -> Self {
        if unbound && !matches!(self.whom, Whom::Clusters(_)) {
            let words = "unbound: only a service account's token is bound to a pod; leave it out";
            self.fault(Fault::new(&RULE_MALFORMED, words));
        }
        self.unbound = unbound;
        self
    }

    /// With this template for the `sub`: text with `{NAME}` and `{claims./POINTER}` in it, `{{` and `}}` for braces.
    pub fn subject(mut self, template: impl AsRef<str>) -> Self {
        let template = Template::parse(template.as_ref(), self.names()).and_then(fit_for_a_subject);
        self.subject = kept(&mut self.faults, "sub", template);
        self
    }

    /// With these claims. A string that is one placeholder becomes the value itself, whatever its type; every other
    /// string is a template.
    pub fn claims(mut self, claims: &Map<String, Value>) -> Self {
        match ClaimTemplates::parse(claims, self.names()) {
            Ok(claims) => self.claims = claims,
            Err(faults) => self.faults.extend(faults.into_iter().map(|fault| fault.in_part("claims"))),
        }
        self
    }

    /// With these AWS session tags: key and template of each. A template that is one placeholder becomes the value as it
    /// is.
    pub fn aws_session_tags<K: AsRef<str>, V: AsRef<str>>(
        mut self,
        tags: impl IntoIterator<Item = (K, V)>,
    ) -> Self {
        let names = self.names();
        for (key, value) in tags {
            let added = self.tags.add(key.as_ref(), value.as_ref(), names);
            kept(&mut self.faults, "aws_session_tags", added);
        }
        self
    }

    /// Which of the tags stay when a role is left for another.
    pub fn aws_transitive_tags(mut self, keys: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        keys.into_iter().for_each(|key| self.tags.keep(key.as_ref()));
        self
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn shared_name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    /// Where it stands.
    pub(super) fn place(&self) -> String {
        self.place.clone().unwrap_or_else(|| format!("rule {}", self.name))
    }

    /// What is wrong with it by itself.
    pub(super) fn faults(&self) -> Vec<Fault> {
        let mut faults = self.faults.clone();
        let is_a_word = |letter: char| letter.is_ascii_alphanumeric() || ".-_".contains(letter);
        let is_named_well = (1..=MAX_NAME).contains(&self.name.len()) && self.name.chars().all(is_a_word);
        if self.whom != Whom::Embedder && (!is_named_well || &*self.name == super::ADMIN) {
            let words = format!(
                "name: a rule is called by 1 to {MAX_NAME} letters, digits, dots, hyphens and underscores"
            );
            faults.push(Fault::new(&RULE_MALFORMED, words));
        }
        if self.audiences.is_empty() && !faults.iter().any(|fault| fault.message.starts_with("audiences")) {
            faults.push(Fault::new(
                &RULE_MALFORMED,
                "audiences: it names none, so it lets nobody have anything",
            ));
        }
        faults.extend(self.tags.faults().into_iter().map(|fault| fault.in_part("aws_transitive_tags")));
        if !self.tags.is_empty() && self.claims.contains(SessionTags::CLAIM) {
            let words = format!("claims: `{}` is what aws_session_tags write", SessionTags::CLAIM);
            faults.push(Fault::new(&RULE_CLAIMS, words));
        }
        faults
    }

    /// The names of clusters and of assertion issuers that it is for.
    pub(super) fn vouchers(&self) -> [&[String]; 2] {
        match &self.whom {
            Whom::Embedder => [&[], &[]],
            Whom::Clusters(names) => [names, &[]],
            Whom::AssertionIssuers(names) => [&[], names],
        }
    }

    /// Whether service accounts of several namespaces can get one `sub` of it, and it does not name these one by one.
    pub(super) fn mixes_namespaces(&self) -> bool {
        let Some(template) = self.subject.as_ref().filter(|_| matches!(self.whom, Whom::Clusters(_))) else {
            return false;
        };
        let tells = |field: &Field| OF_ONE_NAMESPACE.contains(&field.to_string().as_str());
        let is_pinned = |condition: &Condition| tells(&condition.field) && condition.is_exact();
        !template.values().any(tells) && !self.conditions.iter().any(is_pinned)
    }

    /// Why it lets this workload have nothing for `audience`; `None` if it does.
    pub(super) fn mismatch(&self, voucher: &Voucher, facts: &Facts, audience: &Audience) -> Option<Mismatch> {
        if !self.is_for(voucher) {
            return Some(Mismatch::Voucher);
        }
        if !self.audiences.contains(audience) {
            return Some(Mismatch::Audience);
        }
        let mut broken = self.conditions.iter().filter(|condition| !condition.holds(facts));
        let is_wanting = matches!(self.whom, Whom::Clusters(_)) && !self.unbound;
        let broken = if is_wanting && facts.named("pod_uid").is_none() {
            // That it is bound to no pod is what keeps it out where all holds but what a pod's token would say.
            let Some(broken) = broken.find(|condition| condition.field.find(facts).is_some()) else {
                return Some(Mismatch::Unbound);
            };
            broken
        } else {
            broken.next()?
        };
        Some(Mismatch::Condition {
            field: broken.field.to_string(),
            wanted: broken.wanted(),
            is_known: broken.field.find(facts).is_some(),
        })
    }

    fn is_for(&self, voucher: &Voucher) -> bool {
        match (&self.whom, voucher) {
            (Whom::Embedder, Voucher::Embedder) => true,
            (Whom::Clusters(names), Voucher::Cluster(name)) => names.contains(name),
            (Whom::AssertionIssuers(names), Voucher::AssertionIssuer(name)) => names.contains(name),
            _ => false,
        }
    }

    /// Whether whatever `other` lets in for an audience of both, this does.
    pub(super) fn includes(&self, other: &Self) -> bool {
        let is_whom = match (&self.whom, &other.whom) {
            (Whom::Embedder, Whom::Embedder) => true,
            (Whom::Clusters(all), Whom::Clusters(some))
            | (Whom::AssertionIssuers(all), Whom::AssertionIssuers(some)) => {
                some.iter().all(|name| all.contains(name))
            }
            _ => false,
        };
        // What could not be read may be a condition.
        is_whom
            && self.faults.is_empty()
            && (self.unbound || !other.unbound)
            && self
                .conditions
                .iter()
                .all(|own| other.conditions.iter().any(|narrow| own.follows_from(narrow)))
    }

    /// The `sub` that it writes; `None` if it leaves that to whoever vouches.
    ///
    /// # Errors
    /// [`MintError::Unwritable`].
    pub(super) fn write_subject(&self, facts: &Facts) -> Result<Option<Subject>, MintError> {
        let Some(template) = &self.subject else { return Ok(None) };
        let written = template.write(facts).and_then(|text| Ok(Subject::parse(text)?));
        written.map(Some).map_err(|why| self.unwritable("sub".to_owned(), why))
    }

    /// The claims that it adds.
    ///
    /// # Errors
    /// [`MintError::Unwritable`].
    pub(super) fn write_claims(&self, facts: &Facts) -> Result<ExtraClaims, MintError> {
        if self.claims.is_empty() && self.tags.is_empty() {
            return Ok(ExtraClaims::default());
        }
        let of_claim = |(name, why)| self.unwritable(format!("claims.{name}"), why);
        let of_tag = |(key, why)| self.unwritable(format!("aws_session_tags.{key}"), why);
        let mut claims = self.claims.write(facts).map_err(of_claim)?;
        if !self.tags.is_empty() {
            claims.insert(SessionTags::CLAIM.to_owned(), self.tags.write(facts).map_err(of_tag)?);
        }
        ExtraClaims::parse(claims).map_err(|error| self.unwritable("claims".to_owned(), error.into()))
    }

    fn unwritable(&self, part: String, why: Unwritable) -> MintError {
        MintError::Unwritable { rule: self.shared_name(), part, why }
    }

    fn names(&self) -> Names {
        match self.whom {
            Whom::Embedder => Names::Any,
            Whom::Clusters(_) => Names::CLUSTER,
            Whom::AssertionIssuers(_) => Names::ASSERTION,
        }
    }

    fn fault(&mut self, fault: Fault) {
        self.faults.push(fault);
    }
}

/// What of it is good; the rest is told later.
fn kept<T>(faults: &mut Vec<Fault>, part: &str, read: Result<T, Fault>) -> Option<T> {
    read.map_err(|fault| faults.push(fault.in_part(part))).ok()
}

/// Without what no `sub` can hold.
fn fit_for_a_subject(template: Template) -> Result<Template, Fault> {
    let length: usize = template.literals().map(str::len).sum();
    let judged = match template.only_literal() {
        Some(text) => Subject::parse(text).err(),
        None if length >= Subject::MAX_LEN => {
            Some(ClaimError::Length { claim: "sub", len: length, max: Subject::MAX_LEN })
        }
        None => template
            .literals()
            .any(|text| text.chars().any(|letter| letter.is_whitespace() || letter.is_control()))
            .then_some(ClaimError::Characters { claim: "sub" }),
    };
    match judged {
        Some(error) => Err(Fault::new(&RULE_MALFORMED, error.to_string())),
        None => Ok(template),
    }
}

/// What no service accounts of two namespaces have in common.
const OF_ONE_NAMESPACE: [&str; 7] = [
    "namespace",
    "service_account_uid",
    "pod_uid",
    "claims./sub",
    "claims./kubernetes.io/namespace",
    "claims./kubernetes.io/serviceaccount/uid",
    "claims./kubernetes.io/pod/uid",
];
/// What most clouds' client libraries expect, and long enough that a minute's outage is not noticed.
const DEFAULT_TTL: TokenLifetime = TokenLifetime::HOUR;
const MAX_NAME: usize = 64;
