//! Notices that a mission needs recovery.

use crate::Schema;
use flightline_core::event::{Event, EventType};
use flightline_core::liveness::Life;
use flightline_core::mission::{Mission, MissionStatus};
use flightline_core::recovery::analysis::COMPLETE;
use flightline_core::setting::Recovery;
use flightline_core::time::{Millis, human_span};
use flightline_core::{CheckpointId, Kind, MissionId, Subject, Time};
use flightline_store::{EventFilter, StoreError, SubjectRow};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::aftermath::agents_to_start;
use super::tasks::{TaskTrouble, troubled};
use super::{AgentVerdict, newest_sound, verdicts};
use crate::agent::Sighting;
use crate::agent::holdings::HoldingsByAgent;
use crate::checkpoint::recovery_context::last_act;
use crate::error::{Error, Result};
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::mail::deadline::notice_overdue;
use crate::mail::notice;
use crate::mission::short;
use crate::op_context::OpContext;
use crate::status::Attention;

/// Prefix of the subject of a message that offers a recovery.
const OFFER: &str = "recovery_available: ";

/// Returns true when a message of Flightline with this subject offers a recovery.
pub(super) fn is_offer(subject: &str) -> bool {
    subject.starts_with(OFFER)
}

/// The evidence that is proof.
const PROCESS_GONE: &str = "process_gone";
/// Evidence: others go on, and one agent that holds work is silent for too long.
const AGENT_SILENT: &str = "agent_silent";
/// Evidence: the mission itself goes on; some of its tasks need a decision.
const TASKS: &str = "tasks";
/// Evidence: the mission was recovered, nothing was heard of it since, and no agent works on it.
const UNATTENDED: &str = "unattended";

/// Looks for missions that need recovery, and tells their dispatch once per silence.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct Detect {
    /// Silence after which a mission is a candidate; the policy's when none is given.
    pub threshold_ms: Option<Millis>,
    /// Observations of agents' processes.
    pub sightings: Vec<Sighting>,
}

/// Looks for missions that need recovery, and reports them to no mailbox.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct PeekCandidates {
    /// Silence after which a mission is a candidate; the policy's when none is given.
    pub threshold_ms: Option<Millis>,
    /// Observations of agents' processes.
    #[serde(default)]
    pub sightings: Vec<Sighting>,
}

/// A mission that needs recovery.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct RecoveryCandidate {
    /// The mission that needs recovery.
    pub mission_id: MissionId,
    /// The title of the mission.
    pub title: String,
    /// The evidence for the verdict: `process_gone`, `inactivity`, `agent_silent` when others go on, `damaged` when
    /// the mission's records cannot be read, `tasks` when the mission goes on and only some of its tasks need a
    /// decision, or `unattended` when it was recovered and no agent has taken it up since.
    pub evidence: String,
    /// Time of the last sign of activity.
    pub last_activity_at: Time,
    /// Time since that activity.
    pub inactivity_duration_ms: Millis,
    /// True when there is a sound checkpoint to resume from.
    pub checkpoint_available: bool,
    /// The checkpoint that a resume would start from.
    pub checkpoint_id: Option<CheckpointId>,
    /// The time at which that checkpoint was taken.
    pub checkpoint_at: Option<Time>,
    /// Number of events since that checkpoint.
    pub events_since: u64,
    /// The agents of the mission, each with its liveness.
    pub agents: Vec<CandidateAgent>,
    /// Tasks of the mission that need a decision, where the policy wants them found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskTrouble>,
    /// Time of the last recovery, if there was no activity since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered_at: Option<Time>,
    /// The remaining actions after that recovery, each with its command.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<Attention>,
}

impl RecoveryCandidate {
    /// Returns true when the mission itself is to be recovered, and not only some of its tasks.
    pub fn needs_recovery(&self) -> bool {
        self.evidence != TASKS && self.evidence != UNATTENDED
    }
}

