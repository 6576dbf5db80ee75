//! Library × algorithm × case: run, held against the table, and golden.
//!
//! Each refusal has its control: the same verifier, its cache warm, has just accepted a good token of that algorithm.

use std::fmt::Write as _;
use std::path::PathBuf;

use oneseal::Algorithm;
use oneseal_tests::keys::TestKey;
use oneseal_tests::{Fleet, FleetOptions, http, keys, nginx};
use serde_json::json;

use crate::adaptor::{Adaptor, Verdict};
use crate::cases::{CASES, Case, Expect, Scene};
use crate::libraries::{Deviation, Library};

/// What the fleet signs with.
pub(crate) const ALGORITHMS: [Algorithm; 5] =
    [Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256, Algorithm::Es384, Algorithm::EdDsa];

/// Runs `library` through everything.
///
/// # Panics
/// On a verdict that is neither expected nor explained, and if the golden file tells another story.
pub(crate) async fn holds(library: &'static Library) {
    let Some(mut adaptor) = Adaptor::start(library).await else { return };
    assert_eq!(adaptor.version, library.locked_version(), "{}: the lock file's version runs", library.name);
    let options = FleetOptions {
        algorithms: ALGORITHMS.to_vec(),
        nginx: Some(nginx::Options::default()),
        ..FleetOptions::default()
    };
    let Some(mut fleet) = Fleet::start_with(options).await else { return };
    let mut table = Table::default();
    each_replica(&mut adaptor, &mut fleet, &mut table).await;
    by_default(&mut adaptor, &fleet, &mut table).await;
    let scene = scene(&fleet).await;
    for case in CASES {
        judge(&mut adaptor, &scene, case, &mut table).await;
    }
    confuse(&mut adaptor, &scene, &mut table).await;
    adaptor.end().await;
    table.is_as_expected(library);
    table.is_golden(library);
}

/// Tokens of every replica, before one is killed and after it has come back, by one verifier that is never told.
async fn each_replica(adaptor: &mut Adaptor, fleet: &mut Fleet, table: &mut Table) {
    let supported = adaptor.algorithms.clone();
    adaptor.configure(fleet.issuer.as_str(), Some(&chosen(&supported))).await;
    let mut tokens = mint(fleet).await;
    for round in 0..2 {
        for (algorithm, token) in &tokens {
            let expect = if is_in(&supported, *algorithm) { Expect::Accepted } else { Expect::Refused };
            table.add(GENUINE, *algorithm, expect, adaptor.verify(token).await);
        }
        if round == 0 {
            fleet.restart(0).await;
            tokens.extend(mint(fleet).await);
        }
    }
}

async fn mint(fleet: &Fleet) -> Vec<(Algorithm, String)> {
    let mut tokens = Vec::new();
    for replica in &fleet.replicas {
        for algorithm in ALGORITHMS {
            let wanted = json!({ "sub": "pod-1", "aud": "test", "ttl_s": 600, "alg": algorithm.as_str() });
            tokens.push((algorithm, replica.mint(&wanted).await));
        }
    }
    tokens
}

/// What it takes when nobody tells it the algorithms.
async fn by_default(adaptor: &mut Adaptor, fleet: &Fleet, table: &mut Table) {
    adaptor.configure(fleet.issuer.as_str(), None).await;
    for (algorithm, token) in mint(fleet).await.into_iter().take(ALGORITHMS.len()) {
        table.add(BY_DEFAULT, algorithm, Expect::AsRecorded, adaptor.verify(&token).await);
    }
}

async fn scene(fleet: &Fleet) -> Scene {
    let jwks = http::get(fleet.front(), "/.well-known/jwks.json").await.unwrap().body;
    Scene {
        issuer: fleet.issuer.as_str().to_owned(),
        keys: fleet.keys(),
        foreign: keys::fresh(&ALGORITHMS).await,
        jwks: String::from_utf8(jwks.to_vec()).unwrap(),
    }
}

async fn judge(adaptor: &mut Adaptor, scene: &Scene, case: &Case, table: &mut Table) {
    let supported = adaptor.algorithms.clone();
    for key in scene.keys.iter().filter(|key| is_in(&supported, key.algorithm)) {
        let Some(token) = (case.token)(scene, key) else { continue };
        warm(adaptor, scene, key, Some(&chosen(&supported))).await;
        table.add(case.name, key.algorithm, case.expect, adaptor.verify(&token).await);
    }
}

/// A new verifier that has accepted a good token of `key`: the control of what it refuses next.
async fn warm(adaptor: &mut Adaptor, scene: &Scene, key: &TestKey, algorithms: Option<&[&str]>) {
    adaptor.configure(&scene.issuer, algorithms).await;
    let control = adaptor.verify(&(CASES[0].token)(scene, key).unwrap()).await;
    assert!(control.is_accepted(), "the control, {}: {control:?}", key.algorithm);
}

/// The attacks on `alg` again, on a verifier that was told no algorithms: nothing but the library itself stands in the
/// way. What differs from before is told as a case of its own.
async fn confuse(adaptor: &mut Adaptor, scene: &Scene, table: &mut Table) {
    let is_accepted = |key: &&TestKey| table.is_accepted_by_default(key.algorithm);
    let keys: Vec<_> = scene.keys.iter().filter(is_accepted).collect();
    for case in CASES.iter().filter(|case| CONFUSIONS.iter().any(|start| case.name.starts_with(start))) {
        for key in keys.iter().copied() {
            let Some(token) = (case.token)(scene, key) else { continue };
            warm(adaptor, scene, key, None).await;
            let verdict = adaptor.verify(&token).await;
            if !table.has(case.name, key.algorithm, &verdict) {
                let name: &'static str = format!("{}{UNCONFIGURED}", case.name).leak();
                table.add(name, key.algorithm, case.expect, verdict);
            }
        }
    }
}

