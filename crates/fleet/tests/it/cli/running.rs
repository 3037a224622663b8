//! A command on its way: what it is given, how it runs, and what came of it.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use flightline_testkit::program::{self, ChildGuard};
use serde_json::Value;

use crate::cli::world::World;

/// How long a command may take before the test gives it up. Far more than any needs.
const DEADLINE: Duration = Duration::from_secs(60);

/// A command that is about to run.
pub struct Fleet<'w> {
    pub world: &'w World,
    pub command: Command,
    pub input: Option<Vec<u8>>,
}

impl<'w> Fleet<'w> {
    /// Acts as this agent.
    pub fn agent(self, name: &str) -> Self {
        self.env("FLEET_AGENT", name)
    }

    /// Sees this variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Does not see this variable.
    pub fn without(mut self, name: &str) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Reads this from stdin.
    pub fn stdin(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = Some(input.into());
        self
    }

    /// Writes its answer there.
    pub fn stdout(mut self, file: fs::File) -> Self {
        self.command.stdout(file);
        self
    }

    /// Runs below the repository.
    pub fn in_folder(mut self, below: &str) -> Self {
        let folder = self.world.repo().join(below);
        fs::create_dir_all(&folder).expect("a folder");
        self.command.current_dir(folder);
        self
    }

    /// Runs to its end.
    pub fn run(mut self) -> Ran {
        self.command.stdout(Stdio::piped());
        self.go()
    }

    /// Runs to its end, with stdout where it was put.
    pub fn go(self) -> Ran {
        self.start().wait()
    }

    /// Starts, and goes on by itself.
    pub fn start(mut self) -> Running<'w> {
        self.command
            .stdin(match &self.input {
                Some(_) => Stdio::piped(),
                None => Stdio::null(),
            })
            .stderr(Stdio::piped());
        let mut child = ChildGuard::spawn(&mut self.command);
        if let (Some(mut stdin), Some(input)) = (child.stdin.take(), self.input.take()) {
            // A command that refuses early does not read to the end: that is its right.
            std::thread::spawn(move || drop(stdin.write_all(&input)));
        }
        let (out, err) = (collect(child.stdout.take()), collect(child.stderr.take()));
        Running {
            world: self.world,
            child,
            out,
            err,
        }
    }

    /// Starts with its answer kept, and goes on by itself.
    pub fn spawn(mut self) -> Running<'w> {
        self.command.stdout(Stdio::piped());
        self.start()
    }
}

/// A command that is running. It ends with the test at the latest.
pub struct Running<'w> {
    world: &'w World,
    child: ChildGuard,
    out: Stream,
    err: Stream,
}

impl Running<'_> {
    /// Whether it has said this, on either stream.
    pub fn has_said(&self, what: &str) -> bool {
        [&self.out, &self.err].iter().any(|stream| {
            let said = stream.said.lock().expect("no test thread fails here");
            String::from_utf8_lossy(&said).contains(what)
        })
    }

    /// The user presses Ctrl-C.
    pub fn interrupt(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it is running");
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Ran {
        let deadline = Instant::now() + DEADLINE;
        let left = || deadline.saturating_duration_since(Instant::now());
        if [&self.out, &self.err]
            .iter()
            .any(|stream| stream.ended.recv_timeout(left()).is_err())
        {
            panic!("the command did not end in {DEADLINE:?}");
        }
        let status = self.child.wait().expect("an exit status");
        let text = |stream: &Stream| {
            let said = stream.said.lock().expect("no test thread fails here");
            self.world.anonymous(&String::from_utf8_lossy(&said))
        };
        Ran {
            stdout: text(&self.out),
            stderr: text(&self.err),
            code: status.code().unwrap_or(-1),
        }
    }
}

/// What came through a pipe so far, and word of its end.
struct Stream {
    said: Arc<Mutex<Vec<u8>>>,
    ended: mpsc::Receiver<()>,
}

fn collect(pipe: Option<impl Read + Send + 'static>) -> Stream {
    let said = Arc::new(Mutex::new(Vec::new()));
    let (end, ended) = mpsc::channel();
    let kept = Arc::clone(&said);
    std::thread::spawn(move || {
        let mut buffer = [0; 8192];
        if let Some(mut pipe) = pipe {
            while let Ok(count @ 1..) = pipe.read(&mut buffer) {
                kept.lock()
                    .expect("no test thread fails here")
                    .extend(&buffer[..count]);
            }
        }
        let _ = end.send(());
    });
    Stream { said, ended }
}

/// What came of a command.
#[derive(Debug, PartialEq, Eq)]
pub struct Ran {
    /// The answer.
    pub stdout: String,
    /// The talk.
    pub stderr: String,
    /// How it ended.
    pub code: i32,
}

impl Ran {
    /// Both streams and the exit code as one text; the code is left out when it is zero.
    pub fn text(&self) -> String {
        let mut text = self.stdout.clone();
        if !self.stderr.is_empty() {
            let _ = write!(text, "[stderr]\n{}", self.stderr);
        }
        if self.code != 0 {
            let _ = writeln!(text, "[exit {}]", self.code);
        }
        text
    }

    /// The answer as JSON: one document, on one line, and nothing else.
    pub fn json(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The code of the error that it ended with, under `--json`.
    pub fn error_code(&self) -> String {
        let error = &self.json()["error"];
        for field in ["message", "code"] {
            assert!(error[field].is_string(), "{self:?}");
        }
        assert!(error["retryable"].is_boolean(), "{self:?}");
        error["code"].as_str().expect("a code").to_owned()
    }

    /// Checks that it was refused in JSON, with this exit code.
    pub fn refused_in_json(&self, code: i32) {
        assert_eq!((self.code, self.stderr.as_str()), (code, ""), "{self:?}");
        self.error_code();
    }

    /// Checks the whole against a snapshot.
    pub fn expect(&self, expected: expect_test::Expect) {
        expected.assert_eq(&self.text());
    }

    /// Checks that it was refused: nothing on stdout, an error on stderr, this exit code.
    pub fn refused(&self, code: i32) -> &str {
        assert_eq!(self.code, code, "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        assert!(self.stderr.starts_with("error: "), "{self:?}");
        &self.stderr
    }
}

/// Waits until `done` holds, looking again and again; fails when that takes too long.
pub fn until(what: &str, done: impl FnMut() -> bool) {
    program::until(what, DEADLINE, done);
}
