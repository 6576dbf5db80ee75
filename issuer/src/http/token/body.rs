//! The body of a request: whole, bounded, and there soon.

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http_body::Body;
use std::future::poll_fn;
use tokio::time::timeout;

use super::answer::{Fault, Refusal};

/// All of `body`, at most `max` bytes. Of one that is larger, a little more is read and thrown away: a client that is still
/// writing when the answer comes may take it for a broken stream (curl before 8 does over HTTP/2).
///
/// # Errors
/// It is larger, breaks off, or takes too long.
pub(super) async fn read<B>(body: B, max: usize) -> Result<Bytes, Refusal>
where
    B: Body,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let declared = body.size_hint().lower();
    if usize::try_from(declared).map_or(true, |declared| declared > max.saturating_add(MAX_DRAINED)) {
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
    let mut read = 0_usize;
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(_) if read > max => break,
            Err(_) => return Err(Refusal::new(Fault::Request, "body_cut", "the request body breaks off")),
        };
        let Ok(mut data) = frame.into_data() else { continue };
        read = read.saturating_add(data.remaining());
        if read > max.saturating_add(MAX_DRAINED) {
            break;
        }
        if read > max {
            continue;
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            collected.extend_from_slice(chunk);
            let len = chunk.len();
            data.advance(len);
        }
    }
    if read > max { Err(too_large(max)) } else { Ok(collected.freeze()) }
}

fn too_large(max: usize) -> Refusal {
    Refusal::new(Fault::TooLarge, "body_large", format!("the request body is larger than {max} bytes"))
}

/// A body is one packet, or a few: who takes longer holds a connection that another caller needs.
const DEADLINE: Duration = Duration::from_secs(2);
/// Of what is too large: more than a mistaken client sends, and nothing that would pay for a hostile one.
const MAX_DRAINED: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
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

    /// Frames of 1 KiB, and how many of them were read.
    struct Frames(usize, Arc<AtomicUsize>);

    impl Body for Frames {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let Some(left) = self.0.checked_sub(1) else { return Poll::Ready(None) };
            self.0 = left;
            self.1.fetch_add(1, Ordering::Relaxed);
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(&[0; 1024])))))
        }
    }

    #[tokio::test]
    async fn of_a_body_that_is_too_large_a_little_is_read_and_never_much() {
        let drained = MAX_DRAINED / 1024;
        for (frames, read_of_it) in [(1, 1), (3, 3), (drained, drained), (10 * drained, drained + 3)] {
            let count = Arc::new(AtomicUsize::new(0));
            let refusal = read(Frames(frames, Arc::clone(&count)), 2048).await.map(|body| body.len());
            assert_eq!(refusal.is_ok(), frames <= 2, "{frames}");
            if let Err(refusal) = refusal {
                assert_eq!(refusal.fault, Fault::TooLarge);
            }
            assert_eq!(count.load(Ordering::Relaxed), read_of_it, "{frames}");
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
