//! The most talkative server there is sees sealed text and nothing else.

use oneseal_providers::{Entries, ErrorKind, SecretProvider};
use oneseal_testing::parts::{Postgres, PostgresOptions};
use oneseal_testing::{Canary, block_on};

use crate::place::{change, migrated, provider, ring};

#[test]
fn a_server_that_logs_every_statement_and_parameter_logs_no_private_half() {
    let settings = [
        ("log_statement", "'all'"),
        ("log_parameter_max_length", "-1"),
        ("log_parameter_max_length_on_error", "-1"),
        ("log_min_duration_statement", "0"),
        ("log_min_messages", "debug1"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let Some(server) = Postgres::start(PostgresOptions { settings, ..PostgresOptions::default() }) else {
        return;
    };
    let database = migrated(&server);
    let provider = provider(&database.url());
    let (plain, sealed) = (Canary::random(), Canary::random());
    block_on(async {
        let at = provider.create(ring(1, "eyJ"), change()).await.unwrap();
        for document in [
            plain.text().to_owned(),
            format!(r#"{{"format":1,"keys":[{{"private":{{"kty":"OKP","d":"{}"}}}}]}}"#, plain.text()),
        ] {
            let entries = || Entries::single(Entries::KEYRING, document.clone());
            for refused in
                [provider.create(entries(), change()).await, provider.replace(&at, entries(), change()).await]
            {
                let refused = refused.unwrap_err();
                assert!(matches!(refused.kind(), ErrorKind::Unsealed | ErrorKind::Malformed), "{refused}");
                plain.assert_absent("the error", &format!("{refused} {refused:?}"));
            }
        }
        provider.replace(&at, ring(2, sealed.text()), change()).await.unwrap();
    });
    let log = server.log_text();
    plain.assert_absent("the server's log", &log);
    assert!(sealed.found_in(&log).is_some(), "this server does log what it is sent");
    let history = database.execute("SELECT * FROM oneseal.ring_history");
    assert!(sealed.found_in(&history).is_none() && history.contains("revision"), "{history}");
}
