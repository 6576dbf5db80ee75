//! What is in the row and its history after a write, and what a write never leaves behind.

use oneseal_coordination::events::{Before, EVERY, plan_prune, prune};
use oneseal_coordination::{EventDraft, FenceToken};
use oneseal_providers::{Change, Entries, ErrorKind, PostgresProvider, SecretProvider};
use oneseal_testing::block_on;
use oneseal_testing::parts::Postgres;
use uuid::Uuid;

use crate::place::{FLEET, change, change_of, connect, migrated, provider, ring};

#[test]
fn history_has_every_revision_and_no_private_half() {
    let Some(server) = Postgres::shared() else { return };
    let database = migrated(server);
    let provider = provider(&database.url());
    block_on(async {
        let first = provider.create(ring(1, "eyJ-first"), change()).await.unwrap();
        let second = provider.replace(&first, ring(2, "eyJ-second"), change()).await.unwrap();
        let late = provider.replace(&first, ring(3, "eyJ-third"), change()).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Conflict);
        assert_ne!(first, second);
    });
    let rows = database.execute(
        "SELECT fleet, incarnation, revision, digest = encode(sha256(convert_to(public_document, 'UTF8')), 'hex'), \
         written_by, public_document FROM oneseal.ring_history ORDER BY id",
    );
    let public = |revision: u32| {
        format!(
            r#"{{"format":1,"incarnation":{{"id":"x","number":1}},"issuer":"https://oidc.example.com","keys":[{{"kid":"a"}}],"revision":{revision}}}"#
        )
    };
    let row = |revision| format!("{FLEET}|1|{revision}|f|test|{}", public(revision));
    assert_eq!(rows, [row(1), row(2)].join("\n"));
    let same = "SELECT count(*) FROM oneseal.rings JOIN oneseal.ring_history USING (fleet, revision, digest, change_id)";
    assert_eq!(database.execute(same), "1", "the row is at the last of them");
}

#[test]
fn a_change_is_written_once_however_long_ago_that_was() {
    let Some(server) = Postgres::shared() else { return };
    let database = migrated(server);
    let provider = provider(&database.url());
    block_on(async {
        let once = change();
        let at = provider.create(ring(1, "eyJ"), change()).await.unwrap();
        let before = at.clone();
        let at = provider.replace(&at, ring(2, "eyJ"), once.clone()).await.unwrap();
        // Who has the same order in hand at the same time is told to look, and finds it.
        let same = provider.replace(&before, ring(2, "eyJ"), once.clone()).await.unwrap_err();
        assert_eq!(same.kind(), ErrorKind::Conflict, "{same}");
        let at = provider.replace(&at, ring(3, "eyJ"), change()).await.unwrap();
        // It is found out without a write too, and then nothing is left of that.
        let tried = provider.rehearse(&at, ring(4, "eyJ"), once.clone()).await.unwrap_err();
        assert_eq!(tried.kind(), ErrorKind::ChangeIdUsed, "{tried}");
        provider.rehearse(&at, ring(4, "eyJ"), change()).await.unwrap();
        let again = provider.replace(&at, ring(4, "eyJ"), once).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::ChangeIdUsed, "{again}");
        assert!(again.detail().ends_with("as revision 2"), "{again}");
        assert_eq!(provider.load().await.unwrap().revision, at, "nothing was written");
    });
}

