//! What a change and the checkpoint after it write and ask for: figures that do not depend on the machine's mood.

use std::path::Path;

use flightline::Fleet;
use flightline::checkpoint::take::TakeCheckpoint;
use flightline::core::MissionId;
use flightline::core::policy::Policy;
use flightline::store::{Location, OpenOptions, Store};

use crate::work::Work;

/// How many agents work, each on a mission of its own, and how many writes share a commit.
const AGENTS: usize = 16;
/// How often each of them changes something and takes a checkpoint.
const ROUNDS: usize = 40;

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
    let mut work: Vec<(Work, MissionId)> = (0..AGENTS)
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
fn round(fleet: &mut Fleet, work: &mut [(Work, MissionId)]) {
    for changing in [0, 1] {
        fleet.store().unwrap().begin_group().unwrap();
        for (number, (one, mission)) in work.iter_mut().enumerate() {
            match number % 2 == changing {
                true => {
                    fleet.run(&one.update(), &one.caller).unwrap();
                }
                false => {
                    let take = TakeCheckpoint {
                        mission: Some(mission.to_string()),
                        reason: None,
                        details: None,
                        note: None,
                    };
                    fleet.run(&take, &one.caller).unwrap();
                }
            }
        }
        fleet.store().unwrap().commit_group().unwrap();
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
