//! Messages with a deadline, on both engines: what was not acknowledged in time is a failure, noticed by
//! the next caller, recorded and told once.

use flightline_testkit::prelude::*;

/// Ada and bob are at work; control coordinates.
fn working(world: &World) -> Story<'_> {
    let story = led(world, &["Model", "Endpoint", "Docs", "Tests"]);
    story.register("ada", Role::Specialist);
    story.register("bob", Role::Specialist);
    story.claim("ada", "Model").unwrap();
    story.claim("bob", "Endpoint").unwrap();
    story
}

/// Sends a message whose sender wants to hear back within ten minutes.
fn ask(story: &Story<'_>, from: &str, to: &[&str], about: &str) -> MessageView {
    let send = SendMail {
        acknowledge_within_ms: Some(600_000),
        ..letter(to, about)
    };
    story.run(from, &send).unwrap()
}

fn failures(story: &Story<'_>) -> Vec<Checkpoint> {
    let mut taken = story.checkpoints();
    taken.retain(|one| one.cut.reason == Reason::DeliveryFailed);
    taken
}

fn mail_of(story: &Story<'_>, agent: &str) -> Vec<(String, String)> {
    let mail = story.mailbox(agent).into_iter();
    mail.map(|one| {
        let body = one.message.body.map_or(String::new(), |it| it.to_string());
        (one.message.subject.to_string(), body)
    })
    .collect()
}

