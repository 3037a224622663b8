//! The meaning of an orchestrator's checkpoint for the store: its workflow becomes the mission's, its agents become
//! sorties, their knowledge becomes notes, and a checkpoint of ours with its id stands for it.
//!
//! Newer knowledge stays: changes here since the document was written, and work under way, are as they were when all is
//! done. They differ only in the checkpoint, which holds what the document says.

mod work;

use std::collections::BTreeMap;

use flightline_core::checkpoint::{Checkpoint, CheckpointStatus};
use flightline_core::dialect::orchestrator::{
    INDEX_FILE, drift, is_archived, read_index, reason_of, seal, verify,
};
use flightline_core::dialect::{Dialect, DialectDocument, Json, Original};
use flightline_core::event::EventType;
use flightline_core::mission::{Mission, MissionStatus};
use flightline_core::redact::shown;
use flightline_core::text::NoteText;
use flightline_core::{CheckpointId, Code, Kind, Refusal, Title};
use flightline_store::Find;
use serde_json::json;

use super::super::intake::turn;
use super::super::{ImportDocuments, ImportedDocument, Incoming, read};
use super::files::document;
use crate::checkpoint::load;
use crate::checkpoint::take::{NewCheckpoint, take_as};
use crate::error::Result;
use crate::fleet::Operation;
use crate::mission::{CreateMission, begin_if_pending, short};
use crate::op_context::OpContext;

/// Maximum number of documents that are searched for one of the same session.
const LOOKED_THROUGH: usize = 100;
/// Maximum length of a mission's title that is made of its task, in characters.
const TITLE: usize = 120;

/// Takes documents in, the oldest first, each by itself. An index among them is compared with them.
pub(in crate::dialect) fn take_in(
    ctx: &mut OpContext<'_, '_>,
    request: &ImportDocuments,
) -> Result<Vec<ImportedDocument>> {
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
        let one = request.by_itself(ctx, incoming, |ctx| {
            let document = read(Dialect::Orchestrator, &incoming.text, &incoming.file)?;
            check(&document, &incoming.file)?;
            let one = take_in_one(ctx, &document, request.mission.as_deref(), &incoming.file)?;
            documents.push(document);
            Ok(one)
        });
        taken.push((place, one?));
    }
    for (place, incoming) in indexes {
        taken.push((place, compared(incoming, &documents)));
    }
    taken.sort_by_key(|(place, _)| *place);
    Ok(taken.into_iter().map(|(_, one)| one).collect())
}

fn is_index(file: &str) -> bool {
    file.rsplit('/').next() == Some(INDEX_FILE)
}

/// Compares an index with the files. It changes nothing: it only says where files are.
fn compared(incoming: &Incoming, documents: &[DialectDocument]) -> ImportedDocument {
    let warnings = match read_index(&incoming.text) {
        Ok(entries) => drift(&entries, documents),
        Err(why) => vec![format!("it is no index: {why}")],
    };
    ImportedDocument {
        file: incoming.file.clone(),
        of: "index".to_owned(),
        name: "the index".to_owned(),
        changed: false,
        changes: Vec::new(),
        warnings,
        refused: None,
    }
}

/// Refuses a document with a section that does not match its checksum.
fn check(document: &DialectDocument, file: &str) -> Result<()> {
    let wrong = verify(document);
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
    ctx: &mut OpContext<'_, '_>,
    document: &DialectDocument,
    mission: Option<&str>,
    file: &str,
) -> Result<ImportedDocument> {
    let first_rev = ctx.tx.next_rev();
    let mut warnings = Vec::new();
    let before = document;
    let document = &cleaned(document, file)?;
    if document != before {
        warnings.push(
            "its texts held control characters or secrets, which are not kept: its checksums were made anew".to_owned(),
        );
    }
    let id: CheckpointId = format!("{}{}", CheckpointId::PREFIX, document.word("id")).parse()?;
    let changes = match ctx.tx.get::<Checkpoint>(id)? {
        Some(known) => {
            again(ctx, known, document)?;
            Vec::new()
        }
        None if document.word("status") == CheckpointStatus::Corrupted.as_str() => {
            return Err(Refusal::new(
                Code::Integrity,
                "its writer marked it as `corrupted`, without a reason",
            )
            .hint("take another copy of it, or an earlier checkpoint")
            .into());
        }
        None => {
            bring_in(ctx, id, document, mission, file, &mut warnings)?;
            told(document)
        }
    };
    Ok(ImportedDocument {
        file: file.to_owned(),
        of: id.to_string(),
        name: format!(
            "{} ({})",
            short(id),
            document["workflow"].word("currentState")
        ),
        changed: ctx.tx.next_rev() != first_rev,
        changes,
        warnings,
        refused: None,
    })
}

/// Describes a new checkpoint in a few words.
fn told(document: &DialectDocument) -> Vec<String> {
    let state = shown(document["workflow"].word("currentState"));
    let state = format!("state is \"{state}\"");
    let words = document.items("agents").iter().map(|it| it.word("status"));
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
    document: &DialectDocument,
    file: &str,
) -> std::result::Result<DialectDocument, Refusal> {
    let clean = Json::clone(document).cleaned();
    if clean == **document {
        return Ok(document.clone());
    }
    let mut clean = read(Dialect::Orchestrator, &clean.pretty(&[]), file)?;
    seal(&mut clean);
    Ok(clean)
}

/// A document of a checkpoint that is here already: the same, or refused. That it was archived is news.
fn again(
    ctx: &mut OpContext<'_, '_>,
    known: Checkpoint,
    document_in: &DialectDocument,
) -> Result<()> {
    let ours = document(ctx, &known)?;
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
    if is_archived(document_in) {
        archive(ctx, known)?;
    }
    Ok(())
}

