//! What the file provider says of each kind of place: real file systems, mounted in namespaces of their own, read as root
//! and as the user of distroless images, with every usual mode.
//!
//! The verdicts are the tables of `docs/files.md`, which is what is expected here. `TEST_BLESS=1` writes them anew.

#![cfg(all(feature = "file", target_os = "linux"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{
    Binary, NONROOT, again_as_nonroot, can_mount, change, kubelet_update, mount, skipped, temp_dir, write,
};
use oneseal_providers::{
    Advice, Durability, Entries, ErrorKind, FileProvider, ProviderError, SecretProvider,
};
use oneseal_testing::block_on;

const MODES: [u32; 6] = [0o400, 0o440, 0o600, 0o640, 0o644, 0o666];
const DIRECTORY_MODES: [u32; 5] = [0o700, 0o750, 0o755, 0o777, 0o1777];

/// A kind of place.
struct Place {
    /// As the page says it.
    name: &'static str,
    /// Mounts what it needs below this directory, once.
    prepare: fn(&Path),
    /// Puts a key there with this mode, owner and group, and gives the path that a provider is to be given.
    put: fn(&Path, Key) -> PathBuf,
    /// Whose files there are.
    owned_by: OwnedBy,
    /// What the provider is told.
    is_durable: bool,
}

#[derive(Clone, Copy)]
enum OwnedBy {
    /// The user that reads them.
    Reader,
    /// Root, with the reader's group: what `fsGroup` makes.
    RootAndReadersGroup,
    Root,
}

#[derive(Clone, Copy)]
struct Key {
    mode: u32,
    uid: u32,
    gid: u32,
}

impl Key {
    fn name(self) -> String {
        format!("{:04o}-{}", self.mode, self.gid)
    }

    fn own(self, path: &Path) {
        chown(path, Some(self.uid), Some(self.gid)).unwrap();
    }

    fn write(self, path: &Path) -> PathBuf {
        write(path, "key", self.mode);
        self.own(path);
        path.to_owned()
    }

    /// In a directory of the reader's own.
    fn write_below(self, dir: &Path) -> PathBuf {
        let dir = dir.join(self.name());
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, Permissions::from_mode(0o700)).unwrap();
        self.own(&dir);
        self.write(&dir.join("key.pem"))
    }

    /// In a volume with kubelet's layout, whose directory anyone may enter.
    fn write_volume(self, volume: &Path) -> PathBuf {
        self.write_as(volume, "current.pem")
    }

    /// In one whose key has a path of two parts.
    fn write_projected(self, volume: &Path) -> PathBuf {
        self.write_as(volume, "keys/current.pem")
    }

    fn write_as(self, volume: &Path, name: &str) -> PathBuf {
        fs::create_dir_all(volume).unwrap();
        fs::set_permissions(volume, Permissions::from_mode(0o1777)).unwrap();
        kubelet_update(volume, &Entries::single(name, "key"), self.mode);
        let file = fs::canonicalize(volume.join(name)).unwrap();
        self.own(&file);
        file
    }
}

const PLAIN: Place = Place {
    name: "",
    prepare: |_| {},
    put: |base, key| key.write_below(base),
    owned_by: OwnedBy::Reader,
    is_durable: false,
};

const SECRET_VOLUME: Place = Place {
    prepare: |base| mount(&["-t", "tmpfs", "tmpfs"], &base.join("memory")),
    put: |base, key| {
        let volume = base.join("memory").join(key.name());
        key.write_volume(&volume);
        let view = base.join("secrets").join(key.name());
        bind(&volume, &view, &["-o", "ro"]);
        view
    },
    ..PLAIN
};

