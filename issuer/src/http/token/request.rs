//! What is asked for: from headers and a form to a request whose every part is what it should be.

use http::HeaderMap;
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE};

use super::answer::{Fault, Refusal};
use super::form::Form;
use crate::claims::Audience;
use crate::proofs::Grant;

/// A request for a token. There is no `Debug`, since the proof is a credential.
pub(crate) struct TokenRequest {
    pub(crate) grant: Grant,
    /// What the workload proves itself with. Nobody has looked at it yet.
    pub(crate) proof: String,
    pub(crate) audience: Audience,
    pub(crate) token_type: TokenType,
}

/// As what the token is handed out. It is the same ID token each time; what differs is the name by which the client wants
/// to get it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenType {
    /// As an ID token (RFC 8693 section 3).
    IdToken,
    /// As a JWT.
    Jwt,
    /// As what RFC 7523 gives, which has no types.
    Bearer,
}

impl TokenType {
    /// `issued_token_type`, which RFC 8693 alone has.
    pub(crate) fn issued(self) -> Option<&'static str> {
        match self {
            Self::IdToken => Some(ID_TOKEN),
            Self::Jwt => Some(JWT),
            Self::Bearer => None,
        }
    }

    /// `token_type`: how the token is used. One that is no access token has none (RFC 8693 section 2.2.1).
    pub(crate) fn how_used(self) -> &'static str {
        match self {
            Self::IdToken | Self::Jwt => "N_A",
            Self::Bearer => "Bearer",
        }
    }
}

/// Whether a body of this kind is a form that can be read.
///
/// # Errors
/// Another media type or charset, or a content coding.
pub(crate) fn check_headers(headers: &HeaderMap) -> Result<(), Refusal> {
    let coded = headers.get_all(CONTENT_ENCODING).iter();
    if coded.into_iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity")) {
        let words = "the body must not be compressed; send it without Content-Encoding";
        return Err(Refusal::new(Fault::Coding, "content_encoding", words));
    }
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let is_form = types.next().and_then(|value| value.to_str().ok()).is_some_and(is_form);
    if !is_form || types.next().is_some() {
        let words = "the body must be a form: send Content-Type: application/x-www-form-urlencoded";
        return Err(Refusal::new(Fault::Request, "content_type", words));
    }
    Ok(())
}

/// With `charset=UTF-8` or without: it has no meaning here (URL Standard), and clients send it.
fn is_form(media_type: &str) -> bool {
    let mut parts = media_type.split(';').map(str::trim);
    let is_form =
        parts.next().is_some_and(|name| name.eq_ignore_ascii_case("application/x-www-form-urlencoded"));
    is_form
        && parts.filter(|part| !part.is_empty()).all(|part| {
            part.split_once('=').is_some_and(|(name, value)| {
                name.trim().eq_ignore_ascii_case("charset")
                    && value.trim().trim_matches('"').eq_ignore_ascii_case("utf-8")
            })
        })
}

/// By which grant a form that came with `headers` asks; `taken` are those that somebody takes.
///
/// # Errors
/// None of them, or a credential that counts for nothing.
pub(crate) fn grant(
    headers: &HeaderMap,
    form: &Form,
    taken: impl Iterator<Item = Grant> + Clone,
) -> Result<Grant, Refusal> {
    check_client(headers, form)?;
    let asked = form.one("grant_type").ok_or_else(|| missing("grant_type"))?;
    taken.clone().find(|grant| grant.as_str() == asked).ok_or_else(|| {
        let known: Vec<_> = taken.map(Grant::as_str).collect();
        let words = format!("this issuer takes grant_type {}", known.join(" or "));
        Refusal::new(Fault::GrantType, "grant_type", words)
    })
}

impl TokenRequest {
    /// Reads a form that asks by `grant`.
    ///
    /// # Errors
    /// A [`Refusal`]: the first thing that is wrong.
    pub(crate) fn read(grant: Grant, form: &Form) -> Result<Self, Refusal> {
        let (proof, token_type) = match grant {
            Grant::TokenExchange => (subject_token(form)?, requested_type(form)?),
            Grant::JwtBearer => (proof(form, "assertion")?, TokenType::Bearer),
        };
        if form.one("scope").is_some_and(|scope| scope != "openid") {
            let words = "the only scope is openid, and it may be left out";
            return Err(Refusal::new(Fault::Scope, "scope", words));
        }
        Ok(Self { grant, proof, audience: audience(form)?, token_type })
    }
}

/// No client is registered here: what proves the workload is the token, so a credential beside it would look as if it
/// counted.
fn check_client(headers: &HeaderMap, form: &Form) -> Result<(), Refusal> {
    let mut fields = headers.get_all(AUTHORIZATION).iter();
    let header = fields.next();
    let in_header = usize::from(header.is_some()) + fields.count();
    let in_form =
        ["client_secret", "client_assertion"].iter().filter(|name| form.one(name).is_some()).count();
    if in_header + in_form > 1 {
        let words = "a client has at most one way to authenticate, and needs none here: send neither Authorization nor \
                     client_secret nor client_assertion";
        return Err(Refusal::new(Fault::Request, "client_authentication", words));
    }
    let words = "no client authentication is taken here, since the token that is sent proves who asks: leave out \
                 Authorization, client_secret and client_assertion";
    if let Some(header) = header {
        let is_bearer =
            header.as_bytes().get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"bearer"));
        let challenge = if is_bearer { r#"Bearer realm="token""# } else { r#"Basic realm="token""# };
        return Err(Refusal::new(Fault::ClientHeader(challenge), "client_authentication", words));
    }
    if in_form > 0 {
        return Err(Refusal::new(Fault::Client, "client_authentication", words));
    }
    Ok(())
}

