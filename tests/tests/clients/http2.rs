//! HTTP/2 (RFC 9113) by hand: frames that a library would not send.

use std::time::Duration;

use oneseal_tests::state;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::connections::opened;
use crate::target::{CAPACITY, JWKS, PATIENCE, Target, room_for};

/// One in thirty-two.
const HTTP2_CAPACITY: u64 = CAPACITY as u64 / 32;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// SETTINGS_INITIAL_WINDOW_SIZE = 0.
const NO_WINDOW: &[u8] = &[0, 4, 0, 0, 0, 0];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [length[1], length[2], length[3], kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

/// `:method GET`, `:scheme http`, and path and authority as literals (RFC 7541 appendix A and section 6.2.2).
fn block() -> Vec<u8> {
    let mut block = vec![0x82, 0x86];
    for (index, value) in [(0x04, JWKS), (0x01, "x")] {
        block.extend([index, u8::try_from(value.len()).unwrap()]);
        block.extend(value.as_bytes());
    }
    block
}

fn request(stream: u32) -> Vec<u8> {
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block())
}

fn hello(settings: &[u8]) -> Vec<u8> {
    [PREFACE, &frame(SETTINGS, 0, 0, settings)].concat()
}

/// A header that is not in the index and does not go there, with a value of `len` bytes below 2^14.
fn literal(name: &str, len: usize) -> Vec<u8> {
    let mut out = vec![0x00, u8::try_from(name.len()).unwrap()];
    out.extend(name.as_bytes());
    // RFC 7541 section 5.1: seven bits, then groups of seven.
    let rest = len - 127;
    out.extend([127, (rest % 128) as u8 | 128, (rest / 128) as u8]);
    out.extend(vec![b'x'; len]);
    out
}

#[derive(Debug, PartialEq, Eq)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

async fn read_frame(stream: &mut (impl AsyncRead + Unpin)) -> Option<Frame> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
    let mut payload = vec![0; length];
    stream.read_exact(&mut payload).await.ok()?;
    let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Some(Frame { kind: head[3], flags: head[4], stream: id, payload })
}

/// Sends `frames` for as long as they are taken: until all are, the other side closes, or it reads no more.
/// Gives how many bytes that were.
async fn pour(stream: &mut TcpStream, frames: &[u8]) -> usize {
    let mut sent = 0;
    while sent < frames.len() {
        match timeout(Duration::from_secs(1), stream.write(&frames[sent..])).await {
            Ok(Ok(written)) => sent += written,
            Ok(Err(_)) | Err(_) => break,
        }
    }
    sent
}

/// The frames that come until the other side closes.
async fn rest_of(stream: &mut TcpStream) -> Vec<Frame> {
    let mut frames = Vec::new();
    let all = async {
        while let Some(frame) = read_frame(stream).await {
            frames.push(frame);
        }
    };
    timeout(PATIENCE, all).await.expect("the connection is closed in time");
    frames
}

