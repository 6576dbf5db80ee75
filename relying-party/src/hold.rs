//! A key that is missing from one read is held until a second read lacks it too.
//!
//! During a rollout the replicas of an issuer, or the caches before it, answer with different sets for a while; who
//! believes each answer loses live keys in turn. Keeping every key that was ever seen would be no way out: a key that
//! its issuer has removed, after a theft for one, must end within a bound. So a missing key is held for [`HELD_FOR`] at
//! most, and the next read comes after [`SECOND_LOOK`] instead of `max-age`.
//!
//! Only absence is doubted. A `kid` that stands in the new document, be it with another key, with a private half or
//! twice, is as the document says, at once. Keys without `kid` are never held: a token without `kid` wants exactly one
//! key that fits, and a predecessor beside it would make two.

use std::sync::Arc;
use std::time::Duration;

use oneseal_coordination::BootTime;

use crate::cache::SHORTEST_REFRESH;
use crate::keyset::{Held, KeySet};

/// A named key that the last read did not have.
#[derive(Clone, Debug)]
pub(crate) struct HeldOver {
    pub(crate) key: Arc<Held>,
    /// When the first read without it began.
    missing_since: BootTime,
}

impl HeldOver {
    pub(crate) fn is_over(&self, now: BootTime) -> bool {
        now.since(self.missing_since) >= HELD_FOR
    }
}

impl KeySet {
    /// This set, read at `read_at`, as the successor of another.
    pub(crate) fn after(mut self, before: &Self, read_at: BootTime) -> Self {
        let missing_now = before.named_keys().map(|key| (key, read_at));
        let still_missing = before.held_over().iter().map(|held| (&held.key, held.missing_since));
        let held: Vec<HeldOver> = missing_now
            .chain(still_missing)
            .filter(|(key, since)| !self.mentions(key.kid().as_str()) && !is_confirmed(*since, read_at))
            .map(|(key, missing_since)| HeldOver { key: Arc::clone(key), missing_since })
            .collect();
        self.hold_over(held);
        self
    }
}

/// Whether a read at `read_at` is the second that counts, for a key that the first one missed at `since`.
fn is_confirmed(since: BootTime, read_at: BootTime) -> bool {
    read_at.since(since) >= SECOND_LOOK
}

/// From the read that missed a key to the one that is believed: a rollout's next replica, or a cache's next answer.
const SECOND_LOOK: Duration = SHORTEST_REFRESH;
/// The bound, also where no second read succeeds: whoever can keep an issuer from being read must not keep a key that
/// it has removed.
pub(crate) const HELD_FOR: Duration = SECOND_LOOK.saturating_mul(2);

#[cfg(test)]
mod tests {
    use oneseal_keystore::Algorithm;
    use oneseal_keystore::verify::UnverifiedJws;

    use super::*;

    const EC1: &str = r#""kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0""#;
    const ED1: &str = r#""kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo""#;

    fn at(seconds: u64) -> BootTime {
        BootTime(Duration::from_secs(seconds))
    }

    fn set(entries: &[(&str, &str)]) -> KeySet {
        let entries: Vec<String> = entries.iter().map(|(key, rest)| format!("{{{key}{rest}}}")).collect();
        KeySet::read(format!(r#"{{"keys":[{}]}}"#, entries.join(",")).as_bytes(), &Algorithm::ALL)
            .expect("usable")
    }

    const A: (&str, &str) = (EC1, r#","kid":"a""#);
    const B: (&str, &str) = (ED1, r#","kid":"b""#);

    #[test]
    fn a_key_that_two_reads_lack_is_gone_and_one_that_comes_back_is_not() {
        let first = set(&[A, B]).after(&set(&[A, B]), at(0));
        assert!(first.held_over().is_empty());
        let lacking = set(&[B]).after(&first, at(300));
        assert_eq!(
            [lacking.has("a", at(300)), lacking.has("a", at(359)), lacking.has("a", at(360))],
            [true, true, false]
        );
        // Too soon to count as a second look, as often as it comes.
        let again = set(&[B]).after(&set(&[B]).after(&lacking, at(301)), at(329));
        assert!(again.has("a", at(359)) && !again.has("a", at(360)), "the time counts from the first read");
        let back = set(&[A]).after(&again, at(330));
        assert_eq!(
            (back.has("a", at(9_999)), back.has("b", at(330)), back.held_over().len()),
            (true, true, 1)
        );
        let gone = set(&[B]).after(&lacking, at(330));
        assert!(!gone.has("a", at(330)) && gone.held_over().is_empty());
    }

    #[test]
    fn what_the_document_says_of_a_kid_counts_at_once() {
        let before = set(&[A, B]);
        for other in [
            (ED1, r#","kid":"a""#),
            (EC1, r#","kid":"a","d":"AA""#),
            (EC1, r#","kid":"a","use":"enc""#),
            (r#""kty":"AKP""#, r#","kid":"a""#),
            (r#""kty":"oct","k":"AA""#, r#","kid":"a""#),
        ] {
            let merged = set(&[other, B]).after(&before, at(0));
            assert!(merged.held_over().is_empty(), "{other:?}");
        }
        let twice = set(&[A, (ED1, r#","kid":"a""#), B]).after(&before, at(0));
        assert!(!twice.has("a", at(0)));
    }

    #[test]
    fn a_token_without_kid_is_judged_by_what_was_read_alone() {
        let header = "eyJhbGciOiJFUzI1NiJ9"; // {"alg":"ES256"}
        let token = format!("{header}.e30.AA");
        let jws = UnverifiedJws::parse(&token).expect("a form");
        let before = set(&[A, (EC1, "")]);
        let merged = set(&[(EC1, r#","kid":"c""#)]).after(&before, at(0));
        assert_eq!(merged.held_over().len(), 1, "the nameless one is not held");
        assert_eq!(merged.choose(&jws, at(0)).map(|verifier| verifier.kid().as_str()), Ok("c"));
    }

    #[test]
    fn what_is_held_over_is_bounded_however_sets_alternate() {
        let mut held = set(&[A]);
        for round in 0..1_000 {
            let kid = format!(r#","kid":"k{round}""#);
            held = set(&[(ED1, &kid)]).after(&held, at(round));
            assert!(held.held_over().len() <= SECOND_LOOK.as_secs() as usize, "{round}");
        }
    }
}
