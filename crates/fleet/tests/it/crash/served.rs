//! A server whose disk is full, or whose files cannot be written any more, while it runs: writes are
//! refused with the reason, reads go on, and all is well again by itself.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use flightline_testkit::Engine;
use flightline_testkit::frozen::Frozen;
use flightline_testkit::program::{ChildGuard, first_line};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::crash::disk::{Disk, long};
use crate::crash::journal::texts;
use crate::crash::world::World;

/// Longer than two rounds of the server's own trial of a write.
const PATIENCE: Duration = Duration::from_secs(45);

/// A server that ends with the test, and what it acknowledged.
struct Served<'w> {
    world: &'w World,
    child: ChildGuard,
    url: String,
    token: String,
    agent: ureq::Agent,
    kept: Vec<String>,
}

impl<'w> Served<'w> {
    fn new(world: &'w World) -> Self {
        let made = world.ask(&["token", "create", "tests"]);
        // A file that may not grow any more fails the write, and not the process.
        let script = "trap '' XFSZ; exec \"$0\" serve --addr 127.0.0.1:0 --json";
        let mut serve = world.sealed("sh");
        serve.args(["-c", script, env!("CARGO_BIN_EXE_fleet")]);
        let mut child = ChildGuard::spawn(serve.stdout(Stdio::piped()).stderr(Stdio::null()));
        let line = first_line(child.stdout.take().unwrap(), PATIENCE);
        let ready: Value = serde_json::from_str(&line).unwrap();
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            // A server may close a connection that waits just when the next request takes it.
            .max_idle_connections(0)
            .build();
        Self {
            world,
            child,
            url: ready["url"].as_str().unwrap().to_owned(),
            token: made["token"].as_str().unwrap().to_owned(),
            agent: ureq::Agent::new_with_config(config),
            kept: Vec::new(),
        }
    }

    fn ask(&self, path: &str, token: Option<&str>, body: Option<&Value>) -> (u16, String, Value) {
        let authorization = format!("Bearer {}", token.unwrap_or("nothing"));
        let url = format!("{}{path}", self.url);
        let answer = match body {
            None => self
                .agent
                .get(url)
                .header("authorization", authorization)
                .call(),
            Some(body) => self
                .agent
                .post(url)
                .header("authorization", authorization)
                .header("content-type", "application/json")
                .send(body.to_string()),
        };
        let mut answer = answer.unwrap();
        let kind = answer.headers().get("content-type").unwrap();
        let kind = kind.to_str().unwrap().to_owned();
        let text = answer.body_mut().read_to_string().unwrap();
        let value = serde_json::from_str(&text).unwrap();
        (answer.status().as_u16(), kind, value)
    }

    fn op(&self, name: &str, body: &Value) -> (u16, String, Value) {
        let path = format!("/api/v1/ops/{name}");
        self.ask(&path, Some(&self.token), Some(body))
    }

    /// Writes a note: nothing when it is acknowledged, else the problem, which is told as it must be.
    fn write(&mut self, note: String) -> Option<Value> {
        let body = json!({ "kind": "lesson", "text": note });
        let (status, kind, answer) = self.op("add_note", &body);
        if status == 200 {
            self.kept.push(note);
            return None;
        }
        assert_eq!(status, 503, "{answer}");
        assert_eq!(kind, "application/problem+json", "{answer}");
        assert_eq!(answer["code"], "unavailable", "{answer}");
        let hint = answer["hint"].as_str().unwrap_or_default();
        assert!(hint.starts_with("nothing was written"), "{answer}");
        Some(answer)
    }

    /// A reader sees exactly the acknowledged writes.
    fn is_all_there(&self) {
        let (status, _, notes) = self.op("list_notes", &json!({}));
        assert_eq!(status, 200, "{notes}");
        assert!(texts(&notes, "/text") == self.kept, "{notes}");
        let (status, _, listed) = self.ask("/api/v1/missions", Some(&self.token), None);
        assert_eq!(status, 200, "{listed}");
    }

