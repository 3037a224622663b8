//! The events of a coding agent's hooks, and the answers to them. A session becomes an agent of the fleet, its edits
//! are locked, its work is saved, and its briefing reaches it, without a typed command. One event is one transaction.

mod brief;
mod seat;
mod tasks;
mod work;

use crate::Schema;
use flightline_core::agent::{Agent, Process};
use flightline_core::checkpoint::Reason;
use flightline_core::file_system::TreeNow;
use flightline_core::text::NoteText;
use flightline_core::{CheckpointId, MissionId, Name, RepoPath, Title};
use serde::{Deserialize, Serialize};

use crate::agent::context::EndSession;
use crate::agent::{Heartbeat, Sighting};
use crate::checkpoint::trigger::trigger;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, WhenFull};
use crate::op_context::{OpContext, speak_for};
use crate::recovery::compaction::{CompactionEvidence, ReportCompaction};
use crate::remote::Offline;

/// Reports one event in a coding agent's session.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct TellHook {
    /// The client, such as `claude`: its agents are named after it.
    pub client: Name,
    /// The client's id of the session.
    pub session: Title,
    /// The subagent that the event is about; none when it is about the session itself.
    #[serde(default)]
    pub subagent: Option<SubagentRef>,
    /// The client's process.
    #[serde(default)]
    pub process: Option<Process>,
    /// Tokens used in the context, and its size in tokens.
    #[serde(default)]
    pub tokens: Option<(u64, u64)>,
    /// Maximum number of characters of context that the answer can carry; none when it can carry none.
    #[serde(default)]
    pub room: Option<usize>,
    /// The event that the hook reports.
    pub event: SessionEvent,
    /// True when the person cleared the previous session of this process.
    #[serde(default)]
    pub cleared: bool,
    /// Observations of agents' processes on the caller's machine.
    #[serde(default)]
    pub sightings: Vec<Sighting>,
    /// True when those processes have not been looked at yet. Where that decides, the answer asks to look first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub looks_later: bool,
    /// The work tree as the caller sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tree: Option<TreeNow>,
}

/// A client's subagent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct SubagentRef {
    /// The client's id of the subagent.
    pub id: Title,
    /// The kind of the subagent, in the client's word.
    #[serde(default)]
    pub kind: Option<Title>,
}

/// An event in a session.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
#[serde(deny_unknown_fields)]
pub enum SessionEvent {
    /// The session begins or continues.
    Started,
    /// The context was compacted.
    Compacted,
    /// A person sent a prompt.
    Prompted {
        /// The beginning of the prompt.
        text: Option<Title>,
    },
    /// Files are about to be changed.
    Editing {
        /// The files that are edited.
        paths: Vec<RepoPath>,
    },
    /// An operation is about to run that cannot be undone.
    Destroying {
        /// The operation that is about to run, such as `git_push`.
        operation: Name,
        /// The target of the operation.
        target: Option<Title>,
    },
    /// A tool was used.
    Worked {
        /// The files that the tool changed.
        #[serde(default)]
        paths: Vec<RepoPath>,
        /// The reason for the failure, when the tool failed.
        #[serde(default)]
        failed: Option<NoteText>,
    },
    /// The client's own task list was replaced.
    Planned {
        /// The tasks of the whole list, in order.
        tasks: Vec<PlannedTask>,
    },
    /// An entry of the client's own task list was added or moved.
    TaskMoved {
        /// The client's id of the entry.
        id: Title,
        /// The work to be done, where the client tells it.
        #[serde(default)]
        title: Option<Title>,
        /// The status of the entry, where the client tells it.
        #[serde(default)]
        status: Option<PlannedStatus>,
    },
    /// The context may be about to be compacted.
    Compacting,
    /// The client announces a compaction. It does so before every request, and hardly ever compacts.
    Announced,
    /// The agent ended its turn.
    Stopped {
        /// The agent's last words in the turn.
        said: Option<Title>,
    },
    /// The session ended.
    Ended,
    /// A probe of `fleet doctor`, which tries whether the hook reaches the fleet. Nothing is noted, and no agent is
    /// made.
    Probed,
}

/// An entry of a client's own task list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct PlannedTask {
    /// The work to be done.
    pub title: Title,
    /// The status of the task.
    pub status: PlannedStatus,
}

