//! Operations on sorties.

pub mod add;
pub mod change;
pub mod claim;
pub mod edit;
pub mod queue;
mod recovered;
pub mod report;

use crate::Schema;
use std::collections::{BTreeMap, HashMap};

use flightline_core::agent::Agent;
use flightline_core::mission::Mission;
use flightline_core::recovery::RecoveryContext;
use flightline_core::sortie::{
    Declared, Review, Sortie, SortieError, SortieFile, SortieStatus, Subtask, SubtaskProgress,
    SubtaskStatus,
};
use flightline_core::text::NoteText;
use flightline_core::time::Millis;
use flightline_core::{CheckpointId, Kind, MissionId, Name, SortieId, Subject, Time, Title};
use flightline_store::{Find, ListOrder, ListScope, RowList, SubjectRow};
use serde::{Deserialize, Serialize};

use crate::checkpoint::readable;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, part_of, some_rows};
use crate::lock::LockView;
use crate::op_context::OpContext;

/// Lists the sorties of a mission, in its order.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ListSorties {
    /// The mission whose sorties are listed; the current one when none is named.
    pub mission: Option<String>,
    /// List only sorties with this status.
    pub status: Option<SortieStatus>,
    /// List only sorties of this owner.
    pub agent: Option<String>,
    /// Maximum number of entries.
    pub limit: u64,
}

/// Shows a sortie with all its parts.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ShowSortie {
    /// The sortie to show.
    pub sortie: String,
}

/// A sortie in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct SortieSummary {
    /// The sortie's id.
    pub id: SortieId,
    /// The id of the task in other tools, such as `T060`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<Name>,
    /// The title of the sortie: the work to be done.
    pub title: String,
    /// The current status of the sortie.
    pub status: SortieStatus,
    /// The name of the sortie's owner, if it has one.
    pub assigned_to: Option<String>,
    /// Time of the last change of the sortie.
    pub updated_at: Time,
}

/// A sortie, and the effects of the operation on it.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct SortieView {
    /// The sortie as it is stored.
    pub sortie: Sortie,
    /// The name of the sortie's owner, if it has one.
    pub owner: Option<String>,
    /// Progress of the sortie, counted in subtasks.
    pub progress: SubtaskProgress,
    /// Progress of the sortie's mission, in percent.
    pub mission_percent: u8,
    /// Duration of the work on the sortie, until its end or until now.
    pub actual_ms: Option<Millis>,
    /// The checkpoint that was taken because of this change.
    pub checkpoint: Option<CheckpointId>,
    /// The subtasks of the sortie, in order.
    pub subtasks: Vec<Subtask>,
    /// The files that the work on the sortie changed.
    pub files: Vec<SortieFile>,
    /// Errors met during the work, oldest first.
    pub errors: Vec<SortieError>,
    /// The reviews of the sortie.
    pub reviews: Vec<Review>,
    /// The recovery context of an earlier owner, for the new owner.
    #[serde(default)]
    pub recovery_context: Option<RecoveryContext>,
    /// The point at which the agent that resumes the sortie continues.
    #[serde(default)]
    pub resume: Option<ResumePoint>,
    /// Locks that were acquired again for the new owner.
    #[serde(default)]
    pub locks: Vec<LockView>,
    /// Locks that this change released.
    #[serde(default)]
    pub released_locks: Vec<LockView>,
    /// True when the request changed nothing, because the sortie was in the requested state already.
    #[serde(default)]
    pub already: bool,
}

/// The point at which an interrupted sortie continues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct ResumePoint {
    /// The item that was processed last.
    pub last_processed: Option<Title>,
    /// The item to start with.
    pub next_to_process: Option<Title>,
    /// Further notes of the earlier owner on the position.
    pub notes: Option<NoteText>,
    /// Instructions for resuming the sortie.
    pub instructions: Option<NoteText>,
    /// Names of the listed subtasks that are done; they are skipped.
    pub skipped: Vec<Name>,
    /// The listed subtasks that are left.
    pub left: Vec<Subtask>,
    /// Number of further subtasks that are left but not listed.
    pub unlisted: u64,
}

impl Operation for ListSorties {
    const NAME: &'static str = "list_sorties";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<SortieSummary>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<SortieSummary>> {
        let mission = ctx.mission(self.mission.as_deref())?;
        let owner = match &self.agent {
            Some(reference) => Some(ctx.find_agent(reference)?.key()),
            None => None,
        };
        let others = SortieStatus::ALL
            .into_iter()
            .filter(|status| self.status.is_some_and(|it| it != *status));
        let others: Vec<&str> = others.map(SortieStatus::as_str).collect();
        let list = RowList::new(Kind::Sortie, ListScope::Mission(mission.id), &others);
        if !mission.reordered && owner.is_none() {
            let rows = some_rows(ctx, list, ListOrder::OLDEST, self.limit)?;
            return summarised(ctx, mission.id, rows);
        }
        // An order that was given is in the documents alone, and no index has the sorties of an agent in their order: all rows
        // of the mission are read.
        let mut rows = ordered_rows(ctx, mission.id)?;
        rows.retain(|row| list.has(row) && (owner.is_none() || row.agent == owner));
        let rows = part_of(ctx, rows, self.limit);
        summarised(ctx, mission.id, rows)
    }
}

impl Operation for ShowSortie {
    const NAME: &'static str = "show_sortie";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = SortieView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<SortieView> {
        let sortie = ctx.sortie(&self.sortie)?;
        view(ctx, sortie)
    }
}

/// The sorties of a mission as a list shows them. Loads no sortie's document, but for those with a task id.
pub(crate) fn summaries(
    ctx: &mut OpContext<'_, '_>,
    mission: MissionId,
) -> Result<Vec<SortieSummary>> {
    let rows = ordered_rows(ctx, mission)?;
    summarised(ctx, mission, rows)
}

