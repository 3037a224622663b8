//! Work trees, looked at: real repositories in folders of their own, and the real `git`.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests make, read and spoil files as anybody could"
)]

mod bounds;
mod files;
mod hostile;
mod repository;
mod scene;
