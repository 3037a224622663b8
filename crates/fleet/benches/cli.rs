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
use flightline::core::{Kind, Title};
use flightline::mission::CreateMission;
use flightline::sortie::add::NewSortie;
use flightline::store::{Find, Location, OpenOptions, Store};
use flightline::{Caller, Fleet};
use measure::{ms, p, time};
use serde_json::{Value, json};
use table::report;

const FLEET: &str = env!("CARGO_BIN_EXE_fleet");
const SORTIES: usize = 1_000;
const EVENTS: u64 = 50_000;

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

    let small = temp.path().join("small");
    create(&small);
    let write = time(200, || {
        spawn(fleet(&small, &["note", "lesson", "measured"]))
    });
    let over = p(&write, 50).saturating_sub(p(&floor, 50));
    report(
        "one durable write (`fleet note`)",
        &write,
        &format!("floor + {}; target: floor + 6 ms", ms(over)),
    );
    let read = time(200, || spawn(fleet(&small, &["status"])));
    report(
        "`fleet status`, small store",
        &read,
        &format!("floor + {}", ms(p(&read, 50).saturating_sub(p(&floor, 50)))),
    );
    let beat = time(200, || {
        spawn(fleet(&small, &["heartbeat", "--agent", "ada"]))
    });
    report(
        "`fleet heartbeat`",
        &beat,
        &format!("floor + {}", ms(p(&beat, 50).saturating_sub(p(&floor, 50)))),
    );
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
    hooks(&temp.path().join("hooked"), &floor);
    many(&small, &floor);
    large(&temp.path().join("large"), &floor);
    let size = std::fs::metadata(FLEET).unwrap().len();
    println!("\nrelease binary: {:.1} MiB", size as f64 / 1_048_576.0);
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
fn hooks(folder: &Path, floor: &[Duration]) {
    create(folder);
    let session = Session::new(folder, "measured");
    session.tell("SessionStart", &json!({ "source": "startup" }));
    session.tell("UserPromptSubmit", &json!({ "prompt": "Measure it" }));
    let edit = json!({
        "tool_name": "Edit", "tool_use_id": "toolu_1", "tool_response": { "filePath": folder.join("src/lib.rs") },
        "tool_input": { "file_path": folder.join("src/lib.rs"), "old_string": "one", "new_string": "two" },
    });
    for (event, what) in [
        (
            "PreToolUse",
            "hook before an edit (`fleet hook claude PreToolUse`), with its lock",
        ),
        (
            "PostToolUse",
            "hook after an edit (`fleet hook claude PostToolUse`), 1 MiB of transcript",
        ),
    ] {
        let told = time(200, || session.tell(event, &edit));
        let over = p(&told, 50).saturating_sub(p(floor, 50));
        let against = format!("floor + {}; target: floor + 6 ms", ms(over));
        report(what, &told, &against);
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

/// 32 processes at once, each one durable write, in ten rounds.
fn many(folder: &Path, floor: &[Duration]) {
    let mut all = Vec::new();
    let mut failed = 0;
    for _ in 0..10 {
        let began = Instant::now();
        let threads: Vec<_> = (0..32)
            .map(|_| {
                let folder = folder.to_path_buf();
                std::thread::spawn(move || {
                    let done = fleet(&folder, &["note", "lesson", "one of many"])
                        .status()
                        .unwrap();
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
    report(
        "32 writers at once, from start to answer",
        &all,
        &format!("{failed} failed; target: p99 under 250 ms"),
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
    let caller = Caller {
        user: "bench".to_owned(),
        ..Caller::default()
    };
    let title = |text: String| Title::parse("title", &text).unwrap();
    let create = CreateMission {
        title: title("Large".to_owned()),
        objective: None,
        phase: None,
        stack_id: None,
        sprint: None,
        dispatch: None,
        states: [].into(),
        sorties: (0..SORTIES)
            .map(|n| NewSortie::titled(title(format!("Sortie {n}"))))
            .collect(),
    };
    let mission = fleet_here.run(&create, &caller).unwrap().mission;
    let store = fleet_here.store().expect("a store");
    let sorties = store
        .read(|tx| tx.find::<Sortie>(Find::Mission(mission.id)))
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
            .read(|tx| tx.state_at(rev / 2, Some(mission.id)))
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
