//! The meaning of an orchestrator's checkpoint for the store: its workflow becomes the mission's, its agents become
//! sorties, their knowledge becomes notes, and a checkpoint of ours with its id stands for it.
//!
//! Newer knowledge stays: changes here since the document was written, and work under way, are as they were when all is
//! done. They differ only in the checkpoint, which holds what the document says.

mod work;

use std::collections::BTreeMap;

use flightline_core::checkpoint::{Checkpoint, CheckpointStatus};
use flightline_core::dialect::field::{Keep, Value};
use flightline_core::dialect::orchestrator::{
    self, INDEX_FILE, Section, drift, read, read_index, write,
};
use flightline_core::dialect::{Dialect, Json, Original};
use flightline_core::event::EventType;
use flightline_core::mission::{Mission, MissionStatus};
use flightline_core::redact::shown;
use flightline_core::text::Note;
use flightline_core::{CheckpointId, Code, Kind, Refusal, Title};
use flightline_store::Find;
use serde_json::json;

use super::super::intake::turn;
use super::super::{ImportDocuments, Incoming, TakenIn};
use super::files::document;
use crate::checkpoint::load;
use crate::checkpoint::take::{Taking, take_as};
use crate::desk::Desk;
use crate::error::Result;
use crate::fleet::Operation;
use crate::mission::{CreateMission, begin_if_pending, short};

/// So many documents are looked through for one of the same session.
const LOOKED_THROUGH: usize = 100;
/// A mission is called after so many characters of its task at most.
const TITLE: usize = 120;

/// Takes documents in, the oldest first, each by itself. An index among them is compared with them.
pub(in crate::dialect) fn take_in(
    desk: &mut Desk<'_, '_>,
    request: &ImportDocuments,
) -> Result<Vec<TakenIn>> {
    let all = request.documents.iter().enumerate();
    let (indexes, mut arriving): (Vec<_>, Vec<_>) =
        all.partition(|(_, incoming)| is_index(&incoming.file));
    if let (true, Some((_, index))) = (arriving.is_empty(), indexes.first()) {
        return Err(Refusal::invalid(format!(
            "`{}` is an index, and holds no checkpoint",
            shown(&index.file)
        ))
        .hint("import its folder: `fleet import orchestrator FOLDER`")
        .into());
    }
    arriving.sort_by_key(|(place, incoming)| (turn(Dialect::Orchestrator, incoming), *place));
    let (mut taken, mut documents) = (Vec::with_capacity(request.documents.len()), Vec::new());
    for (place, incoming) in arriving {
        let one = request.by_itself(desk, incoming, |desk| {
            let document = read(&incoming.text).map_err(|why| why.refusal(&incoming.file))?;
            check(&document, &incoming.file)?;
            let one = take_in_one(desk, &document, request.mission.as_deref(), &incoming.file)?;
            documents.push(document);
            Ok(one)
        });
        taken.push((place, one?));
    }
    let documents: Vec<_> = documents.iter().collect();
    for (place, incoming) in indexes {
        taken.push((place, compared(incoming, &documents)));
    }
    taken.sort_by_key(|(place, _)| *place);
    Ok(taken.into_iter().map(|(_, one)| one).collect())
}

fn is_index(file: &str) -> bool {
    file.rsplit('/').next() == Some(INDEX_FILE)
}

/// What an index says, against what is there. It changes nothing: it only says where files are.
fn compared(incoming: &Incoming, documents: &[&orchestrator::Checkpoint]) -> TakenIn {
    let warnings = match read_index(&incoming.text) {
        Ok(entries) => drift(&entries, documents),
        Err(why) => vec![format!("it is no index: {why}")],
    };
    TakenIn {
        file: incoming.file.clone(),
        of: "index".to_owned(),
        name: "the index".to_owned(),
        changed: false,
        changes: Vec::new(),
        warnings,
        refused: None,
    }
}

/// Refuses a document whose sections are not what it says they hash to.
fn check(document: &orchestrator::Checkpoint, file: &str) -> Result<()> {
    let wrong: Vec<&str> = document.verify().into_iter().map(Section::as_str).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    let (file, sections) = (shown(file), wrong.join("`, `"));
    let what = match wrong.len() {
        1 => format!("its section `{sections}` does not match its checksum"),
        _ => format!("its sections `{sections}` do not match their checksums"),
    };
    Err(
        Refusal::new(Code::Integrity, format!("`{file}` is damaged: {what}"))
            .hint("take another copy of it, or an earlier checkpoint")
            .details(json!({ "file": file, "sections": wrong }))
            .into(),
    )
}

