//! The variables that Kubernetes puts into every pod for every Service of its namespace.
//!
//! A Service called `oneseal` gives `ONESEAL_PORT=tcp://10.0.0.7:8080` and a dozen more, one called `oneseal-ops`
//! gives `ONESEAL_OPS_SERVICE_HOST`. They are no configuration and no mistake of anybody, so they pass in silence.

use std::net::IpAddr;

/// Whether a variable is a service link: name and value both have the shape that kubelet gives them.
///
/// `name` begins with the Service's name in capitals, hyphens as underscores (Kubernetes, "Discovering services":
/// `{SVC}_SERVICE_HOST`, `{SVC}_SERVICE_PORT[_{NAME}]`, and Docker's `{SVC}_PORT[_{N}_{PROTO}[_PROTO|_PORT|_ADDR]]`).
pub(crate) fn is_service_link(name: &str, value: &str) -> bool {
    if !name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_') {
        return false;
    }
    if name.ends_with("_SERVICE_HOST") {
        return is_address(value);
    }
    if name.ends_with("_SERVICE_PORT") || name.contains("_SERVICE_PORT_") {
        return is_port(value);
    }
    if name.ends_with("_PORT") && is_url(value) {
        return true;
    }
    is_docker_link(name, value)
}

/// `{SVC}_PORT_{N}_{PROTO}` with its three parts.
fn is_docker_link(name: &str, value: &str) -> bool {
    let (name, part) = match name.rsplit_once('_') {
        Some((rest, part @ ("PROTO" | "PORT" | "ADDR"))) => (rest, part),
        _ => (name, ""),
    };
    let mut words = name.rsplit('_');
    let is_link = words.next().is_some_and(|word| PROTOCOLS.contains(&word.to_ascii_lowercase().as_str()))
        && words.next().is_some_and(is_port)
        && words.next() == Some("PORT");
    is_link
        && match part {
            "PROTO" => PROTOCOLS.contains(&value),
            "PORT" => is_port(value),
            "ADDR" => is_address(value),
            _ => is_url(value),
        }
}

fn is_url(value: &str) -> bool {
    value.split_once("://").is_some_and(|(protocol, rest)| {
        PROTOCOLS.contains(&protocol)
            && rest.rsplit_once(':').is_some_and(|(host, port)| is_address(host) && is_port(port))
    })
}

fn is_address(value: &str) -> bool {
    value.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
}

fn is_port(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_digit()) && value.parse::<u16>().is_ok_and(|port| port > 0)
}

const PROTOCOLS: [&str; 3] = ["tcp", "udp", "sctp"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shape_of_kubelet_is_one_for_every_service_of_our_name() {
        for service in ["ONESEAL", "ONESEAL_OPS", "ONESEAL_CONFIG", "ONESEAL__X", "ONESEAL_2"] {
            for (suffix, value) in [
                ("SERVICE_HOST", "10.0.0.7"),
                ("SERVICE_HOST", "fd00::7"),
                ("SERVICE_PORT", "8080"),
                ("SERVICE_PORT_HTTP", "8080"),
                ("SERVICE_PORT_HTTP_OPS", "8081"),
                ("PORT", "tcp://10.0.0.7:8080"),
                ("PORT", "tcp://[fd00::7]:8080"),
                ("PORT_8080_TCP", "tcp://10.0.0.7:8080"),
                ("PORT_8080_TCP_PROTO", "tcp"),
                ("PORT_8080_TCP_PORT", "8080"),
                ("PORT_8080_TCP_ADDR", "10.0.0.7"),
                ("PORT_53_UDP", "udp://10.0.0.7:53"),
                ("PORT_53_SCTP_PROTO", "sctp"),
            ] {
                assert!(is_service_link(&format!("{service}_{suffix}"), value), "{service}_{suffix}={value}");
            }
        }
    }

    #[test]
    fn what_a_person_would_write_is_none() {
        for (name, value) in [
            ("ONESEAL_PORT", "8080"),
            ("ONESEAL_PORT", "tcp://host:8080"),
            ("ONESEAL_PORT", "http://10.0.0.7:8080"),
            ("ONESEAL_SERVICE_HOST", "oneseal.example"),
            ("ONESEAL_SERVICE_PORT", "http"),
            ("ONESEAL_PORT_8080", "tcp://10.0.0.7:8080"),
            ("ONESEAL_PORT_X_TCP", "tcp://10.0.0.7:8080"),
            ("ONESEAL_PORT_99999_TCP_PORT", "1"),
            ("ONESEAL_LISTEN_PORT", "8080"),
            ("oneseal_port", "tcp://10.0.0.7:8080"),
            ("ONESEAL_", ""),
            ("", ""),
        ] {
            assert!(!is_service_link(name, value), "{name}={value}");
        }
    }
}
