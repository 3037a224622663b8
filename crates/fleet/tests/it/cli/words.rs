//! What is said is so: each sentence against what happened.

use std::process::Command;

use expect_test::expect;

use crate::cli::world::World;

#[test]
fn a_checkpoint_that_was_there_already_is_not_said_to_be_created() {
    let world = World::with_sorties(&["Model"]);
    world.agent_ok("ada", "sorties claim --next");
    let first = world.ok("checkpoint").stdout;
    assert!(first.starts_with("Checkpoint created: chk-"), "{first}");
    let second = world.ok("checkpoint").stdout;
    assert!(
        second.contains("is current: nothing has changed since it was taken"),
        "{second}"
    );
    let id = world.json("checkpoints list")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let deleted = world.ok(&format!("checkpoints delete {id} -y")).stdout;
    assert_eq!(deleted, format!("Deleted {}\n", &id[..8]));
}

#[test]
fn a_sync_that_changes_nothing_says_so() {
    let world = World::with_sorties(&["Model"]);
    world.ok("agents register ada");
    let said = world.ok("agents sync ada").stdout;
    assert_eq!(
        said,
        "ada was in normal mode already: nothing has changed.\n"
    );
}

/// Words of other systems, which stand under their presets only.
const FOREIGN: [&str; 8] = [
    "agent_checkpoints",
    "Checkpoint File",
    "Resume from",
    "Resuming",
    "auto-detect",
    "Session interrupted",
    "@orchestrator",
    "✅",
];

/// Ada has written half of a parser and holds a file.
fn at_work() -> World {
    let world = World::with_sorties(&["Model"]);
    world.agent_ok("ada", "sorties claim --next");
    world.agent_ok("ada", "locks acquire src/a.rs");
    world.agent_ok(
        "ada",
        "agents update --step \"write the parser\" --next-step \"test it\"",
    );
    world
}

