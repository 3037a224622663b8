//! Seed D's recovery on the store, on both engines: what is in the way, what the caller that resumes decides about
//! it, and the points one can go back to.

use flightline::core::recovery::Analysis;
use flightline::mission::PastState;
use flightline::recovery::points::{ListRecoveryPoints, RecoveryPoint};
use flightline_testkit::prelude::*;
use serde_json::json;

/// A mission with a workflow, under seed D's policy. `Release` waits for `Code`.
fn orchestrated(world: &World) -> Story<'_> {
    let story = Story::under(world, Preset::Orchestrator.policy());
    let create = CreateMission {
        states: [
            (name("PLANNING"), vec![name("CODING")]),
            (name("CODING"), vec![name("REVIEW"), name("ERROR")]),
            (name("REVIEW"), vec![name("COMPLETE")]),
            (name("ERROR"), vec![]),
            (name("COMPLETE"), vec![]),
        ]
        .into(),
        ..create_mission("Ship it", vec![sortie("Plan"), sortie("Code")])
    };
    story.run("", &create).unwrap();
    let release = NewSortie {
        depends_on: vec![story.sortie_id("Code")],
        ..sortie("Release")
    };
    story.run("", &add_sorties(vec![release])).unwrap();
    story
}

/// An agent tries a sortie so often, and fails each time.
fn fail(story: &Story<'_>, agent: &str, named: &str, times: usize) {
    for _ in 0..times {
        story.claim(agent, named).unwrap();
        let why = SortieAction::Fail {
            reason: note("the tests do not pass"),
        };
        story.change(agent, named, why).unwrap();
    }
}

fn skipping() -> Resume {
    Resume {
        skip_failed: true,
        ..Resume::default()
    }
}

fn resetting(state: &str) -> Resume {
    Resume {
        reset_to: Some(name(state)),
        ..Resume::default()
    }
}

fn mission(story: &Story<'_>) -> Mission {
    story.all::<Mission>().remove(0)
}

fn history(story: &Story<'_>) -> Vec<PastState> {
    let show = ShowMission { mission: None };
    story.run("", &show).unwrap().history
}

fn states(story: &Story<'_>) -> Vec<String> {
    history(story).into_iter().map(|past| past.state).collect()
}

fn points(story: &Story<'_>) -> Vec<RecoveryPoint> {
    let list = ListRecoveryPoints {
        mission: None,
        limit: 10,
    };
    story.run("", &list).unwrap().points
}

fn short(id: impl ToString) -> String {
    id.to_string()[..12].to_owned()
}

/// What a dry run says, and that it changes nothing.
fn rehearsed(story: &Story<'_>, request: &Resume) -> Result<Resumed, Refusal> {
    let rev = story.rev();
    let said = story.with_fleet(|fleet| fleet.rehearse(request, &caller("")));
    assert_eq!(story.rev(), rev);
    said.map_err(flightline::Error::into_refusal)
}

/// What two runs have to have in common: everything but the ids they drew.
fn comparable(resumed: Resumed) -> serde_json::Value {
    let mut value = serde_json::to_value(resumed).unwrap();
    value["recovery_id"] = json!(null);
    value["before"] = json!(value["before"].is_string());
    value
}

/// A dry run says exactly what the real one does.
fn predicted(story: &Story<'_>, request: &Resume) -> Resumed {
    let dry = rehearsed(story, request).unwrap();
    let done = story.run("", request).unwrap();
    assert_eq!(comparable(dry), comparable(done.clone()));
    done
}

