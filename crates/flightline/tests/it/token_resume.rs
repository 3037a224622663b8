//! Sessions that start where a full context or another session ended (seed E): validation, the recovery
//! context, fallbacks, and changes that others wrote down, on both engines.

use flightline::agent::context::{EndSession, FullSync};
use flightline::core::briefing::{estimate_tokens, strip_data};
use flightline::core::context::ContextMode;
use flightline::recovery::delta::{ApplyDeltas, DeltaResult};
use flightline_testkit::prelude::*;
use serde_json::{Value, json};

/// A mission that Ada works on; its tasks have the seed's ids.
fn working(world: &World) -> Story<'_> {
    let story = Story::new(world);
    let task = |(number, title): (usize, &str)| {
        let mut task = sortie(title);
        task.task_id = Some(name(&format!("T00{number}")));
        task
    };
    let tasks = (1..).zip(["Model", "Endpoint", "Tests", "Docs"]).map(task);
    story
        .run("", &create_mission("Add login", tasks.collect()))
        .unwrap();
    story.claim("ada", "Model").unwrap();
    story
}

fn built_on(world: &World, stack: &str) -> Fleet {
    let policy = Policy {
        stack_id: (!stack.is_empty()).then(|| name(stack)),
        ..Policy::default()
    };
    Fleet::new(world.store(), policy)
}

fn resume(story: &Story<'_>) -> Resumed {
    story.resume("", Vec::new()).unwrap()
}

/// That a session started normally though a checkpoint was there, and why.
fn fell_back(story: &Story<'_>, resumed: &Resumed, why: &str) {
    let start = resumed.started.as_ref().unwrap();
    assert_eq!(
        (start.mode, start.text.is_none()),
        (ContextMode::Normal, true)
    );
    assert!(start.problem.as_ref().unwrap().contains(why), "{start:?}");
    let told = resumed
        .warnings
        .iter()
        .any(|it| it.contains(why) && it.contains("starts normally"));
    assert!(told, "{:?}", resumed.warnings);
    let logged = story.events_of("resume_fell_back").pop().unwrap();
    assert_eq!(logged.actor, "flightline");
    assert!(
        logged.data["problem"].as_str().unwrap().contains(why),
        "{logged:?}"
    );
    assert_eq!(story.agent("ada").mode, ContextMode::Normal);
    let kept = story
        .checkpoints()
        .into_iter()
        .find(|it| it.id == start.checkpoint_id)
        .unwrap();
    assert_eq!(
        (kept.status, kept.consumed_at),
        (CheckpointStatus::Valid, None)
    );
    assert_eq!(
        story.stored_sortie("Model").status,
        SortieStatus::InProgress,
        "and nothing is lost"
    );
}

fn come_back(world: &World, preset: Preset) -> AgentView {
    let mut fleet = Fleet::new(world.store(), preset.policy());
    fleet.run(&registration("ada"), &caller("")).unwrap()
}

fn apply(story: &Story<'_>, agent: &str, changes: Value) -> Vec<(DeltaResult, String)> {
    let changes = changes.as_array().unwrap().clone();
    let applied = story
        .run(
            agent,
            &ApplyDeltas {
                mission: None,
                changes,
            },
        )
        .unwrap();
    applied
        .into_iter()
        .map(|it| (it.result, it.why.unwrap_or_default()))
        .collect()
}

fn moved(task: &str, from: &str, to: &str) -> Value {
    json!({ "file": "taskBoard", "operation": "move", "taskId": task, "from": from, "to": to })
}

