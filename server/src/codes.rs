//! The rows of the table of findings that only a server can cause, and the table of all.

use oneseal_keystore::findings::{Code, Exit};

use crate::config;

/// Every code of every crate below, configuration's and this file's.
pub(crate) fn all() -> Vec<&'static Code> {
    [oneseal::all_codes(), config::CODES.to_vec(), CODES.to_vec()].concat()
}

static CODES: &[&Code] = &[
    &LISTEN_CANNOT_BIND,
    &LISTEN_IN_USE,
    &LISTEN_PRIVILEGED,
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
    "Stop the other one, or choose another address; beside a running server use `oneseal check --no-bind`.",
);
pub(crate) static LISTEN_PRIVILEGED: Code = Code::error(
    "listen.privileged",
    Exit::CannotBind,
    "This process may not listen there.",
    "Choose a port above 1023, grant CAP_NET_BIND_SERVICE, or let this process's user write the socket's directory.",
);
pub(crate) static LISTEN_NO_DIRECTORY: Code = Code::error(
    "listen.no_directory",
    Exit::CannotBind,
    "The directory of the admin socket does not exist.",
    "Make it, writable for this process's user alone, or set listen.admin.",
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
