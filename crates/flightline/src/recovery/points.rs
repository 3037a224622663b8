//! Lists the checkpoints to which a mission can go back, and whether work can go on from each.

use crate::Schema;
use flightline_core::agent::Agent;
use flightline_core::checkpoint::{Checkpoint, CheckpointStatus};
use flightline_core::mission::Mission;
use flightline_core::recovery::analysis::analyze;
use flightline_core::recovery::{AnalysedAt, Analysis, Analyzed};
use flightline_core::sortie::Sortie;
use flightline_core::{CheckpointId, Kind, MissionId, Time};
use flightline_store::{Find, StoreError, SubjectRow};
use serde::{Deserialize, Serialize};

use crate::checkpoint::inspect::unreadable;
use crate::checkpoint::{Contents, load};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mission::short;
use crate::op_context::OpContext;

/// Lists the checkpoints of a mission to which it can go back, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ListRecoveryPoints {
    /// The mission whose checkpoints are listed; the current one when none is named.
    pub mission: Option<String>,
    /// Maximum number of entries.
    pub limit: u64,
}

/// The checkpoints to which a mission can go back.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct RecoveryPoints {
    /// The mission whose checkpoints they are.
    pub mission_id: MissionId,
    /// The checkpoints, newest first.
    pub points: Vec<RecoveryPoint>,
    /// Number of checkpoints in all, beyond the limit too.
    pub total: u64,
}

/// A checkpoint to go back to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct RecoveryPoint {
    /// The checkpoint's id.
    pub id: CheckpointId,
    /// The time at which the checkpoint was taken.
    pub timestamp: Time,
    /// The class of the reason: `progress`, `error`, `manual` or `compaction`.
    pub trigger: String,
    /// The exact reason for the checkpoint; none when its record cannot be read.
    pub reason: Option<String>,
    /// Further details of the reason.
    pub trigger_details: Option<String>,
    /// The state of the workflow at that moment.
    pub state: Option<String>,
    /// Progress of the mission at that moment, in percent; none when the record cannot be read.
    pub progress_percent: Option<u8>,
    /// True when every hash matches.
    pub sound: bool,
    /// True when work can continue from the checkpoint without a decision.
    pub can_resume: bool,
    /// The agent whose work was under way.
    pub resume_from_agent: Option<String>,
    /// The blockers of a resume from this checkpoint.
    pub blockers: Vec<String>,
    /// Suggestions for removing the blockers.
    pub suggestions: Vec<String>,
}

impl Operation for ListRecoveryPoints {
    const NAME: &'static str = "list_recovery_points";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = RecoveryPoints;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<RecoveryPoints> {
        let mission = ctx.mission(self.mission.as_deref())?;
        let mut rows = ctx.tx.rows(Kind::Checkpoint, Find::Mission(mission.id))?;
        rows.retain(|row| row.status != CheckpointStatus::Archived.as_str());
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let newest = rows.iter().rev().take(limit);
        Ok(RecoveryPoints {
            mission_id: mission.id,
            points: newest.map(|row| point(ctx, row)).collect::<Result<_>>()?,
            total: rows.len() as u64,
        })
    }
}

fn point(ctx: &mut OpContext<'_, '_>, row: &SubjectRow) -> Result<RecoveryPoint> {
    let id: CheckpointId = row.typed_id()?;
    let damaged = |why: String| Analysis {
        can_resume: false,
        resume_from_agent: None,
        resume_from_state: None,
        blockers: vec![why],
        suggestions: vec![
            format!("look closer: `fleet checkpoints verify {}`", short(id)),
            "repair it from its copy: `fleet doctor --fix`".to_owned(),
        ],
    };
    // A damaged checkpoint hides no other.
    let checkpoint = match ctx.tx.get::<Checkpoint>(&row.id) {
        Ok(checkpoint) => checkpoint,
        Err(StoreError::Corrupt(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let (sound, analysis) = match &checkpoint {
        None => (false, damaged(unreadable(&row.id))),
        Some(checkpoint) => match analysis_of(ctx, checkpoint) {
            Ok(analysis) => (true, analysis),
            Err(error) if error.is_damage() => (false, damaged(error.into_refusal().message)),
            Err(error) => return Err(error),
        },
    };
    let cut = checkpoint.map(|checkpoint| checkpoint.cut);
    Ok(RecoveryPoint {
        id,
        timestamp: cut.as_ref().map_or(row.at, |cut| cut.timestamp),
        trigger: row.name.clone().unwrap_or_default(),
        reason: cut.as_ref().map(|cut| cut.reason.as_str().to_owned()),
        progress_percent: cut.as_ref().map(|cut| cut.progress_percent),
        trigger_details: cut.and_then(|cut| cut.trigger_details),
        state: analysis.resume_from_state,
        sound,
        can_resume: analysis.can_resume,
        resume_from_agent: analysis.resume_from_agent,
        blockers: analysis.blockers,
        suggestions: analysis.suggestions,
    })
}

/// Analyses whether work can continue from a checkpoint.
fn analysis_of(ctx: &mut OpContext<'_, '_>, checkpoint: &Checkpoint) -> Result<Analysis> {
    let contents = load(ctx, checkpoint)?;
    Ok(analysis(ctx, checkpoint, &contents)?.unwrap_or(Analysis {
        can_resume: false,
        resume_from_agent: None,
        resume_from_state: None,
        blockers: vec![format!(
            "{} does not hold its mission",
            short(checkpoint.id)
        )],
        suggestions: Vec::new(),
    }))
}

/// The analysis of values that were read already; none when the mission itself is not in it.
pub(crate) fn analysis(
    ctx: &OpContext<'_, '_>,
    checkpoint: &Checkpoint,
    contents: &Contents,
) -> Result<Option<Analysis>> {
    let sorties = contents.shared::<Sortie>()?;
    let mut sorties: Vec<&Sortie> = sorties.iter().map(AsRef::as_ref).collect();
    sorties.sort_by_key(|sortie| sortie.position);
    let (agents, mission) = (contents.shared::<Agent>()?, contents.shared::<Mission>()?);
    let agents: Vec<&Agent> = agents.iter().map(AsRef::as_ref).collect();
    let id = short(checkpoint.id);
    Ok(mission.first().map(|mission| {
        analyze(&Analyzed {
            mission,
            sorties: &sorties,
            agents: &agents,
            when: AnalysedAt::At(&id),
            retry_limit: ctx.policy.retry_limit,
        })
    }))
}