/// The status of a task of a client's own list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
#[serde(rename_all = "snake_case")]
pub enum PlannedStatus {
    /// The task has not begun.
    Pending,
    /// The task is under way.
    InProgress,
    /// The task is done.
    Completed,
    /// The task was given up.
    Cancelled,
}

/// The answer to an event of a session.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
pub struct Hooked {
    /// The agent of the session; none when it has none yet.
    pub agent: Option<Agent>,
    /// The mission that the agent works on.
    pub mission_id: Option<MissionId>,
    /// A text for the agent's model.
    pub context: Option<String>,
    /// The reason why the tool may not be used now.
    pub deny: Option<String>,
    /// The checkpoint that was taken.
    pub checkpoint_id: Option<CheckpointId>,
    /// True when a session began with this event.
    pub begun: bool,
    /// True when nothing was done, because the processes of agents are to be looked at first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub look_first: bool,
}

impl Operation for TellHook {
    const NAME: &'static str = "tell_hook";
    const ACCESS: Access = Access::Pulse;
    const SCOPE: Scope = Scope::Agent;
    const FENCED: bool = false;
    const BRIEFS: bool = true;
    const WHEN_FULL: WhenFull = WhenFull::UsesReserve;
    const OFFLINE: Offline = Offline::Dropped;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |op| ActsFor::Agent(op.client.as_str());
    type Outcome = Hooked;

    fn asked(&self) -> Result<String> {
        crate::fleet::to_json(&Self {
            tree: None,
            sightings: Vec::new(),
            ..self.clone()
        })
    }

    /// Most events are mere signs of life, and cost no more.
    fn note(&self, ctx: &mut OpContext<'_, '_>) -> Result<Option<Hooked>> {
        if matches!(self.event, SessionEvent::Probed) {
            return Ok(Some(self.heard()));
        }
        let Some(agent) = seat::of_session(ctx, self)? else {
            return Ok(None);
        };
        if seat::has_moved(&agent, self) {
            return Ok(None);
        }
        ctx.agent = Some(agent.clone());
        let is_quiet = match &self.event {
            SessionEvent::Worked { paths, failed } => {
                failed.is_none()
                    && paths.iter().all(|path| agent.files_modified.contains(path))
                    && !brief::is_owed(ctx, self)?
            }
            SessionEvent::Editing { paths } => {
                !work::locks_edits(ctx) || work::holds_all(ctx, &agent, paths)?
            }
            SessionEvent::Started
            | SessionEvent::Compacted
            | SessionEvent::Prompted { .. }
            | SessionEvent::Destroying { .. }
            | SessionEvent::Planned { .. }
            | SessionEvent::TaskMoved { .. }
            | SessionEvent::Compacting
            | SessionEvent::Stopped { .. }
            | SessionEvent::Ended
            | SessionEvent::Probed => false,
            SessionEvent::Announced => work::was_just_saved(ctx)?,
        };
        if !is_quiet || self.heartbeat().note(ctx)?.is_none() {
            return Ok(None);
        }
        Ok(Some(Hooked {
            agent: Some(agent),
            ..Hooked::default()
        }))
    }

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Hooked> {
        if matches!(self.event, SessionEvent::Probed) {
            return Ok(self.heard());
        }
        let mut answer = Hooked::default();
        let known = seat::of_session(ctx, self)?;
        if self.must_look(ctx, known.as_ref())? {
            answer.look_first = true;
            return Ok(answer);
        }
        let agent = match known {
            Some(agent) if !seat::has_moved(&agent, self) => agent,
            // The session was resumed in another process.
            Some(agent) => {
                answer.begun = true;
                seat::renew(ctx, &agent, self)?
            }
            // The end of an unknown session changes nothing.
            None if matches!(self.event, SessionEvent::Ended) => return Ok(answer),
            None => {
                answer.begun = true;
                seat::take(ctx, self)?
            }
        };
        speak_for(ctx.tx, &agent);
        ctx.agent = Some(agent);
        let mut said = Vec::new();
        said.extend(work::beat(ctx, &self.heartbeat())?);
        self.act(ctx, &mut answer)?;
        let mission = work::mission(ctx)?;
        answer.mission_id = mission.as_ref().map(|mission| mission.id);
        if let Some(mission) = &mission
            && let Some(room) = self.room
            && answer.deny.is_none()
        {
            said.extend(brief::deliver(ctx, self, mission, room)?);
        }
        answer.context = (!said.is_empty()).then(|| said.join("\n\n"));
        answer.agent.clone_from(&ctx.agent);
        Ok(answer)
    }
}

