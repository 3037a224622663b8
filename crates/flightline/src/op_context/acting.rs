//! The agent that asks: found, registered by its first act, and fenced off when it is an earlier incarnation.

use crate::error::{Error, Result};
use crate::fleet::Caller;
use flightline_core::agent::{Agent, Role};
use flightline_core::event::EventType;
use flightline_core::redact::shown;
use flightline_core::setting::EpochFloor;
use flightline_core::text::closest;
use flightline_core::{AgentId, Code, Kind, Name, Refusal, Title};
use flightline_store::{Actor, Find, Tx};
use serde_json::json;

/// A new agent that has not begun a session yet.
pub(crate) fn new_agent(tx: &Tx<'_>, name: Name, role: Role) -> Agent {
    Agent::new(AgentId::new(tx.uuid()), name, role, tx.now())
}

pub(crate) fn agent_named(tx: &mut Tx<'_>, name: &str) -> Result<Option<Agent>> {
    // A text that cannot be a name belongs to no agent, and may hold bytes that an engine does not take.
    if Name::parse("agent name", name).is_err() {
        return Ok(None);
    }
    Ok(tx.find::<Agent>(Find::AgentName(name))?.pop())
}

pub(crate) fn find_acting(tx: &mut Tx<'_>, caller: &Caller) -> Result<Option<Agent>> {
    let Some(reference) = &caller.agent else {
        return Ok(None);
    };
    match agent_named(tx, reference)? {
        Some(agent) => Ok(Some(agent)),
        None => find_agent_by_id(tx, reference),
    }
}

/// No agent has this name; one may have a similar name.
pub(super) fn unknown_agent(tx: &mut Tx<'_>, reference: &str) -> Result<Refusal> {
    let rows = tx.rows(Kind::Agent, Find::All)?.into_iter();
    let known: Vec<String> = rows.filter_map(|row| row.name).collect();
    let all = match known.is_empty() {
        true => "register one with `fleet agents register NAME`".to_owned(),
        false => format!("known agents: {}", known.join(", ")),
    };
    let message = format!("there is no agent `{}`", shown(reference));
    let refusal = Refusal::new(Code::NotFound, message);
    Ok(match closest(reference, known.iter().map(String::as_str)) {
        None => refusal.hint(all),
        Some(meant) => refusal
            .hint(format!("did you mean `{meant}`? {all}"))
            .details(json!({ "meant": meant })),
    })
}

pub(crate) fn find_agent_by_id(tx: &mut Tx<'_>, reference: &str) -> Result<Option<Agent>> {
    match reference.parse::<AgentId>() {
        Ok(id) => Ok(tx.get::<Agent>(id)?),
        Err(_) => Ok(None),
    }
}

/// The agent the caller acts as: registered now if its name is new, checked against its incarnation
/// and session, and alive from this moment.
pub(crate) fn acting(tx: &mut Tx<'_>, caller: &Caller) -> Result<Option<Agent>> {
    let Some(reference) = &caller.agent else {
        tx.act_as(Actor {
            name: caller.person(),
            epoch: None,
        });
        return Ok(None);
    };
    let agent = match find_acting(tx, caller)? {
        Some(agent) => {
            check_fence(Some(&agent), caller)?;
            agent
        }
        None => {
            let name = first_name(tx, caller, reference)?;
            new_agent(tx, name, Role::Specialist)
        }
    };
    if agent.retired_at.is_some() {
        return Err(retired(&agent));
    }
    // The first act of an agent begins its first session.
    let agent = if agent.epoch == 0 {
        let mut agent = agent;
        agent.epoch = first_epoch(tx)?;
        agent.session_id = session_of(caller)?;
        if agent.session_id.is_some() && epoch_floor(tx)? > 0 {
            return Err(forgotten(&agent.name));
        }
        agent.session_started_at = Some(tx.now());
        agent.updated_at = tx.now();
        speak_for(tx, &agent);
        let session = agent.session_id.as_ref();
        let data = session.map_or_else(|| json!({}), |session| json!({ "session": session }));
        tx.set(EventType::AgentRegistered, &agent, &data)?;
        agent
    } else {
        agent
    };
    speak_for(tx, &agent);
    tx.beat(agent.id, agent.epoch, &json!({}))?;
    Ok(Some(agent))
}

/// The agent the caller looks as: known, and its current incarnation. To look is no sign of life.
pub(crate) fn looking(tx: &mut Tx<'_>, caller: &Caller) -> Result<Option<Agent>> {
    let Some(reference) = &caller.agent else {
        return acting(tx, caller);
    };
    let Some(agent) = find_acting(tx, caller)? else {
        return Err(unknown_agent(tx, reference)?.into());
    };
    check_fence(Some(&agent), caller)?;
    if agent.retired_at.is_some() {
        return Err(retired(&agent));
    }
    speak_for(tx, &agent);
    Ok(Some(agent))
}

/// Makes this agent the author of events from now on.
pub(crate) fn speak_for(tx: &mut Tx<'_>, agent: &Agent) {
    tx.act_as(Actor {
        name: agent.name.to_string(),
        epoch: Some(agent.epoch),
    });
}

/// The epoch an agent begins with: above every one that an agent of its name may have had in a lost store.
pub(crate) fn first_epoch(tx: &mut Tx<'_>) -> Result<u64> {
    next_epoch(tx, 0)
}

