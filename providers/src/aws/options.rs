//! Which secret, and how it is reached.

use std::time::Duration;

use crate::{ErrorKind, ProviderError};

/// How long one call may take, credentials included.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the labels are asked for: a little above the keystore's refresh, which asks as well, so that the two do not
/// add up.
pub const DEFAULT_POLL: Duration = Duration::from_secs(20);

/// Polling faster than this would be throttled, and paid for.
const FASTEST_POLL: Duration = Duration::from_millis(50);

/// Which secret, and how it is reached.
///
/// # Defaults
/// The region is that of the ARN, else the SDK's (`AWS_REGION`, the profile, the instance). The endpoint is the SDK's
/// (`AWS_ENDPOINT_URL_SECRETS_MANAGER`, `AWS_ENDPOINT_URL`, else AWS's own). The whole value is the key or the ring. Calls
/// take [`DEFAULT_TIMEOUT`] at most, and the labels are asked for every [`DEFAULT_POLL`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AwsOptions {
    /// Its name, its ARN, or its ARN without the hyphen and six characters at the end. A *name* that itself ends in a
    /// hyphen and six characters is confused with the last: AWS advises against one.
    pub secret: String,
    /// The region, where it is not that of the ARN or of the environment.
    pub region: Option<String>,
    /// Another endpoint of Secrets Manager alone, as a URL.
    pub endpoint: Option<String>,
    /// The member that holds the key or the ring, where the secret is a JSON object of key/value pairs. The record is what
    /// that member holds: it is not to be looked for again in what comes of it.
    pub member: Option<String>,
    /// How long one call may take, credentials included.
    pub timeout: Duration,
    /// How often the labels are asked for while somebody waits for a change, give or take a tenth.
    pub poll: Duration,
}

impl AwsOptions {
    /// The secret of this name or ARN.
    pub fn secret(id: impl Into<String>) -> Self {
        Self {
            secret: id.into(),
            region: None,
            endpoint: None,
            member: None,
            timeout: DEFAULT_TIMEOUT,
            poll: DEFAULT_POLL,
        }
    }

    /// Sets [`region`](Self::region).
    #[must_use]
    pub fn region(mut self, region: impl Into<String>) -> Self {
        self.region = Some(region.into());
        self
    }

    /// Sets [`endpoint`](Self::endpoint).
    #[must_use]
    pub fn endpoint(mut self, url: impl Into<String>) -> Self {
        self.endpoint = Some(url.into());
        self
    }

    /// Sets [`member`](Self::member).
    #[must_use]
    pub fn member(mut self, name: impl Into<String>) -> Self {
        self.member = Some(name.into());
        self
    }

    /// Sets [`timeout`](Self::timeout).
    #[must_use]
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = limit;
        self
    }

    /// Sets [`poll`](Self::poll); at most twenty times a second.
    #[must_use]
    pub fn poll_every(mut self, interval: Duration) -> Self {
        self.poll = interval.max(FASTEST_POLL);
        self
    }

    /// The region of an ARN.
    fn region_of_arn(&self) -> Option<&str> {
        self.secret.strip_prefix("arn:").and_then(|rest| rest.split(':').nth(2))
    }

    pub(super) fn is_arn(&self) -> bool {
        self.secret.starts_with("arn:")
    }

    /// The region that is said here, if one is.
    pub(super) fn known_region(&self) -> Option<&str> {
        self.region.as_deref().or(self.region_of_arn())
    }

    pub(super) fn location(&self) -> String {
        match &self.region {
            Some(region) if !self.is_arn() => format!("{} in {region}", self.secret),
            _ => self.secret.clone(),
        }
    }

    /// What cannot be right whatever AWS says.
    pub(super) fn check(&self) -> Result<(), ProviderError> {
        let refused = |detail| ProviderError::new(ErrorKind::Misconfigured, shown(&self.secret), detail);
        self.fault().map_or(Ok(()), |detail| Err(refused(detail)))
    }

    /// Whether this is a name that ends as an ARN does.
    pub(super) fn looks_like_arn(&self) -> bool {
        !self.is_arn() && looks_suffixed(&self.secret)
    }

    fn fault(&self) -> Option<String> {
        if self.is_arn() && !is_arn_of_secret(&self.secret) {
            let form = "arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME";
            return Some(format!(
                "that is no ARN of a secret; want {form}, with or without the six characters"
            ));
        }
        if !self.is_arn() && !is_name(&self.secret) {
            return Some("a secret's name has 1 to 512 letters, digits and `/_+=.@-`".to_owned());
        }
        if let (Some(region), Some(of_arn)) = (&self.region, self.region_of_arn())
            && region != of_arn
        {
            return Some(format!(
                "the ARN is of the region {of_arn}, and the region is set to {region}; leave it out"
            ));
        }
        if self.region.as_deref().is_some_and(|region| !is_region(region)) {
            return Some(NO_REGION_NAME.to_owned());
        }
        if self.endpoint.as_deref().is_some_and(|url| !is_endpoint(url)) {
            return Some("the endpoint is no URL as in https://HOST:PORT, without user and query".to_owned());
        }
        if self.member.as_deref().is_some_and(str::is_empty) {
            return Some("the member's name is empty".to_owned());
        }
        None
    }
}

