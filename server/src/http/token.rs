//! `POST ISS/token` on a listener: so many at a time, and no more.
//!
//! A request for a token waits for others, an API server or a database, and a document must not wait for it. So a part
//! of the places of the listener is left to documents, however many tokens are asked for.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Body;
use oneseal::Issuer;
use tokio::sync::Semaphore;
use tower::Service;

use super::error::ApiError;

/// Answers requests for tokens.
#[derive(Clone, Debug)]
pub(crate) struct Tokens {
    issuer: Issuer,
    places: Arc<Semaphore>,
}

impl Tokens {
    /// Those of `issuer`, half as many at a time as its listener has `connections`.
    pub(crate) fn new(issuer: &Issuer, connections: usize) -> Self {
        let places = (connections / 2).clamp(1, MOST_AT_A_TIME);
        Self { issuer: issuer.clone(), places: Arc::new(Semaphore::new(places)) }
    }

    /// Whether `request` is one for a token.
    pub(crate) fn is_asked<B>(&self, request: &Request<B>) -> bool {
        self.issuer.is_token_path(request.uri().path())
    }

    /// Answers one.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Response<Bytes>
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        let Ok(_place) = self.places.try_acquire() else {
            let words = "this replica answers as many token requests as it can; try again";
            return ApiError::unavailable(words, SOON).response();
        };
        let answered = self.issuer.respond_token(request).await;
        answered.unwrap_or_else(|| ApiError::not_found().response())
    }
}

/// On a listener of its own, which answers nothing else.
impl<B> Service<Request<B>> for Tokens
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let tokens = self.clone();
        async move { Ok(tokens.answer(request).await.map(Full::new)) }.boxed()
    }
}

/// A body takes 64 KiB at most, so that all of them together stay below 64 MiB.
const MOST_AT_A_TIME: usize = 1024;
const SOON: Duration = Duration::from_secs(1);
