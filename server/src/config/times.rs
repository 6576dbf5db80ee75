//! The times of `[rotation]`: each from its key, or all short at once by the preset.

use std::time::Duration;

use oneseal_keystore::{Findings, IssuerUrl, Rotation};

use super::choose::text;
use super::codes;
use super::value::{Value, in_units};
use super::values::{Values, mismatch};

/// The times, checked against each other. The preset's stand where nobody has said otherwise; for an issuer that others
/// may rely on they are refused unless `yes` says that they are meant.
pub(super) fn choose(
    values: &mut Values,
    issuer: Option<&IssuerUrl>,
    yes: bool,
    findings: &mut Findings,
) -> Rotation {
    if text(values, "rotation.preset").as_deref() == Some("lab") {
        let is_public = issuer.is_some_and(|issuer| !issuer.is_loopback());
        if is_public && !yes {
            let message = "the issuer is not one of this machine: its relying parties keep keys for longer than these \
                           times say, and would refuse tokens at each rotation";
            findings.push(&codes::LAB_PRESET, values.place("rotation.preset"), message);
        }
        for (path, seconds) in of_preset(&Rotation::lab()) {
            let span = Duration::from_secs(seconds);
            values.default_to(path, Value::Duration(span, in_units(span)));
        }
    }
    let times = read(values);
    if values.is_any_faulty("rotation.") {
        // The default in its place might contradict another time that agrees with the one that was meant.
        return times;
    }
    for finding in times.check("rotation").iter() {
        findings.push(finding.code, values.place(&finding.place), finding.message.clone());
    }
    times
}

fn read(values: &Values) -> Rotation {
    let seconds = |path: &str| values.duration(path).as_secs();
    let perhaps = |path: &str| match &values.find(path)?.value {
        Value::Duration(span, _) => Some(span.as_secs()),
        other => mismatch(path, other),
    };
    let mut times = Rotation::default();
    times.generation = values.integer("rotation.generation");
    times.refresh_s = seconds("rotation.refresh");
    times.staleness_limit_s = seconds("rotation.staleness_limit");
    times.jwks_max_age_s = seconds("rotation.jwks_max_age");
    times.shared_cache = values.bool("rotation.shared_cache");
    times.skew_s = seconds("rotation.skew");
    times.rp_leeway_s = seconds("rotation.rp_leeway");
    times.rp_propagation_s = seconds("rotation.rp_propagation");
    times.token_ttl_s = seconds("rotation.token_ttl");
    times.max_token_ttl_s = seconds("rotation.max_token_ttl");
    times.publish_lead_s = perhaps("rotation.publish_lead");
    times.rotate_every_s = seconds("rotation.rotate_every");
    times.rollback_window_s = seconds("rotation.rollback_window");
    times.erase_private_after_s = perhaps("rotation.erase_private_after");
    times.emergency_wait_s = seconds("rotation.emergency_wait");
    times.backdate_s = seconds("rotation.backdate");
    times
}

/// What the preset says of each key.
fn of_preset(lab: &Rotation) -> Vec<(&'static str, u64)> {
    let mut times = vec![
        ("rotation.refresh", lab.refresh_s),
        ("rotation.staleness_limit", lab.staleness_limit_s),
        ("rotation.jwks_max_age", lab.jwks_max_age_s),
        ("rotation.skew", lab.skew_s),
        ("rotation.rp_leeway", lab.rp_leeway_s),
        ("rotation.rp_propagation", lab.rp_propagation_s),
        ("rotation.token_ttl", lab.token_ttl_s),
        ("rotation.max_token_ttl", lab.max_token_ttl_s),
        ("rotation.rotate_every", lab.rotate_every_s),
        ("rotation.rollback_window", lab.rollback_window_s),
        ("rotation.emergency_wait", lab.emergency_wait_s),
        ("rotation.backdate", lab.backdate_s),
    ];
    times.extend(lab.publish_lead_s.map(|lead| ("rotation.publish_lead", lead)));
    times.extend(lab.erase_private_after_s.map(|erase| ("rotation.erase_private_after", erase)));
    times
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::super::{PartialConfig, Sources};
    use super::*;

    fn load(pairs: &[(&'static str, &str)], yes: bool) -> Result<Rotation, Vec<String>> {
        let mut sources = Sources::new([("ONESEAL_CONFIG".into(), "/dev/null".into())]).yes(yes);
        for (key, value) in pairs {
            sources = sources.flag("--flag", key, Some((*value).to_owned()));
        }
        match PartialConfig::load(sources) {
            Ok((config, _)) => Ok(config.settings.rotation),
            Err(found) => Err(found.iter().map(|finding| finding.code.name.to_owned()).collect()),
        }
    }

    const LAB: (&str, &str) = ("rotation.preset", "lab");

    #[test]
    fn the_preset_is_the_laboratory_and_any_time_can_be_set_beside_it() {
        assert_eq!(load(&[LAB], false).unwrap(), Rotation::lab());
        let longer =
            load(&[LAB, ("rotation.publish_lead", "9s"), ("rotation.generation", "3")], false).unwrap();
        assert_eq!((longer.publish_lead_s, longer.generation, longer.jwks_max_age_s), (Some(9), 3, 2));
        assert_eq!(load(&[], false).unwrap(), Rotation::default());
    }

    #[test]
    fn the_preset_is_refused_for_an_issuer_of_others_unless_it_is_meant() {
        let public = [LAB, ("issuer.url", "https://oidc.example.com")];
        assert_eq!(load(&public, false).unwrap_err(), ["config.lab_preset"]);
        assert_eq!(load(&public, true).unwrap(), Rotation::lab());
        for own in ["http://127.0.0.1:8080", "https://localhost:8443", "http://[::1]:1"] {
            assert!(load(&[LAB, ("issuer.url", own)], false).is_ok(), "{own}");
        }
    }

    #[test]
    fn a_lead_below_what_relying_parties_take_names_what_would_do() {
        assert_eq!(load(&[("rotation.publish_lead", "1h")], false).unwrap_err(), ["config.inequality"]);
        let quick = [("rotation.publish_lead", "1h"), ("rotation.rp_propagation", "30m")];
        assert_eq!(load(&quick, false).unwrap().lead_s(), 3600);
    }
}
