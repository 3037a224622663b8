//! `fleet status`: shows the fleet at a glance, and work that needs attention.

use std::process::ExitCode;

use flightline::agent::AgentView;
use flightline::core::checkpoint::CheckpointStatus;
use flightline::core::sortie::SortieStatus;
use flightline::core::time::human_span;
use flightline::core::{Kind, Refusal};
use flightline::mirror;
use flightline::remote::SyncReport;
use flightline::sortie::SortieSummary;
use flightline::status::{Attention, FleetStatus, MissionStatusView, ShowStatus};

use super::CommandResult;
use crate::app::{App, DisplayIds};
use crate::ui::{BOLD, Cell, Page, bar, state};

/// The most sorties that a glance shows.
const SHOWN: usize = 30;

pub fn run(app: &mut App) -> CommandResult {
    let sightings = app.sightings()?;
    let mut status = app.run(&ShowStatus {
        mission: None,
        sightings,
    })?;
    status.synced = synced(app);
    status.attention.extend(conflicts(app)?);
    let sorties = status.mission.as_ref().map(|view| shown(&view.sorties));
    let sorties = sorties.unwrap_or_default();
    let mission = status.mission.as_ref().map(|view| &view.mission);
    let short = app.short(
        &[Kind::Mission, Kind::Sortie, Kind::Checkpoint],
        &(mission, &sorties, &status.checkpoint, &status.attention),
    )?;
    app.ui.answer(&status, |page| {
        page.at(status.now);
        match &status.mission {
            Some(mission) => show_mission(page, mission, &sorties, &status, &short),
            None => {
                page.line("No mission yet.");
                let next = page.command("fleet missions create \"…\" --sortie \"…\"");
                page.line(format_args!("Next: {next}"));
            }
        }
        show_rest(page, &status, &short);
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The files in the mirrors of this work tree that need a person.
pub fn conflicts(app: &App) -> Result<Vec<Attention>, Refusal> {
    Ok(app.mirrors()?.iter().flat_map(mirror::attention).collect())
}

/// The state of the connection to the server, with the requests that could not be delivered.
fn synced(app: &App) -> Option<SyncReport> {
    let server = app.server()?;
    let spool = app.spool();
    Some(SyncReport {
        server: server.to_string(),
        waiting: spool.waiting(app.token_owner().as_ref()),
        last_delivery: spool.last_delivery(),
        damaged: spool
            .damaged()
            .iter()
            .map(|file| file.display().to_string())
            .collect(),
    })
}

fn show_synced(page: &Page, synced: &SyncReport, rows: &mut Vec<Vec<Cell>>) {
    for of in &synced.waiting {
        let whose = of.agent.as_deref().unwrap_or("you");
        let elsewhere = of
            .server
            .as_deref()
            .filter(|server| *server != synced.server);
        let held = match (elsewhere, of.for_other_token) {
            (Some(server), _) => format!(
                "; for {server}: deliver them there, or drop them with `rm {}`   → {}",
                of.file,
                page.command(format!("fleet login {server}"))
            ),
            (None, 0) => String::new(),
            (None, some) => format!(
                "; {some} for another token ({}): log in with that one, or with a new one after it has ended   → {}",
                of.token_id.as_deref().unwrap_or("unknown"),
                page.command(format!("fleet login {}", synced.server))
            ),
        };
        rows.push(vec![
            Cell::dim("Waiting"),
            Cell::new(format_args!(
                "{} of {whose}, since {}, on this machine only{held}",
                of.count,
                page.time(of.since)
            )),
        ]);
    }
    let late = synced.last_delivery.iter().flat_map(|last| &last.late);
    for late in late {
        let whose = late.agent.as_deref().unwrap_or("you");
        rows.push(vec![
            Cell::dim("Too late"),
            Cell::new(format_args!(
                "{} of {whose}, {}: {}   → {}",
                late.operation,
                page.time(late.asked_at),
                late.why,
                page.command("fleet note list --kind late")
            )),
        ]);
    }
    for file in &synced.damaged {
        rows.push(vec![
            Cell::dim("Damaged"),
            Cell::new(format_args!(
                "queued requests that cannot be delivered are in {file}"
            )),
        ]);
    }
}

/// Picks the sorties that a glance at a mission shows, in their order. Of many, those in work and those that failed come
/// first, then the next ones.
fn shown(sorties: &[SortieSummary]) -> Vec<&SortieSummary> {
    let urgency = |sortie: &SortieSummary| match sortie.status {
        SortieStatus::Assigned | SortieStatus::InProgress => 0,
        SortieStatus::Blocked | SortieStatus::Failed => 0,
        SortieStatus::Pending => 1,
        SortieStatus::Completed | SortieStatus::Skipped => 2,
    };
    let mut places: Vec<usize> = (0..sorties.len()).collect();
    if places.len() > SHOWN {
        places.sort_by_key(|at| urgency(&sorties[*at]));
        places.truncate(SHOWN);
        places.sort_unstable();
    }
    places.into_iter().map(|at| &sorties[at]).collect()
}

fn show_mission(
    page: &mut Page,
    view: &MissionStatusView,
    sorties: &[&SortieSummary],
    status: &FleetStatus,
    short: &DisplayIds,
) {
    let (mission, progress, percent) = (&view.mission, view.progress, view.progress_percent);
    let title = Cell::styled(&mission.title, BOLD);
    page.line(format_args!(
        "{title}   {}   {}   {percent} %   {}  {} of {}",
        short.id(mission.id),
        state(mission.status.as_str()),
        bar(percent),
        progress.completed,
        progress.total
    ));
    let rows: Vec<Vec<Cell>> = sorties
        .iter()
        .map(|sortie| {
            let id = sortie.id.to_string();
            let owner = sortie.assigned_to.clone().unwrap_or_default();
            let active = view.active.iter().find(|active| active.id == id);
            let doing = match active {
                Some(active) => doing(active, agent_named(status, &owner), page),
                None if sortie.assigned_to.is_some() => page.time(sortie.updated_at),
                None => String::new(),
            };
            vec![
                state(sortie.status.as_str()).indent(2),
                short.id(&id).into(),
                Cell::new(super::sortie::name(sortie)),
                owner.into(),
                Cell::dim(doing),
            ]
        })
        .collect();
    page.table(&[], &rows);
    let more = view.sorties.len() - sorties.len();
    if more > 0 {
        let list = page.command("fleet sorties list");
        page.line(format_args!("  … and {more} more   → {list}"));
    }
}

fn doing(
    active: &flightline::status::ActiveSortie,
    owner: Option<&AgentView>,
    page: &Page,
) -> String {
    let mut parts = Vec::new();
    if let Some(reason) = &active.blocked_reason {
        parts.push(reason.clone());
    }
    if active.progress.total > 0 {
        let at = active
            .subtask
            .as_ref()
            .map_or_else(String::new, |subtask| format!(": \"{subtask}\""));
        let now_at = (active.progress.completed + 1).min(active.progress.total);
        parts.push(format!("subtask {now_at} of {}{at}", active.progress.total));
    } else if let Some(note) = &active.note {
        parts.push(format!("\"{}\"", note.chars().take(60).collect::<String>()));
    }
    if let Some(sign) = owner.and_then(|owner| owner.last_sign) {
        parts.push(format!("last sign {}", page.time(sign)));
    }
    parts.join("   ")
}

fn agent_named<'a>(status: &'a FleetStatus, name: &str) -> Option<&'a AgentView> {
    status
        .agents
        .iter()
        .find(|view| view.agent.name.as_str() == name)
}

/// Tells the state of an agent's briefing: offered, acknowledged, expired unread.
fn briefing(view: &AgentView) -> Option<String> {
    let briefing = view.briefing.as_ref()?;
    let name = &view.agent.name;
    let present = match (briefing.status.as_str(), briefing.deliveries) {
        ("offered", 0 | 1) => format!("{name} offered, not acknowledged"),
        ("offered", times) => format!("{name} offered {times} times, not acknowledged"),
        (status, _) => format!("{name} {status}"),
    };
    Some(match briefing.expired {
        0 => present,
        1 => format!("{present} (the one before expired unread)"),
        many => format!("{present} ({many} before it expired unread)"),
    })
}

/// The commands that settle an open matter.
pub fn settles(page: &Page, attention: &Attention) -> String {
    let command = page.command(&attention.command);
    match &attention.otherwise {
        Some(otherwise) => format!("{command}, or {}", page.command(otherwise)),
        None => command,
    }
}

fn show_rest(page: &mut Page, status: &FleetStatus, short: &DisplayIds) {
    let mut rows = Vec::new();
    let agents: Vec<String> = status
        .agents
        .iter()
        .filter(|view| view.last_sign.is_some())
        .map(|view| {
            let since = view.last_sign.map_or_else(String::new, |sign| {
                format!(" ({})", human_span(status.now.since(sign)))
            });
            format!("{} {}{since}", view.agent.name, view.liveness.life.as_str())
        })
        .collect();
    let none = || "none".to_owned();
    if let Some(checkpoint) = &status.checkpoint {
        let why = checkpoint
            .trigger_details
            .clone()
            .unwrap_or_else(|| checkpoint.reason.replace('_', " "));
        rows.push(vec![
            Cell::dim("Checkpoint"),
            Cell::new(format_args!(
                "{}, {}, {why}, {}",
                short.id(checkpoint.id),
                page.time(checkpoint.timestamp),
                match checkpoint.status {
                    CheckpointStatus::Valid => "in the store and in its file",
                    CheckpointStatus::Creating => "in the store, its file is to be written",
                    CheckpointStatus::Corrupted => "damaged",
                    CheckpointStatus::Expired | CheckpointStatus::Archived => "kept",
                }
            )),
        ]);
    }
    rows.push(vec![
        Cell::dim("Agents"),
        Cell::new(if agents.is_empty() {
            none()
        } else {
            agents.join("   ")
        }),
    ]);
    let locks: Vec<String> = status
        .locks
        .iter()
        .map(|view| format!("{} ({})", view.lock.file, view.holder))
        .collect();
    rows.push(vec![
        Cell::dim("Locks"),
        Cell::new(if locks.is_empty() {
            none()
        } else {
            locks.join("   ")
        }),
    ]);
    let mail: Vec<String> = status
        .agents
        .iter()
        .filter(|view| view.unread > 0)
        .map(|view| format!("{} for {}", view.unread, view.agent.name))
        .collect();
    rows.push(vec![
        Cell::dim("Mail"),
        Cell::new(if mail.is_empty() {
            none()
        } else {
            mail.join("   ")
        }),
    ]);
    let briefings: Vec<String> = status.agents.iter().filter_map(briefing).collect();
    if !briefings.is_empty() {
        rows.push(vec![
            Cell::dim("Briefings"),
            Cell::new(briefings.join("   ")),
        ]);
    }
    if let Some(synced) = &status.synced {
        show_synced(page, synced, &mut rows);
    }
    if status.attention.is_empty() {
        rows.push(vec![Cell::dim("Needs you"), Cell::new("nothing")]);
    }
    for (at, attention) in status.attention.iter().enumerate() {
        let label = if at == 0 { "Needs you" } else { "" };
        rows.push(vec![
            Cell::dim(label),
            Cell::new(format_args!(
                "{}   → {}",
                short.text(&attention.what),
                short.text(&settles(page, attention))
            )),
        ]);
    }
    page.table(&[], &rows);
}
