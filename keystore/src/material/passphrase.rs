//! The passphrase of an encrypted key.

use std::fmt;

use oneseal_providers::SecretBytes;

use super::KeyError;

/// What opens an encrypted key. Redacted in `Debug`, its length included; wiped when dropped.
pub struct Passphrase(SecretBytes);

impl Passphrase {
    /// Takes the content of a passphrase's file or variable and drops one line end at its end, LF or CRLF, as
    /// `openssl -passin file:` does and as editors and `echo` leave there. Every other octet counts, blank ones too.
    ///
    /// # Errors
    /// [`KeyError::PassphraseEmpty`] if nothing is left.
    pub fn read(value: &[u8]) -> Result<Self, KeyError> {
        let line = value.strip_suffix(b"\n").unwrap_or(value);
        let line = if line.len() < value.len() { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
        if line.is_empty() {
            return Err(KeyError::PassphraseEmpty);
        }
        Ok(Self(SecretBytes::new(line.to_vec())))
    }

    pub(super) fn expose(&self) -> &[u8] {
        self.0.expose()
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Passphrase(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_end_is_dropped_and_nothing_else() {
        for (value, kept) in [
            (&b"secret"[..], &b"secret"[..]),
            (b"secret\n", b"secret"),
            (b"secret\r\n", b"secret"),
            (b"secret\n\n", b"secret\n"),
            (b"secret\r", b"secret\r"),
            (b" secret ", b" secret "),
            (b"\xff\0", b"\xff\0"),
        ] {
            assert_eq!(Passphrase::read(value).expect("not empty").expose(), kept);
        }
        for value in [&b""[..], b"\n", b"\r\n"] {
            assert_eq!(Passphrase::read(value).err(), Some(KeyError::PassphraseEmpty));
        }
    }

    #[test]
    fn debug_tells_nothing() {
        let shown = format!("{:?}", Passphrase::read(b"canary").expect("not empty"));
        assert_eq!(shown, "Passphrase(***)");
    }
}
