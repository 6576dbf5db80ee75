//! The GET client against a plain server on loopback, and a relying party of a loopback issuer.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::time::Duration;

use oneseal_relying_party::RelyingParty;
use oneseal_relying_party::fetch::{ConnectTo, FetchError, FetchOptions, Fetcher, SetupError};
use support::proxy::{ConnectProxy, RawServer};
use support::{
    AUDIENCE, Answer, DISCOVERY, FakeIssuer, ISSUER, JWKS, Seen, clock, discovery, issuer_url, jwks_of,
    token, vectors,
};

fn fetcher(change: impl FnOnce(&mut FetchOptions)) -> Fetcher {
    let mut options = FetchOptions::default();
    options.https = false;
    change(&mut options);
    Fetcher::new(&options).unwrap()
}

#[tokio::test]
async fn an_answer_comes_whole_with_its_status_and_fields() {
    let server = FakeIssuer::http().await;
    server.answer("/a", Answer::status(503).with_field("retry-after", "7"));
    let fetched = fetcher(|_| {}).get(&server.url("/a?x=1")).await.unwrap();
    assert_eq!((fetched.status.as_u16(), &fetched.body[..]), (503, &b"error"[..]));
    assert_eq!(fetched.headers["retry-after"], "7");
    assert_eq!(server.seen(), [Seen { path: "/a".to_owned(), host: server.address().to_string() }]);
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let (server, target) = (FakeIssuer::http().await, FakeIssuer::http().await);
    for status in [301, 302, 303, 307, 308] {
        server.answer("/", Answer::status(status).with_field("location", &target.url("/")));
        let outcome = fetcher(|_| {}).get(&server.url("/")).await;
        assert!(matches!(outcome, Err(FetchError::Redirect(found)) if found == status), "{outcome:?}");
    }
    assert_eq!(target.seen(), []);
}

#[tokio::test]
async fn the_cap_holds_whether_the_length_is_announced_or_not() {
    let server = FakeIssuer::http().await;
    let capped = fetcher(|options| options.max_body = 10);
    for (body, fits) in [("0123456789", true), ("0123456789a", false)] {
        server.answer("/", Answer::ok(body));
        assert_eq!(capped.get(&server.url("/")).await.is_ok(), fits);
    }
    server.answer("/", Answer::Endless);
    assert!(matches!(capped.get(&server.url("/")).await, Err(FetchError::TooLarge(10))));
}

#[tokio::test]
async fn the_deadline_covers_the_head_and_the_body() {
    let server = FakeIssuer::http().await;
    let hasty = fetcher(|options| options.deadline = Duration::from_millis(200));
    for answer in [Answer::Slow, Answer::Held(Vec::new())] {
        server.answer("/", answer);
        assert!(matches!(hasty.get(&server.url("/")).await, Err(FetchError::Deadline(_))));
    }
}

#[tokio::test]
async fn connect_to_changes_where_and_nothing_else() {
    let server = FakeIssuer::http().await;
    server.answer("/a", Answer::ok("here"));
    let fetcher = fetcher(|options| options.connect_to = Some(ConnectTo::AsUrl(server.address())));
    let fetched = fetcher.get("http://localhost:1/a").await.unwrap();
    assert_eq!(fetched.body, "here");
    assert_eq!(server.seen(), [Seen { path: "/a".to_owned(), host: "localhost:1".to_owned() }]);
}

#[tokio::test]
async fn a_replica_of_an_https_issuer_is_reached_in_plain_http_if_that_is_said() {
    let replica = FakeIssuer::http().await;
    replica.answer(DISCOVERY, Answer::ok(discovery(ISSUER, "https://issuer.example/tenant/jwks")));
    replica.answer(JWKS, Answer::ok(vectors()["jwks"].to_string()));
    let builder = RelyingParty::builder(issuer_url(ISSUER)).audience(AUDIENCE).clock(clock());
    // No root certificate is asked for.
    let relying_party = builder.connect_to_plaintext(replica.address()).build().unwrap();
    relying_party.verify(&token("ok-es256")).await.unwrap();
    let host = "issuer.example".to_owned();
    let seen = [DISCOVERY, JWKS].map(|path| Seen { path: path.to_owned(), host: host.clone() });
    assert_eq!(replica.seen(), seen);
}

