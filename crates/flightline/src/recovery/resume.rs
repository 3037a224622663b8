//! Resumes a mission: forwards by default, or back to exactly the state of a checkpoint.

use crate::Schema;
use std::collections::BTreeSet;

use flightline_core::agent::Agent;
use flightline_core::checkpoint::{Checkpoint, CheckpointStatus, Reason};
use flightline_core::event::EventType;
use flightline_core::file_system::TreeNow;
use flightline_core::lock::Lock;
use flightline_core::mission::{Mission, MissionStatus};
use flightline_core::recovery::{AnalysedAt, Analysis, RecoveryContext};
use flightline_core::setting::{Recovery, RecoveryKind};
use flightline_core::{
    AgentId, CheckpointId, Code, MissionId, Name, RecoveryId, Refusal, SortieId,
};
use flightline_store::Actor;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::aftermath::{DoubtfulEffect, changed_since, in_doubt, what_is_left};
use super::claims::compare;
use super::dispatch::take_dispatch;
use super::locks::{regrant, release_locks};
use super::options::{Choices, Chosen};
use super::requeue::{requeue_mail, requeue_sorties};
use super::rewind::rewind;
use super::start::{SessionStart, start_from};
use super::{AgentVerdict, PassedOver, locked_verdicts, newest_sound};
use crate::agent::Sighting;
use crate::agent::session::end_session;
use crate::checkpoint::mend::heal;
use crate::checkpoint::recovery_context::context;
use crate::checkpoint::take::NewCheckpoint;
use crate::checkpoint::trigger::try_take;
use crate::checkpoint::{Contents, find, load, refuse_newer};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, to_json};
use crate::mail::deadline::notice_overdue;
use crate::mission::{save_transition, short};
use crate::op_context::OpContext;
use crate::status::Attention;

/// Resumes a mission, or goes back to a checkpoint of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
pub struct Resume {
    /// The mission to resume; the current one when none is named.
    pub mission: Option<String>,
    /// Go back to exactly this checkpoint; without one, everything acknowledged since stays.
    pub checkpoint: Option<String>,
    /// Roll back finished work even of agents that are alive.
    pub force: bool,
    /// Reopen a mission that has failed or was completed.
    #[serde(default)]
    pub reopen: bool,
    /// Continue without failed work.
    #[serde(default)]
    pub skip_failed: bool,
    /// Set the workflow back to this state.
    #[serde(default)]
    pub reset_to: Option<Name>,
    /// Observations of agents' processes.
    pub sightings: Vec<Sighting>,
    /// The work tree as the caller sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeNow>,
}

/// The outcome of a resume.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct Resumed {
    /// The record of this recovery.
    pub recovery_id: RecoveryId,
    /// The mission that was resumed.
    pub mission_id: MissionId,
    /// The title of the mission.
    pub mission_title: String,
    /// The checkpoint from which the mission was resumed.
    pub checkpoint_id: CheckpointId,
    /// True when the mission went back to that checkpoint.
    pub rewound: bool,
    /// Progress of the mission now, in percent.
    pub progress_percent: u8,
    /// The number of completed sorties.
    pub completed: u64,
    /// The number of sorties.
    pub total: u64,
    /// The last action, the next steps and the blockers.
    pub recovery_context: RecoveryContext,
    /// Numbers of the restored sorties, locks and messages.
    pub restored: RestoredCounts,
    /// Sorties that were taken back from agents that are gone, and are free to be claimed.
    pub requeued_sorties: Vec<String>,
    /// Locks of agents that are gone; they were released.
    pub released_locks: Vec<String>,
    /// Work that the rewind took away.
    pub lost: Vec<String>,
    /// The effects that were begun and never reported done, by agents that are gone.
    #[serde(default)]
    pub in_doubt: Vec<DoubtfulEffect>,
    /// The remaining actions, each with its command.
    #[serde(default)]
    pub next: Vec<Attention>,
    /// Warnings, such as about a damaged checkpoint that was passed over.
    pub warnings: Vec<String>,
    /// The blockers that need a decision.
    #[serde(default)]
    pub errors: Vec<String>,
    /// Agents whose work failed and was left out, as seed D names them.
    #[serde(default)]
    pub skipped_agents: Vec<String>,
    /// The sorties that were left out.
    #[serde(default)]
    pub skipped_sorties: Vec<SortieId>,
    /// The state the workflow is in now; none when the mission has no workflow.
    #[serde(default)]
    pub restored_state: Option<String>,
    /// The analysis of the mission as it was found: whether it could be resumed, from where, and the blockers.
    #[serde(default)]
    pub analysis: Option<Analysis>,
    /// The checkpoint of the state before, for `fleet undo`.
    pub before: Option<CheckpointId>,
    /// The start of the session, when the checkpoint is of a full context or of a session that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started: Option<SessionStart>,
}

