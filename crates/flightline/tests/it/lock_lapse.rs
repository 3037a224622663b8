//! When a lock lapses, on both engines: after its holder's silence, never during ours.

use std::time::Duration;

use expect_test::expect;
use flightline::lock::acquire;
use flightline_testkit::prelude::*;

/// Time passes while another agent gives signs of life, so that our own downtime is no explanation.
fn pass_watched(story: &Story<'_>, minutes: u64) {
    for _ in 0..minutes / 5 {
        story.pass_minutes(5);
        story.beat("watch").unwrap();
    }
    story.pass_minutes(minutes % 5);
}

/// Ada, in process 7, holds `a.rs`; bob and a watch are there.
fn stage(world: &World) -> Story<'_> {
    let story = Story::new(world);
    let register = RegisterAgent {
        process: Some(process(7)),
        ..registration("ada")
    };
    story.run("", &register).unwrap();
    for agent in ["bob", "watch"] {
        story.run("", &registration(agent)).unwrap();
    }
    story.lock("ada", &["a.rs"]).unwrap();
    story
}

fn seen(story: &Story<'_>, alive: bool) -> Result<Vec<LockView>, Refusal> {
    let sightings = vec![Sighting::new(story.agent("ada").id, process(7), alive)];
    let request = AcquireLocks {
        sightings,
        ..locks_on(&["a.rs"])
    };
    story.run("bob", &request)
}

