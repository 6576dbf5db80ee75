//! The admin API's way in over TCP: the guard before the routes.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::response::{IntoResponse, Response};
use futures_util::future::Either;
use http::Request;
use hyper::body::Incoming;
use tower::Service;

use super::guard::Guard;
use crate::http::caller::Caller;
use crate::http::error::ApiError;

/// The routes behind the guard. What is refused is answered without the routes, and its body is not read.
#[derive(Clone, Debug)]
pub(crate) struct Guarded {
    routes: Router,
    guard: Arc<Guard>,
}

impl Guarded {
    /// `routes`, for those whom `guard` lets in.
    pub(crate) fn new(routes: Router, guard: Guard) -> Self {
        Self { routes, guard: Arc::new(guard) }
    }
}

impl Service<Request<Incoming>> for Guarded {
    type Response = Response;
    type Error = Infallible;
    type Future = Either<Ready<Result<Response, Infallible>>, <Router as Service<Request<Incoming>>>::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Service::<Request<Incoming>>::poll_ready(&mut self.routes, cx)
    }

    fn call(&mut self, mut request: Request<Incoming>) -> Self::Future {
        let Some(Caller::Remote(ends)) = request.extensions().get::<Caller>() else {
            return Either::Left(ready(Ok(ApiError::unauthorized().into_response())));
        };
        let ends = *ends;
        match self.guard.admit(&mut request, ends) {
            Ok(caller) => {
                request.extensions_mut().insert(caller);
                Either::Right(self.routes.call(request))
            }
            Err(answer) => Either::Left(ready(Ok(answer.into_response()))),
        }
    }
}
