//! Operations on missions.

pub mod update;
mod workflow;

use crate::Schema;
use std::collections::BTreeMap;

use flightline_core::agent::Role;
use flightline_core::checkpoint::Reason;
use flightline_core::event::EventType;
use flightline_core::mission::{Mission, MissionStatus, Progress, Workflow};
use flightline_core::setting::CurrentMission;
use flightline_core::sortie::SortieStatus;
use flightline_core::text::NoteText;
use flightline_core::{CheckpointId, Code, Kind, MissionId, Name, Refusal, Time, Title};
use flightline_store::{Find, ListOrder, ListScope, RowList};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::checkpoint::take::NewCheckpoint;
use crate::checkpoint::trigger::try_take;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope, some_rows};
use crate::lock::LockView;
use crate::lock::release::release_all_of;
use crate::op_context::OpContext;
use crate::sortie::add::{NewSortie, add_all};
use crate::sortie::{SortieSummary, summaries};

pub use self::workflow::{PastState, TransitionMission};
pub(crate) use self::workflow::{enter, save_transition, workflow_history};

/// Creates a mission, with its first sorties.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct CreateMission {
    /// The title of the mission.
    pub title: Title,
    /// The objective of the mission: the state to be reached at its end.
    pub objective: Option<NoteText>,
    /// The phase in which the mission begins.
    pub phase: Option<Title>,
    /// The technology stack that the mission belongs to.
    pub stack_id: Option<Name>,
    /// The sprint that the mission belongs to.
    pub sprint: Option<Title>,
    /// The agent that coordinates the mission; else the caller, when it is a dispatch agent.
    pub dispatch: Option<String>,
    /// The states of the mission's workflow, each with the states that may follow it.
    #[serde(default)]
    pub states: BTreeMap<Name, Vec<Name>>,
    /// The first sorties of the mission, in order.
    #[serde(default)]
    pub sorties: Vec<NewSortie>,
}

impl CreateMission {
    /// A mission with a title and nothing else.
    pub fn titled(title: Title) -> Self {
        Self {
            title,
            objective: None,
            phase: None,
            stack_id: None,
            sprint: None,
            dispatch: None,
            states: BTreeMap::new(),
            sorties: Vec::new(),
        }
    }
}

/// Lists missions, newest first.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ListMissions {
    /// List archived missions too.
    #[serde(default)]
    pub archived: bool,
    /// Maximum number of entries.
    pub limit: u64,
}

/// Shows one mission with its sorties.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ShowMission {
    /// The mission to show; the current one when none is named.
    pub mission: Option<String>,
}

/// Moves a mission to another status.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct ChangeMission {
    /// The mission to change; the current one when none is named.
    pub mission: Option<String>,
    /// The status that the mission gets.
    pub to: MissionStatus,
    /// The reason for the change of status.
    pub reason: Option<NoteText>,
}

/// Makes a mission the caller's current one.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct UseMission {
    /// The mission that becomes the current one.
    pub mission: String,
}

/// A mission with its progress and its sorties.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct MissionView {
    /// The mission as it is stored.
    pub mission: Mission,
    /// The progress of the mission.
    pub progress: Progress,
    /// The progress to show, in percent.
    pub progress_percent: u8,
    /// The sorties of the mission, in order.
    pub sorties: Vec<SortieSummary>,
    /// The states that the workflow went through, oldest first.
    pub history: Vec<PastState>,
    /// Locks that this change released.
    #[serde(default)]
    pub released_locks: Vec<LockView>,
    /// The checkpoint that was taken because the mission ended.
    #[serde(default)]
    pub checkpoint: Option<CheckpointId>,
    /// True when the request changed nothing, because the mission was in the requested state already.
    #[serde(default)]
    pub already: bool,
}

/// A mission in a list.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct MissionSummary {
    /// The mission's id.
    pub id: MissionId,
    /// The title of the mission.
    pub title: String,
    /// The current status of the mission.
    pub status: String,
    /// The progress of the mission.
    pub progress: Progress,
    /// The progress to show, in percent.
    pub progress_percent: u8,
    /// Time of the last change of the mission's record.
    pub updated_at: Time,
    /// True when the mission is the caller's current one.
    pub current: bool,
}