#[tokio::test]
async fn plain_http_is_never_spoken_to_an_https_issuer_by_itself() {
    let (replica, tls) = (FakeIssuer::http().await, FakeIssuer::good().await);
    let builder = tls.relying_party(&clock()).connect_to(replica.address());
    assert_eq!(builder.build().unwrap().refresh().await.unwrap_err().reason(), "not_tls");
    assert_eq!(replica.seen(), []);
    let plain = fetcher(|options| options.connect_to = Some(ConnectTo::Plaintext(replica.address())));
    assert!(matches!(plain.get("http://issuer.example/").await, Err(FetchError::PlainHttp)));
}

#[tokio::test]
async fn a_loopback_issuer_may_be_plain_http() {
    let server = FakeIssuer::http().await;
    let issuer = server.url("");
    server.answer("/.well-known/openid-configuration", Answer::ok(discovery(&issuer, &server.url("/jwks"))));
    server.answer("/jwks", Answer::ok(jwks_of(&["ec1"])));
    let relying_party = RelyingParty::builder(issuer_url(&issuer)).audience("a").build().unwrap();
    relying_party.refresh().await.unwrap();
    assert_eq!(relying_party.held_kids().len(), 1);
    assert_eq!(relying_party.verify(&token("ok-es256")).await.unwrap_err().reason(), "issuer");
}

#[tokio::test]
async fn a_proxy_opens_the_way_and_sees_no_path() {
    let issuer = FakeIssuer::good().await;
    let proxy = ConnectProxy::start(issuer.address(), 200).await;
    let builder = RelyingParty::builder(issuer_url(ISSUER)).audience(AUDIENCE).clock(clock());
    let builder = builder.add_root_certificate(issuer.certificate()).proxy(proxy.url());
    builder.build().unwrap().verify(&token("ok-es256")).await.unwrap();
    let asked = proxy.asked();
    assert_eq!(asked.len(), 2);
    for head in asked {
        let mut lines = head.lines();
        assert_eq!(lines.next(), Some("CONNECT issuer.example:443 HTTP/1.1"));
        assert!(!head.contains("tenant") && !head.contains("oneseal"), "{head}");
    }
    let host = "issuer.example".to_owned();
    assert_eq!(
        issuer.seen(),
        [DISCOVERY, JWKS].map(|path| Seen { path: path.to_owned(), host: host.clone() })
    );
}

#[tokio::test]
async fn a_proxy_that_opens_nothing_is_named_and_whom_it_leads_to_is_still_asked_for_his_certificate() {
    let (issuer, other) = (FakeIssuer::good().await, FakeIssuer::good().await);
    let through = |proxy: String| {
        let builder = RelyingParty::builder(issuer_url(ISSUER)).audience(AUDIENCE).clock(clock());
        builder.add_root_certificate(issuer.certificate()).proxy(proxy).build().unwrap()
    };
    for status in [403, 407, 502] {
        let proxy = ConnectProxy::start(issuer.address(), status).await;
        assert_eq!(through(proxy.url()).refresh().await.unwrap_err().reason(), "proxy", "{status}");
    }
    let gone = ConnectProxy::start(issuer.address(), 200).await.url();
    assert_eq!(through(gone).refresh().await.unwrap_err().reason(), "proxy");
    assert_eq!(issuer.seen(), []);

    let astray = ConnectProxy::start(other.address(), 200).await;
    assert_eq!(through(astray.url()).refresh().await.unwrap_err().reason(), "certificate");
    assert_eq!(other.seen(), []);
}

#[tokio::test]
async fn loopback_in_plain_http_is_reached_past_the_proxy() {
    let server = FakeIssuer::http().await;
    server.answer("/", Answer::ok("here"));
    let proxy = ConnectProxy::start(server.address(), 200).await;
    let fetcher = fetcher(|options| options.proxy = Some(proxy.url()));
    assert_eq!(fetcher.get(&server.url("/")).await.unwrap().body, "here");
    assert_eq!(proxy.asked(), [] as [String; 0]);
}

