//! `--json`, `--fields`, `-q` and `-v`: what is on which stream.

use expect_test::expect;
use serde_json::{Value, json};

use crate::cli::stage;
use crate::cli::world::World;

#[test]
fn fields_select_from_an_object() {
    let world = World::with_sorties(&["Model"]);
    let shown = world.json("missions show --fields progress_percent,mission.title");
    assert_eq!(
        shown,
        json!({ "mission.title": "Add login", "progress_percent": 0 })
    );
}

#[test]
fn fields_select_from_each_element_of_a_list() {
    let world = World::with_sorties(&["Model", "Login"]);
    let listed = world.json("sorties list --fields title,status");
    assert_eq!(
        listed,
        json!([{ "status": "pending", "title": "Model" }, { "status": "pending", "title": "Login" }])
    );
    world.agent_ok("ada", "locks acquire src/a.rs");
    let locks = world.json("locks list --fields lock.file,holder");
    assert_eq!(locks, json!([{ "holder": "ada", "lock.file": "src/a.rs" }]));
    // A list without elements has no field to miss.
    assert_eq!(world.json("notes list --fields anything"), json!([]));
}

#[test]
fn a_field_that_is_not_there_is_refused() {
    let world = World::with_sorties(&["Model"]);
    world.fleet("status --json --fields rev,colour").expect(expect![[r#"
        {"error":{"code":"invalid_input","hint":"it has: agents, attention, checkpoint, last_event, locks, mission, now, project, recovery, rev, synced","message":"the answer has no field `colour`","retryable":false}}
        [exit 2]
    "#]]);
    for typed in [
        "missions list",
        "sorties list",
        "missions show",
        "status",
        "schema lock",
    ] {
        let ran = world.fleet(&format!("{typed} --json --fields colour"));
        assert_eq!(
            (ran.code, ran.error_code().as_str()),
            (2, "invalid_input"),
            "{typed}"
        );
        let deep = world.fleet(&format!("{typed} --json --fields title.colour.x"));
        assert_eq!(deep.code, 2, "{typed}");
    }
    world
        .fleet("status --json --fields \"\"")
        .refused_in_json(2);
}

#[test]
fn a_write_whose_answer_lacks_a_field_is_refused_before_it_is_done() {
    let world = World::new();
    world.fleet("missions create One --json --fields colour").expect(expect![[r#"
        {"error":{"code":"invalid_input","hint":"nothing was done; it has: already, checkpoint, history, mission, progress, progress_percent, released_locks, sorties","message":"the answer has no field `colour`","retryable":false}}
        [exit 2]
    "#]]);
    assert_eq!(world.json("missions list").as_array().unwrap().len(), 0);
    // Also where the command answers with something else than its operation.
    let refused = world.fleet("token create laptop --json --fields colour");
    assert!(refused.stdout.contains("nothing was done"), "{refused:?}");
    assert_eq!(world.json("token list"), json!([]));
}

#[test]
fn the_answer_is_the_same_with_and_without_talk() {
    let world = stage::world().local_only("`-v` names the store");
    let plain = world.ok("missions list");
    let talking = world.ok("missions list -v");
    assert_eq!(talking.stdout, plain.stdout);
    let told = talking
        .stderr
        .replace(|c: char| c.is_ascii_digit() || c == '.', "");
    assert!(
        told.starts_with("sqlite store at REPO/flightline, project prj-"),
        "{talking:?}"
    );
    assert_eq!(talking.stderr.lines().count(), 1);
    let json = world.ok("missions list -v --json");
    assert_eq!(
        (
            json.json().as_array().unwrap().len(),
            json.stderr.lines().count()
        ),
        (3, 1)
    );
    assert_eq!(world.ok("missions list -q").text(), "");
    // --json outranks -q: a caller that asks for a document gets one.
    assert_eq!(world.ok("missions list -q --json").json(), json.json());
}

#[test]
fn errors_are_on_stderr_or_in_the_document_and_never_in_both() {
    let world = World::with_sorties(&["Model"]);
    for wrong in [
        "sorties show srt-ffff",
        "sorties show",
        "nonsense",
        "status --mission msn-ffff",
        "-C nowhere status",
    ] {
        let said = world.fleet(wrong);
        assert!(
            said.stdout.is_empty() && said.stderr.starts_with("error: "),
            "{said:?}"
        );
        let json = world.fleet(&format!("{wrong} --json"));
        assert!(
            json.stderr.is_empty() && json.json()["error"].is_object(),
            "{json:?}"
        );
        assert_eq!(json.code, said.code);
    }
}

#[test]
fn an_error_has_one_shape() {
    let world = World::with_sorties(&["Model"]);
    world.agent_ok("ada", "locks acquire src --purpose \"big change\"");
    let ran = world.agent("bob", "locks acquire src/a.rs --json");
    let mut error = ran.json();
    // Ids differ from store to store.
    error["error"]["details"]["lock"] = Value::Null;
    expect![[r#"
        {
          "error": {
            "code": "lock_held",
            "details": {
              "fence": 4,
              "holder": "ada",
              "in_the_way": [
                "lck-b851ef85-3028-422d-8000-000000000bb9"
              ],
              "lock": null,
              "locked": "src",
              "path": "src/a.rs",
              "purpose": "big change",
              "sortie": null
            },
            "hint": "wait for it with `fleet locks acquire src/a.rs --wait 15m`\nor ask with `fleet mail send --to ada --subject \"Need src/a.rs\"`",
            "message": "`src/a.rs` overlaps `src`, locked by ada (\"big change\", last sign 1s ago)",
            "retryable": true
          }
        }"#]].assert_eq(&format!("{error:#}"));
}

#[test]
fn an_error_in_json_stays_json_whatever_was_typed() {
    let world = World::with_sorties(&["Model"]);
    // Each of these would take the end of the document away, were it redacted as one text.
    let key = ["-----BEGIN RSA ", "PRIVATE KEY-----"].concat();
    for typed in [
        key.as_str(),
        "password=\"",
        "token: '",
        "\\",
        "\"",
        "{\"error\":",
        "a\u{2028}b",
        "://x:y",
    ] {
        for arguments in [
            ["config", "get", typed, "--json"],
            ["--color", typed, "status", "--json"],
            ["schema", typed, "--json", "-q"],
            ["agents", "show", typed, "--json"],
            ["events", "list", "--json", &format!("--since={typed}")],
        ] {
            let ran = world.command(&arguments).run();
            assert!(matches!(ran.code, 2 | 3), "{arguments:?}: {ran:?}");
            ran.error_code();
        }
    }
}

#[test]
fn a_stream_is_one_document_per_line() {
    let world = World::with_sorties(&["Model", "Login"]);
    let ran = world.ok("events tail --after 0 --for 1ms --json");
    let lines: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let revs: Vec<u64> = lines
        .iter()
        .map(|event| event["rev"].as_u64().unwrap())
        .collect();
    assert_eq!(revs, [1, 2, 3]);
    let selected = world.ok("events tail --after 0 --limit 2 --json --fields rev,type");
    expect![[r#"
        {"rev":1,"type":"mission_created"}
        {"rev":2,"type":"sortie_added"}
    "#]]
    .assert_eq(&selected.stdout);
    let wrong = world.fleet("events tail --after 0 --limit 2 --json --fields colour");
    assert_eq!(
        (wrong.code, wrong.error_code().as_str()),
        (2, "invalid_input")
    );
}
