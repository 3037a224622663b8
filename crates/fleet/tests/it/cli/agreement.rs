//! A random walk through the command line, in every preset. After each step the commands that look
//! must agree: an agent is not alive here and dead there, a lock not held here and free there, and
//! nobody says "nothing" while something is open.
//!
//! `FLEET_AGREE_STEPS` sets how many steps are taken in each preset, `FLEET_AGREE_SEED` where chance
//! begins.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Child, Command};

use serde_json::Value;

use crate::cli::world::World;

const AGENTS: [&str; 3] = ["ada", "bob", "cat"];
const PATHS: [&str; 5] = ["src/a.rs", "src/b.rs", "src", "docs/x.md", "src/*.rs"];

#[expect(
    clippy::disallowed_methods,
    reason = "the size of the run is chosen by the person who starts it"
)]
fn number(name: &str, otherwise: u64) -> u64 {
    let typed = std::env::var(name).ok();
    typed.map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Small numbers that depend on the seed alone.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("a small number")
    }

    fn of<'a>(&mut self, among: &[&'a str]) -> &'a str {
        among[self.below(among.len())]
    }
}

struct Walk {
    world: World,
    chance: Chance,
    /// The processes of agents that were registered with one. They end with the walk.
    processes: Vec<Child>,
    /// What was typed, for the report of a failure.
    typed: Vec<String>,
}

impl Drop for Walk {
    fn drop(&mut self) {
        for process in &mut self.processes {
            drop(process.kill());
            drop(process.wait());
        }
    }
}

impl Walk {
    fn new(preset: &str, seed: u64) -> Self {
        let world = World::empty().local_only("processes are looked at where they run");
        world.ok(&format!("init --preset {preset}"));
        world.ok("missions create First --sortie One --sortie Two --sortie Three");
        Self {
            world,
            chance: Chance(seed.wrapping_mul(2).wrapping_add(1)),
            processes: Vec::new(),
            typed: Vec::new(),
        }
    }

    /// A command that may be refused, and must not fail in any other way.
    fn act(&mut self, agent: Option<&str>, typed: &str) {
        self.typed
            .push(format!("{} {typed}", agent.unwrap_or("(a person)")));
        let line = self.world.line(typed);
        let ran = match agent {
            Some(name) => line.agent(name),
            None => line,
        }
        .run();
        assert!(
            (0..=5).contains(&ran.code) && ran.code != 1,
            "{ran:?} after {:#?}",
            self.typed
        );
    }

    /// The answer of a command that only looks, at the time of the last step.
    fn look(&self, typed: &str) -> Value {
        let before = self.world.json_at(typed);
        assert!(
            before.1 == 0 || before.1 == 5,
            "{typed}: {before:?} after {:#?}",
            self.typed
        );
        before.0
    }

    fn sortie(&mut self) -> String {
        let sorties = self.look("sorties list");
        let all = sorties.as_array().expect("a list");
        let one = &all[self.chance.below(all.len())];
        one["id"].as_str().expect("an id").to_owned()
    }

    fn step(&mut self) {
        let agent = self.chance.of(&AGENTS);
        let path = self.chance.of(&PATHS);
        let sortie = self.sortie();
        match self.chance.below(30) {
            0..=3 => self.act(Some(agent), "sorties claim --next"),
            4 => self.act(Some(agent), &format!("sorties claim {sortie}")),
            5 => self.act(
                Some(agent),
                &format!("sorties update {sortie} --done 1/3 --last work"),
            ),
            6 | 7 => self.act(Some(agent), &format!("sorties complete {sortie}")),
            8 => self.act(
                Some(agent),
                &format!("sorties block {sortie} --reason rain"),
            ),
            9 => self.act(Some(agent), &format!("sorties unblock {sortie}")),
            10 => self.act(Some(agent), &format!("sorties fail {sortie} --reason rain")),
            11 => self.act(Some(agent), &format!("sorties release {sortie}")),
            12 => self.act(None, "sorties add More"),
            13 | 14 => self.act(Some(agent), &format!("locks acquire {path}")),
            15 => self.act(Some(agent), "locks release --all"),
            16 => self.act(Some(agent), "effect begin deploy"),
            17 => self.act(Some(agent), "effect done deploy"),
            18 => self.act(Some(agent), "note blocker Rain"),
            19 => self.act(Some(agent), "mail send --to ada --subject Hello"),
            20 => self.act(Some(agent), "heartbeat"),
            21 => self.act(Some(agent), "heartbeat --tokens 190000/200000"),
            22 => self.register(agent),
            23 => self.kill(),
            24 => self.act(Some(agent), "agents end"),
            25 => self.act(None, "checkpoint"),
            26 => self.act(None, "resume -y"),
            27 => self.act(None, "resume --checkpoint @latest --force -y"),
            28 => self.act(None, "undo"),
            _ => {
                let minutes = [4, 11, 31, 90][self.chance.below(4)];
                self.typed.push(format!("({minutes} minutes pass)"));
                self.world.pass(minutes * 60);
            }
        }
    }

    /// A new session of the agent, in a process of its own.
    fn register(&mut self, agent: &str) {
        let process = Command::new("sleep")
            .arg("1000")
            .spawn()
            .expect("a process");
        self.act(
            Some(agent),
            &format!("agents register {agent} --pid {}", process.id()),
        );
        self.processes.push(process);
    }

