//! Sorties, on both engines.
#![expect(clippy::unwrap_used, reason = "tests")]

use flightline::core::mission::MissionStatus;
use flightline::core::sortie::SortieStatus;
use flightline::core::{Code, Title};
use flightline::mission::{CreateMission, ShowMission};
use flightline::sortie::add::NewSortie;
use flightline::sortie::change::{ChangeSortie, SortieAction};
use flightline::sortie::claim::ClaimNext;
use flightline_testkit::{World, both_engines};

fn title(text: &str) -> Title {
    Title::parse("title", text).unwrap()
}

fn mission(world: &World, sorties: &[&str]) {
    let create = CreateMission {
        title: title("Implement user authentication"),
        objective: None,
        phase: None,
        stack_id: None,
        sprint: None,
        dispatch: None,
        states: [].into(),
        sorties: sorties
            .iter()
            .map(|name| NewSortie::titled(title(name)))
            .collect(),
    };
    world.run("", &create).unwrap();
}

both_engines! {
    fn a_sortie_goes_from_claimed_to_completed(world: &World) {
        mission(world, &["User model", "Login endpoint"]);
        let next = ClaimNext { mission: None, lock: false };
        let claimed = world.run("ada", &next).unwrap();
        assert_eq!(claimed.sortie.title.as_str(), "User model");
        assert_eq!(claimed.owner.as_deref(), Some("ada"));
        let complete = ChangeSortie {
            sortie: claimed.sortie.id.to_string(),
            action: SortieAction::Complete { output: None },
        };
        let refused = world.run("bob", &complete).unwrap_err();
        assert_eq!(refused.code, Code::NotYours);
        let done = world.run("ada", &complete).unwrap();
        assert_eq!(done.sortie.status, SortieStatus::Completed);
        assert_eq!(done.mission_percent, 50);
        let view = world.run("", &ShowMission { mission: None }).unwrap();
        assert_eq!(view.mission.status, MissionStatus::InProgress);
        assert!(flightline::doctor::examine(&mut world.fleet()).unwrap().healthy);
    }
}
