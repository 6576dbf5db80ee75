//! Where `check` lets a key rest and where `keys init` makes one: real file systems, mounted in a namespace of their own,
//! by the program itself, as root and as the user of distroless images. The whole matrix of places and modes is the file
//! provider's own test; this one proves that the program reports what the provider finds.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::support::place::{DURABLE, ISSUER, Place};

/// The user of distroless images.
const NONROOT: u32 = 65532;

/// Mounts everything below `$BASE`, with a ring in each place that may have one, then runs what it is given.
const MOUNTS: &str = r#"
set -eu
cd "$BASE"
mkdir disk memory layers layer shm
truncate -s 8M disk.img && mkfs.ext4 -q -F disk.img && mount -o loop disk.img disk
mount -t tmpfs tmpfs memory
mount -t tmpfs tmpfs layers && mkdir layers/lower layers/upper layers/work
mount -t overlay -o lowerdir=layers/lower,upperdir=layers/upper,workdir=layers/work overlay layer

for uid in 0 65532; do
  for dir in disk layer memory; do install -d -m 700 -o $uid -g $uid $dir/$uid; done
  for dir in disk layer memory; do install -m 600 -o $uid -g $uid ring.json $dir/$uid/ring.json; done
  for dir in disk layer memory; do install -d -m 700 -o $uid -g $uid $dir/$uid/new; done
  install -m 640 -o $uid -g $uid ring.json disk/$uid/shared.json
  install -m 600 -o $uid -g $uid /dev/null disk/$uid/single.json
  # A file by itself, as a container runtime binds it.
  mount --bind disk/$uid/ring.json disk/$uid/single.json
  # An emptyDir of the node.
  install -d -m 700 -o $uid -g $uid disk/kubernetes.io~empty-dir/$uid data-$uid
  install -m 600 -o $uid -g $uid ring.json disk/kubernetes.io~empty-dir/$uid/ring.json
  mount --bind disk/kubernetes.io~empty-dir/$uid data-$uid
  # A Secret volume with fsGroup, and one of defaultMode 0644 without.
  for mode in 440 644; do
    volume=memory/secret-$uid-$mode; install -d -m 1777 $volume; install -d -m 755 $volume/..2026_01_01
    install -m $mode -o 0 -g $uid ring.json $volume/..2026_01_01/keyring.json
    ln -s ..2026_01_01 $volume/..data; ln -s ..data/keyring.json $volume/keyring.json
    mkdir secret-$uid-$mode; mount -o ro --bind $volume secret-$uid-$mode
  done
  # A credential of systemd.
  install -d -m 500 -o $uid -g $uid credentials-$uid; mount -t ramfs ramfs credentials-$uid
  install -m 400 -o $uid -g $uid ring.json credentials-$uid/ring.json
  chown $uid:$uid credentials-$uid; chmod 500 credentials-$uid; mount -o remount,ro,bind credentials-$uid
  # A disk without room, and one that cannot be written.
  mkdir full-$uid frozen-$uid
  mount -t tmpfs -o size=16k,mode=700,uid=$uid,gid=$uid tmpfs full-$uid
  head -c 1M /dev/zero > full-$uid/filler 2> /dev/null || true
  mount -o ro --bind disk/$uid/new frozen-$uid
done
install -m 400 ring.json disk/root.json
exec "$@"
"#;

struct Case {
    name: &'static str,
    /// Below the base; `UID` is the user.
    path: &'static str,
    is_durable: bool,
    exit: i32,
    /// A code of the report, its severity and words of its message; `ok` if there is no finding of the provider.
    code: &'static str,
    words: &'static str,
}

