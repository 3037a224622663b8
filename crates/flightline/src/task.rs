//! Sorties as seed B's tasks: the document of one, and the table of all. The values are loaded here; what
//! they mean in the seed's words is a function of them.

use crate::Schema;
use std::collections::BTreeMap;

use flightline_core::agent::Agent;
use flightline_core::dialect::json::Number;
use flightline_core::dialect::sitebuilder::{
    StatusRow, archive_name, checkpoint_id, file_name, status_block,
};
use flightline_core::dialect::{Dialect, DialectDocument, Json};
use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::sortie::{
    Declared, FileChange, Review, Sortie, SortieError, SortieFile, SortieStatus, Subtask,
    SubtaskProgress, SubtaskStatus,
};
use flightline_core::time::Millis;
use flightline_core::{Kind, MissionId, Refusal, SortieId, Subject, Time};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent::last_sign;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::{OpContext, agent_named};
use crate::sortie::{SortieView, view};

/// The seed's word for a task that is done.
const COMPLETE: &str = "complete";

/// Shows a sortie as seed B's document of a task.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ShowTask {
    /// The sortie of the task.
    pub sortie: String,
}

/// A sortie as seed B's document of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct TaskFile {
    /// The sortie of the task.
    pub sortie_id: SortieId,
    /// The name of the task's file: `migration-T060.json`, or `migration-T060-complete.json`.
    pub file: String,
    /// The text of the document; none while work on the task has not begun.
    pub text: String,
}

/// Shows the table of tasks that `STATUS.md` holds.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ShowTaskTable {
    /// The mission whose tasks are listed; all open missions when none is named.
    pub mission: Option<String>,
}

/// The table of tasks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct TaskTable {
    /// The rows of the table: the newest first, then tasks that have not begun.
    pub tasks: Vec<TaskRow>,
    /// The table as Markdown, between its marks.
    pub text: String,
}

/// A row of the table: one task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct TaskRow {
    /// The sortie of the task.
    pub sortie_id: SortieId,
    /// The agent's type in its own system's words, or its name; none while the task has no owner.
    pub agent: Option<String>,
    /// The task's id, or the sortie's.
    pub task: String,
    /// Progress of the task, in percent.
    pub percent: u8,
    /// Time of the last report on the task; none while it has not begun.
    pub last_update: Option<Time>,
    /// The status of the task, in the seed's words.
    pub status: String,
}

/// The facts that the document of a task is made of.
#[derive(Clone, Debug)]
pub struct TaskFacts {
    pub view: SortieView,
    /// The agent that has it, or had it last.
    pub agent: Option<Agent>,
    /// The time at which the task's agent was heard since its last report: as often as heartbeats are expected.
    pub heard: Option<Time>,
    /// Expected time between two heartbeats.
    pub interval: Millis,
}

impl Operation for ShowTask {
    const NAME: &'static str = "show_task";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Option<TaskFile>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Option<TaskFile>> {
        let sortie = ctx.sortie(&self.sortie)?;
        let task = load(ctx, sortie)?;
        Ok(task.document()?.map(|document| TaskFile {
            sortie_id: task.view.sortie.id,
            file: document.file,
            text: document.checkpoint.write(),
        }))
    }
}

impl Operation for ShowTaskTable {
    const NAME: &'static str = "show_task_table";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = TaskTable;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<TaskTable> {
        let named = self.mission.is_some() || ctx.caller.mission.is_some();
        let missions = if named {
            vec![ctx.mission(self.mission.as_deref())?]
        } else {
            let mut all = ctx.tx.find::<Mission>(Find::All)?;
            all.retain(|mission| mission.status.is_open());
            all
        };
        let agents = ctx.tx.find::<Agent>(Find::All)?;
        let mut tasks = Vec::new();
        for mission in missions {
            tasks.extend(rows(ctx, mission.id, &agents)?);
        }
        Ok(table(tasks))
    }
}

/// The table of these tasks: the newest first, those that have not begun last, in their order.
fn table(mut tasks: Vec<TaskRow>) -> TaskTable {
    tasks.sort_by_key(|task| std::cmp::Reverse(task.last_update));
    let rows: Vec<StatusRow> = tasks
        .iter()
        .map(|task| StatusRow {
            agent: task.agent.clone().unwrap_or_else(|| "—".to_owned()),
            task: task.task.clone(),
            percent: task.percent,
            last_update: task.last_update,
            status: task.status.clone(),
        })
        .collect();
    TaskTable {
        text: status_block(&rows),
        tasks,
    }
}

