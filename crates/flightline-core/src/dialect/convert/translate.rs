//! From each dialect to the common record and back.

use super::Given;
use crate::checkpoint::{CheckpointStatus, Reason};
use crate::dialect::compress::Compression;
use crate::dialect::field::{Extra, Maybe, Stamp};
use crate::dialect::record::{Record, Standing};
use crate::dialect::{epic, orchestrator, recovery, sitebuilder};
use crate::error::Refusal;
use crate::time::Time;

fn texts(field: &Maybe<Vec<String>>) -> Vec<String> {
    field.get().cloned().unwrap_or_default()
}

fn time(field: &Maybe<Stamp>) -> Option<Time> {
    field.get().map(Stamp::time)
}

pub(super) const fn standing_of_task(status: &sitebuilder::TaskStatus) -> Option<Standing> {
    match status {
        sitebuilder::TaskStatus::InProgress => Some(Standing::InProgress),
        sitebuilder::TaskStatus::Complete => Some(Standing::Complete),
        sitebuilder::TaskStatus::Blocked => Some(Standing::Blocked),
        sitebuilder::TaskStatus::Other(_) => None,
    }
}

pub(super) fn of_sitebuilder(document: &sitebuilder::Checkpoint) -> Record {
    use sitebuilder::ItemStatus;
    let items = document.subtasks.get().and_then(|it| it.items.get());
    let of = |status: ItemStatus| -> Vec<String> {
        let items = items.into_iter().flatten();
        let same = items.filter(|item| item.status.get() == Some(&status));
        same.map(|item| item.id.clone()).collect()
    };
    let mut at_work = of(ItemStatus::InProgress).into_iter();
    let current = at_work.next();
    let errors = document.errors.get().into_iter().flatten();
    Record {
        task: Some(document.task_id.clone()),
        objective: document.task_title.get().cloned(),
        agent: Some(document.agent.clone()),
        standing: standing_of_task(&document.status),
        at: time(&document.updated_at),
        started_at: time(&document.started_at),
        completed_at: time(&document.completed_at),
        files_created: texts(&document.files_created),
        files_modified: texts(&document.files_modified),
        blockers: errors
            .filter(|error| blocks(error))
            .map(|error| error.message.clone())
            .collect(),
        resumable: document.resumable.get().copied(),
        instructions: document.resume_instructions.get().cloned(),
        done: of(ItemStatus::Complete),
        current,
        next: at_work.chain(of(ItemStatus::Pending)).collect(),
        ..Record::default()
    }
}

pub(super) fn to_sitebuilder(record: Record) -> Result<sitebuilder::Checkpoint, Refusal> {
    use sitebuilder::{Item, ItemStatus, Subtasks, TaskError, TaskStatus};
    let (agent, task) = (
        record.agent.unwrap_or_default(),
        record.task.unwrap_or_default(),
    );
    let began = record.started_at.or(record.at);
    let began = began.unwrap_or(Time::from_millis(0));
    let id = sitebuilder::checkpoint_id(&agent, &task, began)?;
    let status = match record.standing {
        Some(Standing::Complete) => TaskStatus::Complete,
        Some(Standing::Blocked | Standing::Failed | Standing::Skipped) => TaskStatus::Blocked,
        Some(Standing::InProgress | Standing::Pending | Standing::Waiting) | None => {
            TaskStatus::InProgress
        }
    };
    let item = |status: ItemStatus| {
        move |id: String| Item {
            id,
            status: Maybe::Is(status.clone()),
            output: Maybe::Absent,
            extra: Extra::default(),
        }
    };
    let completed = record.done.len() as u64;
    let done = record.done.into_iter().map(item(ItemStatus::Complete));
    let current = record.current.into_iter().map(item(ItemStatus::InProgress));
    let next = record.next.into_iter().map(item(ItemStatus::Pending));
    let items: Vec<Item> = done.chain(current).chain(next).collect();
    let errors: Vec<TaskError> = record
        .blockers
        .into_iter()
        .map(|message| TaskError {
            kind: Maybe::Absent,
            message,
            timestamp: Maybe::Absent,
            blocking: Maybe::Is(true),
            extra: Extra::default(),
        })
        .collect();
    let mut document = sitebuilder::Checkpoint::new(id, agent, task, status);
    document.task_title = record.objective.into();
    document.updated_at = record.at.map(Stamp::exact).into();
    document.started_at = record.started_at.map(Stamp::exact).into();
    document.completed_at = record.completed_at.map(Stamp::exact).into();
    document.files_created = some(record.files_created);
    document.files_modified = some(record.files_modified);
    document.errors = some(errors);
    document.resumable = record.resumable.into();
    document.resume_instructions = record.instructions.into();
    if !items.is_empty() {
        document.subtasks = Maybe::Is(Subtasks {
            total: Maybe::Is(items.len() as u64),
            completed: Maybe::Is(completed),
            failed: Maybe::Is(0),
            items: Maybe::Is(items),
            extra: Extra::default(),
        });
    }
    Ok(document)
}

