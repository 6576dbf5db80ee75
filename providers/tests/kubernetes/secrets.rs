//! What a Secret may be, and what becomes of all that is in it and is no key.

use oneseal_providers::{Advice, Entries, ErrorKind, KubernetesOptions, KubernetesProvider, SecretProvider};
use oneseal_testing::parts::KubeApiserver;
use oneseal_testing::{Canary, block_on};
use serde_json::{Value, json};

use crate::place::{SECRET, Tenant, change, change_of, ring};

#[test]
fn opaque_and_certificate_secrets_are_read_and_others_are_named() {
    let Some(server) = KubeApiserver::shared() else { return };
    for (kind, data, expected) in [
        ("Opaque", vec![("current.pem", &b"one"[..]), ("next.pem", b"two"), ("empty", b"")], None),
        ("kubernetes.io/tls", vec![("tls.crt", b"c"), ("tls.key", b"k")], None),
        ("kubernetes.io/basic-auth", vec![("username", b"u")], Some("kubernetes.io/basic-auth")),
        ("example.com/other", vec![("current.pem", b"one")], Some("example.com/other")),
    ] {
        let tenant = Tenant::of(server);
        tenant.make(kind, &data);
        let loaded = block_on(tenant.provider().load());
        match expected {
            None => {
                let record = loaded.unwrap();
                let mut found: Vec<_> =
                    record.entries.iter().map(|(name, value)| (name, value.expose())).collect();
                let mut wanted = data.clone();
                found.sort();
                wanted.sort();
                assert_eq!(found, wanted, "{kind}");
                assert_eq!(record.change_id, None);
            }
            Some(told) => {
                let refused = loaded.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::Malformed, "{refused}");
                assert!(refused.to_string().contains(told), "{refused}");
            }
        }
    }
}

#[test]
fn what_is_missing_is_not_found_and_says_what() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server).may_init();
    let nowhere = KubernetesOptions::secret(SECRET).in_namespace("no-such-namespace");
    let nowhere = nowhere.by_kubeconfig(tenant.file("admin", &server.kubeconfig_admin()));
    let nowhere = KubernetesProvider::new(nowhere).unwrap();
    block_on(async {
        let missing = tenant.provider().load().await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
        assert!(
            missing.to_string().contains(&format!("{}/{SECRET}: there is no such Secret", tenant.namespace))
        );
        assert_eq!(nowhere.load().await.unwrap_err().kind(), ErrorKind::NotFound);
        let missing = nowhere.create(ring(1), change()).await.unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
        assert!(missing.to_string().contains("no such namespace"), "{missing}");
    });
}

#[test]
fn a_secret_made_empty_is_filled_once_without_the_right_to_create() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    tenant.make("Opaque", &[]);
    tenant.edit(|secret| secret["metadata"]["labels"] = json!({"team": "identity"}));
    let provider = tenant.provider();
    block_on(async {
        let empty = provider.load().await.unwrap_err();
        assert_eq!(empty.kind(), ErrorKind::NotFound, "{empty}");
        assert!(empty.to_string().contains("keys init"), "{empty}");
        let nothing = oneseal_providers::Revision::new("nothing");
        let refused = provider.replace(&nothing, ring(1), change()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
        // Of many that fill it at once one is first.
        let all = (0..8).map(|number| provider.create(ring(number), change()));
        let outcomes = futures_util::future::join_all(all).await;
        let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
        assert_eq!(won.len(), 1);
        assert!(lost.into_iter().all(|lost| lost.unwrap_err().kind() == ErrorKind::AlreadyExists));
        assert_eq!(&provider.load().await.unwrap().revision, won[0].as_ref().unwrap());
    });
    assert_eq!(tenant.stored()["metadata"]["labels"], json!({"team": "identity"}));
    let verbs = server.audit().into_iter().filter(|line| line.user == tenant.user()).map(|line| line.verb);
    assert!(verbs.into_iter().all(|verb| verb != "create"));
}