fn chosen(supported: &[String]) -> Vec<&'static str> {
    ALGORITHMS
        .iter()
        .filter(|algorithm| is_in(supported, **algorithm))
        .map(|algorithm| algorithm.as_str())
        .collect()
}

fn is_in(supported: &[String], algorithm: Algorithm) -> bool {
    supported.iter().any(|name| name == algorithm.as_str())
}

const GENUINE: &str = "genuine, of each replica, before and after a kill";
const BY_DEFAULT: &str = "genuine, with the library's own choice of algorithms";

/// What the name of a case ends with where the verifier was told no algorithms.
pub(crate) const UNCONFIGURED: &str = ", no algorithms configured";

/// How the names of the cases begin in which a token lies about its algorithm.
const CONFUSIONS: &[&str] = &["alg ", "HS256 ", "kid of a key of another", "our RSA key used"];

/// What happened, in the order of the cases.
#[derive(Debug, Default)]
struct Table {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    case: &'static str,
    algorithm: Algorithm,
    expect: Expect,
    verdict: Verdict,
}

impl Row {
    fn outcome(&self) -> (&'static str, &str) {
        self.verdict.outcome()
    }
}

impl Table {
    fn add(&mut self, case: &'static str, algorithm: Algorithm, expect: Expect, verdict: Verdict) {
        if let Verdict::Accepted(claims) = &verdict {
            assert_eq!(claims["sub"], "pod-1", "{case}, {algorithm}: other claims than were signed");
        }
        let row = Row { case, algorithm, expect, verdict };
        let told = self
            .rows
            .iter()
            .any(|old| (old.case, old.algorithm, old.outcome()) == (row.case, row.algorithm, row.outcome()));
        if !told {
            self.rows.push(row);
        }
    }

    fn has(&self, case: &str, algorithm: Algorithm, verdict: &Verdict) -> bool {
        let mut rows = self.rows.iter().filter(|row| (row.case, row.algorithm) == (case, algorithm));
        rows.any(|row| row.outcome() == verdict.outcome())
    }

    fn is_accepted_by_default(&self, algorithm: Algorithm) -> bool {
        self.rows
            .iter()
            .any(|row| (row.case, row.algorithm) == (BY_DEFAULT, algorithm) && row.verdict.is_accepted())
    }

    /// A verdict other than the expected one has a row that explains it, and each such row is needed.
    fn is_as_expected(&self, library: &Library) {
        let mut needed = vec![false; library.deviations.len()];
        for row in &self.rows {
            let accepted = row.verdict.is_accepted();
            if row.expect == Expect::AsRecorded || accepted == (row.expect == Expect::Accepted) {
                continue;
            }
            let at = library.deviations.iter().position(|deviation| deviation.explains(row));
            let at = at.unwrap_or_else(|| panic!("{}: {row:?}\n{}", library.name, self.text(library)));
            needed[at] = true;
        }
        for (deviation, needed) in library.deviations.iter().zip(needed) {
            assert!(needed, "{}: {deviation:?} explains nothing that happened", library.name);
        }
    }

    fn is_golden(&self, library: &Library) {
        let text = self.text(library);
        #[expect(clippy::print_stdout, reason = "the matrix is shown with the test's output")]
        {
            println!("{text}");
        }
        let path = golden(library);
        if std::env::var_os("TEST_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            text == expected,
            "{} tells another story (TEST_BLESS=1 rewrites it):\n{text}",
            path.display()
        );
    }

    /// A Markdown table, one line for all algorithms with the same outcome.
    fn text(&self, library: &Library) -> String {
        let mut text = format!("{} {}\n\n", library.name, library.locked_version());
        text.push_str("| case | algorithms | verdict | by the name of |\n|---|---|---|---|\n");
        let mut told: Vec<(&str, (&str, &str))> = Vec::new();
        for row in &self.rows {
            let (case, outcome) = (row.case, row.outcome());
            if told.contains(&(case, outcome)) {
                continue;
            }
            told.push((case, outcome));
            let same = self.rows.iter().filter(|row| (row.case, row.outcome()) == (case, outcome));
            let mut algorithms: Vec<_> = same.map(|row| row.algorithm).collect();
            algorithms.sort_unstable();
            let algorithms: Vec<_> = algorithms.iter().map(|algorithm| algorithm.as_str()).collect();
            let (verdict, error) = outcome;
            let error = if error.is_empty() { String::new() } else { format!("`{error}`") };
            let why =
                library.deviations.iter().find(|deviation| row.is_unexpected() && deviation.explains(row));
            let why = why.map_or_else(String::new, |deviation| format!(" ({})", deviation.why));
            let _ = writeln!(text, "| {case} | {} | {verdict}{why} | {error} |", algorithms.join(" "));
        }
        text
    }
}

impl Row {
    fn is_unexpected(&self) -> bool {
        self.expect != Expect::AsRecorded && self.verdict.is_accepted() != (self.expect == Expect::Accepted)
    }
}

impl Deviation {
    fn explains(&self, row: &Row) -> bool {
        self.case == row.case
            && (self.algorithms.is_empty() || self.algorithms.contains(&row.algorithm.as_str()))
    }
}

/// Where the matrix of `library` is kept.
pub(crate) fn golden(library: &Library) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/interop").join(format!("{}.txt", library.name))
}
