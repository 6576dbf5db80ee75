//! What caches and their clients see: straight from the replicas, and through a real nginx with `proxy_cache`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod order;
mod page;
mod proxy;
mod straight;

const JWKS: &str = "/.well-known/jwks.json";
const DISCOVERY: &str = "/.well-known/openid-configuration";
const OAUTH: &str = "/.well-known/oauth-authorization-server";
/// Everything that is cached.
const DOCUMENTS: [&str; 3] = [JWKS, DISCOVERY, OAUTH];

/// What clients say about codings; none of it changes what they get.
const CODINGS: [&str; 9] = [
    "gzip",
    "br",
    "zstd",
    "deflate, gzip;q=1.0, *;q=0.5",
    "*",
    "identity",
    "identity;q=0",
    "gzip;q=1, identity;q=0, *;q=0",
    "",
];