/// As kubelet does it: a new directory, and a link that is renamed over the old one.
fn swap(mount: &Path, generation: u32, pem: Option<&str>) {
    let version = format!("..{generation}");
    std::fs::create_dir(mount.join(&version)).unwrap();
    if let Some(pem) = pem {
        std::fs::write(mount.join(&version).join("ca.crt"), pem).unwrap();
    }
    std::os::unix::fs::symlink(&version, mount.join("..data_tmp")).unwrap();
    std::fs::rename(mount.join("..data_tmp"), mount.join("..data")).unwrap();
}

#[tokio::test]
async fn a_file_of_roots_is_followed_and_what_is_none_changes_nothing() {
    let (issuer, other) = (FakeIssuer::good().await, FakeIssuer::good().await);
    let mount = tempfile::tempdir().unwrap();
    swap(mount.path(), 0, Some(other.certificate()));
    let builder = RelyingParty::builder(issuer_url(ISSUER)).audience(AUDIENCE).clock(clock());
    let builder = builder.connect_to(issuer.address()).only_these_roots();
    let relying_party = builder.root_certificate_file(mount.path().join("..data/ca.crt")).build().unwrap();
    let reason = async || relying_party.refresh().await.map_err(|error| error.reason());
    assert_eq!(reason().await, Err("certificate"));

    let both = format!("{}{}", other.certificate(), issuer.certificate());
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let huge = both.repeat(2_000);
    let trusted = [Some(both.as_str()), Some(""), Some("no pem"), Some(broken), Some(&huge), None];
    for (generation, pem) in trusted.into_iter().enumerate() {
        swap(mount.path(), 1 + generation as u32, pem);
        assert_eq!(reason().await, Ok(()), "{generation}");
    }
    // Nor does a session of before outlive the trust that it began with.
    swap(mount.path(), 9, Some(other.certificate()));
    assert_eq!(reason().await, Err("certificate"));
    swap(mount.path(), 10, Some(issuer.certificate()));
    assert_eq!(reason().await, Ok(()));
}

#[test]
fn roots_that_cannot_be_read_at_the_start_are_refused_with_their_place() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("empty"), "").unwrap();
    std::fs::write(place.path().join("huge"), vec![b' '; 1024 * 1024 + 1]).unwrap();
    for name in ["absent", "empty", "huge", "."] {
        let mut options = FetchOptions::default();
        options.root_file = Some(place.path().join(name));
        let refused = Fetcher::new(&options).unwrap_err();
        assert!(matches!(refused, SetupError::RootFile { .. }), "{name}: {refused:?}");
        assert!(refused.to_string().contains(&place.path().join(name).display().to_string()), "{refused}");
    }
}

/// What no HTTP library lets a server say.
const RAW: [(&str, &str); 9] = [
    ("http", "HTTP/1.1 200 OK\r\ncontent-length: 400\r\n\r\n{\"keys\":[]}"),
    ("not_json", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n{\"keys\":[]}"),
    ("http", "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n{}"),
    ("http", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 400\r\n\r\n{}"),
    ("too_large", "HTTP/1.1 200 OK\r\ncontent-length: 18446744073709551610\r\n\r\n{}"),
    ("http", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffffffff1\r\n{}"),
    ("http", "SSH-2.0-OpenSSH_9.2\r\n"),
    ("http", ""),
    ("deadline", "HTTP/1.1 200 OK\r\n"),
];

#[tokio::test]
async fn an_answer_that_is_no_good_http_is_refused_in_time() {
    for (wanted, answer) in RAW {
        let server = RawServer::start(answer, wanted == "deadline").await;
        let builder = RelyingParty::builder(issuer_url(&server.url)).audience("a").clock(clock());
        let builder = builder.jwks_uri(&server.url).fetch_deadline(Duration::from_millis(300));
        let error = builder.build().unwrap().refresh().await.unwrap_err();
        assert_eq!(error.reason(), wanted, "{answer:?}");
    }
}

#[tokio::test]
async fn header_fields_without_end_are_cut_off() {
    let endless = format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(100_000));
    let server = RawServer::start(&endless, true).await;
    let outcome = fetcher(|_| {}).get(&server.url).await;
    assert!(matches!(outcome, Err(FetchError::Http(_))), "{outcome:?}");
}
