//! What is to be done with a ring here and perhaps one there: decided from what both say, without asking anybody.

use std::collections::BTreeSet;

use super::held::Held;

/// What migration comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Nothing is there: write it.
    Create,
    /// An earlier revision of the same ring is there: replace it, if it still is the same then.
    Raise {
        /// The revision that is there.
        from: u64,
    },
    /// The same bytes are there already.
    Skip,
    /// Something else is there, and it stays.
    Conflict(String),
}

/// Decides. A ring is never replaced by one that does not continue it: which of the two is right only a person knows.
pub(super) fn decide(source: &Held, target: Option<&Held>) -> Step {
    let Some(target) = target else { return Step::Create };
    if source.document == target.document {
        return Step::Skip;
    }
    let there = &target.head;
    if source.head.issuer != there.issuer {
        return Step::Conflict(format!("a ring of another issuer is there, of {}", there.issuer));
    }
    if source.head.incarnation != there.incarnation {
        return Step::Conflict(format!(
            "a ring of another life is there, incarnation {}",
            there.incarnation.number
        ));
    }
    if continues(source, target) {
        return Step::Raise { from: there.revision };
    }
    if continues(target, source) {
        return Step::Conflict(format!("a later revision of the ring is there, revision {}", there.revision));
    }
    Step::Conflict(format!(
        "another ring is there, revision {}, which this one does not continue",
        there.revision
    ))
}

/// Whether `later` has the last change of `earlier` in its own log, which is a chain: then all before it is the same.
fn continues(later: &Held, earlier: &Held) -> bool {
    let known: BTreeSet<_> = later.head.log.iter().map(|entry| &entry.hash).collect();
    let last = earlier.head.log.last();
    later.head.revision > earlier.head.revision && last.is_some_and(|entry| known.contains(&entry.hash))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::migrate::held::tests::held;

    #[test]
    fn each_pair_has_its_step() {
        let here = held("https://i.example", 1, 5, &["a", "b", "c"]);
        for (there, wanted) in [
            (held("https://i.example", 1, 5, &["a", "b", "c"]), Step::Skip),
            (held("https://i.example", 1, 3, &["a", "b"]), Step::Raise { from: 3 }),
            (held("https://other.example", 1, 3, &["a"]), conflict("another issuer")),
            (held("https://i.example", 2, 1, &["a"]), conflict("another life")),
            (held("https://i.example", 1, 6, &["b", "c", "d"]), conflict("a later revision")),
            (held("https://i.example", 1, 4, &["a", "x"]), conflict("does not continue")),
            (held("https://i.example", 1, 5, &["a", "b", "x"]), conflict("does not continue")),
            (held("https://i.example", 1, 3, &[]), conflict("does not continue")),
        ] {
            let step = decide(&here, Some(&there));
            match (&step, &wanted) {
                (Step::Conflict(why), Step::Conflict(part)) => assert!(why.contains(part.as_str()), "{why}"),
                _ => assert_eq!(step, wanted),
            }
        }
        assert_eq!(decide(&here, None), Step::Create);
    }

    fn conflict(part: &str) -> Step {
        Step::Conflict(part.to_owned())
    }
}
