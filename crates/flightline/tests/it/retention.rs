//! Which checkpoints go, on both engines: by a plan, never below the minimum, never in anybody's way.

use std::time::Duration;
use std::{fs, thread};

use flightline::Window;
use flightline::checkpoint::daily::daily;
use flightline::checkpoint::prune::{PruneCheckpoints, Pruned};
use flightline::checkpoint::thin::thin;
use flightline::core::retention::{Guard, Retention};
use flightline::core::time::Uptime;
use flightline_testkit::prelude::*;
use flightline_testkit::thinned_values;

const DAY: Duration = Duration::from_secs(86_400);

fn take(story: &Story<'_>) -> CheckpointId {
    let request = TakeCheckpoint {
        note: Some(note("one more")),
        ..take_checkpoint()
    };
    story.run("", &request).unwrap().id
}

/// A mission under way, with so many checkpoints, a day apart, and then `days` more.
fn aged(world: &World, checkpoints: usize, days: u32) -> (Story<'_>, Vec<CheckpointId>) {
    let story = Story::new(world);
    story.mission(
        "Add login",
        &["Model", "Endpoint", "Docs", "Tests", "Deploy"],
    );
    story.claim("ada", "Model").unwrap();
    let taken = more(&story, checkpoints, days);
    (story, taken)
}

fn more(story: &Story<'_>, checkpoints: usize, days: u32) -> Vec<CheckpointId> {
    let taken = (0..checkpoints)
        .map(|_| {
            story.world.pass(DAY);
            take(story)
        })
        .collect();
    story.world.pass(DAY * days);
    taken
}

fn plan(story: &Story<'_>) -> Pruned {
    story.run("", &PlanPrune::default()).unwrap()
}

fn apply(story: &Story<'_>, plan: &Pruned) -> Pruned {
    let request = ApplyPrune {
        plan: PlanPrune::default(),
        delete: ids(plan),
        archive: plan.archived.iter().map(|one| one.id).collect(),
        more: false,
    };
    story.run("", &request).unwrap()
}

fn uptime(boot: &str, ms: u64) -> Uptime {
    Uptime {
        boot: boot.to_owned(),
        ms,
    }
}

/// How many of eight checkpoints are left, when one is taken every three days and nobody works in between.
fn left_of_eight(world: &World, running: impl Fn(u64) -> Option<Uptime>) -> usize {
    let story = Story::new(world);
    story.mission("Add login", &["Model"]);
    for number in 0..8 {
        world.pass(3 * DAY);
        world.clock.set_uptime(running(number));
        take(&story);
        story.with_fleet(|fleet| daily(fleet, &caller(""))).unwrap();
    }
    left(&story).len()
}

fn ids(pruned: &Pruned) -> Vec<CheckpointId> {
    pruned.details.iter().map(|one| one.id).collect()
}

fn left(story: &Story<'_>) -> Vec<CheckpointId> {
    story.checkpoints().iter().map(|one| one.id).collect()
}

fn end(story: &Story<'_>) {
    story.change("ada", "Model", DONE).unwrap();
    story.finish("ada", &["Endpoint", "Docs", "Tests", "Deploy"]);
    story
        .run("", &change_mission(MissionStatus::Completed))
        .unwrap();
}

