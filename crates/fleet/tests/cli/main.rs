//! The command line, through the real binary: what is typed, both streams, and the exit code.

#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests make, read and spoil files as anybody could"
)]

mod care;
mod colour;
mod config;
mod dialects;
mod endless;
mod events;
mod every;
mod exits;
mod fences;
mod front;
mod hints;
mod https;
mod ids;
mod json;
mod locks;
mod lossy;
mod operating;
mod programs;
mod replay;
mod running;
mod secrets;
mod seed_a;
mod seed_b;
mod seed_c;
mod seed_d;
mod seed_d_files;
mod seed_e;
mod server;
mod serving;
mod stage;
mod storage;
mod store;
mod synced;
mod synced_tokens;
mod text;
mod tour;
mod tree;
mod usage;
mod work;
mod world;
