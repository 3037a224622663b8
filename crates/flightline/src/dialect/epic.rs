//! Seed C's documents: one for each agent.

use flightline_core::agent::{Agent, AgentStatus, Coordination, Role, Step};
use flightline_core::dialect::epic::{self, Ended, PRIMARY};
use flightline_core::dialect::{DialectDocument, Json};
use flightline_core::event::EventType;
use flightline_core::{Code, Kind, Name, Refusal, RepoPath, Subject, Time, Title};
use flightline_store::Find;
use serde_json::json;

use super::{Draft, EndedFile, Stored, note, refuse_others, refuse_retired, title};
use crate::agent::document::{checkpoint_of, epoch_named};
use crate::error::{Error, Result};
use crate::op_context::{OpContext, agent_named, first_epoch, new_agent, next_epoch};
use crate::recovery::compaction::{CompactionEvidence, lose_context};

/// Maximum number of an agent's events that are searched for an earlier session.
const SESSIONS: u64 = 5_000;

/// Events that end an agent's work, so that its file goes into the archive.
const ENDINGS: [EventType; 3] = [
    EventType::AgentCrashed,
    EventType::AgentRestarted,
    EventType::AgentRetired,
];

/// Agents that have a document: those that have begun, and not mere mailboxes.
pub(super) fn things(ctx: &mut OpContext<'_, '_>) -> Result<Vec<Draft>> {
    let mut things: Vec<Draft> = Vec::new();
    for agent in ctx.tx.find::<Agent>(Find::All)? {
        if agent.retired_at.is_none() {
            match of_agent(ctx, &agent) {
                // An agent whose name cannot be a file's name has no file, and keeps no other agent from its own.
                Err(Error::Refused(_)) => {}
                thing => things.extend(thing?),
            }
        }
    }
    Ok(things)
}

pub(super) fn find(
    ctx: &mut OpContext<'_, '_>,
    checkpoint: &DialectDocument,
) -> Result<Option<Draft>> {
    let agent = agent_named(ctx.tx, checkpoint.word("agent_id"))?;
    agent.map_or(Ok(None), |agent| of_agent(ctx, &agent))
}

pub(super) fn thing(ctx: &mut OpContext<'_, '_>, of: &str) -> Result<Option<Draft>> {
    let agent = ctx.tx.get::<Agent>(of)?;
    agent.map_or(Ok(None), |agent| of_agent(ctx, &agent))
}

fn of_agent(ctx: &mut OpContext<'_, '_>, agent: &Agent) -> Result<Option<Draft>> {
    let Some(document) = checkpoint_of(ctx, agent)? else {
        return Ok(None);
    };
    Ok(Some(Draft {
        of: agent.key(),
        file: epic::file_name(agent.name.as_str())?,
        document,
        replaces: None,
    }))
}

/// Files of agents that ended since a revision: they crashed and another took over, began anew, or retired. Without a known
/// revision, only files that have no agent any more.
pub(super) fn ended(ctx: &mut OpContext<'_, '_>, since: Option<u64>) -> Result<Vec<EndedFile>> {
    let mut files = Vec::new();
    for row in ctx.tx.rows(Kind::Agent, Find::All)? {
        if since.is_some_and(|since| row.rev <= since) {
            continue;
        }
        let Some(agent) = ctx.tx.get::<Agent>(&row.id)? else {
            continue;
        };
        let events = ctx.tx.events_of(Kind::Agent, &agent.key(), 50)?;
        let ended = events.iter().find(|event| {
            let new = since.map_or(agent.retired_at.is_some(), |since| event.rev > since);
            new && ENDINGS.into_iter().any(|ending| event.is(ending))
        });
        let Some(event) = ended else {
            continue;
        };
        let name = agent.name.as_str();
        let Ok(file) = epic::file_name(name) else {
            continue;
        };
        let archive = match event.data["archive"].as_str() {
            Some(archive) => archive.to_owned(),
            None => epic::archive_name(name, Ended::Retired, event.timestamp)?,
        };
        files.push(EndedFile { file, archive });
    }
    Ok(files)
}

/// Returns the time at which the agent of a document last told its state: with its own checkpoints, not with mere
/// signs of life.
pub(super) fn known(ctx: &mut OpContext<'_, '_>, document: &Json) -> Result<Option<Time>> {
    let agent = agent_named(ctx.tx, document.word("agent_id"))?;
    Ok(agent.and_then(|agent| agent.last_checkpoint))
}

