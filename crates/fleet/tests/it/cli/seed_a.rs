//! Seed A's five commands and its detection, on the seed's own fleet: what they print stands as the seed
//! prints it, but for ids, times and what the fleet itself wrote.

mod crew;
mod prune;

use expect_test::expect;
use serde_json::{Value, json};

use crate::cli::colour::on_a_terminal;
use crate::cli::world::World;

/// The seed's fleet: four sorties of which two are completed, two locks, one message.
fn seed() -> World {
    let world = World::new();
    act(&world, "", "agents register Dispatch --role dispatch");
    for typed in [
        "missions create \"Implement user authentication\" --dispatch Dispatch",
        "sorties add \"User model\" --file src/models/user.ts",
        "sorties add Authentication --file src/auth.ts",
        "sorties add \"API routes\" --file src/api/routes.ts",
        "sorties add \"Authentication tests\" --file tests/auth.test.ts",
        "note next-step \"Update API documentation\"",
    ] {
        act(&world, "Dispatch", typed);
    }
    for (agent, title, file) in [
        ("Specialist-1", "User model", "src/models/user.ts"),
        ("Specialist-2", "Authentication", "src/auth.ts"),
    ] {
        let id = world.sortie(title);
        act(&world, agent, &format!("sorties claim {id}"));
        act(
            &world,
            agent,
            &format!("sorties update {id} --modified {file}"),
        );
        act(&world, agent, &format!("sorties complete {id}"));
    }
    let routes = world.sortie("API routes");
    act(&world, "Specialist-1", &format!("sorties claim {routes}"));
    act(
        &world,
        "Specialist-1",
        "locks acquire src/api/routes.ts --purpose routes",
    );
    act(
        &world,
        "Specialist-1",
        &format!("sorties update {routes} --modified src/api/routes.ts"),
    );
    world.pass(120);
    // A coordinator reads what it is told.
    act(&world, "Dispatch", "mail inbox");
    act(&world, "Dispatch", "mail ack --all");
    act(
        &world,
        "Dispatch",
        "mail send --to Specialist-2 --subject \"Review auth changes\"",
    );
    act(
        &world,
        "Specialist-2",
        "locks acquire src/middleware/auth.ts --purpose review",
    );
    world
}

fn act(world: &World, agent: &str, typed: &str) {
    match agent {
        "" => world.ok(typed),
        agent => world.agent_ok(agent, typed),
    };
}

/// What a value looks like: its fields, and those of what is in it.
fn shape(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), shape(value)))
            .collect(),
        Value::Array(items) => items.iter().take(1).map(shape).collect(),
        Value::String(_) => json!("text"),
        Value::Number(_) => json!("number"),
        Value::Bool(_) => json!("flag"),
        Value::Null => Value::Null,
    }
}

/// The names of a document's fields.
pub fn fields(value: &Value) -> Vec<&str> {
    let fields = value.as_object().expect("an object");
    fields.keys().map(String::as_str).collect()
}

/// The fields of seed A's interfaces, in JSON's order.
const CONTEXT: [&str; 7] = [
    "blockers",
    "elapsed_time_ms",
    "files_modified",
    "last_action",
    "last_activity_at",
    "mission_summary",
    "next_steps",
];

