//! Checkpoints of full contexts, seed E's.

use flightline::core::dialect::{Dialect, Json};
use flightline::mirror::MirrorNotice;
use flightline_testkit::prelude::*;

use super::{Mirror, export, import, json};

const LATEST: &str = "checkpoints/latest.json";
const EXAMPLE: &str =
    include_str!("../../../../flightline-core/tests/it/dialects/data/recovery_example.json");

fn status(story: &Story<'_>, named: &str) -> SortieStatus {
    let sortie = story.sortie_id(named);
    story.run("", &ShowSortie { sortie }).unwrap().sortie.status
}

fn starting_with(mirror: &Mirror<'_, '_>, beginning: &str) -> usize {
    let files = mirror.files("checkpoints");
    files
        .iter()
        .filter(|file| file.starts_with(beginning))
        .count()
}

both_engines! {
    fn the_example_comes_back_as_it_was(world: &World) {
        let story = Story::new(world);
        let taken = import(&story, Dialect::Recovery, LATEST, EXAMPLE);
        assert!(taken.changed);
        assert!(taken.warnings.iter().any(|warning| warning.contains("too old to be resumed from")), "{:?}", taken.warnings);
        assert!(!import(&story, Dialect::Recovery, LATEST, EXAMPLE).changed, "twice is once");
        let out = export(&story, Dialect::Recovery);
        assert_eq!(out[0].0, "latest.json");
        assert_eq!(json(&out[0].1), json(EXAMPLE));
        assert_eq!((status(&story, "T001"), status(&story, "T005"), status(&story, "Add rate limiting")), (SortieStatus::Completed, SortieStatus::Pending, SortieStatus::Pending));
        assert!(story.stored_sortie("T005").is_interrupted() && !story.stored_sortie("Add rate limiting").is_interrupted(), "the next agent goes on with it");
        let last = story.checkpoints().pop().unwrap();
        assert_eq!(last.cut.reason, Reason::Manual, "what is too old resumes nobody by itself");
    }

    fn one_of_today_is_resumed_from(world: &World) {
        let story = Story::new(world);
        let now = story.with_fleet(|fleet| fleet.now()).unwrap();
        let today = EXAMPLE.replace("2025-10-30T15:30:00Z", &now.to_seconds());
        assert_ne!(today, EXAMPLE);
        import(&story, Dialect::Recovery, LATEST, &today);
        let last = story.checkpoints().pop().unwrap();
        assert_eq!(last.cut.reason, Reason::TokenCritical);
        assert!(last.is_resumable_context());
    }

    fn an_empty_timestamp_is_nothing(world: &World) {
        let story = Story::new(world);
        let rev = story.rev();
        let taken = import(&story, Dialect::Recovery, LATEST, r#"{"version": "1.0", "timestamp": ""}"#);
        assert!(!taken.changed && taken.of.is_empty());
        assert_eq!(story.rev(), rev);
    }

    fn the_mirror_follows_a_context_that_fills_up(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Recovery);
        story.mission("Add login", &["Model", "Tests"]);
        story.claim("ada", "Model").unwrap();
        assert_eq!(mirror.pass(), []);
        assert_eq!(mirror.files("checkpoints"), [] as [&str; 0]);
        story.fill("ada", 76);
        assert_eq!(mirror.pass(), []);
        assert_eq!((mirror.files("checkpoints").len(), starting_with(&mirror, "checkpoint-")), (2, 1));
        assert_eq!(json(&mirror.read(LATEST)).get("reason"), Some(&Json::from("token_warning")));
        story.pass_minutes(1);
        story.fill("ada", 92);
        assert_eq!(mirror.pass(), []);
        assert_eq!(starting_with(&mirror, "emergency-"), 1);
        let latest = json(&mirror.read(LATEST));
        assert_eq!(latest.get("reason"), Some(&Json::from("token_critical")));
        assert_eq!(latest.get("tokenUsage").and_then(|usage| usage.get("percentage")), Some(&Json::from(92)));
        let sortie = story.sortie_id("Model");
        assert_eq!(latest.get("state").and_then(|state| state.get("inProgress")), Some(&Json::from(sortie.as_str())));
        // Completing the task is the full sync: nothing resumes from it a second time.
        story.run("ada", &change_sortie(sortie, DONE)).unwrap();
        mirror.pass();
        assert_eq!(json(&mirror.read(LATEST)).get("timestamp"), Some(&Json::from("")));
    }

    fn five_backups_stay_and_emergencies_are_kept(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Recovery);
        story.mission("Add login", &["Model", "Tests"]);
        story.claim("ada", "Model").unwrap();
        story.fill("ada", 95);
        mirror.pass();
        for number in 0..8 {
            story.pass_minutes(1);
            story.report("ada", "Model", &format!("part {number}"));
            story.checkpoint();
            assert_eq!(mirror.pass(), []);
        }
        assert_eq!((starting_with(&mirror, "checkpoint-"), starting_with(&mirror, "emergency-")), (5, 1));
        assert_eq!(mirror.pass(), [], "and nothing comes back");
        assert_eq!(starting_with(&mirror, "checkpoint-"), 5);
    }

    fn what_an_agent_writes_itself_is_taken_in(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Recovery);
        mirror.write(LATEST, EXAMPLE);
        let said = mirror.pass();
        assert!(matches!(said.first(), Some(MirrorNotice::Done(_))), "{said:?}");
        assert_eq!(status(&story, "T004"), SortieStatus::Completed);
        let kept = json(&mirror.read(LATEST));
        assert_eq!(kept, json(EXAMPLE));
        let done = EXAMPLE.replace("\"T004\"]", "\"T004\", \"T005\"]").replace("\"inProgress\": \"T005\"", "\"inProgress\": []");
        assert_ne!(done, EXAMPLE);
        mirror.write(LATEST, &done);
        mirror.pass();
        assert_eq!(status(&story, "T005"), SortieStatus::Completed);
        mirror.write(LATEST, "{\"version\": \"1.0\"");
        mirror.settle();
        let said = mirror.pass();
        assert!(matches!(said.as_slice(), [MirrorNotice::Trouble(said)] if said.contains(".conflict")), "{said:?}");
        assert_eq!(json(&mirror.read(LATEST)).get("version"), Some(&Json::from("1.0")));
    }

    fn an_edit_moves_only_what_it_moves(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Recovery);
        mirror.write(LATEST, EXAMPLE);
        mirror.pass();
        // Meanwhile, here: T005 is completed, and somebody takes T006.
        let sortie = story.sortie_id("T005");
        story.claim("ada", "T005").unwrap();
        story.run("ada", &change_sortie(sortie, DONE)).unwrap();
        story.claim("bob", "Add rate limiting").unwrap();
        let text = mirror.read(LATEST);
        mirror.write(LATEST, &text.replace("Run pytest suite", "Run all of pytest"));
        mirror.pass();
        assert_eq!((status(&story, "T005"), status(&story, "Add rate limiting")), (SortieStatus::Completed, SortieStatus::InProgress));
    }

    fn who_takes_the_checkpoint_out_has_used_it_up(world: &World) {
        for deleted in [false, true] {
            let story = Story::new(world);
            let mirror = Mirror::new(&story, Dialect::Recovery);
            story.mission(&format!("Add login {deleted}"), &["Model"]);
            story.claim("ada", "Model").unwrap();
            story.compact("ada");
            story.fill("ada", 92);
            mirror.pass();
            let before = mirror.read(LATEST);
            assert_ne!(json(&before).get("timestamp"), Some(&Json::from("")));
            if deleted {
                std::fs::remove_file(mirror.path(LATEST)).unwrap();
            } else {
                mirror.write(LATEST, r#"{"version": "1.0", "timestamp": ""}"#);
            }
            mirror.pass();
            let latest = story.checkpoints().into_iter().rfind(|it| it.cut.reason == Reason::TokenCritical).unwrap();
            assert!(latest.consumed_at.is_some(), "deleted: {deleted}");
            assert_eq!(json(&mirror.read(LATEST)).get("timestamp"), Some(&Json::from("")));
        }
    }

    fn files_of_others_stay(world: &World) {
        let story = Story::new(world);
        let mirror = Mirror::new(&story, Dialect::Recovery);
        mirror.write("checkpoints/checkpoint-best.json", "{}");
        mirror.write("checkpoints/checkpoint-2020-01-01T00-00-00.000Z.json", "{}");
        story.mission("Add login", &["Model"]);
        story.checkpoint();
        mirror.pass();
        assert_eq!(starting_with(&mirror, "checkpoint-"), 3);
    }
}
