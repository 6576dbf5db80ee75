//! docs/http.md gives two configurations of nginx: nginx takes them as they stand there, and the one of the documents
//! does what the page says.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use oneseal_tests::http::{Answer, ask, get};
use oneseal_tests::nginx::Options;
use oneseal_tests::{Fleet, FleetOptions, require};

/// The block behind the mark `<!-- nginx: NAME -->`.
fn block(name: &str) -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/http.md");
    let text = fs::read_to_string(page).unwrap();
    let mark = format!("<!-- nginx: {name} -->\n```nginx\n");
    let (_, rest) = text.split_once(&mark).unwrap_or_else(|| panic!("docs/http.md has no block {name}"));
    rest.split_once("```").unwrap().0.to_owned()
}

/// `text` with `from`, which is in it, replaced.
fn with(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "the page does not say {from:?}:\n{text}");
    text.replace(from, to)
}

/// `nginx -t`, with a certificate and a cache of its own in place of the page's.
fn nginx_takes(name: &str) {
    let Some(nginx) = require::program("nginx") else {
        return require::skip("nginx", "not installed (Debian: apt-get install nginx-light)");
    };
    let place = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["oidc.example.com".to_owned()]).unwrap();
    fs::write(place.path().join("tls.crt"), made.cert.pem()).unwrap();
    fs::write(place.path().join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    // The test of a configuration forgives that a port is taken, and needs no right to a low one.
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut text =
        with(&block(name), "listen 443 ssl", &format!("listen {} ssl", taken.local_addr().unwrap()));
    text = with(&text, "/etc/nginx/tls/", "");
    text = text.replace("/var/cache/nginx/oneseal", "cache");
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|what| format!("{what}_temp_path {what};\n"))
        .concat();
    let config = format!("pid pid;\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}{text}}}\n");
    fs::write(place.path().join("nginx.conf"), config).unwrap();
    let mut command = Command::new(nginx);
    command.args(["-t", "-q", "-e", "stderr", "-c", "nginx.conf", "-p"]).arg(place.path());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "nginx refuses the block {name}:\n{said}");
}

#[test]
fn nginx_takes_both_configurations() {
    nginx_takes("documents");
    nginx_takes("admin");
}

/// Three replicas behind the page's own `location /`.
async fn behind_the_page(path: &'static str) -> Option<Fleet> {
    let text = block("documents");
    let (_, rest) = text.split_once("    location / {\n").unwrap();
    let (location, _) = rest.split_once("    }\n").unwrap();
    let nginx =
        Options { location: Some(location.to_owned()), show_cache_status: true, ..Options::default() };
    Fleet::start_with(FleetOptions { path, nginx: Some(nginx), ..FleetOptions::default() }).await
}

fn status_of(answer: &Answer) -> (u16, &str) {
    (answer.status.as_u16(), answer.header("x-cache-status"))
}

#[tokio::test]
async fn an_issuer_with_a_path_is_served_whole() {
    let Some(fleet) = behind_the_page("/team-a").await else { return };
    for path in [
        "/team-a/.well-known/openid-configuration",
        "/team-a/.well-known/jwks.json",
        "/.well-known/oauth-authorization-server/team-a",
    ] {
        let straight = fleet.replicas[0].get(path).await.unwrap();
        for wanted in ["MISS", "HIT"] {
            let answer = get(fleet.front(), path).await.unwrap();
            assert_eq!(status_of(&answer), (200, wanted), "{path}");
            assert_eq!(answer.body, straight.body, "{path}");
        }
    }
    let refused = get(fleet.front(), "/team-a/authorize").await.unwrap();
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json()["error"], "unsupported_response_type", "the replica's own answer");
}

/// A cache keeps the headers of the first answer: the id that its client chose must not be everybody's.
#[tokio::test]
async fn no_client_gets_the_request_id_of_another() {
    let Some(fleet) = behind_the_page("").await else { return };
    let mut seen = Vec::new();
    for (wanted, chosen) in [("MISS", "one"), ("HIT", "two"), ("HIT", "three")] {
        let answer = ask(fleet.front(), "GET", crate::JWKS, &[("x-request-id", chosen)]).await.unwrap();
        assert_eq!(status_of(&answer), (200, wanted));
        let ids: Vec<_> = answer.headers.get_all("x-request-id").iter().collect();
        assert_eq!(ids.len(), 1, "{ids:?}");
        seen.push(ids[0].to_str().unwrap().to_owned());
    }
    assert!(seen.iter().all(|id| id.len() == 32), "nginx makes them: {seen:?}");
    assert!(seen[0] != seen[1] && seen[1] != seen[2], "{seen:?}");
}
