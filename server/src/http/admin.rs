//! The admin API: what an operator may ask and do, on this host or over TCP.
//!
//! ```text
//! Unix socket ─────────────────────────────────────────► routes      who can open it is let in; the kernel says who
//! TCP ──► remote: Host, Origin ─► token ─► scope ──────► routes      it was. Over TCP nobody is, loopback included,
//!         refused before a byte of the body is read                  without one of admin.tokens
//! ```

mod body;
mod events;
mod guard;
mod keys;
mod mint;
mod recover;
mod remote;
mod replicas;
mod status;

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, post};
use oneseal_keystore::executor::Executor;

pub(crate) use events::EventSeats;
pub(crate) use guard::{Guard, Verdict};
pub(crate) use remote::Guarded;

use super::error::ApiError;
use crate::admin_token::Scope;
use crate::state::State;

/// What the admin API may do.
#[derive(Debug)]
pub(crate) struct Admin {
    state: Arc<State>,
    /// `admin.mint`.
    may_mint: bool,
    /// Changes the ring.
    executor: Executor,
    /// This replica's name.
    instance: String,
}

/// The application.
pub(crate) fn app(state: Arc<State>, may_mint: bool, executor: Executor, instance: String) -> Router {
    let get_only = async || ApiError::method_not_allowed("GET, HEAD");
    let delete_only = async || ApiError::method_not_allowed("DELETE");
    let post_only = async || ApiError::method_not_allowed("POST");
    Router::new()
        .route(STATUS, get(status::status).fallback(get_only))
        .route(EVENTS, get(events::events).fallback(get_only))
        .route(REPLICAS, get(replicas::list).fallback(get_only))
        .route(REPLICA, delete(replicas::forget).fallback(delete_only))
        .route(MINT, post(mint::mint).fallback(post_only))
        .route(KEYS, get(keys::list).fallback(get_only))
        .route(RECOVER, post(recover::recover).fallback(post_only))
        .route(KEY_VERB, post(keys::change).fallback(post_only))
        .fallback(async || ApiError::not_found())
        .with_state(Arc::new(Admin { state, may_mint, executor, instance }))
}

/// The scope that a path asks for, whatever the method; no other path is let through to the routes.
fn scope_of(path: &str) -> Option<Scope> {
    match path {
        STATUS | EVENTS | REPLICAS => Some(Scope::Read),
        path if path.strip_prefix(REPLICAS).is_some_and(|rest| rest.starts_with('/')) => Some(Scope::Keys),
        MINT => Some(Scope::Mint),
        // What a key set will be is told to those who may change it.
        KEYS | RECOVER => Some(Scope::Keys),
        _ if keys::is_verb(path.strip_prefix(KEYS)?.strip_prefix('/')?) => Some(Scope::Keys),
        _ => None,
    }
}

const STATUS: &str = "/admin/v1/status";
const EVENTS: &str = "/admin/v1/events";
const REPLICAS: &str = "/admin/v1/replicas";
const REPLICA: &str = "/admin/v1/replicas/{instance}";
const MINT: &str = "/admin/v1/mint";
const KEYS: &str = "/admin/v1/keys";
const RECOVER: &str = "/admin/v1/keys/recover";
const KEY_VERB: &str = "/admin/v1/keys/{verb}";
