//! What checkpoints and recovery cost, inside the process, on a real disk. Prints a table; judges by ratios
//! within one run, because machines are noisy.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark makes files, reports on stdout and stops at trouble"
)]

#[path = "checkpoints/counters.rs"]
mod counters;
mod measure;
#[path = "measure/table.rs"]
mod table;
#[path = "measure/work.rs"]
mod work;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flightline::checkpoint::backups::settle;
use flightline::checkpoint::inspect::{ListCheckpoints, ShowCheckpoint};
use flightline::checkpoint::take::TakeCheckpoint;
use flightline::checkpoint::trigger::RecordFailure;
use flightline::core::checkpoint::Reason;
use flightline::core::event::EventType;
use flightline::core::policy::Policy;
use flightline::core::sortie::Sortie;
use flightline::core::text::NoteText;
use flightline::core::{MissionId, Title};
use flightline::event::ListEvents;
use flightline::mission::{CreateMission, ListMissions};
use flightline::recovery::resume::Resume;
use flightline::replay::{PageStart, Replay};
use flightline::sortie::add::NewSortie;
use flightline::store::{Actor, Find, Location, OpenOptions, Store};
use flightline::{Caller, Fleet};
use flightline_testkit::repository::TestRepository;
use measure::{ms, once, p, time};
use table::report;

fn main() {
    // `cargo test` builds and runs benchmarks too; only `cargo bench` asks for figures.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let temp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    counters::report(&temp.path().join("counters"));
    if std::env::args().any(|argument| argument == "counters") {
        return;
    }
    println!();
    println!("| what | p50 | p95 | p99 | against |");
    println!("|---|---|---|---|---|");
    for sorties in [100, 1_000, 10_000] {
        creation(&temp.path().join(format!("creation-{sorties}")), sorties);
        remembered(&temp.path().join(format!("remembered-{sorties}")), sorties);
    }
    bytes(&temp.path().join("bytes"));
    recovery(&temp.path().join("recovery"));
    work_tree(&temp.path().join("tree"));
}

/// What it costs to look at a repository of 1,000 files, ten of them changed: after the checkpoint was taken.
fn work_tree(folder: &Path) {
    let mut ground = Ground::new(folder, 100);
    let files: Vec<(String, String)> = (0..1_000)
        .map(|n| (format!("src/{}/{n}.rs", n % 20), format!("// file {n}\n")))
        .collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (&**a, &**b)).collect();
    let repository = TestRepository::new(folder, &files);
    for n in 0..10 {
        repository.write(&format!("src/{n}/{n}.rs"), "// changed\n");
    }
    let both = |ground: &mut Ground| {
        time(30, || {
            ground.change();
            ground.checkpoint();
            settle(&mut ground.fleet, &ground.state, &caller()).unwrap();
        })
    };
    let without = both(&mut ground);
    let mut ground = Ground {
        fleet: ground.fleet.in_tree(repository.tree()),
        ..ground
    };
    let with = both(&mut ground);
    report("checkpoint and file, 100 sorties", &without, "no work tree");
    report(
        "checkpoint, work tree of 1,000 files, and file",
        &with,
        &format!("{} more", ms(p(&with, 50).saturating_sub(p(&without, 50)))),
    );
}

/// A store of its own with one mission.
struct Ground {
    state: PathBuf,
    fleet: Fleet,
    mission: MissionId,
    sorties: Vec<Sortie>,
    /// Makes every change another one.
    turn: u64,
}

fn caller() -> Caller {
    Caller {
        user: "bench".to_owned(),
        ..Caller::default()
    }
}

/// Work is somebody's: what Flightline does by itself does not count as activity.
fn somebody() -> Actor {
    Actor {
        name: "user:bench".to_owned(),
        epoch: None,
    }
}

impl Ground {
    fn new(folder: &Path, sorties: usize) -> Self {
        let state = folder.join(".flightline");
        std::fs::create_dir_all(folder).unwrap();
        let store = Store::create(
            &Location::Folder(state.clone()),
            "prj",
            "bench",
            OpenOptions::default(),
        );
        let mut fleet = Fleet::new(store.unwrap(), Policy::default());
        let title = |text: String| Title::parse("title", &text).unwrap();
        let create = CreateMission {
            title: title("Measured".to_owned()),
            objective: None,
            phase: None,
            stack_id: None,
            sprint: None,
            dispatch: None,
            states: [].into(),
            sorties: (0..sorties)
                .map(|n| NewSortie::titled(title(format!("Sortie number {n} of the mission"))))
                .collect(),
        };
        let mission = fleet.run(&create, &caller()).unwrap().mission.id;
        let sorties = fleet
            .store()
            .expect("a store")
            .read(|tx| tx.find::<Sortie>(Find::Mission(mission)))
            .unwrap();
        Self {
            state,
            fleet,
            mission,
            sorties,
            turn: 0,
        }
    }

