//! Seed E's documents: one for each checkpoint, and the latest of them under its own name.

use flightline_core::checkpoint::{Checkpoint, CheckpointStatus, Reason};
use flightline_core::context::{recovery_document, task_label};
use flightline_core::dialect::recovery::{
    CleanUp, LATEST_FILE, backlog, backup_name, emergency_name, in_progress, reason_of,
};
use flightline_core::dialect::{Dialect, DialectDocument, Json, Original};
use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::note::{Note as Remembered, NoteKind};
use flightline_core::sortie::{Interruption, Sortie, SortieStatus};
use flightline_core::text::NoteText;
use flightline_core::{Kind, Name, Subject, Time, Title};
use flightline_store::Find;
use serde_json::json;

use super::{Draft, ExportDocuments, Stored, filled};
use crate::agent::context::{stack_of, synced_by};
use crate::checkpoint::load;
use crate::checkpoint::milestone::{catch_up, milestones};
use crate::checkpoint::take::{NewCheckpoint, take};
use crate::error::Result;
use crate::fleet::Operation;
use crate::lock::release::release_for;
use crate::mission::{CreateMission, begin_if_pending};
use crate::note::AddNote;
use crate::op_context::OpContext;
use crate::recovery::delta::{DeltaResult, apply};
use crate::sortie::add::{NewSortie, add_all};

/// The title of the mission for tasks from a file, when there is none yet.
const MISSION: &str = "Tasks from checkpoints";
/// The name of the earlier owner of tasks, where the file does not name one.
const EARLIER: &str = "earlier-session";

/// The newest checkpoint that means something to the seed, and every one of those since a revision.
pub(super) fn things(ctx: &mut OpContext<'_, '_>, wanted: &ExportDocuments) -> Result<Vec<Draft>> {
    let missions = super::missions(ctx, wanted.mission.as_deref())?;
    let mut found: Vec<(u64, String)> = Vec::new();
    for mission in missions {
        for row in ctx.tx.rows(Kind::Checkpoint, Find::Mission(mission.id))? {
            if row.status != CheckpointStatus::Archived.as_str() {
                found.push((row.born, row.id));
            }
        }
    }
    found.sort();
    let mut things: Vec<Draft> = Vec::new();
    let (mut is_latest, mut backups) = (true, 0);
    let rules = CleanUp::default();
    for (born, id) in found.into_iter().rev() {
        if !is_latest && wanted.since.is_some_and(|since| born <= since) {
            break;
        }
        let Some(checkpoint) = ctx.tx.get::<Checkpoint>(&id)? else {
            continue;
        };
        if !says(checkpoint.cut.reason) {
            continue;
        }
        // A damaged checkpoint is the doctor's business: the others have their files all the same.
        let Ok(document) = document(ctx, &checkpoint) else {
            continue;
        };
        if is_latest {
            things.push(thing_of(&checkpoint, LATEST_FILE.to_owned(), &document));
            is_latest = false;
            if wanted.since.is_some_and(|since| born <= since) {
                break;
            }
        }
        // A checkpoint whose file would be cleaned up at once gets none.
        let emergency = checkpoint.cut.reason == Reason::TokenCritical;
        let old = ctx.now().since(checkpoint.cut.timestamp) > rules.max_age;
        backups += usize::from(!emergency);
        if old || (!emergency && backups > rules.backups) {
            continue;
        }
        // Two of one millisecond: the newer one has the name.
        let file = own_file(&checkpoint);
        if !things.iter().any(|thing| thing.file == file) {
            things.push(thing_of(&checkpoint, file, &document));
        }
    }
    Ok(things)
}

/// Returns true when the seed takes a checkpoint for this reason.
const fn says(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::TokenWarning
            | Reason::TokenCritical
            | Reason::SessionEnd
            | Reason::PreCompact
            | Reason::TaskComplete
            | Reason::Manual
    )
}

fn own_file(checkpoint: &Checkpoint) -> String {
    match checkpoint.cut.reason {
        Reason::TokenCritical => emergency_name(checkpoint.cut.timestamp),
        _ => backup_name(checkpoint.cut.timestamp),
    }
}

fn document(ctx: &mut OpContext<'_, '_>, checkpoint: &Checkpoint) -> Result<DialectDocument> {
    let contents = load(ctx, checkpoint)?;
    let missions: Vec<Mission> = contents.of()?;
    let sorties: Vec<Sortie> = contents.of()?;
    let mission = match missions.into_iter().next() {
        Some(mission) => mission,
        None => ctx.mission_of(checkpoint.cut.mission_id)?,
    };
    Ok(recovery_document(checkpoint, &mission, &sorties))
}

