//! How many connections each listener may have, by the files that this process may open.

/// Connections at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) documents: usize,
    pub(crate) token: usize,
    pub(crate) ops: usize,
    pub(crate) admin: usize,
    pub(crate) admin_tcp: usize,
}

/// Which of the listeners there are that need not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Optional {
    /// `listen.token`.
    pub(crate) token: bool,
    /// `listen.admin_tcp`.
    pub(crate) admin_tcp: bool,
}

impl Capacity {
    /// What `files` open files have room for: the documents' listener is the first to have less, down to
    /// [`FEWEST_DOCUMENTS`]; then all have, down to [`FEWEST`]. `None` below that.
    pub(crate) fn within(files: usize, with: Optional) -> Option<Self> {
        let room = files.checked_sub(OTHER_FILES)?;
        // Not so many that they are taken from the documents where files are few.
        let optional = |is_there, most| if is_there { (files / 8).clamp(FEWEST, most) } else { 0 };
        let most = Self {
            token: optional(with.token, MOST.token),
            admin_tcp: optional(with.admin_tcp, MOST.admin_tcp),
            ..MOST
        };
        let others = most.token + most.ops + most.admin + most.admin_tcp;
        if room >= others + FEWEST_DOCUMENTS {
            return Some(Self { documents: (room - others).min(most.documents), ..most });
        }
        let wanted = [FEWEST_DOCUMENTS, most.token, most.ops, most.admin, most.admin_tcp];
        let fewest = wanted.map(|wanted| wanted.min(FEWEST));
        let more = room.checked_sub(fewest.iter().sum())?;
        let all: usize = wanted.iter().sum::<usize>() - fewest.iter().sum::<usize>();
        let share = |wanted: usize| wanted.min(FEWEST) + more * (wanted - wanted.min(FEWEST)) / all;
        let [documents, token, ops, admin, admin_tcp] = wanted.map(share);
        Some(Self { documents, token, ops, admin, admin_tcp })
    }

    /// The fewest open files to start with.
    pub(crate) fn fewest(with: Optional) -> usize {
        let listeners = if with.token && with.admin_tcp { 5 } else { 4 };
        OTHER_FILES + listeners * FEWEST
    }

    /// The fewest files with which no listener has less than it can have.
    pub(crate) fn enough(with: Optional) -> usize {
        let optional = |is_there, most| if is_there { most } else { 0 };
        let (token, admin_tcp) = (optional(with.token, MOST.token), optional(with.admin_tcp, MOST.admin_tcp));
        MOST.documents + token + MOST.ops + MOST.admin + admin_tcp + OTHER_FILES
    }
}

/// Documents: each connection costs some 28 KiB, so that all of them take some 120 MiB, and a proxy or load balancer in
/// front keeps some tens. Probes and scrapers are few, and must get through while the public listener is full: theirs
/// are counted apart, as are callers on this host. Over TCP anybody can connect, and only those with a token stay: there
/// must be time for theirs to arrive before as many others have come.
/// Tokens: behind a proxy, or from nodes whose pods ask once in some minutes.
pub(crate) const MOST: Capacity =
    Capacity { documents: 4096, token: 1024, ops: 256, admin: 128, admin_tcp: 512 };
/// Where a proxy in front still finds a place.
const FEWEST_DOCUMENTS: usize = 64;
/// Of every listener.
const FEWEST: usize = 16;
/// Listeners, watches, the key's file, the runtime's own.
const OTHER_FILES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn optional() -> impl Iterator<Item = Optional> {
        [false, true]
            .into_iter()
            .flat_map(|token| [false, true].map(|admin_tcp| Optional { token, admin_tcp }))
    }

    #[test]
    fn the_documents_are_the_first_to_have_less_and_all_fit_into_what_there_is() {
        for with in optional() {
            let enough = Capacity::enough(with);
            let mut last = Capacity { documents: 0, token: 0, ops: 0, admin: 0, admin_tcp: 0 };
            for files in Capacity::fewest(with)..enough + 10 {
                let now = Capacity::within(files, with).expect("enough to start with");
                let Capacity { documents, token, ops, admin, admin_tcp } = now;
                assert!(
                    documents + token + ops + admin + admin_tcp + OTHER_FILES <= files,
                    "{files}: {now:?}"
                );
                assert!(documents.min(ops).min(admin) >= FEWEST, "{files}: {now:?}");
                assert_eq!(admin_tcp >= FEWEST, with.admin_tcp, "{files}: {now:?}");
                assert_eq!(token >= FEWEST, with.token, "{files}: {now:?}");
                // In proportion, one may lose to another what rounding gave it.
                assert!(ops + 1 >= last.ops && admin_tcp + 1 >= last.admin_tcp && token + 1 >= last.token);
                assert!(documents <= FEWEST_DOCUMENTS || ops == MOST.ops && admin == MOST.admin);
                last = now;
            }
            assert_eq!((last.documents, last.ops, last.admin), (MOST.documents, MOST.ops, MOST.admin));
            assert_eq!(last.admin_tcp, if with.admin_tcp { MOST.admin_tcp } else { 0 });
            let common = Capacity::within(1024, with).expect("enough to start with");
            let optional = [with.admin_tcp, with.token].into_iter().filter(|is_there| *is_there).count();
            assert_eq!(common.documents, 576 - 128 * optional);
            let less = Capacity::within(enough - 1, with).expect("enough to start with");
            assert!(less.documents < MOST.documents || less.token < last.token, "{less:?}");
            assert_eq!(Capacity::within(usize::MAX, with).expect("enough").documents, MOST.documents);
        }
        let all = Optional { token: true, admin_tcp: true };
        for files in [0, OTHER_FILES, Capacity::fewest(all) - 1] {
            assert_eq!(Capacity::within(files, all), None);
        }
    }
}