/// An agent of a candidate.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct CandidateAgent {
    /// The name of the agent.
    pub name: String,
    /// The liveness of the agent: active, quiet, warning, stalled or dead.
    pub life: Life,
    /// The evidence for the liveness.
    pub evidence: String,
    /// Duration of the agent's silence, when that is too long for an agent that holds work.
    #[serde(default)]
    pub silent_ms: Option<Millis>,
    /// True when the agent keeps its work.
    pub keeps: bool,
    /// The sorties that the agent holds.
    pub sorties: Vec<String>,
    /// The files and folders that the agent has locked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<String>,
    /// True when the agent coordinates the mission.
    pub dispatches: bool,
}

impl Operation for PeekCandidates {
    const NAME: &'static str = "peek_candidates";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<RecoveryCandidate>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<RecoveryCandidate>> {
        let found = candidates(ctx, self.threshold_ms, &self.sightings)?;
        Ok(found.into_iter().map(|(_, candidate)| candidate).collect())
    }
}

impl Operation for Detect {
    const NAME: &'static str = "detect";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Dispatch;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Fleet;
    type Outcome = Vec<RecoveryCandidate>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<RecoveryCandidate>> {
        notice_overdue(ctx)?;
        let found = candidates(ctx, self.threshold_ms, &self.sightings)?;
        let mut told = Vec::new();
        for (mission, candidate) in found {
            if let Some(mission) = mission
                && candidate.needs_recovery()
                && !already_told(ctx, &mission, &candidate)?
            {
                tell(ctx, &mission, &candidate)?;
            }
            told.push(candidate);
        }
        Ok(told)
    }
}

fn candidates(
    ctx: &mut OpContext<'_, '_>,
    threshold: Option<Millis>,
    sightings: &[Sighting],
) -> Result<Vec<(Option<Mission>, RecoveryCandidate)>> {
    let verdicts = verdicts(ctx, sightings)?;
    candidates_among(ctx, threshold, &verdicts)
}

