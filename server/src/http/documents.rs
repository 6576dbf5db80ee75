//! The public listener: the issuer's paths, and a refusal for all others.

use std::convert::Infallible;
use std::error::Error;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Either};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Body;
use oneseal::{DocumentsService, Issuer};
use tower::{Layer, Service};

use super::error::ApiError;
use super::token::Tokens;

/// The application: documents in front, everything else behind. The body of a request for a token is read, and no
/// other. Without `tokens` it is asked for elsewhere.
pub(crate) fn app(issuer: &Issuer, tokens: Option<Tokens>) -> DocumentsService<Rest> {
    issuer.documents_layer().layer(Rest { issuer: issuer.clone(), tokens })
}

/// What the documents layer leaves: OPTIONS, wrong methods, `ISS/authorize`, `ISS/token`, unknown paths.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    issuer: Issuer,
    tokens: Option<Tokens>,
}

impl<B> Service<Request<B>> for Rest
where
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Either<
        Ready<Result<Self::Response, Infallible>>,
        BoxFuture<'static, Result<Self::Response, Infallible>>,
    >;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let answered = self.issuer.respond(request.method(), request.uri().path(), request.headers());
        match (answered, &self.tokens) {
            (Some(response), _) => Either::Left(ready(Ok(response.map(Full::new)))),
            (None, Some(tokens)) if tokens.is_asked(&request) => {
                let tokens = tokens.clone();
                Either::Right(async move { Ok(tokens.answer(request).await.map(Full::new)) }.boxed())
            }
            (None, _) => Either::Left(ready(Ok(ApiError::not_found().response().map(Full::new)))),
        }
    }
}
