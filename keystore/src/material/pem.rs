//! Finds PEM blocks (RFC 7468), leniently around and strictly inside.
//!
//! A strict parser refuses what people have: indentation by YAML, newlines turned into spaces or written `\n`, text
//! between the blocks. Here blank space and the two escapes may stand anywhere in a body; the markers must be whole
//! and equal, and what is left of the body must be canonical base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::KeyError;

/// One block: its label and the raw text between its markers.
pub(super) struct Block<'a> {
    pub(super) label: &'a str,
    body: &'a [u8],
}

/// Whether there is a block to be looked for.
pub(super) fn is_pem(text: &[u8]) -> bool {
    find(text, BEGIN).is_some()
}

/// Whether somebody meant a block, but its marker is damaged.
pub(super) fn is_damaged_pem(text: &[u8]) -> bool {
    find(text, b"BEGIN ").is_some() && find(text, b" KEY").is_some()
}

/// All blocks, in order.
pub(super) fn blocks(mut text: &[u8]) -> Result<Vec<Block<'_>>, KeyError> {
    let mut found = Vec::new();
    while let Some(at) = find(text, BEGIN) {
        let (block, rest) = block(&text[at + BEGIN.len()..])?;
        found.push(block);
        text = rest;
    }
    Ok(found)
}

impl Block<'_> {
    /// The DER inside.
    pub(super) fn decode(&self) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        if self.body.contains(&b':') {
            // RFC 1421 headers, of which the traditional encryption of OpenSSL is the only use left.
            let encrypted = find(self.body, b"ENCRYPTED").is_some();
            return Err(if encrypted {
                KeyError::EncryptionUnsupported {
                    scheme: "the traditional one of OpenSSL (Proc-Type: 4,ENCRYPTED)".to_owned(),
                }
            } else {
                malformed("header lines inside a block")
            });
        }
        let text = self.base64()?;
        let der = STANDARD.decode(text.as_slice()).map(Zeroizing::new);
        match der {
            Ok(der) if der.first() == Some(&SEQUENCE) => Ok(der),
            // `\n` became `n`: valid base64, but of another text.
            _ if text.starts_with(b"nMI") => Err(malformed("the backslashes of its `\\n` were lost")),
            Ok(_) => Err(KeyError::MalformedDer { form: "the PEM block" }),
            Err(_) => Err(malformed("the text between its markers is no base64, or is cut off")),
        }
    }

    /// The body without blank space and newlines, the two escaped kinds included.
    fn base64(&self) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let mut text = Zeroizing::new(Vec::with_capacity(self.body.len()));
        let mut octets = self.body.iter().copied();
        while let Some(octet) = octets.next() {
            match octet {
                b'\\' => match octets.next() {
                    Some(b'n' | b'r') => {}
                    Some(b'\\') => return Err(malformed("its newlines are escaped twice (`\\\\n`)")),
                    _ => return Err(malformed("a stray backslash")),
                },
                octet if octet.is_ascii_whitespace() => {}
                octet => text.push(octet),
            }
        }
        Ok(text)
    }
}

/// Reads on after a BEGIN: the block and what follows it.
fn block(text: &[u8]) -> Result<(Block<'_>, &[u8]), KeyError> {
    let label_end = find(text, DASHES).filter(|end| *end <= MAX_LABEL_LEN);
    let label = label_end.and_then(|end| str::from_utf8(&text[..end]).ok());
    let Some(label) = label.filter(|label| label.chars().all(|c| c.is_ascii_alphanumeric() || c == ' '))
    else {
        return Err(malformed("a `-----BEGIN …-----` marker is not whole"));
    };
    let text = &text[label.len() + DASHES.len()..];
    let Some(body_end) = find(text, DASHES) else {
        return Err(malformed("cut off: a block begins and does not end"));
    };
    let (body, marker) = text.split_at(body_end);
    let Some(ended) = marker.strip_prefix(END) else {
        return Err(malformed("a block begins and its `-----END …-----` marker is missing or not whole"));
    };
    let rest = ended.strip_prefix(label.as_bytes()).and_then(|rest| rest.strip_prefix(DASHES));
    let rest = rest.ok_or(malformed("its BEGIN and END markers name different things"))?;
    Ok((Block { label, body }, rest))
}

fn malformed(fault: &'static str) -> KeyError {
    KeyError::MalformedPem { fault }
}

/// Where `needle` first stands in `text`.
fn find(text: &[u8], needle: &[u8]) -> Option<usize> {
    text.windows(needle.len()).position(|window| window == needle)
}

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const DASHES: &[u8] = b"-----";

/// Longer than any label in use.
const MAX_LABEL_LEN: usize = 64;

/// The first octet of every structure that a block holds.
pub(super) const SEQUENCE: u8 = 0x30;
