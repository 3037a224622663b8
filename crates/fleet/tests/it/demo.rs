//! `fleet demo`, through the real binary: real processes, real kills, a real store to look at afterwards.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use flightline::agent::AgentView;
use flightline::workspace::is_running;
use flightline_testkit::program::sealed;
use serde_json::Value;

/// The binary, with nothing of the environment of the tests.
fn fleet<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = sealed(env!("CARGO_BIN_EXE_fleet"), Path::new("."), home());
    command.args(arguments).env("USER", "grace");
    command
}

/// A home that is gone with the last test.
fn home() -> &'static Path {
    static HOME: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
    HOME.path()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The answer of a command about what the demo left behind, which must succeed.
fn look(folder: &Path, arguments: &[&str]) -> Value {
    let ran = fleet([OsStr::new("-C"), folder.as_os_str()])
        .args(arguments)
        .arg("--json")
        .output()
        .unwrap();
    assert!(ran.status.success(), "{arguments:?}: {ran:?}");
    serde_json::from_slice(&ran.stdout).unwrap()
}

fn events(folder: &Path, kind: &str) -> Vec<Value> {
    let found = look(folder, &["events", "list", "--type", kind]);
    found["events"].as_array().unwrap().clone()
}

fn assert_all_held(ran: &Output, shown: &Value) {
    for check in shown["checks"].as_array().unwrap() {
        assert_eq!(check["ok"], true, "{check}");
    }
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stdout));
    assert_eq!(text(&ran.stderr), "");
}

#[test]
fn everything_holds_and_can_be_looked_at_afterwards() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().canonicalize().unwrap().join("new/show");
    let ran = fleet(["demo", "--json", "--in"])
        .arg(&folder)
        .output()
        .unwrap();
    let shown: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_all_held(&ran, &shown);
    assert_eq!(shown["folder"], folder.to_str().unwrap());
    assert_eq!(shown["checks"].as_array().unwrap().len(), 8);
    assert!(shown["seconds"].as_f64().unwrap() < 60.0);

    // What it shows is what the commands printed.
    let acts = shown["acts"].as_array().unwrap();
    let printed = |command: &str| {
        let act = acts
            .iter()
            .find(|act| act["command"].as_str().unwrap().starts_with(command));
        act.unwrap()["output"].as_str().unwrap().to_owned()
    };
    assert!(printed("fleet detect").contains("bob    dead: process "));
    assert!(printed("fleet resume").contains("`publish-part-2`, which bob began"));
    let briefing = printed("fleet context --minimal");
    assert!(briefing.starts_with("## Recovery Context\n"), "{briefing}");
    for part in [
        "- Publish each part exactly once",
        "**You**: `carol`, specialist, epoch 2",
        "ALREADY DONE, do not repeat:",
    ] {
        assert!(briefing.contains(part), "{part}: {briefing}");
    }

    // The folder holds a fleet like any other.
    let status = look(&folder, &["status"]);
    assert_eq!(status["mission"]["mission"]["status"], "completed");
    assert_eq!(status["mission"]["progress_percent"], 100);
    assert_eq!(status["locks"].as_array().unwrap().len(), 0);
    let checkpoints = look(&folder, &["checkpoints", "list"]);
    // Three milestones, and the end.
    assert_eq!(checkpoints.as_array().unwrap().len(), 4, "{checkpoints}");

    let requeued = events(&folder, "sortie_requeued");
    assert_eq!(requeued.len(), 1, "{requeued:?}");
    assert_eq!(requeued[0]["data"]["from"], "bob");
    let reason = requeued[0]["data"]["reason"].as_str().unwrap();
    assert!(reason.ends_with(" is gone"), "{reason}");
    let sortie = requeued[0]["subject"].as_str().unwrap();
    let completed = events(&folder, "sortie_completed");
    let by = completed.iter().find(|event| event["subject"] == sortie);
    assert_ne!(by.unwrap()["actor"], "bob");

    let read = events(&folder, "briefing_acknowledged");
    assert_eq!(read.len(), 1, "{read:?}");
    assert_eq!(read[0]["actor"], "carol");
    assert_eq!(events(&folder, "fleet_recovered").len(), 1);
    let ledger = fs::read_to_string(folder.join("published.txt")).unwrap();
    assert_eq!(ledger, "part 2\n");
}

