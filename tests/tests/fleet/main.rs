//! Replicas that know of each other: real servers on a real PostgreSQL.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod assertions;
mod cut_off;
mod differing;
mod failover;
mod joining;
mod outage;
mod paused;
mod publishing;
mod readers;
mod recovering;
mod registry;
mod staleness;
mod stopped;
mod support;
mod verbs;