/// Refuses a document whose writer may not say this any more.
pub(super) fn check(ctx: &mut OpContext<'_, '_>, document: &Json) -> Result<()> {
    let Some(agent) = agent_named(ctx.tx, document.word("agent_id"))? else {
        return Ok(());
    };
    refuse_retired(&agent)?;
    refuse_others(ctx, &agent)?;
    let mut session = title(document, "session_id")?;
    // A name of ours tells which incarnation wrote this, and is no session's own.
    let named = session.as_ref();
    let named = named.and_then(|session| epoch_named(&agent, session.as_str()));
    if named.is_some() {
        session = None;
    }
    let is_old = named.is_some_and(|epoch| epoch != agent.epoch);
    let ended = agent.session_ended_at.is_some();
    let differs = session.is_some() && session != agent.session_id;
    if is_old
        || (ended && session.is_none())
        || (differs && was_before(ctx, &agent, session.as_ref())?)
    {
        return Err(Refusal::new(
            Code::Fenced,
            format!("the session of {} that wrote this is over", agent.name),
        )
        .hint("nothing of it was taken in; end the old session")
        .into());
    }
    Ok(())
}

/// Stores the state of an agent that a document tells, as of `at`.
pub(super) fn store(ctx: &mut OpContext<'_, '_>, document: &Json, at: Time) -> Result<Stored> {
    let mut warnings = Vec::new();
    let (agent, resumed) = ctx.as_of(at, |ctx| record(ctx, document, &mut warnings))?;
    if resumed {
        lose_context(ctx, &agent, CompactionEvidence::NewEpoch)?;
    }
    Ok(Stored {
        of: agent.key(),
        name: agent.name.to_string(),
        warnings,
    })
}

/// Records a document, and the sign of life of its agent. Returns the agent, and true when it resumed in a new session.
fn record(
    ctx: &mut OpContext<'_, '_>,
    document: &Json,
    warnings: &mut Vec<String>,
) -> Result<(Agent, bool)> {
    let before = agent_named(ctx.tx, document.word("agent_id"))?;
    let mut agent = match before.clone() {
        Some(agent) => agent,
        None => unknown(ctx, document)?,
    };
    let is_new = before.is_none();
    // A file says what its agent is called and does. A person or dispatch says which agent coordinates.
    if is_new && document.text("agent_type") == Some(PRIMARY) {
        warnings.push(format!(
            "{0} says that it is the primary, and is taken in as a specialist: `fleet agents register {0} --role dispatch` \
             has it coordinate",
            agent.name
        ));
    }
    let written = ctx.now();
    let mut session = title(document, "session_id")?;
    // A name of ours tells which incarnation wrote this, and is no session's own.
    let named = session.as_ref();
    if named.is_some_and(|session| epoch_named(&agent, session.as_str()).is_some()) {
        session = None;
    }
    let differs = !is_new && session.is_some() && session != agent.session_id;
    let ended = agent.session_ended_at.is_some();
    // One that began without a session's id may say it later.
    let resumed = differs && (agent.session_id.is_some() || ended);
    if resumed {
        // A new session of the agent: writes of the old one are fenced.
        agent.epoch = next_epoch(ctx.tx, agent.epoch)?;
        agent.session_started_at = Some(written);
        agent.session_ended_at = None;
        agent.process = None;
    }
    if session.is_some() {
        agent.session_id = session;
    }
    if let Some(kind) = document.text("agent_type") {
        agent.kind = Some(Name::parse("agent_type", kind)?);
    }
    agent.feature = title(document, "feature")?;
    agent.stage = title(document, "stage")?;
    agent.phase = title(document, "phase")?;
    agent.status = match document.text("status") {
        Some("IN_PROGRESS") => AgentStatus::InProgress,
        Some("WAITING") if agent.status == AgentStatus::Idle => AgentStatus::Idle,
        Some("WAITING") => AgentStatus::Waiting,
        Some("BLOCKED") => AgentStatus::Blocked,
        Some("COMPLETE") => AgentStatus::Complete,
        Some(word) => {
            warnings.push(format!(
                "the status `{word}` is kept, and means nothing here"
            ));
            agent.status
        }
        None => agent.status,
    };
    agent.can_resume = document.flag("can_resume").unwrap_or(agent.can_resume);
    agent.blockers = titles(document, "blockers")?;
    agent.next_steps = titles(document, "next_steps")?;
    agent.current_step = title(document, "current_step")?;
    agent.files_modified.clear();
    for file in document.texts("files_modified") {
        match RepoPath::parse(file) {
            Ok(path) => agent.files_modified.push(path),
            Err(refusal) => warnings.push(format!("{}; it is only kept", refusal.message)),
        }
    }
    agent.recovery_instructions = note(document, "recovery_instructions")?;
    agent.last_checkpoint = Some(written);
    agent.next_checkpoint_expected = document.time("next_checkpoint_expected");
    if let Some(coordination) = document.given("coordination_state") {
        agent.coordination = Coordination {
            last_inbox_check: coordination.time("last_inbox_check"),
            last_epic_readme_update: coordination.time("last_epic_readme_update"),
            last_status_update: coordination.time("last_status_update"),
        };
    }
    if before.as_ref() != Some(&agent) {
        agent.updated_at = ctx.now();
        let event = match (is_new, resumed) {
            (true, _) => EventType::AgentRegistered,
            (false, true) => EventType::AgentSessionStarted,
            (false, false) => EventType::AgentUpdated,
        };
        let data = json!({
            "dialect": "epic", "epoch": agent.epoch, "session": agent.session_id,
            "status": agent.status.as_str(), "step": agent.current_step,
        });
        ctx.tx.set(event, &agent, &data)?;
    }
    steps(ctx, &agent, document)?;
    // The agent wrote the document itself, at that time.
    ctx.tx.record_past_pulse(agent.id, agent.epoch)?;
    Ok((agent, resumed))
}

