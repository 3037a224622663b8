//! The mission that most stories are about: "Add login", and its agents.

use flightline::core::agent::Role;

use super::{Story, create_mission, sortie};
use crate::World;

/// Begins a story in which ada is at "Model", the first of the mission's four sorties.
pub fn at_model(world: &World) -> Story<'_> {
    let acts = "
        mission Add login: Model, Endpoint, Docs, Tests
        ada claims Model
    ";
    Story::begun(world, acts)
}

/// Begins a story in which ada, in process 7, has completed "Model" and is at "Endpoint".
pub fn at_endpoint(world: &World) -> Story<'_> {
    let acts = "
        mission Add login: Model, Endpoint, Docs, Tests
        ada boards 7
        ada finishes Model
        ada claims Endpoint
    ";
    Story::begun(world, acts)
}

/// Begins a story in which control, in process 3, coordinates the mission with these sorties.
pub fn led<'w>(world: &'w World, sorties: &[&str]) -> Story<'w> {
    let story = Story::new(world);
    story.board("control", Role::Dispatch, 3);
    let sorties = sorties.iter().map(|named| sortie(named)).collect();
    story
        .run("control", &create_mission("Add login", sorties))
        .expect("a mission is created");
    story
}
