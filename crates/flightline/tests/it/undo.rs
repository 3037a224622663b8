//! Taking a rewind back, on both engines.

use std::collections::BTreeMap;

use expect_test::expect;
use flightline_testkit::prelude::*;

/// After a checkpoint ada has finished "Endpoint", added a sortie, and reported a part of it.
fn rewound(world: &World) -> (Story<'_>, BTreeMap<(Kind, String), String>) {
    let acts = "
        mission Add login: Model, Endpoint, Docs
        ada boards 7
        ada finishes Model
        ada claims Endpoint
    ";
    let story = Story::begun(world, acts);
    let cut = story.checkpoint().id;
    story.play("ada adds Deploy");
    let update = UpdateSortie {
        sortie: story.sortie_id("Endpoint"),
        subtasks: vec![subtask("routes", SubtaskStatus::Complete)],
        files: vec![file("src/api.rs", FileChange::Created)],
        ..UpdateSortie::default()
    };
    story.run("ada", &update).unwrap();
    story.change("ada", "Endpoint", DONE).unwrap();
    let before = work(&story);
    story.force_rewind(cut);
    assert!(work(&story) != before);
    (story, before)
}

/// What a rewind changes, but for the timeline and the time of the change.
fn work(story: &Story<'_>) -> BTreeMap<(Kind, String), String> {
    let parts = [Kind::Sortie, Kind::Subtask, Kind::File, Kind::Error];
    let mut all: BTreeMap<(Kind, String), String> = story
        .state()
        .into_iter()
        .filter(|value| parts.contains(&value.kind))
        .map(|value| ((value.kind, value.id), value.text))
        .collect();
    for mission in story.all::<Mission>() {
        let same = Mission {
            timeline: 0,
            updated_at: mission.created_at,
            ..mission
        };
        let text = serde_json::to_string(&same).unwrap();
        all.insert((Kind::Mission, same.id.to_string()), text);
    }
    all
}

both_engines! {
    fn a_rewind_that_is_taken_back_leaves_everything_as_it_was(world: &World) {
        let (story, before) = rewound(world);
        expect![[r#"
            mission "Add login" in_progress 33%
              sortie "Model" completed ada
              sortie "Endpoint" in_progress ada
              sortie "Docs" pending -
        "#]].assert_eq(&story.as_text());
        let done = story.undo().unwrap();
        assert!(work(&story) == before, "{}", story.as_text());
        expect![[r#"
            gone back: 2 of 4, 50%
            sorties changed: 2
            lost: Endpoint ("Endpoint") is completed again, not in_progress
        "#]].assert_eq(&story.told(&done));
        expect![[r#"
            mission "Add login" in_progress 50%
              sortie "Model" completed ada
              sortie "Endpoint" completed ada
              sortie "Docs" pending -
              sortie "Deploy" pending -
        "#]].assert_eq(&story.as_text());
        assert_eq!(story.all::<Mission>()[0].timeline, 2, "nothing is un-happened");
        assert!(story.all::<Recovery>()[0].undone_at.is_some());
        assert_eq!(story.events_of("recovery_undone").len(), 1);
        assert!(story.damaged_values().is_empty());
    }

    fn taking_back_is_taken_back_and_so_on(world: &World) {
        let (story, before) = rewound(world);
        let after = work(&story);
        for round in 0..3 {
            story.undo().unwrap();
            assert!(work(&story) == before, "{round}: forwards");
            // Ada is alive, and what she finished would be undone again.
            let forced = undo_rewind(Force::Yes);
            assert_eq!(story.undo().unwrap_err().code, Code::Unfinished);
            story.run("", &forced).unwrap();
            assert!(work(&story) == after, "{round}: back");
        }
        assert_eq!(story.all::<Mission>()[0].timeline, 7);
    }

    fn what_was_done_since_is_listed_and_saved_first(world: &World) {
        let (story, _) = rewound(world);
        story.play("
            ada blocks Endpoint: no token
            bob finishes Docs
        ");
        let since = work(&story);
        let refused = story.undo().unwrap_err();
        assert_eq!(refused.code, Code::Unfinished);
        assert!(refused.message.contains("(\"Docs\") of bob"), "{}", refused.message);
        let done = story.run("", &undo_rewind(Force::Yes)).unwrap();
        expect![[r#"
            gone back: 2 of 4, 50%
            sorties changed: 3
            lost: Docs ("Docs") is no longer completed
            lost: Endpoint ("Endpoint") is completed again, not blocked
            warning: going back to chk-* would undo 1 sortie of agents that are alive, first Docs ("Docs") of bob; that is refused without `--force`
        "#]].assert_eq(&story.told(&done));
        let saved = story.checkpoints().into_iter().find(|one| Some(one.id) == done.before).unwrap();
        assert_eq!(saved.cut.reason, Reason::BeforeRestore);
        story.run("", &undo_rewind(Force::Yes)).unwrap();
        assert!(work(&story) == since, "it was not lost");
    }

    fn work_of_the_living_since_the_rewind_is_guarded(world: &World) {
        let (story, _) = rewound(world);
        story.claim("bob", "Docs").unwrap();
        assert_eq!(story.undo().unwrap_err().code, Code::Unfinished);
        assert_eq!(story.stored_sortie("Docs").status, SortieStatus::InProgress);
    }

    fn what_a_rewind_does_not_change_is_not_taken_back_either(world: &World) {
        let (story, _) = rewound(world);
        story.run("ada", &lesson("rewinding works")).unwrap();
        story.send("ada", &["ada"], "since").unwrap();
        let (notes, mail) = (story.all::<flightline::core::note::Note>(), story.all::<Message>());
        story.undo().unwrap();
        assert_eq!((story.all::<flightline::core::note::Note>(), story.all::<Message>()), (notes, mail));
    }

    fn there_is_nothing_to_take_back_without_a_rewind(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model"]);
        story.checkpoint();
        story.resume("", vec![]).unwrap();
        let refused = story.undo().unwrap_err();
        assert_eq!(refused.code, Code::NotFound);
        assert!(refused.message.starts_with("there is nothing to undo in"), "{}", refused.message);
    }

    fn of_several_rewinds_the_last_is_taken_back_first(world: &World) {
        let (story, _) = rewound(world);
        let middle = work(&story);
        let early = story.checkpoints()[0].id;
        story.force_rewind(early);
        assert!(work(&story) != middle);
        story.undo().unwrap();
        assert!(work(&story) == middle);
    }

    fn a_rewind_whose_checkpoint_is_gone_or_damaged_is_not_taken_back(world: &World) {
        let (story, _) = rewound(world);
        let saved = story.all::<Recovery>()[0].before.unwrap();
        let manual = story.checkpoints().into_iter().find(|one| one.cut.reason == Reason::Manual).unwrap();
        damage::journal(world, Kind::Sortie, &story.sortie_id("Endpoint"), manual.cut.rev);
        assert_eq!(story.undo().unwrap_err().code, Code::Integrity);
        story.mark("", saved, CheckpointMark::Delete).unwrap();
        let refused = story.undo().unwrap_err();
        assert_eq!((refused.code, refused.message), (Code::NotFound, format!("{} is gone, so the rewind cannot be undone", &saved.to_string()[..12])));
    }
}
