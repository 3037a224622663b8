//! Changes the record of a mission: its title, its objective, and the things it belongs to.

use crate::Schema;
use flightline_core::event::EventType;
use flightline_core::mission::{MissionStatus, Pinning};
use flightline_core::text::NoteText;
use flightline_core::{Code, Name, Refusal, Title};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{MissionView, short, view};
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Operation, Scope};
use crate::op_context::OpContext;

/// Changes the record of a mission. Fields that are left out stay as they are.
#[derive(Clone, Debug, Default, Serialize, Deserialize, Schema)]
#[serde(deny_unknown_fields)]
pub struct UpdateMission {
    /// The mission to change; the current one when none is named.
    pub mission: Option<String>,
    /// The title of the mission.
    pub title: Option<Title>,
    /// The objective of the mission: the state to be reached at its end.
    pub objective: Option<NoteText>,
    /// The phase that the mission is in.
    pub phase: Option<Title>,
    /// The technology stack that the mission belongs to.
    pub stack_id: Option<Name>,
    /// The sprint that the mission belongs to.
    pub sprint: Option<Title>,
    /// The agent that coordinates the mission.
    pub dispatch: Option<String>,
    /// The actors that may pin constraints on the mission.
    #[serde(default)]
    pub constraints_by: Option<Pinning>,
}

impl Operation for UpdateMission {
    const NAME: &'static str = "update_mission";
    const ACCESS: Access = Access::Write;
    const SCOPE: Scope = Scope::Agent;
    // Only a coordinator may change who gets its reports, and whose rules bind it.
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |op| match (&op.dispatch, op.constraints_by) {
        (None, None) => ActsFor::Caller,
        (_, _) => ActsFor::Fleet,
    };
    type Outcome = MissionView;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<MissionView> {
        let mut mission = ctx.mission(self.mission.as_deref())?;
        if mission.status == MissionStatus::Archived {
            return Err(Refusal::new(
                Code::IllegalTransition,
                format!("{} is archived, and stays as it is", short(mission.id)),
            )
            .into());
        }
        let mut changed = Vec::new();
        if let Some(title) = &self.title {
            mission.title = title.clone();
            changed.push("title");
        }
        if let Some(reference) = &self.dispatch {
            mission.dispatch = Some(ctx.find_agent(reference)?.id);
            changed.push("dispatch");
        }
        if self.objective.is_some() {
            mission.objective.clone_from(&self.objective);
            changed.push("objective");
        }
        if self.phase.is_some() {
            mission.phase.clone_from(&self.phase);
            changed.push("phase");
        }
        if self.stack_id.is_some() {
            mission.stack_id.clone_from(&self.stack_id);
            changed.push("stack_id");
        }
        if self.sprint.is_some() {
            mission.sprint.clone_from(&self.sprint);
            changed.push("sprint");
        }
        if let Some(constraints_by) = self.constraints_by {
            if !ctx.is_in_charge() {
                return Err(Refusal::new(
                    Code::NotYours,
                    "only people and dispatch may say who pins constraints",
                )
                .into());
            }
            mission.constraints_by = constraints_by;
            changed.push("constraints_by");
        }
        if !changed.is_empty() {
            mission.updated_at = ctx.now();
            let data = json!({ "title": mission.title, "changed": changed });
            ctx.tx.set(EventType::MissionUpdated, &mission, &data)?;
        }
        view(ctx, mission)
    }
}
