//! Whether a key put at a path would still be there after a restart, by the mount it is on (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use super::fault;
use super::layout::{self, DATA_LINK, Layout};
use super::{parent, resolved};
use crate::Durability;

/// Judges the place of `path`, or of its nearest existing directory; of a flat directory each entry too, which may be
/// a link or a mount of its own. What is neither file nor directory is refused when it is read. Where the system does not tell (no `/proc`), the place counts as durable.
pub(super) fn durability(path: &Path) -> Durability {
    if fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return Durability::Durable;
    }
    let Ok(table) = fs::read("/proc/self/mountinfo") else { return Durability::Durable };
    let (mounts, is_kubelet_made) = (parse(&table), is_kubelet_made(path));
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let place = absolute.ancestors().find(|place| place.exists()).map_or_else(|| absolute.clone(), resolved);
    let mut places = vec![place];
    if !is_kubelet_made {
        places.extend(layout::entries(path).iter().map(|entry| resolved(entry)));
    }
    let judged = places.iter().map(|place| judge(&mounts, place, is_kubelet_made));
    judged.max_by_key(severity).unwrap_or(Durability::Durable)
}

/// The mount whose only file stands at `path`, links resolved: a container runtime's single-file bind, or kubelet's
/// `subPath`. A directory's mount is none.
pub(super) fn by_itself(path: &Path) -> Option<Mount> {
    let place = resolved(path);
    if place.is_dir() {
        return None;
    }
    let table = fs::read("/proc/self/mountinfo").ok()?;
    parse(&table).into_iter().rfind(|mount| mount.point == place)
}

/// The mount, out of kubelet's layout, that `path` is or stands in: a `subPath`, be it of a file or of a directory. The longest
/// mount point wins, and of several on one the last.
pub(super) fn out_of_kubelets(path: &Path) -> Option<Mount> {
    let place = resolved(path);
    let mounts = parse(&fs::read("/proc/self/mountinfo").ok()?);
    let covering = mounts.into_iter().filter(|mount| place.starts_with(&mount.point));
    covering.max_by_key(|mount| mount.point.components().count()).filter(Mount::is_kubelets)
}

fn severity(durability: &Durability) -> u8 {
    match durability {
        Durability::Durable => 0,
        Durability::ImageLayer(_) => 1,
        Durability::Ephemeral(_) => 2,
    }
}

/// Kubelet's own volumes are memory-backed and still durable: it fills them from the API at each start.
fn is_kubelet_made(path: &Path) -> bool {
    match layout::inspect(path) {
        Ok(Layout::Unit | Layout::KubeletFile | Layout::KubeletDirectory) => true,
        Ok(Layout::Missing) => parent(path).join(DATA_LINK).is_symlink(),
        Ok(Layout::File | Layout::Empty | Layout::LoneRing | Layout::Flat) | Err(_) => false,
    }
}

fn judge(mounts: &[Mount], place: &Path, is_kubelet_made: bool) -> Durability {
    // The longest mount point wins, and of several mounts on one point the last: it hides the others.
    let covering = mounts.iter().filter(|mount| place.starts_with(&mount.point));
    let Some(mount) = covering.max_by_key(|mount| mount.point.components().count()) else {
        return Durability::Durable;
    };
    let point = fault::shown(&mount.point);
    let is_empty_dir = [&mount.root, &mount.point]
        .iter()
        .any(|path| path.components().any(|part| part.as_os_str() == "kubernetes.io~empty-dir"));
    if is_empty_dir {
        return Durability::Ephemeral(format!("an emptyDir volume mounted at {point}"));
    }
    if !mount.is_writable {
        return Durability::Durable;
    }
    match mount.fs_type.as_str() {
        "tmpfs" | "ramfs" | "devtmpfs" if !is_kubelet_made => {
            Durability::Ephemeral(format!("{} mounted at {point}", mount.fs_type))
        }
        "overlay" | "aufs" | "fuse.fuse-overlayfs" => {
            Durability::ImageLayer(format!("a container's writable layer ({} at {point})", mount.fs_type))
        }
        _ => Durability::Durable,
    }
}

/// One line of mountinfo, as far as it matters here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// Which directory of the file system is mounted.
    root: PathBuf,
    /// Where.
    point: PathBuf,
    fs_type: String,
    /// Neither the mount nor the file system is read-only.
    is_writable: bool,
}

impl Mount {
    /// Whether what is mounted comes out of kubelet's layout: it rests in a directory called `..SOMETHING`, as each
    /// revision of a Secret, a ConfigMap or a projected volume does. Only who may mount can make it look so.
    pub(super) fn is_kubelets(&self) -> bool {
        self.root
            .components()
            .any(|part| matches!(part, Component::Normal(name) if name.as_encoded_bytes().starts_with(b"..")))
    }

