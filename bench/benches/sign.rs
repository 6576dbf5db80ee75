//! Signing and minting against the raw primitive: the same JSON, the same base64, the same clock and `jti`.

use std::process::ExitCode;
use std::sync::Arc;

use oneseal_bench::embedded::{Embedded, provider, ready};
use oneseal_bench::raw::{ISSUER, Raw, claims};
use oneseal_bench::report::{self, Report};
use oneseal_bench::rounds::{Plan, ratio};
use oneseal_bench::verdict::Target;
use oneseal_coordination::SystemClock;
use oneseal_keystore::{Algorithm, IssuerUrl, Keystore, KeystoreOptions, Snapshot};

fn main() -> ExitCode {
    report::run("sign", measure)
}

fn measure(plan: Plan, report: &mut Report) {
    for (algorithm, target) in [(Algorithm::Rs256, 0.97), (Algorithm::Es256, 0.95), (Algorithm::EdDsa, 0.95)]
    {
        let raw = Raw::generate(algorithm);
        let snapshot = snapshot(&raw, algorithm);
        let ours =
            || drop(std::hint::black_box(ready(snapshot.sign(algorithm, &claims())).expect("it signs")));
        let figure = ratio(plan, ours, || drop(std::hint::black_box(raw.token())));
        report.verdict(
            &format!("snapshot.sign {algorithm} / raw aws-lc-rs"),
            figure,
            Target::AtLeast(target),
        );
    }
    let raw = Raw::generate(Algorithm::Rs256);
    let embedded = Embedded::new(&raw, Algorithm::Rs256);
    let ours = || drop(std::hint::black_box(embedded.mint()));
    let figure = ratio(plan, ours, || drop(std::hint::black_box(raw.token())));
    report.verdict("mint().await RS256 through the pool / raw aws-lc-rs", figure, Target::AtLeast(0.90));
}

fn snapshot(raw: &Raw, algorithm: Algorithm) -> Arc<Snapshot> {
    let mut options = KeystoreOptions::new(IssuerUrl::parse(ISSUER, "bench").expect("a good issuer"));
    options.algorithms = vec![algorithm];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let opened = Keystore::open(Arc::new(provider(raw)), options, Arc::new(SystemClock));
    // The provider is read once: there is nothing to follow.
    let (keystore, _follower) = runtime.block_on(opened).expect("a good key");
    keystore.snapshot()
}