fn subject_token(form: &Form) -> Result<String, Refusal> {
    // Before what is missing, which would be asked for in vain.
    if ["actor_token", "actor_token_type"].iter().any(|name| form.one(name).is_some()) {
        let words = "delegation is not supported: send the token of the workload itself as subject_token, without \
                     actor_token and actor_token_type";
        return Err(Refusal::new(Fault::Request, "actor_token", words));
    }
    let token = proof(form, "subject_token")?;
    let of = form.one("subject_token_type").ok_or_else(|| missing("subject_token_type"))?;
    if ![JWT, ID_TOKEN].contains(&of) {
        let words = format!("subject_token_type must be {JWT} or {ID_TOKEN}, to the letter");
        return Err(Refusal::new(Fault::Request, "subject_token_type", words));
    }
    Ok(token)
}

fn requested_type(form: &Form) -> Result<TokenType, Refusal> {
    match form.one("requested_token_type") {
        None | Some(ID_TOKEN) => Ok(TokenType::IdToken),
        Some(JWT) => Ok(TokenType::Jwt),
        Some(_) => Err(Refusal::new(
            Fault::Request,
            "requested_token_type",
            format!(
                "requested_token_type must be {ID_TOKEN} or {JWT}, or be left out: only ID tokens are issued"
            ),
        )),
    }
}

/// The token that proves who asks. White space in it is what is left of a file's last line, which `curl` sends along.
fn proof(form: &Form, name: &'static str) -> Result<String, Refusal> {
    let token = form.one(name).ok_or_else(|| missing(name))?;
    if token.contains(char::is_whitespace) {
        let words = format!(
            "{name} has white space in it; send the token alone, without the line break that a file ends with"
        );
        return Err(Refusal::new(Fault::Request, "white_space", words));
    }
    Ok(token.to_owned())
}

/// `audience` and `resource` name the same thing, one by its name and one by its address, so they are one list: a rule
/// about the one that did not hold for the other would be none.
fn audience(form: &Form) -> Result<Audience, Refusal> {
    let target = |reason, words: String| Err(Refusal::new(Fault::Target, reason, words));
    if let Some(resource) = form.all("resource").find(|resource| !is_absolute_uri(resource)) {
        let what = if resource.contains('#') { "has a fragment" } else { "is no absolute URI" };
        return target(
            "resource",
            format!("resource {what}; name the relying party by audience, or by its URI"),
        );
    }
    let mut asked: Vec<_> = form.all("audience").chain(form.all("resource")).collect();
    asked.dedup();
    match asked.as_slice() {
        [] => {
            let words =
                "audience is missing: say for which relying party the token is, by audience or resource";
            Err(Refusal::new(Fault::Request, "audience_missing", words))
        }
        [one] => Audience::parse(*one).or_else(|error| target("audience", format!("audience: {error}"))),
        _ => target(
            "audiences",
            "a token is for one relying party: send one audience or resource, and a request for each"
                .to_owned(),
        ),
    }
}

/// RFC 8707 section 2, by the syntax of RFC 3986 as far as it tells an absolute URI from another: a scheme, something
/// behind it, no fragment.
fn is_absolute_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let mut chars = scheme.chars();
    let is_scheme = chars.next().is_some_and(|first| first.is_ascii_alphabetic())
        && chars.all(|char| char.is_ascii_alphanumeric() || "+-.".contains(char));
    is_scheme && !rest.is_empty() && rest.chars().all(|char| char.is_ascii_graphic() && char != '#')
}

fn missing(name: &'static str) -> Refusal {
    Refusal::new(
        Fault::Request,
        "parameter_missing",
        format!("the parameter {name} is missing from the form"),
    )
}

const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_one_in_any_case_and_with_its_charset() {
        for (value, expected) in [
            ("application/x-www-form-urlencoded", true),
            ("Application/X-WWW-Form-URLencoded ; Charset=\"utf-8\"", true),
            ("application/x-www-form-urlencoded;charset=UTF-8", true),
            ("application/x-www-form-urlencoded;", true),
            ("application/x-www-form-urlencoded;charset=latin1", false),
            ("application/x-www-form-urlencoded;boundary=x", false),
            ("application/x-www-form-urlencodedx", false),
            ("application/json", false),
            ("multipart/form-data; boundary=x", false),
            ("", false),
        ] {
            assert_eq!(is_form(value), expected, "{value}");
        }
    }

    #[test]
    fn a_resource_is_an_absolute_uri_without_fragment() {
        for good in ["https://a", "urn:payments", "api://x/y?q=1", "spiffe://t/x"] {
            assert!(is_absolute_uri(good), "{good}");
        }
        for bad in ["", "/a", "a", "1a:b", ":b", "a:", "https://a#f", "a b:c", "https://a b", "//a"] {
            assert!(!is_absolute_uri(bad), "{bad}");
        }
    }
}
