//! Restarts an agent from scratch: seed C's third way to recover, and the last.

use crate::Schema;
use flightline_core::agent::{Agent, AgentStatus, Coordination, Step};
use flightline_core::checkpoint::Reason;
use flightline_core::dialect::Dialect;
use flightline_core::dialect::epic::{ARCHIVE_FOLDER, Ended, archive_name};
use flightline_core::event::EventType;
use flightline_core::lock::Lock;
use flightline_core::mission::Mission;
use flightline_core::sortie::{Review, Sortie, SortieError, SortieFile, Subtask};
use flightline_core::{CheckpointId, Code, Refusal, Subject};
use flightline_store::Find;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::session::{end_session, refuse_alive, refuse_others};
use super::{Sighting, held_sorties};
use crate::checkpoint::trigger::trigger;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;

/// Restarts an agent from scratch: its sorties wait again as they were given, its locks are released, and of what it
/// reported about itself only the feature that it owns stays.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct RestartAgent {
    /// The agent to restart, by name or id.
    pub agent: String,
    /// Restart even if the agent may still be alive.
    #[serde(default)]
    pub force: bool,
    /// Observations of agents' processes.
    #[serde(default)]
    pub sightings: Vec<Sighting>,
}

/// The outcome of a restart.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct Restarted {
    /// The agent: it begins when it registers again.
    pub agent: Agent,
    /// The evidence that the agent's session is over.
    pub evidence: String,
    /// The file for the agent's last checkpoint, from the repository's root; none where such files are not kept.
    pub archive_file: Option<String>,
    /// The ids of the sorties that wait again.
    pub sorties: Vec<String>,
    /// Paths that the agent had locked.
    pub locks: Vec<String>,
    /// Checkpoints of the state before the restart.
    pub checkpoints: Vec<CheckpointId>,
}

impl Operation for RestartAgent {
    const NAME: &'static str = "restart_agent";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = Restarted;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Restarted> {
        let agent = ctx.find_agent(&self.agent)?;
        let name = agent.name.clone();
        refuse_others(ctx, &[&agent], &format!("restart {name}"))?;
        if agent.retired_at.is_some() {
            return Err(Refusal::new(
                Code::IllegalTransition,
                format!("{name} was retired, and has no work to begin again"),
            )
            .hint(format!("bring it back with `fleet agents register {name}`"))
            .into());
        }
        let command = format!("fleet agents restart {name} -y");
        let evidence = refuse_alive(ctx, &agent, &self.sightings, self.force, &command)?;
        let mut sorties = Vec::new();
        for id in held_sorties(ctx, agent.id)? {
            sorties.extend(ctx.tx.get::<Sortie>(&id)?);
        }
        let checkpoints = save(ctx, &agent, &sorties)?;
        for sortie in &sorties {
            begin_again(ctx, sortie, &agent)?;
        }
        let locks = ctx.tx.find::<Lock>(Find::Agent(agent.id))?;
        for lock in &locks {
            let data = json!({ "file": lock.file, "fence": lock.fence, "reason": "restarted" });
            ctx.tx.remove(EventType::LockReleased, lock, &data)?;
        }
        for step in ctx.tx.find::<Step>(Find::Parent(&agent.key()))? {
            let data = json!({ "step": step.text, "reason": "restarted" });
            ctx.tx.remove(EventType::AgentStepRemoved, &step, &data)?;
        }
        let archive = archive_name(name.as_str(), Ended::Aborted, ctx.now()).ok();
        let agent = forget(ctx, agent)?;
        let data = json!({ "archive": archive, "reason": evidence, "epoch": agent.epoch });
        ctx.tx.set(EventType::AgentRestarted, &agent, &data)?;
        Ok(Restarted {
            agent,
            evidence,
            archive_file: archive
                .filter(|_| ctx.policy.mirrors.has(Dialect::Epic))
                .map(|file| format!("{ARCHIVE_FOLDER}/{file}")),
            sorties: sorties.iter().map(Subject::key).collect(),
            locks: locks.iter().map(|lock| lock.file.to_string()).collect(),
            checkpoints,
        })
    }
}

/// Takes a checkpoint of each mission that is about to lose something.
fn save(
    ctx: &mut OpContext<'_, '_>,
    agent: &Agent,
    sorties: &[Sortie],
) -> Result<Vec<CheckpointId>> {
    let mut missions: Vec<_> = sorties.iter().map(|sortie| sortie.mission_id).collect();
    missions.sort_unstable();
    missions.dedup();
    let mut taken = Vec::new();
    for id in missions {
        if let Some(mission) = ctx.tx.get::<Mission>(id)? {
            let details = format!("Before {} begins from scratch", agent.name);
            let reason = Reason::BeforeDestructive;
            taken.extend(trigger(ctx, &mission, reason, details, Vec::new())?);
        }
    }
    Ok(taken)
}

/// A sortie as it was given, without anything its owner reported.
fn begin_again(ctx: &mut OpContext<'_, '_>, sortie: &Sortie, owner: &Agent) -> Result<()> {
    let key = sortie.key();
    for subtask in ctx.tx.find::<Subtask>(Find::Parent(&key))? {
        let again = subtask.from_scratch(ctx.now());
        let data = json!({ "name": again.name, "reason": "restarted" });
        ctx.tx.set(EventType::SubtaskRestarted, &again, &data)?;
    }
    drop_parts::<SortieFile>(ctx, &key, EventType::FileRemoved)?;
    drop_parts::<SortieError>(ctx, &key, EventType::ErrorRemoved)?;
    drop_parts::<Review>(ctx, &key, EventType::ReviewRemoved)?;
    let again = sortie.from_scratch(ctx.now());
    let data = json!({ "from": owner.name, "reason": "restarted" });
    ctx.tx.set(EventType::SortieRestarted, &again, &data)?;
    Ok(())
}

fn drop_parts<S: Subject>(
    ctx: &mut OpContext<'_, '_>,
    sortie: &str,
    removed: EventType,
) -> Result<()> {
    for part in ctx.tx.find::<S>(Find::Parent(sortie))? {
        let data = json!({ "reason": "restarted" });
        ctx.tx.remove(removed, &part, &data)?;
    }
    Ok(())
}

/// Returns the agent as it was before it began. The feature that it owns stays, and so does its mail.
fn forget(ctx: &mut OpContext<'_, '_>, mut agent: Agent) -> Result<Agent> {
    end_session(ctx.tx, &mut agent)?;
    Ok(Agent {
        process: None,
        status: AgentStatus::Idle,
        stage: None,
        phase: None,
        can_resume: true,
        blockers: Vec::new(),
        files_modified: Vec::new(),
        recovery_instructions: None,
        current_step: None,
        next_steps: Vec::new(),
        coordination: Coordination::default(),
        last_checkpoint: None,
        next_checkpoint_expected: None,
        session_started_at: None,
        ..agent
    })
}
