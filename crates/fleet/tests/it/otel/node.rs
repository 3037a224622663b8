//! A fleet of its own, and `fleet serve` on it as a process.

use std::io::{BufRead, BufReader};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use flightline_testkit::program::{ChildGuard, first_line};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::otel::collector::PATIENCE;
use flightline_testkit::test_bed::{TestBed, answered};

/// A place with a fleet in it, and the token that opens its server.
pub struct World {
    pub place: TestBed,
    token: String,
}

impl World {
    pub fn new() -> Self {
        let place = TestBed::temporary();
        answered(&mut place.fleet(&["init"]));
        let made = answered(&mut place.fleet(&["token", "create", "tests"]));
        let token = made["token"].as_str().unwrap().to_owned();
        Self { place, token }
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
        let mut command = world.place.fleet(&serve);
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
