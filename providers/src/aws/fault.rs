//! From AWS's refusals to the provider's errors: what was refused, which IAM action would allow it, what to do.
//!
//! Of what AWS answers, the error's code is always told. Its message is told for reads, and for writes only where it is
//! about permission: an endpoint that refuses a value may well repeat it. The SDK's error itself is dropped, because its
//! `Debug` shows the answer's body.

use std::error::Error as StdError;
use std::fmt;

use aws_credential_types::provider::error::CredentialsError;
use aws_sdk_secretsmanager::config::http::HttpResponse;
use aws_sdk_secretsmanager::error::{ProvideErrorMetadata, SdkError};

use super::AwsProvider;
use crate::{ErrorKind, ProviderError};

/// How much of a message of AWS's is told.
const MESSAGE_CHARS: usize = 400;

/// A call, named as IAM names the right to make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    DescribeSecret,
    GetSecretValue,
    PutSecretValue,
    UpdateSecretVersionStage,
    CreateSecret,
}

impl Action {
    fn sends_value(self) -> bool {
        matches!(self, Self::PutSecretValue | Self::CreateSecret)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "secretsmanager:{self:?}")
    }
}

/// What AWS has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// The secret.
    Secret,
    /// The version, or a value of it.
    Value,
}

/// A call that was not answered as it should have been. Holds no value and nothing of the SDK.
#[derive(Debug)]
pub(super) struct Failed {
    action: Action,
    why: Why,
}

#[derive(Debug)]
enum Why {
    /// There were no credentials to sign it with.
    Credentials { kind: ErrorKind, told: String },
    /// Nothing was sent.
    NotSent(String),
    /// It may have been sent, and nothing that can be understood came back.
    Unanswered(String),
    /// The answer is a refusal.
    Refused { code: String, message: String, status: u16 },
}

impl Failed {
    pub(super) fn of<E>(action: Action, error: SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        Self { action, why: Why::of(action, &error) }
    }

    pub(super) fn missing(&self) -> Option<Missing> {
        match (&self.why, self.action) {
            (Why::Refused { code, .. }, Action::GetSecretValue) if code == NOT_FOUND => Some(Missing::Value),
            (Why::Refused { code, .. }, _) if code == NOT_FOUND => Some(Missing::Secret),
            _ => None,
        }
    }

    /// Whether a secret, or a version, of that name is there already.
    pub(super) fn is_taken(&self) -> bool {
        matches!(&self.why, Why::Refused { code, .. } if code == "ResourceExistsException")
    }

    /// Whether it may have been carried out all the same: nobody said no.
    pub(super) fn may_have_happened(&self) -> bool {
        match &self.why {
            Why::Credentials { .. } | Why::NotSent(_) => false,
            Why::Unanswered(_) => true,
            Why::Refused { code, status, .. } => {
                *status >= 500 || matches!(&**code, "" | "InternalServiceError")
            }
        }
    }

    /// Whether AWS did say no to what was asked, and not to who asked or how often.
    pub(super) fn is_about_the_request(&self) -> bool {
        matches!(
            &self.why,
            Why::Refused { code, .. } if matches!(&**code, "InvalidParameterException" | "InvalidRequestException" | NOT_FOUND)
        )
    }
}

