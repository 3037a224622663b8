//! Agents, on both engines: sessions and epochs, what they say of themselves, how alive they are.

use flightline::core::liveness::Life;
use flightline_testkit::prelude::*;

fn retire(agent: &str) -> RetireAgent {
    RetireAgent {
        agent: agent.to_owned(),
        reason: Some(note("its work is done")),
    }
}

fn in_session(agent: &str, session: &str) -> RegisterAgent {
    RegisterAgent {
        session: Some(title(session)),
        ..registration(agent)
    }
}

both_engines! {
    fn the_first_act_of_an_agent_registers_it(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        story
            .run_as(
                &Caller { session: Some("s-1".to_owned()), ..caller("ada") },
                &locks_on(&["Cargo.lock"]),
            )
            .unwrap();
        let ada = story.agent("ada");
        assert_eq!(
            (ada.epoch, ada.role, ada.session_id),
            (1, Role::Specialist, Some(title("s-1")))
        );
        assert_eq!(ada.session_started_at, Some(world.clock.now()));
        let registered = story
            .events_after(0)
            .into_iter()
            .find(|event| event.kind == "agent_registered")
            .unwrap();
        assert_eq!((registered.actor.as_str(), registered.epoch), ("ada", Some(1)));
    }

    fn registering_again_begins_a_new_epoch(world: &World) {
        let story = Story::new(world);
        let epochs: Vec<u64> =
            (0..3).map(|_| story.register("ada", Role::Specialist).agent.epoch).collect();
        assert_eq!(epochs, [1, 2, 3]);
        let kinds: Vec<String> =
            story.events_after(0).into_iter().map(|event| event.kind).collect();
        assert_eq!(kinds, ["agent_registered", "agent_session_started", "agent_session_started"]);
    }

    fn the_same_session_registering_again_keeps_its_epoch(world: &World) {
        let story = Story::new(world);
        let first = RegisterAgent { process: Some(process(7)), ..in_session("ada", "s-1") };
        story.run("", &first).unwrap();
        let again = RegisterAgent { feature: Some(title("login")), ..in_session("ada", "s-1") };
        let ada = story.run("", &again).unwrap().agent;
        assert_eq!((ada.epoch, ada.feature), (1, Some(title("login"))));
        assert_eq!(ada.process, Some(process(7)), "the process stays that of the session");
        let other = story.run("", &in_session("ada", "s-2")).unwrap().agent;
        assert_eq!((other.epoch, other.process, other.feature), (2, None, Some(title("login"))));
        let back = story.run("", &in_session("ada", "s-1")).unwrap().agent;
        assert_eq!(back.epoch, 3, "an old session that comes back is a new incarnation");
    }

    fn an_agent_that_registers_itself_gets_one_epoch_and_not_two(world: &World) {
        let story = Story::new(world);
        assert_eq!(story.run("ada", &registration("ada")).unwrap().agent.epoch, 1);
        let stale = Caller { epoch: Some(1), ..caller("ada") };
        assert_eq!(story.run_as(&stale, &registration("ada")).unwrap().agent.epoch, 2);
        assert_eq!(
            story.run_as(&stale, &registration("ada")).unwrap().agent.epoch,
            3,
            "the fenced come back by registering"
        );
        story.run("", &retire("ada")).unwrap();
        let back = story.run("ada", &registration("ada")).unwrap().agent;
        assert_eq!((back.epoch, back.retired_at), (4, None));
    }

    fn a_known_agent_keeps_its_role_and_kind_unless_told_otherwise(world: &World) {
        let story = Story::new(world);
        let lead = RegisterAgent {
            role: Some(Role::Dispatch),
            kind: Some(name("primary")),
            ..registration("lead")
        };
        story.run("", &lead).unwrap();
        let again = story.run("", &registration("lead")).unwrap().agent;
        assert_eq!((again.role, again.kind), (Role::Dispatch, Some(name("primary"))));
        assert_eq!(story.register("lead", Role::Specialist).agent.role, Role::Specialist);
    }

    fn some_names_would_be_taken_for_somebody_else(world: &World) {
        let story = Story::new(world);
        for taken in [
            "agt-4f1c09ab", "AGT-4f1c09ab", "user:tester", "User:root", "USER:root", "user", "flightline", "FLIGHTLINE", "Flightline",
            "mission", "Mission", "files", "FILES", "all", "ALL",
        ] {
            assert_eq!(
                story.run("", &registration(taken)).unwrap_err().code,
                Code::InvalidInput,
                "{taken}"
            );
            let first_act = story.run(taken, &locks_on(&["Cargo.lock"])).unwrap_err();
            assert!(
                matches!(first_act.code, Code::InvalidInput | Code::NotFound),
                "{taken}"
            );
        }
        let unknown = story
            .run("agt-4f1c09ab-0000-4000-8000-000000000001", &locks_on(&["Cargo.lock"]))
            .unwrap_err();
        assert_eq!(
            unknown.code,
            Code::NotFound,
            "an id is not a name for a new agent"
        );
        assert!(story.events_after(0).is_empty());
    }

    fn an_agent_is_not_taken_for_one_whose_name_differs_in_case(world: &World) {
        let story = Story::new(world);
        story.register("ada", Role::Specialist);
        let other = story.run("", &registration("Ada")).unwrap_err();
        assert_eq!(other.code, Code::AlreadyExists);
        assert_eq!(other.message, "`Ada` cannot be the name of an agent: it would be taken for `ada`");
        assert_eq!(other.hint.as_deref(), Some("act as `ada`, or choose another name"));
        assert_eq!(story.run("ADA", &locks_on(&["Cargo.lock"])).unwrap_err().code, Code::AlreadyExists, "nor by its first act");
        story.run("ada", &locks_on(&["Cargo.lock"])).unwrap();
        // Many crews have one of these names.
        for name in ["Dispatch", "orchestrator", "adam"] {
            story.run("", &registration(name)).unwrap();
        }
    }

    fn an_agent_that_has_a_reserved_name_keeps_it(world: &World) {
        let story = Story::new(world);
        let mut agent = story.register("ada", Role::Specialist).agent;
        for reserved in ["mission", "User:root", "FLIGHTLINE"] {
            agent.name = name(reserved);
            world.store().write(|tx| tx.set(EventType::AgentUpdated, &agent, &serde_json::json!({}))).unwrap();
            let listed = story.run("", &ListAgents { retired: false, sightings: vec![] }).unwrap();
            assert_eq!(listed[0].agent.name, name(reserved));
            story.run(reserved, &locks_on(&["Cargo.lock"])).unwrap();
            assert_eq!(story.run("", &registration(reserved)).unwrap().agent.id, agent.id);
            agent = story.agent(reserved);
        }
    }

    fn an_agent_may_be_given_by_name_id_or_beginning_of_its_id(world: &World) {
        let story = Story::new(world);
        let id = story.register("ada", Role::Specialist).agent.id.to_string();
        let show = |agent: &str| story.run("", &show_agent(agent));
        for reference in ["ada", id.as_str(), &id[..12]] {
            assert_eq!(show(reference).unwrap().agent.name, name("ada"), "{reference}");
        }
        let unknown = show("eve").unwrap_err();
        assert_eq!(
            (unknown.code, unknown.hint.unwrap().as_str()),
            (Code::NotFound, "known agents: ada")
        );
        story.run(&id, &locks_on(&["Cargo.lock"])).unwrap();
        assert_eq!(story.agent("ada").epoch, 1, "acting by id is acting as ada");
    }

    fn an_update_moves_the_step_before_to_the_completed_ones(world: &World) {
        let story = Story::new(world);
        let step = |text: &str| UpdateAgent { step: Some(title(text)), ..UpdateAgent::default() };
        let ada = story.run("ada", &step("read the code")).unwrap().agent;
        assert_eq!(
            (ada.status, ada.current_step),
            (AgentStatus::InProgress, Some(title("read the code")))
        );
        story.run("ada", &step("read the code")).unwrap();
        story.pass_minutes(1);
        story.run("ada", &step("write the code")).unwrap();
        story
            .run(
                "ada",
                &UpdateAgent {
                    completed_steps: vec![title("run the tests")],
                    ..step("write the docs")
                },
            )
            .unwrap();
        let shown = story.run("ada", &show_self()).unwrap();
        let steps: Vec<_> =
            shown.completed_steps.iter().map(|step| (step.number, step.text.as_str())).collect();
        assert_eq!(steps, [(1, "read the code"), (2, "run the tests"), (3, "write the code")]);
        assert_eq!(shown.agent.current_step, Some(title("write the docs")));
    }

    fn what_an_update_leaves_out_stays(world: &World) {
        let story = Story::new(world);
        let first = UpdateAgent {
            status: Some(AgentStatus::Waiting),
            feature: Some(title("login")),
            stage: Some(title("implementation")),
            phase: Some(title("2")),
            next_steps: vec![title("tests")],
            blockers: vec![title("the schema")],
            files: vec![path("src/a.rs")],
            recovery_instructions: Some(note("read PLAN.md")),
            can_resume: Some(false),
            updated_overview: true,
            ..UpdateAgent::default()
        };
        let before = story.run("ada", &first).unwrap().agent;
        story.pass_minutes(1);
        let more = UpdateAgent {
            files: vec![path("src/b.rs"), path("src/a.rs")],
            ..UpdateAgent::default()
        };
        let after = story.run("ada", &more).unwrap().agent;
        assert_eq!(after.files_modified, [path("src/a.rs"), path("src/b.rs")]);
        assert_eq!(
            (after.status, &after.feature, &after.stage, &after.phase),
            (before.status, &before.feature, &before.stage, &before.phase)
        );
        assert_eq!(
            (&after.next_steps, &after.blockers, after.can_resume),
            (&before.next_steps, &before.blockers, false)
        );
        assert_eq!(after.recovery_instructions, before.recovery_instructions);
        assert_eq!(
            after.coordination.last_epic_readme_update,
            before.coordination.last_epic_readme_update
        );
        let cleared =
            UpdateAgent { clear_blockers: true, clear_files: true, ..UpdateAgent::default() };
        let ada = story.run("ada", &cleared).unwrap().agent;
        assert_eq!((ada.blockers, ada.files_modified), (vec![], vec![]));
    }

    fn the_last_checkpoint_moves_only_by_the_agents_own_act(world: &World) {
        let story = Story::new(world);
        story.register("lead", Role::Dispatch);
        let own = UpdateAgent { next_checkpoint_ms: Some(900_000), ..UpdateAgent::default() };
        let noon = world.clock.now();
        let ada = story.run("ada", &own).unwrap().agent;
        assert_eq!(
            (ada.last_checkpoint, ada.next_checkpoint_expected),
            (Some(noon), Some(noon.plus(900_000)))
        );
        story.pass_minutes(5);
        let others = UpdateAgent {
            agent: Some("ada".to_owned()),
            stage: Some(title("review")),
            ..UpdateAgent::default()
        };
        for somebody in ["lead", ""] {
            let ada = story.run(somebody, &others).unwrap().agent;
            assert_eq!((ada.last_checkpoint, ada.stage), (Some(noon), Some(title("review"))));
        }
        let refused = story.run("bob", &others).unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (Code::NotYours, "only ada or dispatch may update ada")
        );
        assert_eq!(
            story.run("ada", &others).unwrap().agent.last_checkpoint,
            Some(noon.plus(300_000))
        );
    }

    fn an_agent_that_holds_work_cannot_be_retired(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        story.claim("ada", "User model").unwrap();
        story.lock("ada", &["src"]).unwrap();
        story.register("bob", Role::Specialist);
        assert_eq!(story.run("bob", &retire("ada")).unwrap_err().code, Code::NotYours);
        let refused = story.run("", &retire("ada")).unwrap_err();
        assert_eq!(refused.code, Code::Unfinished);
        assert!(refused.message.starts_with("ada still holds srt-"), "{}", refused.message);
        story.change("", "User model", GIVEN_BACK).unwrap();
        let gone = story.run("", &retire("ada")).unwrap();
        assert_eq!(
            (gone.liveness.life, gone.agent.retired_at),
            (Life::Dead, Some(world.clock.now()))
        );
        assert!(gone.locks.is_empty(), "its locks are let go");
        assert_eq!(story.run("", &retire("ada")).unwrap_err().message, "ada was retired already");
    }

    fn a_retired_agent_acts_no_more_until_it_registers(world: &World) {
        let story = Story::new(world);
        story.run("ada", &locks_on(&["Cargo.lock"])).unwrap();
        story.run("ada", &retire("ada")).unwrap();
        let refused = story.run("ada", &locks_on(&["Cargo.lock"])).unwrap_err();
        assert_eq!(
            (refused.code, refused.hint.unwrap().as_str()),
            (Code::Fenced, "bring it back with `fleet agents register ada`")
        );
        assert_eq!(story.beat("ada").unwrap_err().code, Code::Fenced);
        let names = |retired| {
            let listed = story.run("", &ListAgents { retired, sightings: vec![] }).unwrap();
            listed.into_iter().map(|view| view.agent.name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!((names(false), names(true)), (vec![], vec!["ada".to_owned()]));
        story.register("ada", Role::Specialist);
        story.run("ada", &locks_on(&["Cargo.lock"])).unwrap();
        assert_eq!(story.agent("ada").epoch, 2);
    }

    fn a_time_beyond_all_times_stays_readable(world: &World) {
        let story = Story::new(world);
        let never = UpdateAgent { next_checkpoint_ms: Some(u64::MAX), ..UpdateAgent::default() };
        let due: Time = story.run("ada", &never).unwrap().agent.next_checkpoint_expected.unwrap();
        assert_eq!(story.agent("ada").next_checkpoint_expected, Some(due));
        assert!(story.damaged_values().is_empty());
    }
}