const CHECKED: &[Case] = &[
    Case { name: "a disk", path: "disk/UID/ring.json", is_durable: false, exit: 0, code: "ok", words: "" },
    Case {
        name: "0640",
        path: "disk/UID/shared.json",
        is_durable: true,
        exit: 78,
        code: "provider.exposed",
        words: "0640",
    },
    Case {
        name: "tmpfs",
        path: "memory/UID/ring.json",
        is_durable: false,
        exit: 78,
        code: "provider.ephemeral",
        words: "tmpfs mounted at",
    },
    Case {
        name: "tmpfs that a sidecar fills",
        path: "memory/UID/ring.json",
        is_durable: true,
        exit: 0,
        code: "ok",
        words: "",
    },
    Case {
        name: "overlay",
        path: "layer/UID/ring.json",
        is_durable: false,
        exit: 0,
        code: "provider.image_layer",
        words: "overlay at",
    },
    Case {
        name: "a single file",
        path: "disk/UID/single.json",
        is_durable: false,
        exit: 0,
        code: "provider.never_updates",
        words: "by itself",
    },
    Case {
        name: "emptyDir",
        path: "data-UID/ring.json",
        is_durable: false,
        exit: 78,
        code: "provider.ephemeral",
        words: "emptyDir",
    },
    Case { name: "Secret 0440", path: "secret-UID-440", is_durable: false, exit: 0, code: "ok", words: "" },
    Case {
        name: "Secret 0644",
        path: "secret-UID-644",
        is_durable: false,
        exit: 0,
        code: "provider.world_readable",
        words: "0644",
    },
    Case {
        name: "a credential",
        path: "credentials-UID/ring.json",
        is_durable: false,
        exit: 0,
        code: "ok",
        words: "",
    },
];

const INITIALISED: &[Case] = &[
    Case {
        name: "a disk",
        path: "disk/UID/new/ring.json",
        is_durable: false,
        exit: 0,
        code: "ok",
        words: "made",
    },
    Case {
        name: "tmpfs",
        path: "memory/UID/new/ring.json",
        is_durable: false,
        exit: 78,
        code: "provider.ephemeral",
        words: "tmpfs",
    },
    Case {
        name: "tmpfs, durable",
        path: "memory/UID/new/ring.json",
        is_durable: true,
        exit: 0,
        code: "ok",
        words: "made",
    },
    Case {
        name: "overlay",
        path: "layer/UID/new/ring.json",
        is_durable: false,
        exit: 78,
        code: "provider.init_in_image",
        words: "overlay at",
    },
    Case {
        name: "overlay, durable",
        path: "layer/UID/new/ring.json",
        is_durable: true,
        exit: 0,
        code: "ok",
        words: "made",
    },
    Case {
        name: "emptyDir",
        path: "data-UID/new.json",
        is_durable: false,
        exit: 78,
        code: "provider.ephemeral",
        words: "emptyDir",
    },
    Case {
        name: "a full disk",
        path: "full-UID/ring.json",
        is_durable: true,
        exit: 69,
        code: "",
        words: "no space is left",
    },
    Case {
        name: "a read-only mount",
        path: "frozen-UID/other.json",
        is_durable: false,
        exit: 78,
        code: "",
        words: "mounted read-only",
    },
    Case {
        name: "a single file",
        path: "disk/UID/single.json",
        is_durable: false,
        exit: 0,
        code: "ok",
        words: "already there",
    },
    Case {
        name: "no directory",
        path: "disk/UID/none/ring.json",
        is_durable: false,
        exit: 78,
        code: "",
        words: "does not exist; create it first",
    },
];

fn can_mount() -> bool {
    let script = ["--mount", "--propagation", "private", "sh", "-c", "mount -t tmpfs tmpfs /mnt"];
    rustix::process::geteuid().is_root()
        && Command::new("unshare").args(script).output().is_ok_and(|done| done.status.success())
}

/// A directory with the program, this test and a ring, all of which every user may reach.
fn base() -> Place {
    let place = Place::with_ring("ES256");
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    for (from, to) in [
        (PathBuf::from(env!("CARGO_BIN_EXE_oneseal")), "oneseal"),
        (std::env::current_exe().unwrap(), "test"),
    ] {
        // By another process: what this one has open for writing, a child of another test may have open too, and then it
        // cannot be run.
        let mut install = Command::new("install");
        assert!(install.args(["-m", "755"]).arg(from).arg(place.path(to)).status().unwrap().success());
    }
    place.write("algorithms.toml", "[issuer]\nalgorithms = [\"ES256\"]\n");
    open(&place.path("algorithms.toml"));
    open(place.path("ring.json").parent().unwrap());
    place
}

/// Runs the ignored test `name` of this binary among the mounts.
fn among_mounts(name: &str) {
    let place = base();
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "bash", "-c", MOUNTS, "bash"])
        .arg(place.path("test"))
        .args(["--exact", name, "--ignored", "--nocapture"])
        .env("BASE", place.path("ring.json").parent().unwrap())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}\n{complained}");
}

