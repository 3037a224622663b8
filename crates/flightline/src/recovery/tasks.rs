//! Tasks that need a decision, in seed B's three scenarios: the session ended, an error is in the way, or it was
//! completed before all of its criteria were met.

use crate::Schema;
use flightline_core::dialect::sitebuilder::{Scenario, scenario};
use flightline_core::event::Event;
use flightline_core::liveness::Life;
use flightline_core::mission::Mission;
use flightline_core::shell::shell_text;
use flightline_core::sortie::{Sortie, SortieStatus, Verdict};
use flightline_core::time::{Millis, human_span};
use flightline_core::{Kind, MissionId, Name, SortieId, Subject, Time};
use flightline_store::Find;
use serde::{Deserialize, Serialize};

use super::AgentVerdict;
use crate::error::Result;
use crate::mission::short;
use crate::op_context::OpContext;
use crate::task::load;

/// A task that needs a decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct TaskTrouble {
    /// The scenario: `session_timeout`, `error` or `partial_completion`.
    pub scenario: String,
    /// The mission of the task.
    pub mission_id: MissionId,
    /// The sortie of the task.
    pub sortie_id: SortieId,
    /// The id of the task in other tools, such as `T060`.
    pub task_id: Option<Name>,
    /// The title of the sortie: the work to be done.
    pub title: String,
    /// The name of the task's owner.
    pub agent: Option<String>,
    /// The current status of the task.
    pub status: SortieStatus,
    /// The evidence for the scenario.
    pub evidence: String,
    /// Time without work on the task, after a lost session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quiet_ms: Option<Millis>,
    /// The open errors, when they are in the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    /// Criteria that are not met, when the task was completed without them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unmet_criteria: Vec<String>,
    /// The commands to run next, in order.
    pub next: Vec<String>,
}

impl TaskTrouble {
    /// Formats the task in one line: its name, the scenario, and the evidence.
    pub fn line(&self) -> String {
        let id = short(self.sortie_id);
        let task = match &self.task_id {
            Some(task) => format!("{task} ({id}, \"{}\")", self.title),
            None => format!("{id} (\"{}\")", self.title),
        };
        format!(
            "{task}: {}: {}",
            self.scenario.replace('_', " "),
            self.evidence
        )
    }
}

/// The tasks of a mission that need a decision, in its order. Silence counts when it is longer than `timeout`.
pub(super) fn troubled(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    timeout: Millis,
    verdicts: &[AgentVerdict],
) -> Result<Vec<TaskTrouble>> {
    let mut found = Vec::new();
    for sortie in ctx.tx.find::<Sortie>(Find::Mission(mission.id))? {
        let looked_at = match sortie.status {
            SortieStatus::InProgress | SortieStatus::Blocked => true,
            SortieStatus::Completed => !is_accepted(&sortie),
            SortieStatus::Pending
            | SortieStatus::Assigned
            | SortieStatus::Failed
            | SortieStatus::Skipped => false,
        };
        if looked_at {
            found.extend(judge(ctx, sortie, timeout, verdicts)?);
        }
    }
    Ok(found)
}

/// Returns true when a completed sortie needs no decision: all criteria are met, or its result was approved.
fn is_accepted(sortie: &Sortie) -> bool {
    let approved = sortie
        .approval
        .as_ref()
        .is_some_and(|approval| approval.verdict == Verdict::Approved);
    approved || sortie.acceptance_criteria.values().all(|met| *met)
}

fn judge(
    ctx: &mut OpContext<'_, '_>,
    sortie: Sortie,
    timeout: Millis,
    verdicts: &[AgentVerdict],
) -> Result<Option<TaskTrouble>> {
    let verdict = verdicts
        .iter()
        .find(|verdict| Some(verdict.agent.id) == sortie.assigned_to);
    let last = last_activity(ctx, &sortie, verdict)?;
    let task = load(ctx, sortie)?;
    let Some(mut document) = task.document()? else {
        return Ok(None);
    };
    document.checkpoint.set("updated_at", last.to_shortest());
    // A process that is gone is proof at once, and one that is seen running is at it, however quiet.
    let gone = verdict.is_some_and(|verdict| verdict.liveness.life == Life::Dead);
    let timeout = match verdict {
        Some(verdict) if verdict.running => Millis::MAX,
        Some(_) if gone => 0,
        Some(_) | None => timeout,
    };
    let now = ctx.now();
    // An agent that is gone may have spoken in this very millisecond.
    let judged_at = now.max(last.plus(u64::from(gone)));
    let Some(scenario) = scenario(&document.checkpoint, timeout, judged_at) else {
        return Ok(None);
    };
    let sortie = &task.view.sortie;
    let (id, owner) = (short(sortie.id), task.view.owner.clone());
    let as_owner = owner
        .as_ref()
        .map_or_else(String::new, |name| format!(" --agent {name}"));
    let resume = format!("fleet sorties resume {id}{as_owner}");
    let mut trouble = TaskTrouble {
        scenario: scenario.as_str().to_owned(),
        mission_id: sortie.mission_id,
        sortie_id: sortie.id,
        task_id: sortie.task_id.clone(),
        title: sortie.title.to_string(),
        agent: owner,
        status: sortie.status,
        evidence: scenario.describe(),
        quiet_ms: None,
        errors: Vec::new(),
        unmet_criteria: Vec::new(),
        next: Vec::new(),
    };
    match scenario {
        Scenario::SessionTimeout { .. } => {
            let quiet = now.since(last);
            trouble.quiet_ms = Some(quiet);
            if let Some(verdict) = verdict.filter(|_| gone) {
                let why = &verdict.liveness.evidence;
                trouble.evidence = format!("in progress, {why}, silent for {}", human_span(quiet));
            }
            trouble.next = match sortie.resumable {
                true => vec![resume],
                false => vec![format!(
                    "fleet sorties release {id} --reason \"not resumable\""
                )],
            };
        }
        Scenario::ErrorDuringProcessing { errors } => {
            trouble.errors = errors;
            let show = format!("fleet sorties show {id}");
            let clear = format!("fleet sorties error {id} --clear");
            trouble.next = vec![show, clear, resume];
        }
        Scenario::PartialCompletion { unmet } => {
            let reason = format!("not met: {}", unmet.join(", "));
            let reject = format!("fleet sorties reject {id} --reason {}", shell_text(&reason));
            trouble.unmet_criteria = unmet;
            trouble.next = vec![reject, resume];
        }
    }
    Ok(Some(trouble))
}

/// Returns the time at which a sortie was last worked on, or its owner gave a sign of life. The caller is there, and
/// may be the very agent that came back without its context.
fn last_activity(
    ctx: &mut OpContext<'_, '_>,
    sortie: &Sortie,
    verdict: Option<&AgentVerdict>,
) -> Result<Time> {
    let events = ctx.tx.events_of(Kind::Sortie, &sortie.key(), 50)?;
    let acts = events.iter().filter(|event| event.is_work());
    let act = acts.map(Event::happened_at).max();
    let sign = match verdict.filter(|verdict| ctx.agent_id() != Some(verdict.agent.id)) {
        Some(verdict) => {
            let pulse = ctx.tx.pulse(verdict.agent.id)?;
            crate::agent::last_sign(ctx, &verdict.agent, pulse.as_ref())
        }
        None => None,
    };
    Ok(act.max(sign).unwrap_or(sortie.created_at))
}
