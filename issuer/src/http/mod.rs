//! What relying parties read over HTTP, and where workloads get their tokens. No listener is started and no framework is needed: [`documents`] holds the
//! answers, [`layer`] and [`router`] hand them out.

pub(crate) mod conditional;
pub(crate) mod documents;
pub(crate) mod layer;
pub(crate) mod respond;
pub(crate) mod router;
pub(crate) mod token;