    /// Changes one sortie, durably.
    fn change(&mut self) {
        self.turn += 1;
        let at = usize::try_from(self.turn).unwrap() % self.sorties.len();
        let sortie = &mut self.sorties[at];
        let note = format!("progress number {}", self.turn);
        sortie.progress_notes = Some(NoteText::parse("note", &note).unwrap());
        let sortie = sortie.clone();
        self.fleet
            .store()
            .expect("a store")
            .write(|tx| {
                tx.act_as(somebody());
                tx.set(
                    EventType::SortieProgress,
                    &sortie,
                    &serde_json::json!({ "note": note }),
                )
            })
            .unwrap();
    }

    fn checkpoint(&mut self) {
        let take = TakeCheckpoint {
            mission: None,
            reason: Some(Reason::Manual),
            details: None,
            note: None,
        };
        self.fleet.run(&take, &caller()).unwrap();
    }

    fn bytes(&self) -> u64 {
        let files = ["flightline.db", "flightline.db-wal"];
        let sizes =
            files.map(|name| std::fs::metadata(self.state.join(name)).map_or(0, |it| it.len()));
        sizes.iter().sum()
    }

    fn backup_bytes(&self) -> u64 {
        let folder = self
            .state
            .join("checkpoints")
            .join(self.mission.to_string());
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
        files
            .filter(|file| file.file_name().to_string_lossy().starts_with("chk-"))
            .map(|file| file.metadata().unwrap().len())
            .sum()
    }
}

/// A checkpoint by the size of the mission in a process that remembers, as a server's writer does: with its whole document as the
/// answer, and as the trigger of another act takes it.
fn remembered(folder: &Path, sorties: usize) {
    let mut ground = Ground::new(folder, sorties);
    let options = OpenOptions {
        remember: Arc::new(true.into()),
        ..OpenOptions::default()
    };
    let store = Store::open(&Location::Folder(ground.state.clone()), "prj", options);
    ground.fleet = Fleet::new(store.unwrap(), Policy::default());
    for _ in 0..3 {
        ground.change();
        ground.checkpoint();
    }
    let (mut whole, mut triggered) = (Vec::new(), Vec::new());
    for number in 0..100 {
        ground.change();
        whole.push(once(|| ground.checkpoint()));
        ground.change();
        let failure = RecordFailure {
            mission: Some(ground.mission.to_string()),
            reason: Reason::ApiError,
            details: NoteText::parse("details", &format!("call {number} failed")).unwrap(),
            failure: None,
        };
        triggered.push(once(|| {
            ground.fleet.run(&failure, &caller()).unwrap();
        }));
    }
    whole.sort();
    triggered.sort();
    report(
        &format!("a checkpoint in a process that remembers, {sorties} sorties"),
        &whole,
        "with its whole document",
    );
    report(
        &format!("one that a trigger takes there, {sorties} sorties"),
        &triggered,
        "without; target: 10,000 sorties at most twice 100",
    );
}

/// Taking a checkpoint, and writing its file, by the size of the mission.
fn creation(folder: &Path, sorties: usize) {
    let mut ground = Ground::new(folder, sorties);
    let rounds = if sorties > 1_000 { 30 } else { 100 };
    let (mut floor, mut taken, mut written) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..=rounds {
        floor.push(once(|| ground.change()));
        taken.push(once(|| ground.checkpoint()));
        let state = ground.state.clone();
        written.push(once(|| {
            settle(&mut ground.fleet, &state, &caller()).unwrap()
        }));
    }
    let [floor, taken, written] = [floor, taken, written].map(|mut times| {
        // The first one of each warms up.
        times.remove(0);
        times.sort();
        times
    });
    report(
        &format!("one durable change, {sorties} sorties"),
        &floor,
        "what a checkpoint is compared with",
    );
    let share = p(&floor, 50).as_secs_f64() / p(&taken, 50).as_secs_f64() * 100.0;
    let target = if sorties == 100 {
        "; target: p95 under 25 ms"
    } else {
        ""
    };
    report(
        &format!("a checkpoint, acknowledged, {sorties} sorties"),
        &taken,
        &format!("the durable write is {share:.0} % of it{target}"),
    );
    report(
        &format!("its backup file and the record of it, {sorties} sorties"),
        &written,
        &format!(
            "{} kB a file; target: p95 under 200 ms",
            ground.backup_bytes() / (rounds as u64 + 1) / 1_000
        ),
    );
}