/// Numbers of changes that a recovery made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct RestoredCounts {
    /// Number of sorties that are not as they were found: set back, free to be claimed, or left out.
    pub sorties: u64,
    /// Number of locks that were granted anew.
    pub locks: u64,
    /// Number of messages that were delivered and come again.
    pub messages: u64,
}

impl Operation for Resume {
    const NAME: &'static str = "resume";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = Resumed;

    fn asked(&self) -> Result<String> {
        to_json(&Self {
            sightings: Vec::new(),
            tree: None,
            ..self.clone()
        })
    }

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Resumed> {
        notice_overdue(ctx)?;
        let since = ctx.tx.rev();
        let (mission, checkpoint, mut warnings) = self.choose(ctx)?;
        self.refuse_ended(&mission)?;
        if !mission.status.is_open() {
            warnings.push(format!(
                "{} (\"{}\") is {}: resuming reopens it",
                short(mission.id),
                mission.title,
                mission.status.as_str()
            ));
        }
        let contents = load(ctx, &checkpoint)?;
        warnings.extend(heal(ctx)?);
        let verdicts = locked_verdicts(ctx, &self.sightings)?;
        let found = context(ctx, &mission, Vec::new())?;
        let rewinding = self.checkpoint.is_some();
        let (mut mission, before, lost) = if rewinding {
            let rewound = rewind(ctx, &mission, &checkpoint, &contents, &verdicts, self.force)?;
            warnings.extend(rewound.warnings);
            (rewound.mission, Some(rewound.before), rewound.lost)
        } else {
            (mission, None, Vec::new())
        };
        let choices = Choices {
            skip_failed: self.skip_failed,
            reset_to: self.reset_to.clone(),
        };
        let (at, of) = (short(checkpoint.id), short(mission.id));
        let when = match (rewinding, &self.mission) {
            (true, _) => AnalysedAt::At(&at),
            (false, Some(_)) => AnalysedAt::NowOf(&of),
            (false, None) => AnalysedAt::Now,
        };
        let chosen = choices.apply(ctx, &mut mission, when)?;
        // A caller that goes back to a checkpoint has looked at it; a session that finds one has to.
        let mut started = None;
        if !rewinding {
            let agent = going_on(ctx, &checkpoint, &verdicts);
            started = start_from(ctx, &mission, (&checkpoint, &contents), agent)?;
            warnings.extend(started.as_ref().and_then(SessionStart::warning));
        }
        let resumed = settle(
            ctx,
            RecoveryFinish {
                mission,
                checkpoint,
                contents,
                verdicts,
                before,
                lost,
                warnings,
                found,
                chosen,
                tree: self.tree.clone(),
                since,
            },
        )?;
        Ok(Resumed { started, ..resumed })
    }
}