both_engines! {
    fn a_session_goes_on_in_recovery_mode_with_at_most_2000_tokens(world: &World) {
        let story = working(world);
        story.report("ada", "Model", "half of the fields are there");
        story.fill("ada", 91);
        story.run("ada", &EndSession { agent: None }).unwrap();
        let resumed = resume(&story);
        let start = resumed.started.unwrap();
        assert_eq!((start.agent.unwrap().as_str(), start.mode, start.problem), ("ada", ContextMode::Recovery, None));
        let text = start.text.unwrap();
        assert!(start.tokens <= 2_000 && start.tokens == estimate_tokens(&text));
        for part in ["Load now:", "Load later:", "Task: T001", "Task details: Model: half of the fields are there", "Next step: Complete \"Model\"", "Backlog: T002 Endpoint"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let (nonce, _) = text.split_once('<').unwrap().1.split_once(' ').unwrap();
        assert!(!strip_data(&text, nonce).contains("half of the fields"), "what an agent wrote is fenced");
        assert_eq!(story.agent("ada").mode, ContextMode::Recovery);
        let briefing = story.run("ada", &brief_agent()).unwrap().text;
        assert!(briefing.contains("### Recovery Mode") && estimate_tokens(&briefing) <= 2_000, "{briefing}");
        assert!(resumed.warnings.is_empty(), "{:?}", resumed.warnings);
    }

    fn resuming_twice_before_the_task_is_complete_changes_no_more(world: &World) {
        let story = working(world);
        story.fill("ada", 91);
        let (one, two) = (resume(&story).started.unwrap(), resume(&story).started.unwrap());
        assert_eq!(one, two);
        assert_eq!(story.events_of("agent_mode_changed").len(), 1, "it was in recovery mode already");
    }

    fn nothing_resumes_from_what_a_full_sync_has_consumed(world: &World) {
        let story = working(world);
        story.fill("ada", 91);
        resume(&story);
        story.run("ada", &FullSync { agent: None }).unwrap();
        let resumed = resume(&story);
        assert_eq!((resumed.checkpoint_id, resumed.started), (story.checkpoints()[0].id, None));
        assert_eq!(story.agent("ada").mode, ContextMode::Normal);
    }

    fn a_task_that_is_completed_ends_what_its_sessions_checkpoint_was_for(world: &World) {
        let story = working(world);
        story.claim("bob", "Docs").unwrap();
        story.run("ada", &EndSession { agent: None }).unwrap();
        story.change("bob", "Docs", GIVEN_BACK).unwrap();
        assert_eq!(story.checkpoints()[0].consumed_at, None, "another's work is not its business");
        story.change("ada", "Model", DONE).unwrap();
        assert!(story.checkpoints()[0].consumed_at.is_some(), "in normal mode too");
    }

    fn one_of_a_day_ago_is_kept_and_the_session_starts_normally(world: &World) {
        let story = working(world);
        story.fill("ada", 91);
        story.pass_minutes(24 * 60 - 1);
        story.beat("ada").unwrap();
        assert_eq!(resume(&story).started.unwrap().problem, None, "a minute before");
        story.pass_minutes(1);
        fell_back(&story, &resume(&story), "it is 1d old");
    }

    fn one_of_another_stack_is_kept_and_the_session_starts_normally(world: &World) {
        let story = working(world);
        let full = Heartbeat { context_percent: Some(91), ..Heartbeat::default() };
        built_on(world, "fastapi").run(&full, &caller("ada")).unwrap();
        assert_eq!(story.checkpoints()[0].cut.agent_context.as_ref().unwrap().stack_id.as_ref().unwrap().as_str(), "fastapi");
        let again = |stack: &str| built_on(world, stack).run(&roll_forward(Vec::new()), &caller("")).unwrap();
        assert_eq!(again("fastapi").started.unwrap().problem, None);
        assert_eq!(again("").started.unwrap().problem, None, "a project without one takes any");
        fell_back(&story, &again("django"), "its STACK_ID is `fastapi`, and the project's is `django`");
        assert_eq!(story.events_of("resume_fell_back").len(), 1);
    }

    fn a_mission_has_its_own_stack(world: &World) {
        let story = Story::new(world);
        let mut mission = create_mission("Add login", vec![sortie("Model")]);
        mission.stack_id = Some(name("rust"));
        story.run("", &mission).unwrap();
        story.claim("ada", "Model").unwrap();
        story.fill("ada", 91);
        let resumed = built_on(world, "django").run(&roll_forward(Vec::new()), &caller("")).unwrap();
        assert_eq!(resumed.started.unwrap().problem, None);
    }

    fn one_whose_tasks_are_gone_is_kept_and_the_session_starts_normally(world: &World) {
        let story = working(world);
        story.fill("ada", 91);
        let gone: Sortie = story.stored_sortie("Docs");
        story.with_fleet(|fleet| fleet.store().unwrap().write(|tx| tx.remove(EventType::SortieRemoved, &gone, &json!({})))).unwrap();
        fell_back(&story, &resume(&story), "it names tasks that do not exist any more: T004");
    }

    fn dispatch_is_told_of_a_fallback(world: &World) {
        let story = working(world);
        story.fill("ada", 91);
        story.pass_minutes(24 * 60);
        story.beat("ada").unwrap();
        resume(&story);
        story.with_fleet(|fleet| flightline::mail::relay::relay(fleet, &caller(""))).unwrap();
        assert!(story.as_text().contains("cannot resume from chk-"), "{}", story.as_text());
    }

    fn only_the_newest_checkpoint_counts_and_only_one_of_a_context(world: &World) {
        let story = working(world);
        story.fill("ada", 91);
        story.report("ada", "Model", "went on");
        story.checkpoint();
        assert_eq!(resume(&story).started, None);
        let off = Policy { recovery_enabled: false, ..Policy::default() };
        let newest = story.checkpoints().pop().unwrap().id.to_string();
        story.mark("", newest, CheckpointMark::Delete).unwrap();
        let resumed = Fleet::new(world.store(), off).run(&roll_forward(Vec::new()), &caller("")).unwrap();
        assert_eq!(resumed.started, None, "switched off");
        assert!(resume(&story).started.is_some());
    }

    fn an_agent_that_is_gone_goes_on_nowhere(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model"]);
        story.board("ada", Role::Specialist, 7);
        story.claim("ada", "Model").unwrap();
        story.fill("ada", 91);
        let resumed = story.resume("", story.seen(false, &["ada"])).unwrap();
        let start = resumed.started.unwrap();
        assert_eq!((start.agent, start.text.is_some()), (None, true), "what it needed is there for another");
        assert_eq!(resumed.requeued_sorties.len(), 1);
    }

    fn a_new_session_finds_the_checkpoint_by_itself_where_it_may(world: &World) {
        let story = working(world);
        story.run("ada", &EndSession { agent: None }).unwrap();
        let asked = come_back(world, Preset::Fleet);
        assert_eq!((asked.start, asked.agent.mode), (None, ContextMode::Normal), "somebody resumes, or nobody does");
        let found = come_back(world, Preset::Recovery);
        assert_eq!((found.start.unwrap().problem, found.agent.mode), (None, ContextMode::Recovery));
        assert_eq!(story.agent("ada").mode, ContextMode::Recovery);
        story.change("ada", "Model", DONE).unwrap();
        story.claim("ada", "Endpoint").unwrap();
        assert_eq!(come_back(world, Preset::Recovery).start, None, "not twice");
    }

    fn a_new_session_that_finds_an_old_checkpoint_starts_normally(world: &World) {
        let story = working(world);
        story.fill("ada", 91);
        story.pass_minutes(24 * 60);
        let found = come_back(world, Preset::Recovery);
        assert_eq!(found.agent.mode, ContextMode::Normal);
        assert!(found.start.unwrap().warning().unwrap().contains("1d old"));
        assert_eq!(story.events_of("resume_fell_back").len(), 1);
        assert!(story.damaged_values().is_empty(), "{:?}", story.damaged_values());
    }

    fn changes_of_others_are_made_once(world: &World) {
        let story = working(world);
        let changes = json!([
            moved("T001", "inProgress", "done"),
            moved("T002", "backlog", "inProgress"),
            moved("T003", "backlog", "done"),
            { "file": "progress", "operation": "update", "field": "metrics.currentSprint.completed", "value": 2 },
        ]);
        use DeltaResult::{Already, Made};
        let results = |applied: Vec<(DeltaResult, String)>| applied.into_iter().map(|(result, _)| result).collect::<Vec<_>>();
        assert_eq!(results(apply(&story, "ada", changes.clone())), [Made, Made, Made, Already]);
        let text = story.as_text();
        assert!(text.contains("sortie \"Model\" completed ada\n  sortie \"Endpoint\" in_progress ada\n  sortie \"Tests\" completed -"), "{text}");
        assert_eq!(story.checkpoints().pop().unwrap().cut.reason, Reason::Milestone, "half of it");
        let before = story.rev();
        assert_eq!(results(apply(&story, "ada", changes)), [Already; 4]);
        assert_eq!(story.rev(), before);
        assert!(story.damaged_values().is_empty(), "{:?}", story.damaged_values());
    }

    fn changes_that_do_not_fit_are_kept_and_named(world: &World) {
        let story = working(world);
        let before = story.rev();
        let model = story.sortie_id("Model");
        let applied = apply(&story, "", json!([
            moved("T009", "backlog", "done"),
            moved("T002", "inProgress", "done"),
            moved("T002", "backlog", "inProgress"),
            moved("T002", "backlog", "icebox"),
            { "file": "notes.md", "operation": "append", "text": "hello" },
            { "file": "progress", "operation": "update", "field": "metrics.velocity", "value": 9 },
            "nonsense",
            moved(&model, "backlog", "inProgress"),
        ]));
        let why: Vec<&str> = applied.iter().map(|(_, why)| why.as_str()).collect();
        assert_eq!(why, [
            "`T009` is nowhere, not in `backlog`",
            "`T002` is in `backlog`, not in `inProgress`",
            "it does not name the agent that works on it",
            "the board has no column `icebox`",
            "unknown change: {\"file\":\"notes.md\",\"operation\":\"append\",\"text\":\"hello\"}",
            "`metrics.velocity` is counted here, not set",
            "unknown change: \"nonsense\"",
            "",
        ]);
        assert!(applied[..7].iter().all(|(result, _)| *result == DeltaResult::Kept));
        assert_eq!(applied[7].0, DeltaResult::Already, "by the sortie's own id as well");
        assert_eq!(story.rev(), before);
        let theirs = apply(&story, "bob", json!([moved("T001", "inProgress", "done")]));
        assert!(theirs[0].1.contains("it is ada's"), "{theirs:?}");
        let too_many = ApplyDeltas { mission: None, changes: vec![json!(1); 1_001] };
        assert_eq!(story.run("ada", &too_many).unwrap_err().code, Code::InvalidInput);
    }

    fn a_task_that_goes_back_to_the_backlog_is_nobodys(world: &World) {
        let story = working(world);
        let applied = apply(&story, "ada", json!([moved("T001", "inProgress", "backlog"), moved("T002", "backlog", "failed")]));
        assert!(applied.iter().all(|(result, _)| *result == DeltaResult::Made), "{applied:?}");
        let model = story.stored_sortie("Model");
        assert_eq!((model.status, model.assigned_to), (SortieStatus::Pending, None));
        assert_eq!(story.stored_sortie("Endpoint").status, SortieStatus::Failed);
        assert!(story.damaged_values().is_empty(), "{:?}", story.damaged_values());
    }
}
