//! `[kek]` and `[ring]`: what opens a sealed ring, and whose ring is believed.

use std::sync::Arc;

use oneseal_keystore::{Findings, KeyId, Mode};
use oneseal_providers::{AwsProvider, ProviderUri};

use super::belongs::{self, Belongs, KEK, needed_by};
use super::choose::{remote, text};
use super::origin::Rank;
use super::value::Value;
use super::values::{Values, mismatch};
use super::{ProviderChoice, Sealing, codes};

/// Makes it of the values, and reports every mistake on the way.
pub(super) fn choose(values: &Values, findings: &mut Findings) -> Sealing {
    let kek = current(values, findings);
    let previous = previous(values, findings);
    let mode = match text(values, "ring.mode").as_deref() {
        Some("public-only") => Mode::PublicOnly,
        _ => Mode::Full,
    };
    let is_kek_wanted = !values.is_any_faulty("kek.");
    if !previous.is_empty() && kek.is_none() && is_kek_wanted {
        let message = "there is no current KEK beside them; name it as kek.uri, even if it is one of these";
        findings.push(&codes::MISSING, "kek", message);
    }
    if mode == Mode::PublicOnly && (kek.is_some() || !previous.is_empty()) {
        let message = format!("{} opens nothing, so it needs no KEK", values.place("ring.mode"));
        findings.push(&codes::CONFLICT, "kek", message);
    }
    Sealing { kek, previous, mode, pin: pin(values, findings) }
}

fn current(values: &Values, findings: &mut Findings) -> Option<ProviderChoice> {
    if ["kek.kind", "kek.uri"].iter().any(|path| values.is_faulty(path)) {
        return None;
    }
    let (kind, uri) = (values.rank("kek.kind"), values.rank("kek.uri"));
    match (kind > Rank::Default, uri > Rank::Default) {
        (false, false) => {
            if let Some(Belongs { kind, path, .. }) = KEK.iter().find(|key| values.find(key.path).is_some()) {
                let message = format!("{} is set; it belongs to kind = \"{kind}\"", values.place(path));
                findings.push(&codes::MISSING, "kek.kind", message);
            }
            None
        }
        (true, true) if kind == uri => {
            let message = format!("{} names a KEK as well", values.place("kek.kind"));
            findings.push(&codes::CONFLICT, values.place("kek.uri"), message);
            None
        }
        _ if uri > kind => by_uri(values, findings),
        _ => by_kind(values, findings),
    }
}

fn by_uri(values: &Values, findings: &mut Findings) -> Option<ProviderChoice> {
    match &values.find("kek.uri")?.value {
        Value::Provider(ProviderUri::Aws(uri)) => {
            let mut options = uri.options();
            options.member = options.member.or_else(|| text(values, "kek.member"));
            let provider = AwsProvider::new(options).map(|provider| Arc::new(provider) as _);
            remote(provider, "kek.uri", values, findings)
        }
        Value::Provider(uri) => of_uri(uri, "kek.uri", values, findings),
        other => mismatch("kek.uri", other),
    }
}

/// The provider that a URI names. The kinds that cannot be one were refused where the value was read.
fn of_uri(uri: &ProviderUri, path: &str, values: &Values, findings: &mut Findings) -> Option<ProviderChoice> {
    match uri {
        ProviderUri::File(path) => Some(ProviderChoice::File { path: path.clone(), durable: true }),
        ProviderUri::Env(variable) => Some(ProviderChoice::Env { variable: variable.clone() }),
        ProviderUri::Kubernetes { .. } | ProviderUri::Aws(_) => match uri.open() {
            Ok(provider) => Some(ProviderChoice::Remote(provider)),
            Err(error) => {
                findings.push(&codes::BAD_VALUE, values.place(path), error.to_string());
                None
            }
        },
        _ => None,
    }
}

fn by_kind(values: &Values, findings: &mut Findings) -> Option<ProviderChoice> {
    let kind = text(values, "kek.kind")?;
    let needed = needed_by(&KEK, &kind)?;
    let is_stray = |key: &&Belongs| key.kind != kind && values.find(key.path).is_some();
    for Belongs { kind: other, path, .. } in KEK.iter().filter(is_stray) {
        let message = format!("it belongs to kind \"{other}\"; {} says otherwise", values.place("kek.kind"));
        findings.push(&codes::CONFLICT, values.place(path), message);
    }
    let Some(set) = values.find(needed) else {
        if !values.is_faulty(needed) {
            let message = format!("{} says kind \"{kind}\", which needs it", values.place("kek.kind"));
            findings.push(&codes::MISSING, needed, message);
        }
        return None;
    };
    Some(match &set.value {
        Value::Path(path) => ProviderChoice::File { path: path.clone(), durable: true },
        Value::Secret(value) => ProviderChoice::Inline { value: value.clone() },
        Value::Text(name) if kind == "kubernetes" => {
            return remote(belongs::kubernetes(values, "kek", name), needed, values, findings);
        }
        Value::Text(secret) if kind == "aws" => {
            return remote(belongs::aws(values, "kek", secret), needed, values, findings);
        }
        Value::Text(variable) => ProviderChoice::Env { variable: variable.clone() },
        other => mismatch(needed, other),
    })
}

fn previous(values: &Values, findings: &mut Findings) -> Vec<ProviderChoice> {
    match values.find("kek.previous").map(|set| &set.value) {
        None => Vec::new(),
        Some(Value::Providers(all)) => {
            all.iter().filter_map(|uri| of_uri(uri, "kek.previous", values, findings)).collect()
        }
        Some(other) => mismatch("kek.previous", other),
    }
}

fn pin(values: &Values, findings: &mut Findings) -> Option<KeyId> {
    let pin = text(values, "ring.pin")?;
    let is_thumbprint = pin.len() == 43
        && pin.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    match KeyId::parse(&pin).ok().filter(|_| is_thumbprint) {
        Some(pin) => Some(pin),
        None => {
            let message = "it is no thumbprint of a ring key, which has 43 letters, digits, `-` and `_`";
            findings.push(&codes::BAD_VALUE, values.place("ring.pin"), message);
            None
        }
    }
}
