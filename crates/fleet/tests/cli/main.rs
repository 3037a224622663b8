//! The command line, through the real binary: what is typed, both streams, and the exit code.

#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests make, read and spoil files as anybody could"
)]

mod aftermath;
mod agreement;
mod batches;
mod briefings;
mod care;
mod colour;
mod config;
mod connection;
mod dialects;
mod endless;
mod events;
mod every;
mod exits;
mod fences;
mod front;
mod hints;
mod hook_corpus;
mod hook_faults;
mod hooks;
mod https;
mod ids;
mod intake;
mod json;
mod life;
mod lock_patterns;
mod locks;
mod lossy;
mod mcp;
mod mcp_callers;
mod mcp_client;
mod needs;
mod operating;
mod plan;
mod programs;
mod readme;
mod replay;
mod run;
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
mod setup;
mod stage;
mod storage;
mod store;
mod summaries;
mod synced;
mod synced_tokens;
mod text;
mod tour;
mod tree;
mod usage;
mod width;
mod words;
mod work;
mod world;
