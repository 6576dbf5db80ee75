//! Tells `oneseal version` what it was built with.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!(
        "cargo::rustc-env=BUILT_WITH_RUSTC={}",
        rustc().unwrap_or_else(|| "rustc of unknown version".to_owned())
    );
    for name in ["TARGET", "PROFILE"] {
        println!("cargo::rustc-env=BUILT_FOR_{name}={}", env::var(name).unwrap_or_default());
    }
    let version = crypto().unwrap_or_default();
    println!("cargo::rustc-env=BUILT_WITH_CRYPTO={}", format!("aws-lc-rs {version}").trim_end());
}

/// `rustc 1.95.0 (…)`.
fn rustc() -> Option<String> {
    let output = Command::new(env::var_os("RUSTC")?).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The version of the crypto library by the lock file: the workspace's, or a packaged crate's own.
fn crypto() -> Option<String> {
    let here = env::var_os("CARGO_MANIFEST_DIR")?;
    let lock = ["../Cargo.lock", "Cargo.lock"]
        .map(|name| Path::new(&here).join(name))
        .into_iter()
        .find(|path| path.exists())?;
    println!("cargo::rerun-if-changed={}", lock.display());
    let text = fs::read_to_string(lock).ok()?;
    let (_, after) = text.split_once("name = \"aws-lc-rs\"\n")?;
    let line = after.lines().next()?;
    Some(line.strip_prefix("version = \"")?.strip_suffix('"')?.to_owned())
}
