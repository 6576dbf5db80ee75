//! What is looked at: the JWKS of each replica, and a token of each on each other one.
//!
//! Every look goes the way of a relying party: anonymous, over HTTP, from discovery to its `jwks_uri` to the key. Only
//! the connection is bent to one replica; the issuer stays what it is. A round starts from nothing, so no answer comes
//! from a cache.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use http::header::ETAG;
use oneseal_coordination::Clock;
use oneseal_keystore::findings::chain;
use oneseal_keystore::{Digest, IssuerUrl};
use oneseal_relying_party::RelyingParty;
use oneseal_relying_party::fetch::{ConnectTo, FetchOptions, Fetcher};
use serde_json::{Map, Value};

use super::fleet::{AUDIENCE, Fleet, Replica};
use crate::cli::mint::{MintRequest, Minted};
use crate::cli::replica;
use crate::exit::Failure;

/// What one look at all replicas found. A reason that stands in place of a finding is ready to be shown.
#[derive(Debug)]
pub(crate) struct Round {
    /// Each replica, in order.
    pub(crate) replicas: Vec<Sighting>,
    /// The key set at the issuer's own URL, through the forwarder.
    pub(crate) issuer: Result<Published, String>,
    /// Each token on each other replica.
    pub(crate) verifications: Vec<Verification>,
}

/// One replica, as it was found.
#[derive(Debug)]
pub(crate) struct Sighting {
    /// Its number, from 1.
    pub(crate) number: usize,
    /// Its process.
    pub(crate) pid: u32,
    /// Where it serves.
    pub(crate) address: SocketAddr,
    /// The key set that it publishes.
    pub(crate) jwks: Result<Published, String>,
    /// The token that it minted.
    pub(crate) token: Result<Minted, String>,
}

/// A key set as it came over the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    /// SHA-256 of the body.
    pub(crate) digest: Digest,
    /// Its entity tag; empty if there was none.
    pub(crate) etag: String,
}

/// A token of one replica on another one.
#[derive(Debug)]
pub(crate) struct Verification {
    /// The number of the replica that minted it.
    pub(crate) minted_on: usize,
    /// The number of the replica whose keys were asked.
    pub(crate) verified_on: usize,
    /// Why it was refused, if it was.
    pub(crate) refused: Option<String>,
}

/// How killing one replica went.
#[derive(Debug)]
pub(crate) struct Survival {
    /// The replica's number.
    pub(crate) number: usize,
    /// The process that was killed.
    pub(crate) killed_pid: u32,
    /// The process in its place.
    pub(crate) pid: u32,
    /// From the start of the new process to its first answer.
    pub(crate) back_after: Duration,
    /// What the issuer's URL gave while the replica was dead.
    pub(crate) meanwhile: Result<Published, String>,
    /// The tokens minted before, on the new process.
    pub(crate) old_tokens: Vec<Verification>,
    /// All replicas after it.
    pub(crate) after: Round,
}

/// Looks at every replica once.
///
/// # Cancel safety
/// Dropped, tokens may have been minted that nobody holds.
pub(crate) async fn look(fleet: &Fleet, issuer: &IssuerUrl) -> Round {
    let mut replicas = Vec::new();
    for replica in fleet.replicas() {
        replicas.push(Sighting {
            number: replica.number(),
            pid: replica.pid(),
            address: replica.documents(),
            jwks: published(issuer, Some(replica.documents())).await,
            token: mint(replica).await,
        });
    }
    let mut verifications = Vec::new();
    for replica in fleet.replicas() {
        let others = replicas.iter().filter(|other| other.number != replica.number());
        verifications.extend(verify_all(issuer, replica, others).await);
    }
    Round { issuer: published(issuer, None).await, replicas, verifications }
}

