//! New rules without a restart: `[[rule]]` of the configuration file, followed.
//!
//! ```text
//! file ─settled─► the whole configuration, as a start reads it ─► Issuer::set_rules ─► in force
//!   ▲                    │ a mistake anywhere: the last good rules stay, one alarm line for each change
//!   └── follow: event, poll, SIGHUP
//! ```
//! Rules alone are taken: everything else that has changed is named, since it takes a restart. A file with a mistake is
//! refused as a whole, because the next start would be; so is one that is gone, which an editor or a mount may have
//! taken away for a moment. Deny-by-default is no reason to deny everybody what they had.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use oneseal::{Clock as _, RuleSet, SystemClock, UnixTime};
use oneseal_keystore::findings::{Finding, Severity};
use oneseal_keystore::{Digest, Findings};
use oneseal_providers::file::Watch;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Effective, Sources, disk};
use crate::logging;
use crate::state::State;

/// The configuration file that a server was started with.
#[derive(Clone)]
pub(crate) struct RulesFile {
    path: PathBuf,
    /// All that the start has read, to be read again.
    sources: Arc<dyn Fn() -> Sources + Send + Sync>,
    /// What it said.
    began: Effective,
}

impl RulesFile {
    /// The file at `path`, which is one of `sources`; `began` is what they said at the start.
    pub(crate) fn new(
        path: PathBuf,
        sources: impl Fn() -> Sources + Send + Sync + 'static,
        began: Effective,
    ) -> Self {
        Self { path, sources: Arc::new(sources), began }
    }

    /// Looks again at every event, every [`POLL`], and whenever `nudge` says so, until `stop`.
    ///
    /// # Cancel safety
    /// The rules in force are whole at every moment.
    pub(crate) async fn follow(self, state: Arc<State>, nudge: Arc<Notify>, stop: CancellationToken) {
        let mut follower = Follower { file: self, judged: None };
        loop {
            // Before the look: what changes after it wakes us.
            let mut watch = Watch::arm(&follower.file.path);
            tokio::select! {
                () = stop.cancelled() => return,
                () = follower.look(&state) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = nudge.notified() => {}
                () = watch.event_or(POLL) => {}
            }
        }
    }
}

impl fmt::Debug for RulesFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RulesFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// What has become of the rules, for the status of a replica.
#[derive(Debug)]
pub(crate) struct Standing(ArcSwap<Told>);

#[derive(Clone, Debug)]
struct Told {
    loaded_at: UnixTime,
    /// Why what the file holds is not in force.
    refused: Vec<Finding>,
    /// What else has changed there.
    restart_for: Vec<&'static str>,
    /// What the rules in force changed of those before, if there were any before.
    last_change: Option<Change>,
}

impl Standing {
    /// Rules that are in force from now on.
    pub(crate) fn new() -> Self {
        let loaded_at = SystemClock.wall();
        let (refused, restart_for) = (Vec::new(), Vec::new());
        Self(ArcSwap::from_pointee(Told { loaded_at, refused, restart_for, last_change: None }))
    }

    /// ```json
    /// {"count": 3, "loaded_at": 1764450000, "last_change": {"added": 1, "kept": 2, "lost": 0},
    ///  "refused": [{"code", "place", "message"}], "restart_for": ["listen.ops"]}
    /// ```
    pub(crate) fn as_json(&self, count: usize) -> Value {
        let told = self.0.load();
        let refused = told.refused.iter();
        let refused: Vec<_> = refused
            .map(|finding| {
                json!({ "code": finding.code.name, "place": finding.place, "message": finding.message })
            })
            .collect();
        json!({
            "count": count,
            "loaded_at": told.loaded_at.as_secs(),
            "last_change": told.last_change.map(|Change { added, kept, lost }| {
                json!({ "added": added, "kept": kept, "lost": lost })
            }),
            "refused": refused,
            "restart_for": told.restart_for,
        })
    }

    fn change(&self, change: impl Fn(&mut Told)) {
        let mut told = (**self.0.load()).clone();
        change(&mut told);
        self.0.store(Arc::new(told));
    }
}

/// How many rules came, stayed and went, by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    added: usize,
    kept: usize,
    lost: usize,
}

impl Change {
    fn between(before: &RuleSet, after: &RuleSet) -> Self {
        let names =
            |rules: &RuleSet| rules.iter().map(|rule| rule.name().to_owned()).collect::<BTreeSet<_>>();
        let (before, after) = (names(before), names(after));
        let kept = before.intersection(&after).count();
        Self { added: after.len() - kept, kept, lost: before.len() - kept }
    }

    /// A file that was cut between two tables is as good as one from which rules were taken on purpose: nothing but how
    /// many have gone tells of it.
    fn tell(self, rules: usize) {
        let Self { added, kept, lost } = self;
        if rules == 0 {
            tracing::warn!(rules, added, kept, lost, "new rules are in force: none, so nobody gets a token");
        } else if lost > kept {
            tracing::warn!(
                rules,
                added,
                kept,
                lost,
                "new rules are in force, and more of those before are gone than are left: is the file whole?"
            );
        } else {
            tracing::info!(rules, added, kept, lost, "new rules are in force");
        }
    }
}

