//! The admin API's way in over TCP: a socket that tells who connects, and the guard before the routes.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, ready as when_ready};

use axum::Router;
use axum::response::{IntoResponse, Response};
use futures_util::future::Either;
use http::Request;
use hyper::body::Incoming;
use tokio::net::{TcpListener, TcpStream};
use tower::Service;

use super::guard::Guard;
use crate::http::caller::{Caller, Ends};
use crate::http::error::ApiError;
use crate::http::listener::Accept;

/// A TCP socket whose connections know their ends. The documents' socket has no use for them.
#[derive(Debug)]
pub(crate) struct RemoteSocket(pub(crate) TcpListener);

impl Accept for RemoteSocket {
    type Stream = TcpStream;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, Option<Caller>)>> {
        let (stream, peer) = when_ready!(self.0.poll_accept(cx))?;
        stream.set_nodelay(true)?;
        let caller = Caller::Remote(Ends::new(peer, stream.local_addr()?));
        Poll::Ready(Ok((stream, Some(caller))))
    }
}

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
