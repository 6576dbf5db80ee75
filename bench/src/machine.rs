//! Which machine, and how busy it was: without that a figure means nothing.
//!
//! An RSA signature is 2.4 times faster where the processor has AVX-512 IFMA, AES is of another order with its
//! instructions, SHA-256 too: the flags on which our figures and those of the peers hang are named.

use std::process::Command;
use std::time::{Duration, Instant, UNIX_EPOCH};

use oneseal_coordination::{Clock, SystemClock};

use crate::now;
use crate::proc::{TICKS_A_SECOND, own_ticks};

/// Facts about this run.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The processor's name.
    pub model: String,
    /// How many the system has.
    pub cores: usize,
    /// Those of [`FLAGS`] that it has.
    pub flags: Vec<&'static str>,
    /// Its kernel.
    pub kernel: String,
    /// The commit that was measured, with a `+` if files have changed since; nothing outside of git.
    pub commit: String,
    /// The day, in UTC.
    pub day: String,
}

impl Machine {
    /// This one, now.
    pub fn read() -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let of = |name: &str| info.lines().find_map(|line| value_of(line, name)).unwrap_or_default();
        let flags: Vec<_> = of("flags").split(' ').collect();
        Self {
            model: of("model name").to_owned(),
            cores: info.lines().filter(|line| value_of(line, "processor").is_some()).count(),
            flags: FLAGS.into_iter().filter(|flag| flags.contains(flag)).collect(),
            kernel: said_by("uname", &["-sr"]),
            commit: commit(),
            day: day(SystemClock.wall().as_secs()),
        }
    }

    /// One line for people.
    pub fn line(&self) -> String {
        let flags = if self.flags.is_empty() { "none".to_owned() } else { self.flags.join(" ") };
        format!(
            "{}, commit {}, {} × {} (of {}: {flags}), {}",
            self.day,
            if self.commit.is_empty() { "unknown" } else { &self.commit },
            self.cores,
            self.model,
            FLAGS.join(" "),
            self.kernel
        )
    }
}

fn value_of<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    Some(line.strip_prefix(name)?.trim_start().strip_prefix(':')?.trim())
}

fn commit() -> String {
    let commit = said_by("git", &["rev-parse", "--short=10", "HEAD"]);
    let changed =
        said_by("git", &["status", "--porcelain", "--untracked-files=no", "--", ":!docs/performance.md"]);
    if changed.is_empty() { commit } else { format!("{commit}+") }
}

fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// Of a second since the epoch, as `2026-11-29`.
fn day(secs: i64) -> String {
    let since = Duration::from_secs(u64::try_from(secs).unwrap_or_default());
    let moment = humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string();
    moment.chars().take("2026-11-29".len()).collect()
}

/// Who else was at work while something was measured. Pinning does not keep others off our cores.
#[derive(Debug)]
pub struct Meter {
    begun: Instant,
    machine: Ticks,
    own: u64,
}

impl Meter {
    /// From now on.
    pub fn start() -> Self {
        Self { begun: now(), machine: Ticks::of_machine(), own: own_ticks() }
    }

    /// Cores that neither this process nor its children (those that have ended by now) have used, and cores that the
    /// host has taken away, since the start.
    pub fn others(&self) -> (f64, f64) {
        let span = self.begun.elapsed().as_secs_f64() * TICKS_A_SECOND;
        let machine = Ticks::of_machine();
        let own = own_ticks().saturating_sub(self.own);
        let foreign = machine.busy.saturating_sub(self.machine.busy).saturating_sub(own);
        (foreign as f64 / span, machine.stolen.saturating_sub(self.machine.stolen) as f64 / span)
    }
}

/// The first line of `/proc/stat`, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    /// In processes: interrupts are left out, which belong to nobody.
    busy: u64,
    stolen: u64,
}

impl Ticks {
    fn of_machine() -> Self {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        stat.lines().next().and_then(Self::parse).unwrap_or_default()
    }

    fn parse(line: &str) -> Option<Self> {
        let ticks: Option<Vec<u64>> =
            line.strip_prefix("cpu ")?.split_ascii_whitespace().map(|field| field.parse().ok()).collect();
        let &[user, nice, system, _idle, _wait, _irq, _softirq, stolen, ..] = ticks?.as_slice() else {
            return None;
        };
        Some(Self { busy: user + nice + system, stolen })
    }
}

/// Instructions that decide how fast keys, hashes and ciphers are.
const FLAGS: [&str; 4] = ["avx512ifma", "sha_ni", "vaes", "aes"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(951_782_400), "2000-02-29");
        assert_eq!(day(1_796_083_199), "2026-11-30");
    }

    #[test]
    fn busy_is_what_processes_used() {
        let line = "cpu  10 2 30 400 5 6 7 8 0 0";
        assert_eq!(Ticks::parse(line), Some(Ticks { busy: 42, stolen: 8 }));
        assert_eq!(Ticks::parse("cpu0 1 2 3"), None);
    }

    #[test]
    fn a_line_of_the_kernel_is_read_by_its_whole_name() {
        assert_eq!(value_of("model name\t: Some CPU @ 2 GHz", "model name"), Some("Some CPU @ 2 GHz"));
        assert_eq!(value_of("model\t\t: 17", "model name"), None);
    }
}
