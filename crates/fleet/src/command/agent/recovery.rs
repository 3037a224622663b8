//! `fleet agents resume`, `takeover` and `restart`, and `fleet handoff`: continues an agent's work in a new session, by
//! another agent, or from scratch.

use std::process::ExitCode;

use clap::Args;
use flightline::agent::ShowAgent;
use flightline::agent::restart::RestartAgent;
use flightline::agent::resume::ResumeAgent;
use flightline::agent::takeover::{ShowHandoff, TakeOver};
use flightline::core::agent::Agent;
use flightline::core::text::counted;

use super::process_of;
use crate::app::App;
use crate::command::{CommandResult, typed};
use crate::complete;
use crate::ui::Page;

#[derive(Debug, Args)]
pub struct AgentResumeArgs {
    /// The agent: its name, or its id
    #[arg(add = complete::agents())]
    name: String,
    /// The client's id of the new session (default: a new one)
    #[arg(long)]
    session: Option<String>,
    /// The agent's process id, so that its end is noticed at once
    #[arg(long)]
    pid: Option<u32>,
}

#[derive(Debug, Args)]
pub struct TakeoverArgs {
    /// The agent that crashed
    #[arg(add = complete::agents())]
    old: String,
    /// The agent that takes over; registered when it is new
    #[arg(add = complete::agents())]
    new: String,
    /// The client's session id of the agent that takes over
    #[arg(long)]
    session: Option<String>,
    /// Take over even if the old agent may still be alive
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
pub struct RestartArgs {
    /// The agent: its name, or its id
    #[arg(add = complete::agents())]
    name: String,
    /// Restart even if the agent may still be alive
    #[arg(long)]
    force: bool,
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

#[derive(Debug, Args)]
pub struct HandoffArgs {
    /// The agent whose work is or was handed over
    #[arg(add = complete::agents())]
    name: String,
}

pub fn resume(args: &AgentResumeArgs, app: &mut App) -> CommandResult {
    // An agent that comes back by itself knows its session.
    let caller = app.caller()?;
    let own = caller
        .session
        .filter(|_| caller.agent.as_ref() == Some(&args.name));
    let session = args.session.clone().or(own);
    let request = ResumeAgent {
        agent: args.name.clone(),
        session: typed::maybe(session.as_ref(), |text| typed::title("session", text))?,
        process: process_of(args.pid)?,
    };
    let resumed = app.run(&request)?;
    app.sessions()?.begun(&resumed.agent);
    for blocker in &resumed.blockers {
        app.ui.warn(blocker);
    }
    app.ui.answer(&resumed, |page| {
        page.block(0, &resumed.message);
        if let Some(instructions) = &resumed.agent.recovery_instructions {
            page.line("");
            page.line(format_args!("Instructions: {instructions}"));
        }
        page.line("");
        page.line(format_args!(
            "Continues with {}, {} and {}.",
            counted(resumed.sorties.len() as u64, "sortie"),
            counted(resumed.locks.len() as u64, "lock"),
            counted(resumed.unread, "message")
        ));
        act_as(page, &resumed.agent);
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn takeover(args: &TakeoverArgs, app: &mut App) -> CommandResult {
    let request = TakeOver {
        from: args.old.clone(),
        to: typed::name("agent name", &args.new)?,
        session: typed::maybe(args.session.as_ref(), |text| typed::title("session", text))?,
        force: args.force,
        sightings: app.sightings()?,
    };
    let taken = app.run(&request)?;
    app.sessions()?.begun(&taken.agent);
    for blocker in &taken.blockers {
        app.ui.warn(blocker);
    }
    app.ui.answer(&taken, |page| {
        let handoff = &taken.handoff;
        page.block(0, &handoff.text);
        page.line("");
        page.line(format_args!(
            "{} has {}, {} and {} of {} ({}).",
            taken.agent.name,
            counted(handoff.sorties.len() as u64, "sortie"),
            counted(handoff.locks.len() as u64, "lock"),
            counted(handoff.messages, "message"),
            handoff.from,
            taken.evidence
        ));
        let briefing = page.command(format!("fleet context --agent {}", taken.agent.name));
        page.line(format_args!("Its briefing: {briefing}"));
        act_as(page, &taken.agent);
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn restart(args: &RestartArgs, app: &mut App) -> CommandResult {
    let sightings = app.sightings()?;
    let shown = app.run(&ShowAgent {
        agent: Some(args.name.clone()),
        sightings: sightings.clone(),
    })?;
    let name = &shown.agent.name;
    if !args.yes {
        let act = format!(
            "discard the progress of {name} on {}, and release {}",
            counted(shown.sorties.len() as u64, "sortie"),
            counted(shown.locks.len() as u64, "lock")
        );
        let force = if args.force { " --force" } else { "" };
        let command = format!("fleet agents restart {name}{force} -y");
        app.ui.confirm(&act, &command, app.asking())?;
    }
    let restarted = app.run(&RestartAgent {
        agent: args.name.clone(),
        force: args.force,
        sightings,
    })?;
    app.ui.answer(&restarted, |page| {
        let agent = &restarted.agent;
        page.line(format_args!(
            "{} begins from scratch: {} to begin again, {} released.",
            agent.name,
            counted(restarted.sorties.len() as u64, "sortie"),
            counted(restarted.locks.len() as u64, "lock")
        ));
        for checkpoint in &restarted.checkpoints {
            page.line(format_args!("State before the restart: {checkpoint}"));
        }
        let begin = page.command(format!("fleet agents register {}", agent.name));
        page.line(format_args!("Begin with: {begin}"));
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn handoff(args: &HandoffArgs, app: &mut App) -> CommandResult {
    let handoff = app.run(&ShowHandoff {
        agent: args.name.clone(),
    })?;
    app.ui.answer(&handoff, |page| {
        page.block(0, &handoff.text);
        if let Some(hint) = &handoff.hint {
            page.line("");
            page.hint(hint);
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the variables with which to act as an agent in its new session.
fn act_as(page: &mut Page, agent: &Agent) {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-:".contains(c);
    let session = agent.session_id.as_ref().map(|session| session.as_str());
    let session = session
        .filter(|session| session.chars().all(plain))
        .map(|session| format!(" FLEET_SESSION={session}"));
    page.line(format_args!(
        "Act as it with: export FLEET_AGENT={} FLEET_EPOCH={}{}",
        agent.name,
        agent.epoch,
        session.unwrap_or_default()
    ));
}