/// The program, as this user.
fn run(args: &[&str], case: &Case, uid: u32) -> Output {
    let base = PathBuf::from(std::env::var_os("BASE").unwrap());
    let path = base.join(case.path.replace("UID", &uid.to_string()));
    let mut command = Command::new(base.join("oneseal"));
    command.args(args).args(["--issuer", ISSUER, "--config", "algorithms.toml"]).current_dir(&base);
    command.args(["--provider", &format!("file:{}", path.display())]);
    command.env_clear().env(DURABLE, case.is_durable.to_string()).uid(uid).gid(uid).output().unwrap()
}

#[test]
fn check_reports_each_place_as_it_is() {
    if can_mount() {
        among_mounts("mounts::among_mounts_check_reports_each_place");
    } else {
        skipped("check_reports_each_place_as_it_is");
    }
}

#[test]
#[ignore = "run among mounts by check_reports_each_place_as_it_is"]
fn among_mounts_check_reports_each_place() {
    for uid in [0, NONROOT] {
        for case in CHECKED {
            let output = run(&["check", "--json", "--no-bind"], case, uid);
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            let name = format!("{} as {uid}: {report}", case.name);
            assert_eq!(output.status.code(), Some(case.exit), "{name}");
            let found = report["findings"].as_array().unwrap();
            let is_of_place = |finding: &&Value| finding["code"].as_str().unwrap().starts_with("provider.");
            let found: Vec<_> = found.iter().filter(is_of_place).collect();
            match case.code {
                "ok" => assert!(found.is_empty(), "{name}"),
                code => {
                    let finding = found.iter().find(|finding| finding["code"] == code);
                    let finding = finding.unwrap_or_else(|| panic!("{name}"));
                    assert!(finding["message"].as_str().unwrap().contains(case.words), "{name}");
                    assert!(!finding["cure"].as_str().unwrap().is_empty(), "{name}");
                }
            }
        }
    }
    let denied =
        Case { name: "root's", path: "disk/root.json", is_durable: false, exit: 77, code: "", words: "" };
    let output = run(&["check", "--json", "--no-bind"], &denied, NONROOT);
    assert_eq!(output.status.code(), Some(77));
    let report = String::from_utf8(output.stdout).unwrap();
    for words in ["provider.denied", "disk/root.json", "uid 65532", "its mode is 0400, its owner 0"] {
        assert!(report.contains(words), "{words}: {report}");
    }
}

#[test]
fn keys_init_makes_a_key_only_where_it_stays() {
    if can_mount() {
        among_mounts("mounts::among_mounts_keys_init_makes_a_key_only_where_it_stays");
    } else {
        skipped("keys_init_makes_a_key_only_where_it_stays");
    }
}

#[test]
#[ignore = "run among mounts by keys_init_makes_a_key_only_where_it_stays"]
fn among_mounts_keys_init_makes_a_key_only_where_it_stays() {
    let base = PathBuf::from(std::env::var_os("BASE").unwrap());
    for uid in [0, NONROOT] {
        for case in INITIALISED {
            let dir = base.join(case.path.replace("UID", &uid.to_string())).parent().unwrap().to_owned();
            let before = names(&dir);
            let output = run(&["keys", "init"], case, uid);
            let told = [&output.stdout[..], &output.stderr[..]].concat();
            let told = String::from_utf8(told).unwrap();
            let name = format!("{} as {uid}: {told}", case.name);
            assert_eq!(output.status.code(), Some(case.exit), "{name}");
            assert!(told.contains(case.words) && (case.code == "ok" || told.contains(case.code)), "{name}");
            if case.exit != 0 {
                let after = names(&dir);
                assert_eq!(after, before, "nothing is left behind: {name}");
            }
        }
    }
    // As another user, where only root may write.
    let closed =
        Case { name: "root's", path: "disk/new.json", is_durable: false, exit: 77, code: "", words: "" };
    let output = run(&["keys", "init"], &closed, NONROOT);
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(77), "{told}");
    assert!(
        told.contains("uid 65532, gid 65532 may not write in it: its mode is 0755, its owner 0"),
        "{told}"
    );
}

/// What is in a directory, but for the writers' locks, which stay.
fn names(dir: &Path) -> Vec<String> {
    let Ok(files) = fs::read_dir(dir) else { return Vec::new() };
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| !name.ends_with(".lock")).collect();
    names.sort();
    names
}

#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn skipped(test: &str) {
    eprintln!("skipped: {test}: only root can mount file systems");
}
