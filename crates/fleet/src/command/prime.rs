//! `fleet prime`: prints where an agent stands and how it works here, for clients without hooks. `fleet agents-md` prints
//! the block for AGENTS.md.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use flightline::core::{Code, Refusal};
use flightline::status::{FleetStatus, ShowStatus};
use flightline_clients::Client;
use flightline_clients::setup::{self, SetupScope, agents_md};
use serde::Serialize;

use super::CommandResult;
use super::setup::{Written, cannot_edit, read};
use crate::app::App;

/// The most items of a list that are named.
const NAMED: usize = 8;

#[derive(Debug, Args)]
pub struct AgentsMdArgs {
    /// Write the block into AGENTS.md of this repository; one that is there is brought up to date
    #[arg(long)]
    write: bool,
    /// Take the block out of AGENTS.md
    #[arg(long, conflicts_with = "write")]
    remove: bool,
}

#[derive(Serialize)]
struct Primed {
    agent: Option<String>,
    text: String,
}

pub fn prime(app: &mut App) -> CommandResult {
    // An agent does what this says.
    app.must_be_trusted()?;
    let agent = app.caller()?.agent;
    let status = status(app)?;
    let text = format!("{}\n\n{}", standing(agent.as_deref(), &status), loop_text());
    let primed = Primed { agent, text };
    app.ui.answer(&primed, |page| page.block(0, &primed.text))?;
    Ok(ExitCode::SUCCESS)
}

fn status(app: &mut App) -> Result<FleetStatus, Refusal> {
    let sightings = app.sightings()?;
    app.run(&ShowStatus {
        mission: None,
        sightings,
    })
}

/// Prints the block for AGENTS.md, as `fleet setup` writes it; or writes it, or takes it out.
pub fn agents(args: &AgentsMdArgs, app: &mut App) -> CommandResult {
    if args.write || args.remove {
        return edit_agents(args, app);
    }
    let block = agents_md();
    app.ui
        .answer(&block, |page| page.block(0, block.trim_end()))?;
    Ok(ExitCode::SUCCESS)
}

/// The change of AGENTS.md, for programs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Edited {
    /// The path of the file.
    path: PathBuf,
    /// False when the file was already so.
    changed: bool,
}

/// Writes the block into AGENTS.md, or removes it. Everything around the block stays as it is.
fn edit_agents(args: &AgentsMdArgs, app: &mut App) -> CommandResult {
    app.will_answer("edited")?;
    let place = setup::places(Client::Codex, SetupScope::Project)
        .into_iter()
        .find(|place| place.kind == setup::SettingsFormat::Markdown)
        .ok_or_else(|| Refusal::new(Code::Failed, "no file is known for the block"))?;
    let root = app.root();
    let path = root.join(&place.path);
    let before = read(Some(&root), &path)?;
    let after = match (args.remove, &before) {
        (true, None) => Ok(None),
        (true, Some(now)) => setup::remove(&place, now, None),
        (false, before) => {
            setup::install(&place, before.as_deref(), None, "fleet").map(|it| Some(it.text))
        }
    };
    let after = after.map_err(|trouble| cannot_edit(&path, &trouble))?;
    let edited = Edited {
        changed: before != after,
        path,
    };
    if edited.changed {
        let written = Written {
            root: Some(&root),
            path: &edited.path,
            mode: 0o644,
        };
        written.put(after.as_deref(), &app.steps()?)?;
    }
    app.ui.answer(&edited, |page| {
        let path = edited.path.display();
        page.line(match (edited.changed, args.remove) {
            (true, false) => format!("Wrote the block into {path}"),
            (false, false) => format!("{path} has the block already"),
            (true, true) => format!("Took the block out of {path}"),
            (false, true) => format!("{path} has no block"),
        });
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The instructions of the block, without its markers and without the step that was just done.
fn loop_text() -> String {
    let lines = agents_md().lines();
    let ours = lines.filter(|line| !line.starts_with("<!--") && !line.contains("fleet prime"));
    ours.collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Tells an agent its name, its work, and what waits for it.
fn standing(agent: Option<&str>, status: &FleetStatus) -> String {
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
