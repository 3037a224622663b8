//! `kill -9` at any moment: a caller that was told that it is done finds it done, and a process that was killed did
//! everything or nothing.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::thread;
use std::time::{Duration, Instant};

use flightline_testkit::Engine;
use rustix::process::Signal;

use crate::crash::journal::{self, Entry, texts};
use crate::crash::world::{Run, World};

const WORKERS: u64 = 6;

#[test]
fn nothing_acknowledged_is_lost_when_processes_are_killed_on_sqlite() {
    survive(Engine::Sqlite);
}

#[test]
fn nothing_acknowledged_is_lost_when_processes_are_killed_on_postgres() {
    survive(Engine::Postgres);
}

/// The command that writes to bob and eve.
pub fn letter(subject: &str) -> [&str; 8] {
    [
        "mail",
        "send",
        "--to",
        "bob",
        "--to",
        "eve",
        "--subject",
        subject,
    ]
}

/// Something a process was to write.
pub struct Deed {
    what: What,
    /// Names it: no other deed has the same name.
    name: String,
    agent: String,
    /// Its process ended well.
    acknowledged: bool,
}

#[derive(Clone, Copy)]
enum What {
    Note,
    /// To two recipients.
    Mail,
    /// Two paths.
    Locks,
    Claim,
}

fn survive(engine: Engine) {
    let world = World::new(engine);
    let storm = Storm::prepare(&world, 66);
    let began = journal::all(&world).len();
    let deeds = storm.rage(&world);
    let killed = deeds.iter().filter(|deed| !deed.acknowledged).count();
    assert!(
        killed > deeds.len() / 10 && killed < deeds.len() * 9 / 10,
        "{killed} of {} were killed",
        deeds.len()
    );
    let there = whole(&world, &deeds);
    // Every request in the journal is one of ours, and whole.
    let mut requests: Vec<Vec<String>> = Vec::new();
    let all = journal::all(&world);
    let upkeep = |entry: &Entry| journal::is_upkeep(entry, &all);
    for entry in all
        .clone()
        .into_iter()
        .skip(began)
        .filter(|entry| !upkeep(entry))
    {
        match requests.last_mut().filter(|_| entry.step != entry.rev) {
            Some(request) => request.push(entry.kind),
            None => requests.push(vec![entry.kind]),
        }
    }
    let shapes: [&[&str]; 4] = [
        &["note_added"],
        &["message_sent", "message_queued", "message_queued"],
        &["lock_acquired", "lock_acquired"],
        &["sortie_claimed"],
    ];
    for request in &requests {
        assert!(shapes.iter().any(|shape| request == shape), "{request:?}");
    }
    assert_eq!(
        requests.len(),
        there + 1,
        "each deed once, and the last note"
    );
}

/// Workers that write, and are killed at random.
pub struct Storm {
    turns: u64,
    sorties: Vec<String>,
}

impl Storm {
    /// Makes the agents and the work for a storm.
    pub fn prepare(world: &World, turns: u64) -> Self {
        let mut create = vec!["mission", "create", "Storm"];
        let claims = (WORKERS * turns).div_ceil(4) + WORKERS;
        for _ in 0..claims {
            create.extend(["--sortie", "One of many"]);
        }
        world.run(&create).works();
        world.run(&["mission", "start"]).works();
        for agent in ["bob", "eve"] {
            world.run(&["agents", "register", agent]).works();
        }
        for worker in 0..WORKERS {
            let name = format!("worker-{worker}");
            world.run(&["agents", "register", &name]).works();
        }
        let sorties = texts(&world.ask(&["sorties", "list"]), "/id");
        assert_eq!(sorties.len() as u64, claims);
        Self { turns, sorties }
    }

