//! The server's own metrics, beside those of the issuer: its connections, requests and process.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use oneseal::UnixTime;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};

use crate::fleet::{FleetCollector, Membership};
use crate::http::admin::Verdict;
use crate::process;

/// Where a connection came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listener {
    /// Discovery and JWKS.
    Documents,
    /// Tokens, where they have one of their own.
    Token,
    /// Probes and metrics.
    Ops,
    /// The admin API on its Unix socket.
    Admin,
    /// The admin API on TCP.
    AdminTcp,
}

impl Listener {
    const ALL: [Self; 5] = [Self::Documents, Self::Token, Self::Ops, Self::Admin, Self::AdminTcp];

    /// The `listener` label, and the word in logs.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Documents => "documents",
            Self::Token => "token",
            Self::Ops => "ops",
            Self::Admin => "admin",
            Self::AdminTcp => "admin_tcp",
        }
    }
}

/// Why a request for a token was not even looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TurnedAway {
    /// Its address asks too often.
    Address,
    /// As many as there may be were being answered.
    Places,
}

impl TurnedAway {
    const ALL: [Self; 2] = [Self::Address, Self::Places];

    fn as_str(self) -> &'static str {
        match self {
            Self::Address => "address_limit",
            Self::Places => "full",
        }
    }
}

/// Why a TLS handshake came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeFailure {
    /// The client went away, as a port probe does.
    Gone,
    /// It was not done in time.
    Deadline,
    /// Plain HTTP was spoken.
    PlainHttp,
    /// No version or cipher in common, an alert, or no TLS at all.
    Protocol,
}

impl HandshakeFailure {
    const ALL: [Self; 4] = [Self::Gone, Self::Deadline, Self::PlainHttp, Self::Protocol];

    fn as_str(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::Deadline => "deadline",
            Self::PlainHttp => "plain_http",
            Self::Protocol => "protocol",
        }
    }
}

type Label = (&'static str, &'static str);

/// Made once for each process.
pub(crate) struct ServerMetrics {
    registry: Registry,
    /// By listener and class of status: looked up by position, since every request counts here.
    requests: [[Counter; CLASSES.len()]; Listener::ALL.len()],
    connections: [Gauge; Listener::ALL.len()],
    displaced: [Counter; Listener::ALL.len()],
    admin_auth: [Counter; Verdict::ALL.len()],
    turned_away: [Counter; TurnedAway::ALL.len()],
    event_streams: Gauge,
    rules: Gauge,
    /// In Unix seconds.
    rules_loaded: Gauge,
    /// By outcome.
    rules_reloads: [Counter; OUTCOMES.len()],
    rules_lost: Counter,
    tls_reloads: [Counter; OUTCOMES.len()],
    handshake_failures: [Counter; HandshakeFailure::ALL.len()],
    /// Without TLS it has no sample: an alert on a certificate that is not there would never end.
    certificate_ends: Family<[Label; 1], Gauge>,
}

impl ServerMetrics {
    /// All at zero.
    pub(crate) fn new() -> Self {
        Self::of_fleet(None)
    }

