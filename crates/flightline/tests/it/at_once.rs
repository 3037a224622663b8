//! Checkpoints, recoveries and retention at the same moment, each through a connection of its own, on both
//! engines: all are whole, and what comes of them is one of the orders they could have come in.

use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use flightline::checkpoint::backups;
use flightline::registry::Registered;
use flightline_testkit::prelude::*;
use flightline_testkit::story::unrehearsed_fleet;

const WORK: [&str; 4] = ["Model", "Endpoint", "Docs", "Tests"];

/// Two that begin at the same moment, each with a connection of its own.
fn at_once<A: Send, B: Send>(
    world: &World,
    a: impl FnOnce(&mut Fleet) -> A + Send,
    b: impl FnOnce(&mut Fleet) -> B + Send,
) -> (A, B) {
    let start = Barrier::new(2);
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut fleet = unrehearsed_fleet(world);
            start.wait();
            b(&mut fleet)
        });
        let mut fleet = unrehearsed_fleet(world);
        start.wait();
        let first = a(&mut fleet);
        (first, other.join().unwrap())
    })
}

fn run<O: Registered>(fleet: &mut Fleet, operation: &O) -> Result<O::Outcome, Code> {
    let done = fleet.run(operation, &caller(""));
    done.map_err(|error| error.into_refusal().code)
}

fn noted(words: &str) -> TakeCheckpoint {
    TakeCheckpoint {
        note: Some(note(words)),
        ..take_checkpoint()
    }
}

fn all_are_sound(story: &Story<'_>) {
    let verdicts = story.run("", &verify_checkpoints()).unwrap();
    assert!(verdicts.iter().all(|verdict| verdict.sound), "{verdicts:?}");
    assert!(
        story.damaged_values().is_empty(),
        "{:?}",
        story.damaged_values()
    );
}

fn statuses(taken: &CheckpointDocument) -> Vec<SortieStatus> {
    taken.sorties.iter().map(|sortie| sortie.status).collect()
}