/// The rows of a mission's sorties, in its order. Looks at all of them at once: one by one would take long
/// in a large mission.
fn rows(ctx: &mut OpContext<'_, '_>, mission: MissionId, agents: &[Agent]) -> Result<Vec<TaskRow>> {
    let sorties = ctx.tx.find::<Sortie>(Find::Mission(mission))?;
    let (mut counts, mut newest) = (BTreeMap::new(), BTreeMap::new());
    let mut heard = |sortie: SortieId, at: Time| {
        let last = newest.entry(sortie).or_insert(at);
        *last = at.max(*last);
    };
    for part in ctx.tx.find::<Subtask>(Find::Mission(mission))? {
        let count: &mut Declared = counts.entry(part.sortie_id).or_default();
        count.total += 1;
        count.completed += u64::from(part.status == SubtaskStatus::Complete);
        count.failed += u64::from(part.status == SubtaskStatus::Failed);
        heard(part.sortie_id, part.updated_at);
    }
    for file in ctx.tx.find::<SortieFile>(Find::Mission(mission))? {
        heard(file.sortie_id, file.at);
    }
    for error in ctx.tx.find::<SortieError>(Find::Mission(mission))? {
        let last = Some(error.timestamp).max(error.cleared_at);
        heard(error.sortie_id, last.unwrap_or(error.timestamp));
    }
    for review in ctx.tx.find::<Review>(Find::Mission(mission))? {
        heard(review.sortie_id, review.at);
    }
    let mut rows = Vec::new();
    for sortie in sorties {
        let listed = counts.get(&sortie.id).copied().unwrap_or_default();
        let had_by = match sortie.assigned_to {
            Some(id) => agents.iter().find(|agent| agent.id == id).cloned(),
            None => last_owner(ctx, &sortie)?,
        };
        let standing = standing(&sortie);
        rows.push(TaskRow {
            sortie_id: sortie.id,
            agent: had_by.map(|agent| word_of(&agent).to_owned()),
            task: task_of(&sortie),
            percent: SubtaskProgress::of(sortie.status, listed, sortie.declared).percent,
            last_update: standing
                .as_ref()
                .map(|_| newest.get(&sortie.id).copied().max(Some(sortie.updated_at)))
                .unwrap_or_default(),
            status: standing.unwrap_or(StatusRow::NOT_STARTED).to_owned(),
        });
    }
    Ok(rows)
}

/// A sortie with everything that its document is made of.
pub(crate) fn load(ctx: &mut OpContext<'_, '_>, sortie: Sortie) -> Result<TaskFacts> {
    let agent = match sortie.assigned_to {
        Some(id) => ctx.tx.get::<Agent>(id)?,
        None => last_owner(ctx, &sortie)?,
    };
    let view = view(ctx, sortie)?;
    let mut task = TaskFacts {
        view,
        agent,
        heard: None,
        interval: ctx.policy.heartbeat_ms,
    };
    let at_work = task.view.sortie.status == SortieStatus::InProgress;
    if let Some(agent) = task.agent.as_ref().filter(|_| at_work) {
        let pulse = ctx.tx.pulse(agent.id)?;
        let sign = last_sign(ctx, agent, pulse.as_ref());
        task.heard = sign.and_then(|sign| heard(task.last_update(), sign, task.interval));
    }
    Ok(task)
}

/// Returns the time at which an agent counts as heard since `update`: a heartbeat is due every `interval`, and
/// between two of them its file stays as it is, however often it speaks.
pub(crate) fn heard(update: Time, sign: Time, interval: Millis) -> Option<Time> {
    let beats = sign.since(update).checked_div(interval)?;
    (beats > 0).then(|| update.plus(beats.saturating_mul(interval)))
}

/// The last owner of a sortie without one: the agent that a recovery took it from, or that gave it back.
fn last_owner(ctx: &mut OpContext<'_, '_>, sortie: &Sortie) -> Result<Option<Agent>> {
    if sortie.started_at.is_none() {
        return Ok(None);
    }
    if let Some(before) = &sortie.interrupted {
        return agent_named(ctx.tx, before.owner.as_str());
    }
    let events = ctx.tx.events_of(Kind::Sortie, &sortie.key(), 50)?;
    let given_back = events
        .iter()
        .find(|event| event.is(EventType::SortieReleased))
        .and_then(|event| event.data["from"].as_str());
    match given_back {
        Some(name) => agent_named(ctx.tx, name),
        None => Ok(None),
    }
}

/// The status of a sortie in the seed's words; none while work on it has not begun. A begun sortie without an owner is
/// still in progress: so it can be resumed.
pub fn standing(sortie: &Sortie) -> Option<&'static str> {
    let begun = sortie.started_at.is_some();
    match sortie.status {
        SortieStatus::Pending | SortieStatus::Assigned => begun.then_some("in_progress"),
        SortieStatus::InProgress => Some("in_progress"),
        SortieStatus::Blocked => Some("blocked"),
        SortieStatus::Completed => Some(COMPLETE),
        SortieStatus::Failed | SortieStatus::Skipped => begun.then_some(sortie.status.as_str()),
    }
}