/// Kills replica `index` (SIGKILL), asks the issuer's URL while it is dead, starts it again, and looks at everything:
/// what was minted `before` included.
///
/// # Errors
/// The replica did not come up again.
///
/// # Cancel safety
/// The replica may stay dead.
pub(crate) async fn kill_one(
    fleet: &mut Fleet,
    index: usize,
    issuer: &IssuerUrl,
    before: &Round,
    clock: &dyn Clock,
) -> Result<Survival, Failure> {
    let killed_pid = fleet.replicas()[index].pid();
    fleet.kill(index).await?;
    let meanwhile = published(issuer, None).await;
    let begun = clock.boot();
    fleet.revive().await?;
    let back_after = clock.boot().since(begun);
    let replica = &fleet.replicas()[index];
    Ok(Survival {
        number: replica.number(),
        killed_pid,
        pid: replica.pid(),
        back_after,
        meanwhile,
        old_tokens: verify_all(issuer, replica, before.replicas.iter()).await,
        after: look(fleet, issuer).await,
    })
}

impl Round {
    /// Whatever is not as it is to be, in sentences; none if all is well.
    pub(crate) fn differences(&self) -> Vec<String> {
        let mut told = Vec::new();
        let first = self.published();
        for sighting in &self.replicas {
            let number = sighting.number;
            tell_jwks(&mut told, &format!("replica {number}"), &sighting.jwks, first);
            if let Err(reason) = &sighting.token {
                told.push(format!("replica {number} mints no token: {reason}"));
            }
        }
        tell_jwks(&mut told, "the issuer's URL", &self.issuer, first);
        tell_refusals(&mut told, &self.verifications);
        told
    }

    /// The key set that counts as the right one: the first that was seen.
    pub(crate) fn published(&self) -> Option<&Published> {
        self.seen().next()
    }

    /// How many different key sets there are.
    pub(crate) fn distinct(&self) -> usize {
        self.seen().map(|published| *published.digest.as_bytes()).collect::<BTreeSet<_>>().len()
    }

    /// How many tokens were taken by another replica than the one that minted them.
    pub(crate) fn verified(&self) -> usize {
        self.verifications.iter().filter(|verification| verification.refused.is_none()).count()
    }

    fn seen(&self) -> impl Iterator<Item = &Published> {
        let replicas = self.replicas.iter().filter_map(|sighting| sighting.jwks.as_ref().ok());
        replicas.chain(self.issuer.as_ref().ok())
    }
}

impl Survival {
    /// Whatever is not as it was `before`, in sentences; none if nothing was lost.
    pub(crate) fn differences(&self, before: &Round) -> Vec<String> {
        let mut told = Vec::new();
        let expected = before.published();
        tell_jwks(&mut told, "the issuer's URL, while a replica is dead,", &self.meanwhile, expected);
        if self.after.published() != expected {
            told.push(format!(
                "after the restart the JWKS is another one: {}",
                shown(self.after.published())
            ));
        }
        tell_refusals(&mut told, &self.old_tokens);
        told.extend(self.after.differences());
        told
    }
}

/// The first digits of a digest: enough to tell a handful apart by eye.
pub(crate) fn short(digest: &Digest) -> String {
    digest.to_string().chars().take(16).collect()
}

fn tell_jwks(
    told: &mut Vec<String>,
    who: &str,
    jwks: &Result<Published, String>,
    expected: Option<&Published>,
) {
    match jwks {
        Err(reason) => told.push(format!("{who} publishes no JWKS: {reason}")),
        Ok(published) if Some(published) == expected => {}
        Ok(published) => {
            let expected = shown(expected);
            told.push(format!("{who} publishes {}, not {expected}", shown(Some(published))));
        }
    }
}

fn tell_refusals(told: &mut Vec<String>, verifications: &[Verification]) {
    for Verification { minted_on, verified_on, refused } in verifications {
        if let Some(reason) = refused {
            told.push(format!(
                "a token of replica {minted_on} does not verify on replica {verified_on}: {reason}"
            ));
        }
    }
}

fn shown(published: Option<&Published>) -> String {
    match published {
        Some(Published { digest, etag }) => format!("the JWKS {digest} with the ETag {etag}"),
        None => "none at all".to_owned(),
    }
}

