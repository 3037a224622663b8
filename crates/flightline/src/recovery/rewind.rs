//! Takes a mission back to exactly the state of a checkpoint, as new events: nothing is un-happened.

use std::collections::BTreeMap;

use flightline_core::checkpoint::{Checkpoint, Milestone, Reason};
use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::sortie::{
    Review, Sortie, SortieError, SortieFile, SortieStatus, Subtask, SubtaskStatus,
};
use flightline_core::{CheckpointId, Code, Kind, Refusal, Subject};
use flightline_store::{Actor, Find};
use serde_json::json;

use super::AgentVerdict;
use crate::checkpoint::mend::heal;
use crate::checkpoint::take::{NewCheckpoint, take};
use crate::checkpoint::{Contents, load};
use crate::error::{Error, Result};
use crate::mission::short;
use crate::op_context::OpContext;

pub(super) struct Rewound {
    pub(super) mission: Mission,
    pub(super) before: CheckpointId,
    pub(super) lost: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// Sets the mission, its sorties and their parts to their values at the checkpoint, after saving a checkpoint of
/// the present state. Agents, mail, notes and effects stay as they are: they happened.
pub(super) fn rewind(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    checkpoint: &Checkpoint,
    contents: &Contents,
    verdicts: &[AgentVerdict],
    force: bool,
) -> Result<Rewound> {
    let then: Vec<Sortie> = contents.of()?;
    let now = ctx.tx.find::<Sortie>(Find::Mission(mission.id))?;
    let mut warnings = Vec::new();
    match unfinishing(ctx, checkpoint, &then, &now, verdicts)? {
        Some(refusal) if !force => return Err(refusal.into()),
        undone => warnings.extend(
            undone.map(|refusal| format!("{}; that is refused without `--force`", refusal.message)),
        ),
    }
    match refuse_unfinishing_parts(ctx, checkpoint, contents, &now, verdicts) {
        Err(error @ Error::Refused(_)) if force => warnings.push(format!(
            "{}; that is refused without `--force`",
            error.into_refusal().message
        )),
        checked => checked?,
    }
    let details = format!("Before going back to {}", short(checkpoint.id));
    let taking = NewCheckpoint {
        mission,
        reason: Reason::BeforeRestore,
        details: Some(details),
        note: None,
        blockers: Vec::new(),
    };
    let before = take(ctx, &taking)?;
    // Read back before anything is written over: it is the way back, and its file is not written yet.
    match load(ctx, &before) {
        Ok(_) => {}
        Err(error) if error.is_damage() => warnings.push(format!(
            "{}; `fleet undo` cannot undo this",
            error.into_refusal().message
        )),
        Err(error) => return Err(error),
    }
    warnings.extend(heal(ctx)?);
    let before = before.id;
    let who = ctx.tx.actor().clone();
    ctx.tx.act_as(Actor::flightline());
    let mut lost = Vec::new();
    let was: BTreeMap<String, &Sortie> = now.iter().map(|sortie| (sortie.key(), sortie)).collect();
    for sortie in &then {
        let attempts = was
            .get(&sortie.key())
            .map_or(sortie.attempts, |now| now.attempts.max(sortie.attempts));
        let restored = Sortie {
            attempts,
            ..sortie.clone()
        };
        if was.get(&sortie.key()).is_none_or(|now| **now != restored) {
            lost.extend(
                was.get(&sortie.key())
                    .map(|now| what_is_lost(now, &restored)),
            );
            ctx.tx.set(
                EventType::SortieRestored,
                &restored,
                &json!({ "checkpoint_id": checkpoint.id }),
            )?;
        }
    }
    for sortie in now
        .iter()
        .filter(|sortie| !then.iter().any(|old| old.id == sortie.id))
    {
        lost.push(format!(
            "{} (\"{}\") was added since",
            short(sortie.id),
            sortie.title
        ));
        ctx.tx.remove(
            EventType::SortieRemoved,
            sortie,
            &json!({ "checkpoint_id": checkpoint.id }),
        )?;
    }
    let kinds = (EventType::SubtaskRestored, EventType::SubtaskRemoved);
    restore_parts::<Subtask>(ctx, mission, contents, checkpoint, kinds, &mut lost)?;
    let kinds = (EventType::FileRestored, EventType::FileRemoved);
    restore_parts::<SortieFile>(ctx, mission, contents, checkpoint, kinds, &mut lost)?;
    let kinds = (EventType::ErrorRestored, EventType::ErrorRemoved);
    restore_parts::<SortieError>(ctx, mission, contents, checkpoint, kinds, &mut lost)?;
    let kinds = (EventType::ReviewRestored, EventType::ReviewRemoved);
    restore_parts::<Review>(ctx, mission, contents, checkpoint, kinds, &mut lost)?;
    let old: Vec<Mission> = contents.of()?;
    let old = old.into_iter().next().ok_or_else(|| {
        Refusal::new(
            Code::Integrity,
            format!("{} does not hold its mission", short(checkpoint.id)),
        )
    })?;
    let was_in = mission.workflow.clone();
    let mission = Mission {
        timeline: mission.timeline + 1,
        dispatch: mission.dispatch,
        // Whose rules bind the mission is no work that was done.
        constraints_by: mission.constraints_by,
        updated_at: ctx.now(),
        ..old
    };
    let mut data = json!({ "checkpoint_id": checkpoint.id, "timeline": mission.timeline });
    let is_in = &mission.workflow;
    if (&was_in.current, was_in.entered_at) != (&is_in.current, is_in.entered_at) {
        // The way back is part of the workflow's history.
        data["from"] = json!(was_in.current);
        data["to"] = json!(is_in.current);
        data["trigger"] = json!("recovery");
    }
    ctx.tx.set(EventType::MissionRestored, &mission, &data)?;
    keep_milestones(ctx, &mission, checkpoint)?;
    ctx.tx.act_as(who);
    Ok(Rewound {
        mission,
        before,
        lost,
        warnings,
    })
}

fn restore_parts<S: Subject + PartialEq>(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    contents: &Contents,
    checkpoint: &Checkpoint,
    (restored, removed): (EventType, EventType),
    lost: &mut Vec<String>,
) -> Result<()> {
    let data = json!({ "checkpoint_id": checkpoint.id });
    let then: BTreeMap<String, S> = contents
        .of::<S>()?
        .into_iter()
        .map(|part| (part.key(), part))
        .collect();
    let now: BTreeMap<String, S> = ctx
        .tx
        .find::<S>(Find::Mission(mission.id))?
        .into_iter()
        .map(|part| (part.key(), part))
        .collect();
    let name = |key: &str| key.split_once('/').map_or(key, |(_, name)| name).to_owned();
    for (key, part) in &then {
        if now.get(key) != Some(part) {
            ctx.tx.set(restored, part, &data)?;
            if now.contains_key(key) {
                lost.push(format!("{} {} has changed since", S::KIND, name(key)));
            }
        }
    }
    for (key, part) in &now {
        if !then.contains_key(key) {
            ctx.tx.remove(removed, part, &data)?;
            lost.push(format!("{} {} was reported since", S::KIND, name(key)));
        }
    }
    Ok(())
}

/// Describes the loss of a sortie that goes back to its earlier state.
fn what_is_lost(now: &Sortie, then: &Sortie) -> String {
    let (id, title) = (short(now.id), &now.title);
    match (now.status, then.status) {
        (now, then) if now == then => format!("{id} (\"{title}\") has changed since"),
        (SortieStatus::Completed, _) => format!("{id} (\"{title}\") is no longer completed"),
        (now, then) => format!(
            "{id} (\"{title}\") is {} again, not {}",
            then.as_str(),
            now.as_str()
        ),
    }
}

/// Milestones that were reached at the cut are reached on the new timeline too; later ones are not.
fn keep_milestones(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    checkpoint: &Checkpoint,
) -> Result<()> {
    let parent = mission.key();
    let rows = ctx.tx.rows(Kind::Milestone, Find::Parent(&parent))?;
    for row in rows.iter().filter(|row| row.rev <= checkpoint.cut.rev) {
        let reached = ctx.tx.get::<Milestone>(&row.id)?;
        let Some(reached) = reached.filter(|it| it.timeline == checkpoint.cut.timeline) else {
            continue;
        };
        let kept = Milestone {
            timeline: mission.timeline,
            ..reached
        };
        let data = json!({ "percent": kept.percent, "checkpoint_id": checkpoint.id });
        ctx.tx.set(EventType::MilestoneKept, &kept, &data)?;
    }
    Ok(())
}

/// Returns true when the last event of a sortie is that a rewind restored it.
fn is_as_restored(ctx: &mut OpContext<'_, '_>, sortie: &Sortie) -> Result<bool> {
    let newest = ctx.tx.events_of(Kind::Sortie, &sortie.key(), 1)?;
    Ok(newest
        .first()
        .is_some_and(|event| event.is(EventType::SortieRestored)))
}

/// Refuses a rewind that would take back completed parts of a sortie that a living agent holds.
fn refuse_unfinishing_parts(
    ctx: &mut OpContext<'_, '_>,
    checkpoint: &Checkpoint,
    contents: &Contents,
    sorties: &[Sortie],
    verdicts: &[AgentVerdict],
) -> Result<()> {
    let then: Vec<Subtask> = contents.of()?;
    let was_done = |part: &Subtask| {
        let old = then.iter().find(|old| old.key() == part.key());
        old.is_some_and(|old| old.status == SubtaskStatus::Complete)
    };
    let done = |part: &Subtask| part.status == SubtaskStatus::Complete && !was_done(part);
    let id = short(checkpoint.id);
    for part in ctx
        .tx
        .find_those::<Subtask>(Find::Mission(checkpoint.cut.mission_id), done)?
    {
        let sortie = sorties.iter().find(|sortie| sortie.id == part.sortie_id);
        let alive = verdicts.iter().find(|verdict| {
            let owner = sortie.and_then(|sortie| sortie.assigned_to);
            owner == Some(verdict.agent.id) && verdict.is_alive()
        });
        let (Some(sortie), Some(owner)) = (sortie.filter(|it| it.status.is_held()), alive) else {
            continue;
        };
        let newest = ctx.tx.events_of(Kind::Subtask, &part.key(), 1)?;
        if newest
            .first()
            .is_some_and(|it| it.is(EventType::SubtaskRestored))
        {
            continue;
        }
        return Err(Refusal::new(
            Code::Unfinished,
            format!(
                "going back to {id} would undo the subtask {} of {} (\"{}\"), which {} has completed and is alive",
                part.name,
                short(sortie.id),
                sortie.title,
                owner.agent.name
            ),
        )
        .hint(going_back(&id))
        .details(json!({ "sorties": [sortie.id], "subtasks": [part.name] }))
        .into());
    }
    Ok(())
}

fn going_back(id: &str) -> String {
    format!(
        "look first with `fleet resume --checkpoint {id} --dry-run`; to do it anyway: `fleet resume --checkpoint {id} --force`\n\
         to keep everything: `fleet resume`"
    )
}

/// Work that agents which are alive have finished since must not be un-finished by accident: why not, when there is
/// some.
fn unfinishing(
    ctx: &mut OpContext<'_, '_>,
    checkpoint: &Checkpoint,
    then: &[Sortie],
    now: &[Sortie],
    verdicts: &[AgentVerdict],
) -> Result<Option<Refusal>> {
    let mut finished = Vec::new();
    for sortie in now {
        let before = then.iter().find(|old| old.id == sortie.id);
        let alive = sortie.assigned_to.is_some_and(|owner| {
            verdicts
                .iter()
                .any(|verdict| verdict.agent.id == owner && verdict.is_alive())
        });
        let touched = sortie.status == SortieStatus::Completed
            && before.is_none_or(|old| old.status != SortieStatus::Completed);
        // A sortie that a living agent holds would be taken out of its hands.
        let working = sortie.status.is_held()
            && before.is_none_or(|old| {
                old.status != SortieStatus::Completed
                    && (!old.status.is_held() || old.assigned_to != sortie.assigned_to)
            });
        // A sortie that only a rewind gave to the agent, and that was not touched since, is not its work.
        if alive && (touched || (working && !is_as_restored(ctx, sortie)?)) {
            finished.push(sortie);
        }
    }
    let Some(first) = finished.first() else {
        return Ok(None);
    };
    let owner = match first.assigned_to {
        Some(owner) => ctx.agent_name(owner)?,
        None => "nobody".to_owned(),
    };
    let id = short(checkpoint.id);
    let count = finished.len();
    let noun = if count == 1 { "sortie" } else { "sorties" };
    let refusal = Refusal::new(
        Code::Unfinished,
        format!("going back to {id} would undo {count} {noun} of agents that are alive, first {} (\"{}\") of {owner}", short(first.id), first.title),
    )
    .hint(going_back(&id))
    .details(json!({ "sorties": finished.iter().map(|sortie| sortie.id).collect::<Vec<_>>() }));
    Ok(Some(refusal))
}