impl Operation for CreateMission {
    const NAME: &'static str = "create_mission";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |op| ActsFor::named(op.dispatch.as_deref());
    type Outcome = MissionView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<MissionView> {
        for (from, next) in &self.states {
            if let Some(unknown) = next.iter().find(|to| !self.states.contains_key(to)) {
                return Err(Refusal::invalid(format!(
                    "the state `{from}` leads to `{unknown}`, which is not declared"
                ))
                .hint(format!("declare it too: `--state {unknown}`"))
                .into());
            }
        }
        let dispatch = match &self.dispatch {
            Some(reference) => Some(ctx.find_agent(reference)?.id),
            None => ctx
                .agent
                .as_ref()
                .filter(|agent| agent.role == Role::Dispatch)
                .map(|agent| agent.id),
        };
        let mission = Mission {
            objective: self.objective.clone(),
            phase: self.phase.clone(),
            workflow: Workflow {
                states: self.states.clone(),
                ..Workflow::default()
            },
            stack_id: self.stack_id.clone(),
            sprint: self.sprint.clone(),
            dispatch,
            ..Mission::new(MissionId::new(ctx.tx.uuid()), self.title.clone(), ctx.now())
        };
        ctx.tx.set(
            EventType::MissionCreated,
            &mission,
            &json!({ "title": mission.title }),
        )?;
        add_all(ctx, &mission, &self.sorties)?;
        view(ctx, mission)
    }
}

impl Operation for ListMissions {
    const NAME: &'static str = "list_missions";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = Vec<MissionSummary>;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<Vec<MissionSummary>> {
        let current = ctx.current_mission()?.map(|mission| mission.id);
        let archived = (!self.archived).then_some(MissionStatus::Archived.as_str());
        let list = RowList::new(Kind::Mission, ListScope::All, archived.as_slice());
        let rows = some_rows(ctx, list, ListOrder::NEWEST, self.limit)?;
        rows.into_iter()
            .map(|row| {
                let id: MissionId = row.typed_id()?;
                let progress = ctx.progress(id)?;
                Ok(MissionSummary {
                    id,
                    title: row.name.unwrap_or_default(),
                    status: row.status,
                    progress,
                    progress_percent: progress.percent(),
                    updated_at: row.at,
                    current: current == Some(id),
                })
            })
            .collect()
    }
}

impl Operation for ShowMission {
    const NAME: &'static str = "show_mission";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = MissionView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<MissionView> {
        let mission = ctx.mission(self.mission.as_deref())?;
        view(ctx, mission)
    }
}

impl Operation for ChangeMission {
    const NAME: &'static str = "change_mission";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    // All who work on it are told to stop.
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |op| match op.to {
        MissionStatus::InProgress => ActsFor::Caller,
        MissionStatus::Pending
        | MissionStatus::Paused
        | MissionStatus::Completed
        | MissionStatus::Failed
        | MissionStatus::Archived => ActsFor::Fleet,
    };
    type Outcome = MissionView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<MissionView> {
        let mut mission = ctx.mission(self.mission.as_deref())?;
        if mission.status == self.to {
            return Ok(MissionView {
                already: true,
                ..view(ctx, mission)?
            });
        }
        check_move(&mission, self.to)?;
        // Beginning is part of working; taking up a stopped mission is not.
        if mission.status != MissionStatus::Pending && !ctx.coordinates() {
            return Err(Refusal::new(
                Code::Forbidden,
                format!(
                    "{} was {}, and only a token of scope `dispatch` can continue it",
                    short(mission.id),
                    mission.status.as_str()
                ),
            )
            .hint("ask for it with `fleet mail send --to dispatch --subject \"…\"`")
            .into());
        }
        if self.to == MissionStatus::Completed {
            refuse_unfinished(ctx, &mission)?;
        }
        let (from, now) = (mission.status, ctx.now());
        mission.status = self.to;
        mission.updated_at = now;
        mission.reason.clone_from(&self.reason);
        match self.to {
            MissionStatus::InProgress => {
                mission.started_at.get_or_insert(now);
                mission.completed_at = None;
            }
            MissionStatus::Completed | MissionStatus::Failed => mission.completed_at = Some(now),
            MissionStatus::Pending | MissionStatus::Paused | MissionStatus::Archived => {}
        }
        ctx.tx.set(
            event_type(self.to),
            &mission,
            &json!({ "from": from.as_str(), "reason": self.reason }),
        )?;
        let released_locks = match self.to {
            MissionStatus::Completed | MissionStatus::Failed | MissionStatus::Archived => {
                let why = format!("the mission is {}", self.to.as_str());
                release_all_of(ctx, mission.id, &why)?
            }
            MissionStatus::Pending | MissionStatus::InProgress | MissionStatus::Paused => {
                Vec::new()
            }
        };
        let checkpoint = match self.to.is_open() {
            true => None,
            false => save_end(ctx, &mission)?,
        };
        Ok(MissionView {
            released_locks,
            checkpoint,
            ..view(ctx, mission)?
        })
    }
}

impl Operation for UseMission {
    const NAME: &'static str = "use_mission";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = MissionView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<MissionView> {
        let mission = ctx.mission(Some(&self.mission))?;
        if !mission.status.is_open() {
            return Err(Refusal::new(
                Code::IllegalTransition,
                format!(
                    "the mission is {}, so there is nothing to work on",
                    mission.status.as_str()
                ),
            )
            .into());
        }
        let of = ctx
            .agent_id()
            .map_or_else(|| "user".to_owned(), |id| id.to_string());
        let choice = CurrentMission {
            of,
            mission_id: mission.id,
        };
        ctx.tx.set(
            EventType::MissionChosen,
            &choice,
            &json!({ "mission_id": mission.id }),
        )?;
        view(ctx, mission)
    }
}

