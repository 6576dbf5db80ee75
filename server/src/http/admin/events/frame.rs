//! What is written into a stream of server-sent events (WHATWG HTML, section 9.2).
//!
//! Everything that stands in a frame is ours and has no line end: ids, and JSON in one line.

use std::time::Duration;

use bytes::Bytes;
use oneseal_coordination::events::{Broken, Event, Position, Reset};
use serde_json::json;

/// The first bytes, which say nothing but that it has begun, and after which pause a client comes back.
pub(super) fn hello(retry: Duration) -> Bytes {
    format!(": oneseal events\nretry: {}\n\n", retry.as_millis()).into()
}

/// Nothing happened, and the stream is alive.
pub(super) fn alive() -> Bytes {
    Bytes::from_static(b":\n\n")
}

/// Where the stream stands: a client that is cut off before the first event goes on from there.
pub(super) fn stands(position: Position) -> Bytes {
    format!("id: {}\n\n", position.cursor()).into()
}

/// An event. It has no name, so that one listener gets all kinds, those of later versions too.
pub(super) fn event(event: &Event) -> Bytes {
    let id = Position { seq: event.seq, hash: event.hash }.cursor();
    format!("id: {id}\ndata: {}\n\n", event.line()).into()
}

/// What the client knows is of no use any more; all that is kept follows.
pub(super) fn reset(reset: &Reset) -> Bytes {
    let Reset { reason, floor, head, .. } = reset;
    let (floor, head) = (floor.cursor().to_string(), head.cursor().to_string());
    let data = sorted(json!({ "reason": reason.as_str(), "floor": floor, "head": head }));
    format!("id: {floor}\nevent: reset\ndata: {data}\n\n").into()
}

/// The log is broken there, and nothing follows.
pub(super) fn broken(broken: &Broken, retry: Duration) -> Bytes {
    let data =
        sorted(json!({ "seq": broken.seq, "fault": broken.fault.word(), "message": broken.to_string() }));
    format!("retry: {}\nevent: broken\ndata: {data}\n\n", retry.as_millis()).into()
}

/// The last bytes: why it ends, and when to come back.
pub(super) fn end(why: &'static str, retry: Duration) -> Bytes {
    format!(": {why}\nretry: {}\n\n", retry.as_millis()).into()
}

fn sorted(mut value: serde_json::Value) -> serde_json::Value {
    value.sort_all_objects();
    value
}

#[cfg(test)]
mod tests {
    use oneseal_coordination::events::Verifier;

    use super::*;

    fn text(bytes: &Bytes) -> &str {
        std::str::from_utf8(bytes).expect("UTF-8")
    }

    #[test]
    fn frames_are_these_bytes() {
        let line = include_str!("../../../../../coordination/tests/vectors/events.ndjson");
        let line = line.lines().next().expect("a line");
        let first = Verifier::new().line(line.as_bytes()).expect("an event");
        let position = Position { seq: first.seq, hash: first.hash };
        let id = position.cursor().to_string();
        let second = Duration::from_secs(1);
        assert_eq!(text(&hello(second)), ": oneseal events\nretry: 1000\n\n");
        assert_eq!(text(&alive()), ":\n\n");
        assert_eq!(text(&stands(position)), format!("id: {id}\n\n"));
        assert_eq!(text(&event(&first)), format!("id: {id}\ndata: {line}\n\n"));
        assert_eq!(text(&end("draining", second)), ": draining\nretry: 1000\n\n");
    }

    #[test]
    fn a_broken_log_is_told_in_one_line() {
        let said = Verifier::new().line(b"x\ny").expect_err("no event");
        let frame = broken(&said, Duration::from_secs(60));
        assert!(
            text(&frame).starts_with("retry: 60000\nevent: broken\ndata: {\"fault\":\"form\",\"message\":")
        );
        assert_eq!(text(&frame).lines().count(), 4);
    }
}