/// A list, if there is something in it.
fn some<T>(items: Vec<T>) -> Maybe<Vec<T>> {
    match items.is_empty() {
        true => Maybe::Absent,
        false => Maybe::Is(items),
    }
}

pub(super) fn of_epic(document: &epic::Checkpoint) -> Record {
    use epic::AgentStatus;
    Record {
        task: document.feature.get().cloned(),
        agent: Some(document.agent_id.clone()),
        session: document.session_id.get().cloned(),
        stage: document.stage.get().cloned(),
        standing: document.status.get().and_then(|status| match status {
            AgentStatus::InProgress => Some(Standing::InProgress),
            AgentStatus::Waiting => Some(Standing::Waiting),
            AgentStatus::Blocked => Some(Standing::Blocked),
            AgentStatus::Complete => Some(Standing::Complete),
            AgentStatus::Other(_) => None,
        }),
        at: Some(document.last_checkpoint.time()),
        files_modified: texts(&document.files_modified),
        blockers: texts(&document.blockers),
        resumable: document.can_resume.get().copied(),
        instructions: document.recovery_instructions.get().cloned(),
        done: texts(&document.completed_steps),
        current: document.current_step.get().cloned(),
        next: texts(&document.next_steps),
        ..Record::default()
    }
}

pub(super) fn to_epic(record: Record) -> epic::Checkpoint {
    use epic::AgentStatus;
    let at = record.at.unwrap_or(Time::from_millis(0));
    let agent = record.agent.unwrap_or_default();
    let mut document = epic::Checkpoint::new(agent, Stamp::exact(at));
    document.session_id = record.session.into();
    document.feature = record.task.into();
    document.stage = record.stage.into();
    let status = record.standing.map(|standing| match standing {
        Standing::InProgress => AgentStatus::InProgress,
        Standing::Waiting | Standing::Pending => AgentStatus::Waiting,
        Standing::Blocked | Standing::Failed | Standing::Skipped => AgentStatus::Blocked,
        Standing::Complete => AgentStatus::Complete,
    });
    document.status = status.into();
    document.can_resume = record.resumable.into();
    document.blockers = some(record.blockers);
    document.files_modified = some(record.files_modified);
    document.recovery_instructions = record.instructions.into();
    document.current_step = record.current.into();
    document.completed_steps = some(record.done);
    document.next_steps = some(record.next);
    document
}

/// The agent a document of seed D is about: the one to resume with, or the only one.
pub(super) fn main_agent(document: &orchestrator::Checkpoint) -> Option<&orchestrator::Agent> {
    match (
        &document.recovery.resume_from_agent,
        document.agents.as_slice(),
    ) {
        (Some(id), agents) => agents.iter().find(|agent| agent.agent_id == *id),
        (None, [only]) => Some(only),
        (None, _) => None,
    }
}

pub(super) fn of_orchestrator(document: &orchestrator::Checkpoint) -> Record {
    use orchestrator::AgentStatus;
    let agent = main_agent(document);
    let files = &document.file_system;
    Record {
        objective: Some(document.context.task_description.clone()),
        agent: agent.map(|agent| agent.agent_id.clone()),
        session: Some(document.context.session_id.clone()),
        stage: Some(document.workflow.current_state.clone()),
        standing: agent.map(|agent| match agent.status {
            AgentStatus::Pending => Standing::Pending,
            AgentStatus::Running => Standing::InProgress,
            AgentStatus::Completed => Standing::Complete,
            AgentStatus::Failed => Standing::Failed,
            AgentStatus::Skipped => Standing::Skipped,
        }),
        at: Some(document.created_at.time()),
        started_at: agent.and_then(|agent| agent.started_at.as_ref().map(Stamp::time)),
        completed_at: agent.and_then(|agent| agent.completed_at.as_ref().map(Stamp::time)),
        files_created: files.created_files.clone(),
        files_modified: files
            .modified_files
            .iter()
            .map(|it| it.path.clone())
            .collect(),
        blockers: document.recovery.blockers.clone(),
        resumable: Some(document.recovery.can_resume),
        reason: Some(document.trigger.to_reason()),
        ..Record::default()
    }
}