impl Why {
    fn of<E>(action: Action, error: &SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + StdError + Send + Sync + 'static,
    {
        if let Some(credentials) = credentials_in(error) {
            return Self::Credentials { kind: kind_of_credentials(credentials), told: causes(credentials) };
        }
        match error {
            SdkError::ConstructionFailure(_) => Self::NotSent(causes(error)),
            SdkError::TimeoutError(_) => Self::Unanswered(IN_TIME.to_owned()),
            SdkError::DispatchFailure(failure) if failure.is_timeout() => {
                Self::Unanswered(IN_TIME.to_owned())
            }
            SdkError::DispatchFailure(failure) if failure.is_user() => Self::NotSent(causes(error)),
            SdkError::DispatchFailure(_) => Self::Unanswered(causes(error)),
            SdkError::ServiceError(refused) => {
                let code = refused.err().code().unwrap_or_default();
                let is_ours_to_tell = !action.sends_value() || is_about_permission(code);
                let message = refused.err().message().filter(|_| is_ours_to_tell).unwrap_or_default();
                let status = refused.raw().status().as_u16();
                Self::Refused { code: clean(code), message: clean(message), status }
            }
            SdkError::ResponseError(unread) => Self::Unanswered(unreadable(unread.raw())),
            _ => Self::Unanswered("the answer could not be read".to_owned()),
        }
    }
}

impl AwsProvider {
    /// The record is as it was. `kms_key` is the secret's, where it is known.
    pub(super) fn failed(&self, failed: Failed, kms_key: Option<&str>) -> ProviderError {
        let Failed { action, why } = failed;
        match why {
            Why::Credentials { kind, told } => {
                self.fault(kind, format!("no AWS credentials: {told}{CREDENTIALS}"))
            }
            Why::NotSent(told) => {
                self.fault(ErrorKind::Misconfigured, format!("{action} could not be sent: {told}"))
            }
            Why::Unanswered(told) => {
                self.fault(ErrorKind::Unavailable, format!("{action} was not answered: {told}"))
            }
            Why::Refused { code, message, status } => {
                let (kind, said) = self.refusal(action, &code, &message, status, kms_key);
                let message = if message.is_empty() { message } else { format!("; AWS says: {message}") };
                let code = if code.is_empty() { format!("HTTP {status}") } else { code };
                self.fault(kind, format!("{said} ({code}){message}"))
            }
        }
    }

    /// Whether the label has moved is not known.
    pub(super) fn unknown_outcome(&self, failed: Failed) -> ProviderError {
        let told = self.failed(failed, None);
        let detail =
            format!("it is not known whether the change was made; load again to see: {}", told.detail());
        self.fault(ErrorKind::OutcomeUnknown, detail)
    }

    /// No `NotFound`, which would have a first ring made: the key is there, and comes back. `at` is AWS's `DeletedDate`, which
    /// some take for the day of the deletion and others for that of its end.
    pub(super) fn scheduled_for_deletion(&self, at: Option<&str>) -> ProviderError {
        self.fault(ErrorKind::Unusable, self.take_back(at))
    }

    fn take_back(&self, at: Option<&str>) -> String {
        let at = at.map(|at| format!(" (DeletedDate {at})")).unwrap_or_default();
        let region =
            self.client.get().map(|client| format!(" --region {}", client.region())).unwrap_or_default();
        format!(
            "the secret is scheduled for deletion{at} and cannot be used; take it back, key and all, with `aws \
             secretsmanager restore-secret --secret-id {}{region}`",
            self.options.secret
        )
    }

