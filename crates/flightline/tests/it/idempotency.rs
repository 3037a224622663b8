//! Idempotency keys, on both engines: a write happens once, however often it is asked for.

use flightline::Operation;
use flightline::checkpoint::daily::daily;
use flightline::lease::SettleLeases;
use flightline_testkit::prelude::*;

fn create(story: &Story<'_>, key: &str, title: &str) -> Result<MissionView, Refusal> {
    let create = create_mission(title, vec![sortie("User model")]);
    story.run_as(&keyed("ada", key), &create)
}

fn claim_next(story: &Story<'_>, caller: &Caller) -> Result<String, Refusal> {
    let claimed = story.run_as(caller, &flightline_testkit::story::claim_next())?;
    Ok(claimed.sortie.title.to_string())
}

fn missions(story: &Story<'_>) -> usize {
    let list = ListMissions {
        archived: true,
        limit: 100,
    };
    story.run("", &list).unwrap().len()
}

/// Eve holds `a.rs`; what comes of ada's attempt to take it with a key.
fn contested(world: &World) -> (Story<'_>, Result<Vec<LockView>, Refusal>) {
    let story = Story::new(world);
    story.lock("eve", &["a.rs"]).unwrap();
    let refused = story.run_as(&keyed("ada", "k"), &locks_on(&["a.rs"]));
    (story, refused)
}

