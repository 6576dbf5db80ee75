//! `application/x-www-form-urlencoded`, read strictly.
//!
//! A reader that guesses reads something else than the proxy in front of it did, and a guess about a credential is a
//! credential of somebody else. So what the URL Standard forgives is refused here: a percent sign without two digits,
//! bytes that are no UTF-8, a name that comes twice, a `;` that some take for a separator. Libraries for forms replace
//! or skip these, each in its own way, which is why the forty lines are ours.

use std::collections::HashSet;
use std::fmt;

/// The parameters of a request, in order, without those that have no value: RFC 6749 section 3.2 has them count as left
/// out. `Debug` shows none, since some are credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Form(Vec<(String, String)>);

/// Why a body is no form. Holds nothing of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormError {
    /// More parameters than any request needs.
    #[error("the form has more than {} parameters", Form::MAX_PARAMETERS)]
    TooMany,
    /// A `%` without two hexadecimal digits.
    #[error(
        "a percent sign in the form is not followed by two hexadecimal digits; a percent sign itself is %25"
    )]
    Percent,
    /// A byte that has to be encoded.
    #[error(
        "the form holds a character that must be percent-encoded, such as a space, a line break, a `;` or one beyond \
         ASCII; curl does that with --data-urlencode"
    )]
    Raw,
    /// Bytes that are no text.
    #[error("a parameter of the form is no UTF-8 once it is decoded")]
    NotUtf8,
    /// A character that no parameter has a use for.
    #[error("a parameter of the form holds a NUL character")]
    Nul,
    /// One of the parameters that this endpoint knows comes twice.
    #[error("the parameter {0} comes more than once")]
    Repeated(&'static str),
    /// Another one does.
    #[error("a parameter comes more than once, and only audience and resource may")]
    UnknownRepeated,
}

impl Form {
    /// The most parameters, counted before any is decoded.
    pub const MAX_PARAMETERS: usize = 32;

    /// Reads a body. Parameters that may repeat are `audience` and `resource` (RFC 8693 section 2.1), and no others
    /// (RFC 6749 section 3.2).
    ///
    /// # Errors
    /// A [`FormError`]: the first thing that is wrong.
    pub fn parse(body: &[u8]) -> Result<Self, FormError> {
        let separators = body.iter().filter(|byte| **byte == b'&').count();
        if separators >= Self::MAX_PARAMETERS {
            return Err(FormError::TooMany);
        }
        let mut parameters = Vec::with_capacity(separators + 1);
        for pair in body.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
            let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let name = decode(&pair[..at])?;
            let value = decode(pair.get(at + 1..).unwrap_or_default())?;
            if !value.is_empty() {
                parameters.push((name, value));
            }
        }
        let form = Self(parameters);
        form.check_repeats()?;
        Ok(form)
    }

    /// The value of a parameter that comes at most once.
    pub fn one(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The values of one that may repeat.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(of, _)| of == name).map(|(_, value)| value.as_str())
    }

    /// All names and values, in order.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    fn check_repeats(&self) -> Result<(), FormError> {
        let mut seen = HashSet::new();
        for (name, _) in self.parameters().filter(|(name, _)| !MAY_REPEAT.contains(name)) {
            if !seen.insert(name) {
                let known = KNOWN.into_iter().find(|known| *known == name);
                return Err(known.map_or(FormError::UnknownRepeated, FormError::Repeated));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Form({} parameters)", self.0.len())
    }
}

/// One name or value.
fn decode(part: &[u8]) -> Result<String, FormError> {
    let mut decoded = Vec::with_capacity(part.len());
    let mut bytes = part.iter().copied();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [bytes.next(), bytes.next()].map(|digit| digit.and_then(hexadecimal));
                let [Some(high), Some(low)] = digits else { return Err(FormError::Percent) };
                high << 4 | low
            }
            b';' => return Err(FormError::Raw),
            _ if byte.is_ascii_graphic() => byte,
            _ => return Err(FormError::Raw),
        });
    }
    if decoded.contains(&0) {
        return Err(FormError::Nul);
    }
    String::from_utf8(decoded).map_err(|_| FormError::NotUtf8)
}

