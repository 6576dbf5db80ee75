//! What a replica is called among the others, and where they reach its probes.
//!
//! The name has to be the same after a restart, or each restart would leave a row behind that blocks a rotation until
//! somebody forgets it; and nobody else's at the same time. A pod's host name is both. Outside of Kubernetes several
//! replicas may run on one host, and the port tells them apart.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use uuid::Uuid;

use crate::config::{Listen, Ops};

/// What the host and its orchestrator say.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings {
    /// The host's name, which in a pod is the pod's.
    pub(crate) hostname: String,
    /// Whether this is a pod.
    pub(crate) is_pod: bool,
}

impl Surroundings {
    /// Those of this process.
    pub(crate) fn of_this_process() -> Self {
        Self {
            hostname: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            // Set in every container of a pod, by kubelet.
            is_pod: std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
        }
    }
}

/// The instance's name. `boot_id` tells apart what neither port nor configuration does: such a replica has a new name
/// at each start.
pub(crate) fn instance(ops: &Ops, listen: &Listen, around: &Surroundings, boot_id: Uuid) -> String {
    if let Some(name) = &ops.instance {
        return name.clone();
    }
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let host: String =
        around.hostname.chars().map(|letter| if is_letter(letter) { letter } else { '-' }).collect();
    let host = if host.is_empty() { "localhost" } else { &host };
    match listen.documents.port() {
        _ if around.is_pod => host.to_owned(),
        0 => format!("{host}:{}", &boot_id.simple().to_string()[..8]),
        port => format!("{host}:{port}"),
    }
}

/// `http://HOST:PORT` of the ops listener that is bound to `bound`; `outward`: from where this host reaches others.
/// `None` where nobody could reach it by any address that is known.
pub(crate) fn ops_url(ops: &Ops, bound: SocketAddr, outward: Option<IpAddr>) -> Option<String> {
    if let Some(advertised) = &ops.advertise {
        let ends_with_port = advertised
            .rsplit_once(':')
            .is_some_and(|(_, port)| !port.is_empty() && port.parse::<u16>().is_ok());
        let is_bare_v6 = advertised.ends_with(']');
        let port = if ends_with_port && !is_bare_v6 { String::new() } else { format!(":{}", bound.port()) };
        return Some(format!("http://{advertised}{port}"));
    }
    let ip = if bound.ip().is_unspecified() { outward? } else { bound.ip() };
    Some(format!("http://{}", SocketAddr::new(ip, bound.port())))
}

/// The address from which this host reaches others, by the routes that it has. Nothing is sent: connecting a UDP socket
/// only chooses (the addresses are for documentation, RFC 5737 and RFC 3849).
pub(crate) fn outward() -> Option<IpAddr> {
    let by = |from: IpAddr, to: IpAddr| {
        let socket = UdpSocket::bind(SocketAddr::new(from, 0)).ok()?;
        socket.connect(SocketAddr::new(to, 9)).ok()?;
        Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_unspecified())
    };
    let v4 = by(Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into());
    v4.or_else(|| by(Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(documents: &str) -> Listen {
        Listen {
            documents: documents.parse().expect("an address"),
            token: None,
            ops: "[::]:8081".parse().expect("an address"),
            admin: None,
            admin_tcp: None,
        }
    }

    fn named(documents: &str, hostname: &str, is_pod: bool) -> String {
        let around = Surroundings { hostname: hostname.to_owned(), is_pod };
        instance(&Ops::default(), &listen(documents), &around, Uuid::from_u128(0xabcd << 112))
    }

    #[test]
    fn a_pod_has_its_own_name_and_a_process_also_that_of_its_port() {
        assert_eq!(named("[::]:8080", "oneseal-0", true), "oneseal-0");
        assert_eq!(named("[::]:8080", "host.example", false), "host.example:8080");
        assert_eq!(named("[::]:0", "host", false), "host:abcd0000", "no port to go by");
        assert_eq!(named("[::]:1", "", false), "localhost:1");
        assert_eq!(named("[::]:1", "löwe\n", false), "l-we-:1");
    }

    #[test]
    fn configuration_has_the_last_word_on_the_name() {
        let ops = Ops { instance: Some("a".to_owned()), advertise: None };
        let around = Surroundings { hostname: "host".to_owned(), is_pod: true };
        assert_eq!(instance(&ops, &listen("[::]:1"), &around, Uuid::nil()), "a");
    }

    #[test]
    fn others_are_told_an_address_that_they_can_reach() {
        let pod = "10.1.2.3".parse().ok();
        let told = |advertise: Option<&str>, bound: &str, outward| {
            let ops = Ops { instance: None, advertise: advertise.map(str::to_owned) };
            ops_url(&ops, bound.parse().expect("an address"), outward)
        };
        assert_eq!(told(None, "[::]:8081", pod).as_deref(), Some("http://10.1.2.3:8081"));
        assert_eq!(told(None, "10.9.9.9:81", pod).as_deref(), Some("http://10.9.9.9:81"));
        assert_eq!(told(None, "[fd00::1]:81", pod).as_deref(), Some("http://[fd00::1]:81"));
        assert_eq!(told(None, "[::]:8081", None), None);
        assert_eq!(
            told(Some("ops.internal"), "[::]:8081", None).as_deref(),
            Some("http://ops.internal:8081")
        );
        assert_eq!(
            told(Some("ops.internal:99"), "[::]:8081", pod).as_deref(),
            Some("http://ops.internal:99")
        );
        assert_eq!(told(Some("[fd00::2]"), "[::]:8081", pod).as_deref(), Some("http://[fd00::2]:8081"));
        assert_eq!(told(Some("[fd00::2]:7"), "[::]:8081", pod).as_deref(), Some("http://[fd00::2]:7"));
    }
}
