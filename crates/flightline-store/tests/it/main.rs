//! The store, tested on both engines: one executable, one module per subject.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests make, read and spoil files as anybody could"
)]

mod ahead;
mod anchor;
mod backups;
mod chain;
mod concurrency;
mod damage;
mod deltas;
mod durable;
mod fold;
mod frozen;
mod full_disk;
mod groups;
mod histories;
mod log;
mod lost_commit;
mod memory;
mod mend;
mod opening;
mod pulses;
mod queue;
mod restores;
mod schema;
mod sources;
mod space;
mod tls;
mod transactions;
mod upgrades;
mod work;
