//! Three missions at work while their processes are killed and frozen and the clock jumps about: nothing acknowledged is
//! lost, no checkpoint goes early, no living agent loses its lock, and a dead one's lapses when its time is over.

use std::thread;
use std::time::Duration;

use flightline_testkit::Engine;
use rustix::process::Signal;

use crate::crash::journal::texts;
use crate::crash::lost::Chance;
use crate::crash::world::{Answer, World};

/// How far one turn is from the next, in minutes; each looks for the dead agent's lock.
const POLL: i64 = 5;
/// How long the lock of a silent agent is kept, in minutes.
const TTL: i64 = 30;
const MISSIONS: [&str; 3] = ["Login", "Search", "Export"];

/// What the clock says, when it is so many minutes after noon.
#[derive(Clone, Copy, Debug)]
enum Clock {
    Right,
    /// Off by so many minutes.
    Off(i64),
    /// On another day.
    In(&'static str),
    /// At the end of the year 9999.
    Beyond,
}

const JUMPS: [Clock; 10] = [
    Clock::Off(60),
    Clock::Off(-60),
    Clock::Off(24 * 60),
    Clock::Off(-24 * 60),
    Clock::In("2036-01-04"),
    Clock::In("1970-01-02"),
    Clock::In("2038-01-20"),
    Clock::Beyond,
    Clock::In("2026-03-01"),
    Clock::In("1999-12-31"),
];

#[test]
fn three_missions_outlive_kills_freezes_and_a_jumping_clock_on_sqlite() {
    rage(Engine::Sqlite);
}

#[test]
fn three_missions_outlive_kills_freezes_and_a_jumping_clock_on_postgres() {
    rage(Engine::Postgres);
}

/// A mission, the agent that works in it, and everything it was told is done.
struct Crew {
    mission: String,
    worker: String,
    dead: String,
    notes: Vec<String>,
    checkpoints: Vec<String>,
    /// When the dead agent's lock was given to the worker, in minutes after noon.
    granted: Option<i64>,
    chance: Chance,
}

fn moment(clock: Clock, minute: i64) -> String {
    // Noon is 720 minutes into the day.
    let at =
        |day: &str, minute: i64| format!("{day}T{:02}:{:02}:00Z", minute / 60 % 24, minute % 60);
    match clock {
        Clock::Right => at("2026-01-04", 720 + minute),
        Clock::Off(off) if (-720..700).contains(&off) => at("2026-01-04", 720 + minute + off),
        Clock::Off(off) if off > 0 => at("2026-01-05", 720 + minute),
        Clock::Off(_) => at("2026-01-03", 720 + minute),
        Clock::In(day) => at(day, 720 + minute),
        Clock::Beyond => "253402200000000".to_owned(),
    }
}

/// How long the machine has been running, by its own count, which no wrong clock changes.
fn running_for(minute: i64) -> i64 {
    1_767_528_000_000 + minute * 60_000
}

fn rage(engine: Engine) {
    let mut world = World::timeless(engine);
    for agent in ["ada", "bob", "eve"] {
        world.run(&["agents", "register", agent]).works();
        let dead = format!("late-{agent}");
        world.run(&["agents", "register", &dead]).works();
    }
    let mut crews = Vec::new();
    for ((title, worker), seed) in MISSIONS.into_iter().zip(["ada", "bob", "eve"]).zip(1..) {
        let created = world.ask(&[
            "missions", "create", title, "--sortie", "One", "--sortie", "Two",
        ]);
        let mission = created["mission"]["id"].as_str().unwrap().to_owned();
        let dead = format!("late-{worker}");
        for (agent, file) in [
            (worker, format!("src/{worker}")),
            (&dead, format!("src/{dead}")),
        ] {
            let lock = ["locks", "acquire", &file, "--mission", &mission];
            world.run(&lock).by(agent).works();
        }
        crews.push(Crew {
            mission,
            worker: worker.to_owned(),
            dead,
            notes: Vec::new(),
            checkpoints: Vec::new(),
            granted: None,
            chance: Chance::new(seed),
        });
    }
    world.let_time_be(None);
    // The dead gave their last sign at noon. Each jump lasts two turns; then the clock is right for one.
    let jumps = JUMPS
        .into_iter()
        .flat_map(|jump| [jump, jump, Clock::Right]);
    let steady = (0..=TTL / POLL + 1).map(|_| Clock::Right);
    let (mut minute, mut steady_since) = (0, None);
    for (turn, clock) in jumps.chain(steady).enumerate() {
        minute += POLL;
        if turn == JUMPS.len() * 3 {
            steady_since = Some(minute);
        }
        let others: Vec<String> = crews.iter().map(|crew| crew.worker.clone()).collect();
        let (world, others) = (&world, &others);
        thread::scope(|scope| {
            for crew in &mut crews {
                scope.spawn(move || crew.take_turn(world, others, clock, turn, minute));
            }
        });
    }
    let steady_since = steady_since.unwrap();
    for crew in &crews {
        let granted = crew.granted.expect("a dead agent's lock lapses");
        assert!(
            granted >= TTL,
            "{}: given away after {granted} min",
            crew.dead
        );
        assert!(
            granted <= steady_since + TTL + POLL,
            "{}: kept until {granted} min, of which the clock was right from {steady_since} min",
            crew.dead
        );
        crew.lost_nothing(&world, minute);
    }
    let doctor = at(&world, &["doctor"], minute).ends();
    assert_eq!(doctor.code(), Some(0), "{doctor}");
}

fn at(world: &World, words: &[&str], minute: i64) -> crate::crash::world::Run {
    world
        .run(words)
        .env("FLEET_TEST_NOW", moment(Clock::Right, minute))
        .env("FLEET_TEST_UPTIME_MS", running_for(minute))
}

impl Crew {
    /// Does some work, reaches for its own dead agent's lock, and for those of the living.
    fn take_turn(
        &mut self,
        world: &World,
        others: &[String],
        clock: Clock,
        turn: usize,
        minute: i64,
    ) {
        // No time is written that far ahead.
        if matches!(clock, Clock::Beyond) {
            let refused = self.act(world, &["note", "lesson", "too late"], clock, minute);
            assert_eq!(refused.code(), Some(7), "{refused}");
            assert!(refused.err.contains("nothing was written"), "{refused}");
            return;
        }
        self.survives_until_done(world, &["heartbeat"], clock, minute);
        let note = format!("{} in turn {turn}", self.worker);
        if self.with_trouble(world, &["note", "lesson", &note], clock, minute) {
            self.notes.push(note);
        }
        if turn % 4 == 1 {
            let taken = self.act(world, &["checkpoint", "--json"], clock, minute);
            assert_eq!(taken.code(), Some(0), "{clock:?}: {taken}");
            let taken: serde_json::Value = serde_json::from_str(&taken.out).unwrap();
            self.checkpoints
                .push(taken["id"].as_str().unwrap().to_owned());
        }
        for other in others.iter().filter(|other| **other != self.worker) {
            let taken = self.act(
                world,
                &["locks", "acquire", &format!("src/{other}")],
                clock,
                minute,
            );
            assert_eq!(taken.code(), Some(4), "{clock:?}: {other} lives: {taken}");
        }
        if self.granted.is_none() {
            let file = format!("src/{}", self.dead);
            let taken = self.act(world, &["locks", "acquire", &file], clock, minute);
            match taken.code() {
                Some(0) => self.granted = Some(minute),
                _ => assert_eq!(taken.code(), Some(4), "{clock:?}: {taken}"),
            }
        }
    }