/// The agent that goes on from a checkpoint: the one whose context it was taken for, unless that is gone; the caller,
/// where it was taken for no agent's context.
fn going_on(
    ctx: &OpContext<'_, '_>,
    checkpoint: &Checkpoint,
    verdicts: &[AgentVerdict],
) -> Option<Agent> {
    let Some(of) = &checkpoint.cut.agent_context else {
        return ctx.agent.clone();
    };
    let verdict = verdicts
        .iter()
        .find(|verdict| verdict.agent.id == of.agent_id)?;
    (!verdict.is_gone()).then(|| verdict.agent.clone())
}

impl Resume {
    /// A mission was ended on purpose: taking it up again has to be said, and of a completed one, from where.
    fn refuse_ended(&self, mission: &Mission) -> Result<()> {
        let (rewinding, status) = (self.checkpoint.is_some(), mission.status);
        let is_allowed = match status {
            MissionStatus::Pending | MissionStatus::InProgress | MissionStatus::Paused => true,
            MissionStatus::Failed => self.reopen,
            MissionStatus::Completed => self.reopen && rewinding,
            MissionStatus::Archived => false,
        };
        if is_allowed {
            return Ok(());
        }
        let (id, word) = (short(mission.id), status.as_str());
        let why = match &mission.reason {
            Some(reason) => format!("it is {word} ({reason})"),
            None => format!("it is {word}"),
        };
        let may_be_reopened = status == MissionStatus::Failed || rewinding;
        let code = match status {
            MissionStatus::Archived => Code::IllegalTransition,
            _ if may_be_reopened => Code::ConfirmationNeeded,
            _ => Code::IllegalTransition,
        };
        let refusal = Refusal::new(
            code,
            format!("cannot resume {id} (\"{}\"): {why}", mission.title),
        );
        let hint = match (status, &self.checkpoint) {
            (MissionStatus::Archived, _) => return Err(refusal.into()),
            (MissionStatus::Completed, None) => format!(
                "to work on it again, go back to one of its checkpoints: `fleet checkpoints list --mission {id}`, then `fleet resume --checkpoint ID`"
            ),
            (_, Some(checkpoint)) => {
                format!("to resume it: `fleet resume --checkpoint {checkpoint} -y`")
            }
            (_, None) => format!("to resume it: `fleet resume --mission {id} -y`"),
        };
        Err(refusal.hint(hint).into())
    }

    fn choose(&self, ctx: &mut OpContext<'_, '_>) -> Result<(Mission, Checkpoint, Vec<String>)> {
        if let Some(reference) = &self.checkpoint {
            let checkpoint = find(ctx, reference)?;
            let mission = ctx.mission_of(checkpoint.cut.mission_id)?;
            return Ok((mission, checkpoint, Vec::new()));
        }
        let mission = ctx.mission(self.mission.as_deref())?;
        let (checkpoint, passed) = newest_sound(ctx, &mission)?;
        let warnings: Vec<String> = passed.iter().map(|passed| passed.why.clone()).collect();
        if checkpoint.is_some() {
            quarantine(ctx, passed)?;
        }
        match checkpoint {
            Some(checkpoint) => Ok((mission, checkpoint, warnings)),
            None => {
                let why = if warnings.is_empty() {
                    "it has no checkpoint".to_owned()
                } else {
                    warnings.join("; ")
                };
                Err(Refusal::new(
                    if warnings.is_empty() {
                        Code::NotFound
                    } else {
                        Code::Integrity
                    },
                    format!(
                        "cannot resume {} (\"{}\"): {why}",
                        short(mission.id),
                        mission.title
                    ),
                )
                .hint("take one with `fleet checkpoint`; until then see `fleet status`")
                .into())
            }
        }
    }
}

/// Marks what failed its verification: kept, and counted for nothing any more.
fn quarantine(ctx: &mut OpContext<'_, '_>, passed: Vec<PassedOver>) -> Result<()> {
    for PassedOver {
        checkpoint, why, ..
    } in passed
    {
        let Some(mut checkpoint) = checkpoint else {
            continue;
        };
        if checkpoint.status != CheckpointStatus::Corrupted && refuse_newer(&checkpoint).is_ok() {
            checkpoint.status = CheckpointStatus::Corrupted;
            let data = json!({ "checkpoint_id": checkpoint.id, "problem": why });
            ctx.tx
                .set(EventType::CheckpointCorrupted, &checkpoint, &data)?;
        }
    }
    Ok(())
}