#[test]
fn a_write_keeps_all_that_is_no_data() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    let owner = tenant.make("Opaque", &[("keyring.json", b"{}"), ("old.pem", b"old")]);
    let metadata = json!({
        "labels": {"app": "oneseal"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{\"data\":{\"keyring.json\":\"e30=\"}}"},
        "finalizers": ["example.com/keep"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": SECRET, "uid": owner["metadata"]["uid"]}],
    });
    tenant.edit(|secret| {
        for (name, value) in metadata.as_object().unwrap() {
            secret["metadata"][name] = value.clone();
        }
    });
    let provider = tenant.provider();
    let id = uuid::Uuid::new_v4();
    block_on(async {
        let record = provider.load().await.unwrap();
        // The other entries are handed over by whoever writes, who has read them.
        let mut entries = ring(2);
        entries.insert("old.pem", "old");
        let written = provider.replace(&record.revision, entries, change_of(id)).await.unwrap();
        assert_eq!(provider.load().await.unwrap().revision, written);
    });
    let advice = provider.describe().advice;
    let is_copied =
        |advice: &Advice| matches!(advice, Advice::Copied { copy } if copy.contains("last-applied"));
    assert!(advice.iter().any(is_copied), "{advice:?}");
    let stored = tenant.stored();
    for (name, value) in metadata.as_object().unwrap() {
        let mut found = stored["metadata"][name].clone();
        if name == "annotations" {
            let found = found.as_object_mut().unwrap();
            assert_eq!(found.remove("oneseal.dev/change-id"), Some(json!(id.to_string())));
        }
        assert_eq!(&found, value, "{name}");
    }
    assert_eq!(stored["type"], "Opaque");
    let names: Vec<_> = stored["data"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["keyring.json", "old.pem"]);
    let field = |managed: &Value| managed["manager"] == "oneseal";
    assert!(stored["metadata"]["managedFields"].as_array().unwrap().iter().any(field));
    tenant.edit(|secret| secret["metadata"]["finalizers"] = json!([]));
}

#[test]
fn an_immutable_secret_and_a_certificates_are_read_only_with_the_cure() {
    let Some(server) = KubeApiserver::shared() else { return };
    for (kind, data, is_immutable, cure) in [
        ("Opaque", [("keyring.json", &b"{}"[..]), ("a", b"")], true, "without `immutable: true`"),
        ("kubernetes.io/tls", [("tls.crt", b"c"), ("tls.key", b"k")], false, "an Opaque Secret of its own"),
    ] {
        let tenant = Tenant::of(server);
        tenant.make(kind, &data);
        tenant.edit(|secret| secret["immutable"] = json!(is_immutable));
        let provider = tenant.provider();
        assert!(provider.describe().writable, "nobody has looked yet");
        block_on(async {
            let record = provider.load().await.unwrap();
            assert!(!provider.describe().writable);
            for refused in [
                provider.replace(&record.revision, ring(2), change()).await.map(drop),
                provider.rehearse(&record.revision, ring(2), change()).await,
            ] {
                let refused = refused.unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::ReadOnly, "{refused}");
                assert!(refused.to_string().contains(cure), "{refused}");
            }
            assert_eq!(provider.load().await.unwrap().revision, record.revision);
            tenant.delete();
            assert_eq!(provider.load().await.unwrap_err().kind(), ErrorKind::NotFound);
            assert!(provider.describe().writable, "what comes in its place may be");
        });
    }
}

#[test]
fn a_label_is_no_other_revision_and_does_not_stand_in_a_writers_way() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server).may_init();
    let provider = tenant.provider();
    block_on(async {
        let at = provider.create(ring(1), change()).await.unwrap();
        tenant.edit(|secret| secret["metadata"]["labels"]["touched"] = json!("yes"));
        assert_eq!(provider.load().await.unwrap().revision, at);
        let at = provider.replace(&at, ring(2), change()).await.unwrap();
        tenant.edit(|secret| secret["data"]["keyring.json"] = json!("e30="));
        let by_hand = provider.load().await.unwrap();
        assert_ne!(by_hand.revision, at, "the same change's id, other data");
    });
    assert_eq!(tenant.stored()["metadata"]["labels"]["touched"], "yes");
}

#[test]
fn a_rehearsal_is_judged_by_the_server_and_changes_nothing() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server).may_init();
    let provider = tenant.provider();
    block_on(async {
        let at = provider.create(ring(1), change()).await.unwrap();
        let before = tenant.stored()["metadata"]["resourceVersion"].clone();
        provider.rehearse(&at, ring(2), change()).await.unwrap();
        assert_eq!(tenant.stored()["metadata"]["resourceVersion"], before);
        assert_eq!(provider.load().await.unwrap().revision, at);
        let elsewhere = oneseal_providers::Revision::new("elsewhere");
        let refused = provider.rehearse(&elsewhere, ring(2), change()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict, "{refused}");
    });
}

#[test]
fn no_error_repeats_what_was_written_nor_what_stands_where_a_name_belongs() {
    let Some(server) = KubeApiserver::shared() else { return };
    let tenant = Tenant::of(server);
    let canary = Canary::random();
    let provider = tenant.provider();
    block_on(async {
        // It may not create: the API server's own words are told.
        for entries in [
            Entries::single(Entries::KEYRING, canary.text()),
            Entries::single("../up", canary.text()),
            Entries::single(Entries::KEYRING, canary.text().repeat(1_048_576 / canary.text().len() + 1)),
        ] {
            let refused = provider.create(entries, change()).await.unwrap_err();
            canary.assert_absent("an error", &format!("{refused} {refused:?}"));
        }
    });
    let key = "-----BEGIN PRIVATE KEY-----MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8Q";
    for options in [KubernetesOptions::secret(key), KubernetesOptions::secret(SECRET).in_namespace(key)] {
        let refused = KubernetesProvider::new(options).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Misconfigured);
        assert!(!format!("{refused} {refused:?}").contains("MC4C"), "{refused}");
    }
    let refused = KubernetesProvider::new(KubernetesOptions::secret("Upper")).unwrap_err();
    assert!(refused.to_string().contains("\"Upper\" cannot be a Secret's name"), "{refused}");
}
