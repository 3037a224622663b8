//! Files of other systems, taken in by their own times.

use flightline::core::Time;
use flightline::core::dialect::{Dialect, DialectDocument, Json, orchestrator};
use serde_json::{Value, json};

use crate::cli::world::World;

const TASK: &str =
    include_str!("../../../../flightline-core/tests/it/dialects/data/sitebuilder_schema.json");
const RUNNING: &str =
    include_str!("../../../../flightline-core/tests/it/dialects/data/orchestrator_running.json");
const FIRST: &str =
    include_str!("../../../../flightline-core/tests/it/dialects/data/epic_first.json");

fn at(text: &str) -> Time {
    text.parse().unwrap()
}

/// What is said of the seed's task at `now`: whether its session was lost, and how its agent is.
fn said(world: &World, now: Time) -> (bool, String) {
    let ask = |typed: &str| {
        let line = world.line(typed).env("FLEET_TEST_NOW", now.to_string());
        line.run().json()
    };
    let found = ask("detect --json");
    let tasks = found.as_array().unwrap().iter();
    let lost = tasks
        .flat_map(|mission| mission["tasks"].as_array().cloned().unwrap_or_default())
        .any(|task| task["task_id"] == "T060" && task["scenario"] == "session_timeout");
    let agents = ask("agents list --json");
    let riley = agents.as_array().unwrap().iter();
    let riley = riley.into_iter().find(|it| it["agent"]["name"] == "Riley");
    let life = riley.unwrap()["liveness"]["life"].as_str().unwrap();
    (lost, life.to_owned())
}

#[test]
fn seed_bs_rules_and_ours_say_the_same_minute_by_minute() {
    let written = at("2026-01-04T12:00:00Z");
    let text = TASK.replace("2025-12-08T14:52:10Z", &written.to_seconds());
    let expected = [
        (9, false, "active"),
        (10, false, "active"),
        (11, true, "warning"),
        (29, true, "warning"),
        (30, true, "warning"),
        (31, true, "stalled"),
    ];
    let world = |looked: Option<&str>| {
        let world = World::empty().local_only("the clock is the command's own");
        world.ok("init --preset sitebuilder");
        world.write("progress/checkpoints/migration-T060.json", &text);
        if let Some(looked) = looked {
            let line = world.line("status").env("FLEET_TEST_NOW", looked);
            assert_eq!(line.run().code, 0);
        }
        world
    };
    // One was looked at when it was written, and each of the others only now.
    let seen = world(Some("2026-01-04T12:00:00Z"));
    for (minutes, lost, life) in expected {
        let now = written.plus(minutes * 60_000);
        // The seed's own words: more than 10 minutes, and a heartbeat missing for 10 and for 30.
        assert_eq!(minutes > 10, lost, "{minutes} minutes");
        for world in [&seen, &world(None)] {
            let (found, is) = said(world, now);
            let is = if is == "quiet" { "active" } else { &is };
            assert_eq!((found, is), (lost, life), "{minutes} minutes");
        }
    }
}

#[test]
fn an_old_task_is_not_news_of_today() {
    let world = World::empty();
    world.ok("init --preset sitebuilder");
    world.write("progress/checkpoints/migration-T060.json", TASK);
    let found = world.fleet("detect");
    assert!(found.stdout.contains("session timeout"), "{found:?}");
    let page = std::fs::read_to_string(world.repo().join("progress/STATUS.md")).unwrap();
    assert!(!page.contains("| 0 min ago |"), "{page}");
}