/// The input to the second half of a recovery.
pub(super) struct RecoveryFinish {
    pub(super) mission: Mission,
    pub(super) checkpoint: Checkpoint,
    pub(super) contents: Contents,
    pub(super) verdicts: Vec<AgentVerdict>,
    pub(super) before: Option<CheckpointId>,
    pub(super) lost: Vec<String>,
    pub(super) warnings: Vec<String>,
    /// The recovery context before anything was changed.
    pub(super) found: RecoveryContext,
    /// The result of the caller's decisions.
    pub(super) chosen: Chosen,
    /// The work tree as the caller sees it.
    pub(super) tree: Option<TreeNow>,
    /// The last revision before it began.
    pub(super) since: u64,
}

/// Frees what dead agents held, gives the others their locks and mail back, and records it all.
pub(super) fn settle(ctx: &mut OpContext<'_, '_>, settling: RecoveryFinish) -> Result<Resumed> {
    let RecoveryFinish {
        mut mission,
        checkpoint,
        contents,
        verdicts,
        before,
        lost,
        mut warnings,
        found,
        chosen,
        tree,
        since,
    } = settling;
    warnings.extend(chosen.warnings);
    // The following is housekeeping, no activity of an agent.
    let who = ctx.tx.actor().clone();
    ctx.tx.act_as(Actor::flightline());
    let mut taken_from = BTreeSet::new();
    let kind = match before {
        Some(_) => RecoveryKind::Rewind,
        None => RecoveryKind::RollForward,
    };
    let then: Vec<Lock> = contents.of()?;
    // Rolling forward, work given up since the checkpoint stays given up.
    let gone_back_to = match kind {
        RecoveryKind::Rewind => then.as_slice(),
        RecoveryKind::RollForward => &[],
    };
    let requeued_sorties =
        requeue_sorties(ctx, &mission, &verdicts, gone_back_to, &mut taken_from)?;
    let released_locks = release_locks(ctx, &verdicts, &mut taken_from)?;
    let (_, mut blockers) = regrant(ctx, mission.id, then, &verdicts, kind)?;
    requeue_mail(ctx, &mission, &verdicts)?;
    taken_from.extend(take_dispatch(ctx, &mut mission, &verdicts)?);
    fence(ctx, &verdicts, &taken_from)?;
    if matches!(
        mission.status,
        MissionStatus::Paused | MissionStatus::Failed
    ) {
        mission.status = MissionStatus::InProgress;
        mission.completed_at = None;
        mission.updated_at = ctx.now();
        ctx.tx.set(
            EventType::MissionStarted,
            &mission,
            &json!({ "reason": "resumed" }),
        )?;
    }
    let progress = ctx.progress(mission.id)?;
    let mut context = context(ctx, &mission, Vec::new())?;
    context.blockers.append(&mut blockers);
    // A rewound mission is where the checkpoint was: later changes are reported as lost.
    let then = match kind {
        RecoveryKind::Rewind => checkpoint.cut.recovery_context.clone(),
        RecoveryKind::RollForward => found,
    };
    context.last_action = then.last_action;
    context.last_activity_at = then.last_activity_at;
    let (work_tree, damaged) = compare(ctx, &mission, Some(checkpoint.id), tree.as_ref())?;
    context.work_tree = work_tree;
    warnings.extend(damaged);
    ctx.tx.act_as(who);
    if chosen.moved {
        save_transition(ctx, &mission)?;
    }
    let restored_state = mission.workflow.current.as_ref().map(ToString::to_string);
    let restored = changed_since(ctx, since)?;
    let in_doubt = in_doubt(ctx, &mission, &verdicts)?;
    let next = what_is_left(ctx, &mission, &verdicts, &in_doubt, before.is_some())?;
    let recovery = Recovery {
        id: RecoveryId::new(ctx.tx.uuid()),
        mission_id: mission.id,
        kind,
        checkpoint_id: checkpoint.id,
        cut_rev: checkpoint.cut.rev,
        before,
        by: ctx.actor(),
        at: ctx.now(),
        undone_at: None,
        skipped: chosen.sorties.clone(),
        reset_to: chosen.reset_to,
        gone: gone_from(&mission, &verdicts, &taken_from),
        lost: lost.iter().take(Recovery::MOST_LOST).cloned().collect(),
    };
    let mut data = json!({
        "checkpoint_id": checkpoint.id,
        "mission_id": mission.id,
        "recovered_sorties": restored.sorties,
        "recovered_locks": restored.locks,
        "requeued_messages": restored.messages,
        "recovery_duration_ms": ctx.tx.elapsed_ms(),
    });
    if !chosen.agents.is_empty() {
        data["skipped_agents"] = json!(chosen.agents);
    }
    if recovery.reset_to.is_some() {
        data["restored_state"] = json!(restored_state);
    }
    if before.is_some() {
        // Should the store be lost, the newest file of a checkpoint counts: it must not be of the abandoned state.
        let taking = NewCheckpoint {
            mission: &mission,
            reason: Reason::AfterRestore,
            details: Some(format!("After going back to {}", short(checkpoint.id))),
            note: None,
            blockers: Vec::new(),
        };
        if let Err(why) = try_take(ctx, &taking)? {
            warnings.push(format!(
                "no checkpoint could be taken of its current state: {why}"
            ));
        }
    }
    ctx.tx.set(EventType::FleetRecovered, &recovery, &data)?;
    warnings.extend(heal(ctx)?);
    Ok(Resumed {
        recovery_id: recovery.id,
        mission_id: mission.id,
        mission_title: mission.title.to_string(),
        checkpoint_id: checkpoint.id,
        rewound: before.is_some(),
        progress_percent: progress.percent(),
        completed: progress.completed,
        total: progress.total,
        recovery_context: context,
        restored,
        requeued_sorties,
        released_locks,
        lost,
        in_doubt,
        next,
        warnings,
        errors: chosen.still_in_the_way,
        skipped_agents: chosen.agents,
        skipped_sorties: chosen.sorties,
        restored_state,
        analysis: chosen.analysis,
        before,
        started: None,
    })
}

