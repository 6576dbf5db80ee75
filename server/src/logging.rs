//! Log lines: on standard error, for people or for machines, and what a panic may say.
//!
//! Only a verb that runs for long installs this; the others print what they have to say through
//! [`output`](crate::output).

use std::io::{self, IsTerminal};
use std::panic::{self, PanicHookInfo};

use clap::ValueEnum;
use oneseal_keystore::Finding;
use oneseal_keystore::findings::Severity;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config;
use crate::panics;
use crate::report;

/// For whom log lines are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// People on a terminal, machines elsewhere
    Auto,
    /// People
    Human,
    /// Machines: one JSON object a line
    Json,
}

impl From<config::LogFormat> for LogFormat {
    fn from(format: config::LogFormat) -> Self {
        match format {
            config::LogFormat::Auto => Self::Auto,
            config::LogFormat::Human => Self::Human,
            config::LogFormat::Json => Self::Json,
        }
    }
}

impl LogFormat {
    /// Whether lines are JSON, with standard error as it is now.
    pub(crate) fn is_json(self) -> bool {
        match self {
            Self::Auto => !io::stderr().is_terminal(),
            Self::Human => false,
            Self::Json => true,
        }
    }
}

/// Sends log lines to standard error from now on, and what panics have to say with them. `filter` is in the form of
/// `ONESEAL_LOG`: `info`, `oneseal=debug,warn`; one that does not parse counts as the default, `info`.
///
/// Called once a process. A second call changes nothing.
pub(crate) fn install(format: LogFormat, filter: Option<&str>) {
    let filter = with_audit(filter.unwrap_or(DEFAULT_FILTER));
    // Regular expressions in a filter would match the values of fields: nobody needs it, and building them costs
    // more than all the rest of the start.
    let filter = EnvFilter::builder().with_regex(false).parse(&filter);
    let filter = filter.unwrap_or_else(|_| EnvFilter::new(with_audit(DEFAULT_FILTER)));
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    // Fails only if there is a subscriber already, whose lines then go on.
    drop(if format.is_json() {
        registry.with(lines.json().flatten_event(true).with_span_list(false)).try_init()
    } else {
        registry.with(lines.with_ansi(io::stderr().is_terminal())).try_init()
    });
    panic::set_hook(Box::new(log_panic));
}

/// Tells a finding as a log line of its own severity.
pub(crate) fn tell(finding: &Finding) {
    let (code, place, see) = (finding.code.name, finding.place.as_str(), report::see(finding.code));
    let (message, cure) = (finding.message.as_str(), finding.code.cure);
    match finding.code.severity {
        Severity::Error => tracing::error!(code, place, cure, see, "{message}"),
        Severity::Warning => tracing::warn!(code, place, cure, see, "{message}"),
        Severity::Info => tracing::info!(code, place, cure, see, "{message}"),
    }
}

/// Audit lines are no matter of how much one wants to read: they stay, unless the filter names them itself.
fn with_audit(filter: &str) -> String {
    if filter.contains(AUDIT) { filter.to_owned() } else { format!("{filter},{AUDIT}=info") }
}

fn log_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map(ToString::to_string).unwrap_or_default();
    tracing::error!(place, "panicked: {}", panics::words(panic.payload()));
}

/// The target of audit lines: who had a token minted, and for whom.
pub(crate) const AUDIT: &str = "oneseal::audit";

const DEFAULT_FILTER: &str = "info";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configured_format_is_one_of_the_flag() {
        assert_eq!(LogFormat::from(config::LogFormat::Auto), LogFormat::Auto);
        assert!(!LogFormat::from(config::LogFormat::Human).is_json());
        assert!(LogFormat::from(config::LogFormat::Json).is_json());
    }

    #[test]
    fn a_quiet_filter_keeps_the_audit_lines_and_one_that_names_them_decides() {
        assert_eq!(with_audit("error"), "error,oneseal::audit=info");
        assert_eq!(with_audit("info,oneseal::audit=off"), "info,oneseal::audit=off");
    }
}
