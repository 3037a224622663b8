//! What an agent is told when it begins or comes back, one file for each cause: `briefings/CAUSE.md`.

use expect_test::{ExpectFile, expect, expect_file};
use flightline::core::briefing::estimate_tokens;

use crate::cli::running::Ran;
use crate::cli::world::World;

/// Ada is at "Auth", three of six parts done, and has said what she did last.
fn working() -> World {
    let world = World::with_sorties(&["Model", "Auth", "Docs"]);
    world.ok("note constraint \"Never push to main.\"");
    world.agent_ok("ada", "sorties claim --next");
    let model = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties complete {model}"));
    world.agent_ok("ada", "sorties claim --next");
    let auth = world.sortie("Auth");
    world.agent_ok(
        "ada",
        &format!(
            "sorties update {auth} --done 3/6 --last \"wrote the login form\" --next \"the logout button\" \
             --created src/login.rs"
        ),
    );
    world
}

fn check(told: &Ran, golden: ExpectFile) {
    assert_eq!((told.code, told.stderr.as_str()), (0, ""), "{told:?}");
    golden.assert_eq(&told.stdout);
}

#[test]
fn at_its_first_start() {
    let world = World::with_sorties(&["Model", "Auth"]);
    world.ok("note constraint \"Never push to main.\"");
    world.ok("agents register ada");
    check(
        &world.agent("ada", "context"),
        expect_file!["briefings/first_start.md"],
    );
}

