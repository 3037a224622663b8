//! Sorties as seed B's tasks, on both engines: the document, the table, resuming, and the three scenarios.

use expect_test::expect;
use flightline::core::Subject;
use flightline::core::dialect::sitebuilder::{percent, progress_line};
use flightline::core::dialect::{Dialect, DialectDocument, Json};
use flightline::core::sortie::Declared;
use flightline::task::{ShowTask, ShowTaskTable, TaskFile};
use flightline_testkit::prelude::*;

/// The seed's schema example.
const SCHEMA: &str =
    include_str!("../../../flightline-core/tests/it/dialects/data/sitebuilder_schema.json");

const TASK: &str = "Convert Nature Trail PDFs to Markdown";
/// Riley, who migrates, has begun T060; nobody has begun T061.
fn begun(world: &World) -> Story<'_> {
    let story = Story::under(world, Preset::Sitebuilder.policy());
    let riley = RegisterAgent {
        kind: Some(name("migration")),
        ..registration("Riley")
    };
    story.run("", &riley).unwrap();
    let criteria = ["29_files_created", "frontmatter_valid", "manifest_updated"];
    let task = NewSortie {
        task_id: Some(name("T060")),
        criteria: criteria.map(name).to_vec(),
        ..sortie(TASK)
    };
    let next = NewSortie {
        task_id: Some(name("T061")),
        ..sortie("Check links")
    };
    story
        .run("", &create_mission("Migrate", vec![task, next]))
        .unwrap();
    story.claim("Riley", TASK).unwrap();
    story
}

fn update(story: &Story<'_>, change: UpdateSortie) {
    let change = UpdateSortie {
        sortie: story.sortie_id(TASK),
        ..change
    };
    story.run("Riley", &change).unwrap();
}

fn part(named: &str, status: SubtaskStatus, output: Option<&str>) -> SubtaskReport {
    SubtaskReport {
        output: output.map(title),
        ..subtask(named, status)
    }
}

/// What brings T060 to where the seed's example has it.
fn like_the_seed(story: &Story<'_>) {
    let file = |named: &str, change: FileChange| FileReport {
        path: path(&format!("docs/content-extraction/pdfs-markdown/{named}")),
        change,
    };
    update(
        story,
        UpdateSortie {
            declared: Some(Declared {
                total: 29,
                completed: 19,
                failed: 0,
            }),
            subtasks: vec![
                part(
                    "post-01",
                    SubtaskStatus::Complete,
                    Some("pdfs-markdown/nature-trail/post-01.md"),
                ),
                part(
                    "post-02",
                    SubtaskStatus::Complete,
                    Some("pdfs-markdown/nature-trail/post-02.md"),
                ),
                part("post-20", SubtaskStatus::InProgress, None),
                part("post-21", SubtaskStatus::Pending, None),
            ],
            files: vec![
                file("nature-trail/post-01.md", FileChange::Created),
                file("nature-trail/post-02.md", FileChange::Created),
                file("MANIFEST.json", FileChange::Modified),
            ],
            criteria: [
                (name("frontmatter_valid"), true),
                (name("manifest_updated"), true),
            ]
            .into(),
            last_processed: Some(title("Post19English.pdf")),
            next_to_process: Some(title("Post20English.pdf")),
            cursor_notes: Some(note(
                "Hindi and Polish variants discovered - flagging for review",
            )),
            resume_instructions: Some(note(
                "Continue from post-20.md, source: NatureTrail/NTEnglish/Text/Post20English.pdf",
            )),
            ..UpdateSortie::default()
        },
    );
    for reviewer in ["agent_4", "agent_5"] {
        review(story, reviewer, None);
    }
}

fn review(story: &Story<'_>, reviewer: &str, score: Option<i64>) {
    let review = AddReview {
        sortie: story.sortie_id(TASK),
        reviewer: Some(name(reviewer)),
        score,
        note: None,
    };
    story.run("", &review).unwrap();
}

fn missing_source(story: &Story<'_>) {
    let error = ReportError {
        sortie: story.sortie_id(TASK),
        kind: name("dependency_missing"),
        status: None,
        message: note("Cannot find source PDF: Post20English.pdf"),
        blocking: true,
    };
    story.run("Riley", &error).unwrap();
}

fn file_of(story: &Story<'_>, titled: &str) -> Option<TaskFile> {
    let show = ShowTask {
        sortie: story.sortie_id(titled),
    };
    story.run("", &show).unwrap()
}

fn read(text: &str) -> DialectDocument {
    DialectDocument::read(Dialect::Sitebuilder, text).unwrap()
}

