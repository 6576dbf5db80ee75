//! The ring's own history: the last changes, each chained to the one before it by a hash.
//!
//! `hash = SHA-256(prev_hash ‖ JCS of the entry without prev_hash and hash)`, where `prev_hash` goes in as its 32
//! bytes and both are written as hex. The first entry ever follows 32 zero bytes. Entries fall off the front when
//! there are more than 64 or the array exceeds 16 KiB; what is left is still a chain.

use serde_json::{Map, Value};

use super::view::LogEntry;
use crate::Digest;

/// At most so many entries.
pub(crate) const MAX_ENTRIES: usize = 64;
/// At most so many bytes in all, as JCS.
pub(crate) const MAX_BYTES: usize = 16 * 1024;
/// A reason's length in bytes.
pub(crate) const MAX_REASON: usize = 200;

/// What a new entry tells.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) at: i64,
    pub(crate) kind: &'a str,
    pub(crate) kid: Option<&'a str>,
    pub(crate) actor: &'a str,
    pub(crate) reason: &'a str,
    pub(crate) change_id: &'a str,
    pub(crate) request: Option<&'a str>,
}

/// Appends `entry` and drops the oldest ones above the limits.
pub(crate) fn append(log: &mut Vec<LogEntry>, entry: &Entry<'_>) {
    let next = follow(log.last().map(|last| last.hash.as_str()), entry);
    log.push(next);
    while log.len() > MAX_ENTRIES || size(log) > MAX_BYTES {
        log.remove(0);
    }
}

/// As [`append`], to the log as it stands in a document: what a later version has added to an entry is under its hash,
/// and stays.
pub(crate) fn append_to(log: &mut Vec<Value>, entry: &Entry<'_>) {
    let next = follow(log.last().and_then(|last| last.get("hash")).and_then(Value::as_str), entry);
    log.extend(serde_json::to_value(next));
    while log.len() > MAX_ENTRIES || size(log) > MAX_BYTES {
        log.remove(0);
    }
}

fn follow(hash_before: Option<&str>, entry: &Entry<'_>) -> LogEntry {
    let mut next = LogEntry {
        at: entry.at,
        kind: entry.kind.to_owned(),
        kid: entry.kid.map(str::to_owned),
        actor: shorten(entry.actor),
        reason: shorten(entry.reason),
        change_id: entry.change_id.to_owned(),
        request: entry.request.map(str::to_owned),
        prev_hash: hash_before.map_or_else(|| Digest::ZERO.to_string(), str::to_owned),
        hash: String::new(),
    };
    if let Ok(Value::Object(map)) = serde_json::to_value(&next) {
        next.hash = link(&map).map_or_else(String::new, |hash| hash.to_string());
    }
    next
}

/// Checks the limits and every link of the `log` member as it stands in the document, unknown members included.
///
/// # Errors
/// What is wrong, in words.
pub(crate) fn check(log: &[Value]) -> Result<(), String> {
    if log.len() > MAX_ENTRIES {
        return Err(format!("the log has {} entries; at most {MAX_ENTRIES} are kept", log.len()));
    }
    if serde_json_canonicalizer::to_vec(&log).is_ok_and(|bytes| bytes.len() > MAX_BYTES) {
        return Err(format!("the log is longer than {MAX_BYTES} bytes"));
    }
    let mut before: Option<String> = None;
    for (i, entry) in log.iter().enumerate() {
        let broken = |what: &str| Err(format!("log[{i}] {what}"));
        let Value::Object(map) = entry else { return broken("is no object") };
        let (Some(prev), Some(hash)) = (text(map, "prev_hash"), text(map, "hash")) else {
            return broken("has no prev_hash or hash");
        };
        if before.as_ref().is_some_and(|before| before != prev) {
            return broken("does not follow the entry before it");
        }
        if link(map).map(|link| link.to_string()).as_deref() != Some(hash) {
            return broken("does not match its hash");
        }
        if text(map, "reason").is_some_and(|reason| reason.len() > MAX_REASON) {
            return broken("has too long a reason");
        }
        before = Some(hash.to_owned());
    }
    Ok(())
}

fn link(entry: &Map<String, Value>) -> Option<Digest> {
    let prev = Digest::from_hex(text(entry, "prev_hash")?)?;
    let mut told = entry.clone();
    told.remove("prev_hash");
    told.remove("hash");
    let told = serde_json_canonicalizer::to_vec(&told).ok()?;
    Some(Digest::of_parts(&[prev.as_bytes(), &told]))
}

fn text<'a>(entry: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    entry.get(name)?.as_str()
}

fn size(log: &impl serde::Serialize) -> usize {
    serde_json_canonicalizer::to_vec(log).map_or(0, |bytes| bytes.len())
}

/// Cuts at a character boundary, so that the limit in bytes holds for any text.
fn shorten(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_REASON.min(text.len()));
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(reason: &str) -> Entry<'_> {
        Entry {
            at: 1,
            kind: "key.activated",
            kid: Some("k"),
            actor: "test",
            reason,
            change_id: "c",
            request: None,
        }
    }

    fn values(log: &[LogEntry]) -> Vec<Value> {
        log.iter().map(|entry| serde_json::to_value(entry).expect("plain data")).collect()
    }

    fn chain(len: usize, reason: &str) -> Vec<LogEntry> {
        let mut log = Vec::new();
        (0..len).for_each(|_| append(&mut log, &entry(reason)));
        log
    }

    #[test]
    fn a_chain_checks_and_stays_within_its_limits() {
        let log = chain(100, "short");
        assert_eq!(log.len(), MAX_ENTRIES);
        assert_eq!(check(&values(&log)), Ok(()));
        let log = chain(100, &"é".repeat(150));
        assert!(size(&log) <= MAX_BYTES && log.iter().all(|entry| entry.reason.len() <= MAX_REASON));
        assert_eq!(check(&values(&log)), Ok(()));
    }

    #[test]
    fn any_altered_missing_or_swapped_entry_breaks_it() {
        let good = values(&chain(3, "r"));
        let mut altered = good.clone();
        altered[1]["reason"] = "other".into();
        let mut missing = good.clone();
        missing.remove(1);
        let mut swapped = good.clone();
        swapped.swap(0, 1);
        let mut extra = good;
        extra[2]["new_member"] = true.into();
        for log in [altered, missing, swapped, extra] {
            assert!(check(&log).is_err());
        }
    }

    #[test]
    fn a_member_added_by_a_later_version_is_part_of_the_hash() {
        let mut map = Map::new();
        map.insert("at".into(), 1.into());
        map.insert("later".into(), "x".into());
        map.insert("prev_hash".into(), Digest::ZERO.to_string().into());
        let hash = link(&map).expect("complete");
        map.insert("hash".into(), hash.to_string().into());
        assert_eq!(check(&[Value::Object(map)]), Ok(()));
    }
}