/// The epoch that follows an agent's last one: also above those that a lost part of the journal may have known.
pub(crate) fn next_epoch(tx: &mut Tx<'_>, last: u64) -> Result<u64> {
    let last = match last {
        0 => epoch_floor(tx)?,
        last => last,
    };
    Ok(last.max(tx.epochs_above()?) + 1)
}

fn epoch_floor(tx: &mut Tx<'_>) -> Result<u64> {
    let floor = tx.get::<EpochFloor>(EpochFloor::KEY)?;
    Ok(floor.map_or(0, |floor| floor.epoch))
}

/// Builds the refusal of an unknown session where agents were forgotten: it may be one of theirs. A caller that
/// begins a new session says so.
fn forgotten(name: &Name) -> Error {
    let hint =
        format!("nothing was written; begin a new session with `fleet agents register {name}`");
    Refusal::new(
        Code::Fenced,
        format!("agents of this store were forgotten, and {name} may be one of them"),
    )
    .hint(hint)
    .details(json!({ "agent": name, "epoch": 0 }))
    .into()
}

/// The name of an agent that acts for the first time. A caller that knows an incarnation or an id of
/// it is not new: it comes from a store that was replaced.
fn first_name(tx: &mut Tx<'_>, caller: &Caller, reference: &str) -> Result<Name> {
    if reference.starts_with(AgentId::PREFIX) {
        return Err(Refusal::new(
            Code::NotFound,
            format!("there is no agent `{}`", shown(reference)),
        )
        .hint("list the agents with `fleet agents list`")
        .into());
    }
    let name = Name::parse("agent name", reference)?;
    check_new_name(tx, &name)?;
    match caller.epoch {
        None => Ok(name),
        Some(epoch) => Err(Refusal::new(
            Code::Fenced,
            format!("epoch {epoch} of {name} is over: no agent of that name is known here"),
        )
        .hint(format!(
            "nothing was written; start a new session with `fleet agents register {name}`"
        ))
        .details(json!({ "agent": name, "epoch": 0 }))
        .into()),
    }
}

/// Refuses a name that a new agent cannot have: one that could be taken for an id, a person, Flightline itself or a
/// part of a briefing, in whatever case it is written, or for an agent whose name differs in case alone. An agent
/// that has such a name already keeps it.
pub(crate) fn check_new_name(tx: &mut Tx<'_>, name: &Name) -> Result<()> {
    let lower = name.as_str().to_ascii_lowercase();
    let taken_for = match lower.as_str() {
        "flightline" => Some("Flightline itself"),
        "user" => Some("a person"),
        "all" => Some("everybody"),
        "mission" | "files" => Some("a part of a briefing"),
        text if text.starts_with(AgentId::PREFIX) => Some("an id"),
        text if text.starts_with("user:") => Some("a person"),
        _ => None,
    };
    if let Some(taken_for) = taken_for {
        return Err(Refusal::invalid(format!(
            "`{name}` cannot be the name of an agent: it would be taken for {taken_for}"
        ))
        .hint("choose another name, such as `ada` or `specialist-1`")
        .into());
    }
    let agents = tx.rows(Kind::Agent, Find::All)?;
    let mut names = agents.into_iter().filter_map(|row| row.name);
    match names.find(|known| known != name.as_str() && known.eq_ignore_ascii_case(name.as_str())) {
        None => Ok(()),
        Some(known) => Err(Refusal::new(
            Code::AlreadyExists,
            format!("`{name}` cannot be the name of an agent: it would be taken for `{known}`"),
        )
        .hint(format!("act as `{known}`, or choose another name"))
        .details(json!({ "agent": known }))
        .into()),
    }
}

fn session_of(caller: &Caller) -> Result<Option<Title>> {
    let session = caller.session.as_deref();
    Ok(session
        .map(|session| Title::parse("session", session))
        .transpose()?)
}

pub(crate) fn retired(agent: &Agent) -> Error {
    Refusal::new(Code::Fenced, format!("{} was retired", agent.name))
        .hint(format!(
            "bring it back with `fleet agents register {}`",
            agent.name
        ))
        .into()
}

/// Refuses a caller that is an earlier incarnation or session of its agent.
pub(crate) fn check_fence(agent: Option<&Agent>, caller: &Caller) -> Result<()> {
    let Some(agent) = agent else { return Ok(()) };
    // Cleaned as it was when it was stored, or it could never be the same.
    let session = session_of(caller)?;
    let stale = match (caller.epoch, &session, &agent.session_id) {
        (Some(epoch), _, _) if epoch > agent.epoch => Some(format!(
            "{} has no epoch {epoch}: it is at epoch {}",
            agent.name, agent.epoch
        )),
        (Some(epoch), _, _) if epoch != agent.epoch => Some(format!(
            "epoch {epoch} of {} is over: epoch {} has taken its place",
            agent.name, agent.epoch
        )),
        // No session has begun since the last one ended, so the caller's cannot be a new one.
        (None, Some(_), None) if agent.session_ended_at.is_some() => Some(format!(
            "the session of {} was ended, and no other has begun",
            agent.name
        )),
        (_, Some(session), Some(current)) if session != current => Some(format!(
            "this session of {} is over: another has taken its place",
            agent.name
        )),
        _ => None,
    };
    match stale {
        None => Ok(()),
        Some(message) => Err(Refusal::new(Code::Fenced, message)
            .hint(format!(
                "nothing was written; start a new session with `fleet agents register {}`",
                agent.name
            ))
            .details(json!({ "agent": agent.name, "epoch": agent.epoch }))
            .into()),
    }
}