/// Of a text that names none, which may be anything and so is not repeated.
pub(super) const NO_REGION_NAME: &str =
    "a region is named as in `eu-west-1`, in small letters, digits and `-`";

/// `CreateSecret`, Name.
fn is_name(text: &str) -> bool {
    (1..=512).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "/_+=.@-".contains(c))
}

fn is_arn_of_secret(text: &str) -> bool {
    let parts: Vec<_> = text.splitn(7, ':').collect();
    let [_, partition, service, region, account, kind, name] = parts.as_slice() else { return false };
    partition.starts_with("aws")
        && *service == "secretsmanager"
        && is_region(region)
        && account.len() == 12
        && account.chars().all(|c| c.is_ascii_digit())
        && *kind == "secret"
        && is_name(name)
}

pub(super) fn is_region(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_endpoint(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or(url.strip_prefix("http://"));
    rest.is_some_and(|rest| {
        !rest.is_empty()
            && !rest.starts_with(['/', ':'])
            && !rest.chars().any(|c| c.is_whitespace() || c.is_control() || "@?#".contains(c))
    })
}

/// Whether a name ends as if it were an ARN's, in a hyphen and six letters or digits.
fn looks_suffixed(name: &str) -> bool {
    name.rsplit_once('-').is_some_and(|(before, end)| {
        !before.is_empty() && end.len() == 6 && end.chars().all(|c| c.is_ascii_alphanumeric())
    })
}

/// What an error may repeat of a text that names no secret: it may be a key pasted by mistake.
fn shown(id: &str) -> &str {
    if is_name(id) || is_arn_of_secret(id) { id } else { "aws" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AwsProvider, SecretProvider};

    const ARN: &str = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/ring-AbCdEf";

    #[test]
    fn names_arns_and_partial_arns_are_taken_and_nothing_is_asked() {
        for id in [
            "ring",
            "prod/ring",
            ARN,
            ARN.strip_suffix("-AbCdEf").expect("a suffix"),
            "arn:aws-us-gov:secretsmanager:us-gov-west-1:123456789012:secret:r",
        ] {
            let provider = AwsProvider::new(AwsOptions::secret(id)).expect(id);
            assert_eq!(provider.describe().location, id);
        }
        let elsewhere = AwsProvider::new(AwsOptions::secret("ring").region("eu-west-1")).expect("a name");
        assert_eq!(elsewhere.describe().location, "ring in eu-west-1");
        assert_eq!(AwsOptions::secret(ARN).known_region(), Some("eu-west-1"));
    }

    #[test]
    fn what_names_no_secret_is_refused_before_anybody_is_asked() {
        for (options, wanted) in [
            (AwsOptions::secret(""), "letters, digits"),
            (AwsOptions::secret("a b"), "letters, digits"),
            (AwsOptions::secret("arn:aws:s3:::bucket"), "no ARN of a secret"),
            (AwsOptions::secret("arn:aws:secretsmanager:eu-west-1:1:secret:r"), "no ARN of a secret"),
            (AwsOptions::secret(ARN).region("us-east-1"), "region eu-west-1"),
            (AwsOptions::secret("r").region("EU"), "eu-west-1"),
            (AwsOptions::secret("r").endpoint("localhost:4566"), "https://"),
            (AwsOptions::secret("r").endpoint("http://u:p@h"), "without user"),
            (AwsOptions::secret("r").member(""), "empty"),
        ] {
            let refused = AwsProvider::new(options.clone()).expect_err(wanted);
            assert_eq!(refused.kind(), ErrorKind::Misconfigured);
            assert!(refused.to_string().contains(wanted), "{options:?}: {refused}");
        }
        let key = "-----BEGIN PRIVATE KEY-----";
        let refused = AwsProvider::new(AwsOptions::secret(key)).expect_err("a key");
        assert!(!format!("{refused:?}").contains(key));
    }

    #[test]
    fn a_name_that_ends_like_an_arn_is_told_from_others() {
        assert!(looks_suffixed("prod/ring-AbCdEf") && looks_suffixed("a-123456"));
        assert!(!looks_suffixed("ring") && !looks_suffixed("ring-keys") && !looks_suffixed("-AbCdEf"));
        assert!(!looks_suffixed("ring-AbCde/") && !looks_suffixed("ring-AbCdEfg"));
    }
}
