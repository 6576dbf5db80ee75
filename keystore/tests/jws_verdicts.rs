//! What became of each outside token, by the type of its refusal: Wycheproof's signatures, encryptions and key uses,
//! and every output of the JOSE cookbook. The table is `golden/jws-verdicts.tsv`; `TEST_BLESS=1` writes it anew.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod vectors;

use std::fmt::Write;

use oneseal_keystore::KeyId;
use oneseal_keystore::jwk::PublicJwk;
use oneseal_keystore::verify::{UnverifiedJws, Verifier};
use vectors::{list, read, text};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/jws-verdicts.tsv");

/// The outcome of a token that verifies.
const VERIFIES: &str = "verifies";

#[test]
fn each_outside_token_is_refused_for_its_own_reason() {
    let mut table = String::from("source\tcase\tits verdict\tours\n");
    for row in wycheproof().into_iter().chain(cookbook()) {
        // What they call bad is never good here, whatever else the table says.
        assert!(row.theirs == "valid" || row.ours != VERIFIES, "{} {}", row.source, row.case);
        writeln!(table, "{}\t{}\t{}\t{}", row.source, row.case, row.theirs, row.ours).unwrap();
    }
    if std::env::var_os("TEST_BLESS").is_some() {
        std::fs::write(GOLDEN, &table).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string(GOLDEN).unwrap(),
        table,
        "TEST_BLESS=1 writes it anew: read the difference"
    );
}

struct Row {
    source: String,
    case: String,
    theirs: String,
    ours: &'static str,
}

fn wycheproof() -> Vec<Row> {
    let mut rows = Vec::new();
    for (source, token) in
        [("json_web_signature", "/jws"), ("json_web_crypto", "/token"), ("json_web_encryption", "/token")]
    {
        for group in list(&vectors::json(&format!("wycheproof/{source}.json")), "/groups") {
            let verifier = PublicJwk::from_json(&group["public"]).ok().and_then(|entry| pinned(&entry));
            for test in list(group, "/tests") {
                rows.push(Row {
                    source: source.to_owned(),
                    case: test["tcId"].to_string(),
                    theirs: text(test, "/result").to_owned(),
                    ours: outcome(text(test, token), verifier.as_ref()),
                });
            }
        }
    }
    assert_eq!(rows.len(), 401 + 83 + 139);
    rows
}

/// Lines `example⇥form⇥token`. Their keys are the RFC's own; only the form is judged here.
fn cookbook() -> Vec<Row> {
    let table = String::from_utf8(read("jose-cookbook/tokens.tsv")).unwrap();
    let rows: Vec<_> = table
        .lines()
        .map(|line| {
            let [example, form, token] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
            let (source, theirs) = ("cookbook ".to_owned() + form, "valid".to_owned());
            Row { source, case: example.to_owned(), theirs, ours: outcome(token, None) }
        })
        .collect();
    assert_eq!(rows.len(), 69);
    rows
}

/// As a holder of this entry would verify: its `alg` pinned, or the kind's default.
fn pinned(entry: &PublicJwk) -> Option<Verifier> {
    let algorithm = entry.algorithm.unwrap_or_else(|| entry.key.key_type().default_algorithm());
    let kid = match entry.kid.as_deref() {
        Some(kid) => KeyId::parse(kid).unwrap(),
        None => entry.key.thumbprint(),
    };
    entry.may_verify().then(|| Verifier::new(&entry.key, algorithm, kid).ok()).flatten()
}

/// `verifies`, a reason of the verifier, or `no_key` for a good form without a key that is taken here.
fn outcome(token: &str, verifier: Option<&Verifier>) -> &'static str {
    let jws = match UnverifiedJws::parse(token) {
        Ok(jws) => jws,
        Err(refusal) => return refusal.reason(),
    };
    match verifier.map(|verifier| jws.verify(verifier)) {
        Some(Ok(_)) => VERIFIES,
        Some(Err(refusal)) => refusal.reason(),
        None => "no_key",
    }
}