async fn published(issuer: &IssuerUrl, connect_to: Option<SocketAddr>) -> Result<Published, String> {
    let mut options = FetchOptions::default();
    options.connect_to = connect_to.map(ConnectTo::AsUrl);
    options.https = issuer.is_https();
    let fetcher = Fetcher::new(&options).map_err(|error| chain(&error))?;
    let discovery = get(&fetcher, &issuer.url_of(&issuer.discovery_path())).await?;
    let discovery: Value =
        serde_json::from_slice(&discovery.body).map_err(|_| "discovery is no JSON".to_owned())?;
    let jwks_uri = discovery["jwks_uri"].as_str().ok_or("discovery has no jwks_uri")?;
    let jwks = get(&fetcher, jwks_uri).await?;
    let etag = jwks.headers.get(ETAG).and_then(|etag| etag.to_str().ok()).unwrap_or_default();
    Ok(Published { digest: Digest::of(&jwks.body), etag: etag.to_owned() })
}

async fn get(fetcher: &Fetcher, url: &str) -> Result<oneseal_relying_party::fetch::Fetched, String> {
    let fetched = fetcher.get(url).await.map_err(|error| format!("{url}: {}", chain(&error)))?;
    if fetched.status == http::StatusCode::OK {
        Ok(fetched)
    } else {
        Err(format!("{url}: status {}", fetched.status))
    }
}

async fn mint(replica: &Replica) -> Result<Minted, String> {
    let request = MintRequest {
        sub: format!("quickstart:replica-{}", replica.number()),
        aud: AUDIENCE.to_owned(),
        ttl_s: None,
        alg: None,
        claims: Map::new(),
        dry_run: false,
    };
    let call = request.call().map_err(|failure| failure.in_full())?;
    replica::Replica::Socket(replica.admin().to_owned()).ask(&call).await.map_err(|failure| failure.in_full())
}

/// The tokens of `minters`, by the keys that `replica` publishes. What was not minted is told elsewhere.
async fn verify_all<'a>(
    issuer: &IssuerUrl,
    replica: &Replica,
    minters: impl Iterator<Item = &'a Sighting>,
) -> Vec<Verification> {
    let relying_party =
        RelyingParty::builder(issuer.clone()).audience(AUDIENCE).connect_to(replica.documents()).build();
    let mut verifications = Vec::new();
    for minter in minters {
        let refused = match (&minter.token, &relying_party) {
            (Ok(minted), Ok(relying_party)) => verify(relying_party, minted).await.err(),
            (Ok(_), Err(error)) => Some(chain(error)),
            (Err(_), _) => Some("there is no token".to_owned()),
        };
        verifications.push(Verification { minted_on: minter.number, verified_on: replica.number(), refused });
    }
    verifications
}

