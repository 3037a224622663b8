//! Contexts that fill up (seed E): each threshold once per context, checkpoints, modes, the end of a
//! session and the full sync, on both engines.

use std::sync::Barrier;
use std::thread;

use flightline::agent::HeartbeatRecorded;
use flightline::agent::context::{EndSession, FullSync, SessionEnded};
use flightline::core::context::ContextMode;
use flightline::core::policy::{RecoveryMode, Triggers};
use flightline_testkit::prelude::*;
use flightline_testkit::story::unrehearsed_fleet;
use serde_json::json;

fn full(percent: u8) -> Heartbeat {
    Heartbeat {
        context_percent: Some(percent),
        ..Heartbeat::default()
    }
}

/// What an agent of a fleet with this policy does.
fn under(world: &World, policy: &Policy, percent: u8) -> HeartbeatRecorded {
    let mut fleet = Fleet::new(world.store(), policy.clone());
    fleet.run(&full(percent), &caller("ada")).unwrap()
}

fn end(story: &Story<'_>, agent: &str) -> SessionEnded {
    story.run(agent, &EndSession { agent: None }).unwrap()
}

fn briefing(story: &Story<'_>, agent: &str) -> String {
    story.run(agent, &brief_agent()).unwrap().text
}

fn consumed(story: &Story<'_>) -> Vec<bool> {
    let all = story.checkpoints().into_iter();
    all.map(|checkpoint: Checkpoint| checkpoint.consumed_at.is_some())
        .collect()
}

