//! `admin.tokens`: who may call the admin API over TCP, by the hash of a token.
//!
//! ```toml
//! [[admin.tokens]]
//! name = "ci"
//! scopes = ["mint"]
//! sha256 = "…"              # 64 hexadecimal digits, or 43 letters of base64url
//! expires = 2027-01-31      # from then on it is refused; may be left out
//! ```
//! Nothing of a table is repeated that may be a token in clear, however it got there.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use oneseal::UnixTime;
use oneseal_keystore::Digest;
use oneseal_keystore::findings::Code;
use serde_json::{Value as Json, json};
use toml::de::{DeArray, DeTable, DeValue};

use super::codes;
use super::hint;
use super::value::Fault;
use crate::admin_token::{self, Scope, Scopes};
use crate::times;

/// One caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdminToken {
    /// What logs call it.
    pub(crate) name: String,
    /// What it may do; at least one.
    pub(crate) scopes: Scopes,
    /// SHA-256 of the token.
    pub(crate) digest: Digest,
    /// The first second in which it is refused.
    pub(crate) expires: Option<UnixTime>,
}

impl AdminToken {
    /// As it stands in the file.
    pub(crate) fn json(&self) -> Json {
        let scopes: Vec<_> = self.scopes.iter().map(Scope::as_str).collect();
        let mut table = json!({ "name": self.name, "scopes": scopes, "sha256": self.digest.to_string() });
        if let Some(expires) = self.expires {
            table["expires"] = times::rfc3339(expires).into();
        }
        table
    }

    /// Whether it is refused at `now`.
    pub(crate) fn has_expired(&self, now: UnixTime) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }
}

/// Reads the list.
///
/// # Errors
/// [`Fault`] with all that is wrong with it.
pub(super) fn from_toml(items: &DeArray<'_>) -> Result<Vec<AdminToken>, Fault> {
    if items.iter().any(|item| holds_token(item.get_ref())) {
        return Err(in_clear());
    }
    let mut faults = Vec::new();
    let mut at = None;
    if items.len() > MAX_TOKENS {
        faults.push((&codes::BAD_VALUE, format!("there are {}, and may be {MAX_TOKENS}", items.len())));
    }
    let mut tokens: Vec<AdminToken> = Vec::new();
    for (number, item) in items.iter().take(MAX_TOKENS).enumerate() {
        let read = match item.get_ref() {
            DeValue::Table(table) => token(table),
            other => Err(format!("it is of type {}, but must be a table", other.type_str())),
        };
        match read.map_err(|fault| (&codes::BAD_VALUE, fault)).and_then(|token| unlike(token, &tokens)) {
            Ok(token) => tokens.push(token),
            Err((code, fault)) => {
                faults.push((code, format!("{}: {fault}", which(number, item.get_ref()))));
                at = at.or(Some(item.span().start));
            }
        }
    }
    if faults.is_empty() { Ok(tokens) } else { Err(all_of(&faults, at)) }
}

