//! `oneseal keys export`: the public keys, for a relying party that cannot fetch them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use oneseal_keystore::Snapshot;
use oneseal_keystore::snapshot::PublishedKey;

use super::{Globals, Place};
use crate::exit::{Exit, Failure};
use crate::output;

/// Which keys, and in which form. Public halves only: there is no option for private ones.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
    /// How they are written
    #[arg(long, value_enum, default_value_t = Format::Jwks)]
    format: Format,
    /// This key alone; with pem and spki [default: all, in the order of the JWKS]
    #[arg(long, value_name = "KID")]
    kid: Option<String>,
    #[arg(long, hide = true)]
    private: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The JWKS, byte for byte as every replica serves it
    Jwks,
    /// A PUBLIC KEY block for each (RFC 7468 section 13)
    Pem,
    /// A line for each: kid, space, base64 of the SubjectPublicKeyInfo DER (RFC 5280 section 4.1)
    Spki,
}

pub(super) async fn run(args: Args, globals: &Globals) -> Result<Exit, Failure> {
    let Args { place, format, kid, private } = args;
    if private {
        let message = "private halves are not exported: nothing but the replicas needs them. To give the ring another \
                       place, copy it with the means of that place (a file, a Secret)";
        return Err(Failure::usage(message));
    }
    if format == Format::Jwks && kid.is_some() {
        return Err(Failure::usage(
            "--kid goes with --format pem or spki: a JWKS is whole or it is another one",
        ));
    }
    let opened = super::open(place, globals).await?;
    output::print(&exported(&opened.snapshot, format, kid.as_deref())?)?;
    Ok(Exit::Done)
}

fn exported(snapshot: &Snapshot, format: Format, kid: Option<&str>) -> Result<String, Failure> {
    let write: fn(&PublishedKey) -> String = match format {
        // No line end after it either: its digest is to be the one of the served body.
        Format::Jwks => return Ok(String::from_utf8_lossy(snapshot.jwks()).into_owned()),
        Format::Pem => |key| pem(&key.spki),
        Format::Spki => |key| format!("{} {}\n", key.kid, STANDARD.encode(&key.spki)),
    };
    let keys = snapshot.keys().iter().filter(|key| kid.is_none_or(|kid| key.kid.as_str() == kid));
    let text: String = keys.map(write).collect();
    if text.is_empty() {
        return Err(Failure::usage("the ring has no key of that --kid: `oneseal keys list` shows them"));
    }
    Ok(text)
}

/// RFC 7468: base64 in lines of 64 characters.
fn pem(spki: &[u8]) -> String {
    let base64 = STANDARD.encode(spki);
    let mut text = "-----BEGIN PUBLIC KEY-----\n".to_owned();
    for at in (0..base64.len()).step_by(PEM_LINE) {
        text.push_str(&base64[at..base64.len().min(at + PEM_LINE)]);
        text.push('\n');
    }
    text.push_str("-----END PUBLIC KEY-----\n");
    text
}

const PEM_LINE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pem_lines_are_64_characters_long_and_nothing_is_lost() {
        for length in [1, 47, 48, 49, 96, 294] {
            let der = vec![0x30; length];
            let text = pem(&der);
            let lines: Vec<_> = text.lines().collect();
            let body = &lines[1..lines.len() - 1];
            assert!(body.iter().rev().skip(1).all(|line| line.len() == 64), "{text}");
            assert_eq!(STANDARD.decode(body.concat()).expect("base64"), der);
        }
    }
}