/// The agents whose absence this recovery has dealt with: those from whom something was taken, and the mission's
/// coordinator if it is gone.
fn gone_from(
    mission: &Mission,
    verdicts: &[AgentVerdict],
    taken_from: &BTreeSet<AgentId>,
) -> Vec<AgentId> {
    let dealt_with = |verdict: &&AgentVerdict| {
        verdict.is_gone()
            && (taken_from.contains(&verdict.agent.id)
                || mission.dispatch == Some(verdict.agent.id))
    };
    let gone = verdicts.iter().filter(dealt_with);
    gone.map(|verdict| verdict.agent.id).collect()
}

/// Agents from whom something was taken are fenced: should one wake after all, its old epoch is refused.
fn fence(
    ctx: &mut OpContext<'_, '_>,
    verdicts: &[AgentVerdict],
    taken_from: &BTreeSet<AgentId>,
) -> Result<()> {
    for verdict in verdicts
        .iter()
        .filter(|verdict| taken_from.contains(&verdict.agent.id) && verdict.agent.epoch > 0)
    {
        let mut agent = verdict.agent.clone();
        end_session(ctx.tx, &mut agent)?;
        let data = json!({ "reason": verdict.liveness.evidence, "epoch": agent.epoch });
        ctx.tx.set(EventType::AgentSessionEnded, &agent, &data)?;
    }
    Ok(())
}