both_engines! {
    fn older_than_seven_days_goes_and_three_stay(world: &World) {
        let (story, taken) = aged(world, 6, 20);
        let rev = story.rev();
        let planned = plan(&story);
        assert_eq!((ids(&planned), planned.deleted, story.rev()), (taken[..3].to_vec(), 3, rev), "a plan changes nothing");
        let done = apply(&story, &planned);
        assert_eq!((ids(&done), left(&story)), (taken[..3].to_vec(), taken[3..].to_vec()));
        assert_eq!(story.kinds_after(rev), ["checkpoint_pruned", "checkpoint_pruned", "checkpoint_pruned", "retention_applied"]);
        assert_eq!(plan(&story).deleted, 0);
    }

    fn what_is_seven_days_old_stays(world: &World) {
        let (story, taken) = aged(world, 6, 2);
        assert_eq!(plan(&story).deleted, 0);
        world.pass(Duration::from_millis(1));
        assert_eq!(ids(&plan(&story)), taken[..1]);
    }

    fn age_and_number_can_be_chosen(world: &World) {
        let (story, taken) = aged(world, 6, 0);
        let three_days = PlanPrune { older_than_ms: Some(3 * 86_400_000 - 1), keep: Some(1), mission: None, as_of: None, force: false };
        assert_eq!(ids(&story.run("", &three_days).unwrap()), taken[..3]);
        let all = PlanPrune { older_than_ms: Some(0), keep: Some(0), mission: None, as_of: None, force: false };
        world.pass(DAY);
        assert_eq!(ids(&story.run("", &all).unwrap()), taken[..5], "the last of an unfinished mission is never planned");
    }

    fn pinned_and_archived_ones_stay(world: &World) {
        let (story, taken) = aged(world, 6, 20);
        story.mark("", taken[0], CheckpointMark::Pin).unwrap();
        story.mark("", taken[5], CheckpointMark::Archive).unwrap();
        assert_eq!(ids(&plan(&story)), [taken[1]], "the archived one does not count towards the three");
        apply(&story, &plan(&story));
        assert_eq!(left(&story), [taken[0], taken[2], taken[3], taken[4], taken[5]]);
    }

    fn a_clock_ten_years_ahead_is_believed_by_force_only_and_leaves_the_minimum(world: &World) {
        let (story, taken) = aged(world, 5, 0);
        world.clock.advance(3_650 * 86_400_000);
        let planned = plan(&story);
        let ahead = planned.clock.clone().unwrap();
        assert_eq!((ids(&planned), ahead.checkpoints.as_slice(), ahead.days), (taken[..2].to_vec(), &taken[..2], 3_655));
        let rev = story.rev();
        let with = |force| PlanPrune { force, ..PlanPrune::default() };
        let apply = |force| ApplyPrune { plan: with(force), delete: ids(&planned), archive: vec![], more: false };
        for refused in [
            story.run("", &apply(false)).map(drop),
            story.run("", &PruneCheckpoints { plan: with(false) }).map(drop),
            planned.check_clock().map_err(flightline::Error::into_refusal),
        ] {
            let refused = refused.unwrap_err();
            assert_eq!(refused.code, Code::ConfirmationNeeded);
            assert_eq!(
                refused.message,
                "nothing was deleted: the clock says 2036-01-07, 3655 days ahead of the last work that confirms it (2026-01-04), \
                 and 2 checkpoints are old enough only if the clock is right"
            );
        }
        assert_eq!((left(&story), story.rev()), (taken.clone(), rev));
        let thinned = |force| story.with_fleet(|fleet| thin(fleet, &caller(""), &with(force).thinning())).unwrap().values;
        assert_eq!(thinned(false), 0, "nor does the journal believe it");
        // Each of the oldest can go by itself as little as all of them.
        let one = ApplyPrune { plan: with(false), delete: vec![taken[1]], archive: vec![], more: false };
        assert!(story.run("", &one).is_err());
        story.run("", &apply(true)).unwrap();
        assert_eq!(left(&story), taken[2..]);
        assert!(thinned(true) > 0);
        assert!(story.resume("ada", vec![]).is_ok());
        // Somebody said that the clock is right.
        world.pass(DAY);
        assert_eq!(plan(&story).clock, None);
    }

    fn many_go_in_several_transactions_and_by_themselves_in_several_commands(world: &World) {
        let story = Story::new(world);
        let many = || for title in ["One", "Two", "Three", "Four"] {
            story.mission(title, &["Model"]);
            for _ in 0..30 {
                take(&story);
            }
        };
        many();
        world.pass(20 * DAY);
        let (request, rev) = (PlanPrune::default(), story.rev());
        let done = story.with_fleet(|fleet| {
            let plan = plan_all(fleet, &caller(""), &request)?;
            apply_all(fleet, &caller(""), &request, &plan)
        }).unwrap();
        let applied = |kinds: &[String]| kinds.iter().filter(|kind| *kind == "retention_applied").count();
        assert_eq!((done.deleted, done.details.len(), left(&story).len()), (108, 108, 12));
        assert_eq!(applied(&story.kinds_after(rev)), 2);
        many();
        let run = || story.with_fleet(|fleet| daily(fleet, &caller(""))).unwrap().len();
        world.pass(20 * DAY);
        assert_eq!(run(), 0, "of the first twenty days nobody is sure");
        world.pass(8 * DAY);
        assert_eq!((run(), run(), run()), (100, 8, 0));
        assert_eq!(left(&story).len(), 24);
    }

    fn a_store_that_is_used_every_few_days_ages_all_the_same(world: &World) {
        let days = |days: u64| days * 86_400_000;
        assert_eq!(left_of_eight(world, |number| Some(uptime("a", days(3 * number)))), 4, "the machine ran on");
    }

    fn a_store_of_a_machine_that_is_switched_off_in_between_ages_all_the_same(world: &World) {
        assert_eq!(left_of_eight(world, |number| Some(uptime(&number.to_string(), 60_000))), 4, "each boot set the clock");
    }

    fn where_nothing_tells_a_pause_from_a_jump_nothing_goes(world: &World) {
        assert_eq!(left_of_eight(world, |_| None), 8);
        assert_eq!(left_of_eight(world, |_| Some(uptime("a", 60_000))), 16, "the clock jumped each time");
    }

    fn damaged_ones_do_not_count_towards_the_minimum(world: &World) {
        let (story, taken) = aged(world, 4, 0);
        let rev = story.rev();
        story.claim("bob", "Docs").unwrap();
        let damaged = more(&story, 2, 20);
        // What the two name is no longer the last value, which would serve in its place.
        story.change("bob", "Docs", GIVEN_BACK).unwrap();
        damage::journal(world, Kind::Sortie, &story.sortie_id("Docs"), rev);
        let planned = plan(&story);
        assert!(!ids(&planned).iter().any(|id| taken[1..].contains(id)), "the three that are sound stay");
        apply(&story, &planned);
        let verdicts = story.run("", &verify_checkpoints()).unwrap();
        assert_eq!(verdicts.iter().filter(|verdict| verdict.sound).count(), 3);
        assert!(!damaged.is_empty() && story.resume("", vec![]).is_ok());
    }

    fn a_record_that_cannot_be_read_keeps_nothing_else_from_going(world: &World) {
        let (story, taken) = aged(world, 6, 20);
        damage::live(world, Kind::Checkpoint, &taken[5].to_string());
        assert_eq!(ids(&plan(&story)), taken[..2], "three that can be read stay");
        apply(&story, &plan(&story));
        assert_eq!(plan(&story).deleted, 0);
    }

    fn a_completed_mission_keeps_its_final_checkpoint_for_thirty_days(world: &World) {
        let (story, _) = aged(world, 3, 0);
        end(&story);
        let last = story.checkpoints().pop().unwrap();
        assert_eq!((last.cut.reason, last.cut.progress_percent), (Reason::MissionEnded, 100));
        let last = last.id;
        assert_eq!(plan(&story).deleted, 0, "somebody may think again");
        world.pass(DAY + Duration::from_millis(1));
        let planned = plan(&story);
        assert!(planned.deleted >= 3 && !ids(&planned).contains(&last));
        apply(&story, &planned);
        assert_eq!(left(&story), [last], "only the final one");
        world.pass(DAY * 29 - Duration::from_millis(1));
        assert_eq!(plan(&story).deleted, 0);
        world.pass(Duration::from_millis(1));
        assert_eq!(ids(&plan(&story)), [last]);
    }

    fn at_most_so_many_stay(world: &World) {
        let (_, taken) = aged(world, 6, 0);
        let policy = Policy { retention: Retention { most: 4, ..Retention::default() }, ..Policy::default() };
        let mut fleet = Fleet::new(world.store(), policy);
        assert_eq!(ids(&fleet.run(&PlanPrune::default(), &caller("")).unwrap()), taken[..2]);
        assert_eq!(Policy::default().retention.most, 100, "a hundred unless somebody says otherwise");
    }

    fn the_most_that_stay_is_held_whenever_one_is_taken(world: &World) {
        let (story, first) = aged(world, 2, 0);
        story.mark("", first[0], CheckpointMark::Pin).unwrap();
        let policy = Policy { retention: Retention { most: 4, ..Retention::default() }, ..Policy::default() };
        let mut fleet = Fleet::new(world.store(), policy);
        let mut taken = first.clone();
        for number in 0..9 {
            let note = flightline::core::text::NoteText::parse("note", &format!("number {number}")).unwrap();
            let take = TakeCheckpoint { note: Some(note), ..take_checkpoint() };
            taken.push(fleet.run(&take, &caller("")).unwrap().id);
            let mut expected: Vec<_> = taken.iter().rev().take(4).copied().collect();
            // What is pinned stays, and counts only while it is among the newest.
            if !expected.contains(&first[0]) {
                expected.push(first[0]);
            }
            let mut found = left(&story);
            expected.sort();
            found.sort();
            assert_eq!(found, expected, "after {number}");
        }
        assert!(world.problems().is_empty());
    }

    fn missions_are_judged_one_by_one(world: &World) {
        let (story, first) = aged(world, 4, 0);
        let login = story.all::<Mission>()[0].id.to_string();
        story.mission("Another", &["Elsewhere"]);
        story.claim("bob", "Elsewhere").unwrap();
        let second = more(&story, 4, 20);
        assert_eq!(ids(&plan(&story)), [first[0], second[0]]);
        let only = PlanPrune { mission: Some(login), ..PlanPrune::default() };
        assert_eq!(ids(&story.run("", &only).unwrap()), first[..1]);
    }

    fn a_damaged_mission_keeps_its_checkpoints_and_the_others_are_pruned(world: &World) {
        let (story, first) = aged(world, 4, 0);
        story.mission("Another", &["Elsewhere"]);
        let second = more(&story, 4, 20);
        damage::everywhere(world, Kind::Mission, &story.all::<Mission>()[0].id.to_string(), 0);
        let planned = plan(&story);
        assert!(ids(&planned).contains(&second[0]));
        apply(&story, &planned);
        assert!(first[1..].iter().all(|id| left(&story).contains(id)));
    }

    fn what_was_pinned_since_the_plan_stays(world: &World) {
        let (story, taken) = aged(world, 6, 20);
        let planned = plan(&story);
        story.mark("", taken[1], CheckpointMark::Pin).unwrap();
        let done = apply(&story, &planned);
        assert_eq!(ids(&done), [taken[0], taken[2]]);
        assert!(left(&story).contains(&taken[1]));
    }

    fn what_the_plan_did_not_name_stays_even_if_its_time_has_come_since(world: &World) {
        let (story, taken) = aged(world, 6, 2);
        world.pass(Duration::from_millis(1));
        let planned = plan(&story);
        world.pass(DAY);
        assert_eq!(ids(&apply(&story, &planned)), taken[..1], "what somebody was shown goes, and nothing else");
        assert_eq!(left(&story), taken[1..]);
    }

    fn what_no_plan_would_name_is_not_deleted(world: &World) {
        let (story, taken) = aged(world, 4, 20);
        let everything = ApplyPrune { plan: PlanPrune::default(), delete: taken.clone(), archive: Vec::new(), more: false };
        assert_eq!(ids(&story.run("", &everything).unwrap()), taken[..1]);
    }

    fn a_plan_applied_after_a_rewind_takes_nothing_that_is_needed(world: &World) {
        let (story, taken) = aged(world, 6, 20);
        let planned = plan(&story);
        let done = story.force_rewind(taken[0]);
        apply(&story, &planned);
        assert!(left(&story).contains(&done.before.unwrap()));
        assert!(story.undo().is_ok() && story.resume("", vec![]).is_ok());
    }

    fn pruning_during_a_recovery_harms_neither(world: &World) {
        let (story, taken) = aged(world, 6, 20);
        thread::scope(|scope| {
            let resuming = scope.spawn(move || {
                let mut fleet = world.fleet();
                (0..6).map(|_| fleet.run(&roll_forward(vec![]), &caller("")).unwrap().checkpoint_id).collect::<Vec<_>>()
            });
            scope.spawn(move || {
                let mut fleet = world.fleet();
                for _ in 0..6 {
                    let delete = ids(&fleet.run(&PlanPrune::default(), &caller("")).unwrap());
                    fleet.run(&ApplyPrune { plan: PlanPrune::default(), delete, archive: Vec::new(), more: false }, &caller("")).unwrap();
                }
            });
            assert!(resuming.join().unwrap().iter().all(|used| *used == taken[5]));
        });
        assert_eq!(left(&story), taken[3..]);
        assert!(story.damaged_values().is_empty());
    }

    fn what_stays_is_sound_when_others_are_gone(world: &World) {
        let (story, _) = aged(world, 3, 0);
        story.finish("bob", &["Docs"]);
        more(&story, 3, 20);
        apply(&story, &plan(&story));
        let verdicts = story.run("", &verify_checkpoints()).unwrap();
        assert!(verdicts.iter().all(|verdict| verdict.sound) && verdicts.len() >= 3);
    }

    fn what_is_freed_is_counted(world: &World) {
        let (story, _) = aged(world, 4, 20);
        story.settle();
        let planned = plan(&story);
        let one = &planned.details[0];
        let file = story.state_folder().join(flightline::checkpoint::files::name_of(one.mission_id, one.id));
        assert_eq!(planned.freed_bytes, fs::metadata(file).unwrap().len());
    }

    fn what_stays_only_because_it_must_is_expired(world: &World) {
        let (story, taken) = aged(world, 6, 20);
        story.settle();
        story.mark("", taken[0], CheckpointMark::Pin).unwrap();
        let shown = |story: &Story<'_>| -> Vec<CheckpointStatus> {
            let list = ListCheckpoints { mission: None, archived: true, limit: 100 };
            let whole = story.run("", &list).unwrap().checkpoints;
            let (mut paged, mut last) = (Vec::new(), None);
            while paged.len() < whole.len() {
                let window = Some(Window::new(2, last));
                let page = story.with_fleet(|fleet| fleet.run(&list, &Caller { window: window.clone(), ..caller("") }));
                paged.extend(page.unwrap().checkpoints);
                last = paged.last().map(|one| one.id.to_string());
            }
            assert_eq!(paged, whole, "a page does not look at all that are newer");
            whole.iter().rev().map(|one| one.status).collect()
        };
        use CheckpointStatus::{Archived, Corrupted, Creating, Expired, Valid};
        assert_eq!(shown(&story), [Expired, Valid, Valid, Expired, Expired, Expired], "those that may go are not");
        let planned = plan(&story);
        let kept: Vec<(CheckpointId, Guard)> = planned.kept.iter().map(|one| (one.id, one.guard)).collect();
        assert_eq!(kept, [(taken[5], Guard::Last), (taken[4], Guard::Minimum), (taken[3], Guard::Minimum), (taken[0], Guard::Pinned)]);
        assert_eq!(story.run("", &ShowCheckpoint { checkpoint: taken[3].to_string() }).unwrap().status, Expired);
        assert!(story.checkpoints().iter().all(|one| one.status == Valid), "it is said, not stored");
        let done = apply(&story, &planned);
        assert_eq!(done.kept, planned.kept);
        take(&story);
        assert_eq!(shown(&story), [Expired, Valid, Expired, Expired, Creating], "one is not needed for the minimum any more");
        story.mark("", taken[5], CheckpointMark::Archive).unwrap();
        let mut bad = story.checkpoints()[2].clone();
        bad.status = Corrupted;
        story.with_fleet(|fleet| fleet.store().unwrap().write(|tx| tx.set(EventType::CheckpointCorrupted, &bad, &serde_json::json!({})))).unwrap();
        assert_eq!(shown(&story), [Expired, Expired, Corrupted, Archived, Creating]);
    }

    fn once_a_day_it_happens_by_itself(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &["Model"]);
        let run = || story.with_fleet(|fleet| daily(fleet, &caller("ada"))).unwrap().len();
        assert_eq!(run(), 0);
        let rev = story.rev();
        assert_eq!((run(), story.rev()), (0, rev), "it costs one look on any other moment");
        more(&story, 6, 20);
        // Twenty days in which nothing happened are believed when a day of work has followed.
        assert_eq!((run(), run()), (0, 0));
        world.pass(DAY);
        story.claim("ada", "Model").unwrap();
        assert_eq!((run(), run()), (3, 0));
        let applied = story.events_of("retention_applied");
        assert_eq!((applied.len(), applied[1].data["deleted"].as_u64(), applied[1].actor.as_str()), (2, Some(3), "user:tester"));
        world.pass(DAY);
        run();
        assert_eq!(story.events_of("retention_applied").len(), 3);
    }

    fn a_clock_that_jumps_takes_nothing_and_stops_nothing(world: &World) {
        const HOUR: i64 = 3_600_000;
        const YEAR: i64 = 365 * 24 * HOUR;
        let story = Story::new(world);
        for mission in ["Login", "Search", "Billing"] {
            story.mission(mission, &["Model"]);
            story.claim(&format!("agent-{mission}").to_lowercase(), "Model").unwrap();
        }
        let work = |text: &str| {
            story.world.pass(Duration::from_mins(1));
            for agent in ["agent-login", "agent-search", "agent-billing"] {
                story.run(agent, &lesson(text)).unwrap();
            }
            for mission in story.all::<Mission>() {
                let request = TakeCheckpoint { mission: Some(mission.id.to_string()), note: Some(note(text)), ..take_checkpoint() };
                story.run("", &request).unwrap();
            }
        };
        let run = || story.with_fleet(|fleet| daily(fleet, &caller("ada"))).unwrap().len();
        for round in 0..7 {
            work(&format!("round {round}"));
        }
        assert_eq!(run(), 0);
        let thinned = || story.look(thinned_values);
        // To 1970, 2038 and 9999 from 2026: one after the other too, without a moment of the right time between them.
        for jumps in [vec![HOUR], vec![-HOUR], vec![24 * HOUR], vec![-24 * HOUR], vec![10 * YEAR], vec![-56 * YEAR], vec![12 * YEAR],
            vec![7_970 * YEAR], vec![10 * YEAR, 2 * YEAR, 7_000 * YEAR]] {
            let before = left(&story);
            let mut ahead = 0;
            for jump in &jumps {
                world.clock.advance(*jump);
                ahead += jump;
                if ahead > 170 * YEAR {
                    // Nobody writes under such a clock.
                    let refused = story.run("", &take_checkpoint()).unwrap_err();
                    assert_eq!(refused.code, flightline::core::Code::Unavailable);
                    assert!(story.with_fleet(|fleet| daily(fleet, &caller("ada"))).is_err());
                    continue;
                }
                work("meanwhile");
                assert_eq!(run(), 0, "{jumps:?}");
            }
            world.clock.advance(-jumps.iter().sum::<i64>());
            work("right again");
            assert_eq!((run(), run()), (0, 0), "{jumps:?}");
            assert!(before.iter().all(|id| left(&story).contains(id)), "{jumps:?}");
            assert_eq!(thinned(), 0, "{jumps:?}");
        }
        // The clock is right, and goes on: so does retention.
        let old = left(&story).len();
        for _ in 0..12 {
            world.pass(DAY);
            work("a day's work");
            run();
        }
        assert!(left(&story).len() < old, "what is old goes in the end");
        assert_eq!(story.damaged_values(), Vec::<String>::new());
    }
}