const PLACES: &[Place] = &[
    Place {
        name: "a disk (ext4)",
        prepare: |base| mount_ext4(&base.join("disk")),
        put: |base, key| key.write_below(&base.join("disk")),
        ..PLAIN
    },
    Place {
        name: "memory (tmpfs)",
        prepare: |base| mount(&["-t", "tmpfs", "tmpfs"], &base.join("memory")),
        put: |base, key| key.write_below(&base.join("memory")),
        ..PLAIN
    },
    Place {
        name: "memory (ramfs)",
        prepare: |base| open_to_all(&base.join("memory"), |point| mount(&["-t", "ramfs", "ramfs"], point)),
        put: |base, key| key.write_below(&base.join("memory")),
        ..PLAIN
    },
    Place {
        name: "memory that a sidecar fills, with `durable = true`",
        prepare: |base| mount(&["-t", "tmpfs", "tmpfs"], &base.join("memory")),
        put: |base, key| key.write_below(&base.join("memory")),
        is_durable: true,
        ..PLAIN
    },
    Place {
        name: "a container's writable layer (overlay)",
        prepare: mount_overlay,
        put: |base, key| key.write_below(&base.join("layer")),
        ..PLAIN
    },
    Place {
        name: "a directory of a disk, bind-mounted",
        prepare: |base| {
            mount_ext4(&base.join("disk"));
            bind(&base.join("disk"), &base.join("view"), &[]);
        },
        put: |base, key| key.write_below(&base.join("view")),
        ..PLAIN
    },
    Place {
        name: "the same, read-only",
        prepare: |base| {
            mount_ext4(&base.join("disk"));
            bind(&base.join("disk"), &base.join("view"), &["-o", "ro"]);
        },
        put: |base, key| {
            let source = key.write_below(&base.join("disk"));
            base.join("view").join(source.strip_prefix(base.join("disk")).unwrap())
        },
        ..PLAIN
    },
    Place {
        name: "a single file of a disk, bind-mounted",
        prepare: |base| mount_ext4(&base.join("disk")),
        put: |base, key| {
            let source = key.write_below(&base.join("disk"));
            let dir = base.join("single").join(key.name());
            fs::create_dir_all(&dir).unwrap();
            let point = dir.join("key.pem");
            fs::write(&point, "").unwrap();
            bind(&source, &point, &[]);
            point
        },
        ..PLAIN
    },
    Place {
        name: "a Secret or projected volume (tmpfs, kubelet's `..data`, read-only), with `fsGroup`",
        owned_by: OwnedBy::RootAndReadersGroup,
        ..SECRET_VOLUME
    },
    Place { name: "the same without `fsGroup`", owned_by: OwnedBy::Root, ..SECRET_VOLUME },
    Place {
        name: "one file of the volume, by its name",
        prepare: |base| mount(&["-t", "tmpfs", "tmpfs"], &base.join("memory")),
        put: |base, key| {
            let volume = base.join("memory").join(key.name());
            key.write_volume(&volume);
            volume.join("current.pem")
        },
        owned_by: OwnedBy::RootAndReadersGroup,
        ..PLAIN
    },
    Place {
        name: "one file of the volume, by `subPath`",
        prepare: |base| mount(&["-t", "tmpfs", "tmpfs"], &base.join("memory")),
        put: |base, key| {
            let source = key.write_volume(&base.join("memory").join(key.name()));
            let dir = base.join("single").join(key.name());
            fs::create_dir_all(&dir).unwrap();
            let point = dir.join("key.pem");
            fs::write(&point, "").unwrap();
            bind(&source, &point, &["-o", "ro"]);
            point
        },
        owned_by: OwnedBy::RootAndReadersGroup,
        ..PLAIN
    },
    Place {
        name: "a directory of a projected volume (`keys/current.pem`)",
        prepare: |base| mount(&["-t", "tmpfs", "tmpfs"], &base.join("memory")),
        put: |base, key| {
            let volume = base.join("memory").join(key.name());
            key.write_projected(&volume);
            let view = base.join("secrets").join(key.name());
            bind(&volume, &view, &["-o", "ro"]);
            view.join("keys")
        },
        owned_by: OwnedBy::RootAndReadersGroup,
        ..PLAIN
    },
    Place {
        name: "the same directory, by `subPath`",
        prepare: |base| mount(&["-t", "tmpfs", "tmpfs"], &base.join("memory")),
        put: |base, key| {
            let source = key.write_projected(&base.join("memory").join(key.name()));
            let view = base.join("single").join(key.name());
            bind(source.parent().unwrap(), &view, &["-o", "ro"]);
            view
        },
        owned_by: OwnedBy::RootAndReadersGroup,
        ..PLAIN
    },
    Place {
        name: "an emptyDir volume on disk, seen from the pod",
        prepare: |base| {
            let volume = base.join("pods/c0ffee/volumes/kubernetes.io~empty-dir/data");
            mount_ext4(&base.join("disk"));
            let on_disk = base.join("disk").join(volume.strip_prefix("/").unwrap());
            fs::create_dir_all(&on_disk).unwrap();
            bind(&on_disk, &base.join("data"), &[]);
        },
        put: |base, key| key.write_below(&base.join("data")),
        ..PLAIN
    },
    Place {
        name: "an emptyDir volume in memory, seen from the node",
        prepare: |base| {
            mount(&["-t", "tmpfs", "tmpfs"], &base.join("pods/c0ffee/volumes/kubernetes.io~empty-dir/data"));
        },
        put: |base, key| key.write_below(&base.join("pods/c0ffee/volumes/kubernetes.io~empty-dir/data")),
        ..PLAIN
    },
    Place {
        name: "a credential of systemd (ramfs, read-only)",
        prepare: |base| open_to_all(&base.join("memory"), |point| mount(&["-t", "ramfs", "ramfs"], point)),
        put: |base, key| {
            let source = key.write_below(&base.join("memory"));
            let dir = source.parent().unwrap();
            fs::set_permissions(dir, Permissions::from_mode(0o500)).unwrap();
            let view = base.join("credentials").join(key.name());
            bind(dir, &view, &["-o", "ro"]);
            view.join("key.pem")
        },
        ..PLAIN
    },
];

