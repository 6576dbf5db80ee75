//! The fleet in metrics, as this replica sees it. Without a database there are none of them.

use std::fmt;
use std::sync::Arc;

use oneseal_keystore::findings::Severity;
use oneseal_keystore::fleet::PeerState;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::{Membership, View};

/// Reads what the last beat has brought.
#[derive(Debug)]
pub(crate) struct FleetCollector(pub(crate) Arc<Membership>);

impl Collector for FleetCollector {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut writer = Writer(encoder);
        let membership = &self.0;
        self.write_beats(&mut writer)?;
        let view = membership.view();
        let count = |state| {
            let peers = view.iter().flat_map(|view| &view.fleet.peers);
            peers.filter(|peer| peer.state == state).count()
        };
        writer.family(
            "oneseal_fleet_replicas",
            "Replicas in the registry, this one included, by state",
            "state",
            PeerState::ALL.map(|state| (state.as_str(), count(state))),
        )?;
        let conflicts = |code| {
            let findings = view.iter().flat_map(|view| view.judgement.findings.iter());
            findings
                .filter(|finding| finding.code.severity == Severity::Error && finding.code.name == code)
                .count()
        };
        writer.family(
            "oneseal_fleet_conflicts",
            "Contradictions between this replica and others or the ring's store, by finding",
            "code",
            CONFLICTS.map(|code| (code, conflicts(code))),
        )?;
        let view = view.as_deref();
        let is_behind = view.is_some_and(|view| view.judgement.ahead.is_some());
        writer.gauge(
            "oneseal_fleet_behind",
            "1 while a live replica serves a newer revision than this one",
            None,
            u32::from(is_behind),
        )?;
        let lagging = view.map_or(0, |view| view.judgement.lagging.len());
        writer.gauge(
            "oneseal_fleet_lagging",
            "Replicas that may serve an older revision than this one",
            None,
            lagging as u64,
        )?;
        let yielded = membership.is_yielding();
        writer.gauge(
            "oneseal_readiness_yielded",
            "1 while this replica is stale, another one mints, and readiness says no",
            None,
            u32::from(yielded),
        )?;
        let head = view.map_or(0, |view| view.event_head);
        writer.gauge(
            "oneseal_events_head",
            "Number of the last event in the log; 0 before the first",
            None,
            head,
        )?;
        write_stored(&mut writer, view)
    }
}

impl FleetCollector {
    fn write_beats(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let membership = &self.0;
        let (ok, failed) = membership.beats();
        let help = "Beats to the registry, by whether they were answered";
        let mut family = writer.0.encode_descriptor("oneseal_beats", help, None, MetricType::Counter)?;
        for (result, count) in [("ok", ok), ("failed", failed)] {
            family
                .encode_family(&[("result", result)])?
                .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        let age = membership.beat_age().map_or(f64::INFINITY, |age| age.as_secs_f64());
        writer.gauge(
            "oneseal_beat_age",
            "Time since the last answered beat began",
            Some(&Unit::Seconds),
            age,
        )?;
        writer.gauge(
            "oneseal_database_up",
            "1 if the last beat was answered by the database",
            None,
            u32::from(membership.is_store_up()),
        )
    }
}

/// What the database holds is not what replicas serve, and an alert compares the two.
fn write_stored(writer: &mut Writer<'_>, view: Option<&View>) -> fmt::Result {
    let (_, revision) = view.and_then(|view| view.stored).unwrap_or_default();
    writer.gauge(
        "oneseal_stored_ring_revision",
        "Revision of the ring that the database holds; 0 if it holds none",
        None,
        revision,
    )
}

struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        value: impl EncodeGaugeValue,
    ) -> fmt::Result {
        self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn family<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        label: &'static str,
        counts: [(&'static str, usize); N],
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (value, count) in counts {
            family.encode_family(&[(label, value)])?.encode_gauge(&(count as u64))?;
        }
        Ok(())
    }
}

/// Every error that a live replica can find in the rows.
const CONFLICTS: [&str; 4] =
    ["fleet.jwks_differs", "fleet.kid_reused", "fleet.key_replaced", "ring.rolled_back"];
