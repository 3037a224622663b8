//! Sessions: how one begins under an agent's name, and how one is ended over its head.

use flightline_core::agent::{Agent, Process};
use flightline_core::{Code, Refusal, Title};
use flightline_store::Tx;
use serde_json::json;

use super::Sighting;
use crate::error::Result;
use crate::op_context::{OpContext, next_epoch};
use crate::recovery::locked_verdict;

/// A new session takes the agent's name: the session before is fenced.
pub(crate) fn begin_session(
    tx: &mut Tx<'_>,
    agent: &mut Agent,
    session: Option<Title>,
) -> Result<()> {
    agent.epoch = next_epoch(tx, agent.epoch)?;
    agent.session_started_at = Some(tx.now());
    agent.session_ended_at = None;
    agent.session_id = session;
    agent.process = None;
    agent.retired_at = None;
    agent.updated_at = tx.now();
    Ok(())
}

/// The agent's session is over, and no other has begun: should it wake after all, it is refused. One that
/// never began cannot be ended.
pub(crate) fn end_session(tx: &mut Tx<'_>, agent: &mut Agent) -> Result<()> {
    if agent.epoch > 0 {
        agent.epoch = next_epoch(tx, agent.epoch)?;
        agent.session_id = None;
        agent.session_ended_at = Some(tx.now());
    }
    agent.updated_at = tx.now();
    Ok(())
}

/// Refuses to take from an agent that is alive, unless the caller forces it. Returns why the agent is thought to be
/// gone; until the end of the transaction it stays silent.
pub(crate) fn refuse_alive(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
    sightings: &[Sighting],
    force: bool,
    command: &str,
) -> Result<String> {
    if agent.session_started_at.is_none() {
        return Ok("it never began".to_owned());
    }
    if agent.session_ended_at.is_some() {
        return Ok("its session was ended".to_owned());
    }
    let verdict = locked_verdict(ctx, agent, sightings)?;
    if force || verdict.is_gone() {
        return Ok(verdict.liveness.evidence);
    }
    let (name, life) = (&agent.name, verdict.liveness.life);
    Err(Refusal::new(
        Code::IllegalTransition,
        format!(
            "{name} is not known to be gone: {}",
            verdict.liveness.evidence
        ),
    )
    .hint(format!(
        "nothing was changed; ask it with `fleet mail send --to {name} --subject \"Still working?\"`\n\
         to do it anyway: `{command} --force`"
    ))
    .details(json!({ "agent": name, "life": life, "evidence": verdict.liveness.evidence }))
    .into())
}

/// Refuses a caller that is neither in charge nor one of these agents.
pub(crate) fn refuse_others(
    ctx: &OpContext<'_, '_>,
    concerned: &[&Agent],
    act: &str,
) -> Result<()> {
    let me = ctx.agent_id();
    if ctx.is_in_charge() || concerned.iter().any(|agent| Some(agent.id) == me) {
        return Ok(());
    }
    let names: Vec<&str> = concerned.iter().map(|agent| agent.name.as_str()).collect();
    Err(Refusal::new(
        Code::NotYours,
        format!("only {} or dispatch may {act}", names.join(", ")),
    )
    .into())
}

/// Refuses a process whose description would not be stored as it is.
pub(crate) fn check_process(process: Option<&Process>) -> Result<()> {
    if let Some(process) = process {
        check_plain("boot id", &process.boot_id)?;
        check_plain("host name", &process.host)?;
    }
    Ok(())
}

/// Refuses a text that would not be stored unchanged: one that is empty or too long, or has control characters or a
/// secret.
fn check_plain(what: &str, text: &str) -> Result<()> {
    if Title::parse(what, text)?.as_str() == text {
        return Ok(());
    }
    Err(Refusal::invalid(format!(
        "the {what} is not plain text, or looks like a secret"
    ))
    .into())
}
