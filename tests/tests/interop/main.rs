//! Relying parties from outside, against three replicas behind a caching nginx: what each accepts, refuses, notices.
//!
//! ```text
//! libraries  the table: which, in which folder, installed how, pinned where
//! adaptor    one long-lived process of a library, driven line by line (tests/interop/README.md)
//! signing    tokens that no replica would mint, by the fleet's own keys
//! cases      the table: token, expected verdict
//! later      what is taken of an algorithm that comes later, by who chooses algorithms himself
//! long_lived what is noticed of an added algorithm and an added key, and when
//! matrix     library × algorithm × case, golden in tests/golden/interop
//! protocol   what an adaptor answers to lines of every wrong kind
//! odd        an issuer that redirects, is late, large or in strange company: who minds which
//! sealed     a sealed private half, opened and made by jose
//! page       the tables of docs/relying-parties.md, made from all that
//! ```
//! Tests for each library, so that they run side by side and one that is missing is skipped by its name:
//! `make interop LIBRARY=jose`. What is noticed takes waiting, so all libraries wait at once, in one test.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adaptor;
mod cases;
mod command_line;
mod install;
mod later;
mod libraries;
mod long_lived;
mod matrix;
mod odd;
mod page;
mod protocol;
mod sealed;
mod signing;

/// The tests of each library, named by it.
macro_rules! libraries {
    ($($name:ident),* $(,)?) => {$(
        mod $name {
            const LIBRARY: &crate::libraries::Library = crate::libraries::by_name(stringify!($name));

            #[tokio::test]
            async fn accepts_what_each_replica_mints_and_refuses_what_it_must() {
                crate::matrix::holds(LIBRARY).await;
            }

            #[tokio::test]
            async fn answers_every_line_whatever_it_is() {
                crate::protocol::holds(LIBRARY).await;
            }

            #[tokio::test]
            async fn answers_a_person_on_the_command_line() {
                crate::command_line::answers(LIBRARY).await;
            }
        }
    )*};
}

mod library {
    libraries!(jose, go_oidc, go_jose, nimbus, spring, pyjwt, authlib, josekit);
}
