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
#[path = "server/library.rs"]
mod library;
mod measure;
#[path = "server/ours.rs"]
mod ours;
#[path = "server/peers.rs"]
mod peers;
#[path = "server/streams.rs"]
mod streams;
#[path = "measure/work.rs"]
mod work;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use flightline::store::Location;
use ours::{Requests, Server};
use peers::{Peers, Saver, Step};

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
    println!("{}", disk::waits(folder));
    println!();
    println!("| what | ours | theirs | ratio | target | |");
    println!("|---|---|---|---|---|---|");
    if wants("process") {
        for threads in [1, 32] {
            in_process(&peers, &url, folder, threads);
        }
    }
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
    if wants("growth") {
        growth(folder);
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

/// A row about two that write, and whether ours is so many times as fast.
fn compared(what: &str, ours: Speed, theirs: Speed, target: Option<f64>) {
    let ratio = ours.per_second / theirs.per_second;
    row(what, &ours.said(), &theirs.said(), ratio, target);
}

/// A row about the slowest of 20: theirs against ours.
fn compared_p95(whose: &str, ours: Speed, theirs: Speed, target: f64) {
    let said = |speed: Speed| format!("{:.1} ms", speed.p95_ms);
    row(
        &format!("… p95 lower: {whose} / ours"),
        &said(ours),
        &said(theirs),
        theirs.p95_ms / ours.p95_ms,
        Some(target),
    );
}

/// Durable steps per second without HTTP: a change and its checkpoint in one commit, against what LangGraph writes in a step.
fn in_process(peers: &Peers, url: &str, temp: &Path, threads: usize) {
    let target = if threads == 1 { 1.5 } else { 3.0 };
    for (saver, location) in [
        (Saver::Sqlite, None),
        (Saver::Postgres, Some(Location::Postgres(url.to_owned()))),
    ] {
        let [mut ours, mut step, mut put] = [Speed::default(); 3];
        for turn in 0..TURNS {
            let folder = temp.join(format!("process-{threads}-{turn}"));
            std::fs::create_dir_all(&folder).unwrap();
            let file = Location::Folder(folder.join(".flightline"));
            let location = location.as_ref().unwrap_or(&file);
            ours = ours.best(library::write(location, threads, TURN));
            let of = (10, threads);
            step = step.best(peers.write(saver, Step::WritesAndPut, of, TURN));
            put = put.best(peers.write(saver, Step::Put, of, TURN));
        }
        let what =
            format!("steps/s in process, 10 KB, {threads} threads, against {saver:?}Saver's");
        let asked = matches!(saver, Saver::Sqlite).then_some(target);
        compared(&format!("{what} `put_writes` + `put`"), ours, step, asked);
        compared(&format!("{what} `put`"), ours, put, None);
    }
}

/// Durable checkpoints per second.
fn writing(peers: &Peers, url: &str, temp: &Path, (kilobytes, writers): (usize, usize)) {
    let many = writers == 32;
    for (saver, location, [pair, one]) in [
        (Saver::Sqlite, None, [2.0, 3.0]),
        (Saver::Postgres, Some(url), [1.3, 3.0]),
    ] {
        let of = (kilobytes, writers);
        let [mut two, mut single, mut put, mut step] = [Speed::default(); 4];
        let [mut served, mut served_step] = [Speed::default(); 2];
        let mut threads = String::new();
        for turn in 0..TURNS {
            let start = |name: &str| {
                let name = format!("{saver:?}-{kilobytes}-{writers}-{turn}-{name}");
                Server::start(&temp.join(name), location)
            };
            let server = start("two");
            let before = server.threads();
            let speed = ours::write(&server, Requests::Two, of, TURN);
            if speed.per_second > two.per_second {
                threads = by_thread(&before, &server, speed);
                two = speed;
            }
            drop(server);
            put = put.best(peers.write(saver, Step::Put, of, TURN));
            single = single.best(ours::write(&start("one"), Requests::One, of, TURN));
            if many {
                step = step.best(peers.write(saver, Step::WritesAndPut, of, TURN));
                served = served.best(peers.serve(saver, Step::Put, of, TURN));
                served_step = served_step.best(peers.serve(saver, Step::WritesAndPut, of, TURN));
            }
        }
        let engine = match saver {
            Saver::Sqlite => "SQLite",
            Saver::Postgres => "PostgreSQL",
        };
        let what = format!("{engine}, {kilobytes} KB, {writers} writers over HTTP");
        let target = |ratio| many.then_some(ratio);
        let theirs = format!("{saver:?}Saver's `put` in process");
        compared(
            &format!("update + checkpoint /s on {what}, against {theirs}"),
            two,
            put,
            target(pair),
        );
        if many {
            compared_p95(&theirs, two, put, 2.0);
        }
        compared(
            &format!("… both in one request, against {theirs}"),
            single,
            put,
            target(one),
        );
        if many {
            compared(
                "… two requests, against its `put_writes` + `put` in process",
                two,
                step,
                None,
            );
            compared(
                "… two requests, against its `put` behind HTTP",
                two,
                served,
                Some(5.0),
            );
            compared(
                "… both in one request, against its `put_writes` + `put` in one request",
                single,
                served_step,
                None,
            );
            println!("| … processor time of a pair by thread | {threads} | | | | |");
        }
    }
    if many && kilobytes == 10 {
        let most = ours::ceiling(&Server::start(&temp.join("ceiling"), None), writers, TURN);
        println!(
            "| pairs/s of requests that ask nothing of the store, {writers} clients | {most:.0} | | | | |"
        );
    }
}

/// What each kind of thread of the server took for a step, in µs.
fn by_thread(before: &BTreeMap<String, f64>, server: &Server, speed: Speed) -> String {
    let steps = speed.per_second * TURN.as_secs_f64();
    let mut taken: Vec<(String, f64)> = server
        .threads()
        .into_iter()
        .map(|(name, us)| {
            let us = (us - before.get(&name).unwrap_or(&0.0)) / steps;
            (name, us)
        })
        .filter(|(_, us)| *us >= 1.0)
        .collect();
    taken.sort_by(|a, b| b.1.total_cmp(&a.1));
    let said: Vec<String> = taken
        .iter()
        .map(|(name, us)| format!("{name} {us:.0} µs"))
        .collect();
    said.join(", ")
}

/// As `writing`, where waiting for the disk takes as long as it does on most machines. Writers of SQLite wait in turn; what
/// waits with us is written together.
fn slow_disk(peers: &Peers, temp: &Path) {
    let slow = disk::Slow::build(temp, Duration::from_millis(5));
    for writers in [1, 32] {
        let of = (10, writers);
        let [mut two, mut single, mut put, mut step] = [Speed::default(); 4];
        for turn in 0..TURNS {
            let ours = |requests, name: &str| {
                let folder = temp.join(format!("slow-{writers}-{turn}-{name}"));
                let server = Server::start_on(&folder, None, Some(&slow));
                ours::write(&server, requests, of, TURN)
            };
            let theirs = |step| peers.on(&slow).write(Saver::Sqlite, step, of, TURN);
            two = two.best(ours(Requests::Two, "two"));
            put = put.best(theirs(Step::Put));
            single = single.best(ours(Requests::One, "one"));
            step = step.best(theirs(Step::WritesAndPut));
        }
        let what = format!(
            "update + checkpoint /s on SQLite, 10 KB, {writers} writers, every fsync 5 ms slower, against SqliteSaver's `put`"
        );
        let target = (writers == 32).then_some(7.0);
        compared(&what, two, put, target);
        compared("… against its `put_writes` + `put`", two, step, None);
        compared(
            "… both in one request, against its `put_writes` + `put`",
            single,
            step,
            None,
        );
    }
}

/// A step beside much that is idle, against a step alone.
fn growth(temp: &Path) {
    for (name, missions, agents) in [("missions", 1_000, 0), ("agents", 0, 1_000)] {
        let (mut alone, mut beside) = (f64::MAX, f64::MAX);
        for turn in 0..TURNS {
            let folder = |kind: &str| temp.join(format!("growth-{name}-{kind}-{turn}"));
            alone = alone.min(ours::beside(&folder("alone"), 0, 0, TURN).p50_ms);
            beside = beside.min(ours::beside(&folder("beside"), missions, agents, TURN).p50_ms);
        }
        let ratio = beside / alone;
        let verdict = if ratio <= 1.1 { "met" } else { "**missed**" };
        println!(
            "| update + checkpoint beside 1,000 idle {name}, against alone | {beside:.2} ms | {alone:.2} ms | {ratio:.2}× | ≤ 1.1× | {verdict} |"
        );
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