both_engines! {
    fn what_was_not_acknowledged_in_time_leaves_an_error_checkpoint_and_its_sender_is_told(world: &World) {
        let story = working(world);
        let sent = ask(&story, "ada", &["bob"], "Which port?");
        story.pass_minutes(10);
        story.detect("", vec![]);
        assert!(failures(&story).is_empty(), "not a moment earlier");
        story.pass_minutes(1);
        story.detect("", vec![]);
        let taken = failures(&story).pop().unwrap();
        let said = format!("bob did not acknowledge \"Which port?\" of ada by 2026-01-04T12:10:00Z ({})", &sent.message.id.to_string()[..12]);
        assert_eq!((taken.cut.trigger, taken.cut.created_by.as_str()), (Trigger::Error, "flightline"));
        assert_eq!((taken.cut.trigger_details, taken.cut.recovery_context.blockers), (Some(said.clone()), vec![said]));
        assert_eq!(mail_of(&story, "ada"), [(
            "Not acknowledged in time: Which port?".to_owned(),
            "bob had until 2026-01-04T12:10:00Z. It stays in the mailbox. List the agents with: fleet agents list".to_owned(),
        )]);
        let way = story.run("", &peek_inbox("bob", 9)).unwrap().remove(0).deliveries.remove(0);
        assert_eq!((way.state.as_str(), way.overdue_at), ("pending", Some(world.clock.now())));
    }

    fn it_is_noticed_by_the_next_caller_and_once(world: &World) {
        let story = working(world);
        story.checkpoint();
        let letter = ask(&story, "control", &["bob"], "An earlier one").message.id.to_string();
        story.acknowledge("bob", &story.run("", &peek_inbox("bob", 9)).unwrap()[0]).unwrap();
        let answer = ReplyMail { message: letter.clone(), body: Body::parse("body", "Yes").unwrap() };
        let comers: [&dyn Fn(); 7] = [
            &|| drop(story.detect("", vec![])),
            &|| drop(story.resume("", vec![]).unwrap()),
            &|| drop(story.checkpoint()),
            &|| drop(story.run("control", &open_inbox(99)).unwrap()),
            &|| drop(story.run("control", &ReadMail { message: letter.clone() }).unwrap()),
            &|| drop(story.run("control", &answer).unwrap()),
            &|| drop(story.send("control", &["ada"], "Something else").unwrap()),
        ];
        for (number, comes) in comers.iter().enumerate() {
            ask(&story, "ada", &["bob"], &format!("Number {number}"));
            story.pass_minutes(11);
            comes();
            assert_eq!(failures(&story).len(), number + 1, "comer {number}");
        }
        for comes in comers {
            comes();
        }
        assert_eq!((failures(&story).len(), story.events_of("message_overdue").len()), (7, 7), "and never again");
        assert_eq!(mail_of(&story, "ada").iter().filter(|(subject, _)| subject.starts_with("Not acknowledged")).count(), 7);
    }

    fn a_clock_that_jumps_makes_nothing_late(world: &World) {
        const DAY: i64 = 86_400_000;
        let story = working(world);
        ask(&story, "ada", &["bob"], "Which port?");
        for jump in [3_650, 12 * 365, -20_000, -1] {
            world.clock.advance(jump * DAY);
            story.detect("", vec![]);
            story.checkpoint();
            assert!(failures(&story).is_empty(), "{jump}");
            world.clock.advance(-jump * DAY);
            story.detect("", vec![]);
            assert!(failures(&story).is_empty(), "{jump}");
        }
        // A rest of a week is none: bob has a moment to answer, and is late then.
        story.pass_minutes(7 * 24 * 60);
        story.detect("", vec![]);
        assert!(failures(&story).is_empty());
        story.pass_minutes(9);
        story.detect("", vec![]);
        story.pass_minutes(1);
        story.detect("", vec![]);
        assert_eq!(failures(&story).len(), 1);
    }

    fn what_was_acknowledged_in_time_is_no_failure(world: &World) {
        let story = working(world);
        let (asked, answered) = (ask(&story, "ada", &["bob"], "One"), ask(&story, "ada", &["bob"], "Two"));
        story.pass_minutes(10);
        story.acknowledge("bob", &asked).unwrap();
        story.run("bob", &ReplyMail { message: answered.message.id.to_string(), body: Body::parse("body", "Yes").unwrap() }).unwrap();
        story.pass_minutes(60);
        story.detect("", vec![]);
        assert!(failures(&story).is_empty() && story.events_of("message_overdue").is_empty());
    }

    fn what_was_acknowledged_too_late_is_a_failure(world: &World) {
        let story = working(world);
        let asked = ask(&story, "ada", &["bob"], "One");
        story.pass_minutes(11);
        story.acknowledge("bob", &asked).unwrap();
        assert_eq!(failures(&story).len(), 1, "nobody came between, and it was late all the same");
        let way: Vec<Delivery> = story.all();
        let way = way.iter().find(|one| one.message_id == asked.message.id).unwrap();
        assert_eq!((way.state.as_str(), way.overdue_at), ("acknowledged", Some(world.clock.now())));
    }

    fn several_recipients_are_one_failure_that_names_who_was_late(world: &World) {
        let story = working(world);
        story.register("eve", Role::Specialist);
        let asked = ask(&story, "ada", &["bob", "control", "eve"], "All of you");
        story.acknowledge("control", &asked).unwrap();
        story.run("eve", &open_inbox(99)).unwrap();
        story.pass_minutes(11);
        story.detect("", vec![]);
        let details = failures(&story).pop().unwrap().cut.trigger_details.unwrap();
        assert!(details.starts_with("bob, eve did not acknowledge"), "{details}: to have read it is not enough");
        assert_eq!(failures(&story).len(), 1);
    }

    fn nothing_is_written_while_nothing_is_due(world: &World) {
        let story = working(world);
        ask(&story, "ada", &["bob"], "Later");
        story.pass_minutes(4);
        let rev = story.rev();
        story.detect("", vec![]);
        assert_eq!(story.rev(), rev);
        story.pass_minutes(7);
        story.detect("", vec![]);
        let rev = story.rev();
        story.detect("", vec![]);
        assert_eq!(story.rev(), rev, "nor when it was said");
    }

    fn a_later_deadline_is_kept_while_an_earlier_one_passes(world: &World) {
        let story = working(world);
        ask(&story, "ada", &["bob"], "First");
        story.pass_minutes(5);
        ask(&story, "ada", &["bob"], "Second");
        story.pass_minutes(6);
        story.detect("", vec![]);
        assert_eq!(failures(&story).len(), 1);
        story.pass_minutes(5);
        story.detect("", vec![]);
        assert_eq!(failures(&story).len(), 2);
        ask(&story, "ada", &["bob"], "Third");
        story.pass_minutes(11);
        story.detect("", vec![]);
        assert_eq!(failures(&story).len(), 3);
    }

    fn many_at_once_are_told_by_as_many_commands_as_it_takes(world: &World) {
        let story = Story::unrehearsed(world);
        story.mission("Add login", &["Model"]);
        for number in 0..25 {
            ask(&story, "ada", &["ada"], &format!("Number {number}"));
        }
        story.pass_minutes(11);
        story.detect("", vec![]);
        assert_eq!(failures(&story).len(), 20);
        story.detect("", vec![]);
        assert_eq!(failures(&story).len(), 25);
    }

    fn noticing_is_no_activity(world: &World) {
        let story = working(world);
        story.checkpoint();
        let act = world.clock.now();
        ask(&story, "ada", &["bob"], "Which port?");
        story.pass_minutes(11);
        let found = story.detect("", vec![]);
        assert_eq!((found.len(), found[0].last_activity_at), (1, act));
        assert_eq!(failures(&story).len(), 1);
        let found = story.detect("", vec![]);
        assert_eq!((found.len(), found[0].last_activity_at), (1, act));
        assert_eq!(story.events_of("context_compacted").len(), 1);
        let again = story.checkpoint().id;
        assert_eq!(story.checkpoint().id, again, "nor a change");
    }

    fn without_a_mission_the_sender_is_told_and_that_is_all(world: &World) {
        let story = Story::new(world);
        story.register("ada", Role::Specialist);
        story.register("bob", Role::Specialist);
        ask(&story, "ada", &["bob"], "Which port?");
        story.pass_minutes(11);
        story.run("bob", &open_inbox(99)).unwrap();
        assert_eq!((story.checkpoints().len(), mail_of(&story, "ada").len()), (0, 1));
    }

    fn a_mission_that_is_over_gets_no_checkpoint_any_more(world: &World) {
        let story = working(world);
        ask(&story, "ada", &["bob"], "Which port?");
        story.run("", &change_mission(MissionStatus::Failed)).unwrap();
        story.pass_minutes(11);
        story.detect("", vec![]);
        assert_eq!((failures(&story).len(), mail_of(&story, "ada").len()), (0, 1));
    }

    fn a_person_has_no_mailbox_and_the_checkpoint_says_it(world: &World) {
        let story = working(world);
        ask(&story, "", &["bob"], "Are you there?");
        let before = story.all::<Message>().len();
        story.pass_minutes(11);
        story.run("bob", &open_inbox(99)).unwrap();
        assert!(failures(&story)[0].cut.trigger_details.as_ref().unwrap().contains("of user:tester by"));
        assert_eq!(story.all::<Message>().len(), before);
    }

    fn a_deadline_goes_with_the_mail_to_a_new_dispatch(world: &World) {
        let story = led(world, &["Model", "Docs"]);
        story.finish("ada", &["Model"]);
        let asked = ask(&story, "ada", &["control"], "May I?");
        story.board("tower", Role::Dispatch, 4);
        story.resume("tower", story.seen(false, &["control"])).unwrap();
        assert_eq!(story.all::<Mission>()[0].dispatch, Some(story.agent("tower").id));
        story.acknowledge("tower", &asked).unwrap();
        story.pass_minutes(11);
        story.detect("", vec![]);
        assert!(failures(&story).is_empty(), "nobody waits for the one that is gone");
        let asked = ask(&story, "ada", &["tower"], "And now?");
        story.pass_minutes(11);
        story.detect("", vec![]);
        assert_eq!((failures(&story).len(), asked.deliveries.len()), (1, 1));
    }

    fn damaged_mail_stops_nobody(world: &World) {
        let story = working(world);
        let broken = ask(&story, "ada", &["bob"], "Broken");
        ask(&story, "ada", &["bob"], "Sound");
        damage::everywhere(world, Kind::Message, &broken.message.id.to_string(), 0);
        story.pass_minutes(11);
        assert_eq!(story.detect("", vec![]).len(), 1);
        assert_eq!(failures(&story).len(), 1);
        assert_eq!(story.events_of("message_overdue").len(), 2);
    }
}
