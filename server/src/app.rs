//! Puts the pieces together: the only place that names concrete providers.

use std::sync::Arc;

use oneseal::{
    Algorithm, Builder, EnvProvider, FileProvider, InlineProvider, Issuer, SecretProvider, SystemClock,
};
use oneseal_coordination::database::Database;
use oneseal_keystore::KeystoreOptions;
use oneseal_keystore::executor::{Executor, NoRegistry, Observer};
use oneseal_providers::PostgresProvider;
use secrecy::ExposeSecret;

use crate::config::{Config, PassphraseChoice, ProviderChoice, Sealing, Settings, Unlocking};
use crate::exit::Failure;
use crate::fleet::{self, Membership};
use crate::http::request_id::X_REQUEST_ID;
use crate::proofs::Proofs;

/// The builder of the configured issuer, which takes `proofs`.
pub(crate) fn issuer(config: &Config, proofs: &Proofs, allow_key_replacement: bool) -> Builder {
    let settings = &config.settings;
    let audiences = if settings.admin.mint { settings.admin.mint_audiences.as_slice() } else { &[] };
    let builder = key_only(config.issuer.as_str(), &config.provider, &config.unlocking, &settings.algorithms);
    let builder = settings.rules.iter().fold(builder, |builder, rule| builder.rule(rule.clone()));
    let builder = proofs
        .give(builder)
        .rotation(settings.rotation.clone())
        .allow_key_replacement(allow_key_replacement)
        .reserve_header(X_REQUEST_ID)
        .mint_audiences(audiences.iter().cloned())
        .token_limits(settings.tokens.limits);
    match &settings.tokens.endpoint {
        Some(url) => builder.token_endpoint(url),
        None => builder,
    }
}

/// A builder that knows no more than what its key is judged by.
pub(crate) fn key_only(
    url: &str,
    provider: &ProviderChoice,
    unlocking: &Unlocking,
    algorithms: &[Algorithm],
) -> Builder {
    let mut builder = match provider {
        ProviderChoice::File { path, durable } => {
            Issuer::builder(url, FileProvider::new(path).assume_durable(*durable))
        }
        ProviderChoice::Env { variable } => Issuer::builder(url, EnvProvider::new(variable)),
        ProviderChoice::Postgres { database, fleet } => {
            Issuer::builder(url, postgres(database, fleet.as_deref()))
        }
        ProviderChoice::Remote(provider) => Issuer::builder(url, Arc::clone(provider)),
        ProviderChoice::Inline { value } => Issuer::builder(url, inline(value)),
    };
    if let Some(passphrase) = passphrase(unlocking) {
        builder = builder.passphrase(passphrase);
    }
    if let Some(member) = &unlocking.member {
        builder = builder.member(member);
    }
    for kek in keks(&unlocking.sealing) {
        builder = builder.kek(kek);
    }
    if let Some(pin) = &unlocking.sealing.pin {
        builder = builder.pin(pin.clone());
    }
    builder.max_lag(unlocking.max_lag).mode(unlocking.sealing.mode).algorithms(algorithms.iter().copied())
}

/// The providers of the key-encryption keys, the current one first.
pub(crate) fn keks(sealing: &Sealing) -> Vec<Arc<dyn SecretProvider>> {
    sealing.keks().map(provider).collect()
}

/// The configured database, if there is one. Nothing is opened yet.
///
/// # Errors
/// A certificate that one of its URLs names cannot be used (78).
pub(crate) fn database(settings: &Settings) -> Result<Option<Database>, Failure> {
    let opened = settings.database.clone().map(Database::new).transpose();
    opened.map_err(|error| Failure::refused("[database] cannot be used").because(error))
}

/// The provider of the passphrase, if there is one.
pub(crate) fn passphrase(unlocking: &Unlocking) -> Option<Arc<dyn SecretProvider>> {
    Some(match unlocking.passphrase.as_ref()? {
        PassphraseChoice::File(path) => Arc::new(FileProvider::new(path)),
        PassphraseChoice::Env(variable) => Arc::new(EnvProvider::new(variable)),
    })
}

/// The configured provider, for verbs that work on a key without an issuer.
pub(crate) fn provider(choice: &ProviderChoice) -> Arc<dyn SecretProvider> {
    match choice {
        ProviderChoice::File { path, durable } => Arc::new(FileProvider::new(path).assume_durable(*durable)),
        ProviderChoice::Env { variable } => Arc::new(EnvProvider::new(variable)),
        ProviderChoice::Postgres { database, fleet } => Arc::new(postgres(database, fleet.as_deref())),
        ProviderChoice::Remote(provider) => Arc::clone(provider),
        ProviderChoice::Inline { value } => Arc::new(inline(value)),
    }
}

/// This process's place among the replicas, where there is a database to keep it. It has not joined.
///
/// # Errors
/// As [`database`]; or the host's name cannot name a replica (78).
pub(crate) fn membership(config: &Config) -> Result<Option<Arc<Membership>>, Failure> {
    let Some(database) = database(&config.settings)? else { return Ok(None) };
    let is_ring_there = matches!(config.provider, ProviderChoice::Postgres { .. });
    fleet::open(database, config.fleet(), &config.settings, is_ring_there.then_some(RING)).map(Some)
}

/// Who carries out key verbs on the configured ring, after a look at the `fleet` if there is a database.
pub(crate) fn executor(config: &Config, fleet: Option<Arc<dyn Observer>>) -> Executor {
    let observer = fleet.unwrap_or_else(|| Arc::new(NoRegistry));
    let mut options = KeystoreOptions::new(config.issuer.clone());
    options.algorithms.clone_from(&config.settings.algorithms);
    options.rotation.clone_from(&config.settings.rotation);
    options.passphrase = passphrase(&config.unlocking);
    options.member.clone_from(&config.unlocking.member);
    options.max_lag = config.unlocking.max_lag;
    options.keks = keks(&config.unlocking.sealing);
    options.pin.clone_from(&config.unlocking.sealing.pin);
    options.mode = config.unlocking.sealing.mode;
    Executor::new(provider(&config.provider), options, observer, Arc::new(SystemClock))
}

fn postgres(database: &Database, fleet: Option<&str>) -> PostgresProvider {
    match fleet {
        Some(fleet) => PostgresProvider::new(database.clone(), fleet),
        None => PostgresProvider::of_only_fleet(database.clone()),
    }
}

fn inline(value: &secrecy::SecretString) -> InlineProvider {
    InlineProvider::new(value.expose_secret().as_bytes().to_vec())
}

/// Which ring the database holds, for the beat: the columns that a registry asks for.
const RING: &str = "SELECT incarnation, revision, digest FROM oneseal.rings WHERE fleet = $1";