fn take_in_one(
    desk: &mut Desk<'_, '_>,
    document: &orchestrator::Checkpoint,
    mission: Option<&str>,
    file: &str,
) -> Result<TakenIn> {
    let first_rev = desk.tx.next_rev();
    let mut warnings = Vec::new();
    let before = document;
    let document = &cleaned(document, file)?;
    if document != before {
        warnings.push(
            "its texts held control characters or secrets, which are not kept: its checksums were made anew".to_owned(),
        );
    }
    let id: CheckpointId = format!("{}{}", CheckpointId::PREFIX, document.id.as_str()).parse()?;
    let changes = match desk.tx.get::<Checkpoint>(&id.to_string())? {
        Some(known) => {
            again(desk, known, document)?;
            Vec::new()
        }
        None if document.status == CheckpointStatus::Corrupted => {
            return Err(Refusal::new(
                Code::Integrity,
                "its writer marked it as `corrupted`, without a reason",
            )
            .hint("take another copy of it, or an earlier checkpoint")
            .into());
        }
        None => {
            bring_in(desk, id, document, mission, file, &mut warnings)?;
            told(document)
        }
    };
    Ok(TakenIn {
        file: file.to_owned(),
        of: id.to_string(),
        name: format!("{} ({})", short(id), document.workflow.current_state),
        changed: desk.tx.next_rev() != first_rev,
        changes,
        warnings,
        refused: None,
    })
}

/// What a new checkpoint tells, in a few words.
fn told(document: &orchestrator::Checkpoint) -> Vec<String> {
    let state = format!("state is \"{}\"", shown(&document.workflow.current_state));
    let words = document.agents.iter().map(|agent| agent.status.as_str());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in words {
        *counts.entry(word).or_default() += 1;
    }
    let counts = counts.into_iter();
    let agents: Vec<String> = counts
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    let agents = (!agents.is_empty()).then(|| format!("agents: {}", agents.join(", ")));
    std::iter::once(state).chain(agents).collect()
}

/// The document without secrets and control characters, and sealed anew where there were some.
fn cleaned(
    document: &orchestrator::Checkpoint,
    file: &str,
) -> std::result::Result<orchestrator::Checkpoint, Refusal> {
    let json = document.write(Keep::All);
    let clean = json.clone().cleaned();
    if clean == json {
        return Ok(document.clone());
    }
    let mut clean = read(&clean.pretty(&[])).map_err(|why| why.refusal(file))?;
    clean.seal();
    Ok(clean)
}

/// A document of a checkpoint that is here already: the same, or refused. That it was archived is news.
fn again(
    desk: &mut Desk<'_, '_>,
    known: Checkpoint,
    document_in: &orchestrator::Checkpoint,
) -> Result<()> {
    let ours = document(desk, &known)?;
    let differing = differing(&ours, document_in);
    if !differing.is_empty() {
        let id = short(known.id);
        return Err(Refusal::new(
            Code::AlreadyExists,
            format!(
                "{id} is here already, and says something else in `{}`",
                differing.join("`, `")
            ),
        )
        .hint(format!(
            "look at it with `fleet checkpoints show {}`; a changed document needs an `id` of its own",
            known.id
        ))
        .details(json!({ "checkpoint": known.id, "differing": differing }))
        .into());
    }
    if document_in.status == CheckpointStatus::Archived {
        archive(desk, known)?;
    }
    Ok(())
}

fn archive(desk: &mut Desk<'_, '_>, mut checkpoint: Checkpoint) -> Result<()> {
    if checkpoint.status == CheckpointStatus::Archived || checkpoint.pinned_at.is_some() {
        return Ok(());
    }
    checkpoint.status = CheckpointStatus::Archived;
    let data = json!({ "checkpoint_id": checkpoint.id, "reason": "imported" });
    desk.tx
        .set(EventType::CheckpointArchived, &checkpoint, &data)?;
    Ok(())
}

/// The parts in which two documents differ, leaving out what may change: where it stands, and how its file
/// is written.
fn differing(one: &orchestrator::Checkpoint, two: &orchestrator::Checkpoint) -> Vec<String> {
    let plain = |document: &orchestrator::Checkpoint| {
        let mut document = document.clone();
        document.status = CheckpointStatus::Valid;
        document.metadata.checkpoint_size = 0.into();
        document.metadata.compression_type = two.metadata.compression_type;
        // Each was found to be right, over its own order of keys.
        document.metadata.checksums = two.metadata.checksums.clone();
        document.write(Keep::All)
    };
    let (one, two) = (plain(one), plain(two));
    let keys = |json: &Json| -> Vec<String> {
        let Json::Object(fields) = json else {
            return Vec::new();
        };
        fields.iter().map(|(key, _)| key.clone()).collect()
    };
    let mut all = keys(&one);
    all.extend(keys(&two));
    all.retain(|key| one.get(key) != two.get(key));
    all.sort();
    all.dedup();
    all
}

