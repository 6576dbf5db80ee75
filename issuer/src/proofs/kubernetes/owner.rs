//! Whose token it is: the one cluster among those of its issuer whose key has signed it.
//!
//! Where several have one issuer string, any of them may publish the key of another, and would be asked about its tokens. So
//! a key is of the cluster where it stood first, by the order of our reads: each other cluster's keys were read anew after
//! it was seen, and it was not there. Until then, or while a neighbour cannot be read, nobody can tell: 503, and nobody is
//! asked. A later claim of another changes nothing. Two claims of which neither was first are refused by both names.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use oneseal_keystore::KeyId;
use oneseal_keystore::findings::chain;
use oneseal_keystore::verify::VerifyError as JwsError;
use oneseal_relying_party::{Invalid, Moment, Seen, Sighting, VerifiedToken, VerifyError};

use super::{Cluster, bounded};
use crate::proofs::{ProofError, unverified};

/// The claims to others' keys that were told, so that each is told once: the cluster's name and the key.
#[derive(Default)]
pub(super) struct Told(Mutex<BTreeSet<(String, KeyId)>>);

/// Judges `token` by the own keys of each cluster of its issuer, and gives back the one that it is of and what it claims.
/// The token is sent to nobody.
///
/// # Errors
/// A [`ProofError`]; also if the key of the token is of no one cluster.
pub(super) async fn judge<'c>(
    clusters: &'c [Cluster],
    told: &Told,
    token: &str,
) -> Result<(&'c Cluster, VerifiedToken), ProofError> {
    let issuer = unverified::issuer(token)?;
    let candidates: Vec<_> = clusters.iter().filter(|cluster| cluster.issuer.as_str() == issuer).collect();
    if let [only] = candidates[..] {
        return verify(only, token).await.map(|verified| (only, verified));
    }
    let mut judged = Vec::new();
    if holders(&candidates, token).is_empty() {
        judged = join_all(candidates.iter().map(|cluster| verify(cluster, token))).await;
    }
    let holders = holders(&candidates, token);
    if holders.is_empty() {
        return Err(strongest(judged.into_iter().filter_map(Result::err)));
    }
    let owner = settle(&candidates, &holders, told).await?;
    verify(owner, token).await.map(|verified| (owner, verified))
}

/// A cluster that holds a key by which the token is good, and which.
type Holder<'c> = (&'c Cluster, KeyId);

fn holders<'c>(candidates: &[&'c Cluster], token: &str) -> Vec<Holder<'c>> {
    let held = |cluster: &&'c Cluster| Some((*cluster, cluster.verifier.signing_key(token)?));
    candidates.iter().filter_map(held).collect()
}

/// The one whose key it is; reads others anew if that is open, within their bounds.
async fn settle<'c>(
    candidates: &[&'c Cluster],
    holders: &[Holder<'c>],
    told: &Told,
) -> Result<&'c Cluster, ProofError> {
    let claims = claims(candidates, holders);
    if let Some(owner) = owner(&claims, holders, told) {
        return Ok(owner);
    }
    let open = claims.iter().filter_map(|claim| Some((claim.other, claim.stands.curable_after()?)));
    let looked = join_all(open.map(|(other, moment)| look_again(other, moment))).await;
    let claims = self::claims(candidates, holders);
    if let Some(owner) = owner(&claims, holders, told) {
        return Ok(owner);
    }
    let wait = looked.into_iter().filter_map(Result::err).max().unwrap_or_default();
    match claims.iter().find(|claim| matches!(claim.stands, Stands::Open(_))) {
        Some(open) => Err(ProofError::unavailable(
            "keys_unavailable",
            format!(
                "whether the key of this token is of the cluster {} alone cannot be told before the keys of the cluster \
                 {}, which has the same issuer, are read anew",
                open.holder.name, open.other.name
            ),
            bounded(wait),
        )),
        None => Err(shared(&claims, told)),
    }
}

/// How a holder's key stands to another cluster of the issuer.
struct Claim<'c> {
    holder: &'c Cluster,
    other: &'c Cluster,
    key: &'c KeyId,
    stands: Stands,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// The other did not have it after the holder had.
    Clear,
    /// So it is, and it has it now.
    Taken,
    /// The other has to be read after this moment first, or at all.
    Open(Option<Moment>),
    /// The other had it while the holder did not.
    Theirs,
    /// Both have it, and nobody saw it at one of them alone. The other's last read.
    Shared(Moment),
}

impl Stands {
    /// What another read of the other may change, and after when it has to begin.
    fn curable_after(self) -> Option<Option<Moment>> {
        match self {
            Self::Open(moment) => Some(moment),
            Self::Shared(last_read) => Some(Some(last_read)),
            Self::Clear | Self::Taken | Self::Theirs => None,
        }
    }
}

fn claims<'c>(candidates: &[&'c Cluster], holders: &'c [Holder<'c>]) -> Vec<Claim<'c>> {
    let others =
        |holder: &'c Cluster| candidates.iter().copied().filter(move |other| !std::ptr::eq(*other, holder));
    let claims_of = |(holder, key): &'c Holder<'c>| {
        let own = holder.verifier.sighting(key).and_then(|sighting| sighting.key);
        others(holder).map(move |other| {
            let stands = own.map_or(Stands::Open(None), |own| stand(own, other.verifier.sighting(key)));
            Claim { holder, other, key, stands }
        })
    };
    holders.iter().flat_map(claims_of).collect()
}

