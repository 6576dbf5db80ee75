//! `oneseal events` on a real database.

use std::process::{Command, Output, Stdio};

use oneseal_tests::{binary, state};

use crate::place::Place;

fn run(place: &Place, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(binary());
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("ONESEAL")) {
        command.env_remove(name);
    }
    command.arg("events").args(arguments).arg("--config").arg(place.config()).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn out_of(place: &Place, arguments: &[&str]) -> String {
    run(place, arguments).1
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_exported_verifies_and_what_is_edited_is_found() {
    let Some(place) = Place::new().await else { return };
    place.append(300).await;
    let file = place.path("events.ndjson");
    let path = file.to_str().unwrap();
    let (code, out, err) = run(&place, &["export", "--output", path, "--json"]);
    let said: serde_json::Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    assert_eq!(
        (code, &said["events"], &said["first"], &said["last"]),
        (0, &300.into(), &1.into(), &300.into())
    );
    let head = said["head"].as_str().unwrap();
    // It may be the only copy of what has been pruned since.
    let written = std::fs::read(&file).unwrap();
    let (code, _, err) = run(&place, &["export", "--after", "290", "--output", path]);
    assert!(code == 78 && err.contains("is there already and is left as it is"), "{err}");
    assert_eq!(std::fs::read(&file).unwrap(), written);
    let (code, lines, _) = run(&place, &["export"]);
    assert_eq!((code, lines), (0, std::fs::read_to_string(&file).unwrap()));
    let (_, part, _) = run(&place, &["export", "--after", "290", "--until", "292"]);
    assert_eq!(part.lines().count(), 2);
    for arguments in
        [&["verify"][..], &["verify", path], &["verify", path, "--head", head], &["verify", "--head", head]]
    {
        let (code, out, err) = run(&place, arguments);
        assert_eq!(code, 0, "{arguments:?} {err}");
        assert!(out.starts_with("verified: 300 events, 1 to 300; the head is 300-"), "{out}");
    }
    let (code, _, err) = run(&place, &["verify", path, "--head", "299-00000000"]);
    assert_eq!(code, 1, "{err}");
    let (code, out, _) = run(&place, &["verify", path, "--head", "301-00000000", "--json"]);
    assert!(code == 1 && out.contains("\"fault\":\"anchor\""), "{out}");

    let edited = std::fs::read_to_string(&file).unwrap().replacen("\"seq\":150,", "\"seq\":151,", 1);
    std::fs::write(&file, edited).unwrap();
    let (code, _, err) = run(&place, &["verify", path]);
    assert!(code == 1 && err.contains("broken at seq 150: seq 151 stands there"), "{err}");
    place.psql.execute("UPDATE oneseal.events SET payload = '{\"a\":2}' WHERE seq = 280");
    let (code, out, _) = run(&place, &["verify", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &said["broken"]["seq"], &said["broken"]["fault"]), (1, &280.into(), &"hash".into()));
    let (code, lines, err) = run(&place, &["export"]);
    assert_eq!((code, lines.lines().count()), (1, 300), "it is written out all the same: {err}");
    let (code, _, err) = run(&place, &["prune", "--before", "290", "--yes"]);
    assert!(code == 1 && err.contains("broken at seq 280"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_says_what_goes_and_wants_yes() {
    let Some(place) = Place::new().await else { return };
    place.append(9).await;
    let (code, out, err) = run(&place, &["prune", "--before", "5"]);
    assert!(
        code == 64
            && out.is_empty()
            && err.contains("--yes")
            && err.starts_with("oneseal: events.wants_yes: 4 events would be cut off, up to 4-"),
        "{out}{err}"
    );
    let (code, out, _) = run(&place, &["prune", "--before", "2", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &said["error"]["code"]), (64, &"events.wants_yes".into()));
    assert!(said["error"]["message"].as_str().unwrap().starts_with("1 event would"), "{said}");
    let (code, out, _) = run(&place, &["prune", "--before", "5", "--yes", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &said["count"], &said["done"]), (0, &4.into(), &true.into()));
    let (code, out, _) = run(&place, &["verify"]);
    assert!(code == 0 && out.starts_with("verified: 6 events, 5 to 10"), "{out}");
    let said: serde_json::Value = serde_json::from_str(&out_of(&place, &["verify", "--json"])).unwrap();
    let head = said["head"].as_str().unwrap();
    let floor =
        place.psql.execute("SELECT seq || '-' || substr(encode(hash, 'hex'), 1, 8) FROM oneseal.event_floor");
    for known in [head, floor.trim()] {
        assert_eq!(run(&place, &["verify", "--head", known]).0, 0, "{known}");
    }
    let (code, _, err) = run(&place, &["verify", "--head", "4-00000000"]);
    assert!(code == 1 && err.contains("should have the hash"), "{err}");
    // No alarm: it was cut off, and what is left says nothing of it.
    let (code, out, err) = run(&place, &["verify", "--head", "2-00000000"]);
    assert!(code == 78 && err.contains("begins after 4-") && !err.contains("broken"), "{out}{err}");
    let (code, out, _) = run(&place, &["prune", "--before", "1d", "--yes"]);
    assert!(code == 0 && out.starts_with("nothing to cut off"), "{out}");
    let (code, _, err) = run(&place, &["export", "--after", "2"]);
    assert!(code == 78 && err.contains("the log begins after 4-"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_is_printed_and_a_reader_that_goes_ends_it() {
    let Some(place) = Place::new().await else { return };
    place.append(3).await;
    let config = place.config();
    let script = format!("{:?} events follow --after 1 --config {config:?} | head -n 2", binary());
    let mut child = Command::new("sh");
    let mut child = child.args(["-c", &script]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    // That its reader has gone shows when something is written.
    state::until("the end of the verb", async || {
        place.append(1).await;
        child.try_wait().unwrap()
    })
    .await;
    let output = child.wait_with_output().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let seqs: Vec<_> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_i64())
        .collect();
    assert_eq!(seqs, [Some(2), Some(3)]);
}