fn thing_of(checkpoint: &Checkpoint, file: String, document: &DialectDocument) -> Draft {
    Draft {
        of: checkpoint.key(),
        file,
        document: document.clone(),
        replaces: None,
    }
}

pub(super) fn thing(ctx: &mut OpContext<'_, '_>, of: &str) -> Result<Option<Draft>> {
    let Some(checkpoint) = ctx.tx.get::<Checkpoint>(of)? else {
        return Ok(None);
    };
    let document = document(ctx, &checkpoint)?;
    Ok(Some(thing_of(
        &checkpoint,
        own_file(&checkpoint),
        &document,
    )))
}

/// Returns the time at which the newest checkpoint that has a file was written, or consumed.
pub(super) fn known(ctx: &mut OpContext<'_, '_>) -> Result<Option<Time>> {
    let Some(latest) = latest(ctx)? else {
        return Ok(None);
    };
    let Some(checkpoint) = ctx.tx.get::<Checkpoint>(&latest.of)? else {
        return Ok(None);
    };
    // An imported document tells when it was written.
    let id = Original::id(Dialect::Recovery, &latest.of);
    let original = ctx.tx.get::<Original>(&id)?;
    let written = original.and_then(|it| {
        DialectDocument::read(Dialect::Recovery, &it.text)
            .ok()?
            .written()
    });
    let arrived = checkpoint.cut.timestamp;
    let written = written.map_or(arrived, |written| written.min(arrived));
    Ok(Some(written).max(checkpoint.consumed_at))
}

/// The newest checkpoint that has a file.
fn latest(ctx: &mut OpContext<'_, '_>) -> Result<Option<Draft>> {
    let newest = ExportDocuments {
        dialect: Dialect::Recovery,
        mission: None,
        since: Some(u64::MAX),
        ended_since: None,
    };
    Ok(things(ctx, &newest)?.into_iter().next())
}

/// Stores the content of a document, and takes a checkpoint that holds it.
pub(super) fn store(
    ctx: &mut OpContext<'_, '_>,
    document: &Json,
    before: Option<&str>,
    mission: Option<&str>,
) -> Result<Option<Stored>> {
    let before = before.and_then(|text| DialectDocument::read(Dialect::Recovery, text).ok());
    let Some(written) = document.time("timestamp") else {
        // An empty timestamp: there is no checkpoint. An agent that took it out of the file has used it up.
        let took_out = before.is_some_and(|it| it.written().is_some());
        if took_out {
            use_up(ctx)?;
        }
        return Ok(None);
    };
    let mut warnings = Vec::new();
    let mission = ctx.as_of(written, |ctx| {
        let mission = mission_of(ctx, document, mission)?;
        tasks(ctx, &mission, document, before.as_deref())?;
        instructions(ctx, &mission, document)?;
        Ok(mission)
    })?;
    let mission = ctx.mission_of(mission.id)?;
    let outcomes = apply(ctx, &mission, document.items("deltaChanges"))?;
    for (outcome, delta) in outcomes.into_iter().zip(1..) {
        if outcome.result == DeltaResult::Kept {
            let why = outcome.why.unwrap_or_default();
            warnings.push(format!("change {delta} is only kept: {why}"));
        }
    }
    next_steps(ctx, &mission, document)?;
    catch_up(ctx, mission.id)?;
    milestones(ctx, &mission)?;
    let reason = document.text("reason").and_then(reason_of);
    let mut reason = reason.unwrap_or(Reason::Manual);
    if ctx.now().since(written) > ctx.policy.valid_ms {
        warnings.push(format!(
            "it is of {}, too old to be resumed from by itself",
            written.to_seconds()
        ));
        reason = Reason::Manual;
    }
    let taking = NewCheckpoint {
        mission: &mission,
        reason,
        details: Some(format!(
            "Taken in; written at {}",
            document.word("timestamp")
        )),
        note: None,
        blockers: Vec::new(),
    };
    let checkpoint = take(ctx, &taking)?;
    Ok(Some(Stored {
        of: checkpoint.key(),
        name: format!("checkpoint of {}", mission.title),
        warnings,
    }))
}