/// All faults as one, with the cure for names if nothing else is wrong.
fn all_of(faults: &[(&'static Code, String)], at: Option<usize>) -> Fault {
    let mut codes = faults.iter().map(|(code, _)| *code);
    let code = codes.find(|code| **code != codes::ADMIN_TOKEN_NAME_TAKEN);
    let messages: Vec<_> = faults.iter().map(|(_, message)| message.as_str()).collect();
    Fault { code: code.unwrap_or(&codes::ADMIN_TOKEN_NAME_TAKEN), message: messages.join("; "), at }
}

/// A token in clear where its hash belongs.
pub(super) fn in_clear() -> Fault {
    let message = "a token itself stands here, which is not repeated; whoever reads this has it";
    Fault { code: &codes::ADMIN_TOKEN_IN_CLEAR, message: message.to_owned(), at: None }
}

/// A name that logs can have as it is.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let is_name = (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.@".contains(&byte));
    if is_name {
        return Ok(());
    }
    Err(format!("a name is 1 to {MAX_NAME} letters, digits and - _ . @"))
}

/// The scope that `name` means.
///
/// # Errors
/// What to write instead.
pub(crate) fn scope(name: &str) -> Result<Scope, String> {
    Scope::find(name).ok_or_else(|| {
        let known = Scope::ALL.map(Scope::as_str);
        let near =
            hint::nearest(name, known).map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
        format!("{} is no scope, but one of {}{near}", hint::shown(name), known.join(", "))
    })
}

/// A day, which begins in UTC, or a moment.
///
/// # Errors
/// What to write instead.
pub(crate) fn moment(text: &str) -> Result<UnixTime, String> {
    let wanted = || "write a day as 2027-01-31 or a moment in UTC as 2027-01-31T12:00:00Z".to_owned();
    if text.parse::<i64>().is_ok() {
        // Seconds, days, a year? Whoever wrote it meant one of them.
        return Err(format!("a number alone does not say of what; {}", wanted()));
    }
    let is_day = text.len() == DAY_LEN;
    let read = if is_day { times::parse(&format!("{text}T00:00:00Z")) } else { times::parse(text) };
    read.map_err(|_| wanted())
}

fn token(table: &DeTable<'_>) -> Result<AdminToken, String> {
    if let Some(unknown) = table.keys().find(|name| !KNOWN.contains(&name.get_ref().as_ref())) {
        let name = unknown.get_ref();
        let near =
            hint::nearest(name, KNOWN).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        return Err(format!("there is no key `{}`{near}", hint::shown_name(name)));
    }
    let name = text(table, "name")?;
    check_name(&name)?;
    let digest = digest(&text(table, "sha256")?)?;
    Ok(AdminToken { name, scopes: scopes(table)?, digest, expires: expires(table)? })
}

fn text(table: &DeTable<'_>, key: &str) -> Result<String, String> {
    match table.get(key).map(|value| value.get_ref()) {
        Some(DeValue::String(text)) => Ok(text.to_string()),
        Some(_) => Err(format!("{key} must be a string")),
        None => Err(format!("{key} is missing")),
    }
}

fn scopes(table: &DeTable<'_>) -> Result<Scopes, String> {
    let wanted = || "scopes must be a list such as [\"read\", \"mint\"]".to_owned();
    let Some(value) = table.get("scopes") else { return Err("scopes is missing".to_owned()) };
    let DeValue::Array(items) = value.get_ref() else { return Err(wanted()) };
    let mut scopes = Scopes::default();
    for item in items {
        let name = item.get_ref().as_str().ok_or_else(wanted)?;
        if !scopes.add(scope(name)?) {
            return Err(format!("the scope {name} stands there twice"));
        }
    }
    if scopes == Scopes::default() {
        Err("scopes is empty: it could do nothing".to_owned())
    } else {
        Ok(scopes)
    }
}

fn expires(table: &DeTable<'_>) -> Result<Option<UnixTime>, String> {
    let text = match table.get("expires").map(|value| value.get_ref()) {
        None => return Ok(None),
        Some(DeValue::String(text)) => text.to_string(),
        Some(DeValue::Datetime(time)) => time.to_string(),
        Some(_) => return Err("expires must be a date".to_owned()),
    };
    moment(&text).map(Some).map_err(|wanted| format!("expires is no date: {wanted}"))
}

fn digest(text: &str) -> Result<Digest, String> {
    let hex = Digest::from_hex(&text.to_ascii_lowercase());
    let read = hex.or_else(|| {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()?;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Digest::from_hex(&hex)
    });
    read.ok_or_else(|| {
        "sha256 is not the SHA-256 of a token in hexadecimal (64 digits) or base64url (43 letters)".to_owned()
    })
}

fn unlike(token: AdminToken, others: &[AdminToken]) -> Result<AdminToken, (&'static Code, String)> {
    if others.iter().any(|other| other.name == token.name) {
        let fault = "another token has this name already; its successor needs one of its own, such as";
        return Err((
            &codes::ADMIN_TOKEN_NAME_TAKEN,
            format!("{fault} \"{}\"", successor(&token.name, others)),
        ));
    }
    match others.iter().find(|other| other.digest == token.digest) {
        Some(other) => Err((&codes::BAD_VALUE, format!("its sha256 is that of \"{}\" too", other.name))),
        None => Ok(token),
    }
}

/// `ci-2` after `ci`, and `ci-3` where that is taken.
fn successor(name: &str, others: &[AdminToken]) -> String {
    let number = (2..).find(|number| others.iter().all(|other| other.name != format!("{name}-{number}")));
    format!("{name}-{}", number.unwrap_or(2))
}

/// A token by its name, if that can be shown, and by its number, from 1.
fn which(number: usize, item: &DeValue<'_>) -> String {
    let name = item.as_table().and_then(|table| table.get("name")).and_then(|name| name.get_ref().as_str());
    match name.filter(|name| check_name(name).is_ok()) {
        Some(name) => format!("token {} (\"{name}\")", number + 1),
        None => format!("token {}", number + 1),
    }
}

fn holds_token(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::String(text) => admin_token::is_in(text),
        DeValue::Array(items) => items.iter().any(|item| holds_token(item.get_ref())),
        DeValue::Table(table) => table
            .iter()
            .any(|(name, value)| admin_token::is_in(name.get_ref()) || holds_token(value.get_ref())),
        _ => false,
    }
}

