//! A fleet of its own, and `fleet serve` on it as a process.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use flightline_testkit::program::{ChildGuard, first_line, sealed};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::otel::collector::PATIENCE;

/// A folder with a fleet in it, and what opens its door.
pub struct World {
    folder: TempDir,
    token: String,
}

impl World {
    pub fn new() -> Self {
        let mut world = Self {
            folder: tempfile::tempdir().unwrap(),
            token: String::new(),
        };
        for folder in ["home", "repo"] {
            std::fs::create_dir(world.folder.path().join(folder)).unwrap();
        }
        world.json(&["init"]);
        let made = world.json(&["token", "create", "tests"]);
        made["token"].as_str().unwrap().clone_into(&mut world.token);
        world
    }

    pub fn state(&self) -> PathBuf {
        self.folder.path().join("repo/.flightline")
    }

    /// A command, with nothing of this machine's environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let [repo, home] = ["repo", "home"].map(|name| self.folder.path().join(name));
        let mut command = sealed(env!("CARGO_BIN_EXE_fleet"), &repo, &home);
        command.args(arguments);
        command
    }

    /// What a command answers.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let done = self.command(arguments).arg("--json").output().unwrap();
        assert!(done.status.success(), "{arguments:?}: {done:?}");
        serde_json::from_slice(&done.stdout).unwrap()
    }
}

/// A server that ends with the test.
pub struct Node {
    child: ChildGuard,
    /// What it says, read as it comes: a full pipe would stop it.
    said: Arc<(Mutex<String>, Condvar)>,
    reader: Option<JoinHandle<()>>,
    pub ready: Value,
    token: String,
}

impl Node {
    /// Starts one that sees these variables.
    pub fn start(world: &World, variables: &[(&str, &str)]) -> Self {
        let serve = [
            "-v",
            "serve",
            "--addr",
            "127.0.0.1:0",
            "--log-format",
            "json",
            "--json",
        ];
        let mut command = world.command(&serve);
        command.envs(variables.iter().copied());
        let mut child = ChildGuard::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let stdout = child.stdout.take().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let heard: Arc<(Mutex<String>, Condvar)> = Arc::default();
        let kept = Arc::clone(&heard);
        let reader = std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                *kept.0.lock().unwrap() += &(line + "\n");
                kept.1.notify_all();
            }
        });
        let line = first_line(stdout, PATIENCE);
        Self {
            child,
            said: heard,
            reader: Some(reader),
            ready: serde_json::from_str(&line).unwrap(),
            token: world.token.clone(),
        }
    }

    pub fn token(&self) -> &str {
        &self.token
    }

    /// Asks, and says with which status it was answered, and what.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .allow_non_standard_methods(true)
            .build();
        let url = self.ready["url"].as_str().unwrap();
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{url}{path}"))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", "application/json");
        let mut body = "";
        for (name, value) in headers {
            match *name {
                "body" => body = value,
                name => request = request.header(name, *value),
            }
        }
        let agent = ureq::Agent::new_with_config(config);
        let mut answer = agent.run(request.body(body).unwrap()).unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        (
            answer.status().as_u16(),
            serde_json::from_str(&text).unwrap_or_default(),
        )
    }

    /// The names of its threads.
    pub fn threads(&self) -> Vec<String> {
        let tasks = format!("/proc/{}/task", self.child.id());
        let tasks = std::fs::read_dir(tasks).unwrap();
        tasks
            .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok())
            .collect()
    }

    /// Waits until it says this.
    pub fn until_said(&self, text: &str) {
        let said = self.said.0.lock().unwrap();
        let missing = |said: &mut String| !said.contains(text);
        let waited = self.said.1.wait_timeout_while(said, PATIENCE, missing);
        let (said, waited) = waited.unwrap();
        assert!(!waited.timed_out(), "{text}: {said}");
    }

    /// Ends it as an operator does, and gives what it said.
    pub fn end(mut self) -> (ExitStatus, Vec<Value>) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
        let began = Instant::now();
        self.reader.take().unwrap().join().unwrap();
        let said = self.said.0.lock().unwrap().clone();
        let status = self.child.wait().unwrap();
        assert!(began.elapsed() < PATIENCE, "{said}");
        let lines = said.lines().map(|line| serde_json::from_str(line).unwrap());
        (status, lines.collect())
    }
}

/// The warnings among what a server said.
pub fn warnings(said: &[Value]) -> Vec<&str> {
    let warnings = said.iter().filter(|line| line["event"] == "warning");
    warnings
        .map(|line| line["message"].as_str().unwrap())
        .collect()
}