fn bind(source: &Path, point: &Path, options: &[&str]) {
    let mut args = vec!["--bind", source.to_str().unwrap()];
    args.splice(0..0, options.iter().copied());
    mount(&args, point);
}

fn open_to_all(point: &Path, mount: impl FnOnce(&Path)) {
    mount(point);
    fs::set_permissions(point, Permissions::from_mode(0o755)).unwrap();
}

fn mount_ext4(point: &Path) {
    let image = point.with_extension("img");
    fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    mount(&["-o", "loop", image.to_str().unwrap()], point);
}

fn mount_overlay(base: &Path) {
    let part = |name: &str| base.join("parts").join(name);
    mount(&["-t", "tmpfs", "tmpfs"], &base.join("parts"));
    ["lower", "upper", "work"].iter().for_each(|name| fs::create_dir(part(name)).unwrap());
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        part("lower").display(),
        part("upper").display(),
        part("work").display()
    );
    mount(&["-t", "overlay", "-o", &options, "overlay"], &base.join("layer"));
}

/// What a boot would find, in the words of the finding codes without their family.
fn verdict(path: &Path, is_durable: bool) -> String {
    let provider = FileProvider::new(path).assume_durable(is_durable);
    let description = provider.describe();
    let mut found: Vec<String> = Vec::new();
    match description.durability {
        Durability::Durable => {}
        Durability::Ephemeral(_) => found.push("**ephemeral**".to_owned()),
        Durability::ImageLayer(_) => found.push("image_layer".to_owned()),
        other => panic!("{other:?}"),
    }
    for advice in description.advice {
        found.push(match advice {
            Advice::WorldReadable { .. } => "world_readable".to_owned(),
            Advice::Replaceable { .. } => "replaceable".to_owned(),
            Advice::NeverUpdates { .. } => "never_updates".to_owned(),
            other => panic!("{other:?}"),
        });
    }
    if let Err(error) = block_on(provider.load()) {
        found.push(format!("**{}**", word(&error)));
    }
    if found.is_empty() { "ok".to_owned() } else { found.join(", ") }
}

fn word(error: &ProviderError) -> &'static str {
    match error.kind() {
        ErrorKind::Exposed => "exposed",
        ErrorKind::Denied => {
            assert!(error.detail().contains(&format!("uid {}", rustix::process::geteuid())), "{error}");
            assert!(error.detail().contains("its mode is 0"), "{error}");
            "denied"
        }
        other => panic!("{other:?}: {error}"),
    }
}

/// Told to the parent on standard output, one line a cell.
#[expect(clippy::print_stdout, reason = "how a child tells its parent")]
fn tell(column: &str, verdict: &str) {
    println!("\nCELL|{column}|{verdict}");
}

fn cells(told: &str) -> BTreeMap<String, String> {
    let cell = |line: &str| {
        let (column, verdict) = line.strip_prefix("CELL|")?.split_once('|')?;
        Some((column.to_owned(), verdict.to_owned()))
    };
    told.lines().filter_map(cell).collect()
}

fn open_temp_dir() -> tempfile::TempDir {
    let dir = temp_dir();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    dir
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap()
}

