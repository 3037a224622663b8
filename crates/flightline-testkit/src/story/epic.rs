//! Seed C's agents: a primary that coordinates, and secondaries that each own a feature.

use flightline::agent::UpdateAgent;
use flightline::agent::monitor::{MonitorAgents, Monitored};
use flightline::agent::takeover::{TakeOver, TakenOver};
use flightline::core::Refusal;
use flightline::core::agent::{AgentStatus, Role};
use flightline::core::policy::Preset;
use flightline::mission::CreateMission;

use super::{Story, create_mission, name, note, path, sortie, title};
use crate::World;

/// The seed's epic: a mission of the primary, and a secondary at the step of the seed's example.
pub fn epic(world: &World) -> Story<'_> {
    let story = Story::under(world, Preset::Epic.policy());
    story.register("Agent-Primary", Role::Dispatch);
    let mission = CreateMission {
        dispatch: Some("Agent-Primary".to_owned()),
        ..create_mission("Epic", vec![sortie("spec.md"), sortie("checklist.md")])
    };
    story.run("", &mission).expect("a mission");
    story.register("Secondary-A", Role::Specialist);
    story.claim("Secondary-A", "spec.md").expect("a claim");
    story
        .lock("Secondary-A", &["feature_02_team_penalty/spec.md"])
        .expect("a lock");
    story
        .run("Secondary-A", &specification())
        .expect("an update");
    story
}

/// The update that the seed's secondary writes.
pub fn specification() -> UpdateAgent {
    UpdateAgent {
        status: Some(AgentStatus::InProgress),
        feature: Some(title("feature_02_team_penalty")),
        stage: Some(title("S2.P2")),
        phase: Some(title("Specification - In Progress")),
        step: Some(title("Writing Acceptance Criteria in spec.md")),
        completed_steps: vec![title("S2.P1 complete (Research Phase)")],
        next_steps: vec![
            title("Complete Acceptance Criteria section"),
            title("Finish checklist.md questions"),
            title("Transition to S2.P3"),
        ],
        files: vec![path("feature_02_team_penalty/spec.md")],
        recovery_instructions: Some(note("Resume from S2.P2 Specification Phase.")),
        next_checkpoint_ms: Some(900_000),
        ..UpdateAgent::default()
    }
}

impl Story<'_> {
    /// Has the monitor look at the agents.
    pub fn monitor(&self, agent: &str) -> Monitored {
        self.run(agent, &MonitorAgents::default())
            .expect("one can look")
    }

    /// The report of a look, to the letter.
    pub fn report_of(&self, agent: &str) -> Vec<String> {
        let seen = self.monitor(agent).agents.into_iter();
        seen.map(|agent| agent.line).collect()
    }

    pub fn take_over(&self, from: &str, to: &str) -> Result<TakenOver, Refusal> {
        self.run("", &take_over(from, to))
    }
}

pub fn take_over(from: &str, to: &str) -> TakeOver {
    TakeOver {
        from: from.to_owned(),
        to: name(to),
        session: None,
        force: false,
        sightings: Vec::new(),
    }
}
