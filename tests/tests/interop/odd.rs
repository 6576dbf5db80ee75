//! An issuer that is odd, but not wrong: redirecting, slow, large, with company in its key set. Who minds which.
//!
//! oneseal is none of that; a proxy in front of it may be, and other issuers are. docs/relying-parties.md tells what is
//! seen here.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use oneseal::{Algorithm, SystemClock};
use oneseal_coordination::Clock;
use oneseal_tests::keys::{self, TestKey};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::adaptor::Adaptor;
use crate::libraries::Library;
use crate::long_lived::{started, tell};
use crate::signing::sign;

/// What the first segment of the issuer's path makes of its key set, and the libraries that then have no key: go-jose
/// and josekit by what the lines around them do with it.
const ODDITIES: &[(&str, &[&str])] = &[
    ("plain", &[]),
    ("redirected", &["jose", "pyjwt", "josekit"]),
    ("late", &["nimbus"]),
    ("large", &["nimbus"]),
    ("with-a-stranger", &["go-jose"]),
    ("bare", &["josekit"]),
];
/// More than the 500 ms of Nimbus, less than what all others wait.
const LATE: Duration = Duration::from_millis(800);
/// More than the 50 KiB of Nimbus.
const LARGE: usize = 60 << 10;

#[tokio::test]
async fn each_library_minds_what_it_is_known_to_mind_of_an_odd_issuer() {
    let mut parties = started().await;
    let key = Arc::new(keys::fresh(&[Algorithm::Rs256]).await.remove(0));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let host = format!("http://{}", listener.local_addr().unwrap());
    let mut work = JoinSet::new();
    work.spawn(serve(listener, host.clone(), Arc::clone(&key)));
    for (oddity, minded_by) in ODDITIES {
        let issuer = format!("{host}/{oddity}");
        let token = token(&issuer, &key);
        let verdicts =
            join_all(parties.iter_mut().map(|(library, adaptor)| asked(library, adaptor, &issuer, &token)));
        for (library, answer) in verdicts.await {
            tell(&format!("{oddity}: {}: {answer}", library.name));
            let is_minded = minded_by.contains(&library.name);
            assert_eq!(answer["ok"], !is_minded, "{}, {oddity}: {answer}", library.name);
        }
    }
}

/// What it says to a token, or, where it fetches the keys beforehand, to its configuration.
async fn asked(
    library: &'static Library,
    adaptor: &mut Adaptor,
    issuer: &str,
    token: &str,
) -> (&'static Library, Value) {
    let configure =
        json!({ "verb": "configure", "issuer": issuer, "audience": "test", "algorithms": ["RS256"] });
    let mut answer = adaptor.answer_to(configure.to_string().as_bytes()).await;
    if answer["ok"] == true {
        let verify = json!({ "verb": "verify", "token": token });
        answer = adaptor.answer_to(verify.to_string().as_bytes()).await;
    }
    (library, answer)
}

fn token(issuer: &str, key: &TestKey) -> String {
    let now = SystemClock.wall().as_secs();
    let header = json!({ "alg": "RS256", "kid": key.kid.as_str(), "typ": "JWT" });
    let claims = json!({ "iss": issuer, "sub": "pod-1", "aud": "test", "iat": now - 30, "nbf": now - 30, "exp": now + 600 });
    sign(key, key.algorithm, &header, &claims)
}

async fn serve(listener: TcpListener, host: String, key: Arc<TestKey>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (host, key) = (host.clone(), Arc::clone(&key));
        // A relying party may hang up at any time.
        connections.spawn(async move { drop(answer(stream, &host, &key).await) });
    }
}

/// One request of a connection, and its end.
async fn answer(stream: TcpStream, host: &str, key: &TestKey) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut first = String::new();
    stream.read_line(&mut first).await?;
    let mut line = String::from("-");
    while !line.trim().is_empty() {
        line.clear();
        stream.read_line(&mut line).await?;
    }
    let path = first.split(' ').nth(1).unwrap_or_default();
    let (oddity, rest) = path.trim_start_matches('/').split_once('/').unwrap_or_default();
    let issuer = format!("{host}/{oddity}");
    let (status, body) = match (rest, oddity) {
        ("jwks", "redirected") => (format!("302 Found\r\nLocation: {host}/plain/jwks"), String::new()),
        ("jwks", _) => ("200 OK".to_owned(), key_set(oddity, key).to_string()),
        _ => ("200 OK".to_owned(), discovery(&issuer).to_string()),
    };
    if (rest, oddity) == ("jwks", "late") {
        // Nothing comes of it, so it lasts as long as it may.
        drop(tokio::time::timeout(LATE, std::future::pending::<()>()).await);
    }
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes()).await?;
    stream.shutdown().await
}

fn discovery(issuer: &str) -> Value {
    json!({
        "issuer": issuer, "jwks_uri": format!("{issuer}/jwks"), "authorization_endpoint": format!("{issuer}/authorize"),
        "response_types_supported": ["id_token"], "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    })
}

fn key_set(oddity: &str, key: &TestKey) -> Value {
    let mut own = Value::Object(key.public.to_jwk_map());
    own["kid"] = key.kid.as_str().into();
    if oddity != "bare" {
        own["alg"] = "RS256".into();
        own["use"] = "sig".into();
    }
    match oddity {
        "large" => json!({ "keys": [own], "comment": "-".repeat(LARGE) }),
        // Of the kind that post-quantum keys have, with an algorithm that is none.
        "with-a-stranger" => {
            json!({ "keys": [own, { "kty": "AKP", "kid": "stranger", "alg": "ML-DSA-0", "use": "sig", "pub": "AAAA" }] })
        }
        _ => json!({ "keys": [own] }),
    }
}