#[test]
fn every_place_and_mode_has_its_verdict() {
    if !can_mount() {
        return skipped("every_place_and_mode_has_its_verdict", "only root can mount file systems");
    }
    let binary = Binary::copy();
    let mut table = header("place | read by uid", &MODES, "written");
    for (index, place) in PLACES.iter().enumerate() {
        let base = open_temp_dir();
        let told = binary.run_with_own_mounts(
            "with_own_mounts_each_mode_is_judged",
            &[("TEST_PLACE", &index.to_string()), ("TEST_DIR", base.path().to_str().unwrap())],
        );
        let cells = cells(&told);
        for reader in ["0", "65532"] {
            let columns = MODES.map(|mode| format!("{mode:04o}")).into_iter().chain(["written".to_owned()]);
            let verdicts: Vec<_> =
                columns.map(|column| cells[&format!("{reader}-{column}")].as_str()).collect();
            table.push_str(&format!("| {} | {reader} | {} |\n", place.name, verdicts.join(" | ")));
        }
    }
    assert_golden("modes", &table);
}

/// The head of a table: what comes first, a column for each mode, one more.
fn header(first: &str, modes: &[u32], last: &str) -> String {
    let modes: Vec<_> = modes.iter().map(|mode| format!("{mode:04o}")).collect();
    let columns = 1 + first.matches('|').count() + modes.len() + usize::from(!last.is_empty());
    let last = if last.is_empty() { String::new() } else { format!(" | {last}") };
    format!("| {first} | {}{last} |\n|{}\n", modes.join(" | "), "---|".repeat(columns))
}

/// Between the page's marks for `name` stands this table.
#[expect(clippy::print_stdout, reason = "the table is what one runs this test to see")]
fn assert_golden(name: &str, table: &str) {
    println!("{table}");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/files.md");
    let page = fs::read_to_string(&path).unwrap();
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, rest) = page.split_once(&start).unwrap();
    let (known, after) = rest.split_once(&end).unwrap();
    if std::env::var_os("TEST_BLESS").is_some() {
        return fs::write(&path, format!("{before}{start}{table}{end}{after}")).unwrap();
    }
    for (known, found) in known.lines().zip(table.lines()) {
        assert_eq!(known, found);
    }
    assert_eq!(known, table);
}

#[test]
#[ignore = "run with mounts of its own by every_place_and_mode_has_its_verdict"]
fn with_own_mounts_each_mode_is_judged() {
    let (base, place) =
        (PathBuf::from(variable("TEST_DIR")), &PLACES[variable("TEST_PLACE").parse::<usize>().unwrap()]);
    for uid in [0, NONROOT] {
        fs::create_dir(base.join(uid.to_string())).unwrap();
        (place.prepare)(&base.join(uid.to_string()));
        let (owner, group) = match place.owned_by {
            OwnedBy::Reader => (uid, uid),
            OwnedBy::RootAndReadersGroup => (0, uid),
            OwnedBy::Root => (0, 0),
        };
        let paths =
            MODES.map(|mode| (place.put)(&base.join(uid.to_string()), Key { mode, uid: owner, gid: group }));
        let paths = paths.map(|path| path.to_str().unwrap().to_owned()).join(":");
        let variables =
            [("TEST_PATHS", paths.as_str()), ("TEST_DURABLE", if place.is_durable { "yes" } else { "" })];
        if uid == 0 {
            judge_paths("0", &paths, place.is_durable);
        } else {
            for (column, verdict) in cells(&again_as_nonroot("as_nonroot_each_mode_is_judged", &variables)) {
                tell(&column, &verdict);
            }
        }
    }
}

#[test]
#[ignore = "run as another user by with_own_mounts_each_mode_is_judged"]
fn as_nonroot_each_mode_is_judged() {
    judge_paths("65532", &variable("TEST_PATHS"), !variable("TEST_DURABLE").is_empty());
}

fn judge_paths(reader: &str, paths: &str, is_durable: bool) {
    for (path, mode) in paths.split(':').zip(MODES) {
        tell(&format!("{reader}-{mode:04o}"), &verdict(Path::new(path), is_durable));
    }
    let private = paths.split(':').zip(MODES).find(|(_, mode)| *mode == 0o600).unwrap().0;
    tell(&format!("{reader}-written"), &written(Path::new(private)));
}

