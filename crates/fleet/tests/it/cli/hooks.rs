//! Hooks of real coding agents: their own payloads go in on stdin, their own answers come out, and no hook ever hurts.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cli::hook_corpus::left_open;
use crate::cli::running::Ran;
use crate::cli::world::World;

/// A payload of a client, of a session in this world.
fn payload(world: &World, session: &str, more: &Value) -> String {
    let mut payload = json!({ "session_id": session, "cwd": world.repo() });
    for (key, value) in more.as_object().expect("an object") {
        payload[key] = value.clone();
    }
    payload.to_string()
}

fn hook(world: &World, client: &str, event: &str, session: &str, more: &Value) -> Ran {
    let ran = world
        .line(&format!("hook {client} {event}"))
        .stdin(payload(world, session, more))
        .run();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
    ran
}

fn start(world: &World, session: &str, source: &str) -> Ran {
    let more = json!({ "hook_event_name": "SessionStart", "source": source });
    hook(world, "claude", "SessionStart", session, &more)
}

fn prompt(world: &World, session: &str, text: &str) -> Ran {
    let more = json!({ "hook_event_name": "UserPromptSubmit", "prompt": text });
    hook(world, "claude", "UserPromptSubmit", session, &more)
}

fn edit(world: &World, session: &str, file: &str) -> Ran {
    let more = json!({
        "hook_event_name": "PreToolUse", "tool_name": "Edit", "tool_use_id": "toolu_1",
        "tool_input": { "file_path": world.repo().join(file) },
    });
    hook(world, "claude", "PreToolUse", session, &more)
}

fn context_of(ran: &Ran) -> String {
    let said: Value = serde_json::from_str(&ran.stdout).expect("JSON");
    let context = &said["hookSpecificOutput"]["additionalContext"];
    context.as_str().expect("a context").to_owned()
}

