//! `fleet agents end` and `sync`, and the answer of `fleet heartbeat`: ends a session, returns an agent to normal mode,
//! and reports crossed thresholds of its context.

use std::process::ExitCode;

use flightline::agent::HeartbeatRecorded;
use flightline::agent::context::{EndSession, FullSync};
use flightline::core::Kind;

use crate::app::{App, DisplayIds};
use crate::command::CommandResult;
use crate::ui::Page;

pub fn say_beaten(beaten: &HeartbeatRecorded, app: &mut App) -> CommandResult {
    // The usual heartbeat asks for no ids.
    let led_to_more = !beaten.crossed.is_empty() || beaten.checkpoint_id.is_some();
    let short = match led_to_more {
        true => Some(app.short(&[Kind::Checkpoint, Kind::Sortie], beaten)?),
        false => None,
    };
    warn(beaten.problem.as_ref(), app);
    app.ui.answer(beaten, |page| {
        page.line(format_args!(
            "{} is alive (epoch {})",
            beaten.agent, beaten.epoch
        ));
        match &short {
            Some(short) => say_crossed(page, beaten, short),
            None if beaten.stop => page.line(format_args!(
                "Its context is {} % full. Stop after this operation.",
                beaten.context_percent.unwrap_or_default()
            )),
            None => {}
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

fn warn(problem: Option<&String>, app: &App) {
    if let Some(problem) = problem {
        app.ui
            .warn(format_args!("the checkpoint could not be taken: {problem}"));
    }
}

fn say_crossed(page: &mut Page, beaten: &HeartbeatRecorded, short: &DisplayIds) {
    let percent = beaten.context_percent.unwrap_or_default();
    let saved = match (beaten.checkpoint_id, &beaten.problem) {
        (Some(id), _) => format!("saved in {}", short.id(id)),
        (None, Some(_)) => "not saved; the next heartbeat tries again".to_owned(),
        (None, None) => "there is no mission to save".to_owned(),
    };
    page.line(format_args!("Its context is {percent} % full: {saved}."));
    if !beaten.mode.is_normal() {
        page.line(format_args!(
            "Mode: {}. Briefings hold only the required parts until the task is complete.",
            beaten.mode.as_str()
        ));
    }
    if !beaten.stop {
        page.line("Continue the current task, and start no other.");
        return;
    }
    page.line("Stop after this operation.");
    if let Some(sortie) = beaten.sortie_id {
        page.line("");
        page.line(format_args!("Left of {}:", short.id(sortie)));
        for (number, step) in (1..).zip(&beaten.remaining) {
            page.line(format_args!("{number}. {step}"));
        }
    }
    if let Some(instructions) = &beaten.instructions {
        page.line("");
        page.hints(instructions);
    }
}

pub fn end(name: Option<String>, app: &mut App) -> CommandResult {
    let ended = app.run(&EndSession { agent: name })?;
    let short = app.short(&[Kind::Checkpoint], &ended)?;
    warn(ended.problem.as_ref(), app);
    app.ui.answer(&ended, |page| {
        page.line(format_args!("The session of {} has ended.", ended.agent));
        match ended.checkpoint_id {
            Some(id) => {
                page.line(format_args!("Its work is saved in {}.", short.id(id)));
                page.line("");
                page.line("Next Steps:");
                for (number, step) in (1..).zip(&ended.next_steps) {
                    page.line(format_args!("{number}. {step}"));
                }
            }
            None if ended.in_progress => {
                page.line("Its work is in progress, and no checkpoint was taken of it.");
            }
            None => page.line("Nothing was in progress: no checkpoint is taken."),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

pub fn sync(name: Option<String>, app: &mut App) -> CommandResult {
    let synced = app.run(&FullSync { agent: name })?;
    let short = app.short(&[Kind::Checkpoint], &synced)?;
    app.ui.answer(&synced, |page| {
        match synced.from.is_normal() {
            true if synced.consumed.is_empty() => page.line(format_args!(
                "{} was in normal mode already: nothing has changed.",
                synced.agent
            )),
            true => page.line(format_args!("{} was in normal mode already.", synced.agent)),
            false => page.line(format_args!(
                "{} is back in normal mode; it was in {} mode.",
                synced.agent,
                synced.from.as_str()
            )),
        }
        for id in &synced.consumed {
            page.line(format_args!(
                "No longer used for resuming: {}.",
                short.id(id)
            ));
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
