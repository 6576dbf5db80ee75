//! What the start makes of the answers of its issuer's own URL.

use oneseal::{Clock, Findings, Issuer, SystemClock, UnixTime};

use super::site::{DISCOVERY, JWKS, Site, answer, closed, issuer, key};
use crate::config::SelfCheck;
use crate::gate::ask;

const ON: SelfCheck = SelfCheck { enabled: true, extra_roots: Vec::new() };

async fn asked(ours: &Issuer, allow: bool) -> Findings {
    ask(ours.url(), &ON, &ours.snapshot(), allow, &SystemClock).await
}

fn told(findings: &Findings) -> Vec<(&'static str, String)> {
    findings.iter().map(|finding| (finding.code.name, finding.message.clone())).collect()
}

fn names(findings: &Findings) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.code.name).collect()
}

#[tokio::test]
async fn the_fleet_of_the_same_key_is_joined_without_a_word() {
    let (site, ours) = Site::of(&key()).await;
    assert_eq!(told(&asked(&ours, false).await), []);
    assert_eq!(site.seen(), [format!("GET {DISCOVERY}"), format!("GET {JWKS}")]);
}

#[tokio::test]
async fn a_served_set_with_further_keys_is_the_same_fleet() {
    let (site, ours) = Site::of(&key()).await;
    let other = issuer(&site.url(), &key()).await;
    let (a, b) = (ours.snapshot(), other.snapshot());
    let entries =
        |set: &[u8]| serde_json::from_slice::<serde_json::Value>(set).expect("JSON")["keys"][0].clone();
    let both = serde_json::json!({ "keys": [entries(b.jwks()), entries(a.jwks())] }).to_string();
    site.answer(JWKS, &answer("", &both));
    assert_eq!(told(&asked(&ours, false).await), []);
}

#[tokio::test]
async fn another_key_at_the_issuers_url_is_refused_by_both_names_unless_it_is_to_be_replaced() {
    let (site, ours) = Site::of(&key()).await;
    let theirs = issuer(&site.url(), &key()).await;
    site.serve_keys(&theirs);
    let found = asked(&ours, false).await;
    assert_eq!(names(&found), ["issuer.serves_other_keys"]);
    assert_eq!(found.exit().map(|exit| exit.code()), Some(78));
    for issuer in [&ours, &theirs] {
        let kid = issuer.snapshot().keys()[0].kid.to_string();
        assert!(found.to_string().contains(&kid), "{found}");
    }
    assert_eq!(told(&asked(&ours, true).await), []);
}

#[tokio::test]
async fn one_of_our_names_on_another_key_is_refused_even_where_replacing_is_allowed() {
    let (site, ours) = Site::of(&key()).await;
    let theirs = issuer(&site.url(), &key()).await;
    let kid = |issuer: &Issuer| issuer.snapshot().keys()[0].kid.to_string();
    let set = String::from_utf8(theirs.snapshot().jwks().to_vec()).expect("JSON");
    site.answer(JWKS, &answer("", &set.replace(&kid(&theirs), &kid(&ours))));
    for allow in [false, true] {
        let found = asked(&ours, allow).await;
        assert_eq!(names(&found), ["fleet.kid_reused"]);
        assert!(found.to_string().contains(&kid(&ours)), "{found}");
    }
}