#[test]
fn it_shows_its_checks_its_story_and_the_way_on_whatever_the_environment_says() {
    let temp = tempfile::tempdir().unwrap();
    let ran = fleet(["demo"])
        .env("TMPDIR", temp.path())
        .env("FLEET_LOCATION", temp.path().join("elsewhere"))
        .env("FLEET_AGENT", "mallory")
        .env("FLEET_EPOCH", "7")
        .env("FLEET_MISSION", "msn-ffff")
        .output()
        .unwrap();
    let said = text(&ran.stdout);
    assert_eq!(ran.status.code(), Some(0), "{said}");
    assert_eq!(text(&ran.stderr), "");
    let (_, checked) = said.split_once("\nWhat was checked\n").unwrap();
    assert_eq!(checked.matches("  ✓ ok   ").count(), 8, "{said}");
    assert!(!said.contains('✗'), "{said}");
    let widest = said
        .lines()
        .filter(|line| !line.contains(temp.path().to_str().unwrap()))
        .max_by_key(|line| line.chars().count())
        .unwrap();
    assert!(widest.chars().count() <= 80, "{widest}");
    let tidy = said.lines().all(|line| line.trim_end() == line);
    assert!(tidy && !said.contains('\u{1b}'), "{said}");
    let made = fs::read_dir(temp.path()).unwrap().next().unwrap().unwrap();
    let folder = made.path().canonicalize().unwrap();
    for command in ["", " checkpoints list", " log"] {
        let line = format!("\n  fleet -C {}{command}\n", folder.display());
        assert!(said.contains(&line), "{line}: {said}");
    }
    assert!(said.contains("\n  ## Recovery Context\n"), "{said}");
    assert!(!temp.path().join("elsewhere").exists());
}

#[test]
fn a_folder_with_something_in_it_is_left_alone() {
    let temp = tempfile::tempdir().unwrap();
    fs::write(temp.path().join("mine.txt"), "mine").unwrap();
    for json in [false, true] {
        let mut command = fleet(["demo", "--in"]);
        command.arg(temp.path());
        let ran = command.args(json.then_some("--json")).output().unwrap();
        assert_eq!(ran.status.code(), Some(2), "{ran:?}");
        let said = if json { &ran.stdout } else { &ran.stderr };
        assert!(text(said).contains("is not empty"), "{ran:?}");
    }
    let file = fleet(["demo", "--in"])
        .arg(temp.path().join("mine.txt"))
        .output()
        .unwrap();
    assert_eq!(file.status.code(), Some(2), "{file:?}");
    let left: Vec<_> = fs::read_dir(temp.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(fs::read(temp.path().join("mine.txt")).unwrap(), b"mine");
}

#[test]
fn its_agents_end_with_it_even_when_it_is_killed() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("show");
    // Where there is no git, it does without.
    let mut demo = fleet(["demo", "--quiet", "--in"])
        .arg(&folder)
        .env("PATH", temp.path())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let registered = || -> Option<Vec<AgentView>> {
        let ran = fleet(["agents", "list", "--json", "-C"])
            .arg(&folder)
            .output()
            .unwrap();
        serde_json::from_slice(&ran.stdout).ok()
    };
    let agents = loop {
        match registered() {
            Some(agents) if agents.len() == 3 => break agents,
            _ => assert!(Instant::now() < deadline, "nobody registered"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    demo.kill().unwrap();
    demo.wait().unwrap();
    for agent in agents {
        let process = agent.agent.process.unwrap();
        while is_running(&process) == Some(true) {
            assert!(Instant::now() < deadline, "{} still runs", agent.agent.name);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    assert!(folder.join(".git").is_dir());
}
