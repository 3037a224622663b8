//! Every value has copies, on both engines: one sound one is enough, it is said, and it mends the others.
#![expect(clippy::unwrap_used, reason = "tests")]

use flightline::checkpoint::inspect::{ShowCheckpoint, VerifyCheckpoints};
use flightline::core::Kind;
use flightline::core::checkpoint::CheckpointStatus;
use flightline::core::mission::Mission;
use flightline::status::ShowStatus;
use flightline_testkit::story::Story;
use flightline_testkit::story::recovery::roll_forward;
use flightline_testkit::{World, both_engines, caller, damage};

/// A mission with one of four sorties completed, and one that ada is at.
fn working(world: &World) -> Story<'_> {
    let story = Story::new(world);
    story.mission("Add login", &["Model", "Endpoint", "Docs", "Tests"]);
    story.finish("ada", &["Model"]);
    story.claim("ada", "Endpoint").unwrap();
    story
}

fn all_sound(story: &Story<'_>) -> bool {
    let verdicts = story.run("", &VerifyCheckpoints { checkpoint: None });
    verdicts.unwrap().iter().all(|verdict| verdict.sound)
}

both_engines! {
    fn a_value_that_is_damaged_in_the_journal_is_taken_from_the_last_value(world: &World) {
        let story = working(world);
        let taken = story.checkpoint();
        damage::journal(world, Kind::Sortie, &story.sortie_id("Endpoint"), story.checkpoints()[0].cut.rev);
        assert!(all_sound(&story));
        let shown = story.run("", &ShowCheckpoint { checkpoint: "@latest".to_owned() }).unwrap();
        assert_eq!(shown.sorties, taken.sorties);
        let said = story.with_fleet(|fleet| fleet.store().take_noticed());
        assert!(said.iter().any(|damage| damage.to_string().contains("is damaged in the journal")), "{said:?}");
        let done = story.resume("", vec![]).unwrap();
        assert_eq!(done.checkpoint_id, taken.id);
        assert!(done.warnings.len() == 1 && done.warnings[0].starts_with(&format!("sortie {} is damaged in the journal", story.sortie_id("Endpoint"))), "{:?}", done.warnings);
        assert!(done.warnings[0].ends_with("; repaired"), "{:?}", done.warnings);
        let repaired = story.events_of("value_repaired").pop().unwrap();
        assert_eq!((repaired.actor.as_str(), repaired.subject), ("flightline", story.sortie_id("Endpoint")));
        assert_eq!(story.resume("", vec![]).unwrap().warnings, [] as [&str; 0], "said once");
        assert_eq!(story.checkpoints().pop().unwrap().status, CheckpointStatus::Valid);
    }

    fn a_dry_run_repairs_nothing(world: &World) {
        let story = working(world);
        story.checkpoint();
        damage::journal(world, Kind::Sortie, &story.sortie_id("Endpoint"), 0);
        let (rev, before) = (story.rev(), world.problems());
        let predicted = story.with_fleet(|fleet| fleet.rehearse(&roll_forward(vec![]), &caller(""))).unwrap();
        assert_eq!((story.rev(), world.problems()), (rev, before));
        assert_eq!(predicted.warnings, story.resume("", vec![]).unwrap().warnings);
    }

    fn a_damaged_last_value_is_read_from_the_journal_and_work_goes_on(world: &World) {
        let story = working(world);
        let (endpoint, mission) = (story.sortie_id("Endpoint"), story.all::<Mission>()[0].id.to_string());
        damage::live(world, Kind::Sortie, &endpoint);
        damage::live(world, Kind::Mission, &mission);
        let status = story.run("", &ShowStatus { mission: None, sightings: vec![] }).unwrap();
        let said = status.attention.iter().find(|one| one.command == "fleet doctor --fix").unwrap();
        assert!(said.what.starts_with(&format!("the last value of mission {mission} is damaged")) && said.what.ends_with("(and 1 more like it)"), "{said:?}");
        assert_eq!(story.ailments().len(), 2, "the doctor sees it: {:?}", story.ailments());
        let done = story.claim("ada", "Docs").and_then(|_| story.resume("ada", vec![])).unwrap();
        assert!(done.warnings.iter().any(|said| said.ends_with("; repaired")), "{:?}", done.warnings);
        assert_eq!(story.ailments(), [] as [&str; 0]);
    }

    fn what_has_no_sound_copy_is_an_error_that_names_it(world: &World) {
        let story = working(world);
        let endpoint = story.sortie_id("Endpoint");
        damage::everywhere(world, Kind::Sortie, &endpoint, 0);
        let refused = story.change("ada", "Endpoint", flightline::sortie::change::SortieAction::Complete { output: None }).unwrap_err();
        assert!(refused.message.contains(&format!("sortie {endpoint} does not match its checksum")), "{}", refused.message);
    }
}
