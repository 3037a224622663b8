//! Seed D's checkpoints on the store, on both engines: when they are taken, what is in them, how many stay.

use std::time::Duration;

use flightline::checkpoint::daily::daily;
use flightline::checkpoint::destructive::{BeforeDestructive, Prepared};
use flightline::checkpoint::due::take_due;
use flightline::core::JsonData;
use flightline::core::dialect::compress::Compression;
use flightline::core::dialect::orchestrator::verify;
use flightline::core::dialect::{Dialect, DialectDocument};
use flightline::dialect::orchestrator::{DocumentExtras, orchestrator_document};
use flightline::stats::ShowStats;
use flightline_testkit::prelude::*;
use serde_json::json;

const DAY: Duration = Duration::from_secs(86_400);
fn orchestrator() -> Policy {
    Preset::Orchestrator.policy()
}

fn without(reasons: &[Reason]) -> Policy {
    let mut policy = orchestrator();
    for reason in reasons {
        policy.triggers.switch(*reason, false);
    }
    policy
}

fn before(story: &Story<'_>, operation: &str, target: Option<&str>) -> Prepared {
    let request = BeforeDestructive {
        mission: None,
        operation: name(operation),
        target: target.map(title),
        note: None,
    };
    story.run("", &request).unwrap()
}

fn failing() -> SortieAction {
    SortieAction::Fail {
        reason: note("it broke"),
    }
}

/// A mission that somebody works on, under a policy.
fn working(world: &World, policy: Policy) -> Story<'_> {
    let story = Story::under(world, policy);
    story.mission("Ship it", &["Plan", "Code", "Test"]);
    story.claim("coder", "Code").unwrap();
    story
}

/// Each of seed D's happenings, one after the other, and the checkpoints that came of it.
fn happenings(world: &World, policy: Policy) -> Vec<(&'static str, Vec<Reason>)> {
    let story = working(world, policy.clone());
    let mut all = Vec::new();
    let mut known = story.reasons().len();
    let mut note_down = |what: &'static str| {
        let taken = story.reasons().split_off(known);
        known += taken.len();
        all.push((what, taken));
    };
    story.transition("CODING");
    note_down("transition");
    story.change("coder", "Code", DONE).unwrap();
    note_down("agent complete");
    story
        .change("", "Code", SortieAction::Approve { reason: None })
        .unwrap();
    note_down("approval");
    story.claim("coder", "Test").unwrap();
    story.change("coder", "Test", failing()).unwrap();
    note_down("error");
    before(&story, "deploy", Some("production"));
    note_down("destructive");
    story.report_on_time(policy);
    note_down("interval");
    story.checkpoint();
    note_down("manual");
    all
}

trait Timely {
    fn report_on_time(&self, policy: Policy);
}

impl Timely for Story<'_> {
    /// Something changes, and five minutes later somebody comes by.
    fn report_on_time(&self, policy: Policy) {
        self.claim("coder", "Plan").unwrap();
        self.pass_minutes(5);
        let mut fleet = Fleet::new(self.world.store(), policy);
        take_due(&mut fleet, &caller(""), false).unwrap();
    }
}

/// So many checkpoints, a minute apart.
fn take(story: &Story<'_>, count: usize) -> Vec<CheckpointId> {
    (0..count)
        .map(|number| {
            story.pass_minutes(1);
            let done = story
                .run("", &lesson(&format!("lesson {number}")))
                .map(|_| ());
            done.unwrap();
            story.checkpoint().id
        })
        .collect()
}

fn listed(story: &Story<'_>, archived: bool) -> (Vec<CheckpointId>, u64) {
    let list = ListCheckpoints {
        mission: None,
        archived,
        limit: 1_000,
    };
    let found = story.run("", &list).unwrap();
    let ids = found.checkpoints.iter().map(|it| it.id).rev().collect();
    (ids, found.total)
}