#[test]
fn fleet_checkpoint() {
    let world = seed();
    world.fleet("checkpoint").expect(expect![[r#"
        Checkpoint created: chk-d987
        Mission: msn-1a1a
        Progress: 50%
        Sorties: 4 (2 completed, 1 in_progress, 1 pending)
        Locks: 2 active
        Messages: 1 pending
    "#]]);
    world
        .fleet("checkpoint --note \"Before refactoring auth module\"")
        .expect(expect![[r#"
            Checkpoint created: chk-e23a
            Mission: msn-1a1a
            Progress: 50%
            Sorties: 4 (2 completed, 1 in_progress, 1 pending)
            Locks: 2 active
            Messages: 1 pending
        "#]]);
    assert_eq!(world.ok("checkpoint -q").text(), "");
    let mission = world.json("missions list")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    world
        .fleet(&format!("checkpoint --mission {mission}"))
        .expect(expect![[r#"
            Checkpoint chk-d987 is current: nothing has changed since it was taken at 2026-01-04T12:02:25Z
            Mission: msn-1a1a
            Progress: 50%
            Sorties: 4 (2 completed, 1 in_progress, 1 pending)
            Locks: 2 active
            Messages: 1 pending
        "#]]);
}

#[test]
fn fleet_checkpoint_json_is_the_checkpoint() {
    let world = seed();
    let taken = world.json("checkpoint --note \"Before refactoring\"");
    for (name, shape_of) in [
        ("id", json!("text")),
        ("mission_id", json!("text")),
        ("timestamp", json!("text")),
        ("trigger", json!("text")),
        ("trigger_details", json!("text")),
        ("progress_percent", json!("number")),
        ("created_by", json!("text")),
        ("version", json!("text")),
    ] {
        assert_eq!(shape(&taken[name]), shape_of, "{name}");
    }
    assert_eq!(
        shape(&taken["sorties"][2]),
        json!({
            "id": "text", "status": "text", "assigned_to": "text", "files": ["text"],
            "started_at": "text", "title": "text",
        })
    );
    assert_eq!(
        shape(&taken["active_locks"][0]),
        json!({
            "id": "text", "file": "text", "held_by": "text", "acquired_at": "text",
            "purpose": "text", "timeout_ms": "number",
        })
    );
    assert_eq!(
        shape(&taken["pending_messages"]),
        json!([{
            "id": "text", "from": "text", "to": ["text"], "subject": "text",
            "sent_at": "text", "delivered": "flag",
        }])
    );
    assert_eq!(fields(&taken["recovery_context"]), CONTEXT);
    assert_eq!(
        (&taken["trigger"], &taken["progress_percent"]),
        (&json!("manual"), &json!(50))
    );
}

#[test]
fn fleet_checkpoints_list() {
    let world = seed();
    world.ok("checkpoint");
    world.fleet("checkpoints list").expect(expect![[r#"
        Checkpoints for mission: msn-1a1a

        ID              TIMESTAMP                 TRIGGER    PROGRESS   REASON
        chk-d987        2026-01-04T12:02:25Z      manual     50%        manual
        chk-8b37        2026-01-04T12:00:16Z      progress   50%        Reached 50% milestone
        chk-6869        2026-01-04T12:00:12Z      progress   25%        Reached 25% milestone

        Total: 3 checkpoints
    "#]]);
    world
        .fleet("checkpoints list --limit 1")
        .expect(expect![[r#"
            Checkpoints for mission: msn-1a1a

            ID              TIMESTAMP                 TRIGGER    PROGRESS   REASON
            chk-d987        2026-01-04T12:02:25Z      manual     50%        manual

            Total: 3 checkpoints
        "#]]);
    let list = world.json("checkpoints list");
    assert_eq!(list.as_array().unwrap().len(), 3, "an array");
    for name in ["id", "mission_id", "timestamp", "trigger"] {
        assert!(list[0][name].is_string(), "{name}");
    }
    assert_eq!(list[0]["progress_percent"], 50);
}

#[test]
fn fleet_checkpoints_show() {
    let world = seed();
    world.pass(178);
    world.ok("checkpoint --note \"Before refactoring auth module\"");
    world.fleet("checkpoints show @latest").expect(expect![[r#"
        Checkpoint: chk-d987
        Mission: msn-1a1a
        Created: 2026-01-04T12:05:23Z
        Trigger: manual (Before refactoring auth module)
        Progress: 50%

        Sorties (4):
          srt-22cd  completed   Specialist-1  src/models/user.ts
          srt-2b81  completed   Specialist-2  src/auth.ts
          srt-3434  in_progress Specialist-1  src/api/routes.ts
          srt-3ce8  pending     -             tests/auth.test.ts

        Active Locks (2):
          src/api/routes.ts      Specialist-1  acquired 5m ago
          src/middleware/auth.ts Specialist-2  acquired 3m ago

        Pending Messages (1):
          From: Dispatch  To: Specialist-2  Subject: "Review auth changes"

        Recovery Context:
          Last Action: Specialist-2 was editing src/middleware/auth.ts
          Next Steps:
            - Complete "API routes" (Specialist-1)
            - Update API documentation
            - Start "Authentication tests"
          Blockers: None
          Files Modified: src/api/routes.ts, src/auth.ts, src/models/user.ts
    "#]]);
    let latest = world.json("checkpoints list")[0]["id"].clone();
    let shown = world.json("checkpoints show @latest");
    assert_eq!(shown["id"], latest);
    assert_eq!(fields(&shown["recovery_context"]), CONTEXT);
    world
        .fleet("checkpoints show @latest~1")
        .expect(expect![[r#"
            Checkpoint: chk-8b37
            Mission: msn-1a1a
            Created: 2026-01-04T12:00:16Z
            Trigger: progress (Reached 50% milestone)
            Progress: 50%

            Sorties (4):
              srt-22cd  completed   Specialist-1  src/models/user.ts
              srt-2b81  completed   Specialist-2  src/auth.ts
              srt-3434  pending     -             src/api/routes.ts
              srt-3ce8  pending     -             tests/auth.test.ts

            Active Locks (0):

            Pending Messages (2):
              From: flightline  To: Dispatch  Subject: "Progress of srt-22cdf264: User model"
              From: flightline  To: Dispatch  Subject: "Progress of srt-2b816efe: Authentication"

            Recovery Context:
              Last Action: Specialist-2 completed "Authentication"
              Next Steps:
                - Update API documentation
                - Start "API routes"
                - Start "Authentication tests"
              Blockers: None
              Files Modified: src/auth.ts, src/models/user.ts
        "#]]);
}

#[test]
fn fleet_resume() {
    let world = seed();
    act(&world, "Specialist-2", "locks release --all");
    act(
        &world,
        "Specialist-2",
        "locks acquire src/auth.ts --purpose \"auth changes\"",
    );
    world.ok("checkpoint");
    world.pass(360);
    world.fleet("resume --dry-run").expect(expect![[r#"
        Resuming from checkpoint: chk-eaee
        Mission: msn-1a1a - "Implement user authentication"

        Recovery Context:
        - Last action: Specialist-2 was editing src/auth.ts
        - Progress: 50% (2/4 sorties complete)

        Next Steps:
        1. Complete "API routes" (Specialist-1)
        2. Update API documentation
        3. Start "Authentication tests"

        Blockers:
        - None

        Files Modified:
        - src/api/routes.ts
        - src/auth.ts
        - src/models/user.ts

        Would restore:
        - Restore 0 sorties
        - Re-acquire 0 locks
        - Requeue 0 messages

        What To Do Now:
        - Dispatch coordinates it, and is quiet (last sign 6m ago): start it again: fleet context --agent Dispatch
        - Specialist-1 keeps srt-3434eb97, and is quiet (last sign 8m ago): start it again: fleet context --agent Specialist-1

        Nothing was changed.
    "#]]);
    let before = world.rev();
    world.fleet("resume").expect(expect![[r#"
        Resuming from checkpoint: chk-eaee
        Mission: msn-1a1a - "Implement user authentication"

        Recovery Context:
        - Last action: Specialist-2 was editing src/auth.ts
        - Progress: 50% (2/4 sorties complete)

        Next Steps:
        1. Complete "API routes" (Specialist-1)
        2. Update API documentation
        3. Start "Authentication tests"

        Blockers:
        - None

        Files Modified:
        - src/api/routes.ts
        - src/auth.ts
        - src/models/user.ts

        Restoring state...
        - Restored 0 sorties
        - Re-acquired 0 locks
        - Requeued 0 messages

        What To Do Now:
        - Dispatch coordinates it, and is quiet (last sign 6m ago): start it again: fleet context --agent Dispatch
        - Specialist-1 keeps srt-3434eb97, and is quiet (last sign 8m ago): start it again: fleet context --agent Specialist-1

        Recovery complete. Mission resumed.
    "#]]);
    assert!(world.rev() > before);
    let context = world.json("resume");
    assert_eq!(
        fields(&context),
        CONTEXT,
        "the recovery context, and that is all"
    );
    assert_eq!(
        context["last_action"],
        "Specialist-2 was editing src/auth.ts"
    );
}

#[test]
fn fleet_resume_checkpoint() {
    let world = seed();
    world.ok("checkpoint");
    let routes = world.sortie("API routes");
    act(
        &world,
        "Specialist-1",
        &format!("sorties complete {routes}"),
    );
    let asked = world.fleet("resume --checkpoint @latest~1");
    assert_eq!(
        (
            asked.code,
            asked
                .stderr
                .contains("fleet resume --checkpoint @latest~1 -y")
        ),
        (2, true),
        "{asked:?}"
    );
    world
        .fleet("resume --checkpoint @latest~1 --force -y")
        .expect(expect![[r#"
            Resuming from checkpoint: chk-d987
            Mission: msn-1a1a - "Implement user authentication"

            Recovery Context:
            - Last action: Specialist-2 was editing src/middleware/auth.ts
            - Progress: 50% (2/4 sorties complete)

            Next Steps:
            1. Complete "API routes" (Specialist-1)
            2. Update API documentation
            3. Start "Authentication tests"

            Blockers:
            - None

            Files Modified:
            - src/api/routes.ts
            - src/auth.ts
            - src/models/user.ts

            Lost by going back:
            - srt-3434eb97 ("API routes") is no longer completed

            Restoring state...
            - Restored 1 sortie
            - Re-acquired 1 lock
            - Requeued 0 messages

            What To Do Now:
            - Dispatch coordinates it: its briefing: fleet context --agent Dispatch
            - Specialist-1 keeps srt-3434eb97: its briefing: fleet context --agent Specialist-1
            - to undo this: fleet undo --mission msn-1a1a75cb

            Recovery complete. Mission resumed.
            [stderr]
            warning: going back to chk-d9872af6 would undo 1 sortie of agents that are alive, first srt-3434eb97 ("API routes") of Specialist-1; that is refused without `--force`
        "#]]);
}

#[test]
fn fleet_detect_offers() {
    let world = seed();
    world.ok("checkpoint");
    world.fleet("detect").expect(expect![[r#"
        Nothing needs recovery.
    "#]]);
    world.pass(360);
    world.fleet("detect").expect(expect![[r#"
        Implement user authentication (msn-1a1a) can be recovered
          Dispatch      quiet: last sign 6m ago
          Specialist-1  quiet: last sign 8m ago, keeps srt-3434
          quiet         for 6m
          from          chk-d987, plus 0 events since
        Found checkpoint from 2026-01-04T12:02:25Z. Resume?
        Resume with: fleet resume --mission msn-1a1a          look first: fleet resume --mission msn-1a1a --dry-run
        [exit 5]
    "#]]);
    let found = world.fleet("detect --json");
    assert_eq!((found.code, found.json().as_array().unwrap().len()), (5, 1));
    let told = world.json("events list --type context_compacted");
    let data = &told["events"][0]["data"];
    assert_eq!(told["events"].as_array().unwrap().len(), 1, "once");
    for name in ["mission_id", "last_activity_at", "checkpoint_id"] {
        assert!(data[name].is_string(), "{name}");
    }
    assert_eq!(
        (&data["checkpoint_available"], &data["evidence"]),
        (&json!(true), &json!("inactivity"))
    );
    assert!(data["inactivity_duration_ms"].is_u64());
}

#[test]
fn fleet_detect_asks_on_a_terminal() {
    let world = seed();
    world.ok("checkpoint");
    world.pass(360);
    let plain = [("NO_COLOR", "1")];
    let no = on_a_terminal(&world, "detect", &plain, "n\n");
    assert_eq!(no.code, 5, "{no:?}");
    assert!(
        no.stdout
            .contains("Resume \"Implement user authentication\"? [y/N] "),
        "{no:?}"
    );
    assert!(!no.stdout.contains("Recovery complete"), "{no:?}");
    let forbidden = on_a_terminal(&world, "detect --no-input", &plain, "y\n");
    assert!(
        forbidden.code == 5 && !forbidden.stdout.contains("[y/N]"),
        "{forbidden:?}"
    );
    let yes = on_a_terminal(&world, "detect", &plain, "y\n");
    assert_eq!(yes.code, 0, "{yes:?}");
    assert!(
        yes.stdout.contains("Recovery complete. Mission resumed."),
        "{yes:?}"
    );
}

#[test]
fn fleet_detect_auto_resume() {
    let world = seed();
    world.ok("checkpoint");
    world.pass(360);
    world.fleet("detect --auto-resume").expect(expect![[r#"
        Resuming from checkpoint: chk-d987
        Mission: msn-1a1a - "Implement user authentication"

        Recovery Context:
        - Last action: Specialist-2 was editing src/middleware/auth.ts
        - Progress: 50% (2/4 sorties complete)

        Next Steps:
        1. Complete "API routes" (Specialist-1)
        2. Update API documentation
        3. Start "Authentication tests"

        Blockers:
        - None

        Files Modified:
        - src/api/routes.ts
        - src/auth.ts
        - src/models/user.ts

        Restoring state...
        - Restored 0 sorties
        - Re-acquired 0 locks
        - Requeued 0 messages

        What To Do Now:
        - Dispatch coordinates it, and is quiet (last sign 6m ago): start it again: fleet context --agent Dispatch
        - Specialist-1 keeps srt-3434eb97, and is quiet (last sign 8m ago): start it again: fleet context --agent Specialist-1

        Recovery complete. Mission resumed.
    "#]]);
    let recovered = world.json("events list --type fleet_recovered");
    let data = &recovered["events"][0]["data"];
    assert_eq!(
        fields(data),
        [
            "checkpoint_id",
            "mission_id",
            "recovered_locks",
            "recovered_sorties",
            "recovery_duration_ms",
            "requeued_messages"
        ]
    );
    let world = World::new();
    world.fleet("detect --auto-resume").expect(expect![[r#"
        Nothing needs recovery.
    "#]]);
}