both_engines! {
    fn two_checkpoints_at_once_that_differ_are_two_and_both_are_sound(world: &World) {
        let story = Story::unrehearsed(world);
        story.mission("Add login", &WORK);
        story.claim("ada", "Model").unwrap();
        for round in 0..8 {
            let (one, two) = at_once(world, |fleet| run(fleet, &noted("one")).unwrap(), |fleet| run(fleet, &noted("two")).unwrap());
            assert_ne!(one.id, two.id);
            assert_eq!(one.rev.abs_diff(two.rev), 1, "round {round}: one after the other");
            assert_eq!(statuses(&one), statuses(&two));
        }
        all_are_sound(&story);
        assert_eq!(story.checkpoints().iter().filter(|one| one.cut.reason == Reason::Manual).count(), 16);
    }

    fn two_that_write_the_same_file_at_once_leave_a_whole_one_and_tell_it_once(world: &World) {
        let story = Story::unrehearsed(world);
        story.mission("Add login", &WORK);
        let folder = story.state_folder();
        let mut taken = Vec::new();
        for round in 0..8 {
            taken.push(story.run("", &noted(&format!("round {round}"))).unwrap());
            let write = |fleet: &mut Fleet| backups::settle(fleet, &folder, &caller("")).unwrap();
            at_once(world, write, write);
        }
        for one in &taken {
            assert_eq!(flightline_testkit::read_checkpoint(&story.file_of(one)).unwrap().id, one.id);
        }
        let link = story.file_of(&taken[0]).with_file_name("latest.json");
        assert_eq!(std::fs::read_link(link).unwrap().to_str().unwrap(), format!("{}.json", taken[7].id));
        assert_eq!(story.events_of("checkpoint_created").len(), taken.len());
        assert!(story.events_of("checkpoint_backup_failed").is_empty());
        all_are_sound(&story);
    }

    fn a_checkpoint_taken_while_a_mission_goes_back_and_forth_holds_one_state_or_the_other(world: &World) {
        let story = Story::unrehearsed(world);
        story.mission("Add login", &WORK);
        let nothing_done = story.checkpoint();
        story.finish("ada", &WORK);
        let all_done = story.checkpoint_for("", Reason::Shutdown).unwrap();
        let timeline = story.all::<Mission>()[0].timeline;
        let wander = |fleet: &mut Fleet| {
            for _ in 0..5 {
                for to in [nothing_done.id, all_done.id] {
                    run(fleet, &back_to(to, Force::Yes)).unwrap();
                }
            }
        };
        let watch = |fleet: &mut Fleet| (0..12).map(|number| run(fleet, &noted(&format!("number {number}"))).unwrap()).collect::<Vec<_>>();
        let ((), taken) = at_once(world, wander, watch);
        for one in &taken {
            let seen = statuses(one);
            assert!(seen == statuses(&nothing_done) || seen == statuses(&all_done), "{seen:?}");
            assert_eq!(one.progress_percent, if seen == statuses(&all_done) { 100 } else { 0 });
        }
        assert_eq!(story.all::<Mission>()[0].timeline, timeline + 10);
        all_are_sound(&story);
    }

    fn a_checkpoint_taken_while_the_dead_are_cleared_away_holds_all_they_had_or_nothing(world: &World) {
        let story = Story::unrehearsed(world);
        story.mission("Add login", &WORK);
        story.checkpoint();
        for round in 0..6 {
            story.board("bob", Role::Specialist, 7);
            story.claim("bob", "Model").unwrap();
            story.lock("bob", &["src/model.rs"]).unwrap();
            let dead = story.seen(false, &["bob"]);
            let resume = |fleet: &mut Fleet| run(fleet, &roll_forward(dead)).unwrap();
            let (resumed, taken) = at_once(world, resume, |fleet| run(fleet, &noted("meanwhile")).unwrap());
            assert_eq!((resumed.requeued_sorties.len(), resumed.released_locks.len()), (1, 1), "round {round}");
            let held = taken.sorties[0].status == SortieStatus::InProgress;
            assert_eq!((taken.sorties[0].assigned_to.is_some(), taken.active_locks.len()), (held, usize::from(held)));
        }
        all_are_sound(&story);
    }

    fn of_a_prune_and_a_rewind_to_what_it_takes_the_first_wins_and_neither_is_half(world: &World) {
        let story = Story::unrehearsed(world);
        story.mission("Add login", &WORK);
        let (mut rewound, mut gone) = (0, 0);
        for round in 0..10 {
            let old = story.run("", &noted("old")).unwrap();
            story.claim("ada", WORK[0]).unwrap();
            for _ in 0..3 {
                world.pass(Duration::from_secs(3_600));
                story.run("", &noted("newer")).unwrap();
            }
            story.beat("ada").unwrap();
            let before = (story.as_text(), story.rev());
            let plan = story.with_fleet(|fleet| run(fleet, &everything_old())).unwrap();
            let prune = ApplyPrune { plan: everything_old(), delete: plan.details.iter().map(|one| one.id).collect(), archive: Vec::new(), more: false };
            let apply = |fleet: &mut Fleet| run(fleet, &prune).unwrap().details.into_iter().map(|one| one.id).collect::<Vec<_>>();
            let (back, pruned) = at_once(world, |fleet| run(fleet, &back_to(old.id, Force::Yes)), apply);
            assert!(pruned.contains(&old.id) || back.is_ok(), "round {round}");
            let places = |kind: &str, of: &str| story.events_after(before.1).into_iter().find(|event| event.kind == kind && event.data["checkpoint_id"] == *of).map(|event| event.rev);
            let (restored, removed) = (places("mission_restored", &old.id.to_string()), places("checkpoint_pruned", &old.id.to_string()));
            match back {
                Ok(done) => {
                    rewound += 1;
                    assert!(restored.is_some() && removed.is_none_or(|removed| Some(removed) > restored), "the rewind came first");
                    assert_eq!(story.stored_sortie(WORK[0]).status, SortieStatus::Pending);
                    let undo = undo_rewind(Force::No);
                    assert_eq!(story.run("", &undo).unwrap().checkpoint_id, done.before.unwrap());
                    assert_eq!(story.stored_sortie(WORK[0]).status, SortieStatus::InProgress);
                }
                Err(code) => {
                    gone += 1;
                    assert_eq!((code, restored, story.as_text()), (Code::NotFound, None, before.0), "nothing was touched");
                    assert!(removed.is_some());
                }
            }
            story.change("ada", WORK[0], GIVEN_BACK).unwrap();
            all_are_sound(&story);
        }
        assert_eq!(rewound + gone, 10);
    }

    fn what_was_pruned_cannot_be_gone_back_to_and_that_is_said(world: &World) {
        let story = Story::new(world);
        story.mission("Add login", &WORK);
        let old = story.run("", &noted("old")).unwrap();
        for _ in 0..3 {
            world.pass(Duration::from_secs(3_600));
            story.run("", &noted("newer")).unwrap();
        }
        assert!(story.with_fleet(prune).contains(&old.id));
        let before = (story.as_text(), story.rev());
        let refused = story.rewind(old.id).unwrap_err();
        assert_eq!(refused.code, Code::NotFound, "{refused}");
        assert_eq!((story.as_text(), story.rev()), before);
        all_are_sound(&story);
    }

    fn two_rewinds_at_once_come_one_after_the_other_and_both_can_be_taken_back(world: &World) {
        let story = Story::unrehearsed(world);
        story.mission("Add login", &WORK);
        let first = story.checkpoint();
        story.claim("ada", "Model").unwrap();
        let second = story.checkpoint();
        story.claim("ada", "Docs").unwrap();
        let before = story.as_text();
        let timeline = story.all::<Mission>()[0].timeline;
        let (one, two) = at_once(world, |fleet| run(fleet, &back_to(first.id, Force::Yes)).unwrap(), |fleet| run(fleet, &back_to(second.id, Force::Yes)).unwrap());
        assert_ne!(one.before, two.before, "each has saved what it found");
        assert_eq!(story.all::<Mission>()[0].timeline, timeline + 2);
        let last = story.run("", &undo_rewind(Force::No)).unwrap();
        assert!([one.before, two.before].contains(&Some(last.checkpoint_id)));
        all_are_sound(&story);
        let earliest = if one.before.unwrap() == last.checkpoint_id { two.before } else { one.before };
        story.force_rewind(earliest.unwrap());
        assert_eq!(story.as_text(), before);
    }
}

