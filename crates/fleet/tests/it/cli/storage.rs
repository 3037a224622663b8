//! What becomes of old checkpoints and old values: what is shown before, what is said after, and that it is so.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use expect_test::expect;

use crate::cli::world::World;

const DAY: u64 = 86_400;

/// A mission whose sortie went to and fro, with five checkpoints, ten days ago.
fn aged() -> World {
    let world = World::with_sorties(&["Model"]);
    let sortie = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties claim {sortie}"));
    for number in 1..=5 {
        for line in [
            format!("sorties update {sortie} --note rain"),
            format!("sorties update {sortie} --note sun"),
            format!("checkpoint --note \"number {number}\""),
        ] {
            world.agent_ok("ada", &line);
        }
    }
    world.pass(10 * DAY);
    world
}

fn files(world: &World) -> usize {
    let folder = world.state().join("checkpoints");
    let missions = fs::read_dir(folder).unwrap();
    missions
        .map(|mission| fs::read_dir(mission.unwrap().path()).unwrap().count())
        .sum::<usize>()
        - 1
}

#[test]
fn pruning_shows_first_asks_and_then_does_what_it_showed() {
    let world = aged();
    assert_eq!(files(&world), 5);
    let shown = world.fleet("checkpoints prune --dry-run");
    let rev = world.rev();
    let asked = world.fleet("checkpoints prune");
    assert!(
        asked
            .stderr
            .contains("this would delete 2 checkpoints and thin the journal by 22 old values"),
        "{asked:?}"
    );
    assert_eq!((asked.code, world.rev(), files(&world)), (2, rev, 5));
    let asked = world.fleet("checkpoints prune --older-than 3 --keep 1");
    assert!(
        asked
            .stderr
            .ends_with("run `fleet checkpoints prune --older-than 3 --keep 1 -y`\n"),
        "{asked:?}"
    );
    let done = world.ok("checkpoints prune -y");
    let shown = shown.stdout.replace("Would delete:", "Deleted:");
    assert_eq!(
        done.stdout.replace("; the store uses that space again", ""),
        shown
    );
    assert_eq!(files(&world), 3);
    expect![[r#"
        Pruning checkpoints older than 7 days (keeping 3 per mission)...

        Deleted:
          chk-3ce8  msn-1166  2026-01-04  manual
          chk-5702  msn-1166  2026-01-04  manual

        Total: 2 checkpoints (12.0 kB)
        Journal: 22 old values (6.6 kB); the store uses that space again
        Expired, but kept: 1 the last of an unfinished mission, 2 among the newest that stay
    "#]]
    .assert_eq(&done.stdout);
    world.ok("checkpoints verify");
    world.ok("doctor");
    expect![[r#"
        Pruning checkpoints older than 7 days (keeping 3 per mission)...

        Nothing to delete.
        Expired, but kept: 1 the last of an unfinished mission, 2 among the newest that stay
    "#]]
    .assert_eq(&world.ok("checkpoints prune").stdout);
}

#[test]
fn a_slow_reader_does_not_keep_the_log_from_being_folded() {
    let world = World::with_sorties(&["Model"]).local_only("it looks at the files of the store");
    for mission in 0..4 {
        let sorties: String = (0..100)
            .map(|one| format!(" --sortie \"Number {one} of many\""))
            .collect();
        world.ok(&format!("missions create \"Mission {mission}\"{sorties}"));
    }
    let mut reader = Command::new(env!("CARGO_BIN_EXE_fleet"))
        .args(["log", "--limit", "1000", "--json"])
        .current_dir(world.repo())
        .env("HOME", world.home())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // From its first byte on it prints, and nobody reads the rest: more than a pipe holds.
    reader
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut [0])
        .unwrap();
    let log = world.state().join("flightline.db-wal");
    let mut written = 0;
    for number in 0..80 {
        let before = fs::metadata(&log).unwrap().len();
        world.ok(&format!("note lesson \"Number {number}\""));
        written += fs::metadata(&log).unwrap().len().saturating_sub(before);
    }
    assert!(reader.try_wait().unwrap().is_none(), "it waits to be read");
    let log = fs::metadata(&log).unwrap().len();
    assert!(written > 1_000_000 && log < 700_000, "{written}, {log}");
    reader.kill().unwrap();
    reader.wait().unwrap();
}

#[test]
fn a_clock_that_is_years_ahead_deletes_nothing_without_force() {
    let world = aged();
    let ahead = |typed: &str| {
        let line = world.line(typed);
        line.env("FLEET_TEST_NOW", "2036-01-05T12:00:00Z").run()
    };
    let found = "the clock says 2036-01-05, 3652 days ahead of the last work that confirms it (2026-01-04), \
                 and 2 checkpoints are old enough only if the clock is right\n";
    let rev = world.rev();
    let shown = ahead("checkpoints prune --dry-run");
    assert_eq!(shown.code, 0, "{shown:?}");
    assert!(
        shown.stdout.contains(&format!("Needs --force: {found}")),
        "{shown:?}"
    );
    let refused = ahead("checkpoints prune --keep 3 -y");
    assert!(
        refused
            .stderr
            .starts_with(&format!("error: nothing was deleted: {found}")),
        "{refused:?}"
    );
    assert!(
        refused
            .stderr
            .contains("if it is right, run `fleet checkpoints prune --keep 3 -y --force`"),
        "{refused:?}"
    );
    assert_eq!((refused.code, world.rev(), files(&world)), (2, rev, 5));
    let done = ahead("checkpoints prune --keep 3 -y --force");
    assert_eq!((done.code, files(&world)), (0, 3), "{done:?}");
    world.ok("doctor");
}

#[test]
fn how_long_things_are_kept_can_be_set() {
    let world = aged();
    world.ok("config set retention.older_than 20");
    assert_eq!(world.ok("config get retention.history").stdout, "20d\n");
    assert_eq!(world.json("checkpoints prune --dry-run")["deleted"], 0);
    world.ok("config set retention.older_than 9d");
    world.ok("config set retention.keep 1");
    let plan = world.json("checkpoints prune --dry-run");
    assert_eq!(plan["deleted"], 4);
    assert!(plan["journal"]["values"].as_u64() > Some(7));
    world.ok("config set retention.history 20d");
    let plan = world.json("checkpoints prune --dry-run");
    assert_eq!(
        (&plan["deleted"], &plan["journal"]["values"]),
        (&4.into(), &0.into())
    );
    for wrong in [
        "retention.keep many",
        "retention.keep -1",
        "retention.keep 0",
        "retention.older_than soon",
        "retention.most 0",
    ] {
        world.fleet(&format!("config set {wrong}")).refused(2);
    }
    world.ok("config set retention.keep 5");
    assert!(
        world
            .fleet("config set retention.most 4")
            .refused(2)
            .contains("`retention.keep` must not be above `retention.most`")
    );
    let file = world.state().join("config.toml");
    let own = fs::read_to_string(&file).unwrap();
    fs::write(&file, own.replace("keep = 5", "keep = 2")).unwrap();
    assert_eq!(world.ok("config get retention.keep").stdout, "2\n");
    fs::write(&file, own.replace("keep = 5", "keep = true")).unwrap();
    assert!(
        world
            .fleet("status")
            .refused(2)
            .contains("write it as a whole number")
    );
}

#[test]
fn the_first_command_after_a_day_prunes_after_it_has_answered() {
    let world = aged();
    let all = files(&world);
    // The clock may have jumped: nothing goes before work went on under it.
    for said in ["Sleep", "Wake"] {
        world.ok(&format!("note lesson {said}"));
        assert_eq!(files(&world), all);
        world.pass(20 * 60);
    }
    world.pass(DAY);
    let said = world.ok("note lesson \"Work\"");
    assert_eq!((said.stderr.as_str(), files(&world)), ("", 3));
    let events = world.json("events list --limit 50");
    let kinds: Vec<&str> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|event| event["type"].as_str())
        .collect();
    assert!(
        kinds.contains(&"retention_applied") && kinds.contains(&"journal_thinned"),
        "{kinds:?}"
    );
    world.ok("doctor");
}

#[test]
fn what_stays_though_its_time_is_over_is_expired_and_pruning_says_why() {
    let world = aged();
    world.ok("config set retention.most 3");
    let listed = world.json("checkpoints list --limit 2");
    assert_eq!(listed[0]["status"], "expired");
    let shown = world.ok("checkpoints list").stdout;
    assert_eq!(shown.matches("  expired: number").count(), 3, "{shown}");
    let shown = world.ok("checkpoints show @latest").stdout;
    assert!(shown.contains("\nStatus: expired (its time is over;"));
    let kept = &world.json("checkpoints prune --dry-run")["kept"];
    assert_eq!(
        (&kept[0]["guard"], &kept[1]["guard"]),
        (&"last".into(), &"minimum".into())
    );
}

/// Makes room in the store: pages that nothing is on any more.
fn make_room(world: &World) {
    world.sql("CREATE TABLE junk (x BLOB); INSERT INTO junk VALUES (randomblob(4000000)); DROP TABLE junk; PRAGMA wal_checkpoint(TRUNCATE);");
}

fn size(world: &World) -> u64 {
    fs::metadata(world.database()).unwrap().len()
}

#[test]
fn much_free_space_goes_back_to_the_file_system() {
    let world = aged();
    make_room(&world);
    let before = size(&world);
    let done = world.json("checkpoints prune -y");
    let returned = done["space"]["bytes"].as_u64().unwrap();
    assert_eq!(done["space"]["state"], "returned");
    assert_eq!(before - size(&world), returned);
    assert_eq!(
        done["freed_bytes"].as_u64().unwrap(),
        returned + done["file_bytes"].as_u64().unwrap()
    );
    make_room(&world);
    let again = world.ok("checkpoints prune").stdout;
    assert!(
        again.contains(
            "Nothing to delete.\nJournal: the store gave 4.0 MB back to the file system\n"
        ),
        "{again}"
    );
    make_room(&world);
    let before = size(&world);
    assert_eq!(world.json("doctor")["healthy"], true);
    assert_eq!(size(&world), before, "looking gives nothing back");
    let fixed = world.ok("doctor --fix").stdout;
    assert!(
        fixed.contains("ok   free space\n       gave 4.0 MB back to the file system\n"),
        "{fixed}"
    );
    assert!(size(&world) < before / 4);
    world.ok("checkpoints verify");
}

#[test]
fn a_prune_that_dies_anywhere_leaves_everything_sound_and_can_be_run_again() {
    let world = aged();
    make_room(&world);
    let snapshot = world.snapshot();
    let whole = {
        let world = snapshot
            .world()
            .local_only("commands die at points of their own");
        world.ok("checkpoints prune -y");
        world.sql("SELECT count(*) FROM event WHERE change = 'thinned'")
    };
    let mut died = 0;
    for step in 1.. {
        let world = snapshot
            .world()
            .local_only("commands die at points of their own");
        let prune = world.line("checkpoints prune -y");
        let ran = prune.env("FLEET_CRASH_AT", step.to_string()).run();
        if ran.code == 0 {
            break;
        }
        died += 1;
        world.ok("doctor --fix");
        world.ok("checkpoints verify");
        world.ok("checkpoints prune -y");
        world.ok("doctor");
        assert_eq!(
            world.sql("SELECT count(*) FROM event WHERE change = 'thinned'"),
            whole,
            "after step {step}"
        );
        assert_eq!(files(&world), 3, "after step {step}");
        assert!(size(&world) < 1_000_000, "after step {step}");
    }
    assert!(died > 20, "{died}");
}

#[test]
fn the_file_of_a_deleted_checkpoint_goes_and_latest_points_to_what_is_left() {
    let world = aged();
    world.ok("config set retention.older_than 20d");
    let mission = fs::read_dir(world.state().join("checkpoints")).unwrap();
    let home = mission.last().unwrap().unwrap().path();
    let latest = || fs::read_link(home.join("latest.json")).ok();
    let newest = world.json("checkpoints show @latest~1")["id"].clone();
    world.ok("checkpoints delete @latest -y");
    assert_eq!(files(&world), 4);
    assert_eq!(
        latest().unwrap().to_str().unwrap(),
        format!("{}.json", newest.as_str().unwrap())
    );
    // Somebody's spare copy of a checkpoint that this store never knew is none of our business.
    let strange = home.join("chk-00000000-0000-4000-8000-00000000cafe.json");
    fs::write(&strange, "{}").unwrap();
    for _ in 0..4 {
        world.ok("checkpoints delete @latest -y");
    }
    assert_eq!((latest(), strange.exists()), (None, true));
}

#[test]
fn a_checkpoint_above_a_megabyte_is_warned_of() {
    let world = World::with_sorties(&["Model"]);
    let long = "word ".repeat(1_600);
    for _ in 0..130 {
        let note = world.command(&["note", "lesson", &long, "-q"]).run();
        assert_eq!(note.code, 0, "{note:?}");
    }
    let taken = world.fleet("checkpoint");
    assert_eq!(
        (taken.code, taken.stderr.matches("warning: chk-").count()),
        (0, 1)
    );
    assert!(
        taken.stderr.contains(": the checkpoint takes 1.")
            && taken.stdout.contains("Checkpoint created"),
        "{}",
        taken.stderr
    );
    let shown = world.ok("checkpoints show @latest");
    assert!(shown.stdout.contains("\nWarning: the checkpoint takes 1."));
    assert_eq!(shown.stderr, "");
    let json = world.json("checkpoint --note again");
    assert_eq!(json["warnings"].as_array().unwrap().len(), 1);
}

#[test]
fn figures_say_what_takes_room() {
    let world = aged();
    world.ok("config set retention.older_than 20d");
    let said = world.ok("stats").stdout;
    let shown: Vec<&str> = said.lines().collect();
    assert!(shown[0].starts_with("Database     sqlite "), "{said}");
    assert_eq!(shown[1], "Checkpoints  5; 5 manual; 5 valid");
    assert!(
        shown[2].starts_with("             oldest chk-")
            && shown[2].contains(" of 2026-01-04T12:00:0"),
        "{said}"
    );
    assert!(shown[3].starts_with("Files        5 with "), "{said}");
    assert!(
        said.contains("\nKIND  ") && said.contains("\nLARGEST  ") && said.contains("Add login"),
        "{said}"
    );
    let (all, storage) = (world.json("stats"), world.json("stats storage"));
    assert_eq!(all["storage"], storage);
    assert_eq!(
        storage["database"]["bytes"].as_u64(),
        Some(size(&world)),
        "the file as it is"
    );
}

#[test]
fn a_checkpoint_goes_out_to_a_file_and_comes_back() {
    let world = aged();
    world.ok("config set retention.older_than 20d");
    let exported = world.ok("checkpoints export @latest~4 old.json").stdout;
    expect![[r#"
        Exported chk-3ce8 to old.json (5.7 kB)
    "#]]
    .assert_eq(&exported);
    let old = world.json("checkpoints show @latest~4")["id"].clone();
    let old = old.as_str().unwrap();
    let again = world.fleet("checkpoints export @latest~4 old.json");
    assert!(again.refused(4).contains("old.json exists already"));
    world.ok("checkpoints export @latest~4 old.json --force");
    world.ok("checkpoints export @latest~4");
    assert!(world.repo().join(format!("{old}.json")).is_file());
    let printed = world.ok("checkpoints export @latest~4 -").stdout;
    assert_eq!(
        printed,
        format!(
            "{}\n",
            fs::read_to_string(world.repo().join("old.json")).unwrap()
        )
    );
    expect![[r#"
        chk-3ce8 is here already, and sound
    "#]]
    .assert_eq(&world.ok("checkpoints import old.json").stdout);
    world.ok(&format!("checkpoints delete {old} -y"));
    world.ok("checkpoints prune --older-than 1 --keep 1 -y");
    expect![[r#"
        Imported chk-3ce8 (3 values)
        It is pinned, so that retention leaves it alone: fleet checkpoints unpin chk-3ce8
    "#]]
    .assert_eq(&world.ok("checkpoints import old.json").stdout);
    world.ok("doctor");
    let shown = world.json(&format!("checkpoints show {old}"));
    assert_eq!(
        (&shown["note"], &shown["pinned"]),
        (&"number 1".into(), &true.into())
    );
    world.ok(&format!("resume --checkpoint {old} --force -y"));
    world.ok("undo --force");
    world.ok("doctor");
    // From one program to the other, and through the link that people see.
    let piped = world.line("checkpoints import -").stdin(printed).run();
    assert_eq!(piped.code, 0, "{piped:?}");
    let home = fs::read_dir(world.state().join("checkpoints")).unwrap();
    let home = home.last().unwrap().unwrap().file_name();
    let link = format!(
        "checkpoints import .flightline/checkpoints/{}/latest.json",
        home.to_str().unwrap()
    );
    assert!(
        world
            .ok(&link)
            .stdout
            .ends_with("is here already, and sound\n")
    );
}

#[test]
fn one_of_another_store_is_archived_and_a_strange_one_refused() {
    let world = aged();
    world.ok("backup copy.db");
    let theirs = World::new();
    fs::copy(world.repo().join("copy.db"), theirs.repo().join("copy.db")).unwrap();
    theirs.pass(10 * DAY);
    world.ok("note lesson \"Only there\"");
    world.ok("checkpoint --note \"only there\"");
    world.ok("checkpoints export @latest ours.json");
    fs::copy(
        world.repo().join("ours.json"),
        theirs.repo().join("ours.json"),
    )
    .unwrap();
    theirs
        .fleet("checkpoints import ours.json")
        .expect(expect![[r#"
            [stderr]
            error: chk-bf6cb52b belongs to msn-1166f932, which this store does not know

            hint: put the file into `.flightline/checkpoints/` below its mission's folder and build a store from all files there: `fleet doctor --rebuild`
            [exit 3]
        "#]]);
    theirs.ok("restore copy.db -y");
    let said = theirs.ok("checkpoints import ours.json").stdout;
    expect![[r#"
        Imported chk-bf6c of another journal (5 values)
        It is archived: fleet checkpoints list --archived
        To go back to it: fleet resume --checkpoint chk-bf6c --dry-run
    "#]]
    .assert_eq(&said);
    assert!(
        theirs
            .ok("checkpoints list --archived")
            .stdout
            .contains("  archived: ")
    );
    theirs.ok("doctor --fix");
    theirs.ok("doctor");
    theirs.fleet("checkpoints import missing.json").refused(3);
    theirs.write("broken.json", "{}");
    theirs.fleet("checkpoints import broken.json").refused(6);
}