fn stand(own: Seen, other: Option<Sighting>) -> Stands {
    let Some(other) = other else { return Stands::Open(Some(own.since)) };
    let is_read_anew = other.last_read > own.since;
    match other.key {
        Some(theirs) if own.lacked.is_some_and(|lacked| lacked > theirs.since) => Stands::Theirs,
        Some(theirs) if theirs.lacked.is_some_and(|lacked| lacked > own.since) => {
            if theirs.is_published {
                Stands::Taken
            } else {
                Stands::Clear
            }
        }
        Some(theirs) if theirs.is_published => Stands::Shared(other.last_read),
        _ if is_read_anew => Stands::Clear,
        _ => Stands::Open(Some(own.since)),
    }
}

/// The only holder whose key nobody else may be said to have had.
fn owner<'c>(claims: &[Claim<'_>], holders: &[Holder<'c>], told: &Told) -> Option<&'c Cluster> {
    let is_of = |claim: &&Claim<'_>, holder: &Cluster| std::ptr::eq(claim.holder, holder);
    let owns = |(holder, _): &&Holder<'c>| {
        let mut own = claims.iter().filter(|claim| is_of(claim, holder));
        own.all(|claim| matches!(claim.stands, Stands::Clear | Stands::Taken))
    };
    let mut owners = holders.iter().filter(owns).map(|(holder, _)| *holder);
    let (owner, None) = (owners.next()?, owners.next()) else { return None };
    let taken = claims.iter().filter(|claim| is_of(claim, owner) && claim.stands == Stands::Taken);
    for claim in taken {
        told.once(claim, "a cluster publishes a key of another with its issuer, where it stood first; its claim is ignored");
    }
    Some(owner)
}

fn shared(claims: &[Claim<'_>], told: &Told) -> ProofError {
    let claim = claims.iter().find(|claim| matches!(claim.stands, Stands::Shared(_) | Stands::Theirs));
    let Some(claim) = claim.or(claims.first()) else {
        return ProofError::invalid("shared_key", "the key of this token is of no one cluster");
    };
    told.once(claim, "two clusters with one issuer share a key; tokens of it are refused");
    let message = format!(
        "the clusters {} and {} have one issuer and share the key of this token, so nobody can tell whose it is",
        claim.holder.name, claim.other.name
    );
    ProofError::invalid("shared_key", message)
}

/// How long to wait where it cannot be read now.
async fn look_again(cluster: &Cluster, moment: Option<Moment>) -> Result<(), Duration> {
    let looked = match moment {
        Some(moment) => cluster.verifier.look_again(moment).await,
        None => return Ok(()),
    };
    looked.map_err(|unavailable| unavailable.retry_after)
}

impl Told {
    fn once(&self, claim: &Claim<'_>, what: &'static str) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = (claim.other.name.clone(), claim.key.clone());
        // A cluster that takes up others' keys without end is told of often enough by then.
        if told.len() < MOST_TOLD && told.insert(entry) {
            let (cluster, other) = (&claim.holder.name, &claim.other.name);
            tracing::error!(%cluster, %other, key = %claim.key, "{what} (cluster.key_shared)");
        }
    }
}

const MOST_TOLD: usize = 1024;

async fn verify(cluster: &Cluster, token: &str) -> Result<VerifiedToken, ProofError> {
    cluster.verifier.verify(token).await.map_err(|error| told(cluster, &error))
}

/// In words for whoever sent it. `Invalid` quotes nothing of the token.
fn told(cluster: &Cluster, error: &VerifyError) -> ProofError {
    match error {
        VerifyError::Invalid(invalid) => {
            let cure = cure(cluster, invalid);
            let message = format!("the service account token is refused: {}{cure}", chain(invalid));
            ProofError::invalid(invalid.reason(), message)
        }
        _ => {
            let wait = error.retry_after().unwrap_or_default();
            let message = format!(
                "the keys of the cluster {} cannot be had just now; try again, and if it stays so `oneseal check` with the \
                 issuer's configuration says why",
                cluster.name
            );
            ProofError::unavailable("keys_unavailable", message, bounded(wait))
        }
    }
}

fn cure(cluster: &Cluster, invalid: &Invalid) -> String {
    match invalid {
        Invalid::Audience => format!(
            "; let the pod project a token whose one audience is {} (serviceAccountToken: audience)",
            cluster.audience
        ),
        Invalid::Lifetime => format!(
            "; at most {} s are taken: let the pod project one of an hour, or raise the cluster's max_lifetime",
            cluster.max_lifetime.as_secs()
        ),
        Invalid::Missing("exp" | "aud" | "iat") => {
            "; a token out of a Secret proves nothing here: let the pod project one".to_owned()
        }
        Invalid::Expired => "; kubelet renews the file: read it anew each time".to_owned(),
        Invalid::Jws(JwsError::Signature) => format!(
            "; either it was changed on its way, or it is of another cluster than {} with the same `iss`",
            cluster.name
        ),
        Invalid::UnknownKid => format!(
            "; a new key of the cluster {} is known within a minute, so try once more; if it stays so, the token is of another \
             cluster with the same `iss`",
            cluster.name
        ),
        _ => String::new(),
    }
}

/// What cannot be told now may yet be good.
fn strongest(errors: impl Iterator<Item = ProofError>) -> ProofError {
    let nobody = ProofError::invalid("unknown_issuer", "no cluster has the issuer of this token");
    errors
        .reduce(|first, next| {
            if first.retry_after().is_some() {
                first
            } else if next.retry_after().is_some() {
                next
            } else {
                first
            }
        })
        .unwrap_or(nobody)
}

/// Whether one key was given to both.
pub(super) fn share_a_key(one: &Cluster, other: &Cluster) -> bool {
    one.given.iter().any(|key| other.given.contains(key))
}
