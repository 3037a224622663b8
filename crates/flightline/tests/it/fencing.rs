//! Fences, on both engines: what an old session, epoch or fence asks for is not done.

use everything::ask_for_everything;
use flightline_testkit::prelude::*;

pub mod everything;

/// Ada is dispatch in session `s-1`, epoch 1, with a sortie and a lock; eve holds `docs`.
fn stage(world: &flightline_testkit::World) -> Story<'_> {
    let story = Story::new(world);
    let register = |agent: &str| RegisterAgent {
        role: Some(flightline::core::agent::Role::Dispatch),
        session: Some(title("s-1")),
        ..registration(agent)
    };
    story.run("", &register("ada")).unwrap();
    story.run("", &registration("idle")).unwrap();
    story.mission("Add login", &["Ada's", "Free", "Next"]);
    story.claim("ada", "Ada's").unwrap();
    story.lock("ada", &["src/a.rs"]).unwrap();
    story.lock("eve", &["docs"]).unwrap();
    story.run("ada", &begin_effect("publish")).unwrap();
    story
}

fn assert_all_fenced(story: &Story<'_>, caller: &Caller) {
    // What the test itself sends is not the fenced caller's doing.
    let sent_by_others = |kind: &str| kind.starts_with("message_");
    let rev = story.rev();
    for (operation, answer) in ask_for_everything(story, caller) {
        let refusal = answer.expect_err(operation);
        assert_eq!(refusal.code, Code::Fenced, "{operation}: {refusal}");
        assert_eq!(
            refusal.hint.unwrap(),
            "nothing was written; start a new session with `fleet agents register ada`",
            "{operation}"
        );
    }
    let written = story.events_after(rev);
    assert!(
        written.iter().all(|event| sent_by_others(&event.kind)),
        "{written:?}"
    );
}

both_engines! {
    fn a_caller_of_the_current_epoch_and_session_may_do_everything(world: &World) {
        let story = stage(world);
        let current = Caller { epoch: Some(1), session: Some("s-1".to_owned()), ..caller("ada") };
        for (operation, answer) in ask_for_everything(&story, &current) {
            answer.expect(operation);
        }
        assert!(story.damaged_values().is_empty());
    }

    fn an_old_epoch_writes_nothing_at_all(world: &World) {
        let story = stage(world);
        story
            .run("", &RegisterAgent { session: Some(title("s-2")), ..registration("ada") })
            .unwrap();
        assert_all_fenced(&story, &Caller { epoch: Some(1), ..caller("ada") });
    }

    fn an_old_session_writes_nothing_at_all(world: &World) {
        let story = stage(world);
        story
            .run("", &RegisterAgent { session: Some(title("s-2")), ..registration("ada") })
            .unwrap();
        assert_all_fenced(&story, &Caller { session: Some("s-1".to_owned()), ..caller("ada") });
    }

    fn an_epoch_to_come_writes_nothing_either(world: &World) {
        let story = stage(world);
        assert_all_fenced(&story, &Caller { epoch: Some(2), ..caller("ada") });
    }

    fn a_fenced_caller_is_told_which_epoch_took_its_place(world: &World) {
        let story = stage(world);
        story.run("", &registration("ada")).unwrap();
        let refusal = story
            .run_as(&Caller { epoch: Some(1), ..caller("ada") }, &Heartbeat::default())
            .unwrap_err();
        assert_eq!(refusal.message, "epoch 1 of ada is over: epoch 2 has taken its place");
        assert_eq!(refusal.details["epoch"], 2);
    }

    fn a_fenced_heartbeat_is_no_sign_of_life(world: &World) {
        let story = stage(world);
        story.run("", &registration("ada")).unwrap();
        let before = world.clock.now();
        story.pass_minutes(5);
        story
            .run_as(&Caller { epoch: Some(1), ..caller("ada") }, &Heartbeat::default())
            .unwrap_err();
        assert_eq!(story.run("", &show_agent("ada")).unwrap().last_sign, Some(before));
    }

    fn an_epoch_of_an_agent_nobody_knows_is_fenced(world: &World) {
        let story = stage(world);
        let ghost = Caller { epoch: Some(3), ..caller("ghost") };
        let refusal = story.run_as(&ghost, &locks_on(&["a"])).unwrap_err();
        assert_eq!(
            (refusal.code, refusal.message.as_str()),
            (Code::Fenced, "epoch 3 of ghost is over: no agent of that name is known here")
        );
    }

    fn a_session_is_compared_as_it_was_stored(world: &World) {
        let story = Story::new(world);
        let token = format!("eyJ{0}.eyJ{0}.{0}", "a1B2c3D4e5");
        for session in [" padded ", "tab\u{1}bed", token.as_str()] {
            let agent = format!("agent-{}", session.len());
            let caller = Caller { session: Some(session.to_owned()), ..caller(&agent) };
            story.run_as(&caller, &locks_on(&[agent.as_str()])).unwrap();
            story.run_as(&caller, &locks_on(&[agent.as_str()])).unwrap();
        }
        let empty = Caller { session: Some(String::new()), ..caller("ada") };
        assert_eq!(story.run_as(&empty, &locks_on(&["a"])).unwrap_err().code, Code::InvalidInput);
    }

    fn work_of_an_earlier_epoch_stays_with_the_agent(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["User model"]);
        story.claim("ada", "User model").unwrap();
        story.run("", &registration("ada")).unwrap();
        let complete = change_sortie(story.sortie_id("User model"), DONE);
        story.run_as(&Caller { epoch: Some(1), ..caller("ada") }, &complete).unwrap_err();
        story.run_as(&Caller { epoch: Some(2), ..caller("ada") }, &complete).unwrap();
    }
}