/// Each costs every request a comparison of 32 bytes.
pub(crate) const MAX_TOKENS: usize = 64;
/// The longest name of a token.
pub(crate) const MAX_NAME: usize = 64;
const KNOWN: [&str; 4] = ["name", "scopes", "sha256", "expires"];
/// `2027-01-31`.
const DAY_LEN: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin_token::Token;

    const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    fn read(list: &str) -> Result<Vec<AdminToken>, Fault> {
        match DeValue::parse(list).expect("TOML").get_ref() {
            DeValue::Array(items) => from_toml(items),
            _ => panic!("no list"),
        }
    }

    fn one(more: &str) -> Result<AdminToken, String> {
        let read = read(&format!("[{{ name = \"ci\", scopes = [\"mint\"], sha256 = \"{HASH}\"{more} }}]"));
        read.map(|mut tokens| tokens.remove(0)).map_err(|fault| fault.message)
    }

    #[test]
    fn a_token_is_read_in_every_form() {
        let token = one("").expect("good");
        assert_eq!((token.name.as_str(), token.expires), ("ci", None));
        assert_eq!(token.scopes.iter().collect::<Vec<_>>(), [Scope::Mint]);
        let text = URL_SAFE_NO_PAD.encode(token.digest.as_bytes());
        for form in [HASH.to_uppercase(), text.clone(), format!("{text}=")] {
            let tokens =
                read(&format!("[{{name='x', scopes=['read','keys'], sha256='{form}'}}]")).expect("good");
            assert_eq!(tokens[0].digest, token.digest);
        }
        for (form, seconds) in [
            ("2027-01-31", 1_801_353_600),
            ("'2027-01-31'", 1_801_353_600),
            ("2027-01-31T00:00:01Z", 1_801_353_601),
            ("2027-01-31 00:00:01Z", 1_801_353_601),
            ("'2027-01-31T00:00:01Z'", 1_801_353_601),
        ] {
            let token = one(&format!(", expires = {form}")).expect(form);
            assert_eq!(token.expires, Some(UnixTime(seconds)), "{form}");
            assert!(token.has_expired(UnixTime(seconds)) && !token.has_expired(UnixTime(seconds - 1)));
        }
    }

    #[test]
    fn each_mistake_is_named_and_all_at_once() {
        for (more, words) in [
            (", expires = 5", "expires must be a date"),
            (", expires = 2027-01-31T10:00:00", "no date: write a day"),
            (", expires = '31.1.2027'", "no date: write a day"),
            (", expires = '1801353600'", "no date: a number alone does not say of what; write a day"),
            (", expires = 10:00:00", "no date: write a day"),
            (", scope = 'read'", "did you mean `scopes`?"),
            (", x = 1", "there is no key `x`"),
        ] {
            let fault = one(more).expect_err(more);
            assert!(fault.starts_with("token 1 (\"ci\"): ") && fault.contains(words), "{more}: {fault}");
        }
        for (list, words) in [
            ("[1]", "token 1: it is of type integer"),
            ("[{}]", "name is missing"),
            ("[{name='a b', sha256='', scopes=[]}]", "token 1: a name is 1 to 64"),
            ("[{name='a', scopes=['mint'], sha256='abc'}]", "sha256 is not the SHA-256"),
            ("[{name='a', scopes=['mint'], sha256=1}]", "sha256 must be a string"),
        ] {
            let fault = read(list).expect_err(list);
            assert!(
                fault.message.contains(words) && fault.code.name == "config.bad_value",
                "{list}: {}",
                fault.message
            );
        }
        let of = |name: &str, scopes: &str, hash: &str| {
            format!("{{name='{name}', scopes={scopes}, sha256='{hash}'}}")
        };
        let other = HASH.replace('9', "8");
        for (one, two, words) in [
            (of("a", "['mint']", HASH), of("b", "['mint']", HASH), "its sha256 is that of \"a\" too"),
            (of("a", "['mnt']", HASH), of("b", "[]", &other), "did you mean \"mint\"?"),
            (of("a", "['mnt']", HASH), of("b", "[]", &other), "token 2 (\"b\"): scopes is empty"),
            (
                of("a", "['read','read']", HASH),
                of("b", "'read'", &other),
                "twice; token 2 (\"b\"): scopes must be a list",
            ),
        ] {
            let fault = read(&format!("[{one}, {two}]")).expect_err(words);
            assert!(fault.message.contains(words), "{}", fault.message);
        }
        let twice = format!("[{},\n {}]", of("a", "['mint']", HASH), of("a", "['mnt']", &other));
        assert_eq!(read(&twice).expect_err("two faults").code.name, "config.bad_value");
        let many: Vec<_> =
            (0..=MAX_TOKENS).map(|n| of(&format!("n{n}"), "['read']", &format!("{n:064x}"))).collect();
        assert!(read(&format!("[{}]", many.join(","))).expect_err("too many").message.contains("may be 64"));
    }

    #[test]
    fn a_successor_under_the_same_name_is_told_to_take_another_and_where_it_stands() {
        let of = |name: &str, digit: &str| {
            format!("{{name='{name}', scopes=['mint'], sha256='{}'}}", HASH.replace('9', digit))
        };
        let fault = read(&format!("[{},\n{}]", of("ci", "9"), of("ci", "8"))).expect_err("one name");
        assert_eq!(fault.code.name, "admin.token_name_taken");
        assert!(
            fault.message.starts_with("token 2 (\"ci\"): ") && fault.message.ends_with("such as \"ci-2\"")
        );
        assert_eq!(fault.at, Some(of("ci", "9").len() + "[,\n".len()));
        let fault = read(&format!("[{},{},{}]", of("ci", "9"), of("ci-2", "8"), of("ci", "7")));
        assert!(fault.expect_err("one name").message.ends_with("such as \"ci-3\""));
        assert_eq!(read(&format!("[{},{}]", of("ci", "9"), of("ci-2", "8"))).expect("both").len(), 2);
    }

    #[test]
    fn a_token_in_clear_is_refused_wherever_it_stands_and_not_repeated() {
        let token = Token::generate().expect("random bytes");
        let text = token.expose();
        for list in [
            format!("['{text}']"),
            format!("[{{name='{text}', scopes=['mint'], sha256='{HASH}'}}]"),
            format!("[{{name='a', scopes=['mint'], sha256='{text}'}}]"),
            format!("[{{name='a', scopes=['{text}'], sha256='{HASH}'}}]"),
            format!("[{{name='a', scopes=['mint'], token='{text}'}}]"),
            format!("[{{'{text}'=1}}]"),
        ] {
            let fault = read(&list).expect_err("in clear");
            assert_eq!(fault.code.name, "admin.token_in_clear", "{list}");
            assert!(!fault.message.contains(&text[14..]), "{}", fault.message);
        }
    }
}
