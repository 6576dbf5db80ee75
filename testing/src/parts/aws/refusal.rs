//! Errors as AWS writes them.

use std::fmt;

use hyper::Response;
use hyper::body::Bytes;
use hyper::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::asked::Dialect;

/// A refusal by AWS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Of HTTP.
    pub status: u16,
    /// Such as `ResourceNotFoundException`.
    pub code: String,
    /// For people.
    pub message: String,
}

impl Refusal {
    pub(super) fn new(status: u16, code: &str, message: impl Into<String>) -> Self {
        Self { status, code: code.to_owned(), message: message.into() }
    }

    /// What a JSON call got, if it is a refusal.
    pub(super) fn read(status: u16, answer: &Value) -> Option<Self> {
        let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        let (code, message) = (text("__type"), text("message"));
        (status >= 300 || !code.is_empty()).then_some(Self { status, code, message })
    }

    pub(super) fn answer(&self, dialect: Dialect) -> Response<Bytes> {
        let (media_type, body) = match dialect {
            Dialect::Json => (
                "application/x-amz-json-1.1",
                json!({"__type": self.code, "message": self.message, "Message": self.message}).to_string(),
            ),
            Dialect::Xml => ("text/xml", self.xml()),
        };
        let answer = Response::builder().status(self.status).header(CONTENT_TYPE, media_type);
        answer
            .header("x-amzn-requestid", REQUEST)
            .body(body.into())
            .expect("a status, a media type and a body")
    }

    fn xml(&self) -> String {
        let by = if self.status < 500 { "Sender" } else { "Receiver" };
        let (code, message) = (escape(&self.code), escape(&self.message));
        format!(
            "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>{by}</Type>\
             <Code>{code}</Code><Message>{message}</Message></Error><RequestId>{REQUEST}</RequestId></ErrorResponse>"
        )
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.code, self.status, self.message)
    }
}

const REQUEST: &str = "0b7e0f1a-6d0f-4c3e-9c0b-6f1f3f0e7a55";

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