fn hexadecimal(digit: u8) -> Option<u8> {
    // Below 16, which a byte holds.
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

const MAY_REPEAT: [&str; 2] = ["audience", "resource"];
/// Those that an error may name: any other name could be anything.
const KNOWN: [&str; 12] = [
    "grant_type",
    "subject_token",
    "subject_token_type",
    "actor_token",
    "actor_token_type",
    "requested_token_type",
    "assertion",
    "scope",
    "client_id",
    "client_secret",
    "client_assertion",
    "client_assertion_type",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(body: &str) -> Result<Vec<(String, String)>, FormError> {
        Form::parse(body.as_bytes()).map(|form| form.0)
    }

    fn pairs(expected: &[(&str, &str)]) -> Result<Vec<(String, String)>, FormError> {
        Ok(expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn names_and_values_are_decoded_and_empty_ones_are_left_out() {
        for (body, expected) in [
            ("", &[] as &[_]),
            ("&&", &[]),
            ("a=b", &[("a", "b")]),
            ("a=b&&c=d&", &[("a", "b"), ("c", "d")]),
            ("a&b=&=c", &[("", "c")]),
            ("a=x+y%2B%26%3d%3D=", &[("a", "x y+&===")]),
            ("%61=%E2%82%AC", &[("a", "€")]),
            ("a=&a=b", &[("a", "b")]),
            (
                "audience=a&audience=a&resource=r&resource=s",
                &[("audience", "a"), ("audience", "a"), ("resource", "r"), ("resource", "s")],
            ),
            ("a=https://x.example/?q=~'(*)!", &[("a", "https://x.example/?q=~'(*)!")]),
        ] {
            assert_eq!(parsed(body), pairs(expected), "{body}");
        }
    }

    #[test]
    fn what_lenient_readers_guess_about_is_refused() {
        for (body, error) in [
            ("a=%", FormError::Percent),
            ("a=%4", FormError::Percent),
            ("a=%zz", FormError::Percent),
            ("a=%+1", FormError::Percent),
            ("%=a", FormError::Percent),
            ("a=%ff", FormError::NotUtf8),
            ("a=%C0%80", FormError::NotUtf8),
            ("a=%ED%A0%80", FormError::NotUtf8),
            ("a=%00", FormError::Nul),
            ("%00", FormError::Nul),
            ("a=b;c=d", FormError::Raw),
            ("a=b c", FormError::Raw),
            ("a=b\n", FormError::Raw),
            ("a=ü", FormError::Raw),
            ("a=\u{7f}", FormError::Raw),
            ("scope=a&scope=b", FormError::Repeated("scope")),
            ("scope=a&sc%6fpe=a", FormError::Repeated("scope")),
            ("x=a&x=a", FormError::UnknownRepeated),
            ("audience[]=a&audience[]=b", FormError::UnknownRepeated),
        ] {
            assert_eq!(parsed(body), Err(error), "{body}");
        }
        assert_eq!(Form::parse(b"a=\xff").err(), Some(FormError::Raw));
    }

    #[test]
    fn parameters_are_counted_before_they_are_read() {
        let most = vec!["%"; Form::MAX_PARAMETERS].join("&");
        assert_eq!(parsed(&most), Err(FormError::Percent));
        assert_eq!(parsed(&format!("{most}&%")), Err(FormError::TooMany));
    }

    proptest! {
        #[test]
        fn what_another_encoder_writes_is_read_back(
            values in prop::collection::vec("[^\u{0}]{0,20}", 0..8),
        ) {
            let named = values.iter().enumerate().map(|(i, value)| (format!("p {i}&ü"), value.clone()));
            let named: Vec<_> = named.collect();
            let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(&named).finish();
            let kept: Vec<_> = named.into_iter().filter(|(_, value)| !value.is_empty()).collect();
            prop_assert_eq!(parsed(&body), Ok(kept));
        }

        #[test]
        fn nothing_makes_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            drop(Form::parse(&body));
        }
    }
}
