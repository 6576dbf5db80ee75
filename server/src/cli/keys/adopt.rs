//! `oneseal keys adopt`: takes in a key that was made elsewhere, under the name that it has in the world, or the public
//! keys of a former issuer, whose tokens then verify against this set until their time.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use oneseal::UnixTime;
use oneseal_coordination::SystemClock;
use oneseal_keystore::material::{KeyError, Passphrase, PrivateKey};
use oneseal_keystore::steps::{Adoption, Foreign, Request};
use oneseal_keystore::{Algorithm, IssuerUrl, KeyId, provider_findings};
use oneseal_providers::{ErrorKind, FileProvider, ProviderUri, SecretProvider};
use oneseal_relying_party::fetch::{self, FetchOptions, Fetcher};
use oneseal_relying_party::survey::survey;
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

use super::Globals;
use super::change::{Asked, Common, plain};
use crate::config::disk;
use crate::exit::{Exit, Failure};
use crate::{app, gate, output, times};

/// What to take in.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The private key: a file, or a provider such as env:NAME; if it is encrypted, with --passphrase
    #[arg(value_name = "FILE|URI", required_unless_present = "from_jwks", conflicts_with = "from_jwks")]
    from: Option<String>,
    /// The name that the key has in the world [default: its thumbprint]
    #[arg(long, value_name = "KID", allow_hyphen_values = true, requires = "from")]
    kid: Option<String>,
    /// What it signs with [default: what the key says, or RS256, ES256, ES384 or EdDSA by its kind]
    #[arg(long, value_name = "ALG", requires = "from")]
    alg: Option<Algorithm>,
    /// Let it sign at once: the issuer's own URL serves it under this name already, which is looked at
    #[arg(long, requires = "from")]
    already_published: bool,
    /// The key set of a former issuer: a file, or an https URL, which is asked itself and follows no redirect
    #[arg(long, value_name = "FILE|URL", requires = "public_only", requires = "until")]
    from_jwks: Option<String>,
    /// Take public keys, which never sign here: whoever has their private halves can go on signing
    #[arg(long, requires = "from_jwks")]
    public_only: bool,
    /// Until then those keys are published: Unix seconds, or UTC as 2026-01-01T00:00:00Z
    #[arg(long, value_name = "TIME", value_parser = times::parse, requires = "from_jwks")]
    until: Option<UnixTime>,
    #[command(flatten)]
    common: Common,
}

pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { from, kid, alg, already_published, from_jwks, until, common, .. } = args;
    match (from, from_jwks, until) {
        (None, Some(place), Some(until)) => {
            let jwks = key_set(&place, globals).await?;
            public(&place, &jwks, until, common, globals).await
        }
        (Some(from), _, _) => {
            if common.names_a_replica() {
                return Err(Failure::usage(
                    "a private key is taken in where the ring rests, by --provider or the configuration's: no private \
                     half crosses the wire",
                ));
            }
            private(&from, kid, alg, already_published, common, globals).await
        }
        _ => Err(Failure::usage("name a key, or a key set by --from-jwks with --public-only and --until")),
    }
}

async fn public(
    place: &str,
    jwks: &[u8],
    until: UnixTime,
    common: Common,
    globals: &Globals,
) -> Result<Exit, Failure> {
    let (keys, left_out) =
        Foreign::read_set(jwks).map_err(|why| Failure::refused(format!("--from-jwks {place}: {why}")))?;
    for why in left_out {
        output::complain(&format!("left out: {why}"));
    }
    for Foreign { kid, algorithm, public } in &keys {
        output::complain(&format!("{algorithm}  {kid}  thumbprint {}", public.thumbprint()));
    }
    output::complain(&format!(
        "whoever has the private halves can sign tokens in this issuer's name until {}",
        times::rfc3339(until)
    ));
    let set: Vec<Value> = keys.iter().map(jwk).collect();
    let mut members = Map::new();
    members.insert("jwks".to_owned(), json!({ "keys": set }));
    members.insert("until".to_owned(), until.as_secs().into());
    let loses =
        Some("the holder of these keys can sign tokens that verify against this issuer's set until then");
    let request = Request::Adopt(Adoption::Public { keys, until });
    plain(Asked { request, members, loses }, common, globals).await
}

fn jwk(key: &Foreign) -> Value {
    let mut members = key.public.to_jwk_map();
    members.insert("kid".to_owned(), key.kid.as_str().into());
    members.insert("alg".to_owned(), key.algorithm.as_str().into());
    Value::Object(members)
}

/// The bytes of a key set at a URL or in a file.
async fn key_set(place: &str, globals: &Globals) -> Result<Vec<u8>, Failure> {
    let named = || format!("--from-jwks {place}");
    if place.starts_with("http://") {
        return Err(Failure::usage(format!("{}: only https is asked, or a file is read", named())));
    }
    if !place.starts_with("https://") {
        let read = disk::read_bytes(&PathBuf::from(place), fetch::MAX_DOCUMENT);
        let read = read.map(|bytes| bytes.to_vec());
        return read.map_err(|error| Failure::refused(format!("{} cannot be read", named())).because(error));
    }
    let mut options = FetchOptions::default();
    options.extra_roots = globals.partial_config()?.settings.self_check.extra_roots;
    let fetched = match Fetcher::new(&options) {
        Ok(fetcher) => fetcher.get(place).await,
        Err(error) => return Err(Failure::refused(named()).because(error)),
    };
    let fetched = fetched.map_err(|error| {
        Failure::new(Exit::Unavailable, format!("{} cannot be had", named())).because(error)
    })?;
    if fetched.status != http::StatusCode::OK {
        let status = fetched.status.as_u16();
        return Err(Failure::new(Exit::Unavailable, format!("{} answers with status {status}", named())));
    }
    Ok(fetched.body.to_vec())
}