/// Asks what may go, down to two checkpoints per mission.
fn everything_old() -> PlanPrune {
    PlanPrune {
        mission: None,
        older_than_ms: Some(60_000),
        keep: Some(2),
        as_of: None,
        force: false,
    }
}

/// Takes away what may go. Says what went.
fn prune(fleet: &mut Fleet) -> Vec<CheckpointId> {
    let planned = run(fleet, &everything_old()).unwrap();
    let prune = ApplyPrune {
        plan: everything_old(),
        delete: planned.details.iter().map(|one| one.id).collect(),
        archive: Vec::new(),
        more: false,
    };
    let done = run(fleet, &prune).unwrap();
    done.details.iter().map(|one| one.id).collect()
}

#[test]
fn a_decision_that_runs_twice_leaves_what_one_run_leaves() {
    let told = |rehearses: bool| {
        let world = World::new(Engine::Sqlite);
        let story = match rehearses {
            true => Story::new(&world),
            false => Story::unrehearsed(&world),
        };
        story.mission("Build", &WORK);
        story.claim("ada", "Model").unwrap();
        story.lock("ada", &["src/model.rs"]).unwrap();
        story.report("ada", "Model", "half of it");
        story.checkpoint_for("ada", Reason::Manual).unwrap();
        story.register("bob", Role::Specialist);
        story.send("ada", &["bob"], "The model").unwrap();
        story.finish("ada", &["Model"]);
        assert!(story.claim("bob", "Model").is_err());
        (story.kinds_after(0), story.locks(), story.mail_of("bob"))
    };
    assert_eq!(told(true), told(false));
}
