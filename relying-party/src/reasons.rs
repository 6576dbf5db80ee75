//! Every reason for which a token is not accepted, in one table: for pages, dashboards and whoever reads `reason`.

/// One reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reason {
    /// What [`VerifyError::reason`](crate::VerifyError::reason) says. Public: dashboards match on it.
    pub word: &'static str,
    /// Whether it says that the keys could not be had, and nothing of the token.
    pub is_unavailable: bool,
    /// What it means and what to look at, in whole sentences.
    pub meaning: &'static str,
}

const fn token(word: &'static str, meaning: &'static str) -> Reason {
    Reason { word, is_unavailable: false, meaning }
}

const fn keys(word: &'static str, meaning: &'static str) -> Reason {
    Reason { word, is_unavailable: true, meaning }
}

/// All of them, in the order in which they are looked for.
pub static REASONS: &[Reason] = &[
    token("too_long", "The token is longer than 16 KiB. No HTTP server would take it in a header."),
    token(
        "shape",
        "It is no compact JWS: three base64url segments with dots between them. Was it cut, or quoted?",
    ),
    token("encrypted", "It is a JWE. Only signed tokens are taken."),
    token(
        "encoding",
        "A segment is not canonical, unpadded base64url. Something on the way has changed the token.",
    ),
    token("header", "The header is no strict JSON object."),
    token("header_member", "A header member is missing or has the wrong type."),
    token(
        "algorithm_not_allowed",
        "The header's `alg` is none of those that are ever taken; `none` and HMAC never are.",
    ),
    token("critical", "The header has `crit` or `b64`, which ask for extensions that are not known here."),
    token("type", "The header's `typ` names another kind of token than a JWT, such as `at+jwt`."),
    token("payload", "The payload is no strict JSON object."),
    token("issuer", "`iss` is another issuer. It is compared byte for byte, a trailing slash included."),
    token(
        "unknown_kid",
        "The issuer publishes no key of this `kid`. Is it another issuer's token, a key that has been removed, or a cache that has not seen a new one yet?",
    ),
    token(
        "ambiguous_key",
        "The token names no `kid`, and not exactly one published key could have signed it.",
    ),
    token("kid_mismatch", "The header names another key than the one that was to verify it."),
    token(
        "algorithm",
        "The key of this `kid` does not sign with the header's `alg`, or that one is not taken here.",
    ),
    token("algorithm_mismatch", "The header names another algorithm than the key's."),
    token("key_unfit", "The key cannot verify with this algorithm."),
    token("detached_header", "The header of a detached signature is another than it must be."),
    token(
        "signature",
        "The signature does not verify. The token was altered, or signed by another key under this `kid`.",
    ),
    token(
        "claim_missing",
        "A claim that must be there is not: `iss`, `sub`, `aud` or `exp`, or one that is required here.",
    ),
    token("claim_malformed", "A claim has the wrong type, is empty, or is out of all bounds."),
    token(
        "audience",
        "`aud` does not hold the audience that was asked for, or others beside it where it must stand alone.",
    ),
    token("expired", "`exp` is past by more than the leeway."),
    token("not_yet_valid", "`nbf` is ahead by more than the leeway. Do the clocks agree?"),
    token("issued_in_future", "`iat` is ahead by more than the leeway. Do the clocks agree?"),
    token("lifetime", "It lives longer than is taken here."),
    token("too_old", "It was issued longer ago than is taken here."),
    keys("url", "The address of a document is no absolute URL without user name and fragment."),
    keys("plain_http", "The address is plain http to another machine. Keys are fetched by https."),
    keys("connect", "Name lookup, TCP or TLS failed; the cause says which."),
    keys(
        "proxy",
        "The proxy cannot be reached, wants a password, or opens no connection to the issuer's host.",
    ),
    keys(
        "certificate",
        "The certificate does not verify: another host's name, past its date, or signed by nobody who is trusted here.",
    ),
    keys(
        "certificate_of_authority",
        "The server shows an authority's own certificate (CA:TRUE), which may not stand for a server, whoever trusts it.",
    ),
    keys(
        "not_tls",
        "What answers there does not speak TLS. A replica behind a TLS proxy is asked in plain HTTP.",
    ),
    keys("deadline", "There was no complete answer in time."),
    keys(
        "redirect",
        "The answer was a redirect, and none is followed. Configure the address that it leads to.",
    ),
    keys("too_large", "The document is larger than is read."),
    keys("encoded", "The answer has a Content-Encoding that was not asked for. A proxy on the way adds it."),
    keys("http", "The exchange broke off, or what answered is no HTTP server."),
    keys("status", "The answer has another status than 200."),
    keys(
        "not_json",
        "The document is no strict JSON object, such as the HTML page of a proxy or half a body.",
    ),
    keys("key_source", "What reads the keys by a way of its own could not; the cause says why."),
    keys("issuer_mismatch", "The discovery document names another issuer. They are compared byte for byte."),
    keys("jwks_uri", "The discovery document has no `jwks_uri` that may be fetched."),
    keys("no_keys_member", "The key set has no array `keys`."),
    keys("too_many_keys", "The key set has more entries than are read."),
    keys("no_usable_key", "No entry of the key set can verify anything."),
    keys("interrupted", "The attempt to read the keys was cut off before it ended."),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::time::Duration;

    use bytes::Bytes;
    use http_body_util::Empty;
    use hyper::client::conn::http1;
    use hyper_util::rt::TokioIo;
    use oneseal_keystore::json::JsonError;
    use oneseal_keystore::verify::VerifyError as JwsError;

    use super::*;
    use crate::error::{Document, Invalid, SourceError, Unavailable, VerifyError};
    use crate::fetch::FetchError;
    use crate::key_source::KeySourceError;

    const JSON: JsonError = JsonError::Syntax { line: 1, column: 1 };

    /// One of each. The match does not compile when a variant is new, so that the list cannot be forgotten.
    fn refusals() -> Vec<Invalid> {
        use Invalid::*;
        match Type {
            Jws(_) | Type | Payload(_) | Issuer | UnknownKid | AmbiguousKey | Algorithm | Missing(_)
            | Malformed(_) | Audience | Expired | NotYetValid | IssuedInFuture | Lifetime | TooOld => {}
        }
        vec![
            Type,
            Payload(JSON),
            Issuer,
            UnknownKid,
            AmbiguousKey,
            Algorithm,
            Missing("exp"),
            Malformed("exp"),
            Audience,
            Expired,
            NotYetValid,
            IssuedInFuture,
            Lifetime,
            TooOld,
            Jws(JwsError::Signature),
        ]
    }

    fn sources() -> Vec<SourceError> {
        use SourceError::*;
        match IssuerMismatch {
            Fetch { .. }
            | Status { .. }
            | Json { .. }
            | KeySource(_)
            | IssuerMismatch
            | JwksUri
            | NoKeysMember
            | TooManyKeys { .. }
            | NoUsableKey { .. } => {}
        }
        let (document, url) = (Document::Jwks, String::new());
        vec![
            Status { document, url, status: 404 },
            Json { document, source: JSON },
            KeySource(KeySourceError("x".into())),
            IssuerMismatch,
            JwksUri,
            NoKeysMember,
            TooManyKeys { found: 2, limit: 1 },
            NoUsableKey { entries: 1, private: 0 },
        ]
    }

    async fn broken_off() -> hyper::Error {
        let (client, server) = tokio::io::duplex(1);
        drop(server);
        let opened = http1::handshake::<_, Empty<Bytes>>(TokioIo::new(client)).await;
        let (mut sender, connection) = opened.expect("nothing was sent yet");
        let request = http::Request::get("/").body(Empty::new()).expect("a request");
        let (answer, _) = tokio::join!(sender.send_request(request), connection);
        answer.expect_err("nobody answers")
    }

    async fn fetches() -> Vec<FetchError> {
        use FetchError::*;
        match Url {
            Url | PlainHttp | Connect(_) | Proxy(_) | Certificate(_) | AuthorityAsServer | NotTls(_)
            | Deadline(_) | Redirect(_) | TooLarge(_) | Encoded | Http(_) => {}
        }
        vec![
            Url,
            PlainHttp,
            Connect("x".into()),
            Proxy("x".into()),
            Certificate("x".into()),
            AuthorityAsServer,
            NotTls("x".into()),
            Deadline(Duration::ZERO),
            Redirect(301),
            TooLarge(1),
            Encoded,
            Http(broken_off().await),
        ]
    }

    #[tokio::test]
    async fn every_reason_stands_in_the_table_and_the_table_has_no_other() {
        let mut known = BTreeSet::new();
        for reason in REASONS {
            assert!(known.insert((reason.word, reason.is_unavailable)), "{} stands there twice", reason.word);
            assert!(reason.meaning.ends_with(['.', '?']), "{}: a sentence is wanted", reason.word);
        }
        let unavailable = |cause: Option<SourceError>| {
            let cause = cause.map(Arc::new);
            VerifyError::Unavailable(Unavailable { cause, retry_after: Duration::ZERO })
        };
        let fetched = fetches().await.into_iter().map(|source| {
            unavailable(Some(SourceError::Fetch { document: Document::Jwks, url: String::new(), source }))
        });
        let errors = refusals().into_iter().map(VerifyError::from);
        let errors = errors.chain(sources().into_iter().map(|source| unavailable(Some(source))));
        let errors = errors.chain(fetched).chain([unavailable(None)]);
        let mut seen: BTreeSet<_> = errors.map(|error| (error.reason(), error.is_unavailable())).collect();
        seen.extend(JwsError::REASONS.map(|word| (word, false)));
        assert_eq!(seen, known);
    }
}