/// Begins a mission whose first sortie is taken.
pub(crate) fn begin_if_pending(ctx: &mut OpContext<'_, '_>, id: MissionId) -> Result<Mission> {
    let mission = ctx.mission_of(id)?;
    match mission.status {
        MissionStatus::InProgress => Ok(mission),
        MissionStatus::Pending => {
            let mut begun = mission;
            begun.status = MissionStatus::InProgress;
            begun.started_at = Some(ctx.now());
            begun.updated_at = ctx.now();
            ctx.tx.set(
                event_type(MissionStatus::InProgress),
                &begun,
                &json!({ "from": "pending" }),
            )?;
            Ok(begun)
        }
        MissionStatus::Paused
        | MissionStatus::Completed
        | MissionStatus::Failed
        | MissionStatus::Archived => Err(Refusal::new(
            Code::IllegalTransition,
            format!("the mission is {}", mission.status.as_str()),
        )
        .hint(match mission.status {
            MissionStatus::Paused | MissionStatus::Failed => {
                format!("continue it with `fleet missions start {}`", short(id))
            }
            _ => "choose another with `fleet missions use ID`".to_owned(),
        })
        .into()),
    }
}

fn check_move(mission: &Mission, to: MissionStatus) -> Result<()> {
    let next = mission.status.next();
    if next.contains(&to) {
        return Ok(());
    }
    let legal: Vec<&str> = next.iter().map(|status| status.as_str()).collect();
    let legal = if legal.is_empty() {
        "nothing".to_owned()
    } else {
        legal.join(", ")
    };
    let (id, status) = (short(mission.id), mission.status.as_str());
    Err(Refusal::new(
        Code::IllegalTransition,
        format!(
            "{id} (\"{}\") is {status} and cannot become {}",
            mission.title,
            to.as_str()
        ),
    )
    .hint(format!("from {status} it may become: {legal}"))
    .details(json!({ "from": status, "to": to.as_str(), "legal": next }))
    .into())
}

fn refuse_unfinished(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<()> {
    let rows = ctx.tx.rows(Kind::Sortie, Find::Mission(mission.id))?;
    let open: Vec<_> = rows
        .into_iter()
        .filter(|row| !SortieStatus::from_word(&row.status).is_some_and(SortieStatus::is_settled))
        .collect();
    let Some(first) = open.first() else {
        return Ok(());
    };
    let name = first.name.as_deref().unwrap_or_default();
    let count = open.len();
    let noun = if count == 1 {
        "sortie is"
    } else {
        "sorties are"
    };
    Err(Refusal::new(
        Code::Unfinished,
        format!(
            "cannot complete {}: {count} {noun} not completed, first {} (\"{name}\")",
            short(mission.id),
            &first.id[..12]
        ),
    )
    .hint(
        "see them with `fleet sorties list`, or give up with `fleet missions fail --reason \"…\"`",
    )
    .details(json!({ "sorties": open.iter().map(|row| row.id.as_str()).collect::<Vec<_>>() }))
    .into())
}

fn view(ctx: &mut OpContext<'_, '_>, mission: Mission) -> Result<MissionView> {
    let sorties = summaries(ctx, mission.id)?;
    let progress = ctx.progress(mission.id)?;
    let history = workflow_history(ctx, &mission)?;
    Ok(MissionView {
        progress_percent: progress.percent(),
        mission,
        progress,
        sorties,
        history,
        released_locks: Vec::new(),
        checkpoint: None,
        already: false,
    })
}

/// Takes the checkpoint of a mission that has ended: its final one, and what says so should the store be lost.
fn save_end(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<Option<CheckpointId>> {
    let taking = NewCheckpoint {
        mission,
        reason: Reason::MissionEnded,
        details: Some(format!("The mission is {}", mission.status.as_str())),
        note: None,
        blockers: Vec::new(),
    };
    Ok(try_take(ctx, &taking)?.ok().map(|taken| taken.id))
}

fn event_type(to: MissionStatus) -> EventType {
    match to {
        MissionStatus::Pending => EventType::MissionReset,
        MissionStatus::InProgress => EventType::MissionStarted,
        MissionStatus::Paused => EventType::MissionPaused,
        MissionStatus::Completed => EventType::MissionCompleted,
        MissionStatus::Failed => EventType::MissionFailed,
        MissionStatus::Archived => EventType::MissionArchived,
    }
}

/// An id short enough for a sentence; lists show the shortest unique one.
pub(crate) fn short(id: impl std::fmt::Display) -> String {
    id.to_string().chars().take(SHORT).collect()
}

/// Length of the short form of an id in sentences: its prefix, and eight digits.
pub(crate) const SHORT: usize = 12;
