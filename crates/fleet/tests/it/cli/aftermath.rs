//! After a recovery, a rewind, a restore or an end: what it was for is settled, and nothing that was left comes back.

use std::fs;

use crate::cli::world::World;

const MINUTE: u64 = 60;

/// The ids of the current mission's checkpoints, newest first.
fn checkpoints(world: &World) -> Vec<String> {
    let list = world.json("checkpoints list --limit 100");
    let all = list.as_array().expect("a list").iter();
    all.map(|one| one["id"].as_str().expect("an id").to_owned())
        .collect()
}

/// The store is gone, its checkpoint files are there.
fn lose_the_store(world: &World) {
    let state = world.state();
    for name in ["flightline.db", "flightline.db-wal", "flightline.db-shm"] {
        let _ = fs::remove_file(state.join(name));
    }
}

/// The title and the status of every mission.
fn missions(world: &World) -> Vec<(String, String)> {
    let all = world.json("missions list --archived");
    let word = |value: &serde_json::Value| value.as_str().expect("a word").to_owned();
    let mut all: Vec<(String, String)> = all
        .as_array()
        .expect("a list")
        .iter()
        .map(|mission| (word(&mission["title"]), word(&mission["status"])))
        .collect();
    all.sort();
    all
}

fn status_of(world: &World, title: &str) -> String {
    let sorties = world.json("sorties list");
    let found = sorties.as_array().expect("a list").iter();
    let mut found = found.filter(|sortie| sortie["title"] == title);
    let status = &found.next().expect("a sortie")["status"];
    status.as_str().expect("a word").to_owned()
}

#[test]
fn a_recovery_settles_what_it_was_for_until_there_is_news() {
    let world = World::with_sorties(&["Model", "Auth"]);
    let model = world.sortie("Model");
    world.ok("agents register ada");
    world.agent_ok("ada", &format!("sorties claim {model}"));
    world.ok("checkpoint");
    world.pass(6 * MINUTE);
    assert_eq!(world.fleet("detect").code, 5);
    assert!(world.ok("status").stdout.contains("fleet resume --mission"));
    world.ok("detect --auto-resume");
    let rev = world.rev();
    for typed in ["detect", "detect --auto-resume"] {
        let again = world.ok(typed);
        assert!(
            again.stdout.contains("Nothing needs recovery."),
            "{again:?}"
        );
        assert!(
            again
                .stdout
                .contains("start it again: fleet context --agent ada"),
            "what is left to do is named: {again:?}"
        );
    }
    assert_eq!(world.rev(), rev, "nothing is recovered twice");
    let status = world.ok("status");
    assert!(!status.stdout.contains("fleet resume"), "{status:?}");
    assert!(
        status.stdout.contains("fleet context --agent ada"),
        "{status:?}"
    );
    // An agent that works, and falls silent again, is news.
    world.agent_ok("ada", &format!("sorties update {model} --note back"));
    world.ok("detect");
    world.pass(6 * MINUTE);
    assert_eq!(world.fleet("detect").code, 5);
}

#[test]
fn an_agent_that_kept_its_work_and_never_came_back_is_news() {
    let world = World::with_sorties(&["Model", "Auth"]);
    world.ok("agents register ada");
    world.ok("agents register bob");
    world.agent_ok("ada", "sorties claim --next");
    world.ok("checkpoint");
    world.pass(6 * MINUTE);
    world.ok("resume");
    world.ok("detect");
    // It was only quiet then. Others go on, so that its silence can be noticed.
    for _ in 0..8 {
        world.pass(5 * MINUTE);
        world.ok("note decision \"rain\"");
        world.agent_ok("bob", "heartbeat");
    }
    world.pass(6 * MINUTE);
    assert_eq!(world.fleet("detect").code, 5);
    world.ok("detect --auto-resume");
    let left = world.ok("detect");
    assert!(left.stdout.contains("no agent works on"), "{left:?}");
    assert_eq!(status_of(&world, "Model"), "pending");
}