fn status(story: &Story<'_>, id: CheckpointId) -> CheckpointStatus {
    let all = story.checkpoints();
    all.into_iter().find(|it| it.id == id).unwrap().status
}

fn archived(story: &Story<'_>) -> Vec<CheckpointId> {
    let mut all = story.checkpoints();
    all.retain(|it| it.status == CheckpointStatus::Archived);
    all.into_iter().map(|it| it.id).collect()
}

fn document(story: &Story<'_>, id: CheckpointId) -> DialectDocument {
    let history = story
        .run("", &ShowMission { mission: None })
        .unwrap()
        .history;
    let beside = DocumentExtras {
        history: &history,
        file_system: None,
        compression: Compression::Gzip,
    };
    orchestrator_document(&story.whole(id).state.unwrap(), &beside).unwrap()
}

both_engines! {
    fn all_seven_triggers_fire(world: &World) {
        use Reason::{AgentComplete, BeforeDestructive, Interval, Manual, SortieFailed, StateTransition, UserApproval};
        let expected = [
            ("transition", vec![StateTransition]),
            ("agent complete", vec![AgentComplete]),
            ("approval", vec![UserApproval]),
            ("error", vec![SortieFailed]),
            ("destructive", vec![BeforeDestructive]),
            ("interval", vec![Interval]),
            ("manual", vec![Manual]),
        ];
        assert_eq!(happenings(world, orchestrator()), expected);
    }

    fn each_of_them_can_be_switched_off(world: &World) {
        use Reason::{AgentComplete, BeforeDestructive, Interval, Manual, SortieFailed, StateTransition, UserApproval};
        let all = [StateTransition, AgentComplete, UserApproval, SortieFailed, BeforeDestructive, Interval];
        for (what, taken) in happenings(world, without(&all)) {
            let asked_for: &[Reason] = if what == "manual" { &[Manual] } else { &[] };
            assert_eq!(taken, asked_for, "{what}");
        }
    }

    fn switching_one_off_leaves_the_others(world: &World) {
        for off in [Reason::StateTransition, Reason::UserApproval, Reason::BeforeDestructive, Reason::Interval] {
            let taken: Vec<Reason> = happenings(world, without(&[off])).into_iter().flat_map(|(_, taken)| taken).collect();
            assert!(taken.len() == 6 && !taken.contains(&off), "{off:?}: {taken:?}");
        }
    }

    fn an_agent_that_fails_has_finished_too(world: &World) {
        let story = working(world, without(&[Reason::SortieFailed]));
        let view = story.change("coder", "Code", failing()).unwrap();
        assert_eq!(story.reasons(), [Reason::AgentComplete]);
        let id = view.checkpoint.unwrap();
        assert_eq!(document(&story, id).word("triggerReason"), "Agent coder failed");
    }

    fn what_is_destructive_gets_a_checkpoint_and_the_rest_is_told_why_not(world: &World) {
        let story = working(world, orchestrator());
        let push = before(&story, "git_push", Some("main"));
        let taken = push.checkpoint.unwrap();
        assert!(push.taken && push.why.is_none());
        assert_eq!((taken.trigger.as_str(), taken.reason.as_str(), taken.trigger_details.as_deref()), ("manual", "before_destructive", Some("Before git_push: main")));
        assert_eq!(before(&story, "git_push", Some("main")).checkpoint.unwrap().id, taken.id, "nothing has changed");
        let deploy = before(&story, "deploy", None).checkpoint.unwrap();
        assert!(deploy.id != taken.id && deploy.trigger_details.as_deref() == Some("Before deploy"), "another cause");
        let rev = story.rev();
        let pull = before(&story, "git_pull", None);
        assert!(!pull.taken && pull.checkpoint.is_none());
        assert!(pull.why.unwrap().starts_with("`git_pull` is not among the destructive operations (git_push, "));
        assert_eq!(story.rev(), rev, "nothing was written");
        let own = Story::under(world, Policy { destructive: vec![name("git_pull")], ..orchestrator() });
        assert!(before(&own, "git_pull", None).taken && !before(&own, "git_push", None).taken, "the list is a setting");
        let off = Story::under(world, without(&[Reason::BeforeDestructive]));
        assert_eq!(before(&off, "git_push", None).why.unwrap(), "`triggers.before_destructive` is off");
    }

    fn a_checkpoint_that_fails_stops_nobody_from_going_on(world: &World) {
        let story = working(world, orchestrator());
        let id = story.run("coder", &lesson("measure first")).unwrap().id.to_string();
        damage::everywhere(world, Kind::Note, &id, 0);
        let prepared = before(&story, "deploy", None);
        assert!(!prepared.taken);
        assert!(prepared.why.unwrap().starts_with("no checkpoint could be taken: "));
        assert_eq!(story.events_of("checkpoint_failed").pop().unwrap().data["reason"], "before_destructive");
    }

    fn at_most_fifty_are_listed_at_any_time_and_the_others_are_archived(world: &World) {
        let story = working(world, orchestrator());
        let taken = take(&story, 55);
        let (ids, total) = listed(&story, false);
        assert_eq!((total, ids), (50, taken[5..].to_vec()));
        assert_eq!(archived(&story), taken[..5]);
        assert_eq!(listed(&story, true).1, 55, "and are still there");
        let told = story.events_of("checkpoint_archived");
        assert_eq!((told.len(), &told[0].data["reason"]), (5, &json!("surplus")));
        assert_eq!(told[0].actor, "flightline", "nobody asked for it");
        story.run("", &ShowCheckpoint { checkpoint: taken[0].to_string() }).unwrap();
        // Without the setting the maximum is held by deleting.
        let deleting = Story::under(world, Policy { retention: flightline::core::retention::Retention { most: 50, ..Policy::default().retention }, ..orchestrator() });
        take(&deleting, 2);
        assert_eq!((listed(&deleting, false).1, archived(&deleting).len()), (50, 5));
        assert_eq!(listed(&deleting, false).0[0], taken[7]);
        // Where there was more room before, there may be too many.
        let roomy = Story::under(world, Policy { retention: flightline::core::retention::Retention { most: 100, ..orchestrator().retention }, ..orchestrator() });
        let more = take(&roomy, 2);
        assert_eq!(listed(&roomy, false).1, 52);
        // Under seed D's policy, pruning archives what is too many, and says so.
        let planned = story.with_fleet(|fleet| plan_all(fleet, &caller(""), &PlanPrune::default())).unwrap();
        assert_eq!(planned.archived.iter().map(|it| it.id).collect::<Vec<_>>(), taken[7..9]);
        let done = story.with_fleet(|fleet| apply_all(fleet, &caller(""), &PlanPrune::default(), &planned)).unwrap();
        assert_eq!((done.deleted, done.archived), (0, planned.archived));
        assert_eq!((listed(&story, false).1, archived(&story).len()), (50, 7));
        assert_eq!(listed(&story, false).0.last(), more.last());
        assert!(world.problems().is_empty());
    }

    fn what_is_guarded_is_not_archived(world: &World) {
        let story = working(world, Policy { retention: flightline::core::retention::Retention { most: 4, ..orchestrator().retention }, ..orchestrator() });
        let first = take(&story, 2);
        story.mark("", first[0], CheckpointMark::Pin).unwrap();
        let more = take(&story, 6);
        assert_eq!(status(&story, first[0]), CheckpointStatus::Valid, "pinned");
        assert_eq!(archived(&story), [first[1], more[0], more[1]]);
        let (ids, total) = listed(&story, false);
        assert_eq!((ids, total), (vec![first[0], more[2], more[3], more[4], more[5]], 5));
    }

    fn archived_ones_go_when_their_time_is_over(world: &World) {
        let story = working(world, Policy { retention: flightline::core::retention::Retention { most: 4, ..orchestrator().retention }, ..orchestrator() });
        let taken = take(&story, 6);
        assert_eq!(archived(&story), taken[..2]);
        world.pass(DAY * 31);
        assert!(story.with_fleet(|fleet| daily(fleet, &caller(""))).unwrap().is_empty(), "a pause is believed a day later");
        world.pass(DAY);
        story.beat("coder").unwrap();
        story.send("coder", &["coder"], "a day later").unwrap();
        let gone = story.with_fleet(|fleet| daily(fleet, &caller(""))).unwrap();
        assert_eq!(gone.iter().map(|it| it.id).collect::<Vec<_>>(), taken[..3], "the three newest stay");
        assert_eq!(listed(&story, true).0, taken[3..]);
        // Where surplus is deleted, what somebody archived is left alone.
        let fleet = Story::new(world);
        fleet.mark("", taken[3], CheckpointMark::Archive).unwrap();
        world.pass(DAY * 31);
        fleet.with_fleet(|fleet| daily(fleet, &caller(""))).unwrap();
        assert_eq!(archived(&fleet), [taken[3]]);
    }

    fn archived_ones_can_be_gone_back_to(world: &World) {
        let story = working(world, Policy { retention: flightline::core::retention::Retention { most: 3, ..orchestrator().retention }, ..orchestrator() });
        let first = take(&story, 1)[0];
        story.change("coder", "Code", DONE).unwrap();
        take(&story, 5);
        assert!(archived(&story).contains(&first));
        let back = Resume { checkpoint: Some(first.to_string()), force: true, ..Resume::default() };
        assert_eq!(story.run("", &back).unwrap().completed, 0);
        assert!(listed(&story, false).1 <= 3, "and the one before going back counts");
        story.undo().unwrap();
        assert_eq!(story.sortie("Code").sortie.status.as_str(), "completed");
    }

    fn the_store_is_counted_as_the_seed_counts_it(world: &World) {
        let story = working(world, orchestrator());
        let taken = take(&story, 52);
        story.settle();
        let stats = story.run("", &ShowStats {}).unwrap().storage;
        let (oldest, newest) = (stats.checkpoints.oldest.unwrap().id, stats.checkpoints.newest.unwrap().id);
        assert_eq!((stats.checkpoints.total, oldest, newest), (52, taken[0], taken[51]));
        assert_eq!(stats.checkpoints.by_status.get("archived"), Some(&2));
        assert!(stats.files.bytes > 0);
    }

    fn a_shutdown_checkpoint_says_so(world: &World) {
        let story = working(world, orchestrator());
        let taken = story.checkpoint_for("", Reason::Shutdown).unwrap();
        let document = document(&story, taken.id);
        assert_eq!((document.word("trigger"), document.word("triggerReason")), ("manual", "Shutdown checkpoint"));
    }

    fn a_whole_mission_becomes_the_seeds_document(world: &World) {
        let story = Story::under(world, orchestrator());
        let given = |named: &str, task: Option<&str>, input: Option<serde_json::Value>| NewSortie {
            task_id: task.map(name),
            input: input.map(|input| JsonData::new(input).unwrap()),
            ..sortie(named)
        };
        let create = CreateMission {
            objective: Some(note("Users can log in")),
            states: [(name("PLANNING"), vec![name("CODING")]), (name("CODING"), vec![name("REVIEW")]), (name("REVIEW"), vec![])].into(),
            ..create_mission("Ship it", vec![
                given("Plan", Some("planner"), Some(json!({ "goal": "login" }))),
                given("Code", None, Some(json!(["a", "b"]))),
                given("Test", None, None),
                given("Docs", None, None),
            ])
        };
        story.run("", &create).unwrap();
        story.transition("PLANNING");
        story.claim("ada", "Plan").unwrap();
        story.change("ada", "Plan", SortieAction::Complete { output: Some(JsonData::new(json!({ "steps": 3 })).unwrap()) }).unwrap();
        story.pass_minutes(2);
        story.transition("CODING");
        let wish = TransitionMission { pending: true, ..transition_mission("REVIEW") };
        story.run("", &wish).unwrap();
        story.claim("coder", "Code").unwrap();
        let report = UpdateSortie {
            sortie: story.sortie_id("Code"),
            tokens_in: 1_200,
            tokens_out: 340,
            subtasks: vec![SubtaskReport { output: Some(title("db.sql")), ..subtask("schema", SubtaskStatus::Complete) }],
            files: vec![file("src/login.rs", FileChange::Created), file("src/old.rs", FileChange::Deleted)],
            ..UpdateSortie::default()
        };
        story.run("coder", &report).unwrap();
        story.claim("tester", "Test").unwrap();
        story.change("tester", "Test", failing()).unwrap();
        let sum = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        story.run("coder", &AddNote { path: Some(path("docs/plan.md")), checksum: Some(sum.to_owned()), artifact_type: Some(name("spec")), ..add_note(NoteKind::Artifact, "the plan") }).unwrap();
        story.run("coder", &lesson("measure first")).unwrap();
        story.run("coder", &AddNote { rationale: Some(note("it is fast")), ..add_note(NoteKind::Decision, "use Rust") }).unwrap();
        let id = story.checkpoint().id;
        // What comes afterwards is not in it.
        story.pass_minutes(1);
        story.transition("REVIEW");
        story.run("coder", &lesson("too late")).unwrap();

        let document = document(&story, id);
        assert!(verify(&document).is_empty(), "sealed");
        let text = document.write();
        let read = DialectDocument::read(Dialect::Orchestrator, &text).unwrap();
        assert_eq!(read, document, "it reads back");
        let metadata = &read["metadata"];
        assert_eq!((metadata.whole("checkpointSize"), metadata.word("compressionType")), (Some(text.len() as u64), "gzip"));
        assert_eq!(format!("chk-{}", document.word("id")), id.to_string());
        assert_eq!((document.word("trigger"), document.word("status")), ("manual", "valid"));

        let workflow = &document["workflow"];
        assert_eq!((workflow.word("currentState"), workflow.word("previousState")), ("CODING", "PLANNING"));
        assert_eq!(workflow.texts("pendingTransitions"), ["REVIEW"]);
        let past: Vec<_> = workflow.items("stateHistory").iter().map(|it| (it.word("state"), it.time("exitedAt").is_some(), it.word("trigger"))).collect();
        assert_eq!(past, [("PLANNING", true, "as planned"), ("CODING", false, "as planned")]);

        let docs = story.sortie_id("Docs");
        let agents: Vec<_> = document.items("agents").iter().map(|it| (it.word("agentId"), it.word("status"), it.whole("attempts").unwrap())).collect();
        assert_eq!(agents, [
            ("planner", "completed", 1),
            ("coder", "running", 1),
            ("tester", "failed", 1),
            (docs.as_str(), "pending", 0),
        ]);
        let [planner, coder, tester, _] = document.items("agents") else { panic!("four of them") };
        assert_eq!(planner.fields("input"), [("goal".to_owned(), "login".into())]);
        assert_eq!(planner.fields("output")[0].0, "steps");
        assert!(planner.time("startedAt").is_some() && planner.time("completedAt").is_some());
        assert_eq!(coder.fields("input")[0].0, "value", "the seed wants names");
        let usage = &coder["tokenUsage"];
        assert_eq!((usage.whole("input"), usage.whole("output")), (Some(1_200), Some(340)));
        assert_eq!((tester.text("error"), tester.get("tokenUsage")), (Some("it broke"), None));

        let context = &document["context"];
        assert_eq!((context.word("projectId"), context.word("taskDescription")), (world.project.as_str(), "Users can log in"));
        assert!(!context.word("sessionId").is_empty());
        let artifact = &context.items("artifacts")[0];
        assert_eq!((artifact.word("type"), artifact.word("path"), artifact.word("checksum")), ("spec", "docs/plan.md", sum));
        assert_eq!(context.texts("lessons"), ["measure first"]);
        let decision = &context.items("decisions")[0];
        assert_eq!((decision.word("decision"), decision.word("rationale")), ("use Rust", "it is fast"));
        let breakdown: serde_json::Value = context["workBreakdown"]["sorties"].clone().into();
        assert_eq!((&breakdown[1]["title"], &breakdown[1]["subtasks"][0]["output"]), (&json!("Code"), &json!("db.sql")));

        let files = &document["fileSystem"];
        assert_eq!((files.texts("createdFiles"), files.texts("deletedFiles")), (vec!["src/login.rs"], vec!["src/old.rs"]));
        let recovery = &document["recovery"];
        assert_eq!((recovery.flag("canResume"), recovery.text("resumeFromAgent")), (Some(true), Some("coder")));
        assert_eq!(recovery.texts("blockers"), ["Agent coder was in progress"]);

        // The command that looked at the files says what became of them.
        let looked = json!({ "modifiedFiles": [], "createdFiles": ["seen.rs"], "deletedFiles": [] });
        let beside = DocumentExtras { history: &[], file_system: Some(looked), compression: Compression::None };
        let other = orchestrator_document(&story.whole(id).state.unwrap(), &beside).unwrap();
        assert_eq!((other["fileSystem"].texts("createdFiles"), other["workflow"].items("stateHistory").len()), (vec!["seen.rs"], 0));
        assert!(verify(&other).is_empty());
    }

    fn why_it_was_taken_is_told_in_the_seeds_words(world: &World) {
        let story = working(world, orchestrator());
        story.transition("PLANNING");
        story.transition("CODING");
        let newest = |story: &Story<'_>| story.checkpoints().pop().unwrap().id;
        assert_eq!(document(&story, newest(&story)).word("triggerReason"), "State transition: PLANNING → CODING (as planned)");
        before(&story, "git_push", Some("main"));
        assert_eq!(document(&story, newest(&story)).word("triggerReason"), "Before git_push: main");
        story.change("coder", "Code", DONE).unwrap();
        assert_eq!(document(&story, newest(&story)).word("triggerReason"), "Agent coder completed");
        story.pass_minutes(1);
        story.claim("tester", "Test").unwrap();
        story.change("tester", "Test", failing()).unwrap();
        let error = document(&story, newest(&story));
        assert_eq!((error.word("trigger"), error.word("triggerReason")), ("error_occurred", "Error in Ship it: \"Test\" failed: it broke"));
        story.report_on_time(orchestrator());
        assert_eq!(document(&story, newest(&story)).word("triggerReason"), "Periodic checkpoint");
    }

    fn what_was_left_out_is_skipped_in_the_document(world: &World) {
        let story = working(world, orchestrator());
        story.change("coder", "Code", failing()).unwrap();
        story.run("", &Resume { skip_failed: true, ..Resume::default() }).unwrap();
        let document = document(&story, story.checkpoint().id);
        let agent = &document.items("agents")[1];
        assert_eq!((agent.word("agentId"), agent.word("status"), agent.word("error")), ("coder", "skipped", "it broke"));
        assert_eq!(document["recovery"].flag("canResume"), Some(true));
    }

    fn a_mission_without_a_workflow_has_a_document_too(world: &World) {
        let story = working(world, orchestrator());
        let document = document(&story, story.checkpoint().id);
        let workflow = &document["workflow"];
        assert_eq!((workflow.word("currentState"), workflow.items("stateHistory").len()), ("in_progress", 0));
        assert_eq!(DialectDocument::read(Dialect::Orchestrator, &document.write()).unwrap(), document);
    }
}