/// Four moments of one run: nothing begun, work begun, a failure, and what came of it.
fn moments() -> Vec<String> {
    let stand = [
        ("10:00", "PLANNING", ["pending", "pending", "pending"]),
        ("10:10", "IMPLEMENTING", ["completed", "running", "pending"]),
        ("10:20", "ERROR", ["completed", "failed", "pending"]),
        ("10:30", "TESTING", ["completed", "completed", "failed"]),
    ];
    let first = DialectDocument::read(Dialect::Orchestrator, RUNNING).unwrap();
    let moment = |((clock, state, statuses), number): ((&str, &str, [&str; 3]), u8)| {
        let time = format!("2026-01-03T{clock}:00.000Z");
        let agent = |(name, status): (&str, &str)| {
            let mut agent = first.items("agents")[0].clone();
            agent["agentId"] = name.into();
            agent["status"] = status.into();
            agent["attempts"] = 1.into();
            agent["startedAt"] = "2026-01-03T09:00:00.000Z".into();
            agent["completedAt"] = time.as_str().into();
            if status == "failed" {
                agent["attempts"] = 3.into();
                agent["error"] = format!("{name} gave up").into();
            }
            if let Json::Object(fields) = &mut agent {
                fields.retain(|(key, _)| key != "completedAt" || status == "completed");
            }
            agent
        };
        let agents = ["planner", "coder", "tester"].into_iter().zip(statuses);
        let blockers = match statuses.contains(&"failed") {
            true => vec!["1 agent(s) exceeded retry limit"],
            false => Vec::new(),
        };
        let mut moment = first.clone();
        moment["id"] = format!("6f9f6b52-6f55-4b38-8f0a-6c1c2b1f6e1{number}").into();
        moment["createdAt"] = time.as_str().into();
        moment["workflow"] = Json::from(json!({
            "currentState": state,
            "stateHistory": [],
            "pendingTransitions": first["workflow"].texts("pendingTransitions"),
        }));
        moment["agents"] = Json::List(agents.map(agent).collect());
        moment["context"]["lessons"] = vec![format!("Lesson {number}")].into();
        moment["recovery"]["blockers"] = blockers.into();
        orchestrator::seal(&mut moment);
        moment.write()
    };
    stand.into_iter().zip(1..).map(moment).collect()
}

/// Everything that came of an import, without ids and the times of importing.
fn outcome(world: &World) -> Value {
    let sorties = world.json("sorties list");
    let sorties = sorties.as_array().unwrap().iter().map(|view| {
        let id = view["id"].as_str().unwrap();
        let sortie = &world.json(&format!("sorties show {id}"))["sortie"];
        let told = [
            "title",
            "status",
            "attempts",
            "failure",
            "completed_at",
            "updated_at",
            "interrupted",
        ];
        told.map(|key| sortie[key].clone())
    });
    let mut sorties: Vec<Value> = sorties.map(|it| json!(it)).collect();
    sorties.sort_by_key(ToString::to_string);
    let mission = world.json("missions show");
    let notes = world.json("note list");
    let notes = notes.as_array().unwrap().iter();
    let mut notes: Vec<Value> = notes
        .map(|note| json!([note["kind"], note["text"]]))
        .collect();
    notes.sort_by_key(ToString::to_string);
    // What is in the way, without the ids in front.
    let resumed = world.fleet("resume --dry-run --json").json();
    let blockers = resumed["error"]["details"]["blockers"].as_array();
    let blockers = blockers.unwrap().iter().map(|text| {
        let text = text.as_str().unwrap();
        text.split_once(' ').unwrap().1.to_owned()
    });
    let blockers: Vec<String> = blockers.collect();
    json!({
        "sorties": sorties,
        "workflow": mission["mission"]["workflow"]["current"],
        "status": mission["mission"]["status"],
        "notes": notes,
        "blockers": blockers,
    })
}

fn permutations(of: &[usize]) -> Vec<Vec<usize>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for first in of {
        let rest: Vec<usize> = of.iter().copied().filter(|it| it != first).collect();
        for mut order in permutations(&rest) {
            order.insert(0, *first);
            all.push(order);
        }
    }
    all
}

