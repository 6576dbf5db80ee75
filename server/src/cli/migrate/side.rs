//! One side of a migration, as the command line names it: any provider, or the row in the configured database, whose
//! password then stands on no command line.

use std::fmt;
use std::sync::Arc;

use oneseal_coordination::database::Database;
use oneseal_providers::{PostgresProvider, ProviderUri, SecretProvider};

use crate::app;
use crate::config::PartialConfig;
use crate::exit::Failure;

/// Where a ring is, or shall be.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// What a URI names.
    Uri(ProviderUri),
    /// The row in the `[database]` of the configuration: `postgres:`, or `postgres:?fleet=NAME`.
    Configured {
        /// Whose, if that is said.
        fleet: Option<String>,
    },
}

impl Side {
    /// What `flag` says.
    ///
    /// # Errors
    /// It names no provider (64).
    pub(super) fn parse(flag: &str, text: &str) -> Result<Self, Failure> {
        if text == CONFIGURED {
            return Ok(Self::Configured { fleet: None });
        }
        if let Some(fleet) = text.strip_prefix(OF_FLEET) {
            // Judged as in any other URL of a database.
            parse_uri(flag, &format!("postgres://database/database?fleet={fleet}"))?;
            return Ok(Self::Configured { fleet: Some(fleet.to_owned()) });
        }
        parse_uri(flag, text).map(Self::Uri)
    }

    /// The database in which it is, if it is in one.
    ///
    /// # Errors
    /// The URL is none that a driver could use (64), or no database is configured (78).
    pub(super) fn database(&self, config: &PartialConfig) -> Result<Option<Database>, Failure> {
        match self {
            Self::Uri(ProviderUri::Postgres(url)) => {
                url.database().map(Some).map_err(|error| Failure::usage(error.to_string()))
            }
            Self::Uri(_) => Ok(None),
            Self::Configured { .. } => configured(config).map(Some),
        }
    }

    /// Whether it is a row in a database.
    pub(super) fn is_database(&self) -> bool {
        matches!(self, Self::Uri(ProviderUri::Postgres(_)) | Self::Configured { .. })
    }

    /// The fleet that is named here.
    pub(super) fn fleet(&self) -> Option<&str> {
        match self {
            Self::Uri(ProviderUri::Postgres(url)) => url.fleet(),
            Self::Uri(_) => None,
            Self::Configured { fleet } => fleet.as_deref(),
        }
    }

    /// The provider, for the ring of `fleet` where none is named here; of the only fleet there, where none is at all.
    ///
    /// # Errors
    /// It cannot be used (64), or no database is configured (78).
    pub(super) fn open(
        &self,
        flag: &str,
        fleet: Option<&str>,
        config: &PartialConfig,
    ) -> Result<Arc<dyn SecretProvider>, Failure> {
        let named = match self {
            Self::Uri(uri) => {
                return uri.open_for(fleet).map_err(|error| Failure::usage(format!("{flag}: {error}")));
            }
            Self::Configured { fleet } => fleet,
        };
        let database = configured(config)?;
        Ok(match named.as_deref().or(fleet) {
            Some(fleet) => Arc::new(PostgresProvider::new(database, fleet)),
            None => Arc::new(PostgresProvider::of_only_fleet(database)),
        })
    }
}

/// Without a password.
impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri(uri) => uri.fmt(f),
            Self::Configured { fleet: Some(fleet) } => write!(f, "{OF_FLEET}{fleet}"),
            Self::Configured { fleet: None } => f.write_str(CONFIGURED),
        }
    }
}

fn parse_uri(flag: &str, text: &str) -> Result<ProviderUri, Failure> {
    ProviderUri::parse(text).map_err(|error| Failure::usage(format!("{flag}: {error}")))
}

fn configured(config: &PartialConfig) -> Result<Database, Failure> {
    app::database(&config.settings)?.ok_or_else(|| {
        Failure::refused("`postgres:` is the configured database, and none is configured").with_hint(
            "Set database.url, or ONESEAL__DATABASE__URL_FILE to the file that holds it; or write the whole URL, \
             postgres://…",
        )
    })
}

const CONFIGURED: &str = "postgres:";
const OF_FLEET: &str = "postgres:?fleet=";

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn the_configured_database_is_named_without_its_url() {
        for (text, fleet) in [("postgres:", None), ("postgres:?fleet=prod.example", Some("prod.example"))] {
            let side = Side::parse("--to", text).unwrap();
            assert!(matches!(side, Side::Configured { .. }), "{text}");
            assert_eq!((side.fleet(), side.to_string().as_str()), (fleet, text));
        }
        for text in ["postgres:?fleet=", "postgres:?fleet=UPPER", "postgres:?other=x", "postgres", ""] {
            assert!(Side::parse("--to", text).is_err(), "{text}");
        }
        let url = Side::parse("--from", "postgres://u:secret@h/d?fleet=f").unwrap();
        assert_eq!((url.fleet(), url.to_string().contains("secret")), (Some("f"), false));
    }
}