/// The rows of a mission's sorties, in their order.
fn ordered_rows(ctx: &mut OpContext<'_, '_>, mission: MissionId) -> Result<Vec<SubjectRow>> {
    let mut rows = ctx.tx.rows(Kind::Sortie, Find::Mission(mission))?;
    in_order(ctx, mission, &mut rows)?;
    Ok(rows)
}

fn summarised(
    ctx: &mut OpContext<'_, '_>,
    mission: MissionId,
    rows: Vec<SubjectRow>,
) -> Result<Vec<SortieSummary>> {
    let tasks = match rows.is_empty() {
        true => BTreeMap::new(),
        false => task_ids(ctx, Some(mission))?,
    };
    let owners = rows.iter().filter_map(|row| row.agent.as_deref());
    let owners = owners.filter_map(|id| id.parse().ok()).collect();
    let names = ctx.names_of(&owners)?;
    let name = |id: &str| names.get(&id.parse().ok()?).cloned();
    rows.into_iter()
        .map(|row| {
            let status = SortieStatus::from_word(&row.status).ok_or_else(|| {
                let why = format!(
                    "{} has a status that is none",
                    crate::mission::short(&row.id)
                );
                flightline_store::StoreError::Corrupt(why)
            })?;
            let id = row.typed_id()?;
            Ok(SortieSummary {
                id,
                task_id: tasks.get(&id).cloned(),
                title: row.name.unwrap_or_default(),
                status,
                assigned_to: row.agent.map(|id| name(&id).unwrap_or(id)),
                updated_at: row.at,
            })
        })
        .collect()
}

/// Puts rows into the order that the mission's sorties were given. Only then documents are read.
fn in_order(
    ctx: &mut OpContext<'_, '_>,
    mission: MissionId,
    rows: &mut [SubjectRow],
) -> Result<()> {
    let (missions, _) = match rows.is_empty() {
        true => return Ok(()),
        false => readable::<Mission>(ctx.tx, Find::Mission(mission))?,
    };
    if !missions.iter().any(|mission| mission.reordered) {
        return Ok(());
    }
    let (sorties, _) = readable::<Sortie>(ctx.tx, Find::Mission(mission))?;
    let places: HashMap<String, u64> = sorties
        .into_iter()
        .map(|sortie| (sortie.key(), sortie.position))
        .collect();
    rows.sort_by_key(|row| places.get(&row.id).copied().unwrap_or(u64::MAX));
    Ok(())
}

/// The task ids of sorties, of one mission or of all.
pub(crate) fn task_ids(
    ctx: &mut OpContext<'_, '_>,
    mission: Option<MissionId>,
) -> Result<BTreeMap<SortieId, Name>> {
    let found = ctx.tx.find_holding::<Sortie>(mission, "\"task_id\":\"")?;
    let named = found.into_iter();
    Ok(named
        .filter_map(|sortie| sortie.task_id.map(|task| (sortie.id, task)))
        .collect())
}

/// Returns the progress of a sortie, counted in subtasks.
pub(crate) fn subtask_progress(
    ctx: &mut OpContext<'_, '_>,
    sortie: &Sortie,
) -> Result<SubtaskProgress> {
    let counts = ctx.tx.counts(Kind::Subtask, Find::Parent(&sortie.key()))?;
    let of = |status: SubtaskStatus| {
        counts
            .iter()
            .find(|(word, _)| word == status.as_str())
            .map_or(0, |(_, count)| *count)
    };
    let listed = Declared {
        total: counts.iter().map(|(_, count)| count).sum(),
        completed: of(SubtaskStatus::Complete),
        failed: of(SubtaskStatus::Failed),
    };
    Ok(SubtaskProgress::of(sortie.status, listed, sortie.declared))
}

pub(crate) fn view(ctx: &mut OpContext<'_, '_>, sortie: Sortie) -> Result<SortieView> {
    let key = sortie.key();
    let owner = match sortie.assigned_to {
        Some(id) => ctx.tx.get::<Agent>(id)?.map(|agent| agent.name.to_string()),
        None => None,
    };
    Ok(SortieView {
        owner,
        progress: subtask_progress(ctx, &sortie)?,
        mission_percent: ctx.progress(sortie.mission_id)?.percent(),
        actual_ms: sortie.actual_ms(ctx.now()),
        checkpoint: None,
        subtasks: ctx.tx.find(Find::Parent(&key))?,
        files: ctx.tx.find(Find::Parent(&key))?,
        errors: ctx.tx.find(Find::Parent(&key))?,
        reviews: ctx.tx.find(Find::Parent(&key))?,
        recovery_context: None,
        resume: None,
        locks: Vec::new(),
        released_locks: Vec::new(),
        already: false,
        sortie,
    })
}

impl ResumePoint {
    fn of(view: &SortieView) -> Self {
        let is_done = |part: &&Subtask| part.status == SubtaskStatus::Complete;
        let (done, left): (Vec<&Subtask>, Vec<&Subtask>) = view.subtasks.iter().partition(is_done);
        let all_left = view.progress.total - view.progress.completed;
        let cursor = &view.sortie.cursor;
        Self {
            last_processed: cursor.last_processed.clone(),
            next_to_process: cursor.next_to_process.clone(),
            notes: cursor.notes.clone(),
            instructions: view.sortie.resume_instructions.clone(),
            unlisted: all_left.saturating_sub(left.len() as u64),
            skipped: done.into_iter().map(|part| part.name.clone()).collect(),
            left: left.into_iter().cloned().collect(),
        }
    }
}
