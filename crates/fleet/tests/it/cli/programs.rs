//! What is there for programs and shells: operations, schemas, manual pages, completion, and topics.

use std::fs;

use expect_test::expect;
use serde_json::{Value, json};

use crate::cli::stage;
use crate::cli::world::{World, words};

#[test]
fn operations_are_listed() {
    let world = World::empty();
    let names = world.ok("call").stdout;
    for name in [
        "create_mission",
        "claim_next",
        "acquire_locks",
        "show_status",
        "heartbeat",
    ] {
        assert!(
            names.lines().any(|line| line == name),
            "{name} is not in {names}"
        );
    }
    for internal in ["after_write", "list_processes", "thin_journal"] {
        assert!(!names.lines().any(|line| line == internal), "{names}");
    }
    let listed: Vec<String> = names.lines().map(str::to_owned).collect();
    assert_eq!(world.json("call"), json!(listed));
}

#[test]
fn an_operation_runs_from_json() {
    let world = World::with_sorties(&["Model"]);
    let call = |typed: &str, request: &Value| {
        world
            .line(typed)
            .agent("ada")
            .stdin(request.to_string())
            .run()
    };
    let claimed = call(
        "call claim_next --json",
        &json!({ "mission": null, "lock": false }),
    );
    let view = claimed.json();
    assert_eq!(
        (view["sortie"]["title"].as_str(), view["owner"].as_str()),
        (Some("Model"), Some("ada"))
    );
    // Without --json the answer is JSON all the same: there is no other form of it.
    let shown = call(
        "call show_sortie",
        &json!({ "sortie": view["sortie"]["id"] }),
    );
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["sortie"], view["sortie"]);
    assert_eq!(world.json("sorties list")[0]["assigned_to"], "ada");
    // It is the same operation: the same rules, keys and fields.
    let again = call(
        "call claim_next --json",
        &json!({ "mission": null, "lock": false }),
    );
    assert_eq!(
        (again.code, again.error_code().as_str()),
        (4, "nothing_ready")
    );
    let note = json!({ "kind": "lesson", "text": "Once", "mission": null, "rationale": null, "sortie": null,
        "path": null, "checksum": null, "artifact_type": null });
    let first = call("call add_note --json --idempotency-key k", &note).json();
    assert_eq!(
        call("call add_note --json --idempotency-key k", &note).json(),
        first
    );
    let fields = call(
        "call list_notes --json --fields text,kind",
        &json!({ "mission": null, "kind": null }),
    );
    assert_eq!(fields.json(), json!([{ "kind": "lesson", "text": "Once" }]));
}

