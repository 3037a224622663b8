//! Claiming sorties, on both engines: exactly one agent gets each, and only what is ready.

use expect_test::expect;
use flightline::core::SortieId;
use flightline_testkit::prelude::*;

fn add(story: &Story<'_>, sorties: Vec<NewSortie>) {
    story.run("", &add_sorties(sorties)).unwrap();
}

fn to(agent: &str) -> SortieAction {
    SortieAction::Assign {
        to: agent.to_owned(),
    }
}

both_engines! {
    fn a_sortie_has_one_winner(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        let won = story.claim("ada", "User model").unwrap();
        assert_eq!((won.sortie.status, won.sortie.attempts), (SortieStatus::InProgress, 1));
        assert_eq!(won.sortie.assigned_epoch, Some(1));
        assert_eq!(won.sortie.started_at, Some(world.clock.now()));
        let lost = story.claim("bob", "User model").unwrap_err();
        assert_eq!(lost.code, Code::AlreadyTaken);
        assert!(lost.message.ends_with("(\"User model\") is ada's"), "{}", lost.message);
        assert_eq!(lost.details["owner"], "ada");
        assert_eq!(
            story.sortie("User model").owner.as_deref(),
            Some("ada"),
            "a refusal changes nothing"
        );
    }

    fn claiming_ones_own_sortie_twice_is_harmless(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        story.claim("ada", "User model").unwrap();
        let rev = story.rev();
        let again = story.claim("ada", "User model").unwrap();
        assert_eq!(again.sortie.attempts, 1);
        assert_eq!(story.rev(), rev, "nothing was written");
    }

    fn claiming_needs_an_agent(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        let refused = story.claim("", "User model").unwrap_err();
        assert_eq!(
            (refused.code, refused.hint.unwrap().as_str()),
            (Code::InvalidInput, "give `--agent NAME`, or set FLEET_AGENT")
        );
        assert_eq!(story.claim_next("").unwrap_err().code, Code::InvalidInput);
    }

    fn the_first_claim_begins_the_mission(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model", "Login endpoint"]);
        story.claim_next("ada").unwrap();
        story.claim_next("bob").unwrap();
        expect![[r#"
            mission "Add login" in_progress 0%
              sortie "User model" in_progress ada
              sortie "Login endpoint" in_progress bob
        "#]]
        .assert_eq(&story.as_text());
        let begun =
            story.events_after(0).iter().filter(|event| event.kind == "mission_started").count();
        assert_eq!(begun, 1);
    }

    fn a_sortie_waits_for_those_it_depends_on(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        let needs = |named: &str, needed: &str| NewSortie {
            depends_on: vec![story.sortie_id(needed)],
            ..sortie(named)
        };
        add(&story, vec![needs("Login endpoint", "User model")]);
        let refused = story.claim("ada", "Login endpoint").unwrap_err();
        assert_eq!(refused.code, Code::IllegalTransition);
        assert!(
            refused.message.ends_with("(\"User model\"), which is pending"),
            "{}",
            refused.message
        );
        assert_eq!(story.claim_next("ada").unwrap().sortie.title.as_str(), "User model");
        let nothing = story.claim_next("bob").unwrap_err();
        assert_eq!((nothing.code, nothing.retryable), (Code::NothingReady, true));
        assert_eq!(nothing.details["waiting"], 1);
        story.change("", "Login endpoint", to("ada")).unwrap();
        let early = story.change("ada", "Login endpoint", SortieAction::Start).unwrap_err();
        assert_eq!(early.code, Code::IllegalTransition, "being given it does not make it ready");
        assert_eq!(story.claim("ada", "Login endpoint").unwrap_err().code, Code::IllegalTransition);
        story.change("ada", "User model", DONE).unwrap();
        assert_eq!(story.claim_next("ada").unwrap().sortie.title.as_str(), "Login endpoint");
    }

    fn a_failed_dependency_does_not_count_as_done(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        add(
            &story,
            vec![NewSortie {
                depends_on: vec![story.sortie_id("User model")],
                ..sortie("Login endpoint")
            }],
        );
        story.claim("ada", "User model").unwrap();
        story.change("ada", "User model", SortieAction::Fail { reason: note("cannot") }).unwrap();
        assert_eq!(story.claim_next("bob").unwrap_err().code, Code::NothingReady);
        story.claim("bob", "User model").unwrap();
        story.change("bob", "User model", DONE).unwrap();
        story.claim("bob", "Login endpoint").unwrap();
    }

    fn dependencies_are_sorties_of_the_same_mission(world: &World) {
        let story = Story::new(world);
        story.mission("First", &["Elsewhere"]);
        story.mission("Second", &[]);
        let foreign = add_sorties(vec![NewSortie { depends_on: vec![story.sortie_id("Elsewhere")], ..sortie("Here") }]);
        assert_eq!(
            story.run("", &foreign).unwrap_err().code,
            Code::InvalidInput
        );
        let unknown = add_sorties(vec![ sortie("Kept out"), NewSortie { depends_on: vec!["srt-ffff".to_owned()], ..sortie("Here") }, ]);
        assert_eq!(story.run("", &unknown).unwrap_err().code, Code::NotFound);
        expect![[r#"
            mission "First" pending 0%
              sortie "Elsewhere" pending -
            mission "Second" pending 0%
        "#]]
        .assert_eq(&story.as_text());
    }

    fn the_next_sortie_is_the_most_urgent_and_then_the_first(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Third", "Fourth"]);
        add(
            &story,
            vec![
                NewSortie { priority: -1, ..sortie("Last") },
                NewSortie { priority: 5, ..sortie("First") },
                NewSortie { priority: 5, ..sortie("Second") },
            ],
        );
        let order: Vec<String> =
            (0..5).map(|_| story.claim_next("ada").unwrap().sortie.title.to_string()).collect();
        assert_eq!(order, ["First", "Second", "Third", "Fourth", "Last"]);
        assert_eq!(story.claim_next("ada").unwrap_err().code, Code::NothingReady);
    }

    fn work_given_to_an_agent_goes_before_work_that_is_free(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Gift"]);
        add(&story, vec![NewSortie { priority: 9, ..sortie("Urgent") }]);
        story.register("ada", Role::Specialist);
        story.change("", "Gift", to("ada")).unwrap();
        assert_eq!(
            story.claim_next("bob").unwrap().sortie.title.as_str(),
            "Urgent",
            "what is ada's is not for bob"
        );
        assert_eq!(story.claim_next("bob").unwrap_err().code, Code::NothingReady);
        add(&story, vec![NewSortie { priority: 9, ..sortie("Urgent too") }]);
        let next = story.claim_next("ada").unwrap().sortie;
        assert_eq!((next.title.as_str(), next.attempts), ("Gift", 1));
    }

    fn the_next_sortie_minds_the_locks_of_others(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &[]);
        add(
            &story,
            vec![
                NewSortie { files: vec![path("src/auth.rs")], ..sortie("Auth") },
                NewSortie { files: vec![path("docs")], ..sortie("Docs") },
            ],
        );
        story.lock("bob", &["src"]).unwrap();
        story.lock("ada", &["docs/intro.md"]).unwrap();
        assert_eq!(
            story.claim_next("ada").unwrap().sortie.title.as_str(),
            "Docs",
            "her own lock is not in her way"
        );
        let refused = story.claim_next("ada").unwrap_err();
        assert_eq!((refused.code, &refused.details["locked"]), (Code::NothingReady, &1.into()));
        assert_eq!(
            story.claim_next("bob").unwrap().sortie.title.as_str(),
            "Auth",
            "nor is his in his"
        );
    }

    fn claiming_with_locks_takes_both_or_neither(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &[]);
        add(
            &story,
            vec![NewSortie { files: vec![path("src/a.rs"), path("src/b.rs")], ..sortie("Auth") }],
        );
        story.lock("bob", &["src/b.rs"]).unwrap();
        let claim = ClaimSortie { sortie: story.sortie_id("Auth"), lock: true };
        assert_eq!(story.run("ada", &claim).unwrap_err().code, Code::LockHeld);
        expect![[r#"
            mission "Add login" pending 0%
              sortie "Auth" pending -
            lock src/b.rs bob
        "#]]
        .assert_eq(&story.as_text());
        let next = ClaimNext { lock: true, ..claim_next() };
        assert_eq!(story.run("bob", &next).unwrap().owner.as_deref(), Some("bob"));
        expect![[r#"
            mission "Add login" in_progress 0%
              sortie "Auth" in_progress bob
            lock src/b.rs bob
            lock src/a.rs bob
        "#]]
        .assert_eq(&story.as_text());
    }

    fn a_failed_sortie_can_be_claimed_by_anybody_and_counts_its_attempts(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        for (at, agent) in [(1, "ada"), (2, "bob"), (3, "ada")] {
            let claimed = story.claim(agent, "User model").unwrap().sortie;
            assert_eq!((claimed.attempts, &claimed.failure), (at, &None));
            story
                .change(agent, "User model", SortieAction::Fail { reason: note("flaky") })
                .unwrap();
        }
        let seen = story.sortie("User model").sortie;
        assert_eq!((seen.attempts, seen.failure), (3, Some(note("flaky"))));
    }

    fn a_completed_sortie_cannot_be_claimed(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        story.claim("ada", "User model").unwrap();
        story.change("ada", "User model", DONE).unwrap();
        let refused = story.claim("bob", "User model").unwrap_err();
        assert_eq!(refused.code, Code::IllegalTransition);
        assert!(refused.message.ends_with("it is completed"), "{}", refused.message);
    }

    fn a_sortie_is_found_by_a_unique_beginning_of_its_id(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        let whole = story.sortie_id("User model");
        let claim = |sortie: &str| {
            story.run("ada", &ClaimSortie { sortie: sortie.to_owned(), lock: false })
        };
        assert_eq!(claim("srt-ffff").unwrap_err().code, Code::NotFound);
        assert_eq!(claim("User model").unwrap_err().code, Code::InvalidInput);
        assert_eq!(claim("T060").unwrap_err().code, Code::NotFound, "there is no such task");
        assert_eq!(claim("msn-ffff").unwrap_err().code, Code::InvalidInput);
        assert_eq!(claim(&whole[..9]).unwrap().sortie.id, whole.parse::<SortieId>().unwrap());
    }
}
