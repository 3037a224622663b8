//! Plans change: sorties are edited, moved and cancelled, and what each waits for can be seen.

use crate::cli::running::Ran;
use crate::cli::world::World;

/// The titles in the mission's order.
fn order(world: &World) -> Vec<String> {
    let sorties = world.json("sorties list");
    let titles = sorties.as_array().unwrap().iter();
    titles
        .map(|one| one["title"].as_str().unwrap().to_owned())
        .collect()
}

fn on(world: &World, title: &str, line: &str) -> Ran {
    let id = world.sortie(title);
    world.fleet(&line.replace("{}", &id))
}

#[test]
fn a_sortie_that_was_written_wrongly_is_edited() {
    let world = World::with_sorties(&["Modle", "Login"]);
    let login = world.sortie("Login");
    let edited = on(
        &world,
        "Modle",
        &format!(
            "sorties edit {{}} --title Model --priority 5 --after {login} --file src/model.rs --criterion \"All 29 files are there\""
        ),
    );
    assert_eq!(edited.code, 0, "{edited:?}");
    let id = world.sortie("Model");
    let sortie = world.json(&format!("sorties show {id}"))["sortie"].clone();
    assert_eq!(
        (&sortie["priority"], &sortie["depends_on"][0]),
        (&5.into(), &login.into())
    );
    assert_eq!(
        sortie["acceptance_criteria"]["all-29-files-are-there"],
        false
    );
    assert_eq!(
        sortie["criteria_texts"]["all-29-files-are-there"],
        "All 29 files are there"
    );
    let log = world.ok("log").stdout;
    assert!(
        log.contains("edits \"Model\": title, priority, dependencies, files, criteria"),
        "{log}"
    );

    // What waits for itself would never be ready.
    let circle = on(&world, "Login", &format!("sorties edit {{}} --after {id}"));
    assert!(
        circle.refused(2).contains("which waits for it"),
        "{circle:?}"
    );
    let before = world.rev();
    world.ok(&format!("sorties edit {id} --title Model"));
    assert_eq!(world.rev(), before, "what is so already is not written");
}

#[test]
fn a_criterion_and_a_subtask_may_be_named_in_free_text() {
    let world = World::with_sorties(&[]);
    world.ok("sorties add Model --criterion \"Tests pass!\" --criterion reviewed");
    let id = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties claim {id}"));
    world.agent_ok(
        "ada",
        &format!(
            "sorties update {id} --met \"Tests pass!\" --subtask \"Write the parser=complete\""
        ),
    );
    let view = world.json(&format!("sorties show {id}"));
    assert_eq!(view["sortie"]["acceptance_criteria"]["tests-pass"], true);
    assert_eq!(
        (&view["subtasks"][0]["name"], &view["subtasks"][0]["title"]),
        (&"write-the-parser".into(), &"Write the parser".into())
    );
    let mistyped = world.agent("ada", &format!("sorties update {id} --met \"Tests fail!\""));
    assert!(
        mistyped
            .refused(2)
            .contains("its criteria: reviewed, tests-pass"),
        "{mistyped:?}"
    );
}

#[test]
fn a_sortie_that_is_not_to_be_done_is_cancelled_and_nothing_waits_for_it() {
    let world = World::with_sorties(&["Model"]);
    let model = world.sortie("Model");
    world.ok(&format!("sorties add Login --after {model}"));
    let cancelled = world.ok(&format!(
        "sorties cancel {model} --reason \"made by mistake\""
    ));
    assert!(cancelled.stdout.contains("skipped"), "{cancelled:?}");
    assert!(!cancelled.stdout.contains("already"), "{cancelled:?}");
    let again = world.ok(&format!("sorties cancel {model}"));
    assert!(
        again.stdout.contains("unchanged: already in that state"),
        "{again:?}"
    );
    let claimed = world.agent_ok("ada", "sorties claim --next");
    assert!(claimed.stdout.contains("Login"), "{claimed:?}");
    let log = world.ok("log").stdout;
    assert!(log.contains("cancels \"Model\": made by mistake"), "{log}");
    world.ok(&format!("sorties release {model}"));
}

#[test]
fn sorties_are_listed_and_claimed_in_the_order_that_somebody_gave_them() {
    let world = World::with_sorties(&["A", "B", "C"]);
    let b = world.sortie("B");
    on(&world, "C", "sorties move {} --first");
    assert_eq!(order(&world), ["C", "A", "B"]);
    on(&world, "C", &format!("sorties move {{}} --after {b}"));
    assert_eq!(order(&world), ["A", "B", "C"]);
    on(&world, "A", "sorties move {} --last");
    assert_eq!(order(&world), ["B", "C", "A"]);
    let claimed = world.agent_ok("ada", "sorties claim --next");
    assert!(claimed.stdout.contains("  B "), "{claimed:?}");
    on(&world, "B", &format!("sorties move {{}} --before {b}")).refused(2);
}

#[test]
fn what_is_ready_and_what_waits_is_shown() {
    let world = World::with_sorties(&["Model"]);
    let model = world.sortie("Model");
    world.ok(&format!("sorties add Login --after {model}"));
    world.ok("sorties add Docs --priority 3");
    let ready = world.ok("sorties ready").stdout;
    let titles: Vec<&str> = ready
        .lines()
        .skip(1)
        .filter_map(|line| line.split(' ').next_back())
        .collect();
    assert_eq!(titles, ["Docs", "Model"]);
    let tree = world.ok("sorties tree").stdout;
    let lines: Vec<&str> = tree.lines().collect();
    assert!(
        lines[0].starts_with("srt-") && lines[0].ends_with("ready"),
        "{tree}"
    );
    assert!(
        lines[1].starts_with("  srt-") && lines[1].contains("Login"),
        "{tree}"
    );
    assert!(
        lines[1].ends_with("(\"Model\"), which is pending"),
        "{tree}"
    );
    world.agent_ok("ada", "sorties claim --next");
    world.agent_ok("ada", "sorties claim --next");
    let none = world.ok("sorties ready").stdout;
    assert!(none.starts_with("No sortie is ready."), "{none}");
}

#[test]
fn claiming_says_what_the_rest_waits_for_and_when_nothing_is_left() {
    let world = World::with_sorties(&["Model", "Login"]);
    let (model, login) = (world.sortie("Model"), world.sortie("Login"));
    world.ok(&format!("sorties edit {login} --after {model}"));
    world.agent_ok("ada", "sorties claim --next");
    let refused = world.agent("bob", "sorties claim --next");
    let told = refused.refused(4);
    assert!(told.contains("(\"Model\") is in progress (ada)"), "{told}");
    assert!(told.contains("(\"Login\") waits for"), "{told}");
    let waited = world.agent("bob", "sorties claim --next --wait 300ms");
    assert!(waited.stderr.contains("timed out after"), "{waited:?}");
    world.agent_ok("ada", &format!("sorties complete {model}"));
    world.agent_ok("bob", "sorties claim --next --wait 5s");
    world.agent_ok("bob", &format!("sorties complete {login}"));
    let over = world.agent("bob", "sorties claim --next --wait 1h");
    let told = over.refused(3);
    assert!(
        told.contains("all 2 sorties of") && told.contains("`fleet missions complete "),
        "{told}"
    );
    let json = world.agent("bob", "sorties claim --next --json").json();
    assert_eq!(
        (&json["error"]["code"], &json["error"]["retryable"]),
        (&"nothing_left".into(), &false.into())
    );
}
