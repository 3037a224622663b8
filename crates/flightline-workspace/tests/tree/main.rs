//! Work trees, looked at: real repositories in folders of their own, and the real `git`.
#![expect(clippy::unwrap_used, reason = "tests")]

mod bounds;
mod files;
mod hostile;
mod repository;
mod scene;
