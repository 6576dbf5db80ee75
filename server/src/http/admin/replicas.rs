//! `GET /admin/v1/replicas`: who serves this issuer, and what; `DELETE /admin/v1/replicas/{instance}`: somebody knows
//! that it serves no more.
//!
//! The list comes from the database where that answers, and from the last beat where it does not: in an outage it is
//! looked at most.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, Path, State as Shared};
use axum::response::{IntoResponse, Response};
use http::header::CACHE_CONTROL;
use oneseal::{SystemClock, UnixTime};
use oneseal_keystore::Findings;
use oneseal_keystore::findings::{Finding, chain};
use oneseal_keystore::fleet::{Facts, Fleet, Memory, Own, Peer, judge};
use serde_json::{Value, json};

use super::Admin;
use crate::fleet::{Forgotten, Membership, View};
use crate::http::caller::Caller;
use crate::http::error::ApiError;
use crate::logging::AUDIT;
use crate::refusals::{REPLICAS_BEATS, REPLICAS_NO_REGISTRY, REPLICAS_UNKNOWN};

/// ```json
/// {
///   "fleet": "oidc.example", "self": "oneseal-0", "database": "up", "age_s": 0, "event_head": 17,
///   "stored": { "incarnation": 1, "revision": 7 } | null,
///   "replicas": [ { "instance", "boot_id", "state", "seen_s_ago", "joined_at", "ops_address", "facts": {…} | null } ],
///   "conflicts": [ { "code", "severity", "place", "message", "cure" } ]
/// }
/// ```
pub(super) async fn list(Shared(admin): Shared<Arc<Admin>>) -> Response {
    let Some(membership) = admin.state.fleet.as_deref() else { return answer(alone(&admin)) };
    // What this replica serves, then what the others tell, then what the store holds: each is no older than what it is
    // held against.
    let facts = membership.facts(&admin.state.issuer, admin.state.is_ready());
    let fresh = tokio::time::timeout(PATIENCE, membership.store().rows_and_ring()).await;
    let view = membership.view();
    let (fleet, stored, findings, is_up) = match fresh {
        Ok(Ok((fleet, stored))) => {
            let own =
                Own { instance: membership.instance(), facts: &facts, allow_key_replacement: false, stored };
            let findings = judge(own, &fleet).findings;
            (fleet, stored, findings, true)
        }
        // Nothing new is held against what is old: the last beat has been judged as it came.
        _ => match view.as_deref().cloned() {
            Some(View { fleet, judgement, stored, .. }) => (fleet, stored, judgement.findings, false),
            None => (Fleet::default(), None, Findings::new(), false),
        },
    };
    let findings = with_refusal(findings, admin.state.issuer.refusal(), membership.instance());
    let age_s = if is_up { Some(0) } else { membership.beat_age().map(|age| age.as_secs()) };
    let body = json!({
        "fleet": membership.fleet(),
        "self": membership.instance(),
        "database": if is_up { "up" } else { "down" },
        "age_s": age_s,
        "event_head": view.as_ref().map(|view| view.event_head),
        "stored": stored.map(|(incarnation, revision)| json!({ "incarnation": incarnation, "revision": revision })),
        "replicas": fleet.peers.iter().map(|peer| replica(peer, fleet.now)).collect::<Vec<_>>(),
        "conflicts": conflicts(&findings),
    });
    answer(body)
}