/// Returns true when an agent had this session before its present one.
fn was_before(ctx: &mut OpContext<'_, '_>, agent: &Agent, session: Option<&Title>) -> Result<bool> {
    let events = ctx.tx.events_of(Kind::Agent, &agent.key(), SESSIONS)?;
    let session = session.map(Title::as_str);
    Ok(events.iter().any(|event| {
        let begun = matches!(
            event.event_type(),
            Some(
                EventType::AgentRegistered
                    | EventType::AgentSessionStarted
                    | EventType::AgentResumed
            )
        );
        begun && event.data["session"].as_str() == session
    }))
}

/// An agent that the store does not know.
fn unknown(ctx: &mut OpContext<'_, '_>, document: &Json) -> Result<Agent> {
    let name = Name::parse("agent_id", document.word("agent_id"))?;
    crate::op_context::check_new_name(ctx.tx, &name)?;
    let mut agent = new_agent(ctx.tx, name, Role::Specialist);
    agent.epoch = first_epoch(ctx.tx)?;
    agent.session_started_at = Some(ctx.now());
    Ok(agent)
}

/// The agent's completed steps become those of the document.
fn steps(ctx: &mut OpContext<'_, '_>, agent: &Agent, document: &Json) -> Result<()> {
    let known = ctx.tx.find::<Step>(Find::Parent(&agent.key()))?;
    let texts = titles(document, "completed_steps")?;
    for (index, text) in texts.iter().enumerate() {
        if known.get(index).is_some_and(|step| step.text == *text) {
            continue;
        }
        let step = Step {
            agent_id: agent.id,
            number: known
                .get(index)
                .map_or(index as u64 + 1, |step| step.number),
            text: text.clone(),
            at: ctx.now(),
        };
        ctx.tx.set(
            EventType::AgentStepCompleted,
            &step,
            &json!({ "step": step.text }),
        )?;
    }
    for step in known.iter().skip(texts.len()) {
        ctx.tx.remove(
            EventType::AgentStepRemoved,
            step,
            &json!({ "step": step.text }),
        )?;
    }
    debug_assert_eq!(
        ctx.tx.rows(Kind::Step, Find::Parent(&agent.key()))?.len(),
        texts.len()
    );
    Ok(())
}

fn titles(json: &Json, key: &str) -> Result<Vec<Title>> {
    let texts = json.texts(key).into_iter();
    let filled = texts.filter(|text| !text.trim().is_empty());
    Ok(filled
        .map(|text| Title::parse(key, text))
        .collect::<std::result::Result<_, _>>()?)
}