/// The error code of a GOAWAY (RFC 9113 section 6.8).
fn goaway(frames: &[Frame]) -> Option<u32> {
    let last = frames.iter().rfind(|frame| frame.kind == GOAWAY)?;
    Some(u32::from_be_bytes(last.payload[4..8].try_into().unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_streams_at_a_time_are_served_and_more_are_refused() {
    let target = Target::plain().await;
    let mut stream = TcpStream::connect(target.documents).await.unwrap();
    stream.write_all(&hello(&[])).await.unwrap();
    for round in 0..3_u32 {
        let ids: Vec<u32> = (0..100).map(|n| (round * 100 + n) * 2 + 1).collect();
        stream.write_all(&ids.iter().flat_map(|id| request(*id)).collect::<Vec<_>>()).await.unwrap();
        let (mut bodies, mut ended) = (std::collections::BTreeMap::<u32, Vec<u8>>::new(), 0);
        while ended < ids.len() {
            let frame = timeout(PATIENCE, read_frame(&mut stream)).await.unwrap().unwrap();
            if frame.kind == DATA {
                bodies.entry(frame.stream).or_default().extend(&frame.payload);
                ended += usize::from(frame.flags & END_STREAM != 0);
                // Windows are the reader's to open (section 6.9).
                let more = u32::try_from(frame.payload.len()).unwrap().to_be_bytes();
                stream.write_all(&frame_of_window(0, more)).await.unwrap();
            }
        }
        assert!(bodies.len() == 100 && bodies.values().all(|body| *body == target.jwks));
    }
    target.assert_grew_below(8, "300 streams of one connection");
}

fn frame_of_window(stream: u32, more: [u8; 4]) -> Vec<u8> {
    frame(WINDOW_UPDATE, 0, stream, &more)
}

/// The slow reader of HTTP/2: streams that are asked for and whose window stays shut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_nobody_reads_are_few_and_so_are_connections_that_have_them() {
    let target = Target::plain().await;
    let (address, room) = (target.documents, room_for(600).await);
    let count = room.count;
    let stalled = target
        .beside(opened(count, move || async move {
            let mut stream = TcpStream::connect(address).await.ok()?;
            let mut bytes = hello(NO_WINDOW);
            // 20 more than there may be at a time.
            bytes.extend((0..120).flat_map(|n| request(n * 2 + 1)));
            stream.write_all(&bytes).await.ok()?;
            let (mut answered, mut refused) = (0, 0);
            while answered + refused < 120 {
                match read_frame(&mut stream).await? {
                    Frame { kind: HEADERS, .. } => answered += 1,
                    Frame { kind: RST_STREAM, payload, .. } => {
                        assert_eq!(payload, [0, 0, 0, 7], "REFUSED_STREAM");
                        refused += 1;
                    }
                    Frame { kind, .. } => assert_ne!(kind, DATA),
                }
            }
            assert_eq!((answered, refused), (100, 20));
            Some(stream)
        }))
        .await;
    // Those that had to make room have a moment to leave.
    target.has_at_most(HTTP2_CAPACITY + 1).await;
    target.assert_grew_below(120, &format!("{count} connections with 100 streams that nobody reads"));
    drop(stalled);
    target.has_at_most(0).await;
}

/// Each has tables and buffers before it asks for anything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_http_2_connections_make_room_for_each_other() {
    let target = Target::plain().await;
    let (address, room) = (target.documents, room_for(4_000).await);
    let count = room.count;
    let mut idle = target
        .beside(opened(count, move || async move {
            let mut stream = TcpStream::connect(address).await.ok()?;
            stream.write_all(&hello(&[])).await.ok()?;
            read_frame(&mut stream).await.is_some().then_some(stream)
        }))
        .await;
    target.has_at_most(HTTP2_CAPACITY + 1).await;
    target.assert_grew_below(60, &format!("{count} connections of HTTP/2"));
    let first = rest_of(&mut idle[0]).await;
    assert_eq!(goaway(&first), Some(0), "told in order, without an error: {first:?}");
}

/// Each floods one connection, without reading for as long as it sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_of_frames_are_cut_off_or_read_at_their_pace() {
    let target = Target::plain().await;
    let repeated = |frame: Vec<u8>| frame.repeat(4_000_000 / frame.len());
    let open_head = |rest: Vec<u8>| [frame(HEADERS, END_STREAM, 1, &block()), rest].concat();
    let resets = (0..50_000_u32)
        .flat_map(|n| [request(n * 2 + 1), frame(RST_STREAM, 0, n * 2 + 1, &[0, 0, 0, 8])].concat())
        .collect();
    // RFC 7541: a value of 4 KB is put into the table once, and then named by one byte each time.
    let mut bomb = block();
    let mut entry = literal("a", 4000);
    entry[0] = 0x40;
    bomb.extend(entry);
    bomb.extend(vec![0xbe; 10_000]);
    let floods: Vec<(&str, Vec<u8>)> = vec![
        ("SETTINGS", repeated(frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]))),
        ("PING", repeated(frame(PING, 0, 0, &[0; 8]))),
        ("PRIORITY", repeated(frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 1]))),
        ("requests that are reset at once", resets),
        ("CONTINUATION", open_head(repeated(frame(CONTINUATION, 0, 1, &[])))),
        (
            "CONTINUATION with a header each",
            open_head(repeated(frame(CONTINUATION, 0, 1, &literal("a", 200)))),
        ),
        (
            "a header list of 1 MB",
            open_head(
                (0..64)
                    .flat_map(|n| {
                        frame(CONTINUATION, if n == 63 { END_HEADERS } else { 0 }, 1, &literal("a", 16_000))
                    })
                    .collect(),
            ),
        ),
        ("one byte that stands for 4 KB", frame(HEADERS, END_STREAM | END_HEADERS, 1, &bomb)),
        ("empty DATA", [frame(HEADERS, END_HEADERS, 1, &block()), repeated(frame(DATA, 0, 1, &[]))].concat()),
        (
            "DATA that nobody wants",
            [frame(HEADERS, END_HEADERS, 1, &block()), repeated(frame(DATA, 0, 1, &[0; 16_000]))].concat(),
        ),
        ("frames of an unknown kind", repeated(frame(0xbb, 0, 0, &[0; 1000]))),
    ];
    for (name, bytes) in floods {
        let mut stream = TcpStream::connect(target.documents).await.unwrap();
        let hello = hello(&[]);
        stream.write_all(&hello).await.unwrap();
        target.beside(pour(&mut stream, &bytes)).await;
        drop(stream);
        state::until(name, async || (target.connections().await == 0).then_some(())).await;
        target.assert_grew_below(16, name);
    }
}

