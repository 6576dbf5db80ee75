//! The public listener: the issuer's paths, and a refusal for all others.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use oneseal::{DocumentsService, Issuer};
use tower::{Layer, Service};

use super::error::ApiError;

/// The application: documents in front, everything else behind. No request body is read.
pub(crate) fn app(issuer: &Issuer) -> DocumentsService<Rest> {
    issuer.documents_layer().layer(Rest { issuer: issuer.clone() })
}

/// What the documents layer leaves: OPTIONS, wrong methods, `ISS/authorize`, unknown paths.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    issuer: Issuer,
}

impl<B> Service<Request<B>> for Rest {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let answered = self.issuer.respond(request.method(), request.uri().path(), request.headers());
        let response = answered.unwrap_or_else(|| ApiError::not_found().response());
        ready(Ok(response.map(Full::new)))
    }
}
