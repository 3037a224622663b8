//! Moves a mission's workflow to another state, and lists the states that it went through.

use crate::Schema;
use flightline_core::checkpoint::Reason;
use flightline_core::event::{Event, EventType};
use flightline_core::mission::Mission;
use flightline_core::text::NoteText;
use flightline_core::{Code, Kind, Name, Refusal, Subject, Time};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{MissionView, view};
use crate::checkpoint::milestone::catch_up;
use crate::checkpoint::trigger::first_of;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;

/// Moves a mission's workflow to another state, or notes that it is to move.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct TransitionMission {
    /// The mission whose workflow moves; the current one when none is named.
    pub mission: Option<String>,
    /// The state that the workflow moves to.
    pub to: Name,
    /// The reason for the move: its trigger.
    pub reason: Option<NoteText>,
    /// True when the move only waits to happen.
    #[serde(default)]
    pub pending: bool,
}

/// A workflow state that a mission was in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct PastState {
    /// The name of the state.
    pub state: String,
    /// The time at which the state was entered.
    pub entered_at: Time,
    /// The time at which the state was left.
    pub exited_at: Option<Time>,
    /// The trigger of the move to the state.
    pub trigger: String,
}

impl Operation for TransitionMission {
    const NAME: &'static str = "transition_mission";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = MissionView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<MissionView> {
        let mut mission = ctx.mission(self.mission.as_deref())?;
        if !mission.status.is_open() {
            return Err(Refusal::new(
                Code::IllegalTransition,
                format!(
                    "the mission is {}, so its workflow cannot move",
                    mission.status.as_str()
                ),
            )
            .into());
        }
        mission.workflow.check(&self.to)?;
        let now = ctx.now();
        mission.updated_at = now;
        let trigger = self.reason.as_deref().unwrap_or("manual").to_owned();
        if self.pending {
            if !mission.workflow.pending.contains(&self.to) {
                mission.workflow.pending.push(self.to.clone());
            }
            ctx.tx.set(
                EventType::MissionTransitionPending,
                &mission,
                &json!({ "to": self.to, "trigger": trigger }),
            )?;
        } else {
            enter(ctx, &mut mission, self.to.clone(), &trigger)?;
            save_transition(ctx, &mission)?;
        }
        catch_up(ctx, mission.id)?;
        view(ctx, mission)
    }
}

/// Moves the workflow of a mission, and tells it.
pub(crate) fn enter(
    ctx: &mut OpContext<'_, '_>,
    mission: &mut Mission,
    to: Name,
    trigger: &str,
) -> Result<()> {
    mission.updated_at = ctx.now();
    mission.workflow.enter(to, ctx.now());
    let workflow = &mission.workflow;
    let data = json!({ "from": workflow.previous, "to": workflow.current, "trigger": trigger });
    ctx.tx.set(EventType::MissionTransitioned, mission, &data)?;
    Ok(())
}

/// Takes the checkpoint of a workflow that has moved.
pub(crate) fn save_transition(ctx: &mut OpContext<'_, '_>, mission: &Mission) -> Result<()> {
    let to = mission.workflow.current.as_ref();
    let details = format!("Moved to {}", to.map_or("", Name::as_str));
    first_of(ctx, mission, vec![(Reason::StateTransition, details)]).map(drop)
}

/// Maximum number of events about a mission that are searched for moves of its workflow.
const MOVES_LOOKED_AT: u64 = 10_000;

/// The states a workflow went through, oldest first: where it was moved, and where going back to a
/// checkpoint put it.
pub(crate) fn workflow_history(
    ctx: &mut OpContext<'_, '_>,
    mission: &Mission,
) -> Result<Vec<PastState>> {
    let of_mission = ctx
        .tx
        .events_of(Kind::Mission, &mission.key(), MOVES_LOOKED_AT)?;
    let is_move = |event: &Event| {
        matches!(
            event.event_type(),
            Some(EventType::MissionTransitioned | EventType::MissionRestored)
        ) && event.data["to"].is_string()
    };
    let mut events: Vec<Event> = of_mission.into_iter().rev().filter(is_move).collect();
    // A move that was told by another system happened when that says.
    let told = |event: &Event| Time::deserialize(&event.data["at"]).ok();
    let at = |event: &Event| told(event).unwrap_or(event.timestamp);
    if events.iter().any(|event| told(event).is_some()) {
        events.sort_by_key(at);
    }
    let text =
        |event: &Event, field: &str| event.data[field].as_str().unwrap_or_default().to_owned();
    let mut states: Vec<PastState> = Vec::new();
    for event in &events {
        if let Some(last) = states.last_mut() {
            last.exited_at = Some(at(event));
        }
        states.push(PastState {
            state: text(event, "to"),
            entered_at: at(event),
            exited_at: None,
            trigger: text(event, "trigger"),
        });
    }
    Ok(states)
}