    /// Whether it has been removed, or replaced by another, where it comes from. The kernel marks the path so.
    pub(super) fn is_of_removed_file(&self) -> bool {
        self.root.as_os_str().as_encoded_bytes().ends_with(b"//deleted")
    }
}

/// Lines that do not look like mounts are left out.
fn parse(table: &[u8]) -> Vec<Mount> {
    table.split(|byte| *byte == b'\n').filter_map(parse_line).collect()
}

/// `36 35 98:0 /root /point rw,noatime master:1 - ext4 /dev/sda rw,errors=continue`, with any number of optional
/// fields before the dash.
fn parse_line(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let root = fields.nth(3)?;
    let point = fields.next()?;
    let options = fields.next()?;
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let fs_type = fields.next()?;
    let super_options = fields.nth(1)?;
    let is_read_only = |options: &[u8]| options.split(|byte| *byte == b',').any(|option| option == b"ro");
    Some(Mount {
        root: unescaped(root),
        point: unescaped(point),
        fs_type: String::from_utf8_lossy(fs_type).into_owned(),
        is_writable: !is_read_only(options) && !is_read_only(super_options),
    })
}

/// Blank, tab, newline and backslash are written as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| *first == b'\\').and_then(octal);
        bytes.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &after[3..] } else { after };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A container: overlay root, a Secret and two emptyDirs (disk and memory), a claim, a Secret's subPath.
    const POD: &str = "\
1546 1363 0:289 / / rw,relatime master:512 - overlay overlay rw,lowerdir=/l/A,upperdir=/u,workdir=/w
1547 1546 0:292 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
1560 1546 0:280 / /etc/keys ro,relatime - tmpfs tmpfs rw,size=8388608k,inode64
1561 1546 0:281 / /run/keys rw,relatime - tmpfs tmpfs rw,size=8388608k,inode64
1562 1546 8:1 /var/lib/kubelet/pods/c0ffee/volumes/kubernetes.io~empty-dir/data /data rw,relatime - ext4 /dev/sda1 rw
1563 1546 8:16 / /srv/with\\040blank rw,relatime shared:7 master:3 - xfs /dev/sdb rw,attr2
1564 1546 0:280 /..2026/key.pem /etc/key.pem ro,relatime - tmpfs tmpfs rw
1565 1561 8:32 / /run/keys/disk rw,relatime - ext4 /dev/sdc rw
1566 1546 8:48 / /frozen rw,relatime - overlay overlay ro,lowerdir=/l
";

    fn in_pod(place: &str) -> Durability {
        judge(&parse(POD.as_bytes()), Path::new(place), false)
    }

    #[test]
    fn each_place_of_a_pod_is_what_it_is() {
        for durable in [
            "/etc/keys/current.pem",
            "/srv/with blank/key",
            "/etc/key.pem",
            "/run/keys/disk/key",
            "/frozen/key",
        ] {
            assert_eq!(in_pod(durable), Durability::Durable, "{durable}");
        }
        assert_eq!(in_pod("/run/keys/x"), Durability::Ephemeral("tmpfs mounted at /run/keys".to_owned()));
        assert_eq!(
            in_pod("/data/x"),
            Durability::Ephemeral("an emptyDir volume mounted at /data".to_owned())
        );
        for layer in ["/app/key.pem", "/run/keys-elsewhere", "/srv/with"] {
            assert!(matches!(in_pod(layer), Durability::ImageLayer(_)), "{layer}: {:?}", in_pod(layer));
        }
    }

    #[test]
    fn kubelet_layout_makes_memory_durable_but_no_empty_dir() {
        let mounts = parse(POD.as_bytes());
        assert_eq!(judge(&mounts, Path::new("/run/keys/current.pem"), true), Durability::Durable);
        assert!(matches!(judge(&mounts, Path::new("/data/current.pem"), true), Durability::Ephemeral(_)));
    }

    #[test]
    fn the_last_mount_on_a_point_hides_the_others() {
        let table = "\
20 1 8:1 / / rw - ext4 /dev/sda1 rw
21 20 0:30 / /keys rw - tmpfs tmpfs rw
22 20 8:2 / /keys rw - ext4 /dev/sda2 rw
";
        assert_eq!(judge(&parse(table.as_bytes()), Path::new("/keys/a"), false), Durability::Durable);
    }

    #[test]
    fn lines_that_are_no_mounts_are_left_out() {
        for line in
            ["", "1 2 3", "36 35 98:0 / /point rw master:1", "36 35 98:0 / /p rw - ext4", "a b c d e f g h"]
        {
            assert_eq!(parse(line.as_bytes()), [], "{line}");
        }
        assert_eq!(unescaped(b"/a\\134b\\011c\\9"), Path::new("/a\\b\tc\\9"));
    }
}
