//! An algorithm that comes later, and a relying party that chooses its algorithms itself and was made before.
//!
//! When it is made, discovery lists RS256 and ES256, and there is a key for RS256 alone. Then the replicas come back
//! with ES384 in their configuration too, and both get a key. What it has read once, and from where, shows in what it
//! takes of the two.

use futures_util::future::join_all;
use oneseal::Algorithm;
use oneseal_tests::state;

use crate::adaptor::{Adaptor, Verdict};
use crate::libraries::{Late, Library};
use crate::long_lived::{added, fleet, started, tell, wanted};

#[tokio::test]
async fn an_algorithm_that_comes_later_is_taken_as_its_row_says_and_by_all_when_made_anew() {
    let mut parties = started().await;
    let Some(mut fleet) = fleet().await else { return };
    let first = fleet.replicas[0].mint(&wanted("RS256")).await;
    for (library, adaptor) in &mut parties {
        adaptor.configure(fleet.issuer.as_str(), None).await;
        assert!(adaptor.verify(&first).await.is_accepted(), "{}: a token of the first key", library.name);
    }
    fleet.announce(Algorithm::Es384).await;
    let before = added(&fleet, Algorithm::Es256).await;
    let since = added(&fleet, Algorithm::Es384).await;
    join_all(parties.iter_mut().map(async |(library, adaptor)| {
        comes_out(library, adaptor, &before, library.later.listed_before).await;
        comes_out(library, adaptor, &since, library.later.listed_since).await;
        tell(&format!("{}: {:?}", library.name, library.later));
        adaptor.configure(fleet.issuer.as_str(), None).await;
        for token in [&first, &before, &since] {
            let verdict = adaptor.verify(token).await;
            assert!(verdict.is_accepted(), "{}, made anew: {verdict:?}", library.name);
        }
    }))
    .await;
}

/// Shows `token` until the verdict is the one that stays: a cooldown refuses by another name, until it ends.
async fn comes_out(library: &Library, adaptor: &mut Adaptor, token: &str, late: Late) {
    let what = format!("{}: {late:?}", library.name);
    state::until(&what, async || match (adaptor.verify(token).await, late) {
        (Verdict::Accepted(_), Late::Taken) => Some(()),
        (Verdict::Accepted(claims), Late::Refused(_)) => panic!("{what}, but it accepts {claims}"),
        (Verdict::Refused(error, _), Late::Refused(name)) => (error == name).then_some(()),
        (Verdict::Refused(..), Late::Taken) => None,
    })
    .await;
}
