//! The metrics that are read off when they are asked for, rather than counted.

use std::fmt;
use std::sync::Arc;

use oneseal_keystore::{Algorithm, Digest, Keystore};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

use super::agents::Agent;
use crate::health;
use crate::published::{Live, Published};

/// Reads an issuer.
#[derive(Debug)]
pub(super) struct Readings {
    live: Arc<Live>,
    keystore: Keystore,
    algorithm: Algorithm,
}

impl Readings {
    pub(super) fn new(live: Arc<Live>, keystore: Keystore, algorithm: Algorithm) -> Self {
        Self { live, keystore, algorithm }
    }
}

impl Collector for Readings {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut writer = Writer(encoder);
        let published = self.live.published_full();
        self.write_state(&mut writer, &published)?;
        self.write_refreshes(&mut writer)?;
        write_keys(&mut writer, &published)?;
        write_fetches(&mut writer, &published)
    }
}

impl Readings {
    fn write_state(&self, writer: &mut Writer<'_>, published: &Published) -> fmt::Result {
        let health = health::read(&self.live, &self.keystore, self.algorithm);
        let snapshot = &published.snapshot;
        writer.jwks(&Digest::of(snapshot.jwks()).to_string())?;
        let identity = snapshot.identity();
        writer.gauge(
            "ring_incarnation",
            "Which life of the ring is served; 0 for bare keys",
            None,
            identity.incarnation,
        )?;
        writer.gauge(
            "ring_revision",
            "Which revision of the ring is served; 0 for bare keys",
            None,
            identity.revision,
        )?;
        writer.gauge(
            "tasks_running",
            "1 while Tasks::run is running",
            None,
            u32::from(self.live.are_tasks_running()),
        )?;
        writer.gauge("minting", "1 while this replica mints", None, u32::from(health.minting.is_on()))?;
        let age = "Time since the last good look at the provider began";
        writer.gauge("refresh_age", age, SECONDS, health.age.as_secs_f64())?;
        // A provider that is read once has no limit; the metric is there all the same, so that rules can be written.
        let limit = health.staleness_limit.map_or(f64::INFINITY, |limit| limit.as_secs_f64());
        writer.gauge("staleness_limit", "The refresh age past which minting stops", SECONDS, limit)
    }

    fn write_refreshes(&self, writer: &mut Writer<'_>) -> fmt::Result {
        let status = self.keystore.status();
        let help = "Looks at the provider, by how they ended";
        let mut family = writer.0.encode_descriptor("refreshes", help, None, MetricType::Counter)?;
        let counts = [
            ("ok", status.refreshes_ok),
            ("failed", status.refreshes_failed),
            ("refused", status.records_refused),
        ];
        for (result, count) in counts {
            family
                .encode_family(&[("result", result)])?
                .encode_counter::<NoLabelSet, _, u64>(&count, None)?;
        }
        Ok(())
    }
}

fn write_keys(writer: &mut Writer<'_>, published: &Published) -> fmt::Result {
    let help = "1 for each published key, with its state";
    let mut family = writer.0.encode_descriptor("key_state", help, None, MetricType::Gauge)?;
    for key in published.snapshot.keys() {
        let labels =
            [("kid", key.kid.as_str()), ("alg", key.algorithm.as_str()), ("state", key.state.as_str())];
        family.encode_family(&labels)?.encode_gauge(&1_u32)?;
    }
    let help = "When this process first published the key";
    let name = "key_first_served_timestamp";
    let mut family = writer.0.encode_descriptor(name, help, SECONDS, MetricType::Gauge)?;
    for marks in published.marks() {
        family.encode_family(&[("kid", marks.kid.as_str())])?.encode_gauge(&marks.first_served.as_secs())?;
    }
    let help = "The latest exp of the tokens this process signed with the key; 0 if it signed none";
    let name = "key_last_exp_timestamp";
    let mut family = writer.0.encode_descriptor(name, help, SECONDS, MetricType::Gauge)?;
    for marks in published.marks() {
        let exp = marks.last_exp().map_or(0, |exp| exp.as_secs());
        family.encode_family(&[("kid", marks.kid.as_str())])?.encode_gauge(&exp)?;
    }
    Ok(())
}

fn write_fetches(writer: &mut Writer<'_>, published: &Published) -> fmt::Result {
    let help = "GETs of the key set since it last changed, by user agent: who has picked the new one up";
    let name = "jwks_fetches_since_publish";
    let mut family = writer.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for agent in Agent::ALL {
        family.encode_family(&[("agent", agent.label())])?.encode_gauge(&published.fetches(agent))?;
    }
    Ok(())
}

/// The registry puts `oneseal_` before each name.
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

    fn jwks(&mut self, digest: &str) -> fmt::Result {
        let help = "SHA-256 of the key set that is served: one value over all replicas";
        let mut metric = self.0.encode_descriptor("jwks", help, None, MetricType::Info)?;
        metric.encode_info(&[("digest", digest)])
    }
}

const SECONDS: Option<&Unit> = Some(&Unit::Seconds);
