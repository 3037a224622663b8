//! Lets another agent take over from one that crashed: seed C's second way to recover.

use crate::Schema;
use flightline_core::agent::{Agent, AgentStatus, Role, Step};
use flightline_core::dialect::epic::{
    self, ARCHIVE_FOLDER, Ended, FOLDER, archive_name, file_name,
};
use flightline_core::dialect::{Dialect, DialectDocument};
use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_core::{Code, Kind, Name, Refusal, Subject, Time, Title};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::document::checkpoint_of;
use super::resume::json_of;
use super::session::{begin_session, end_session, refuse_alive, refuse_others};
use super::{Sighting, held_sorties, unread, words};
use crate::checkpoint::readable;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mail::move_mail;
use crate::op_context::{OpContext, agent_named, check_new_name, new_agent};
use crate::recovery::dispatch::announce_dispatch;
use crate::recovery::follow::{follow, given_in};
use crate::recovery::locked_verdict;

/// Gives the work, the locks and the mail of a crashed agent to another agent, and retires the crashed one.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct TakeOver {
    /// The agent whose work is taken over, by name or id.
    pub from: String,
    /// The agent that takes over; registered when the name is new.
    pub to: Name,
    /// The client's session id of the agent that takes over. Without one, an agent that is at work stays in
    /// the session it has.
    pub session: Option<Title>,
    /// Take over even if the old agent may still be alive.
    #[serde(default)]
    pub force: bool,
    /// Observations of agents' processes.
    #[serde(default)]
    pub sightings: Vec<Sighting>,
}

/// Shows the handoff to the agent that takes over, before or after the takeover.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ShowHandoff {
    /// The agent whose work is handed over, by name or id.
    pub agent: String,
}

/// The outcome of a takeover.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct TakenOver {
    /// The agent that took over.
    pub agent: Agent,
    /// The evidence that the other agent is gone.
    pub evidence: String,
    /// The handoff to the successor.
    pub handoff: Handoff,
    /// Blockers from locks that were lost meanwhile.
    pub blockers: Vec<String>,
}

/// The handoff to the agent that takes over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Handoff {
    /// The agent whose work is handed over.
    pub from: Name,
    /// The successor; none when the work was not taken over yet.
    pub to: Option<Name>,
    /// The time at which the work was taken over.
    pub at: Option<Time>,
    /// The text for the new agent: in seed C's words under its preset, else in ours.
    pub text: String,
    /// The commands with which the new agent continues; none in seed C's words.
    #[serde(default)]
    pub hint: Option<String>,
    /// The file of the old agent's checkpoint, from the repository's root; none where such files are not kept.
    pub checkpoint_file: Option<String>,
    /// The old agent's checkpoint, as the seed writes it.
    pub checkpoint: Value,
    /// The ids of the old agent's sorties.
    pub sorties: Vec<String>,
    /// Paths that the old agent had locked.
    pub locks: Vec<String>,
    /// Number of messages that the old agent had not acknowledged.
    pub messages: u64,
}

/// The reason in the event of a sortie that a takeover reassigned.
pub(crate) const REASSIGNED_BY_TAKEOVER: &str = "taken over";

impl Operation for TakeOver {
    const NAME: &'static str = "take_over";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = TakenOver;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<TakenOver> {
        let old = ctx.find_agent(&self.from)?;
        let known = agent_named(ctx.tx, self.to.as_str())?;
        let is_new = known.is_none();
        if is_new {
            check_new_name(ctx.tx, &self.to)?;
        }
        let new = known.unwrap_or_else(|| new_agent(ctx.tx, self.to.clone(), Role::Specialist));
        refuse_others(ctx, &[&new, &old], &format!("take over from {}", old.name))?;
        refuse_same(&old, &new)?;
        refuse_retired(ctx, &old)?;
        let command = format!("fleet agents takeover {} {}", old.name, new.name);
        let evidence = refuse_alive(ctx, &old, &self.sightings, self.force, &command)?;
        let checkpoint = begun(&old, checkpoint_of(ctx, &old)?)?;

        let new = self.begin(ctx, &old, new, is_new)?;
        let since = checkpoint.time("last_checkpoint");
        let followed = follow(ctx, &old, &new, since)?;
        let messages = move_mail(ctx, &old, &new)?;
        pass_on_missions(ctx, &old, &new)?;
        let archive = archive_name(old.name.as_str(), Ended::Crashed, ctx.now()).ok();
        let mut crashed = old.clone();
        end_session(ctx.tx, &mut crashed)?;
        crashed.retired_at = Some(ctx.now());
        // The event has the agent's last report, so that the package can be given again at any time.
        let data = json!({ "to": new.name, "archive": archive, "reason": evidence, "checkpoint": json_of(&checkpoint) });
        ctx.tx.set(EventType::AgentCrashed, &crashed, &data)?;
        let held = Held {
            to: Some(new.name.clone()),
            at: Some(ctx.now()),
            sorties: followed.sorties.iter().map(Subject::key).collect(),
            locks: followed
                .locks
                .iter()
                .map(|lock| lock.file.to_string())
                .collect(),
            messages,
        };
        let handoff = package(ctx, &old, &checkpoint, archive.as_deref(), held)?;
        Ok(TakenOver {
            agent: new,
            evidence,
            handoff,
            blockers: followed.blockers,
        })
    }
}

