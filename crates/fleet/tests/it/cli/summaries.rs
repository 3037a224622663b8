//! Every number of a printed summary is what changed in the journal.

use std::fs;

use crate::cli::running::Ran;
use crate::cli::world::World;

/// The number after these words, where a line begins with them.
fn number(ran: &Ran, before: &str) -> usize {
    let found = ran.stdout.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix(before)?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    found.unwrap_or_else(|| panic!("no number after {before:?} in {ran:?}"))
}

/// How many lines of the answer say this.
fn lines(ran: &Ran, what: &str) -> usize {
    let lines = ran.stdout.lines();
    lines.filter(|line| line.contains(what)).count()
}

/// How many things the journal says this of, after a revision.
fn told(world: &World, since: u64, wanted: &str) -> usize {
    let counted = world.sql(&format!(
        "SELECT count(DISTINCT subject) FROM event WHERE rev > {since} AND {wanted}"
    ));
    counted.trim().parse().expect("a number")
}

/// Runs a command that recovers, and holds every number that it says against the journal.
fn check_recovery(world: &World, typed: &str) -> Ran {
    let since = world.rev();
    let ran = world.ok(typed);
    for (words, wanted) in [
        ("- Restored ", "subject_kind = 'sortie'"),
        ("- Re-acquired ", "kind = 'lock_acquired'"),
        ("- Requeued ", "kind = 'message_requeued'"),
    ] {
        assert_eq!(
            number(&ran, words),
            told(world, since, wanted),
            "{words}: {ran:?}"
        );
    }
    for (words, wanted) in [
        ("is free to be claimed again", "kind = 'sortie_requeued'"),
        ("is no longer locked", "kind = 'lock_released'"),
    ] {
        let said = lines(&ran, words);
        assert!(
            said == told(world, since, wanted) || typed.starts_with("undo"),
            "{words}: {ran:?}"
        );
    }
    ran
}

/// Three agents, of which bob holds work, a lock and mail that it has read, and was not heard of for half an hour.
fn with_a_silent_agent() -> World {
    let world = World::with_sorties(&["Model", "Auth", "Tests", "Docs"]);
    for (agent, title) in [("ada", "Model"), ("bob", "Auth")] {
        world.ok(&format!("agents register {agent}"));
        let id = world.sortie(title);
        world.agent_ok(agent, &format!("sorties claim {id}"));
    }
    world.agent_ok("bob", "locks acquire src/auth.rs");
    world.agent_ok("ada", "mail send --to bob --subject \"Look at this\"");
    world.agent_ok("ada", "mail send --to bob --subject \"And at this\"");
    world.agent_ok("bob", "mail inbox");
    world.agent_ok("bob", "effect begin deploy");
    world.ok("checkpoint");
    for _ in 0..8 {
        world.pass(5 * 60);
        world.agent_ok("ada", "heartbeat");
    }
    world
}

#[test]
fn resume_rewind_and_undo_say_what_they_changed() {
    let world = with_a_silent_agent();
    let cut = world.json("checkpoints list")[0]["id"].clone();
    let cut = cut.as_str().expect("an id");
    let plan = world.ok("resume --dry-run");
    let done = check_recovery(&world, "resume");
    assert_eq!(
        (
            number(&done, "- Restored "),
            number(&done, "- Re-acquired "),
            number(&done, "- Requeued ")
        ),
        (1, 0, 2),
        "{done:?}"
    );
    for (would, did) in [
        ("- Restore ", "- Restored "),
        ("- Re-acquire ", "- Re-acquired "),
        ("- Requeue ", "- Requeued "),
    ] {
        assert_eq!(number(&plan, would), number(&done, did), "{plan:?}");
    }
    for part in [
        "In Doubt:\n- `deploy`, which bob began at ",
        "fleet effect done deploy --mission ",
        "fleet context --agent ada",
    ] {
        assert!(done.stdout.contains(part), "{part}: {done:?}");
    }
    let model = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties complete {model}"));
    let back = check_recovery(&world, &format!("resume --checkpoint {cut} --force -y"));
    assert!(number(&back, "- Restored ") >= 2, "{back:?}");
    assert!(back.stdout.contains("fleet undo --mission "), "{back:?}");
    let undone = check_recovery(&world, "undo --force");
    assert!(number(&undone, "- Restored ") >= 1, "{undone:?}");
    // Nothing to do is nothing done.
    let nothing = check_recovery(&world, "resume");
    assert_eq!(number(&nothing, "- Restored "), 0, "{nothing:?}");
}

#[test]
fn prune_archive_and_import_say_what_they_changed() {
    let world = World::with_sorties(&["Model"]).local_only("it looks at files beside the store");
    let sortie = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties claim {sortie}"));
    for number in 0..6 {
        world.agent_ok(
            "ada",
            &format!("sorties update {sortie} --note sun{number}"),
        );
        world.ok(&format!("checkpoint --note \"number {number}\""));
    }
    let thinned = || {
        let counted = world.sql("SELECT count(*) FROM event WHERE change = 'thinned'");
        counted.trim().parse::<usize>().expect("a number")
    };
    world.pass(10 * 86_400);
    let (since, before) = (world.rev(), thinned());
    let pruned = world.ok("checkpoints prune -y");
    let gone = told(&world, since, "kind = 'checkpoint_pruned'");
    assert_eq!((number(&pruned, "Total: "), gone), (3, 3), "{pruned:?}");
    assert_eq!(number(&pruned, "Journal: "), thinned() - before);
    assert_eq!(lines(&pruned, "  chk-"), gone);

    let id = world.json("checkpoints list")[2]["id"].clone();
    let id = id.as_str().expect("an id");
    let file = world.repo().join("kept.json");
    world.ok(&format!("checkpoints export {id} kept.json"));
    let exported: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let since = world.rev();
    let archived = world.ok(&format!("checkpoints archive {id}"));
    assert!(archived.stdout.contains("archived"), "{archived:?}");
    assert_eq!(told(&world, since, "kind = 'checkpoint_archived'"), 1);
    world.ok(&format!("checkpoints delete {id} -y"));
    let imported = world.ok("checkpoints import kept.json");
    let values = exported["state"]["values"]
        .as_array()
        .expect("values")
        .len();
    let said = imported.stdout.split_once('(').expect("a number").1;
    assert!(
        said.starts_with(&format!("{values} values")),
        "{imported:?}"
    );
}

#[test]
fn restore_and_doctor_say_what_they_changed() {
    let world = World::with_sorties(&["Model", "Auth"]).local_only("they work on the store itself");
    world.ok("backup kept.db");
    world.ok("mission create \"Later\"");
    let restored = world.ok("restore kept.db -y");
    let rev = number(&restored, "Restored revision ");
    let said = restored.stdout.split_once('(').expect("a number").1;
    let held = world.sql(&format!("SELECT count(*) FROM event WHERE rev <= {rev}"));
    assert!(
        said.starts_with(&format!("{} events", held.trim())),
        "{restored:?}"
    );
    world.ok("doctor");
    let since = world.rev();
    world.sql("UPDATE subject SET doc = replace(doc, 'Model', 'Mxdel') WHERE kind = 'sortie'");
    world.sql("UPDATE subject SET doc = replace(doc, 'Auth', 'Axth') WHERE kind = 'sortie'");
    let fixed = world.ok("doctor --fix");
    let repaired = told(&world, since, "kind = 'value_repaired'");
    assert_eq!((lines(&fixed, "repaired"), repaired), (2, 2), "{fixed:?}");
}
