//! `fleet checkpoints list` and `show`: shows checkpoints in seed A's layout.

use std::process::ExitCode;

use flightline::checkpoint::inspect::{ListCheckpoints, ShowCheckpoint};
use flightline::checkpoint::{CheckpointDocument, LockSnapshot, MessageSnapshot, SortieSnapshot};
use flightline::core::checkpoint::CheckpointStatus;
use flightline::core::file_system::{CommitHash, FileSystem, SeenFile, SeenKind};
use flightline::core::sortie::called;
use flightline::core::time::human_span;
use flightline::core::{Kind, Time, Title};

use crate::app::{App, DisplayIds};
use crate::command::CommandResult;
use crate::command::recovery::say_analysis;
use crate::ui::{Cell, Page};

/// The most files of a list that are shown.
const MOST_FILES: usize = 20;
/// The delay in milliseconds after which the look at the work tree is shown to be later than the checkpoint.
const LATE: u64 = 5_000;

pub fn list(limit: u64, archived: bool, app: &mut App) -> CommandResult {
    let list = app.run(&ListCheckpoints {
        mission: None,
        archived,
        limit,
    })?;
    let short = app.short(&[Kind::Checkpoint, Kind::Mission], &list)?;
    app.ui.answer(&list.checkpoints, |page| {
        page.line(format_args!(
            "Checkpoints for mission: {}",
            short.id(list.mission_id)
        ));
        page.line("");
        // Seed A's columns, and why each was taken.
        let titles = ["ID", "TIMESTAMP", "TRIGGER", "PROGRESS", "REASON"];
        let mut rows = vec![titles.map(Cell::new).to_vec()];
        rows.extend(list.checkpoints.iter().map(|checkpoint| {
            let unusual = match checkpoint.status {
                CheckpointStatus::Creating | CheckpointStatus::Valid => String::new(),
                CheckpointStatus::Corrupted
                | CheckpointStatus::Expired
                | CheckpointStatus::Archived => format!("{}: ", checkpoint.status.as_str()),
            };
            let why = checkpoint.trigger_details.clone();
            let why = why.unwrap_or_else(|| checkpoint.reason.replace('_', " "));
            vec![
                Cell::new(format_args!("{:<14}", short.id(checkpoint.id))),
                Cell::new(format_args!("{:<24}", checkpoint.timestamp.to_seconds())),
                Cell::new(format_args!("{:<8}", checkpoint.trigger.as_str())),
                Cell::new(format_args!("{}%", checkpoint.progress_percent)),
                Cell::new(format_args!("{unusual}{why}")),
            ]
        }));
        page.columns(&[2, 2, 3, 3], &rows);
        page.line("");
        page.line(format_args!(
            "Total: {} {}",
            list.total,
            if list.total == 1 {
                "checkpoint"
            } else {
                "checkpoints"
            }
        ));
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn show(checkpoint: String, app: &mut App) -> CommandResult {
    let document = app.serve(&ShowCheckpoint { checkpoint })?;
    let (short, now) = (
        app.short(&[Kind::Checkpoint, Kind::Mission, Kind::Sortie], &document)?,
        app.now()?,
    );
    app.ui
        .answer(&document, |page| details(page, &document, &short, now))?;
    Ok(ExitCode::SUCCESS)
}

fn details(page: &mut Page, document: &CheckpointDocument, short: &DisplayIds, now: Time) {
    let why = document
        .trigger_details
        .as_ref()
        .map_or_else(String::new, |details| format!(" ({details})"));
    page.line(format_args!("Checkpoint: {}", short.id(document.id)));
    page.line(format_args!("Mission: {}", short.id(document.mission_id)));
    page.line(format_args!("Created: {}", document.timestamp.to_seconds()));
    page.line(format_args!("Trigger: {}{why}", document.trigger));
    page.line(format_args!("Progress: {}%", document.progress_percent));
    // A note is the reason of a manual checkpoint.
    if let Some(note) = &document.note
        && document.trigger_details.as_deref() != Some(note.as_str())
    {
        page.line(format_args!("Note: {note}"));
    }
    if document.pinned {
        page.line("Pinned: yes");
    }
    match document.status {
        CheckpointStatus::Creating | CheckpointStatus::Valid => {}
        CheckpointStatus::Expired => page.hint(
            "Status: expired (its time is over; `fleet checkpoints prune --dry-run` says why it stays)",
        ),
        CheckpointStatus::Corrupted | CheckpointStatus::Archived => {
            page.line(format_args!("Status: {}", document.status.as_str()));
        }
    }
    for warning in &document.warnings {
        page.line(format_args!("Warning: {warning}"));
    }
    page.line("");
    let reading = Reading { short, now };
    contents(
        page,
        &document.sorties,
        &document.active_locks,
        &document.pending_messages,
        &reading,
    );
    page.line("");
    let context = &document.recovery_context;
    let or_none = |items: &[String]| {
        if items.is_empty() {
            "None".to_owned()
        } else {
            items.join(", ")
        }
    };
    page.line("Recovery Context:");
    page.line(format_args!("  Last Action: {}", context.last_action));
    page.line("  Next Steps:");
    for step in &context.next_steps {
        page.line(format_args!("    - {step}"));
    }
    page.line(format_args!("  Blockers: {}", or_none(&context.blockers)));
    page.line(format_args!(
        "  Files Modified: {}",
        or_none(&context.files_modified)
    ));
    say_analysis(page, document.recovery_analysis.as_ref());
    if let Some(seen) = &document.file_system {
        work_tree(page, seen, document.timestamp);
    }
}

fn work_tree(page: &mut Page, seen: &FileSystem, taken: Time) {
    page.line("");
    page.line("Work Tree:");
    if let Some(git) = &seen.git_status {
        let branch = git.branch.as_ref().map_or("none (detached)", Title::as_str);
        page.line(format_args!("  Branch: {branch}"));
        let commit = git
            .commit_hash
            .as_ref()
            .map_or("none yet", CommitHash::as_str);
        page.line(format_args!("  Commit: {commit}"));
        page.line(match git.is_dirty {
            Some(true) => "  Changes: yes",
            Some(false) => "  Changes: none",
            None => "  Changes: not known",
        });
    }
    for (headline, files) in [
        ("Modified", &seen.modified_files),
        ("Created", &seen.created_files),
        ("Named", &seen.named_files),
    ] {
        if !files.is_empty() {
            page.line(format_args!("  {headline} ({}):", files.len()));
            let rows: Vec<Vec<Cell>> = files.iter().take(MOST_FILES).map(file_row).collect();
            page.columns(&[2, 2], &rows);
            and_more(page, files.len());
        }
    }
    let git = seen.git_status.as_ref();
    for (headline, paths) in [
        ("Deleted", Some(&seen.deleted_files)),
        ("Staged", git.map(|git| &git.staged_files)),
        ("Unstaged", git.map(|git| &git.unstaged_files)),
    ] {
        if let Some(paths) = paths.filter(|paths| !paths.is_empty()) {
            page.line(format_args!("  {headline} ({}):", paths.len()));
            for path in paths.iter().take(MOST_FILES) {
                page.line(format_args!("    {path}"));
            }
            and_more(page, paths.len());
        }
    }
    if seen.truncated {
        match seen.left_out {
            0 => page.line("  Truncated: not everything could be looked at"),
            1 => page.line("  Truncated: 1 file is left out"),
            count => page.line(format_args!("  Truncated: {count} files are left out")),
        }
    }
    for warning in &seen.warnings {
        page.line(format_args!("  Warning: {warning}"));
    }
    if let Some(late) = seen
        .seen_at
        .map(|at| at.since(taken))
        .filter(|late| *late > LATE)
    {
        page.line(format_args!("  Looked at: {} later", human_span(late)));
    }
}

fn file_row(file: &SeenFile) -> Vec<Cell> {
    let size = file
        .size
        .map_or_else(String::new, |size| format!("{size} bytes"));
    let hash = match (&file.checksum, &file.unread, file.kind) {
        (Some(hash), ..) => format!("sha256 {}", hash.get(..12).unwrap_or(hash)),
        (None, Some(why), _) => why.to_string(),
        (None, None, SeenKind::Folder) => "folder".to_owned(),
        (None, None, SeenKind::Missing) => "missing".to_owned(),
        (None, None, SeenKind::File | SeenKind::Link | SeenKind::Other) => "special".to_owned(),
    };
    let kind = if file.kind == SeenKind::Link {
        "link, "
    } else {
        ""
    };
    vec![
        Cell::new(&file.path).indent(4),
        Cell::new(size),
        Cell::new(format_args!("{kind}{hash}")),
    ]
}

fn and_more(page: &mut Page, count: usize) {
    if count > MOST_FILES {
        page.line(format_args!(
            "    and {} more: `--json` lists all",
            count - MOST_FILES
        ));
    }
}

/// The short ids and the present time, for rendering.
pub struct Reading<'a> {
    pub short: &'a DisplayIds,
    pub now: Time,
}

/// Prints the content of a mission: sorties, locks and messages.
pub fn contents(
    page: &mut Page,
    sorties: &[SortieSnapshot],
    locks: &[LockSnapshot],
    messages: &[MessageSnapshot],
    reading: &Reading<'_>,
) {
    page.line(format_args!("Sorties ({}):", sorties.len()));
    let rows: Vec<Vec<Cell>> = sorties
        .iter()
        .map(|sortie| {
            let files = if sortie.files.is_empty() {
                called(sortie.task_id.as_ref(), &sortie.title)
            } else {
                sortie.files.join(", ")
            };
            vec![
                Cell::new(reading.short.id(&sortie.id)).indent(2),
                Cell::new(format_args!("{:<11}", sortie.status.as_str())),
                Cell::new(sortie.assigned_to.as_deref().unwrap_or("-")),
                Cell::new(files),
            ]
        })
        .collect();
    page.columns(&[2, 1], &rows);
    page.line("");
    page.line(format_args!("Active Locks ({}):", locks.len()));
    let rows: Vec<Vec<Cell>> = locks
        .iter()
        .map(|lock| {
            vec![
                Cell::new(&lock.file).indent(2),
                Cell::new(&lock.held_by),
                Cell::new(format_args!(
                    "acquired {} ago",
                    human_span(reading.now.since(lock.acquired_at))
                )),
            ]
        })
        .collect();
    page.columns(&[1], &rows);
    page.line("");
    page.line(format_args!("Pending Messages ({}):", messages.len()));
    for message in messages {
        page.line(format_args!(
            "  From: {}  To: {}  Subject: \"{}\"",
            message.from,
            message.to.join(", "),
            message.subject
        ));
    }
}