/// The mission a document is about, with what it says of it.
fn mission_of(
    ctx: &mut OpContext<'_, '_>,
    document: &Json,
    mission: Option<&str>,
) -> Result<Mission> {
    let context = &document["context"];
    let objective = filled(context, "activeObjective");
    let before = match (mission, ctx.current_mission()?) {
        (Some(mission), _) => ctx.mission(Some(mission))?,
        (None, Some(mission)) if mission.status.is_open() => mission,
        (None, _) => {
            let title = Title::parse("activeObjective", objective.unwrap_or(MISSION))?;
            CreateMission::titled(title).decide(ctx)?.mission
        }
    };
    let before = begin_if_pending(ctx, before.id)?;
    let mut after = before.clone();
    if let Some(text) = objective.filter(|text| *text != before.title.as_str()) {
        after.objective = Some(NoteText::parse("activeObjective", text)?);
    }
    // A stack that the project or the mission has is compared with that of the checkpoint, and not changed by it.
    if let Some(text) = filled(context, "STACK_ID")
        && stack_of(ctx, &before).is_none()
    {
        after.stack_id = Some(Name::parse("STACK_ID", text)?);
    }
    if let Some(text) = filled(context, "currentSprint") {
        after.sprint = Some(Title::parse("currentSprint", text)?);
    }
    if let Some(phase) = document["state"].text("currentPhase") {
        after.phase = Some(Title::parse("currentPhase", phase)?);
    }
    if after != before {
        after.updated_at = ctx.now();
        ctx.tx.set(
            EventType::MissionUpdated,
            &after,
            &json!({ "dialect": "recovery" }),
        )?;
    }
    Ok(after)
}

/// Every task the document names is there, and stands where the document says.
fn tasks(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    document: &Json,
    before: Option<&Json>,
) -> Result<()> {
    let mut wanted = columns(document);
    let known_before = before.map(columns).unwrap_or_default();
    // The rest is as it was when the file was written, and may have moved on since.
    wanted.retain(|(id, _, status)| {
        let same = |(was, _, at): &(&str, &str, SortieStatus)| was == id && at == status;
        !known_before.iter().any(same)
    });
    let known = ctx.tx.find::<Sortie>(Find::Mission(mission.id))?;
    let is_known = |id: &str| known.iter().any(|sortie| task_label(sortie) == id);
    let mut new: Vec<NewSortie> = Vec::new();
    for (id, title, _) in &wanted {
        let name = Name::parse("task", id)?;
        let twice = new.iter().any(|it| it.task_id.as_ref() == Some(&name));
        if !is_known(id) && !twice {
            new.push(NewSortie {
                task_id: Some(name),
                ..NewSortie::titled(Title::parse("title", title)?)
            });
        }
    }
    add_all(ctx, mission, &new)?;
    for sortie in ctx.tx.find::<Sortie>(Find::Mission(mission.id))? {
        let label = task_label(&sortie);
        if let Some((_, _, status)) = wanted.iter().find(|(id, ..)| *id == label) {
            let written = document.time("timestamp").unwrap_or(ctx.now());
            let written = written.min(ctx.now());
            put(ctx, sortie, *status, (written, before.is_some()))?;
        }
    }
    Ok(())
}

/// Every task a document names, and where it stands there.
fn columns(document: &Json) -> Vec<(&str, &str, SortieStatus)> {
    let mut columns: Vec<(&str, &str, SortieStatus)> = Vec::new();
    for id in document["state"].texts("completedTasks") {
        columns.push((id, id, SortieStatus::Completed));
    }
    for id in in_progress(document) {
        columns.push((id, id, SortieStatus::InProgress));
    }
    for (id, title) in backlog(document) {
        columns.push((id, title.unwrap_or(id), SortieStatus::Pending));
    }
    columns
}

/// Marks the checkpoint that the file told of as consumed: nothing resumes from it any more.
fn use_up(ctx: &mut OpContext<'_, '_>) -> Result<()> {
    let Some(latest) = latest(ctx)? else {
        return Ok(());
    };
    if let Some(mut checkpoint) = ctx.tx.get::<Checkpoint>(&latest.of)?
        && checkpoint.consumed_at.is_none()
    {
        checkpoint.consumed_at = Some(ctx.now());
        let data = json!({ "checkpoint_id": checkpoint.id, "dialect": "recovery" });
        ctx.tx
            .set(EventType::CheckpointConsumed, &checkpoint, &data)?;
    }
    Ok(())
}

