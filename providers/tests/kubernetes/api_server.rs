//! The API server asked for what is no Secret: its keys, and reviews of tokens.

use std::time::Duration;

use oneseal_providers::ErrorKind;
use oneseal_providers::kubernetes::{ApiServer, ApiServerError, ApiServerOptions};
use oneseal_testing::block_on;
use oneseal_testing::parts::{KubeApiserver, Meddling};
use serde_json::{Value, json};

use crate::place::{Tenant, in_time};

/// Longer than the server takes on a busy machine, and short enough to wait for.
const QUICK: Duration = Duration::from_millis(700);

const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

fn review() -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "canary"}})
}

async fn ask(server: &ApiServer) -> Result<Value, ApiServerError> {
    server.post(REVIEWS, &review()).await.map(|body| serde_json::from_slice(&body).unwrap())
}

#[test]
fn who_may_not_ask_is_told_the_rule_that_would_allow_it() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    let token = tenant.token();
    let kubeconfig = tenant.file("kubeconfig", &server.kubeconfig_for(&token));
    let api = ApiServer::new(ApiServerOptions::default().by_kubeconfig(kubeconfig));
    let admin = tenant.file("admin", &server.kubeconfig_admin());
    let admin = ApiServer::new(ApiServerOptions::default().by_kubeconfig(admin));
    block_on(async {
        let denied = ask(&api).await.unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
        let rule = "{apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}";
        assert!(denied.to_string().starts_with(&format!("{} may not create", tenant.user())), "{denied}");
        assert!(denied.to_string().contains(rule), "{denied}");
        let denied = api.get("/metrics").await.unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::Denied, "{denied}");
        assert!(denied.to_string().contains("{nonResourceURLs: [/metrics], verbs: [get]}"), "{denied}");
        let absent = admin.get("/apis/none.example/v1").await.unwrap_err();
        assert_eq!(absent.kind(), ErrorKind::Unavailable, "a plain 404 page is nobody's word: {absent}");
        assert_eq!(ask(&admin).await.unwrap()["status"]["authenticated"], Value::Null);
        let keys = admin.get("/openid/v1/jwks").await.unwrap();
        assert!(serde_json::from_slice::<Value>(&keys).unwrap()["keys"][0]["kid"].is_string());
    });
}

#[test]
fn whatever_answers_in_the_api_servers_place_is_told_without_a_word_of_its_own() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    let gateway = server.gateway();
    let kubeconfig = tenant.file("gateway", &gateway.kubeconfig("token"));
    let api = ApiServer::new(ApiServerOptions::default().by_kubeconfig(kubeconfig).timeout(QUICK));
    let answer = |status, media_type, body: &str| Meddling::Answer {
        status,
        headers: vec![("content-type", media_type), ("retry-after", "7")],
        body: body.to_owned(),
    };
    let status = |code: u16| {
        let body = json!({"kind": "Status", "message": "canary", "code": code}).to_string();
        answer(code, "application/json", &body)
    };
    block_on(async {
        for (meddling, kind, told) in [
            (status(401), ErrorKind::Unauthenticated, "does not know who asks (401)"),
            (status(403), ErrorKind::Denied, "the cluster forbids create"),
            (status(404), ErrorKind::NotFound, "has no /apis/authentication.k8s.io/v1/tokenreviews"),
            (status(429), ErrorKind::Unavailable, "asked too much (429, to be asked again after 7 s)"),
            (status(503), ErrorKind::Unavailable, "answers 503, to be asked again after 7 s"),
            (answer(403, "text/html", "<canary>"), ErrorKind::Unavailable, "is not the API server"),
            (answer(302, "text/html", ""), ErrorKind::Unavailable, "is not the API server"),
            (answer(201, "text/html", &"x".repeat(2 << 20)), ErrorKind::Unavailable, "did not finish"),
            (Meddling::CutBefore, ErrorKind::Unavailable, "did not finish its answer"),
            (Meddling::Hang, ErrorKind::Unavailable, "did not answer within 0.7 s"),
        ] {
            // A 401 is asked once more.
            gateway.meddle("create", meddling.clone(), 2);
            let failed = in_time("an answer", ask(&api)).await.unwrap_err();
            assert_eq!(failed.kind(), kind, "{meddling:?}: {failed}");
            assert!(failed.to_string().contains(told), "{told}: {failed}");
            assert!(!format!("{failed} {failed:?}").contains("canary"), "{failed:?}");
            assert_eq!(failed.is_throttled(), told.contains("429"), "{failed:?}");
            let waits = matches!(&meddling, Meddling::Answer { status, .. } if *status != 201);
            assert_eq!(failed.retry_after().map(|wait| wait.as_secs()), waits.then_some(7), "{meddling:?}");
            gateway.pass();
        }
    });
}
