//! The command line, as an operator uses it on these replicas.

use oneseal_tests::{Replica, binary, state};
use serde_json::Value;
use tokio::process::Command;

/// Exit code and `--json` of `oneseal ARGUMENTS`.
pub(crate) async fn oneseal(arguments: &[&str]) -> (Option<i32>, Value) {
    let output = Command::new(binary()).args(arguments).arg("--json").output().await.unwrap();
    let told = serde_json::from_slice(&output.stdout).or_else(|_| serde_json::from_slice(&output.stderr));
    (output.status.code(), told.unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}")))
}

/// `oneseal keys VERB …`, carried out by `replica`.
pub(crate) async fn keys(replica: &Replica, arguments: &[&str]) -> (Option<i32>, Value) {
    let admin = replica.admin();
    oneseal(&[&["keys"], arguments, &["--admin", admin.to_str().unwrap()]].concat()).await
}

/// As [`keys`], and it must be done.
pub(crate) async fn done(replica: &Replica, arguments: &[&str]) -> Value {
    let (code, told) = keys(replica, arguments).await;
    assert_eq!(code, Some(0), "{arguments:?}: {told}");
    told
}

/// A whole rotation: published, and signing as soon as the floors allow it.
pub(crate) async fn rotated(replica: &Replica) {
    done(replica, &["rotate"]).await;
    state::until("the key may sign", async || {
        let (code, told) = keys(replica, &["activate"]).await;
        assert!(matches!(code, Some(0 | 75)), "{told}");
        (code == Some(0)).then_some(())
    })
    .await;
}

/// The codes that `oneseal check` finds with the configuration of the replica, and its exit code.
pub(crate) async fn check(replica: &Replica) -> (Option<i32>, Vec<String>) {
    let config = replica.admin().with_file_name("oneseal.toml");
    let (code, report) = oneseal(&["check", "--config", config.to_str().unwrap()]).await;
    let findings = report["findings"].as_array().unwrap_or_else(|| panic!("{report}"));
    (code, findings.iter().map(|finding| finding["code"].as_str().unwrap().to_owned()).collect())
}
