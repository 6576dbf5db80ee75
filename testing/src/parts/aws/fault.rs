//! What goes wrong between a client and AWS.

use std::time::Duration;

use hyper::Response;
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;

use super::asked::Dialect;
use super::refusal::Refusal;

/// What becomes of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Refused because too many were made (`ThrottlingException`).
    Throttle,
    /// Refused with this status, code and message.
    Error(u16, String, String),
    /// Answered with this status, media type and text, in place of anything of AWS.
    Answer(u16, String, String),
    /// Carried out and answered after as long.
    Delay(Duration),
    /// Never carried out; the connection is closed without an answer.
    CutBefore,
    /// Carried out, and the connection closed without an answer.
    CutAfter,
    /// Carried out, and the connection closed in the middle of the answer.
    CutMidway,
    /// Neither carried out nor answered; the connection stays open.
    Hang,
}

impl Fault {
    /// No policy of the caller allows `action` (`secretsmanager:GetSecretValue`) on `resource`.
    pub fn denied(action: &str, resource: &str) -> Self {
        let message = format!(
            "User: {CALLER} is not authorized to perform: {action} on resource: {resource} because no \
             identity-based policy allows the {action} action"
        );
        Self::Error(400, "AccessDeniedException".to_owned(), message)
    }

    /// The caller may use the secret, but not the key that it is encrypted with.
    pub fn kms_denied() -> Self {
        Self::Error(400, "AccessDeniedException".to_owned(), "Access to KMS is not allowed".to_owned())
    }

    /// What to say in place of carrying it out, if that is what this fault does.
    pub(super) fn answer(&self, dialect: Dialect) -> Option<Response<Bytes>> {
        match self {
            Self::Throttle => Some(Refusal::new(400, "ThrottlingException", "Rate exceeded").answer(dialect)),
            Self::Error(status, code, message) => {
                Some(Refusal::new(*status, code, message.clone()).answer(dialect))
            }
            Self::Answer(status, media_type, text) => {
                let answer = Response::builder().status(*status).header(CONTENT_TYPE, media_type);
                Some(answer.body(text.clone().into()).expect("a status, a media type and a text"))
            }
            _ => None,
        }
    }
}

const CALLER: &str = "arn:aws:sts::123456789012:assumed-role/issuer/replica";
