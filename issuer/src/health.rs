//! How an issuer is doing, for readiness probes and status pages.

use std::time::Duration;

use oneseal_keystore::{Algorithm, Identity, Keystore, Mode};

use crate::error::MintError;
use crate::mint::no_signer;
use crate::published::Live;

/// How an issuer is doing at one moment. Publishing and verifying always work from memory; what may stop is minting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether tokens are minted, and if not, why.
    pub minting: Minting,
    /// Which ring revision is served.
    pub identity: Identity,
    /// Time since the last good look at the provider began.
    pub age: Duration,
    /// The age past which minting stops; `None` for providers that are read once.
    pub staleness_limit: Option<Duration>,
}

/// Whether tokens are minted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Minting {
    /// They are.
    On,
    /// `Tasks::run` is not running.
    TasksNotRunning,
    /// The provider was last read too long ago.
    Stale,
    /// This host's clock differs from the reference by more than the ring's `skew`.
    ClockSkewed,
    /// This replica is `public-only`: it publishes and verifies alone.
    PublicOnly,
    /// No key is active for the default algorithm.
    NoKey(Algorithm),
    /// The key of the default algorithm was burned, and the key in its place does not sign yet.
    Emergency,
}

impl Minting {
    /// Whether tokens are minted.
    pub fn is_on(self) -> bool {
        self == Self::On
    }

    /// A word for reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::TasksNotRunning => "tasks_not_running",
            Self::Stale => "stale",
            Self::ClockSkewed => "clock_skewed",
            Self::PublicOnly => "public_only",
            Self::NoKey(_) => "no_key",
            Self::Emergency => "emergency",
        }
    }
}

/// Reads an issuer whose default algorithm is `algorithm`.
pub(crate) fn read(live: &Live, keystore: &Keystore, algorithm: Algorithm) -> Health {
    let freshness = keystore.freshness();
    let published = live.published();
    let minting = if published.snapshot.mode() == Mode::PublicOnly {
        Minting::PublicOnly
    } else if !live.are_tasks_running() {
        Minting::TasksNotRunning
    } else if freshness.is_stale() {
        Minting::Stale
    } else if live.reference().is_off(published.snapshot.rotation()) {
        Minting::ClockSkewed
    } else if published.snapshot.signer(algorithm).is_none() {
        match no_signer(&published.snapshot, algorithm) {
            MintError::Emergency { .. } => Minting::Emergency,
            _ => Minting::NoKey(algorithm),
        }
    } else {
        Minting::On
    };
    Health {
        minting,
        identity: *published.snapshot.identity(),
        age: freshness.age,
        staleness_limit: freshness.limit,
    }
}