    /// The same, with those of a fleet if there is one.
    pub(crate) fn of_fleet(fleet: Option<Arc<Membership>>) -> Self {
        let mut registry = Registry::default();
        if let Some(fleet) = fleet {
            registry.register_collector(Box::new(FleetCollector(fleet)));
        }
        let requests = Family::<[Label; 2], Counter>::default();
        let connections = Family::<[Label; 1], Gauge>::default();
        registry.register(
            "oneseal_http_requests",
            "Requests answered, by listener and class of status",
            requests.clone(),
        );
        registry.register(
            "oneseal_http_connections",
            "Connections open now, by listener",
            connections.clone(),
        );
        let displaced = Family::<[Label; 1], Counter>::default();
        registry.register(
            "oneseal_http_connections_displaced",
            "Connections closed to make room for others, by listener",
            displaced.clone(),
        );
        let admin_auth = Family::<[Label; 1], Counter>::default();
        registry.register(
            "oneseal_admin_auth",
            "Requests to the admin API over TCP, by who asked and whether they might",
            admin_auth.clone(),
        );
        let turned_away = Family::<[Label; 1], Counter>::default();
        registry.register(
            "oneseal_token_turned_away",
            "Requests for tokens that were refused before they were read, by reason",
            turned_away.clone(),
        );
        let event_streams = Gauge::default();
        registry.register("oneseal_event_streams", "Streams of events open now", event_streams.clone());
        let rules = Gauge::default();
        registry.register("oneseal_rules", "Rules in force", rules.clone());
        let rules_loaded = Gauge::default();
        registry.register_with_unit(
            "oneseal_rules_loaded_timestamp",
            "When the rules in force were taken, since the Unix epoch",
            Unit::Seconds,
            rules_loaded.clone(),
        );
        let rules_reloads = Family::<[Label; 1], Counter>::default();
        registry.register(
            "oneseal_rules_reloads",
            "Changes of the configuration file, by whether its rules are in force",
            rules_reloads.clone(),
        );
        let rules_lost = Counter::default();
        registry.register(
            "oneseal_rules_lost",
            "Rules that changes of the configuration file have taken away, by their names",
            rules_lost.clone(),
        );
        let tls_reloads = Family::<[Label; 1], Counter>::default();
        let handshake_failures = Family::<[Label; 1], Counter>::default();
        let certificate_ends = Family::<[Label; 1], Gauge>::default();
        registry.register(
            "oneseal_tls_reloads",
            "Changes of the TLS files, by whether the new pair is used",
            tls_reloads.clone(),
        );
        registry.register(
            "oneseal_tls_handshake_failures",
            "TLS handshakes that came to nothing, by reason",
            handshake_failures.clone(),
        );
        registry.register_with_unit(
            "oneseal_tls_certificate_not_after",
            "Last moment of the TLS certificate in use, since the Unix epoch; absent without TLS",
            Unit::Seconds,
            certificate_ends.clone(),
        );
        registry.register_collector(Box::new(ProcessCollector));
        Self {
            registry,
            requests: Listener::ALL.map(|listener| {
                CLASSES.map(|class| {
                    requests.get_or_create_owned(&[("listener", listener.as_str()), ("status", class)])
                })
            }),
            connections: Listener::ALL
                .map(|listener| connections.get_or_create_owned(&[("listener", listener.as_str())])),
            displaced: Listener::ALL
                .map(|listener| displaced.get_or_create_owned(&[("listener", listener.as_str())])),
            admin_auth: Verdict::ALL
                .map(|verdict| admin_auth.get_or_create_owned(&[("result", verdict.as_str())])),
            turned_away: TurnedAway::ALL
                .map(|reason| turned_away.get_or_create_owned(&[("reason", reason.as_str())])),
            event_streams,
            rules,
            rules_loaded,
            rules_reloads: OUTCOMES.map(|outcome| rules_reloads.get_or_create_owned(&[("outcome", outcome)])),
            rules_lost,
            tls_reloads: OUTCOMES.map(|outcome| tls_reloads.get_or_create_owned(&[("outcome", outcome)])),
            handshake_failures: HandshakeFailure::ALL
                .map(|failure| handshake_failures.get_or_create_owned(&[("reason", failure.as_str())])),
            certificate_ends,
        }
    }

    /// Somebody has called the admin API over TCP.
    pub(crate) fn count_admin_auth(&self, verdict: Verdict) {
        self.admin_auth[verdict as usize].inc();
    }

    /// So many rules are in force since then.
    pub(crate) fn set_rules(&self, count: usize, since: UnixTime) {
        self.rules.set(i64::try_from(count).unwrap_or(i64::MAX));
        self.rules_loaded.set(since.as_secs());
    }