    fn command(
        &self,
        world: &World,
        words: &[&str],
        clock: Clock,
        minute: i64,
    ) -> crate::crash::world::Run {
        world
            .run(&[words, &["--mission", &self.mission]].concat())
            .by(&self.worker)
            .env("FLEET_TEST_NOW", moment(clock, minute))
            .env("FLEET_TEST_UPTIME_MS", running_for(minute))
            .env("FLEET_TEST_PATIENCE_MS", 60_000)
    }

    fn act(&self, world: &World, words: &[&str], clock: Clock, minute: i64) -> Answer {
        self.command(world, words, clock, minute).ends()
    }

    /// Runs a command that may be killed or frozen at any of its steps. Says whether it said that it is done.
    fn with_trouble(&mut self, world: &World, words: &[&str], clock: Clock, minute: i64) -> bool {
        let (fate, step) = (self.chance.below(10), self.chance.below(24) + 1);
        let run = self.command(world, words, clock, minute);
        let answer = match fate {
            0..=3 => run.dies_at(step).ends(),
            4..=6 => {
                let mut running = run.env("FLEET_TEST_FREEZE_AT", step).starts();
                thread::sleep(Duration::from_millis(self.chance.below(120)));
                let signal = match fate {
                    4 => Signal::KILL,
                    _ => Signal::CONT,
                };
                // It may be over before its step, or reach it only now.
                while !running.is_over() {
                    running.send(signal);
                    thread::sleep(Duration::from_millis(5));
                }
                running.ends()
            }
            _ => run.ends(),
        };
        assert!(
            answer.code() == Some(0) || answer.died(),
            "{clock:?}: {words:?}: {answer}"
        );
        answer.code() == Some(0)
    }

    fn survives_until_done(&mut self, world: &World, words: &[&str], clock: Clock, minute: i64) {
        while !self.with_trouble(world, words, clock, minute) {}
    }

    /// Everything this crew was told is done is there, once.
    fn lost_nothing(&self, world: &World, minute: i64) {
        let list = |words: &[&str]| {
            let words = [words, &["--mission", &self.mission]].concat();
            at(world, &words, minute).json()
        };
        let notes = texts(&list(&["note", "list"]), "/text");
        for note in &self.notes {
            let count = notes.iter().filter(|one| *one == note).count();
            assert_eq!(count, 1, "{note}");
        }
        assert!(!notes.iter().any(|note| note == "too late"));
        let there = texts(&list(&["checkpoints", "list", "--limit", "1000"]), "/id");
        for checkpoint in &self.checkpoints {
            assert!(there.contains(checkpoint), "{checkpoint} was pruned early");
        }
        let locks = at(world, &["locks", "list"], minute).json();
        let held = locks
            .as_array()
            .unwrap()
            .iter()
            .filter(|view| view["lock"]["file"] == format!("src/{}", self.worker));
        assert_eq!(held.count(), 1, "{} has its lock", self.worker);
    }
}
