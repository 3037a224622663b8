//! Checkpoints that time makes due, and triggers that are switched off, on both engines.

use flightline::checkpoint::due::take_due;
use flightline::core::policy::Triggers;
use flightline_testkit::prelude::*;

/// Takes what is due under a preset, for an agent's heartbeat or for the next caller.
fn due(world: &World, preset: Preset, agent: &str, heartbeat: bool) -> usize {
    let mut fleet = Fleet::new(world.store(), preset.policy());
    take_due(&mut fleet, &caller(agent), heartbeat)
        .unwrap()
        .len()
}

fn progress(story: &Story<'_>) {
    story.report("ada", "Model", &format!("at {}", story.rev()));
}

both_engines! {
    fn an_interval_is_noticed_by_the_next_caller(world: &World) {
        let story = at_model(world);
        assert_eq!(due(world, Preset::Orchestrator, "", false), 0, "it has only begun");
        story.pass_minutes(5);
        assert_eq!(due(world, Preset::Orchestrator, "", false), 1);
        assert_eq!(story.reasons().last(), Some(&Reason::Interval));
        assert_eq!(due(world, Preset::Orchestrator, "", false), 0, "once");
    }

    fn an_idle_fleet_makes_none(world: &World) {
        let story = at_model(world);
        story.pass_minutes(5);
        assert_eq!(due(world, Preset::Orchestrator, "", false), 1);
        story.pass_minutes(60);
        assert_eq!(due(world, Preset::Orchestrator, "", false), 0);
        progress(&story);
        assert_eq!(due(world, Preset::Orchestrator, "", false), 1);
        // Any other checkpoint that holds the last change will do.
        progress(&story);
        story.checkpoint();
        story.pass_minutes(60);
        assert_eq!(due(world, Preset::Orchestrator, "", false), 0);
    }

    fn a_heartbeat_saves_the_mission_its_agent_works_on(world: &World) {
        let story = at_model(world);
        story.mission("Elsewhere", &["Other"]);
        story.claim("eve", "Other").unwrap();
        story.pass_minutes(5);
        assert_eq!(due(world, Preset::Sitebuilder, "ada", true), 1);
        let taken = story.checkpoints().pop().unwrap();
        assert_eq!((taken.cut.reason, taken.cut.mission_id), (Reason::Heartbeat, story.stored_sortie("Model").mission_id));
        assert_eq!(due(world, Preset::Sitebuilder, "ada", true), 0);
        story.pass_minutes(14);
        progress(&story);
        assert_eq!(due(world, Preset::Epic, "ada", true), 0, "the seed's fifteen minutes");
        story.pass_minutes(1);
        assert_eq!(due(world, Preset::Epic, "ada", true), 1);
    }

    fn a_fleet_that_wants_neither_takes_neither(world: &World) {
        let story = at_model(world);
        story.pass_minutes(600);
        let before = story.reasons().len();
        assert_eq!(due(world, Preset::Fleet, "ada", true) + due(world, Preset::Fleet, "", false), 0);
        assert_eq!(story.reasons().len(), before);
    }

    fn each_seed_takes_them_at_its_own_moments(world: &World) {
        let story = at_model(world);
        let under = |preset: Preset, act: &dyn Fn(&mut Fleet)| {
            let before = story.reasons().len();
            act(&mut Fleet::new(world.store(), preset.policy()));
            story.reasons().split_off(before)
        };
        let ada = caller("ada");
        let update = |part: &str, created: &str, modified: &str, lines: u64| UpdateSortie {
            sortie: story.sortie_id("Model"),
            subtasks: (!part.is_empty()).then(|| subtask(part, SubtaskStatus::Complete)).into_iter().collect(),
            files: [(created, FileChange::Created), (modified, FileChange::Modified)].into_iter()
                .filter(|(file, _)| !file.is_empty())
                .map(|(named, change)| file(named, change)).collect(),
            changed_lines: [(path(if modified.is_empty() { "none" } else { modified }), lines)].into(),
            ..UpdateSortie::default()
        };
        for (request, preset, expected) in [
            (update("hero", "", "", 0), Preset::Sitebuilder, vec![Reason::SubtaskDone]),
            (update("", "src/a.ts", "", 0), Preset::Sitebuilder, vec![Reason::FileCreated]),
            (update("", "", "src/b.ts", 10), Preset::Sitebuilder, vec![]),
            (update("", "", "src/b.ts", 51), Preset::Sitebuilder, vec![Reason::FileModified]),
            (update("menu", "src/c.ts", "", 0), Preset::Sitebuilder, vec![Reason::SubtaskDone]),
            (update("footer", "src/d.ts", "", 0), Preset::Fleet, vec![]),
        ] {
            let act = |fleet: &mut Fleet| { fleet.run(&request, &ada).unwrap(); };
            assert_eq!(under(preset, &act), expected, "{request:?}");
        }
        let own = |update: UpdateAgent| move |fleet: &mut Fleet| { fleet.run(&update, &caller("ada")).unwrap(); };
        let phase = |word: &str| UpdateAgent { phase: Some(title(word)), ..UpdateAgent::default() };
        assert_eq!(under(Preset::Epic, &own(phase("design"))), [], "none was completed");
        assert_eq!(under(Preset::Epic, &own(phase("build"))), [Reason::PhaseComplete]);
        let point = UpdateAgent { sync_point: Some(title("review")), ..UpdateAgent::default() };
        assert_eq!(under(Preset::Epic, &own(point)), [Reason::SyncPoint]);
        let stuck = UpdateAgent { blockers: vec![title("no key")], ..UpdateAgent::default() };
        assert_eq!(under(Preset::Epic, &own(stuck)), [Reason::Blocker]);
        let reviewed = AddReview { sortie: story.sortie_id("Model"), reviewer: Some(name("eve")), score: Some(9), note: None };
        let act = |fleet: &mut Fleet| { fleet.run(&reviewed, &ada).unwrap(); };
        assert_eq!(under(Preset::Sitebuilder, &act), [Reason::ReviewDone]);
        let moved = |action: SortieAction| {
            let change = change_sortie(story.sortie_id("Model"), action);
            move |fleet: &mut Fleet| { fleet.run(&change, &caller("")).unwrap(); }
        };
        let done = DONE;
        assert_eq!(under(Preset::Orchestrator, &moved(done.clone())), [Reason::AgentComplete]);
        assert_eq!(under(Preset::Orchestrator, &moved(SortieAction::Reject { reason: note("again") })), [Reason::UserApproval]);
        assert_eq!(under(Preset::Sitebuilder, &moved(done)), [Reason::TaskComplete]);
    }

    fn every_action_of_seed_bs_table_takes_one(world: &World) {
        let story = Story::under(world, Preset::Sitebuilder.policy());
        story.mission("Build the site", &["Model", "Tests"]);
        story.claim("ada", "Model").unwrap();
        let update = |change: UpdateSortie| {
            let change = UpdateSortie { sortie: story.sortie_id("Model"), ..change };
            story.run("ada", &change).unwrap();
        };
        let file = |named: &str, change: FileChange| vec![file(named, change)];
        let error = |kind: &str, blocking: bool| {
            let error = ReportError { blocking, ..report_error(story.sortie_id("Model"), kind, "it broke") };
            story.run("ada", &error).unwrap();
        };
        update(UpdateSortie { files: file("src/a.ts", FileChange::Created), ..UpdateSortie::default() });
        update(UpdateSortie { files: file("src/a.ts", FileChange::Modified), changed_lines: [(path("src/a.ts"), 51)].into(), ..UpdateSortie::default() });
        let part = subtask("hero", SubtaskStatus::Complete);
        update(UpdateSortie { subtasks: vec![part], ..UpdateSortie::default() });
        error("lint", false);
        error("dependency_missing", true);
        story.run("ada", &ClearErrors { sortie: story.sortie_id("Model") }).unwrap();
        story.change("ada", "Model", SortieAction::Resume).unwrap();
        story.pass_minutes(5);
        assert_eq!(due(world, Preset::Sitebuilder, "ada", true), 1);
        let reviewed = AddReview { sortie: story.sortie_id("Model"), reviewer: Some(name("agent_4")), score: Some(85), note: None };
        story.run("", &reviewed).unwrap();
        story.change("ada", "Model", DONE).unwrap();
        assert_eq!(story.reasons(), [
            Reason::FileCreated, Reason::FileModified, Reason::SubtaskDone, Reason::Blocker, Reason::Blocker, Reason::Heartbeat,
            Reason::ReviewDone, Reason::TaskComplete,
        ]);
        // What changes little is no reason, and neither is a review that is only asked for.
        let before = story.reasons().len();
        story.claim("ada", "Tests").unwrap();
        let little = UpdateSortie {
            sortie: story.sortie_id("Tests"), files: file("src/b.ts", FileChange::Modified), changed_lines: [(path("src/b.ts"), 50)].into(), ..UpdateSortie::default()
        };
        story.run("ada", &little).unwrap();
        story.run("", &AddReview { score: None, ..reviewed }).unwrap();
        assert_eq!(story.reasons().len(), before);
    }

    fn a_trigger_that_is_off_takes_none(world: &World) {
        let story = at_model(world);
        let policy = Policy { triggers: Triggers::default(), ..Policy::default() };
        let mut fleet = Fleet::new(world.store(), policy);
        let before = story.reasons().len();
        for (sortie, action) in
            [("Model", DONE), ("Tests", SortieAction::Fail { reason: note("it broke") })]
        {
            let _ = story.claim("ada", sortie);
            fleet.run(&change_sortie(story.sortie_id(sortie), action), &caller("ada")).unwrap();
        }
        assert_eq!(story.reasons().len(), before, "neither the milestone nor the failure");
        story.checkpoint();
        assert_eq!(story.reasons().len(), before + 1, "what somebody asks for is taken");
    }
}