    /// The configuration file has changed, and its rules are in force now or are refused.
    pub(crate) fn count_rules_reload(&self, is_used: bool) {
        self.rules_reloads[usize::from(!is_used)].inc();
    }

    /// A change of the configuration file has taken so many rules away.
    pub(crate) fn count_rules_lost(&self, lost: usize) {
        self.rules_lost.inc_by(u64::try_from(lost).unwrap_or(u64::MAX));
    }

    /// A request for a token was refused unread.
    pub(crate) fn count_turned_away(&self, reason: TurnedAway) {
        self.turned_away[reason as usize].inc();
    }

    /// The files of TLS have changed, for a pair that is used now or for something that is not.
    pub(crate) fn count_tls_reload(&self, is_used: bool) {
        self.tls_reloads[usize::from(!is_used)].inc();
    }

    /// A TLS handshake has failed.
    pub(crate) fn count_handshake_failure(&self, failure: HandshakeFailure) {
        self.handshake_failures[failure as usize].inc();
    }

    /// The documents listener shows a certificate that ends then.
    pub(crate) fn set_tls_certificate(&self, not_after: UnixTime) {
        let gauge = self.certificate_ends.get_or_create_owned(&[("listener", Listener::Documents.as_str())]);
        gauge.set(not_after.as_secs());
    }

    /// One request was answered.
    pub(crate) fn count_request(&self, listener: Listener, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1).min(CLASSES.len() - 1);
        self.requests[listener as usize][class].inc();
    }

    /// Counts a connection until the value is dropped.
    pub(crate) fn open_connection(&self, listener: Listener) -> OpenConnection {
        let gauge = self.connections[listener as usize].clone();
        gauge.inc();
        OpenConnection(gauge)
    }

    /// Counts a stream of events until the value is dropped.
    pub(crate) fn open_event_stream(&self) -> OpenConnection {
        self.event_streams.inc();
        OpenConnection(self.event_streams.clone())
    }

    /// Counts the connections closed since others needed their place.
    pub(crate) fn displaced(&self, listener: Listener) -> Counter {
        self.displaced[listener as usize].clone()
    }

    /// Appends everything as OpenMetrics text, with the `# EOF` that ends it.
    pub(crate) fn write_last(&self, out: &mut String) {
        let written = encode_registry(out, &self.registry).and_then(|()| encode_eof(out));
        debug_assert!(written.is_ok(), "writing to a String cannot fail");
    }
}

impl fmt::Debug for ServerMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerMetrics")
    }
}

/// A connection, or a stream on one, that is counted.
#[derive(Debug)]
pub(crate) struct OpenConnection(Gauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Reads the process when it is asked. The names are those that every Prometheus client has.
#[derive(Debug)]
struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(usage) = process::usage() else { return Ok(()) };
        let cpu = ConstCounter::new(usage.cpu_seconds);
        let described = encoder.encode_descriptor(
            "process_cpu",
            "Processor time used, user and system",
            Some(&Unit::Seconds),
            cpu.metric_type(),
        )?;
        cpu.encode(described)?;
        let gauges = [
            ("process_resident_memory", "Memory in use", Some(&Unit::Bytes), usage.resident_bytes),
            ("process_start_time", "Start, since the Unix epoch", Some(&Unit::Seconds), usage.started_at_s),
            ("process_open_fds", "Open file descriptors", None, usage.open_files),
            ("process_max_fds", "File descriptors that may be open", None, usage.max_files),
        ];
        for (name, help, unit, value) in gauges {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, unit, gauge.metric_type())?)?;
        }
        Ok(())
    }
}