#[test]
fn detect_names_the_mission_and_saving_one_does_not_choose_it() {
    let world = World::with_sorties(&["Model"]);
    world.agent_ok("ada", "sorties claim --next");
    world.ok("checkpoint");
    let first = world.json("status")["mission"]["mission"]["id"].clone();
    let first = first.as_str().expect("an id");
    world.ok("mission create Second --sortie Other");
    let current = |world: &World| world.json("status")["mission"]["mission"]["title"].clone();
    assert_eq!(current(&world), "Second");
    world.ok(&format!("checkpoint --mission {first} --note saved"));
    world.ok(&format!("checkpoints list --mission {first}"));
    world.ok(&format!("checkpoints verify --mission {first}"));
    world.ok(&format!("status --mission {first}"));
    assert_eq!(current(&world), "Second");
    world.pass(6 * MINUTE);
    let found = world.fleet("detect");
    let id = first.get(..8).expect("an id");
    assert!(
        found
            .stdout
            .contains(&format!("Resume with: fleet resume --mission {id}")),
        "{found:?}"
    );
}

#[test]
fn a_dry_run_answers_while_agents_are_at_work() {
    let world = World::with_sorties(&["Model", "Auth"]);
    world.ok("agents register ada");
    world.ok("checkpoint");
    let model = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties claim {model}"));
    world.agent_ok("ada", &format!("sorties complete {model}"));
    let cut = checkpoints(&world).pop().expect("a checkpoint");
    let rev = world.rev();
    world
        .fleet(&format!("resume --checkpoint {cut} -y"))
        .refused(4);
    let plan = world.ok(&format!("resume --checkpoint {cut} --dry-run"));
    assert!(plan.stdout.contains("is no longer completed"), "{plan:?}");
    assert!(
        plan.stderr.contains("refused without `--force`"),
        "{plan:?}"
    );
    assert!(plan.stdout.contains("Nothing was changed."), "{plan:?}");
    assert_eq!(world.rev(), rev);
}

#[test]
fn a_failed_mission_is_taken_up_again_only_when_somebody_says_so() {
    let world = World::with_sorties(&["Model"]);
    world.agent_ok("ada", "sorties claim --next");
    world.ok("checkpoint");
    let id = world.json("status")["mission"]["mission"]["id"].clone();
    let id = id.as_str().expect("an id");
    world.ok(&format!("mission fail {id} --reason \"no budget\""));
    let rev = world.rev();
    let asked = world.fleet(&format!("resume --mission {id}"));
    let said = asked.refused(2);
    assert!(said.contains("it is failed (no budget)"), "{said}");
    assert!(said.contains("-y`"), "{said}");
    assert_eq!(world.rev(), rev);
    let plan = world.ok(&format!("resume --mission {id} --dry-run"));
    assert!(plan.stderr.contains("reopens it"), "{plan:?}");
    world.ok(&format!("resume --mission {id} -y"));
    assert_eq!(missions(&world)[0].1, "in_progress");
}

#[test]
fn a_completed_mission_can_be_taken_back_by_one_of_its_checkpoints() {
    let world = World::with_sorties(&["Model"]);
    world.agent_ok("ada", "sorties claim --next");
    world.ok("checkpoint");
    let cut = checkpoints(&world).pop().expect("a checkpoint");
    let model = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties complete {model}"));
    world.ok("mission complete");
    world.fleet("resume").refused(4);
    world.ok(&format!("resume --checkpoint {cut} --force -y"));
    assert_eq!(missions(&world)[0].1, "in_progress");
}

#[test]
fn who_asks_for_what_is_so_already_gets_it_without_a_refusal() {
    let world = World::with_sorties(&["Model"]);
    let model = world.sortie("Model");
    world.ok("agents register ada");
    world.agent_ok("ada", &format!("sorties claim {model}"));
    let rev = world.rev();
    for (typed, said) in [
        (format!("sorties claim {model}"), "already yours"),
        (format!("sorties start {model}"), "already in that state"),
    ] {
        let again = world.agent_ok("ada", &typed);
        assert!(again.stdout.contains(said), "{again:?}");
    }
    assert_eq!(world.rev(), rev);
    world.agent_ok("ada", &format!("sorties complete {model} --output 7"));
    let rev = world.rev();
    let again = world.agent_ok("ada", &format!("sorties complete {model}"));
    assert!(again.stdout.contains("already in that state"), "{again:?}");
    world.ok("agents register bob");
    world
        .agent("bob", &format!("sorties complete {model}"))
        .refused(4);
    assert_eq!(world.rev() - rev, 1, "only bob's arrival");
    world.ok("mission complete");
    let again = world.ok("mission complete");
    assert!(again.stdout.contains("already in that state"), "{again:?}");
}

