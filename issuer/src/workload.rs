//! A workload whose identity somebody has verified: minting takes this, so a skipped check does not compile.

use serde_json::Value;

use crate::claims::{ClaimError, ExtraClaims, Subject};

/// Proof that a workload is who it says it is, together with who says so.
///
/// There is no constructor that asks nobody: each names the one who vouches, and that name stays with the value for
/// the audit line.
///
/// ```compile_fail
/// use oneseal::{Audience, Issuer, Subject};
/// async fn mint(issuer: &Issuer, subject: Subject, audience: Audience) {
///     let _ = issuer.mint(&subject, &audience).await; // a name is no proof
/// }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedWorkload {
    subject: Subject,
    vouched_by: Voucher,
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
}

impl VerifiedWorkload {
    /// The embedding program's own word: it launched the workload and knows what it is.
    pub fn vouched_by_embedder(subject: Subject) -> Self {
        Self { subject, vouched_by: Voucher::Embedder, claims: ExtraClaims::default() }
    }

    /// The word of `caller`, whom the admin listener has authenticated.
    pub fn vouched_by_admin(caller: impl Into<String>, subject: Subject) -> Self {
        Self { subject, vouched_by: Voucher::Admin(caller.into()), claims: ExtraClaims::default() }
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

    /// Who the workload is.
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Who says so.
    pub fn vouched_by(&self) -> &Voucher {
        &self.vouched_by
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
        let workload = workload.with_claim("pod_uid", "u").expect("good");
        assert_eq!(workload.claims().iter().collect::<Vec<_>>(), [("pod_uid", &Value::from("u"))]);
        assert!(workload.with_claim("azp", "x").is_err());
    }
}
