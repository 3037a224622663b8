//! `fleet serve` as a process of its own, for as long as a test needs it.

use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use flightline_testkit::program::{ChildGuard, first_line};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cli::world::World;

/// Longer than anything here takes.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A server that ends with the test.
pub struct Server {
    child: ChildGuard,
    pub url: String,
}

impl Server {
    /// Starts one, and waits until it says where it is.
    pub fn start(world: &World, more: &str) -> Self {
        Self::start_at(world, "127.0.0.1:0", more)
    }

    /// Starts one at this address.
    pub fn start_at(world: &World, address: &str, more: &str) -> Self {
        let line = format!("serve --addr {address} --json {more}");
        // Real time and ids: a server draws more of them than the numbers of one command.
        let mut fleet = world.line(&line).without("FLEET_TEST_NOW");
        fleet = fleet.without("FLEET_TEST_IDS");
        fleet.command.stderr(Stdio::piped());
        Self::spawn(fleet.command)
    }

    /// Starts one with this command, and waits until it says where it is.
    pub fn spawn(command: Command) -> Self {
        Self::try_spawn(command).expect("it starts")
    }

    /// Starts one with this command; none when it refuses to start.
    pub fn try_spawn(mut command: Command) -> Option<Self> {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = ChildGuard::spawn(command);
        let line = first_line(child.stdout.take().expect("a pipe"), PATIENCE);
        let ready: Value = serde_json::from_str(&line).unwrap_or_default();
        let url = ready["url"].as_str()?.to_owned();
        Some(Self { child, url })
    }

    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a process id");
        kill_process(Pid::from_raw(pid).expect("a process"), signal).expect("a signal");
    }

    /// Waits for its end, and gives what it said on stderr.
    pub fn wait(mut self) -> (ExitStatus, String) {
        let deadline = Instant::now() + PATIENCE;
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().expect("a pipe");
        let _ = stderr.read_to_string(&mut said);
        loop {
            match self.child.try_wait().expect("a status") {
                Some(status) => return (status, said),
                None if Instant::now() > deadline => panic!("the server did not end"),
                None => std::thread::yield_now(),
            }
        }
    }
}
