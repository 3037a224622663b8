//! The real binary, as people, programs and disasters meet it: one executable, one module per ring.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests make, read and spoil files as anybody could"
)]

mod chaos;
mod cli;
mod crash;
mod demo;
#[cfg(feature = "otel")]
mod otel;
mod seed_c_shell;