async fn private(
    from: &str,
    kid: Option<String>,
    alg: Option<Algorithm>,
    is_published: bool,
    common: Common,
    globals: &Globals,
) -> Result<Exit, Failure> {
    let key = read_key(from, &common, globals).await?;
    let algorithm =
        alg.or(key.declared_algorithm()).unwrap_or_else(|| key.public().key_type().default_algorithm());
    let kid = match kid {
        None => key.public().thumbprint(),
        Some(kid) => KeyId::parse(&kid).map_err(|error| Failure::usage(format!("--kid: {error}")))?,
    };
    if is_published {
        let config = super::load(common.sources(globals))?;
        check_published(&config.issuer, &config.settings.self_check, &kid, &key).await?;
    }
    let request = Request::Adopt(Adoption::Key { kid, algorithm, key, is_published });
    plain(Asked { request, members: Map::new(), loses: None }, common, globals).await
}

async fn read_key(from: &str, common: &Common, globals: &Globals) -> Result<PrivateKey, Failure> {
    let provider = match ProviderUri::parse(from) {
        Ok(uri) => uri.open().map_err(|error| Failure::usage("the key to adopt").because(error))?,
        Err(_) => Arc::new(FileProvider::new(from)) as Arc<dyn SecretProvider>,
    };
    let loaded = provider.load().await;
    let record = loaded.map_err(|error| {
        let code =
            provider_findings(&error).iter().map(|finding| finding.code.name).next().unwrap_or_default();
        let exit = match error.kind() {
            ErrorKind::Denied | ErrorKind::Unauthenticated => Exit::Denied,
            ErrorKind::Unavailable | ErrorKind::NoCredentials => Exit::Unavailable,
            _ => Exit::Refused,
        };
        Failure::new(exit, "the key to adopt cannot be read").with_code(code).because(error)
    })?;
    let mut values = record.entries.iter();
    let (Some((_, value)), None) = (values.next(), values.next()) else {
        return Err(Failure::usage("the key to adopt is one file, and this is a directory of several"));
    };
    match PrivateKey::parse(value.expose()) {
        Err(error @ KeyError::Encrypted) => match passphrase(common, globals).await? {
            Some(passphrase) => opened(value.expose(), passphrase).await?.map_err(refused),
            None => {
                Err(refused(error).with_hint("Here --passphrase file:PATH or env:NAME names it as well."))
            }
        },
        read => read.map_err(refused),
    }
}

/// The one that the command line or the configuration names. The halves of a ring document have none, so that it can be
/// no other key's.
async fn passphrase(common: &Common, globals: &Globals) -> Result<Option<Passphrase>, Failure> {
    let config = super::load(common.sources(globals))?;
    let Some(provider) = app::passphrase(&config.unlocking) else { return Ok(None) };
    Passphrase::load(&*provider).await.map(Some).map_err(Failure::found)
}

/// Deriving takes up to a second, on a thread of its own.
async fn opened(value: &[u8], passphrase: Passphrase) -> Result<Result<PrivateKey, KeyError>, Failure> {
    let value = Zeroizing::new(value.to_vec());
    let opening = spawn_blocking(move || PrivateKey::parse_with(&value, &passphrase));
    opening.await.map_err(|error| Failure::internal("the key to adopt was not opened").because(error))
}

fn refused(error: KeyError) -> Failure {
    Failure::refused(error.code().meaning).with_code(error.code().name).because(error)
}

/// Whether relying parties can have the key already, by the issuer's own word.
async fn check_published(
    issuer: &IssuerUrl,
    how: &crate::config::SelfCheck,
    kid: &KeyId,
    key: &PrivateKey,
) -> Result<(), Failure> {
    let fetcher = gate::fetcher(issuer, how, PATIENCE)
        .map_err(|error| Failure::refused("--already-published").because(error))?;
    let seen = survey(&fetcher, issuer, &SystemClock).await;
    let body = seen.jwks.and_then(|look| look.fetched).map(|fetched| fetched.body);
    let Some(body) = body else {
        let message = format!("{issuer} gives no key set, so that nobody can say whether it serves the key");
        return Err(Failure::new(Exit::Unavailable, message));
    };
    let (served, _) = Foreign::read_set(&body).map_err(Failure::refused)?;
    if served.iter().any(|served| served.kid == *kid && served.public == *key.public()) {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "{issuer} does not serve this key under the kid {kid}: leave out --already-published, and it is published first"
    )))
}

/// As long as a relying party would wait.
const PATIENCE: Duration = Duration::from_secs(5);
