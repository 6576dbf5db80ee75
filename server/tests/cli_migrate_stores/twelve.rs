//! `oneseal migrate`, each way.

use std::process::Stdio;
use std::thread;

use oneseal_testing::parts::{Fate, Fault, Meddling};
use serde_json::Value;

use crate::cli_support::{run, until};
use crate::world::{At, ISSUER, Kind, World};

fn counts(told: &Value) -> [u64; 3] {
    ["copied", "skipped", "conflict"].map(|name| told[name].as_u64().expect("a number"))
}

#[test]
fn a_ring_goes_each_of_twelve_ways_byte_for_byte_and_a_second_time_nothing_is_done() {
    let Some(world) = World::new() else { return };
    let seed = world.place(Kind::File);
    let At::File(path) = &seed.at else { unreachable!("it is a file") };
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
    world.write(name, &world.ring);
    // The digest of the key set that a replica would serve, and so of every other one.
    let seen: Vec<Value> = thread::scope(|scope| {
        let ways = Kind::ALL.map(|from| {
            let (world, seed) = (&world, &seed);
            scope.spawn(move || {
                let source = world.place(from);
                world.migrate(seed, &source).done();
                let mut seen = Vec::new();
                for to in Kind::ALL.into_iter().filter(|to| *to != from) {
                    let target = world.place(to);
                    let told = world.migrate(&source, &target).done().json();
                    assert_eq!(counts(&told), [1, 0, 0], "{from:?} to {to:?}: {told}");
                    // The same bytes are the same key set, the same seals and the same log.
                    assert!(world.document(&target).as_ref() == Some(&world.ring), "{from:?} to {to:?}");
                    assert!(world.document(&source).as_ref() == Some(&world.ring), "{from:?} stays");
                    let again = world.migrate(&source, &target).done().json();
                    assert_eq!(counts(&again), [0, 1, 0], "{from:?} to {to:?} again: {again}");
                    seen.extend([told["jwks_sha256"].clone(), again["jwks_sha256"].clone()]);
                }
                seen
            })
        });
        ways.into_iter().flat_map(|way| way.join().expect("a way ends")).collect()
    });
    assert_eq!(seen.len(), 24);
    assert!(seen.iter().all(|digest| digest.is_string() && *digest == seen[0]), "{seen:?}");
}

/// Whatever became of the answer, or of the process, the ring is there whole or not at all, and the same command ends it.
#[test]
fn a_migration_that_was_cut_off_is_resumed_by_the_same_command() {
    let Some(world) = World::new() else { return };
    let seed = world.place(Kind::File);
    let At::File(path) = &seed.at else { unreachable!("it is a file") };
    world.write(path.file_name().and_then(|name| name.to_str()).expect("a name"), &world.ring);

    // The answer is lost: who asked looks, and finds its own.
    world.gateway.meddle("create", Meddling::CutAfter, 1);
    world.aws.fault("CreateSecret", Fault::CutAfter, 1);
    for kind in [Kind::Kubernetes, Kind::Aws] {
        let target = world.place(kind);
        let told = world.migrate(&seed, &target).done().json();
        assert_eq!(counts(&told), [1, 0, 0], "{kind:?}: {told}");
        assert_eq!(counts(&world.migrate(&seed, &target).done().json()), [0, 1, 0], "{kind:?}");
    }
    // It never arrived: nothing is there, and nothing is claimed.
    world.gateway.meddle("create", Meddling::CutBefore, 1);
    world.aws.fault("CreateSecret", Fault::CutBefore, 1);
    for kind in [Kind::Kubernetes, Kind::Aws] {
        let target = world.place(kind);
        let failed = world.migrate(&seed, &target);
        assert!(matches!(failed.code, Some(69 | 78)), "{kind:?}: {failed:?}");
        assert_eq!(world.document(&target), None, "{kind:?}");
        assert_eq!(counts(&world.migrate(&seed, &target).done().json()), [1, 0, 0], "{kind:?}");
    }
    // Killed once it was written.
    for kind in [Kind::Postgres, Kind::File] {
        let target = world.place(kind);
        if let At::Postgres(_, proxy) = &target.at {
            proxy.when_client_sends(b"COMMIT", Fate::HangAfter);
        }
        let mut command = world.migration(&seed, &target);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        until("the record is there", || world.document(&target).filter(|found| *found == world.ring));
        child.kill().expect("killed");
        child.wait().expect("ended");
        if let At::Postgres(_, proxy) = &target.at {
            proxy.cut();
        }
        assert_eq!(counts(&world.migrate(&seed, &target).done().json()), [0, 1, 0], "{kind:?}");
    }
}

#[test]
fn a_later_revision_is_raised_and_an_earlier_one_never_written_over_it() {
    let Some(world) = World::new() else { return };
    let seed = world.place(Kind::File);
    let At::File(path) = &seed.at else { unreachable!("it is a file") };
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    let later = world.keeper.next(&world.ring, |_| ());
    for kind in [Kind::Kubernetes, Kind::Aws] {
        let target = world.place(kind);
        world.write(&name, &world.ring);
        world.migrate(&seed, &target).done();
        world.write(&name, &later);
        let told = world.migrate(&seed, &target).done().json();
        assert_eq!((counts(&told), &told["replaced_revision"]), ([1, 0, 0], &2.into()), "{kind:?}");
        assert!(world.document(&target).as_ref() == Some(&later), "{kind:?}");
        world.write(&name, &world.ring);
        let late = world.migrate(&seed, &target);
        assert_eq!((late.code, counts(&late.json())), (Some(75), [0, 0, 1]), "{kind:?}: {late:?}");
        assert!(world.document(&target).as_ref() == Some(&later), "{kind:?}");
    }
}

#[test]
fn what_a_place_does_not_take_is_refused_before_anything_is_sent() {
    let Some(world) = World::new() else { return };
    let plain = world.place(Kind::File);
    let init = ["keys", "init", "--alg", "ES256", "--issuer", ISSUER, "--provider", &plain.uri];
    run(&mut world.command(&init)).done();
    let database = world.place(Kind::Postgres);
    world.migrate(&plain, &database).refused(78, &["provider.unsealed"]);
    assert_eq!(world.document(&database), None);
    for kind in [Kind::Kubernetes, Kind::Aws] {
        let target = world.place(kind);
        world.migrate(&plain, &target).done();
        assert_eq!(world.document(&target), world.document(&plain), "{kind:?}: unsealed, as it was");
    }

    let large = world.place(Kind::File);
    let At::File(path) = &large.at else { unreachable!("it is a file") };
    let padded = world.keeper.next(&world.ring, |ring| ring["padding"] = "x".repeat(70_000).into());
    world.write(path.file_name().and_then(|name| name.to_str()).expect("a name"), &padded);
    world.aws.reset_counts();
    let target = world.place(Kind::Aws);
    world.migrate(&large, &target).refused(78, &["migrate.unfit_place", "65536"]);
    let counts = world.aws.counts();
    assert!(!counts.contains_key("CreateSecret") && !counts.contains_key("PutSecretValue"), "{counts:?}");
    world.migrate(&large, &world.place(Kind::Kubernetes)).done();
}