#[test]
fn completing_takes_the_final_checkpoint_and_the_others_stay_for_a_day() {
    let world = World::with_sorties(&["Model", "Auth"]);
    world.agent_ok("ada", "sorties claim --next");
    for note in ["one", "two", "three"] {
        world.ok(&format!("checkpoint --note {note}"));
    }
    world.ok("agents register ada");
    for title in ["Model", "Auth"] {
        let id = world.sortie(title);
        world.agent_ok("ada", &format!("sorties claim {id}"));
        world.agent_ok("ada", &format!("sorties complete {id}"));
    }
    let done = world.ok("mission complete");
    assert!(done.stdout.contains("checkpoint chk-"), "{done:?}");
    let list = world.json("checkpoints list");
    let last = &list[0];
    assert_eq!(
        (&last["reason"], &last["progress_percent"]),
        (&"mission_ended".into(), &100.into())
    );
    let before = list.as_array().expect("a list").len();
    let soon = world.ok("checkpoints prune --dry-run");
    assert!(soon.stdout.contains("Nothing to delete."), "{soon:?}");
    world.pass(86_400 + 60);
    let later = world.ok("checkpoints prune --dry-run");
    let gone = before - 1;
    for part in [
        format!(
            "Completed missions keep only their final checkpoint, for 30 days; the others go a day after completion: {gone} checkpoints."
        ),
        format!("Total: {gone} checkpoints ("),
        format!("): {gone} of completed missions, not the final one"),
    ] {
        assert!(later.stdout.contains(&part), "{part}: {later:?}");
    }
}

#[test]
fn a_rebuild_leaves_a_rewind_a_restore_and_an_end_as_they_were() {
    let world = World::with_sorties(&["Model", "Auth"]).local_only("the store is lost");
    world.ok("agents register ada");
    let model = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties claim {model}"));
    world.ok("checkpoint");
    let cut = checkpoints(&world).remove(0);
    world.agent_ok("ada", &format!("sorties complete {model}"));
    world.ok("checkpoint --note done");
    world.ok(&format!("resume --checkpoint {cut} --force -y"));
    assert_eq!(status_of(&world, "Model"), "in_progress");
    lose_the_store(&world);
    world.ok("doctor --rebuild -y");
    assert_eq!(
        status_of(&world, "Model"),
        "in_progress",
        "the rewind holds"
    );

    world.ok("backup kept.db");
    world.ok("agents register ada");
    world.agent_ok("ada", &format!("sorties update {model} --note late"));
    world.ok("mission create Late --sortie Other");
    world.ok("checkpoint");
    world.ok("restore kept.db -y");
    let sound = world.ok("doctor");
    assert!(sound.stdout.contains("Everything is well."), "{sound:?}");
    lose_the_store(&world);
    let rebuilt = world.ok("doctor --rebuild -y");
    assert!(rebuilt.stdout.contains("left behind"), "{rebuilt:?}");
    let only = [("Add login".to_owned(), "in_progress".to_owned())];
    assert_eq!(missions(&world), only, "the restore holds");
    // A second time, too: what was left is still there, as files.
    lose_the_store(&world);
    world.ok("doctor --rebuild -y");
    assert_eq!(missions(&world), only);

    world.ok("agents register ada");
    for title in ["Model", "Auth"] {
        let id = world.sortie(title);
        world.agent_ok("ada", &format!("sorties claim {id}"));
        world.agent_ok("ada", &format!("sorties complete {id}"));
    }
    world.ok("mission complete");
    lose_the_store(&world);
    world.ok("doctor --rebuild -y");
    assert_eq!(missions(&world)[0].1, "completed", "the end holds");
}

