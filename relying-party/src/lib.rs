//! How a token is checked: discovery, a cache of the issuer's keys, and a strict verifier.
//!
//! A [`RelyingParty`] trusts one issuer for one audience. It reads the issuer's discovery document and key set over
//! HTTPS, keeps the last good set through outages, learns new keys when a token names one, and says of each token
//! either what it claims or why it is refused. It keeps apart what callers must not mix up: a token that is
//! [`Invalid`] (answer 401) and keys that are [`Unavailable`] (answer 503, try again).
//!
//! It never signs, holds no private key, never follows an address or a key found in a token, and checks no
//! revocation beyond the key set itself.
//!
//! ```text
//!              one flight at a time, an unknown kid at most every 30 s
//!           ┌───────────────────────────────────────────────────────────┐
//!  issuer ──┤ fetch ─► discovery ─► key set (bad entries dropped alone) ├─► last good set, at most 24 h old
//!           └───────────────────────────────────────────────────────────┘            │
//!  token ─► shape, header ─► iss ─► key by kid ─► signature by the key's algorithm ─► claims ─► VerifiedToken
//! ```
//!
//! The smallest program:
//! ```no_run
//! use oneseal_keystore::IssuerUrl;
//! use oneseal_relying_party::RelyingParty;
//!
//! # async fn run(token: &str) -> Result<(), Box<dyn std::error::Error>> {
//! let issuer = IssuerUrl::parse("https://oidc.example", "issuer")?;
//! let relying_party = RelyingParty::builder(issuer).audience("api://payments").build()?;
//! match relying_party.verify(token).await {
//!     Ok(verified) => println!("{} signed by {}", verified.claims.subject(), verified.kid),
//!     Err(error) if error.is_unavailable() => println!("503: {error}"),
//!     Err(error) => println!("401: {error}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What is taken, where verifiers differ
//! - A token without `kid` is taken if exactly one key of the set could have signed it; a key without `kid` serves
//!   such tokens alone, and is reported by its RFC 7638 thumbprint.
//! - A `kid` on two entries: the same key with several `alg` is one key with several algorithms; two keys are both
//!   dropped, since nobody can say which was meant.
//! - A key without `alg` may sign with what its kind can do and the builder's list allows.
//! - A key set with a duplicate member anywhere is refused as a whole; the last good one stays.
//! - Numbers in a JWK are minimal, coordinates have full length, base64url is unpadded and canonical: other
//!   spellings drop the entry.
//! - An RSA exponent of 3 is legal and taken; a modulus below 2048 or above 8192 bits is not.
//! - A key that is missing from one good read is held until a second read, 30 s later, lacks it too, and for a minute at
//!   most; with the refresh at least every five minutes, a key that its issuer has removed ends within six. What a
//!   document does say of a `kid` counts at once.
//! - A signature that a key of the right `kid` refuses is final for this token, and lets the keys be read again within
//!   the budget of unknown `kid`s: a publisher may have put another key under an old name.
//! - Header members `cty` and `zip` mean nothing in a signed JWT and are ignored: nothing is ever inflated. `crit`
//!   and `b64` are refused whatever they hold.
//! - `typ` is absent, `JWT` or `application/jwt` in any case; every other kind of JWT is refused.
//! - ECDSA signatures with a high `s` are taken, so a token has more than one valid text: detect replay by `jti`,
//!   never by the token's text or signature.
//! - `exp`, `nbf` and `iat` may have fractions and exponents (RFC 7519 section 2), from the year 1 to 9999.
//!
//! # Features
//! None. TLS is rustls on aws-lc-rs, and no process-wide default is installed or read.

mod builder;
mod cache;
mod claims;
mod dial;
mod discovery;
pub mod error;
pub mod fetch;
mod hold;
mod key_source;
mod keyset;
mod live;
pub mod reasons;
mod sightings;
mod source;
pub mod survey;
mod trust;
mod verifier;

pub use builder::{BuildError, Builder};
pub use claims::{AudienceForm, Claims};
pub use discovery::Discovery;
pub use error::{Invalid, Unavailable, VerifyError};
pub use key_source::{KeyDocument, KeySource, KeySourceError};
pub use keyset::Dropped;
pub use sightings::{Moment, Seen, Sighting};
pub use verifier::{RelyingParty, VerifiedToken};
