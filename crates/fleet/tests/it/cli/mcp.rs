//! `fleet mcp`: what an agent does with the tools, and what it is told, through the real binary.

use serde_json::{Value, json};

use crate::cli::mcp_client::{Client, mission, text};
use crate::cli::world::World;

#[test]
fn a_client_lists_the_tools_and_asks_for_the_status() {
    let world = mission();
    let mut client = Client::start(&world, &[]);
    let listed = client.ask("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "fleet_status",
            "fleet_context",
            "fleet_checkpoint",
            "fleet_sortie",
            "fleet_note",
            "fleet_heartbeat",
            "fleet_lock",
            "fleet_mail"
        ]
    );
    let result = client.call("fleet_status", json!({}));
    assert_eq!(
        result["structuredContent"]["mission"]["mission"]["title"],
        "Add login"
    );
    assert!(
        text(&result).starts_with("Add login  msn-"),
        "{}",
        text(&result)
    );
    client.end();
}

#[test]
fn an_agent_works_with_tools_alone() {
    let world = mission();
    let mut client = Client::start(&world, &["--agent", "ada"]);
    let claimed = client.ok("fleet_sortie", json!({ "action": "claim" }));
    let sortie = claimed["sortie"]["id"].as_str().unwrap().to_owned();
    assert_eq!(claimed["owner"], "ada");
    let absolute = world.repo().join("src/user.rs").display().to_string();
    let locked = client.ok(
        "fleet_lock",
        json!({ "action": "acquire", "paths": [absolute], "purpose": "model" }),
    );
    assert_eq!(locked["locks"][0]["lock"]["file"], "src/user.rs");
    for release in [
        json!({ "action": "release", "paths": ["src/user.rs"] }),
        json!({ "action": "release" }),
    ] {
        let released = client.ok("fleet_lock", release);
        assert_eq!(released["locks"].as_array().unwrap().len(), 1);
        client.ok("fleet_lock", json!({ "paths": ["src/user.rs"] }));
    }
    let told = json!({ "action": "update", "sortie": sortie, "text": "fields", "next": "tests", "files": ["src/user.rs"], "subtasks": { "fields": "complete", "tests": "pending" }, "checkpoint": true });
    let updated = client.ok("fleet_sortie", told);
    assert_eq!(updated["progress"]["completed"], 1, "{updated}");
    assert!(updated["checkpoint"].as_str().unwrap().starts_with("chk-"));
    client.ok(
        "fleet_note",
        json!({ "kind": "decision", "text": "argon2", "rationale": "slow" }),
    );
    let notes = client.ok("fleet_note", json!({ "action": "list" }));
    assert_eq!(notes["notes"][0]["text"], "argon2");
    assert_eq!(
        client.ok("fleet_heartbeat", json!({ "step": "tests" }))["stop"],
        false
    );
    let taken = client.ok("fleet_checkpoint", json!({ "note": "half way" }));
    assert!(taken["id"].as_str().unwrap().starts_with("chk-"));
    // Its file is written as after a command.
    let files = std::fs::read_dir(world.repo().join(".flightline/checkpoints")).unwrap();
    assert!(files.count() > 0);
    let released = client.ok(
        "fleet_sortie",
        json!({ "action": "release", "sortie": sortie, "checkpoint": true }),
    );
    assert!(released["checkpoint"].is_string(), "{released}");
    client.ok(
        "fleet_sortie",
        json!({ "action": "claim", "sortie": sortie }),
    );
    client.ok(
        "fleet_sortie",
        json!({ "action": "complete", "sortie": sortie }),
    );
    let left = client.ok(
        "fleet_sortie",
        json!({ "action": "list", "status": "pending" }),
    );
    assert_eq!(left["sorties"].as_array().unwrap().len(), 1);
    client.end();
    let shown = world.ok(&format!("sorties show {sortie}"));
    assert!(
        shown.stdout.contains("completed") && shown.stdout.contains("src/user.rs"),
        "{shown:?}"
    );
}

