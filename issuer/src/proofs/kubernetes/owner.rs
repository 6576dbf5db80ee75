//! Whose token it is: the one cluster among those of its issuer whose key verifies it.

use futures_util::future::join_all;
use oneseal_keystore::findings::chain;
use oneseal_keystore::verify::VerifyError as JwsError;
use oneseal_relying_party::{Invalid, VerifiedToken, VerifyError};

use super::{Cluster, bounded};
use crate::proofs::{ProofError, unverified};

/// Judges `token` by the own keys of each cluster of its issuer, and gives back the one that it is of and what it claims.
/// The token is sent to nobody.
///
/// # Errors
/// A [`ProofError`]; also if the token verifies by keys of two clusters.
pub(super) async fn judge<'c>(
    clusters: &'c [Cluster],
    token: &str,
) -> Result<(&'c Cluster, VerifiedToken), ProofError> {
    let issuer = unverified::issuer(token)?;
    let candidates: Vec<_> = clusters.iter().filter(|cluster| cluster.issuer.as_str() == issuer).collect();
    if let [only] = candidates[..] {
        return verify(only, token).await.map(|verified| (only, verified));
    }
    // One cluster whose keys cannot be read does not hold up the tokens of another: as long as a key that is held has
    // signed the token, nobody waits for the rest.
    if let Some(owner) = owner(&candidates, token)? {
        return verify(owner, token).await.map(|verified| (owner, verified));
    }
    let judged = join_all(candidates.iter().map(|cluster| verify(cluster, token))).await;
    if let Some(owner) = owner(&candidates, token)? {
        return verify(owner, token).await.map(|verified| (owner, verified));
    }
    Err(strongest(judged.into_iter().filter_map(Result::err)))
}

/// The cluster that holds the key which has signed it, if one does.
fn owner<'c>(candidates: &[&'c Cluster], token: &str) -> Result<Option<&'c Cluster>, ProofError> {
    let mut owners = candidates.iter().filter(|cluster| cluster.verifier.holds_key_of(token));
    let (first, second) = (owners.next(), owners.next());
    let (Some(first), Some(second)) = (first, second) else { return Ok(first.copied()) };
    tracing::error!(
        cluster = %first.name,
        other = %second.name,
        "two clusters with one issuer share a key; tokens of it are refused (cluster.key_shared)"
    );
    Err(ProofError::invalid(
        "shared_key",
        format!(
            "the clusters {} and {} have one issuer and share the key of this token, so nobody can tell whose it is",
            first.name, second.name
        ),
    ))
}

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
