//! One exchange with the API server: a request, and an answer that is whole or none.

use std::error::Error as StdError;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time;
use zeroize::Zeroizing;

use super::connect::{Link, Way};
use super::fault::{Trouble, failed};
use super::place::Place;

/// What is asked, by the name that RBAC and the audit log have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Get,
    Watch,
    Update,
    Create,
}

impl Verb {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Watch => "watch",
            Self::Update => "update",
            Self::Create => "create",
        }
    }

    /// Whether something may have changed although no good answer came.
    pub(super) fn is_write(self) -> bool {
        matches!(self, Self::Update | Self::Create)
    }

    fn method(self) -> Method {
        match self {
            Self::Get | Self::Watch => Method::GET,
            Self::Update => Method::PUT,
            Self::Create => Method::POST,
        }
    }
}

/// A request about the one Secret.
#[derive(Clone)]
pub(super) struct Ask {
    pub(super) verb: Verb,
    /// Without its `?`.
    query: String,
    body: Zeroizing<Vec<u8>>,
}

impl Ask {
    pub(super) fn get() -> Self {
        Self { verb: Verb::Get, query: String::new(), body: Zeroizing::default() }
    }

    /// Metadata alone, of what is there and of what comes, for `seconds`.
    pub(super) fn watch(name: &str, seconds: u64) -> Self {
        let query = format!(
            "watch=1&resourceVersion=0&fieldSelector=metadata.name%3D{name}&timeoutSeconds={seconds}"
        );
        Self { verb: Verb::Watch, query, body: Zeroizing::default() }
    }

    /// PUT or POST of `body`; with `is_dry` the server does all but store it.
    pub(super) fn write(verb: Verb, body: Zeroizing<Vec<u8>>, is_dry: bool) -> Self {
        let dry = if is_dry { "&dryRun=All" } else { "" };
        Self { verb, query: format!("fieldManager=oneseal{dry}"), body }
    }

    fn request(&self, namespace: &str, name: &str) -> Result<Request<Body>, http::Error> {
        let collection = format!("/api/v1/namespaces/{namespace}/secrets");
        let path = match self.verb {
            Verb::Get | Verb::Update => format!("{collection}/{name}"),
            Verb::Create | Verb::Watch => collection,
        };
        let media_type = if self.verb == Verb::Watch { METADATA } else { JSON };
        let request = Request::builder()
            .method(self.verb.method())
            .uri(format!("{path}?{}", self.query))
            .header(ACCEPT, media_type)
            .header(CONTENT_TYPE, JSON);
        // Wiped when the last of its holders lets go of it.
        request.body(Body::from(Bytes::from_owner(self.body.clone())))
    }
}

const JSON: &str = "application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// A whole answer.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) media_type: String,
    pub(super) retry_after: Option<String>,
    pub(super) body: Zeroizing<Vec<u8>>,
}

impl Reply {
    /// Until it may be asked again, if it says so in seconds (RFC 9110 section 10.2.3).
    pub(super) fn seconds_to_wait(&self) -> Option<Duration> {
        let seconds = self.retry_after.as_ref().and_then(|seconds| seconds.parse::<u32>().ok());
        seconds.map(|seconds| Duration::from_secs(seconds.into()))
    }
}

impl Place {
    /// Asks, and reads the answer whole, within the time-out.
    ///
    /// # Cancel safety
    /// A write that was sent may have happened.
    pub(super) async fn ask(&self, ask: &Ask) -> Result<Reply, Trouble> {
        self.way.ask(|link| self.request(link, ask), LONGEST_ANSWER).await
    }

    /// Begins a watch: what it tells is read from the body.
    pub(super) async fn follow(&self, ask: &Ask) -> Result<Body, Trouble> {
        let way = &self.way;
        let (link, _) = way.link().await.map_err(Trouble::Unsent)?;
        let begun = time::timeout(way.access.timeout, async {
            let response = way.send(&link, self.request(&link, ask)?).await?;
            if response.status().as_u16() == 200 {
                return Ok(response.into_body());
            }
            Err(Trouble::Refused(whole(response, LONGEST_ANSWER).await?))
        });
        let begun = begun.await.unwrap_or(Err(Trouble::Silent));
        way.settle(&link, begun).await
    }

