//! Locks in a recovery, on both engines: nothing old is granted again, everything is taken anew.

use flightline_testkit::prelude::*;

/// Ada is at "Endpoint" and holds `api.rs`; bob and a watch are there. A checkpoint was taken.
fn working(world: &World) -> (Story<'_>, CheckpointId) {
    let story = at_endpoint(world);
    story.board("bob", Role::Specialist, 8);
    story.board("watch", Role::Specialist, 9);
    story.lock("ada", &["api.rs"]).unwrap();
    let cut = story.checkpoint().id;
    (story, cut)
}

/// Time passes while the watch gives signs of life, so that our own downtime is no explanation.
fn pass_watched(story: &Story<'_>, minutes: u64) {
    for _ in 0..minutes {
        story.pass_minutes(1);
        story.beat("watch").unwrap();
    }
}

fn release(story: &Story<'_>, agent: &str) {
    story.run(agent, &release_all()).unwrap();
}

both_engines! {
    fn a_lock_that_lapsed_is_a_blocker_and_comes_back_with_a_new_fence(world: &World) {
        let (story, _) = working(world);
        let old = story.all::<Lock>().remove(0);
        pass_watched(&story, 31);
        story.lock("bob", &["api.rs"]).unwrap();
        release(&story, "bob");
        let done = story.resume("ada", vec![]).unwrap();
        assert_eq!(story.locks(), ["api.rs ada"]);
        let new = story.all::<Lock>().remove(0);
        assert!(new.fence > old.fence && new.id != old.id);
        assert_eq!((new.sortie_id, new.mission_id, new.acquired_at), (old.sortie_id, old.mission_id, world.clock.now()));
        assert_eq!(done.recovery_context.blockers, [format!("api.rs had lapsed; ada holds it again with fence {}", new.fence)]);
        assert_eq!(done.restored.locks, 1);
        let stale = RenewLocks { locks: vec!["api.rs".to_owned()], fence: Some(old.fence), ttl_ms: None };
        assert!(story.run("ada", &stale).unwrap_err().message.contains("is void"), "the old fence opens nothing");
    }

    fn a_lock_that_another_holds_now_is_a_blocker(world: &World) {
        let (story, _) = working(world);
        pass_watched(&story, 31);
        story.lock("bob", &["api.rs"]).unwrap();
        let done = story.resume("ada", vec![]).unwrap();
        assert_eq!(story.locks(), ["api.rs bob"]);
        assert_eq!(done.recovery_context.blockers, ["api.rs is locked by bob, ada held it before"]);
        assert_eq!(done.restored.locks, 0);
    }

    fn a_folder_of_another_is_in_the_way_too(world: &World) {
        let (story, _) = working(world);
        pass_watched(&story, 31);
        story.lock("bob", &["."]).unwrap();
        let done = story.resume("ada", vec![]).unwrap();
        assert_eq!(done.recovery_context.blockers, ["api.rs is locked by bob, ada held it before"]);
        assert_eq!(story.locks(), [". bob"]);
    }

    fn what_the_dead_held_is_given_to_nobody(world: &World) {
        let (story, cut) = working(world);
        let gone = story.seen(false, &["ada"]);
        let done = story.resume("", gone.clone()).unwrap();
        assert_eq!((done.released_locks, story.locks()), (vec!["api.rs".to_owned()], vec![]));
        let back = Resume { sightings: gone, ..back_to(cut, Force::No) };
        assert_eq!(story.run("", &back).unwrap().restored.locks, 0);
        assert_eq!(story.locks(), [] as [&str; 0]);
    }

    fn one_that_seemed_dead_gets_its_lock_back_when_it_is_not(world: &World) {
        let (story, _) = working(world);
        story.resume("", story.seen(false, &["ada"])).unwrap();
        story.board("ada", Role::Specialist, 10);
        story.claim("ada", "Endpoint").unwrap();
        let done = story.resume("ada", vec![]).unwrap();
        assert_eq!(story.locks(), ["api.rs ada"]);
        assert_eq!((done.restored.locks, story.all::<Lock>()[0].epoch), (0, story.agent("ada").epoch));
    }

    fn a_lock_that_is_held_is_left_alone(world: &World) {
        let (story, cut) = working(world);
        let before: Vec<Lock> = story.all();
        assert_eq!(story.resume("", vec![]).unwrap().restored.locks, 0);
        assert_eq!(story.force_rewind(cut).restored.locks, 0);
        assert_eq!(story.all::<Lock>(), before, "its fence, too");
    }

    fn going_back_takes_a_lock_anew_that_was_given_up_since(world: &World) {
        let (story, cut) = working(world);
        let old = story.all::<Lock>().remove(0);
        release(&story, "ada");
        let done = story.force_rewind(cut);
        let new = story.all::<Lock>().remove(0);
        assert_eq!((story.locks(), done.restored.locks), (vec!["api.rs ada".to_owned()], 1));
        assert!(new.fence > old.fence, "never the old one");
        assert_eq!(done.recovery_context.blockers, [] as [&str; 0], "it had not lapsed");
    }

    fn going_back_takes_no_lock_from_its_present_holder(world: &World) {
        let (story, cut) = working(world);
        release(&story, "ada");
        story.lock("bob", &["api.rs"]).unwrap();
        let done = story.force_rewind(cut);
        assert_eq!(story.locks(), ["api.rs bob"]);
        assert_eq!(done.recovery_context.blockers, ["api.rs is locked by bob, ada held it before"]);
    }

    fn a_lock_for_no_sortie_comes_back_to_the_agent_that_works_in_the_mission(world: &World) {
        let (story, _) = working(world);
        story.claim("ada", "Docs").unwrap();
        story.lock("ada", &["notes.md"]).unwrap();
        story.lock("bob", &["other.md"]).unwrap();
        let cut = story.checkpoint().id;
        assert_eq!(story.all::<Lock>().iter().filter(|lock| lock.sortie_id.is_none()).count(), 2);
        release(&story, "ada");
        release(&story, "bob");
        story.force_rewind(cut);
        assert_eq!(story.locks(), ["api.rs ada", "notes.md ada"], "bob has nothing to do with it");
    }

    fn a_folder_of_its_own_is_not_in_its_way(world: &World) {
        let (story, cut) = working(world);
        release(&story, "ada");
        story.lock("ada", &["."]).unwrap();
        let done = story.force_rewind(cut);
        assert_eq!(done.recovery_context.blockers, [] as [&str; 0]);
        assert!(story.locks().contains(&"api.rs ada".to_owned()));
        assert!(story.damaged_values().is_empty());
    }

    fn work_that_is_finished_needs_its_lock_no_more(world: &World) {
        let (story, _) = working(world);
        story.change("ada", "Endpoint", DONE).unwrap();
        pass_watched(&story, 31);
        story.lock("bob", &["api.rs"]).unwrap();
        release(&story, "bob");
        let done = story.resume("ada", vec![]).unwrap();
        assert_eq!((story.locks(), done.recovery_context.blockers), (vec![], vec![]));
    }

    fn there_is_never_more_than_one_grant_for_a_path(world: &World) {
        let (story, cut) = working(world);
        for _ in 0..3 {
            release(&story, "ada");
            story.force_rewind(cut);
            story.resume("", vec![]).unwrap();
            story.undo().unwrap();
        }
        assert_eq!(story.locks().len(), 1);
        assert!(story.damaged_values().is_empty());
    }
}
