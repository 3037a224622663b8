//! Taking up the work of another agent, on both engines: its context comes with the assignment, and its files
//! are locked again.

use flightline_testkit::prelude::*;

/// Ada is at "Endpoint": she has said what she did, changed two files, and locked one and a folder.
fn working(world: &World) -> Story<'_> {
    let story = at_endpoint(world);
    story.board("bob", Role::Specialist, 8);
    story.board("eve", Role::Specialist, 9);
    report(&story, "ada");
    story.lock("ada", &["src/api.rs", "src/routes"]).unwrap();
    story.checkpoint();
    story
}

fn report(story: &Story<'_>, agent: &str) {
    let update = UpdateSortie {
        sortie: story.sortie_id("Endpoint"),
        note: Some(note("routes are wired")),
        next_to_process: Some(title("the handlers")),
        resume_instructions: Some(note("Start with `cargo test`")),
        files: vec![
            file("src/api.rs", FileChange::Modified),
            file("src/routes/login.rs", FileChange::Created),
            file("src/old.rs", FileChange::Deleted),
            file("src/lib.rs", FileChange::Modified),
        ],
        ..UpdateSortie::default()
    };
    story.run(agent, &update).unwrap();
}

/// Ada's process is gone, and a person resumes the mission.
fn lose_ada(story: &Story<'_>) {
    story.resume("", story.seen(false, &["ada"])).unwrap();
}

fn files(view: &SortieView) -> Vec<&str> {
    view.locks
        .iter()
        .map(|locked| locked.lock.file.as_str())
        .collect()
}

