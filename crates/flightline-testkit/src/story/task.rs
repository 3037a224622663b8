//! A story about one task with all its fields, and its agent.

use flightline::core::policy::Policy;
use flightline::sortie::add::NewSortie;
use flightline::sortie::report::UpdateSortie;

use super::{Story, create_mission, name, sortie};
use crate::World;

const TITLE: &str = "Write 29 files";

/// Begins a story in which ada is at task T060 of a mission.
pub fn begun(world: &World) -> Story<'_> {
    begin(Story::new(world))
}

/// Begins a story in which ada is at the task under a policy.
pub fn begun_under(world: &World, policy: Policy) -> Story<'_> {
    begin(Story::under(world, policy))
}

fn begin(story: Story<'_>) -> Story<'_> {
    let task = NewSortie {
        task_id: Some(name("T060")),
        criteria: vec![name("tests_pass"), name("docs_written")],
        estimate_ms: Some(3_600_000),
        ..sortie(TITLE)
    };
    story
        .run("", &create_mission("Build the site", vec![task]))
        .expect("a mission");
    story.claim("ada", TITLE).expect("a claim");
    story
}

/// The request for a report of the task, still empty.
pub fn update(story: &Story<'_>) -> UpdateSortie {
    UpdateSortie {
        sortie: story.sortie_id(TITLE),
        ..UpdateSortie::default()
    }
}
