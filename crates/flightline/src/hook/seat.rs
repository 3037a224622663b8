//! Finds the agent of a session. Agents of a client are named after it: `claude`, then `claude-2` for a second one at
//! the same time. A session that begins takes the seat of one that is gone, with its work, or a new one.

use flightline_core::agent::Agent;
use flightline_core::{Name, Subject};
use flightline_store::Find;

use super::TellHook;
use crate::agent::{RegisterAgent, RetireAgent, held_sorties};
use crate::error::Result;
use crate::fleet::Operation;
use crate::op_context::{OpContext, agent_named};
use crate::recovery::locked_verdict;

/// Maximum number of sessions of one client that can be at work.
const MOST: usize = 1_000;
/// Number of a client's seats that are tried by their names.
const LIKELY: usize = 3;

pub(super) fn of_session(ctx: &mut OpContext<'_, '_>, hook: &TellHook) -> Result<Option<Agent>> {
    let session = hook.subagent.as_ref().map_or(&hook.session, |it| &it.id);
    let is_it = |agent: &Agent| {
        agent.session_id.as_ref() == Some(session)
            && agent.kind.as_ref() == Some(&hook.client)
            && agent.retired_at.is_none()
    };
    // Nearly always the name tells; a fleet has many agents that are over.
    for name in likely_names(ctx, hook)? {
        match agent_named(ctx.tx, name.as_str())? {
            Some(agent) if is_it(&agent) => return Ok(Some(agent)),
            Some(_) => {}
            None => break,
        }
    }
    Ok(ctx.tx.find_those(Find::All, is_it)?.into_iter().next())
}

/// Returns the names that the agent of a session most likely has.
fn likely_names(ctx: &mut OpContext<'_, '_>, hook: &TellHook) -> Result<Vec<Name>> {
    if hook.subagent.is_none() {
        return (1..=LIKELY).map(|number| seat(hook, number)).collect();
    }
    let named = match of_session(ctx, &hook.of_parent())? {
        Some(parent) => Some(named_after(&parent, hook)?),
        None => None,
    };
    Ok(named.into_iter().collect())
}

/// The name of a client's seat, from 1.
fn seat(hook: &TellHook, number: usize) -> Result<Name> {
    match number {
        1 => Ok(hook.client.clone()),
        number => Ok(Name::parse(
            "agent name",
            &format!("{}-{number}", hook.client),
        )?),
    }
}

/// Returns true when a session continues in another process than it was last heard of in: it was resumed.
pub(super) fn has_moved(agent: &Agent, hook: &TellHook) -> bool {
    hook.process.is_some() && agent.process != hook.process
}

/// Notes the process that a session goes on in.
pub(super) fn renew(ctx: &mut OpContext<'_, '_>, agent: &Agent, hook: &TellHook) -> Result<Agent> {
    let register = RegisterAgent {
        name: agent.name.clone(),
        role: None,
        kind: None,
        session: agent.session_id.clone(),
        process: hook.process.clone(),
        feature: None,
    };
    Ok(register.decide(ctx)?.agent)
}

pub(super) fn take(ctx: &mut OpContext<'_, '_>, hook: &TellHook) -> Result<Agent> {
    let (name, session) = match &hook.subagent {
        Some(subagent) => (subagent_name(ctx, hook)?, subagent.id.clone()),
        None => (free_seat(ctx, hook)?, hook.session.clone()),
    };
    let register = RegisterAgent {
        name,
        role: None,
        kind: Some(hook.client.clone()),
        session: Some(session),
        process: hook.process.clone(),
        feature: None,
    };
    Ok(register.decide(ctx)?.agent)
}

