//! Every committed input of every target, read again: each one once broke something, or leads where others do not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;

use oneseal_fuzz::TARGETS;
use oneseal_keystore::material::{KeyError, Passphrase, PrivateKey};

#[test]
fn no_input_of_the_corpus_breaks_its_target() {
    for target in TARGETS {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
        let mut read = 0;
        for input in fs::read_dir(&folder).unwrap() {
            let path = input.unwrap().path();
            println!("{}", path.display());
            (target.run)(&fs::read(&path).unwrap());
            read += 1;
        }
        assert!(read >= FEWEST, "{}: only {read} inputs", folder.display());
    }
}

/// Not a target of its own: a mutated cost may ask for all the time that is allowed, a second each.
#[test]
fn with_a_passphrase_every_input_has_its_verdict_too() {
    let passphrase = Passphrase::read(b"no such passphrase").unwrap();
    for folder in ["pem", "der"] {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(folder);
        for input in fs::read_dir(&folder).unwrap() {
            let input = fs::read(input.unwrap().path()).unwrap();
            let verdicts = [PrivateKey::parse(&input), PrivateKey::parse_with(&input, &passphrase)];
            let [without, with] = verdicts.map(|verdict| verdict.map(|key| key.public().thumbprint()));
            let is_about_it = matches!(without, Err(KeyError::Encrypted));
            assert!(without == with || is_about_it, "{without:?} {with:?}");
        }
    }
}

#[test]
fn every_input_breaks_no_other_target_either() {
    for folder in TARGETS {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(folder.name);
        for input in fs::read_dir(&folder).unwrap() {
            let input = fs::read(input.unwrap().path()).unwrap();
            for target in TARGETS {
                (target.run)(&input);
            }
        }
    }
}

/// Fewer would be a corpus that somebody lost.
const FEWEST: usize = 10;
