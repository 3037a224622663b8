//! Reports about files, compared with the work tree. The tree is looked at before, where the caller is, and comes in
//! with the request.

use crate::Schema;
use std::collections::BTreeSet;

use flightline_core::agent::Agent;
use flightline_core::file_system::{Claim, ReportedFile, TreeCheck, TreeNow, check};
use flightline_core::mission::Mission;
use flightline_core::note::Note;
use flightline_core::sortie::{FileChange, Sortie, SortieFile};
use flightline_core::{CheckpointId, RepoPath};
use flightline_store::Find;
use serde::{Deserialize, Serialize};

use crate::checkpoint::{find, newest_first, readable, tree};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Caller, Fleet, Operation, Scope};
use crate::op_context::OpContext;

/// Lists the files that reports of a mission name, or that were recorded with its checkpoint.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ListClaims {
    /// The mission whose files are listed; the current one when none is named.
    pub mission: Option<String>,
    /// The checkpoint with which files were recorded; the newest when none is named.
    pub checkpoint: Option<String>,
}

impl Operation for ListClaims {
    const NAME: &'static str = "list_claims";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<RepoPath>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<RepoPath>> {
        let (mission, checkpoint) = match &self.checkpoint {
            Some(reference) => {
                let checkpoint = find(ctx, reference)?;
                let mission = checkpoint.cut.mission_id.to_string();
                (ctx.mission(Some(&mission))?, Some(checkpoint.id))
            }
            None => {
                let mission = ctx.mission(self.mission.as_deref())?;
                let newest = newest_first(ctx, &mission)?;
                (mission, newest.first().map(|newest| newest.id))
            }
        };
        // The newest reports come first: should there be too many, those are looked at.
        let mut paths: Vec<RepoPath> = Vec::new();
        let mut claims = claims(ctx, &mission)?;
        claims.sort_by_key(|claim| std::cmp::Reverse(claim.at));
        paths.extend(claims.into_iter().map(|claim| claim.path));
        if let Some(id) = checkpoint
            && let Ok(Some(recorded)) = tree::recorded(ctx, id)?
        {
            let seen = recorded.file_system.seen().map(|file| file.path.clone());
            paths.extend(seen);
            paths.extend(recorded.file_system.deleted_files);
        }
        let mut told = BTreeSet::new();
        paths.retain(|path| told.insert(path.clone()));
        Ok(paths)
    }
}

/// Looks at the files that reports name. None when there is no work tree, or the reports cannot be read: the operation
/// that needs them says why.
pub fn look(fleet: &mut Fleet, caller: &Caller, claims: &ListClaims) -> Option<TreeNow> {
    let tree = fleet.work_tree()?.clone();
    let named = fleet.run(claims, caller);
    // Damage noticed here is reported by the operation that reads it next.
    fleet.take_noticed();
    Some(tree.glance(&named.ok()?))
}

/// Returns the claims of sorties, agents and notes about files.
fn claims(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<Vec<Claim>> {
    let find = Find::Mission(mission.id);
    let (files, _) = readable::<SortieFile>(ctx.tx, find)?;
    let mut claims: Vec<Claim> = files
        .into_iter()
        .map(|file| Claim {
            path: file.path,
            said: match file.change {
                FileChange::Created | FileChange::Modified => ReportedFile::There,
                FileChange::Deleted => ReportedFile::Gone,
            },
            at: Some(file.at),
            checksum: None,
        })
        .collect();
    // Only agents that named files are looked at, and of sorties only theirs.
    let (agents, _) = readable::<Agent>(ctx.tx, Find::All)?;
    for agent in agents.iter().filter(|it| !it.files_modified.is_empty()) {
        let (sorties, _) = readable::<Sortie>(ctx.tx, Find::Agent(agent.id))?;
        let is_held = |sortie: &Sortie| sortie.mission_id == mission.id && sortie.status.is_held();
        if !sorties.iter().any(is_held) {
            continue;
        }
        claims.extend(agent.files_modified.iter().map(|path| Claim {
            path: path.clone(),
            said: ReportedFile::There,
            at: None,
            checksum: None,
        }));
    }
    let (notes, _) = readable::<Note>(ctx.tx, find)?;
    claims.extend(notes.into_iter().filter(Note::holds).filter_map(|note| {
        Some(Claim {
            path: note.path?,
            said: ReportedFile::There,
            at: Some(note.at),
            checksum: Some(note.checksum?),
        })
    }));
    Ok(claims)
}

/// Compares the reports in a mission, and the record of a checkpoint, with the work tree. Also returns a warning
/// when the record is damaged.
pub(crate) fn compare(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    checkpoint: Option<CheckpointId>,
    now: Option<&TreeNow>,
) -> Result<(Option<TreeCheck>, Option<String>)> {
    let Some(now) = now else {
        return Ok((None, None));
    };
    let recorded = match checkpoint {
        Some(id) => tree::recorded(ctx, id)?,
        None => Ok(None),
    };
    let (recorded, damaged) = match recorded {
        Ok(recorded) => (recorded, None),
        Err(why) => (None, Some(why)),
    };
    let checked = check(&claims(ctx, mission)?, recorded.as_ref(), now);
    Ok((Some(checked).filter(TreeCheck::is_telling), damaged))
}
