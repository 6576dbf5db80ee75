//! The same answers through a layer and through axum.

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use axum::routing::get;
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use oneseal::{Algorithm, Issuer};
use tower::{Layer, Service, ServiceExt};

use crate::support::{ES256, ES256_OTHER, bare, es256, headers, metric, start};

const JWKS: &str = "/.well-known/jwks.json";

#[tokio::test]
async fn router_and_layer_answer_as_respond_does() {
    let running = es256().await;
    let merged: Router = running.issuer.router();
    let layered = running.issuer.documents_layer().layer(running.issuer.router());
    let methods = [Method::GET, Method::HEAD, Method::OPTIONS, Method::POST, Method::DELETE];
    for path in
        [JWKS, "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server", "/authorize"]
    {
        for method in &methods {
            for known in ["\"other\"", "*"] {
                let expected = running
                    .issuer
                    .respond(method, path, &headers(&[("if-none-match", known)]))
                    .expect("ours");
                let merged = ask(merged.clone(), method, path, known).await;
                let layered = ask(layered.clone(), method, path, known).await;
                for response in [merged, layered] {
                    let (parts, body) = response.into_parts();
                    let what = format!("{method} {path} {known}");
                    assert_eq!(parts.status, expected.status(), "{what}");
                    assert_eq!(parts.headers, *expected.headers(), "{what}");
                    assert_eq!(body.collect().await.expect("a body").to_bytes(), expected.body(), "{what}");
                }
            }
        }
    }
}

#[tokio::test]
async fn the_applications_own_routes_and_fallback_stay_its_own() {
    let running = es256().await;
    let app = Router::new()
        .route("/.well-known/security.txt", get(|| async { "theirs" }))
        .route("/healthz", get(|| async { "ok" }))
        .fallback(|| async { (StatusCode::IM_A_TEAPOT, "their fallback") })
        .merge(running.issuer.router());
    let app = running.issuer.documents_layer().layer(app);
    assert_eq!(body(send(app.clone(), &Method::GET, "/.well-known/security.txt").await).await, "theirs");
    assert_eq!(body(send(app.clone(), &Method::GET, "/healthz").await).await, "ok");
    for path in ["/", "/.well-known/jwks.json/", "/jwks.json", "//.well-known/jwks.json", "/token"] {
        let response = send(app.clone(), &Method::GET, path).await;
        assert_eq!(response.status(), StatusCode::IM_A_TEAPOT, "{path}");
    }
    assert_eq!(send(app, &Method::GET, JWKS).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_router_with_state_takes_the_issuer_in() {
    #[derive(Clone)]
    struct Theirs(&'static str);
    let running = es256().await;
    let app: Router<Theirs> = Router::new()
        .route("/state", get(|state: axum::extract::State<Theirs>| async move { state.0.0 }))
        .merge(running.issuer.router());
    let app = app.with_state(Theirs("kept"));
    assert_eq!(body(send(app.clone(), &Method::GET, "/state").await).await, "kept");
    assert_eq!(send(app, &Method::GET, JWKS).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn issuers_with_different_paths_share_one_application() {
    let es256 = |builder: oneseal::Builder| builder.algorithms([Algorithm::Es256]);
    let a = start("https://oidc.example/a", bare(&[("current.pem", ES256)]), es256).await;
    let b = start("https://oidc.example/b", bare(&[("current.pem", ES256_OTHER)]), es256).await;
    let app = Router::new().merge(a.issuer.router()).merge(b.issuer.router());
    let app = a.issuer.documents_layer().layer(b.issuer.documents_layer().layer(app));
    for (path, issuer) in [("/a/.well-known/jwks.json", &a.issuer), ("/b/.well-known/jwks.json", &b.issuer)] {
        let response = send(app.clone(), &Method::GET, path).await;
        let served = response.into_body().collect().await.expect("a body").to_bytes();
        assert_eq!(served, *issuer.snapshot().jwks());
    }
}

#[tokio::test]
async fn an_issuer_path_is_literal_even_where_a_router_has_a_syntax() {
    let keys = bare(&[("current.pem", ES256)]);
    let running =
        start("https://oidc.example/:a/*b", keys, |builder| builder.algorithms([Algorithm::Es256])).await;
    let app: Router = running.issuer.router();
    assert_eq!(
        send(app.clone(), &Method::GET, "/:a/*b/.well-known/jwks.json").await.status(),
        StatusCode::OK
    );
    assert_eq!(send(app, &Method::GET, "/x/y/.well-known/jwks.json").await.status(), StatusCode::NOT_FOUND);
}

/// The layer needs no axum: any service whose body can be made from bytes.
#[tokio::test]
async fn the_layer_wraps_any_service_and_counts_once() {
    let running = es256().await;
    let inner = tower::service_fn(|request: Request<()>| async move {
        Ok::<_, Infallible>(Response::new(bytes::Bytes::from(request.uri().to_string())))
    });
    let mut service = running.issuer.documents_layer().layer(inner);
    let mut ask = async |method: Method, path: &str| {
        let request = Request::builder().method(method).uri(path).body(()).expect("a request");
        service.ready().await.expect("infallible").call(request).await.expect("infallible")
    };
    let jwks = ask(Method::GET, "/.well-known/jwks.json?v=1").await;
    assert_eq!(jwks.body(), running.issuer.snapshot().jwks());
    assert_eq!(ask(Method::POST, JWKS).await.body(), JWKS, "what is not GET or HEAD passes");
    assert_eq!(ask(Method::GET, "/else").await.body(), "/else");
    let sample = "oneseal_document_requests_total{document=\"jwks\",status=\"200\"}";
    assert_eq!(metric(&running.issuer, sample), "1");
}

async fn send<S>(service: S, method: &Method, path: &str) -> Response<Body>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    ask(service, method, path, "\"none\"").await
}

/// With `If-None-Match: known`.
async fn ask<S>(service: S, method: &Method, path: &str, known: &str) -> Response<Body>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible>,
{
    let request = Request::builder().method(method).uri(path).header("if-none-match", known);
    service.oneshot(request.body(Body::empty()).expect("a request")).await.expect("infallible")
}

async fn body(response: Response<Body>) -> String {
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[tokio::test]
async fn handles_are_cheap_to_pass_around() {
    fn is_a_handle<T: Clone + Send + Sync + 'static>() {}
    is_a_handle::<Issuer>();
    is_a_handle::<oneseal::DocumentsLayer>();
}
