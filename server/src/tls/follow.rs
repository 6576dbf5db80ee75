//! Renewal without a restart.
//!
//! Events only wake; what counts is what the files hold. A pair that differs from the one in use is read twice, a
//! moment apart: who rewrites a chain in place may be between two of its certificates, which looks whole. Then it is
//! judged as at the start, and shown to new connections if nothing is wrong with it.

use std::sync::Arc;
use std::time::Duration;

use oneseal::{Clock, SystemClock};
use oneseal_keystore::findings::{Finding, Severity};
use oneseal_keystore::{Digest, Findings};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::certificate::{self, Certificate};
use super::files::{Content, Files};
use super::{Certificates, Facts};
use crate::logging;
use crate::state::State;

/// Follows the two files.
pub(crate) struct Follower {
    files: Files,
    certificates: Arc<Certificates>,
    provider: CryptoProvider,
    poll: Duration,
    /// What the files held when they were last judged, good or bad.
    judged: Option<Judged>,
    /// What was last said of the end of the certificate in use.
    told: Life,
}

/// What the files held, so that the same again changes nothing and says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Judged {
    Pair(Digest),
    /// Not read; in words.
    Unreadable(String),
}

/// How far the certificate in use is from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Fine,
    Ending,
    Over,
}

impl Follower {
    /// Follows `files`, from which `certificates` were read.
    pub(super) fn new(files: Files, certificates: Arc<Certificates>) -> Self {
        let provider = aws_lc_rs::default_provider();
        Self { files, certificates, provider, poll: POLL, judged: None, told: Life::Fine }
    }

    /// With another time between two looks.
    #[cfg(test)]
    pub(super) fn polling_every(mut self, poll: Duration) -> Self {
        self.poll = poll;
        self
    }

    /// Looks again at every event, every [`POLL`], and whenever `nudge` says so, until `stop`.
    ///
    /// # Cancel safety
    /// The certificate in use is whole at every moment.
    pub(crate) async fn run(mut self, state: Arc<State>, nudge: Arc<Notify>, stop: CancellationToken) {
        // What can be said of it now, the start has said.
        self.told = self.life(&SystemClock);
        loop {
            // Before the look: what changes after it wakes us.
            let mut watches = self.files.watch();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.look(&state, &SystemClock) => {}
            }
            self.watch_end(&SystemClock);
            tokio::select! {
                () = stop.cancelled() => return,
                () = nudge.notified() => {}
                () = watches.event_or(self.poll) => {}
            }
        }
    }

    /// Takes over what the files hold, if it is new and good.
    async fn look(&mut self, state: &State, clock: &dyn Clock) {
        let content = match self.settled().await {
            Ok(content) => content,
            Err(findings) => {
                let words = findings.to_string();
                return self.refuse(Judged::Unreadable(words), &findings, state);
            }
        };
        let judged = Judged::Pair(content.digest());
        if self.judged.as_ref() == Some(&judged) {
            return;
        }
        let issuer = state.issuer.url();
        let (certificate, findings) = certificate::judge(&content, issuer, &self.provider, clock.wall());
        match certificate {
            Some(certificate) => {
                self.accept(judged, certificate, &findings, state);
                self.told = self.life(clock);
            }
            None => self.refuse(judged, &findings, state),
        }
    }

    /// What the files hold, if it is what was judged last or has stopped changing.
    async fn settled(&self) -> Result<Content, Findings> {
        let mut content = self.files.read().await?;
        for _ in 0..SETTLE_ATTEMPTS {
            let digest = content.digest();
            if self.judged == Some(Judged::Pair(digest)) {
                break;
            }
            tokio::time::sleep(SETTLE).await;
            content = self.files.read().await?;
            if content.digest() == digest {
                break;
            }
        }
        Ok(content)
    }

    fn accept(&mut self, judged: Judged, certificate: Certificate, findings: &Findings, state: &State) {
        let before = self.certificates.current();
        let was_refused = self.judged.is_some();
        self.judged = Some(judged);
        if certificate.pair.cert == before.pair.cert && certificate.facts == before.facts {
            // The start has read it, or what is served stands there again after something worse.
            if was_refused {
                let fingerprint = before.facts.fingerprint;
                tracing::info!(%fingerprint, "the files hold the TLS certificate in use");
            }
            return;
        }
        findings.iter().for_each(logging::tell);
        certificate.shared_with(&state.issuer.snapshot()).iter().for_each(logging::tell);
        let Facts { subject, fingerprint, .. } = &certificate.facts;
        let not_after = certificate.facts.not_after_text();
        tracing::info!(subject, not_after, %fingerprint, "new TLS certificate; open connections keep the old one");
        state.metrics.set_tls_certificate(certificate.facts.not_after);
        state.metrics.count_tls_reload(true);
        self.certificates.replace(certificate);
    }

    /// Says so once for each change of what is there.
    fn refuse(&mut self, judged: Judged, findings: &Findings, state: &State) {
        if self.judged.as_ref() == Some(&judged) {
            return;
        }
        self.judged = Some(judged);
        state.metrics.count_tls_reload(false);
        let why: Vec<_> = findings.iter().filter(|finding| is_error(finding)).map(in_a_line).collect();
        let current = self.certificates.current();
        let (why, fingerprint) = (why.join("; "), current.facts.fingerprint);
        let not_after = current.facts.not_after_text();
        tracing::error!(
            why,
            %fingerprint,
            not_after,
            "the TLS files hold no usable pair; the last good certificate stays in use"
        );
    }

    fn life(&self, clock: &dyn Clock) -> Life {
        let current = self.certificates.current();
        let now = clock.wall();
        if now > current.facts.not_after {
            Life::Over
        } else if now + current.facts.margin() > current.facts.not_after {
            Life::Ending
        } else {
            Life::Fine
        }
    }

    /// Says once that the certificate in use nears its end, and once that it has met it.
    fn watch_end(&mut self, clock: &dyn Clock) {
        let life = self.life(clock);
        if life == self.told {
            return;
        }
        self.told = life;
        let current = self.certificates.current();
        let facts = &current.facts;
        let (not_after, fingerprint) = (facts.not_after_text(), facts.fingerprint);
        match life {
            Life::Fine => {}
            Life::Ending => {
                tracing::warn!(not_after, %fingerprint, "the TLS certificate expires soon and is not renewed yet");
            }
            Life::Over => {
                tracing::error!(not_after, %fingerprint, "the TLS certificate has expired; clients refuse it");
            }
        }
    }
}