/// `{ "forgotten": "oneseal-0" }`, also for one that was gone already.
pub(super) async fn forget(
    Shared(admin): Shared<Arc<Admin>>,
    Path(instance): Path<String>,
    caller: Option<Extension<Caller>>,
) -> Response {
    let membership = match membership(&admin) {
        Ok(membership) => membership,
        Err(refusal) => return refusal.into_response(),
    };
    let caller = caller.map_or_else(|| "unknown".to_owned(), |Extension(caller)| caller.to_string());
    let issuer = admin.state.issuer.url().as_str();
    let outcome = membership.store().forget(&instance, &format!("admin:{caller}"), issuer).await;
    match &outcome {
        Ok(()) => {
            tracing::info!(target: AUDIT, caller, instance, ok = true, "replica forgotten by an administrator")
        }
        Err(why) => {
            let why = chain(why);
            tracing::info!(target: AUDIT, caller, instance, ok = false, why, "an administrator could not forget a replica");
        }
    }
    match outcome {
        Ok(()) => answer(json!({ "forgotten": instance })),
        Err(Forgotten::Unknown) => ApiError::invalid(
            "no replica of this name is in the registry; `oneseal replicas list` shows them",
        )
        .named(REPLICAS_UNKNOWN)
        .into_response(),
        Err(Forgotten::Beats { beat_age }) => {
            let words = format!(
                "it is there: its last beat was {} s ago; stop it first, and it leaves by itself",
                beat_age.as_secs()
            );
            ApiError::conflict(words).named(REPLICAS_BEATS).into_response()
        }
        Err(Forgotten::Store(error)) => {
            tracing::warn!(why = chain(&error), instance, "a replica could not be forgotten");
            ApiError::unavailable("the database does not answer; the log of this replica says more", LATER)
                .into_response()
        }
    }
}

/// Without a database a replica knows of itself alone.
fn alone(admin: &Admin) -> Value {
    let state = &admin.state;
    let snapshot = state.issuer.snapshot();
    let mut facts = Facts::of(state.issuer.url().as_str(), &snapshot, &Memory::new(&snapshot), &SystemClock);
    facts.minting = state.issuer.health().minting.as_str().to_owned();
    (facts.serving, facts.ready) = (true, state.is_ready());
    json!({
        "fleet": null,
        "self": "this replica",
        "database": "none",
        "age_s": null,
        "event_head": null,
        "stored": null,
        "replicas": [{
            "instance": "this replica", "boot_id": null, "state": "live", "seen_s_ago": 0, "joined_at": null,
            "ops_address": null, "facts": facts.to_value(), "unreadable": null,
        }],
        "conflicts": conflicts(&with_refusal(Findings::new(), state.issuer.refusal(), "this replica")),
    })
}

/// A record that this replica refuses is one that others may serve, or that somebody has written by hand: the rows agree
/// on the last good one, and say nothing of it.
fn with_refusal(mut findings: Findings, refusal: Option<Finding>, own: &str) -> Findings {
    if let Some(Finding { code, place, message }) = refusal
        && !findings.contains(code)
    {
        findings.push(code, format!("replica {own}, {place}"), message);
    }
    findings
}

fn membership(admin: &Admin) -> Result<&Membership, ApiError> {
    let words = "this replica has no [database], so it knows of no others";
    admin.state.fleet.as_deref().ok_or_else(|| ApiError::conflict(words).named(REPLICAS_NO_REGISTRY))
}

fn answer(body: Value) -> Response {
    ([(CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

fn replica(peer: &Peer, now: UnixTime) -> Value {
    json!({
        "instance": peer.instance,
        "boot_id": peer.boot_id,
        "state": peer.state.as_str(),
        "seen_s_ago": now.as_secs().saturating_sub(peer.seen_at.as_secs()).max(0),
        "joined_at": peer.joined_at.as_secs(),
        "ops_address": peer.ops_address,
        "facts": peer.facts.as_ref().ok().map(Facts::to_value),
        "unreadable": peer.facts.as_ref().err().map(ToString::to_string),
    })
}

/// Warnings among them: who is behind.
fn conflicts(findings: &Findings) -> Vec<Value> {
    let told = findings.iter().map(|finding| {
        json!({
            "code": finding.code.name,
            "severity": finding.code.severity.as_str(),
            "place": finding.place,
            "message": finding.message,
            "cure": finding.code.cure,
        })
    });
    told.collect()
}

/// Who asks has the last beat's answer otherwise.
const PATIENCE: Duration = Duration::from_secs(2);
const LATER: Duration = Duration::from_secs(5);
