//! `GET /admin/v1/events`: the event log as server-sent events, from any replica.
//!
//! ```text
//! curl -N --unix-socket admin.sock http://localhost/admin/v1/events?after=41-9f86d081
//! : oneseal events                     the first bytes, at once, so that proxies and clients know that it has begun
//! retry: 3000
//! id: 41-9f86d081                      where the stream stands
//!
//! id: 42-60303ae2
//! data: {"seq":42,…}                   the line as it is exported
//! ```
//! A stream is a reader of the database and nothing else: no state of it is in this replica, so the next one goes on where
//! the last has ended. It ends when the replica drains, and after a quarter of an hour, so that tokens that have expired do
//! not listen for ever and connections spread again. While the database is down it stays open and says nothing.

mod frame;
mod seats;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, RawQuery, State as Shared};
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue};
use oneseal_coordination::events::{Cursor, From};
use percent_encoding::percent_decode_str;

use self::seats::{NoSeat, Seats};
use self::stream::Stream;
use super::Admin;
use crate::http::activity::InUse;
use crate::http::caller::Caller;
use crate::http::error::ApiError;

pub(crate) use self::seats::Seats as EventSeats;

pub(super) async fn events(
    Shared(admin): Shared<Arc<Admin>>,
    Extension(caller): Extension<Caller>,
    in_use: Option<Extension<InUse>>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let Some(follower) = admin.state.events.as_ref() else {
        return ApiError::no_event_log().into_response();
    };
    if admin.state.is_draining() {
        return ApiError::unavailable("this replica is ending; ask another one", AT_ONCE).into_response();
    }
    let from = match from(query.as_deref(), &headers) {
        Ok(from) => from,
        Err(error) => return error.into_response(),
    };
    let seat = match Seats::take(&admin.state.event_seats, &caller) {
        Ok(seat) => seat,
        Err(no_seat) => return refused(no_seat).into_response(),
    };
    let counted = admin.state.metrics.open_event_stream();
    let kept = (seat, counted, Arc::clone(&admin));
    let in_use = in_use.map(|Extension(in_use)| in_use);
    let stream = Stream::new(follower.subscribe(from), admin.state.ending(), in_use, kept);
    let mut response = Response::new(Body::from_stream(stream.into_frames()));
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Where the caller wants to go on. A client that comes back says so in the header, and its URL still has where it began.
fn from(query: Option<&str>, headers: &HeaderMap) -> Result<From, ApiError> {
    let after = after(query.unwrap_or_default())?;
    let mut fields = headers.get_all(LAST_EVENT_ID).iter();
    let last = match (fields.next(), fields.next()) {
        (None, _) => return Ok(after.map_or(From::Now, From::Cursor)),
        (Some(last), None) => last.to_str().ok().and_then(|text| text.parse().ok()),
        (Some(_), Some(_)) => return Err(ApiError::invalid("there is more than one Last-Event-ID header")),
    };
    last.map(From::Cursor).ok_or_else(|| {
        ApiError::invalid("Last-Event-ID is the id of an event that was received here, such as 41-9f86d081")
    })
}

fn after(query: &str) -> Result<Option<Cursor>, ApiError> {
    let mut after = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name != "after" || after.is_some() {
            return Err(ApiError::invalid("the only query here is after=ID, once"));
        }
        let value = percent_decode_str(value).decode_utf8().ok();
        let cursor = value.and_then(|value| value.parse().ok()).ok_or_else(|| {
            ApiError::invalid(
                "after is the id of an event, such as 41-9f86d081, or its number alone; 0 is before the first",
            )
        })?;
        after = Some(cursor);
    }
    Ok(after)
}

fn refused(no_seat: NoSeat) -> ApiError {
    match no_seat {
        NoSeat::Full => ApiError::unavailable(
            "all streams of events of this replica are in use; ask another one",
            SEATS_AGAIN,
        ),
        NoSeat::OfCaller { most } => ApiError::too_many(format!(
            "you have {most} streams of events open on this replica, which is as many as one caller may; close some"
        )),
    }
}

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_TYPE, "text/event-stream"),
    // What compresses would hold events back until its buffer is full.
    (CACHE_CONTROL, "no-cache, no-transform"),
    // nginx, and others that have learned it from there.
    (HeaderName::from_static("x-accel-buffering"), "no"),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
];
const AT_ONCE: Duration = Duration::from_secs(1);
const SEATS_AGAIN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(query: Option<&str>, fields: &[&[u8]]) -> Result<Option<String>, ApiError> {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(LAST_EVENT_ID, HeaderValue::from_bytes(field).expect("a value"));
        }
        from(query, &headers).map(|from| match from {
            From::Cursor(cursor) => Some(cursor.to_string()),
            _ => None,
        })
    }

    #[test]
    fn the_header_says_where_to_go_on_and_the_query_where_to_begin() {
        assert_eq!(judged(None, &[]), Ok(None));
        assert_eq!(judged(Some(""), &[]), Ok(None));
        assert_eq!(judged(Some("after=0"), &[]), Ok(Some("0".to_owned())));
        assert_eq!(judged(Some("after=41-9f86d081"), &[]), Ok(Some("41-9f86d081".to_owned())));
        assert_eq!(judged(Some("after=41%2D9f86d081"), &[]), Ok(Some("41-9f86d081".to_owned())));
        assert_eq!(judged(Some("after=0"), &[b"41-9f86d081"]), Ok(Some("41-9f86d081".to_owned())));
    }

    #[test]
    fn what_is_no_place_of_ours_is_refused() {
        for query in [
            "after=",
            "after",
            "after=x",
            "after=-1",
            "since=4",
            "after=1&after=1",
            "after=1;b",
            "After=1",
            "after=%ff",
        ] {
            assert!(judged(Some(query), &[]).is_err(), "{query}");
        }
        for fields in [&[&b""[..]][..], &[b"x"], &[b"1", b"1"], &[b"\xff"], &[b"41-9F86D081"], &[b"1,1"]] {
            assert!(judged(None, fields).is_err(), "{fields:?}");
        }
    }
}
