//! What the server says over HTTP, and the sockets it says it on.
//!
//! ```text
//! documents  TCP   discovery, JWKS, POST ISS/token      public; the body of a token request alone is read
//! token      TCP   POST ISS/token, if it is not there  wherever workloads are
//! ops        TCP   /livez /readyz /metrics              for the orchestrator
//! admin      Unix  /admin/v1/status, /admin/v1/mint     0600; the kernel says who calls
//! admin_tcp  TCP   the same                             one of admin.tokens, loopback too
//! ```
//! [`bind`] makes the sockets, [`listener`] accepts on them and ends them in order, [`activity`] says which connections
//! are of no more use and [`crowd`] which make room, [`capacity`] how many there may be, [`handshake`] puts TLS over the documents' and the
//! admin API's, [`front`] does what every request gets, [`quoted`] what a log has of it; [`documents`] with [`token`], [`ops`] and [`admin`] are the applications.

pub(crate) mod activity;
pub(crate) mod admin;
pub(crate) mod bind;
pub(crate) mod caller;
pub(crate) mod capacity;
pub(crate) mod crowd;
pub(crate) mod documents;
pub(crate) mod error;
pub(crate) mod front;
pub(crate) mod handshake;
pub(crate) mod host;
pub(crate) mod listener;
pub(crate) mod ops;
pub(crate) mod quoted;
pub(crate) mod request_id;
pub(crate) mod token;
