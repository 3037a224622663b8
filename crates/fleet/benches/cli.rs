//! What a command costs: the real binary, built for release, on a real disk. Prints a table; judges
//! by ratios within one run, because machines are noisy.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark makes files, reports on stdout and stops at trouble"
)]

mod measure;
#[path = "measure/table.rs"]
mod table;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use flightline::core::event::EventType;
use flightline::core::policy::Policy;
use flightline::core::sortie::Sortie;
use flightline::core::{Kind, MissionId, Title};
use flightline::mission::CreateMission;
use flightline::sortie::add::NewSortie;
use flightline::store::{Find, Location, OpenOptions, Store};
use flightline::{Caller, Fleet};
use measure::{ms, once, p, time};
use serde_json::{Value, json};
use table::report;

const FLEET: &str = env!("CARGO_BIN_EXE_fleet");
const SORTIES: usize = 1_000;
const EVENTS: u64 = 50_000;
/// A durable write.
const NOTE: [&str; 3] = ["note", "lesson", "measured"];

fn main() {
    // `cargo test` builds and runs benchmarks too; only `cargo bench` asks for figures.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let temp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    println!("| what | p50 | p95 | p99 | against |");
    println!("|---|---|---|---|---|");
    let floor = time(200, || spawn(Command::new("/bin/true")));
    report("spawn of /bin/true (the floor)", &floor, "");

    above("`fleet --version`", Some(1.0), || {
        spawn(fleet(temp.path(), &["--version"]));
    });
    let small = temp.path().join("small");
    create(&small);
    let write = above("one durable write (`fleet note`)", Some(3.5), || {
        spawn(fleet(&small, &NOTE));
    });
    above("`fleet heartbeat`", Some(2.0), || {
        spawn(fleet(&small, &["heartbeat", "--agent", "ada"]));
    });
    missions(temp.path());
    mirrored(&temp.path().join("mirrored"));
    match Command::new("node").args(["-e", "0"]).output() {
        Ok(_) => {
            let node = time(30, || {
                let mut command = Command::new("node");
                command.args(["-e", "0"]);
                spawn(command);
            });
            let times = p(&node, 50).as_secs_f64() / p(&write, 50).as_secs_f64();
            report(
                "`node -e 0`",
                &node,
                &format!("{times:.1} × one durable write; target: 10 ×"),
            );
        }
        Err(_) => println!("| `node -e 0` | not installed | | | |"),
    }
    hooks(&temp.path().join("hooked"));
    many(&small, &floor);
    large(&temp.path().join("large"), &floor);
    let size = std::fs::metadata(FLEET).unwrap().len();
    println!("\nrelease binary: {:.1} MiB", size as f64 / 1_048_576.0);
}

/// A row about a command that may take so many ms more than a process that does nothing. The two take turns.
fn above(what: &str, target: Option<f64>, mut act: impl FnMut()) -> Vec<Duration> {
    let (mut floor, mut times) = (Vec::new(), Vec::new());
    act();
    for _ in 0..200 {
        floor.push(once(|| spawn(Command::new("/bin/true"))));
        times.push(once(&mut act));
    }
    floor.sort();
    times.sort();
    let over = p(&times, 50).saturating_sub(p(&floor, 50));
    let target = target.map_or(String::new(), |target| {
        let over = over.as_secs_f64() * 1000.0;
        format!("; target: floor + {target} ms, {}", judged(over, target))
    });
    report(what, &times, &format!("floor + {}{target}", ms(over)));
    times
}

/// How far a figure is from the most that it may be.
fn judged(figure: f64, most: f64) -> String {
    let share = figure / most;
    match share <= 1.0 {
        true => format!("met: {share:.2} of it"),
        false => format!("**missed**: {share:.2} times that"),
    }
}

/// `fleet status` beside few missions and beside many.
fn missions(temp: &Path) {
    let status = [2, 1_000].map(|count| {
        let folder = temp.join(format!("missions-{count}"));
        create(&folder);
        let mut fleet_here = open(&folder);
        for number in 1..count {
            make_mission(&mut fleet_here, &format!("Mission {number}"), 1);
        }
        above(&format!("`fleet status`, {count} missions"), None, || {
            spawn(fleet(&folder, &["status"]));
        })
    });
    let [few, many] = status.map(|times| p(&times, 50).as_secs_f64());
    println!(
        "| … 1,000 missions against two | {:.2} × | | | target: 2 ×, {} |",
        many / few,
        judged(many / few, 2.0)
    );
}