#[test]
fn a_handoff_names_no_file_of_another_system_and_the_commands_that_go_on() {
    let world = at_work();
    world.fleet("handoff ada").expect(expect![[r#"
        The work of ada:
        - At: write the parser
        - Next: test it
        - Sorties: "Model" (srt-af9e72eb)
        - Locks: src/a.rs

        See its briefing with `fleet context --of ada`
    "#]]);
    world.ok("agents end ada");
    let gone = world.ok("handoff ada").stdout;
    assert!(
        gone.contains("take the work over with `fleet agents takeover ada NEW`"),
        "{gone}"
    );
    world.ok("agents register carl");
    let gone = world.agent_ok("carl", "handoff ada").stdout;
    assert!(gone.contains("`fleet agents takeover ada carl`"), "{gone}");
    let whole = world.json("handoff ada");
    assert_eq!(whole["checkpoint_file"], serde_json::Value::Null);
    world.fleet("agents takeover ada bob").expect(expect![[r#"
        bob took over the work of ada:
        - At: write the parser
        - Next: test it
        - Sorties: "Model" (srt-af9e72eb)
        - Locks: src/a.rs

        bob has 1 sortie, 1 lock and 0 messages of ada (its session was ended).
        Its briefing: fleet context --agent bob
        Act as it with: export FLEET_AGENT=bob FLEET_EPOCH=1
    "#]]);
    world.fleet("handoff ada").expect(expect![[r#"
        bob took over the work of ada:
        - At: write the parser
        - Next: test it
        - Sorties: "Model" (srt-af9e72eb)
        - Locks: src/a.rs

        See the briefing of bob with `fleet context --of bob`
    "#]]);
    world.fleet("agents resume bob").expect(expect![[r#"
        bob continues.
        - At: write the parser
        - Next: test it
        - Sorties: "Model" (srt-af9e72eb)

        Continues with 1 sortie, 1 lock and 0 messages.
        Act as it with: export FLEET_AGENT=bob FLEET_EPOCH=2 FLEET_SESSION=79d0d061-3961-4c70-8000-0000000036b0
    "#]]);
    let restarted = world.json("agents restart bob --force -y");
    assert_eq!(restarted["archive_file"], serde_json::Value::Null);
}

#[test]
fn a_handoff_names_the_file_where_it_is_kept_and_keeps_our_words() {
    let world = at_work();
    world.ok("config set mirrors.epic true");
    let handoff = world.ok("handoff ada").stdout;
    assert!(
        handoff.contains("- File: agent_checkpoints/ada.json"),
        "{handoff}"
    );
    assert!(!handoff.contains("Resume from"), "{handoff}");
}

#[test]
fn a_full_context_is_told_with_commands_that_work() {
    let world = at_work();
    let full = world.agent_ok("ada", "heartbeat --context-percent 93");
    full.expect(expect![[r#"
        ada is alive (epoch 1)
        Its context is 93 % full: saved in chk-3434.
        Mode: recovery. Briefings hold only the required parts until the task is complete.
        Stop after this operation.

        Left of srt-af9e:
        1. test it
        2. Complete "Model"

        ada continues with srt-af9e72eb in a new session. What it has reported is kept:

        1. End this session: `fleet agents end --agent ada`
        2. Start the agent again and bring it back: `fleet agents resume ada`
        3. Give it its briefing: `fleet context --agent ada`
    "#]]);
    let commands: Vec<&str> = full.stdout.split('`').skip(1).step_by(2).collect();
    assert_eq!(commands.len(), 3, "{full:?}");
    for command in commands {
        world.ok(command.strip_prefix("fleet ").unwrap());
    }
    assert_eq!(world.json("agents show ada")["agent"]["epoch"], 2);
}

#[test]
fn words_of_other_systems_stay_under_their_presets() {
    let world = at_work();
    let id = world.sortie("Model");
    world.ok("agents register lead --role dispatch");
    for (agent, line) in [
        ("ada", format!("sorties update {id} --done 1/4").as_str()),
        ("ada", "handoff ada"),
        ("ada", "handoff ada --json"),
        ("ada", "heartbeat --context-percent 93"),
        ("ada", "agents resume ada"),
        ("lead", "mail inbox"),
        ("lead", "checkpoint"),
        ("lead", "checkpoints show @latest"),
        ("lead", "agents takeover ada bob --force"),
        ("lead", "handoff ada"),
        ("lead", "context"),
        ("lead", "status"),
        ("lead", "log"),
        ("lead", "events list"),
        ("lead", "replay"),
        ("lead", "agents restart bob --force -y --json"),
    ] {
        let said = world.agent_ok(agent, line).stdout;
        for foreign in FOREIGN {
            assert!(!said.contains(foreign), "{line} says {foreign}: {said}");
        }
    }
}

/// The progress in a mailbox: sender, subject and body.
fn progress_of(world: &World, agent: &str) -> Vec<[String; 3]> {
    let inbox = world.json(&format!("mail inbox --of {agent}"));
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    inbox
        .as_array()
        .unwrap()
        .iter()
        .map(|view| &view["message"])
        .filter(|message| message["kind"] == "progress")
        .map(|message| ["from", "subject", "body"].map(|field| text(&message[field])))
        .collect()
}

#[test]
fn progress_is_no_mail_while_nobody_coordinates() {
    let world = at_work();
    let id = world.sortie("Model");
    for done in ["1/4", "2/4"] {
        world.agent_ok("ada", &format!("sorties update {id} --done {done}"));
    }
    let status = world.ok("status").stdout;
    assert!(status.contains("Mail       none"), "{status}");
    assert!(status.contains("Needs you  nothing"), "{status}");
    let agents = world.json("agents list");
    assert!(
        agents
            .as_array()
            .unwrap()
            .iter()
            .all(|it| it["unread"] == 0),
        "{agents}"
    );
    world.ok("checkpoint");
    let saved = world.json("checkpoints show @latest");
    assert_eq!(saved["pending_messages"], serde_json::json!([]), "{saved}");
}

#[test]
fn progress_is_told_to_a_dispatch_in_one_open_message_of_ours() {
    let world = at_work();
    let id = world.sortie("Model");
    world.ok("agents register lead --role dispatch");
    for (done, note) in [("1/4", "begun"), ("2/4", "half of it")] {
        world.agent_ok(
            "ada",
            &format!("sorties update {id} --done {done} --note \"{note}\""),
        );
    }
    let told = |percent: u8, body: &str| {
        let subject = format!("{} is at {percent} %: Model", &id[..12]);
        ["flightline".to_owned(), subject, body.to_owned()]
    };
    assert_eq!(
        progress_of(&world, "lead"),
        [told(50, "ada reported it.\n\nhalf of it")]
    );
    world.agent_ok("lead", "mail inbox");
    world.agent_ok("ada", &format!("sorties update {id} --done 3/4"));
    assert_eq!(
        progress_of(&world, "lead"),
        [told(75, "ada reported it.\n\nhalf of it")],
        "the one that was read is settled"
    );
    let log = world.ok("log").stdout;
    assert!(!log.contains("is at 75 %: Model"), "{log}");
}

#[test]
fn a_mistyped_recipient_is_recognised_and_leaves_nothing() {
    let world = World::with_sorties(&["Model"]);
    world.agent_ok("ada", "sorties claim --next");
    let refused = world.fleet("mail send --to adda --subject Hello");
    assert!(
        refused.refused(3).contains("did you mean `ada`?"),
        "{refused:?}"
    );
    assert_eq!(world.json("checkpoints list"), serde_json::json!([]));
}

#[test]
fn fields_that_an_answer_cannot_have_are_refused_before_anything_is_done() {
    let world = World::with_sorties(&["Model"]);
    let before = world.rev();
    let refused = world.fleet("sorties claim --next --agent ada --json --fields sortie.titel");
    refused.refused_in_json(2);
    assert!(
        refused.stdout.contains("did you mean `title`?"),
        "{refused:?}"
    );
    assert_eq!(world.rev(), before);
    let claimed = world
        .fleet("sorties claim --next --agent ada --json --fields sortie.title")
        .json();
    assert_eq!(claimed["sortie.title"], "Model");
}

#[test]
fn where_the_environment_does_not_say_who_the_user_is_the_system_does() {
    let world = World::new().local_only("a server knows the user by the token");
    let made = world.line("missions create X").without("USER").run();
    assert_eq!(made.code, 0, "{made:?}");
    let said = Command::new("id").arg("-un").output().unwrap();
    let name = String::from_utf8(said.stdout).unwrap();
    let actor = world.json("events list --type mission_created")["events"][0]["actor"].clone();
    assert_eq!(actor, format!("user:{}", name.trim()));
}

#[test]
fn the_log_can_be_cut_and_followed() {
    let world = World::with_sorties(&["Model"]);
    world.agent_ok("ada", "sorties claim --next");
    let two = world.ok("log -n 2").stdout;
    assert_eq!(two.lines().count(), 2, "{two}");
    assert!(
        two.lines().next().unwrap().ends_with("claims \"Model\""),
        "{two}"
    );
    let followed = world.ok("log -f -n 2 --for 300ms").stdout;
    assert!(
        followed
            .lines()
            .last()
            .unwrap()
            .ends_with("ada  claims \"Model\""),
        "{followed}"
    );
}

#[test]
fn a_token_is_all_that_goes_to_stdout() {
    let world = World::new().local_only("tokens are made where the store is");
    let made = world.ok("token create laptop");
    assert_eq!(made.stdout.lines().count(), 1, "{made:?}");
    assert!(
        made.stdout.starts_with("fleet_") && made.stderr.contains("This is shown once"),
        "{made:?}"
    );
    world.ok("token create ada --as-agent ada");
    let listed = world.json("token list");
    assert_eq!(
        (&listed[0]["scope"], &listed[1]["scope"]),
        (&"dispatch".into(), &"agent".into())
    );
    let text = world.ok("token list").stdout;
    assert!(
        text.contains("CREATED") && text.contains("user:grace"),
        "{text}"
    );
}
