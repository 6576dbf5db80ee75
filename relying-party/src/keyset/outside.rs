//! Tokens and key sets from outside whose payloads are no claims: this is the layer that can judge them.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::*;

fn set(document: &Value) -> Result<KeySet, SourceError> {
    KeySet::read(document.to_string().as_bytes(), &Algorithm::ALL)
}

/// What becomes of a token: `verifies`, or the reason of the layer that refuses it.
fn verdict(set: &Result<KeySet, SourceError>, token: &str) -> &'static str {
    let set = match set {
        Ok(set) => set,
        Err(refusal) => return refusal.reason(),
    };
    let jws = match UnverifiedJws::parse(token) {
        Ok(jws) => jws,
        Err(refusal) => return refusal.reason(),
    };
    match set.choose(&jws, BootTime(Duration::ZERO)).map(|verifier| jws.verify(verifier)) {
        Ok(Ok(_)) => "verifies",
        Ok(Err(refusal)) => refusal.reason(),
        Err(refusal) => refusal.reason(),
    }
}

#[test]
fn wycheproofs_key_sets_verify_nothing_but_what_they_should() {
    let vectors: Value =
        serde_json::from_str(include_str!("../../tests/vectors/json_web_key.json")).expect("JSON");
    let groups = vectors["groups"].as_array().expect("groups");
    let tests = groups.iter().flat_map(|group| {
        let tests = group["tests"].as_array().expect("tests").iter();
        tests.map(|test| (test["tcId"].as_u64().expect("a number"), &group["public"], test))
    });
    let mut seen = 0;
    for (number, document, test) in tests {
        let wanted = match number {
            // HMAC beside ES256 in one set: the set is read without it, the token's algorithm is none of ours.
            1 => "algorithm_not_allowed",
            5 => "verifies",
            // Symmetric keys alone, RSA for encryption, ROCA, 1024 bits, e = 1, `ES521`, `ES224`, `use: enc`, a
            // point off its curve, P-384 of 32 octets, another `kty`: not one key is left.
            _ => "no_usable_key",
        };
        let token = test["token"].as_str().expect("a token");
        assert_eq!(verdict(&set(document), token), wanted, "{number}");
        // HMAC may be good by their rules and is never by ours.
        assert!(test["result"] == "valid" || wanted != "verifies", "{number}");
        seen += 1;
    }
    assert_eq!(seen, 26);
}

/// The keystore's table says which of them one of our verifiers takes; a set that holds the key takes these and no
/// other, whatever its choice of a key adds.
#[test]
fn wycheproofs_tokens_verify_against_a_set_of_their_key_as_against_the_key_itself() {
    let (mut seen, mut verified) = (0, BTreeSet::new());
    for (source, member) in
        [("json_web_signature", "jws"), ("json_web_crypto", "token"), ("json_web_encryption", "token")]
    {
        let vectors = keystore_tests(&format!("vectors/wycheproof/{source}.json"));
        let vectors: Value = serde_json::from_str(&vectors).expect("JSON");
        for group in vectors["groups"].as_array().expect("groups") {
            let set = set(&serde_json::json!({ "keys": [group["public"]] }));
            for test in group["tests"].as_array().expect("tests") {
                let verdict = verdict(&set, test[member].as_str().expect("a token"));
                if verdict == "verifies" {
                    verified.insert(format!("{source} {}", test["tcId"]));
                }
                seen += 1;
            }
        }
    }
    let table = keystore_tests("golden/jws-verdicts.tsv");
    let taken = table.lines().filter(|row| row.ends_with("\tverifies")).map(|row| {
        let mut columns = row.split('\t');
        format!("{} {}", columns.next().expect("a source"), columns.next().expect("a case"))
    });
    assert_eq!(verified, taken.collect());
    assert_eq!((seen, verified.len()), (401 + 83 + 139, 26));
}

fn keystore_tests(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../keystore/tests").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
