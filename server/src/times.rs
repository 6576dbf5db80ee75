//! Times as people write and read them: RFC 3339 in UTC, or Unix seconds.

use std::time::UNIX_EPOCH;

use oneseal::UnixTime;

/// `2026-11-29T18:00:00Z`.
pub(crate) fn rfc3339(time: UnixTime) -> String {
    time.to_string()
}

/// Reads Unix seconds or RFC 3339 in UTC.
///
/// # Errors
/// What else to write.
pub(crate) fn parse(text: &str) -> Result<UnixTime, String> {
    if let Ok(seconds) = text.parse::<i64>() {
        return Ok(UnixTime(seconds));
    }
    let read = humantime::parse_rfc3339(text).ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let seconds = read.and_then(|since| i64::try_from(since.as_secs()).ok());
    seconds
        .map(UnixTime)
        .ok_or_else(|| "write Unix seconds, such as 1767225600, or UTC as 2026-01-01T00:00:00Z".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_back() {
        for seconds in [0, 1, 1_767_225_600, 253_402_300_799] {
            assert_eq!(parse(&rfc3339(UnixTime(seconds))), Ok(UnixTime(seconds)));
        }
    }

    #[test]
    fn what_is_no_time_is_refused_with_both_forms() {
        for text in ["", "now", "2026-01-01", "2026-01-01T00:00:00+01:00", "1e9", "99999999999999999999"] {
            assert!(parse(text).is_err_and(|said| said.contains("Unix seconds")), "{text}");
        }
        assert_eq!(parse("-5"), Ok(UnixTime(-5)));
    }
}
