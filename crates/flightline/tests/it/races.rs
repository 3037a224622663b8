//! Races, on both engines: thousands of times two agents want the same thing at the same moment, and
//! each time exactly one gets it.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::thread;

use flightline_testkit::prelude::*;
use flightline_testkit::story::unrehearsed_fleet;

const ROUNDS: usize = 500;
const RACERS: [&str; 2] = ["ada", "bob"];

/// Lets both racers run each round at the same moment, each through a connection of its own. Returns
/// what came of each round, for ada and for bob.
fn race<T: Send>(
    world: &World,
    rounds: usize,
    run: impl Fn(&mut Fleet, &str, usize) -> T + Sync,
) -> Vec<[T; 2]> {
    race_and_settle(world, rounds, run, |_, _, _| {})
}

/// Races like [`race`]; when both have run, each settles what came of it. A racer that panics runs on, or the
/// other would wait for it for ever; the panic comes afterwards.
fn race_and_settle<T: Send>(
    world: &World,
    rounds: usize,
    run: impl Fn(&mut Fleet, &str, usize) -> T + Sync,
    settle: impl Fn(&mut Fleet, &str, &T) + Sync,
) -> Vec<[T; 2]> {
    let start = Barrier::new(RACERS.len());
    let [ada, bob] = thread::scope(|scope| {
        let racers = RACERS.map(|agent| {
            let (start, run, settle) = (&start, &run, &settle);
            scope.spawn(move || {
                let mut fleet = unrehearsed_fleet(world);
                let lap = |round| {
                    start.wait();
                    let came = catch_unwind(AssertUnwindSafe(|| run(&mut fleet, agent, round)));
                    start.wait();
                    let came = came?;
                    catch_unwind(AssertUnwindSafe(|| settle(&mut fleet, agent, &came)))?;
                    Ok(came)
                };
                (0..rounds).map(lap).collect::<Vec<thread::Result<T>>>()
            })
        });
        racers.map(|racer| racer.join().unwrap())
    });
    let finish = |lap: thread::Result<T>| lap.unwrap_or_else(|panic| resume_unwind(panic));
    let laps = ada.into_iter().map(finish).zip(bob.into_iter().map(finish));
    laps.map(|(a, b)| [a, b]).collect()
}

fn code_of<T>(result: Result<T, flightline::Error>) -> Result<T, Code> {
    result.map_err(|error| error.into_refusal().code)
}

/// Gives everything back, if something was granted.
fn give_back<T>(fleet: &mut Fleet, agent: &str, granted: &Result<T, Code>) {
    if granted.is_ok() {
        fleet.run(&release_all(), &caller(agent)).unwrap();
    }
}

fn with_sorties(story: &Story<'_>, count: usize) -> Vec<String> {
    story.mission("Race", &[]);
    let add = add_sorties(
        (0..count)
            .map(|at| sortie(&format!("Sortie {at}")))
            .collect(),
    );
    let added = story.run("", &add).unwrap();
    added
        .into_iter()
        .map(|sortie| sortie.id.to_string())
        .collect()
}

