//! What is written down: one audit line for each token, and for each refusal a line that says why, never with a token.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use oneseal_coordination::BootTime;

use super::Seen;
use super::answer::Refusal;
use crate::claims::Audience;
use crate::mint::Minted;
use crate::proofs::Grant;
use crate::workload::{VerifiedWorkload, Voucher};

/// Who had a token minted, for whom. Written before the answer leaves, so that no token is out without its line.
pub(super) fn minted(grant: Grant, workload: &VerifiedWorkload, audience: &Audience, minted: &Minted) {
    tracing::info!(
        target: AUDIT,
        grant = grant.label(),
        principal = &*shown(workload.principal()),
        pod = workload.facts().named("pod").map(shown).as_deref(),
        pod_uid = workload.facts().named("pod_uid").map(shown).as_deref(),
        vouched_by = &*voucher(workload.vouched_by()),
        strength = workload.strength().as_str(),
        rule = &*minted.rule,
        sub = minted.subject.as_str(),
        aud = audience.as_str(),
        kid = minted.kid.as_str(),
        alg = minted.algorithm.as_str(),
        jti = %minted.jti,
        exp = minted.exp.as_secs(),
        "minted a token for a workload"
    );
}

/// Who vouches, as one word.
pub(super) fn voucher(voucher: &Voucher) -> Cow<'_, str> {
    match voucher {
        Voucher::Embedder => "embedder".into(),
        Voucher::Admin(caller) => format!("admin:{caller}").into(),
        Voucher::Cluster(name) => format!("cluster:{name}").into(),
        Voucher::AssertionIssuer(name) => format!("assertion_issuer:{name}").into(),
    }
}

/// The lines about refusals, of which there are so many a second and no more: anybody can be refused, and a disk is not
/// to be filled by it.
#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<Written>);

#[derive(Debug, Default)]
struct Written {
    second: Option<BootTime>,
    lines: u32,
    left_out: u64,
}

impl Lines {
    /// Writes down a refusal. What is no more than garbage is for who debugs.
    pub(super) fn tell(&self, refusal: &Refusal, seen: &Seen, now: BootTime) {
        let Refusal { fault, reason, description, .. } = refusal;
        let (error, grant) = (fault.error(), seen.grant.map(Grant::label));
        let aud = seen.audience.as_ref().map(Audience::as_str);
        if aud.is_none() {
            tracing::debug!(error, reason, "refused a token request: {description}");
            return;
        }
        let Some(left_out) = self.turn(now) else { return };
        let (principal, vouched_by) = seen
            .workload
            .as_ref()
            .map(|workload| (shown(workload.principal()), voucher(workload.vouched_by())))
            .unzip();
        tracing::warn!(
            grant,
            error,
            reason,
            principal = principal.as_deref(),
            vouched_by = vouched_by.as_deref(),
            aud,
            rules = refusal.rules.as_deref(),
            left_out = (left_out > 0).then_some(left_out),
            "refused a token request: {description}"
        );
    }

    /// Whether one more line may be written now, and how many were left out before it.
    fn turn(&self, now: BootTime) -> Option<u64> {
        // No code that could panic runs under the lock.
        let mut written = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if written.second.is_none_or(|second| now.since(second) >= Duration::from_secs(1)) {
            written.second = Some(now);
            written.lines = 0;
        }
        if written.lines >= MAX_LINES {
            written.left_out += 1;
            return None;
        }
        written.lines += 1;
        Some(std::mem::take(&mut written.left_out))
    }
}

/// A name of somebody else's choice, cut where it is too long for a line.
fn shown(name: &str) -> Cow<'_, str> {
    match name.char_indices().nth(MAX_SHOWN) {
        None => name.into(),
        Some((at, _)) => format!("{}…", &name[..at]).into(),
    }
}

/// The target of audit lines.
const AUDIT: &str = "oneseal::audit";
/// A second.
const MAX_LINES: u32 = 10;
/// As long as the longest audience.
const MAX_SHOWN: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_write_so_many_lines_a_second_and_tell_how_many_were_left_out() {
        let lines = Lines::default();
        let at = |millis| BootTime(Duration::from_millis(millis));
        let written = (0..1000).filter(|_| lines.turn(at(5)).is_some()).count();
        assert_eq!(written, 10);
        assert_eq!(lines.turn(at(1004)), None);
        assert_eq!(lines.turn(at(1005)), Some(991));
        assert_eq!(lines.turn(at(1005)), Some(0));
    }

    #[test]
    fn a_long_name_is_cut() {
        assert_eq!(shown("é"), "é");
        assert_eq!(shown(&"é".repeat(300)).chars().count(), MAX_SHOWN + 1);
    }
}