    fn refusal(
        &self,
        action: Action,
        code: &str,
        message: &str,
        status: u16,
        kms_key: Option<&str>,
    ) -> (ErrorKind, String) {
        let region = self.client.get().map_or("this region", |client| client.region());
        match code {
            NOT_FOUND => {
                let hint = if self.options.is_arn() {
                    "the ARN may end in other six characters since it was made again"
                } else {
                    "it may be in another region or account: set provider.region, or name it by its ARN"
                };
                (ErrorKind::NotFound, format!("there is no such secret in {region}; {hint}"))
            }
            "DecryptionFailure" => (ErrorKind::Denied, kms_denied(action, kms_key)),
            "EncryptionFailure" => (ErrorKind::Denied, kms_denied(action, kms_key)),
            _ if is_denied(code) && mentions_kms(message) => (ErrorKind::Denied, kms_denied(action, kms_key)),
            _ if is_denied(code) => {
                let wanted = denied_action(message).unwrap_or_else(|| action.to_string());
                let resource = denied_resource(message).unwrap_or_else(|| self.options.secret.clone());
                (ErrorKind::Denied, format!("IAM does not allow {wanted} on {resource}; allow it in the role's policy"))
            }
            "ExpiredTokenException" | "ExpiredToken" | "TokenRefreshRequired" => (
                ErrorKind::Unauthenticated,
                "the AWS credentials have expired; the web identity token, profile or variables they come from must be \
                 renewed"
                    .to_owned(),
            ),
            "UnrecognizedClientException" | "InvalidClientTokenId" | "MissingAuthenticationToken"
            | "MissingAuthenticationTokenException" | "NotAuthorized" => (
                ErrorKind::Unauthenticated,
                "AWS does not know these credentials; look which ones are used with `aws sts get-caller-identity`".to_owned(),
            ),
            "InvalidSignatureException" | "SignatureDoesNotMatch" | "RequestExpired" | "IncompleteSignature"
            | "RequestTimeTooSkewed" => (
                ErrorKind::Unauthenticated,
                "AWS does not accept the signature: the secret access key is another one, or this host's clock is wrong"
                    .to_owned(),
            ),
            "InvalidRequestException" if message.contains("deletion") || message.contains("deleted") => {
                (ErrorKind::Unusable, self.take_back(None))
            }
            "LimitExceededException" => (
                ErrorKind::Unusable,
                format!(
                    "{action} is refused: the secret is at a limit of AWS's (20 labels, about 100 versions a day); look \
                     with `aws secretsmanager list-secret-version-ids`"
                ),
            ),
            _ if is_throttling(code) || status == 429 => {
                (ErrorKind::Unavailable, format!("AWS throttles {action}; it is asked again later"))
            }
            "InternalServiceError" | "InternalFailure" | "ServiceUnavailable" | "ServiceUnavailableException" => {
                (ErrorKind::Unavailable, format!("AWS fails at {action}; it is asked again later"))
            }
            // No code: no answer of Secrets Manager's, but of something before it.
            "" => (ErrorKind::Unavailable, format!("what answered {action} is not Secrets Manager")),
            _ if status >= 500 => (ErrorKind::Unavailable, format!("AWS fails at {action}; it is asked again later")),
            _ => (ErrorKind::Unusable, format!("AWS refuses {action}")),
        }
    }
}

const IN_TIME: &str = "nothing came back in time";

const NOT_FOUND: &str = "ResourceNotFoundException";

const CREDENTIALS: &str = "; they come from AWS_ACCESS_KEY_ID, a profile, AWS_ROLE_ARN with \
                           AWS_WEB_IDENTITY_TOKEN_FILE, the container or the instance";

/// KMS, on whose behalf Secrets Manager acts with the caller's own rights.
fn kms_denied(action: Action, kms_key: Option<&str>) -> String {
    let key = kms_key.map_or_else(|| "the secret's KMS key".to_owned(), |key| format!("the KMS key {key}"));
    let wanted = if action.sends_value() { "kms:GenerateDataKey and kms:Decrypt" } else { "kms:Decrypt" };
    format!(
        "{action} cannot use {key}: allow {wanted} in the role's policy and in the key's, and see that the key is enabled"
    )
}

fn is_denied(code: &str) -> bool {
    matches!(code, "AccessDeniedException" | "AccessDenied" | "KMSAccessDeniedException")
}

fn is_about_permission(code: &str) -> bool {
    is_denied(code) || matches!(code, "DecryptionFailure" | "EncryptionFailure")
}

fn mentions_kms(message: &str) -> bool {
    message.contains("KMS") || message.contains("kms:")
}

fn is_throttling(code: &str) -> bool {
    let code = code.trim_end_matches("Exception");
    matches!(
        code,
        "Throttling" | "ThrottledRequest" | "TooManyRequests" | "RequestLimitExceeded" | "SlowDown"
    )
}

/// `User: … is not authorized to perform: ACTION on resource: RESOURCE because …`
fn denied_action(message: &str) -> Option<String> {
    let action = word_after(message, "not authorized to perform: ")?;
    action.contains(':').then(|| action.to_owned())
}

fn denied_resource(message: &str) -> Option<String> {
    word_after(message, "on resource: ").map(str::to_owned)
}

fn word_after<'m>(message: &'m str, lead: &str) -> Option<&'m str> {
    let (_, rest) = message.split_once(lead)?;
    rest.split_whitespace().next().filter(|word| !word.is_empty())
}