/// The name of a seat that is free, one with work first.
fn free_seat(ctx: &mut OpContext<'_, '_>, hook: &TellHook) -> Result<Name> {
    let (mut free, mut new) = (None, None);
    for number in 1..=MOST {
        let name = seat(hook, number)?;
        let Some(agent) = agent_named(ctx.tx, name.as_str())? else {
            new = Some(name);
            break;
        };
        let Some(kind) = &agent.kind else { continue };
        if *kind != hook.client || !is_free(ctx, &agent, hook)? {
            continue;
        }
        if !held_sorties(ctx, agent.id)?.is_empty() {
            return Ok(name);
        }
        free.get_or_insert(name);
    }
    let taken = free.or(new);
    taken.map_or_else(|| Ok(hook.client.clone()), Ok)
}

/// Returns true when the seat is free: its session ended, its process is gone, or its user cleared it in this
/// process. One process may have several sessions at a time.
fn is_free(ctx: &mut OpContext<'_, '_>, agent: &Agent, hook: &TellHook) -> Result<bool> {
    let was_cleared = hook.cleared && hook.process.is_some() && agent.process == hook.process;
    if agent.retired_at.is_some() || agent.session_ended_at.is_some() || was_cleared {
        return Ok(true);
    }
    Ok(locked_verdict(ctx, agent, &hook.sightings)?.is_gone())
}

/// A subagent is named after the agent that started it.
fn subagent_name(ctx: &mut OpContext<'_, '_>, hook: &TellHook) -> Result<Name> {
    let parent = hook.of_parent();
    let parent = match of_session(ctx, &parent)? {
        Some(parent) => parent,
        None => take(ctx, &parent)?,
    };
    named_after(&parent, hook)
}

fn named_after(parent: &Agent, hook: &TellHook) -> Result<Name> {
    let kept = |text: &str, most: usize| -> String {
        let plain = text.chars().filter(char::is_ascii_alphanumeric);
        plain.take(most).collect()
    };
    let kind = hook.subagent.as_ref().and_then(|it| it.kind.as_ref());
    let kind = kind.map_or_else(String::new, |kind| kept(kind.as_str(), 20));
    let kind = if kind.is_empty() { "sub" } else { &kind };
    let id = hook.subagent.as_ref().map_or("", |it| it.id.as_str());
    let tail: String = kept(id, 64).chars().rev().take(6).collect();
    let tail: String = tail.chars().rev().collect();
    Ok(Name::parse(
        "agent name",
        &format!("{}-{kind}-{tail}", parent.name),
    )?)
}

/// Reads the acting agent anew, after another operation has changed it.
pub(super) fn refresh(ctx: &mut OpContext<'_, '_>) -> Result<()> {
    if let Some(agent) = &ctx.agent {
        ctx.agent = ctx.tx.get::<Agent>(&agent.key())?;
    }
    Ok(())
}

/// The acting agent is a subagent that is done.
pub(super) fn retire(ctx: &mut OpContext<'_, '_>) -> Result<()> {
    match ctx.agent.clone() {
        Some(agent) => retire_one(ctx, &agent),
        None => Ok(()),
    }
}

/// Retires an agent in its own name. One that holds work stays, and is found dead with its process.
fn retire_one(ctx: &mut OpContext<'_, '_>, agent: &Agent) -> Result<()> {
    let acting = ctx.agent.replace(agent.clone());
    let retire = RetireAgent {
        agent: agent.id.to_string(),
        reason: None,
    };
    let retired = ctx.attempt(|ctx| retire.decide(ctx));
    ctx.agent = acting;
    retired.map(drop)
}

/// The subagents of the acting agent end with it.
pub(super) fn end_subagents(ctx: &mut OpContext<'_, '_>) -> Result<()> {
    let Some(parent) = ctx.agent.clone() else {
        return Ok(());
    };
    let beginning = format!("{}-", parent.name);
    let is_its = |agent: &Agent| {
        agent.kind == parent.kind
            && agent.retired_at.is_none()
            && agent.name.as_str().starts_with(&beginning)
            && agent.process.is_some()
            && agent.process == parent.process
    };
    for subagent in ctx.tx.find_those(Find::All, is_its)? {
        retire_one(ctx, &subagent)?;
    }
    Ok(())
}