fn is_error(finding: &Finding) -> bool {
    finding.code.severity == Severity::Error
}

fn in_a_line(finding: &Finding) -> String {
    format!("{} at {}: {}", finding.code.name, finding.place, finding.message)
}

/// How often the files are looked at although no event came: network file systems tell nothing of what others do.
const POLL: Duration = Duration::from_secs(15);
/// Between two readings that must agree.
const SETTLE: Duration = Duration::from_millis(50);
/// Past that, what is there is judged as it is; the next event or poll looks again.
const SETTLE_ATTEMPTS: u32 = 20;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use arc_swap::ArcSwap;
    use oneseal::{BootTime, UnixTime};
    use oneseal_keystore::IssuerUrl;

    use super::super::dev;
    use super::*;

    #[derive(Debug)]
    struct At(i64);

    impl Clock for At {
        fn wall(&self) -> UnixTime {
            UnixTime(self.0)
        }

        fn boot(&self) -> BootTime {
            BootTime(Duration::ZERO)
        }
    }

    #[test]
    fn the_end_comes_in_two_steps_each_told_once_and_a_clock_set_back_begins_anew() {
        let issuer = IssuerUrl::parse("https://localhost", "issuer").unwrap();
        let made = dev::make(&issuer, &aws_lc_rs::default_provider(), UnixTime(1_800_000_000)).unwrap().0;
        let end = made.facts.not_after.0;
        let files = Files { certificate: "/nowhere".into(), private_key: "/nowhere".into() };
        let mut follower = Follower::new(files, Arc::new(Certificates(ArcSwap::from_pointee(made))));
        let day = 24 * 3600;
        for (now, life) in [
            (end - 8 * day, Life::Fine),
            (end - 7 * day + 1, Life::Ending),
            (end, Life::Ending),
            (end + 1, Life::Over),
            (end - 8 * day, Life::Fine),
        ] {
            assert_eq!(follower.life(&At(now)), life, "{now}");
            follower.watch_end(&At(now));
            assert_eq!(follower.told, life);
        }
    }
}
