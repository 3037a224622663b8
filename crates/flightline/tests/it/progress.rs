//! What an owner reports of its sortie, on both engines, and what dispatch hears of it.

use expect_test::expect;
use flightline::core::sortie::Declared;
use flightline_testkit::prelude::*;
use flightline_testkit::story::task::{begun, begun_under, update};

/// The first `done` of `total` files are complete.
fn files_done(done: usize, total: usize) -> Vec<SubtaskReport> {
    let status = |at| {
        if at < done {
            SubtaskStatus::Complete
        } else {
            SubtaskStatus::Pending
        }
    };
    (0..total)
        .map(|at| subtask(&format!("file_{at}"), status(at)))
        .collect()
}

fn peek(story: &Story<'_>, agent: &str) -> Vec<(String, String, Option<Body>)> {
    let seen = story.mailbox(agent).into_iter();
    seen.map(|view| {
        let message = view.message;
        (message.from, message.subject.to_string(), message.body)
    })
    .collect()
}

fn percent(story: &Story<'_>, who: &str, done: usize) {
    let report = UpdateSortie {
        subtasks: files_done(done, 10),
        ..update(story)
    };
    story.run(who, &report).unwrap();
}

/// What is open in a mailbox: subjects, in order.
fn open(story: &Story<'_>, agent: &str) -> Vec<String> {
    let seen = story.run("", &peek_inbox(agent, 100)).unwrap().into_iter();
    seen.map(|view| view.message.subject.to_string()).collect()
}

/// Ada is at T060 under the preset of seed B.
fn site(world: &World) -> Story<'_> {
    begun_under(world, Preset::Sitebuilder.policy())
}

/// What is open in a mailbox: senders, subjects and bodies, in order.
fn letters(story: &Story<'_>, agent: &str) -> Vec<(String, String, String)> {
    let seen = story.run("", &peek_inbox(agent, 100)).unwrap().into_iter();
    seen.map(|view| {
        let message = view.message;
        let body = message.body.map(|body| body.to_string());
        (
            message.from,
            message.subject.to_string(),
            body.unwrap_or_default(),
        )
    })
    .collect()
}

/// A report under the default preset.
fn ours(percent: u8, body: &str) -> (String, String, String) {
    let subject = format!("T060 is at {percent} %: Write 29 files");
    ("flightline".to_owned(), subject, body.to_owned())
}

/// A report in seed B's words.
fn line(percent: u8) -> String {
    format!("@orchestrator: Task T060 progress: {percent}%")
}