#[test]
fn a_session_of_claude_survives_its_compaction() {
    let world = World::new();
    assert_eq!(
        start(&world, "one", "startup").stdout,
        "",
        "nothing to say yet"
    );
    assert_eq!(prompt(&world, "one", "Add login\nwith sessions").stdout, "");
    let missions = world.json("missions list --json");
    assert_eq!(missions[0]["title"], "Add login");
    let plan = json!({
        "hook_event_name": "PostToolUse", "tool_name": "TodoWrite", "tool_use_id": "toolu_2",
        "tool_input": { "todos": [
            { "content": "User model", "status": "completed", "activeForm": "…" },
            { "content": "Endpoint", "status": "in_progress", "activeForm": "…" },
            { "content": "Docs", "status": "pending", "activeForm": "…" },
        ] },
        "tool_response": {},
    });
    hook(&world, "claude", "PostToolUse", "one", &plan);
    let sorties = world.json("sorties list --json");
    let shown: Vec<(&str, &str)> = sorties
        .as_array()
        .expect("a list")
        .iter()
        .map(|it| {
            (
                it["title"].as_str().unwrap(),
                it["status"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("User model", "completed"),
            ("Endpoint", "in_progress"),
            ("Docs", "pending")
        ]
    );
    let compacting = json!({ "hook_event_name": "PreCompact", "trigger": "auto" });
    assert_eq!(
        hook(&world, "claude", "PreCompact", "one", &compacting).stdout,
        ""
    );
    let context = context_of(&start(&world, "one", "compact"));
    assert!(context.starts_with("## Recovery Context"), "{context}");
    assert!(context.contains("Endpoint"), "{context}");
    // Every command in it acts as the session's agent, without being told so.
    let word = context
        .split("--ack ")
        .nth(1)
        .and_then(|rest| rest.split([' ', '`']).next());
    world.ok(&format!("context --ack {}", word.expect("a word")));
    assert_eq!(prompt(&world, "one", "go on").stdout, "");
    let agent = world.json("agents show claude --json");
    assert_eq!(agent["briefing"]["status"], "acknowledged");
}

#[test]
fn commands_of_a_session_act_as_its_agent_and_an_old_one_is_refused() {
    let world = World::new().local_only("the session is known by its process");
    prompt(&world, "one", "Add login");
    let own = world.json("sorties list --json");
    let id = own[0]["id"].as_str().expect("an id").to_owned();
    world.ok(&format!("sorties update {id} --note halfway"));
    let log = world.ok("log -n 5").stdout;
    assert!(log.contains("claude"), "{log}");
    // Another session takes the seat.
    world.ok("agents register claude");
    let refused = world.fleet(&format!("sorties update {id} --note late"));
    assert_eq!(refused.code, 4, "{refused:?}");
}

#[test]
fn an_edit_of_a_file_that_another_client_edits_is_denied() {
    let world = World::new();
    prompt(&world, "one", "Add login");
    assert_eq!(edit(&world, "one", "src/auth.rs").stdout, "");
    let codex = json!({
        "hook_event_name": "PreToolUse", "tool_name": "apply_patch", "tool_use_id": "call_1",
        "tool_input": { "command": "*** Begin Patch\n*** Update File: src/auth.rs\n@@\n-a\n+b\n*** End Patch" },
    });
    let denied = hook(&world, "codex", "PreToolUse", "two", &codex);
    let said: Value = serde_json::from_str(&denied.stdout).expect("JSON");
    let answer = &said["hookSpecificOutput"];
    assert_eq!(answer["permissionDecision"], "deny");
    let why = answer["permissionDecisionReason"]
        .as_str()
        .expect("a reason");
    assert!(
        why.contains("src/auth.rs") && why.contains("claude"),
        "{why}"
    );
    world.ok("config set hooks.lock_edits false");
    assert_eq!(
        hook(&world, "codex", "PreToolUse", "two", &codex).stdout,
        ""
    );
}

#[test]
fn before_a_push_there_is_a_checkpoint() {
    let world = World::new();
    prompt(&world, "one", "Add login");
    let push = json!({
        "hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_use_id": "toolu_3",
        "tool_input": { "command": "cargo test && git push origin main" },
    });
    assert_eq!(
        hook(&world, "claude", "PreToolUse", "one", &push).stdout,
        ""
    );
    let taken = world.json("checkpoints list --json");
    assert_eq!(taken[0]["reason"], "before_destructive", "{taken}");
}

#[test]
fn a_hook_that_cannot_do_anything_says_nothing_and_ends_well() {
    let nowhere = World::empty();
    let quiet = |world: &World, event: &str, input: &str| {
        let ran = world
            .line(&format!("hook claude {event}"))
            .stdin(input.to_owned())
            .run();
        assert_eq!(
            (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
            (0, "", ""),
            "{event} {input}: {ran:?}"
        );
    };
    quiet(
        &nowhere,
        "SessionStart",
        &payload(&nowhere, "one", &json!({ "source": "startup" })),
    );
    let world = World::new();
    let whole = payload(
        &world,
        "one",
        &json!({ "source": "startup", "hook_event_name": "SessionStart" }),
    );
    for input in [
        "",
        "null",
        "[]",
        "{}",
        "{\"session_id\":7}",
        "not json",
        &whole[..whole.len() / 2],
    ] {
        quiet(&world, "SessionStart", input);
    }
    quiet(&world, "NoSuchEvent", &payload(&world, "one", &json!({})));
    let ran = world
        .line("hook emacs SessionStart")
        .stdin(whole.clone())
        .run();
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    let huge = payload(
        &world,
        "one",
        &json!({ "prompt": "x".repeat(10_000_000), "hook_event_name": "UserPromptSubmit" }),
    );
    let ran = world.line("hook claude UserPromptSubmit").stdin(huge).run();
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    // A store that is no store.
    let broken = World::new().local_only("its store is broken");
    fs::write(broken.database(), "this is no database").expect("written");
    quiet(
        &broken,
        "SessionStart",
        &payload(&broken, "one", &json!({ "source": "startup" })),
    );
}

#[test]
fn stdin_that_is_never_closed_is_not_waited_for() {
    let world = World::new();
    let began = Instant::now();
    let text = payload(&world, "one", &json!({ "source": "startup" }));
    let (mut child, stdin) = left_open(&world, "claude", "SessionStart", &text);
    assert!(child.wait().expect("it ends").success());
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "it waits for ever"
    );
    drop(stdin);
    let agents = world.json("agents list --json");
    assert_eq!(agents[0]["agent"]["name"], "claude", "{agents}");
}

#[test]
fn a_fleet_that_nobody_trusts_is_not_used_and_that_is_said_once() {
    let world = World::new().local_only("trust is of this machine");
    world.ok("trust --revoke");
    let said = start(&world, "one", "startup").stdout;
    let said: Value = serde_json::from_str(&said).expect("JSON");
    assert!(
        said["systemMessage"]
            .as_str()
            .expect("a line")
            .contains("`fleet trust`")
    );
    assert_eq!(said["hookSpecificOutput"], Value::Null);
    assert_eq!(prompt(&world, "one", "Add login").stdout, "");
}

#[test]
fn the_shell_of_opencode_is_told_who_it_is_and_an_old_one_is_refused() {
    let world = World::new();
    let tell = |event: &str, session: &str, more: &Value| {
        let mut payload = json!({ "sessionID": session, "directory": world.repo() });
        for (key, value) in more.as_object().expect("an object") {
            payload[key] = value.clone();
        }
        let ran = world
            .line(&format!("hook opencode {event}"))
            .stdin(payload.to_string())
            .run();
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
        serde_json::from_str::<Value>(&ran.stdout).expect("JSON")
    };
    tell("chat.message", "one", &json!({ "prompt": "Add login" }));
    let env = tell("shell.env", "one", &json!({ "callID": "call_1" }))["env"].clone();
    assert_eq!(
        env,
        json!({ "FLEET_AGENT": "opencode", "FLEET_EPOCH": "1" })
    );
    let own = world.json("sorties list --json");
    let id = own[0]["id"].as_str().expect("an id").to_owned();
    let update = |note: &str| {
        world
            .line(&format!("sorties update {id} --note {note}"))
            .env("FLEET_AGENT", env["FLEET_AGENT"].as_str().unwrap())
            .env("FLEET_EPOCH", env["FLEET_EPOCH"].as_str().unwrap())
            .run()
            .code
    };
    assert_eq!(update("halfway"), 0);
    // Another session takes the seat.
    world.ok("agents register opencode");
    assert_eq!(update("late"), 4, "its shell is fenced");
}

#[test]
fn a_client_that_announces_compactions_all_the_time_gets_few_checkpoints() {
    let world = World::new();
    let more = json!({ "hook_event_name": "BeforeAgent", "prompt": "Add login" });
    hook(&world, "gemini", "BeforeAgent", "one", &more);
    let count = || {
        let all = world.json("checkpoints list --json");
        let all = all.as_array().expect("a list").iter();
        all.filter(|it| it["reason"] == "pre_compact").count()
    };
    let announced = json!({ "hook_event_name": "PreCompress", "trigger": "auto" });
    for number in 0..4 {
        let edited = json!({
            "hook_event_name": "AfterTool", "tool_name": "write_file",
            "tool_input": { "file_path": world.repo().join(format!("src/{number}.rs")) },
            "tool_response": {},
        });
        hook(&world, "gemini", "AfterTool", "one", &edited);
        hook(&world, "gemini", "PreCompress", "one", &announced);
    }
    assert_eq!(count(), 1, "one in five minutes, whatever was changed");
    world.pass(301);
    hook(&world, "gemini", "PreCompress", "one", &announced);
    assert_eq!(count(), 2);
    world.pass(301);
    hook(&world, "gemini", "PreCompress", "one", &announced);
    assert_eq!(count(), 2, "nothing has changed since");
}

#[test]
fn cursor_gets_its_briefing_with_the_first_tool_after_a_compaction_was_announced() {
    let world = World::new();
    let tell = |event: &str, more: &Value| {
        let mut payload = json!({
            "conversation_id": "one", "workspace_roots": [world.repo()], "hook_event_name": event,
        });
        for (key, value) in more.as_object().expect("an object") {
            payload[key] = value.clone();
        }
        let ran = world
            .line(&format!("hook cursor {event}"))
            .stdin(payload.to_string())
            .run();
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
        serde_json::from_str::<Value>(&ran.stdout).expect("JSON")
    };
    tell("beforeSubmitPrompt", &json!({ "prompt": "Add login" }));
    let used = json!({ "tool_name": "Read", "tool_input": {}, "tool_output": "{}" });
    assert_eq!(tell("postToolUse", &used), json!({}));
    let full =
        json!({ "trigger": "auto", "context_tokens": 190_000, "context_window_size": 200_000 });
    assert_eq!(tell("preCompact", &full), json!({}));
    let taken = world.json("checkpoints list --json");
    assert_eq!(taken[0]["reason"], "pre_compact", "{taken}");
    let answer = tell("postToolUse", &used);
    let context = answer["additional_context"].as_str().expect("a context");
    assert!(context.contains("## Recovery Context"), "{context}");
    assert_eq!(tell("postToolUse", &used), json!({}), "once");
}

#[test]
fn the_log_says_what_a_session_did() {
    let world = World::new();
    start(&world, "one", "startup");
    prompt(&world, "one", "Add login");
    edit(&world, "one", "src/auth.rs");
    let edited = json!({
        "hook_event_name": "PostToolUse", "tool_name": "Edit", "tool_use_id": "toolu_1",
        "tool_input": { "file_path": world.repo().join("src/auth.rs") }, "tool_response": {},
    });
    hook(&world, "claude", "PostToolUse", "one", &edited);
    start(&world, "one", "compact");
    let log = world.ok("log -n 50").stdout;
    assert!(!log.contains("is idle"), "{log}");
    assert!(log.contains("has changed src/auth.rs"), "{log}");
    assert!(!log.contains("secret made"), "{log}");
}

#[test]
fn briefings_that_nobody_read_are_counted_in_the_status() {
    let world = World::new();
    start(&world, "one", "startup");
    prompt(&world, "one", "Add login");
    for _ in 0..3 {
        let compacting = json!({ "hook_event_name": "PreCompact", "trigger": "auto" });
        hook(&world, "claude", "PreCompact", "one", &compacting);
        context_of(&start(&world, "one", "compact"));
        world.pass(10);
    }
    let status = world.ok("status").stdout;
    assert!(
        status.contains("claude offered, not acknowledged (2 before it expired unread)"),
        "{status}"
    );
}

#[test]
fn copilot_gets_its_briefing_with_the_next_tool_although_no_payload_names_its_record() {
    let world = World::new();
    let folder = world.home().join(".copilot/session-state/58a9af65");
    fs::create_dir_all(&folder).expect("made");
    let record = |lines: &str| fs::write(folder.join("events.jsonl"), lines).expect("written");
    let tell = |event: &str, more: &Value| {
        let mut payload = json!({ "sessionId": "58a9af65", "cwd": world.repo() });
        for (key, value) in more.as_object().expect("an object") {
            payload[key] = value.clone();
        }
        let ran = world
            .line(&format!("hook copilot {event}"))
            .stdin(payload.to_string())
            .run();
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{ran:?}");
        ran.stdout
    };
    record("{\"type\":\"session.start\",\"data\":{}}\n");
    tell("userPromptSubmitted", &json!({ "prompt": "Add login" }));
    let used = json!({
        "toolName": "bash", "toolArgs": { "command": "ls" },
        "toolResult": { "resultType": "success", "textResultForLlm": "" },
    });
    assert_eq!(tell("postToolUse", &used), "");
    record(
        "{\"type\":\"session.compaction_complete\",\"data\":{\"success\":true,\"outcome\":\"applied\"}}\n",
    );
    let answer: Value = serde_json::from_str(&tell("postToolUse", &used)).expect("JSON");
    let context = answer["additionalContext"].as_str().expect("a context");
    assert!(context.contains("## Recovery Context"), "{context}");
    assert_eq!(tell("postToolUse", &used), "", "once");
}
