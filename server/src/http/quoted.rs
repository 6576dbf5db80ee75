//! What a log may have of a caller's own words: never a token, and never much.
//!
//! Callers put their token into the path, the method, a request id or an audience by mistake, and strangers send 16 KiB
//! of whatever they like. Each place that writes such words down takes them from here.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use crate::admin_token;

/// `text`, cut after `most` characters; a fixed word where an admin token stands in it, whole or cut.
pub(crate) fn quoted(text: &str, most: usize) -> Cow<'_, str> {
    if holds_token(text) {
        return Cow::Borrowed(NOT_REPEATED);
    }
    match text.char_indices().nth(most) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Whether an admin token stands in `text`, also behind percent-encoding.
pub(crate) fn holds_token(text: &str) -> bool {
    let decoded = || percent_decode_str(text).decode_utf8_lossy();
    admin_token::is_in(text) || (text.contains('%') && admin_token::is_in(&decoded()))
}

/// Characters of a method: all that are registered have fewer.
pub(crate) const MAX_METHOD: usize = 32;
/// Characters of a path: all of ours have fewer.
pub(crate) const MAX_PATH: usize = 256;
const NOT_REPEATED: &str = "(an admin token, not repeated)";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin_token::Token;

    #[test]
    fn long_words_are_cut_between_characters() {
        assert_eq!(quoted("", 3), "");
        assert_eq!(quoted("äöü", 3), "äöü");
        assert_eq!(quoted("äöüß", 3), "äöü…");
        assert_eq!(quoted(&"\"".repeat(16_000), MAX_PATH).chars().count(), MAX_PATH + 1);
    }

    #[test]
    fn a_token_is_not_repeated_wherever_it_stands_and_however_it_is_written() {
        let token = Token::generate().expect("random bytes");
        let token = token.expose();
        let far = format!("/{}/{token}", "x".repeat(1000));
        let encoded = token.replace('_', "%5f");
        for text in
            [token, &token[..50], &far, &format!("/a/{token}?x"), &encoded, &token.replace('o', "%6F")]
        {
            assert_eq!(quoted(text, MAX_PATH), NOT_REPEATED, "{text}");
        }
        assert_eq!(quoted("/admin/v1/oneseal_admin_token", MAX_PATH), "/admin/v1/oneseal_admin_token");
    }
}
