//! The errors of a store, sorted by the caller's possible reaction to each.

use flightline_core::{Code, Refusal, Time};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("there is no store at {0}")]
    Missing(String),
    #[error("the project {0} is not in this store")]
    UnknownProject(String),
    /// Another process is writing, and did not finish in time.
    #[error("the store is busy: {0}")]
    Busy(String),
    /// The transaction collided with another and may be run again. Callers never see it.
    #[error("the transaction collided with another: {0}")]
    Collision(String),
    #[error("the disk is full: {0}")]
    Full(String),
    /// The folder or file cannot be written.
    #[error("cannot write to the store: {0}")]
    ReadOnly(String),
    #[error(
        "the store has schema version {found}, and this version of `fleet` knows {known} at most"
    )]
    Newer { found: i64, known: i64 },
    /// The folder or file holds something else than a store.
    #[error("{0} is not a Flightline store")]
    NotOurs(String),
    /// A file of the store belongs to another user.
    #[error("{0}")]
    OfAnother(String),
    /// A rollback journal lies beside the database.
    #[error(
        "{0} would overwrite the store: SQLite plays such a file back, and no store of `fleet` has one"
    )]
    Rollback(String),
    /// The user did not trust the store on this machine: it is read, and never obeyed.
    #[error(
        "this fleet is not trusted on this machine, so nothing in it is changed or takes effect"
    )]
    Untrusted,
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    #[error("the value of {subject} at revision {rev} has been thinned away")]
    Thinned {
        subject: String,
        rev: u64,
        /// The checkpoints just before and just after the revision, whose values are kept.
        nearest: Vec<String>,
    },
    /// The connection or the disk failed while the commit was under way.
    #[error("the commit was interrupted, and it is not known whether it was made: {0}")]
    CommitUnknown(String),
    #[error("the store cannot be reached: {0}")]
    Unreachable(String),
    /// The engine cannot be reached in the way it must be: encrypted, and known to be itself.
    #[error("the store cannot be reached safely: PostgreSQL: {cause}")]
    Tls { cause: String, hint: &'static str },
    /// An acknowledged write would not be durable.
    #[error("the store could lose acknowledged data: {0}")]
    NotDurable(String),
    #[error("the {kind} would take {size} bytes, and at most {max} are allowed")]
    TooLarge {
        kind: &'static str,
        size: usize,
        max: usize,
    },
    /// An earlier write of this process failed to reach the disk; nothing more is acknowledged.
    #[error("an earlier write of this process did not reach the disk, so nothing more is written")]
    Broken,
    /// The clock says a time that cannot be: a write under it would be taken for the newest for ever.
    #[error("the clock says {0}, and times from 1970 to 2199 are accepted")]
    Clock(Time),
    /// The location makes no sense or is not allowed.
    #[error("{0}")]
    Location(String),
    /// Any other error of the engine or the file system.
    #[error("{act}: {cause}")]
    Engine { act: &'static str, cause: String },
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let message = error.to_string();
        match error {
            StoreError::UnknownProject(_) => Self::new(Code::NoProject, message).hint(
                "if it was created with `--location`, give that again; else create it with `fleet init`",
            ),
            StoreError::Missing(_) => {
                Self::new(Code::NoProject, message).hint("create it with `fleet init`")
            }
            StoreError::Busy(_) | StoreError::Collision(_) => Self::new(Code::Unavailable, message)
                .hint("nothing was written; run the command again"),
            StoreError::Full(_) => Self::new(Code::Unavailable, message)
                .hint("nothing was written; make room and run the command again"),
            StoreError::ReadOnly(_) => Self::new(Code::Unavailable, message)
                .hint("nothing was written; check the owner and the mode of `.flightline/`"),
            StoreError::Newer { .. } => {
                Self::new(Code::NewerStore, message).hint("upgrade `fleet` on this machine")
            }
            StoreError::NotOurs(_) => Self::new(Code::NotOurStore, message)
                .hint("point `--location` somewhere else, or move that file away"),
            StoreError::OfAnother(_) => Self::new(Code::NotOurStore, message)
                .hint("nothing was read; give the file back to the user who runs `fleet`, or run `fleet` as its owner"),
            StoreError::Rollback(_) => Self::new(Code::NotOurStore, message)
                .hint("nothing was read; move that file away: it came with the repository, or from another program"),
            StoreError::Untrusted => Self::new(Code::Untrusted, message).hint(
                "look at it with `fleet status`; if it is yours, or you know where it comes from: `fleet trust`",
            ),
            StoreError::Corrupt(_) => {
                Self::new(Code::Integrity, message).hint("look closer with `fleet doctor`")
            }
            StoreError::Thinned { nearest, .. } => {
                let refusal = Self::new(Code::HistoryThinned, message)
                    .details(serde_json::json!({ "checkpoints": nearest }));
                let commands: Vec<String> = nearest
                    .iter()
                    .map(|id| format!("`fleet checkpoints show {id}`"))
                    .collect();
                if commands.is_empty() {
                    return refusal.hint("no checkpoint is near: `fleet log` shows what happened");
                }
                refusal.hint(format!(
                    "the nearest checkpoints are kept: {}",
                    commands.join(" or ")
                ))
            }
            StoreError::CommitUnknown(_) => Self::new(Code::CommitUnknown, message).hint(
                "run it again with the same `--idempotency-key`, or look first with `fleet log`",
            ),
            StoreError::Unreachable(_) => {
                Self::new(Code::Unavailable, message).hint("nothing was written; try again later")
            }
            StoreError::Tls { hint, .. } => Self::new(Code::Unavailable, message).hint(hint),
            StoreError::NotDurable(_) => Self::new(Code::Unavailable, message).hint(
                "nothing was written; let this role set it: `ALTER ROLE … SET synchronous_commit = on`",
            ),
            StoreError::TooLarge { .. } => Self::new(Code::TooLong, message)
                .hint("put the long version into a file and name the file"),
            StoreError::Broken => Self::new(Code::Unavailable, message)
                .hint("check the disk, then run the command again"),
            StoreError::Clock(_) => Self::new(Code::Unavailable, message).hint(
                "nothing was written; set the clock of the machine that keeps the store, then run the command again",
            ),
            StoreError::Location(_) => Self::invalid(message),
            StoreError::Engine { .. } => Self::new(Code::Failed, message),
        }
    }
}
