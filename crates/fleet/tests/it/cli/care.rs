//! The doctor, backups, and the way back.

use std::fs;

use expect_test::expect;

use crate::cli::running::Ran;
use crate::cli::stage;
use crate::cli::world::{World, words};

/// Everything the doctor checks in a sound store, in its order.
const CHECKS: [&str; 18] = [
    "permissions",
    "engine",
    "schema",
    "journal",
    "last acknowledged revision",
    "state equals fold of events",
    "checksums",
    "search columns match the documents",
    "beside the journal",
    "locks exclude one another",
    "work has an owner that exists",
    "mail has a message and a recipient",
    "checkpoints match their hashes",
    "checkpoint files match the store",
    "no file without a checkpoint",
    "files are private",
    "`latest.json` names the newest file",
    "nothing is left behind",
];

/// The doctor's answer without the checks that found nothing; a check that was not made is named at the end.
pub fn findings(ran: &Ran) -> String {
    let text = ran.text();
    let (fine, rest): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with('✓'));
    let known = CHECKS.map(|check| format!("✓ ok   {check}"));
    let in_order = known.iter().filter(|line| fine.contains(&line.as_str()));
    assert_eq!(fine, in_order.collect::<Vec<_>>());
    let mut said = rest.join("\n") + "\n";
    for check in CHECKS {
        if !text.contains(&format!("  {check}\n")) {
            said += &format!("not checked: {check}\n");
        }
    }
    said
}