fn credentials_in<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e CredentialsError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Whether waiting may mend it: what is not configured stays so, what STS or the instance did not answer may come.
fn kind_of_credentials(error: &CredentialsError) -> ErrorKind {
    let told = causes(error);
    // Said of an issuer that could not be asked for its keys just then, which STS wants to be asked again for.
    let is_unreachable_issuer =
        told.contains("retrieve verification key") || told.contains("IDPCommunicationError");
    let is_refused = REFUSED_BY_STS.iter().any(|code| told.contains(code)) && !is_unreachable_issuer;
    match error {
        CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_) => {
            ErrorKind::Unauthenticated
        }
        _ if is_refused => ErrorKind::Unauthenticated,
        _ => ErrorKind::NoCredentials,
    }
}

/// What STS says to a token or role that it does not take.
const REFUSED_BY_STS: [&str; 5] =
    ["InvalidIdentityToken", "ExpiredToken", "AccessDenied", "IDPRejectedClaim", "ValidationError"];

/// The error and its causes in one line, without what one of them says again. Only `Display`: what `Debug` shows may be
/// an answer's body.
fn causes(error: &(dyn StdError + 'static)) -> String {
    let mut line = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let said = error.to_string();
        if !said.is_empty() && !line.contains(&said) {
            line.push_str(if line.is_empty() { "" } else { ": " });
            line.push_str(&said);
        }
        next = error.source();
    }
    clean(&line)
}

fn unreadable(raw: &HttpResponse) -> String {
    let kind = raw.headers().get("content-type").map(clean).unwrap_or_default();
    let kind = if kind.is_empty() { kind } else { format!(", {kind}") };
    format!("the answer could not be read (HTTP {}{kind})", raw.status().as_u16())
}

/// One line, and not too long a one: who answers may say anything.
fn clean(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match text.char_indices().nth(MESSAGE_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_denied_action_and_resource_are_read_from_what_aws_says() {
        let message = "User: arn:aws:sts::1:assumed-role/r/s is not authorized to perform: \
                       secretsmanager:GetSecretValue on resource: prod/ring because no identity-based policy allows it";
        assert_eq!(denied_action(message).as_deref(), Some("secretsmanager:GetSecretValue"));
        assert_eq!(denied_resource(message).as_deref(), Some("prod/ring"));
        for odd in ["", "Access denied", "not authorized to perform: ", "not authorized to perform: that"] {
            assert_eq!(denied_action(odd), None, "{odd}");
        }
        assert!(mentions_kms("Access to KMS is not allowed") && !mentions_kms(message));
    }

    #[test]
    fn what_was_answered_is_cut_and_stays_on_one_line() {
        let told = clean(&format!("a\r\n{}", "é".repeat(1000)));
        assert!(told.starts_with("a  é") && told.ends_with('…') && told.chars().count() == MESSAGE_CHARS + 1);
    }

    #[test]
    fn what_sts_may_take_later_is_waited_for_and_what_it_refuses_is_not() {
        let said = |text: &str| kind_of_credentials(&CredentialsError::provider_error(text.to_owned()));
        let unreachable =
            "InvalidIdentityToken: Couldn't retrieve verification key from your identity provider";
        for text in [unreachable, "IDPCommunicationError", "connection refused", "HTTP 503"] {
            assert_eq!(said(text), ErrorKind::NoCredentials, "{text}");
        }
        for text in
            ["InvalidIdentityToken: Incorrect token audience", "ExpiredTokenException", "AccessDenied: x"]
        {
            assert_eq!(said(text), ErrorKind::Unauthenticated, "{text}");
        }
        assert_eq!(kind_of_credentials(&CredentialsError::not_loaded("nothing")), ErrorKind::Unauthenticated);
        let late = CredentialsError::provider_timed_out(std::time::Duration::from_secs(5));
        assert_eq!(kind_of_credentials(&late), ErrorKind::NoCredentials);
    }

    #[test]
    fn throttling_has_several_names() {
        for code in ["ThrottlingException", "Throttling", "TooManyRequestsException", "RequestLimitExceeded"]
        {
            assert!(is_throttling(code), "{code}");
        }
        assert!(!is_throttling("LimitExceededException") && !is_throttling(""));
    }
}
