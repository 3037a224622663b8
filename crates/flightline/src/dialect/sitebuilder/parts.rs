//! Stores the parts that grow with a task: its subtasks, files, errors and reviews, as a document lists them.

use flightline_core::checkpoint::Reason;
use flightline_core::dialect::Json;
use flightline_core::event::EventType;
use flightline_core::sortie::{
    FileChange, Review, Sortie, SortieError, SortieFile, Subtask, SubtaskStatus,
};
use flightline_core::text::NoteText;
use flightline_core::{Name, RepoPath, Subject};
use flightline_store::Find;
use serde_json::json;

use super::super::{filled, title};
use crate::error::Result;
use crate::op_context::OpContext;
use crate::sortie::report::{FileReport, SubtaskReport, record_file, record_subtask};

/// Records the listed parts that are new or stand elsewhere than before.
pub(super) fn subtasks(
    ctx: &mut OpContext<'_, '_>,
    sortie: &Sortie,
    document: &Json,
    warnings: &mut Vec<String>,
) -> Result<Vec<(Reason, String)>> {
    let known = ctx.tx.find::<Subtask>(Find::Parent(&sortie.key()))?;
    let mut reasons = Vec::new();
    for item in document["subtasks"].items("items") {
        let name = Name::parse("subtask", item.word("id"))?;
        let before = known.iter().find(|subtask| subtask.name == name);
        let status = match item.text("status") {
            None | Some("pending") => SubtaskStatus::Pending,
            Some("in_progress") => SubtaskStatus::InProgress,
            Some("complete") => SubtaskStatus::Complete,
            Some("failed") => SubtaskStatus::Failed,
            Some(word) => {
                warnings.push(format!(
                    "the status `{word}` of {name} is kept, and means nothing here"
                ));
                before.map_or(SubtaskStatus::Pending, |before| before.status)
            }
        };
        let output = title(item, "output")?;
        if before.is_some_and(|before| {
            before.status == status && (output.is_none() || before.output == output)
        }) {
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
        record_subtask(ctx, sortie, &report)?;
    }
    Ok(reasons)
}

/// Takes parts away that the document lists no more.
pub(super) fn remove_unlisted(
    ctx: &mut OpContext<'_, '_>,
    sortie: &Sortie,
    document: &Json,
) -> Result<()> {
    let subtasks = &document["subtasks"];
    if subtasks.given("items").is_none() {
        return Ok(());
    }
    let listed = subtasks.items("items");
    for part in ctx.tx.find::<Subtask>(Find::Parent(&sortie.key()))? {
        if !listed
            .iter()
            .any(|item| item.word("id") == part.name.as_str())
        {
            let data = json!({ "status": part.status.as_str() });
            ctx.tx.remove(EventType::SubtaskRemoved, &part, &data)?;
        }
    }
    Ok(())
}

/// Records the files that are new in the document.
pub(super) fn files(
    ctx: &mut OpContext<'_, '_>,
    sortie: &Sortie,
    document: &Json,
    warnings: &mut Vec<String>,
) -> Result<Vec<(Reason, String)>> {
    let known = ctx.tx.find::<SortieFile>(Find::Parent(&sortie.key()))?;
    let mut reasons = Vec::new();
    let lists = [
        ("files_created", FileChange::Created),
        ("files_modified", FileChange::Modified),
    ];
    for (list, change) in lists {
        for file in document.texts(list) {
            let path = match RepoPath::parse(file) {
                Ok(path) => path,
                Err(refusal) => {
                    warnings.push(format!("{}; it is only kept", refusal.message));
                    continue;
                }
            };
            // A file that was created and then changed is still new.
            let same = |it: &SortieFile| {
                it.path == path && (it.change == change || it.change == FileChange::Created)
            };
            if known.iter().any(same) {
                continue;
            }
            if change == FileChange::Created {
                reasons.push((Reason::FileCreated, format!("Created {path}")));
            } else if sortie.files.contains(&path) {
                reasons.push((Reason::FileModified, format!("Changed {path}")));
            }
            record_file(ctx, sortie, &FileReport { path, change })?;
        }
    }
    Ok(reasons)
}

/// Records errors that are new, and clears those that are gone. The message of a new one that blocks.
pub(super) fn errors(
    ctx: &mut OpContext<'_, '_>,
    sortie: &Sortie,
    document: &Json,
) -> Result<Option<String>> {
    if document.given("errors").is_none() {
        return Ok(None);
    }
    let known = ctx.tx.find::<SortieError>(Find::Parent(&sortie.key()))?;
    let mut blocking = None;
    let mut number = known.len() as u64;
    let mut still_open = Vec::new();
    for error in document.items("errors") {
        let message = NoteText::parse("error", error.word("message"))?;
        let found = known
            .iter()
            .find(|known| known.cleared_at.is_none() && known.message == message);
        if let Some(found) = found {
            still_open.push(found.number);
            continue;
        }
        let kind = filled(error, "type").unwrap_or("error");
        number += 1;
        let error = SortieError {
            sortie_id: sortie.id,
            mission_id: sortie.mission_id,
            number,
            kind: Name::parse("error type", kind)?,
            status: None,
            message,
            blocking: error.flag("blocking").unwrap_or(false),
            timestamp: error.time("timestamp").unwrap_or(ctx.now()),
            cleared_at: None,
        };
        if error.blocking {
            blocking = Some(format!("{}: {}", error.kind, error.message));
        }
        let data =
            json!({ "type": error.kind, "message": error.message, "blocking": error.blocking });
        ctx.tx.set(EventType::SortieError, &error, &data)?;
    }
    for mut error in known {
        if error.cleared_at.is_none() && !still_open.contains(&error.number) {
            error.cleared_at = Some(ctx.now());
            ctx.tx.set(
                EventType::SortieErrorCleared,
                &error,
                &json!({ "number": error.number }),
            )?;
        }
    }
    Ok(blocking)
}

/// Records the review scores that are new. Returns the reviewer of the last one.
pub(super) fn reviews(
    ctx: &mut OpContext<'_, '_>,
    sortie: &Sortie,
    document: &Json,
) -> Result<Option<Name>> {
    let known = ctx.tx.find::<Review>(Find::Parent(&sortie.key()))?;
    let mut last = None;
    for (reviewer, score) in document.fields("review_scores") {
        let reviewer = Name::parse("reviewer", reviewer)?;
        // A score that is no whole number is only kept.
        let score = match score {
            Json::Number(number) => match number.to_string().parse::<i64>() {
                Ok(score) => Some(score),
                Err(_) => continue,
            },
            _ => None,
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
            at: ctx.now(),
        };
        let data = json!({ "reviewer": review.reviewer, "score": review.score });
        ctx.tx.set(EventType::SortieReviewed, &review, &data)?;
        last = score.map(|_| review.reviewer);
    }
    Ok(last)
}
