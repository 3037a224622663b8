//! `fleet statusline`: prints one line for a client's status bar. The client gives its JSON on stdin.

use std::path::PathBuf;
use std::process::ExitCode;

use flightline::core::Refusal;
use flightline::core::time::human_span;
use flightline::status::{FleetStatus, ShowStatus};
use flightline_clients::usage;
use serde::{Deserialize, Serialize};

use super::hook::read_stdin;
use super::{CommandResult, status};
use crate::app::App;

/// The part of a client's JSON that names its folders and session.
#[derive(Deserialize)]
struct Where {
    cwd: Option<PathBuf>,
}

#[derive(Serialize)]
struct Line {
    text: String,
}

/// Shows the mission, its progress, the last checkpoint, how full the context is, and whether a person is needed. Where
/// there is no fleet, or it cannot be read, the line has only the client's own figures.
pub fn run(app: &mut App) -> CommandResult {
    let given = read_stdin().unwrap_or_default();
    let mut parts = Vec::new();
    if let Ok(Where { cwd: Some(cwd) }) = serde_json::from_str(&given)
        && let Ok(moved) = app.moved_to(cwd)
    {
        *app = moved;
    }
    if app.home.is_some()
        && let Ok(seen) = look(app)
    {
        parts.extend(told(&seen));
    }
    if let Some((_, gauge)) = usage::statusline_gauge(&given)
        && gauge.total > 0
    {
        parts.push(format!("context {} %", gauge.used * 100 / gauge.total));
    }
    let line = Line {
        text: parts.join(" · "),
    };
    app.ui.answer(&line, |page| {
        if !line.text.is_empty() {
            page.line(&line.text);
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn look(app: &mut App) -> Result<FleetStatus, Refusal> {
    let sightings = app.sightings()?;
    let mut seen = app.run(&ShowStatus {
        mission: None,
        sightings,
    })?;
    seen.attention.extend(status::conflicts(app)?);
    Ok(seen)
}

fn told(seen: &FleetStatus) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some(mission) = &seen.mission {
        let title: String = mission.mission.title.chars().take(40).collect();
        parts.push(format!(
            "{title} {}/{}",
            mission.progress.completed, mission.progress.total
        ));
    }
    if let Some(checkpoint) = &seen.checkpoint {
        let age = human_span(seen.now.since(checkpoint.timestamp));
        parts.push(format!("checkpoint {age} ago"));
    }
    match seen.attention.len() {
        0 => {}
        1 => parts.push("1 thing needs you: fleet status".to_owned()),
        many => parts.push(format!("{many} things need you: fleet status")),
    }
    parts
}