struct Follower {
    file: RulesFile,
    /// What the file held when it was last judged, good or bad.
    judged: Option<Judged>,
}

/// What the file held, so that the same again changes nothing and says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Judged {
    Content(Digest),
    /// Not read; in words.
    Unreadable(String),
}

impl Follower {
    /// Takes over what the file holds, if it is new and good.
    async fn look(&mut self, state: &State) {
        let found = self.settled().await;
        if self.judged.as_ref() == Some(&found) {
            return;
        }
        let sources = (self.file.sources)().config(Some(self.file.path.clone()));
        let Ok(loaded) = spawn_blocking(move || Config::load(sources)).await else { return };
        if read(self.file.path.clone()).await != found {
            // What was judged may be half of either; the event that tells of the change is there already.
            return;
        }
        match loaded {
            Ok((config, _)) => self.accept(found, &config, state),
            Err(mistakes) => self.refuse(found, &mistakes.findings, state),
        }
    }

    /// What the file holds, if it is what was judged last or has stopped changing: who writes it in place may be in the
    /// middle, which may look whole.
    async fn settled(&self) -> Judged {
        let mut found = read(self.file.path.clone()).await;
        for _ in 0..SETTLE_ATTEMPTS {
            if self.judged.as_ref() == Some(&found) {
                break;
            }
            tokio::time::sleep(SETTLE).await;
            let again = read(self.file.path.clone()).await;
            if again == found {
                break;
            }
            found = again;
        }
        found
    }

    fn accept(&mut self, found: Judged, config: &Config, state: &State) {
        let is_first = self.judged.is_none();
        let rules = config.settings.rules.clone();
        let count = rules.len();
        let before = state.issuer.current_rules();
        let is_new = *before != rules;
        if is_new {
            let change = Change::between(&before, &rules);
            match state.issuer.set_rules(rules) {
                Err(findings) => return self.refuse(found, &findings, state),
                Ok(findings) => findings.iter().for_each(logging::tell),
            }
            let now = SystemClock.wall();
            state.metrics.count_rules_reload(true);
            state.metrics.set_rules(count, now);
            state.metrics.count_rules_lost(change.lost);
            state.rules.change(|told| {
                told.loaded_at = now;
                told.last_change = Some(change);
            });
            change.tell(count);
        } else if !is_first {
            tracing::info!(rules = count, "the configuration file holds the rules in force");
        }
        self.judged = Some(found);
        let restart_for = self.file.began.differences(&config.settings.effective);
        if !restart_for.is_empty() {
            let keys = restart_for.join(", ");
            tracing::warn!(
                keys,
                "these changes of the configuration file need a restart; rules alone are taken at once"
            );
        }
        state.rules.change(|told| {
            told.refused.clear();
            told.restart_for.clone_from(&restart_for);
        });
    }

    /// Says so once for each change of what is there.
    fn refuse(&mut self, found: Judged, findings: &Findings, state: &State) {
        self.judged = Some(found);
        state.metrics.count_rules_reload(false);
        let errors: Vec<_> =
            findings.iter().filter(|finding| finding.code.severity == Severity::Error).cloned().collect();
        let why: Vec<_> = errors.iter().map(in_a_line).collect();
        let (why, rules) = (why.join("; "), state.issuer.current_rules().len());
        tracing::error!(why, rules, "the configuration file is refused; the last good rules stay in force");
        state.rules.change(|told| told.refused.clone_from(&errors));
    }
}

async fn read(path: PathBuf) -> Judged {
    let read = spawn_blocking(move || digest(&path)).await;
    read.unwrap_or_else(|_| Judged::Unreadable("the reading was given up".to_owned()))
}

fn digest(path: &Path) -> Judged {
    match disk::read(path) {
        Ok(content) => Judged::Content(Digest::of(content.text.as_bytes())),
        Err(error) => Judged::Unreadable(error.to_string()),
    }
}

fn in_a_line(finding: &Finding) -> String {
    format!("{} at {}: {}", finding.code.name, finding.place, finding.message)
}

/// How often the file is looked at although no event came: network file systems tell nothing of what others do.
const POLL: Duration = Duration::from_secs(15);
/// Between two readings that must agree.
const SETTLE: Duration = Duration::from_millis(50);
/// Past that, what is there is judged as it is; the next event or poll looks again.
const SETTLE_ATTEMPTS: u32 = 20;

#[cfg(test)]
mod tests {
    use oneseal::Rule;

    use super::*;

    #[test]
    fn rules_are_told_apart_by_their_names() {
        let rule = |name: &&str| Rule::of_clusters(*name, ["c"], "{namespace}");
        let rules = |names: &[&str]| RuleSet::new(names.iter().map(rule));
        for (before, after, [added, kept, lost]) in [
            (&["a", "b", "c"][..], &["c", "d"][..], [1, 1, 2]),
            (&["a", "b"], &["b", "a"], [0, 2, 0]),
            (&["a"], &[], [0, 0, 1]),
            (&[], &["a"], [1, 0, 0]),
        ] {
            let change = Change::between(&rules(before), &rules(after));
            assert_eq!(change, Change { added, kept, lost }, "{before:?} {after:?}");
        }
    }
}
