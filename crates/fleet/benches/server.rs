//! What the server does in a second, against LangGraph's savers in the same run, taking turns. Run it with
//! `scripts/bench-server`, which brings the savers and a PostgreSQL. Judges by ratios, because machines are noisy.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark is told where its peers are, reports on stdout, and stops at trouble"
)]

#[path = "server/disk.rs"]
mod disk;
#[path = "server/http.rs"]
mod http;
#[path = "server/ours.rs"]
mod ours;
#[path = "server/peers.rs"]
mod peers;
#[path = "server/streams.rs"]
mod streams;

use std::path::Path;
use std::time::Duration;

use ours::Server;
use peers::{Peers, Saver};

/// How long each measurement of a turn lasts.
const TURN: Duration = Duration::from_secs(3);
/// How often they take turns.
const TURNS: usize = 2;

/// What was measured of somebody who writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Speed {
    /// How many in a second.
    pub per_second: f64,
    /// What half of them took at most.
    pub p50_ms: f64,
    /// What 95 of 100 took at most.
    pub p95_ms: f64,
}

impl Speed {
    fn said(self) -> String {
        format!(
            "{:.0} (p50 {:.1} ms, p95 {:.1} ms)",
            self.per_second, self.p50_ms, self.p95_ms
        )
    }

    /// The better of two.
    fn best(self, other: Self) -> Self {
        if other.per_second > self.per_second {
            other
        } else {
            self
        }
    }
}

fn main() {
    // `cargo test` builds and runs benchmarks too; only `cargo bench` asks for figures.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let told = |name: &str| std::env::var(format!("FLEET_BENCH_{name}")).ok();
    let (Some(python), Some(url), Some(theirs), Some(folder)) = (
        told("PYTHON"),
        told("POSTGRES"),
        told("SAVERS"),
        told("FOLDER"),
    ) else {
        println!("run `scripts/bench-server`, which brings what this is compared with");
        return;
    };
    // Everything, or what is named.
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let wants = |part: &str| wanted.is_empty() || wanted.iter().any(|it| it == part);
    let folder = Path::new(&folder);
    let peers = Peers::new(&python, &theirs, folder);
    println!("| what | ours | theirs | ratio | target | |");
    println!("|---|---|---|---|---|---|");
    if wants("writing") {
        for kilobytes in [10, 100] {
            for writers in [1, 8, 32] {
                writing(&peers, &url, folder, (kilobytes, writers));
            }
        }
    }
    if wants("disk") {
        slow_disk(&peers, folder);
    }
    if wants("listing") {
        listing(&peers, folder);
    }
    if wants("storage") {
        storage(&peers, folder);
    }
    if wants("memory") {
        memory(folder);
    }
    if wants("streams") {
        streams::report(folder);
    }
}

/// A row of the table: a ratio against a target.
fn row(what: &str, ours: &str, theirs: &str, ratio: f64, target: Option<f64>) {
    let (target, verdict) = match target {
        None => (String::new(), ""),
        Some(target) if ratio >= target => (format!("≥ {target}×"), "met"),
        Some(target) => (format!("≥ {target}×"), "**missed**"),
    };
    println!("| {what} | {ours} | {theirs} | {ratio:.1}× | {target} | {verdict} |");
}

