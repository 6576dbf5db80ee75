//! From which address a request comes, and how often that one may ask.
//!
//! Behind a proxy every connection is the proxy's, and a limit for it would be one for everybody. So there is one only
//! where it is said which proxies are ours: then the address is the last one in `X-Forwarded-For` that none of them has,
//! since each proxy adds whom it heard from at the end, and what stands before came from outside. `Forwarded` (RFC 7239)
//! is not read: of two headers one is the client's to invent, unless the proxy removes it, and most proxies write the
//! older one.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use http::HeaderMap;
use ipnet::IpNet;
use oneseal::BootTime;
use oneseal::token::{Budgets, Rate};

/// The limits of addresses.
#[derive(Debug)]
pub(crate) struct AddressLimits {
    trusted: Vec<IpNet>,
    budgets: Budgets,
}

impl AddressLimits {
    /// `rate` for each address behind the proxies in `trusted`.
    pub(crate) fn new(trusted: Vec<IpNet>, rate: Rate) -> Self {
        Self { trusted, budgets: Budgets::new(rate, MOST_ADDRESSES) }
    }

    /// Takes one request out of the budget of whoever sent it over a connection from `peer`.
    ///
    /// # Errors
    /// It is used up: when there is one again.
    pub(crate) fn take(&self, peer: IpAddr, headers: &HeaderMap, now: BootTime) -> Result<(), Duration> {
        self.budgets.take(network_of(self.client(peer, headers)), now)
    }

    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        let values = headers.get_all(X_FORWARDED_FOR).iter().rev();
        let hops = values.flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b','));
        for hop in hops.take(MOST_HOPS) {
            if !self.is_trusted(client) {
                break;
            }
            // A proxy of ours that writes something else is known by its own address.
            let Some(address) = address_of(hop) else { break };
            client = address;
        }
        client
    }

    fn is_trusted(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(&address))
    }
}

/// `192.0.2.1`, `[2001:db8::1]`, and either with a port.
fn address_of(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop).ok()?.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| text.parse().ok().map(|with_port: SocketAddr| with_port.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

/// What one client has: of IPv6 a /64, all of which is given to one network.
fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

const X_FORWARDED_FOR: &str = "x-forwarded-for";
/// More proxies than stand in any row.
const MOST_HOPS: usize = 32;
/// Some 3 MiB.
const MOST_ADDRESSES: usize = 100_000;

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn limits() -> AddressLimits {
        let trusted = ["10.0.0.0/8", "fd00::/8"].map(|network| network.parse().expect("a network"));
        AddressLimits::new(trusted.to_vec(), Rate::new(60, 1))
    }

    fn client(peer: &str, forwarded: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(X_FORWARDED_FOR, HeaderValue::from_str(value).expect("a value"));
        }
        limits().client(peer.parse().expect("an address"), &headers).to_string()
    }

    #[test]
    fn the_client_is_the_last_hop_that_is_no_proxy_of_ours() {
        for (peer, forwarded, expected) in [
            ("10.0.0.1", &["192.0.2.1"] as &[_], "192.0.2.1"),
            ("::ffff:10.0.0.1", &["192.0.2.1"], "192.0.2.1"),
            ("10.0.0.1", &["evil, 192.0.2.1, 10.0.0.2,10.1.2.3"], "192.0.2.1"),
            ("10.0.0.1", &["198.51.100.7, 192.0.2.1"], "192.0.2.1"),
            ("10.0.0.1", &["198.51.100.7", "192.0.2.1, 10.0.0.2"], "192.0.2.1"),
            ("10.0.0.1", &["192.0.2.1:4711"], "192.0.2.1"),
            ("10.0.0.1", &["[2001:db8::1]:4711"], "2001:db8::1"),
            ("10.0.0.1", &["[2001:db8::1]"], "2001:db8::1"),
            ("fd00::1", &["2001:db8::1"], "2001:db8::1"),
            ("10.0.0.1", &["::ffff:192.0.2.1"], "192.0.2.1"),
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["192.0.2.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["192.0.2.1,"], "10.0.0.1"),
            ("192.0.2.9", &["192.0.2.1"], "192.0.2.9"),
        ] {
            assert_eq!(client(peer, forwarded), expected, "{peer} {forwarded:?}");
        }
        let many = vec!["10.0.0.2"; 10_000].join(",");
        assert_eq!(client("10.0.0.1", &[&many]), "10.0.0.2");
    }

    #[test]
    fn a_network_of_ipv6_has_one_budget_and_an_invented_address_none() {
        let limits = limits();
        let now = BootTime(Duration::from_secs(9));
        let take = |forwarded: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(X_FORWARDED_FOR, HeaderValue::from_str(forwarded).expect("a value"));
            limits.take(IpAddr::from([10, 0, 0, 1]), &headers, now)
        };
        assert_eq!(take("2001:db8::1"), Ok(()));
        assert!(take("2001:db8::2").is_err());
        assert_eq!(take("2001:db8:0:1::1"), Ok(()));
        assert_eq!(take("192.0.2.1"), Ok(()));
        assert!(take("203.0.113.5, 192.0.2.1").is_err());
    }
}