both_engines! {
    fn the_same_request_gives_the_first_outcome_and_writes_once(world: &World) {
        let story = Story::new(world);
        let first = create(&story, "k", "Add login").unwrap();
        let rev = story.rev();
        story.pass_minutes(60);
        for _ in 0..3 {
            let again = create(&story, "k", "Add login").unwrap();
            let (first, again) =
                (serde_json::to_value(&first).unwrap(), serde_json::to_value(&again).unwrap());
            assert_eq!(again, first, "to the last byte");
        }
        assert_eq!((story.rev(), missions(&story)), (rev, 1));
        create(&story, "k2", "Add login").unwrap();
        assert_eq!(missions(&story), 2, "another key is another request");
    }

    fn claiming_the_next_sortie_with_a_key_takes_one(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["One", "Two", "Three"]);
        assert_eq!(claim_next(&story, &keyed("ada", "k")).unwrap(), "One");
        assert_eq!(
            claim_next(&story, &keyed("ada", "k")).unwrap(),
            "One",
            "the answer got lost and was asked for again"
        );
        assert_eq!(claim_next(&story, &caller("ada")).unwrap(), "Two");
    }

    fn another_request_under_the_same_key_is_refused(world: &World) {
        let story = Story::new(world);
        create(&story, "k", "Add login").unwrap();
        let other = create(&story, "k", "Add logout").unwrap_err();
        assert_eq!(
            (other.code, other.message.as_str()),
            (Code::KeyReused, "this idempotency key was used for another request")
        );
        let next = claim_next(&story, &keyed("ada", "k")).unwrap_err();
        assert_eq!(next.code, Code::KeyReused, "another operation is another request");
        assert_eq!(missions(&story), 1);
    }

    fn a_key_belongs_to_who_used_it(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["One", "Two", "Three"]);
        assert_eq!(claim_next(&story, &keyed("ada", "k")).unwrap(), "One");
        assert_eq!(claim_next(&story, &keyed("bob", "k")).unwrap(), "Two");
        let person = create_mission("Another", vec![]);
        story.run_as(&keyed("", "k"), &person).unwrap();
        let somebody_else = Caller { user: "somebody else".to_owned(), ..keyed("", "k") };
        story.run_as(&somebody_else, &person).unwrap();
        assert_eq!(missions(&story), 3);
    }

    fn a_refusal_is_not_remembered(world: &World) {
        let (story, refused) = contested(world);
        assert_eq!(refused.unwrap_err().code, Code::LockHeld);
        story.run("eve", &release_all()).unwrap();
        story.run_as(&keyed("ada", "k"), &locks_on(&["a.rs"])).unwrap();
    }

    fn a_refused_key_may_be_used_for_something_else(world: &World) {
        let (story, refused) = contested(world);
        assert_eq!(refused.unwrap_err().code, Code::LockHeld);
        story.run_as(&keyed("ada", "k"), &locks_on(&["b.rs"])).unwrap();
    }

    fn an_answer_that_got_lost_is_found_even_after_a_new_session(world: &World) {
        let story = Story::new(world);
        let first = create(&story, "k", "Add login").unwrap();
        story.run("", &registration("ada")).unwrap();
        let old = Caller { epoch: Some(1), ..keyed("ada", "k") };
        let create = create_mission("Add login", vec![sortie("User model")]);
        assert_eq!(
            story.run_as(&old, &create).unwrap().mission.id,
            first.mission.id,
            "it was done, and that is the answer"
        );
        let new = Caller { epoch: Some(1), ..keyed("ada", "k2") };
        assert_eq!(story.run_as(&new, &create).unwrap_err().code, Code::Fenced);
    }

    fn a_key_has_a_length(world: &World) {
        let story = Story::new(world);
        for wrong in [String::new(), "k".repeat(256)] {
            let refused = create(&story, &wrong, "Add login").unwrap_err();
            assert_eq!(refused.message, "an idempotency key has 1 to 255 bytes");
        }
        create(&story, &"k".repeat(255), "Add login").unwrap();
        create(&story, "\0 any bytes \u{7f} will do", "Add login").unwrap();
    }

    fn keys_are_forgotten_after_thirty_days(world: &World) {
        let story = Story::new(world);
        create(&story, "k", "Add login").unwrap();
        let forgotten = || story.run("", &SettleLeases::default()).unwrap().requests;
        for _ in 0..30 {
            story.pass_minutes(24 * 60);
            story.with_fleet(|fleet| daily(fleet, &caller(""))).unwrap();
        }
        create(&story, "other", "Another").unwrap();
        assert_eq!(forgotten(), 0);
        create(&story, "k", "Add login").unwrap();
        assert_eq!(missions(&story), 2, "thirty days are not over yet");
        // The first of those days is not sure: nobody noted how long the machine had been running when the project was made.
        story.pass_minutes(24 * 60 + 1);
        assert_eq!((forgotten(), forgotten()), (1, 0));
        create(&story, "k", "Add login").unwrap();
        assert_eq!(missions(&story), 3);
    }

    fn a_clock_that_jumped_forgets_no_key(world: &World) {
        const DAY: i64 = 86_400_000;
        let story = Story::new(world);
        create(&story, "k", "Add login").unwrap();
        for jump in [1, -1, 3_650, -3_650, -20_000, 12 * 365] {
            world.clock.advance(jump * DAY);
            create(&story, &format!("by a clock that is wrong by {jump}"), "Another").unwrap();
            story.with_fleet(|fleet| daily(fleet, &caller(""))).unwrap();
            assert_eq!(story.run("", &SettleLeases::default()).unwrap().requests, 0, "{jump}");
            world.clock.advance(-jump * DAY);
            story.pass_minutes(1);
            story.with_fleet(|fleet| daily(fleet, &caller(""))).unwrap();
            let before = missions(&story);
            create(&story, "k", "Add login").unwrap();
            create(&story, &format!("by a clock that is wrong by {jump}"), "Another").unwrap();
            assert_eq!(missions(&story), before, "{jump}");
        }
    }

    fn looking_and_beating_need_no_key(world: &World) {
        let story = Story::new(world);
        create(&story, "k", "Add login").unwrap();
        assert_ne!(<Heartbeat as Operation>::ACCESS, flightline::Access::Write);
        story.run_as(&keyed("ada", "k"), &Heartbeat::default()).unwrap();
        story.run_as(&keyed("ada", "k"), &ListMissions { archived: false, limit: 1 }).unwrap();
    }
}
