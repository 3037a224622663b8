//! Figures, on both engines: what is counted is what is there.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use flightline::stats::{ShowStats, Storage};
use flightline_testkit::prelude::*;

fn storage(story: &Story<'_>) -> Storage {
    story.run("", &ShowStats {}).unwrap().storage
}

fn counts(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    pairs
        .iter()
        .map(|(word, count)| ((*word).to_owned(), *count))
        .collect()
}

both_engines! {
    fn an_empty_store_has_no_figures_but_its_own_size(world: &World) {
        let found = storage(&Story::new(world));
        assert!(found.database.bytes > 0);
        assert_eq!((found.checkpoints.total, found.files.written, found.journal.events, found.missions.len(), found.requests), (0, 0, 0, 0, 0));
    }

    fn what_is_counted_is_what_is_there(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model", "Docs", "Tests", "Deploy"]);
        story.finish("ada", &["Model"]);
        let manual = story.checkpoint();
        story.checkpoint_for("ada", Reason::TokenWarning).unwrap();
        story.settle();
        story.mark("", manual.id, CheckpointMark::Pin).unwrap();
        story.mission("Another", &["Elsewhere"]);
        let once = keyed("", "k");
        story.run_as(&once, &UseMission { mission: manual.mission_id.to_string() }).unwrap();
        let found = storage(&story);
        assert_eq!(found.database.engine, if world.engine == Engine::Sqlite { "sqlite" } else { "postgres" });
        assert_eq!((found.checkpoints.total, found.checkpoints.pinned, found.requests), (3, 1, 1));
        assert_eq!(found.checkpoints.by_trigger, counts(&[("compaction", 1), ("manual", 1), ("progress", 1)]));
        assert_eq!(found.checkpoints.by_status, counts(&[("valid", 3)]));
        let taken = story.checkpoints();
        assert_eq!((found.checkpoints.oldest.unwrap().id, found.checkpoints.newest.unwrap().id), (taken[0].id, taken[2].id));
        let home = story.file_of(&manual).parent().unwrap().to_path_buf();
        let files = fs::read_dir(home).unwrap().map(|entry| fs::symlink_metadata(entry.unwrap().path()).unwrap());
        let bytes: u64 = files.filter(fs::Metadata::is_file).map(|seen| seen.len()).sum();
        assert_eq!((found.files.written, found.files.bytes), (3, bytes));
        let events = story.events_after(0);
        assert_eq!(found.journal.events, events.len() as u64);
        let sorties = found.kinds.iter().find(|one| one.kind == Kind::Sortie).unwrap();
        let of_sorties = events.iter().filter(|event| event.subject_kind == Kind::Sortie).count() as u64;
        assert_eq!((sorties.count, sorties.journal.events), (5, of_sorties));
        assert!(sorties.bytes > sorties.journal.value_bytes && sorties.journal.value_bytes > 0);
        assert_eq!(found.missions.iter().map(|one| (one.title.as_deref().unwrap(), one.checkpoints)).collect::<Vec<_>>(), [("Add login", 3), ("Another", 0)]);
        assert_eq!(found.missions[0].file_bytes, bytes);
    }

    fn what_pruning_took_is_missing_by_as_much_as_it_said(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model", "Docs"]);
        for name in ["Model", "Docs"] {
            story.claim("ada", name).unwrap();
            story.checkpoint_for("", Reason::Manual).unwrap();
            world.pass(Duration::from_secs(1));
        }
        story.settle();
        world.pass(Duration::from_secs(86_400 * 20));
        let before = storage(&story);
        let request = PlanPrune { keep: Some(1), ..PlanPrune::default() };
        let plan = story.with_fleet(|fleet| plan_all(fleet, &caller(""), &request)).unwrap();
        let done = story.with_fleet(|fleet| apply_all(fleet, &caller(""), &request, &plan)).unwrap();
        let after = storage(&story);
        assert_eq!(before.checkpoints.total - after.checkpoints.total, done.deleted);
        assert_eq!(before.files.bytes - after.files.bytes, done.file_bytes);
        assert_eq!(after.journal.thinned, done.journal.values);
        assert_eq!(after.checkpoints.by_status, counts(&[("expired", 1)]));
    }

    fn damage_is_counted_and_hides_nothing(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model"]);
        let taken = story.checkpoint();
        story.claim("ada", "Model").unwrap();
        story.checkpoint_for("", Reason::Manual).unwrap();
        damage::live(world, Kind::Checkpoint, &taken.id.to_string());
        damage::everywhere(world, Kind::Mission, &taken.mission_id.to_string(), 0);
        let found = storage(&story);
        assert_eq!((found.checkpoints.total, found.checkpoints.unreadable), (2, 1));
        assert_eq!(found.missions[0].title, None);
    }
}
