//! Every key from outside, through every way by which a key can come: the same verdict everywhere, and not a word of
//! the key in it. `cargo test -p oneseal-tests --test key_cases -- --nocapture` shows file × way × verdict;
//! `TEST_BLESS=1` writes the verdicts into the table anew, if all ways agree.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use cases::Case;
use oneseal::{Clock, SystemClock};
use ways::{ACCEPTED, Answer, WAYS, Way};

#[test]
fn every_case_has_one_verdict_whatever_way_it_comes() {
    let mut cases = cases::all();
    if std::env::var_os("TEST_BLESS").is_some() {
        cases::add_missing(&mut cases);
    }
    let answers = judge_all(&cases);
    print!("{}", matrix(&cases, &answers));
    let mut faults = Vec::new();
    for (case, answers) in cases.iter_mut().zip(&answers) {
        for (way, answer) in WAYS.iter().zip(answers) {
            if let Some(leak) = leak(&case.value(), answer) {
                faults.push(format!("{} by {}: {leak}", case.name, way.name()));
            }
        }
        let verdicts: BTreeSet<_> = answers.iter().map(|answer| &answer.verdict).collect();
        let agreed =
            WAYS.iter().zip(answers).all(|(way, answer)| is_as_wanted(case, *way, &answers[0], answer));
        if !agreed {
            faults.push(format!("{}: {verdicts:?}", case.name));
        } else if std::env::var_os("TEST_BLESS").is_some() {
            case.verdict.clone_from(&answers[0].verdict);
        } else if case.verdict != answers[0].verdict {
            faults.push(format!("{}: {} instead of {}", case.name, answers[0].verdict, case.verdict));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    if std::env::var_os("TEST_BLESS").is_some() {
        cases::bless(&cases);
    }
}

/// The file's own way is the measure for the others. A value of no bytes at all is the exception: who finds that there
/// is nothing differs, and with it the word (docs/decisions/0020).
fn is_as_wanted(case: &Case, way: Way, by_file: &Answer, answer: &Answer) -> bool {
    let wanted = match way {
        _ if case.value().is_empty() => match way {
            Way::File | Way::Inline | Way::Program => "provider.malformed",
            Way::Env => "provider.not_found",
            Way::Directory | Way::Kubelet | Way::Memory => "key.empty",
        },
        Way::Program if !by_file.verdict.contains('.') => ACCEPTED,
        _ => &by_file.verdict,
    };
    answer.verdict == wanted
}

#[test]
fn every_file_is_a_case() {
    let cases = cases::all();
    let named: BTreeSet<_> =
        cases.iter().map(|case| case.name.split('#').next().unwrap().to_owned()).collect();
    let missing: Vec<_> = cases::files().difference(&named).cloned().collect();
    assert!(missing.is_empty(), "not in the table: {missing:?}");
    let names: BTreeSet<_> = cases.iter().map(|case| (&case.name, &case.passphrase)).collect();
    assert_eq!(names.len(), cases.len(), "a case stands twice in the table");
}

/// What the makers of the cases expect of a loader, and we are bound to.
#[test]
fn verdicts_are_those_that_the_sources_ask_for() {
    let cases = cases::all();
    let verdict = |name: &str| cases.iter().find(|case| case.name == name && case.passphrase.is_empty());
    let mangled = cases::document("keystore/mangled-keys/cases.json");
    for wanted in mangled["cases"].as_array().unwrap() {
        let case = verdict(&format!("keystore/mangled-keys/{}", wanted["file"].as_str().unwrap())).unwrap();
        match wanted["expect"].as_str().unwrap() {
            "accept" => assert_eq!(case.verdict, wanted["thumbprint"].as_str().unwrap(), "{}", case.name),
            "refuse" => assert!(!case.is_accepted(), "{} is taken", case.name),
            _ => assert!(!case.why.is_empty(), "{}: either way goes, so ours needs its reason", case.name),
        }
    }
    let weak = cases::document("keystore/weak/weak-keys.json");
    for wanted in weak["keys"].as_array().unwrap() {
        let name = wanted["file"].as_str().unwrap();
        let case = verdict(&format!("keystore/weak/{name}")).unwrap();
        assert_eq!(case.is_accepted(), wanted["expect_loader"] == "accept", "{name}: {}", case.verdict);
    }
}

/// Puts every case through every way, on as many threads as there are processors.
fn judge_all(cases: &[Case]) -> Vec<Vec<Answer>> {
    let jobs: Vec<_> = cases.iter().flat_map(|case| WAYS.map(|way| (case, way))).collect();
    let next = AtomicUsize::new(0);
    let found = Mutex::new(BTreeMap::new());
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        while let Some((at, (case, way))) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| jobs.get(at).map(|job| (at, job)))
        {
            let answer = in_time(&runtime, case, *way);
            found.lock().unwrap().insert(at, answer);
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(2, NonZero::get) {
            scope.spawn(work);
        }
    });
    let found: Vec<_> = found.into_inner().unwrap().into_values().collect();
    found.chunks(WAYS.len()).map(<[Answer]>::to_vec).collect()
}

/// On a busy machine anything is slow once; what is slow three times running is slow.
fn in_time(runtime: &tokio::runtime::Runtime, case: &Case, way: Way) -> Answer {
    for _ in 0..3 {
        let place = tempfile::tempdir().unwrap();
        let began = SystemClock.boot();
        let answer = runtime.block_on(way.judge(case, place.path()));
        if SystemClock.boot().since(began) < LONGEST {
            return answer;
        }
    }
    panic!("{} by {}: no verdict within {LONGEST:?}, three times", case.name, way.name());
}

const LONGEST: Duration = Duration::from_secs(1);

/// File × way × verdict.
fn matrix(cases: &[Case], answers: &[Vec<Answer>]) -> String {
    let width = cases.iter().map(|case| case.name.len()).max().unwrap_or_default();
    let heads: Vec<_> = WAYS.iter().map(|way| way.name()).collect();
    let mut text = format!("{:width$}  {}\n", "", heads.join(" | "));
    for (case, answers) in cases.iter().zip(answers) {
        let verdicts: Vec<_> = answers.iter().map(|answer| answer.verdict.as_str()).collect();
        text.push_str(&format!("{:width$}  {}\n", case.name, verdicts.join(" | ")));
    }
    text
}

/// A part of the value that stands in what was said: any 16 characters in a row such as keys are written in, but for what
/// may be told: the public half, the thumbprint and the names of JSON members.
fn leak(value: &[u8], answer: &Answer) -> Option<String> {
    let is_secret = |window: &&[u8]| window.iter().all(|b| b.is_ascii_alphanumeric() || b"+/=_-".contains(b));
    let names: String = match serde_json::from_slice::<serde_json::Map<_, serde_json::Value>>(value) {
        Ok(object) => object.keys().map(|name| format!("{name}\n")).collect(),
        Err(_) => String::new(),
    };
    let is_shown = |window: &&[u8]| {
        let text = str::from_utf8(window).unwrap();
        let is_public = [&answer.jwks, &answer.verdict, &names].iter().any(|public| public.contains(text));
        answer.said.contains(text) && !is_public
    };
    let found = value.windows(16).filter(is_secret).find(is_shown)?;
    Some(format!("{} stands in: {}", String::from_utf8_lossy(found), answer.said))
}
