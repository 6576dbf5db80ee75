//! A guest in somebody else's process: nothing global is touched. A binary of its own, so that no other test's
//! globals are mistaken for the issuer's.

#[expect(dead_code, reason = "shared with the other tests, which use more of it")]
#[path = "support/mod.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use oneseal::{Algorithm, MintError, VerifyError};
use support::{AUDIENCE, ES256, ES256_OTHER, RS256, URL, audience, bare, get, metric, pod, start};

/// Crypto provider, subscriber, panic hook, signal handlers: as they were before.
#[test]
fn it_installs_no_global() {
    let hooked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&hooked);
    std::panic::set_hook(Box::new(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
    }));
    let handled = signals_handled();
    on_one_thread(async {
        let running = start(URL, bare(&[("current.pem", RS256)]), |builder| builder).await;
        running.issuer.mint(&pod(), &audience(AUDIENCE)).await.expect("minted");
        get(&running.issuer, "/.well-known/jwks.json");
        running.issuer.encode_metrics();
    });
    assert_eq!(signals_handled(), handled, "no signal handler was installed");
    assert!(!tracing::dispatcher::has_been_set(), "no subscriber was installed");
    assert!(rustls::crypto::CryptoProvider::get_default().is_none(), "no crypto provider was installed");
    assert_eq!(hooked.load(Ordering::SeqCst), 0, "nothing panicked");
    std::panic::catch_unwind(|| panic!("to see whose hook is called")).expect_err("it panicked");
    assert_eq!(hooked.load(Ordering::SeqCst), 1, "the embedder's own hook is still there");
    drop(std::panic::take_hook());
}

#[test]
fn a_current_thread_runtime_is_enough() {
    on_one_thread(async {
        let keys = bare(&[("current.RS256.pem", RS256), ("current.ES256.pem", ES256)]);
        let running =
            start(URL, keys, |builder| builder.algorithms([Algorithm::Rs256, Algorithm::Es256])).await;
        for algorithm in [Algorithm::Rs256, Algorithm::Es256] {
            let request = oneseal::MintRequest::new(audience(AUDIENCE)).algorithm(algorithm);
            let minted = running.issuer.mint_with(&pod(), request).await.expect("minted");
            running.issuer.verify(&minted.token, &audience(AUDIENCE)).expect("ours");
        }
    });
}

#[test]
fn two_issuers_live_in_one_process_and_know_nothing_of_each_other() {
    on_one_thread(async {
        let es256 = |builder: oneseal::Builder| builder.algorithms([Algorithm::Es256]);
        let one = start("https://one.example", bare(&[("current.pem", ES256)]), es256).await;
        let two = start("https://two.example", bare(&[("current.pem", ES256_OTHER)]), es256).await;
        let minted = one.issuer.mint(&pod(), &audience(AUDIENCE)).await.expect("minted");
        let believed = two.issuer.verify(&minted.token, &audience(AUDIENCE));
        assert!(matches!(believed, Err(VerifyError::Signature(_))));
        let sample = "oneseal_mints_total{alg=\"ES256\",result=\"ok\"}";
        assert_eq!(
            (metric(&one.issuer, sample), metric(&two.issuer, sample)),
            ("1".to_owned(), "0".to_owned())
        );
        one.stop.cancel();
        support::until("the first stops", || !one.issuer.health().minting.is_on()).await;
        let refused = one.issuer.mint(&pod(), &audience(AUDIENCE)).await;
        assert_eq!(refused, Err(MintError::TasksNotRunning));
        assert!(two.issuer.mint(&pod(), &audience(AUDIENCE)).await.is_ok());
    });
}

/// Dropping the last handle, outside any runtime too, ends the signing threads.
#[cfg(target_os = "linux")]
#[test]
fn the_signing_threads_end_with_the_issuer() {
    let issuer = on_one_thread(async {
        let running =
            start(URL, bare(&[("current.pem", RS256)]), |builder| builder.signing_threads(100)).await;
        running.issuer
    });
    // The hundredth: no other test here has so many. A thread takes its name, and leaves /proc, when it comes to it.
    let is_there = || threads().iter().any(|name| name == "oneseal-sign-99");
    on_one_thread(support::until("a hundred threads", is_there));
    drop(issuer);
    on_one_thread(support::until("no thread is left", || !is_there()));
}

/// The names of this process's threads.
#[cfg(target_os = "linux")]
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("/proc is mounted");
    let names = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).collect()
}

fn on_one_thread<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(future)
}

/// The mask of signals that this process handles; empty where there is no /proc.
fn signals_handled() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|line| line.starts_with("SigCgt")).unwrap_or_default().to_owned()
}
