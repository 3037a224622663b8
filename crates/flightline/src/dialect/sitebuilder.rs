//! Seed B's documents: one for each task that has begun.

use flightline_core::agent::{Agent, Role};
use flightline_core::checkpoint::Reason;
use flightline_core::dialect::Document;
use flightline_core::dialect::field::{Maybe, Stamp};
use flightline_core::dialect::sitebuilder::{
    Checkpoint, ItemStatus, Subtasks, TaskStatus, archive_name, file_name, is_archive, read_update,
};
use flightline_core::mission::Mission;
use flightline_core::sortie::{
    Cursor, Declared, FileChange, Review, Sortie, SortieError, SortieFile, SortieStatus, Subtask,
    SubtaskStatus,
};
use flightline_core::text::Note;
use flightline_core::{Kind, Name, RepoPath, Subject, Title};
use flightline_store::Find;
use serde_json::json;

use super::{ExportDocuments, Stored, Thing, filled, missions, note, title};
use crate::checkpoint::milestone::catch_up;
use crate::checkpoint::take::{error as trigger_error, first_of};
use crate::desk::{Desk, agent_named, check_new_name, first_epoch, new_agent};
use crate::error::Result;
use crate::fleet::Operation;
use crate::mail::progress::post_progress;
use crate::mission::{CreateMission, begin_if_pending};
use crate::sortie::add::{NewSortie, add_all};
use crate::sortie::report::{FileReport, SubtaskReport, record_file, record_subtask};
use crate::task;

/// What a mission is called that tasks from files are put into when there is none.
const MISSION: &str = "Tasks from progress/checkpoints";

/// Tasks that have begun, of one mission or of all that are open.
pub(super) fn things(desk: &mut Desk<'_, '_>, wanted: &ExportDocuments) -> Result<Vec<Thing>> {
    let missions = missions(desk, wanted.mission.as_deref())?;
    let mut things = Vec::new();
    for mission in missions {
        for id in changed(desk, &mission, wanted.since.unwrap_or(0))? {
            if let Some(sortie) = desk.tx.get::<Sortie>(&id)? {
                things.extend(of_sortie(desk, sortie)?);
            }
        }
    }
    Ok(things)
}

/// The sorties of a mission that changed, or of which a part did, after a revision. Reads no documents.
fn changed(desk: &mut Desk<'_, '_>, mission: &Mission, since: u64) -> Result<Vec<String>> {
    let mut ids: Vec<String> = Vec::new();
    for kind in [
        Kind::Sortie,
        Kind::Subtask,
        Kind::File,
        Kind::Error,
        Kind::Review,
    ] {
        for row in desk.tx.rows(kind, Find::Mission(mission.id))? {
            if row.rev > since {
                ids.push(
                    row.parent
                        .filter(|_| kind != Kind::Sortie)
                        .unwrap_or(row.id),
                );
            }
        }
    }
    ids.sort();
    ids.dedup();
    Ok(ids)
}

fn of_sortie(desk: &mut Desk<'_, '_>, sortie: Sortie) -> Result<Option<Thing>> {
    let task = task::load(desk, sortie)?;
    let Some(document) = task.document()? else {
        return Ok(None);
    };
    let checkpoint = document.checkpoint;
    let done = is_archive(&document.file);
    Ok(Some(Thing {
        of: task.view.sortie.key(),
        replaces: done
            .then(|| file_name(&checkpoint.agent, &checkpoint.task_id))
            .transpose()?,
        file: document.file,
        document: Document::Sitebuilder(Box::new(checkpoint)),
    }))
}

pub(super) fn find(desk: &mut Desk<'_, '_>, checkpoint: &Checkpoint) -> Result<Option<Thing>> {
    match known(desk, checkpoint)? {
        Some(sortie) => of_sortie(desk, sortie),
        None => Ok(None),
    }
}

pub(super) fn thing(desk: &mut Desk<'_, '_>, of: &str) -> Result<Option<Thing>> {
    match desk.tx.get::<Sortie>(of)? {
        Some(sortie) => of_sortie(desk, sortie),
        None => Ok(None),
    }
}

