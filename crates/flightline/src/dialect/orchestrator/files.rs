//! The files of an orchestrator's store: a document for each checkpoint, and the index.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use flightline_core::checkpoint::{Checkpoint, CheckpointStatus};
use flightline_core::dialect::compress::{CompressError, Compression};
use flightline_core::dialect::orchestrator::{
    ARCHIVE, file_name, id_of, index_entry, is_archived, names_its_file,
};
use flightline_core::dialect::{Dialect, DialectDocument, Json, Original};
use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::{CheckpointId, Code, Kind, MissionId, Refusal, Subject};
use flightline_store::{Find, StoreError, SubjectRow};
use flightline_workspace::beneath::Dir;
use serde_json::json;

use super::super::{ExportDocuments, ExportedDocuments, Lost, Outgoing, read};
use super::{DocumentExtras, orchestrator_document, seen_files};
use crate::checkpoint::files::whole;
use crate::checkpoint::inspect::unreadable;
use crate::error::Result;
use crate::mission::{PastState, short, workflow_history};
use crate::op_context::OpContext;

/// Every checkpoint's document, of the missions that are open or of the one that is named. Where changes are
/// asked for, of all missions, and with those that were archived or deleted since.
pub(in crate::dialect) fn give_out(
    ctx: &mut OpContext<'_, '_>,
    wanted: &ExportDocuments,
) -> Result<ExportedDocuments> {
    let compression = match wanted.since {
        Some(_) => ctx.policy.mirror_compression,
        None => Compression::None,
    };
    let mut histories: BTreeMap<MissionId, Vec<PastState>> = BTreeMap::new();
    let (mut documents, mut lost) = (Vec::new(), Vec::new());
    for row in wanted_rows(ctx, wanted)? {
        match document_in(ctx, &row, &mut histories, compression) {
            Ok(Some((file, document))) => documents.push(Outgoing {
                file,
                of: row.id,
                text: document.write(),
                replaces: None,
            }),
            Ok(None) => {}
            // A damaged checkpoint hides no other.
            Err(error) if error.is_damage() => lost.push(Lost {
                file: short(&row.id),
                what: vec![error.into_refusal().message],
            }),
            Err(error) => return Err(error),
        }
    }
    Ok(ExportedDocuments {
        rev: ctx.tx.rev(),
        history: ctx.tx.history().to_owned(),
        documents,
        ended: Vec::new(),
        gone: match wanted.since {
            Some(_) => ctx.tx.gone_ids(Kind::Checkpoint)?,
            None => Vec::new(),
        },
        lost,
    })
}

/// The checkpoints that are asked for, oldest first.
fn wanted_rows(ctx: &mut OpContext<'_, '_>, wanted: &ExportDocuments) -> Result<Vec<SubjectRow>> {
    let named = match &wanted.mission {
        Some(named) => Some(ctx.mission(Some(named))?.id),
        None => None,
    };
    let find = named.map_or(Find::All, Find::Mission);
    let mut rows = ctx.tx.rows(Kind::Checkpoint, find)?;
    if let Some(since) = wanted.since {
        rows.retain(|row| row.rev > since);
        return Ok(rows);
    }
    rows.retain(|row| row.status != CheckpointStatus::Archived.as_str());
    if named.is_none() {
        let missions = ctx.tx.find::<Mission>(Find::All)?.into_iter();
        let open = missions.filter(|mission| mission.status.is_open());
        let open: Vec<String> = open.map(|mission| mission.id.to_string()).collect();
        rows.retain(|row| row.mission.as_ref().is_some_and(|it| open.contains(it)));
    }
    Ok(rows)
}

fn document_in(
    ctx: &mut OpContext<'_, '_>,
    row: &SubjectRow,
    histories: &mut BTreeMap<MissionId, Vec<PastState>>,
    compression: Compression,
) -> Result<Option<(String, DialectDocument)>> {
    let checkpoint = match ctx.tx.get::<Checkpoint>(&row.id) {
        Ok(Some(checkpoint)) => checkpoint,
        Ok(None) => return Ok(None),
        Err(StoreError::Corrupt(_)) => {
            return Err(Refusal::new(Code::Integrity, unreadable(&row.id)).into());
        }
        Err(error) => return Err(error.into()),
    };
    let mission = checkpoint.cut.mission_id;
    let history = match histories.entry(mission) {
        Entry::Occupied(known) => known.into_mut(),
        Entry::Vacant(place) => place.insert(history_of(ctx, mission)?),
    };
    let (file, document) = document_of(ctx, &checkpoint, history, compression)?;
    let archived = checkpoint.status == CheckpointStatus::Archived;
    let file = match archived {
        true => format!("{ARCHIVE}/{file}"),
        false => file,
    };
    Ok(Some((file, document)))
}

