//! The section is damaged, lost, brought back, or forged.

use flightline::checkpoint::import::{ImportArrival, ImportCheckpoint};
use flightline_testkit::prelude::*;

use crate::rebuild::rebuilt;

use super::{checkpoint, shown, working};

both_engines! {
    fn one_damaged_copy_is_read_from_the_other(world: &World) {
        let (story, _repository) = working(world);
        let taken = checkpoint(&story);
        damage::live(world, Kind::FileSystem, &taken.id.to_string());
        assert_eq!(shown(&story, taken.id).file_system, taken.file_system);
    }

    fn a_damaged_section_is_said_and_the_checkpoint_still_serves(world: &World) {
        let (story, _repository) = working(world);
        let taken = checkpoint(&story);
        damage::everywhere(world, Kind::FileSystem, &taken.id.to_string(), 0);
        let verdict = story.run("", &verify_checkpoints()).unwrap().remove(0);
        assert!(!verdict.sound);
        assert!(verdict.problem.unwrap().contains("its section `file_system` does not match its checksum"));
        let damaged = shown(&story, taken.id);
        assert_eq!(damaged.file_system, None);
        assert!(damaged.warnings[0].contains("section `file_system`"), "{:?}", damaged.warnings);
        assert_eq!(story.resume("", vec![]).unwrap().checkpoint_id, taken.id);
    }

    fn a_damaged_section_is_mended_from_the_file(world: &World) {
        let (story, _repository) = working(world);
        let taken = checkpoint(&story);
        damage::everywhere(world, Kind::FileSystem, &taken.id.to_string(), 0);
        let show = ShowCheckpoint { checkpoint: taken.id.to_string() };
        let (served, warnings) = story.serve(&show);
        assert_eq!(served.unwrap().file_system, taken.file_system);
        assert!(warnings[0].contains("repaired from its file"), "{warnings:?}");
        assert_eq!(shown(&story, taken.id).file_system, taken.file_system);
        assert_eq!(world.problems(), Vec::<String>::new());
    }

    fn it_comes_back_with_an_import_and_cannot_be_forged(world: &World) {
        let (story, _repository) = working(world);
        let taken = checkpoint(&story);
        let whole = story.whole(taken.id);
        story.mark("", taken.id, CheckpointMark::Delete).unwrap();
        let mut forged = whole.clone();
        forged.file_system.as_mut().unwrap().left_out = 7;
        let refusal = story.run("", &ImportCheckpoint { document: forged }).unwrap_err();
        assert_eq!(refusal.code, Code::Integrity);
        assert!(refusal.message.contains("section `file_system`"), "{}", refusal.message);
        let arrived = story.run("", &ImportCheckpoint { document: whole }).unwrap();
        assert_eq!(arrived.arrival, ImportArrival::Returned);
        assert_eq!(shown(&story, taken.id).file_system, taken.file_system);
        // What is in the work tree today is nothing of it: its file is written with what it had.
        story.settle();
        assert_eq!(shown(&story, taken.id).file_system, taken.file_system);
    }

    fn it_is_in_a_store_that_is_built_from_files(world: &World) {
        let (story, _repository) = working(world);
        let taken = checkpoint(&story);
        drop(story);
        rebuilt(world).unwrap();
        let story = Story::new(world);
        assert_eq!(shown(&story, taken.id).file_system, taken.file_system);
        assert_eq!(world.problems(), Vec::<String>::new());
    }
}