#[test]
fn an_orchestrators_documents_come_to_the_same_in_every_order() {
    let moments = moments();
    let mut first: Option<(Vec<usize>, Value)> = None;
    let mut orders = permutations(&[0, 1, 2, 3]);
    // And all at once.
    orders.push(Vec::new());
    for order in orders {
        let world = World::empty();
        world.ok("init --preset orchestrator");
        world.ok("config set mirrors.orchestrator false");
        for (number, text) in moments.iter().enumerate() {
            world.write(&format!("old/{number}.json"), text);
        }
        for number in &order {
            world.ok(&format!("import orchestrator old/{number}.json"));
        }
        if order.is_empty() {
            world.ok("import orchestrator old");
        }
        let outcome = outcome(&world);
        match &first {
            None => {
                let text = outcome.to_string();
                assert_eq!(text.matches("\"completed\"").count(), 2, "{text}");
                assert_eq!(outcome["workflow"], "TESTING", "{text}");
                assert!(text.contains("tester gave up"), "{text}");
                first = Some((order, outcome));
            }
            Some((other, expected)) => {
                assert_eq!(&outcome, expected, "{order:?} and {other:?}");
            }
        }
    }
}

#[test]
fn a_folder_with_a_bad_file_is_taken_in_but_for_that_file() {
    let world = World::new();
    world.write("old/secondary_a.json", FIRST);
    world.write("old/secondary_b.json", "{\"agent_id\": ");
    world.write(
        "old/secondary_c.json",
        &FIRST.replace("Secondary-A", "Secondary-C"),
    );
    let ran = world.fleet("import epic old");
    assert_eq!(ran.code, 2, "{ran:?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{ran:?}");
    assert_eq!(
        lines[0],
        "Imported: Secondary-A from old/secondary_a.json: new"
    );
    assert!(lines[1].starts_with("Refused: "), "{ran:?}");
    assert!(lines[1].contains("old/secondary_b.json"), "{ran:?}");
    assert_eq!(
        lines[2],
        "Imported: Secondary-C from old/secondary_c.json: new"
    );
    assert!(ran.stderr.contains("1 of 3 files"), "{ran:?}");
    let told = world.fleet("import epic old --json").json();
    let told = told.as_array().unwrap();
    assert_eq!(told.len(), 3);
    assert_eq!(told[1]["refused"]["code"], "invalid_input");
    assert_eq!(world.json("agents list").as_array().unwrap().len(), 2);
}

#[test]
fn an_agent_whose_file_was_put_aside_is_told_and_settles_it() {
    let world = World::empty().local_only("doctor works beside the store");
    world.ok("init --preset epic");
    world.ok("agents register Secondary-A");
    world.agent_ok("Secondary-A", "agents update --step One");
    let file = world.repo().join("agent_checkpoints/secondary_a.json");
    let old = std::fs::read_to_string(&file).unwrap();
    world.pass(300);
    world.agent_ok("Secondary-A", "agents update --step Two");
    // Somebody checks an older copy out, and somebody else runs a command.
    std::fs::write(
        &file,
        old.replace("WAITING", "BLOCKED")
            .replace("IN_PROGRESS", "BLOCKED"),
    )
    .unwrap();
    let kept = "agent_checkpoints/secondary_a.json.conflict";
    let seen = world.ok("agents list");
    assert!(seen.stderr.contains(kept), "{seen:?}");
    assert!(seen.stderr.contains("the store has newer data"), "{seen:?}");
    let heard = world.agent_ok("Secondary-A", "heartbeat");
    assert!(heard.stderr.contains(kept), "{heard:?}");
    let once = world.agent_ok("Secondary-A", "heartbeat");
    assert!(!once.stderr.contains(kept), "{once:?}");
    let inbox = world.agent_ok("Secondary-A", "mail inbox").stdout;
    assert!(inbox.contains("was put aside"), "{inbox}");
    let listed = world.ok("conflicts list").stdout;
    assert!(listed.contains("current_step is \"One\""), "{listed}");
    let take = format!("fleet conflicts take {kept}");
    assert!(listed.contains(&take), "{listed}");
    let doctor = world.fleet("doctor").stdout;
    assert!(doctor.contains(&take), "{doctor}");
    world.ok(&format!("conflicts take {kept}"));
    let doctor = world.fleet("doctor").stdout;
    assert!(!doctor.contains(kept), "{doctor}");
    let agent = world.json("agents show Secondary-A");
    assert_eq!(agent["agent"]["status"], "blocked");
    let gone = world.fleet(&format!("conflicts drop {kept}"));
    assert_eq!(gone.code, 3, "{gone:?}");
}