    /// Waits until its health is so.
    fn becomes(&self, health: &str) -> Value {
        let began = Instant::now();
        loop {
            let (status, _, told) = self.ask("/healthz", Some(&self.token), None);
            assert_eq!(status == 200, told["status"] != "failing", "{told}");
            if told["status"] == health {
                return told;
            }
            assert!(began.elapsed() < PATIENCE, "{health}: {told}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// It says itself that it cannot write, with the reason for those who have a token.
    fn tells(&self, why: &str) {
        let told = self.becomes("failing");
        let trouble = told["write_probe"]["trouble"].as_str().unwrap();
        assert!(trouble.contains(why), "{told}");
        let (status, _, public) = self.ask("/healthz", None, None);
        assert_eq!(status, 503);
        assert_eq!(public["write_probe"]["ok"], false, "{public}");
        assert!(public["write_probe"].get("trouble").is_none(), "{public}");
        let (status, _, ready) = self.ask("/readyz", None, None);
        assert_eq!((status, &ready["ready"]), (503, &json!(false)));
    }

    /// All is well again, without help.
    fn recovers(&mut self) {
        assert_eq!(self.write(format!("after {}", self.kept.len())), None);
        self.becomes("ok");
        assert_eq!(self.ask("/readyz", None, None).0, 200);
        self.is_all_there();
    }

    /// It ends well, and so is the store.
    fn ends(mut self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        self.world.is_well();
        let notes = self.world.ask(&["note", "list"]);
        assert!(texts(&notes, "/text") == self.kept, "{notes}");
    }
}

#[test]
fn a_server_whose_disk_is_full_says_so_and_goes_on_when_there_is_room() {
    let Some(disk) = Disk::mount(4096) else {
        return;
    };
    let world = World::at(&disk.path.join("repo"), None);
    world.begin();
    let mut server = Served::new(&world);
    assert_eq!(server.write("before".to_owned()), None);
    let ballast = disk.leave(8);
    let mut refused = None;
    for number in 0..200 {
        refused = server.write(long(&format!("note-{number}")));
        if refused.is_some() {
            break;
        }
    }
    let detail = refused.unwrap()["detail"].clone();
    assert!(
        detail.as_str().unwrap().starts_with("the disk is full"),
        "{detail}"
    );
    server.is_all_there();
    server.tells("the disk is full");
    server.is_all_there();
    // A command that comes through the server is told the same, and that nothing was done.
    let claim = world
        .run(&["missions", "create", "Not now"])
        .env("FLEET_SERVER", &server.url)
        .env("FLEET_TOKEN", &server.token)
        .env("FLEET_TEST_PATIENCE_MS", 500)
        .ends();
    assert_eq!(claim.code(), Some(7), "{claim}");
    let expected = format!(
        "error: the server at {} cannot accept it now: the disk is full",
        server.url
    );
    assert!(claim.err.starts_with(&expected), "{claim}");
    assert!(claim.err.contains("hint: nothing was written"), "{claim}");
    std::fs::remove_file(ballast).unwrap();
    server.recovers();
    server.ends();
}

/// Longer than this nobody waits for a disk that fails at once.
const AT_ONCE: Duration = Duration::from_secs(5);
/// What is documented, and a moment: 15 seconds for the last checkpoints.
const TO_END: Duration = Duration::from_secs(20);

#[test]
fn a_server_whose_disk_takes_nothing_answers_at_once_and_ends_in_time() {
    let world = World::new(Engine::Sqlite);
    let mut served = Served::new(&world);
    assert_eq!(served.write("before".to_owned()), None);
    let nothing = Rlimit {
        current: Some(0),
        maximum: None,
    };
    let server = Pid::from_child(&served.child);
    prlimit(Some(server), Resource::Fsize, nothing).unwrap();
    let body = json!({ "kind": "lesson", "text": "never" });
    for _ in 0..3 {
        thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let began = Instant::now();
                    let (status, _, answer) = served.op("add_note", &body);
                    assert_eq!(status, 503, "{answer}");
                    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
                });
            }
        });
        let began = Instant::now();
        served.is_all_there();
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    }
    let began = Instant::now();
    kill_process(server, Signal::TERM).unwrap();
    served.child.wait().unwrap();
    assert!(began.elapsed() < TO_END, "{:?}", began.elapsed());
    world.is_well();
    let notes = world.ask(&["note", "list"]);
    assert!(texts(&notes, "/text") == served.kept, "{notes}");
}

#[test]
fn a_server_whose_files_cannot_be_written_says_so_and_goes_on_when_they_can() {
    let folder = TempDir::new().unwrap();
    let world = World::at(&folder.path().join("repo"), None);
    let state = world.state();
    world.begin();
    let mut server = Served::new(&world);
    for round in 0..2 {
        assert_eq!(server.write(format!("before {round}")), None);
        let Some(frozen) = Frozen::new(&state) else {
            return;
        };
        let refused = server.write("never".to_owned()).unwrap();
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.starts_with("cannot write to the store"), "{detail}");
        server.is_all_there();
        server.tells("cannot write to the store");
        server.is_all_there();
        drop(frozen);
        server.recovers();
    }
    server.ends();
}
