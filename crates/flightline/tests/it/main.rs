//! What Flightline does, tested on both engines: one executable, one module per subject.
#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(
    clippy::disallowed_methods,
    reason = "tests make, read and spoil files as anybody could"
)]

mod agent_recovery;
mod agents;
mod at_once;
mod backup_files;
mod backups;
mod batches;
mod briefings;
mod checkpoints;
mod claims;
mod copies;
mod cuts;
mod deadlines;
mod detection;
mod doctor;
mod due;
mod events;
mod fencing;
mod full_disk;
mod growth;
mod handover;
mod histories;
mod hooks;
mod idempotency;
mod inspection;
mod late;
mod limits;
mod liveness;
mod lock_lapse;
mod locks;
mod looking_back;
mod mail;
mod mirrors;
mod missions;
mod model;
mod monitor;
mod notes;
mod nothing_old;
mod orchestrator;
mod orchestrator_files;
mod orchestrator_state;
mod progress;
mod races;
mod rebuild;
mod receipts;
mod recovered_locks;
mod registry;
mod relay;
mod replay;
mod reports;
mod resume;
mod retention;
mod rewind;
mod secrets;
mod sorties;
mod stats;
mod taking_up;
mod tasks;
mod thinning;
mod token_resume;
mod tokens;
mod transfer;
mod triggers;
mod two_nodes;
mod undo;
mod verdicts;
mod walk;
mod work_report;
mod work_tree;
mod workflows;