const OUTCOMES: [&str; 2] = ["ok", "failed"];
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet;

    fn text(metrics: &ServerMetrics) -> String {
        let mut out = String::new();
        metrics.write_last(&mut out);
        out
    }

    #[test]
    fn requests_and_connections_are_counted_where_they_belong() {
        let metrics = ServerMetrics::new();
        let open = metrics.open_connection(Listener::Ops);
        metrics.count_request(Listener::Documents, StatusCode::NOT_MODIFIED);
        metrics.count_request(Listener::Admin, StatusCode::SERVICE_UNAVAILABLE);
        let now = text(&metrics);
        for line in [
            "oneseal_http_requests_total{listener=\"documents\",status=\"3xx\"} 1",
            "oneseal_http_requests_total{listener=\"admin\",status=\"5xx\"} 1",
            "oneseal_http_requests_total{listener=\"ops\",status=\"2xx\"} 0",
            "oneseal_http_connections{listener=\"ops\"} 1",
        ] {
            assert!(now.lines().any(|found| found == line), "{line}\n{now}");
        }
        drop(open);
        assert!(text(&metrics).contains("oneseal_http_connections{listener=\"ops\"} 0"));
        assert!(now.ends_with("# EOF\n"));
    }

    #[test]
    fn every_metric_is_documented() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
        let page = std::fs::read_to_string(path).expect("docs/metrics.md");
        let metrics = ServerMetrics::new();
        metrics.set_tls_certificate(UnixTime(0));
        let own = table(&text(&metrics));
        let of_fleet = table(&text(&ServerMetrics::of_fleet(Some(fleet::without_database()))));
        let (head, _) = own.split_at(own.rfind("|---|").expect("a head") + 6);
        let only: String =
            of_fleet.lines().filter(|row| !own.contains(row)).map(|row| format!("{row}\n")).collect();
        let wanted = replaced(&page, BEGIN, END, &own);
        let wanted = replaced(&wanted, FLEET_BEGIN, FLEET_END, &format!("{head}{only}"));
        if std::env::var_os("TEST_BLESS").is_some() {
            std::fs::write(path, &wanted).expect("docs/ can be written");
        } else {
            assert!(page == wanted, "docs/metrics.md is out of date: run the tests once with TEST_BLESS=1");
        }
    }

    /// What stands between the marks is `table`.
    fn replaced(page: &str, begin: &str, end: &str, table: &str) -> String {
        let (before, rest) = page.split_once(begin).expect("the begin mark");
        let (_, after) = rest.split_once(end).expect("the end mark");
        format!("{before}{begin}{table}{end}{after}")
    }

    const FLEET_BEGIN: &str = "<!-- fleet: written by a test, see server/src/metrics.rs -->\n";
    const FLEET_END: &str = "<!-- end of fleet -->\n";
    const BEGIN: &str = "<!-- server: written by a test, see server/src/metrics.rs -->\n";
    const END: &str = "<!-- end of server -->\n";

    /// The rows of the page, by name.
    fn table(text: &str) -> String {
        let of = |kind: &str, name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("# {kind} {name} ")));
            line.unwrap_or_default().to_owned()
        };
        let mut names: Vec<_> =
            text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        names.sort_unstable();
        let mut rows =
            String::from("| name | type | unit | labels | what it tells |\n|---|---|---|---|---|\n");
        for name in names {
            let kind = of("TYPE", name);
            let suffix = if kind == "counter" { "_total" } else { "" };
            let sample = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(suffix));
            let sample = sample.unwrap_or_default();
            let labels: Vec<_> =
                sample.split('"').step_by(2).filter_map(|part| part.split_once('=')).collect();
            let labels: Vec<_> =
                labels.iter().map(|(label, _)| label.trim_start_matches(['{', ','])).collect();
            let (unit, help) = (of("UNIT", name), of("HELP", name));
            let (labels, help) = (labels.join(", "), help.trim_end_matches('.'));
            rows.push_str(&format!("| `{name}{suffix}` | {kind} | {unit} | {labels} | {help} |\n"));
        }
        rows
    }

    #[test]
    fn the_process_tells_its_memory() {
        let now = text(&ServerMetrics::new());
        let memory = now.lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
        let bytes: u64 = memory.expect(&now).parse().expect("a number");
        assert!(bytes > 1_000_000, "{bytes}");
    }
}
