//! `fleet prime`: where an agent stands and how it works here, for clients without hooks. `fleet agents-md` prints the part that belongs into
//! AGENTS.md.

use std::process::ExitCode;

use flightline::core::Refusal;
use flightline::status::{ShowStatus, Status};
use flightline_clients::setup::agents_md;
use serde::Serialize;

use super::Done;
use crate::app::App;

/// So many of a list are named.
const NAMED: usize = 8;

#[derive(Serialize)]
struct Primed {
    agent: Option<String>,
    text: String,
}

pub fn prime(app: &mut App) -> Done {
    let agent = app.caller()?.agent;
    let status = status(app)?;
    let text = format!("{}\n\n{}", standing(agent.as_deref(), &status), loop_text());
    let primed = Primed { agent, text };
    app.ui.answer(&primed, |page| page.block(0, &primed.text))?;
    Ok(ExitCode::SUCCESS)
}

fn status(app: &mut App) -> Result<Status, Refusal> {
    let sightings = app.sightings()?;
    app.run(&ShowStatus {
        mission: None,
        sightings,
    })
}

/// Prints the block for AGENTS.md, as `fleet setup` writes it.
pub fn agents(app: &mut App) -> Done {
    let block = agents_md();
    app.ui
        .answer(&block, |page| page.block(0, block.trim_end()))?;
    Ok(ExitCode::SUCCESS)
}

/// How to work, without the markers and without the step that was just done.
fn loop_text() -> String {
    let lines = agents_md().lines();
    let ours = lines.filter(|line| !line.starts_with("<!--") && !line.contains("fleet prime"));
    ours.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Who the agent is, its work, and what waits.
fn standing(agent: Option<&str>, status: &Status) -> String {
    let mut lines = Vec::new();
    lines.push(match agent {
        Some(agent) => format!("You are `{agent}` in the fleet of {}.", status.project),
        None => format!(
            "This is the fleet of {}. You have no name in it yet: add `--agent NAME` to each command, or set FLEET_AGENT.",
            status.project
        ),
    });
    let Some(mission) = &status.mission else {
        lines.push("There is no mission yet.".to_owned());
        return lines.join("\n");
    };
    lines.push(format!(
        "Mission: {} ({}), {} %, {} of {} sorties completed.",
        mission.mission.title,
        &mission.mission.id.to_string()[..12],
        mission.progress_percent,
        mission.progress.completed,
        mission.progress.total,
    ));
    let mine = |owner: &Option<String>| owner.is_some() && owner.as_deref() == agent;
    let held = mission.sorties.iter().filter(|it| {
        mine(&it.assigned_to) && !matches!(it.status.as_str(), "completed" | "failed" | "cancelled")
    });
    let held: Vec<String> = held
        .take(NAMED)
        .map(|it| named(&it.id.to_string(), &it.title, it.status.as_str()))
        .collect();
    let open = mission
        .sorties
        .iter()
        .filter(|it| it.status.as_str() == "pending");
    let open = open.count();
    if held.is_empty() {
        lines.push(match open {
            0 => "You hold no sortie, and none is pending.".to_owned(),
            open => format!("You hold no sortie; {open} are pending: take one with `fleet sorties claim --next`."),
        });
    } else {
        lines.push("Your sorties:".to_owned());
        lines.extend(held);
        lines.push("Your briefing has all of it: `fleet context`.".to_owned());
    }
    let view = status
        .agents
        .iter()
        .find(|it| Some(it.agent.name.as_str()) == agent);
    if let Some(unread) = view.map(|view| view.unread).filter(|unread| *unread > 0) {
        lines.push(format!(
            "Mail waits for you ({unread}): `fleet mail inbox`."
        ));
    }
    lines.join("\n")
}

fn named(id: &str, title: &str, status: &str) -> String {
    format!("- {} {title} ({status})", id.get(..12).unwrap_or(id))
}
