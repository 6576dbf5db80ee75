//! `[kek]` and `[ring]`: what opens a sealed ring, and whose ring is believed.

use oneseal_keystore::{Findings, KeyId, Mode};
use oneseal_providers::ProviderUri;

use super::choose::text;
use super::origin::Rank;
use super::value::Value;
use super::values::{Values, mismatch};
use super::{ProviderChoice, Sealing, codes};

/// The key of `[kek]` that each kind needs.
const NEEDS: [(&str, &str); 3] = [("file", "kek.path"), ("env", "kek.variable"), ("inline", "kek.value")];

/// Makes it of the values, and reports every mistake on the way.
pub(super) fn choose(values: &Values, findings: &mut Findings) -> Sealing {
    let kek = current(values, findings);
    let previous = previous(values);
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
            if let Some((kind, path)) = NEEDS.iter().find(|(_, path)| values.find(path).is_some()) {
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
        _ if uri > kind => by_uri(values),
        _ => by_kind(values, findings),
    }
}

fn by_uri(values: &Values) -> Option<ProviderChoice> {
    match &values.find("kek.uri")?.value {
        Value::Provider(uri) => of_uri(uri),
        other => mismatch("kek.uri", other),
    }
}

/// The provider that a URI names. The kinds that cannot be one were refused where the value was read.
fn of_uri(uri: &ProviderUri) -> Option<ProviderChoice> {
    match uri {
        ProviderUri::File(path) => Some(ProviderChoice::File { path: path.clone(), durable: true }),
        ProviderUri::Env(variable) => Some(ProviderChoice::Env { variable: variable.clone() }),
        _ => None,
    }
}

fn by_kind(values: &Values, findings: &mut Findings) -> Option<ProviderChoice> {
    let kind = text(values, "kek.kind")?;
    let needed = NEEDS.iter().find(|(name, _)| *name == kind).map(|(_, path)| *path)?;
    for (other, path) in NEEDS.iter().filter(|(_, path)| *path != needed && values.find(path).is_some()) {
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
        Value::Text(variable) => ProviderChoice::Env { variable: variable.clone() },
        other => mismatch(needed, other),
    })
}

fn previous(values: &Values) -> Vec<ProviderChoice> {
    match values.find("kek.previous").map(|set| &set.value) {
        None => Vec::new(),
        Some(Value::Providers(all)) => all.iter().filter_map(of_uri).collect(),
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
