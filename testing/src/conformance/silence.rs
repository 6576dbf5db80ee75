//! No secret byte in any text.

use std::error::Error;
use std::fmt::Write;

use oneseal_providers::{Entries, ProviderError, Revision, SecretProvider};
use uuid::Uuid;

use super::{ProviderFixture, change, value};
use crate::Canary;

/// Whatever is printed of provider, record and errors, the values are not in it.
pub async fn secrets_stay_secret(fixture: &dyn ProviderFixture) {
    let canary = Canary::random();
    fixture.put(holding(fixture, &canary, 1)).await;
    let provider = fixture.provider();
    let record = provider.load().await.expect("the record is there");
    let put = value(fixture, canary.text());
    assert!(
        record.entries.iter().any(|(_, value)| value.expose() == put.as_bytes()),
        "the canary is in place"
    );

    canary.assert_absent("the record's Debug", &format!("{record:?} {record:#?} {}", record.revision));
    canary.assert_absent("the provider's Debug", &format!("{provider:?} {provider:#?}"));
    canary.assert_absent("the description", &format!("{:?}", provider.describe()));
    let refusals = refusals(fixture, provider.as_ref(), &canary).await;
    assert!(!refusals.is_empty(), "every provider refuses something");
    for error in refusals {
        canary.assert_absent("an error", &told(&error));
    }
}

/// Errors of writes that carry the canary.
async fn refusals(
    fixture: &dyn ProviderFixture,
    provider: &dyn SecretProvider,
    canary: &Canary,
) -> Vec<ProviderError> {
    let elsewhere = Revision::new("another revision");
    let too_many = provider.describe().max_bytes / canary.bytes().len() + 1;
    let outcomes = [
        provider.create(holding(fixture, canary, 1), change(Uuid::new_v4())).await,
        provider.replace(&elsewhere, holding(fixture, canary, 2), change(Uuid::new_v4())).await,
        provider.replace(&elsewhere, holding(fixture, canary, too_many), change(Uuid::new_v4())).await,
        provider
            .replace(
                &elsewhere,
                Entries::single("../up", value(fixture, canary.text())),
                change(Uuid::new_v4()),
            )
            .await,
    ];
    outcomes.into_iter().filter_map(Result::err).collect()
}

fn holding(fixture: &dyn ProviderFixture, canary: &Canary, times: usize) -> Entries {
    let name = fixture.capabilities().only_name.unwrap_or(Entries::KEYRING);
    Entries::single(name, value(fixture, &canary.text().repeat(times)))
}

/// All that an error and its causes say.
fn told(error: &ProviderError) -> String {
    let mut text = format!("{error} {error:?} {error:#?} {} {}", error.location(), error.detail());
    let mut cause = error.source();
    while let Some(error) = cause {
        let _ = write!(text, " {error} {error:?}");
        cause = error.source();
    }
    text
}
