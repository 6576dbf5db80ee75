//! POSIX access control lists (acl(5)), as far as they tell who else may read a file.
//!
//! With a list the group bits of a mode are the list's mask and say nothing of the group: a credential that systemd
//! gives to a service is root's, has mode 0440, and a list that lets in the service's user and nobody else.

use std::fs::File;

/// The list of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Acl(Vec<Entry>);

/// One line of it, such as `user:65532:r--`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u16,
    permissions: u16,
    id: u32,
}

impl Acl {
    /// Whether anyone but the owner and user `uid`, who reads this, has any right to the file.
    pub(super) fn lets_others_in(&self, uid: u32) -> bool {
        let mask = self.0.iter().find(|entry| entry.tag == MASK).map_or(0o7, |mask| mask.permissions);
        self.0.iter().any(|entry| match entry.tag {
            OWNER | MASK => false,
            USER if entry.id == uid => false,
            USER | OWNING_GROUP | GROUP => entry.permissions & mask != 0,
            _ => entry.permissions != 0,
        })
    }

    /// Reads the form in which the kernel hands it out (linux/posix_acl_xattr.h): a version, then entries of eight
    /// bytes, all little-endian.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (version, entries) = bytes.split_first_chunk()?;
        let (entries, rest) = entries.as_chunks::<8>();
        (u32::from_le_bytes(*version) == VERSION && rest.is_empty())
            .then(|| Self(entries.iter().map(entry).collect()))
    }
}

fn entry(bytes: &[u8; 8]) -> Entry {
    let [t0, t1, p0, p1, id @ ..] = *bytes;
    Entry {
        tag: u16::from_le_bytes([t0, t1]),
        permissions: u16::from_le_bytes([p0, p1]),
        id: u32::from_le_bytes(id),
    }
}

/// The list of an opened file; `None` where there is none beyond the mode, or none that can be read: then the mode
/// alone counts, whose group bits are never narrower than the list.
#[cfg(target_os = "linux")]
pub(super) fn of(file: &File) -> Option<Acl> {
    let mut bytes = [0_u8; 4 + 8 * MOST_ENTRIES];
    let length = rustix::fs::fgetxattr(file, "system.posix_acl_access", &mut bytes[..]).ok()?;
    Acl::parse(bytes.get(..length)?)
}

/// Other systems hand them out in other ways.
#[cfg(not(target_os = "linux"))]
pub(super) fn of(_: &File) -> Option<Acl> {
    None
}

const VERSION: u32 = 2;
const OWNER: u16 = 0x01;
const USER: u16 = 0x02;
const OWNING_GROUP: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
/// A longer list lets in more people than a key has any use for.
#[cfg(target_os = "linux")]
const MOST_ENTRIES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: u16 = 0x20;

    fn list(entries: &[(u16, u16, u32)]) -> Vec<u8> {
        let mut bytes = VERSION.to_le_bytes().to_vec();
        for (tag, permissions, id) in entries {
            bytes.extend(tag.to_le_bytes());
            bytes.extend(permissions.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn a_grant_to_the_reader_alone_lets_nobody_else_in() {
        const NOBODY: u32 = u32::MAX;
        for (others, name) in [
            (
                false,
                &[(USER, 4, 65532), (OWNING_GROUP, 0, NOBODY), (MASK, 4, NOBODY), (OTHERS, 0, NOBODY)][..],
            ),
            (true, &[(USER, 4, 7), (OWNING_GROUP, 0, NOBODY), (MASK, 4, NOBODY), (OTHERS, 0, NOBODY)]),
            (true, &[(USER, 4, 65532), (OWNING_GROUP, 4, NOBODY), (MASK, 4, NOBODY), (OTHERS, 0, NOBODY)]),
            (true, &[(GROUP, 2, 9), (OWNING_GROUP, 0, NOBODY), (MASK, 6, NOBODY), (OTHERS, 0, NOBODY)]),
            (false, &[(GROUP, 2, 9), (OWNING_GROUP, 4, NOBODY), (MASK, 0, NOBODY), (OTHERS, 0, NOBODY)]),
            (true, &[(OWNING_GROUP, 0, NOBODY), (MASK, 0, NOBODY), (OTHERS, 4, NOBODY)]),
            (true, &[(OWNING_GROUP, 4, NOBODY), (OTHERS, 0, NOBODY)]),
        ] {
            let mut entries = vec![(OWNER, 6, NOBODY)];
            entries.extend(name);
            let parsed = Acl::parse(&list(&entries)).expect("a list");
            assert_eq!(parsed.lets_others_in(65532), others, "{entries:?}");
        }
    }

    #[test]
    fn what_is_no_list_is_none() {
        for bytes in [&[][..], &[2, 0, 0], &[1, 0, 0, 0], &[2, 0, 0, 0, 1]] {
            assert_eq!(Acl::parse(bytes), None, "{bytes:?}");
        }
    }
}
