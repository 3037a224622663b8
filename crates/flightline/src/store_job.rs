//! Store jobs: work beside the store, with its files, each in transactions of its own. Where the store is at a server, a
//! store job is asked for there, by name.

use std::collections::BTreeSet;
use std::path::Path;

use flightline_core::CheckpointId;
use serde::{Deserialize, Serialize};

use crate::checkpoint::backups::settle_and_tell;
use crate::checkpoint::daily::{daily, is_daily_due};
use crate::checkpoint::due::take_due;
use crate::checkpoint::files::{name_of, trouble};
use crate::checkpoint::inspect::Verification;
use crate::checkpoint::leftovers::clear;
use crate::checkpoint::mend::CheckpointsToRead;
use crate::checkpoint::prune::FreedSpace;
use crate::checkpoint::serve::mend;
use crate::error::Result;
use crate::fleet::{Access, Caller, Fleet, Scope, StoreJob};
use crate::mail::relay::{has_news, relay};

/// Runs the work after a write, once its answer was given: takes the checkpoints that time has made due, writes the
/// files of checkpoints that have none yet, applies retention once a day, and reports on checkpoints to those who
/// coordinate.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AfterWrite {
    /// Takes the checkpoints that heartbeats make due, and not those that time does.
    pub heartbeat: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AfterWriteOutcome {
    /// Messages to people about new checkpoints.
    pub told: Vec<(CheckpointId, String)>,
    /// Reasons why work was not done. It failed nothing else, and the next write tries it again.
    pub failed: BTreeSet<String>,
}

impl StoreJob for AfterWrite {
    const NAME: &'static str = "after_write";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    type Outcome = AfterWriteOutcome;

    fn run(&self, fleet: &mut Fleet, folder: &Path, caller: &Caller) -> Result<AfterWriteOutcome> {
        let mut followed = AfterWriteOutcome::default();
        let due = Due::look(fleet)?;
        let taken = followed.attempt(take_due(fleet, caller, self.heartbeat));
        let mut wrote = taken.is_some_and(|taken| !taken.is_empty());
        if due.backups || wrote {
            let told = followed.attempt(settle_and_tell(fleet, folder, caller));
            followed.told = told.unwrap_or_default();
            wrote = true;
        }
        if due.retention {
            let pruned = followed.attempt(daily(fleet, caller));
            if pruned.is_some_and(|pruned| !pruned.is_empty()) {
                followed.attempt(clear(fleet, folder));
            }
            wrote = true;
        }
        if due.news || wrote {
            followed.attempt(relay(fleet, caller));
        }
        Ok(followed)
    }
}

/// The work that is due after a write, found in one look.
struct Due {
    backups: bool,
    retention: bool,
    news: bool,
}

impl Due {
    fn look(fleet: &mut Fleet) -> Result<Self> {
        fleet.store()?.read(|tx| {
            Ok(Self {
                backups: !tx.waiting_backups(1)?.is_empty(),
                retention: is_daily_due(tx)?,
                news: has_news(tx)?,
            })
        })
    }
}

impl AfterWriteOutcome {
    /// Notes why something failed.
    fn attempt<T>(&mut self, done: Result<T>) -> Option<T> {
        match done {
            Ok(done) => Some(done),
            Err(error) => {
                self.failed.insert(error.into_refusal().message);
                None
            }
        }
    }
}

/// Writes the files of checkpoints that have none yet, and says what people should know of them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettleBackups {}

impl StoreJob for SettleBackups {
    const NAME: &'static str = "settle_backups";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    type Outcome = Vec<(CheckpointId, String)>;

    fn run(&self, fleet: &mut Fleet, folder: &Path, caller: &Caller) -> Result<Self::Outcome> {
        settle_and_tell(fleet, folder, caller)
    }
}

/// Removes the files of checkpoints that are gone.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClearFiles {}

impl StoreJob for ClearFiles {
    const NAME: &'static str = "clear_files";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    type Outcome = ();

    fn run(&self, fleet: &mut Fleet, folder: &Path, _: &Caller) -> Result<()> {
        clear(fleet, folder)
    }
}

/// Gives free space of the store back, when it is worth it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GiveBack {
    /// Number of bytes that are known to be free.
    pub loose: u64,
    /// A store with more than so many bytes in use is left alone.
    pub most: u64,
}

impl StoreJob for GiveBack {
    const NAME: &'static str = "give_back";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    type Outcome = FreedSpace;

    fn run(&self, fleet: &mut Fleet, _: &Path, _: &Caller) -> Result<FreedSpace> {
        Ok(FreedSpace::give_back(fleet, self.loose, self.most))
    }
}

/// Mends checkpoints in the store from their files, and says what it did.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MendFromFiles {
    pub wanted: CheckpointsToRead,
}

impl StoreJob for MendFromFiles {
    const NAME: &'static str = "mend_from_files";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    type Outcome = Vec<String>;

    fn run(&self, fleet: &mut Fleet, folder: &Path, caller: &Caller) -> Result<Vec<String>> {
        mend(fleet, folder, caller, &self.wanted)
    }
}

/// Holds the files of checkpoints against what a check found in the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompareFiles {
    pub found: Vec<Verification>,
}

impl StoreJob for CompareFiles {
    const NAME: &'static str = "compare_files";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    type Outcome = Vec<Verification>;

    fn run(&self, _: &mut Fleet, folder: &Path, _: &Caller) -> Result<Vec<Verification>> {
        let mut found = self.found.clone();
        for verification in &mut found {
            let Some(expected) = &verification.file_sha256 else {
                continue;
            };
            let name = name_of(verification.mission_id, verification.id);
            let node = verification.file_node.as_deref();
            let problem = trouble(folder, &name, expected, node);
            verification.sound &= problem.is_none();
            verification.problem = verification.problem.take().or(problem);
        }
        Ok(found)
    }
}
