//! The body of a request to the admin API: JSON, small, and there soon.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use bytes::Bytes;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio::time::timeout;

use crate::http::error::ApiError;

/// The whole body of `request`.
pub(super) async fn json(request: Request) -> Result<Bytes, ApiError> {
    if !is_json(request.headers()) {
        return Err(ApiError::not_json());
    }
    in_time(request.into_body()).await
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = value.and_then(|value| value.split(';').next());
    media_type.is_some_and(|media_type| media_type.trim().eq_ignore_ascii_case("application/json"))
}

async fn in_time(body: Body) -> Result<Bytes, ApiError> {
    timeout(BODY_DEADLINE, read(body)).await.unwrap_or_else(|_| Err(ApiError::too_slow()))
}

async fn read(body: Body) -> Result<Bytes, ApiError> {
    match Limited::new(body, MAX_BODY).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(MAX_BODY)),
        Err(_) => Err(ApiError::invalid("the request body breaks off")),
    }
}

/// Claims are at most 4 KiB, a key set of ten keys is less; the rest is room for escapes.
const MAX_BODY: usize = 64 * 1024;
/// A body is one packet, or a few: who takes longer holds a connection that another caller needs.
const BODY_DEADLINE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_end_holds_its_connection_for_two_seconds() {
        let within = async |limit_s| {
            let body = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
            timeout(Duration::from_secs(limit_s), in_time(body)).await.ok()
        };
        assert_eq!(within(1).await, None);
        assert_eq!(within(3).await, Some(Err(ApiError::too_slow())));
    }

    #[test]
    fn the_media_type_is_compared_without_its_parameters() {
        for (value, expected) in [
            ("application/json", true),
            ("Application/JSON; charset=utf-8", true),
            ("application/x-www-form-urlencoded", false),
            ("application/jsonp", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, value.parse().expect("a header value"));
            assert_eq!(is_json(&headers), expected, "{value}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
