//! Answers GET and HEAD of the documents before anything else sees the request.
//!
//! A router's matching, extractors and header insertion cost as much again as the answer itself. This layer compares
//! the path with a few strings, clones a header map and a reference-counted body, and boxes nothing.

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::Either;
use http::{Request, Response};
use tower::{Layer, Service};

use crate::Issuer;

impl Issuer {
    /// A layer that answers GET and HEAD of the documents before routing. Wrap the whole service in it, outermost,
    /// and merge [`Issuer::router`] inside for what is left: OPTIONS, wrong methods, `ISS/authorize`.
    ///
    /// ```
    /// # fn serve(issuer: oneseal::Issuer) -> impl Sized {
    /// use tower::Layer;
    /// let app: axum::Router = axum::Router::new().merge(issuer.router());
    /// issuer.documents_layer().layer(app)
    /// # }
    /// ```
    pub fn documents_layer(&self) -> DocumentsLayer {
        DocumentsLayer { issuer: self.clone() }
    }
}

/// Made by [`Issuer::documents_layer`].
#[derive(Clone, Debug)]
pub struct DocumentsLayer {
    issuer: Issuer,
}

impl<S> Layer<S> for DocumentsLayer {
    type Service = DocumentsService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        DocumentsService { issuer: self.issuer.clone(), inner }
    }
}

/// A service with an issuer's documents in front.
#[derive(Clone, Debug)]
pub struct DocumentsService<S> {
    issuer: Issuer,
    inner: S,
}

impl<S, B, RB> Service<Request<B>> for DocumentsService<S>
where
    S: Service<Request<B>, Response = Response<RB>>,
    RB: From<Bytes>,
{
    type Response = Response<RB>;
    type Error = S::Error;
    type Future = Either<Ready<Result<Response<RB>, S::Error>>, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.issuer.respond_document(request.method(), request.uri().path(), request.headers()) {
            Some(response) => Either::Left(ready(Ok(response.map(RB::from)))),
            None => Either::Right(self.inner.call(request)),
        }
    }
}
