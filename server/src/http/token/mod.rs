//! `POST ISS/token` on a listener: so many at a time, and so often from one address.
//!
//! A request for a token waits for others, an API server or a database, and a document must not wait for it. So a part
//! of the places of the documents' listener is left to documents, however many tokens are asked for there.

mod address;

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::header::{HeaderValue, PRAGMA};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Body;
use oneseal::{Clock, Issuer, SystemClock};
use tokio::sync::{Semaphore, SemaphorePermit};
use tower::Service;

use self::address::AddressLimits;
use super::caller::Caller;
use super::error::ApiError;
use crate::config;
use crate::metrics::TurnedAway;
use crate::state::State;

/// Answers requests for tokens.
#[derive(Clone, Debug)]
pub(crate) struct Tokens(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    issuer: Issuer,
    state: Arc<State>,
    places: Semaphore,
    /// `None` where it is not said who stands in front.
    addresses: Option<AddressLimits>,
}

impl Tokens {
    /// Those of the issuer of `state`, half as many at a time as the listener has `connections`.
    pub(crate) fn new(state: &Arc<State>, connections: usize, settings: &config::Tokens) -> Self {
        let config::Tokens { trusted_proxies, address, .. } = settings;
        let is_limited = !trusted_proxies.is_empty();
        Self(Arc::new(Inner {
            issuer: state.issuer.clone(),
            state: Arc::clone(state),
            places: Semaphore::new((connections / 2).clamp(1, MOST_AT_A_TIME)),
            addresses: is_limited.then(|| AddressLimits::new(trusted_proxies.clone(), *address)),
        }))
    }

    /// Whether `request` is one for a token.
    pub(crate) fn is_asked<B>(&self, request: &Request<B>) -> bool {
        self.0.issuer.is_token_path(request.uri().path())
    }

    /// Answers one.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Response<Bytes>
    where
        B: Body,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
    {
        if !self.is_asked(&request) {
            return ApiError::not_found().response();
        }
        let _place = match self.admit(&request) {
            Ok(place) => place,
            Err(refusal) => return uncached(&refusal),
        };
        let answered = self.0.issuer.respond_token(request).await;
        answered.unwrap_or_else(|| ApiError::not_found().response())
    }

    fn admit<B>(&self, request: &Request<B>) -> Result<SemaphorePermit<'_>, ApiError> {
        let Inner { state, places, addresses, .. } = &*self.0;
        let peer = match request.extensions().get() {
            Some(Caller::Remote(ends)) => Some(ends.peer.ip()),
            _ => None,
        };
        if let (Some(addresses), Some(peer)) = (addresses, peer) {
            addresses.take(peer, request.headers(), SystemClock.boot()).map_err(|wait| {
                state.metrics.count_turned_away(TurnedAway::Address);
                let words = "this address asks for tokens too often; try again after the time in Retry-After";
                ApiError::too_many(words).after(wait)
            })?;
        }
        places.try_acquire().map_err(|_| {
            state.metrics.count_turned_away(TurnedAway::Places);
            ApiError::unavailable("this replica answers as many token requests as it can; try again", SOON)
        })
    }
}

/// As every answer of the endpoint is (RFC 6749 section 5.1).
fn uncached(refusal: &ApiError) -> Response<Bytes> {
    let mut response = refusal.response();
    response.headers_mut().insert(PRAGMA, HeaderValue::from_static("no-cache"));
    response
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

/// A body takes 64 KiB unless more is allowed, so that all of them together stay below 64 MiB.
const MOST_AT_A_TIME: usize = 1024;
const SOON: Duration = Duration::from_secs(1);
