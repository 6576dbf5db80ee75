//! From a provider's record to what is made of it: off the async workers, and with the passphrase where a key wants
//! one.
//!
//! Judging an RSA key takes milliseconds, deriving from a passphrase up to a second, so the work runs on the
//! runtime's blocking threads, which a current-thread runtime has as well. A future that is dropped lets the work
//! end by itself: it is bounded, and changes nothing.
//!
//! The passphrase is asked for when a key turns out to be encrypted, and again for each new record: key and
//! passphrase may change together, and a passphrase that is not kept cannot leak.

use std::sync::Arc;

use oneseal_providers::{Description, Entries, Record, SecretProvider};

use crate::codes::PROVIDER_MALFORMED;
use crate::findings::Finding;
use crate::material::{ENCRYPTED, Passphrase};
use crate::place::{advised, judge_advice, load, only_value};
use crate::ring::{Mode, Reading};
use crate::seal::Keks;
use crate::{Findings, KeyId, Snapshot};

/// How the records of a provider are read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opening {
    /// Where the passphrase rests.
    pub(crate) passphrase: Option<Arc<dyn SecretProvider>>,
    /// The member that holds the key.
    pub(crate) member: Option<String>,
    /// What opens sealed halves.
    pub(crate) keks: Keks,
    /// The ring key that is believed.
    pub(crate) pin: Option<KeyId>,
    /// Whether private halves are opened.
    pub(crate) mode: Mode,
    /// Whether what is not sealed is believed all the same.
    pub(crate) believe_unsealed: bool,
    /// What is served now.
    pub(crate) known: Option<Arc<Snapshot>>,
}

impl Opening {
    fn reading<'a>(&'a self, passphrase: Option<&'a Passphrase>) -> Reading<'a> {
        Reading {
            passphrase,
            member: self.member.as_deref(),
            keks: Some(&self.keks),
            pin: self.pin.as_ref(),
            mode: self.mode,
            danger_believe_unsealed: self.believe_unsealed,
            known: self.known.as_deref(),
        }
    }
}

/// What was made of a record.
#[derive(Debug)]
pub(crate) struct Read<T> {
    pub(crate) result: Result<T, Findings>,
    /// Whether a key was encrypted, and the passphrase therefore asked for.
    pub(crate) asked_passphrase: bool,
}

/// Runs `work` on the record, and once more with the passphrase if it says that a key is encrypted.
pub(crate) async fn read<T: Send + 'static>(
    record: Arc<Record>,
    opening: &Opening,
    work: impl Fn(&Entries, &Reading<'_>) -> Result<T, Findings> + Send + Sync + 'static,
) -> Read<T> {
    let job = Arc::new((record, work, opening.clone()));
    let run = async |passphrase: Option<Passphrase>| {
        let job = Arc::clone(&job);
        let work = move || {
            let (record, work, opening) = &*job;
            work(&record.entries, &opening.reading(passphrase.as_ref()))
        };
        off_worker(work).await
    };
    let found = match run(None).await {
        Err(found) if found.contains(&ENCRYPTED) => found,
        result => return Read { result, asked_passphrase: false },
    };
    let Some(provider) = &opening.passphrase else {
        return Read { result: Err(found), asked_passphrase: false };
    };
    let result = match passphrase(&**provider).await {
        Ok(passphrase) => run(Some(passphrase)).await,
        // That no passphrase was given is not the fault: it could not be had.
        Err(faults) => Err(without(&found, ENCRYPTED.name, faults)),
    };
    Read { result, asked_passphrase: true }
}

impl Passphrase {
    /// Loads one from its provider: the only entry, or of several the one called `passphrase`.
    ///
    /// # Errors
    /// Each fault as a finding at the place `passphrase`.
    ///
    /// # Cancel safety
    /// Changes nothing.
    pub async fn load(provider: &dyn SecretProvider) -> Result<Self, Findings> {
        passphrase(provider).await
    }
}

/// Loads the passphrase; every fault is told as one of the place `passphrase`.
pub(crate) async fn passphrase(provider: &dyn SecretProvider) -> Result<Passphrase, Findings> {
    let description = provider.describe();
    let record = load(provider)
        .await
        .map_err(|found| at_passphrase(&advised(&found, WHERE_TO_PUT_A_PASSPHRASE), &description))?;
    let mut findings = Findings::new();
    let place = place(&description);
    let Some(value) = only_value(&record.entries, "passphrase") else {
        let names: Vec<_> = record.entries.iter().map(|(name, _)| name).collect();
        let message = format!(
            "a passphrase is one file, and this is a directory of several, none called passphrase: {}; name the \
                     file itself",
            names.join(", ")
        );
        findings.push(&PROVIDER_MALFORMED, place, message);
        return Err(findings);
    };
    Passphrase::read(value).map_err(|error| {
        findings.push(error.code(), place, error.to_string());
        findings
    })
}

/// What can be said of the passphrase's place before it is read. That it may lie in memory is no fault: whoever
/// starts the process hands it over each time.
pub(crate) fn judge_passphrase_place(provider: &dyn SecretProvider) -> Findings {
    let description = provider.describe();
    at_passphrase(&judge_advice(&description), &description)
}

/// Where findings about a passphrase are.
pub(crate) fn place(description: &Description) -> String {
    format!("passphrase ({}:{})", description.kind, description.location)
}

const WHERE_TO_PUT_A_PASSPHRASE: &str = "put the passphrase there, or correct provider.passphrase";

fn at_passphrase(found: &Findings, description: &Description) -> Findings {
    let mut moved = Findings::new();
    for Finding { code, message, .. } in found.iter() {
        moved.push(code, place(description), message.clone());
    }
    moved
}

fn without(found: &Findings, code: &str, mut rest: Findings) -> Findings {
    for finding in found.iter().filter(|finding| finding.code.name != code) {
        rest.push(finding.code, finding.place.clone(), finding.message.clone());
    }
    rest
}

/// Runs `work` on a blocking thread; a panic in it goes on here.
pub(crate) async fn off_worker<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is being shut down, and this future with it.
            Err(_) => std::future::pending().await,
        },
    }
}
