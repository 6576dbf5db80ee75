//! A workload that somebody supposes: as JSON, by flags, or as a service account's token says, unverified.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal::{Facts, Voucher};
use oneseal_keystore::json;
use oneseal_keystore::verify::UnverifiedJws;
use serde_json::{Map, Value};

use crate::config::nearest;

/// Who it is and who is supposed to say so.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Workload {
    pub(super) voucher: Voucher,
    pub(super) facts: Facts,
}

impl Workload {
    /// Of an object with `cluster` or `assertion_issuer`, any of [`Facts::NAMES`], and `claims`.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub(super) fn from_json(members: &Map<String, Value>) -> Result<Self, String> {
        let mut named = Vec::new();
        let mut claims = Map::new();
        for (name, value) in members {
            match (name.as_str(), value) {
                (CLAIMS, Value::Object(members)) => claims.clone_from(members),
                (CLAIMS, _) => return Err("`claims` must be an object".to_owned()),
                (name, Value::String(text)) if Facts::NAMES.contains(&name) => {
                    named.push((name.to_owned(), text.clone()));
                }
                (name, _) if Facts::NAMES.contains(&name) => {
                    return Err(format!("`{name}` must be a string"));
                }
                _ => return Err(unknown(name)),
            }
        }
        let of = |word: &str| members.get(word).and_then(Value::as_str).map(str::to_owned);
        let voucher = match (of("cluster"), of("assertion_issuer")) {
            (Some(cluster), None) => Voucher::Cluster(cluster),
            (None, Some(issuer)) => Voucher::AssertionIssuer(issuer),
            (Some(_), Some(_)) => {
                return Err("`cluster` and `assertion_issuer` exclude each other".to_owned());
            }
            (None, None) => {
                return Err("it needs `cluster` or `assertion_issuer`: who vouches for it".to_owned());
            }
        };
        Ok(Self { voucher, facts: Facts::new(named).with_claims(claims) })
    }

    /// As a service account's token says, of which nothing is verified, in the cluster of this name.
    ///
    /// # Errors
    /// It is no such token, in words that quote nothing of it.
    pub(super) fn from_token(cluster: &str, claims: Map<String, Value>) -> Result<Self, String> {
        let subject = claims.get("sub").and_then(Value::as_str);
        let account = subject.and_then(|subject| subject.strip_prefix("system:serviceaccount:"));
        let (namespace, name) = account.and_then(|account| account.split_once(':')).ok_or(
            "it is no service account's token: its `sub` is not system:serviceaccount:NAMESPACE:NAME",
        )?;
        let mut named = vec![
            ("cluster", cluster.to_owned()),
            ("namespace", namespace.to_owned()),
            ("service_account", name.to_owned()),
        ];
        for (fact, pointer) in BOUND {
            let found = claims.get("kubernetes.io").and_then(|bound| bound.pointer(pointer));
            named.extend(found.and_then(Value::as_str).map(|text| (fact, text.to_owned())));
        }
        let facts = Facts::new(named).with_claims(claims);
        Ok(Self { voucher: Voucher::Cluster(cluster.to_owned()), facts })
    }

    /// As an assertion says, of which nothing is verified, of the issuer of this name.
    ///
    /// # Errors
    /// It has no `sub`.
    pub(super) fn from_assertion(issuer: &str, claims: Map<String, Value>) -> Result<Self, String> {
        let subject = claims.get("sub").and_then(Value::as_str).filter(|subject| !subject.is_empty());
        let subject = subject.ok_or("it is no assertion: it has no `sub`")?.to_owned();
        let facts = Facts::new([("assertion_issuer", issuer), ("subject", &subject)]).with_claims(claims);
        Ok(Self { voucher: Voucher::AssertionIssuer(issuer.to_owned()), facts })
    }
}

/// What a token claims, whoever signed it.
///
/// # Errors
/// It is none.
pub(super) fn claims_of(token: &str) -> Result<Map<String, Value>, String> {
    let none = || "it is no compact JWS with a JSON object in it".to_owned();
    UnverifiedJws::parse(token).map_err(|_| none())?;
    let payload = token.split('.').nth(1).unwrap_or_default();
    let payload = URL_SAFE_NO_PAD.decode(payload).map_err(|_| none())?;
    json::parse_object(&payload).map_err(|_| none())
}

