//! The server over real HTTP, on a loopback port of its own, on both engines.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests make, read and spoil files as anybody could"
)]

mod door;
mod events;
mod exposition;
mod health;
mod idempotency;
mod mcp;
mod metrics;
mod ops;
mod pages;
mod projects;
mod routes;
mod security;
mod seed_a;
mod seed_letter;
mod server;
mod several;
mod strangers;
mod wear;