pub(super) fn to_orchestrator(record: Record, given: &Given) -> orchestrator::Checkpoint {
    use orchestrator::{
        Agent, AgentStatus, Checkpoint, Checksums, Context, FileSystem, Metadata, Recovery,
        Trigger, VERSION, Workflow,
    };
    let extra = Extra::default;
    let reason = record.reason.unwrap_or(Reason::Manual);
    let status = match record.standing {
        Some(Standing::InProgress) => AgentStatus::Running,
        Some(Standing::Complete) => AgentStatus::Completed,
        Some(Standing::Failed) => AgentStatus::Failed,
        Some(Standing::Skipped) => AgentStatus::Skipped,
        Some(Standing::Pending | Standing::Waiting | Standing::Blocked) | None => {
            AgentStatus::Pending
        }
    };
    let agents: Vec<Agent> = record
        .agent
        .into_iter()
        .map(|agent_id| Agent {
            agent_id,
            status,
            started_at: record.started_at.map(Stamp::millis),
            completed_at: record.completed_at.map(Stamp::millis),
            input: None,
            output: None,
            error: None,
            attempts: 0,
            token_usage: None,
            extra: extra(),
        })
        .collect();
    let running = agents.iter().find(|_| status == AgentStatus::Running);
    let state = record.stage.unwrap_or_default();
    let recovery = Recovery {
        can_resume: record.resumable.unwrap_or_default(),
        resume_from_agent: running.map(|agent| agent.agent_id.clone()),
        resume_from_state: Some(state.clone()),
        blockers: record.blockers,
        extra: extra(),
    };
    let mut document = Checkpoint {
        id: given.id.clone(),
        version: VERSION.to_owned(),
        created_at: Stamp::millis(record.at.unwrap_or(Time::from_millis(0))),
        trigger: Trigger::nearest(reason),
        trigger_reason: reason.as_str().to_owned(),
        status: CheckpointStatus::Valid,
        workflow: Workflow {
            current_state: state,
            previous_state: None,
            state_history: Vec::new(),
            pending_transitions: Vec::new(),
            extra: extra(),
        },
        agents,
        context: Context {
            project_id: given.project.clone(),
            session_id: record.session.unwrap_or_default(),
            task_description: record.objective.unwrap_or_default(),
            work_breakdown: None,
            artifacts: Vec::new(),
            lessons: Vec::new(),
            decisions: Vec::new(),
            extra: extra(),
        },
        file_system: FileSystem {
            created_files: record.files_created,
            ..FileSystem::default()
        },
        metadata: Metadata {
            orchestrator_version: VERSION.to_owned(),
            checkpoint_size: 0.into(),
            compression_type: Compression::None,
            checksums: Checksums::default(),
            extra: extra(),
        },
        recovery,
        extra: extra(),
    };
    document.seal();
    document
}

pub(super) fn of_recovery(document: &recovery::Checkpoint) -> Record {
    let state = document.state.get();
    let context = document.context.get();
    let phase = state.and_then(|state| state.current_phase.get());
    let reason = document.reason.get();
    Record {
        task: document.current_task().map(str::to_owned),
        objective: context.and_then(|context| context.active_objective.get().cloned()),
        stage: phase.map(|phase| phase.as_str().to_owned()),
        at: match &document.timestamp {
            recovery::Timestamp::At(stamp) => Some(stamp.time()),
            recovery::Timestamp::Empty | recovery::Timestamp::Null => None,
        },
        instructions: document.resume_instructions.get().cloned(),
        next: texts(&document.next_steps),
        reason: reason.and_then(recovery::CheckpointReason::to_reason),
        ..Record::default()
    }
}

pub(super) fn to_recovery(record: Record) -> recovery::Checkpoint {
    use recovery::{CheckpointReason, Context, Phase, State, Tasks, Timestamp};
    let at = record.at.map(Stamp::exact);
    let mut document = recovery::Checkpoint::new(at.map_or(Timestamp::Empty, Timestamp::At));
    document.reason = record.reason.map(CheckpointReason::of).into();
    if record.task.is_some() || record.stage.is_some() {
        document.state = Maybe::Is(State {
            in_progress: record.task.map(Tasks::One).into(),
            current_phase: record.stage.map(|it| Phase::from_word(&it)).into(),
            ..State::default()
        });
    }
    if record.objective.is_some() {
        document.context = Maybe::Is(Context {
            active_objective: record.objective.into(),
            ..Context::default()
        });
    }
    document.next_steps = some(record.next);
    document.resume_instructions = record.instructions.into();
    document
}

pub(super) fn blocks(error: &sitebuilder::TaskError) -> bool {
    error.blocking.get() == Some(&true)
}