/// Durable checkpoints per second.
fn writing(peers: &Peers, url: &str, temp: &Path, (kilobytes, writers): (usize, usize)) {
    let (mut sqlite, mut postgres) = (Speed::default(), Speed::default());
    let (mut theirs_sqlite, mut theirs_postgres) = (Speed::default(), Speed::default());
    for turn in 0..TURNS {
        let name = format!("{kilobytes}-{writers}-{turn}");
        let folder = temp.join(format!("sqlite-{name}"));
        sqlite = sqlite.best(ours::write(
            &Server::start(&folder, None),
            kilobytes,
            writers,
            TURN,
        ));
        theirs_sqlite = theirs_sqlite.best(peers.write(Saver::Sqlite, kilobytes, writers, TURN));
        let folder = temp.join(format!("postgres-{name}"));
        postgres = postgres.best(ours::write(
            &Server::start(&folder, Some(url)),
            kilobytes,
            writers,
            TURN,
        ));
        theirs_postgres =
            theirs_postgres.best(peers.write(Saver::Postgres, kilobytes, writers, TURN));
    }
    let many = writers == 32;
    if many && kilobytes == 10 {
        let folder = temp.join("ceiling");
        let most = ours::ceiling(&Server::start(&folder, None), writers, TURN);
        let (sqlite, postgres) = (theirs_sqlite.per_second, theirs_postgres.per_second);
        println!(
            "| what HTTP alone gives {writers} clients here: two answers for one, and nothing done for them | {most:.0} | {sqlite:.0} and {postgres:.0} | {:.1}× and {:.1}× | | |",
            most / sqlite,
            most / postgres
        );
    }
    for (engine, ours, saver, theirs, target) in [
        ("SQLite", sqlite, "SqliteSaver", theirs_sqlite, 10.0),
        (
            "PostgreSQL",
            postgres,
            "PostgresSaver",
            theirs_postgres,
            20.0,
        ),
    ] {
        let what = format!(
            "checkpoints/s on {engine}, {kilobytes} KB, {writers} writers, against {saver}"
        );
        let ratio = ours.per_second / theirs.per_second;
        row(
            &what,
            &ours.said(),
            &theirs.said(),
            ratio,
            many.then_some(target),
        );
        if many {
            let ratio = theirs.p95_ms / ours.p95_ms;
            let said = |speed: Speed| format!("{:.1} ms", speed.p95_ms);
            row(
                &format!("… p95 lower: {saver}'s / ours"),
                &said(ours),
                &said(theirs),
                ratio,
                Some(1.0),
            );
        }
    }
}

/// The same where waiting for the disk takes as long as it does on most machines. Writers of SQLite wait in turn; what
/// waits with us is written together.
fn slow_disk(peers: &Peers, temp: &Path) {
    let slow = disk::Slow::build(temp, Duration::from_millis(5));
    for writers in [1, 32] {
        let folder = temp.join(format!("slow-{writers}"));
        let ours = ours::write(
            &Server::start_on(&folder, None, Some(&slow)),
            10,
            writers,
            TURN,
        );
        let theirs = peers.on(&slow).write(Saver::Sqlite, 10, writers, TURN);
        let what = format!(
            "checkpoints/s on SQLite, 10 KB, {writers} writers, every fsync 5 ms slower, against SqliteSaver"
        );
        let ratio = ours.per_second / theirs.per_second;
        let target = (writers == 32).then_some(10.0);
        row(&what, &ours.said(), &theirs.said(), ratio, target);
    }
}

/// A list of 100 checkpoints.
fn listing(peers: &Peers, temp: &Path) {
    let ours = ours::list(&Server::start(&temp.join("listing"), None));
    for (saver, target) in [(Saver::Sqlite, Some(50.0)), (Saver::Postgres, None)] {
        let theirs = peers.list(saver);
        let said = |ms: f64| format!("{ms:.2} ms");
        let what = format!("list of 100 checkpoints (100 KB), against {saver:?}Saver");
        row(&what, &said(ours), &said(theirs), theirs / ours, target);
    }
}

/// What a checkpoint takes on disk.
fn storage(peers: &Peers, temp: &Path) {
    let ours = ours::store(&temp.join("storage"));
    let theirs = peers.store(Saver::Sqlite);
    let said = |bytes: f64| format!("{bytes:.0} bytes");
    let what =
        "storage per checkpoint in the store (100 KB, 1 % changed, after 200), against SqliteSaver";
    row(
        what,
        &said(ours.store),
        &said(theirs),
        theirs / ours.store,
        Some(30.0),
    );
    println!(
        "| … of that the change itself, which is kept with or without a checkpoint | {} | | | | |",
        said(ours.change)
    );
    println!(
        "| … and its copy as a file of its own (`.flightline/checkpoints/`), where it has one | {} | | | | |",
        said(ours.files)
    );
}

/// What a server takes in memory.
fn memory(temp: &Path) {
    let server = Server::start(&temp.join("memory"), None);
    let idle = server.resident();
    println!("| memory of an idle server | {idle:.1} MB | | | | |");
    ours::missions(&server, 1_000);
    println!(
        "| memory with 1,000 missions of 10 sorties, after listing them | {:.1} MB | | | | |",
        server.resident()
    );
}
