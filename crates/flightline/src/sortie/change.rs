//! Moves a sortie from one status to another.

mod check;

use crate::Schema;
use flightline_core::checkpoint::Reason;
use flightline_core::event::EventType;
use flightline_core::sortie::{Approval, Sortie, SortieStatus, Subtask, SubtaskStatus, Verdict};
use flightline_core::text::NoteText;
use flightline_core::{Code, JsonData, Refusal, Subject};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::check::refuse_unresumable;
use super::claim::refuse_waiting;
use super::recovered::{Locking, taken_up};
use super::{ResumePoint, SortieView, view};
use crate::agent::context::synced_by;
use crate::checkpoint::milestone::{catch_up, milestones};
use crate::checkpoint::take::take_asked;
use crate::checkpoint::trigger::{error as trigger_error, first_of};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, WhenFull};
use crate::lock::release::Locks;
use crate::mail::progress::post_progress;
use crate::mission::{begin_if_pending, short};
use crate::op_context::OpContext;

pub(crate) use self::check::{check_move, check_owner, refuse_open_errors};

/// Changes the status or the owner of a sortie.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ChangeSortie {
    /// The sortie to change.
    pub sortie: String,
    /// The change to make.
    pub action: SortieAction,
    /// Keep the sortie's locks when it is completed, failed, cancelled, released or given to another agent.
    #[serde(default)]
    pub keep_locks: bool,
    /// Take a checkpoint of the mission in the same commit.
    #[serde(default)]
    pub checkpoint: bool,
}

/// The change of status or owner to make.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
#[serde(deny_unknown_fields)]
pub enum SortieAction {
    /// Give the sortie to an agent.
    Assign {
        /// The agent that gets the sortie.
        to: String,
    },
    /// Take the sortie from its owner and give it to another agent.
    Reassign {
        /// The agent that gets the sortie.
        to: String,
        /// The reason for the change of owner.
        reason: Option<NoteText>,
    },
    /// Begin the work on an assigned sortie.
    Start,
    /// Mark the sortie as blocked: it waits for something.
    Block {
        /// The reason for the block.
        reason: NoteText,
    },
    /// End the block, because the wait is over.
    Unblock,
    /// Resume the sortie after an interruption.
    Resume,
    /// Mark the sortie as completed.
    Complete {
        /// The result of the work.
        output: Option<JsonData>,
    },
    /// Mark the sortie as failed: the work is not done, and given up.
    Fail {
        /// The reason for the failure.
        reason: NoteText,
    },
    /// Leave the sortie out: the mission goes on without it.
    Cancel {
        /// The reason for the cancellation.
        reason: Option<NoteText>,
    },
    /// Release the sortie, so that any agent can claim it.
    Release {
        /// The reason for the release.
        reason: Option<NoteText>,
    },
    /// Approve the result of a completed sortie.
    Approve {
        /// The reason for the approval.
        reason: Option<NoteText>,
    },
    /// Reject the result of a completed sortie: the work is to be done again.
    Reject {
        /// The reason for the rejection.
        reason: NoteText,
    },
}

impl Operation for ChangeSortie {
    const NAME: &'static str = "change_sortie";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const WHEN_FULL: WhenFull = WhenFull::UsesReserve;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = SortieView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<SortieView> {
        let sortie = ctx.sortie(&self.sortie)?;
        let mission = sortie.mission_id;
        let locks = match self.keep_locks {
            true => Locks::Stay,
            false => Locks::Go,
        };
        let view = match &self.action {
            SortieAction::Assign { to } => give(ctx, sortie, to, None, Giving::Free, locks),
            SortieAction::Reassign { to, reason } => {
                give(ctx, sortie, to, reason.as_ref(), Giving::Taken, locks)
            }
            SortieAction::Start => start(ctx, sortie),
            SortieAction::Block { reason } => block(ctx, sortie, reason),
            SortieAction::Unblock => unblock(ctx, sortie),
            SortieAction::Resume => resume(ctx, sortie),
            SortieAction::Complete { output } => complete(ctx, sortie, output.as_ref(), locks),
            SortieAction::Fail { reason } => fail(ctx, sortie, reason, locks),
            SortieAction::Cancel { reason } => cancel(ctx, sortie, reason.as_ref(), locks),
            SortieAction::Release { reason } => release(ctx, sortie, reason.as_ref(), locks),
            SortieAction::Approve { reason } => {
                judge(ctx, sortie, Verdict::Approved, reason.as_ref())
            }
            SortieAction::Reject { reason } => judge(ctx, sortie, Verdict::Rejected, Some(reason)),
        }?;
        catch_up(ctx, mission)?;
        if !self.checkpoint || view.checkpoint.is_some() {
            return Ok(view);
        }
        let mission = ctx.mission_of(mission)?;
        Ok(SortieView {
            checkpoint: Some(take_asked(ctx, &mission)?.id),
            ..view
        })
    }
}