/// The missions that need recovery, where all agents were judged already.
pub(crate) fn candidates_among(
    ctx: &mut OpContext<'_, '_>,
    threshold: Option<Millis>,
    verdicts: &[AgentVerdict],
) -> Result<Vec<(Option<Mission>, RecoveryCandidate)>> {
    let patience = Patience {
        mission: threshold.unwrap_or(ctx.policy.quiet_ms),
        // While others go on, one of them may think for a while.
        agent: threshold.unwrap_or(ctx.policy.stalled_ms),
    };
    let mut found = Vec::new();
    let mut missions = ctx.tx.missions_under_way()?;
    missions.retain(|row| row.status == MissionStatus::InProgress.as_str());
    if missions.is_empty() {
        return Ok(found);
    }
    let all = Looking {
        patience,
        verdicts,
        // One that is damaged is found with its mission, and only there.
        in_hand: match HoldingsByAgent::of_all(ctx) {
            Err(Error::Store(StoreError::Corrupt(_))) => None,
            all => Some(all?),
        },
    };
    for row in missions {
        // One mission's damage never hides another, and is not hidden either.
        match judge(ctx, &row.id, &all) {
            Ok(judged) => found.extend(judged.map(|(mission, judged)| (Some(mission), judged))),
            Err(Error::Store(StoreError::Corrupt(_))) => found.push((None, damaged(ctx, &row)?)),
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// The input to the judgement of every mission.
struct Looking<'a> {
    patience: Patience,
    verdicts: &'a [AgentVerdict],
    /// The work in hand; none when some of its records cannot be read.
    in_hand: Option<HoldingsByAgent>,
}

/// Durations for which silence proves nothing.
#[derive(Clone, Copy)]
struct Patience {
    mission: Millis,
    agent: Millis,
}

fn judge(
    ctx: &mut OpContext<'_, '_>,
    id: &str,
    all: &Looking<'_>,
) -> Result<Option<(Mission, RecoveryCandidate)>> {
    let Some(mission) = ctx.tx.get::<Mission>(id)? else {
        return Ok(None);
    };
    let candidate = candidate(ctx, &mission, all)?;
    Ok(candidate.map(|candidate| (mission, candidate)))
}

/// A mission whose records cannot be read: `fleet doctor` says which.
fn damaged(ctx: &OpContext<'_, '_>, row: &SubjectRow) -> Result<RecoveryCandidate> {
    Ok(RecoveryCandidate {
        mission_id: row.typed_id()?,
        title: row.name.clone().unwrap_or_default(),
        evidence: "damaged".to_owned(),
        last_activity_at: row.at,
        inactivity_duration_ms: ctx.now().since(row.at),
        checkpoint_available: false,
        checkpoint_id: None,
        checkpoint_at: None,
        events_since: 0,
        agents: Vec::new(),
        tasks: Vec::new(),
        recovered_at: None,
        left: Vec::new(),
    })
}

fn locked(in_hand: &HoldingsByAgent, mission: &Mission, verdict: &AgentVerdict) -> Vec<String> {
    let own = in_hand.locks.get(&verdict.agent.id).into_iter().flatten();
    let ours = own.filter(|lock| lock.mission_id.is_none_or(|it| it == mission.id));
    ours.map(|lock| lock.file.to_string()).collect()
}

fn candidate(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    all: &Looking<'_>,
) -> Result<Option<RecoveryCandidate>> {
    let (patience, verdicts) = (all.patience, all.verdicts);
    let threshold = patience.mission;
    let (mut agents, mut running) = (Vec::new(), false);
    let apart = match &all.in_hand {
        Some(_) => None,
        None => Some(HoldingsByAgent::of_mission(ctx, mission.id)?),
    };
    let nothing = HoldingsByAgent::default();
    let in_hand = all.in_hand.as_ref().or(apart.as_ref()).unwrap_or(&nothing);
    let held = in_hand.sorties.get(&mission.id.to_string());
    let held = held.map_or(&[][..], Vec::as_slice);
    let recovered = ctx.tx.newest::<Recovery>(mission.id, None, 1)?.pop();
    let last_act = last_act(ctx, mission)?.map(|event| event.happened_at());
    let mut signs = vec![last_act];
    let mut news = News::of(recovered.as_ref(), last_act);
    for verdict in verdicts {
        let ours = held.iter().filter(|(owner, _)| *owner == verdict.agent.id);
        let sorties: Vec<String> = ours.map(|(_, sortie)| sortie.clone()).collect();
        let locks = locked(in_hand, mission, verdict);
        let is_needed = !sorties.is_empty() || mission.dispatch == Some(verdict.agent.id);
        // An agent that is gone may have left nothing but a lock.
        if !is_needed && (locks.is_empty() || !verdict.is_gone()) {
            continue;
        }
        if !is_needed {
            agents.push(CandidateAgent {
                name: verdict.agent.name.to_string(),
                life: verdict.liveness.life,
                evidence: verdict.liveness.evidence.clone(),
                silent_ms: None,
                keeps: false,
                sorties,
                locks,
                dispatches: false,
            });
            continue;
        }
        // The caller is there, and may be the very agent that came back without its context.
        let mut silent_ms = None;
        if ctx.agent_id() != Some(verdict.agent.id) {
            let pulse = ctx.tx.pulse(verdict.agent.id)?;
            let sign = crate::agent::last_sign(ctx, &verdict.agent, pulse.as_ref());
            if !sorties.is_empty() && !verdict.running {
                let silence = sign.map(|sign| ctx.now().since(sign));
                silent_ms = silence
                    .filter(|silence| *silence > patience.agent)
                    .filter(|_| News::is_new(recovered.as_ref(), verdict, sign));
            }
            news.hear(recovered.as_ref(), verdict, sign);
            signs.push(sign);
            running |= verdict.running;
        }
        agents.push(CandidateAgent {
            name: verdict.agent.name.to_string(),
            life: verdict.liveness.life,
            evidence: verdict.liveness.evidence.clone(),
            silent_ms,
            keeps: !verdict.is_gone(),
            sorties,
            locks,
            dispatches: mission.dispatch == Some(verdict.agent.id),
        });
    }
    // The workflow is complete, and no agent is at work: there is nothing to recover.
    let held = agents.iter().any(|agent| !agent.sorties.is_empty());
    let state = mission.workflow.current.as_ref();
    if !held && state.is_some_and(|state| state.as_str() == COMPLETE) {
        return Ok(None);
    }
    let last_activity_at = signs
        .into_iter()
        .flatten()
        .max()
        .unwrap_or(mission.created_at);
    let silence = ctx.now().since(last_activity_at);
    // A process that is gone is proof at once; mere silence only after a while, and never while a
    // process of the mission is seen running.
    let tasks = match ctx.policy.find_tasks {
        true => troubled(ctx, mission, threshold, verdicts)?,
        false => Vec::new(),
    };
    // A silent agent is not hidden by another that goes on.
    let one_is_silent = agents.iter().filter_map(|agent| agent.silent_ms).min();
    let silent = silence > threshold && !running;
    let evidence = match (news.death, silent) {
        (true, _) => PROCESS_GONE,
        (false, true) if news.activity || news.loss => "inactivity",
        (false, _) if one_is_silent.is_some() => AGENT_SILENT,
        (false, _) if !tasks.is_empty() => TASKS,
        (false, true) => UNATTENDED,
        (false, false) => return Ok(None),
    };
    let (last_activity_at, silence) = match one_is_silent {
        Some(silence) if evidence == AGENT_SILENT => (ctx.now().minus(silence), silence),
        Some(_) | None => (last_activity_at, silence),
    };
    // The causes of the last recovery are settled; a new owner is missing while no agent goes on.
    let (recovered_at, left) = match recovered.filter(|_| evidence == UNATTENDED) {
        Some(recovered) => (Some(recovered.at), agents_to_start(ctx, mission, verdicts)?),
        None => (None, Vec::new()),
    };
    let (checkpoint, _) = newest_sound(ctx, mission)?;
    let checkpoint = checkpoint.filter(|checkpoint| checkpoint.cut.progress_percent < 100);
    let events_since = match &checkpoint {
        Some(checkpoint) => work_since(ctx, mission, checkpoint.cut.rev)?,
        None => 0,
    };
    Ok(Some(RecoveryCandidate {
        mission_id: mission.id,
        title: mission.title.to_string(),
        evidence: evidence.to_owned(),
        last_activity_at,
        inactivity_duration_ms: silence,
        checkpoint_available: checkpoint.is_some(),
        checkpoint_id: checkpoint.as_ref().map(|checkpoint| checkpoint.id),
        checkpoint_at: checkpoint.map(|checkpoint| checkpoint.cut.timestamp),
        events_since,
        agents,
        tasks,
        recovered_at,
        left,
    }))
}

/// Counts the events of a mission after a checkpoint, but for those that Flightline writes itself.
fn work_since(ctx: &mut OpContext<'_, '_>, mission: &Mission, rev: u64) -> Result<u64> {
    let filter = EventFilter {
        mission: Some(mission.id),
        limit: 10_000,
        ..EventFilter::default()
    };
    let events = ctx.tx.events_after(rev, &filter)?.into_iter();
    let ours = |event: &Event| {
        event.actor == "flightline" || event.is_detail() || event.subject_kind == Kind::Checkpoint
    };
    Ok(events.filter(|event| !ours(event)).count() as u64)
}

/// The news of a mission since its last recovery: without one, all of it.
struct News {
    /// An agent or a person worked on it.
    activity: bool,
    /// An agent with a part in it is gone.
    loss: bool,
    /// The process of such an agent is gone, which is proof.
    death: bool,
}

impl News {
    fn of(recovered: Option<&Recovery>, last_act: Option<Time>) -> Self {
        Self {
            activity: recovered
                .is_none_or(|recovered| last_act.is_some_and(|act| act > recovered.at)),
            loss: false,
            death: false,
        }
    }

    /// Takes in an agent that holds work of the mission or coordinates it, and its last sign of life.
    fn hear(&mut self, recovered: Option<&Recovery>, verdict: &AgentVerdict, sign: Option<Time>) {
        self.activity |= recovered.is_some_and(|recovered| was_heard(recovered, sign));
        if verdict.is_gone() && Self::is_new(recovered, verdict, sign) {
            self.loss = true;
            self.death |= verdict.liveness.life == Life::Dead;
        }
    }

    /// Returns true when the silence of an agent is more than the last recovery knew: it was heard of since, or is
    /// gone by now.
    fn is_new(recovered: Option<&Recovery>, verdict: &AgentVerdict, sign: Option<Time>) -> bool {
        recovered.is_none_or(|recovered| {
            let lost = verdict.is_gone() && !recovered.gone.contains(&verdict.agent.id);
            lost || was_heard(recovered, sign)
        })
    }
}

fn was_heard(recovered: &Recovery, sign: Option<Time>) -> bool {
    sign.is_some_and(|sign| sign >= recovered.at)
}

/// Returns true when this silence or death was reported already: each leads to one event. While others go on working,
/// the dead stay dead.
fn already_told(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    candidate: &RecoveryCandidate,
) -> Result<bool> {
    // A client's report about its agent's context is neither a silence nor a death.
    let of_mission = ctx.tx.events_of(Kind::Mission, &mission.key(), 200)?;
    let last = of_mission
        .into_iter()
        .find(|event| event.is(EventType::ContextCompacted) && event.data.get("agent").is_none());
    // Reports from before the last recovery are settled by it.
    let recovered = ctx.tx.newest::<Recovery>(mission.id, None, 1)?.pop();
    let last =
        last.filter(|event| recovered.is_none_or(|recovered| event.timestamp >= recovered.at));
    Ok(last.is_some_and(|event| {
        let since = event.timestamp >= candidate.last_activity_at;
        match candidate.evidence.as_str() {
            PROCESS_GONE => since || event.data.get("gone") == gone(candidate).as_ref(),
            AGENT_SILENT => since && event.data.get("silent") == silent(candidate).as_ref(),
            _ => since,
        }
    }))
}

/// Lists the agents whose process is gone, as an event names them; none when there is no such agent.
fn gone(candidate: &RecoveryCandidate) -> Option<serde_json::Value> {
    let names = candidate
        .agents
        .iter()
        .filter(|agent| agent.life == Life::Dead)
        .map(|agent| json!([agent.name, agent.sorties]));
    let names: Vec<serde_json::Value> = names.collect();
    (!names.is_empty()).then(|| names.into())
}

/// Lists the silent agents and their holdings, as an event names them; none when there is no such agent.
fn silent(candidate: &RecoveryCandidate) -> Option<serde_json::Value> {
    let silent = candidate
        .agents
        .iter()
        .filter(|agent| agent.silent_ms.is_some() && agent.life != Life::Dead);
    let names: Vec<serde_json::Value> = silent
        .map(|agent| json!([agent.name, agent.sorties]))
        .collect();
    (!names.is_empty()).then(|| names.into())
}

/// The silent agents, with the verb.
fn names(candidate: &RecoveryCandidate) -> String {
    let silent = candidate.agents.iter();
    let silent = silent.filter(|agent| agent.silent_ms.is_some());
    let names: Vec<&str> = silent.map(|agent| agent.name.as_str()).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", names.join(", "))
}

fn tell(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
    candidate: &RecoveryCandidate,
) -> Result<()> {
    let before = ctx.tx.actor().clone();
    ctx.tx.act_as(flightline_store::Actor::flightline());
    let mut data = json!({
        "mission_id": mission.id,
        "last_activity_at": candidate.last_activity_at,
        "inactivity_duration_ms": candidate.inactivity_duration_ms,
        "checkpoint_available": candidate.checkpoint_available,
        "checkpoint_id": candidate.checkpoint_id,
        "evidence": candidate.evidence,
    });
    if let Some(gone) = gone(candidate) {
        data["gone"] = gone;
    }
    if let Some(silent) = silent(candidate) {
        data["silent"] = silent;
    }
    ctx.tx.note(EventType::ContextCompacted, mission, &data)?;
    let dispatch = ctx.dispatch_of(mission)?;
    let subject = format!("{OFFER}{}", mission.title);
    let quiet = match candidate.evidence == AGENT_SILENT {
        true => format!("{} silent", names(candidate)),
        false => "Quiet".to_owned(),
    };
    let quiet = format!(
        "{quiet} for {}",
        human_span(candidate.inactivity_duration_ms)
    );
    let body = match candidate.checkpoint_id {
        Some(id) => format!(
            "{quiet}. Found checkpoint {}. Resume with: fleet resume --mission {}",
            short(id),
            short(mission.id)
        ),
        None => format!("{quiet}, and there is no checkpoint to resume from."),
    };
    notice(ctx, dispatch, &subject, &body, Some(mission.id))?;
    ctx.tx.act_as(before);
    Ok(())
}
