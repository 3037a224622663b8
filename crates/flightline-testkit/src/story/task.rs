//! One task, with all that can be known of it, and who is at it.

use flightline::sortie::add::NewSortie;
use flightline::sortie::report::UpdateSortie;

use super::{Story, create_mission, name, sortie};
use crate::World;

const TITLE: &str = "Write 29 files";

/// Ada is at task T060 of a mission.
///
/// # Panics
/// When the fleet refuses it.
#[must_use]
pub fn begun(world: &World) -> Story<'_> {
    let story = Story::new(world);
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

/// A report of it that says nothing yet.
#[must_use]
pub fn update(story: &Story<'_>) -> UpdateSortie {
    UpdateSortie {
        sortie: story.sortie_id(TITLE),
        ..UpdateSortie::default()
    }
}
