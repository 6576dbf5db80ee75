//! The rows of the table of findings that only a server can cause, and the table of all.

use oneseal_keystore::findings::{Code, Exit};

use crate::{config, gate, tls};

/// Every code of every crate below, configuration's, the gate's and this file's.
pub(crate) fn all() -> Vec<&'static Code> {
    [oneseal::all_codes(), config::CODES.to_vec(), gate::codes(), CODES.to_vec(), tls::CODES.to_vec()]
        .concat()
}

static CODES: &[&Code] = &[
    &LISTEN_CANNOT_BIND,
    &LISTEN_IN_USE,
    &LISTEN_TWICE,
    &LISTEN_PRIVILEGED,
    &LISTEN_DENIED,
    &LISTEN_NOT_LOCAL,
    &LISTEN_IPV6_MISSING,
    &LISTEN_ADMIN_DENIED,
    &LISTEN_NO_DIRECTORY,
    &LISTEN_NOT_A_SOCKET,
    &LISTEN_NO_IPV6,
    &LISTEN_ADMIN_OFF,
];

pub(crate) static LISTEN_CANNOT_BIND: Code = Code::error(
    "listen.cannot_bind",
    Exit::CannotBind,
    "The operating system does not let this process listen there.",
    "See the cause; name an address of this host, or `[::]` for all of them.",
);
pub(crate) static LISTEN_IN_USE: Code = Code::error(
    "listen.in_use",
    Exit::CannotBind,
    "Another process listens there already.",
    "Stop the other one (`ss -ltnp` as root names it), or choose another address; beside a running server use `oneseal check --no-bind`.",
);
pub(crate) static LISTEN_TWICE: Code = Code::error(
    "listen.twice",
    Exit::CannotBind,
    "Two listeners are to have one address; `[::]` and `0.0.0.0` stand for every address of this host.",
    "Give listen.documents, listen.ops, listen.token and listen.admin_tcp different ports, such as 8080, 8081, 8082 and 9090.",
);
pub(crate) static LISTEN_PRIVILEGED: Code = Code::error(
    "listen.privileged",
    Exit::CannotBind,
    "Ports below 1024 are for privileged processes (Linux: below net.ipv4.ip_unprivileged_port_start).",
    "Choose 1024 or above and let the load balancer have 443; or grant the right: `AmbientCapabilities=CAP_NET_BIND_SERVICE` in a systemd unit, the sysctl net.ipv4.ip_unprivileged_port_start=0 for a container or pod.",
);
pub(crate) static LISTEN_DENIED: Code = Code::error(
    "listen.denied",
    Exit::CannotBind,
    "A rule of this system keeps the process from listening there, though the port is not a privileged one.",
    "Look at what confines the process: SELinux (`semanage port -l`), AppArmor, seccomp, or SocketBindDeny= of its unit; or choose an address that the rule allows.",
);
pub(crate) static LISTEN_NOT_LOCAL: Code = Code::error(
    "listen.not_local",
    Exit::CannotBind,
    "The address is none of this host's.",
    "Name one that `ip address` lists, or `[::]` for all of them; behind a load balancer or NAT that is not the public one. For an address that comes later set the sysctl net.ipv4.ip_nonlocal_bind=1.",
);
pub(crate) static LISTEN_IPV6_MISSING: Code = Code::error(
    "listen.ipv6_missing",
    Exit::CannotBind,
    "The address is of IPv6, which this host does not have or this process may not use.",
    "Write 127.0.0.1 in place of [::1], and 0.0.0.0 or [::] for all addresses; or switch IPv6 on: the sysctl net.ipv6.conf.all.disable_ipv6=0, AF_INET6 in RestrictAddressFamilies= of a unit.",
);
pub(crate) static LISTEN_NO_DIRECTORY: Code = Code::error(
    "listen.no_directory",
    Exit::CannotBind,
    "The directory of the admin socket does not exist.",
    "Make it, writable for this process's user alone, or set listen.admin.",
);
pub(crate) static LISTEN_ADMIN_DENIED: Code = Code::error(
    "listen.admin_denied",
    Exit::CannotBind,
    "This process may not make the admin socket in that directory.",
    "Let this process's user write the directory (in a systemd unit RuntimeDirectory=oneseal, in a container a volume there), or set listen.admin.",
);
pub(crate) static LISTEN_NOT_A_SOCKET: Code = Code::error(
    "listen.not_a_socket",
    Exit::CannotBind,
    "Something that is no socket lies where the admin socket should be; it is left alone.",
    "Move it away, or set listen.admin.",
);
pub(crate) static LISTEN_NO_IPV6: Code = Code::warning(
    "listen.no_ipv6",
    "This host has no IPv6, so all IPv4 addresses are bound instead of all addresses.",
    "Nothing, if that is meant; write 0.0.0.0 in place of [::] to be explicit.",
);
pub(crate) static LISTEN_ADMIN_OFF: Code = Code::warning(
    "listen.admin_off",
    "The admin socket cannot be made at its default place, so there is no admin API.",
    "Set listen.admin to a path that can be used, or to \"none\".",
);

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn every_row_is_unique_and_made_of_sentences() {
        let rows = super::all();
        let names: BTreeSet<_> = rows.iter().map(|code| code.name).collect();
        assert_eq!(names.len(), rows.len(), "a name stands twice");
        for code in rows {
            for text in [code.meaning, code.cure] {
                let begins =
                    text.starts_with(|first: char| !first.is_ascii_lowercase()) || text.starts_with("chmod ");
                assert!(begins && text.ends_with('.'), "{}: {text:?}", code.name);
            }
        }
    }
}
