//! The journal: lists, filters, the story, and the stream.

use expect_test::expect;
use serde_json::Value;

use crate::cli::running::until;
use crate::cli::stage;
use crate::cli::world::World;

fn types(answer: &Value) -> Vec<&str> {
    let events = answer["events"].as_array().unwrap();
    events
        .iter()
        .map(|event| event["type"].as_str().unwrap())
        .collect()
}

#[test]
fn events_are_listed_newest_first_and_counted() {
    let world = World::with_sorties(&["Model", "Login"]);
    world.agent_ok("ada", "sorties claim --next");
    world.fleet("events list").expect(expect![[r#"
        REV  WHEN                      TYPE              BY          SUBJECT                                   DATA
        6    2026-01-04T12:00:03.000Z  sortie_claimed    ada         srt-af9e72eb-f533-4025-8000-0000000007d1  {"attempt":1,"from":"pending"}
        5    2026-01-04T12:00:03.000Z  mission_started   ada         msn-1166f932-75e9-4410-8000-0000000007d0  {"from":"pending"}
        4    2026-01-04T12:00:03.000Z  agent_registered  ada         agt-1a1a75cb-b0de-4618-8000-000000000bb8
        3    2026-01-04T12:00:02.000Z  sortie_added      user:grace  srt-4dd5eca5-747e-4c3a-8000-0000000007d2  {"title":"Login"}
        2    2026-01-04T12:00:02.000Z  sortie_added      user:grace  srt-af9e72eb-f533-4025-8000-0000000007d1  {"title":"Model"}
        1    2026-01-04T12:00:02.000Z  mission_created   user:grace  msn-1166f932-75e9-4410-8000-0000000007d0  {"title":"Add login"}
    "#]]);
    let two = world.json("events list --limit 2");
    assert_eq!(types(&two), ["sortie_claimed", "mission_started"]);
    assert_eq!(two["cursor"]["rev"], 6);
    assert_eq!(
        types(&world.json("events list --limit 0")),
        Vec::<&str>::new()
    );
}

#[test]
fn events_are_filtered_by_type_subject_and_mission() {
    let world = stage::world();
    let claimed = world.json("events list --type sortie_claimed");
    assert_eq!(types(&claimed), ["sortie_claimed"; 4]);
    let model = stage::named("{Model}");
    let about = world.json(&format!("events list --subject {model}"));
    assert_eq!(types(&about), ["sortie_claimed", "sortie_added"]);
    let both = world.json(&format!(
        "events list --subject {model} --type sortie_added"
    ));
    assert_eq!(types(&both), ["sortie_added"]);
    let later = world.json(&stage::named("events list --mission {Later}"));
    assert_eq!(types(&later), ["sortie_added", "mission_created"]);
    world
        .fleet("events list --type nonsense")
        .expect(expect![[r#"
            [stderr]
            error: there is no event of type `nonsense`

            hint: types look like `sortie_claimed`, and begin with: agent, briefing, checkpoint, context, damage, deadline, deadlines, dispatch, document, effect, epochs, events, file, fleet, history, inbox, journal, lock, message, milestone, mission, note, recovery, resume, retention, secret, sortie, store, subtask, token, value
            [exit 2]
        "#]]);
    world.fleet("log --type nonsense").expect(expect![[r#"
        [stderr]
        error: there is no event of type `nonsense`

        hint: types look like `sortie_claimed`, and begin with: agent, briefing, checkpoint, context, damage, deadline, deadlines, dispatch, document, effect, epochs, events, file, fleet, history, inbox, journal, lock, message, milestone, mission, note, recovery, resume, retention, secret, sortie, store, subtask, token, value
        [exit 2]
    "#]]);
}

#[test]
fn events_are_filtered_by_time() {
    let world = World::with_sorties(&["Model"]);
    world.pass(3600);
    world.ok("note lesson Late");
    for since in [
        "30m",
        "1800",
        "2026-01-04T12:30:00Z",
        "2026-01-04T13:30:00+01:00",
    ] {
        let recent = world.json(&format!("events list --since {since}"));
        assert_eq!(types(&recent), ["note_added"], "{since}");
    }
    assert_eq!(types(&world.json("events list --since 2h")).len(), 3);
    world
        .fleet("events list --since yesterday")
        .expect(expect![[r#"
        [stderr]
        error: `yesterday` is not a time: write it as 2026-01-04T15:30:00Z

        hint: or as a span, such as `2h`
        [exit 2]
    "#]]);
}

#[test]
fn the_log_tells_what_happened() {
    let world = World::with_sorties(&["Model"]);
    let id = world.sortie("Model");
    for line in [
        format!("sorties claim {id}"),
        format!(
            "sorties update {id} --note \"half of it\" --subtask one=complete --created src/a.rs"
        ),
        format!("sorties error {id} --type api_error --status 503 --message \"try later\""),
        format!("sorties review {id} --score 7"),
        format!("sorties block {id} --reason \"no power\""),
        "note decision \"Use Rust\" --why speed".to_owned(),
        "effect begin deploy".to_owned(),
        "agents update --step \"write tests\"".to_owned(),
    ] {
        world.agent_ok("ada", &line);
    }
    world.fleet("log --limit 16").expect(expect![[r#"
        2026-01-04T12:00:11.000Z  ada         is at "write tests"
        2026-01-04T12:00:10.000Z  ada         begins the effect deploy
        2026-01-04T12:00:09.000Z  ada         notes a decision: Use Rust
        2026-01-04T12:00:08.000Z  flightline  takes checkpoint chk-459b at 0 % (blocker)
        2026-01-04T12:00:08.000Z  ada         is blocked at "Model": no power
        2026-01-04T12:00:07.000Z  ada         reviews "Model" as ada: 7
        2026-01-04T12:00:06.000Z  flightline  makes a mailbox for dispatch
        2026-01-04T12:00:06.000Z  flightline  takes checkpoint chk-3434 at 0 % (api error)
        2026-01-04T12:00:06.000Z  ada         reports an error at "Model": try later
        2026-01-04T12:00:05.000Z  ada         is at 100 % of "Model": half of it
        2026-01-04T12:00:05.000Z  ada         creates src/a.rs for "Model"
        2026-01-04T12:00:05.000Z  ada         sets the subtask one of "Model" to complete
        2026-01-04T12:00:04.000Z  ada         claims "Model"
        2026-01-04T12:00:04.000Z  ada         starts "Add login"
        2026-01-04T12:00:04.000Z  ada         registers
        2026-01-04T12:00:02.000Z  user:grace  adds the sortie "Model"
    "#]]);
}

#[test]
fn the_stream_ends_when_it_was_told_to() {
    let world = World::with_sorties(&["Model"]);
    // From the present on: nothing happens meanwhile.
    assert_eq!(world.ok("events tail --for 1ms").text(), "");
    let told = world.ok("events tail --after 0 --for 1ms").stdout;
    // A snapshot whose lines are all indented would lose that.
    expect![[r#"
        events
             1  2026-01-04T12:00:02.000Z  mission_created  user:grace  msn-1166f932-75e9-4410-8000-0000000007d0  {"title":"Add login"}
             2  2026-01-04T12:00:02.000Z  sortie_added  user:grace  srt-af9e72eb-f533-4025-8000-0000000007d1  {"title":"Model"}
    "#]].assert_eq(&format!("events\n{told}"));
    assert_eq!(
        world
            .ok("events tail --after 1 --limit 1")
            .stdout
            .lines()
            .count(),
        1
    );
    assert_eq!(
        world
            .ok("events tail --after 0 --for 1ms --type mission_created")
            .stdout
            .lines()
            .count(),
        1
    );
    assert_eq!(world.ok("events tail --after 0 --for 1ms -q").text(), "");
    world
        .fleet("events tail --after 99 --for 1ms")
        .expect(expect![[r#"
        [stderr]
        error: the journal was replaced since you last looked

        hint: start again from the beginning: `fleet events list`
        [exit 4]
    "#]]);
}

#[test]
fn the_stream_shows_what_happens_while_it_runs() {
    let world = World::with_sorties(&["Model"]);
    let tail = world
        .line("events tail --json --limit 2 --type note_added --after 1")
        .spawn();
    world.ok("note lesson First");
    until("the first event", || tail.has_said("note_added"));
    world.ok("missions start");
    world.ok("note lesson Second");
    let ran = tail.wait();
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, 2), "{ran:?}");
}