/// The text of the whole document that a part of one belongs to, with that part applied: which task it is
/// of, the name of its file says.
pub(super) fn completed(
    desk: &mut Desk<'_, '_>,
    file: &str,
    text: &str,
) -> Result<Option<Checkpoint>> {
    let Ok(update) = read_update(text) else {
        return Ok(None);
    };
    let name = file.rsplit('/').next().unwrap_or(file);
    for mission in desk.tx.find::<Mission>(Find::All)? {
        for sortie in desk.tx.find::<Sortie>(Find::Mission(mission.id))? {
            let Some(thing) = of_sortie(desk, sortie)? else {
                continue;
            };
            let Document::Sitebuilder(fresh) = &thing.document else {
                continue;
            };
            let archive = archive_name(&fresh.agent, &fresh.task_id)?;
            let current = file_name(&fresh.agent, &fresh.task_id)?;
            if name != archive && name != current {
                continue;
            }
            let whole = super::outgoing(desk, &thing)?;
            let mut whole = flightline_core::dialect::sitebuilder::read(&whole)
                .map_err(|why| why.refusal(file))?;
            whole.apply(update)?;
            return Ok(Some(whole));
        }
    }
    Ok(None)
}

/// The sortie of a task: of several, the one its agent has, else one that is not done, else the last.
fn known(desk: &mut Desk<'_, '_>, document: &Checkpoint) -> Result<Option<Sortie>> {
    let agent = owner(desk, document)?.map(|agent| agent.id);
    let mut best: Option<(bool, bool, bool, Sortie)> = None;
    for mission in desk.tx.find::<Mission>(Find::All)? {
        for sortie in desk.tx.find::<Sortie>(Find::Mission(mission.id))? {
            if sortie.task_id.as_ref().map(Name::as_str) != Some(&document.task_id)
                && sortie.id.to_string() != document.task_id
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
    Ok(best.map(|(.., sortie)| sortie))
}

/// The agent a document names: by its own name, else by what it is.
fn owner(desk: &mut Desk<'_, '_>, document: &Checkpoint) -> Result<Option<Agent>> {
    if let Some(name) = document.agent_name.get()
        && let Some(agent) = agent_named(desk.tx, name)?
    {
        return Ok(Some(agent));
    }
    agent_named(desk.tx, &document.agent)
}

/// What the document says becomes what the store knows of the task.
pub(super) fn store(
    desk: &mut Desk<'_, '_>,
    document: &Checkpoint,
    mission: Option<&str>,
) -> Result<Stored> {
    let mut warnings = Vec::new();
    let agent = match owner(desk, document)? {
        Some(agent) => agent,
        None => unknown_agent(desk, document)?,
    };
    let sortie = match known(desk, document)? {
        Some(sortie) => sortie,
        None => unknown_task(desk, document, mission)?,
    };
    let before = sortie.clone();
    let mission = begin_if_pending(desk, sortie.mission_id)?;
    let mut reasons = subtasks(desk, &sortie, document, &mut warnings)?;
    reasons.extend(files(desk, &sortie, document, &mut warnings)?);
    let blocking = errors(desk, &sortie, document)?;
    let reviewed = reviews(desk, &sortie, document)?;
    let sortie = changed_sortie(desk, sortie, &agent, document, &mut warnings)?;
    let completed =
        before.status != SortieStatus::Completed && sortie.status == SortieStatus::Completed;
    if sortie != before {
        let event = match (before.status, sortie.status) {
            (before, now) if before == now => "sortie_progress",
            (_, SortieStatus::Completed) => "sortie_completed",
            (_, SortieStatus::Blocked) => "sortie_blocked",
            (_, SortieStatus::Failed) => "sortie_failed",
            _ => "sortie_started",
        };
        let percent = document.percent();
        desk.tx.set(
            event,
            &sortie,
            &json!({ "dialect": "sitebuilder", "percent": percent }),
        )?;
        post_progress(desk, &sortie)?;
    }
    catch_up(desk, mission.id)?;
    let name = &document.task_id;
    if completed {
        reasons.insert(0, (Reason::TaskComplete, format!("Completed {name}")));
    } else if let Some(reviewer) = reviewed {
        reasons.insert(
            0,
            (Reason::ReviewDone, format!("{reviewer} reviewed {name}")),
        );
    }
    match blocking {
        Some(message) => trigger_error(desk, &mission, Reason::Blocker, message)?,
        None => drop(first_of(desk, &mission, reasons)?),
    }
    Ok(Stored {
        of: sortie.key(),
        name: format!("{} of {}", document.task_id, agent.name),
        warnings,
    })
}

/// The task's own record, as the document has it.
fn changed_sortie(
    desk: &Desk<'_, '_>,
    mut sortie: Sortie,
    agent: &Agent,
    document: &Checkpoint,
    warnings: &mut Vec<String>,
) -> Result<Sortie> {
    let before = sortie.clone();
    if let Some(text) = filled(&document.task_title) {
        sortie.title = Title::parse("task_title", text)?;
    }
    sortie.status = match &document.status {
        TaskStatus::InProgress => SortieStatus::InProgress,
        TaskStatus::Complete => SortieStatus::Completed,
        TaskStatus::Blocked => SortieStatus::Blocked,
        TaskStatus::Other(word) if word == "failed" => SortieStatus::Failed,
        TaskStatus::Other(word) => {
            warnings.push(format!(
                "the status `{word}` is kept, and means nothing here"
            ));
            match sortie.status {
                SortieStatus::Pending | SortieStatus::Assigned => SortieStatus::InProgress,
                status => status,
            }
        }
    };
    // What was begun and is nobody's stays so until somebody takes it up.
    let is_nobodys = sortie.started_at.is_some() && before.assigned_to.is_none();
    if is_nobodys
        && sortie.status == SortieStatus::InProgress
        && before.status == SortieStatus::Pending
    {
        sortie.status = before.status;
    } else if sortie.assigned_to != Some(agent.id) {
        sortie.assigned_to = Some(agent.id);
        sortie.assigned_epoch = Some(agent.epoch);
        sortie.assigned_at = Some(desk.now());
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
    if let Maybe::Is(counts) = &document.subtasks {
        sortie.declared = declared(counts);
    }
    if let Maybe::Is(criteria) = &document.acceptance_criteria_met {
        sortie.acceptance_criteria = criteria
            .0
            .iter()
            .map(|(name, met)| Ok((Name::parse("criterion", name)?, *met)))
            .collect::<Result<_>>()?;
    }
    if let Maybe::Is(context) = &document.context {
        sortie.cursor = Cursor {
            last_processed: title(&context.last_processed, "last_processed")?,
            next_to_process: title(&context.next_to_process, "next_to_process")?,
            notes: note(&context.notes, "notes")?,
        };
    }
    if let Some(resumable) = document.resumable.get() {
        // What is complete has nothing left to be resumed, and is no less resumable if it comes back.
        sortie.resumable =
            *resumable || (sortie.status == SortieStatus::Completed && sortie.resumable);
    }
    if document.resume_instructions != Maybe::Absent {
        sortie.resume_instructions = note(&document.resume_instructions, "resume_instructions")?;
    }
    let time = |stamp: &Maybe<Stamp>| stamp.get().map(Stamp::time);
    let written = document.last_update();
    sortie.started_at = time(&document.started_at).or(sortie.started_at).or(written);
    sortie.completed_at = match sortie.status {
        SortieStatus::Completed => time(&document.completed_at)
            .or(sortie.completed_at)
            .or(written)
            .or(Some(desk.now())),
        _ => None,
    };
    if sortie != before {
        sortie.updated_at = desk.now();
    }
    Ok(sortie)
}

fn why_blocked(document: &Checkpoint) -> Result<Note> {
    let errors = document.errors.get().into_iter().flatten();
    let message = errors
        .last()
        .map_or("its file says so", |error| error.message.as_str());
    Ok(Note::parse("error", message)?)
}

fn declared(counts: &Subtasks) -> Option<Declared> {
    let declared = Declared {
        total: counts.total.get().copied().unwrap_or_default(),
        completed: counts.completed.get().copied().unwrap_or_default(),
        failed: counts.failed.get().copied().unwrap_or_default(),
    };
    (declared != Declared::default()).then_some(declared)
}

/// Records the listed parts that are new or stand elsewhere than before.
fn subtasks(
    desk: &mut Desk<'_, '_>,
    sortie: &Sortie,
    document: &Checkpoint,
    warnings: &mut Vec<String>,
) -> Result<Vec<(Reason, String)>> {
    let known = desk.tx.find::<Subtask>(Find::Parent(&sortie.key()))?;
    let mut reasons = Vec::new();
    let counts = document.subtasks.get();
    for item in counts
        .and_then(|counts| counts.items.get())
        .into_iter()
        .flatten()
    {
        let name = Name::parse("subtask", &item.id)?;
        let before = known.iter().find(|subtask| subtask.name == name);
        let status = match item.status.get() {
            None | Some(ItemStatus::Pending) => SubtaskStatus::Pending,
            Some(ItemStatus::InProgress) => SubtaskStatus::InProgress,
            Some(ItemStatus::Complete) => SubtaskStatus::Complete,
            Some(ItemStatus::Failed) => SubtaskStatus::Failed,
            Some(ItemStatus::Other(word)) => {
                warnings.push(format!(
                    "the status `{word}` of {name} is kept, and means nothing here"
                ));
                before.map_or(SubtaskStatus::Pending, |before| before.status)
            }
        };
        let output = title(&item.output, "output")?;
        if before.is_some_and(|before| before.status == status && before.output == output) {
            continue;
        }
        if status == SubtaskStatus::Complete
            && before.is_none_or(|before| before.status != SubtaskStatus::Complete)
        {
            reasons.push((Reason::SubtaskDone, format!("Completed {name}")));
        }
        let report = SubtaskReport {
            title: before.and_then(|before| before.title.clone()),
            name,
            status,
            output,
        };
        record_subtask(desk, sortie, &report)?;
    }
    Ok(reasons)
}

/// Records the files that are new in the document.
fn files(
    desk: &mut Desk<'_, '_>,
    sortie: &Sortie,
    document: &Checkpoint,
    warnings: &mut Vec<String>,
) -> Result<Vec<(Reason, String)>> {
    let known = desk.tx.find::<SortieFile>(Find::Parent(&sortie.key()))?;
    let mut reasons = Vec::new();
    let lists = [
        (&document.files_created, FileChange::Created),
        (&document.files_modified, FileChange::Modified),
    ];
    for (list, change) in lists {
        for file in list.get().into_iter().flatten() {
            let path = match RepoPath::parse(file) {
                Ok(path) => path,
                Err(refusal) => {
                    warnings.push(format!("{}; it is only kept", refusal.message));
                    continue;
                }
            };
            if known
                .iter()
                .any(|it| it.path == path && it.change == change)
            {
                continue;
            }
            if change == FileChange::Created {
                reasons.push((Reason::FileCreated, format!("Created {path}")));
            } else if sortie.files.contains(&path) {
                reasons.push((Reason::FileModified, format!("Changed {path}")));
            }
            record_file(desk, sortie, &FileReport { path, change })?;
        }
    }
    Ok(reasons)
}

/// Records errors that are new, and clears those that are gone. The message of a new one that blocks.
fn errors(
    desk: &mut Desk<'_, '_>,
    sortie: &Sortie,
    document: &Checkpoint,
) -> Result<Option<String>> {
    let Maybe::Is(listed) = &document.errors else {
        return Ok(None);
    };
    let known = desk.tx.find::<SortieError>(Find::Parent(&sortie.key()))?;
    let mut blocking = None;
    let mut number = known.len() as u64;
    let mut still_open = Vec::new();
    for error in listed {
        let message = Note::parse("error", &error.message)?;
        let found = known
            .iter()
            .find(|known| known.cleared_at.is_none() && known.message == message);
        if let Some(found) = found {
            still_open.push(found.number);
            continue;
        }
        let kind = filled(&error.kind).unwrap_or("error");
        number += 1;
        let error = SortieError {
            sortie_id: sortie.id,
            mission_id: sortie.mission_id,
            number,
            kind: Name::parse("error type", kind)?,
            status: None,
            message,
            blocking: error.blocking.get().copied().unwrap_or(false),
            timestamp: error.timestamp.get().map_or(desk.now(), Stamp::time),
            cleared_at: None,
        };
        if error.blocking {
            blocking = Some(format!("{}: {}", error.kind, error.message));
        }
        let data =
            json!({ "type": error.kind, "message": error.message, "blocking": error.blocking });
        desk.tx.set("sortie_error", &error, &data)?;
    }
    for mut error in known {
        if error.cleared_at.is_none() && !still_open.contains(&error.number) {
            error.cleared_at = Some(desk.now());
            desk.tx.set(
                "sortie_error_cleared",
                &error,
                &json!({ "number": error.number }),
            )?;
        }
    }
    Ok(blocking)
}

/// Records scores that are new. Who gave the last of them.
fn reviews(
    desk: &mut Desk<'_, '_>,
    sortie: &Sortie,
    document: &Checkpoint,
) -> Result<Option<Name>> {
    let known = desk.tx.find::<Review>(Find::Parent(&sortie.key()))?;
    let mut last = None;
    for (reviewer, score) in document
        .review_scores
        .get()
        .into_iter()
        .flat_map(|named| &named.0)
    {
        let reviewer = Name::parse("reviewer", reviewer)?;
        // A score that is no whole number is only kept.
        let score = match &score.0 {
            None => None,
            Some(number) => match number.to_string().parse::<i64>() {
                Ok(score) => Some(score),
                Err(_) => continue,
            },
        };
        if known
            .iter()
            .any(|review| review.reviewer == reviewer && review.score == score)
        {
            continue;
        }
        let review = Review {
            sortie_id: sortie.id,
            mission_id: sortie.mission_id,
            reviewer,
            score,
            note: None,
            at: desk.now(),
        };
        let data = json!({ "reviewer": review.reviewer, "score": review.score });
        desk.tx.set("sortie_reviewed", &review, &data)?;
        last = score.map(|_| review.reviewer);
    }
    Ok(last)
}

/// An agent nobody has heard of.
fn unknown_agent(desk: &mut Desk<'_, '_>, document: &Checkpoint) -> Result<Agent> {
    let kind = Name::parse("agent", &document.agent)?;
    let own = filled(&document.agent_name).and_then(|name| Name::parse("agent_name", name).ok());
    let name = own.unwrap_or_else(|| kind.clone());
    check_new_name(&name)?;
    let is_kind = name == kind;
    let mut agent = new_agent(desk.tx, name, Role::Specialist);
    agent.kind = (!is_kind).then_some(kind);
    agent.epoch = first_epoch(desk.tx)?;
    agent.session_started_at = document.last_update().or(Some(desk.now()));
    let data =
        json!({ "dialect": "sitebuilder", "epoch": agent.epoch, "role": agent.role.as_str() });
    desk.tx.set("agent_registered", &agent, &data)?;
    Ok(agent)
}

/// A task nobody has heard of becomes a sortie of a mission.
fn unknown_task(
    desk: &mut Desk<'_, '_>,
    document: &Checkpoint,
    mission: Option<&str>,
) -> Result<Sortie> {
    let mission = match (mission, desk.current_mission()?) {
        (Some(mission), _) => desk.mission(Some(mission))?,
        (None, Some(mission)) if mission.status.is_open() => mission,
        (None, _) => {
            CreateMission::titled(Title::parse("title", MISSION)?)
                .decide(desk)?
                .mission
        }
    };
    let title = filled(&document.task_title).unwrap_or(&document.task_id);
    let new = NewSortie {
        task_id: Some(Name::parse("task_id", &document.task_id)?),
        ..NewSortie::titled(Title::parse("task_title", title)?)
    };
    let added = add_all(desk, &mission, &[new])?;
    let id = added.first().map(ToString::to_string).unwrap_or_default();
    desk.sortie(&id)
}