/// RFC 9113 section 5.4.1: one fault of the connection ends it, and the other side hears why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_a_connection_end_it_with_their_reason() {
    let target = Target::plain().await;
    const PROTOCOL_ERROR: u32 = 1;
    const FLOW_CONTROL_ERROR: u32 = 3;
    const FRAME_SIZE_ERROR: u32 = 6;
    const COMPRESSION_ERROR: u32 = 9;
    for (name, bytes, codes) in [
        ("DATA on no stream", frame(DATA, 0, 0, b"x"), &[PROTOCOL_ERROR][..]),
        ("a request on an even stream", request(2), &[PROTOCOL_ERROR]),
        ("a stream below the last", [request(5), request(3)].concat(), &[PROTOCOL_ERROR]),
        ("a frame above the limit", frame(DATA, 0, 1, &[0; 20_000]), &[FRAME_SIZE_ERROR]),
        ("SETTINGS of five bytes", frame(SETTINGS, 0, 0, &[0; 5]), &[FRAME_SIZE_ERROR, PROTOCOL_ERROR]),
        (
            "a window above 2^31",
            frame_of_window(0, [0x7f, 0xff, 0xff, 0xff]).repeat(2),
            &[FLOW_CONTROL_ERROR],
        ),
        ("a window of zero", frame_of_window(0, [0; 4]), &[PROTOCOL_ERROR]),
        ("CONTINUATION of nothing", frame(CONTINUATION, END_HEADERS, 1, &block()), &[PROTOCOL_ERROR]),
        (
            "an index that is not there",
            frame(HEADERS, END_STREAM | END_HEADERS, 1, &[0xff, 0xff, 0xff, 0x0f]),
            &[COMPRESSION_ERROR, PROTOCOL_ERROR],
        ),
    ] {
        let mut stream = TcpStream::connect(target.documents).await.unwrap();
        stream.write_all(&[hello(&[]), bytes].concat()).await.unwrap();
        let frames = target.beside(rest_of(&mut stream)).await;
        assert!(goaway(&frames).is_some_and(|code| codes.contains(&code)), "{name}: {frames:?}");
    }
    target.assert_grew_below(8, "faulty connections");
}
