//! `POST ISS/token`: how much it takes, and how its forms are read. What answers is
//! [`Issuer::respond_token`](crate::Issuer::respond_token), and [`Issuer::router`](crate::Issuer::router) has it; there
//! is something to answer once a [proof](crate::proofs) is configured.
//!
//! The requests are those of RFC 8693 and of RFC 7523 section 2.1, one audience each; `docs/token.md` is the reference.

pub use crate::http::token::TokenLimits;
pub use crate::http::token::form::{Form, FormError};
pub use crate::http::token::limits::{Budgets, Rate};