both_engines! {
    fn what_failed_too_often_stops_a_resume_until_it_is_left_out(world: &World) {
        let story = orchestrated(world);
        fail(&story, "coder", "Code", 2);
        assert!(story.resume("", vec![]).is_ok(), "it can be tried once more");
        fail(&story, "coder", "Code", 1);
        let rev = story.rev();
        let refused = story.resume("", vec![]).unwrap_err();
        let id = short(story.sortie_id("Code"));
        let said = format!("{id} (\"Code\") failed after 3 attempts");
        assert_eq!(refused.code, Code::Unfinished);
        assert_eq!(refused.message, format!("cannot resume {} (\"Ship it\"): {said}", short(mission(&story).id)));
        let ways = ["skip failed work: `fleet resume --skip-failed`".to_owned(), format!("retry it: `fleet sorties release {id}`")];
        assert_eq!(refused.hint.unwrap(), ways.join("\n"));
        assert_eq!(refused.details["errors"], json!([said]));
        assert_eq!(refused.details["suggestions"], json!(ways));
        assert_eq!(rehearsed(&story, &Resume::default()).unwrap_err().message, refused.message, "a dry run says the same");
        assert_eq!(story.rev(), rev, "nothing was written");

        let done = predicted(&story, &skipping());
        assert_eq!(done.skipped_agents, ["coder"]);
        assert_eq!(done.skipped_sorties.iter().map(ToString::to_string).collect::<Vec<_>>(), [story.sortie_id("Code")]);
        assert_eq!(done.warnings, [format!("{id} (\"Code\") failed and is left out")]);
        assert!(done.errors.is_empty() && !done.analysis.unwrap().can_resume);
        assert!(!done.recovery_context.next_steps.iter().any(|step| step.contains("Decide about")), "{:?}", done.recovery_context.next_steps);
        assert_eq!(story.all::<Recovery>().pop().unwrap().skipped, done.skipped_sorties);
        assert_eq!(story.events_of("fleet_recovered").pop().unwrap().data["skipped_agents"], json!(["coder"]));
        let left_out = story.stored_sortie("Code");
        assert_eq!((left_out.status, left_out.attempts), (SortieStatus::Skipped, 3));
        assert!(story.resume("", vec![]).is_ok(), "and nothing is in the way any more");
        assert!(world.problems().is_empty());
    }

    fn what_is_suggested_names_the_mission_that_was_named(world: &World) {
        let story = orchestrated(world);
        fail(&story, "coder", "Code", 3);
        let id = mission(&story).id;
        story.mission("Another", &["Elsewhere"]);
        let refused = story.run("", &Resume { mission: Some(id.to_string()), ..Resume::default() }).unwrap_err();
        let ways = refused.hint.unwrap();
        assert!(ways.starts_with(&format!("skip failed work: `fleet resume --mission {} --skip-failed`", short(id))), "{ways}");
    }

    fn a_sortie_that_cannot_be_read_stops_nothing(world: &World) {
        let story = orchestrated(world);
        story.checkpoint();
        story.finish("planner", &["Plan"]);
        fail(&story, "coder", "Code", 3);
        damage::everywhere(world, Kind::Sortie, &story.sortie_id("Plan"), 0);
        let refused = story.run("", &skipping());
        assert_eq!(refused.unwrap_err().code, Code::Integrity, "no checkpoint is sound");
        let story = Story::under(world, Preset::Orchestrator.policy());
        story.mission("Another", &["One", "Two", "Three"]);
        let cut = story.checkpoint().id;
        let rev = story.rev();
        story.finish("planner", &["One"]);
        fail(&story, "coder", "Two", 3);
        damage::everywhere(world, Kind::Sortie, &story.sortie_id("One"), rev);
        let done = story.run("", &skipping()).unwrap();
        assert_eq!((done.checkpoint_id, done.skipped_agents), (cut, vec!["coder".to_owned()]));
    }

    fn a_mission_goes_on_without_what_was_left_out(world: &World) {
        let story = orchestrated(world);
        fail(&story, "coder", "Code", 3);
        assert_eq!(story.claim("boss", "Release").unwrap_err().code, Code::IllegalTransition, "it waits");
        story.run("", &skipping()).unwrap();
        story.finish("boss", &["Plan"]);
        assert_eq!(story.claim_next("boss").unwrap().sortie.title.as_str(), "Release", "it waits no longer");
        story.change("boss", "Release", DONE).unwrap();
        let shown = story.run("", &ShowMission { mission: None }).unwrap();
        assert_eq!((shown.progress.completed, shown.progress.total, shown.progress_percent), (2, 3, 67), "what was left out is not done");
        let steps = story.checkpoint().recovery_context.next_steps;
        assert_eq!(steps, ["Complete the mission: every sortie is completed or left out"]);
        let complete = change_mission(MissionStatus::Completed);
        assert_eq!(story.run("", &complete).unwrap().mission.status, MissionStatus::Completed);
        let refused = story.run("", &skipping()).unwrap_err();
        assert!(refused.message.ends_with("it is completed"), "{}", refused.message);
    }

    fn what_was_left_out_can_be_done_after_all(world: &World) {
        let story = orchestrated(world);
        fail(&story, "coder", "Code", 3);
        story.run("", &skipping()).unwrap();
        let taken = story.claim("other", "Code").unwrap().sortie;
        assert_eq!((taken.status, taken.attempts, taken.failure), (SortieStatus::InProgress, 4, None));
        story.change("other", "Code", DONE).unwrap();
        assert_eq!(story.stored_sortie("Code").status, SortieStatus::Completed);
        let none = story.run("", &skipping()).unwrap();
        assert!(none.skipped_agents.is_empty() && none.warnings.is_empty(), "nothing failed");
    }

    fn where_the_policy_is_not_strict_a_resume_says_what_is_in_the_way(world: &World) {
        let story = orchestrated(world);
        fail(&story, "coder", "Code", 3);
        let lenient = Story::under(world, Policy { strict: false, ..Preset::Orchestrator.policy() });
        let done = predicted(&lenient, &Resume::default());
        assert_eq!(done.errors, [format!("{} (\"Code\") failed after 3 attempts", short(story.sortie_id("Code")))]);
        assert_eq!(story.stored_sortie("Code").status, SortieStatus::Failed, "nobody decided about it");
        let patient = Story::under(world, Policy { retry_limit: 4, ..Preset::Orchestrator.policy() });
        assert!(predicted(&patient, &Resume::default()).errors.is_empty(), "the limit is a setting");
    }

    fn a_workflow_is_set_back_and_its_history_stays(world: &World) {
        let story = orchestrated(world);
        for state in ["PLANNING", "CODING", "ERROR"] {
            story.pass_minutes(1);
            story.transition(state);
        }
        let refused = story.resume("", vec![]).unwrap_err();
        assert!(refused.message.ends_with("the workflow is in `ERROR`, which has no next state"), "{}", refused.message);
        assert_eq!(refused.hint.unwrap(), "reset the workflow to a state that can continue: `fleet resume --reset-to CODING`");
        let rev = story.rev();
        let unknown = story.run("", &resetting("LUNCH")).unwrap_err();
        assert_eq!((unknown.code, unknown.message.as_str()), (Code::IllegalTransition, "`LUNCH` is not a declared state"));
        assert_eq!(unknown.hint.unwrap(), "declared states: CODING, COMPLETE, ERROR, PLANNING, REVIEW");
        assert_eq!(story.rev(), rev, "a typing error loses nothing");
        story.pass_minutes(1);
        let done = predicted(&story, &resetting("CODING"));
        assert_eq!((done.restored_state.as_deref(), done.errors.len()), (Some("CODING"), 0));
        assert_eq!(done.analysis.unwrap().resume_from_state.as_deref(), Some("ERROR"));
        let workflow = mission(&story).workflow;
        assert_eq!((workflow.current, workflow.previous), (Some(name("CODING")), Some(name("ERROR"))));
        assert_eq!(workflow.entered_at, Some(world.clock.now()));
        assert_eq!(states(&story), ["PLANNING", "CODING", "ERROR", "CODING"]);
        assert_eq!(history(&story).pop().unwrap().trigger, "recovery");
        assert_eq!(story.checkpoints().pop().unwrap().cut.reason, Reason::StateTransition);
        assert_eq!(story.events_of("fleet_recovered").pop().unwrap().data["restored_state"], "CODING");
        let rev = story.kinds_after(0).iter().filter(|kind| *kind == "mission_transitioned").count();
        assert_eq!(story.run("", &resetting("CODING")).unwrap().restored_state.as_deref(), Some("CODING"));
        let again = story.kinds_after(0).iter().filter(|kind| *kind == "mission_transitioned").count();
        assert_eq!(again, rev, "it is there already");
        story.transition("REVIEW");
    }

    fn pending_transitions_end_with_the_state_they_were_asked_for_in(world: &World) {
        let story = orchestrated(world);
        story.transition("PLANNING");
        story.transition("CODING");
        let wish = TransitionMission { pending: true, ..transition_mission("REVIEW") };
        story.run("", &wish).unwrap();
        story.checkpoint();
        story.run("", &resetting("PLANNING")).unwrap();
        assert!(mission(&story).workflow.pending.is_empty());
    }

    fn without_declared_states_it_is_set_back_to_where_it_was(world: &World) {
        let story = Story::under(world, Preset::Orchestrator.policy());
        story.mission("Free", &["Plan"]);
        story.checkpoint();
        let none = story.run("", &resetting("planning")).unwrap_err();
        assert_eq!(none.message, "the workflow cannot be set back to `planning`: the mission has none");
        story.transition("planning");
        story.transition("coding");
        let never = story.run("", &resetting("plannig")).unwrap_err();
        assert_eq!(never.hint.unwrap(), "states so far: coding, planning");
        assert_eq!(story.run("", &resetting("planning")).unwrap().restored_state.as_deref(), Some("planning"));
    }

    fn going_back_to_a_checkpoint_takes_the_same_decisions(world: &World) {
        let story = orchestrated(world);
        story.transition("PLANNING");
        story.transition("CODING");
        fail(&story, "coder", "Code", 3);
        story.transition("ERROR");
        let cut = story.checkpoint().id;
        story.run("", &Resume { skip_failed: true, ..resetting("PLANNING") }).unwrap();
        story.finish("other", &["Code"]);
        let back = |request: Resume| Resume { checkpoint: Some(cut.to_string()), force: true, ..request };
        let refused = story.run("", &back(Resume::default())).unwrap_err();
        assert_eq!(refused.code, Code::Unfinished, "what the checkpoint holds cannot go on");
        let ways = refused.hint.unwrap();
        assert!(ways.contains(&format!("`fleet resume --checkpoint {} --skip-failed`", short(cut))) && !ways.contains("release"), "{ways}");
        story.pass_minutes(1);
        let done = predicted(&story, &back(Resume { skip_failed: true, ..resetting("CODING") }));
        assert!(done.rewound && done.before.is_some());
        assert_eq!((done.restored_state.as_deref(), done.skipped_agents), (Some("CODING"), vec!["coder".to_owned()]));
        assert!(done.lost.iter().any(|lost| lost.contains("no longer completed")), "{:?}", done.lost);
        assert_eq!(story.stored_sortie("Code").status, SortieStatus::Skipped);
        assert_eq!(states(&story), ["PLANNING", "CODING", "ERROR", "PLANNING", "ERROR", "CODING"], "the way back is told");
        story.run("", &undo_rewind(Force::Yes)).unwrap();
        assert_eq!(story.stored_sortie("Code").status, SortieStatus::Completed);
        assert_eq!(mission(&story).workflow.current, Some(name("PLANNING")));
        assert_eq!(states(&story).last().map(String::as_str), Some("PLANNING"));
        assert!(world.problems().is_empty());
    }

    fn one_decision_is_enough_and_the_rest_is_named(world: &World) {
        let story = orchestrated(world);
        story.transition("PLANNING");
        story.transition("CODING");
        fail(&story, "coder", "Code", 3);
        story.transition("ERROR");
        let done = predicted(&story, &skipping());
        assert_eq!(done.errors, ["the workflow is in `ERROR`, which has no next state"]);
        assert_eq!(done.restored_state.as_deref(), Some("ERROR"));
    }

    fn a_running_agent_that_is_gone_comes_back_as_pending(world: &World) {
        let story = orchestrated(world);
        story.board("coder", Role::Specialist, 41);
        story.board("planner", Role::Specialist, 42);
        story.claim("coder", "Code").unwrap();
        story.claim("planner", "Plan").unwrap();
        story.transition("PLANNING");
        let mut seen = story.seen(false, &["coder"]);
        seen.extend(story.seen(true, &["planner"]));
        let done = predicted(&story, &roll_forward(seen));
        let analysis = done.analysis.unwrap();
        assert!(analysis.can_resume, "what was under way stops nothing");
        assert_eq!(analysis.resume_from_agent.as_deref(), Some("planner"), "the first of them");
        assert_eq!(analysis.blockers, [format!("{} (\"Plan\") was worked on by planner", short(story.sortie_id("Plan")))]);
        let (code, plan) = (story.stored_sortie("Code"), story.stored_sortie("Plan"));
        assert_eq!((code.status, code.attempts), (SortieStatus::Pending, 1));
        assert_eq!(plan.status, SortieStatus::InProgress, "who is alive keeps its work");
    }

    fn recovery_points_say_whether_work_can_go_on_from_them(world: &World) {
        let story = orchestrated(world);
        assert!(points(&story).is_empty());
        story.transition("PLANNING");
        story.claim("coder", "Code").unwrap();
        story.transition("CODING");
        story.pass_minutes(1);
        fail(&story, "other", "Plan", 3);
        story.transition("ERROR");
        let found = points(&story);
        let told: Vec<_> = found.iter().map(|it| (it.reason.as_deref().unwrap(), it.state.as_deref().unwrap(), it.can_resume)).collect();
        assert_eq!(told, [
            ("state_transition", "ERROR", false),
            ("sortie_failed", "CODING", true),
            ("state_transition", "CODING", true),
            ("state_transition", "PLANNING", true),
        ], "newest first; the first failure of three is the one that was saved");
        assert_eq!(found[2].resume_from_agent.as_deref(), Some("coder"));
        assert_eq!(found[3].resume_from_agent, None, "nobody was at work yet");
        let newest = &found[0];
        let id = short(newest.id);
        assert_eq!(newest.suggestions, [
            format!("skip failed work: `fleet resume --checkpoint {id} --skip-failed`"),
            format!("reset the workflow to a state that can continue: `fleet resume --checkpoint {id} --reset-to CODING`"),
        ]);
        // Shown alone, it says the same.
        let shown = story.run("", &ShowCheckpoint { checkpoint: newest.id.to_string() }).unwrap();
        let Analysis { can_resume, blockers, suggestions, .. } = shown.recovery_analysis.unwrap();
        assert_eq!((can_resume, &blockers, &suggestions), (false, &newest.blockers, &newest.suggestions));
        story.mark("", newest.id, CheckpointMark::Archive).unwrap();
        assert_eq!(points(&story).len(), 3, "archived ones are no points");
        let few = ListRecoveryPoints { mission: None, limit: 1 };
        let few = story.run("", &few).unwrap();
        assert_eq!((few.points.len(), few.total), (1, 3));
        let nowhere = ListRecoveryPoints { mission: Some("msn-ffff".to_owned()), limit: 1 };
        assert_eq!(story.run("", &nowhere).unwrap_err().code, Code::NotFound);
    }

    fn a_damaged_point_hides_no_other(world: &World) {
        let story = orchestrated(world);
        story.transition("PLANNING");
        let older = story.checkpoint().id;
        story.transition("CODING");
        let newest: CheckpointId = story.checkpoints().pop().unwrap().id;
        damage::everywhere(world, Kind::Checkpoint, &newest.to_string(), 0);
        let found = points(&story);
        assert_eq!(found.len(), 3);
        let (damaged, sound) = (&found[0], &found[1]);
        assert_eq!((damaged.id, damaged.sound, damaged.can_resume, damaged.progress_percent), (newest, false, false, None));
        assert!(damaged.blockers[0].contains("is damaged"), "{:?}", damaged.blockers);
        assert_eq!(damaged.suggestions[0], format!("look closer: `fleet checkpoints verify {}`", short(newest)));
        assert_eq!((sound.id, sound.sound, sound.can_resume), (older, true, true));
    }

    fn after_a_crash_the_newest_serves_unless_all_is_done(world: &World) {
        let story = orchestrated(world);
        story.board("coder", Role::Specialist, 41);
        story.claim("coder", "Code").unwrap();
        story.transition("PLANNING");
        story.transition("CODING");
        let newest = story.checkpoints().pop().unwrap().id;
        let gone = story.seen(false, &["coder"]);
        let found = story.detect("", gone.clone());
        assert_eq!((found.len(), found[0].checkpoint_id), (1, Some(newest)));
        let resumed = story.resume("", gone).unwrap();
        assert_eq!((resumed.checkpoint_id, resumed.restored_state.as_deref()), (newest, Some("CODING")));
        story.transition("REVIEW");
        story.transition("COMPLETE");
        story.pass_minutes(600);
        assert!(story.detect("", vec![]).is_empty(), "the workflow is complete, and nobody is at work");
        story.claim("late", "Plan").unwrap();
        story.pass_minutes(600);
        assert_eq!(story.detect("", vec![]).len(), 1, "somebody was at work all the same");
    }
}
