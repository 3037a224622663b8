//! What is done where the store is, with the files beside it: one after the other, each in transactions of
//! its own. Where the store is elsewhere, it is asked for there, by name.

use std::path::Path;

use flightline_core::CheckpointId;
use serde::{Deserialize, Serialize};

use crate::checkpoint::backups::settle_and_tell;
use crate::checkpoint::daily::daily;
use crate::checkpoint::due::take_due;
use crate::checkpoint::files::{name_of, trouble};
use crate::checkpoint::inspect::Verification;
use crate::checkpoint::leftovers::clear;
use crate::checkpoint::mend::Wanted;
use crate::checkpoint::prune::Space;
use crate::checkpoint::serve::mend;
use crate::error::Result;
use crate::fleet::{Access, Caller, Errand, Fleet, Scope};
use crate::mail::relay::relay;

/// Takes the checkpoints that time has made due.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TakeDue {
    /// Those that heartbeats make due.
    pub heartbeat: bool,
}

impl Errand for TakeDue {
    const NAME: &'static str = "take_due";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    type Outcome = Vec<CheckpointId>;

    fn carry_out(&self, fleet: &mut Fleet, _: &Path, caller: &Caller) -> Result<Self::Outcome> {
        take_due(fleet, caller, self.heartbeat)
    }
}

/// Writes the files of checkpoints that have none yet, and says what people should know of them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettleBackups {}

impl Errand for SettleBackups {
    const NAME: &'static str = "settle_backups";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    type Outcome = Vec<(CheckpointId, String)>;

    fn carry_out(
        &self,
        fleet: &mut Fleet,
        folder: &Path,
        caller: &Caller,
    ) -> Result<Self::Outcome> {
        settle_and_tell(fleet, folder, caller)
    }
}

/// Applies retention when it was not applied for a day, and removes the files of what went.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PruneDaily {}

impl Errand for PruneDaily {
    const NAME: &'static str = "prune_daily";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    type Outcome = ();

    fn carry_out(&self, fleet: &mut Fleet, folder: &Path, caller: &Caller) -> Result<()> {
        if daily(fleet, caller)?.is_empty() {
            return Ok(());
        }
        clear(fleet, folder)
    }
}

/// Removes the files of checkpoints that are gone.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClearFiles {}

impl Errand for ClearFiles {
    const NAME: &'static str = "clear_files";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    type Outcome = ();

    fn carry_out(&self, fleet: &mut Fleet, folder: &Path, _: &Caller) -> Result<()> {
        clear(fleet, folder)
    }
}

/// Gives free space of the store back, when it is worth it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GiveBack {
    /// So many bytes are known to be free.
    pub loose: u64,
    /// A store with more than so many bytes in use is left alone.
    pub most: u64,
}

impl Errand for GiveBack {
    const NAME: &'static str = "give_back";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    type Outcome = Space;

    fn carry_out(&self, fleet: &mut Fleet, _: &Path, _: &Caller) -> Result<Space> {
        Ok(Space::give_back(fleet, self.loose, self.most))
    }
}

/// Tells those who coordinate what became of checkpoints.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TellDispatch {}

impl Errand for TellDispatch {
    const NAME: &'static str = "tell_dispatch";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    type Outcome = ();

    fn carry_out(&self, fleet: &mut Fleet, _: &Path, caller: &Caller) -> Result<()> {
        relay(fleet, caller)
    }
}

/// Mends checkpoints in the store from their files, and says what was done.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MendFromFiles {
    /// Which.
    pub wanted: Wanted,
}

impl Errand for MendFromFiles {
    const NAME: &'static str = "mend_from_files";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    type Outcome = Vec<String>;

    fn carry_out(&self, fleet: &mut Fleet, folder: &Path, caller: &Caller) -> Result<Vec<String>> {
        mend(fleet, folder, caller, &self.wanted)
    }
}

/// Holds the files of checkpoints against what a check found in the store.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CompareFiles {
    /// What it found.
    pub found: Vec<Verification>,
}

impl Errand for CompareFiles {
    const NAME: &'static str = "compare_files";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    type Outcome = Vec<Verification>;

    fn carry_out(&self, _: &mut Fleet, folder: &Path, _: &Caller) -> Result<Vec<Verification>> {
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