async fn verify(relying_party: &RelyingParty, minted: &Minted) -> Result<(), String> {
    let verified = relying_party.verify(&minted.token).await.map_err(|error| chain(&error))?;
    if verified.kid.as_str() == minted.kid {
        Ok(())
    } else {
        Err(format!("it verifies by the key {}, and was signed by {}", verified.kid, minted.kid))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    fn published(content: &str) -> Published {
        Published { digest: Digest::of(content.as_bytes()), etag: format!("\"{content}\"") }
    }

    /// Three replicas that agree, as far as `jwks` of replica 2 lets them.
    pub(crate) fn round(jwks: Result<Published, String>) -> Round {
        let sighting = |number: usize, jwks| Sighting {
            number,
            pid: 100 + u32::try_from(number).expect("small"),
            address: SocketAddr::from(([127, 0, 0, 1], 40_000)),
            jwks,
            token: Ok(Minted { token: String::new(), kid: "k".to_owned(), exp: 0 }),
        };
        let pairs =
            (1..=3).flat_map(|on| (1..=3).map(move |from| (from, on))).filter(|(from, on)| from != on);
        Round {
            replicas: vec![sighting(1, good()), sighting(2, jwks), sighting(3, good())],
            issuer: good(),
            verifications: pairs
                .map(|(minted_on, verified_on)| Verification { minted_on, verified_on, refused: None })
                .collect(),
        }
    }

    pub(crate) fn good() -> Result<Published, String> {
        Ok(published("good"))
    }

    pub(crate) fn survival(after: Round) -> Survival {
        Survival {
            number: 2,
            killed_pid: 102,
            pid: 202,
            back_after: Duration::from_millis(31),
            meanwhile: good(),
            old_tokens: vec![Verification { minted_on: 1, verified_on: 2, refused: None }],
            after,
        }
    }

    #[test]
    fn replicas_that_agree_differ_in_nothing() {
        let round = round(good());
        assert_eq!(round.differences(), [] as [String; 0]);
        assert_eq!((round.distinct(), round.verified()), (1, 6));
        assert_eq!(survival(self::round(good())).differences(&round), [] as [String; 0]);
    }

    #[test]
    fn another_body_and_another_tag_are_differences() {
        let told = round(Ok(published("other"))).differences();
        assert!(told.len() == 1 && told[0].starts_with("replica 2 publishes"), "{told:?}");
        assert_eq!(round(Ok(published("other"))).distinct(), 2);
        let tag = Published { etag: "\"x\"".to_owned(), ..published("good") };
        assert_eq!(round(Ok(tag)).differences().len(), 1);
        let told = round(Err("cannot connect".to_owned())).differences();
        assert_eq!(told, ["replica 2 publishes no JWKS: cannot connect"]);
    }

    #[test]
    fn a_refused_and_a_missing_token_are_differences() {
        let mut round = round(good());
        round.verifications[0].refused = Some("unknown kid".to_owned());
        round.replicas[2].token = Err("off".to_owned());
        assert_eq!(
            round.differences(),
            [
                "replica 3 mints no token: off",
                "a token of replica 2 does not verify on replica 1: unknown kid"
            ]
        );
        assert_eq!(round.verified(), 5);
    }

    #[test]
    fn a_restart_that_changes_anything_is_told() {
        let before = round(good());
        let mut after = round(good());
        for sighting in &mut after.replicas {
            sighting.jwks = Ok(published("new"));
        }
        after.issuer = Ok(published("new"));
        let told = survival(after).differences(&before);
        assert!(told.len() == 1 && told[0].starts_with("after the restart"), "{told:?}");
        let mut lost = survival(round(good()));
        lost.old_tokens[0].refused = Some("unknown kid".to_owned());
        lost.meanwhile = Err("cannot connect".to_owned());
        assert_eq!(lost.differences(&before).len(), 2);
    }

    /// An issuer that answers each of its `answers`, in order, on a connection of its own, and returns the requests.
    async fn answering(answers: Vec<String>) -> (SocketAddr, impl Future<Output = Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let serving = async move {
            let mut requests = Vec::new();
            for body in answers {
                let (mut client, _) = listener.accept().await.expect("a client");
                let mut request = String::new();
                while !request.ends_with("\r\n\r\n") {
                    request.push(char::from(client.read_u8().await.expect("a whole request")));
                }
                requests.push(request.to_lowercase());
                let length = body.len();
                let head = format!("HTTP/1.1 200 OK\r\nETag: \"t\"\r\nContent-Length: {length}\r\n\r\n");
                client.write_all(format!("{head}{body}").as_bytes()).await.expect("a reader");
            }
            requests
        };
        (address, serving)
    }

    #[tokio::test]
    async fn a_look_goes_the_way_of_a_stranger() {
        let issuer = IssuerUrl::parse("http://127.0.0.1:9", "issuer").expect("good");
        let discovery = r#"{"jwks_uri":"http://127.0.0.1:9/odd/place"}"#.to_owned();
        let (address, serving) = answering(vec![discovery, "the keys".to_owned()]).await;
        let (seen, requests) = tokio::join!(super::published(&issuer, Some(address)), serving);
        let expected = Published { digest: Digest::of(b"the keys"), etag: "\"t\"".to_owned() };
        assert_eq!(seen, Ok(expected));
        assert!(requests[0].starts_with("get /.well-known/openid-configuration "), "{requests:?}");
        assert!(requests[1].starts_with("get /odd/place "), "jwks_uri leads there: {requests:?}");
        for request in requests {
            assert!(!request.contains("authorization:") && !request.contains("cookie:"), "{request}");
            assert!(request.contains("host: 127.0.0.1:9\r\n"), "the issuer stays what it is: {request}");
        }
    }
}