/// The task's id, or the sortie's.
fn task_of(sortie: &Sortie) -> String {
    sortie
        .task_id
        .as_ref()
        .map_or_else(|| sortie.id.to_string(), ToString::to_string)
}

/// Returns the agent's kind in its own system's words, or its name.
fn word_of(agent: &Agent) -> &str {
    agent.kind.as_ref().unwrap_or(&agent.name).as_str()
}

#[derive(Clone, Debug, PartialEq)]
pub struct TaskDocument {
    pub file: String,
    pub checkpoint: DialectDocument,
}

impl TaskFacts {
    /// The task as the seed's document; none while work on it has not begun, or when its agent is not known. A
    /// heartbeat brings it up to date when it is due, so that a reader of the file does not take silence for death. Refuses
    /// an agent or task that cannot be part of a file's name.
    pub fn document(&self) -> std::result::Result<Option<TaskDocument>, Refusal> {
        let sortie = &self.view.sortie;
        let (Some(status), Some(agent)) = (standing(sortie), &self.agent) else {
            return Ok(None);
        };
        let (word, task) = (word_of(agent), task_of(sortie));
        let complete = status == COMPLETE;
        let file = if complete {
            archive_name(word, &task)?
        } else {
            file_name(word, &task)?
        };
        let began = sortie.started_at.unwrap_or(sortie.created_at);
        let seconds = |time: Option<Time>| time.map(Time::to_seconds);
        let files = |wanted: FileChange| {
            let files = self.view.files.iter();
            let files = files.filter(|file| file.change == wanted);
            files.map(|file| &file.path).collect::<Vec<_>>()
        };
        let mut checkpoint = DialectDocument::new(
            Dialect::Sitebuilder,
            json!({
                "checkpoint_id": checkpoint_id(word, &task, began)?,
                "agent": word,
                "agent_name": agent.name,
                "task_id": task,
                "task_title": sortie.title,
                "status": status,
                "progress_percent": self.view.progress.percent,
                "started_at": seconds(sortie.started_at),
                "updated_at": self.heard.unwrap_or(self.last_update()).to_seconds(),
                "completed_at": seconds(sortie.completed_at),
                "subtasks": self.subtasks(),
                "files_created": files(FileChange::Created),
                "files_modified": files(FileChange::Modified),
                "errors": self.errors(),
                "context": {
                    "last_processed": sortie.cursor.last_processed,
                    "next_to_process": sortie.cursor.next_to_process,
                    "notes": sortie.cursor.notes,
                },
                // A complete task has nothing left to resume.
                "resumable": sortie.resumable && !complete,
                "resume_instructions": sortie.resume_instructions,
            }),
        );
        // In the order in which we have them.
        let criteria = sortie.acceptance_criteria.iter();
        let criteria = criteria.map(|(name, met)| (name.to_string(), Json::Bool(*met)));
        checkpoint.set("acceptance_criteria_met", Json::Object(criteria.collect()));
        let scores = self.view.reviews.iter().map(|review| {
            let score = review.score.map(Number::whole);
            (
                review.reviewer.to_string(),
                score.map_or(Json::Null, Json::Number),
            )
        });
        checkpoint.set("review_scores", Json::Object(scores.collect()));
        if let Some(heard) = self.heard {
            let beat = &mut checkpoint["heartbeat"];
            beat["last_beat"] = heard.to_seconds().into();
            beat["interval_seconds"] = (self.interval / 1_000).into();
            beat["status"] = "alive".into();
        }
        Ok(Some(TaskDocument { file, checkpoint }))
    }

    pub fn last_update(&self) -> Time {
        let view = &self.view;
        let parts = view.subtasks.iter().map(|part| part.updated_at);
        let parts = parts
            .chain(view.files.iter().map(|part| part.at))
            .chain(view.errors.iter().map(|part| part.timestamp))
            .chain(view.errors.iter().filter_map(|part| part.cleared_at))
            .chain(view.reviews.iter().map(|part| part.at));
        parts.fold(view.sortie.updated_at, Time::max)
    }

    fn subtasks(&self) -> Value {
        let progress = self.view.progress;
        let items = self.view.subtasks.iter().map(|part| {
            json!({ "id": part.name, "status": part.status.as_str(), "output": part.output })
        });
        json!({
            "total": progress.total,
            "completed": progress.completed,
            "failed": progress.failed,
            "items": items.collect::<Vec<_>>(),
        })
    }

    fn errors(&self) -> Vec<Value> {
        let open = self.view.errors.iter();
        let open = open.filter(|error| error.cleared_at.is_none());
        open.map(|error| {
            json!({
                "type": error.kind,
                "message": error.message,
                "timestamp": error.timestamp.to_seconds(),
                "blocking": error.blocking,
            })
        })
        .collect()
    }
}
