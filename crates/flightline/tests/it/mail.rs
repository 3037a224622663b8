//! Mail, on both engines: it reaches every recipient, in order, until it is acknowledged.

use expect_test::expect;
use flightline::mail::ShowThread;
use flightline_testkit::prelude::*;

/// Ada, bob and eve are registered.
fn stage(world: &World) -> Story<'_> {
    Story::with_agents(world, &["ada", "bob", "eve"])
}

fn reply(story: &Story<'_>, agent: &str, to: &MessageView) -> Result<MessageView, Refusal> {
    let reply = ReplyMail {
        message: to.message.id.to_string(),
        body: Body::parse("body", "Yes").unwrap(),
    };
    story.run(agent, &reply)
}

fn subjects(messages: &[MessageView]) -> Vec<String> {
    messages
        .iter()
        .map(|view| view.message.subject.to_string())
        .collect()
}

fn requeue(story: &Story<'_>, message: &MessageView) {
    let requeue = RequeueMail {
        message: message.message.id.to_string(),
    };
    story.run("", &requeue).unwrap();
}

both_engines! {
    fn a_message_goes_its_own_way_to_each_recipient(world: &World) {
        let story = stage(world);
        let sent = story.send("ada", &["bob", "eve", "bob"], "Need src/auth.rs").unwrap();
        assert_eq!((sent.message.from.as_str(), sent.message.kind), ("ada", MessageKind::Note));
        assert_eq!((sent.message.to.len(), sent.deliveries.len()), (2, 2), "nobody gets it twice");
        assert_eq!(story.read_mail("bob"), ["Need src/auth.rs"]);
        story.acknowledge("eve", &sent).unwrap();
        expect![[r#"
            mail ada "Need src/auth.rs"
              to bob delivered
              to eve acknowledged
        "#]]
        .assert_eq(&story.as_text());
        assert!(story.damaged_values().is_empty());
    }

    fn a_message_needs_recipients_that_read_mail(world: &World) {
        let story = stage(world);
        assert_eq!(
            story.send("ada", &[], "Hello?").unwrap_err().message,
            "a message needs a recipient"
        );
        let unknown = story.send("ada", &["bob", "zoe"], "Hello?").unwrap_err();
        assert_eq!(
            (unknown.code, unknown.hint.unwrap().as_str()),
            (Code::NotFound, "known agents: ada, bob, eve")
        );
        story.run("", &retire("eve")).unwrap();
        let retired = story.send("ada", &["bob", "eve"], "Hello?").unwrap_err();
        assert_eq!(
            (retired.code, retired.message.as_str()),
            (Code::IllegalTransition, "eve was retired and reads no mail")
        );
        assert!(!story.as_text().contains("mail"), "nothing was sent to anybody");
    }

    fn opening_the_inbox_delivers_and_does_not_acknowledge(world: &World) {
        let story = stage(world);
        story.send("ada", &["bob"], "One").unwrap();
        story.pass_minutes(1);
        let open = open_inbox(100);
        let first = story.run("bob", &open).unwrap();
        assert_eq!(
            first[0].deliveries[0].state,
            DeliveryState::Delivered { at: world.clock.now() }
        );
        assert_eq!(story.agent("bob").coordination.last_inbox_check, Some(world.clock.now()));
        let delivered_at = world.clock.now();
        story.pass_minutes(1);
        let again = story.run("bob", &open).unwrap();
        assert_eq!(
            again[0].deliveries[0].state,
            DeliveryState::Delivered { at: delivered_at },
            "delivered until acknowledged"
        );
        assert_eq!(
            story.run("", &open).unwrap_err().code,
            Code::InvalidInput,
            "a person has no inbox"
        );
    }

    fn peeking_delivers_nothing(world: &World) {
        let story = stage(world);
        story.send("ada", &["bob"], "One").unwrap();
        let rev = story.rev();
        let peeked = story.run("", &peek_inbox("bob", 9)).unwrap();
        assert_eq!((peeked[0].deliveries[0].state, story.rev()), (DeliveryState::Pending, rev));
    }

    fn reading_delivers_to_a_recipient_only(world: &World) {
        let story = stage(world);
        let sent = story.send("ada", &["bob"], "One").unwrap();
        let read = ReadMail { message: sent.message.id.to_string() };
        assert_eq!(story.run("eve", &read).unwrap().deliveries[0].state, DeliveryState::Pending);
        assert_eq!(
            story.run("bob", &read).unwrap().deliveries[0].state,
            DeliveryState::Delivered { at: world.clock.now() }
        );
        let short = ReadMail { message: sent.message.id.to_string()[..12].to_owned() };
        assert_eq!(story.run("bob", &short).unwrap().message.id, sent.message.id);
        assert_eq!(
            story.run("bob", &ReadMail { message: "msg-ffff".to_owned() }).unwrap_err().code,
            Code::NotFound
        );
    }

    fn acknowledging_twice_is_harmless(world: &World) {
        let story = stage(world);
        let sent = story.send("ada", &["bob"], "One").unwrap();
        story.acknowledge("bob", &sent).unwrap();
        let (rev, then) = (story.rev(), world.clock.now());
        story.pass_minutes(1);
        let twice = story.acknowledge("bob", &sent).unwrap();
        assert_eq!(twice[0].deliveries[0].state, DeliveryState::Acknowledged { at: then });
        assert_eq!(story.rev(), rev);
        assert!(story.read_mail("bob").is_empty());
        let all = OpenInbox { all: true, limit: 9 };
        let kept = story.run("bob", &all).unwrap();
        assert_eq!(
            kept[0].deliveries[0].state,
            DeliveryState::Acknowledged { at: then },
            "looking again revives nothing"
        );
    }

    fn only_a_recipient_acknowledges(world: &World) {
        let story = stage(world);
        let sent = story.send("ada", &["bob"], "One").unwrap();
        let refused = story.acknowledge("eve", &sent).unwrap_err();
        assert_eq!(refused.code, Code::NotYours);
        assert!(refused.message.ends_with("was not sent to eve"), "{}", refused.message);
        let nothing = AcknowledgeMail { messages: vec![], all: false };
        assert_eq!(story.run("bob", &nothing).unwrap_err().code, Code::InvalidInput);
    }

    fn everything_is_acknowledged_at_once(world: &World) {
        let story = stage(world);
        for subject in ["One", "Two"] {
            story.send("ada", &["bob", "eve"], subject).unwrap();
        }
        assert_eq!(subjects(&story.run("bob", &acknowledge_all()).unwrap()), ["One", "Two"]);
        assert!(story.read_mail("bob").is_empty());
        assert_eq!(story.read_mail("eve").len(), 2, "eve's are hers");
    }

    fn a_reply_goes_to_everybody_but_the_answerer_and_acknowledges(world: &World) {
        let story = stage(world);
        let question = story.send("ada", &["bob", "eve"], "Need src/auth.rs").unwrap();
        let answer = reply(&story, "bob", &question).unwrap();
        assert_eq!(
            (answer.message.thread_id, answer.message.in_reply_to),
            (question.message.id, Some(question.message.id))
        );
        let again = reply(&story, "ada", &answer).unwrap();
        assert_eq!(
            (again.message.thread_id, again.message.subject),
            (question.message.id, title("Re: Need src/auth.rs"))
        );
        expect![[r#"
            mail ada "Need src/auth.rs"
              to bob acknowledged
              to eve pending
            mail bob "Re: Need src/auth.rs"
              to ada acknowledged
              to eve pending
            mail ada "Re: Need src/auth.rs"
              to bob pending
              to eve pending
        "#]]
        .assert_eq(&story.as_text());
        let thread = story.run("", &ShowThread { message: again.message.id.to_string() }).unwrap();
        assert_eq!(
            subjects(&thread),
            ["Need src/auth.rs", "Re: Need src/auth.rs", "Re: Need src/auth.rs"]
        );
    }

    fn a_persons_message_can_only_be_answered_to_other_agents(world: &World) {
        let story = stage(world);
        let alone = story.send("", &["bob"], "Hurry").unwrap();
        assert_eq!(alone.message.from, "user:tester");
        let refused = reply(&story, "bob", &alone).unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (Code::NotFound, "there is no agent to answer: a person wrote that message")
        );
        let both = story.send("", &["bob", "eve"], "Hurry").unwrap();
        let answer = reply(&story, "bob", &both).unwrap();
        assert_eq!(
            answer.deliveries.iter().map(|way| way.to.as_str()).collect::<Vec<_>>(),
            ["eve"]
        );
    }

    fn a_requeued_message_is_delivered_again_but_never_unacknowledged(world: &World) {
        let story = stage(world);
        let sent = story.send("ada", &["bob", "eve"], "One").unwrap();
        story.read_mail("bob");
        story.acknowledge("eve", &sent).unwrap();
        requeue(&story, &sent);
        expect![[r#"
            mail ada "One"
              to bob pending
              to eve acknowledged
        "#]]
        .assert_eq(&story.as_text());
        let rev = story.rev();
        requeue(&story, &sent);
        assert_eq!(story.rev(), rev, "requeueing twice is harmless");
        story.acknowledge("bob", &sent).unwrap();
        requeue(&story, &sent);
        assert!(story.read_mail("bob").is_empty());
    }

    fn mail_keeps_the_order_in_which_each_sender_sent_it(world: &World) {
        let story = stage(world);
        let mut sent = Vec::new();
        for at in 0..12 {
            let (from, subject) = (["ada", "eve"][at % 2], format!("Message {at}"));
            world.clock.advance(-1_000);
            sent.push(story.send(from, &["bob"], &subject).unwrap());
        }
        requeue(&story, &sent[0]);
        let expected: Vec<String> = (0..12).map(|at| format!("Message {at}")).collect();
        assert_eq!(story.read_mail("bob"), expected, "by revision, never by the clock");
        let some = open_inbox(3);
        assert_eq!(subjects(&story.run("bob", &some).unwrap()), expected[..3], "the oldest first");
    }

    fn mail_belongs_to_the_agent_and_not_to_its_epoch(world: &World) {
        let story = stage(world);
        let sent = story.send("ada", &["bob"], "One").unwrap();
        story.register("bob", Role::Specialist);
        let unread = |agent: &str| story.run("", &show_agent(agent)).unwrap().unread;
        assert_eq!(unread("bob"), 1);
        assert_eq!(story.read_mail("bob"), ["One"]);
        story.register("bob", Role::Specialist);
        assert_eq!(unread("bob"), 1, "delivered is not acknowledged");
        story.acknowledge("bob", &sent).unwrap();
        assert_eq!(unread("bob"), 0);
    }

    fn a_message_to_dispatch_reaches_the_missions_dispatch(world: &World) {
        let story = stage(world);
        story.register("lead", Role::Dispatch);
        assert_eq!(
            story.send("ada", &["dispatch"], "Help").unwrap_err().code,
            Code::NotFound,
            "without a mission it is only a name"
        );
        story.mission("Add login", &[]);
        let sent = story.send("ada", &["dispatch"], "Help").unwrap();
        assert_eq!(sent.deliveries[0].to, "lead");
        assert!(sent.message.mission_id.is_some());
    }

    fn mail_is_about_the_mission_its_sender_works_on(world: &World) {
        let story = stage(world);
        let first = story.mission("First", &[]).mission.id;
        let second = story.mission("Second", &[]).mission.id;
        let send = |mission: Option<&str>| SendMail {
            mission: mission.map(str::to_owned),
            ..letter(&["bob"], "Hi")
        };
        let works_on_first = Caller { mission: Some(first.to_string()), ..caller("ada") };
        assert_eq!(
            story.run("ada", &send(None)).unwrap().message.mission_id,
            Some(second),
            "the current one"
        );
        assert_eq!(
            story.run_as(&works_on_first, &send(None)).unwrap().message.mission_id,
            Some(first)
        );
        let named = send(Some(&second.to_string()));
        assert_eq!(story.run_as(&works_on_first, &named).unwrap().message.mission_id, Some(second));
    }

    fn a_deadline_is_kept_however_far(world: &World) {
        let story = stage(world);
        let send = |within| SendMail { acknowledge_within_ms: Some(within), ..letter(&["bob"], "Soon") };
        let soon = story.run("ada", &send(60_000)).unwrap().message;
        assert_eq!(soon.acknowledge_by, Some(world.clock.now().plus(60_000)));
        story.run("ada", &send(u64::MAX)).unwrap();
        assert_eq!(story.read_mail("bob").len(), 2, "the end of time can be read back");
        assert!(story.damaged_values().is_empty());
    }
}