both_engines! {
    fn one_message_per_sortie_is_brought_up_to_date_until_it_is_read(world: &World) {
        let story = site(world);
        for done in 0..8 {
            story.pass_minutes(1);
            percent(&story, "ada", done);
        }
        assert_eq!(open(&story, "dispatch"), [line(70)]);
        let message = story.all::<Message>();
        assert_eq!((message.len(), message[0].sent_at), (1, world.clock.now()), "however much was reported");
        story.register("lead", Role::Dispatch);
        percent(&story, "ada", 8);
        assert_eq!((open(&story, "dispatch"), open(&story, "lead")), (vec![line(70)], vec![line(80)]));
        let read = story.run("lead", &open_inbox(10)).unwrap();
        assert_eq!(read.len(), 1);
        percent(&story, "ada", 9);
        assert_eq!(open(&story, "lead"), [line(90)], "what was read is settled by the next");
        let both = peek(&story, "lead").into_iter().map(|(_, subject, _)| subject).collect::<Vec<_>>();
        assert_eq!(both, [line(80), line(90)], "and stays what it was");
        let log = ListEvents { limit: 999, story: true, ..Default::default() };
        let told = story.run("", &log).unwrap().events;
        assert_eq!(told.iter().filter(|event| event.kind == "message_updated").count(), 0, "the reports are the story");
        assert!(story.damaged_values().is_empty());
    }

    fn under_the_default_preset_progress_is_told_by_flightline_to_a_dispatch_that_is_there(world: &World) {
        let story = begun(world);
        percent(&story, "ada", 1);
        assert_eq!(story.all::<Message>().len(), 0, "nobody coordinates");
        assert_eq!(story.all::<Agent>().len(), 1, "and no mailbox is made");
        story.register("lead", Role::Dispatch);
        percent(&story, "ada", 2);
        percent(&story, "ada", 3);
        assert_eq!(letters(&story, "lead"), [ours(30, "ada reported it.")]);
        story.send("ada", &["lead"], "The source of file 4 is missing").unwrap();
        story.run("", &UpdateSortie { note: Some(note("half of it")), subtasks: files_done(4, 10), ..update(&story) }).unwrap();
        let open = letters(&story, "lead");
        assert_eq!((open.len(), &open[0]), (2, &ours(40, "user:tester reported it.\n\nhalf of it")));
        let messages = story.all::<Message>();
        assert_eq!(messages.len(), 2, "the first report is shown up to date each time");
        assert_eq!(messages[0].subject.as_str(), "Progress of T060: Write 29 files", "and the news is kept once");
        story.run("lead", &open_inbox(10)).unwrap();
        percent(&story, "ada", 5);
        let open = letters(&story, "lead");
        assert_eq!((open.len(), &open[1]), (2, &ours(50, "ada reported it.\n\nhalf of it")));
        let by: Vec<String> = story.events_after(0).into_iter()
            .filter(|event| event.kind.starts_with("message_") && event.data["tells_of"] == "sortie_progress")
            .map(|event| event.actor).collect();
        assert_eq!(by, ["flightline"; 2], "one for each message that was opened");
        assert!(story.damaged_values().is_empty());
    }

    fn a_report_does_not_overtake_what_its_sender_wrote_before(world: &World) {
        let story = site(world);
        percent(&story, "ada", 1);
        story.send("bob", &["dispatch"], "Hello").unwrap();
        percent(&story, "ada", 2);
        assert_eq!(open(&story, "dispatch"), [line(20), "Hello".to_owned()], "another's mail has an order of its own");
        story.send("ada", &["dispatch"], "The source of file 3 is missing").unwrap();
        percent(&story, "ada", 3);
        assert_eq!(open(&story, "dispatch"), ["Hello".to_owned(), "The source of file 3 is missing".to_owned(), line(30)]);
        percent(&story, "", 4);
        assert_eq!(open(&story, "dispatch").last(), Some(&line(40)));
        assert_eq!(peek(&story, "dispatch").last().unwrap().0, "user:tester", "and says who reported");
        assert_eq!(open(&story, "dispatch").len(), 3);
    }

    fn progress_is_posted_where_the_policy_wants_it(world: &World) {
        for (preset, posted) in [
            (Preset::Fleet, 1),
            (Preset::Sitebuilder, 1),
            (Preset::Epic, 0),
            (Preset::Orchestrator, 0),
            (Preset::Recovery, 0),
        ] {
            let story = Story::under(world, preset.policy());
            story.mission(preset.as_str(), &["Write 29 files"]);
            story.claim("ada", "Write 29 files").unwrap();
            story.register("lead", Role::Dispatch);
            let before = story.all::<Message>().len();
            percent(&story, "ada", 5);
            assert_eq!(story.all::<Message>().len() - before, posted, "{preset:?}");
        }
    }

    fn nineteen_of_twenty_nine_is_sixty_five_percent(world: &World) {
        let story = site(world);
        let report = UpdateSortie {
            subtasks: files_done(19, 29),
            note: Some(note("19 files written")),
            ..update(&story)
        };
        let view = story.run("ada", &report).unwrap();
        assert_eq!(
            (view.progress.completed, view.progress.total, view.progress.percent),
            (19, 29, 65)
        );
        assert_eq!(
            peek(&story, "dispatch"),
            [(
                "ada".to_owned(),
                "@orchestrator: Task T060 progress: 65%".to_owned(),
                Some(Body::parse("body", "19 files written").unwrap()),
            )]
        );
    }

    fn a_mailbox_is_made_when_there_is_no_dispatch_and_waits_for_one(world: &World) {
        let story = site(world);
        story.run("ada", &UpdateSortie { subtasks: files_done(1, 2), ..update(&story) }).unwrap();
        let mailbox = story.agent("dispatch");
        assert_eq!(
            (mailbox.role, mailbox.epoch, mailbox.session_started_at),
            (Role::Dispatch, 0, None)
        );
        story.pass_minutes(90);
        story.register("dispatch", Role::Dispatch);
        let inbox = story.run("dispatch", &open_inbox(10)).unwrap();
        assert_eq!(inbox[0].message.subject.as_str(), "@orchestrator: Task T060 progress: 50%");
        assert_eq!((inbox.len(), inbox[0].message.kind), (1, MessageKind::Progress));
        expect![[r#"
            mission "Build the site" in_progress 0%
              sortie "Write 29 files" in_progress ada
            mail ada "@orchestrator: Task T060 progress: 50%"
              to dispatch delivered
        "#]]
        .assert_eq(&story.as_text());
    }

    fn the_missions_own_dispatch_hears_before_any_other(world: &World) {
        let story = Story::new(world);
        story.register("other", Role::Dispatch);
        story.register("lead", Role::Dispatch);
        story
            .run("lead", &create_mission("Build the site", vec![sortie("Write 29 files")]))
            .unwrap();
        story.claim("ada", "Write 29 files").unwrap();
        story.run("ada", &update(&story)).unwrap();
        assert_eq!((peek(&story, "lead").len(), peek(&story, "other").len()), (1, 0));
        story.run("", &retire("lead")).unwrap();
        story.run("ada", &update(&story)).unwrap();
        assert_eq!(
            (peek(&story, "lead").len(), peek(&story, "other").len()),
            (1, 1),
            "the retired read no mail"
        );
    }

    fn a_registered_dispatch_hears_before_a_mere_mailbox(world: &World) {
        let story = site(world);
        story.run("ada", &update(&story)).unwrap();
        story.register("lead", Role::Dispatch);
        story.run("ada", &update(&story)).unwrap();
        assert_eq!((peek(&story, "dispatch").len(), peek(&story, "lead").len()), (1, 1));
    }

    fn an_agent_that_only_bears_the_name_dispatch_gets_the_reports(world: &World) {
        let story = begun(world);
        story.beat("dispatch").unwrap_err();
        story.send("dispatch", &["ada"], "I am here").unwrap();
        assert_eq!(story.agent("dispatch").role, Role::Specialist);
        story.run("ada", &update(&story)).unwrap();
        assert_eq!(peek(&story, "dispatch").len(), 1);
    }

    fn dispatch_does_not_write_to_itself(world: &World) {
        let story = begun(world);
        story.register("lead", Role::Dispatch);
        story
            .run("lead", &UpdateSortie { note: Some(note("looked at it")), ..update(&story) })
            .unwrap();
        assert!(peek(&story, "lead").is_empty());
    }

    fn completing_reports_a_hundred_percent_whatever_was_counted(world: &World) {
        let story = site(world);
        story.run("ada", &UpdateSortie { subtasks: files_done(19, 29), ..update(&story) }).unwrap();
        let rev = story.rev();
        let done = story.change("ada", "Write 29 files", DONE).unwrap();
        assert_eq!((done.progress.percent, done.progress.completed), (100, 19));
        assert_eq!(
            peek(&story, "dispatch").last().unwrap().1,
            "@orchestrator: Task T060 progress: 100%"
        );
        let event = &story.events_after(rev)[0];
        assert_eq!(event.kind, "sortie_completed");
        assert_eq!(event.data["unmet_criteria"], serde_json::json!(["docs_written", "tests_pass"]));
        assert_eq!(
            event.data["open_subtasks"].as_array().unwrap().len(),
            10,
            "what is left open is named"
        );
    }

    fn subtasks_keep_what_a_later_report_leaves_out(world: &World) {
        let story = begun(world);
        let first = SubtaskReport {
            title: Some(title("The index page")),
            output: Some(title("index.html")),
            ..subtask("index", SubtaskStatus::InProgress)
        };
        story.run("ada", &UpdateSortie { subtasks: vec![first], ..update(&story) }).unwrap();
        let later = vec![
            subtask("index", SubtaskStatus::Complete),
            subtask("about", SubtaskStatus::Failed),
        ];
        let view = story.run("ada", &UpdateSortie { subtasks: later, ..update(&story) }).unwrap();
        let index = &view.subtasks[0];
        assert_eq!(
            (index.status, index.title.as_deref(), index.output.as_deref()),
            (SubtaskStatus::Complete, Some("The index page"), Some("index.html"))
        );
        assert_eq!(
            (view.progress.completed, view.progress.failed, view.progress.percent),
            (1, 1, 50)
        );
    }

    fn declared_counts_serve_when_subtasks_are_not_listed(world: &World) {
        let story = begun(world);
        let declared = |total, completed| UpdateSortie {
            declared: Some(Declared { total, completed, failed: 0 }),
            ..update(&story)
        };
        assert_eq!(story.run("ada", &declared(29, 19)).unwrap().progress.percent, 65);
        let listed = UpdateSortie { subtasks: files_done(1, 2), ..update(&story) };
        assert_eq!(
            story.run("ada", &listed).unwrap().progress.percent,
            68,
            "what was declared says more, and one more is done"
        );
        assert_eq!(
            story.run("ada", &declared(1, 1)).unwrap().progress.percent,
            50,
            "what was listed says more"
        );
        assert_eq!(story.run("ada", &declared(u64::MAX, u64::MAX)).unwrap().progress.percent, 100);
    }
}