both_engines! {
    fn a_heartbeat_that_crosses_nothing_leaves_no_trace_in_the_journal(world: &World) {
        let story = at_model(world);
        let before = story.rev();
        for percent in [0, 50, 74] {
            let beaten = story.fill("ada", percent);
            assert_eq!((beaten.crossed.len(), beaten.mode, beaten.stop), (0, ContextMode::Normal, false));
        }
        assert_eq!(story.rev(), before);
        story.fill("ada", 80);
        let before = story.rev();
        for percent in [75, 80, 89, 10] {
            let beaten = story.fill("ada", percent);
            assert_eq!((beaten.crossed.len(), beaten.checkpoint_id), (0, None), "at {percent} %, once more");
        }
        assert_eq!(story.rev(), before);
        story.fill("ada", 90);
        let before = story.rev();
        let again = story.fill("ada", 99);
        assert!(again.stop && again.crossed.is_empty(), "told again, and nothing else");
        assert_eq!(story.rev(), before);
    }

    fn at_75_percent_the_work_is_saved_and_the_agent_reads_less(world: &World) {
        let story = at_model(world);
        let before = story.rev();
        let beaten = story.fill("ada", 75);
        assert_eq!(beaten.crossed, [Reason::TokenWarning]);
        assert_eq!((beaten.mode, beaten.stop), (ContextMode::Minimal, false));
        assert!(beaten.remaining.is_empty() && beaten.instructions.is_none());
        let saved = story.checkpoints().pop().unwrap();
        assert_eq!(Some(saved.id), beaten.checkpoint_id);
        assert_eq!((saved.cut.trigger, saved.cut.reason), (Trigger::Compaction, Reason::TokenWarning));
        assert_eq!(saved.cut.trigger_details.as_deref(), Some("The context of ada is 75 % full"));
        assert_eq!(saved.cut.created_by, "ada");
        assert_eq!(story.kinds_after(before), ["agent_mode_changed", "fleet_checkpointed", "context_filled"]);
        assert_eq!(story.agent("ada").mode, ContextMode::Minimal);
        assert!(story.damaged_values().is_empty(), "{:?}", story.damaged_values());
    }

    fn at_90_percent_it_is_told_to_stop_what_is_left_and_how_to_resume(world: &World) {
        let story = at_model(world);
        story.run("ada", &UpdateSortie {
            sortie: story.sortie_id("Model"),
            subtasks: vec![subtask("schema", SubtaskStatus::Complete), subtask("refresh", SubtaskStatus::InProgress), subtask("tests", SubtaskStatus::Pending)],
            next_to_process: Some(title("line 40")),
            ..UpdateSortie::default()
        }).unwrap();
        story.run("ada", &UpdateAgent { next_steps: vec![title("Run the suite")], ..UpdateAgent::default() }).unwrap();
        let beaten = story.run("ada", &Heartbeat { tokens: Some((182_000, 200_000)), ..Heartbeat::default() }).unwrap();
        assert_eq!(beaten.crossed, [Reason::TokenWarning, Reason::TokenCritical], "both at once");
        assert_eq!((beaten.mode, beaten.stop, beaten.context_percent), (ContextMode::Recovery, true, Some(91)));
        assert_eq!(beaten.remaining, ["Continue with line 40", "Finish refresh", "Do tests", "Run the suite", "Complete \"Model\""]);
        let id = story.sortie_id("Model");
        assert_eq!(beaten.instructions.as_deref(), Some(format!(
            "ada continues with {} in a new session. What it has reported is kept:\n\n1. End this session: `fleet agents end --agent ada`\n\
             2. Start the agent again and bring it back: `fleet agents resume ada`\n3. Give it its briefing: `fleet context --agent ada`\n", &id[..12]).as_str()));
        assert_eq!(story.reasons(), [Reason::TokenCritical], "one checkpoint for both");
        let saved = story.checkpoints().pop().unwrap().cut.agent_context.unwrap();
        assert_eq!((saved.agent.as_str(), saved.mode), ("ada", ContextMode::Recovery));
        assert_eq!(saved.remaining, beaten.remaining);
        assert_eq!(saved.sortie_id, beaten.sortie_id);
        assert_eq!(saved.tokens.unwrap().used, Some(182_000));
    }

    fn a_task_that_has_its_own_id_is_named_by_it(world: &World) {
        let story = Story::new(world);
        let mut model = sortie("Model");
        model.task_id = Some(name("T005"));
        story.run("", &create_mission("Add login", vec![model])).unwrap();
        story.claim("ada", "Model").unwrap();
        let beaten = story.fill("ada", 95);
        assert!(beaten.instructions.unwrap().starts_with("ada continues with T005 in a new session."));
    }

    fn two_heartbeats_at_once_cross_once(world: &World) {
        let story = Story::unrehearsed(world);
        story.mission("Add login", &["Model"]);
        story.claim("ada", "Model").unwrap();
        for round in 0..6 {
            let start = Barrier::new(2);
            let beat = || {
                let mut fleet = unrehearsed_fleet(world);
                start.wait();
                fleet.run(&full(95), &caller("ada")).unwrap()
            };
            let (one, two) = thread::scope(|scope| {
                let other = scope.spawn(beat);
                (beat(), other.join().unwrap())
            });
            let crossed = [one, two].map(|beaten| (beaten.crossed.len(), beaten.checkpoint_id.is_some()));
            assert!(crossed == [(2, true), (0, false)] || crossed == [(0, false), (2, true)], "{crossed:?}");
            assert_eq!(story.reasons().len(), round + 1);
            story.compact("ada");
        }
        assert!(story.damaged_values().is_empty(), "{:?}", story.damaged_values());
    }

    fn a_compaction_or_a_new_session_starts_anew(world: &World) {
        let story = at_model(world);
        assert_eq!(story.fill("ada", 80).crossed.len(), 1);
        let told = || story.run("", &show_agent("ada")).unwrap().pulse["context_percent"].clone();
        assert_eq!(told(), 80);
        story.compact("ada");
        assert!(told().is_null(), "how full a context was ends with it");
        assert_eq!(story.fill("ada", 20).crossed.len(), 0);
        assert_eq!(story.fill("ada", 80).crossed, [Reason::TokenWarning]);
        story.register("ada", Role::Specialist);
        assert_eq!(story.fill("ada", 92).crossed.len(), 2);
        // Nothing changed on the mission between them, and each context has its own checkpoint.
        assert_eq!(story.reasons(), [Reason::TokenWarning, Reason::TokenWarning, Reason::TokenCritical]);
    }

    fn two_agents_contexts_are_two_checkpoints(world: &World) {
        let story = at_model(world);
        story.claim("bob", "Endpoint").unwrap();
        let (ada, bob) = (story.fill("ada", 91), story.fill("bob", 91));
        assert_ne!(ada.checkpoint_id, bob.checkpoint_id);
        assert_ne!(ada.remaining, bob.remaining);
    }

    fn each_trigger_can_be_switched_off_and_so_can_all_of_it(world: &World) {
        let story = at_model(world);
        let off = Policy { recovery_enabled: false, ..Policy::default() };
        assert_eq!((under(world, &off, 99).crossed.len(), under(world, &off, 99).stop), (0, false));
        let none = Policy { triggers: Triggers::default(), ..Policy::default() };
        assert_eq!((under(world, &none, 99).crossed.len(), under(world, &none, 99).stop), (0, false));
        let critical = Policy { triggers: Triggers::of(&[Reason::TokenCritical]), ..Policy::default() };
        assert_eq!(under(world, &critical, 80).crossed, []);
        let plain = Policy { recovery_mode: RecoveryMode::Full, token_warning: 40, ..Policy::default() };
        let beaten = under(world, &plain, 40);
        assert_eq!((beaten.crossed.len(), beaten.mode), (1, ContextMode::Normal), "a checkpoint, and nothing else");
        assert_eq!(under(world, &critical, 90).crossed, [Reason::TokenCritical]);
        assert_eq!(story.reasons(), [Reason::TokenWarning, Reason::TokenCritical]);
    }

    fn wrong_figures_are_refused_and_lose_nothing(world: &World) {
        let story = at_model(world);
        let before = story.rev();
        let tokens = |used, total| Heartbeat { tokens: Some((used, total)), ..Heartbeat::default() };
        for request in [full(101), full(255), tokens(5, 0)] {
            assert_eq!(story.run("ada", &request).unwrap_err().code, Code::InvalidInput, "{request:?}");
        }
        assert_eq!(story.rev(), before);
        assert_eq!(story.fill("ada", 76).crossed.len(), 1);
    }

    fn an_agent_without_work_saves_the_current_mission_and_one_without_a_mission_nothing(world: &World) {
        let story = Story::new(world);
        story.register("ada", Role::Specialist);
        let beaten = story.fill("ada", 95);
        assert_eq!((beaten.crossed.len(), beaten.checkpoint_id, beaten.stop), (2, None, true));
        assert!(beaten.instructions.unwrap().starts_with("ada continues in a new session."));
        story.mission("Add login", &["Model"]);
        story.register("eve", Role::Specialist);
        assert!(story.fill("eve", 95).checkpoint_id.is_some());
    }

    fn a_checkpoint_that_fails_is_owed_and_taken_with_a_later_heartbeat(world: &World) {
        let story = at_model(world);
        let written = story.run("ada", &add_note(NoteKind::Lesson, "measure first")).unwrap();
        damage::everywhere(world, Kind::Note, &written.id.to_string(), 0);
        let beaten = story.fill("ada", 80);
        assert_eq!((beaten.crossed.len(), beaten.checkpoint_id, beaten.mode), (1, None, ContextMode::Minimal));
        assert!(beaten.problem.is_some());
        assert_eq!(story.events_of("checkpoint_failed").len(), 1);
        let before = story.rev();
        assert_eq!(story.fill("ada", 81).checkpoint_id, None);
        assert_eq!(story.rev(), before, "what goes on failing is no news");
        story.with_fleet(|fleet| fleet.store().unwrap().write(|tx| tx.set(EventType::NoteAdded, &written, &json!({})))).unwrap();
        let beaten = story.fill("ada", 82);
        assert_eq!((beaten.crossed.len(), beaten.checkpoint_id.is_some()), (0, true));
        assert_eq!(story.fill("ada", 83).checkpoint_id, None, "and that was it");
    }

    fn briefings_are_cut_until_the_task_is_complete(world: &World) {
        let story = at_model(world);
        story.run("", &add_note(NoteKind::Decision, "Use Argon2")).unwrap();
        assert!(briefing(&story, "ada").contains("### Decisions"));
        story.fill("ada", 80);
        let cut = briefing(&story, "ada");
        assert!(!cut.contains("### Decisions") && cut.contains("**Mode**: minimal"), "{cut}");
        assert!(!cut.contains("### Recovery Mode"), "it goes on as it is");
        story.fill("ada", 90);
        let cut = briefing(&story, "ada");
        assert!(cut.contains("**Mode**: recovery") && cut.contains("Load now:") && cut.contains("Load later:"), "{cut}");
        assert!(flightline::core::briefing::estimate_tokens(&cut) <= 2_000);
        assert!(!briefing(&story, "").contains("**Mode**"), "a person reads all of it");
        let before = story.rev();
        story.change("ada", "Model", DONE).unwrap();
        let events = story.kinds_after(before);
        assert!(events.contains(&"agent_mode_changed".to_owned()) && events.contains(&"checkpoint_consumed".to_owned()), "{events:?}");
        assert_eq!(story.agent("ada").mode, ContextMode::Normal);
        assert!(briefing(&story, "ada").contains("### Decisions"));
        assert_eq!(consumed(&story), [true, true, false], "both of the context, and not the milestone's");
        assert!(story.damaged_values().is_empty(), "{:?}", story.damaged_values());
    }

    fn the_seeds_own_files_are_named_where_a_project_keeps_them(world: &World) {
        let story = at_model(world);
        story.fill("ada", 95);
        let brief = brief_agent();
        let mut fleet = Fleet::new(world.store(), Preset::Recovery.policy());
        let text = fleet.run(&brief, &caller("ada")).unwrap().text;
        for file in ["context-strategy.md", "projectConfig.md:STACK_ID", "Stack profiles (load when coding resumes)"] {
            assert!(text.contains(file), "{text}");
        }
        assert!(!briefing(&story, "ada").contains("context-strategy.md"));
    }

    fn a_session_that_ends_with_work_in_progress_is_saved(world: &World) {
        let story = at_model(world);
        story.fill("ada", 60);
        let ended = end(&story, "ada");
        assert!(ended.in_progress && ended.checkpoint_id.is_some());
        assert_eq!(ended.next_steps[0], "Complete \"Model\" (ada)");
        let saved = story.checkpoints().pop().unwrap();
        assert_eq!((saved.cut.trigger, saved.cut.reason), (Trigger::Compaction, Reason::SessionEnd));
        let of = saved.cut.agent_context.unwrap();
        assert_eq!((of.tokens.unwrap().percent, of.remaining.len()), (60, 1));
        let ada = story.agent("ada");
        assert!(ada.session_ended_at.is_some() && ada.process.is_none());
        assert_eq!(story.stored_sortie("Model").assigned_to, Some(ada.id), "its work waits for it");
        assert_eq!(end(&story, "ada").checkpoint_id, ended.checkpoint_id, "said twice, saved once");
        assert_eq!(story.events_of("agent_session_ended").len(), 1);
    }

    fn a_session_without_work_ends_without_a_checkpoint(world: &World) {
        let story = at_model(world);
        story.register("eve", Role::Specialist);
        let ended = end(&story, "eve");
        assert_eq!((ended.in_progress, ended.checkpoint_id), (false, None));
        assert_eq!(story.reasons(), []);
        // Switched off, work in progress leads to none either, and that is told apart.
        let policy = Policy { triggers: Triggers::default(), ..Policy::default() };
        let mut fleet = Fleet::new(world.store(), policy);
        let ended = fleet.run(&EndSession { agent: None }, &caller("ada")).unwrap();
        assert_eq!((ended.in_progress, ended.checkpoint_id), (true, None));
        assert_eq!(story.reasons(), []);
    }

    fn dispatch_has_work_while_its_mission_is_under_way(world: &World) {
        let story = Story::new(world);
        story.register("lead", Role::Dispatch);
        story.run("lead", &create_mission("Add login", vec![sortie("Model")])).unwrap();
        assert!(!end(&story, "lead").in_progress, "it has not begun");
        story.claim("ada", "Model").unwrap();
        assert!(end(&story, "lead").checkpoint_id.is_some());
    }

    fn only_itself_or_dispatch_ends_a_session_or_syncs(world: &World) {
        let story = at_model(world);
        story.register("eve", Role::Specialist);
        let ada = || Some("ada".to_owned());
        assert_eq!(story.run("eve", &EndSession { agent: ada() }).unwrap_err().code, Code::NotYours);
        assert_eq!(story.run("eve", &FullSync { agent: ada() }).unwrap_err().code, Code::NotYours);
        assert_eq!(story.run("", &EndSession { agent: Some("nobody".to_owned()) }).unwrap_err().code, Code::NotFound);
        assert!(story.run("", &EndSession { agent: ada() }).unwrap().checkpoint_id.is_some(), "a person may");
    }

    fn a_full_sync_can_be_said(world: &World) {
        let story = at_model(world);
        story.fill("ada", 95);
        let synced = story.run("ada", &FullSync { agent: None }).unwrap();
        assert_eq!((synced.from, synced.consumed.len()), (ContextMode::Recovery, 1));
        assert_eq!(story.agent("ada").mode, ContextMode::Normal);
        let again = story.run("ada", &FullSync { agent: None }).unwrap();
        assert_eq!((again.from, again.consumed.len()), (ContextMode::Normal, 0));
        // The same context, the same work: what was consumed is not given out again.
        let ended = end(&story, "ada");
        assert!(ended.checkpoint_id.is_some());
        assert_eq!(consumed(&story), [true, false]);
    }

    fn a_checkpoint_can_be_taken_for_the_end_of_a_session(world: &World) {
        let story = at_model(world);
        let taken = story.checkpoint_for("ada", Reason::SessionEnd).unwrap();
        assert_eq!((taken.trigger.as_str(), taken.reason.as_str()), ("compaction", "session_end"));
        assert_eq!(taken.agent_context.unwrap().agent.as_str(), "ada");
        let by_a_person = story.checkpoint_for("", Reason::SessionEnd).unwrap();
        assert_eq!(by_a_person.agent_context, None, "nobody's context");
    }

    fn clean_up_keeps_the_latest_and_puts_emergencies_apart(world: &World) {
        let story = at_model(world);
        story.fill("ada", 95);
        story.compact("ada");
        story.fill("ada", 80);
        story.checkpoint();
        story.pass_minutes(8 * 24 * 60);
        story.report("ada", "Model", "went on");
        story.checkpoint();
        let mut fleet = Fleet::new(world.store(), Preset::Recovery.policy());
        let plan = fleet.run(&PlanPrune::default(), &caller("")).unwrap();
        assert_eq!((plan.deleted, plan.archived.len()), (2, 1));
        apply_all(&mut fleet, &caller(""), &PlanPrune::default(), &plan).unwrap();
        let left: Vec<(Reason, CheckpointStatus)> = story.checkpoints().iter().map(|it| (it.cut.reason, it.status)).collect();
        assert_eq!(left, [(Reason::TokenCritical, CheckpointStatus::Archived), (Reason::Manual, CheckpointStatus::Valid)]);
        story.pass_minutes(365 * 24 * 60);
        let plan = fleet.run(&PlanPrune::default(), &caller("")).unwrap();
        assert_eq!((plan.deleted, plan.archived.len()), (0, 0), "it stays there");
        // Other presets know no emergencies.
        assert!(!Policy::default().retention.emergencies_apart);
    }

    fn what_changed_since_the_checkpoint_before_stands_in_it_as_the_seed_writes_it(world: &World) {
        let story = at_model(world);
        let id = |named: &str| story.sortie_id(named);
        let shown = |checkpoint: HeartbeatRecorded| {
            let show = ShowCheckpoint { checkpoint: checkpoint.checkpoint_id.unwrap().to_string() };
            serde_json::to_value(story.run("", &show).unwrap()).unwrap()["agent_context"]["delta_changes"].clone()
        };
        let moved = |named: &str, from: &str, to: &str| json!({
            "file": "taskBoard", "operation": "move", "taskId": id(named), "from": from, "to": to,
        });
        let counted = |value: u64| json!({
            "file": "progress", "operation": "update", "field": "metrics.currentSprint.completed", "value": value,
        });
        assert_eq!(shown(story.fill("ada", 80)), json!([moved("Model", "backlog", "inProgress")]), "since the beginning");
        story.compact("ada");
        assert_eq!(shown(story.fill("ada", 80)), json!(null), "nothing since");
        story.change("ada", "Model", DONE).unwrap();
        story.claim("ada", "Endpoint").unwrap();
        story.claim("bob", "Docs").unwrap();
        story.change("bob", "Docs", DONE).unwrap();
        // Each milestone is a checkpoint too: only what came after the last one counts.
        let last = story.checkpoints().pop().unwrap().cut.reason;
        assert_eq!(last, Reason::Milestone);
        story.change("bob", "Docs", SortieAction::Reject { reason: note("again") }).unwrap();
        assert_eq!(shown(story.fill("ada", 95)), json!([moved("Docs", "done", "inProgress"), counted(1)]));
        story.with_fleet(|fleet| fleet.run(&verify_checkpoints(), &caller("")))
            .unwrap().iter().for_each(|verdict| assert!(verdict.sound, "{verdict:?}"));
    }
}