fn bring_in(
    desk: &mut Desk<'_, '_>,
    id: CheckpointId,
    document: &orchestrator::Checkpoint,
    named: Option<&str>,
    file: &str,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let (mut mission, newer) = desk.as_of(document.created_at.time(), |desk| {
        let mut mission = mission_for(desk, document, named)?;
        let begun = document
            .agents
            .iter()
            .any(|agent| agent.status != orchestrator::AgentStatus::Pending);
        if begun && mission.status == MissionStatus::Pending {
            mission = begin_if_pending(desk, mission.id)?;
        }
        let newer = work::store(desk, &mut mission, document, warnings)?;
        Ok((mission, newer))
    })?;
    let texts = document.recovery.blockers.iter();
    let blockers = texts.filter_map(|text| Note::parse("blocker", text).ok());
    let taking = Taking {
        mission: &mission,
        reason: document.trigger.to_reason(),
        details: Note::parse("reason", &document.trigger_reason)
            .ok()
            .map(Note::into_string),
        note: None,
        blockers: blockers.map(Note::into_string).collect(),
    };
    let checkpoint = take_as(desk, &taking, id)?;
    load(desk, &checkpoint)?;
    newer.put_back(desk, &mut mission, warnings)?;
    let text = write(document);
    let original = Original {
        dialect: Dialect::Orchestrator,
        of: id.to_string(),
        name: short(id),
        // Under this name it goes out again, wherever it was.
        file: shown(file.rsplit('/').next().unwrap_or(file)),
        ours: text.clone(),
        text,
        at: desk.now(),
    };
    let data = json!({ "dialect": original.dialect, "file": original.file, "of": original.of });
    desk.tx.set(EventType::DocumentImported, &original, &data)?;
    match document.status == CheckpointStatus::Archived {
        true => archive(desk, checkpoint),
        false => Ok(()),
    }
}

/// The mission a document belongs to: the one that is named, else the one of its session, else the current
/// one, else a new one that is called after its task.
fn mission_for(
    desk: &mut Desk<'_, '_>,
    document: &orchestrator::Checkpoint,
    named: Option<&str>,
) -> Result<Mission> {
    if named.is_some() || desk.caller.mission.is_some() {
        let mission = desk.mission(named)?;
        if mission.status.is_open() {
            return Ok(mission);
        }
        return Err(Refusal::new(
            Code::IllegalTransition,
            format!(
                "{} is {}, so nothing can be added to it",
                short(mission.id),
                mission.status.as_str()
            ),
        )
        .hint("name another with `--mission ID`")
        .into());
    }
    if let Some(mission) = of_session(desk, document)? {
        return Ok(mission);
    }
    if let Some(mission) = desk.current_mission()?
        && mission.status.is_open()
    {
        return Ok(mission);
    }
    let context = &document.context;
    let task = context.task_description.as_str();
    let line = task.lines().map(str::trim).find(|line| !line.is_empty());
    let line: String = line.unwrap_or_default().chars().take(TITLE).collect();
    let from = format!("Imported from {}", context.project_id);
    let title = Title::parse("task", &line).or_else(|_| Title::parse("project", &from));
    let new = CreateMission {
        title: title?,
        objective: Note::parse("task", task).ok(),
        phase: None,
        stack_id: None,
        sprint: None,
        dispatch: None,
        states: std::collections::BTreeMap::new(),
        sorties: Vec::new(),
    };
    Ok(new.decide(desk)?.mission)
}

/// The open mission that a document of the same session came into.
fn of_session(
    desk: &mut Desk<'_, '_>,
    document: &orchestrator::Checkpoint,
) -> Result<Option<Mission>> {
    let ours = Original::id(Dialect::Orchestrator, "");
    let rows = desk.tx.rows(Kind::Original, Find::All)?;
    let rows = rows.iter().rev().filter(|row| row.id.starts_with(&ours));
    for row in rows.take(LOOKED_THROUGH) {
        let Some(original) = desk.tx.get::<Original>(&row.id)? else {
            continue;
        };
        let same = read(&original.text).is_ok_and(|it| {
            it.context.session_id == document.context.session_id
                && it.context.project_id == document.context.project_id
        });
        if same
            && let Some(checkpoint) = desk.tx.get::<Checkpoint>(&original.of)?
            && let mission = checkpoint.cut.mission_id.to_string()
            && let Some(mission) = desk.tx.get::<Mission>(&mission)?
            && mission.status.is_open()
        {
            return Ok(Some(mission));
        }
    }
    Ok(None)
}