/// Whether a key there can be replaced, which must be what the description says, and leave nothing behind if not.
fn written(path: &Path) -> String {
    let (provider, dir) =
        (FileProvider::new(path), if path.is_dir() { path } else { path.parent().unwrap() });
    let (is_writable, before) = (provider.describe().writable, names(dir));
    let outcome = block_on(async {
        let known = provider.load().await?.revision;
        provider.replace(&known, Entries::single("current.pem", "new"), change(uuid::Uuid::new_v4())).await
    });
    match outcome {
        Ok(_) => {
            assert!(is_writable, "{}", path.display());
            "yes".to_owned()
        }
        Err(error) => {
            assert!(!is_writable && names(dir) == before, "{error}");
            match error.kind() {
                ErrorKind::ReadOnly => "**read_only**".to_owned(),
                _ => format!("**{}**", word(&error)),
            }
        }
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The directory decides who may put another key in this one's place.
#[test]
fn every_mode_of_a_directory_has_its_verdict() {
    if !can_mount() {
        return skipped("every_mode_of_a_directory_has_its_verdict", "only root can mount file systems");
    }
    let base = open_temp_dir();
    let variables = [("TEST_DIR", base.path().to_str().unwrap())];
    let told = Binary::copy().run_with_own_mounts("with_own_mounts_each_directory_is_judged", &variables);
    let cells = cells(&told);
    let mut table = header("directory", &DIRECTORY_MODES, "");
    for Content { name, .. } in DIRECTORIES {
        let verdicts: Vec<_> =
            DIRECTORY_MODES.iter().map(|mode| cells[&format!("{name}-{mode:04o}")].as_str()).collect();
        table.push_str(&format!("| {name} | {} |\n", verdicts.join(" | ")));
    }
    assert_golden("directories", &table);
}

#[test]
#[ignore = "run with mounts of its own by every_mode_of_a_directory_has_its_verdict"]
fn with_own_mounts_each_directory_is_judged() {
    let base = PathBuf::from(variable("TEST_DIR"));
    mount_ext4(&base.join("disk"));
    for (index, Content { name, put }) in DIRECTORIES.iter().enumerate() {
        for mode in DIRECTORY_MODES {
            let dir = base.join("disk").join(format!("{index}-{mode:04o}"));
            fs::create_dir(&dir).unwrap();
            let path = put(&dir);
            fs::set_permissions(&dir, Permissions::from_mode(mode)).unwrap();
            tell(&format!("{name}-{mode:04o}"), &verdict(&path, false));
        }
    }
}

/// What is in a directory.
struct Content {
    name: &'static str,
    /// Puts it there, and gives the path that a provider gets.
    put: fn(&Path) -> PathBuf,
}

const DIRECTORIES: &[Content] = &[
    Content {
        name: "a file in it",
        put: |dir| {
            write(&dir.join("key.pem"), "key", 0o600);
            dir.join("key.pem")
        },
    },
    Content {
        name: "a link to a file in it",
        put: |dir| {
            write(&dir.join("key.pem"), "key", 0o600);
            let link = dir.with_extension("link");
            std::os::unix::fs::symlink(dir.join("key.pem"), &link).unwrap();
            link
        },
    },
    Content {
        name: "the directory, with its files",
        put: |dir| {
            write(&dir.join("current.pem"), "key", 0o600);
            dir.to_owned()
        },
    },
    Content {
        name: "the directory, in kubelet's layout",
        put: |dir| {
            kubelet_update(dir, &Entries::single("current.pem", "key"), 0o600);
            dir.to_owned()
        },
    },
    Content {
        name: "the same, mounted read-only",
        put: |dir| {
            kubelet_update(dir, &Entries::single("current.pem", "key"), 0o600);
            let view = dir.with_extension("view");
            bind(dir, &view, &["-o", "ro"]);
            view
        },
    },
];

/// The way in which systemd gives a root-owned credential to a service's user: by a list, whose mask shows in the mode.
#[test]
fn a_credential_that_a_list_grants_to_its_reader_is_taken() {
    if !can_mount() {
        return skipped("a_credential_that_a_list_grants_to_its_reader_is_taken", "only root can mount");
    }
    let base = open_temp_dir();
    let variables = [("TEST_DIR", base.path().to_str().unwrap())];
    let told =
        Binary::copy().run_with_own_mounts("with_own_mounts_a_granted_credential_is_judged", &variables);
    let cells = cells(&told);
    assert_eq!(cells["granted"], "ok");
    assert_eq!(cells["granted-to-another"], "**exposed**");
    assert_eq!(cells["granted-to-a-group"], "**exposed**");
}

#[test]
#[ignore = "run with mounts of its own by a_credential_that_a_list_grants_to_its_reader_is_taken"]
fn with_own_mounts_a_granted_credential_is_judged() {
    const USER: u16 = 2;
    const GROUP: u16 = 8;
    let (source, view) = (
        PathBuf::from(variable("TEST_DIR")).join("memory"),
        PathBuf::from(variable("TEST_DIR")).join("credentials"),
    );
    mount(&["-t", "tmpfs", "tmpfs"], &source);
    for (name, grants) in [
        ("granted", &[(USER, NONROOT)][..]),
        ("granted-to-another", &[(USER, 7), (USER, NONROOT)]),
        ("granted-to-a-group", &[(USER, NONROOT), (GROUP, 7)]),
    ] {
        write(&source.join(name), "key", 0o400);
        grant_read(&source.join(name), grants);
        assert_eq!(fs::metadata(source.join(name)).unwrap().permissions().mode() & 0o777, 0o440, "the mask");
    }
    bind(&source, &view, &["-o", "ro"]);
    let variables = [("TEST_DIR", view.to_str().unwrap())];
    for (column, verdict) in cells(&again_as_nonroot("as_nonroot_a_granted_credential_is_judged", &variables))
    {
        tell(&column, &verdict);
    }
}

#[test]
#[ignore = "run as another user by with_own_mounts_a_granted_credential_is_judged"]
fn as_nonroot_a_granted_credential_is_judged() {
    let view = PathBuf::from(variable("TEST_DIR"));
    for name in ["granted", "granted-to-another", "granted-to-a-group"] {
        tell(name, &verdict(&view.join(name), false));
    }
}

/// What `setfacl -m u:ID:r` does: the list in the kernel's form (linux/posix_acl_xattr.h).
fn grant_read(path: &Path, grants: &[(u16, u32)]) {
    let mut entries = vec![(1, 4, u32::MAX), (4, 0, u32::MAX), (0x10, 4, u32::MAX), (0x20, 0, u32::MAX)];
    entries.extend(grants.iter().map(|(tag, id)| (*tag, 4, *id)));
    entries.sort_unstable();
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions, id) in entries {
        list.extend(u16::to_le_bytes(tag));
        list.extend(u16::to_le_bytes(permissions));
        list.extend(u32::to_le_bytes(id));
    }
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(path, "system.posix_acl_access", &list, flags).unwrap();
}

/// What a Secret's update does to a file that is mounted by `subPath`: nothing, and that is told.
#[test]
fn a_file_mounted_by_itself_tells_when_it_has_been_replaced() {
    if !can_mount() {
        return skipped("a_file_mounted_by_itself_tells_when_it_has_been_replaced", "only root can mount");
    }
    let base = open_temp_dir();
    let variables = [("TEST_DIR", base.path().to_str().unwrap())];
    Binary::copy().run_with_own_mounts("with_own_mounts_a_file_is_replaced_where_it_comes_from", &variables);
}

#[test]
#[ignore = "run with mounts of its own by a_file_mounted_by_itself_tells_when_it_has_been_replaced"]
fn with_own_mounts_a_file_is_replaced_where_it_comes_from() {
    let base = PathBuf::from(variable("TEST_DIR"));
    let (volume, point) = (base.join("volume"), base.join("key.pem"));
    let key = Key { mode: 0o440, uid: 0, gid: 0 };
    mount(&["-t", "tmpfs", "tmpfs"], &base.join("volume"));
    let source = key.write_volume(&volume);
    fs::write(&point, "").unwrap();
    bind(&source, &point, &[]);
    let provider = FileProvider::new(&point);
    let told = |is_replaced| vec![Advice::NeverUpdates { path: point.display().to_string(), is_replaced }];
    assert_eq!(provider.describe().advice, told(false));
    kubelet_update(&volume, &Entries::single("current.pem", "a newer key"), 0o440);
    assert_eq!(provider.describe().advice, told(true));
    let record = block_on(provider.load()).unwrap();
    assert_eq!(record.entries.get(Entries::CURRENT).unwrap().expose(), b"key", "still the old one");
}