    /// Lets every worker take its turns, and kills some of its processes.
    pub fn rage(&self, world: &World) -> Vec<Deed> {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..WORKERS)
                .map(|worker| scope.spawn(move || self.work(world, worker)))
                .collect();
            workers
                .into_iter()
                .flat_map(|worker| worker.join().unwrap())
                .collect()
        })
    }

    fn work(&self, world: &World, worker: u64) -> Vec<Deed> {
        let chance = RandomState::new();
        // How long a process takes when nobody kills it.
        let mut usual = Duration::from_millis(20);
        let mut deeds = Vec::new();
        for turn in 0..self.turns {
            let (mut deed, run) = self.deed(world, worker, turn);
            let drawn = chance.hash_one(turn);
            let patience = (drawn % 2 == 0)
                .then(|| usual.mul_f64((drawn >> 8) as f64 / f64::from(1 << 28) % 1.3));
            // On a machine under load a turn may take long to come; nobody is to give up meanwhile.
            let run = run.env("FLEET_TEST_PATIENCE_MS", 60_000);
            let (began, mut running) = (Instant::now(), run.starts());
            while !running.is_over() {
                if patience.is_some_and(|patience| began.elapsed() >= patience) {
                    running.send(Signal::KILL);
                    break;
                }
                thread::sleep(Duration::from_micros(200));
            }
            let took = began.elapsed();
            let answer = running.ends();
            deed.acknowledged = answer.code() == Some(0);
            assert!(
                deed.acknowledged || answer.died(),
                "{}: {answer}",
                deed.name
            );
            if patience.is_none() {
                usual = took;
            }
            deeds.push(deed);
        }
        deeds
    }

    fn deed(&self, world: &World, worker: u64, turn: u64) -> (Deed, Run) {
        let agent = format!("worker-{worker}");
        let mut name = format!("deed-{worker}-{turn}");
        let (what, run) = match (worker + turn) % 4 {
            0 => (What::Note, world.run(&["note", "lesson", &name])),
            1 => (What::Mail, world.run(&letter(&name))),
            2 => {
                let (one, two) = (format!("{name}/one"), format!("{name}/two"));
                (What::Locks, world.run(&["locks", "acquire", &one, &two]))
            }
            _ => {
                let place = usize::try_from(turn / 4 * WORKERS + worker).unwrap();
                name.clone_from(&self.sorties[place]);
                (What::Claim, world.run(&["sorties", "claim", &name]))
            }
        };
        let run = run.by(&agent);
        let deed = Deed {
            what,
            name,
            agent,
            acknowledged: false,
        };
        (deed, run)
    }
}

/// Every deed is whole or absent, and those acknowledged are there. Says how many are there.
pub fn whole(world: &World, deeds: &[Deed]) -> usize {
    // On PostgreSQL a killed client's commit may still be under way; the next write waits for it.
    world.run(&["note", "lesson", "after the storm"]).works();
    world.is_well();
    let inbox = |of| world.ask(&["mail", "inbox", "--of", of, "--all", "--limit", "1000"]);
    let notes = texts(&world.ask(&["note", "list"]), "/text");
    let (bob, eve) = (
        texts(&inbox("bob"), "/message/subject"),
        texts(&inbox("eve"), "/message/subject"),
    );
    let locks = texts(&world.ask(&["locks", "list"]), "/lock/file");
    let sorties = world.ask(&["sorties", "list"]);
    let mut there = 0;
    for deed in deeds {
        let count = |list: &[String], text: &str| list.iter().filter(|one| *one == text).count();
        let seen = match deed.what {
            What::Note => vec![count(&notes, &deed.name)],
            What::Mail => vec![count(&bob, &deed.name), count(&eve, &deed.name)],
            What::Locks => ["one", "two"]
                .map(|part| count(&locks, &format!("{}/{part}", deed.name)))
                .to_vec(),
            What::Claim => {
                let sorties = sorties.as_array().unwrap().iter();
                let mine = sorties.filter(|sortie| {
                    sortie["id"] == *deed.name && sortie["assigned_to"] == *deed.agent
                });
                vec![mine.count()]
            }
        };
        let all = seen.iter().all(|count| *count == 1);
        let none = seen.iter().all(|count| *count == 0);
        assert!(all || none, "{} is half there: {seen:?}", deed.name);
        assert!(all || !deed.acknowledged, "{} was lost", deed.name);
        there += usize::from(all);
    }
    there
}
