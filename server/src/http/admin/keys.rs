//! `GET /admin/v1/keys`, and `POST /admin/v1/keys/{rotate,activate,retire,rollback,revoke,adopt}`: the replica that gets a
//! verb carries it out.
//!
//! ```json
//! {"algs": ["ES256"], "rsa_bits": 3072}       rotate
//! {"kid": "…"}                                activate, retire, rollback; may be left out
//! {"kids": ["…"], "since": 1764450000}        revoke; both may be left out
//! {"jwks": {"keys": […]}, "until": 1764450000} adopt: public keys alone, no private half crosses the wire
//! ```
//! Each may have `change_id` (a UUID; or the header `Idempotency-Key`), `reason`, `dry_run` and `unproven_replicas`. The
//! answers are those of [`key_answers`]. Each request leaves one audit line.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, Path, Request, State as Shared};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use oneseal::keystore::json;
use oneseal::{Algorithm, Issuer, UnixTime};
use oneseal_keystore::executor::{Done, Order};
use oneseal_keystore::steps::{Adoption, Foreign, Request as Verb};
use serde_json::{Map, Value};
use tokio::time::timeout;
use uuid::Uuid;

use super::{Admin, body};
use crate::http::caller::Caller;
use crate::http::error::ApiError;
use crate::http::quoted::quoted;
use crate::key_answers;
use crate::logging::AUDIT;

/// Whether there is such a verb.
pub(super) fn is_verb(name: &str) -> bool {
    VERBS.contains(&name)
}

/// The ring as the store holds it now, and what may come next.
pub(super) async fn list(Shared(admin): Shared<Arc<Admin>>) -> Response {
    match timeout(DEADLINE, admin.executor.look()).await {
        Ok(Ok(keys)) => answer(&key_answers::of_keys(&keys)),
        Ok(Err(error)) => ApiError::from(error).into_response(),
        Err(_) => ApiError::too_slow().into_response(),
    }
}

/// Carries out one verb, or says why not; either way with one audit line.
///
/// # Cancel safety
/// A caller that goes away may have changed the ring: the same `change_id` again tells what it did.
pub(super) async fn change(
    Shared(admin): Shared<Arc<Admin>>,
    Extension(caller): Extension<Caller>,
    Path(verb): Path<String>,
    request: Request,
) -> Response {
    if !is_verb(&verb) {
        return ApiError::not_found().into_response();
    }
    let carried_out = async {
        let order = order(&verb, &caller, request).await?;
        let mut done = admin.executor.execute(&order).await?;
        if !done.is_dry_run {
            take_over(&admin.state.issuer, &mut done).await;
        }
        Ok(done)
    };
    match timeout(DEADLINE, carried_out).await.unwrap_or_else(|_| Err(too_late())) {
        Ok(done) => {
            write_down(&caller, &done);
            answer(&key_answers::of_done(&done))
        }
        Err(error) => {
            tracing::warn!(
                target: AUDIT, %caller, verb,
                reason = &*quoted(error.description(), MAX_REASON_SHOWN),
                "refused an admin caller a key verb"
            );
            error.into_response()
        }
    }
}

/// Whoever hears that a key is burned must not get a token of it from the replica that said so: what has just been
/// written is served here before it is told.
async fn take_over(issuer: &Issuer, done: &mut Done) {
    let (incarnation, revision) = (done.state.incarnation, done.state.revision);
    if timeout(OWN_LOOK, issuer.catch_up(incarnation, revision)).await.is_err() {
        done.notes.push(
            "the ring is written, and this replica does not serve it yet: until it does, it signs as before; its log \
             says what it waits for"
                .to_owned(),
        );
    }
}

fn write_down(caller: &Caller, done: &Done) {
    let changes: Vec<_> = done
        .changes
        .iter()
        .map(|change| format!("{} {}", change.kind, change.kid.as_deref().unwrap_or("-")))
        .collect();
    tracing::info!(
        target: AUDIT, %caller, verb = done.verb, change_id = done.change_id.map(tracing::field::display), revision = done.state.revision,
        repeated = done.is_repeated, dry_run = done.is_dry_run, changes = changes.join(", "),
        "carried out a key verb for an admin caller"
    );
}

pub(super) fn too_late() -> ApiError {
    let words = "it took too long, and may have been done: ask again with the same change_id";
    ApiError::unavailable(words, Duration::from_secs(1))
}

pub(super) fn answer(body: &Value) -> Response {
    let mut body = body.clone();
    body.sort_all_objects();
    ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")], body.to_string()).into_response()
}

async fn order(verb: &str, caller: &Caller, request: Request) -> Result<Order, ApiError> {
    let (mut members, change_id) = asked(request).await?;
    let order = Order {
        change_id,
        actor: caller.to_string(),
        reason: take_text(&mut members, "reason")?.unwrap_or_default(),
        unproven_replicas: flag(&mut members, "unproven_replicas")?,
        dry_run: flag(&mut members, "dry_run")?,
        request: of_verb(verb, &mut members)?,
    };
    no_more(verb, &members)?;
    Ok(order)
}

/// What is asked for, and under which id.
pub(super) async fn asked(request: Request) -> Result<(Map<String, Value>, Uuid), ApiError> {
    let key = idempotency_key(request.headers())?;
    let body = body::json(request).await?;
    let mut members = if body.is_empty() {
        Map::new()
    } else {
        json::parse_object(&body).map_err(|error| ApiError::invalid(error.to_string()))?
    };
    let named = take_text(&mut members, "change_id")?;
    match (named.as_deref().map(|text| uuid("change_id", text)).transpose()?, key) {
        (Some(named), Some(key)) if named != key => {
            Err(ApiError::invalid("change_id and Idempotency-Key name two changes"))
        }
        (named, key) => Ok((members, named.or(key).unwrap_or_else(Uuid::new_v4))),
    }
}

