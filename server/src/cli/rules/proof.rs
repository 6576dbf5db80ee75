//! A token that is to be a proof, read without being verified: who would vouch for it, and what `POST /token` would have
//! against it before any rule is asked.

use std::time::Duration;

use oneseal_coordination::{Clock as _, SystemClock, UnixTime};
use serde_json::{Map, Value};

use super::Configured;
use super::workload::Workload;
use crate::exit::Failure;
use crate::times::rfc3339;

/// Whose it is, if the caller says so.
#[derive(Debug, Default)]
pub(super) struct Named {
    pub(super) cluster: Option<String>,
    pub(super) assertion_issuer: Option<String>,
}

/// Whose workload a token with these claims is, and what would have it refused whatever the rules say.
///
/// # Errors
/// Nobody who is configured has its `iss`, or several have; or it is no token of whoever is named.
pub(super) fn read(
    claims: Map<String, Value>,
    named: Named,
    configured: &Configured,
) -> Result<(Workload, Vec<String>), Failure> {
    let refused = |words: String| Failure::usage(format!("--token: {words}"));
    let named = match named {
        Named { cluster: None, assertion_issuer: None } => owner(&claims, configured)?,
        named => named,
    };
    let own = configured.issuer.as_str();
    if let Some(name) = named.assertion_issuer {
        let wanted = Wanted { audience: own, is_a_list_fine: false, max_lifetime: None };
        let remarks = remarks(&claims, &wanted);
        return Ok((Workload::from_assertion(&name, claims).map_err(refused)?, remarks));
    }
    let name = named.cluster.unwrap_or_default();
    let cluster = configured.settings.clusters.iter().find(|cluster| cluster.name == name);
    let wanted = Wanted {
        audience: cluster.and_then(|cluster| cluster.audience.as_deref()).unwrap_or(own),
        is_a_list_fine: true,
        max_lifetime: cluster.map(|cluster| cluster.max_lifetime),
    };
    let remarks = remarks(&claims, &wanted);
    Ok((Workload::from_token(&name, claims).map_err(refused)?, remarks))
}

/// The one configured cluster or assertion issuer whose tokens have this `iss`.
fn owner(claims: &Map<String, Value>, configured: &Configured) -> Result<Named, Failure> {
    let issuer = claims.get("iss").and_then(Value::as_str).unwrap_or_default();
    let settings = &configured.settings;
    let clusters = settings.clusters.iter().filter(|one| one.issuer == issuer);
    let clusters = clusters.map(|one| Named { cluster: Some(one.name.clone()), assertion_issuer: None });
    let issuers = settings.assertion_issuers.iter().filter(|one| one.issuer == issuer);
    let issuers = issuers.map(|one| Named { cluster: None, assertion_issuer: Some(one.name.clone()) });
    let mut owners = clusters.chain(issuers);
    match (owners.next(), owners.next()) {
        (Some(owner), None) => Ok(owner),
        (None, _) => Err(Failure::usage(
            "--token: no [[cluster]] and no [[assertion_issuer]] has the `iss` of this token; name one by --cluster or \
             --assertion-issuer",
        )),
        (Some(_), Some(_)) => Err(Failure::usage(
            "--token: several have the `iss` of this token; name one by --cluster or --assertion-issuer",
        )),
    }
}

struct Wanted<'a> {
    audience: &'a str,
    /// Whether a list of this one audience will do.
    is_a_list_fine: bool,
    max_lifetime: Option<Duration>,
}

/// Says what is wanted, and nothing of what is there but its times.
fn remarks(claims: &Map<String, Value>, wanted: &Wanted<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    let is_audience = match claims.get("aud") {
        Some(Value::String(audience)) => audience == wanted.audience,
        Some(Value::Array(all)) if wanted.is_a_list_fine => {
            matches!(all.as_slice(), [Value::String(audience)] if audience == wanted.audience)
        }
        _ => false,
    };
    if !is_audience {
        let form = if wanted.is_a_list_fine { "" } else { ", as a string" };
        remarks.push(format!("its one `aud` must be {}{form}", wanted.audience));
    }
    let time = |name: &str| claims.get(name).and_then(Value::as_i64);
    match time("exp") {
        None => remarks.push("it has no `exp`".to_owned()),
        Some(end) if end <= SystemClock.wall().as_secs() => {
            remarks.push(format!("it expired at {}", rfc3339(UnixTime(end))));
        }
        Some(end) => {
            let life = time("iat").and_then(|begin| u64::try_from(end.saturating_sub(begin)).ok());
            if let Some((life, most)) = life.zip(wanted.max_lifetime.map(|most| most.as_secs()))
                && life > most
            {
                remarks.push(format!("it lives {life} s, and may live {most} s (max_lifetime)"));
            }
        }
    }
    remarks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_would_have_a_token_refused_before_any_rule_is_told() {
        const US: &str = "https://oidc.example";
        let now = SystemClock.wall().as_secs();
        let of = |is_a_list_fine: bool, claims: &Value| {
            let most = is_a_list_fine.then_some(Duration::from_secs(3607));
            let wanted = Wanted { audience: US, is_a_list_fine, max_lifetime: most };
            remarks(claims.as_object().expect("an object"), &wanted).join("; ")
        };
        let good = json!({"aud": US, "iat": now, "exp": now + 3607});
        assert_eq!((of(true, &good), of(false, &good)), (String::new(), String::new()));
        let list = json!({"aud": [US], "iat": now, "exp": now + 60});
        assert_eq!(of(true, &list), "");
        assert_eq!(of(false, &list), "its one `aud` must be https://oidc.example, as a string");
        for audience in [json!("https://oidc.example/"), json!([US, "x"]), json!([]), json!(null), json!(1)] {
            let told = of(true, &json!({"aud": audience, "iat": now, "exp": now + 60}));
            assert_eq!(told, "its one `aud` must be https://oidc.example", "{audience}");
        }
        assert_eq!(of(true, &json!({"aud": US, "exp": 800_000_000})), "it expired at 1995-05-09T06:13:20Z");
        assert_eq!(of(true, &json!({"aud": US})), "it has no `exp`");
        assert_eq!(of(true, &json!({"aud": US, "exp": "soon"})), "it has no `exp`");
        let long = json!({"aud": US, "iat": now, "exp": now + 3608});
        assert_eq!(of(true, &long), "it lives 3608 s, and may live 3607 s (max_lifetime)");
    }
}