both_engines! {
    fn an_agent_that_takes_up_what_was_interrupted_gets_its_context(world: &World) {
        let story = working(world);
        lose_ada(&story);
        let taken = story.claim("bob", "Endpoint").unwrap();
        let context = taken.recovery_context.unwrap();
        assert_eq!(context.last_action, "routes are wired");
        assert_eq!(context.next_steps, ["Start with `cargo test`", "Continue \"Endpoint\" with the handlers"]);
        assert_eq!(context.blockers, [] as [&str; 0]);
        assert_eq!(context.files_modified, ["src/api.rs", "src/lib.rs", "src/routes/login.rs"]);
        assert_eq!((context.mission_summary.as_str(), taken.sortie.attempts), ("Add login", 2));
        assert_eq!(taken.sortie.interrupted.unwrap().owner.as_str(), "ada");
    }

    fn it_is_what_the_briefing_says(world: &World) {
        let story = working(world);
        lose_ada(&story);
        let context = story.claim("bob", "Endpoint").unwrap().recovery_context.unwrap();
        let facts = story.run("bob", &brief_agent()).unwrap().facts;
        let said: Vec<String> = facts.next_steps.iter().map(|quote| quote.text.clone()).collect();
        assert_eq!(said, context.next_steps);
        assert_eq!(facts.last_action.as_ref().map(|quote| (quote.author.as_str(), quote.text.as_str())), Some(("ada", "routes are wired")), "and who said it");
        assert_eq!(facts.files.iter().map(|file| file.path.clone()).collect::<Vec<_>>(), context.files_modified);
    }

    fn its_files_are_locked_again_with_new_fences(world: &World) {
        let story = working(world);
        let old = story.all::<Lock>();
        lose_ada(&story);
        assert_eq!(story.locks(), [] as [&str; 0]);
        let taken = story.claim("bob", "Endpoint").unwrap();
        assert_eq!(story.locks(), ["src/api.rs bob", "src/lib.rs bob", "src/routes bob"], "what was locked and what was changed");
        assert_eq!(files(&taken), ["src/api.rs", "src/lib.rs", "src/routes"], "a folder holds its files");
        for new in &taken.locks {
            assert!(old.iter().all(|old| old.fence < new.lock.fence && old.id != new.lock.id));
            assert_eq!((new.lock.sortie_id, new.holder.as_str()), (Some(taken.sortie.id), "bob"));
        }
        let stale = RenewLocks { locks: vec!["src/api.rs".to_owned()], fence: Some(old[0].fence), ttl_ms: None };
        assert!(story.run("ada", &stale).is_err());
        assert!(story.damaged_values().is_empty());
    }

    fn what_another_holds_now_is_a_blocker_and_keeps_nobody_from_going_on(world: &World) {
        let story = working(world);
        lose_ada(&story);
        story.lock("eve", &["src/routes/login.rs"]).unwrap();
        let taken = story.claim("bob", "Endpoint").unwrap();
        assert_eq!(story.locks(), ["src/api.rs bob", "src/lib.rs bob", "src/routes/login.rs eve"]);
        let blockers = taken.recovery_context.unwrap().blockers;
        assert_eq!(blockers.len(), 1);
        assert!(blockers[0].starts_with("`src/routes` overlaps `src/routes/login.rs`, locked by eve"), "{blockers:?}");
    }

    fn taking_up_and_locking_are_one_transaction(world: &World) {
        let story = working(world);
        lose_ada(&story);
        let rev = story.rev();
        story.claim("bob", "Endpoint").unwrap();
        let events = story.events_after(rev);
        assert_eq!(events.iter().map(|event| event.kind.as_str()).collect::<Vec<_>>(), ["sortie_claimed", "lock_acquired", "lock_acquired", "lock_acquired"]);
        assert!(events.iter().all(|event| event.step == events[0].step && event.actor == "bob"));
    }

    fn the_next_ready_one_comes_with_its_context_too(world: &World) {
        let story = working(world);
        lose_ada(&story);
        let taken = story.run("bob", &claim_next()).unwrap();
        assert_eq!(taken.sortie.title.as_str(), "Endpoint");
        assert!(taken.recovery_context.is_some() && taken.locks.len() == 3);
    }

    fn what_was_assigned_comes_with_its_context_when_it_is_begun(world: &World) {
        let story = working(world);
        lose_ada(&story);
        story.change("", "Endpoint", SortieAction::Assign { to: "bob".to_owned() }).unwrap();
        assert_eq!(story.locks(), [] as [&str; 0]);
        let begun = story.change("bob", "Endpoint", SortieAction::Start).unwrap();
        assert_eq!((begun.recovery_context.unwrap().last_action.as_str(), begun.locks.len()), ("routes are wired", 3));
    }

    fn a_person_who_lets_it_begin_gets_the_context_and_no_lock(world: &World) {
        let story = working(world);
        lose_ada(&story);
        story.change("", "Endpoint", SortieAction::Assign { to: "bob".to_owned() }).unwrap();
        let begun = story.change("", "Endpoint", SortieAction::Start).unwrap();
        assert!(begun.recovery_context.is_some() && begun.locks.is_empty());
        assert_eq!(story.locks(), [] as [&str; 0]);
    }

    fn asking_twice_tells_it_again_and_locks_nothing_twice(world: &World) {
        let story = working(world);
        lose_ada(&story);
        let first = story.claim("bob", "Endpoint").unwrap();
        let rev = story.rev();
        let again = story.claim("bob", "Endpoint").unwrap();
        assert_eq!((again.recovery_context.unwrap().next_steps, again.locks.len()), (first.recovery_context.unwrap().next_steps, 0));
        assert_eq!(story.rev(), rev);
    }

    fn locks_of_its_own_keep_their_fences(world: &World) {
        let story = working(world);
        lose_ada(&story);
        story.claim("bob", "Docs").unwrap();
        let mine = story.lock("bob", &["src"]).unwrap().remove(0).lock;
        let taken = story.claim("bob", "Endpoint").unwrap();
        assert!(taken.locks.is_empty(), "the folder holds them all");
        assert_eq!(story.all::<Lock>(), [mine]);
    }

    fn what_it_waited_for_and_what_failed_is_in_the_way_still(world: &World) {
        let story = working(world);
        story.run("ada", &report_error(story.sortie_id("Endpoint"), "compiler", "one warning")).unwrap();
        story.change("ada", "Endpoint", SortieAction::Block { reason: note("no token") }).unwrap();
        lose_ada(&story);
        let blockers = story.claim("bob", "Endpoint").unwrap().recovery_context.unwrap().blockers;
        assert_eq!(blockers, ["it was blocked before: no token", "compiler: one warning"]);
    }

    fn without_a_word_of_its_owner_the_journal_tells_what_was_done(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model", "Docs"]);
        story.board("ada", Role::Specialist, 7);
        story.claim("ada", "Model").unwrap();
        story.checkpoint();
        lose_ada(&story);
        let context = story.claim("bob", "Model").unwrap().recovery_context.unwrap();
        assert_eq!((context.last_action.as_str(), context.next_steps), ("ada was working on \"Model\"", vec!["Complete \"Model\"".to_owned()]));
    }

    fn what_nobody_began_before_has_no_context(world: &World) {
        let story = working(world);
        let docs = story.claim("bob", "Docs").unwrap();
        assert!(docs.recovery_context.is_none() && docs.locks.is_empty());
    }

    fn what_its_owner_gave_back_has_a_context_and_is_not_locked(world: &World) {
        let story = working(world);
        story.change("ada", "Endpoint", GIVEN_BACK).unwrap();
        story.run("ada", &release_all()).unwrap();
        let taken = story.claim("bob", "Endpoint").unwrap();
        assert_eq!((taken.recovery_context.unwrap().last_action.as_str(), taken.locks.len()), ("routes are wired", 0));
        assert_eq!(story.locks(), [] as [&str; 0], "who gives back lets go");
    }

    fn once_its_new_owner_reports_it_is_its_own(world: &World) {
        let story = working(world);
        lose_ada(&story);
        story.claim("bob", "Endpoint").unwrap();
        story.run("bob", &UpdateSortie { sortie: story.sortie_id("Endpoint"), note: Some(note("handlers too")), ..UpdateSortie::default() }).unwrap();
        assert_eq!(story.stored_sortie("Endpoint").interrupted, None);
        let facts = story.run("bob", &brief_agent()).unwrap().facts;
        assert_eq!(facts.last_action.unwrap().author, "bob");
    }

    fn an_agent_that_comes_back_itself_is_treated_alike(world: &World) {
        let story = working(world);
        lose_ada(&story);
        story.board("ada", Role::Specialist, 10);
        let taken = story.claim("ada", "Endpoint").unwrap();
        assert_eq!((files(&taken).len(), taken.locks[0].lock.epoch), (3, story.agent("ada").epoch));
    }

    fn going_back_frees_it_in_the_same_way(world: &World) {
        let story = working(world);
        let cut = story.checkpoints().pop().unwrap().id;
        story.change("ada", "Endpoint", DONE).unwrap();
        story.run("ada", &release_all()).unwrap();
        let back = Resume { sightings: story.seen(false, &["ada"]), ..back_to(cut, Force::No) };
        story.run("", &back).unwrap();
        let taken = story.claim("bob", "Endpoint").unwrap();
        assert_eq!(files(&taken), ["src/api.rs", "src/lib.rs", "src/routes"], "what was locked at the checkpoint");
    }

    fn a_claim_that_must_lock_and_cannot_is_refused_as_ever(world: &World) {
        let story = working(world);
        let mut wants = sortie("Deploy");
        wants.files = vec![path("deploy.sh")];
        story.run("", &add_sorties(vec![wants])).unwrap();
        story.claim("ada", "Deploy").unwrap();
        lose_ada(&story);
        story.lock("eve", &["deploy.sh"]).unwrap();
        let strict = ClaimSortie { sortie: story.sortie_id("Deploy"), lock: true };
        assert_eq!(story.run("bob", &strict).unwrap_err().code, flightline::core::Code::LockHeld);
        assert!(story.claim("bob", "Deploy").is_ok());
    }
}
