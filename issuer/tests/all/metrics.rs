//! `docs/metrics.md` against the registry, and the numbers themselves.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use http::{HeaderMap, Method};
use oneseal::{Algorithm, METRICS_CONTENT_TYPE, Minting};

use crate::support::{
    AUDIENCE, ES256, ES256_OTHER, NOW, audience, bare, compare_with_file, es256, get, headers, metric, pod,
    until,
};

const JWKS: &str = "/.well-known/jwks.json";
const BEGIN: &str = "<!-- library: written by a test, see issuer/tests/all/metrics.rs -->\n";
const END: &str = "<!-- end of library -->\n";

#[tokio::test]
async fn every_metric_is_documented() {
    let running = es256().await;
    let path = format!("{}/../docs/metrics.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(&path).expect("docs/metrics.md");
    let (before, rest) = page.split_once(BEGIN).expect("the begin mark");
    let (_, after) = rest.split_once(END).expect("the end mark");
    let table = table(&running.issuer.encode_metrics());
    compare_with_file(&path, &format!("{before}{BEGIN}{table}{END}{after}"));
}

#[tokio::test]
async fn the_text_is_open_metrics_and_can_be_added_to() {
    let running = es256().await;
    let whole = running.issuer.encode_metrics();
    assert!(whole.ends_with("# EOF\n"));
    assert_eq!(METRICS_CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let mut theirs = "# TYPE theirs gauge\ntheirs 1\n".to_owned();
    running.issuer.write_metrics(&mut theirs);
    assert!(theirs.starts_with("# TYPE theirs gauge\n") && !theirs.contains("# EOF"));
}

#[tokio::test]
async fn state_and_counts_are_told() {
    let running = es256().await;
    let issuer = &running.issuer;
    assert_eq!(issuer.health().minting, Minting::On);
    for (sample, value) in [
        ("oneseal_minting", "1"),
        ("oneseal_ring_revision", "0"),
        ("oneseal_staleness_limit_seconds", "3600.0"),
        ("oneseal_mints_total{alg=\"ES256\",result=\"ok\"}", "0"),
    ] {
        assert_eq!(metric(issuer, sample), value, "{sample}");
    }
    let minted = issuer.mint(&pod(), &audience(AUDIENCE)).await.expect("minted");
    issuer.verify(&minted.token, &audience(AUDIENCE)).expect("ours");
    issuer.verify("x", &audience(AUDIENCE)).expect_err("no token");
    let kid = &minted.kid;
    for (sample, value) in [
        ("oneseal_mints_total{alg=\"ES256\",result=\"ok\"}", "1"),
        ("oneseal_mint_duration_seconds_count{alg=\"ES256\"}", "1"),
        ("oneseal_verifications_total{result=\"ok\"}", "1"),
        ("oneseal_verifications_total{result=\"refused\"}", "1"),
        (&format!("oneseal_key_state{{kid=\"{kid}\",alg=\"ES256\",state=\"active\"}}"), "1"),
        (&format!("oneseal_key_first_served_timestamp_seconds{{kid=\"{kid}\"}}"), &NOW.as_secs().to_string()),
        (
            &format!("oneseal_key_last_exp_timestamp_seconds{{kid=\"{kid}\"}}"),
            &minted.exp.as_secs().to_string(),
        ),
    ] {
        assert_eq!(metric(issuer, sample), value, "{sample}");
    }
    let digest = oneseal::Digest::of(issuer.snapshot().jwks());
    assert_eq!(metric(issuer, &format!("oneseal_jwks_info{{digest=\"{digest}\"}}")), "1");
}

#[tokio::test]
async fn document_requests_are_counted_by_status() {
    let running = es256().await;
    let issuer = &running.issuer;
    let etag = get(issuer, JWKS).headers()["etag"].to_str().expect("text").to_owned();
    issuer.respond(&Method::GET, JWKS, &headers(&[("if-none-match", &etag)])).expect("ours");
    for (method, path) in [(Method::DELETE, JWKS), (Method::OPTIONS, JWKS), (Method::GET, "/authorize")] {
        issuer.respond(&method, path, &HeaderMap::new()).expect("ours");
    }
    assert!(issuer.respond(&Method::GET, "/else", &HeaderMap::new()).is_none());
    for (document, status) in [("jwks", 200), ("jwks", 304), ("jwks", 405), ("jwks", 204), ("authorize", 400)]
    {
        let sample =
            format!("oneseal_document_requests_total{{document=\"{document}\",status=\"{status}\"}}");
        assert_eq!(metric(issuer, &sample), "1", "{sample}");
    }
}

/// Who has picked the new key up: counted from the moment the set changed, by a closed list of agents.
#[tokio::test]
async fn fetches_begin_again_when_the_set_changes() {
    let keys = bare(&[("current.pem", ES256)]);
    let running =
        crate::support::start("https://oidc.example", keys, |builder| builder.algorithms([Algorithm::Es256]))
            .await;
    let issuer = &running.issuer;
    for agent in ["Go-http-client/1.1", "go-http-client/2.0", "jose/v6", "x{y=\"z\"}\\", "Mozilla/5.0"] {
        issuer.respond(&Method::GET, JWKS, &headers(&[("user-agent", agent)])).expect("ours");
    }
    let fetches =
        |agent: &str| metric(issuer, &format!("oneseal_jwks_fetches_since_publish{{agent=\"{agent}\"}}"));
    assert_eq!(
        (fetches("go"), fetches("node"), fetches("browser"), fetches("other")),
        four("2", "1", "1", "1")
    );
    let before = issuer.snapshot();
    let last_exp = issuer.mint(&pod(), &audience(AUDIENCE)).await.expect("minted");
    running.provider.set(bare(&[("current.pem", ES256), ("next.pem", ES256_OTHER)]));
    until("the swap", || !std::sync::Arc::ptr_eq(&before, &issuer.snapshot())).await;
    assert_eq!(
        (fetches("go"), fetches("node"), fetches("browser"), fetches("other")),
        four("0", "0", "0", "0")
    );
    let sample = format!("oneseal_key_last_exp_timestamp_seconds{{kid=\"{}\"}}", last_exp.kid);
    assert_eq!(
        metric(issuer, &sample),
        last_exp.exp.as_secs().to_string(),
        "what a key has signed is not forgotten"
    );
}

fn four(a: &str, b: &str, c: &str, d: &str) -> (String, String, String, String) {
    (a.to_owned(), b.to_owned(), c.to_owned(), d.to_owned())
}

#[derive(Default)]
struct Family {
    help: String,
    kind: String,
    unit: String,
    labels: String,
}

/// The registry's text as a Markdown table, by name.
pub(crate) fn table(text: &str) -> String {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut last = String::new();
    for line in text.lines().filter(|line| *line != "# EOF") {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(part), Some(name), Some(value)) => {
                name.clone_into(&mut last);
                let family = families.entry(last.clone()).or_default();
                let field = match part {
                    "HELP" => &mut family.help,
                    "TYPE" => &mut family.kind,
                    "UNIT" => &mut family.unit,
                    other => panic!("an unexpected line: {other}"),
                };
                value.clone_into(field);
            }
            _ => {
                assert!(line.starts_with(&last), "a sample of another family: {line}");
                families.entry(last.clone()).or_default().labels = labels(line);
            }
        }
    }
    let mut table = "| name | type | unit | labels | what it tells |\n|---|---|---|---|---|\n".to_owned();
    for (name, Family { help, kind, unit, labels }) in families {
        let suffix = match kind.as_str() {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let help = help.trim_end_matches('.');
        writeln!(table, "| `{name}{suffix}` | {kind} | {unit} | {labels} | {help} |")
            .expect("a String takes all");
    }
    table
}

/// The names of a sample's labels, `le` left out.
fn labels(sample: &str) -> String {
    let Some((_, rest)) = sample.split_once('{') else { return String::new() };
    let inside = rest.rsplit_once('}').map_or("", |(inside, _)| inside);
    let names = inside.split(',').filter_map(|pair| pair.split_once('=')).map(|(name, _)| name);
    names.filter(|name| *name != "le").collect::<Vec<_>>().join(", ")
}
