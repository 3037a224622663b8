//! `fleet checkpoints recovery-points`: lists the checkpoints to go back to, and says of each if work can resume from it.

use std::process::ExitCode;

use flightline::core::Kind;
use flightline::recovery::points::{ListRecoveryPoints, RecoveryPoint};

use crate::app::{App, DisplayIds};
use crate::command::CommandResult;
use crate::ui::{Cell, Page};

pub fn list(limit: u64, app: &mut App) -> CommandResult {
    let found = app.run(&ListRecoveryPoints {
        mission: None,
        limit,
    })?;
    let short = app.short(&[Kind::Checkpoint, Kind::Mission], &found)?;
    app.ui.answer(&found.points, |page| {
        page.line(format_args!(
            "Recovery points of mission: {}",
            short.id(found.mission_id)
        ));
        page.line("");
        if found.points.is_empty() {
            page.hint("No checkpoint yet: take one with `fleet checkpoint`");
            return;
        }
        say(page, &found.points, &short);
        page.line("");
        let look = page.command("fleet resume --checkpoint ID --dry-run");
        page.line(format_args!(
            "Total: {} {}. Look first: {look}",
            found.total,
            if found.total == 1 { "point" } else { "points" }
        ));
    })?;
    Ok(ExitCode::SUCCESS)
}

fn say(page: &mut Page, points: &[RecoveryPoint], short: &DisplayIds) {
    let titles = ["ID", "TIMESTAMP", "REASON", "STATE", "PROGRESS", "RESUME"];
    let rows: Vec<Vec<Cell>> = points
        .iter()
        .map(|point| {
            let progress = match point.progress_percent {
                Some(percent) => format!("{percent}%"),
                None => "-".to_owned(),
            };
            vec![
                Cell::new(short.id(point.id)),
                Cell::new(point.timestamp.to_seconds()),
                Cell::new(point.reason.as_deref().unwrap_or(&point.trigger)),
                Cell::new(point.state.as_deref().unwrap_or("-")),
                Cell::new(progress),
                Cell::new(match (point.sound, point.can_resume) {
                    (false, _) => "damaged",
                    (true, true) => "yes",
                    (true, false) => "no",
                }),
            ]
        })
        .collect();
    page.table(&titles, &rows);
    for point in points.iter().filter(|point| !point.can_resume) {
        page.line("");
        page.line(format_args!("{}:", short.id(point.id)));
        for blocker in &point.blockers {
            page.line(format_args!("  - {blocker}"));
        }
        for suggestion in &point.suggestions {
            page.line(format_args!("  → {suggestion}"));
        }
    }
}