/// Puts a task where the document has it. A task that is further here goes back only when the file was edited to say so.
fn put(
    ctx: &mut OpContext<'_, '_>,
    before: Sortie,
    status: SortieStatus,
    (written, moved): (Time, bool),
) -> Result<()> {
    let how_far = |status: SortieStatus| match status {
        SortieStatus::Pending | SortieStatus::Assigned | SortieStatus::Failed => 0,
        SortieStatus::InProgress | SortieStatus::Blocked => 1,
        SortieStatus::Completed | SortieStatus::Skipped => 2,
    };
    let begun = before.is_interrupted();
    if !moved && how_far(status) < how_far(before.status).max(u8::from(begun)) {
        return Ok(());
    }
    let stands = match status {
        // A sortie that is held or blocked is being worked on; one that waits, waits.
        SortieStatus::InProgress => {
            let at_work = [SortieStatus::InProgress, SortieStatus::Blocked];
            begun || at_work.contains(&before.status)
        }
        SortieStatus::Pending => {
            let waiting = [SortieStatus::Pending, SortieStatus::Assigned];
            !begun && waiting.contains(&before.status)
        }
        status => before.status == status,
    };
    if stands {
        return Ok(());
    }
    let now = ctx.now();
    let mut sortie = before.clone();
    sortie.status = status;
    sortie.updated_at = now;
    sortie.completed_at = None;
    match status {
        SortieStatus::Completed => {
            sortie.completed_at = Some(now);
            sortie.started_at.get_or_insert(now);
        }
        SortieStatus::InProgress => match ctx.agent.as_ref() {
            Some(owner) => {
                sortie.assigned_to = Some(owner.id);
                sortie.assigned_epoch = Some(owner.epoch);
                sortie.assigned_at = Some(now);
                sortie.started_at.get_or_insert(now);
                sortie.attempts += 1;
            }
            // The file names no agent: the next session goes on with it.
            None => {
                sortie.status = SortieStatus::Pending;
                sortie.unassign();
                sortie.started_at.get_or_insert(written);
                sortie.attempts = sortie.attempts.max(1);
                sortie.interrupted = Some(Interruption {
                    owner: Name::parse("agent name", EARLIER)?,
                    at: written,
                    locks: Vec::new(),
                    blocked_reason: None,
                });
            }
        },
        SortieStatus::Pending => {
            sortie.unassign();
            sortie.interrupted = None;
        }
        _ => {}
    }
    let data = json!({
        "dialect": "recovery", "from": before.status.as_str(), "to": status.as_str(),
    });
    ctx.tx.set(EventType::SortieMoved, &sortie, &data)?;
    if status == SortieStatus::Completed {
        release_for(ctx, sortie.id, None, "its sortie is completed")?;
        synced_by(ctx, &sortie)?;
    }
    Ok(())
}

/// The instructions go to the agent that takes up the task at hand, unless the task has its own.
fn instructions(ctx: &mut OpContext<'_, '_>, mission: &Mission, document: &Json) -> Result<()> {
    let (Some(text), Some(task)) = (
        filled(document, "resumeInstructions"),
        in_progress(document).first().copied(),
    ) else {
        return Ok(());
    };
    let sorties = ctx.tx.find::<Sortie>(Find::Mission(mission.id))?;
    let found = sorties.into_iter().find(|it| task_label(it) == task);
    let Some(mut sortie) = found.filter(|it| !it.status.is_settled()) else {
        return Ok(());
    };
    let text = NoteText::parse("resumeInstructions", text)?;
    if sortie.resume_instructions.as_ref() != Some(&text) {
        sortie.resume_instructions = Some(text);
        sortie.updated_at = ctx.now();
        ctx.tx.set(
            EventType::SortieProgress,
            &sortie,
            &json!({ "dialect": "recovery" }),
        )?;
    }
    Ok(())
}

/// The next steps become notes, except those that are noted already.
fn next_steps(ctx: &mut OpContext<'_, '_>, mission: &Mission, document: &Json) -> Result<()> {
    let known = ctx.tx.find::<Remembered>(Find::Mission(mission.id))?;
    for step in document.texts("nextSteps") {
        let text = NoteText::parse("nextSteps", step)?;
        let noted = known
            .iter()
            .any(|note| note.kind == NoteKind::NextStep && note.text == text);
        if !noted {
            let note = AddNote {
                mission: Some(mission.id.to_string()),
                ..AddNote::of(NoteKind::NextStep, text)
            };
            note.decide(ctx)?;
        }
    }
    Ok(())
}