/// Refuses what is left of the members.
pub(super) fn no_more(verb: &str, members: &Map<String, Value>) -> Result<(), ApiError> {
    match members.keys().next() {
        None => Ok(()),
        Some(unknown) => Err(ApiError::invalid(format!(
            "{verb} has no member {:?}",
            unknown.chars().take(MAX_NAME_SHOWN).collect::<String>()
        ))),
    }
}

fn of_verb(verb: &str, members: &mut Map<String, Value>) -> Result<Verb, ApiError> {
    Ok(match verb {
        "rotate" => {
            let names = texts(members, "algs")?;
            let algorithms = names.iter().map(|name| algorithm(name)).collect::<Result<_, _>>()?;
            let bits = members.remove("rsa_bits").map(|bits| whole("rsa_bits", &bits)).transpose()?;
            let rsa_bits = bits.map(|bits| usize::try_from(bits).unwrap_or(usize::MAX));
            Verb::Rotate { algorithms, rsa_bits }
        }
        "activate" => Verb::Activate { kid: take_text(members, "kid")? },
        "retire" => Verb::Retire { kid: take_text(members, "kid")? },
        "rollback" => Verb::RollBack { kid: take_text(members, "kid")? },
        "revoke" => {
            // A list that a script left empty must not mean every key.
            if members.get("kids").and_then(Value::as_array).is_some_and(Vec::is_empty) {
                return Err(ApiError::invalid(
                    "kids is empty: name the keys, or leave it out to burn all that have signed",
                ));
            }
            Verb::Revoke { kids: texts(members, "kids")?, since: time(members, "since")? }
        }
        _ => {
            let jwks = members.remove("jwks").ok_or_else(|| {
                ApiError::invalid(
                    "jwks is missing; a private key is taken in by `oneseal keys adopt --provider URI`, where the store \
                     is: no private half crosses the wire",
                )
            })?;
            let (keys, left_out) = Foreign::read_set(jwks.to_string().as_bytes())
                .map_err(|why| ApiError::invalid(format!("jwks: {why}")))?;
            if !left_out.is_empty() {
                return Err(ApiError::invalid(format!("jwks: {}", left_out.join("; "))));
            }
            let until = time(members, "until")?.ok_or_else(|| ApiError::invalid("until is missing"))?;
            Verb::Adopt(Adoption::Public { keys, until })
        }
    })
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<Uuid>, ApiError> {
    let mut fields = headers.get_all("idempotency-key").iter();
    match (fields.next(), fields.next()) {
        (None, _) => Ok(None),
        // The draft of the field puts its value in quotes; many send it without.
        (Some(field), None) => {
            let text = field.to_str().unwrap_or_default().trim_matches('"');
            uuid("Idempotency-Key", text).map(Some)
        }
        _ => Err(ApiError::invalid("there is more than one Idempotency-Key")),
    }
}

fn uuid(name: &str, text: &str) -> Result<Uuid, ApiError> {
    Uuid::try_parse(text).map_err(|_| ApiError::invalid(format!("{name} must be a UUID")))
}

pub(super) fn take_text(members: &mut Map<String, Value>, name: &str) -> Result<Option<String>, ApiError> {
    match members.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(wrong_type(name, "a string")),
    }
}

fn texts(members: &mut Map<String, Value>, name: &str) -> Result<Vec<String>, ApiError> {
    let wrong = || wrong_type(name, "an array of strings");
    match members.remove(name) {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => {
            items.into_iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(wrong)).collect()
        }
        Some(_) => Err(wrong()),
    }
}

pub(super) fn flag(members: &mut Map<String, Value>, name: &str) -> Result<bool, ApiError> {
    match members.remove(name) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(flag),
        Some(_) => Err(wrong_type(name, "true or false")),
    }
}

fn time(members: &mut Map<String, Value>, name: &str) -> Result<Option<UnixTime>, ApiError> {
    let Some(value) = members.remove(name) else { return Ok(None) };
    let seconds = whole(name, &value)?;
    Ok(Some(UnixTime(i64::try_from(seconds).unwrap_or(i64::MAX))))
}

fn whole(name: &str, value: &Value) -> Result<u64, ApiError> {
    value.as_u64().ok_or_else(|| wrong_type(name, "a whole number"))
}

fn algorithm(name: &str) -> Result<Algorithm, ApiError> {
    Algorithm::ALL.into_iter().find(|algorithm| algorithm.as_str() == name).ok_or_else(|| {
        let known: Vec<_> = Algorithm::ALL.iter().map(|algorithm| algorithm.as_str()).collect();
        ApiError::invalid(format!("algs: each is one of {}", known.join(", ")))
    })
}

fn wrong_type(name: &str, wanted: &str) -> ApiError {
    ApiError::invalid(format!("{name} must be {wanted}"))
}

const VERBS: [&str; 6] = ["rotate", "activate", "retire", "rollback", "revoke", "adopt"];
/// An RSA key of 4096 bits can take many seconds to make.
pub(super) const DEADLINE: Duration = Duration::from_secs(60);
/// A look takes milliseconds; the caller waits no longer than ten seconds in all.
const OWN_LOOK: Duration = Duration::from_secs(5);
pub(super) const MAX_REASON_SHOWN: usize = 1024;
const MAX_NAME_SHOWN: usize = 64;
