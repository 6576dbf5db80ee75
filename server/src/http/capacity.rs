//! How many connections each listener may have, by the files that this process may open.

/// Connections at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) documents: usize,
    pub(crate) ops: usize,
    pub(crate) admin: usize,
    pub(crate) admin_tcp: usize,
}

impl Capacity {
    /// What `files` open files have room for: the documents' listener is the first to have less, down to
    /// [`FEWEST_DOCUMENTS`]; then all have, down to [`FEWEST`]. `None` below that.
    pub(crate) fn within(files: usize, with_admin_tcp: bool) -> Option<Self> {
        let room = files.checked_sub(OTHER_FILES)?;
        // Not so many that they are taken from the documents where files are few.
        let admin_tcp = if with_admin_tcp { (files / 8).clamp(FEWEST, MOST.admin_tcp) } else { 0 };
        let most = Self { admin_tcp, ..MOST };
        let others = most.ops + most.admin + most.admin_tcp;
        if room >= others + FEWEST_DOCUMENTS {
            return Some(Self { documents: (room - others).min(most.documents), ..most });
        }
        let wanted = [FEWEST_DOCUMENTS, most.ops, most.admin, most.admin_tcp];
        let fewest = wanted.map(|wanted| wanted.min(FEWEST));
        let more = room.checked_sub(fewest.iter().sum())?;
        let all: usize = wanted.iter().sum::<usize>() - fewest.iter().sum::<usize>();
        let share = |wanted: usize| wanted.min(FEWEST) + more * (wanted - wanted.min(FEWEST)) / all;
        let [documents, ops, admin, admin_tcp] = wanted.map(share);
        Some(Self { documents, ops, admin, admin_tcp })
    }

    /// The fewest files with which no listener has less than it can have.
    pub(crate) fn enough(with_admin_tcp: bool) -> usize {
        let admin_tcp = if with_admin_tcp { MOST.admin_tcp } else { 0 };
        MOST.documents + MOST.ops + MOST.admin + admin_tcp + OTHER_FILES
    }
}

/// Documents: each connection costs some 28 KiB, so that all of them take some 120 MiB, and a proxy or load balancer in
/// front keeps some tens. Probes and scrapers are few, and must get through while the public listener is full: theirs
/// are counted apart, as are callers on this host. Over TCP anybody can connect, and only those with a token stay: there
/// must be time for theirs to arrive before as many others have come.
pub(crate) const MOST: Capacity = Capacity { documents: 4096, ops: 256, admin: 128, admin_tcp: 512 };
/// The fewest open files to start with.
pub(crate) const FEWEST_FILES: usize = OTHER_FILES + 4 * FEWEST;
/// Where a proxy in front still finds a place.
const FEWEST_DOCUMENTS: usize = 64;
/// Of every listener.
const FEWEST: usize = 16;
/// Listeners, watches, the key's file, the runtime's own.
const OTHER_FILES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documents_are_the_first_to_have_less_and_all_fit_into_what_there_is() {
        for with_admin_tcp in [false, true] {
            let enough = Capacity::enough(with_admin_tcp);
            let mut last = Capacity { documents: 0, ops: 0, admin: 0, admin_tcp: 0 };
            for files in FEWEST_FILES..enough + 10 {
                let now = Capacity::within(files, with_admin_tcp).expect("enough to start with");
                let Capacity { documents, ops, admin, admin_tcp } = now;
                assert!(documents + ops + admin + admin_tcp + OTHER_FILES <= files, "{files}: {now:?}");
                assert!(documents.min(ops).min(admin) >= FEWEST, "{files}: {now:?}");
                assert_eq!(admin_tcp >= FEWEST, with_admin_tcp, "{files}: {now:?}");
                assert!(documents >= last.documents && ops >= last.ops && admin_tcp >= last.admin_tcp);
                assert!(documents <= FEWEST_DOCUMENTS || ops == MOST.ops && admin == MOST.admin);
                last = now;
            }
            assert_eq!((last.documents, last.ops, last.admin), (MOST.documents, MOST.ops, MOST.admin));
            assert_eq!(last.admin_tcp, if with_admin_tcp { MOST.admin_tcp } else { 0 });
            let common = Capacity::within(1024, with_admin_tcp).expect("enough to start with");
            assert_eq!(common.documents, if with_admin_tcp { 448 } else { 576 });
            let less = Capacity::within(enough - 1, with_admin_tcp).expect("enough to start with");
            assert_eq!(less.documents, MOST.documents - 1);
            assert_eq!(Capacity::within(usize::MAX, with_admin_tcp), Some(last));
        }
        for files in [0, OTHER_FILES, FEWEST_FILES - 1] {
            assert_eq!(Capacity::within(files, true), None);
        }
    }
}
