//! Seed B's documents: one for each task that has begun.

mod parts;

use flightline_core::agent::{Agent, Role};
use flightline_core::checkpoint::Reason;
use flightline_core::dialect::sitebuilder::{
    apply, archive_name, declared, file_name, is_archive, last_update as written_last,
    part_written as written_then, percent, read_part,
};
use flightline_core::dialect::{Dialect, DialectDocument, Json};
use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::sortie::{Declared, Sortie, SortieStatus, WorkCursor};
use flightline_core::text::NoteText;
use flightline_core::{Code, Kind, Name, Refusal, Subject, Time, Title};
use flightline_store::Find;
use serde_json::json;

use super::{
    Draft, ExportDocuments, Stored, filled, missions, note, refuse_others, refuse_retired, title,
};
use crate::agent::context::synced_by;
use crate::checkpoint::milestone::{catch_up, milestones};
use crate::checkpoint::trigger::{error as trigger_error, first_of};
use crate::error::{Error, Result};
use crate::fleet::Operation;
use crate::lock::release::release_for;
use crate::mail::progress::post_progress;
use crate::mission::{CreateMission, begin_if_pending};
use crate::op_context::{OpContext, agent_named, check_new_name, first_epoch, new_agent};
use crate::sortie::add::{NewSortie, add_all};
use crate::task;

/// The title of the mission for tasks from files, when there is none yet.
const MISSION: &str = "Tasks from progress/checkpoints";

/// Tasks that have begun, of one mission or of all that are open.
pub(super) fn things(ctx: &mut OpContext<'_, '_>, wanted: &ExportDocuments) -> Result<Vec<Draft>> {
    let missions = missions(ctx, wanted.mission.as_deref())?;
    let mut things = Vec::new();
    for mission in missions {
        for id in changed(ctx, &mission, wanted.since.unwrap_or(0))? {
            if let Some(sortie) = ctx.tx.get::<Sortie>(&id)? {
                match of_sortie(ctx, sortie) {
                    // A task whose agent's name cannot be a file's name has no file, and keeps no other task from its own.
                    Err(Error::Refused(_)) => {}
                    thing => things.extend(thing?),
                }
            }
        }
    }
    Ok(things)
}

/// The sorties of a mission that changed, or of which a part did, after a revision. Reads no documents.
fn changed(ctx: &mut OpContext<'_, '_>, mission: &Mission, since: u64) -> Result<Vec<String>> {
    let mut ids: Vec<String> = Vec::new();
    for kind in [
        Kind::Sortie,
        Kind::Subtask,
        Kind::File,
        Kind::Error,
        Kind::Review,
    ] {
        for row in ctx.tx.rows(kind, Find::Mission(mission.id))? {
            if row.rev > since {
                ids.push(
                    row.parent
                        .filter(|_| kind != Kind::Sortie)
                        .unwrap_or(row.id),
                );
            }
        }
    }
    ids.extend(heard(ctx, mission)?);
    ids.sort();
    ids.dedup();
    Ok(ids)
}