    fn kill(&mut self) {
        if let Some(mut process) = self.processes.pop() {
            self.typed.push("(a process is killed)".to_owned());
            process.kill().expect("it ends");
            process.wait().expect("it is gone");
        }
    }

    /// Everything that looks says one thing.
    fn check(&self) {
        // These two may write: the monitor warns the silent, and who detects a lost context records that.
        let (monitored, detected) = (self.look("agents monitor"), self.look("detect"));
        let rev = self.look("status")["rev"].clone();
        let (status, agents) = (self.look("status"), self.look("agents list"));
        let (locks, doctor) = (self.look("locks list"), self.look("doctor"));
        let told = || format!("after {:#?}", self.typed);

        // One judgement of life.
        let lives = lives(&agents);
        assert_eq!(self::lives(&status["agents"]), lives, "{}", told());
        for seen in list(&monitored["agents"]) {
            let (name, standing) = (text(&seen["agent"]), text(&seen["standing"]));
            let life = &lives[name];
            assert!(
                life != "dead" || standing != "active",
                "{name} is dead, and the monitor says {standing}; {}",
                told()
            );
        }
        for dead in lives.iter().filter(|(_, life)| *life == "dead") {
            let shown = self.look(&format!("agents show {}", dead.0));
            assert_eq!(text(&shown["liveness"]["life"]), "dead", "{}", told());
        }

        // A lock is held everywhere or nowhere.
        let held = paths(&locks);
        assert_eq!(paths(&status["locks"]), held, "{}", told());
        let of_agents: BTreeSet<String> = list(&agents)
            .flat_map(|view| list(&view["locks"]))
            .map(|path| text(path).to_owned())
            .collect();
        assert_eq!(of_agents, held.keys().cloned().collect(), "{}", told());
        for (path, holder) in &held {
            let (_, code) = self
                .world
                .json_at(&format!("locks check {path} --agent {holder}"));
            assert_eq!(code, 0, "{holder} holds {path}; {}", told());
        }

        // Nobody says "nothing" while something is open.
        let attention = list(&status["attention"]).count();
        assert!(
            list(&detected).next().is_none() || attention > 0,
            "detect: {detected}, status: nothing; {}",
            told()
        );
        let doubt = self.look("effect list --in-doubt");
        let gone = list(&doubt).any(|effect| {
            let owner = text(&effect["agent"]);
            lives.get(owner).is_some_and(|life| life == "dead")
        });
        assert!(
            !gone || attention > 0,
            "{doubt}, status: nothing; {}",
            told()
        );
        // The doctor finds the tasks that detecting finds, and nothing else is in its way.
        let troubled = |found: &Value| {
            let tasks = list(&found["tasks"]).map(|task| text(&task["sortie_id"]).to_owned());
            tasks.collect::<BTreeSet<_>>()
        };
        let tasks: BTreeSet<String> = list(&detected).flat_map(troubled).collect();
        assert_eq!(troubled(&doctor), tasks, "{doctor}; {}", told());
        assert!(
            list(&doctor["checks"]).all(|check| check["ok"] == true),
            "{doctor}; {}",
            told()
        );
        assert_eq!(doctor["healthy"], tasks.is_empty(), "{doctor}; {}", told());

        // A briefing knows the work of its agent.
        for view in list(&agents) {
            let (name, own) = (text(&view["agent"]["name"]), list(&view["sorties"]).next());
            let briefing = self.look(&format!("context --of {name}"));
            let sortie = briefing["facts"]["sortie"]["id"].as_str();
            let is_own = sortie
                .is_none_or(|sortie| list(&view["sorties"]).any(|id| text(id).starts_with(sortie)));
            assert!(
                is_own && (own.is_none() || sortie.is_some()),
                "the briefing of {name} has {sortie:?}, its sorties are {}; {}",
                view["sorties"],
                told()
            );
        }
        let now = self.look("status")["rev"].clone();
        let wrote = || self.look("events list --limit 9");
        assert_eq!(now, rev, "looking wrote {:#}; {}", wrote(), told());
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// How alive each agent is.
fn lives(agents: &Value) -> BTreeMap<String, String> {
    list(agents)
        .map(|view| {
            let name = text(&view["agent"]["name"]).to_owned();
            (name, text(&view["liveness"]["life"]).to_owned())
        })
        .collect()
}

/// The locked paths, and who holds each.
fn paths(locks: &Value) -> BTreeMap<String, String> {
    list(locks)
        .map(|view| {
            let path = text(&view["lock"]["file"]).to_owned();
            (path, text(&view["holder"]).to_owned())
        })
        .collect()
}

fn walk(preset: &str) {
    let mut walk = Walk::new(preset, number("FLEET_AGREE_SEED", 7));
    for _ in 0..number("FLEET_AGREE_STEPS", 25) {
        walk.step();
        walk.check();
    }
}

#[test]
fn everything_that_looks_agrees_in_a_fleet() {
    walk("fleet");
}

#[test]
fn everything_that_looks_agrees_in_sitebuilder() {
    walk("sitebuilder");
}

#[test]
fn everything_that_looks_agrees_in_epic() {
    walk("epic");
}

#[test]
fn everything_that_looks_agrees_in_orchestrator() {
    walk("orchestrator");
}

#[test]
fn everything_that_looks_agrees_in_recovery() {
    walk("recovery");
}
