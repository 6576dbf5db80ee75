//! What a client asks, read as far as the emulator's surroundings need it.

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::header::AUTHORIZATION;
use hyper::{HeaderMap, Method, Request};
use serde_json::Value;

/// A request for one action of an API: Secrets Manager speaks JSON, STS takes forms and answers in XML.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) method: Method,
    /// With its query.
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// `GetSecretValue`, `AssumeRoleWithWebIdentity`; empty where none is named.
    pub(super) action: String,
    pub(super) dialect: Dialect,
}

/// How errors are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    Json,
    Xml,
}

impl Asked {
    /// Reads all of `request`.
    ///
    /// # Errors
    /// If the client stops in the middle.
    pub(super) async fn read(request: Request<Incoming>) -> Result<Self, hyper::Error> {
        let (head, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self::new(head.method, path, head.headers, body))
    }

    /// A call of Secrets Manager.
    pub(super) fn of_json(headers: HeaderMap, action: &str, parameters: &Value) -> Self {
        let mut headers = headers;
        let target = format!("{TARGET_PREFIX}{action}").parse().expect("the name of an action");
        headers.insert(TARGET, target);
        headers.insert("content-type", "application/x-amz-json-1.1".parse().expect("a media type"));
        Self::new(Method::POST, "/".to_owned(), headers, parameters.to_string().into())
    }

    /// A call of STS, which nobody signs.
    pub(super) fn of_token(role: &str, token: &str) -> Self {
        let fields = [
            ("Action", "AssumeRoleWithWebIdentity"),
            ("Version", "2011-06-15"),
            ("RoleArn", role),
            ("RoleSessionName", "test"),
            ("WebIdentityToken", token),
        ];
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut headers = HeaderMap::new();
        let form = "application/x-www-form-urlencoded".parse().expect("a media type");
        headers.insert("content-type", form);
        Self::new(Method::POST, "/".to_owned(), headers, body.into())
    }

    fn new(method: Method, path: String, headers: HeaderMap, body: Bytes) -> Self {
        let target = headers.get(TARGET).and_then(|target| target.to_str().ok());
        let (action, dialect) = match target {
            Some(target) => (target.rsplit('.').next().unwrap_or_default().to_owned(), Dialect::Json),
            None => (field(&body, "Action").unwrap_or_default(), Dialect::Xml),
        };
        Self { method, path, headers, body, action, dialect }
    }

    /// A field of a form.
    pub(super) fn field(&self, name: &str) -> Option<String> {
        field(&self.body, name)
    }

    /// The parameters of a JSON call; `null` where they are none.
    pub(super) fn parameters(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Who signed it, `Credential=AKIA…/20261130/…`. The signature itself nobody looks at.
    pub(super) fn access_key_id(&self) -> Option<String> {
        let header = self.headers.get(AUTHORIZATION)?.to_str().ok()?;
        let (_, credential) = header.split_once("Credential=")?;
        credential.split('/').next().map(str::to_owned)
    }
}

const TARGET: &str = "x-amz-target";
const TARGET_PREFIX: &str = "secretsmanager.";

fn field(body: &[u8], name: &str) -> Option<String> {
    let mut fields = url::form_urlencoded::parse(body);
    fields.find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
}