#[test]
fn the_doctor_finds_nothing_wrong_with_a_sound_store() {
    let world = stage::world();
    expect![[r#"
        ! work srt-ad12 ("Stuck") is blocked: waits for the schema
               run: fleet sorties unblock srt-ad12
        The store is sound; the work needs attention.
    "#]]
    .assert_eq(&findings(&world.fleet("doctor")));
    let json = world.json("doctor");
    assert_eq!(json["healthy"], true);
    world.ok("doctor --fix");
}

#[test]
fn the_doctor_names_what_is_damaged() {
    let world = stage::world();
    let login = stage::named("{Login}");
    world.sql(&format!("UPDATE subject SET status = 'completed', doc = replace(doc, 'Login', 'Forged') WHERE id = '{login}'"));
    expect![[r#"
        ✗ bad  state equals fold of events
               the last value of sortie srt-70a3df0a-6051-445a-8000-000000001772 does not match its checksum; the journal's is sound
        ✗ bad  search columns match the documents
               sortie srt-70a3df0a-6051-445a-8000-000000001772 is found by another status than its document says
        Try: fleet doctor --fix; or go back to a sound state with: fleet restore FILE
        [exit 5]
        not checked: locks exclude one another
        not checked: work has an owner that exists
        not checked: mail has a message and a recipient
    "#]].assert_eq(&findings(&world.fleet("doctor")));
    let json = world.fleet("doctor --json");
    assert_eq!(
        (json.code, &json.json()["healthy"]),
        (5, &serde_json::json!(false))
    );
    expect![[r#"
        the last value of sortie srt-70a3df0a-6051-445a-8000-000000001772 does not match its checksum; the journal's is sound; repaired
        sortie srt-70a3df0a-6051-445a-8000-000000001772 is found by another status than its document says; repaired
        The store as it was before is kept as REPO/.flightline/backups/before-fix-2026-01-04T12-00-30-000Z.db
        ! work srt-ad12 ("Stuck") is blocked: waits for the schema
               run: fleet sorties unblock srt-ad12
        The store is sound; the work needs attention.
    "#]].assert_eq(&findings(&world.fleet("doctor --fix")));
}

#[test]
fn a_checkpoint_is_served_by_whichever_copy_is_left() {
    let world = World::with_sorties(&["Model", "Login"]);
    let taken = world.json("checkpoint");
    let (id, mission) = (
        taken["id"].as_str().unwrap(),
        taken["mission_id"].as_str().unwrap(),
    );
    let file = world
        .state()
        .join(format!("checkpoints/{mission}/{id}.json"));
    fs::remove_file(&file).unwrap();
    let ran = world.ok("resume");
    let said = format!("warning: the file of {} is missing", &id[..12]);
    assert!(ran.stderr.contains(&said), "{ran:?}");
    world.ok("doctor --fix");
    assert!(file.exists());
    for table in ["event", "subject", "backup"] {
        let key = match table {
            "event" => "subject",
            "subject" => "id",
            _ => "checkpoint",
        };
        world.sql(&format!("DELETE FROM {table} WHERE {key} = '{id}'"));
    }
    let ran = world.ok("resume --json");
    let said = format!(
        "warning: {} was missing in the store; brought back from its file",
        &id[..12]
    );
    assert!(ran.stderr.contains(&said), "{ran:?}");
    assert_eq!(world.json(&format!("checkpoints show {id}"))["id"], id);
    // Neither copy: it cannot be done.
    fs::remove_file(&file).unwrap();
    world.sql("DELETE FROM subject WHERE kind = 'checkpoint'");
    world.sql("DELETE FROM event WHERE subject_kind = 'checkpoint'");
    let ran = world.fleet("resume");
    assert!(ran.refused(3).contains("it has no checkpoint"), "{ran:?}");
}

#[test]
fn a_damaged_store_is_restored_and_kept_as_it_was() {
    let world = stage::world();
    world.ok("backup saved.db");
    let before = world.json("sorties list");
    world.sql("UPDATE subject SET doc = replace(doc, 'Login', 'Forged') WHERE kind = 'sortie'");
    assert_eq!(world.fleet("doctor").code, 5);
    world.ok("restore saved.db -y");
    assert_eq!(world.json("sorties list"), before);
    assert_eq!(world.fleet("doctor").code, 0);
    // The damaged one is there to be looked at, and does not pass for a sound backup.
    let kept = std::fs::read_dir(world.repo().join(".flightline/backups")).unwrap();
    let kept = kept.flatten().next().unwrap().path();
    let again = world.fleet(&format!("restore {} -y", kept.display()));
    assert_eq!(again.code, 6, "{again:?}");
    assert_eq!(world.fleet("doctor").code, 0);
}

#[test]
fn the_doctor_sees_every_kind_of_damage() {
    for (damage, check) in [
        ("DELETE FROM event WHERE rev = 5", "journal"),
        (
            "UPDATE event SET after = replace(after, 'Model', 'Forged') WHERE kind = 'sortie_added'",
            "checksums",
        ),
        ("UPDATE event SET sha = 'x' WHERE rev = 3", "checksums"),
        (
            "DELETE FROM subject WHERE kind = 'sortie'",
            "state equals fold of events",
        ),
        ("UPDATE project SET rev = rev + 1", "journal"),
        (
            "DELETE FROM event WHERE rev = (SELECT max(rev) FROM event)",
            "journal",
        ),
    ] {
        let world = stage::world();
        world.sql(damage);
        let json = world.fleet("doctor --json");
        assert_eq!(json.code, 5, "{damage}: {json:?}");
        let document = json.json();
        let bad: Vec<&str> = document["checks"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one["ok"] == false)
            .map(|one| one["name"].as_str().unwrap())
            .collect();
        assert!(bad.contains(&check), "{damage}: {bad:?}");
        assert_eq!(world.fleet("doctor").code, 5);
    }
}

/// The tables that are damaged, and a row of each.
const ROWS: [(&str, &str); 8] = [
    ("event", "rev = 3"),
    ("event", "rev = (SELECT max(rev) FROM event)"),
    (
        "subject",
        "rowid = (SELECT max(rowid) FROM subject WHERE kind = 'sortie')",
    ),
    (
        "subject",
        "rowid = (SELECT max(rowid) FROM subject WHERE kind = 'agent')",
    ),
    ("pulse", "agent = (SELECT max(agent) FROM pulse)"),
    ("request", "key = (SELECT max(key) FROM request)"),
    (
        "backup",
        "checkpoint = (SELECT max(checkpoint) FROM backup)",
    ),
    ("project", "1"),
];

#[test]
fn one_changed_byte_anywhere_is_named_repaired_and_stops_nothing_else() {
    let world = stage::world().local_only("it damages the store");
    world.ok("sorties add Remembered --idempotency-key once");
    world.ok("checkpoint");
    let mut tried = 0;
    for (table, row) in ROWS {
        let columns = world.sql(&format!(
            "SELECT name || ' ' || type FROM pragma_table_info('{table}')"
        ));
        for column in columns.lines() {
            let (column, kind) = column.split_once(' ').unwrap();
            // What nobody can find any more is another matter.
            if matches!((table, column), (_, "project") | ("project", "id")) {
                continue;
            }
            let value = match kind {
                "INTEGER" => format!("coalesce({column}, 0) + 16777216"),
                _ => format!(
                    "CASE coalesce({column}, '') WHEN '' THEN 'x' ELSE substr({column}, 1, length({column}) - 1) || char(unicode(substr({column}, -1)) + 1) END"
                ),
            };
            let sql = format!("UPDATE {table} SET {column} = {value} WHERE {row}");
            // What cannot be answered is forgotten, and has to be there again.
            if table == "request" {
                world.ok(&format!(
                    "sorties add Remembered --idempotency-key {column}"
                ));
            }
            let done = world.sql(&format!(
                "PRAGMA ignore_check_constraints = ON; {sql}; SELECT changes()"
            ));
            if done.trim() == "0" {
                continue;
            }
            for typed in [
                "status",
                "log",
                "context",
                "events list",
                "resume --dry-run",
                "locks list",
                "missions list",
            ] {
                let ran = world.fleet(typed);
                assert!(ran.code < 100, "{sql}: {typed}: {ran:?}");
                let may = [0, 5, 6];
                assert!(may.contains(&ran.code), "{sql}: {typed}: {ran:?}");
            }
            let found = world.fleet("doctor");
            // A file has no timeline: any command that writes puts that right.
            assert!(found.code == 5 || column == "timeline", "{sql}: {found:?}");
            world.fleet("doctor --fix");
            let after = world.fleet("doctor");
            assert_eq!(after.code, 0, "{sql}: {after:?}");
            tried += 1;
        }
    }
    assert!(tried > 70, "{tried}");
}

#[test]
fn an_index_that_is_missing_is_found_and_made_anew() {
    let world = stage::world().local_only("it damages the store");
    world.sql("DROP INDEX event_by_subject; DROP VIEW missions");
    let found = world.fleet("doctor");
    assert_eq!(found.code, 5, "{found:?}");
    assert!(
        found
            .stdout
            .contains("the index `event_by_subject` is missing"),
        "{found:?}"
    );
    assert!(
        found.stdout.contains("the view `missions` is missing"),
        "{found:?}"
    );
    world.ok("doctor --fix");
    assert_eq!(world.fleet("doctor").code, 0);
    world.sql("CREATE TRIGGER spy AFTER INSERT ON event BEGIN SELECT 1; END");
    assert!(
        world
            .fleet("doctor")
            .stdout
            .contains("the trigger `spy` is not Flightline's")
    );
}

#[test]
fn a_database_that_lost_its_end_is_said_aloud() {
    let world = stage::world().local_only("it damages the store");
    world.sql("PRAGMA wal_checkpoint(TRUNCATE)");
    let old = fs::read(world.database()).unwrap();
    world.ok("sorties add Lost");
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", world.database().display()));
    }
    fs::write(world.database(), old).unwrap();
    let status = world.fleet("status");
    assert!(
        format!("{status:?}").contains("acknowledged, but is no longer in the database"),
        "{status:?}"
    );
    let doctor = world.fleet("doctor");
    assert_eq!(doctor.code, 5, "{doctor:?}");
    assert!(
        doctor.stdout.contains("no longer in the database"),
        "{doctor:?}"
    );
    world.ok("sorties add Next");
    let after = world.fleet("doctor");
    assert_eq!(after.code, 0, "{after:?}");
    assert!(
        after.stdout.contains("were acknowledged and lost"),
        "told from then on: {after:?}"
    );
}

#[test]
fn a_torn_file_is_damage_too() {
    let world = stage::world();
    world.sql("PRAGMA wal_checkpoint(TRUNCATE)");
    let mut bytes = fs::read(world.database()).unwrap();
    let (from, to) = (bytes.len() / 3, bytes.len() / 3 + 20_000);
    bytes[from..to].fill(0x5a);
    fs::write(world.database(), bytes).unwrap();
    let ran = world.fleet("doctor --json");
    assert!(matches!(ran.code, 5 | 6), "{ran:?}");
    ran.json();
}

#[test]
fn a_backup_brings_everything_back() {
    let world = World::with_sorties(&["Model", "Login"]);
    world.agent_ok("ada", "sorties claim --next");
    world.agent_ok("ada", "locks acquire src");
    let before = world.json("sorties list");
    let said = world.ok("backup saved.db").stdout;
    let size = fs::metadata(world.repo().join("saved.db"))
        .unwrap()
        .len()
        .div_ceil(1024);
    expect![[r#"
        Backed up revision 7 (7 events, 5 records, SIZE KiB) to saved.db, and verified it
    "#]]
    .assert_eq(&said.replace(&format!("{size} KiB"), "SIZE KiB"));
    let id = world.sortie("Model");
    world.agent_ok("ada", &format!("sorties complete {id}"));
    world.ok("sorties add Later");
    let after = world.json("sorties list");

    let restored = world.fleet("restore saved.db -y");
    restored.expect(expect![[r#"
        Restored revision 7 (7 events) from saved.db
        Earlier sessions, locks and cursors are void: agents must register again
        Undo it with: fleet restore REPO/.flightline/backups/before-restore-2026-01-04T12-00-11-000Z.db -y
    "#]]);
    assert_eq!(world.json("sorties list"), before);
    // Restoring grants nothing old.
    assert_eq!(world.json("locks list"), serde_json::json!([]));
    let old = world
        .line("note lesson X")
        .agent("ada")
        .env("FLEET_EPOCH", "1")
        .run();
    assert!(
        old.refused(4).starts_with("error: epoch 1 of ada is over"),
        "{old:?}"
    );
    assert_eq!(world.fleet("doctor").code, 0);

    // And the way back, as it was printed.
    let undo = restored.stdout.lines().last().unwrap();
    let undo = undo
        .strip_prefix("Undo it with: fleet ")
        .unwrap()
        .replace("REPO", &world.repo().display().to_string());
    let undone = world.command(&words(&undo)).run();
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!(world.json("sorties list"), after);
    assert_eq!(world.fleet("doctor").code, 0);
}

#[test]
fn a_restore_needs_a_yes_and_changes_nothing_without() {
    let world = stage::world();
    world.ok("sorties add Later");
    let before = world.rev();
    world.fleet("restore copy.db").expect(expect![[r#"
        [stderr]
        error: this would replace everything in this project's store with copy.db, and needs confirmation

        hint: nothing was changed; run `fleet restore copy.db -y`
        [exit 2]
    "#]]);
    let said = world.fleet("restore copy.db --no-input");
    assert_eq!(said.text(), world.fleet("restore copy.db").text());
    let json = world.fleet("restore copy.db --json");
    assert_eq!(
        (json.code, json.error_code().as_str()),
        (2, "confirmation_needed")
    );
    assert_eq!(
        json.json()["error"]["hint"],
        "nothing was changed; run `fleet restore copy.db -y`"
    );
    assert_eq!(world.rev(), before);
    assert!(!world.state().join("backups").exists());
    // A yes on stdin is not a yes on a terminal.
    let piped = world.line("restore copy.db").stdin("y\n").run();
    assert_eq!((piped.code, world.rev()), (2, before));
}

#[test]
fn a_file_name_with_spaces_is_quoted_in_the_command_to_paste() {
    let world = World::new();
    world.ok("backup \"my copy's.db\"");
    let ran = world.fleet("restore \"my copy's.db\"");
    assert!(
        ran.refused(2)
            .contains(r"run `fleet restore 'my copy'\''s.db' -y`"),
        "{ran:?}"
    );
}

#[test]
fn what_is_not_a_backup_is_not_restored() {
    let world = stage::world();
    let before = world.rev();
    world.fleet("restore missing.db -y").expect(expect![[r#"
        [stderr]
        error: there is no backup missing.db

        hint: make one with `fleet backup FILE`
        [exit 3]
    "#]]);
    world.write("text.db", "hello");
    world.write("empty.db", "");
    world.sql(&format!(
        "ATTACH '{}' AS other; CREATE TABLE other.event (mine TEXT)",
        world.repo().join("other.db").display()
    ));
    let mut torn = fs::read(world.repo().join("copy.db")).unwrap();
    torn.truncate(torn.len() / 2);
    fs::write(world.repo().join("torn.db"), torn).unwrap();
    for file in ["text.db", "empty.db", "other.db", "torn.db", "."] {
        let ran = world.fleet(&format!("restore {file} -y --json"));
        assert!(matches!(ran.code, 3 | 6), "{file}: {ran:?}");
        ran.error_code();
        assert_eq!(world.rev(), before, "{file}");
    }
    assert_eq!(world.fleet("doctor").code, 0);
}

#[test]
fn a_backup_does_not_write_over_anything() {
    let world = World::new();
    let file = world.write("taken.db", "mine");
    world.fleet("backup taken.db").refused(2);
    assert_eq!(fs::read_to_string(file).unwrap(), "mine");
    assert_ne!(world.fleet("backup missing/folder/x.db").code, 0);
    // It is private, and written where the command runs.
    let below = world.line("backup mine.db").in_folder("below").run();
    assert_eq!(below.code, 0, "{below:?}");
    assert_eq!(
        crate::cli::world::mode(&world.repo().join("below/mine.db")),
        0o600
    );
}