both_engines! {
    fn a_lock_lapses_after_its_holders_silence_and_not_a_moment_earlier(world: &World) {
        let story = stage(world);
        pass_watched(&story, 30);
        let refused = story.lock("bob", &["a.rs"]).unwrap_err();
        assert_eq!(
            (refused.code, refused.message.as_str()),
            (Code::LockHeld, "`a.rs` is locked by ada (last sign 30m ago)")
        );
        world.pass(Duration::from_millis(1));
        let rev = story.rev();
        story.lock("bob", &["a.rs"]).unwrap();
        expect!["lock a.rs bob\n"].assert_eq(&story.as_text());
        let events = story.events_after(rev);
        let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
        assert_eq!(kinds, ["lock_reclaimed", "lock_acquired"]);
        assert_eq!(events[0].data["reason"], "ada gave no sign of life for 30m");
        assert_eq!(events[0].step, events[1].step, "in one step");
    }

    fn a_reclaimed_lock_is_lost_to_its_old_holder(world: &World) {
        let story = stage(world);
        pass_watched(&story, 31);
        let new = story.lock("bob", &["a.rs"]).unwrap()[0].lock.fence;
        let renew = RenewLocks { locks: vec!["a.rs".to_owned()], fence: None, ttl_ms: None };
        assert_eq!(story.run("ada", &renew).unwrap_err().message, "the lock on `a.rs` is bob's");
        let refused = story.lock("ada", &["a.rs"]).unwrap_err();
        assert_eq!((refused.code, refused.details["fence"].as_u64()), (Code::LockHeld, Some(new)));
    }

    fn a_heartbeat_keeps_a_lock(world: &World) {
        let story = stage(world);
        pass_watched(&story, 29);
        story.beat("ada").unwrap();
        pass_watched(&story, 29);
        assert_eq!(story.lock("bob", &["a.rs"]).unwrap_err().code, Code::LockHeld);
        pass_watched(&story, 2);
        story.lock("bob", &["a.rs"]).unwrap();
    }

    fn any_write_of_its_holder_keeps_a_lock(world: &World) {
        let story = stage(world);
        pass_watched(&story, 29);
        story.send("ada", &["bob"], "still here").unwrap();
        pass_watched(&story, 29);
        assert_eq!(story.lock("bob", &["a.rs"]).unwrap_err().code, Code::LockHeld);
    }

    fn a_new_session_of_its_holder_keeps_a_lock(world: &World) {
        let story = stage(world);
        pass_watched(&story, 29);
        story.run("", &registration("ada")).unwrap();
        pass_watched(&story, 29);
        assert_eq!(story.lock("bob", &["a.rs"]).unwrap_err().code, Code::LockHeld);
    }

    fn writes_of_others_show_that_we_are_awake(world: &World) {
        let story = stage(world);
        for _ in 0..6 {
            story.pass_minutes(5);
            story.send("bob", &["watch"], "time passes").unwrap();
        }
        assert_eq!(story.lock("bob", &["a.rs"]).unwrap_err().code, Code::LockHeld);
        story.pass_minutes(1);
        story.lock("bob", &["a.rs"]).unwrap();
    }

    fn a_lock_has_the_time_to_live_it_was_taken_with(world: &World) {
        let story = stage(world);
        let short = AcquireLocks { ttl_ms: Some(60_000), ..locks_on(&["short.rs"]) };
        let long = AcquireLocks { ttl_ms: Some(3 * 3_600_000), ..locks_on(&["long.rs"]) };
        story.run("ada", &short).unwrap();
        story.run("ada", &long).unwrap();
        pass_watched(&story, 2);
        story.lock("bob", &["short.rs"]).unwrap();
        pass_watched(&story, 100);
        assert_eq!(story.lock("bob", &["long.rs"]).unwrap_err().code, Code::LockHeld);
        let listed = story.run("", &ListLocks { agent: Some("ada".to_owned()) }).unwrap();
        let left: Vec<u64> = listed.iter().map(|view| view.remaining_ms / 60_000).collect();
        assert_eq!(left, [0, 78]);
    }

    fn our_own_downtime_is_not_held_against_a_holder(world: &World) {
        let story = stage(world);
        story.pass_minutes(600);
        assert_eq!(
            story.lock("bob", &["a.rs"]).unwrap_err().code,
            Code::LockHeld,
            "nobody could have noticed her"
        );
        pass_watched(&story, 30);
        assert_eq!(
            story.lock("bob", &["a.rs"]).unwrap_err().code,
            Code::LockHeld,
            "the grace is a full one"
        );
        pass_watched(&story, 1);
        story.lock("bob", &["a.rs"]).unwrap();
    }

    fn an_agent_that_only_waits_gets_the_lock_in_the_end(world: &World) {
        let story = stage(world);
        let tries = (1..100).find(|_| {
            story.pass_minutes(1);
            story.lock("bob", &["a.rs"]).is_ok()
        });
        assert_eq!(tries, Some(31), "asking for it is not our downtime");
    }

    fn a_refused_act_keeps_the_locks_of_its_agent(world: &World) {
        let story = stage(world);
        pass_watched(&story, 29);
        story.send("ada", &["nobody"], "anybody there?").unwrap_err();
        pass_watched(&story, 29);
        assert_eq!(story.lock("bob", &["a.rs"]).unwrap_err().code, Code::LockHeld);
    }

    fn a_short_pause_is_no_downtime(world: &World) {
        let story = stage(world);
        for _ in 0..3 {
            story.pass_minutes(10);
            story.beat("watch").unwrap();
        }
        story.pass_minutes(1);
        story.lock("bob", &["a.rs"]).unwrap();
    }

    fn a_clock_that_jumps_back_gives_a_full_grace(world: &World) {
        let story = stage(world);
        world.clock.advance(-86_400_000);
        assert_eq!(story.lock("bob", &["a.rs"]).unwrap_err().code, Code::LockHeld);
        world.clock.advance(86_400_000);
        assert_eq!(story.lock("bob", &["a.rs"]).unwrap_err().code, Code::LockHeld);
        assert!(story.damaged_values().is_empty());
    }

    fn the_lock_of_a_process_that_is_gone_is_free_at_once(world: &World) {
        let story = stage(world);
        let rev = story.rev();
        let taken = seen(&story, false).unwrap();
        assert_eq!(taken[0].holder, "bob");
        assert_eq!(story.events_after(rev)[0].data["reason"], "process 7 of ada is gone");
    }

    fn a_running_process_keeps_its_lock_for_the_time_to_live(world: &World) {
        let story = stage(world);
        pass_watched(&story, 29);
        assert_eq!(seen(&story, true).unwrap_err().code, Code::LockHeld);
        // The process may be frozen: that it exists proves no more than a sign of life would.
        pass_watched(&story, 2);
        seen(&story, true).unwrap();
    }

    fn the_end_of_another_process_proves_nothing(world: &World) {
        let story = stage(world);
        let stranger = Sighting::new(story.agent("ada").id, process(8), false);
        let request = AcquireLocks { sightings: vec![stranger], ..locks_on(&["a.rs"]) };
        assert_eq!(story.run("bob", &request).unwrap_err().code, Code::LockHeld);
        story.run("", &RegisterAgent { process: Some(process(9)), ..registration("ada") }).unwrap();
        assert_eq!(
            seen(&story, false).unwrap_err().code,
            Code::LockHeld,
            "process 7 is not hers any more"
        );
    }

    fn the_lapsed_and_the_held_are_taken_together_or_not_at_all(world: &World) {
        let story = stage(world);
        pass_watched(&story, 31);
        story.lock("watch", &["b.rs"]).unwrap();
        assert_eq!(story.lock("bob", &["."]).unwrap_err().code, Code::LockHeld);
        expect![[r"
            lock a.rs ada
            lock b.rs watch
        "]]
        .assert_eq(&story.as_text());
    }

    fn waiting_tries_again_until_the_lock_is_free(world: &World) {
        let story = stage(world);
        let mut pauses = 0;
        let granted = story.with_fleet(|fleet| {
            let mut pause = |_: Duration| {
                pauses += 1;
                // Half an hour of the world's time passes, with a sign of life of the watch now and then.
                for _ in 0..6 {
                    world.pass(Duration::from_secs(301));
                    world.run("watch", &Heartbeat::default()).unwrap();
                }
            };
            acquire(
                fleet,
                &locks_on(&["a.rs"]),
                &caller("bob"),
                Duration::from_secs(600),
                &mut pause,
            )
        });
        assert_eq!((granted.unwrap()[0].holder.as_str(), pauses), ("bob", 1));
    }

    fn without_waiting_there_is_no_pause(world: &World) {
        let story = stage(world);
        let refused = story.with_fleet(|fleet| {
            acquire(fleet, &locks_on(&["a.rs"]), &caller("bob"), Duration::ZERO, &mut |_| {
                unreachable!("nobody asked to wait")
            })
        });
        assert_eq!(refused.unwrap_err().into_refusal().code, Code::LockHeld);
    }
}

both_engines! {
    fn a_clock_that_was_ahead_and_is_put_right_does_not_keep_locks_for_ever(world: &World) {
        world.pass(Duration::from_hours(24 * 3650));
        world.run("ada", &locks_on(&["src/a"])).unwrap();
        // The clock is put right: ten years back. Ada is not heard of again, bea is.
        world.clock.advance(-24 * 3650 * 3_600_000);
        world.run("bea", &locks_on(&["src/b"])).unwrap();
        assert!(world.run("bea", &locks_on(&["src/a"])).is_err(), "a full grace first");
        for _ in 0..8 {
            world.pass(Duration::from_mins(5));
            world.run("bea", &locks_on(&["src/b"])).unwrap();
        }
        world.run("bea", &locks_on(&["src/a"])).unwrap();
        // Who goes on giving signs of life keeps what it has.
        assert!(world.run("ada", &locks_on(&["src/b"])).is_err());
    }
}

/// Asks for `a.rs` every so many minutes, and says after how many minutes it was had.
fn had_after(story: &Story<'_>, who: &str, every: u64) -> Option<u64> {
    let tries = 1..200;
    let granted = tries.into_iter().find(|_| {
        story.pass_minutes(every);
        match story.lock(who, &["a.rs"]) {
            Ok(_) => true,
            Err(refusal) => {
                assert_eq!(refusal.code, Code::LockHeld);
                false
            }
        }
    });
    granted.map(|tries| tries * every)
}

both_engines! {
    fn an_unregistered_caller_gets_the_lock_in_the_end(world: &World) {
        let story = stage(world);
        assert_eq!(had_after(&story, "newcomer", 1), Some(31));
    }

    fn an_agent_that_asks_seldom_gets_the_lock_one_look_after_its_time(world: &World) {
        for (who, every, expected) in [("bob", 15, 60), ("newcomer", 25, 75), ("rare", 60, 120)] {
            let story = stage(world);
            assert_eq!(had_after(&story, who, every), Some(expected), "the first look counts for nothing");
            story.run(who, &release_all()).unwrap();
        }
    }

    fn a_short_time_to_live_is_over_at_the_second_look(world: &World) {
        let story = stage(world);
        story.run("ada", &AcquireLocks { ttl_ms: Some(30_000), ..locks_on(&["a.rs"]) }).unwrap();
        assert_eq!(had_after(&story, "newcomer", 20), Some(40));
    }

    fn a_pause_in_which_nobody_looked_proves_nothing(world: &World) {
        let story = stage(world);
        story.pass_minutes(25);
        assert!(story.lock("newcomer", &["a.rs"]).is_err());
        // Everything sleeps over the night, ada too.
        story.pass_minutes(600);
        assert!(story.lock("newcomer", &["a.rs"]).is_err(), "nobody could have noticed her");
        story.pass_minutes(1);
        story.beat("ada").unwrap();
        story.pass_minutes(30);
        assert!(story.lock("newcomer", &["a.rs"]).is_err(), "she has her full time again");
        story.pass_minutes(1);
        story.lock("newcomer", &["a.rs"]).unwrap();
    }

    fn a_clock_that_jumps_while_somebody_waits_gives_a_grace(world: &World) {
        const HOUR: i64 = 3_600_000;
        for jump in [HOUR, -HOUR, 24 * HOUR, -24 * HOUR, 10 * 365 * 24 * HOUR, -50 * 365 * 24 * HOUR] {
            let story = stage(world);
            story.pass_minutes(20);
            assert!(story.lock("newcomer", &["a.rs"]).is_err());
            world.clock.advance(jump);
            story.pass_minutes(1);
            assert!(story.lock("newcomer", &["a.rs"]).is_err(), "{jump}: nobody was silent that long");
            story.beat("ada").unwrap();
            assert_eq!(had_after(&story, "newcomer", 1), Some(31), "{jump}");
            world.clock.advance(-jump);
            story.run("newcomer", &release_all()).unwrap();
        }
    }

    fn a_holder_that_worked_until_the_machine_slept_keeps_its_lock(world: &World) {
        let story = stage(world);
        for _ in 0..12 {
            story.pass_minutes(5);
            story.beat("ada").unwrap();
            assert!(story.lock("bob", &["a.rs"]).is_err());
        }
        story.pass_minutes(8 * 60);
        assert!(story.lock("bob", &["a.rs"]).is_err(), "bob looks before ada can give a sign");
        assert_eq!(had_after(&story, "bob", 1), Some(15), "silent since the night");
    }

    fn who_waits_for_several_waits_for_all_of_them_at_once(world: &World) {
        let story = stage(world);
        story.lock("bob", &["src/b.rs"]).unwrap();
        story.lock("watch", &["src/c.rs"]).unwrap();
        let tries = (1..200).find(|_| {
            story.pass_minutes(15);
            story.lock("newcomer", &["."]).is_ok()
        });
        assert_eq!(tries, Some(4));
        expect!["lock . newcomer\n"].assert_eq(&story.as_text());
    }

    fn what_is_left_of_a_lock_is_what_the_next_look_will_find(world: &World) {
        let story = stage(world);
        let left = || {
            let listed = story.run("", &ListLocks { agent: None }).unwrap();
            listed[0].remaining_ms / 60_000
        };
        story.pass_minutes(600);
        assert!(story.lock("newcomer", &["a.rs"]).is_err());
        assert_eq!(left(), 30);
        story.pass_minutes(20);
        assert_eq!(left(), 10);
        assert!(story.lock("newcomer", &["a.rs"]).is_err());
        assert_eq!(left(), 10);
    }
}