#[test]
fn a_request_that_does_not_fit_is_refused() {
    let world = World::with_sorties(&["Model"]);
    let before = world.rev();
    let call = |request: &str| {
        world
            .line("call claim_next")
            .agent("ada")
            .stdin(request)
            .run()
    };
    call("not json").expect(expect![[r#"
        [stderr]
        error: the request for `claim_next` is not JSON: it cannot be read from line 1, column 2 on
        [exit 2]
    "#]]);
    call("{\"lock\":1}").expect(expect![[r#"
        [stderr]
        error: `lock` of the request for `claim_next` is the number 1, and must be true or false
        [exit 2]
    "#]]);
    for wrong in [
        "",
        "[]",
        "null",
        "{\"mission\":null,\"lock\":\"yes\"}",
        "{\"mission\":null,\"lock\":false} {}",
        "\u{0}",
    ] {
        call(wrong).refused(2);
    }
    world
        .line("call claim_nxt")
        .stdin("{}")
        .run()
        .expect(expect![[r#"
        [stderr]
        error: there is no operation `claim_nxt`

        hint: list them with `fleet call`
        [exit 3]
    "#]]);
    assert_eq!(world.rev(), before);
}

#[test]
fn every_schema_is_a_schema() {
    let world = World::empty();
    let names = world.json("schema");
    let names = names.as_array().unwrap();
    assert!(names.len() >= 22, "{names:?}");
    for name in names {
        let name = name.as_str().unwrap();
        let schema = world.json(&format!("schema {name}"));
        assert!(
            schema["$schema"]
                .as_str()
                .unwrap()
                .contains("json-schema.org"),
            "{name}"
        );
        assert!(
            schema["title"].is_string() && schema["properties"].is_object(),
            "{name}: {schema}"
        );
        // People get the same, with line breaks.
        let shown = world.ok(&format!("schema {name}")).stdout;
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), schema);
        assert!(shown.lines().count() > 5, "{name}");
    }
    world.fleet("schema nonsense").expect(expect![[r#"
        [stderr]
        error: there is no schema `nonsense`

        hint: schemas: agent, agent-view, briefing, candidate, checkpoint, checkpoint-list, created-token, edited, effect, error, event, handoff, lock, lock-view, message, message-view, mission, mission-view, monitored, note, policy, prepared, pruned, recovery-context, recovery-points, replay, replay-end, replay-step, report, restored, restored-states, resumed, resumed-agent, serving, sortie, sortie-view, stats, status, taken-over, task-table
        [exit 3]
    "#]]);
}

#[test]
fn answers_have_the_fields_of_their_schemas() {
    let world = stage::world();
    for (schema, typed) in [
        ("status", "status"),
        ("mission-view", "missions show"),
        ("sortie-view", "sorties show {Model}"),
        ("agent-view", "agents show ada"),
        ("lock-view", "locks list"),
        ("message-view", "mail inbox --of ada"),
    ] {
        let mut answer = world.json(&stage::named(typed));
        if answer.is_array() {
            answer = answer[0].take();
        }
        let schema = world.json(&format!("schema {schema}"));
        let keys = |value: &Value| {
            value
                .as_object()
                .unwrap()
                .keys()
                .cloned()
                .collect::<Vec<_>>()
        };
        assert_eq!(keys(&answer), keys(&schema["properties"]), "{typed}");
    }
    let error = world.fleet("sorties show srt-ffff --json").json();
    let schema = world.json("schema error");
    for field in error["error"].as_object().unwrap().keys() {
        assert!(schema["properties"].get(field).is_some(), "{field}");
    }
}

#[test]
fn the_manual_is_printed_and_written() {
    let world = World::empty();
    let page = world.ok("man").stdout;
    assert!(
        page.contains(".TH fleet 1") && page.contains("\\-\\-json"),
        "{page}"
    );
    // What else is in the folder is not counted.
    world.write("man/notes.txt", "mine");
    let said = world.ok("man --to man").stdout;
    let pages: Vec<String> = fs::read_dir(world.repo().join("man"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".1"))
        .collect();
    assert_eq!(said, format!("Wrote {} pages to REPO/man\n", pages.len()));
    for page in ["fleet.1", "fleet-sorties-claim.1", "fleet-note-dead-end.1"] {
        assert!(
            pages.iter().any(|name| name == page),
            "{page} is not in {pages:?}"
        );
    }
    assert_eq!(world.json("man --to man")["pages"], pages.len());
    assert_eq!(
        fs::read_to_string(world.repo().join("man/notes.txt")).unwrap(),
        "mine"
    );
}

#[test]
fn every_shell_gets_a_script() {
    let world = World::empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = world.ok(&format!("completions {shell}")).stdout;
        assert!(
            script.contains("fleet") && script.contains("COMPLETE"),
            "{shell}: {script}"
        );
        assert_eq!(
            world.json(&format!("completions {shell}"))["script"]
                .as_str()
                .unwrap()
                .trim_end(),
            script.trim_end()
        );
    }
    world.fleet("completions tcsh").expect(expect![[r#"
        [stderr]
        error: `<SHELL>` cannot be `tcsh`

        hint: it may be: bash, zsh, fish, elvish, powershell
              see `fleet completions --help`
        [exit 2]
    "#]]);
}

/// What bash would offer for the last word of `typed`, asked as its completion script asks.
fn offered(world: &World, typed: &str) -> Vec<String> {
    let mut line = words(typed);
    if typed.ends_with(' ') {
        line.push("".into());
    }
    let mut arguments = vec!["--".into(), "fleet".into()];
    arguments.extend(line.iter().cloned());
    let command = world.command(&arguments);
    let ran = command
        .env("COMPLETE", "bash")
        .env("_CLAP_COMPLETE_INDEX", line.len().to_string())
        .env("_CLAP_COMPLETE_COMP_TYPE", "9")
        .env("_CLAP_COMPLETE_SPACE", "true")
        .env("_CLAP_IFS", "\n")
        .run();
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{typed}: {ran:?}");
    ran.stdout.lines().map(str::to_owned).collect()
}

#[test]
fn completion_offers_commands_and_flags() {
    let world = World::empty();
    assert_eq!(offered(&world, "hea"), ["heartbeat"]);
    assert!(offered(&world, "sorties cl").contains(&"claim".to_owned()));
    assert!(offered(&world, "sorties claim --n").contains(&"--next".to_owned()));
    assert_eq!(offered(&world, "completions z"), ["zsh"]);
}

#[test]
fn completion_offers_what_is_in_the_store() {
    let world = stage::world();
    let model = stage::named("{Model}")[..12].to_owned();
    let sorties = offered(&world, "sorties show ");
    assert!(sorties.contains(&model), "{sorties:?}");
    assert_eq!(
        offered(&world, &format!("sorties show {}", &model[..9])),
        [model.as_str()]
    );
    let missions = offered(&world, "missions show ");
    assert!(
        missions.contains(&stage::named("{Later}")[..12].to_owned()),
        "{missions:?}"
    );
    let agents = offered(&world, "agents show ");
    for name in ["ada", "bob", "lead"] {
        assert!(agents.contains(&name.to_owned()), "{agents:?}");
    }
    assert!(offered(&world, "mail send --to ").contains(&"ada".to_owned()));
    assert!(offered(&world, "locks release ").contains(&"src/a.rs".to_owned()));
    assert!(offered(&world, "mail read ").contains(&stage::named("{Hello}")[..12].to_owned()));
    assert!(offered(&world, "--agent a").contains(&"ada".to_owned()));
    assert!(
        offered(&world, "status --mission ").contains(&stage::named("{Later}")[..12].to_owned())
    );
}

/// What bash itself offers after the registration it is given, for an empty word after `words`.
fn offered_in_bash(world: &World, words: &str) -> String {
    const SCRIPT: &str = r#"
        eval "$(fleet completions bash)"
        words=(fleet $1 "")
        COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1)) COMP_TYPE=9
        _clap_complete_fleet fleet "" "${words[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_fleet"));
    let path = format!("{}:/usr/bin:/bin", binary.parent().unwrap().display());
    let mut bash = std::process::Command::new("bash");
    bash.args(["--norc", "--noprofile", "-c", SCRIPT, "bash", words]);
    let ran = world.wrapped(bash).env("PATH", path).run();
    assert_eq!(ran.code, 0, "{ran:?}");
    ran.stdout
}

#[test]
fn bash_is_not_offered_what_it_would_run_or_take_apart() {
    let world = stage::world();
    let evil = [
        "$(touch owned)",
        "`touch owned`",
        "a;touch owned",
        "a b",
        "*",
        "~root",
        "x&y",
        "a'b",
        "a\"b",
        "{a,b}",
        "!1",
    ];
    for path in evil {
        fs::write(world.repo().join(path), "x").unwrap();
        assert_eq!(
            world
                .command(&["locks", "acquire", path, "--agent", "ada"])
                .run()
                .code,
            0,
            "{path}"
        );
    }
    fs::write(world.repo().join("plain-1.db"), "x").unwrap();
    for (words, good) in [("locks release", "src/a.rs"), ("restore", "plain-1.db")] {
        let offered = offered_in_bash(&world, words);
        assert!(
            offered.lines().any(|line| line == good),
            "{words}: {offered}"
        );
        let plain = |c: char| c.is_alphanumeric() || "._/:=,+%-".contains(c);
        assert!(
            offered.lines().all(|line| line.chars().all(plain)),
            "{words}: {offered}"
        );
    }
    assert!(!world.repo().join("owned").exists());
    // Fish quotes what it puts on the line, and is offered everything.
    let fish = world
        .command(&["--", "fleet", "locks", "release", ""])
        .env("COMPLETE", "fish")
        .run();
    assert!(fish.stdout.contains("$(touch owned)"), "{fish:?}");
}

#[test]
fn completion_is_silent_where_there_is_no_fleet() {
    let ids = |names: Vec<String>| {
        names
            .into_iter()
            .filter(|name| !name.starts_with('-'))
            .count()
    };
    assert_eq!(ids(offered(&World::empty(), "sorties show ")), 0);
    let broken = World::new();
    fs::write(broken.database(), "not a database").unwrap();
    assert_eq!(ids(offered(&broken, "sorties show ")), 0);
}

#[test]
fn every_topic_is_explained_and_every_list_of_topics_is_whole() {
    let world = World::empty();
    let help = world.ok("help").stdout;
    let topics = help
        .split("Topics: ")
        .nth(1)
        .unwrap()
        .trim()
        .replace('\n', " ");
    let topics: Vec<&str> = topics.split(", ").collect();
    assert_eq!(
        topics,
        [
            "quickstart",
            "concepts",
            "checkpoints",
            "recovery",
            "effects",
            "presets",
            "agents",
            "locks",
            "server",
            "ids",
            "json",
            "exit-codes",
            "environment",
            "secrets"
        ]
    );
    for topic in topics {
        let told = world.ok(&format!("help {topic}")).stdout;
        assert!(told.lines().count() > 4, "{topic}: {told}");
        assert!(
            told.lines().all(|line| line.chars().count() <= 80),
            "{topic} is too wide"
        );
        assert_eq!(
            world.json(&format!("help {topic}"))["text"]
                .as_str()
                .unwrap()
                .trim_end(),
            told.trim_end()
        );
    }
    let environment = world.ok("help environment").stdout;
    for name in [
        "FLEET_AGENT",
        "FLEET_EPOCH",
        "FLEET_SESSION",
        "FLEET_MISSION",
        "FLEET_LOCATION",
        "NO_COLOR",
    ] {
        assert!(environment.contains(name), "{name}");
    }
    world.fleet("help nonsense").expect(expect![[r#"
        [stderr]
        error: there is no topic or command `nonsense`

        hint: topics: quickstart, concepts, checkpoints, recovery, effects, presets, agents, locks, server, ids, json, exit-codes, environment, secrets; commands: `fleet --help`
        [exit 3]
    "#]]);
    // A topic and a noun may share a name: the topic is what the page says, the noun explains itself.
    assert!(
        world
            .ok("help sorties")
            .stdout
            .contains("Usage: fleet sorties")
    );
    assert!(
        world
            .ok("agents --help")
            .stdout
            .contains("Usage: fleet agents")
    );
    // Short help has neither examples nor the options that every command takes.
    let (short, full) = (
        world.ok("sorties claim -h").stdout,
        world.ok("sorties claim --help").stdout,
    );
    assert!(full.contains("\nExamples:\n") && full.contains("--idempotency-key"));
    assert!(!short.contains("Examples:") && !short.contains("--idempotency-key"));
    assert!(short.contains("--next"), "{short}");
}

#[test]
fn what_is_written_keeps_to_the_published_schema() {
    let world = World::new();
    world.ok("mission create Login --sortie Model --sortie Tests");
    world.ok("agents register ada");
    world.agent_ok("ada", "sorties claim --next");
    world.agent_ok("ada", "locks acquire src/model.rs --purpose edit");
    world.ok("mail send --to ada --subject Hello --body there");
    world.ok("checkpoint --note \"before the storm\"");
    let keeps = |name: &str, document: &Value| {
        let schema = world.json(&format!("schema {name}"));
        let validator = jsonschema::validator_for(&schema).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(document)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert_eq!(errors, [] as [&str; 0], "{name}: {document:#}");
    };
    let shown = world.json("checkpoints show @latest");
    keeps("checkpoint", &shown);
    let mission = shown["mission_id"].as_str().unwrap();
    let file = world
        .state()
        .join("checkpoints")
        .join(mission)
        .join("latest.json");
    let backup: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert!(backup["state"]["values"].as_array().unwrap().len() > 5);
    keeps("checkpoint", &backup);
    keeps("recovery-context", &shown["recovery_context"]);
    keeps("briefing", &world.json("context --agent ada"));
    keeps("status", &world.json("status"));
}