both_engines! {
    fn two_claims_of_one_sortie_have_one_winner(world: &World) {
        let story = Story::with_agents(world, &RACERS);
        let ids = with_sorties(&story, ROUNDS);
        let laps = race(world, ROUNDS, |fleet, agent, round| {
            let claim = ClaimSortie { sortie: ids[round].clone(), lock: false };
            code_of(fleet.run(&claim, &caller(agent)).map(drop))
        });
        let list = ListSorties { mission: None, status: None, agent: None, limit: 10_000 };
        let owners = story.run("", &list).unwrap();
        for (lap, sortie) in laps.iter().zip(&owners) {
            match lap {
                [Ok(()), Err(Code::AlreadyTaken)] => {
                    assert_eq!(sortie.assigned_to.as_deref(), Some("ada"))
                }
                [Err(Code::AlreadyTaken), Ok(())] => {
                    assert_eq!(sortie.assigned_to.as_deref(), Some("bob"))
                }
                wrong => panic!("{}: {wrong:?}", sortie.title),
            }
        }
        let claims =
            story.events_after(0).iter().filter(|event| event.kind == "sortie_claimed").count();
        assert_eq!((laps.len(), claims), (ROUNDS, ROUNDS));
        assert!(story.damaged_values().is_empty());
    }

    fn two_who_want_the_next_sortie_never_get_the_same(world: &World) {
        let story = Story::with_agents(world, &RACERS);
        with_sorties(&story, 100);
        let laps = race(world, 50, |fleet, agent, _| {
            fleet.run(&claim_next(), &caller(agent)).unwrap().sortie.id
        });
        let mut taken: Vec<_> = laps.into_iter().flatten().collect();
        taken.sort();
        taken.dedup();
        assert_eq!(taken.len(), 100);
    }

    fn two_locks_on_one_path_have_one_winner_and_fences_grow(world: &World) {
        let story = Story::with_agents(world, &RACERS);
        let laps = race_and_settle(
            world,
            ROUNDS,
            |fleet, agent, round| {
                // They want the same place by different names: the file, or the folder around it.
                let wanted = format!("src/{round}{}", if agent == "ada" { "/a.rs" } else { "" });
                let granted = code_of(fleet.run(&locks_on(&[&wanted]), &caller(agent)));
                granted.map(|views| views[0].lock.fence)
            },
            give_back,
        );
        let mut fences = Vec::new();
        for lap in &laps {
            match lap {
                [Ok(fence), Err(Code::LockHeld)] | [Err(Code::LockHeld), Ok(fence)] => {
                    fences.push(*fence)
                }
                wrong => panic!("{wrong:?}"),
            }
        }
        assert!(fences.is_sorted_by(|a, b| a < b), "{fences:?}");
        assert_eq!(laps.len(), ROUNDS);
        assert!(story.damaged_values().is_empty());
    }

    fn a_pattern_and_a_path_it_matches_have_one_winner(world: &World) {
        let story = Story::with_agents(world, &RACERS);
        let laps = race_and_settle(
            world,
            ROUNDS / 2,
            |fleet, agent, round| {
                let wanted = match (agent, round % 3) {
                    ("ada", _) => format!("src/{round}/a.rs"),
                    (_, 0) => format!("src/{round}/*.rs"),
                    (_, 1) => format!("src/{round}/**"),
                    (_, _) => format!("**/{round}/[a-c].rs"),
                };
                code_of(fleet.run(&locks_on(&[&wanted]), &caller(agent))).map(drop)
            },
            |fleet, agent, granted| {
                if granted.is_ok() {
                    fleet.run(&release_all(), &caller(agent)).unwrap();
                }
            },
        );
        for lap in &laps {
            assert!(
                matches!(lap, [Ok(()), Err(Code::LockHeld)] | [Err(Code::LockHeld), Ok(())]),
                "{lap:?}"
            );
        }
        assert!(story.damaged_values().is_empty());
    }

    fn one_path_taken_and_given_back_is_never_held_twice(world: &World) {
        let story = Story::with_agents(world, &RACERS);
        let laps = race(world, 100, |fleet, agent, _| {
            let granted = code_of(fleet.run(&locks_on(&["hot.rs"]), &caller(agent)));
            granted.map(|views| {
                let fence = views[0].lock.fence;
                let release = ReleaseLocks { fence: Some(fence), ..release(&["hot.rs"]) };
                fleet.run(&release, &caller(agent)).unwrap();
                fence
            })
        });
        // In the journal, each grant is followed by its own release before the next grant.
        let events = story.events_after(0);
        let about: Vec<(&str, u64)> = events
            .iter()
            .filter(|event| event.kind.starts_with("lock_"))
            .map(|event| (event.kind.as_str(), event.data["fence"].as_u64().unwrap()))
            .collect();
        let granted: Vec<u64> = about.iter().step_by(2).map(|(_, fence)| *fence).collect();
        assert!(
            about
                .chunks(2)
                .all(|pair| matches!(pair, [("lock_acquired", a), ("lock_released", b)] if a == b)),
            "{about:?}"
        );
        assert!(granted.is_sorted_by(|a, b| a < b));
        let winners = laps.iter().flatten().filter(|lap| lap.is_ok()).count();
        assert_eq!(
            (
                granted.len(),
                laps.iter().flatten().all(|lap| matches!(lap, Ok(_) | Err(Code::LockHeld)))
            ),
            (winners, true)
        );
        assert!(winners >= laps.len(), "somebody wins every round");
    }

    fn all_or_nothing_holds_when_two_grab_the_same_files_in_opposite_order(world: &World) {
        let story = Story::with_agents(world, &RACERS);
        let laps = race_and_settle(
            world,
            100,
            |fleet, agent, round| {
                let (first, second) = (format!("{round}/a"), format!("{round}/b"));
                let wanted = if agent == "ada" {
                    [&first[..], &second[..]]
                } else {
                    [&second[..], &first[..]]
                };
                code_of(fleet.run(&locks_on(&wanted), &caller(agent))).map(|views| views.len())
            },
            give_back,
        );
        assert!(
            laps.iter().all(|lap| matches!(
                lap,
                [Ok(2), Err(Code::LockHeld)] | [Err(Code::LockHeld), Ok(2)]
            )),
            "{laps:?}"
        );
        assert!(story.damaged_values().is_empty());
    }

    fn a_thief_and_the_holder_never_both_hold(world: &World) {
        let story = Story::with_agents(world, &RACERS);
        race(world, 100, |fleet, agent, _| {
            let steal = StealLock { path: path("hot.rs"), reason: note("mine") };
            match code_of(fleet.run(&steal, &caller(agent))) {
                Ok(_) => {}
                Err(Code::NotFound) => drop(fleet.run(&locks_on(&["hot.rs"]), &caller(agent))),
                Err(code) => panic!("{code:?}"),
            }
        });
        assert_eq!(story.run("", &ListLocks { agent: None }).unwrap().len(), 1);
        assert!(story.damaged_values().is_empty());
    }

    fn one_key_used_by_two_connections_at_once_writes_once(world: &World) {
        let story = Story::with_agents(world, &RACERS);
        let laps = race(world, 100, |fleet, _, round| {
            let same = keyed("", &format!("k{round}"));
            fleet.run(&create_mission("Once", vec![]), &same).unwrap().mission.id
        });
        assert!(laps.iter().all(|[a, b]| a == b));
        let list = ListMissions { archived: true, limit: 1_000 };
        assert_eq!(story.run("", &list).unwrap().len(), 100);
    }

    fn a_name_registered_twice_at_once_is_one_agent_with_two_epochs(world: &World) {
        let story = Story::with_agents(world, &RACERS);
        let laps = race(world, 50, |fleet, _, round| {
            let name = format!("newcomer-{round}");
            fleet.run(&registration(&name), &caller("")).unwrap().agent.epoch
        });
        assert!(laps.iter().all(|lap| matches!(lap, [1, 2] | [2, 1])), "{laps:?}");
        let all = story.run("", &ListAgents { retired: true, sightings: vec![] }).unwrap();
        assert_eq!(all.len(), 50 + RACERS.len());
    }

    fn heartbeats_and_writes_do_not_get_in_each_others_way(world: &World) {
        let story = Story::with_agents(world, &RACERS);
        with_sorties(&story, 60);
        let laps = race(world, 60, |fleet, agent, _| match agent {
            "ada" => code_of(fleet.run(&Heartbeat::default(), &caller("bob")).map(drop)),
            _ => code_of(fleet.run(&claim_next(), &caller("bob")).map(drop)),
        });
        assert!(laps.iter().flatten().all(Result::is_ok), "{laps:?}");
        assert!(story.damaged_values().is_empty());
    }
}