/// The sorties of a mission whose owner was heard since they last changed, a heartbeat or more later.
fn heard(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<Vec<String>> {
    let pulses = ctx.tx.pulses()?;
    let interval = ctx.policy.heartbeat_ms;
    let mut rows = ctx.tx.rows(Kind::Sortie, Find::Mission(mission.id))?;
    rows.retain(|row| {
        let owner = row.agent.as_ref();
        let pulse = pulses.iter().find(|pulse| Some(&pulse.agent) == owner);
        row.status == SortieStatus::InProgress.as_str()
            && pulse.is_some_and(|pulse| task::heard(row.at, pulse.at, interval).is_some())
    });
    Ok(rows.into_iter().map(|row| row.id).collect())
}

fn of_sortie(ctx: &mut OpContext<'_, '_>, sortie: Sortie) -> Result<Option<Draft>> {
    let task = task::load(ctx, sortie)?;
    let Some(document) = task.document()? else {
        return Ok(None);
    };
    let [current, archive] = files_of(&document.checkpoint)?;
    let done = is_archive(&document.file);
    Ok(Some(Draft {
        of: task.view.sortie.key(),
        replaces: Some(if done { current } else { archive }),
        file: document.file,
        document: document.checkpoint,
    }))
}

/// The names of a task's file while it is worked on, and when it is complete.
fn files_of(document: &Json) -> Result<[String; 2]> {
    let (agent, task) = (document.word("agent"), document.word("task_id"));
    Ok([file_name(agent, task)?, archive_name(agent, task)?])
}

pub(super) fn find(ctx: &mut OpContext<'_, '_>, checkpoint: &Json) -> Result<Option<Draft>> {
    match known(ctx, checkpoint)? {
        Some((TaskState::Open, sortie)) => of_sortie(ctx, sortie),
        Some((TaskState::Closed, _)) | None => Ok(None),
    }
}

pub(super) fn last_update(ctx: &mut OpContext<'_, '_>, document: &Json) -> Result<Option<Time>> {
    match known(ctx, document)? {
        Some((TaskState::Open, sortie)) => Ok(Some(task::load(ctx, sortie)?.last_update())),
        Some((TaskState::Closed, _)) | None => Ok(None),
    }
}

pub(super) fn thing(ctx: &mut OpContext<'_, '_>, of: &str) -> Result<Option<Draft>> {
    match ctx.tx.get::<Sortie>(of)? {
        Some(sortie) => of_sortie(ctx, sortie),
        None => Ok(None),
    }
}

/// Returns the time at which a part of a document was written, if the text is one and says so.
pub(super) fn part_written(dialect: Dialect, text: &str) -> Option<Time> {
    let is_ours = dialect == Dialect::Sitebuilder;
    written_then(&read_part(text).ok().filter(|_| is_ours)?)
}

/// A whole document, with a part of one applied.
pub(super) struct Completed {
    pub(super) whole: DialectDocument,
    /// The time at which the part was written, if it says so.
    pub(super) written: Option<Time>,
    /// The time at which the rest was written.
    pub(super) known: Option<Time>,
}

/// The whole document that a part of one belongs to, with that part applied: which task it is of, the name of its
/// file says.
pub(super) fn completed(
    ctx: &mut OpContext<'_, '_>,
    file: &str,
    text: &str,
) -> Result<Option<Completed>> {
    let Ok(part) = read_part(text) else {
        return Ok(None);
    };
    let name = file.rsplit('/').next().unwrap_or(file);
    for mission in ctx.tx.find::<Mission>(Find::All)? {
        for sortie in ctx.tx.find::<Sortie>(Find::Mission(mission.id))? {
            let Ok(Some(thing)) = of_sortie(ctx, sortie) else {
                continue;
            };
            if !files_of(&thing.document)?.iter().any(|it| it == name) {
                continue;
            }
            let whole = super::outgoing(ctx, &thing)?;
            let mut whole = super::read(Dialect::Sitebuilder, &whole, file)?;
            let (known, written) = (last_update(ctx, &whole)?, written_then(&part));
            apply(&mut whole, part)?;
            return Ok(Some(Completed {
                whole,
                written,
                known,
            }));
        }
    }
    Ok(None)
}

/// The sortie of a task: of several, the one its agent has, else one that is not done, else the last.
fn known(ctx: &mut OpContext<'_, '_>, document: &Json) -> Result<Option<(TaskState, Sortie)>> {
    let agent = owner(ctx, document)?.map(|agent| agent.id);
    let task = document.word("task_id");
    let mut best: Option<(bool, bool, bool, Sortie)> = None;
    for mission in ctx.tx.find::<Mission>(Find::All)? {
        for sortie in ctx.tx.find::<Sortie>(Find::Mission(mission.id))? {
            if sortie.task_id.as_ref().map(Name::as_str) != Some(task)
                && sortie.id.to_string() != task
            {
                continue;
            }
            let rank = (
                mission.status.is_open(),
                agent.is_some() && sortie.assigned_to == agent,
                sortie.status != SortieStatus::Completed,
            );
            if best
                .as_ref()
                .is_none_or(|(a, b, c, _)| rank >= (*a, *b, *c))
            {
                best = Some((rank.0, rank.1, rank.2, sortie));
            }
        }
    }
    Ok(best.map(|(open, .., sortie)| {
        let standing = if open {
            TaskState::Open
        } else {
            TaskState::Closed
        };
        (standing, sortie)
    }))
}

/// The state of a task's mission: work on it may still happen, or not.
enum TaskState {
    Open,
    Closed,
}

/// Refuses a file about a task that another agent holds now, and a file from before the task was completed.
fn refuse_taken(
    ctx: &mut OpContext<'_, '_>,
    sortie: &Sortie,
    agent: &Agent,
    document: &Json,
) -> Result<()> {
    let task = document.word("task_id");
    if let Some(other) = sortie.assigned_to.filter(|owner| *owner != agent.id)
        && sortie.status.is_held()
        && let Some(other) = ctx.tx.get::<Agent>(other)?
        && other.retired_at.is_none()
    {
        return Err(Refusal::new(
            Code::NotYours,
            format!("{task} belongs to {} now", other.name),
        )
        .hint(format!(
            "give it back with `fleet sorties reassign {} --to {}`",
            sortie.id, agent.name
        ))
        .into());
    }
    if let Some(done) = sortie.completed_at.filter(|_| !is_complete(document))
        && sortie.status == SortieStatus::Completed
        && written_last(document).is_none_or(|written| written <= done)
    {
        return Err(Refusal::new(
            Code::IllegalTransition,
            format!(
                "{task} was completed at {}, after this was written",
                done.to_seconds()
            ),
        )
        .into());
    }
    Ok(())
}

/// Returns the agent that a document names: by its own name, else by its type.
pub(super) fn owner(ctx: &mut OpContext<'_, '_>, document: &Json) -> Result<Option<Agent>> {
    if let Some(name) = document.text("agent_name")
        && let Some(agent) = agent_named(ctx.tx, name)?
    {
        return Ok(Some(agent));
    }
    agent_named(ctx.tx, document.word("agent"))
}

fn is_complete(document: &Json) -> bool {
    document.word("status") == "complete"
}

/// Refuses a document whose writer may not say this any more. As it was written: once merged with the store's
/// knowledge, it names the task's present owner.
pub(super) fn check(ctx: &mut OpContext<'_, '_>, document: &Json) -> Result<()> {
    let Some(agent) = owner(ctx, document)? else {
        return Ok(());
    };
    refuse_retired(&agent)?;
    refuse_others(ctx, &agent)?;
    match known(ctx, document)? {
        Some((TaskState::Open, sortie)) => refuse_taken(ctx, &sortie, &agent, document),
        Some((TaskState::Closed, _)) | None => Ok(()),
    }
}

/// The changes that a document made to its task.
struct Recorded {
    agent: Agent,
    mission: Mission,
    before: Sortie,
    sortie: Sortie,
    /// The reasons for a checkpoint.
    reasons: Vec<(Reason, String)>,
    /// A new error that is in the way.
    blocking: Option<String>,
    /// The reviewer that gave the last new score.
    reviewed: Option<Name>,
}

/// Stores what the document says of the task, as of `at`. A document that `is_whole` was put together with the stored
/// state: entries that it does not list were taken out.
pub(super) fn store(
    ctx: &mut OpContext<'_, '_>,
    document: &Json,
    is_whole: bool,
    mission: Option<&str>,
    at: Time,
) -> Result<Stored> {
    let mut warnings = Vec::new();
    let name = document.word("task_id");
    let stored = |sortie: &Sortie, agent: &str, warnings| Stored {
        of: sortie.key(),
        name: format!("{name} of {agent}"),
        warnings,
    };
    if is_complete(document)
        && let Some((TaskState::Closed, sortie)) = known(ctx, document)?
    {
        // The mission of the sortie is over, and so is the sortie: the file is only kept.
        return Ok(stored(&sortie, document.word("agent"), warnings));
    }
    let recorded = ctx.as_of(at, |ctx| {
        record(ctx, document, is_whole, mission, &mut warnings)
    })?;
    let Recorded {
        agent,
        mission,
        before,
        sortie,
        mut reasons,
        blocking,
        reviewed,
    } = recorded;
    if sortie.status != before.status
        && matches!(
            sortie.status,
            SortieStatus::Completed | SortieStatus::Failed
        )
    {
        let why = format!("its sortie is {}", sortie.status.as_str());
        release_for(ctx, sortie.id, None, &why)?;
    }
    if sortie != before {
        post_progress(ctx, &sortie)?;
    }
    catch_up(ctx, mission.id)?;
    if before.status != SortieStatus::Completed && sortie.status == SortieStatus::Completed {
        synced_by(ctx, &sortie)?;
        milestones(ctx, &mission)?;
        reasons.insert(0, (Reason::TaskComplete, format!("Completed {name}")));
    } else if let Some(reviewer) = reviewed {
        reasons.insert(
            0,
            (Reason::ReviewDone, format!("{reviewer} reviewed {name}")),
        );
    }
    match blocking {
        Some(message) => trigger_error(ctx, &mission, Reason::Blocker, message)?,
        None => drop(first_of(ctx, &mission, reasons)?),
    }
    Ok(stored(&sortie, agent.name.as_str(), warnings))
}

/// Records what a document says, and the sign of life of its agent.
fn record(
    ctx: &mut OpContext<'_, '_>,
    document: &Json,
    is_whole: bool,
    mission: Option<&str>,
    warnings: &mut Vec<String>,
) -> Result<Recorded> {
    let agent = match owner(ctx, document)? {
        Some(agent) => agent,
        None => unknown_agent(ctx, document)?,
    };
    let before = match known(ctx, document)? {
        Some((TaskState::Open, sortie)) => sortie,
        Some((TaskState::Closed, _)) | None => unknown_task(ctx, document, mission)?,
    };
    let mission = begin_if_pending(ctx, before.mission_id)?;
    let mut reasons = parts::subtasks(ctx, &before, document, warnings)?;
    if is_whole {
        parts::remove_unlisted(ctx, &before, document)?;
    }
    reasons.extend(parts::files(ctx, &before, document, warnings)?);
    let blocking = parts::errors(ctx, &before, document)?;
    let reviewed = parts::reviews(ctx, &before, document)?;
    let sortie = changed_sortie(ctx, before.clone(), &agent, document, warnings)?;
    if sortie != before {
        let event = match (before.status, sortie.status) {
            (before, now) if before == now => EventType::SortieProgress,
            (_, SortieStatus::Completed) => EventType::SortieCompleted,
            (_, SortieStatus::Blocked) => EventType::SortieBlocked,
            (_, SortieStatus::Failed) => EventType::SortieFailed,
            _ => EventType::SortieStarted,
        };
        let data = json!({ "dialect": "sitebuilder", "percent": percent(document) });
        ctx.tx.set(event, &sortie, &data)?;
    }
    // The agent wrote the document itself, at that time.
    let beat = document["heartbeat"].time("last_beat");
    let sign = ctx.now().max(beat.unwrap_or(Time::EARLIEST));
    ctx.as_of(sign, |ctx| {
        Ok(ctx.tx.record_past_pulse(agent.id, agent.epoch)?)
    })?;
    Ok(Recorded {
        agent,
        mission,
        before,
        sortie,
        reasons,
        blocking,
        reviewed,
    })
}

/// The task's own record, as the document has it.
fn changed_sortie(
    ctx: &OpContext<'_, '_>,
    mut sortie: Sortie,
    agent: &Agent,
    document: &Json,
    warnings: &mut Vec<String>,
) -> Result<Sortie> {
    let before = sortie.clone();
    if let Some(text) = filled(document, "task_title") {
        sortie.title = Title::parse("task_title", text)?;
    }
    sortie.status = match document.word("status") {
        "in_progress" => SortieStatus::InProgress,
        "complete" => SortieStatus::Completed,
        "blocked" => SortieStatus::Blocked,
        "failed" => SortieStatus::Failed,
        word => {
            warnings.push(format!(
                "the status `{word}` is kept, and means nothing here"
            ));
            match sortie.status {
                SortieStatus::Pending | SortieStatus::Assigned => SortieStatus::InProgress,
                status => status,
            }
        }
    };
    // A begun task without an owner stays so until an agent takes it up.
    let is_nobodys = sortie.started_at.is_some() && before.assigned_to.is_none();
    if is_nobodys
        && sortie.status == SortieStatus::InProgress
        && before.status == SortieStatus::Pending
    {
        sortie.status = before.status;
    } else if sortie.assigned_to != Some(agent.id) {
        sortie.assigned_to = Some(agent.id);
        sortie.assigned_epoch = Some(agent.epoch);
        sortie.assigned_at = Some(ctx.now());
    }
    if before.status != SortieStatus::InProgress && sortie.status == SortieStatus::InProgress {
        sortie.attempts += 1;
        sortie.interrupted = None;
    }
    sortie.blocked_reason = match (sortie.status, &before.blocked_reason) {
        (SortieStatus::Blocked, Some(reason)) => Some(reason.clone()),
        (SortieStatus::Blocked, None) => Some(why_blocked(document)?),
        _ => None,
    };
    sortie.failure = match sortie.status {
        SortieStatus::Failed => Some(why_blocked(document)?),
        _ => None,
    };
    if let Some(counts) = document.given("subtasks") {
        sortie.declared = Some(declared(counts)).filter(|counts| *counts != Declared::default());
    }
    if document.given("acceptance_criteria_met").is_some() {
        let criteria = document.fields("acceptance_criteria_met").iter();
        sortie.acceptance_criteria = criteria
            .map(|(name, met)| Ok((Name::parse("criterion", name)?, *met == Json::Bool(true))))
            .collect::<Result<_>>()?;
    }
    if let Some(context) = document.given("context") {
        sortie.cursor = WorkCursor {
            last_processed: title(context, "last_processed")?,
            next_to_process: title(context, "next_to_process")?,
            notes: note(context, "notes")?,
        };
    }
    if let Some(resumable) = document.flag("resumable") {
        // A complete task has nothing left to resume, and stays resumable if it comes back.
        sortie.resumable =
            resumable || (sortie.status == SortieStatus::Completed && sortie.resumable);
    }
    if document.get("resume_instructions").is_some() {
        sortie.resume_instructions = note(document, "resume_instructions")?;
    }
    let (started, written) = (document.time("started_at"), written_last(document));
    sortie.started_at = started.or(sortie.started_at).or(written);
    sortie.completed_at = match sortie.status {
        SortieStatus::Completed => document
            .time("completed_at")
            .or(sortie.completed_at)
            .or(written)
            .or(Some(ctx.now())),
        _ => None,
    };
    sortie.updated_at = before.updated_at.max(ctx.now());
    Ok(sortie)
}

fn why_blocked(document: &Json) -> Result<NoteText> {
    let last = document.items("errors").last();
    let message = last.map_or("its file says so", |error| error.word("message"));
    Ok(NoteText::parse("error", message)?)
}

/// An agent that the store does not know.
fn unknown_agent(ctx: &mut OpContext<'_, '_>, document: &Json) -> Result<Agent> {
    let kind = Name::parse("agent", document.word("agent"))?;
    let own = filled(document, "agent_name").and_then(|name| Name::parse("agent_name", name).ok());
    let name = own.unwrap_or_else(|| kind.clone());
    check_new_name(ctx.tx, &name)?;
    let is_kind = name == kind;
    let mut agent = new_agent(ctx.tx, name, Role::Specialist);
    agent.kind = (!is_kind).then_some(kind);
    agent.epoch = first_epoch(ctx.tx)?;
    // That its file is taken in now is no sign of life.
    agent.session_started_at = written_last(document).map(|at| at.min(ctx.now()));
    let data =
        json!({ "dialect": "sitebuilder", "epoch": agent.epoch, "role": agent.role.as_str() });
    ctx.tx.set(EventType::AgentRegistered, &agent, &data)?;
    Ok(agent)
}

/// A task that the store does not know becomes a sortie of a mission.
fn unknown_task(
    ctx: &mut OpContext<'_, '_>,
    document: &Json,
    mission: Option<&str>,
) -> Result<Sortie> {
    let mission = match (mission, ctx.current_mission()?) {
        (Some(mission), _) => ctx.mission(Some(mission))?,
        (None, Some(mission)) if mission.status.is_open() => mission,
        (None, _) => {
            CreateMission::titled(Title::parse("title", MISSION)?)
                .decide(ctx)?
                .mission
        }
    };
    let task = document.word("task_id");
    let title = filled(document, "task_title").unwrap_or(task);
    let new = NewSortie {
        task_id: Some(Name::parse("task_id", task)?),
        ..NewSortie::titled(Title::parse("task_title", title)?)
    };
    let added = add_all(ctx, &mission, &[new])?;
    let id = added.first().map(ToString::to_string).unwrap_or_default();
    ctx.sortie(&id)
}
