//! Turns a client's own task list into the sorties of its session.

use flightline_core::mission::Mission;
use flightline_core::sortie::{Sortie, SortieStatus};
use flightline_core::{Name, Subject, Title};
use flightline_store::Find;

use super::{PlannedStatus, PlannedTask, work};
use crate::error::Result;
use crate::fleet::Operation;
use crate::op_context::OpContext;
use crate::sortie::add::{AddSorties, NewSortie};
use crate::sortie::change::{ChangeSortie, SortieAction};
use crate::sortie::claim::ClaimSortie;
use crate::sortie::edit::EditSortie;

/// Maximum number of entries of a list that are followed.
const MOST: usize = 200;

/// Brings the sorties of the agent's mission in line with the list. Sorties of others stay as they are.
pub(super) fn follow(ctx: &mut OpContext<'_, '_>, tasks: &[PlannedTask]) -> Result<()> {
    let tasks = &tasks[..tasks.len().min(MOST)];
    let Some(first) = tasks.first() else {
        return Ok(());
    };
    work::begin(ctx, Some(&first.title))?;
    let Some(mission) = work::mission(ctx)? else {
        return Ok(());
    };
    if !mission.status.is_open() {
        return Ok(());
    }
    let mut known = ctx.tx.find::<Sortie>(Find::Mission(mission.id))?;
    if let [only] = known.as_slice()
        && stands_for_all(ctx, &mission, &known)
        && !tasks.iter().any(|task| task.title == only.title)
    {
        let rename = EditSortie {
            sortie: only.key(),
            title: Some(first.title.clone()),
            ..EditSortie::default()
        };
        rename.decide(ctx)?;
        known = ctx.tx.find::<Sortie>(Find::Mission(mission.id))?;
    }
    let is_new = |task: &&PlannedTask| !known.iter().any(|it| it.title == task.title);
    let new: Vec<NewSortie> = tasks
        .iter()
        .filter(is_new)
        .map(|task| NewSortie::titled(task.title.clone()))
        .collect();
    if !new.is_empty() {
        let add = AddSorties {
            mission: Some(mission.id.to_string()),
            sorties: new,
        };
        add.decide(ctx)?;
    }
    for task in tasks {
        let sorties = ctx.tx.find::<Sortie>(Find::Mission(mission.id))?;
        if let Some(sortie) = sorties.into_iter().find(|it| it.title == task.title) {
            bring(ctx, &sortie, task.status)?;
        }
    }
    Ok(())
}

/// Brings one sortie in line with an entry of the list, which is known by the client's id.
pub(super) fn follow_one(
    ctx: &mut OpContext<'_, '_>,
    id: &Title,
    title: Option<&Title>,
    status: Option<PlannedStatus>,
) -> Result<()> {
    work::begin(ctx, title)?;
    let (Some(mission), Some(agent)) = (work::mission(ctx)?, ctx.agent.clone()) else {
        return Ok(());
    };
    let Ok(task) = Name::parse("task", &format!("{}.{id}", agent.name)) else {
        return Ok(());
    };
    let known = ctx.tx.find::<Sortie>(Find::Mission(mission.id))?;
    let found = known.iter().find(|it| it.task_id.as_ref() == Some(&task));
    match (found, title) {
        (None, Some(title)) if stands_for_all(ctx, &mission, &known) => {
            let name = EditSortie {
                sortie: known.first().map(Subject::key).unwrap_or_default(),
                title: Some(title.clone()),
                task_id: Some(task.clone()),
                ..EditSortie::default()
            };
            name.decide(ctx)?;
        }
        (None, Some(title)) if mission.status.is_open() => {
            let sortie = NewSortie {
                task_id: Some(task.clone()),
                ..NewSortie::titled(title.clone())
            };
            let add = AddSorties {
                mission: Some(mission.id.to_string()),
                sorties: vec![sortie],
            };
            add.decide(ctx)?;
        }
        _ => {}
    }
    let sorties = ctx.tx.find::<Sortie>(Find::Mission(mission.id))?;
    let sortie = sorties
        .into_iter()
        .find(|it| it.task_id.as_ref() == Some(&task));
    match (sortie, status) {
        (Some(sortie), Some(status)) => bring(ctx, &sortie, status),
        _ => Ok(()),
    }
}

/// Returns true when a mission has only the sortie with which it began, which stands for all of it until there is a
/// list.
fn stands_for_all(ctx: &OpContext<'_, '_>, mission: &Mission, sorties: &[Sortie]) -> bool {
    match sorties {
        [only] => {
            only.title == mission.title
                && only.task_id.is_none()
                && only.status == SortieStatus::InProgress
                && only.assigned_to == ctx.agent_id()
        }
        _ => false,
    }
}

/// Moves a sortie as far as its task is. A move that the rules refuse is left out: the list is the client's, the rules are ours.
fn bring(ctx: &mut OpContext<'_, '_>, sortie: &Sortie, status: PlannedStatus) -> Result<()> {
    let own = sortie.assigned_to.is_none() || sortie.assigned_to == ctx.agent_id();
    if !own {
        return Ok(());
    }
    let reference = sortie.key();
    let claim = ClaimSortie {
        sortie: reference.clone(),
        lock: false,
    };
    let change = |action| ChangeSortie {
        sortie: reference.clone(),
        action,
        keep_locks: true,
        checkpoint: false,
    };
    let moved = match (status, sortie.status) {
        (PlannedStatus::InProgress, SortieStatus::Pending | SortieStatus::Assigned) => {
            ctx.attempt(|ctx| claim.decide(ctx).map(drop))?
        }
        (PlannedStatus::Completed, SortieStatus::Pending | SortieStatus::Assigned) => {
            ctx.attempt(|ctx| {
                claim.decide(ctx)?;
                change(SortieAction::Complete { output: None })
                    .decide(ctx)
                    .map(drop)
            })?
        }
        (PlannedStatus::Completed, SortieStatus::InProgress) => ctx.attempt(|ctx| {
            change(SortieAction::Complete { output: None })
                .decide(ctx)
                .map(drop)
        })?,
        (PlannedStatus::Pending, SortieStatus::InProgress) => ctx.attempt(|ctx| {
            change(SortieAction::Release { reason: None })
                .decide(ctx)
                .map(drop)
        })?,
        (PlannedStatus::Cancelled, before) if !before.is_settled() => ctx.attempt(|ctx| {
            change(SortieAction::Cancel { reason: None })
                .decide(ctx)
                .map(drop)
        })?,
        _ => Ok(()),
    };
    drop(moved);
    Ok(())
}