enum Giving {
    Free,
    Taken,
}

fn give(
    ctx: &mut OpContext<'_, '_>,
    mut sortie: Sortie,
    to: &str,
    reason: Option<&NoteText>,
    giving: Giving,
    locks: Locks,
) -> Result<SortieView> {
    let agent = ctx.find_agent(to)?;
    if agent.retired_at.is_some() {
        return Err(Refusal::new(
            Code::IllegalTransition,
            format!("{} was retired", agent.name),
        )
        .hint("choose another: `fleet agents list`")
        .into());
    }
    let owner = sortie.assigned_to;
    if matches!(giving, Giving::Free)
        && let Some(holder) = owner.filter(|owner| sortie.status.is_held() && *owner != agent.id)
    {
        let holder = ctx.agent_name(holder)?;
        return Err(Refusal::new(
            Code::AlreadyTaken,
            format!("{} (\"{}\") is {holder}'s", short(sortie.id), sortie.title),
        )
        .hint(format!(
            "take it from {holder} with `fleet sorties reassign {} --to {} --reason \"…\"`",
            short(sortie.id),
            agent.name
        ))
        .into());
    }
    check_owner(ctx, &sortie, "give away")?;
    check_move(&sortie, SortieStatus::Assigned, "assign")?;
    let from = owner.map(|owner| ctx.agent_name(owner)).transpose()?;
    sortie.status = SortieStatus::Assigned;
    sortie.assigned_to = Some(agent.id);
    sortie.assigned_epoch = Some(agent.epoch);
    sortie.assigned_at = Some(ctx.now());
    sortie.blocked_reason = None;
    sortie.failure = None;
    let data = json!({ "to": agent.name, "from": from, "reason": reason });
    let kind = if from.is_some() {
        EventType::SortieReassigned
    } else {
        EventType::SortieAssigned
    };
    let sortie = keep(ctx, sortie, kind, &data)?;
    let released_locks = locks.settle(
        ctx,
        &sortie,
        Some(agent.id),
        "its sortie was given to another",
    )?;
    Ok(SortieView {
        released_locks,
        ..view(ctx, sortie)?
    })
}

fn start(ctx: &mut OpContext<'_, '_>, mut sortie: Sortie) -> Result<SortieView> {
    check_owner(ctx, &sortie, "start")?;
    if sortie.status == SortieStatus::Pending {
        return Err(Refusal::new(
            Code::IllegalTransition,
            format!(
                "cannot start {} (\"{}\"): it is pending and not claimed",
                short(sortie.id),
                sortie.title
            ),
        )
        .hint(format!(
            "claim it first with `fleet sorties claim {} --agent NAME`",
            short(sortie.id)
        ))
        .into());
    }
    if sortie.status == SortieStatus::InProgress {
        return as_it_is(ctx, sortie);
    }
    if sortie.status != SortieStatus::Assigned {
        let status = sortie.status.as_str();
        return Err(Refusal::new(
            Code::IllegalTransition,
            format!("cannot start {} (\"{}\"): it is {status}", short(sortie.id), sortie.title),
        )
        .hint("only an assigned sortie is started; a blocked one is unblocked, a completed one rejected")
        .into());
    }
    refuse_waiting(ctx, &sortie)?;
    begin_if_pending(ctx, sortie.mission_id)?;
    sortie.status = SortieStatus::InProgress;
    sortie.attempts += 1;
    let now = ctx.now();
    sortie.started_at.get_or_insert(now);
    let sortie = keep(ctx, sortie, EventType::SortieStarted, &json!({}))?;
    // Locks are for the agent that works, not for the one that says that it may begin.
    let locking = if ctx.agent_id() == sortie.assigned_to {
        Locking::Again
    } else {
        Locking::No
    };
    taken_up(ctx, sortie, locking)
}

fn block(ctx: &mut OpContext<'_, '_>, mut sortie: Sortie, reason: &NoteText) -> Result<SortieView> {
    check_owner(ctx, &sortie, "block")?;
    if sortie.status == SortieStatus::Blocked && sortie.blocked_reason.as_ref() == Some(reason) {
        return as_it_is(ctx, sortie);
    }
    check_move(&sortie, SortieStatus::Blocked, "block")?;
    sortie.status = SortieStatus::Blocked;
    sortie.blocked_reason = Some(reason.clone());
    let sortie = keep(
        ctx,
        sortie,
        EventType::SortieBlocked,
        &json!({ "reason": reason }),
    )?;
    let mission = ctx.mission_of(sortie.mission_id)?;
    let details = format!("\"{}\" is blocked: {reason}", sortie.title);
    trigger_error(ctx, &mission, Reason::Blocker, details)?;
    view(ctx, sortie)
}