#[test]
fn agents_write_to_one_another() {
    let world = mission();
    let mut client = Client::start(&world, &[]);
    let said = client.refused("fleet_heartbeat", json!({ "agent": "ada" }));
    assert!(
        said.ends_with("next: run `fleet agents register ada` in a shell"),
        "the tool for it is not offered: {said}"
    );
    for agent in ["ada", "bob"] {
        world.ok(&format!("agents register {agent}"));
    }
    client.ok("fleet_heartbeat", json!({ "agent": "ada" }));
    let sent = json!({ "action": "send", "to": ["bob"], "subject": "Ready", "body": "All\nof it", "agent": "ada" });
    let sent = client.ok("fleet_mail", sent);
    let message = sent["messages"][0]["message"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let inbox = client.ok("fleet_mail", json!({ "action": "inbox", "agent": "bob" }));
    assert_eq!(inbox["messages"][0]["message"]["subject"], "Ready");
    let read = client.call(
        "fleet_mail",
        json!({ "action": "read", "message": message, "agent": "bob" }),
    );
    assert_eq!(read["content"][1]["text"], "All\nof it");
    client.ok(
        "fleet_mail",
        json!({ "action": "reply", "message": message, "body": "Yes", "agent": "bob" }),
    );
    client.ok(
        "fleet_mail",
        json!({ "action": "ack", "message": message, "agent": "bob" }),
    );
    let thread = client.ok(
        "fleet_mail",
        json!({ "action": "thread", "message": message, "agent": "bob" }),
    );
    assert_eq!(thread["messages"].as_array().unwrap().len(), 2);
    client.end();
}

#[test]
fn the_other_seven_tools_do_what_they_say() {
    let world = mission();
    let mut client = Client::start(&world, &["--tools", "full", "--agent", "lead"]);
    let listed = client.ask("tools/list", json!({}));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 15);
    let made = client.ok(
        "fleet_mission",
        json!({ "action": "create", "title": "Next", "sorties": ["A", "B"] }),
    );
    let mission = made["mission"]["id"].as_str().unwrap().to_owned();
    let missions = client.ok("fleet_mission", json!({ "action": "list" }));
    assert_eq!(missions["missions"].as_array().unwrap().len(), 2);
    let more = client.ok(
        "fleet_mission",
        json!({ "action": "add", "mission": mission, "sorties": ["C"] }),
    );
    assert_eq!(more["sorties"][0]["title"], "C");
    client.ok(
        "fleet_mission",
        json!({ "action": "use", "mission": mission }),
    );
    client.ok("fleet_mission", json!({ "action": "start" }));
    let first = client.ok("fleet_checkpoint", json!({}))["id"].clone();
    client.ok("fleet_sortie", json!({ "action": "claim" }));
    let diff = client.ok(
        "fleet_checkpoints",
        json!({ "action": "diff", "checkpoint": first }),
    );
    assert!(!diff["differences"].as_array().unwrap().is_empty());
    client.ok(
        "fleet_checkpoints",
        json!({ "action": "pin", "checkpoint": first }),
    );
    let shown = client.ok(
        "fleet_checkpoints",
        json!({ "action": "show", "checkpoint": first }),
    );
    assert_eq!(shown["checkpoint"]["pinned"], true);
    let verified = client.ok(
        "fleet_checkpoints",
        json!({ "action": "verify", "checkpoint": first }),
    );
    assert_eq!(verified["verifications"][0]["sound"], true);
    client.ok("fleet_resume", json!({ "action": "detect" }));
    let rev = world.rev();
    let preview = client.ok(
        "fleet_resume",
        json!({ "action": "preview", "checkpoint": first }),
    );
    assert_eq!(preview["resumed"]["rewound"], true);
    assert_eq!(world.rev(), rev, "a preview changes nothing");
    let resumed = client.ok(
        "fleet_resume",
        json!({ "action": "resume", "checkpoint": first, "force": true }),
    );
    assert_eq!(resumed["resumed"]["mission_title"], "Next");
    client.ok("fleet_resume", json!({ "action": "undo" }));
    client.ok(
        "fleet_effect",
        json!({ "action": "begin", "key": "deploy" }),
    );
    client.ok(
        "fleet_effect",
        json!({ "action": "done", "key": "deploy", "result": "up" }),
    );
    let twice = client.refused(
        "fleet_effect",
        json!({ "action": "begin", "key": "deploy" }),
    );
    assert!(twice.contains("effect_done"), "{twice}");
    client.ok(
        "fleet_agents",
        json!({ "action": "register", "name": "bob", "role": "specialist" }),
    );
    let agents = client.ok("fleet_agents", json!({ "action": "list" }));
    assert!(agents["agents"].as_array().unwrap().len() >= 2);
    assert_eq!(
        client.ok("fleet_agents", json!({ "action": "show", "name": "bob" }))["agent"]["name"],
        "bob"
    );
    client.ok(
        "fleet_agents",
        json!({ "action": "handoff", "name": "lead" }),
    );
    let events = client.ok("fleet_events", json!({}));
    let newest = events["events"][0]["rev"].as_u64().unwrap();
    let older = client.ok("fleet_events", json!({ "cursor": events["next_cursor"] }));
    assert!(older["events"][0]["rev"].as_u64().unwrap() < newest);
    let steps = client.ok("fleet_replay", json!({}));
    let cursor = steps["next_cursor"].as_str().unwrap();
    let more = client.ok("fleet_replay", json!({ "cursor": cursor }));
    assert!(more["steps"][0]["rev"].as_u64().unwrap() > cursor.parse().unwrap());
    client.end();
}

