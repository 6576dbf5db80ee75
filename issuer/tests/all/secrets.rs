//! P10: private material shows nowhere (bug reports Z2 and Z3).

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use oneseal::providers::{Entries, ErrorKind};
use oneseal::{Algorithm, Issuer, MintRequest, Snapshot};
use oneseal_testing::{Canary, MemoryProvider};
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::span;
use tracing::subscriber::DefaultGuard;

use crate::support::{AUDIENCE, HOUR, URL, audience, get, pod, ring, start_on, text_of, until};

#[tokio::test]
async fn private_material_shows_in_no_text_of_the_issuer() {
    let provider = ring(URL, &[Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa]).await;
    let canaries = canaries(&text_of(&provider, Entries::KEYRING).await);
    assert!(canaries.len() >= 8, "RSA has six private members, the others one each: {}", canaries.len());
    let log = Log::default();
    let _guard = log.listen();
    let algorithms = [Algorithm::Rs256, Algorithm::Es256, Algorithm::EdDsa];
    let builder = Issuer::builder(URL, provider.clone());
    let mut shown = format!("{builder:?}");
    let running = start_on(URL, provider, |builder| builder.algorithms(algorithms)).await;
    let issuer = &running.issuer;
    for algorithm in algorithms {
        let request = MintRequest::new(audience(AUDIENCE)).algorithm(algorithm);
        let minted = issuer.mint_with(&pod(), request).await.expect("minted");
        write!(shown, "{minted:?}{:?}", issuer.verify(&minted.token, &audience(AUDIENCE))).expect("a String");
        assert!(!format!("{minted:?}").contains(&minted.token), "a token is a secret too");
    }
    let snapshot: Arc<Snapshot> = issuer.snapshot();
    write!(shown, "{issuer:?}{snapshot:?}{:?}{:?}", issuer.health(), issuer.findings()).expect("a String");
    write!(shown, "{:?}{}", issuer.documents_layer(), issuer.encode_metrics()).expect("a String");
    shown += std::str::from_utf8(get(issuer, "/.well-known/jwks.json").body()).expect("UTF-8");
    running.provider.set_outage(Some(ErrorKind::Unavailable));
    until("the outage is noticed", || log.text().contains("the provider gave no record")).await;
    shown += &log.text();
    for canary in &canaries {
        canary.assert_absent("the issuer's texts", &shown);
    }
}

#[tokio::test]
async fn a_refused_key_is_not_quoted() {
    let provider = ring(URL, &[Algorithm::Rs256]).await;
    let document = text_of(&provider, Entries::KEYRING).await;
    let canaries = canaries(&document);
    let log = Log::default();
    let _guard = log.listen();
    let torn = &document[..document.len() - 40];
    for broken in
        [torn.to_owned(), document.replace("\"format\":1", "\"format\":9"), document.replace("RSA", "oct")]
    {
        let provider = MemoryProvider::with(Entries::single("current.json", broken));
        let findings = Issuer::builder(URL, provider).allow("aud", HOUR).build().await.expect_err("broken");
        for canary in &canaries {
            canary.assert_absent("the findings", &format!("{findings}{findings:?}{}", log.text()));
        }
    }
}

/// Every private member of a ring document.
fn canaries(document: &str) -> Vec<Canary> {
    use base64::Engine;
    let document: Value = serde_json::from_str(document).expect("a ring document");
    let mut halves: Vec<_> =
        document["keys"].as_array().expect("keys").iter().map(|key| &key["private"]).collect();
    halves.push(&document["ring_key"]["private"]);
    let names = ["d", "p", "q", "dp", "dq", "qi"];
    let members = halves.iter().flat_map(|half| names.iter().filter_map(|name| half[name].as_str()));
    let engine = base64::engine::general_purpose::URL_SAFE_NO_PAD;
    members.map(|member| Canary::of(&engine.decode(member).expect("base64url"))).collect()
}

/// Keeps everything that is logged on this thread, at every level.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<String>>);

impl Log {
    pub(crate) fn listen(&self) -> DefaultGuard {
        tracing::subscriber::set_default(self.clone())
    }

    pub(crate) fn text(&self) -> String {
        self.0.lock().expect("no panic").clone()
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        attributes.record(&mut Line(&self.0));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        values.record(&mut Line(&self.0));
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut Line(&self.0));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line<'a>(&'a Mutex<String>);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        writeln!(self.0.lock().expect("no panic"), "{field}={value:?}").expect("a String takes all");
    }
}
