//! Our server, as a process of its own.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::Speed;
use crate::disk::Slow;
use crate::http::Client;
use crate::measure::p;

/// A server that ends with this value.
pub struct Server {
    root: PathBuf,
    child: Child,
    pub url: String,
    pub token: String,
}

impl Server {
    /// In a folder of its own; its store there, or in a PostgreSQL.
    pub fn start(root: &Path, location: Option<&str>) -> Self {
        Self::start_on(root, location, None)
    }

    /// As `start`, on a slow disk.
    pub fn start_on(root: &Path, location: Option<&str>, slow: Option<&Slow>) -> Self {
        // There, and not at the root of the repository that we are built in.
        fs::create_dir_all(root.join(".flightline")).unwrap();
        let fleet = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_fleet"));
            command
                .current_dir(root)
                .env_clear()
                .env("PATH", "/usr/bin:/bin")
                .env("HOME", root)
                .env("USER", "bench")
                .args(arguments)
                .arg("--json")
                .stdin(Stdio::null())
                .stdout(Stdio::piped());
            if let Some(location) = location {
                command.env("FLEET_LOCATION", location);
            }
            if let Some(slow) = slow {
                slow.apply(&mut command);
            }
            command
        };
        let answer = |arguments: &[&str]| -> Value {
            let done = fleet(arguments).output().unwrap();
            let said = String::from_utf8_lossy(&done.stdout);
            assert!(done.status.success(), "{arguments:?}: {said}");
            serde_json::from_slice(&done.stdout).unwrap()
        };
        answer(&["init"]);
        let token = answer(&["token", "create", "bench", "--scope", "admin"]);
        let mut child = fleet(&["serve", "--addr", "127.0.0.1:0"]).spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        Self {
            root: root.to_path_buf(),
            child,
            url: ready["url"].as_str().unwrap().to_owned(),
            token: token["token"].as_str().unwrap().to_owned(),
        }
    }

    pub fn client(&self) -> Client {
        Client::new(&self.url, &self.token)
    }

    /// The processor time that each kind of its threads took so far, in µs.
    pub fn threads(&self) -> BTreeMap<String, f64> {
        let mut taken = BTreeMap::new();
        for thread in fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap() {
            let thread = thread.unwrap().path();
            // A thread may end while we look.
            let read = |name: &str| fs::read_to_string(thread.join(name)).unwrap_or_default();
            let name = read("comm")
                .trim()
                .trim_end_matches(|it: char| it.is_ascii_digit() || it == '-')
                .to_owned();
            let ns: f64 = read("schedstat")
                .split_whitespace()
                .next()
                .map_or(0.0, |it| it.parse().unwrap());
            *taken.entry(name).or_default() += ns / 1000.0;
        }
        taken
    }

    /// Its memory, in MB.
    pub fn resident(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        let kib: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib / 1024.0
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Text that is never the same and does not compress.
pub struct Words(pub u64);

impl Words {
    pub fn take(&mut self, length: usize) -> String {
        let mut text = String::with_capacity(length + 16);
        while text.len() < length {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.push_str(&format!("{:08x} ", self.0 >> 32));
        }
        text.truncate(length);
        text.trim().to_owned()
    }
}

/// How many sorties of a mission are being worked at; changes go round among them.
const AT_WORK: usize = 10;

/// A mission whose state is about so large, of which 1 % changes with each checkpoint.
struct Work {
    client: Client,
    mission: String,
    sorties: Vec<String>,
    words: Words,
    changed: usize,
    turn: usize,
}

impl Work {
    fn new(server: &Server, kilobytes: usize, number: usize) -> Self {
        let mut client = server.client();
        let mut words = Words(number as u64 + 1);
        // A sortie is about a kilobyte, of which a third is what we say about it ourselves.
        let sorties: Vec<Value> = (0..kilobytes)
            .map(|sortie| json!({ "title": format!("Sortie {sortie}"), "description": words.take(650) }))
            .collect();
        let body = json!({ "title": format!("Mission {number}"), "sorties": sorties });
        let made = client.json("POST", "/missions", &body);
        let mission = made["mission"]["id"].as_str().unwrap().to_owned();
        let listed = client.json(
            "POST",
            "/ops/list_sorties",
            &json!({ "mission": mission, "limit": kilobytes }),
        );
        let ids = listed.as_array().unwrap().iter();
        let sorties: Vec<String> = ids
            .map(|sortie| sortie["id"].as_str().unwrap().to_owned())
            .take(AT_WORK)
            .collect();
        let agent = format!("agent-{number}");
        client.json("POST", "/agents", &json!({ "name": agent }));
        client.agent = Some(agent);
        for sortie in &sorties {
            client.send("POST", &format!("/sorties/{sortie}/claim"), "");
        }
        Self {
            client,
            mission,
            sorties,
            words,
            changed: kilobytes * 1024 / 100,
            turn: 0,
        }
    }

    /// Changes 1 % of it, and takes a checkpoint.
    fn step(&mut self, requests: Requests) {
        self.turn += 1;
        let path = format!("/sorties/{}", self.sorties[self.turn % self.sorties.len()]);
        let note = self.words.take(self.changed);
        match requests {
            Requests::Two => {
                let body = json!({ "note": note }).to_string();
                self.client.send("PATCH", &path, &body);
                let body = json!({ "mission_id": self.mission }).to_string();
                self.client.send("POST", "/checkpoints", &body);
            }
            Requests::One => {
                let body = json!({ "note": note, "checkpoint": true }).to_string();
                self.client.send("PATCH", &path, &body);
            }
        }
    }
}

/// In how many requests a change and its checkpoint are asked for. Each is durable when it is answered.
#[derive(Clone, Copy)]
pub enum Requests {
    Two,
    One,
}

/// How many steps so many clients get done in a second, each in a mission of its own.
pub fn write(
    server: &Server,
    requests: Requests,
    (kilobytes, writers): (usize, usize),
    span: Duration,
) -> Speed {
    at_once(writers, span, |number| {
        let mut work = Work::new(server, kilobytes, number);
        move || work.step(requests)
    })
}

/// How often so many threads do in a second what each of them is given. The first time of each does not count.
pub fn at_once<Act: FnMut()>(
    threads: usize,
    span: Duration,
    begin: impl Fn(usize) -> Act + Sync,
) -> Speed {
    let barrier = Barrier::new(threads);
    let mut times: Vec<Duration> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|number| {
                let (barrier, begin) = (&barrier, &begin);
                scope.spawn(move || {
                    let mut act = begin(number);
                    act();
                    barrier.wait();
                    let (end, mut times) = (Instant::now() + span, Vec::new());
                    loop {
                        let began = Instant::now();
                        if began > end {
                            return times;
                        }
                        act();
                        times.push(began.elapsed());
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap())
            .collect()
    });
    times.sort();
    let at = |percent: usize| p(&times, percent).as_secs_f64() * 1000.0;
    Speed {
        per_second: times.len() as f64 / span.as_secs_f64(),
        p50_ms: at(50),
        p95_ms: at(95),
    }
}

/// How many pairs of requests that ask nothing of the store so many clients get answered in a second: more is not to be had
/// over HTTP on this machine. They show no token, because looking it up would ask the store.
pub fn ceiling(server: &Server, clients: usize, span: Duration) -> f64 {
    let speed = at_once(clients, span, |_| {
        let mut client = Client::new(&server.url, "");
        move || {
            client.root("GET", "/readyz", "");
        }
    });
    speed.per_second / 2.0
}

/// How long a step takes beside so many idle missions and agents, in ms.
pub fn beside(root: &Path, missions: usize, agents: usize, span: Duration) -> Speed {
    let server = Server::start(root, None);
    let mut client = server.client();
    for number in 0..missions {
        let body = json!({ "title": format!("Idle {number}"), "sorties": [{ "title": "Wait" }] });
        client.json("POST", "/missions", &body);
    }
    for number in 0..agents {
        client.json(
            "POST",
            "/agents",
            &json!({ "name": format!("idle-{number}") }),
        );
    }
    write(&server, Requests::Two, (10, 1), span)
}

/// How long a list of 100 checkpoints takes, in ms.
pub fn list(server: &Server) -> f64 {
    let mut work = Work::new(server, 100, 0);
    for _ in 0..120 {
        work.step(Requests::Two);
    }
    let path = format!("/checkpoints?mission_id={}&limit=100", work.mission);
    let mut times: Vec<f64> = (0..50)
        .map(|_| {
            let began = Instant::now();
            let answer = work.client.send("GET", &path, "");
            let took = began.elapsed().as_secs_f64() * 1000.0;
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            assert_eq!(answer["checkpoints"].as_array().unwrap().len(), 100);
            took
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Bytes per checkpoint.
pub struct Storage {
    /// In the store, the change included.
    pub store: f64,
    /// Of that the change.
    pub change: f64,
    /// In files beside it.
    pub files: f64,
}

/// What 200 checkpoints of 100 KB take, 1 % changed between them.
pub fn store(root: &Path) -> Storage {
    const HISTORY: usize = 200;
    let measured = |name: &str, checkpoints: bool| {
        let server = Server::start(&root.join(name), None);
        let mut work = Work::new(&server, 100, 0);
        work.step(Requests::Two);
        let before = bytes(&server);
        for _ in 0..HISTORY {
            if checkpoints {
                work.step(Requests::Two);
            } else {
                work.turn += 1;
                let sortie = &work.sorties[work.turn % work.sorties.len()];
                let note = json!({ "note": work.words.take(work.changed) }).to_string();
                work.client
                    .send("PATCH", &format!("/sorties/{sortie}"), &note);
            }
        }
        let (store, files) = bytes(&server);
        (
            (store - before.0) / HISTORY as f64,
            (files - before.1) / HISTORY as f64,
        )
    };
    let (change, _) = measured("changes", false);
    let (store, files) = measured("checkpoints", true);
    Storage {
        store,
        change,
        files,
    }
}

/// What the store takes, and the copies of checkpoints beside it, when all of it is on disk.
fn bytes(server: &Server) -> (f64, f64) {
    let state = server.root.join(".flightline");
    let copies = || {
        let folders = fs::read_dir(state.join("checkpoints"))
            .into_iter()
            .flatten()
            .flatten();
        let files =
            folders.flat_map(|folder| fs::read_dir(folder.path()).into_iter().flatten().flatten());
        files
            .map(|file| file.metadata().map_or(0, |it| it.len()))
            .sum::<u64>()
    };
    // Copies are written after the answer: wait until no more come.
    let mut files = copies();
    loop {
        std::thread::sleep(Duration::from_millis(700));
        let now = copies();
        if now == files {
            break;
        }
        files = now;
    }
    let database = state.join("flightline.db");
    let folded = Command::new("sqlite3")
        .args([
            database.as_os_str(),
            "PRAGMA wal_checkpoint(TRUNCATE)".as_ref(),
        ])
        .output()
        .unwrap();
    assert!(folded.status.success());
    (fs::metadata(database).unwrap().len() as f64, files as f64)
}

/// Makes so many missions, and looks at all of them.
pub fn missions(server: &Server, count: usize) {
    for number in 0..count {
        let _ = Work::new(server, 10, number);
    }
    let mut client = server.client();
    for _ in 0..3 {
        let listed = client.json("POST", "/ops/list_missions", &json!({ "limit": count }));
        assert_eq!(listed.as_array().unwrap().len(), count);
    }
}