pub(super) fn document(
    ctx: &mut OpContext<'_, '_>,
    checkpoint: &Checkpoint,
) -> Result<DialectDocument> {
    let history = history_of(ctx, checkpoint.cut.mission_id)?;
    Ok(document_of(ctx, checkpoint, &history, Compression::None)?.1)
}

fn history_of(ctx: &mut OpContext<'_, '_>, mission: MissionId) -> Result<Vec<PastState>> {
    match ctx.tx.get::<Mission>(mission) {
        Ok(Some(mission)) => workflow_history(ctx, &mission),
        Ok(None) | Err(StoreError::Corrupt(_)) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the document of a checkpoint, and the name of its file. An imported document is exported as it
/// was, because the values of a checkpoint never change. Only its status may.
fn document_of(
    ctx: &mut OpContext<'_, '_>,
    checkpoint: &Checkpoint,
    history: &[PastState],
    compression: Compression,
) -> Result<(String, DialectDocument)> {
    let original = ctx.tx.get::<Original>(&original_id(checkpoint.id))?;
    if let Some(original) = original {
        let mut document = read(Dialect::Orchestrator, &original.text, &original.file)?;
        // The checksums of the document are right, or it would not be here: it is sound, whatever its status
        // says.
        let said = match is_archived(&document) {
            true => CheckpointStatus::Archived,
            false => CheckpointStatus::Valid,
        };
        if said != checkpoint.status {
            document.set("status", checkpoint.status.as_str());
        }
        let file = own_name(&original.file, document.word("id"));
        let file = file.unwrap_or_else(|| file_name(document.word("id"), compression));
        return Ok((file, document));
    }
    let whole = whole(ctx, checkpoint)?;
    let state = whole
        .state
        .ok_or_else(|| Refusal::new(Code::Integrity, "a checkpoint has no state"))?;
    let beside = DocumentExtras {
        history,
        file_system: whole.file_system.as_ref().map(seen_files),
        compression,
    };
    let document = orchestrator_document(&state, &beside)?;
    Ok((file_name(document.word("id"), compression), document))
}

/// The name a document's file had, if it is one by which it is found.
fn own_name(file: &str, id: &str) -> Option<String> {
    let found = id_of(file).filter(|(named, _)| *named == id);
    found.map(|_| file.to_owned())
}

fn original_id(id: CheckpointId) -> String {
    Original::id(Dialect::Orchestrator, &id.to_string())
}

/// Takes away the document that was kept for a checkpoint that is gone.
pub(crate) fn forget(ctx: &mut OpContext<'_, '_>, checkpoint: &Checkpoint) -> Result<()> {
    let id = checkpoint.id.to_string();
    let kept = ctx.tx.rows(Kind::Original, Find::Parent(&id))?;
    let known = original_id(checkpoint.id);
    if kept.iter().any(|row| row.id == known) {
        // The document is removed whether or not it can still be read.
        let original = Original {
            dialect: Dialect::Orchestrator,
            of: id,
            name: String::new(),
            file: String::new(),
            text: String::new(),
            ours: String::new(),
            at: ctx.now(),
        };
        debug_assert_eq!(original.key(), known);
        let data = json!({ "dialect": original.dialect, "of": original.of });
        ctx.tx
            .remove(EventType::DocumentForgotten, &original, &data)?;
    }
    Ok(())
}

/// The bytes of a document's file. The file's name tells its compression.
pub fn packed(document: &Outgoing) -> std::result::Result<Vec<u8>, CompressError> {
    Compression::named(&document.file).pack(document.text.as_bytes())
}

/// The index of a folder: of the files that were written there, and of those that were in it before and
/// still are.
pub fn index(
    written: &[(&Outgoing, u64)],
    before: &[Json],
    folder: &Dir,
) -> std::result::Result<Vec<Json>, Refusal> {
    let mut entries = Vec::with_capacity(written.len());
    for (document, size) in written {
        let checkpoint = read(Dialect::Orchestrator, &document.text, &document.file)?;
        let path = folder.path().join(&document.file).display().to_string();
        entries.push(index_entry(&checkpoint, *size, &path));
    }
    for entry in before {
        let path = entry.word("path");
        let file = path.rsplit(['/', '\\']).next().unwrap_or_default();
        // The entry's path is not opened as it stands: a file of that name is looked for here.
        let seen = folder.entry(file).ok().flatten();
        let is_there = names_its_file(entry) && seen.is_some_and(|seen| seen.is_file());
        if is_there && !entries.iter().any(|known| known["id"] == entry["id"]) {
            entries.push(entry.clone());
        }
    }
    entries.sort_by_key(|entry| (entry.time("createdAt"), entry.word("id").to_owned()));
    Ok(entries)
}