fn document(story: &Story<'_>) -> DialectDocument {
    read(&file_of(story, TASK).unwrap().text)
}

fn table(story: &Story<'_>) -> String {
    let show = ShowTaskTable { mission: None };
    story.run("", &show).unwrap().text
}

fn found(story: &Story<'_>, who: &str) -> Vec<RecoveryCandidate> {
    story.detect(who, vec![])
}

/// What was found of tasks: what happened, the evidence, and what to run.
fn troubles(found: &[RecoveryCandidate]) -> Vec<String> {
    let tasks = found.iter().flat_map(|candidate| &candidate.tasks);
    tasks
        .map(|task| {
            let task_id = task.task_id.as_ref().unwrap();
            let next = task
                .next
                .join(" && ")
                .replace(&task.sortie_id.to_string()[..12], "ID");
            format!("{task_id} {}: {} -> {next}", task.scenario, task.evidence)
        })
        .collect()
}

both_engines! {
    fn a_task_that_is_built_up_by_commands_is_the_seeds_example(world: &World) {
        let story = begun(world);
        story.pass_minutes(22);
        like_the_seed(&story);
        let mut ours = document(&story);
        assert_eq!(ours.word("checkpoint_id"), "migration-T060-20260104-120000");
        assert_eq!((ours.word("started_at"), ours.word("updated_at")), ("2026-01-04T12:00:00Z", "2026-01-04T12:22:00Z"));
        let seed = read(SCHEMA);
        // Another time, and so another id.
        for key in ["checkpoint_id", "started_at", "updated_at"] {
            ours[key] = seed[key].clone();
        }
        assert_eq!(ours, seed);
        assert_eq!(file_of(&story, TASK).unwrap().file, "migration-T060.json");
        let line = progress_line("T060", percent(&ours));
        assert_eq!(line, "@orchestrator: Task T060 progress: 65%");
        let mail = story.all::<Message>();
        assert_eq!(mail[0].subject.as_str(), line);
        assert_eq!(file_of(&story, "Check links"), None, "what has not begun has no checkpoint");
    }

    fn a_blocked_task_has_its_open_errors_and_a_complete_one_its_scores(world: &World) {
        let story = begun(world);
        like_the_seed(&story);
        missing_source(&story);
        let blocked = document(&story);
        assert_eq!((blocked.word("status"), percent(&blocked)), ("blocked", 65));
        let error = &blocked.items("errors")[0];
        assert_eq!(
            (error.word("type"), error.word("message"), error.flag("blocking")),
            ("dependency_missing", "Cannot find source PDF: Post20English.pdf", Some(true))
        );
        story.run("Riley", &ClearErrors { sortie: story.sortie_id(TASK) }).unwrap();
        assert_eq!(document(&story)["errors"], Json::List(vec![]), "what was dealt with is no error any more");
        story.change("Riley", TASK, SortieAction::Resume).unwrap();
        update(&story, UpdateSortie { criteria: [(name("29_files_created"), true)].into(), ..UpdateSortie::default() });
        review(&story, "agent_4", Some(85));
        story.pass_minutes(1);
        story.change("Riley", TASK, DONE).unwrap();
        let complete = document(&story);
        assert_eq!((complete.word("status"), percent(&complete), complete.flag("resumable")), ("complete", 100, Some(false)));
        assert_eq!(complete.word("completed_at"), "2026-01-04T12:01:00Z");
        assert_eq!(file_of(&story, TASK).unwrap().file, "migration-T060-complete.json");
        assert_eq!(complete["review_scores"].stringify(), r#"{"agent_4":85,"agent_5":null}"#);
    }

    fn what_was_begun_and_is_nobodys_can_still_be_resumed(world: &World) {
        let story = begun(world);
        like_the_seed(&story);
        story.change("Riley", TASK, GIVEN_BACK).unwrap();
        let given_back = document(&story);
        assert_eq!((given_back.word("agent"), given_back.word("status")), ("migration", "in_progress"));
        assert_eq!(given_back.flag("resumable"), Some(true));
        story.claim("Riley", TASK).unwrap();
        story.change("Riley", TASK, SortieAction::Fail { reason: note("no way") }).unwrap();
        assert_eq!(document(&story).word("status"), "failed");
    }

    fn an_agent_without_a_kind_goes_by_its_name(world: &World) {
        let story = begun(world);
        story.claim("bob", "Check links").unwrap();
        let file = file_of(&story, "Check links").unwrap();
        assert_eq!(file.file, "bob-T061.json");
        assert_eq!(read(&file.text).word("agent_name"), "bob");
    }

    fn the_table_has_the_newest_first_and_what_has_not_begun_last(world: &World) {
        let story = begun(world);
        story.run("", &RegisterAgent { kind: Some(name("content")), ..registration("Cleo") }).unwrap();
        let more = vec![
            NewSortie { task_id: Some(name("T001")), ..sortie("Write copy") },
            NewSortie { task_id: Some(name("T040")), ..sortie("Set up hosting") },
        ];
        story.run("", &create_mission("Content", more)).unwrap();
        story.change("", "Write copy", SortieAction::Assign { to: "Cleo".to_owned() }).unwrap();
        story.run("", &RegisterAgent { kind: Some(name("technical")), ..registration("Theo") }).unwrap();
        story.finish("Theo", &["Set up hosting"]);
        story.pass_minutes(3);
        like_the_seed(&story);
        story.pass_minutes(2);
        expect![[r#"
            <!-- flightline:active-checkpoints -->
            ## Active Checkpoints

            As of 2026-01-04T12:03:00Z

            | Agent | Task | Progress | Last Update | Status |
            |-------|------|----------|-------------|--------|
            | migration | T060 | 65% | 2026-01-04T12:03:00Z | in_progress |
            | technical | T040 | 100% | 2026-01-04T12:00:00Z | complete |
            | — | T061 | 0% | — | not started |
            | content | T001 | 0% | — | not started |
            <!-- /flightline:active-checkpoints -->
        "#]].assert_eq(&table(&story));
        // A part that changes brings its task up to date.
        review(&story, "agent_4", Some(85));
        let now = world.clock.now().to_seconds();
        let now = now.as_str();
        assert!(table(&story).contains(&format!("As of {now}\n")) && table(&story).contains(&format!("| migration | T060 | 65% | {now} | in_progress |")), "{}", table(&story));
        let one = ShowTaskTable { mission: Some(story.all::<Mission>()[1].id.to_string()) };
        assert_eq!(story.run("", &one).unwrap().tasks.len(), 2);
        let wrong = ShowTaskTable { mission: Some("msn-ffff".to_owned()) };
        assert_eq!(story.run("", &wrong).unwrap_err().code, Code::NotFound);
    }

    fn a_task_is_resumed_where_it_was_left(world: &World) {
        let story = begun(world);
        like_the_seed(&story);
        let view = story.change("Riley", TASK, SortieAction::Resume).unwrap();
        let point = view.resume.unwrap();
        let names: Vec<&str> = point.left.iter().map(|part| part.name.as_str()).collect();
        assert_eq!((names, point.unlisted), (vec!["post-20", "post-21"], 8), "29 less 19 are left");
        assert_eq!(point.skipped, [name("post-01"), name("post-02")]);
        assert_eq!((point.last_processed, point.next_to_process), (Some(title("Post19English.pdf")), Some(title("Post20English.pdf"))));
        assert!(point.instructions.unwrap().starts_with("Continue from post-20.md"));
        // The document lists as much.
        let document = document(&story);
        let left = document["subtasks"].items("items").iter().filter(|item| item.word("status") != "complete");
        assert_eq!(left.map(|item| item.word("id")).collect::<Vec<_>>(), ["post-20", "post-21"]);
    }

    fn a_task_that_cannot_be_resumed_says_why_and_what_to_do(world: &World) {
        let story = begun(world);
        let refused = |titled: &str| {
            let refused = story.change("", titled, SortieAction::Resume).unwrap_err();
            assert_eq!(refused.code, Code::IllegalTransition);
            let id = story.sortie_id(titled)[..12].to_owned();
            format!("{} [{}]", refused.message, refused.hint.unwrap()).replace(&id, "ID")
        };
        assert_eq!(refused("Check links"), "cannot resume ID (\"Check links\"): it is pending \
            [only a sortie that is in progress or blocked can be resumed; claim it with `fleet sorties claim ID --agent NAME`, which hands over the remaining work]");
        story.change("", "Check links", SortieAction::Assign { to: "Riley".to_owned() }).unwrap();
        assert!(refused("Check links").ends_with("; begin it with `fleet sorties start ID`]"));
        update(&story, UpdateSortie { resumable: Some(false), ..UpdateSortie::default() });
        assert!(refused(TASK).starts_with("cannot resume ID (\"Convert Nature Trail PDFs to Markdown\"): it is marked as not resumable"));
        update(&story, UpdateSortie { resumable: Some(true), ..UpdateSortie::default() });
        missing_source(&story);
        assert!(refused(TASK).contains("still has an error blocking: Cannot find source PDF") && refused(TASK).contains("fleet sorties error ID --clear"));
        story.run("", &ClearErrors { sortie: story.sortie_id(TASK) }).unwrap();
        story.change("Riley", TASK, SortieAction::Resume).unwrap();
        story.change("Riley", TASK, DONE).unwrap();
        assert!(refused(TASK).contains("it is completed"));
        let rev = story.rev();
        refused(TASK);
        assert_eq!(story.rev(), rev, "nothing was written");
    }

    fn a_session_that_timed_out_is_found_after_more_than_ten_minutes(world: &World) {
        let story = begun(world);
        like_the_seed(&story);
        story.pass_minutes(10);
        assert!(found(&story, "").is_empty(), "ten minutes are not more than ten minutes");
        story.pass_minutes(1);
        let seen = found(&story, "");
        assert_eq!(troubles(&seen), ["T060 session_timeout: in progress, and silent for 11m -> fleet sorties resume ID --agent Riley"]);
        assert_eq!((seen[0].evidence.as_str(), seen[0].tasks[0].quiet_ms), ("inactivity", Some(11 * 60_000)));
        // What Flightline does by itself is no activity.
        story.checkpoint();
        story.pass_minutes(1);
        assert_eq!(found(&story, "")[0].tasks[0].quiet_ms, Some(12 * 60_000));
        // Nor is it when the very agent asks that came back without its context …
        assert_eq!(troubles(&found(&story, "Riley")).len(), 1);
        // … but its next sign of life is.
        story.beat("Riley").unwrap();
        assert_eq!(troubles(&found(&story, "")), [] as [&str; 0]);
        story.pass_minutes(11);
        story.change("Riley", TASK, SortieAction::Resume).unwrap();
        assert!(found(&story, "").is_empty());
    }

    fn a_task_that_cannot_be_resumed_is_to_be_given_back(world: &World) {
        let story = begun(world);
        update(&story, UpdateSortie { resumable: Some(false), ..UpdateSortie::default() });
        story.pass_minutes(11);
        assert_eq!(troubles(&found(&story, "")), ["T060 session_timeout: in progress, and silent for 11m -> fleet sorties release ID --reason \"not resumable\""]);
    }

    fn a_session_whose_process_is_gone_is_over_at_once_and_one_that_runs_is_not(world: &World) {
        let story = begun(world);
        story.board("ada", Role::Specialist, 7);
        story.run("", &add_sorties(vec![NewSortie { task_id: Some(name("T070")), ..sortie("Logos") }])).unwrap();
        story.claim("ada", "Logos").unwrap();
        let gone = story.detect("", story.seen(false, &["ada"]));
        assert_eq!(troubles(&gone), ["T070 session_timeout: in progress, process 7 is gone, silent for 0s -> fleet sorties resume ID --agent ada"]);
        story.pass_minutes(60);
        story.beat("Riley").unwrap();
        assert_eq!(troubles(&story.detect("", story.seen(true, &["ada"]))), [] as [&str; 0]);
    }

    fn an_error_in_the_way_is_found_until_it_is_cleared(world: &World) {
        let story = begun(world);
        like_the_seed(&story);
        missing_source(&story);
        let seen = found(&story, "");
        assert_eq!(troubles(&seen), [
            "T060 error: blocked: Cannot find source PDF: Post20English.pdf -> fleet sorties show ID && fleet sorties error ID --clear && fleet sorties resume ID --agent Riley"
        ]);
        assert_eq!((seen[0].evidence.as_str(), seen[0].needs_recovery()), ("tasks", false), "the mission goes on");
        assert_eq!(story.events_of("context_compacted").len(), 0, "so nobody is offered a recovery");
        assert_eq!(seen[0].tasks[0].errors, ["Cannot find source PDF: Post20English.pdf"]);
        let status = story.run("", &show_status()).unwrap();
        assert!(status.attention.iter().any(|it| it.what.contains("T060") && it.command.starts_with("fleet sorties show")), "{:?}", status.attention);
        story.run("", &ClearErrors { sortie: story.sortie_id(TASK) }).unwrap();
        assert!(found(&story, "").is_empty());
        story.change("Riley", TASK, SortieAction::Resume).unwrap();
        assert!(found(&story, "").is_empty());
    }

    fn a_task_that_is_complete_without_all_its_criteria_is_found_until_somebody_decides(world: &World) {
        let story = begun(world);
        like_the_seed(&story);
        story.change("Riley", TASK, DONE).unwrap();
        let seen = found(&story, "");
        assert_eq!(troubles(&seen), [
            "T060 partial_completion: complete, but not met: 29_files_created -> fleet sorties reject ID --reason \"not met: 29_files_created\" && fleet sorties resume ID --agent Riley"
        ]);
        assert_eq!(seen[0].tasks[0].unmet_criteria, ["29_files_created"]);
        story.change("", TASK, SortieAction::Approve { reason: Some(note("good enough")) }).unwrap();
        assert!(found(&story, "").is_empty(), "somebody took it so");
        story.change("", TASK, SortieAction::Reject { reason: note("not met: 29_files_created") }).unwrap();
        story.change("Riley", TASK, SortieAction::Resume).unwrap();
        update(&story, UpdateSortie { criteria: [(name("29_files_created"), true)].into(), ..UpdateSortie::default() });
        story.change("Riley", TASK, DONE).unwrap();
        assert!(found(&story, "").is_empty(), "now all are met");
    }

    fn tasks_are_looked_for_where_the_policy_wants_it(world: &World) {
        let story = begun(world);
        missing_source(&story);
        let peek = PeekCandidates { threshold_ms: None, sightings: vec![] };
        let seen = |policy: Policy| {
            let mut fleet = Fleet::new(world.store(), policy);
            fleet.run(&peek, &caller("")).unwrap().len()
        };
        assert_eq!(seen(Preset::Sitebuilder.policy()), 1);
        assert_eq!(seen(Preset::Fleet.policy()), 0);
        assert_eq!(seen(Policy { find_tasks: true, ..Preset::Fleet.policy() }), 1);
    }

    fn a_silence_that_is_given_counts_for_tasks_too(world: &World) {
        let story = begun(world);
        story.pass_minutes(3);
        let detect = Detect { threshold_ms: Some(120_000), sightings: vec![] };
        assert_eq!(troubles(&story.run("", &detect).unwrap()).len(), 1);
        assert!(found(&story, "").is_empty());
    }

    fn a_heartbeat_says_alive_warning_or_stalled(world: &World) {
        let story = begun(world);
        let view = || -> AgentView { story.run("", &show_agent("Riley")).unwrap() };
        let beat = || serde_json::to_value(view().heartbeat).unwrap();
        assert_eq!(beat(), serde_json::json!({ "last_beat": "2026-01-04T12:00:00.000Z", "interval_seconds": 300, "status": "alive" }));
        for (minutes, status) in [(10, "alive"), (1, "warning"), (19, "warning"), (1, "stalled")] {
            story.pass_minutes(minutes);
            assert_eq!(beat()["status"], status, "{minutes} minutes later");
        }
        story.checkpoint_for("", Reason::Manual).unwrap();
        assert_eq!(beat()["status"], "stalled", "what others do is no sign of life");
        story.beat("Riley").unwrap();
        assert_eq!((beat()["status"].as_str(), beat()["last_beat"].as_str()), (Some("alive"), Some("2026-01-04T12:31:00.000Z")));
        story.send("Riley", &["dispatch"], "Hello").unwrap();
        story.register("old", Role::Specialist);
        story.run("", &retire("old")).unwrap();
        let listed = story.run("", &ListAgents { retired: true, sightings: vec![] }).unwrap();
        let silent: Vec<&str> = listed.iter().filter(|view| view.heartbeat.is_none()).map(|view| view.agent.name.as_str()).collect();
        assert_eq!(silent, ["dispatch", "old"], "a mere mailbox has none, and neither has one that was retired");
    }

    fn a_recovered_task_is_taken_up_with_what_was_left(world: &World) {
        let story = begun(world);
        like_the_seed(&story);
        story.checkpoint();
        story.pass_minutes(31);
        story.resume("", vec![]).unwrap();
        let freed = document(&story);
        assert_eq!((freed.word("agent"), freed.word("status"), percent(&freed)), ("migration", "in_progress", 65), "Riley had it");
        let refused = story.change("", TASK, SortieAction::Resume).unwrap_err();
        assert!(refused.hint.unwrap().contains("fleet sorties claim"));
        story.claim("bob", TASK).unwrap();
        assert_eq!(story.change("bob", TASK, SortieAction::Resume).unwrap().resume.unwrap().left.len(), 2);
        assert_eq!(document(&story).word("agent"), "bob");
        assert!(story.stored_sortie(TASK).key().starts_with("srt-"));
    }
}