fn unblock(ctx: &mut OpContext<'_, '_>, mut sortie: Sortie) -> Result<SortieView> {
    check_owner(ctx, &sortie, "unblock")?;
    if sortie.status != SortieStatus::Blocked {
        return Err(Refusal::new(
            Code::IllegalTransition,
            format!(
                "cannot unblock {} (\"{}\"): it is {}",
                short(sortie.id),
                sortie.title,
                sortie.status.as_str()
            ),
        )
        .into());
    }
    refuse_open_errors(ctx, &sortie)?;
    sortie.status = SortieStatus::InProgress;
    sortie.blocked_reason = None;
    save(ctx, sortie, EventType::SortieUnblocked, &json!({}))
}

fn resume(ctx: &mut OpContext<'_, '_>, mut sortie: Sortie) -> Result<SortieView> {
    check_owner(ctx, &sortie, "resume")?;
    refuse_unresumable(&sortie)?;
    refuse_open_errors(ctx, &sortie)?;
    if let Some(agent) = &ctx.agent
        && sortie.assigned_to == Some(agent.id)
    {
        sortie.assigned_epoch = Some(agent.epoch);
    }
    sortie.status = SortieStatus::InProgress;
    sortie.blocked_reason = None;
    let view = save(ctx, sortie, EventType::SortieResumed, &json!({}))?;
    Ok(SortieView {
        resume: Some(ResumePoint::of(&view)),
        ..view
    })
}

fn complete(
    ctx: &mut OpContext<'_, '_>,
    mut sortie: Sortie,
    output: Option<&JsonData>,
    locks: Locks,
) -> Result<SortieView> {
    check_owner(ctx, &sortie, "complete")?;
    // A retry after a lost answer gets the same answer; another output would be another request.
    let same_output = output.is_none() || sortie.output.as_ref() == output;
    if sortie.status == SortieStatus::Completed && same_output {
        return as_it_is(ctx, sortie);
    }
    check_move(&sortie, SortieStatus::Completed, "complete")?;
    let unmet: Vec<String> = sortie
        .acceptance_criteria
        .iter()
        .filter(|(_, met)| !**met)
        .map(|(name, _)| name.to_string())
        .collect();
    let open: Vec<String> = ctx
        .tx
        .find::<Subtask>(Find::Parent(&sortie.key()))?
        .into_iter()
        .filter(|subtask| subtask.status != SubtaskStatus::Complete)
        .map(|subtask| subtask.name.to_string())
        .collect();
    let now = ctx.now();
    sortie.status = SortieStatus::Completed;
    sortie.completed_at = Some(now);
    sortie.blocked_reason = None;
    sortie.interrupted = None;
    if output.is_some() {
        sortie.output = output.cloned();
    }
    // Completing with something left open is the owner's word against its own list: it stands, and is said.
    let data = json!({ "unmet_criteria": unmet, "open_subtasks": open });
    let sortie = keep(ctx, sortie, EventType::SortieCompleted, &data)?;
    // Before the checkpoint that this leads to: a rewind to it must not hold them.
    let released_locks = locks.settle(ctx, &sortie, None, "its sortie is completed")?;
    synced_by(ctx, &sortie)?;
    post_progress(ctx, &sortie)?;
    let mission = ctx.mission_of(sortie.mission_id)?;
    let mut checkpoint = milestones(ctx, &mission)?;
    if checkpoint.is_none() {
        let done = format!("Completed \"{}\"", sortie.title);
        let reasons = vec![
            (Reason::TaskComplete, done.clone()),
            (Reason::AgentComplete, done),
        ];
        checkpoint = first_of(ctx, &mission, reasons)?;
    }
    Ok(SortieView {
        checkpoint,
        released_locks,
        ..view(ctx, sortie)?
    })
}

fn fail(
    ctx: &mut OpContext<'_, '_>,
    mut sortie: Sortie,
    reason: &NoteText,
    locks: Locks,
) -> Result<SortieView> {
    check_owner(ctx, &sortie, "fail")?;
    if sortie.status == SortieStatus::Failed && sortie.failure.as_ref() == Some(reason) {
        return as_it_is(ctx, sortie);
    }
    check_move(&sortie, SortieStatus::Failed, "fail")?;
    sortie.status = SortieStatus::Failed;
    sortie.failure = Some(reason.clone());
    sortie.interrupted = None;
    let sortie = keep(
        ctx,
        sortie,
        EventType::SortieFailed,
        &json!({ "reason": reason }),
    )?;
    let released_locks = locks.settle(ctx, &sortie, None, "its sortie failed")?;
    let mission = ctx.mission_of(sortie.mission_id)?;
    let details = format!("\"{}\" failed: {reason}", sortie.title);
    if ctx.policy.triggers.has(Reason::SortieFailed) {
        trigger_error(ctx, &mission, Reason::SortieFailed, details)?;
        return Ok(SortieView {
            released_locks,
            ..view(ctx, sortie)?
        });
    }
    // An agent that failed has finished, too.
    let checkpoint = first_of(ctx, &mission, vec![(Reason::AgentComplete, details)])?;
    Ok(SortieView {
        checkpoint,
        released_locks,
        ..view(ctx, sortie)?
    })
}