/// What keeping another system's file costs, with ten agents that have one.
fn mirrored(folder: &Path) {
    create(folder);
    for agent in 0..10 {
        let name = format!("Secondary-{agent}");
        spawn(fleet(folder, &["agents", "register", &name]));
    }
    let update = ["agents", "update", "--agent", "Secondary-1", "--step", "x"];
    let plain = time(100, || spawn(fleet(folder, &update)));
    spawn(fleet(folder, &["config", "set", "mirrors.epic", "true"]));
    spawn(fleet(folder, &update));
    let mirrored = time(100, || spawn(fleet(folder, &update)));
    report("`fleet agents update`", &plain, "");
    let over = p(&mirrored, 50).saturating_sub(p(&plain, 50));
    report(
        "the same, with its file, its backup and its shadow",
        &mirrored,
        &format!("+ {}; seed C allows 2,000 ms a heartbeat", ms(over)),
    );
}

/// What the hooks of a coding agent cost it at every tool that it uses.
fn hooks(folder: &Path) {
    create(folder);
    let session = Session::new(folder, "measured");
    session.tell("SessionStart", &json!({ "source": "startup" }));
    session.tell("UserPromptSubmit", &json!({ "prompt": "Measure it" }));
    let edit = json!({
        "tool_name": "Edit", "tool_use_id": "toolu_1", "tool_response": { "filePath": folder.join("src/lib.rs") },
        "tool_input": { "file_path": folder.join("src/lib.rs"), "old_string": "one", "new_string": "two" },
    });
    for (event, what, target) in [
        (
            "PreToolUse",
            "hook before an edit (`fleet hook claude PreToolUse`), which checks its lock",
            2.0,
        ),
        (
            "PostToolUse",
            "hook after an edit (`fleet hook claude PostToolUse`), 1 MiB of transcript",
            3.5,
        ),
    ] {
        above(what, Some(target), || session.tell(event, &edit));
    }
}

/// A session of a coding agent's client, which tells of its events.
struct Session {
    folder: PathBuf,
    name: String,
    transcript: PathBuf,
}

impl Session {
    fn new(folder: &Path, name: &str) -> Self {
        let transcript = folder.join("transcript.jsonl");
        let asked =
            json!({ "type": "user", "message": { "role": "user", "content": "x".repeat(1_800) } });
        let answered = json!({
            "type": "assistant",
            "message": { "model": "claude", "usage": { "input_tokens": 9, "cache_read_input_tokens": 48_000 } },
        });
        std::fs::write(&transcript, format!("{asked}\n{answered}\n").repeat(512)).unwrap();
        Self {
            folder: folder.to_path_buf(),
            name: name.to_owned(),
            transcript,
        }
    }

    fn tell(&self, event: &str, more: &Value) {
        let mut said = json!({
            "session_id": self.name, "transcript_path": self.transcript, "cwd": self.folder,
            "permission_mode": "default", "hook_event_name": event,
        });
        for (key, value) in more.as_object().unwrap() {
            said[key] = value.clone();
        }
        let mut command = fleet(&self.folder, &["hook", "claude", event]);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(said.to_string().as_bytes()).unwrap();
        drop(stdin);
        assert!(child.wait().unwrap().success(), "{event} failed");
    }
}