    fn request(&self, link: &Link, ask: &Ask) -> Result<Request<Body>, Trouble> {
        let namespace = self.namespace_by(link).map_err(Trouble::Unsent)?;
        let request = ask.request(namespace, &self.options.name);
        request.map_err(|error| Trouble::cut(&link.server, error))
    }
}

impl Way {
    /// Sends what `request` makes, and reads the answer whole if it is at most `longest` bytes long, within the
    /// time-out. Where the server does not know who asks, the credentials are read anew and it is asked once more.
    ///
    /// # Cancel safety
    /// A write that was sent may have happened.
    pub(super) async fn ask(
        &self,
        request: impl Fn(&Link) -> Result<Request<Body>, Trouble>,
        longest: usize,
    ) -> Result<Reply, Trouble> {
        let (link, is_new) = self.link().await.map_err(Trouble::Unsent)?;
        let asked = self.ask_by(&link, request(&link)?, longest).await;
        let is_unknown_here = matches!(&asked, Err(Trouble::Refused(reply)) if reply.status == 401);
        if !is_unknown_here || is_new {
            return self.settle(&link, asked).await;
        }
        self.forget(&link).await;
        let (link, _) = self.link().await.map_err(Trouble::Unsent)?;
        let asked = self.ask_by(&link, request(&link)?, longest).await;
        self.settle(&link, asked).await
    }

    /// After any failure but a refusal the way may be another one, and after a 401 so may the credentials.
    async fn settle<T>(&self, link: &Link, outcome: Result<T, Trouble>) -> Result<T, Trouble> {
        let is_way_good = match &outcome {
            Ok(_) => true,
            Err(Trouble::Refused(reply)) => reply.status != 401,
            Err(_) => false,
        };
        if !is_way_good {
            self.forget(link).await;
        }
        outcome
    }

    async fn ask_by(&self, link: &Link, request: Request<Body>, longest: usize) -> Result<Reply, Trouble> {
        let exchange = async { whole(self.send(link, request).await?, longest).await };
        let reply = time::timeout(self.access.timeout, exchange).await.unwrap_or(Err(Trouble::Silent))?;
        if matches!(reply.status, 200 | 201) { Ok(reply) } else { Err(Trouble::Refused(reply)) }
    }

    async fn send(&self, link: &Link, request: Request<Body>) -> Result<Response<Body>, Trouble> {
        link.client.send(request).await.map_err(|error| failed(&link.server, error))
    }
}

/// The whole answer, unless it is longer than `longest` bytes.
async fn whole(response: Response<Body>, longest: usize) -> Result<Reply, Trouble> {
    let (head, mut body) = response.into_parts();
    let header = |name| {
        let value = head.headers.get(name).and_then(|value| value.to_str().ok());
        value.map(|value| value.chars().take(LONGEST_HEADER).collect::<String>())
    };
    let mut reply = Reply {
        status: head.status.as_u16(),
        media_type: header(CONTENT_TYPE).unwrap_or_default(),
        retry_after: header(RETRY_AFTER),
        body: Zeroizing::new(Vec::with_capacity(FIRST_BUFFER)),
    };
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| Trouble::Cut(Box::new(error) as Box<dyn StdError + Send + Sync>))?;
        let Ok(data) = frame.into_data() else { continue };
        if reply.body.len() + data.len() > longest {
            return Err(Trouble::Cut("the answer is longer than what was asked for can be".into()));
        }
        append(&mut reply.body, &data);
    }
    Ok(reply)
}

/// Appends without leaving a copy behind: a buffer that is too small is wiped once it has been copied.
pub(super) fn append(buffer: &mut Zeroizing<Vec<u8>>, bytes: &[u8]) {
    let length = buffer.len() + bytes.len();
    if length > buffer.capacity() {
        let mut larger = Zeroizing::new(Vec::with_capacity(length.max(buffer.capacity() * 2)));
        larger.extend_from_slice(buffer);
        *buffer = larger;
    }
    buffer.extend_from_slice(bytes);
}

const FIRST_BUFFER: usize = 32 * 1024;
/// A Secret's 1 MiB is a third more in base64, and may be there a second time as an annotation of `kubectl apply`.
const LONGEST_ANSWER: usize = 8 * 1024 * 1024;
const LONGEST_HEADER: usize = 100;
