//! The body of a request: whole, bounded, and there soon.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body;
use std::future::poll_fn;
use tokio::time::timeout;

use super::answer::{Fault, Refusal};

/// All of `body`, at most `max` bytes.
///
/// # Errors
/// It is larger, breaks off, or takes too long.
pub(super) async fn read<B>(body: B, max: usize) -> Result<Bytes, Refusal>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let declared = body.size_hint().lower();
    if usize::try_from(declared).map_or(true, |declared| declared > max) {
        return Err(too_large(max));
    }
    timeout(DEADLINE, collect(body, max)).await.unwrap_or_else(|_| {
        Err(Refusal::new(Fault::TooSlow, "body_slow", "the request body did not come in time"))
    })
}

async fn collect<B>(body: B, max: usize) -> Result<Bytes, Refusal>
where
    B: Body,
{
    let mut body = pin!(body);
    let mut collected = BytesMut::new();
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let frame =
            frame.map_err(|_| Refusal::new(Fault::Request, "body_cut", "the request body breaks off"))?;
        let Ok(mut data) = frame.into_data() else { continue };
        if collected.len() + data.remaining() > max {
            return Err(too_large(max));
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            collected.extend_from_slice(chunk);
            let len = chunk.len();
            data.advance(len);
        }
    }
    Ok(collected.freeze())
}

fn too_large(max: usize) -> Refusal {
    Refusal::new(Fault::TooLarge, "body_large", format!("the request body is larger than {max} bytes"))
}

/// A body is one packet, or a few: who takes longer holds a connection that another caller needs.
const DEADLINE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::task::{Context, Poll};

    use http_body::Frame;

    use super::*;

    /// Never ends.
    struct Stalled;

    impl Body for Stalled {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_end_is_given_up_after_two_seconds() {
        let within = async |limit_s| timeout(Duration::from_secs(limit_s), read(Stalled, 10)).await.ok();
        assert!(within(1).await.is_none());
        let refusal = within(3).await.expect("an end").expect_err("no body");
        assert_eq!(refusal.fault, Fault::TooSlow);
    }
}
