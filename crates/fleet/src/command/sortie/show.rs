//! Lays out a sortie with all its parts, for `fleet sorties show`.

use std::process::ExitCode;

use flightline::core::Kind;
use flightline::core::time::human_span;
use flightline::sortie::SortieView;

use crate::app::{App, DisplayIds};
use crate::command::CommandResult;
use crate::ui::{BOLD, Cell, GREEN, Page, RED, state};

pub(super) fn show(view: &SortieView, app: &mut App) -> CommandResult {
    let (short, now) = (app.short(&[Kind::Sortie, Kind::Mission], view)?, app.now()?);
    app.ui.answer(view, |page| {
        page.at(now);
        details(page, view, &short);
    })?;
    Ok(ExitCode::SUCCESS)
}

fn details(page: &mut Page, view: &SortieView, short: &DisplayIds) {
    let sortie = &view.sortie;
    page.line(format_args!(
        "{}   {}   {}   {} %",
        Cell::styled(&sortie.title, BOLD),
        short.id(sortie.id),
        state(sortie.status.as_str()),
        view.progress.percent
    ));
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let mut fact = |name: &str, value: Option<String>| {
        rows.extend(value.map(|value| vec![Cell::dim(name), Cell::new(value)]))
    };
    fact("Mission", Some(short.id(sortie.mission_id)));
    fact("Task", sortie.task_id.as_ref().map(ToString::to_string));
    fact("Owner", view.owner.clone());
    fact("What", sortie.description.as_ref().map(ToString::to_string));
    fact(
        "Note",
        sortie.progress_notes.as_ref().map(ToString::to_string),
    );
    fact(
        "Blocked",
        sortie.blocked_reason.as_ref().map(ToString::to_string),
    );
    fact(
        "Interrupted",
        sortie
            .interrupted
            .as_ref()
            .map(|before| format!("{} was gone, {}", before.owner, page.time(before.at))),
    );
    fact("Failed", sortie.failure.as_ref().map(ToString::to_string));
    fact(
        "Last",
        sortie
            .cursor
            .last_processed
            .as_ref()
            .map(ToString::to_string),
    );
    fact(
        "Next",
        sortie
            .cursor
            .next_to_process
            .as_ref()
            .map(ToString::to_string),
    );
    fact(
        "Cursor",
        sortie.cursor.notes.as_ref().map(ToString::to_string),
    );
    fact(
        "Resume",
        sortie.resume_instructions.as_ref().map(ToString::to_string),
    );
    let after: Vec<String> = sortie.depends_on.iter().map(|id| short.id(id)).collect();
    fact("After", (!after.is_empty()).then(|| after.join(", ")));
    let files: Vec<String> = sortie.files.iter().map(ToString::to_string).collect();
    fact(
        "Plans to touch",
        (!files.is_empty()).then(|| files.join(", ")),
    );
    fact(
        "Attempts",
        (sortie.attempts > 0).then(|| sortie.attempts.to_string()),
    );
    fact("Estimate", sortie.estimate_ms.map(human_span));
    fact("Took", view.actual_ms.map(human_span));
    let tokens = sortie.token_usage;
    fact(
        "Tokens",
        (tokens.input + tokens.output > 0)
            .then(|| format!("{} in, {} out", tokens.input, tokens.output)),
    );
    fact("Started", sortie.started_at.map(|at| page.time(at)));
    fact("Completed", sortie.completed_at.map(|at| page.time(at)));
    fact(
        "Verdict",
        sortie
            .approval
            .as_ref()
            .map(|approval| format!("{:?} by {}", approval.verdict, approval.by).to_lowercase()),
    );
    page.table(&[], &rows);
    for (name, met) in &sortie.acceptance_criteria {
        let mark = if *met {
            Cell::styled("✓ met", GREEN)
        } else {
            Cell::styled("○ open", RED)
        };
        let text = sortie.criteria_texts.get(name);
        let text = text.map_or_else(String::new, |text| format!("  {text}"));
        page.line(format_args!("  {mark}  {name}{text}"));
    }
    for subtask in &view.subtasks {
        let output = subtask
            .output
            .as_ref()
            .map_or_else(String::new, |output| format!("  → {output}"));
        page.line(format_args!(
            "  {}  {}{output}",
            state(subtask.status.as_str()),
            subtask.name
        ));
    }
    for file in &view.files {
        page.line(format_args!("  {}  {}", file.change.as_str(), file.path));
    }
    for error in &view.errors {
        let cleared = if error.cleared_at.is_some() {
            " (cleared)"
        } else {
            ""
        };
        page.line(format_args!(
            "  {}  {}: {}{cleared}",
            Cell::styled("✗ error", RED),
            error.kind,
            error.message
        ));
    }
    for review in &view.reviews {
        let score = review
            .score
            .map_or_else(|| "asked".to_owned(), |score| score.to_string());
        page.line(format_args!("  review by {}: {score}", review.reviewer));
    }
}