/// What a history of 1,000 checkpoints takes, with one of 100 sorties changed between them.
fn bytes(folder: &Path) {
    const HISTORY: u64 = 1_000;
    let measured = |checkpoints: bool| {
        let mut ground = Ground::new(&folder.join(format!("{checkpoints}")), 100);
        let before = ground.bytes();
        for _ in 0..HISTORY {
            ground.change();
            if checkpoints {
                ground.checkpoint();
                let state = ground.state.clone();
                settle(&mut ground.fleet, &state, &caller()).unwrap();
            }
        }
        let files = ground.backup_bytes();
        let state = ground.state.clone();
        // The log is folded into the file when the store closes.
        drop(ground);
        let store = Store::open(
            &Location::Folder(state.clone()),
            "prj",
            OpenOptions::default(),
        );
        drop(store.unwrap());
        let sum: u64 = ["flightline.db", "flightline.db-wal"]
            .iter()
            .map(|name| std::fs::metadata(state.join(name)).map_or(0, |it| it.len()))
            .sum();
        (sum - before.min(sum), files)
    };
    let (alone, _) = measured(false);
    let (with, files) = measured(true);
    println!(
        "| bytes in the store per checkpoint, 1,000 of 100 sorties, one changed between | {} | | | the change itself: {}; target: 4,000; a whole copy (the file): {} |",
        (with - alone) / HISTORY,
        alone / HISTORY,
        files / HISTORY
    );
}

/// 1,000 sorties and 50,000 events: resuming, going back, listing, and seed A's queries.
fn recovery(folder: &Path) {
    let mut ground = Ground::new(folder, 1_000);
    for _ in 0..48 {
        let sorties = ground.sorties.clone();
        ground
            .fleet
            .store()
            .expect("a store")
            .write(|tx| {
                tx.act_as(somebody());
                for sortie in &sorties {
                    tx.set(
                        EventType::SortieProgress,
                        sortie,
                        &serde_json::json!({ "note": "measured" }),
                    )?;
                }
                Ok::<_, flightline::store::StoreError>(())
            })
            .unwrap();
        ground.change();
        ground.checkpoint();
    }
    for _ in 0..60 {
        ground.change();
        ground.checkpoint();
    }
    let forwards = Resume::default();
    let rolled = time(30, || {
        ground.change();
        ground.fleet.run(&forwards, &caller()).unwrap();
    });
    report(
        "resume (roll forward), 1,000 sorties, 50,000 events",
        &rolled,
        "with one change before it; target: p95 under 100 ms",
    );
    let back = Resume {
        checkpoint: Some("@latest~40".to_owned()),
        force: true,
        ..forwards
    };
    let rewound = time(30, || {
        ground.change();
        ground.fleet.run(&back, &caller()).unwrap();
    });
    report(
        "resume --checkpoint (rewind 40 checkpoints), the same store",
        &rewound,
        "with one change before it; target: p95 under 100 ms",
    );
    let list = ListCheckpoints {
        mission: None,
        archived: false,
        limit: 100,
    };
    let listed = time(100, || {
        let found = ground.fleet.run(&list, &caller()).unwrap();
        assert_eq!(found.checkpoints.len(), 100);
    });
    report(
        "list of 100 checkpoints, the same store",
        &listed,
        "target: under 1 ms",
    );
    let show = ShowCheckpoint {
        checkpoint: "@latest".to_owned(),
    };
    let shown = time(30, || {
        ground.fleet.run(&show, &caller()).unwrap();
    });
    report(
        "one checkpoint in full, the same store",
        &shown,
        "target: under 50 ms",
    );
    let missions = time(30, || {
        ground
            .fleet
            .run(
                &ListMissions {
                    archived: false,
                    limit: 100,
                },
                &caller(),
            )
            .unwrap();
    });
    report(
        "missions by status, the same store",
        &missions,
        "target: under 50 ms",
    );
    let events = time(30, || {
        ground
            .fleet
            .run(
                &ListEvents {
                    limit: 50,
                    ..ListEvents::default()
                },
                &caller(),
            )
            .unwrap();
    });
    report(
        "the newest events of a mission, the same store",
        &events,
        "target: under 50 ms",
    );
    for place in [PageStart::First, PageStart::Last] {
        let name = format!("a page of a replay ({place:?}), the same store").to_lowercase();
        let replay = Replay {
            place,
            limit: 200,
            ..Replay::default()
        };
        let page = time(30, || {
            let found = ground.fleet.run(&replay, &caller()).unwrap();
            assert!(!found.steps.is_empty());
        });
        report(
            &name,
            &page,
            "1,000 events in its first step; target: under 50 ms",
        );
    }
    println!(
        "\nslowest of seed A's queries (p95): {}",
        ms(p(&shown, 95)
            .max(p(&missions, 95))
            .max(p(&events, 95))
            .max(p(&listed, 95)))
    );
}