/// The processor time of all children that have ended, in seconds. The kernel says it in hundredths.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // The name of the program, in brackets, may have spaces in it.
    let after_name = stat.rsplit_once(')').unwrap().1;
    let ticks = after_name.split_whitespace().skip(13).take(2);
    ticks.map(|it| it.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

/// 32 processes at once, each one durable write, in ten rounds.
fn many(folder: &Path, floor: &[Duration]) {
    let before = processor_time();
    let alone = time(199, || spawn(fleet(folder, &NOTE)));
    let of_one = (processor_time() - before) / (alone.len() + 1) as f64;
    let mut all = Vec::new();
    let mut failed = 0;
    for _ in 0..10 {
        let began = Instant::now();
        let threads: Vec<_> = (0..32)
            .map(|_| {
                let folder = folder.to_path_buf();
                std::thread::spawn(move || {
                    let done = fleet(&folder, &NOTE).status().unwrap();
                    (began.elapsed(), done.success())
                })
            })
            .collect();
        for thread in threads {
            let (took, done) = thread.join().unwrap();
            all.push(took);
            failed += u32::from(!done);
        }
    }
    all.sort();
    let cores = std::thread::available_parallelism().unwrap();
    let most = 1.5 * 32.0 * of_one / cores.get() as f64;
    report(
        "32 writers at once, from start to answer",
        &all,
        &format!(
            "{failed} failed; processor time of one: {:.2} ms; target: p99 at most {:.0} ms, 1.5 × 32 × that by {cores} cores, {}",
            of_one * 1000.0,
            most * 1000.0,
            judged(p(&all, 99).as_secs_f64(), most)
        ),
    );
    let alone = time(1, || {
        let threads: Vec<_> = (0..32)
            .map(|_| std::thread::spawn(|| spawn(Command::new("/bin/true"))))
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
    report(
        "32 × /bin/true at once",
        &alone,
        &format!("one alone: {}", ms(p(floor, 50))),
    );
}

/// 1,000 sorties and 50,000 events.
fn large(folder: &Path, floor: &[Duration]) {
    create(folder);
    let mut fleet_here = open(folder);
    let mission = make_mission(&mut fleet_here, "Large", SORTIES);
    let store = fleet_here.store().expect("a store");
    let sorties = store
        .read(|tx| tx.find::<Sortie>(Find::Mission(mission)))
        .unwrap();
    let mut left = EVENTS - SORTIES as u64 - 1;
    while left > 0 {
        let batch = left.min(1_000);
        store
            .write(|tx| {
                for at in 0..batch {
                    let index = usize::try_from(left * 7 + at).unwrap() % sorties.len();
                    tx.set(
                        EventType::SortieProgress,
                        &sorties[index],
                        &json!({ "note": "measured" }),
                    )?;
                }
                Ok::<_, flightline::store::StoreError>(())
            })
            .unwrap();
        left -= batch;
    }
    let over = |times: &[Duration]| {
        format!(
            "floor + {}; target: 30 ms",
            ms(p(times, 50).saturating_sub(p(floor, 50)))
        )
    };
    let status = time(50, || spawn(fleet(folder, &["status"])));
    report(
        "`fleet status`, 1,000 sorties, 50,000 events",
        &status,
        &over(&status),
    );
    let list = time(50, || spawn(fleet(folder, &["sorties", "list"])));
    report("`fleet sorties list`, the same store", &list, &over(&list));
    let store = fleet_here.store().expect("a store");
    let rev = store
        .read(|tx| Ok::<_, flightline::store::StoreError>(tx.rev()))
        .unwrap();
    let state = time(30, || {
        let found = store
            .read(|tx| tx.state_at(rev / 2, Some(mission)))
            .unwrap();
        assert!(
            found
                .iter()
                .filter(|value| value.kind == Kind::Sortie)
                .count()
                == SORTIES
        );
    });
    report(
        "state at revision 25,000, inside the process",
        &state,
        "target: tens of ms",
    );
    let (mut session, mut number) = (Session::new(folder, "measured"), 0);
    let started = time(30, || {
        number += 1;
        session.name = format!("session {number}");
        session.tell("SessionStart", &json!({ "source": "startup" }));
    });
    report(
        "hook at the start of a session, the same store",
        &started,
        "target: under 50 ms",
    );
}

fn create(folder: &Path) {
    // A repository of its own: the store must not land in the one we are measured from.
    std::fs::create_dir_all(folder.join(".git")).unwrap();
    spawn(fleet(folder, &["init"]));
    spawn(fleet(
        folder,
        &[
            "mission", "create", "Measure", "--sortie", "One", "--agent", "ada",
        ],
    ));
}

fn make_mission(fleet: &mut Fleet, name: &str, sorties: usize) -> MissionId {
    let caller = Caller {
        user: "bench".to_owned(),
        ..Caller::default()
    };
    let title = |text: &str| Title::parse("title", text).unwrap();
    let create = CreateMission {
        title: title(name),
        objective: None,
        phase: None,
        stack_id: None,
        sprint: None,
        dispatch: None,
        states: [].into(),
        sorties: (0..sorties)
            .map(|n| NewSortie::titled(title(&format!("Sortie {n}"))))
            .collect(),
    };
    fleet.run(&create, &caller).unwrap().mission.id
}

fn open(folder: &Path) -> Fleet {
    let state: PathBuf = folder.join(".flightline");
    let config = std::fs::read_to_string(state.join("config.toml")).unwrap();
    let project = config
        .lines()
        .find_map(|line| line.strip_prefix("project = "))
        .unwrap()
        .trim_matches('"')
        .to_owned();
    let store = Store::open(&Location::Folder(state), &project, OpenOptions::default()).unwrap();
    Fleet::new(store, Policy::default())
}

fn fleet(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(FLEET);
    command
        .env_clear()
        .env("HOME", folder)
        .current_dir(folder)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn spawn(mut command: Command) {
    assert!(
        command.stdout(Stdio::null()).status().unwrap().success(),
        "{command:?} failed"
    );
}