fn archive(ctx: &mut OpContext<'_, '_>, mut checkpoint: Checkpoint) -> Result<()> {
    if checkpoint.status == CheckpointStatus::Archived || checkpoint.pinned_at.is_some() {
        return Ok(());
    }
    checkpoint.status = CheckpointStatus::Archived;
    let data = json!({ "checkpoint_id": checkpoint.id, "reason": "imported" });
    ctx.tx
        .set(EventType::CheckpointArchived, &checkpoint, &data)?;
    Ok(())
}

/// Returns the parts in which two documents differ, without those that may change: the status, and the form of the
/// file.
fn differing(one: &DialectDocument, two: &DialectDocument) -> Vec<String> {
    let mut one = one.clone();
    one["status"] = two["status"].clone();
    // Each checksum was found to be right, over its own order of keys.
    for key in ["checkpointSize", "compressionType", "checksums"] {
        one["metadata"][key] = two["metadata"][key].clone();
    }
    let keys = |json: &Json| -> Vec<String> {
        let Json::Object(fields) = json else {
            return Vec::new();
        };
        fields.iter().map(|(key, _)| key.clone()).collect()
    };
    let mut all = keys(&one);
    all.extend(keys(two));
    all.retain(|key| one.get(key) != two.get(key));
    all.sort();
    all.dedup();
    all
}

fn bring_in(
    ctx: &mut OpContext<'_, '_>,
    id: CheckpointId,
    document: &DialectDocument,
    named: Option<&str>,
    file: &str,
    warnings: &mut Vec<String>,
) -> Result<()> {
    let written = document.written().unwrap_or(ctx.now());
    let (mut mission, newer) = ctx.as_of(written, |ctx| {
        let mut mission = mission_for(ctx, document, named)?;
        let mut agents = document.items("agents").iter();
        let begun = agents.any(|agent| agent.word("status") != "pending");
        if begun && mission.status == MissionStatus::Pending {
            mission = begin_if_pending(ctx, mission.id)?;
        }
        let newer = work::store(ctx, &mut mission, document, warnings)?;
        Ok((mission, newer))
    })?;
    let texts = document["recovery"].texts("blockers");
    let blockers = texts
        .into_iter()
        .filter_map(|text| NoteText::parse("blocker", text).ok());
    let taking = NewCheckpoint {
        mission: &mission,
        reason: reason_of(document.word("trigger")),
        details: NoteText::parse("reason", document.word("triggerReason"))
            .ok()
            .map(NoteText::into_string),
        note: None,
        blockers: blockers.map(NoteText::into_string).collect(),
    };
    let checkpoint = take_as(ctx, &taking, id)?;
    load(ctx, &checkpoint)?;
    newer.put_back(ctx, &mut mission, warnings)?;
    let text = document.write();
    let original = Original {
        dialect: Dialect::Orchestrator,
        of: id.to_string(),
        name: short(id),
        // Under this name it goes out again, wherever it was.
        file: shown(file.rsplit('/').next().unwrap_or(file)),
        ours: text.clone(),
        text,
        at: ctx.now(),
    };
    let data = json!({ "dialect": original.dialect, "file": original.file, "of": original.of });
    ctx.tx.set(EventType::DocumentImported, &original, &data)?;
    match is_archived(document) {
        true => archive(ctx, checkpoint),
        false => Ok(()),
    }
}

/// The mission a document belongs to: the one that is named, else the one of its session, else the current
/// one, else a new one that is called after its task.
fn mission_for(
    ctx: &mut OpContext<'_, '_>,
    document: &DialectDocument,
    named: Option<&str>,
) -> Result<Mission> {
    if named.is_some() || ctx.caller.mission.is_some() {
        let mission = ctx.mission(named)?;
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
    if let Some(mission) = of_session(ctx, document)? {
        return Ok(mission);
    }
    if let Some(mission) = ctx.current_mission()?
        && mission.status.is_open()
    {
        return Ok(mission);
    }
    let context = &document["context"];
    let task = context.word("taskDescription");
    let line = task.lines().map(str::trim).find(|line| !line.is_empty());
    let line: String = line.unwrap_or_default().chars().take(TITLE).collect();
    let from = format!("Imported from {}", context.word("projectId"));
    let title = Title::parse("task", &line).or_else(|_| Title::parse("project", &from));
    let new = CreateMission {
        title: title?,
        objective: NoteText::parse("task", task).ok(),
        phase: None,
        stack_id: None,
        sprint: None,
        dispatch: None,
        states: std::collections::BTreeMap::new(),
        sorties: Vec::new(),
    };
    Ok(new.decide(ctx)?.mission)
}

/// The open mission that a document of the same session came into.
fn of_session(ctx: &mut OpContext<'_, '_>, document: &DialectDocument) -> Result<Option<Mission>> {
    let ours = Original::id(Dialect::Orchestrator, "");
    let rows = ctx.tx.rows(Kind::Original, Find::All)?;
    let rows = rows.iter().rev().filter(|row| row.id.starts_with(&ours));
    for row in rows.take(LOOKED_THROUGH) {
        let Some(original) = ctx.tx.get::<Original>(&row.id)? else {
            continue;
        };
        let same = DialectDocument::read(Dialect::Orchestrator, &original.text).is_ok_and(|it| {
            let (one, two) = (&it["context"], &document["context"]);
            ["sessionId", "projectId"]
                .iter()
                .all(|key| one[*key] == two[*key])
        });
        if same
            && let Some(checkpoint) = ctx.tx.get::<Checkpoint>(&original.of)?
            && let mission = checkpoint.cut.mission_id.to_string()
            && let Some(mission) = ctx.tx.get::<Mission>(&mission)?
            && mission.status.is_open()
        {
            return Ok(Some(mission));
        }
    }
    Ok(None)
}
