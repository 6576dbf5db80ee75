//! Probes and metrics.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::support::http::{ask, get};
use crate::support::place::Place;
use crate::support::server::Server;
use crate::support::{until, within};

#[test]
fn probes_answer_and_only_to_get_and_head() {
    let place = Place::with_ring("ES256");
    let server = place.serve("");
    for path in ["/livez", "/readyz", "/readyz?for=mint", "/metrics"] {
        assert_eq!(get(server.ops, path).status, 200, "{path}");
        assert_eq!(ask(server.ops, "HEAD", path, &[]).body.len(), 0, "{path}");
        let refused = ask(server.ops, "POST", path, &[]);
        assert_eq!((refused.status, refused.header("allow")), (405, Some("GET, HEAD")), "{path}");
        assert_eq!(refused.header("access-control-allow-origin"), None);
    }
    assert_eq!(get(server.ops, "/readyz?for=tea").status, 400);
    assert_eq!(get(server.ops, "/").json()["error"], "not_found");
    assert_eq!(
        get(server.ops, "/.well-known/jwks.json").status,
        404,
        "the documents have their own listener"
    );
}

#[test]
fn metrics_have_the_issuers_and_the_servers() {
    let place = Place::with_ring("ES256");
    let server = place.serve("");
    get(server.documents, "/.well-known/jwks.json");
    get(server.documents, "/nowhere");
    let answer = get(server.ops, "/metrics");
    assert!(answer.header("content-type").unwrap().starts_with("application/openmetrics-text"));
    let text = answer.text();
    for line in [
        "oneseal_document_requests_total{document=\"jwks\",status=\"200\"} 1",
        "oneseal_http_requests_total{listener=\"documents\",status=\"4xx\"} 1",
        "oneseal_http_connections{listener=\"ops\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    assert_eq!(text.matches("# EOF").count(), 1);
    assert!(text.ends_with("# EOF\n"));
}

#[test]
fn a_record_that_stays_refused_is_named_where_minting_stops_and_told_when_it_is_put_right() {
    let place = Place::with_ring("ES256");
    let server = short_sighted(&place);
    let good = fs::read(place.path("ring.json")).unwrap();
    let foreign = Place::with_ring("ES256").private_jwk().to_string().into_bytes();
    replace(&place, &foreign);
    within(Duration::from_secs(60), "staleness", || {
        Some(get(server.ops, "/readyz?for=mint")).filter(|answer| answer.status == 503)
    });
    let line = until("the cause to be named", || {
        let log = server.log();
        log.lines().find(|line| line.contains("minting stops")).map(str::to_owned)
    });
    assert!(
        line.contains("minting stops: the provider's record is refused (fleet.key_replaced): "),
        "{line}"
    );
    let refused = server.mint(r#"{"sub":"pod","aud":"rp"}"#);
    assert_eq!(refused.status, 503);
    let said = refused.text();
    assert!(said.contains("ended with, fleet.key_replaced, has been put right"), "{said}");
    assert!(!said.contains("provider answers"), "{said}");
    replace(&place, &good);
    until("the good record", || server.log().contains("has been put right").then_some(()));
    until("minting", || (get(server.ops, "/readyz?for=mint").status == 200).then_some(()));
}

/// Whole at any moment, as a careful operator would.
fn replace(place: &Place, ring: &[u8]) {
    let new = place.path("ring.new");
    fs::write(&new, ring).unwrap();
    fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(new, place.path("ring.json")).unwrap();
}

#[test]
fn an_outage_of_the_provider_stops_neither_probes_nor_documents() {
    let place = Place::with_ring("ES256");
    let mut server = short_sighted(&place);
    let before = get(server.documents, "/.well-known/jwks.json");
    fs::remove_file(place.path("ring.json")).unwrap();
    until("the outage to be noticed", || server.log().contains("provider.not_found").then_some(()));
    for path in ["/livez", "/readyz"] {
        assert_eq!(get(server.ops, path).status, 200, "{path}");
    }
    assert_eq!(get(server.documents, "/.well-known/jwks.json").body, before.body);
    // Past the staleness limit, 13 s here, minting stops and nothing else does.
    let stale = within(Duration::from_secs(60), "staleness", || {
        Some(get(server.ops, "/readyz?for=mint")).filter(|answer| answer.status == 503)
    });
    assert_eq!(stale.json()["minting"], "stale");
    assert_eq!(get(server.ops, "/readyz").status, 200, "or all replicas would leave at once");
    assert_eq!(get(server.documents, "/.well-known/jwks.json").body, before.body);
    let refused = server.mint(r#"{"sub":"pod","aud":"rp"}"#);
    assert_eq!((refused.status, refused.header("connection")), (503, Some("close")));
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(refused.json()["error"], "temporarily_unavailable");
    assert!(!refused.text().contains("ring.json"), "no internal text: {}", refused.text());
    server.signal(rustix::process::Signal::INT);
    assert_eq!(server.wait().code(), Some(0));
}

/// Bare keys, whose times configuration sets: the shortest that agree with each other.
fn short_sighted(place: &Place) -> Server {
    let key = place.private_jwk().to_string();
    place.write("ring.json", &key);
    place.serve(
        "[rotation]\nrefresh = \"1s\"\nstaleness_limit = \"13s\"\n[admin]\nmint = true\nmint_audiences = [\"rp\"]\n",
    )
}
