//! The mail of a dispatch that died, on both engines: its successor gets what it never
//! acknowledged, and nothing else.

use flightline_testkit::prelude::*;

/// A mission that boss coordinates, with one report that boss has acknowledged, one it has only read, and
/// one it has not seen. Then its process is gone.
fn orphaned(world: &World) -> (Story<'_>, Vec<MessageView>) {
    let story = Story::new(world);
    story.board("boss", Role::Dispatch, 7);
    story.board("next", Role::Dispatch, 8);
    story.board("ada", Role::Specialist, 9);
    let mission = CreateMission {
        dispatch: Some("boss".to_owned()),
        ..create_mission("Add login", vec![sortie("Model")])
    };
    story.run("", &mission).unwrap();
    story.claim("ada", "Model").unwrap();
    story.checkpoint();
    let mut sent = vec![story.send("ada", &["dispatch"], "understood").unwrap()];
    acknowledge(&story, "boss", &sent[0]).unwrap();
    sent.push(story.send("ada", &["dispatch"], "read").unwrap());
    assert_eq!(story.read_mail("boss"), ["read"]);
    sent.push(story.send("ada", &["dispatch"], "unseen").unwrap());
    (story, sent)
}

fn acknowledge(story: &Story<'_>, agent: &str, mail: &MessageView) -> Result<(), Code> {
    let done = story.acknowledge(agent, mail);
    done.map(drop).map_err(|refusal| refusal.code)
}

both_engines! {
    fn the_successor_gets_what_was_never_acknowledged(world: &World) {
        let (story, sent) = orphaned(world);
        assert_eq!(acknowledge(&story, "next", &sent[1]), Err(Code::NotYours), "not before");
        story.resume("next", story.seen(false, &["boss"])).unwrap();
        assert_eq!(story.read_mail("next"), ["read", "unseen"]);
        for mail in &sent[1..] {
            acknowledge(&story, "next", mail).unwrap();
        }
        assert!(story.read_mail("next").is_empty());
        assert_eq!(acknowledge(&story, "next", &sent[0]), Err(Code::NotYours), "boss dealt with it");
        assert_eq!(world.problems(), Vec::<String>::new());
    }

    fn what_was_handed_over_stays_with_the_dead_too_and_is_handed_over_once(world: &World) {
        let (story, _) = orphaned(world);
        story.resume("next", story.seen(false, &["boss"])).unwrap();
        story.resume("next", story.seen(false, &["boss"])).unwrap();
        assert_eq!(story.events_of("message_forwarded").len(), 2);
        story.board("boss", Role::Dispatch, 10);
        assert_eq!(story.read_mail("boss"), ["read", "unseen"]);
    }

    fn a_dispatch_that_lives_keeps_its_mail(world: &World) {
        let (story, _) = orphaned(world);
        story.resume("next", story.seen(true, &["boss"])).unwrap();
        assert!(story.read_mail("next").is_empty());
        assert!(story.events_of("message_forwarded").is_empty());
    }
}