#[test]
fn the_event_is_there_with_the_row_or_neither_is() {
    let Some(server) = Postgres::shared() else { return };
    let database = migrated(server);
    let provider = provider(&database.url());
    let telling = |kind: &str, payload: &str| Change { event: EventDraft::new(kind, payload), ..change() };
    block_on(async {
        let refused = provider.create(ring(1, "eyJ"), telling("ring.created", "no JSON")).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Malformed, "{refused}");
        assert_eq!(provider.load().await.unwrap_err().kind(), ErrorKind::NotFound);

        let at = provider.create(ring(1, "eyJ"), telling("ring.created", r#"{"revision":1}"#)).await.unwrap();
        let second = telling("key.activated", r#"{"kid":"a"}"#);
        provider.replace(&at, ring(2, "eyJ"), second.clone()).await.unwrap();
        let late = provider.replace(&at, ring(3, "eyJ"), second).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Conflict);

        database.execute("DELETE FROM oneseal.event_head");
        let at = provider.load().await.unwrap().revision;
        let headless = provider.replace(&at, ring(3, "eyJ"), telling("key.retired", "{}")).await.unwrap_err();
        assert!(headless.to_string().contains("event_head"), "{headless}");
        assert_eq!(provider.load().await.unwrap().revision, at);
    });
    // The first write of a ring leaves its checkpoint besides.
    let events = database.execute(
        "SELECT seq, kind, actor, issuer, payload FROM oneseal.events WHERE kind <> 'ring.checkpoint' ORDER BY seq",
    );
    let wanted = [
        r#"1|ring.created|test|https://oidc.example.com|{"revision":1}"#,
        r#"3|key.activated|test|https://oidc.example.com|{"kid":"a"}"#,
    ];
    assert_eq!(events, wanted.join("\n"));
}

#[test]
fn a_ring_leaves_a_checkpoint_first_and_after_many_events() {
    let Some(server) = Postgres::shared() else { return };
    let database = migrated(server);
    let provider = provider(&database.url());
    block_on(async {
        let at = provider.create(ring(1, "eyJ-secret"), change()).await.unwrap();
        let at = provider.replace(&at, ring(2, "eyJ-secret"), change()).await.unwrap();
        database.execute(&format!(
            "UPDATE oneseal.events SET seq = {0} WHERE seq = 3; UPDATE oneseal.event_head SET seq = {0}",
            EVERY + 3
        ));
        provider.replace(&at, ring(3, "eyJ-secret"), change()).await.unwrap();
    });
    let checkpoints = "SELECT seq, actor, issuer, payload::json -> 'revision', payload::json ->> 'document_sha256' = digest, \
         payload::json -> 'document' ->> 'revision', payload LIKE '%eyJ%' \
         FROM oneseal.events JOIN oneseal.ring_history ON revision = (payload::json ->> 'revision')::bigint \
         WHERE kind = 'ring.checkpoint' ORDER BY seq";
    let row = |seq, revision| format!("{seq}|test|https://oidc.example.com|{revision}|t|{revision}|f");
    assert_eq!(database.execute(checkpoints), [row(2, 1), row(EVERY + 5, 3)].join("\n"));
}

#[test]
fn the_log_is_cut_up_to_the_last_checkpoint_of_the_ring() {
    let Some(server) = Postgres::shared() else { return };
    let database = migrated(server);
    let provider = provider(&database.url());
    let made = Change { event: EventDraft::new("ring.created", "{}"), ..change() };
    block_on(async {
        provider.create(ring(1, "eyJ"), made).await.unwrap();
        let connection = connect(&database.url());
        let plan = plan_prune(&connection, &Before::Seq(1000), &[]).await.unwrap();
        assert_eq!((plan.count(), plan.held_by.clone().map(|(_, seq)| seq)), (1, Some(2)));
        prune(&connection, "test", &plan, |_| ()).await.unwrap();
    });
    assert_eq!(
        database.execute("SELECT kind FROM oneseal.events ORDER BY seq"),
        "ring.checkpoint\nevents.pruned"
    );
}

#[test]
fn a_document_that_fits_into_no_event_is_written_without_a_checkpoint() {
    let Some(server) = Postgres::shared() else { return };
    let large = format!(r#""x":"{}","#, "x".repeat(256 * 1024));
    for member in [&large, r#""token":"x","#] {
        let database = migrated(server);
        let provider = provider(&database.url());
        let ring = format!(
            r#"{{"format":1,{member}"issuer":"https://oidc.example.com","incarnation":{{"number":1,"id":"x"}},"revision":1,"keys":[]}}"#
        );
        block_on(provider.create(Entries::single(Entries::KEYRING, ring), change())).unwrap();
        assert_eq!(database.execute("SELECT kind FROM oneseal.events"), "test.changed");
    }
}

#[test]
fn a_row_changed_by_hand_has_another_revision_and_is_not_overwritten() {
    let Some(server) = Postgres::shared() else { return };
    let database = migrated(server);
    let provider = provider(&database.url());
    block_on(async {
        let first = provider.create(ring(1, "eyJ"), change()).await.unwrap();
        database.execute("UPDATE oneseal.rings SET document = document || ' '");
        let by_hand = provider.load().await.unwrap().revision;
        assert_ne!(first, by_hand);
        let late = provider.replace(&first, ring(2, "eyJ"), change()).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Conflict);
        provider.replace(&by_hand, ring(2, "eyJ"), change()).await.unwrap();
    });
}

#[test]
fn what_is_in_plain_text_is_refused_before_anything_is_sent() {
    // Nobody listens there: what asked the database would be unavailable.
    let nowhere = provider("postgres://u@127.0.0.1:1/db");
    let private = r#"{"format":1,"keys":[{"private":{"kty":"OKP","d":"AAAA"}}]}"#;
    block_on(async {
        for (entries, kind) in [
            (Entries::single("keyring.json", private), ErrorKind::Unsealed),
            (Entries::single("current.pem", "-----BEGIN PRIVATE KEY-----"), ErrorKind::Malformed),
            (Entries::single("keyring.json", "x".repeat(1024 * 1024)), ErrorKind::TooLarge),
            (ring(1, "eyJ"), ErrorKind::Unavailable),
        ] {
            let refused = nowhere.create(entries, change()).await.unwrap_err();
            assert_eq!(refused.kind(), kind, "{refused}");
        }
    });
}

#[test]
fn a_fence_of_another_holder_or_of_no_row_is_superseded_too() {
    let Some(server) = Postgres::shared() else { return };
    let database = migrated(server);
    let provider = provider(&database.url());
    let led = |epoch, holder: &str| Change {
        fence: Some(FenceToken::new(FLEET, "rotator", epoch, holder)),
        ..change()
    };
    block_on(async {
        let unknown = provider.create(ring(1, "eyJ"), led(1, "a")).await.unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::Fenced, "{unknown}");
        database.execute(&format!(
            "INSERT INTO oneseal.worker_epochs (fleet, worker, epoch, holder) VALUES ('{FLEET}', 'rotator', 7, 'a')"
        ));
        // A failover that lost the latest row can hand one number out twice.
        let twin = provider.create(ring(1, "eyJ"), led(7, "b")).await.unwrap_err();
        assert_eq!(twin.kind(), ErrorKind::Fenced);
        assert_eq!(provider.load().await.unwrap_err().kind(), ErrorKind::NotFound);
        provider.create(ring(1, "eyJ"), led(7, "a")).await.unwrap();
    });
}