#[test]
fn after_a_compaction() {
    let world = working();
    world
        .line("call report_compaction")
        .agent("ada")
        .stdin(r#"{"agent":null,"evidence":"hook"}"#)
        .run();
    check(
        &world.agent("ada", "context"),
        expect_file!["briefings/compaction.md"],
    );
}

#[test]
fn in_a_new_session() {
    let world = working();
    world.ok("agents register ada --session second");
    check(
        &world.agent("ada", "context"),
        expect_file!["briefings/new_session.md"],
    );
}

#[test]
fn after_taking_over_from_one_that_is_gone() {
    let world = working();
    world.agent_ok("ada", "note blocker \"The test server is down\"");
    world.pass(3600);
    world.ok("agents takeover ada bob");
    check(
        &world.agent("bob", "context"),
        expect_file!["briefings/takeover.md"],
    );
    // What the successor reports is its own from then on, and who had it before is still known.
    let auth = world.sortie("Auth");
    world.agent_ok(
        "bob",
        &format!("sorties update {auth} --last \"found the bug\""),
    );
    let told = world.agent("bob", "context --full").stdout;
    assert!(
        told.contains("### Before You\n`ada`, gone, and its work taken over at "),
        "{told}"
    );
    assert!(told.contains(" bob>found the bug</"), "{told}");
}

#[test]
fn after_claiming_what_a_recovery_freed() {
    let world = working();
    world.ok("checkpoint");
    world.pass(3600);
    world.ok("resume -y");
    let auth = world.sortie("Auth");
    world.agent_ok("bob", &format!("sorties claim {auth}"));
    let told = world.agent("bob", "context").stdout;
    for part in [
        "You are taking over work that another agent began.",
        "### Before You\n`ada`, found gone at ",
        "%, your sortie 50% (3 of 6)",
        " ada>wrote the login form</",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn after_a_restart() {
    let world = working();
    world.pass(3600);
    world.ok("agents restart ada -y");
    world.ok("agents register ada --session second");
    let auth = world.sortie("Auth");
    world.agent_ok("ada", &format!("sorties claim {auth}"));
    check(
        &world.agent("ada", "context"),
        expect_file!["briefings/restart.md"],
    );
}

#[test]
fn after_a_rewind() {
    let world = working();
    world.ok("checkpoint");
    let auth = world.sortie("Auth");
    world.agent_ok("ada", &format!("sorties complete {auth}"));
    world.agent_ok("ada", "sorties claim --next");
    let taken = world.json("checkpoints list");
    let manual = taken
        .as_array()
        .and_then(|all| all.iter().find(|it| it["trigger"] == "manual"))
        .and_then(|it| it["id"].as_str())
        .unwrap_or_else(|| panic!("{taken}"))
        .to_owned();
    let context = world.json(&format!("resume --checkpoint {manual} --force -y"));
    let told = &context["last_action"];
    assert!(
        !told.as_str().unwrap().contains("completed"),
        "the action is the checkpoint's: {context}"
    );
    check(
        &world.agent("ada", "context"),
        expect_file!["briefings/rewind.md"],
    );
    // Taking the rewind back leads to where the work was.
    world.ok("undo --force");
    let told = world.agent("ada", "context --full").stdout;
    assert!(told.contains("completed"), "{told}");
}

#[test]
fn every_command_of_a_briefing_runs_as_it_stands() {
    let world = working();
    world.ok("missions create Another --sortie \"Something else\"");
    let told = world.fleet("context --full --agent ada").stdout;
    assert!(
        told.contains("Something else"),
        "the newest mission is the current one: {told}"
    );
    let mission = world.json("missions list")[1]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let told = world
        .fleet(&format!("context --full --agent ada --mission {mission}"))
        .stdout;
    let mut commands: Vec<&str> = Vec::new();
    for part in told.split('`').filter(|part| part.starts_with("fleet ")) {
        if !commands.contains(&part) {
            commands.push(part);
        }
    }
    expect![[r#"
        fleet context --full --agent ada --mission msn-1166f932
        fleet locks acquire "path/to/file" --agent ada
        fleet sorties update srt-4dd5eca5 --last "what you did" --next "what comes next" --agent ada
        fleet effect begin "its-name" --agent ada --mission msn-1166f932
        fleet heartbeat --agent ada
        fleet sorties complete srt-4dd5eca5 --agent ada
        fleet sorties show srt-4dd5eca5
        fleet mail inbox --agent ada
        fleet context --ack 789cae67 --agent ada"#]]
    .assert_eq(&commands.join("\n"));
    // First what shows, then what does: the last completes the sortie.
    for command in commands {
        let ran = world.fleet(command.strip_prefix("fleet ").unwrap());
        assert_eq!(ran.code, 0, "{command}: {ran:?}");
    }
}

#[test]
fn a_person_is_given_no_word_to_acknowledge() {
    let world = working();
    let told = world.fleet("context").stdout;
    assert!(
        !told.contains("--ack") && !told.contains("mail inbox"),
        "{told}"
    );
}

#[test]
fn a_constraint_of_an_agent_binds_everybody_unless_the_mission_says_otherwise() {
    let world = working();
    world
        .agent(
            "bob",
            "note constraint \"Ask before you add a dependency.\"",
        )
        .expect(expect![[r#"
            Noted constraint nte-f53a: Ask before you add a dependency.
        "#]]);
    let told = world.agent("ada", "context --minimal").stdout;
    let (_, rest) = told.split_once("### Constraints\n").unwrap();
    let (rules, _) = rest.split_once("\n**Mission**").unwrap();
    let rules: Vec<&str> = rules
        .lines()
        .filter(|line| line.starts_with("- "))
        .collect();
    assert_eq!(
        rules,
        [
            "- Never push to main.",
            "- Ask before you add a dependency."
        ]
    );
    assert!(
        told.contains(" bob>\n- Ask before"),
        "its author is named: {told}"
    );
    world
        .agent("bob", "missions edit --constraints-by dispatch")
        .expect(expect![[r#"
            [stderr]
            error: only people and dispatch may say who pins constraints
            [exit 4]
        "#]]);
    world
        .fleet("missions edit --constraints-by dispatch")
        .expect(expect![[r#"
            Add login   msn-1166   ● in progress
            33 %   ▓▓▓▓▓▒▒▒▒▒▒▒▒▒▒▒  1 of 3
            Constraints  pinned by dispatch and people only
            Created      2026-01-04T12:00:02.000Z
            Started      2026-01-04T12:00:04.000Z

            ID        STATUS         OWNER  CHANGED                   TITLE
            srt-af9e  ✓ completed    ada    2026-01-04T12:00:06.000Z  Model
            srt-4dd5  ● in progress  ada    2026-01-04T12:00:09.000Z  Auth
            srt-ec0d  ○ pending      -      2026-01-04T12:00:02.000Z  Docs
        "#]]);
    world
        .agent("bob", "note constraint \"No tabs.\"")
        .expect(expect![[r#"
            [stderr]
            error: only people and dispatch may pin constraints on msn-1166f932 ("Add login")

            hint: say it as your decision with `fleet note decision TEXT`, or ask dispatch to pin it
            [exit 4]
        "#]]);
    world.ok("agents register tower --role dispatch");
    world.agent_ok("tower", "note constraint \"No tabs.\"");
    world.agent_ok("bob", "note decision \"No tabs.\"");
}

#[test]
fn a_constraint_for_which_there_is_no_room_is_refused_with_the_figures() {
    let world = working();
    let long = format!("note constraint \"{}\"", "Never do this. ".repeat(540));
    world.fleet(&long).expect(expect![[r#"
        [stderr]
        error: there is no room for this constraint: it needs about 3241 tokens of every briefing, and 766 of 800 are left

        hint: shorten it: put the long version into a file, and let the constraint name the file
              or make room: `fleet note list --kind constraint` shows all 1, `fleet note withdraw nte-1a1a75cb` ends the longest
        [exit 2]
    "#]]);
    let rule = |n: usize| {
        format!(
            "note constraint \"Rule {n}: {}\"",
            "never do this, ".repeat(14)
        )
    };
    let mut refused = 0;
    for n in 1..=40 {
        let ran = world.fleet(&rule(n));
        match ran.code {
            0 => assert_eq!(refused, 0, "what is refused once is refused again"),
            2 => refused += 1,
            _ => panic!("{ran:?}"),
        }
    }
    assert!(refused > 0);
    let said = world.fleet(&rule(41)).stderr;
    assert!(
        said.contains("of 800 are left") && said.contains("fleet note withdraw nte-"),
        "{said}"
    );
    for typed in [
        "context",
        "context --minimal",
        "context --full --max-tokens 100",
    ] {
        let told = world.agent("ada", typed);
        assert_eq!(told.code, 0, "{told:?}");
        let most = if typed.contains("100") { 200 } else { 2_000 };
        assert!(estimate_tokens(&told.stdout) <= most, "{}", told.stdout);
        assert!(told.stdout.chars().count() <= 9_000);
    }
    let withdraw = said
        .split('`')
        .find(|part| part.starts_with("fleet note withdraw"))
        .unwrap();
    world.ok(withdraw.strip_prefix("fleet ").unwrap());
    world.ok(&rule(41));
}

#[test]
fn a_briefing_in_ideographs_and_emoji_keeps_to_its_budget() {
    let world = working();
    world.ok("note constraint \"⚠️ 本番環境にはデプロイしないでください 👩‍🚀\"");
    let auth = world.sortie("Auth");
    let long = "認証サーバーの証明書を更新する🔐".repeat(12);
    for n in 0..30 {
        world.ok(&format!("note decision \"{n} {long}\""));
        world.ok(&format!("note dead-end \"{n} 🦀🦀🦀 {long}\""));
    }
    world.agent_ok("ada", &format!("sorties update {auth} --note \"{long}\""));
    for typed in ["context --full", "context --full --minimal"] {
        let told = world.agent("ada", typed);
        assert_eq!(told.code, 0, "{told:?}");
        assert!(estimate_tokens(&told.stdout) <= 2_000, "{}", told.stdout);
        assert!(told.stdout.chars().count() <= 9_000);
        assert!(
            told.stdout
                .contains("\n- ⚠️ 本番環境にはデプロイしないでください 👩‍🚀\n"),
            "word for word"
        );
        assert!(told.stdout.contains("left out"), "{}", told.stdout);
    }
}

#[test]
fn notes_are_closed_edited_and_withdrawn_by_their_ids() {
    let world = World::with_sorties(&["Model"]);
    world.ok("note constraint \"Never push on Fridays.\"");
    world.agent_ok("ada", "note blocker \"The test server is down\"");
    world.agent_ok("ada", "note decision JSON --why \"it is boring\"");
    world.fleet("note list").expect(expect![[r#"
        ID        KIND        BY          WHEN                      NOTE
        nte-1a1a  constraint  user:grace  2026-01-04T12:00:03.000Z  Never push on Fridays.
        nte-c105  blocker     ada         2026-01-04T12:00:04.000Z  The test server is down
        nte-2b81  decision    ada         2026-01-04T12:00:05.000Z  JSON (because it is boring)
    "#]]);
    let notes = world.json("note list");
    let id = |index: usize| notes[index]["id"].as_str().unwrap()[..8].to_owned();
    let (rule, blocker, decision) = (id(0), id(1), id(2));
    world
        .agent("bob", &format!("note withdraw {rule}"))
        .expect(expect![[r#"
            [stderr]
            error: only user:grace, dispatch and people may withdraw nte-1a1a75cb, a constraint of user:grace

            hint: ask with `fleet mail send --to dispatch --subject "About nte-1a1a75cb"`
            [exit 4]
        "#]]);
    world
        .fleet(&format!(
            "note edit {rule} \"Never push on Fridays or Mondays.\""
        ))
        .expect(expect![[r#"
            Noted constraint nte-4e4f: Never push on Fridays or Mondays.
            It replaces nte-1a1a.
        "#]]);
    world
        .agent(
            "bob",
            &format!("note close {blocker} --reason \"it is up again\""),
        )
        .expect(expect![[r#"
            Closed blocker nte-c105: The test server is down
        "#]]);
    world
        .agent("bob", &format!("note edit {decision} XML"))
        .expect(expect![[r#"
            [stderr]
            error: only ada, dispatch and people may edit nte-2b816efe, a decision of ada

            hint: ask with `fleet mail send --to dispatch --subject "About nte-2b816efe"`
            [exit 4]
        "#]]);
    world
        .agent("ada", &format!("note withdraw {decision}"))
        .expect(expect![[r#"
            Withdrew decision nte-2b81: JSON
        "#]]);
    world.fleet("note list").expect(expect![[r#"
        ID        KIND        BY          WHEN                      NOTE
        nte-4e4f  constraint  user:grace  2026-01-04T12:00:09.000Z  Never push on Fridays or Mondays.
    "#]]);
    world.fleet("note list --all").expect(expect![[r#"
        ID        KIND        BY          WHEN                      NOTE
        nte-1a1a  constraint  user:grace  2026-01-04T12:00:03.000Z  Never push on Fridays. (replaced with nte-4e4f by user:grace)
        nte-c105  blocker     ada         2026-01-04T12:00:04.000Z  The test server is down (closed by bob: it is up again)
        nte-2b81  decision    ada         2026-01-04T12:00:05.000Z  JSON (because it is boring) (withdrawn by ada)
        nte-4e4f  constraint  user:grace  2026-01-04T12:00:09.000Z  Never push on Fridays or Mondays.
    "#]]);
    world
        .fleet(&format!("note edit {rule} \"Once more\""))
        .expect(expect![[r#"
            [stderr]
            error: nte-1a1a75cb is no longer valid: it was replaced by user:grace

            hint: nte-4e4f6163 replaces it
            [exit 4]
        "#]]);
    let told = world.agent("ada", "context").stdout;
    assert!(
        told.contains("- Never push on Fridays or Mondays.\n"),
        "{told}"
    );
    assert!(
        !told.contains("- Never push on Fridays.") && !told.contains("JSON"),
        "{told}"
    );
    assert!(!told.contains("The test server"), "{told}");
    let log = world.ok("log").stdout;
    for event in ["note replaced", "note closed", "note withdrawn"] {
        assert!(log.contains(event), "{event}: {log}");
    }
}

#[test]
fn a_failure_is_a_blocker_for_the_agent_that_resumes_until_it_is_dealt_with() {
    let world = working();
    let docs = world.sortie("Docs");
    world.agent_ok("bob", &format!("sorties claim {docs}"));
    world.agent_ok("bob", "locks acquire src/api.rs");
    assert_eq!(
        world
            .agent("ada", "locks acquire src/api.rs --wait 1s")
            .code,
        4
    );
    assert_eq!(
        world
            .agent("ada", "mail send --to nobody --subject Help")
            .code,
        3
    );
    world.agent_ok(
        "bob",
        &format!("sorties fail {docs} --reason \"no words left\" --keep"),
    );
    let blockers = |answer: &serde_json::Value| -> Vec<String> {
        let context = answer.get("recovery_context").unwrap_or(answer);
        let all = context["blockers"]
            .as_array()
            .unwrap_or_else(|| panic!("{answer}"));
        all.iter()
            .map(|it| it.as_str().unwrap().to_owned())
            .collect()
    };
    let expected = |all: &[String]| {
        let locked =
            |it: &String| it.starts_with("timed out after 1s: ") && it.contains("src/api.rs");
        assert!(all.iter().any(locked), "{all:?}");
        assert!(
            all.iter().any(|it| it == "there is no agent `nobody`"),
            "{all:?}"
        );
        assert!(
            all.iter().any(|it| it == "\"Docs\" failed: no words left"),
            "{all:?}"
        );
    };
    expected(&blockers(&world.json("resume --dry-run")));
    let told = world.agent("ada", "context").stdout;
    let (_, rest) = told.split_once("### Current Blockers\n").unwrap();
    assert!(
        rest.contains("src/api.rs") && rest.contains("nobody"),
        "{told}"
    );
    // Of the very checkpoint that the failure led to.
    let last = world.json("checkpoints list")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    expected(&blockers(
        &world.json(&format!("resume --checkpoint {last} --force -y")),
    ));
    // Each is dealt with by what failed before, and works now.
    world.agent_ok("bob", "locks release --all");
    world.agent_ok("ada", "locks acquire src/api.rs");
    world.agent_ok("ada", "mail send --to bob --subject Help");
    world.agent_ok("bob", &format!("sorties claim {docs}"));
    let left = blockers(&world.json("resume --dry-run"));
    assert_eq!(left, [] as [&str; 0]);
}