#[tokio::test]
async fn whatever_is_no_issuers_answer_is_a_warning_that_says_what_it_was() {
    let (site, ours) = Site::of(&key()).await;
    let good = site.discovery(&site.url());
    let moved = "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let missing = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let elsewhere = good.replace(&format!("{}{JWKS}", site.url()), "http://192.0.2.1/jwks");
    for (path, whole, word) in [
        (DISCOVERY, missing.to_owned(), "status 404"),
        (DISCOVERY, moved.to_owned(), "redirect 302"),
        (DISCOVERY, answer("", "<html>Log in</html>"), "no JSON object"),
        (DISCOVERY, answer("", &site.discovery("https://other.example")), "another issuer"),
        (DISCOVERY, answer("", &elsewhere), "jwks_uri"),
        (DISCOVERY, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{".to_owned(), "HTTP exchange failed"),
        (DISCOVERY, String::new(), "HTTP exchange failed"),
        (JWKS, missing.to_owned(), "status 404"),
        (JWKS, answer("", r#"{"keys":[]}"#), "none of the 0 entries"),
        (JWKS, answer("", r#"{"keys":{}}"#), "keys"),
        (JWKS, answer("", &" ".repeat(300 * 1024)), "longer than"),
    ] {
        site.serve_keys(&ours);
        site.answer(path, &whole);
        let found = asked(&ours, false).await;
        assert_eq!(names(&found), ["issuer.unreachable"], "{word}: {found}");
        assert!(found.to_string().contains(word), "{word}: {found}");
        assert!(!found.has_errors());
    }
}

#[tokio::test]
async fn a_private_key_in_the_served_set_is_told_whether_or_not_another_can_be_used() {
    let (site, ours) = Site::of(&key()).await;
    let symmetric = r#"{"kty":"oct","k":"AAAA"}"#;
    let good = String::from_utf8(ours.snapshot().jwks().to_vec()).expect("JSON");
    let both = good.replacen("\"keys\":[", &format!("\"keys\":[{symmetric},"), 1);
    for set in [both, format!(r#"{{"keys":[{symmetric}]}}"#)] {
        site.answer(JWKS, &answer("", &set));
        let found = asked(&ours, false).await;
        assert_eq!(names(&found), ["issuer.publishes_private_key"], "{set}");
        assert!(!found.has_errors() && found.to_string().contains("At once"), "{found}");
    }
}

#[tokio::test]
async fn nobody_there_is_a_warning_at_once() {
    let ours = issuer(&closed().await, &key()).await;
    let found = asked(&ours, false).await;
    assert_eq!(names(&found), ["issuer.unreachable"]);
    assert!(found.to_string().contains("refused"), "{found}");
}

/// The clock of tokio leaps while everybody waits.
#[tokio::test(start_paused = true)]
async fn who_takes_the_connection_and_never_answers_is_given_up() {
    let site = Site::start().await;
    let ours = issuer(&site.url(), &key()).await;
    let found = asked(&ours, false).await;
    assert_eq!(names(&found), ["issuer.unreachable"]);
    assert!(found.to_string().contains("no complete answer within 2s"), "{found}");
}

#[tokio::test]
async fn who_is_told_not_to_ask_asks_nobody() {
    let (site, ours) = Site::of(&key()).await;
    let off = SelfCheck { enabled: false, extra_roots: Vec::new() };
    let found = ask(ours.url(), &off, &ours.snapshot(), false, &SystemClock).await;
    assert_eq!((told(&found), site.seen()), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn a_clock_beyond_the_skew_is_told_with_its_direction() {
    let (site, ours) = Site::of(&key()).await;
    let set = String::from_utf8(ours.snapshot().jwks().to_vec()).expect("JSON");
    let now = SystemClock.wall();
    for (off, age, expected) in [
        (0_i64, 0, None),
        (-50, 0, None),
        (50, 0, None),
        (-3600, 0, Some("1h ahead of")),
        (3600, 0, Some("1h behind")),
        (-3600, 3600, None),
    ] {
        let date = httpdate(UnixTime(now.as_secs() + off));
        let fields = format!("Content-Type: application/json\r\nDate: {date}\r\nAge: {age}\r\n");
        site.answer(JWKS, &answer(&fields, &set));
        let found = asked(&ours, false).await;
        match expected {
            None => assert_eq!(told(&found), [], "{off} {age}"),
            Some(_) => assert_eq!(names(&found), ["clock.skewed"], "{off} {age}"),
        }
        let word = expected.map_or("", |expected| &expected[2..]);
        assert!(found.to_string().contains(word), "{found}");
    }
}

fn httpdate(at: UnixTime) -> String {
    let secs = u64::try_from(at.as_secs()).expect("after 1970");
    httpdate::fmt_http_date(std::time::UNIX_EPOCH + std::time::Duration::from_secs(secs))
}