#[test]
fn each_fleet_has_its_row_and_the_only_one_needs_no_name() {
    let Some(server) = Postgres::shared() else { return };
    let database = migrated(server);
    let (one, only) = (provider(&database.url()), PostgresProvider::of_only_fleet(connect(&database.url())));
    let other = PostgresProvider::new(connect(&database.url()), "other.example");
    let id = Uuid::new_v4();
    block_on(async {
        assert_eq!(only.load().await.unwrap_err().kind(), ErrorKind::NotFound);
        let unnamed = only.create(ring(1, "eyJ"), change()).await.unwrap_err();
        assert!(unnamed.to_string().contains("?fleet=NAME"), "{unnamed}");

        one.create(ring(1, "eyJ"), change()).await.unwrap();
        let found = only.load().await.unwrap();
        only.replace(&found.revision, ring(2, "eyJ"), change_of(id)).await.unwrap();
        assert_eq!(one.load().await.unwrap().change_id, Some(id));

        assert_eq!(other.load().await.unwrap_err().kind(), ErrorKind::NotFound);
        other.create(ring(1, "eyJ"), change()).await.unwrap();
        let several = only.load().await.unwrap_err();
        assert!(several.to_string().contains("?fleet=NAME"), "{several}");
        assert_eq!(several.kind(), ErrorKind::Ambiguous);
        assert_eq!(one.load().await.unwrap().change_id, Some(id), "the other fleet's write is not ours");
    });
}

#[test]
fn a_row_that_is_no_record_is_malformed_and_tables_that_are_not_ours_want_a_migration() {
    let Some(server) = Postgres::shared() else { return };
    let database = migrated(server);
    let provider = provider(&database.url());
    block_on(async {
        provider.create(ring(1, "eyJ"), change()).await.unwrap();
        for document in ["''", "convert_to(repeat('x', 1048577), 'UTF8')"] {
            database.execute(&format!("UPDATE oneseal.rings SET document = {document}"));
            assert_eq!(provider.load().await.unwrap_err().kind(), ErrorKind::Malformed);
        }
        database.execute(
            "UPDATE oneseal.rings SET document = '{}'; ALTER TABLE oneseal.rings ALTER revision TYPE text",
        );
        assert_eq!(provider.load().await.unwrap_err().kind(), ErrorKind::Unprepared);
        database.execute("DROP TABLE oneseal.rings");
        let missing = provider.load().await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::Unprepared);
        assert!(missing.to_string().contains("oneseal db migrate"), "{missing}");
    });
}
