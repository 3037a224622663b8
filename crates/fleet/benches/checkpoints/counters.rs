//! What a change and the checkpoint after it write, read, hash and ask for: figures that do not depend on the machine's mood.

use std::collections::BTreeMap;
use std::path::Path;

use flightline::checkpoint::take::TakeCheckpoint;
use flightline::core::MissionId;
use flightline::core::count::{Work as Counted, so_far};
use flightline::core::policy::Policy;
use flightline::registry::{CallContext, find};
use flightline::sortie::report::UpdateSortie;
use flightline::store::{Location, OpenOptions, Store};
use flightline::{Fleet, Operation};
use serde_json::json;

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
    let before = Counts::now(&mut fleet, state);
    for _ in 0..ROUNDS {
        round(&mut fleet, &mut work);
    }
    let counts = Counts::now(&mut fleet, state).since(&before);
    let pairs = (AGENTS * ROUNDS) as u64;
    let (what, target) = match state {
        Some(_) => ("statements", ""),
        None => ("journeys", "; target: 1"),
    };
    let row = |what: &str, figure: String| println!("| {what}, {engine} | {figure} |");
    row(
        &format!("{what} of a commit"),
        format!("{}{target}", counts.statements / (2 * ROUNDS as u64)),
    );
    for (work, what) in WORK
        .into_iter()
        .zip(["requests read", "stored documents read", "hashes"])
    {
        let of_one = counts.work[work as usize] as f64 / (2 * pairs) as f64;
        row(&format!("{what} by a request"), format!("{of_one:.2}"));
    }
    if state.is_none() {
        return;
    }
    let written = "bytes written by a change and its checkpoint";
    row(written, format!("{}; target: 30,000", counts.bytes / pairs));
    row("… in so many calls", (counts.calls / pairs).to_string());
    let all: u64 = counts.tables.values().sum();
    let stored = "bytes that the two take in the store";
    row(stored, (all / pairs).to_string());
    for (table, bytes) in counts
        .tables
        .into_iter()
        .filter(|(_, bytes)| *bytes >= pairs)
    {
        row(
            &format!("… of that in `{table}`"),
            (bytes / pairs).to_string(),
        );
    }
}

/// Two commits: in each, half of the agents change something and the others take a checkpoint. Requests come as text, as they do
/// at a server.
fn round(fleet: &mut Fleet, work: &mut [(Work, MissionId)]) {
    for changing in [0, 1] {
        fleet.store().unwrap().begin_group().unwrap();
        for (number, (one, mission)) in work.iter_mut().enumerate() {
            let (name, request) = match number % 2 == changing {
                true => (
                    UpdateSortie::NAME,
                    serde_json::to_string(&one.update()).unwrap(),
                ),
                false => (
                    TakeCheckpoint::NAME,
                    json!({ "mission": mission }).to_string(),
                ),
            };
            let ask = CallContext {
                caller: &one.caller,
                folder: Path::new("."),
                rehearse: false,
            };
            let read = find(name).unwrap().read(&request).unwrap();
            read.run(fleet, &ask).outcome.unwrap();
        }
        fleet.store().unwrap().commit_group().unwrap();
    }
}

/// What is counted of the work of this thread.
const WORK: [Counted; 3] = [Counted::Request, Counted::Document, Counted::Hash];

/// What there is of each thing so far.
struct Counts {
    statements: u64,
    work: [u64; 3],
    /// What this process has written, as the kernel counts it.
    bytes: u64,
    calls: u64,
    /// The bytes of the pages of each table and its indexes.
    tables: BTreeMap<String, u64>,
}

impl Counts {
    fn now(fleet: &mut Fleet, state: Option<&Path>) -> Self {
        let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let counted = |name: &str| {
            let line = io.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|it| it.trim().parse().ok()).unwrap_or(0)
        };
        Self {
            statements: fleet.store().unwrap().statements(),
            work: WORK.map(so_far),
            bytes: counted("wchar:"),
            calls: counted("syscw:"),
            tables: state.map_or_else(BTreeMap::new, |state| tables(fleet, state)),
        }
    }

    fn since(mut self, before: &Self) -> Self {
        self.statements -= before.statements;
        self.bytes -= before.bytes;
        self.calls -= before.calls;
        for (now, before) in self.work.iter_mut().zip(before.work) {
            *now -= before;
        }
        for (table, bytes) in &mut self.tables {
            // Rows that are written anew may free a page.
            *bytes = bytes.saturating_sub(before.tables.get(table).copied().unwrap_or(0));
        }
        self
    }
}

/// The bytes of the pages of each table and its indexes, once the log is in the database.
fn tables(fleet: &mut Fleet, state: &Path) -> BTreeMap<String, u64> {
    const PAGES: &str = "SELECT coalesce(s.tbl_name, p.name), sum(p.pgsize) FROM dbstat p \
         LEFT JOIN sqlite_schema s ON s.name = p.name GROUP BY 1";
    fleet.store().unwrap().fold_log(true).unwrap();
    let mut sqlite3 = std::process::Command::new("sqlite3");
    let database = state.join(flightline::store::FILE);
    sqlite3.arg("-readonly").arg(database).arg(PAGES);
    let done = sqlite3.output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let said = String::from_utf8(done.stdout).unwrap();
    let rows = said.lines().map(|line| line.split_once('|').unwrap());
    rows.map(|(table, bytes)| (table.to_owned(), bytes.parse().unwrap()))
        .collect()
}
