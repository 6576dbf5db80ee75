//! Which key is meant: by kid, by the beginning of one, by state or algorithm.

use clap::ValueEnum;
use oneseal_keystore::Algorithm;
use oneseal_keystore::ring::KeyState;
use oneseal_keystore::snapshot::PublishedKey;

use crate::exit::{Exit, Failure};
use crate::refusals::{KEYS_NO_SUCH_KEY, KEYS_SEVERAL};

/// What is known of the key.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    /// Its kid, or a beginning that no other has.
    pub(super) kid: Option<String>,
    /// Its state.
    pub(super) state: Option<State>,
    /// Its algorithm.
    pub(super) alg: Option<Algorithm>,
}

/// A state, as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum State {
    /// Signing and published
    Active,
    /// Published, not signing yet
    Pending,
    /// Published, not signing any more
    Retiring,
}

impl From<State> for KeyState {
    fn from(state: State) -> Self {
        match state {
            State::Active => Self::Active,
            State::Pending => Self::Pending,
            State::Retiring => Self::Retiring,
        }
    }
}

impl Wanted {
    /// The one key of `keys` that is meant. A whole kid counts before the beginning of another.
    ///
    /// # Errors
    /// None is meant (1), or more than one (64); the candidates are named.
    pub(super) fn one<'a>(&self, keys: &'a [PublishedKey]) -> Result<&'a PublishedKey, Failure> {
        if self.kid.as_deref() == Some("") {
            let message = "the kid is empty, as from a variable that is not set: leave it out or name one";
            return Err(Failure::usage(message).with_hint(listed("There are", keys.iter())));
        }
        let fitting = self.among(keys);
        let whole = |key: &&&PublishedKey| Some(key.kid.as_str()) == self.kid.as_deref();
        match (fitting.iter().find(whole), fitting.as_slice()) {
            (Some(key), _) | (None, [key]) => Ok(key),
            (None, []) => Err(Failure::new(Exit::No, format!("the ring has no key {}", self.described()))
                .with_code(KEYS_NO_SUCH_KEY)
                .with_hint(listed("It has", keys.iter()))),
            (None, several) => Err(Failure::usage(format!(
                "{} keys fit: name one by its kid, or by more of its beginning",
                several.len()
            ))
            .with_code(KEYS_SEVERAL)
            .with_hint(listed("They are", several.iter().copied()))),
        }
    }

    fn among<'a>(&self, keys: &'a [PublishedKey]) -> Vec<&'a PublishedKey> {
        let fits = |key: &&PublishedKey| {
            self.kid.as_ref().is_none_or(|kid| key.kid.as_str().starts_with(kid.as_str()))
                && self.state.is_none_or(|state| key.state == state.into())
                && self.alg.is_none_or(|alg| key.algorithm == alg)
        };
        keys.iter().filter(fits).collect()
    }

    /// A kid is repeated only if it looks like one: a key may have been pasted.
    fn described(&self) -> String {
        let mut parts = Vec::new();
        if let Some(kid) = &self.kid {
            let is_kid = kid.len() <= LONGEST_SHOWN && kid.chars().all(is_of_thumbprint);
            parts.push(if is_kid {
                format!("whose kid begins with {kid}")
            } else {
                "of that kid".to_owned()
            });
        }
        parts.extend(self.state.map(|state| format!("that is {}", KeyState::from(state).as_str())));
        parts.extend(self.alg.map(|alg| format!("for {alg}")));
        parts.join(" and ")
    }
}

/// The keys, a line each.
pub(super) fn listed<'a>(begin: &str, keys: impl Iterator<Item = &'a PublishedKey>) -> String {
    let lines = keys.map(|key| {
        let (kid, alg, state) = (&key.kid, key.algorithm.as_str(), key.state.as_str());
        format!("\n  {kid}  {alg:<5}  {state}")
    });
    format!("{begin}:{}", lines.collect::<String>())
}

fn is_of_thumbprint(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_')
}

/// As long as a thumbprint.
const LONGEST_SHOWN: usize = 43;
