//! The admin API: what an operator on this host may ask and do.
//!
//! Whoever can open the socket is let in, which its mode leaves to this process's user and root; the kernel says who
//! it was, for the audit line.

mod mint;
mod status;

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use super::error::ApiError;
use crate::state::State;

/// What the admin API may do.
#[derive(Debug)]
pub(crate) struct Admin {
    state: Arc<State>,
    /// `admin.mint`.
    may_mint: bool,
}

/// The application.
pub(crate) fn app(state: Arc<State>, may_mint: bool) -> Router {
    let get_only = async || ApiError::method_not_allowed("GET, HEAD");
    let post_only = async || ApiError::method_not_allowed("POST");
    Router::new()
        .route("/admin/v1/status", get(status::status).fallback(get_only))
        .route("/admin/v1/mint", post(mint::mint).fallback(post_only))
        .fallback(async || ApiError::not_found())
        .with_state(Arc::new(Admin { state, may_mint }))
}
