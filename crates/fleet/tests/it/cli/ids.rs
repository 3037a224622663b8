//! Naming things: whole ids, beginnings of them, names, missions, and words that people guess.

use expect_test::expect;

use crate::cli::stage;
use crate::cli::world::{World, time};

#[test]
fn any_unique_beginning_of_four_characters_names_a_thing() {
    let world = World::with_sorties(&["Model", "Login", "Tests"]);
    let id = world.sortie("Login");
    let whole = world.json(&format!("sorties show {id}"));
    assert_eq!(whole["sortie"]["title"], "Login");
    for typed in [
        &id[..8],
        &id[..13],
        &id[4..8],
        &id[4..16],
        &id.to_uppercase()[4..],
    ] {
        assert_eq!(
            world.json(&format!("sorties show {typed}")),
            whole,
            "{typed}"
        );
    }
    for short in [&id[4..7], "srt", "s"] {
        world.fleet(&format!("sorties show {short}")).refused(2);
    }
}

#[test]
fn people_see_the_shortest_unique_beginning_and_programs_the_whole() {
    let world = World::with_sorties(&["Model", "Login"]);
    let id = world.sortie("Login");
    let listed = world.ok("sorties list").stdout;
    let shown = listed.lines().last().unwrap().split(' ').next().unwrap();
    assert_eq!((shown, shown.len()), (&id[..8], 8));
    assert_eq!(id.len(), 40);
}

#[test]
fn an_ambiguous_beginning_lists_the_candidates_and_does_nothing() {
    // Seventeen ids and sixteen digits: two begin with the same one.
    let titles: Vec<String> = (1..=17).map(|number| format!("Part {number}")).collect();
    let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
    let world = World::with_sorties(&titles);
    let sorties = world.json("sorties list");
    let ids: Vec<&str> = sorties
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    let shared = |beginning: &str| -> Vec<&str> {
        let mut fit: Vec<&str> = ids
            .iter()
            .copied()
            .filter(|id| id.starts_with(beginning))
            .collect();
        fit.sort_unstable();
        fit
    };
    let typed = ids
        .iter()
        .map(|id| &id[..5])
        .find(|typed| shared(typed).len() > 1)
        .unwrap();
    let before = world.rev();
    let json = world.agent("ada", &format!("sorties claim {typed} --json"));
    assert_eq!((json.code, json.error_code().as_str()), (3, "ambiguous_id"));
    let error = &json.json()["error"];
    assert_eq!(
        error["details"]["candidates"],
        serde_json::json!(shared(typed))
    );
    let said = world.agent("ada", &format!("sorties claim {typed}"));
    let short: Vec<&str> = shared(typed).iter().map(|id| &id[..12]).collect();
    assert_eq!(
        said.refused(3),
        format!(
            "error: `{typed}` could be {}\n\nhint: use more characters\n",
            short.join(" or ")
        )
    );
    assert_eq!(world.rev(), before);
}

