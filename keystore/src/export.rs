//! A private half on its way out: only as a JWE for one named recipient, never in plain text.
//!
//! Two steps, so that whoever asks can say which key goes to whom before anything is sealed: [`open`] reads the ring and
//! judges, [`PrivateExport::seal`] seals. Between them the half is in memory that is wiped, behind a type with no other
//! door.

use std::fmt;
use std::sync::Arc;

use oneseal_providers::{Entries, SecretProvider};

use crate::keystore::KeystoreOptions;
use crate::material::PrivateKey;
use crate::place::load;
use crate::reading::{self, Opening};
use crate::ring::{self, KeyState, Mode, Origin, Reading, Ring};
use crate::seal::{self, Recipient, SealError};
use crate::{Algorithm, Findings, KeyId};

/// A key that may leave for its recipient. `Debug` shows public facts alone.
pub struct PrivateExport {
    kid: KeyId,
    algorithm: Algorithm,
    state: KeyState,
    key: PrivateKey,
    recipient: Recipient,
}

impl PrivateExport {
    /// The name of the key that leaves.
    pub fn kid(&self) -> &KeyId {
        &self.kid
    }

    /// What it signs with.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// What it is used for now.
    pub fn state(&self) -> KeyState {
        self.state
    }

    /// Its thumbprint (RFC 7638).
    pub fn thumbprint(&self) -> KeyId {
        self.key.public().thumbprint()
    }

    /// Who can open it.
    pub fn recipient(&self) -> &Recipient {
        &self.recipient
    }

    /// The private JWK, with `kid`, `alg` and `use`, as a compact JWE (RFC 7516 section 7.1) for the recipient. No two
    /// are alike.
    ///
    /// # Errors
    /// [`SealError::Failed`] if the primitive fails.
    pub fn seal(&self) -> Result<String, SealError> {
        self.recipient.seal(&self.key.expose_named_jwk(&self.kid, self.algorithm))
    }
}

impl fmt::Debug for PrivateExport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateExport({} to {})", self.kid, self.recipient.thumbprint())
    }
}

/// Reads the ring as a replica with these `options` would, and takes the private half of `kid` out for `recipient`.
/// Changes nothing. Not all of `options` count: what is served, and for how long, is not asked.
///
/// # Errors
/// The ring is not believed or does not open, has no such key or no private half of it, or the recipient is one of the
/// ring's own keys.
///
/// # Cancel safety
/// Changes nothing.
pub async fn open(
    provider: &dyn SecretProvider,
    options: &KeystoreOptions,
    kid: KeyId,
    recipient: Recipient,
) -> Result<PrivateExport, ExportError> {
    if options.mode == Mode::PublicOnly {
        return Err(ExportError::PublicOnly);
    }
    let (keks, _) = seal::load(&options.keks).await.map_err(ExportError::Unreadable)?;
    let record = load(provider).await.map_err(ExportError::Unreadable)?;
    let opening = Opening {
        passphrase: options.passphrase.clone(),
        member: options.member.clone(),
        keks,
        pin: options.pin.clone(),
        ..Opening::default()
    };
    let issuer = options.issuer.clone();
    let work = move |entries: &Entries, reading: &Reading<'_>| {
        let (ring, _) = ring::read_with(entries, &issuer, reading)?;
        Ok(take_out(ring, &kid, &recipient))
    };
    let read = reading::read(Arc::new(record), &opening, work).await;
    read.result.map_err(ExportError::Unreadable)?
}

/// Why no private half left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The ring or a key-encryption key is not fit.
    #[error("{0}")]
    Unreadable(Findings),
    /// This place opens no private half.
    #[error(
        "with ring.mode = \"public-only\" no private half is opened here: export where the replicas sign"
    )]
    PublicOnly,
    /// The ring has none of this name.
    #[error("the ring has no key of that kid")]
    NoKey,
    /// The key is only published.
    #[error("the private half of {kid} is not in the ring: it was erased, or never was here")]
    NoPrivateHalf {
        /// Which.
        kid: KeyId,
    },
    /// It is there, but nothing here opens it.
    #[error("the private half of {kid} is sealed under the KEK {kek}, which does not open it here")]
    Unopened {
        /// Which.
        kid: KeyId,
        /// The id of that KEK.
        kek: String,
    },
    /// The recipient would be the issuer itself.
    #[error(
        "the recipient {thumbprint} is, or was, a key of this ring: a key that signs is not one to encrypt to, and \
         whoever stole it would read the export. Ask the recipient for a key of their own"
    )]
    OwnKey {
        /// Thumbprint of that key.
        thumbprint: KeyId,
    },
}

fn take_out(ring: Ring, kid: &KeyId, recipient: &Recipient) -> Result<PrivateExport, ExportError> {
    let thumbprint = recipient.thumbprint();
    let is_ring_key = matches!(&ring.origin, Origin::Document { ring_key, .. } if *ring_key == thumbprint);
    let is_own = ring.keys.iter().any(|key| key.public == *recipient.public());
    if is_own || is_ring_key || ring.tombstones.contains(&thumbprint) {
        return Err(ExportError::OwnKey { thumbprint });
    }
    let found = ring.keys.into_iter().find(|key| key.kid == *kid).ok_or(ExportError::NoKey)?;
    let Some(key) = found.private else {
        let kid = found.kid;
        return Err(match found.sealed_under {
            Some(kek) => ExportError::Unopened { kid, kek },
            None => ExportError::NoPrivateHalf { kid },
        });
    };
    let recipient = recipient.clone();
    Ok(PrivateExport { kid: found.kid, algorithm: found.algorithm, state: found.state, key, recipient })
}