impl TellHook {
    /// Returns this event as if the session that started the subagent had reported it.
    fn of_parent(&self) -> Self {
        Self {
            subagent: None,
            ..self.clone()
        }
    }

    /// The answer to a probe.
    fn heard(&self) -> Hooked {
        Hooked {
            context: Some(format!("{}: heard", self.session)),
            ..Hooked::default()
        }
    }

    /// Returns true when it matters which agents still run, and the caller has not looked: for a seat, or for a lock
    /// that is in the way.
    fn must_look(&self, ctx: &mut OpContext<'_, '_>, known: Option<&Agent>) -> Result<bool> {
        Ok(self.looks_later
            && match (known, &self.event) {
                (None, SessionEvent::Ended) => false,
                (None, _) => true,
                (Some(agent), SessionEvent::Editing { paths }) => {
                    work::is_in_the_way(ctx, agent, paths)?
                }
                (Some(_), _) => false,
            })
    }

    fn heartbeat(&self) -> Heartbeat {
        Heartbeat {
            step: None,
            context_percent: None,
            // The advice for a full context is given once: with an event whose answer reaches the model.
            tokens: self
                .tokens
                .filter(|(_, total)| *total > 0 && self.room.is_some()),
        }
    }

    fn act(&self, ctx: &mut OpContext<'_, '_>, answer: &mut Hooked) -> Result<()> {
        match &self.event {
            SessionEvent::Started | SessionEvent::Probed => {}
            SessionEvent::Compacted => {
                if !brief::was_just_offered(ctx)? {
                    let evidence = CompactionEvidence::Hook;
                    let report = ReportCompaction {
                        agent: None,
                        evidence,
                    };
                    report.decide(ctx)?;
                    seat::refresh(ctx)?;
                }
            }
            SessionEvent::Prompted { text } => work::begin(ctx, text.as_ref())?,
            SessionEvent::Editing { paths } => {
                answer.deny = work::lock(ctx, paths, self)?;
            }
            SessionEvent::Destroying { operation, target } => {
                answer.checkpoint_id = before(ctx, operation, target.as_ref())?;
            }
            SessionEvent::Worked { paths, failed } => {
                work::touched(ctx, paths)?;
                if let Some(why) = failed {
                    work::failed(ctx, why)?;
                }
            }
            SessionEvent::Planned { tasks } => tasks::follow(ctx, tasks)?,
            SessionEvent::TaskMoved { id, title, status } => {
                tasks::follow_one(ctx, id, title.as_ref(), *status)?;
            }
            SessionEvent::Compacting => {
                answer.checkpoint_id = save(ctx, Reason::PreCompact, "Before a compaction")?;
            }
            SessionEvent::Announced => {
                if !work::was_just_saved(ctx)? {
                    answer.checkpoint_id = save(ctx, Reason::PreCompact, "Before a compaction")?;
                }
            }
            SessionEvent::Stopped { said } => {
                work::stopped(ctx, said.as_ref())?;
                answer.checkpoint_id = save(ctx, Reason::AgentComplete, "A turn ended")?;
                if self.subagent.is_some() {
                    seat::retire(ctx)?;
                }
            }
            SessionEvent::Ended => {
                work::release(ctx)?;
                seat::end_subagents(ctx)?;
                let ended = EndSession::default().decide(ctx)?;
                answer.checkpoint_id = ended.checkpoint_id;
                seat::refresh(ctx)?;
            }
        }
        Ok(())
    }
}

/// Takes a checkpoint of the mission that the agent works on, if something has changed.
fn save(ctx: &mut OpContext<'_, '_>, reason: Reason, why: &str) -> Result<Option<CheckpointId>> {
    match work::mission(ctx)? {
        Some(mission) => trigger(ctx, &mission, reason, why.to_owned(), Vec::new()),
        None => Ok(None),
    }
}

/// Takes a checkpoint before an operation that the client's command line marks as destructive. The policy's list,
/// which is for agents that ask by themselves, does not matter here.
fn before(
    ctx: &mut OpContext<'_, '_>,
    operation: &Name,
    target: Option<&Title>,
) -> Result<Option<CheckpointId>> {
    let why = match target {
        Some(target) => format!("Before {operation}: {target}"),
        None => format!("Before {operation}"),
    };
    save(ctx, Reason::BeforeDestructive, &why)
}
