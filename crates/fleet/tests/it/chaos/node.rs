//! Servers, each a process of its own in a folder of its own, on one project.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use flightline_testkit::program::ChildGuard;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use flightline_testkit::test_bed::{TestBed, answered};

/// How long a server may take until it listens, the database being there or coming back.
const PATIENCE: Duration = Duration::from_secs(60);

/// A project, and a place from which commands work on it.
pub struct Site {
    place: TestBed,
    /// Opens every server of it.
    pub token: String,
}

impl Site {
    /// A project with a mission in it, in a PostgreSQL.
    pub fn new(location: String) -> Self {
        Self::make(TestBed::temporary(), Some(location))
    }

    /// A project with a mission in it, in files of its own.
    pub fn here() -> Self {
        Self::make(TestBed::temporary(), None)
    }

    /// A project in a folder that the caller cleans up.
    pub fn below(folder: &Path) -> Self {
        Self::make(TestBed::at(&folder.join("repo")), None)
    }

    fn make(mut place: TestBed, location: Option<String>) -> Self {
        place.location = location;
        let mut site = Self {
            place,
            token: String::new(),
        };
        site.json(&["init"]);
        site.json(&["mission", "create", "Storm"]);
        let made = site.json(&["token", "create", "chaos", "--scope", "admin"]);
        site.token = made["token"].as_str().unwrap().to_owned();
        site
    }

    /// Runs a command beside the servers, straight on the database.
    pub fn run(&self, arguments: &[&str]) -> Output {
        self.place.fleet(arguments).output().unwrap()
    }

    /// The answer to a command that must succeed.
    pub fn json(&self, arguments: &[&str]) -> Value {
        answered(&mut self.place.fleet(arguments))
    }

    /// A server of this project that reaches the database at `location`.
    pub fn node(&self, name: &str, location: String) -> Node {
        let mut place = TestBed::at(&self.place.around().join(name));
        place.location = Some(location);
        fs::create_dir_all(place.state()).unwrap();
        let [from, to] = [&self.place, &place].map(|place| place.state().join("config.toml"));
        fs::copy(from, to).unwrap();
        answered(&mut place.fleet(&["trust", "-y"]));
        serve(&place)
    }

    /// A server in the folder that commands work from.
    pub fn own_node(&self) -> Node {
        serve(&self.place)
    }
}

fn serve(place: &TestBed) -> Node {
    let node = Node {
        command: Mutex::new(place.fleet(&["serve", "--addr", "127.0.0.1:0", "--json"])),
        log: place.repo().join("log"),
        running: Mutex::new(Running::default()),
    };
    let log = File::create(&node.log).unwrap();
    let mut command = node.command.lock().unwrap();
    command.stdout(Stdio::piped()).stderr(log);
    drop(command);
    node.start();
    node
}

/// A server. It ends with this value at the latest.
pub struct Node {
    command: Mutex<Command>,
    log: PathBuf,
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    child: Option<ChildGuard>,
    url: String,
}

impl Node {
    /// Where it is, or was last.
    pub fn url(&self) -> String {
        self.running.lock().unwrap().url.clone()
    }

    /// Starts it, as an operator does: again and again until it stays.
    pub fn start(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut child = ChildGuard::spawn(&mut self.command.lock().unwrap());
            let mut line = String::new();
            let mut said = BufReader::new(child.stdout.take().unwrap());
            let _ = said.read_line(&mut line);
            let url = serde_json::from_str::<Value>(&line)
                .ok()
                .and_then(|ready| ready["url"].as_str().map(str::to_owned));
            let Some(url) = url else {
                // It could not reach the database, and said so.
                drop(child);
                assert!(Instant::now() < deadline, "no server: {}", self.said());
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            let mut running = self.running.lock().unwrap();
            running.child = Some(child);
            running.url = url;
            return;
        }
    }

    /// Kills it, however busy it is.
    pub fn kill(&self) {
        drop(self.running.lock().unwrap().child.take());
    }

    /// Sends it a signal. It has not been waited for, so its id is still its own.
    pub fn send(&self, signal: Signal) {
        if let Some(child) = &self.running.lock().unwrap().child {
            kill_process(Pid::from_child(child), signal).unwrap();
        }
    }

    /// Whether it still runs.
    pub fn is_alive(&self) -> bool {
        let mut running = self.running.lock().unwrap();
        let child = running.child.as_mut();
        child.is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// What it said on stderr, in all its lives.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }
}
