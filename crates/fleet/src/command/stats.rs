//! `fleet stats`: shows counts of all records, and the space they use.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use flightline::core::Kind;
use flightline::stats::{CheckpointStats, ShowStats, Storage};

use super::CommandResult;
use super::prune::size;
use crate::app::{App, DisplayIds};
use crate::ui::{Cell, Page};

#[derive(Debug, Args)]
pub struct StatsArgs {
    /// The section: `storage` shows the space used (default: all)
    section: Option<Section>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Section {
    // What takes room: checkpoints, their files, the journal, the database.
    Storage,
}

pub fn run(args: &StatsArgs, app: &mut App) -> CommandResult {
    let stats = app.run(&ShowStats {})?;
    let short = app.short(&[Kind::Checkpoint, Kind::Mission], &stats)?;
    match args.section {
        Some(Section::Storage) => app
            .ui
            .answer(&stats.storage, |page| say(page, &stats.storage, &short))?,
        None => app
            .ui
            .answer(&stats, |page| say(page, &stats.storage, &short))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn say(page: &mut Page, storage: &Storage, short: &DisplayIds) {
    let (database, files, journal) = (&storage.database, &storage.files, &storage.journal);
    let mut parts = vec![format!("{} {}", database.engine, size(database.bytes))];
    if database.log_bytes > 0 {
        parts.push(format!("log {}", size(database.log_bytes)));
    }
    if let Some(free) = database.free_bytes {
        parts.push(format!("{} free", size(free)));
    }
    line(page, "Database", &parts.join(", "));
    say_checkpoints(page, &storage.checkpoints, short);
    let mut parts = vec![format!("{} with {}", files.written, size(files.bytes))];
    for (count, what) in [
        (files.pending, "yet to be written"),
        (files.failed, "could not be written"),
        (files.shared, "share another's"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    line(page, "Files", &parts.join(", "));
    line(
        page,
        "Journal",
        &format!(
            "{} events; {} values with {}, {} thinned away",
            journal.events,
            journal.values,
            size(journal.value_bytes),
            journal.thinned
        ),
    );
    line(
        page,
        "Requests",
        &format!("{} remembered", storage.requests),
    );
    page.line("");
    let rows: Vec<Vec<Cell>> = storage
        .kinds
        .iter()
        .map(|kind| {
            vec![
                Cell::new(kind.kind),
                Cell::new(kind.count),
                Cell::new(kind.journal.events),
                Cell::new(kind.journal.thinned),
                Cell::new(size(kind.bytes)),
            ]
        })
        .collect();
    page.table(&["KIND", "NOW", "EVENTS", "THINNED", "SIZE"], &rows);
    if storage.missions.is_empty() {
        return;
    }
    page.line("");
    let rows: Vec<Vec<Cell>> = storage
        .missions
        .iter()
        .map(|mission| {
            vec![
                Cell::new(short.id(mission.mission_id)),
                Cell::new(mission.events),
                Cell::new(size(mission.value_bytes)),
                Cell::new(mission.checkpoints),
                Cell::new(size(mission.file_bytes)),
                Cell::new(mission.title.as_deref().unwrap_or("-")),
            ]
        })
        .collect();
    page.table(
        &[
            "LARGEST",
            "EVENTS",
            "VALUES",
            "CHECKPOINTS",
            "FILES",
            "TITLE",
        ],
        &rows,
    );
}

fn say_checkpoints(page: &mut Page, checkpoints: &CheckpointStats, short: &DisplayIds) {
    let listed = |counts: &BTreeMap<String, u64>| {
        let parts: Vec<String> = counts
            .iter()
            .map(|(word, count)| format!("{count} {word}"))
            .collect();
        parts.join(", ")
    };
    let mut parts = vec![checkpoints.total.to_string()];
    parts.extend(
        [
            listed(&checkpoints.by_trigger),
            listed(&checkpoints.by_status),
        ]
        .into_iter()
        .filter(|part| !part.is_empty()),
    );
    if checkpoints.pinned > 0 {
        parts.push(format!("{} pinned", checkpoints.pinned));
    }
    if checkpoints.unreadable > 0 {
        parts.push(format!(
            "{} unreadable (`fleet doctor`)",
            checkpoints.unreadable
        ));
    }
    line(page, "Checkpoints", &parts.join("; "));
    if let (Some(oldest), Some(newest)) = (&checkpoints.oldest, &checkpoints.newest) {
        let told = format!(
            "oldest {} of {}, newest {} of {}",
            short.id(oldest.id),
            oldest.timestamp.to_seconds(),
            short.id(newest.id),
            newest.timestamp.to_seconds()
        );
        line(page, "", &told);
    }
}

fn line(page: &mut Page, name: &str, text: &str) {
    page.line(format_args!("{name:<13}{text}"));
}
