//! Why something cannot be bound: the system has few words for it, and each case a cure of its own.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv6Addr, SocketAddr, UdpSocket};

use oneseal_keystore::findings::Code;

use crate::codes::{
    LISTEN_ADMIN_DENIED, LISTEN_CANNOT_BIND, LISTEN_DENIED, LISTEN_IN_USE, LISTEN_IPV6_MISSING,
    LISTEN_NOT_LOCAL, LISTEN_PRIVILEGED,
};

/// Why `address` was not to be had.
pub(super) fn of_tcp(address: SocketAddr, error: &io::Error) -> &'static Code {
    match error.kind() {
        ErrorKind::AddrInUse => &LISTEN_IN_USE,
        // In the protocol itself the port makes the difference; a rule for the process may be about anything.
        ErrorKind::PermissionDenied if address.port() != 0 && address.port() < first_free_port() => {
            &LISTEN_PRIVILEGED
        }
        ErrorKind::PermissionDenied => &LISTEN_DENIED,
        _ if address.is_ipv6() && is_without_ipv6(error) => &LISTEN_IPV6_MISSING,
        ErrorKind::AddrNotAvailable => &LISTEN_NOT_LOCAL,
        _ => &LISTEN_CANNOT_BIND,
    }
}

/// Why the admin socket was not to be had.
pub(super) fn of_unix(error: &io::Error) -> &'static Code {
    match error.kind() {
        ErrorKind::AddrInUse => &LISTEN_IN_USE,
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => &LISTEN_ADMIN_DENIED,
        _ => &LISTEN_CANNOT_BIND,
    }
}

/// Whether binding an IPv6 address has failed because there is no IPv6: the kernel has none (`ipv6.disable=1`), this
/// process may not use it (systemd's `RestrictAddressFamilies=`), or no interface has it, not even the loopback
/// (`net.ipv6.conf.*.disable_ipv6=1`), where an address that is not this host's gives the same error.
pub(super) fn is_without_ipv6(error: &io::Error) -> bool {
    let no_family = error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error());
    let loopback = || UdpSocket::bind((Ipv6Addr::LOCALHOST, 0));
    no_family || (error.kind() == ErrorKind::AddrNotAvailable && loopback().is_err())
}

/// The first port that needs no privilege: a sysctl on Linux, and per network namespace.
fn first_free_port() -> u16 {
    let said = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").ok();
    said.and_then(|text| text.trim().parse().ok()).unwrap_or(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(address: &str, kind: ErrorKind) -> &'static str {
        of_tcp(address.parse().expect("an address"), &kind.into()).name
    }

    #[test]
    fn each_reason_has_a_code_of_its_own() {
        assert_eq!(code("127.0.0.1:8080", ErrorKind::AddrInUse), "listen.in_use");
        assert_eq!(code("127.0.0.1:60000", ErrorKind::PermissionDenied), "listen.denied");
        assert_eq!(code("127.0.0.1:0", ErrorKind::PermissionDenied), "listen.denied");
        assert_eq!(code("192.0.2.1:8080", ErrorKind::AddrNotAvailable), "listen.not_local");
        assert_eq!(code("127.0.0.1:8080", ErrorKind::OutOfMemory), "listen.cannot_bind");
        let no_family = io::Error::from(rustix::io::Errno::AFNOSUPPORT);
        assert_eq!(of_tcp("[::1]:8080".parse().expect("an address"), &no_family).name, "listen.ipv6_missing");
        for kind in [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem] {
            assert_eq!(of_unix(&kind.into()).name, "listen.admin_denied");
        }
    }
}
