//! `POST /admin/v1/keys/recover`: this replica writes the record that it serves from back to its store, which has lost it.
//!
//! ```json
//! {"replica": "oneseal-1", "change_id": "…", "reason": "…", "dry_run": true}       all of them may be left out
//! ```
//! `replica` is who is meant: another one refuses. The answer has the members of every verb's, but `next`, which is empty,
//! and `keys`, of which each has `kid`, `alg` and `state` alone.

use std::sync::Arc;

use axum::extract::{Extension, Request, State as Shared};
use axum::response::{IntoResponse, Response};
use oneseal_keystore::executor::{Recovered, Recovery};
use oneseal_keystore::findings::Exit;
use tokio::time::timeout;

use super::Admin;
use super::keys::{DEADLINE, MAX_REASON_SHOWN, answer, asked, flag, no_more, take_text, too_late};
use crate::http::caller::Caller;
use crate::http::error::ApiError;
use crate::http::quoted::quoted;
use crate::key_answers;
use crate::logging::AUDIT;
use crate::refusals::KEYS_OTHER_REPLICA;

/// Writes it back, or says why not; either way with one audit line.
///
/// # Cancel safety
/// A caller that goes away may have had it written: the same again tells.
pub(super) async fn recover(
    Shared(admin): Shared<Arc<Admin>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    let carried_out = async {
        let recovery = recovery(&admin, &caller, request).await?;
        let issuer = &admin.state.issuer;
        let recovered = admin.executor.recover(&recovery, issuer.kept().as_deref()).await?;
        // What was refused until now is good again.
        issuer.look_now();
        Ok(recovered)
    };
    match timeout(DEADLINE, carried_out).await.unwrap_or_else(|_| Err(too_late())) {
        Ok(recovered) => {
            write_down(&caller, &recovered);
            answer(&key_answers::of_recovered(&recovered))
        }
        Err(error) => {
            tracing::warn!(
                target: AUDIT, %caller, verb = "recover",
                reason = &*quoted(error.description(), MAX_REASON_SHOWN),
                "refused an admin caller a key verb"
            );
            error.into_response()
        }
    }
}

async fn recovery(admin: &Admin, caller: &Caller, request: Request) -> Result<Recovery, ApiError> {
    let (mut members, change_id) = asked(request).await?;
    let recovery = Recovery {
        change_id,
        actor: caller.to_string(),
        reason: take_text(&mut members, "reason")?.unwrap_or_default(),
        dry_run: flag(&mut members, "dry_run")?,
    };
    let meant = take_text(&mut members, "replica")?;
    no_more("recover", &members)?;
    match meant {
        Some(meant) if meant != admin.instance => {
            let words = format!(
                "this replica is {}, and {} is meant: name its own admin socket or URL",
                admin.instance,
                quoted(&meant, MAX_REASON_SHOWN)
            );
            Err(ApiError::conflict(words).named(KEYS_OTHER_REPLICA).ending(Exit::Refused))
        }
        _ => Ok(recovery),
    }
}

fn write_down(caller: &Caller, recovered: &Recovered) {
    let Recovered { change_id, identity, found, is_dry_run, .. } = recovered;
    tracing::info!(
        target: AUDIT, %caller, verb = "recover", change_id = change_id.map(tracing::field::display),
        revision = identity.revision, repeated = found.is_none(), dry_run = is_dry_run,
        found = found.as_deref().unwrap_or("the same record"),
        "carried out a key verb for an admin caller"
    );
}
