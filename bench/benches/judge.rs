//! From the text of a key to a verdict: parsed, searched for weaknesses, compared with itself, probed.

use std::process::ExitCode;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::RsaKeyPair;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use oneseal_bench::report::{self, Report};
use oneseal_bench::verdict::Target;
use oneseal_bench::{median, now};
use oneseal_keystore::material::PrivateKey;

const JUDGEMENTS: usize = 51;

fn main() -> ExitCode {
    report::run("judge", |_, report| {
        judged("judge an RSA-4096 key, ms (median)", KeySize::Rsa4096, 20.0, report);
        judged("judge an RSA-2048 key, ms (median)", KeySize::Rsa2048, 10.0, report);
    })
}

fn judged(name: &str, size: KeySize, target: f64, report: &mut Report) {
    let pair = RsaKeyPair::generate(size).expect("a key");
    let der: Pkcs8V1Der<'_> = pair.as_der().expect("its PKCS#8");
    let pem = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        STANDARD.encode(der.as_ref())
    );
    let judge = || {
        let started = now();
        std::hint::black_box(PrivateKey::parse(pem.as_bytes()).expect("a good key"));
        started.elapsed().as_secs_f64() * 1e3
    };
    // The first one also makes the table of small primes.
    judge();
    let spans = (0..JUDGEMENTS).map(|_| judge()).collect();
    report.verdict(name, median(spans), Target::Below(target));
}