#[test]
fn who_lost_the_store_is_told_what_brings_it_back() {
    let world = World::with_sorties(&["Model", "Auth"]).local_only("the store is lost");
    world.agent_ok("ada", "sorties claim --next");
    world.ok("checkpoint");
    lose_the_store(&world);
    let what = " brings back \"Add login\" (0 %) from 1 sound checkpoint file of ";
    for typed in [
        "status",
        "resume",
        "trust -y",
        "mission create Other",
        "doctor",
    ] {
        let refused = world.fleet(typed);
        assert_ne!(refused.code, 0, "{refused:?}");
        assert!(refused.stderr.contains(what), "{typed}: {refused:?}");
        assert!(
            refused.stderr.contains("hint: `fleet doctor --rebuild"),
            "{typed}: {refused:?}"
        );
        assert!(
            !refused.stderr.contains("fleet init"),
            "{typed}: {refused:?}"
        );
    }
    let refused = world.fleet("init");
    let said = refused.refused(2);
    assert!(
        said.contains(what) && said.contains("`fleet init --empty`"),
        "{said}"
    );
    // The settings may be lost with it.
    let config = world.state().join("config.toml");
    let settings = fs::read(&config).unwrap();
    fs::remove_file(&config).unwrap();
    let refused = world.fleet("status");
    assert!(refused.stderr.contains(what), "{refused:?}");
    world.ok("doctor --rebuild -y");
    assert_eq!(missions(&world)[0].0, "Add login");
    fs::write(&config, settings).unwrap();
    world.ok("status");

    lose_the_store(&world);
    world.ok("init --empty");
    assert!(missions(&world).is_empty());
}

#[test]
fn a_copy_that_could_not_be_written_is_told_by_the_command_that_failed() {
    let world = World::with_sorties(&["Model"]).local_only("it is about files beside the store");
    world.agent_ok("ada", "sorties claim --next");
    let place = world.state().join("checkpoints");
    let _ = fs::remove_dir_all(&place);
    fs::write(&place, "in the way").unwrap();
    let taken = world.ok("checkpoint");
    assert!(taken.stderr.contains("could not be written"), "{taken:?}");
    let model = world.sortie("Model");
    let done = world.agent_ok("ada", &format!("sorties complete {model}"));
    assert!(done.stderr.contains("could not be written"), "{done:?}");
    let ended = world.ok("mission complete");
    assert!(ended.stderr.contains("could not be written"), "{ended:?}");
    let taken = world.json("checkpoints show @latest");
    assert_eq!(taken["backup"]["state"], "failed", "{taken}");
}

#[test]
fn a_linked_folder_of_checkpoints_is_not_followed() {
    let world = World::with_sorties(&["Model"]).local_only("it is about files beside the store");
    let place = world.state().join("checkpoints");
    let _ = fs::remove_dir_all(&place);
    let elsewhere = world.home().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &place).unwrap();
    let taken = world.ok("checkpoint");
    assert!(taken.stderr.contains("could not be written"), "{taken:?}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn a_checkpoint_that_nobody_can_read_is_listed_and_can_be_dropped_by_name() {
    let world = World::with_sorties(&["Model"]).local_only("its files are damaged, too");
    for note in ["one", "two", "three"] {
        world.ok(&format!("checkpoint --note {note}"));
    }
    let id = checkpoints(&world).remove(1);
    world.sql(&format!(
        "UPDATE event SET after = replace(after, 'manual', 'manuel') WHERE subject = '{id}'"
    ));
    let mission = world.json("checkpoints list")[0]["mission_id"].clone();
    let file = format!("checkpoints/{}/{id}.json", mission.as_str().expect("an id"));
    fs::remove_file(world.state().join(file)).unwrap();
    let list = world.json("checkpoints list");
    let listed = list.as_array().expect("a list");
    let total = |count: usize| {
        let said = world.ok("checkpoints list").stdout;
        assert!(
            said.contains(&format!("Total: {count} checkpoints")),
            "{said}"
        );
    };
    total(3);
    assert_eq!(listed.len(), 3);
    assert_eq!(
        (&listed[1]["id"], &listed[1]["status"]),
        (&id.as_str().into(), &"corrupted".into())
    );
    let doctor = world.fleet("doctor --fix");
    assert_eq!(doctor.code, 5);
    assert!(
        doctor.stdout.contains("fleet checkpoints delete chk-"),
        "{doctor:?}"
    );
    let refused = world.fleet(&format!("checkpoints archive {id}"));
    assert!(
        refused.refused(6).contains("checkpoints delete"),
        "{refused:?}"
    );
    world.ok(&format!("checkpoints delete {id} -y"));
    total(2);
    world.ok("doctor");
}
