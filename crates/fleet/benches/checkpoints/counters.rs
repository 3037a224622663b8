//! What a change and the checkpoint after it write and ask for: figures that do not depend on the machine's mood.

use std::path::Path;

use flightline::agent::RegisterAgent;
use flightline::checkpoint::take::TakeCheckpoint;
use flightline::core::policy::Policy;
use flightline::core::sortie::Sortie;
use flightline::core::text::{Name, Note};
use flightline::core::{MissionId, Title};
use flightline::mission::CreateMission;
use flightline::sortie::add::NewSortie;
use flightline::sortie::claim::ClaimSortie;
use flightline::sortie::report::UpdateSortie;
use flightline::store::{Find, Location, OpenOptions, Store};
use flightline::{Caller, Fleet};

/// How many agents work, each on a mission of its own, and how many writes share a commit.
const AGENTS: usize = 16;
/// How often each of them changes something and takes a checkpoint.
const ROUNDS: usize = 40;

/// An agent and its mission of 10 KB.
struct Work {
    caller: Caller,
    mission: MissionId,
    sorties: Vec<String>,
    turn: usize,
}

/// Prints the table.
pub fn report(folder: &Path) {
    println!("| what | {AGENTS} agents, {AGENTS} writes a commit |");
    println!("|---|---|");
    std::fs::create_dir_all(folder).unwrap();
    let state = folder.join(".flightline");
    measured("SQLite", &Location::Folder(state.clone()), Some(&state));
    // Where `scripts/test` or somebody else has started one.
    if let Ok(url) = std::env::var("FLEET_TEST_POSTGRES") {
        measured("PostgreSQL", &Location::Postgres(url), None);
    }
    let binary = std::fs::metadata(env!("CARGO_BIN_EXE_fleet")).unwrap();
    println!("| bytes of the binary | {} |", binary.len());
}

fn measured(engine: &str, location: &Location, state: Option<&Path>) {
    let options = OpenOptions {
        remember: std::sync::Arc::new(true.into()),
        keeps_log: true,
        ..OpenOptions::default()
    };
    let project = format!("prj-{}", std::process::id());
    let store = Store::create(location, &project, "counted", options).unwrap();
    let mut fleet = Fleet::new(store, Policy::default());
    let mut work: Vec<Work> = (0..AGENTS)
        .map(|number| Work::begin(&mut fleet, number))
        .collect();
    round(&mut fleet, &mut work);
    let (stored, written) = (state.map(|state| size(&mut fleet, state)), Written::now());
    let statements = fleet.store().unwrap().statements();
    for _ in 0..ROUNDS {
        round(&mut fleet, &mut work);
    }
    let statements = fleet.store().unwrap().statements() - statements;
    let written = Written::now().since(&written);
    let pairs = (AGENTS * ROUNDS) as u64;
    let what = match state {
        Some(_) => "statements",
        None => "journeys",
    };
    println!(
        "| {what} of a commit, {engine} | {} |",
        statements / (2 * ROUNDS as u64)
    );
    if let (Some(state), Some(before)) = (state, stored) {
        println!(
            "| bytes written by a change and its checkpoint, {engine} | {} |",
            written.bytes / pairs
        );
        println!("| … in so many calls | {} |", written.calls / pairs);
        println!(
            "| bytes that the two take in the store, {engine} | {} |",
            (size(&mut fleet, state) - before) / pairs
        );
    }
}

/// Two commits: in each, half of the agents change something and the others take a checkpoint.
fn round(fleet: &mut Fleet, work: &mut [Work]) {
    for changing in [0, 1] {
        fleet.store().unwrap().begin_group().unwrap();
        for (number, one) in work.iter_mut().enumerate() {
            match number % 2 == changing {
                true => one.change(fleet),
                false => one.checkpoint(fleet),
            }
        }
        fleet.store().unwrap().commit_group().unwrap();
    }
}

impl Work {
    fn begin(fleet: &mut Fleet, number: usize) -> Self {
        let title = |text: String| Title::parse("title", &text).unwrap();
        let description = "Ten of these are a mission of ten kilobytes. ".repeat(22);
        let create = CreateMission {
            title: title(format!("Mission {number}")),
            objective: None,
            phase: None,
            stack_id: None,
            sprint: None,
            dispatch: None,
            states: [].into(),
            sorties: (0..10)
                .map(|n| NewSortie {
                    description: Some(Note::parse("description", &description).unwrap()),
                    ..NewSortie::titled(title(format!("Sortie {n}")))
                })
                .collect(),
        };
        let mission = fleet.run(&create, &super::caller()).unwrap().mission.id;
        let name = format!("agent-{number}");
        let register = RegisterAgent {
            name: Name::parse("name", &name).unwrap(),
            role: None,
            kind: None,
            session: None,
            process: None,
            feature: None,
        };
        fleet.run(&register, &super::caller()).unwrap();
        let caller = Caller {
            agent: Some(name),
            ..super::caller()
        };
        let found = fleet
            .store()
            .unwrap()
            .read(|tx| tx.find::<Sortie>(Find::Mission(mission)));
        let sorties: Vec<String> = found.unwrap().iter().map(|it| it.id.to_string()).collect();
        for sortie in &sorties {
            let claim = ClaimSortie {
                sortie: sortie.clone(),
                lock: false,
            };
            fleet.run(&claim, &caller).unwrap();
        }
        Self {
            caller,
            mission,
            sorties,
            turn: 0,
        }
    }

    fn change(&mut self, fleet: &mut Fleet) {
        self.turn += 1;
        let note = format!("Step {} of many, in about a hundred bytes", self.turn);
        let update = UpdateSortie {
            sortie: self.sorties[self.turn % self.sorties.len()].clone(),
            note: Some(Note::parse("note", &note.repeat(2)).unwrap()),
            ..UpdateSortie::default()
        };
        fleet.run(&update, &self.caller).unwrap();
    }

    fn checkpoint(&self, fleet: &mut Fleet) {
        let take = TakeCheckpoint {
            mission: Some(self.mission.to_string()),
            reason: None,
            details: None,
            note: None,
        };
        fleet.run(&take, &self.caller).unwrap();
    }
}

/// What this process has written, as the kernel counts it.
struct Written {
    bytes: u64,
    calls: u64,
}

impl Written {
    fn now() -> Self {
        let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let counted = |name: &str| {
            let line = io.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|it| it.trim().parse().ok()).unwrap_or(0)
        };
        Self {
            bytes: counted("wchar:"),
            calls: counted("syscw:"),
        }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            bytes: self.bytes - before.bytes,
            calls: self.calls - before.calls,
        }
    }
}

/// The size of the database, once its log is in it.
fn size(fleet: &mut Fleet, state: &Path) -> u64 {
    fleet.store().unwrap().fold_log(true).unwrap();
    let file = std::fs::metadata(state.join(flightline::store::FILE));
    file.map_or(0, |it| it.len())
}