impl TakeOver {
    /// Prepares the agent that takes over, and begins its session if it has none. An agent that has reported
    /// nothing about itself inherits the reports of the old one.
    fn begin(
        &self,
        ctx: &mut OpContext<'_, '_>,
        old: &Agent,
        mut new: Agent,
        is_new: bool,
    ) -> Result<Agent> {
        let there = new.epoch > 0 && new.retired_at.is_none() && new.session_ended_at.is_none();
        let at_work = there && !locked_verdict(ctx, &new, &self.sightings)?.is_gone();
        let same_session = self.session.is_none() || self.session == new.session_id;
        let begins = !at_work || !same_session;
        if begins {
            begin_session(ctx.tx, &mut new, self.session.clone())?;
        }
        let blank = new.feature.is_none() && new.stage.is_none() && new.current_step.is_none();
        if blank {
            inherit(ctx, old, &mut new)?;
        }
        if old.role == Role::Dispatch {
            new.role = Role::Dispatch;
        }
        new.status = AgentStatus::InProgress;
        new.updated_at = ctx.now();
        let data = json!({ "epoch": new.epoch, "role": new.role.as_str(), "from": old.name, "session": new.session_id });
        let event = match (is_new, begins) {
            (true, _) => EventType::AgentRegistered,
            (false, true) => EventType::AgentSessionStarted,
            (false, false) => EventType::AgentUpdated,
        };
        ctx.tx.set(event, &new, &data)?;
        if begins {
            ctx.tx.beat(new.id, new.epoch, &json!({}))?;
        }
        Ok(new)
    }
}

/// Inherits the feature, the stage, and the steps done so far.
fn inherit(ctx: &mut OpContext<'_, '_>, old: &Agent, new: &mut Agent) -> Result<()> {
    new.kind = new.kind.take().or_else(|| old.kind.clone());
    new.feature.clone_from(&old.feature);
    new.stage.clone_from(&old.stage);
    new.phase.clone_from(&old.phase);
    new.can_resume = old.can_resume;
    new.blockers.clone_from(&old.blockers);
    new.files_modified.clone_from(&old.files_modified);
    new.recovery_instructions
        .clone_from(&old.recovery_instructions);
    new.current_step.clone_from(&old.current_step);
    new.next_steps.clone_from(&old.next_steps);
    let done = ctx.tx.rows(Kind::Step, Find::Parent(&new.key()))?.len() as u64;
    let steps = ctx.tx.find::<Step>(Find::Parent(&old.key()))?;
    for (number, step) in (done + 1..).zip(steps) {
        let step = Step {
            agent_id: new.id,
            number,
            ..step
        };
        let data = json!({ "step": step.text, "from": old.name });
        ctx.tx.set(EventType::AgentStepCompleted, &step, &data)?;
    }
    Ok(())
}

/// Makes the new agent the coordinator of the missions that the old one coordinates.
fn pass_on_missions(ctx: &mut OpContext<'_, '_>, old: &Agent, new: &Agent) -> Result<()> {
    let (missions, _) = readable::<Mission>(ctx.tx, Find::All)?;
    let theirs = missions
        .into_iter()
        .filter(|mission| mission.dispatch == Some(old.id) && mission.status.is_open());
    for mut mission in theirs {
        mission.dispatch = Some(new.id);
        mission.updated_at = ctx.now();
        ctx.tx.set(
            EventType::DispatchChanged,
            &mission,
            &json!({ "to": new.name }),
        )?;
        let mut others = ctx.tx.find::<Agent>(Find::All)?;
        others.retain(|agent| agent.retired_at.is_none() && agent.id != old.id);
        announce_dispatch(ctx, &mission, new, others.iter())?;
    }
    Ok(())
}

