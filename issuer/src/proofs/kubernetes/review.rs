//! TokenReview (`authentication.k8s.io/v1`): what is asked, and what an answer is worth.
//!
//! An answer is believed if it says of the account, the pod and the audience exactly what the token itself says, which the
//! cluster's key has signed. One that says something else does not come from the server that signed the token, or not
//! unchanged: that says nothing about the token. A no is believed if it is one about the token, in the words of
//! kube-apiserver for that; in any other it may be the server's own means that failed.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use super::account::{Account, Object};

/// Where a review is made.
pub(super) const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

/// Asks whether `token` is good for `audience`.
pub(super) fn question(token: &str, audience: &str) -> Value {
    json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [audience]},
    })
}

/// What an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The account is there, and so is all that the token is bound to.
    Authenticated,
    /// Something of it is gone, or the token was revoked.
    Refused,
    /// It is no judgement of the token: the server could not look. What it said instead, bounded, for our log alone.
    Undecided(String),
    /// It is no answer to what was asked; why, in words that quote nothing.
    Strange(&'static str),
}

#[derive(Deserialize)]
struct TokenReview {
    kind: String,
    status: Option<Status>,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    authenticated: bool,
    #[serde(default)]
    error: String,
    #[serde(default)]
    audiences: Vec<String>,
    #[serde(default)]
    user: User,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct User {
    username: String,
    uid: String,
    extra: BTreeMap<String, Vec<String>>,
}

/// Judges the body of an answer to [`question`] about the token of `account`.
pub(super) fn judge(answer: &[u8], audience: &str, account: &Account) -> Verdict {
    let review =
        serde_json::from_slice::<TokenReview>(answer).ok().filter(|review| review.kind == "TokenReview");
    let Some(status) = review.and_then(|review| review.status) else {
        return Verdict::Strange("it is no TokenReview with a status");
    };
    match (status.authenticated, status.error.is_empty()) {
        (false, _) if is_judgement(&status.error) => Verdict::Refused,
        (false, _) => Verdict::Undecided(excerpt(&status.error)),
        (true, false) => Verdict::Strange("it says both that the token is good and that there was an error"),
        (true, true) => {
            status.contradiction(audience, account).map_or(Verdict::Authenticated, Verdict::Strange)
        }
    }
}

/// Whether it is an answer, and a no.
pub(super) fn is_no(answer: &[u8]) -> bool {
    let review = serde_json::from_slice::<TokenReview>(answer).ok();
    review
        .filter(|review| review.kind == "TokenReview")
        .and_then(|review| review.status)
        .is_some_and(|status| !status.authenticated)
}

impl Status {
    /// What it says otherwise than the token.
    fn contradiction(&self, audience: &str, account: &Account) -> Option<&'static str> {
        let User { username, uid, .. } = &self.user;
        // None at all: whoever answered did not look at audiences, and vouches for the API server's own alone.
        if !self.audiences.iter().any(|told| told == audience) {
            return Some("it does not say that the token is for this audience");
        }
        if *username != account.username() {
            return Some("it names another user than the token");
        }
        if *uid != account.uid {
            return Some("it names another service account of that name than the token");
        }
        if self.object("pod") != Ok(account.pod.as_ref().map(Object::as_pair)) {
            return Some("it names another pod than the token, or none");
        }
        // Servers before 1.30 say neither of the following.
        let node = self.object("node");
        if node != Ok(None) && node != Ok(account.node.as_ref().map(Object::as_pair)) {
            return Some("it names another node than the token");
        }
        let credential = self.one("credential-id").ok()?.and_then(|id| id.strip_prefix("JTI="));
        if credential.is_some_and(|id| Some(id) != account.token_id.as_deref()) {
            return Some("it names another token");
        }
        None
    }

    /// Name and uid of the object of this kind.
    fn object(&self, kind: &str) -> Result<Option<(&str, &str)>, Several> {
        match (self.one(&format!("{kind}-name"))?, self.one(&format!("{kind}-uid"))?) {
            (Some(name), Some(uid)) => Ok(Some((name, uid))),
            (None, None) => Ok(None),
            _ => Err(Several),
        }
    }

    /// The one value of `authentication.kubernetes.io/NAME`.
    fn one(&self, name: &str) -> Result<Option<&str>, Several> {
        match self.user.extra.get(&format!("authentication.kubernetes.io/{name}")).map(Vec::as_slice) {
            None => Ok(None),
            Some([one]) => Ok(Some(one)),
            Some(_) => Err(Several),
        }
    }
}

