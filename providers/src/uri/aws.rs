//! `aws:NAME-OR-ARN[?region=R&member=M&endpoint=URL]`.

use std::fmt;

use super::UriError;

/// A secret in AWS Secrets Manager. `Display` gives back what stands behind `aws:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwsUri {
    secret: String,
    region: Option<String>,
    member: Option<String>,
    endpoint: Option<String>,
}

impl AwsUri {
    /// Its name, its ARN, or its ARN without the six characters at the end.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// The region that `region=R` names.
    pub fn region(&self) -> Option<&str> {
        self.region.as_deref()
    }

    /// The member of a JSON object that `member=M` names.
    pub fn member(&self) -> Option<&str> {
        self.member.as_deref()
    }

    /// The endpoint that `endpoint=URL` names.
    pub fn endpoint(&self) -> Option<&str> {
        self.endpoint.as_deref()
    }

    /// Reads it; nothing is percent-decoded.
    pub(super) fn parse(rest: &str) -> Result<Self, UriError> {
        let (secret, query) = match rest.split_once('?') {
            Some((secret, query)) => (secret, query.split('&').collect()),
            None => (rest, Vec::new()),
        };
        // The characters of a secret's name (CreateSecret, `Name`), and the colon of an ARN.
        let is_id = |c: char| c.is_ascii_alphanumeric() || "/_+=.@-:".contains(c);
        if secret.is_empty() || secret.len() > 2048 || !secret.chars().all(is_id) {
            return Err(invalid("want a secret's name or its ARN (letters, digits and `/_+=.@-`)"));
        }
        let mut uri = Self { secret: secret.to_owned(), region: None, member: None, endpoint: None };
        for pair in query {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let field = match name {
                "region" => &mut uri.region,
                "member" => &mut uri.member,
                "endpoint" => &mut uri.endpoint,
                _ => return Err(invalid("behind `?` stand region=, member= and endpoint= alone")),
            };
            // A space or a brace is of a value pasted here, not of a name.
            if value.is_empty() || !value.chars().all(|c| c.is_ascii_graphic()) {
                return Err(invalid(&format!("{name}= wants a value without blanks")));
            }
            if field.replace(value.to_owned()).is_some() {
                return Err(invalid(&format!("it names a {name} twice")));
            }
        }
        Ok(uri)
    }

    /// The provider's options.
    #[cfg(feature = "aws")]
    pub fn options(&self) -> crate::AwsOptions {
        let mut options = crate::AwsOptions::secret(&self.secret);
        options.region.clone_from(&self.region);
        options.member.clone_from(&self.member);
        options.endpoint.clone_from(&self.endpoint);
        options
    }

    #[cfg(feature = "aws")]
    pub(super) fn provider(&self) -> Result<crate::AwsProvider, UriError> {
        let unusable = |error: crate::ProviderError| invalid(error.detail());
        crate::AwsProvider::new(self.options()).map_err(unusable)
    }
}

impl fmt::Display for AwsUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.secret)?;
        let parts = [("region", &self.region), ("member", &self.member), ("endpoint", &self.endpoint)];
        let given = parts.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        for (number, (name, value)) in given.enumerate() {
            write!(f, "{}{name}={value}", if number == 0 { '?' } else { '&' })?;
        }
        Ok(())
    }
}

fn invalid(problem: &str) -> UriError {
    UriError::Invalid { form: "aws:NAME-OR-ARN", problem: problem.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ARN: &str = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:ring-AbCdEf";

    #[test]
    fn what_stands_behind_the_question_mark_is_read_in_any_order_and_written_in_one() {
        for (text, shown) in [
            ("prod/ring", "prod/ring"),
            (ARN, ARN),
            ("r?member=m&region=eu-west-1", "r?region=eu-west-1&member=m"),
            ("r?endpoint=http://127.0.0.1:5000", "r?endpoint=http://127.0.0.1:5000"),
        ] {
            let uri = AwsUri::parse(text).expect(text);
            assert_eq!(uri.to_string(), shown);
            assert_eq!(AwsUri::parse(shown).expect(shown), uri);
        }
        let uri = AwsUri::parse("r?region=x&member=private_key").expect("both");
        assert_eq!(
            (uri.secret(), uri.region(), uri.member(), uri.endpoint()),
            ("r", Some("x"), Some("private_key"), None)
        );
    }

    #[test]
    fn what_is_refused_is_not_repeated() {
        for (text, wanted) in [
            ("", "name or its ARN"),
            ("?region=x", "name or its ARN"),
            ("a b", "name or its ARN"),
            ("r?stage=AWSCURRENT", "alone"),
            ("r?region", "region= wants a value"),
            ("r?region=a&region=b", "a region twice"),
            ("r?member=s3cret s3cret", "without blanks"),
        ] {
            let refused = AwsUri::parse(text).expect_err(text).to_string();
            assert!(refused.contains(wanted) && !refused.contains("s3cret"), "{text}: {refused}");
        }
    }

    #[cfg(feature = "aws")]
    #[test]
    fn it_opens_a_provider_that_has_asked_nobody() {
        use crate::{ProviderUri, SecretProvider};

        let opened = ProviderUri::parse("aws:ring?region=eu-west-1").expect("an aws URI").open();
        let described = opened.expect("a name").describe();
        assert_eq!((described.kind, &*described.location), ("aws", "ring in eu-west-1"));
        let refused = ProviderUri::parse("aws:arn:aws:s3:::bucket").expect("characters of an ARN").open();
        assert!(refused.expect_err("no secret").to_string().contains("no ARN of a secret"));
    }
}