fn unknown(name: &str) -> String {
    let known = Facts::NAMES.into_iter().chain([CLAIMS]);
    match nearest(name, known) {
        Some(near) => format!("there is no `{}` of a workload; did you mean `{near}`?", name.escape_debug()),
        None => format!("there is no `{}` of a workload", name.escape_debug()),
    }
}

const CLAIMS: &str = "claims";

/// Where a bound token says to what (KEP-1205, KEP-4193).
const BOUND: [(&str, &str); 5] = [
    ("service_account_uid", "/serviceaccount/uid"),
    ("pod", "/pod/name"),
    ("pod_uid", "/pod/uid"),
    ("node", "/node/name"),
    ("node_uid", "/node/uid"),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(members: &Value) -> Result<Workload, String> {
        Workload::from_json(members.as_object().expect("an object"))
    }

    #[test]
    fn a_workload_has_one_who_vouches_and_no_unknown_member() {
        let pod = read(&json!({"cluster": "prod", "namespace": "ci", "claims": {"run": 1}})).expect("good");
        assert_eq!(pod.voucher, Voucher::Cluster("prod".to_owned()));
        assert_eq!((pod.facts.named("namespace"), &pod.facts.claims()["run"]), (Some("ci"), &json!(1)));
        for (members, words) in [
            (json!({}), "needs `cluster` or `assertion_issuer`"),
            (json!({"cluster": "a", "assertion_issuer": "b"}), "exclude each other"),
            (json!({"cluster": "a", "namspace": "b"}), "did you mean `namespace`?"),
            (json!({"cluster": "a", "colour": "b"}), "no `colour` of a workload"),
            (json!({"cluster": "a", "pod": 1}), "`pod` must be a string"),
            (json!({"cluster": ["a"]}), "`cluster` must be a string"),
            (json!({"cluster": "a", "claims": "b"}), "`claims` must be an object"),
        ] {
            let said = read(&members).expect_err(words);
            assert!(said.contains(words), "{members}: {said}");
        }
    }

    #[test]
    fn a_service_accounts_token_is_read_without_being_believed() {
        let claims = json!({
            "sub": "system:serviceaccount:ci:builder",
            "kubernetes.io": {
                "namespace": "other", "pod": {"name": "job-1", "uid": "5c1e"}, "node": {"name": "n1", "uid": "7"},
                "serviceaccount": {"name": "builder", "uid": "9"}
            }
        });
        let claims = claims.as_object().expect("an object").clone();
        let facts = Workload::from_token("prod", claims).expect("good").facts;
        let told: Vec<_> = facts.names().map(|(name, text)| format!("{name}={text}")).collect();
        assert_eq!(
            told.join(" "),
            "cluster=prod namespace=ci node=n1 node_uid=7 pod=job-1 pod_uid=5c1e service_account=builder \
             service_account_uid=9"
        );
        for sub in [json!("alice"), json!("system:serviceaccount:ci"), json!(1), Value::Null] {
            let claims = Map::from_iter([("sub".to_owned(), sub)]);
            assert!(Workload::from_token("prod", claims).is_err());
        }
        let claims = json!({"iss": "https://ci.example", "sub": "job-1", "run": 7});
        let job =
            Workload::from_assertion("ci", claims.as_object().expect("an object").clone()).expect("good");
        assert_eq!(job.voucher, Voucher::AssertionIssuer("ci".to_owned()));
        assert_eq!((job.facts.named("subject"), &job.facts.claims()["run"]), (Some("job-1"), &json!(7)));
        for sub in [json!(""), json!(1), Value::Null] {
            assert!(Workload::from_assertion("ci", Map::from_iter([("sub".to_owned(), sub)])).is_err());
        }
        for token in ["", "a.b", "a.b.c", "eyJhbGciOiJub25lIn0.W10.x"] {
            assert!(claims_of(token).is_err(), "{token}");
        }
    }
}