impl Object {
    fn as_pair(&self) -> (&str, &str) {
        (&self.name, &self.uid)
    }
}

/// Of what there should be one, there is another number.
#[derive(Debug, PartialEq, Eq)]
struct Several;

/// Whether `status.error` says something of the token. Without any text, and where the texts of its authenticators are
/// none, the server knows no token like it.
fn is_judgement(error: &str) -> bool {
    let bare = error.trim_start_matches('[').trim_end_matches(']');
    let says =
        |(begin, end): &(&str, &str)| error.split_once(begin).is_some_and(|(_, rest)| rest.contains(end));
    bare.is_empty() || bare == "invalid bearer token" || JUDGEMENTS.iter().any(says)
}

/// The first words of a text that is not ours. A word as long as a segment of a token is left out.
fn excerpt(text: &str) -> String {
    let words = text.split_whitespace().map(|word| if word.len() > LONGEST_WORD { "..." } else { word });
    let words: Vec<&str> = words.take(EXCERPT).collect();
    words.join(" ").chars().filter(|c| !c.is_control()).take(EXCERPT).collect()
}

/// What kube-apiserver 1.36 says once it has looked (pkg/serviceaccount: claims.go, jwt.go, legacy.go), by how it begins and
/// how it goes on. Between them stand names and uids.
const JUDGEMENTS: [(&str, &str); 15] = [
    ("service account token has been invalidated", ""),
    ("Token has been invalidated", ""),
    ("Token does not match server's copy", ""),
    ("service account token has expired", ""),
    ("service account token is not valid yet", ""),
    ("service account token is issued in the future", ""),
    ("service account UID (", ") does not match claim ("),
    ("pod UID (", ") does not match service account pod ref claim ("),
    ("secret UID (", ") does not match service account secret ref claim ("),
    ("node UID (", ") does not match service account node ref claim ("),
    ("service account ", " has been deleted"),
    ("serviceaccounts \"", "\" not found"),
    ("is invalid for the target audiences", ""),
    ("invalid signature, no keys found", ""),
    ("error in cryptographic primitive", ""),
];
const LONGEST_WORD: usize = 80;
const EXCERPT: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    const US: &str = "https://oidc.example";

    fn account() -> Account {
        let object = |name: &str, uid: &str| Some(Object { name: name.to_owned(), uid: uid.to_owned() });
        Account {
            namespace: "ci".to_owned(),
            name: "builder".to_owned(),
            uid: "a-1".to_owned(),
            pod: object("job-7", "p-1"),
            node: object("n1", "n-1"),
            token_id: Some("j".to_owned()),
        }
    }

    fn good() -> Value {
        let extra = json!({
            "authentication.kubernetes.io/pod-name": ["job-7"], "authentication.kubernetes.io/pod-uid": ["p-1"],
            "authentication.kubernetes.io/node-name": ["n1"], "authentication.kubernetes.io/node-uid": ["n-1"],
            "authentication.kubernetes.io/credential-id": ["JTI=j"], "example.com/other": ["x", "y"],
        });
        let user = json!({"username": "system:serviceaccount:ci:builder", "uid": "a-1", "groups": ["g"], "extra": extra});
        json!({
            "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "spec": {"token": "t"},
            "status": {"authenticated": true, "audiences": [US], "user": user},
        })
    }

    fn verdict(answer: &Value) -> Verdict {
        judge(answer.to_string().as_bytes(), US, &account())
    }

    fn with(pointer: &str, value: Value) -> Verdict {
        let mut answer = good();
        let (parent, member) = pointer.rsplit_once('/').expect("a pointer");
        answer.pointer_mut(parent).expect("it is there")[member.replace('~', "/")] = value;
        verdict(&answer)
    }

    #[test]
    fn what_says_the_same_as_the_token_is_believed() {
        assert_eq!(verdict(&good()), Verdict::Authenticated);
        assert_eq!(with("/status/audiences", json!(["other", US])), Verdict::Authenticated);
        for name in ["node-name", "node-uid"] {
            let mut older = good();
            let extra =
                older.pointer_mut("/status/user/extra").and_then(Value::as_object_mut).expect("there");
            extra.retain(|key, _| !key.contains("node") && !key.contains("credential"));
            assert_eq!(verdict(&older), Verdict::Authenticated, "{name}");
        }
    }

    #[test]
    fn an_honest_no_is_a_no_and_a_server_that_could_not_look_said_none() {
        let no = json!({"kind": "TokenReview", "status": {"user": {}, "error": "[invalid bearer token]"}});
        assert_eq!(verdict(&no), Verdict::Refused);
        assert_eq!(verdict(&json!({"kind": "TokenReview", "status": {"user": {}}})), Verdict::Refused);
        assert_eq!(with("/status/authenticated", json!(false)), Verdict::Refused);
        let said = |error: &str| verdict(&json!({"kind": "TokenReview", "status": {"error": error}}));
        for judged in [
            "invalid bearer token",
            "[invalid bearer token, service account token has been invalidated]",
            "[invalid bearer token, service account token has expired]",
            "[invalid bearer token, serviceaccounts \"builder\" not found]",
            "[invalid bearer token, service account UID (a-2) does not match claim (a-1)]",
            "[invalid bearer token, pod UID (p-2) does not match service account pod ref claim (p-1)]",
            "[invalid bearer token, service account ci/builder has been deleted]",
            "[invalid bearer token, token audiences [\"a\"] is invalid for the target audiences [\"b\"]]",
            "[invalid bearer token, invalid signature, no keys found]",
            "[invalid bearer token, go-jose/go-jose: error in cryptographic primitive]",
        ] {
            assert_eq!(said(judged), Verdict::Refused, "{judged}");
        }
        for failed in [
            "webhook: context deadline exceeded",
            "etcdserver: request timed out",
            "rpc error: code = Unavailable desc = error reading from server: EOF",
            "transport is closing",
            "dial tcp 10.0.0.1:2379: i/o timeout",
            "connect: no route to host",
            "the server is currently unable to handle the request",
            "read: connection reset by peer",
            "storage is (re)initializing",
            "rpc error: code = ResourceExhausted desc = too many requests",
            "DeadlineExceeded",
            "serviceaccounts \"builder\" is forbidden",
            "unknown",
        ] {
            for error in [failed.to_owned(), format!("[invalid bearer token, {failed}]")] {
                assert_eq!(said(&error), Verdict::Undecided(error.clone()));
            }
        }
        let segment = "a".repeat(81);
        let echo = format!("no such token: {segment}.{segment} \u{1b}[2J {}", "x ".repeat(500));
        let Verdict::Undecided(told) = said(&echo) else { panic!("it is no judgement") };
        assert!(told.len() <= 200 && !told.contains("aaaa") && !told.contains('\u{1b}'), "{told}");
    }

    #[test]
    fn whatever_else_is_no_answer_to_what_was_asked() {
        let is_strange = |verdict: Verdict| matches!(verdict, Verdict::Strange(_));
        for (pointer, value) in [
            ("/kind", json!("Status")),
            ("/status", Value::Null),
            ("/status/authenticated", json!("true")),
            ("/status/error", json!("but")),
            ("/status/audiences", Value::Null),
            ("/status/audiences", json!([])),
            ("/status/audiences", json!([format!("{US}/")])),
            ("/status/user/username", json!("system:serviceaccount:ci:other")),
            ("/status/user/username", json!("alice")),
            ("/status/user/uid", json!("a-2")),
            ("/status/user/extra/authentication.kubernetes.io~pod-uid", json!(["p-2"])),
            ("/status/user/extra/authentication.kubernetes.io~pod-uid", json!(["p-1", "p-2"])),
            ("/status/user/extra/authentication.kubernetes.io~pod-uid", json!([])),
            ("/status/user/extra/authentication.kubernetes.io~pod-name", json!("job-7")),
            ("/status/user/extra/authentication.kubernetes.io~node-name", json!(["n2"])),
            ("/status/user/extra/authentication.kubernetes.io~credential-id", json!(["JTI=k"])),
            ("/status/user/extra", json!({})),
        ] {
            assert!(is_strange(with(pointer, value.clone())), "{pointer} = {value}");
        }
        for body in ["", "<html>", "null", "[]", "{}", r#"{"kind":"TokenReview"}"#] {
            assert!(is_strange(judge(body.as_bytes(), US, &account())), "{body}");
        }
        let twice = r#"{"kind":"TokenReview","status":{"authenticated":false,"authenticated":true}}"#;
        assert!(is_strange(judge(twice.as_bytes(), US, &account())));
        let unbound = Account { pod: None, ..account() };
        assert!(is_strange(judge(good().to_string().as_bytes(), US, &unbound)));
    }
}
