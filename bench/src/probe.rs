//! One request, to see that contenders answer alike before they are put under load.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde::{Deserialize, Serialize};

/// An answer, whole.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Names in lower case, and values.
    pub headers: Vec<(String, String)>,
    /// A document of ours is text.
    pub body: String,
}

impl Answer {
    /// A header's value, or nothing.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    /// Without what every server says of itself and of the moment.
    pub fn headers_of_the_document(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = |name: &str| ["date", "server", "connection", "content-length"].contains(&name);
        self.headers.iter().filter(move |(name, _)| !own(name)).map(|(name, value)| (&**name, &**value))
    }
}

/// GETs `path` with one more header (or none: an empty name), on a connection of its own.
///
/// # Panics
/// If there is no answer.
pub fn get(address: SocketAddr, path: &str, header: (&str, &str)) -> Answer {
    let more = if header.0.is_empty() { String::new() } else { format!("{}: {}\r\n", header.0, header.1) };
    request(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{more}Connection: close\r\n\r\n"))
}

/// POSTs `body` to `path`.
///
/// # Panics
/// If there is no answer.
pub fn post(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    request(
        address,
        &format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\n{headers}Content-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        ),
    )
}

fn request(address: SocketAddr, text: &str) -> Answer {
    let mut stream = TcpStream::connect(address).unwrap_or_else(|error| panic!("{address}: {error}"));
    stream.write_all(text.as_bytes()).expect("a request can be sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer, as text");
    parse(&answer).unwrap_or_else(|| panic!("{address}: no answer: {answer:?}"))
}

fn parse(text: &str) -> Option<Answer> {
    let (head, body) = text.split_once("\r\n\r\n")?;
    let (status, headers) = head.split_once("\r\n")?;
    let headers: Option<Vec<_>> = headers
        .split("\r\n")
        .map(|line| {
            line.split_once(':').map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        })
        .collect();
    Some(Answer { status: status.split(' ').nth(1)?.parse().ok()?, headers: headers?, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_taken_apart() {
        let answer =
            parse("HTTP/1.1 200 OK\r\nETag: \"a:b\"\r\nDate: x\r\n\r\n{\"keys\":[]}").expect("an answer");
        assert_eq!((answer.status, answer.header("etag"), &*answer.body), (200, "\"a:b\"", "{\"keys\":[]}"));
        assert_eq!(answer.headers_of_the_document().collect::<Vec<_>>(), [("etag", "\"a:b\"")]);
    }
}
