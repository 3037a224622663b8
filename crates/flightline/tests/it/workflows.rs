//! The workflows of missions, on both engines: declared states, history, pending transitions.

use flightline_testkit::prelude::*;

fn move_to(story: &Story<'_>, to: MissionStatus) -> Result<MissionView, Refusal> {
    story.run("", &change_mission(to))
}

fn with_states() -> CreateMission {
    CreateMission {
        states: [
            (name("planning"), vec![name("building")]),
            (name("building"), vec![name("review"), name("planning")]),
            (name("review"), vec![]),
        ]
        .into(),
        ..create_mission("Ship it", vec![])
    }
}

fn transition(story: &Story<'_>, to: &str, pending: bool) -> Result<MissionView, Refusal> {
    let transition = TransitionMission {
        reason: Some(note("the plan is ready")),
        pending,
        ..transition_mission(to)
    };
    story.run("ada", &transition)
}

both_engines! {
    fn a_workflow_goes_only_where_it_was_declared_to_go(world: &World) {
        let story = Story::new(world);
        story.run("", &with_states()).unwrap();
        assert_eq!(
            transition(&story, "planning", false).unwrap().mission.workflow.current,
            Some(name("planning"))
        );
        story.pass_minutes(5);
        let refused = transition(&story, "review", false).unwrap_err();
        assert_eq!(refused.code, Code::IllegalTransition);
        assert_eq!(refused.message, "`review` cannot follow `planning`");
        assert_eq!(refused.hint.unwrap(), "after `planning` may come: building");
        let unknown = transition(&story, "lunch", false).unwrap_err();
        assert_eq!(unknown.hint.unwrap(), "declared states: building, planning, review");
        transition(&story, "building", false).unwrap();
        story.pass_minutes(5);
        let last = transition(&story, "review", false).unwrap();
        assert_eq!(last.mission.workflow.previous, Some(name("building")));
        assert_eq!(last.mission.workflow.entered_at, Some(world.clock.now()));
        let states: Vec<_> = last
            .history
            .iter()
            .map(|past| (past.state.as_str(), past.exited_at.is_some(), past.trigger.as_str()))
            .collect();
        let why = "the plan is ready";
        assert_eq!(
            states,
            [("planning", true, why), ("building", true, why), ("review", false, why)]
        );
        assert_eq!(last.history[0].exited_at, Some(last.history[1].entered_at));
        let end = transition(&story, "planning", false).unwrap_err();
        assert_eq!(end.hint.unwrap(), "after `review` may come: none");
    }

    fn a_pending_transition_waits_until_it_happens(world: &World) {
        let story = Story::new(world);
        story.run("", &with_states()).unwrap();
        transition(&story, "planning", false).unwrap();
        let waiting = transition(&story, "building", true).unwrap().mission.workflow;
        assert_eq!(
            (waiting.current, waiting.pending),
            (Some(name("planning")), vec![name("building")])
        );
        let twice = transition(&story, "building", true).unwrap();
        assert_eq!(twice.mission.workflow.pending.len(), 1, "asking twice is harmless");
        assert_eq!(twice.history.len(), 1, "it has not happened yet");
        assert_eq!(transition(&story, "review", true).unwrap_err().code, Code::IllegalTransition);
        let moved = transition(&story, "building", false).unwrap().mission.workflow;
        assert_eq!((moved.current, moved.pending), (Some(name("building")), vec![]));
    }

    fn without_declared_states_any_may_follow_any(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &[]);
        transition(&story, "anything", false).unwrap();
        assert_eq!(transition(&story, "goes", false).unwrap().history.len(), 2);
        move_to(&story, MissionStatus::Failed).unwrap();
        let refused = transition(&story, "on", false).unwrap_err();
        assert_eq!(refused.message, "the mission is failed, so its workflow cannot move");
    }

    fn a_state_that_leads_nowhere_declared_is_refused(world: &World) {
        let story = Story::new(world);
        let create = CreateMission {
            states: [(name("planning"), vec![name("lunch")])].into(),
            ..create_mission("Ship it", vec![])
        };
        let refused = story.run("", &create).unwrap_err();
        assert_eq!(refused.message, "the state `planning` leads to `lunch`, which is not declared");
        assert_eq!(story.run("", &ShowMission { mission: None }).unwrap_err().code, Code::NotFound);
    }
}