fn release(
    ctx: &mut OpContext<'_, '_>,
    mut sortie: Sortie,
    reason: Option<&NoteText>,
    locks: Locks,
) -> Result<SortieView> {
    check_owner(ctx, &sortie, "release")?;
    check_move(&sortie, SortieStatus::Pending, "release")?;
    let from = sortie
        .assigned_to
        .map(|owner| ctx.agent_name(owner))
        .transpose()?;
    sortie.status = SortieStatus::Pending;
    sortie.unassign();
    sortie.blocked_reason = None;
    sortie.failure = None;
    let data = json!({ "from": from, "reason": reason });
    let sortie = keep(ctx, sortie, EventType::SortieReleased, &data)?;
    let released_locks = locks.settle(ctx, &sortie, None, "its sortie was given back")?;
    Ok(SortieView {
        released_locks,
        ..view(ctx, sortie)?
    })
}

/// Sorties that wait for it wait no longer; it can be taken up after all by releasing it.
fn cancel(
    ctx: &mut OpContext<'_, '_>,
    mut sortie: Sortie,
    reason: Option<&NoteText>,
    locks: Locks,
) -> Result<SortieView> {
    check_owner(ctx, &sortie, "cancel")?;
    if sortie.status == SortieStatus::Skipped {
        return as_it_is(ctx, sortie);
    }
    check_move(&sortie, SortieStatus::Skipped, "cancel")?;
    let from = sortie
        .assigned_to
        .map(|owner| ctx.agent_name(owner))
        .transpose()?;
    sortie.status = SortieStatus::Skipped;
    sortie.unassign();
    sortie.blocked_reason = None;
    sortie.interrupted = None;
    let data = json!({ "from": from, "reason": reason });
    let sortie = keep(ctx, sortie, EventType::SortieCancelled, &data)?;
    let released_locks = locks.settle(ctx, &sortie, None, "its sortie is cancelled")?;
    Ok(SortieView {
        released_locks,
        ..view(ctx, sortie)?
    })
}

fn judge(
    ctx: &mut OpContext<'_, '_>,
    mut sortie: Sortie,
    verdict: Verdict,
    reason: Option<&NoteText>,
) -> Result<SortieView> {
    if sortie.status != SortieStatus::Completed {
        return Err(Refusal::new(
            Code::IllegalTransition,
            format!(
                "cannot judge {} (\"{}\"): it is {}",
                short(sortie.id),
                sortie.title,
                sortie.status.as_str()
            ),
        )
        .hint("only a completed sortie is approved or rejected")
        .into());
    }
    if verdict == Verdict::Rejected {
        // A mission that is over must not get unfinished work back.
        begin_if_pending(ctx, sortie.mission_id)?;
    }
    sortie.approval = Some(Approval {
        verdict,
        by: ctx.actor(),
        reason: reason.cloned(),
        at: ctx.now(),
    });
    let (event, word) = match verdict {
        Verdict::Approved => (EventType::SortieApproved, "Approved"),
        Verdict::Rejected => {
            sortie.status = SortieStatus::InProgress;
            sortie.completed_at = None;
            (EventType::SortieRejected, "Rejected")
        }
    };
    let sortie = keep(ctx, sortie, event, &json!({ "reason": reason }))?;
    let mission = ctx.mission_of(sortie.mission_id)?;
    let details = format!("{word} \"{}\"", sortie.title);
    let checkpoint = first_of(ctx, &mission, vec![(Reason::UserApproval, details)])?;
    Ok(SortieView {
        checkpoint,
        ..view(ctx, sortie)?
    })
}

/// The answer to a request that changes nothing.
fn as_it_is(ctx: &mut OpContext<'_, '_>, sortie: Sortie) -> Result<SortieView> {
    Ok(SortieView {
        already: true,
        ..view(ctx, sortie)?
    })
}

fn save(
    ctx: &mut OpContext<'_, '_>,
    sortie: Sortie,
    event: EventType,
    data: &Value,
) -> Result<SortieView> {
    let sortie = keep(ctx, sortie, event, data)?;
    view(ctx, sortie)
}

fn keep(
    ctx: &mut OpContext<'_, '_>,
    mut sortie: Sortie,
    event: EventType,
    data: &Value,
) -> Result<Sortie> {
    sortie.updated_at = ctx.now();
    ctx.tx.set(event, &sortie, data)?;
    Ok(sortie)
}
