//! A folder of its own with a fleet in it, and the real binary to run there.

use std::fs;
use std::ops::Deref;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use flightline_testkit::program::{self, ChildGuard};
use flightline_testkit::{Engine, postgres_url};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use flightline_testkit::test_bed::TestBed;

/// When it is, in worlds whose clock stands still.
pub const NOON: &str = "2026-01-04T12:00:00Z";

/// The number of the signal that nobody survives.
pub const SIGKILL: i32 = 9;

/// A place whose fleet is on one engine.
pub struct World {
    place: TestBed,
    now: Option<String>,
}

impl Deref for World {
    type Target = TestBed;

    fn deref(&self) -> &TestBed {
        &self.place
    }
}

impl World {
    /// A folder where no fleet is yet.
    pub fn bare(engine: Engine) -> Self {
        let location = match engine {
            Engine::Sqlite => None,
            Engine::Postgres => Some(postgres_url()),
        };
        Self::of(TestBed::temporary(), location)
    }

    /// A world in a folder that the caller cleans up, with its store at `location`.
    pub fn at(root: &Path, location: Option<String>) -> Self {
        Self::of(TestBed::at(root), location)
    }

    fn of(mut place: TestBed, location: Option<String>) -> Self {
        place.location = location;
        fs::create_dir_all(place.home().join("tmp")).unwrap();
        Self { place, now: None }
    }

    /// A world with a fleet and a mission in it.
    pub fn new(engine: Engine) -> Self {
        let world = Self::bare(engine);
        world.begin();
        world
    }

    /// A world with a fleet and a mission in it, and a clock that stands still.
    pub fn timeless(engine: Engine) -> Self {
        let world = Self::timeless_bare(engine);
        world.begin();
        world
    }

    /// A folder where no fleet is yet and the clock stands still.
    pub fn timeless_bare(engine: Engine) -> Self {
        let mut world = Self::bare(engine);
        world.now = Some(NOON.to_owned());
        world
    }

    /// Makes the fleet and its first mission.
    pub fn begin(&self) {
        self.run(&["init"]).works();
        self.run(&["mission", "create", "First"]).works();
    }

    /// Lets the clock stand at a moment, or run.
    pub fn let_time_be(&mut self, now: Option<&str>) {
        self.now = now.map(str::to_owned);
    }

    /// A command that will run in this world, and see nothing of the one outside.
    pub fn run(&self, arguments: &[&str]) -> Run {
        let mut run = Run {
            command: self.sealed(env!("CARGO_BIN_EXE_fleet")),
        };
        run.command.args(arguments);
        run
    }

    /// Any program, in this world's folder and environment.
    pub fn sealed(&self, program: &str) -> Command {
        let mut command = self.place.sealed(program);
        command.env("TMPDIR", self.home().join("tmp"));
        if let Some(now) = &self.now {
            command.env("FLEET_TEST_NOW", now);
        }
        command
    }

    /// What a command that must work answers, as JSON.
    pub fn ask(&self, arguments: &[&str]) -> Value {
        self.run(arguments).json()
    }

    /// The doctor finds nothing wrong.
    pub fn is_well(&self) {
        let seen = self.run(&["doctor"]).ends();
        assert_eq!(seen.code(), Some(0), "the doctor: {seen}");
    }

    /// Begins another mission: the notes of the first are out of sight.
    pub fn start_over(&self) {
        self.run(&["mission", "create", "Again"]).works();
    }

    /// The id of the project.
    pub fn project(&self) -> String {
        let file = fs::read_to_string(self.state().join("config.toml")).unwrap();
        let line = file.lines().find(|line| line.starts_with("project = "));
        line.unwrap().split('"').nth(1).unwrap().to_owned()
    }
}

/// A command about to run.
pub struct Run {
    command: Command,
}

impl Run {
    pub fn env(mut self, name: &str, value: impl ToString) -> Self {
        self.command.env(name, value.to_string());
        self
    }

    /// Acts as an agent.
    pub fn by(self, agent: &str) -> Self {
        self.env("FLEET_AGENT", agent)
    }

    /// Happens once, however often it is asked for.
    pub fn once(mut self, key: &str) -> Self {
        self.command.args(["--idempotency-key", key]);
        self
    }

    /// Dies at this step that touches the store.
    pub fn dies_at(self, step: u64) -> Self {
        self.env("FLEET_CRASH_AT", step)
    }

    /// Runs it to its end.
    pub fn ends(mut self) -> Answer {
        Answer::new(self.command.output().unwrap())
    }

    /// Runs it to its end, which is a good one.
    pub fn works(self) -> Answer {
        let answer = self.ends();
        assert_eq!(answer.code(), Some(0), "{answer}");
        answer
    }

    /// Answers as JSON.
    pub fn in_json(mut self) -> Self {
        self.command.arg("--json");
        self
    }

    /// Runs it to its good end and reads its answer.
    pub fn json(self) -> Value {
        let answer = self.in_json().works();
        serde_json::from_str(&answer.out).unwrap()
    }

    /// Starts it.
    pub fn starts(mut self) -> Running {
        self.command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running {
            child: ChildGuard::spawn(&mut self.command),
        }
    }
}

/// How a command ended, and what it said.
pub struct Answer {
    status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Answer {
    pub fn new(output: Output) -> Self {
        Self {
            status: output.status,
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Its exit code, when it ended by itself.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Whether it was killed, by itself or by us.
    pub fn died(&self) -> bool {
        self.status.signal() == Some(SIGKILL)
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}\n{}{}", self.status, self.out, self.err)
    }
}

/// A command that runs. It ends with this value at the latest.
pub struct Running {
    child: ChildGuard,
}

impl Running {
    pub fn pid(&mut self) -> u32 {
        self.child.id()
    }

    pub fn is_over(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Sends a signal. The process has not been waited for, so its id is still its own.
    pub fn send(&mut self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// Waits until the process has stopped.
    pub fn has_stopped(&mut self) {
        let stat = format!("/proc/{}/stat", self.pid());
        until("the process stops", || {
            let text = fs::read_to_string(&stat).unwrap();
            let (_, rest) = text.rsplit_once(") ").unwrap();
            assert!(!rest.starts_with('Z'), "it ended instead");
            rest.starts_with('T')
        });
    }

    /// Waits for its end.
    pub fn ends(self) -> Answer {
        Answer::new(self.child.into_child().wait_with_output().unwrap())
    }
}

/// Waits until something is so.
pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    program::until(what, Duration::from_secs(20), is_so);
}