#[test]
fn a_briefing_that_was_given_by_mcp_counts_as_delivered() {
    let world = mission();
    world.agent_ok("ada", "sorties claim --next");
    let mut client = Client::start(&world, &["--agent", "ada"]);
    let given = client.call("fleet_context", json!({}));
    let briefing = given["content"][1]["text"].as_str().unwrap();
    assert!(briefing.contains("User model"), "{briefing}");
    assert_eq!(
        given["structuredContent"]["text"], briefing,
        "whichever of the two a client shows"
    );
    let nonce = given["structuredContent"]["nonce"].clone();
    assert!(text(&given).contains(nonce.as_str().unwrap()));
    let kinds = |world: &World| {
        let events = world.json("events list --limit 100 --json");
        let events = events["events"].as_array().unwrap().clone();
        events
            .iter()
            .filter(|event| event["type"].as_str().unwrap().starts_with("briefing_"))
            .map(|event| event["type"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds(&world), ["briefing_offered"]);
    client.ok("fleet_context", json!({ "ack": nonce }));
    assert_eq!(kinds(&world), ["briefing_acknowledged", "briefing_offered"]);
    // What was read is not given in full again, by whichever door.
    let again = client.ok("fleet_context", json!({}));
    assert_eq!(again["form"], "line", "{again}");
    let wrong = client.refused("fleet_context", json!({ "ack": "ffffffff" }));
    assert!(wrong.ends_with("next: call `fleet_context`"), "{wrong}");
    client.end();
}

#[test]
fn a_refusal_names_the_next_call() {
    let world = mission();
    let mut client = Client::start(&world, &["--agent", "ada"]);
    let sortie = world.sortie("Endpoint");
    let said = client.refused(
        "fleet_sortie",
        json!({ "action": "complete", "sortie": sortie }),
    );
    assert!(
        said.contains("next: call `fleet_sortie` with {\"action\": \"claim\""),
        "{said}"
    );
    client.ok(
        "fleet_lock",
        json!({ "action": "acquire", "paths": ["src"] }),
    );
    let said = client.refused(
        "fleet_lock",
        json!({ "action": "acquire", "paths": ["src/a.rs"], "agent": "bob" }),
    );
    assert!(
        said.starts_with("error (lock_held)") && said.contains("next: call `fleet_"),
        "{said}"
    );
    let said = client.refused("fleet_sortie", json!({ "action": "fly" }));
    assert!(
        said.contains("`action` of the call of `fleet_sortie` is `fly`"),
        "{said}"
    );
    let answer = client.ask(
        "tools/call",
        json!({ "name": "fleet_nothing", "arguments": {} }),
    );
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    client.end();
}

#[test]
fn results_stay_small_however_much_there_is() {
    let world = World::new().local_only("calls open the store themselves");
    let titles: Vec<String> = (0..300)
        .map(|number| format!("Sortie {number} {}", "with a rather long title ".repeat(4)))
        .collect();
    let mut client = Client::start(&world, &["--agent", "ada"]);
    client.ok(
        "fleet_mission",
        json!({ "action": "create", "title": "Large", "sorties": titles }),
    );
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    loop {
        let mut asked = json!({ "action": "list" });
        if !cursor.is_null() {
            asked["cursor"] = cursor;
        }
        let part = client.ok("fleet_sortie", asked);
        assert!(flightline::core::briefing::estimate_tokens(&part.to_string()) <= 4_000);
        seen.extend(
            part["sorties"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| it["title"].clone()),
        );
        cursor = part["next_cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen.len(), 300);
    let status = client.ok("fleet_status", json!({}));
    assert!(flightline::core::briefing::estimate_tokens(&status.to_string()) <= 4_000);
    assert!(
        status["left_out"]["/mission/sorties"].as_u64().unwrap() > 200,
        "{}",
        status["left_out"]
    );
    client.end();
}

#[test]
fn resources_and_prompts_tell_the_same_as_commands() {
    let world = mission();
    world.agent_ok("ada", "sorties claim --next");
    world.ok("checkpoint");
    let mut client = Client::start(&world, &[]);
    let listed = client.ask("resources/list", json!({}));
    assert_eq!(listed["result"]["resources"][0]["uri"], "fleet://status");
    let templates = client.ask("resources/templates/list", json!({}));
    assert_eq!(
        templates["result"]["resourceTemplates"]
            .as_array()
            .unwrap()
            .len(),
        5
    );
    let read = |client: &mut Client, uri: &str| {
        let answer = client.ask("resources/read", json!({ "uri": uri }));
        answer["result"]["contents"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{uri}: {answer}"))
            .to_owned()
    };
    let status: Value = serde_json::from_str(&read(&mut client, "fleet://status")).unwrap();
    let mission = status["mission"]["mission"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(read(&mut client, &format!("fleet://missions/{mission}")).contains("User model"));
    assert!(read(&mut client, "fleet://checkpoints/@latest").contains("recovery_context"));
    assert!(
        read(&mut client, "fleet://checkpoints/@latest/briefing").contains("## Recovery Context")
    );
    assert!(read(&mut client, "fleet://agents/ada/recovery").contains("User model"));
    assert_eq!(read(&mut client, "fleet://agents/ada/inbox"), "[]");
    let missing = client.ask(
        "resources/read",
        json!({ "uri": "fleet://missions/msn-ffff" }),
    );
    assert_eq!(missing["error"]["code"], -32002, "{missing}");
    let prompts = client.ask("prompts/list", json!({}));
    let prompts = prompts["result"]["prompts"].as_array().unwrap().clone();
    let names: Vec<&str> = prompts
        .iter()
        .map(|prompt| prompt["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["recover", "checkpoint", "handoff", "standup"]);
    for (name, arguments, says) in [
        ("recover", json!({ "agent": "ada" }), "User model"),
        (
            "checkpoint",
            json!({ "note": "before lunch" }),
            "before lunch",
        ),
        ("handoff", json!({ "agent": "ada" }), "ada"),
        ("standup", json!({}), "Add login"),
    ] {
        let made = client.ask(
            "prompts/get",
            json!({ "name": name, "arguments": arguments }),
        );
        let text = made["result"]["messages"][0]["content"]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{name}: {made}"));
        assert!(text.contains(says), "{name}: {text}");
    }
    let lacks = client.ask("prompts/get", json!({ "name": "handoff", "arguments": {} }));
    assert_eq!(lacks["error"]["code"], -32602, "{lacks}");
    client.end();
}
