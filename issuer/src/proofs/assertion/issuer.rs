//! One that signs assertions: what it is called, how its assertions are told from others', where its keys are.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use oneseal_coordination::{Clock, SystemClock};
use oneseal_keystore::findings::{Findings, chain};
use oneseal_keystore::{Algorithm, IssuerUrl};
use oneseal_relying_party::{AudienceForm, Builder as Verifier, RelyingParty};

use super::codes::*;
use super::{LONGEST_LIFE, REQUIRED, TYPES};
use crate::proofs::key_file::KeyFile;

/// Somebody who signs assertions, and where their keys are. Only the name and the issuer cannot be defaulted.
///
/// # Defaults
/// The keys that the discovery of its issuer leads to; RS256; 5 s for a fetch; the system's roots and clock; no proxy.
#[derive(Clone, Debug)]
#[must_use]
pub struct AssertionIssuer {
    pub(super) name: String,
    pub(super) issuer: String,
    keys: Keys,
    algorithms: Vec<Algorithm>,
    root_certificate_file: Option<PathBuf>,
    proxy: Option<String>,
    timeout: Duration,
    pub(super) clock: Arc<dyn Clock>,
}

#[derive(Clone, Debug)]
enum Keys {
    Discovery,
    Uri(String),
    File(PathBuf),
    Given(Bytes),
}

impl AssertionIssuer {
    /// For fetching its keys.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

    /// `name` is what rules and logs call it, `issuer` the `iss` of its assertions, byte for byte.
    pub fn new(name: impl Into<String>, issuer: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            issuer: issuer.into(),
            keys: Keys::Discovery,
            algorithms: vec![Algorithm::Rs256],
            root_certificate_file: None,
            proxy: None,
            timeout: Self::DEFAULT_TIMEOUT,
            clock: Arc::new(SystemClock),
        }
    }

    /// Reads its keys at `uri`, https or on loopback.
    pub fn jwks_uri(mut self, uri: impl Into<String>) -> Self {
        self.keys = Keys::Uri(uri.into());
        self
    }

    /// Its keys are those of the JWKS in this file, which is looked at again every 15 s as long as assertions come, and at
    /// once for one that names a key it does not have. While it cannot be read, what it held last is believed.
    pub fn jwks_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.keys = Keys::File(path.into());
        self
    }

    /// Its keys are those of this JWKS, for ever.
    pub fn jwks(mut self, jwks: impl Into<Bytes>) -> Self {
        self.keys = Keys::Given(jwks.into());
        self
    }

    /// What its assertions may be signed with.
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }

    /// Trusts the PEM certificates in this file alone where keys are fetched, and reads it again when it changes.
    pub fn root_certificate_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.root_certificate_file = Some(path.into());
        self
    }

    /// Fetches its keys through this HTTP proxy, such as `http://proxy.example:3128`.
    pub fn proxy(mut self, url: impl Into<String>) -> Self {
        self.proxy = Some(url.into());
        self
    }

    /// How long fetching its keys may take.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Where the time comes from.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// What verifies its assertions for `own`; what is wrong with it goes into `findings`.
    pub(super) fn verifier(&self, own: &IssuerUrl, findings: &mut Findings) -> Option<Verifying> {
        let place = place_of(&self.name);
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if !(1..=64).contains(&self.name.len()) || !self.name.bytes().all(is_letter) {
            findings.push(&ASSERTION_MALFORMED, place.as_str(), "its name is none");
        }
        let issuer = match IssuerUrl::parse(&self.issuer, &place) {
            Ok(issuer) => issuer,
            Err(found) => {
                let why: Vec<_> = found.iter().map(|finding| finding.message.as_str()).collect();
                findings.push(&ASSERTION_ISSUER, place, why.join("; "));
                return None;
            }
        };
        if &issuer == own {
            findings.push(&ASSERTION_OWN_ISSUER, place, "its issuer is this one");
            return None;
        }
        match self.build(issuer, own) {
            Ok(verifier) => {
                Some(Verifying { name: self.name.clone(), issuer: self.issuer.clone(), verifier })
            }
            Err(why) => {
                findings.push(&ASSERTION_KEYS, place, why);
                None
            }
        }
    }

    fn build(&self, issuer: IssuerUrl, own: &IssuerUrl) -> Result<RelyingParty, String> {
        let mut verifier: Verifier = RelyingParty::builder(issuer)
            .audience(own.as_str())
            .sole_audience(AudienceForm::OnlyString)
            .types(TYPES)
            .require(REQUIRED)
            .max_lifetime(LONGEST_LIFE)
            .algorithms(self.algorithms.iter().copied())
            .fetch_deadline(self.timeout)
            .clock(Arc::clone(&self.clock));
        verifier = match &self.keys {
            Keys::Discovery => verifier,
            Keys::Uri(uri) => verifier.jwks_uri(uri),
            Keys::Given(jwks) => verifier.jwks(jwks.clone()),
            Keys::File(path) => {
                let file = KeyFile::new(path.clone());
                // What is no key set at the start is refused by name; later the last good one stays.
                let judged = RelyingParty::builder(own.clone()).audience(own.as_str());
                let judged =
                    judged.algorithms(self.algorithms.iter().copied()).jwks(file.read_now()?).build();
                judged.map_err(|error| format!("{}: {}", path.display(), chain(&error)))?;
                verifier.keys_from(Arc::new(file))
            }
        };
        if let Some(path) = &self.root_certificate_file {
            verifier = verifier.root_certificate_file(path).only_these_roots();
        }
        if let Some(proxy) = &self.proxy {
            verifier = verifier.proxy(proxy);
        }
        verifier.build().map_err(|error| chain(&error))
    }
}

/// One whose assertions can be verified.
pub(super) struct Verifying {
    pub(super) name: String,
    pub(super) issuer: String,
    pub(super) verifier: RelyingParty,
}

impl fmt::Debug for Verifying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifying")
            .field("name", &self.name)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

/// Where a finding about it is.
pub(super) fn place_of(name: &str) -> String {
    format!("assertion_issuer {}", name.escape_debug())
}