#[test]
fn an_unknown_id_says_where_to_look() {
    let world = World::with_sorties(&["Model"]);
    world.fleet("sorties show srt-ffff").expect(expect![[r#"
        [stderr]
        error: there is no sortie `srt-ffff`

        hint: list them with `fleet sorties list`
        [exit 3]
    "#]]);
    world.fleet("missions show msn-ffff").expect(expect![[r#"
        [stderr]
        error: there is no mission `msn-ffff`

        hint: list them with `fleet missions list`
        [exit 3]
    "#]]);
    world
        .fleet("mail read msg-ffff --agent ada")
        .expect(expect![[r#"
            [stderr]
            error: there is no message `msg-ffff`

            hint: see your mail with `fleet mail inbox --all --agent ada`
            [exit 3]
        "#]]);
    world.agent_ok("ada", "sorties claim --next");
    world.fleet("agents show nobody").expect(expect![[r#"
        [stderr]
        error: there is no agent `nobody`

        hint: known agents: ada
        [exit 3]
    "#]]);
    world
        .agent("ada", "locks release lck-ffff")
        .expect(expect![[r#"
            [stderr]
            error: there is no lock `lck-ffff`

            hint: list them with `fleet locks list`
            [exit 3]
        "#]]);
}

#[test]
fn a_malformed_id_says_how_ids_look() {
    let world = World::with_sorties(&["Model"]);
    world.fleet("sorties show nonsense").expect(expect![[r#"
        [stderr]
        error: there is no sortie with the id or task id `nonsense`

        hint: list them with `fleet sorties list`
        [exit 3]
    "#]]);
    for wrong in [
        "msn-02c4",
        "srt-../../etc",
        "srt-02c4'; DROP TABLE event",
        "srt-xyzw",
        "srt-02c4-",
        "%",
        "*",
    ] {
        let ran = world.command(&["sorties", "show", wrong]).run();
        let told = ran.refused(2);
        assert!(
            told.contains("is not an id that begins with `srt-`"),
            "{told}"
        );
    }
    // What is no id may be the id of a task, of which there is none.
    for unknown in ["nonsense", "T060"] {
        let ran = world.command(&["sorties", "show", unknown]).run();
        let told = ran.refused(3);
        assert!(told.contains("no sortie with the id or task id"), "{told}");
    }
}

#[test]
fn nouns_are_understood_in_both_numbers() {
    let world = stage::world();
    for (plural, singular) in [
        ("missions list", "mission list"),
        ("sorties list", "sortie list"),
        ("agents list", "agent list"),
        ("locks list", "lock list"),
        ("mail inbox --of ada", "mails inbox --of ada"),
        ("notes list", "note list"),
        ("effects list", "effect list"),
        ("events list", "event list"),
    ] {
        let at_one_moment = |typed| world.line(typed).env("FLEET_TEST_NOW", time(3600)).run();
        let answer = at_one_moment(plural);
        assert!(answer.stdout.lines().count() > 1, "{plural} shows nothing");
        assert_eq!(at_one_moment(singular), answer, "{singular}");
    }
}

#[test]
fn agents_go_by_name_or_id() {
    let world = stage::world();
    let ada = world.json("agents show ada");
    assert_eq!(ada["agent"]["name"], "ada");
    let id = ada["agent"]["id"].as_str().unwrap().to_owned();
    for reference in [id.as_str(), &id[..10]] {
        let shown = world.json(&format!("agents show {reference}"));
        assert_eq!(shown["agent"]["id"], ada["agent"]["id"], "{reference}");
    }
    // As the acting agent too, by name or by the whole id.
    world.agent_ok(&id, "heartbeat");
    let claimed = world.agent_ok(&id, &stage::named("sorties claim {Login}"));
    assert!(claimed.stdout.ends_with("now yours (ada)\n"), "{claimed:?}");
}

#[test]
fn the_mission_is_chosen_by_flag_then_environment_then_use() {
    let world = stage::world();
    let title = |ran: crate::cli::running::Ran| {
        ran.json()["mission"]["mission"]["title"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let (later, quick) = (stage::named("{Later}"), stage::named("{Quick}"));
    assert_eq!(title(world.fleet("status --json")), "Add login");
    let flag = format!("status --json --mission {later}");
    assert_eq!(title(world.fleet(&flag)), "Later");
    // In front of the command as well.
    assert_eq!(
        title(world.fleet(&format!("--mission {} --json status", &later[..8]))),
        "Later"
    );
    let by_environment = |typed: &str| world.line(typed).env("FLEET_MISSION", &quick).run();
    assert_eq!(title(by_environment("status --json")), "Quick");
    assert_eq!(title(by_environment(&flag)), "Later");
    world.ok(&format!("missions use {later}"));
    assert_eq!(title(world.fleet("status --json")), "Later");
    // An agent may choose its own; the others keep theirs.
    world.agent_ok("ada", &format!("missions use {quick}"));
    assert_eq!(title(world.agent("ada", "status --json")), "Quick");
    assert_eq!(title(world.agent("bob", "status --json")), "Later");
    // A wrong one is refused, and nothing falls back silently.
    let wrong = world
        .line("sorties claim --next")
        .env("FLEET_MISSION", "msn-ffff")
        .agent("ada")
        .run();
    assert!(
        wrong.refused(3).contains("there is no mission `msn-ffff`"),
        "{wrong:?}"
    );
}

#[test]
fn a_key_makes_a_write_happen_once() {
    let world = World::new();
    let create = |title: &str| {
        world
            .line(&format!(
                "missions create {title} --json --idempotency-key once"
            ))
            .run()
    };
    let first = create("One");
    let again = create("One");
    assert_eq!(first.json(), again.json());
    assert_eq!(world.json("missions list").as_array().unwrap().len(), 1);
    // The same key for something else is a mistake, and is said to be one.
    let other = create("Two");
    assert_eq!((other.code, other.error_code().as_str()), (4, "key_reused"));
    world
        .fleet("missions create Two --idempotency-key once")
        .expect(expect![[r#"
            [stderr]
            error: this idempotency key was used for another request

            hint: use a new key for a new request
            [exit 4]
        "#]]);
    // Another agent's key is another key.
    let claim = |agent: &str| {
        world
            .agent(agent, "missions create Two --json --idempotency-key once")
            .json()
    };
    assert_ne!(claim("ada")["mission"]["id"], claim("bob")["mission"]["id"]);
    assert_eq!(world.json("missions list").as_array().unwrap().len(), 3);
    // A refusal is not remembered: the same request may succeed later.
    let mission = world.json("missions list")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let next = || {
        world.agent(
            "ada",
            &format!("sorties claim --next --mission {mission} --json --idempotency-key claim"),
        )
    };
    assert_eq!(next().error_code(), "nothing_ready");
    world.ok(&format!("sorties add Work --mission {mission}"));
    assert_eq!(next().json()["sortie"]["title"], "Work");
    world
        .fleet(&format!(
            "missions create X --idempotency-key {}",
            "k".repeat(256)
        ))
        .refused(2);
}