impl Operation for ShowHandoff {
    const NAME: &'static str = "show_handoff";
    const BRIEFS: bool = true;
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Handoff;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Handoff> {
        let old = ctx.find_agent(&self.agent)?;
        if let Some(taken) = taken_over(ctx, &old)? {
            let archive = taken.data["archive"].as_str();
            let text = taken.data["checkpoint"].to_string();
            let checkpoint = DialectDocument::read(Dialect::Epic, &text).ok();
            let (sorties, locks, messages) = given_in(ctx, taken.step)?;
            let held = Held {
                to: successor(&taken),
                at: Some(taken.timestamp),
                sorties,
                locks,
                messages,
            };
            return package(ctx, &old, &begun(&old, checkpoint)?, archive, held);
        }
        let checkpoint = begun(&old, checkpoint_of(ctx, &old)?)?;
        let locks = ctx.tx.rows(Kind::Lock, Find::Agent(old.id))?;
        let held = Held {
            to: None,
            at: None,
            sorties: held_sorties(ctx, old.id)?,
            locks: locks.into_iter().filter_map(|row| row.name).collect(),
            messages: unread(ctx, old.id)?,
        };
        package(ctx, &old, &checkpoint, None, held)
    }
}

struct Held {
    to: Option<Name>,
    at: Option<Time>,
    sorties: Vec<String>,
    locks: Vec<String>,
    messages: u64,
}

fn begun(old: &Agent, checkpoint: Option<DialectDocument>) -> Result<DialectDocument> {
    let name = old.name.as_str();
    checkpoint.ok_or_else(|| {
        Refusal::new(
            Code::NotFound,
            format!("there is nothing to hand over from {name}: it has not begun"),
        )
        .hint(format!("begin with `fleet agents register {name}`"))
        .into()
    })
}

fn package(
    ctx: &mut OpContext<'_, '_>,
    old: &Agent,
    checkpoint: &DialectDocument,
    archive: Option<&str>,
    held: Held,
) -> Result<Handoff> {
    let file = match archive {
        Some(archive) => Some(format!("{ARCHIVE_FOLDER}/{archive}")),
        None => file_name(old.name.as_str())
            .ok()
            .map(|file| format!("{FOLDER}/{file}")),
    };
    let mut handoff = Handoff {
        from: old.name.clone(),
        to: held.to,
        at: held.at,
        text: String::new(),
        hint: None,
        checkpoint_file: file.filter(|_| ctx.policy.mirrors.has(Dialect::Epic)),
        checkpoint: json_of(checkpoint),
        sorties: held.sorties,
        locks: held.locks,
        messages: held.messages,
    };
    if ctx.policy.speaks(Dialect::Epic) {
        let file = handoff.checkpoint_file.as_deref();
        handoff.text = epic::handoff(checkpoint, file.unwrap_or("none"));
    } else {
        handoff.text = words::handed_over(ctx, checkpoint, &handoff)?;
        handoff.hint = Some(words::hand_over(ctx, old, handoff.to.as_ref())?);
    }
    Ok(handoff)
}

/// Returns the event of the takeover of a retired agent, when it was taken over.
fn taken_over(
    ctx: &mut OpContext<'_, '_>,
    old: &Agent,
) -> Result<Option<flightline_core::event::Event>> {
    if old.retired_at.is_none() {
        return Ok(None);
    }
    let events = ctx.tx.events_of(Kind::Agent, &old.key(), 50)?;
    let last = events.into_iter().find(|event| {
        matches!(
            event.event_type(),
            Some(EventType::AgentCrashed | EventType::AgentRetired)
        )
    });
    Ok(last.filter(|event| event.is(EventType::AgentCrashed)))
}

fn successor(taken: &flightline_core::event::Event) -> Option<Name> {
    let name = taken.data["to"].as_str()?;
    Name::parse("agent name", name).ok()
}

fn refuse_same(old: &Agent, new: &Agent) -> Result<()> {
    if old.id != new.id {
        return Ok(());
    }
    let name = &old.name;
    Err(
        Refusal::invalid(format!("{name} cannot take over from itself"))
            .hint(format!(
                "bring it back in a new session with `fleet agents resume {name}`"
            ))
            .into(),
    )
}

fn refuse_retired(ctx: &mut OpContext<'_, '_>, old: &Agent) -> Result<()> {
    if old.retired_at.is_none() {
        return Ok(());
    }
    let name = &old.name;
    let taken = taken_over(ctx, old)?;
    let refusal = match taken.as_ref().and_then(successor) {
        Some(by) => Refusal::new(
            Code::AlreadyTaken,
            format!("{by} has taken over from {name} already"),
        )
        .hint(format!(
            "see its handoff with `fleet handoff {name}`; to take over from it: `fleet agents takeover {by} NEW`"
        ))
        .details(json!({ "to": by })),
        None => Refusal::new(
            Code::IllegalTransition,
            format!("{name} was retired, and holds nothing to take over"),
        )
        .hint("list the agents with `fleet agents list`"),
    };
    Err(refusal.into())
}
