//! The image's root, laid out by the script that the Dockerfile runs, on this machine's Debian, and entered.

use std::path::Path;
use std::process::{Command, Output};

use oneseal_tests::{binary, require};

use crate::shipped;

const NONROOT: &str = "65532:65532";

#[test]
fn the_program_runs_in_what_the_image_holds_as_its_user() {
    if !rustix::process::geteuid().is_root() || !Path::new("/etc/debian_version").exists() {
        return require::skip("the image's root", "to enter it takes root, and to lay it out Debian");
    }
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    let script = shipped::folder().join("image-root");
    let laid_out = Command::new("sh").arg(&script).arg(binary()).arg(&root).output().unwrap();
    assert!(laid_out.status.success(), "{}", told(&laid_out));
    let again = Command::new("sh").arg(&script).arg(binary()).arg(&root).output().unwrap();
    assert!(!again.status.success() && told(&again).contains("is not empty"), "{}", told(&again));

    let version = inside(&root, &["version"]);
    assert!(version.status.success(), "{}", told(&version));
    // A ring is made by aws-lc, sealed by OpenSSL and written; the place stands for a mounted volume.
    let data = root.join("data");
    std::fs::create_dir(&data).unwrap();
    std::os::unix::fs::chown(&data, Some(65532), Some(65532)).unwrap();
    for (words, exit) in [
        (&["keys", "new-kek", "--out", "/data/kek"][..], 0),
        (&["keys", "init", "--config", "/etc/oneseal/oneseal.toml"], 0),
        (&["check", "--no-bind", "--offline"], 0),
    ] {
        std::fs::write(root.join("etc/oneseal/oneseal.toml"), CONFIGURATION).unwrap();
        let output = inside(&root, words);
        assert_eq!(output.status.code(), Some(exit), "{words:?}: {}", told(&output));
    }
    let recorded = |package: &str| root.join("var/lib/dpkg/status.d").join(package).exists();
    assert!(["libc6", "libssl3", "ca-certificates"].into_iter().all(recorded), "what scanners look for");
    assert!(!root.join("bin/sh").exists());
}

const CONFIGURATION: &str = "[issuer]
url = \"https://oidc.example.com\"
algorithms = [\"ES256\"]
[provider]
uri = \"file:/data/keyring.json\"
durable = true
[kek]
uri = \"file:/data/kek\"
";

fn inside(root: &Path, words: &[&str]) -> Output {
    let mut command = Command::new("chroot");
    command.arg(format!("--userspec={NONROOT}")).arg(root).arg("/usr/bin/oneseal").args(words).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).output().unwrap()
}

fn told(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
