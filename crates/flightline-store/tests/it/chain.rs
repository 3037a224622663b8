//! Every column of every table is under a hash: whatever is changed is named, and the rest is read as before.

use std::collections::BTreeSet;

use flightline_core::checkpoint::Backup;
use flightline_core::event::EventType;
use flightline_core::subject::Subject;
use flightline_core::{AgentId, Kind};
use flightline_store::verify::{Wrong, examine, verify};
use flightline_store::{EventFilter, Find, Location, Loss, Mended, Store, StoreError};
use flightline_testkit::value::{lesson, mission};
use flightline_testkit::{Engine, World, both_engines, damage};
use postgres::{Client, NoTls};
use serde_json::json;

const AGENT: &str = "agt-00000000-0000-4000-8000-00000000000a";
const CHECKPOINT: &str = "chk-00000000-0000-4000-8000-00000000000a";

/// Columns that are numbers; all others are text.
const NUMBERS: [&str; 14] = [
    "base",
    "rev",
    "step",
    "at",
    "epoch",
    "born",
    "gone",
    "percent",
    "created_at",
    "seen_at",
    "awake_since",
    "timeline",
    "bytes",
    "version",
];

/// Seven revisions: two missions, one of them gone and thinned, a lesson, notes; and a row of each kind beside the journal.
fn fill(world: &World) -> Store {
    let mut store = world.store();
    let (one, two) = (mission(1, "One"), mission(2, "Two"));
    store
        .write(|tx| tx.set(EventType::MissionCreated, &one, &json!({ "why": "to see" })))
        .unwrap();
    store
        .write(|tx| {
            tx.set(EventType::MissionCreated, &two, &json!({}))?;
            tx.set(
                EventType::NoteAdded,
                &lesson(3, &one, "Measure first"),
                &json!({ "how": "by hand" }),
            )?;
            tx.note(
                EventType::MissionTransitioned,
                &one,
                &json!({ "where": "here" }),
            )
        })
        .unwrap();
    store
        .write(|tx| {
            tx.remove(EventType::MissionArchived, &two, &json!({}))?;
            tx.set(EventType::MissionUpdated, &mission(1, "Won"), &json!({}))
        })
        .unwrap();
    store
        .write(|tx| {
            tx.beat(
                AGENT.parse::<AgentId>().unwrap(),
                1,
                &json!({ "step": "x" }),
            )?;
            tx.remember("user:x", "key", "request", "outcome".to_owned())?;
            let backup = Backup::Written {
                at: tx.now(),
                bytes: 7,
                sha256: "ab".to_owned(),
                node: None,
            };
            tx.set_backup(CHECKPOINT.parse().unwrap(), &backup)?;
            tx.thin(&[2])?;
            tx.note(EventType::JournalThinned, &one, &json!({}))
        })
        .unwrap();
    store
}

/// Runs SQL behind the store's back, where the engine lets it. Whether it did.
fn try_raw(world: &World, sql: &str) -> bool {
    let sql = sql.replace("{project}", &format!("'{}'", world.project));
    match &world.location {
        Location::Folder(folder) => {
            let database = rusqlite::Connection::open(folder.join("flightline.db")).unwrap();
            // As a bad disk does it.
            database
                .execute_batch("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF")
                .unwrap();
            database.execute(&sql, []).is_ok_and(|changed| changed == 1)
        }
        Location::Postgres(url) => {
            let mut client = Client::connect(url, NoTls).unwrap();
            client.execute(&sql, &[]).is_ok_and(|changed| changed == 1)
        }
    }
}

fn changed(column: &str) -> String {
    if NUMBERS.contains(&column) {
        return format!("coalesce({column}, 40) + 1");
    }
    format!(
        "coalesce((CASE WHEN substr({column}, length({column}), 1) = 'x' THEN substr({column}, 1, length({column}) - 1) || 'y' \
         ELSE substr({column}, 1, length({column}) - 1) || 'x' END), 'x')"
    )
}

/// The rows to spoil: a table, and which row of it.
const ROWS: [(&str, &str); 11] = [
    ("event", "project = {project} AND rev = 1"),
    ("event", "project = {project} AND rev = 2"),
    ("event", "project = {project} AND rev = 3"),
    ("event", "project = {project} AND rev = 4"),
    ("event", "project = {project} AND rev = 7"),
    ("subject", "project = {project} AND kind = 'note'"),
    ("subject", "project = {project} AND gone IS NOT NULL"),
    ("pulse", "project = {project}"),
    ("request", "project = {project}"),
    ("backup", "project = {project}"),
    ("project", "id = {project}"),
];

both_engines! {
    fn a_sound_store_is_a_chain(world: &World) {
        fill(world);
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn one_change_in_any_column_of_any_row_is_named_and_hides_nothing_else(world: &World) {
        let columns: BTreeSet<(String, String)> = world.store().columns().unwrap().into_iter().collect();
        let (mut tried, mut refused) = (0, Vec::new());
        for (table, row) in ROWS {
            for (_, column) in columns.iter().filter(|(of, _)| of == table) {
                let world = World::new(world.engine);
                let mut store = fill(&world);
                let sql = format!("UPDATE {table} SET {column} = {} WHERE {row}", changed(column));
                world.forget();
                if !try_raw(&world, &sql) {
                    refused.push(format!("{table}.{column}"));
                    continue;
                }
                tried += 1;
                // A change that moves a whole project away has moved nothing of it.
                if (table, column.as_str()) == ("project", "id") {
                    continue;
                }
                let said = world.problems();
                // What only a replica may change is said when the next write finds it.
                let replica = world.engine == Engine::Postgres && column == "timeline";
                assert!(!said.is_empty() || replica, "{sql}");
                if table == "event" && column != "project" && column != "rev" {
                    let rev = row.rsplit(' ').next().unwrap();
                    assert!(said.iter().any(|said| said.contains(&format!("revision {rev}"))), "{sql}: {said:?}");
                }
                let events = store
                    .read(|tx| {
                        tx.rows(Kind::Mission, Find::All)?;
                        tx.find::<flightline_core::note::Note>(Find::All).map(drop).or_else(|error| match error {
                            StoreError::Corrupt(_) => Ok(()),
                            error => Err(error),
                        })?;
                        tx.newest_events(&EventFilter { limit: 100, ..EventFilter::default() })?;
                        tx.pulses()?;
                        tx.backups()?;
                        tx.events_after(0, &EventFilter { limit: 100, ..EventFilter::default() })
                    })
                    .unwrap_or_else(|error| panic!("{sql}: {error}"));
                let lost = store.take_losses();
                let expected = match (table, column.as_str()) {
                    ("event", "after" | "base") => 7,
                    ("event", _) => 6,
                    _ => 7,
                };
                assert_eq!(events.len(), expected, "{sql}");
                if table == "event" && expected == 6 && column != "project" && column != "rev" {
                    assert!(matches!(lost[..], [Loss::Event { .. }]), "{sql}: {lost:?}");
                }
                // And the store takes writes, none of which hides the damage; unless the damage stands in the very place
                // of the next event.
                let written = store.write(|tx| tx.note(EventType::MissionTransitioned, &mission(1, "One"), &json!({})));
                let in_the_way = (column.as_str(), row) == ("rev", "project = {project} AND rev = 7");
                match written {
                    Err(StoreError::Corrupt(_)) if in_the_way => {}
                    written => drop(written.unwrap_or_else(|error| panic!("{sql}: {error}"))),
                }
                assert!(!world.problems().is_empty() || column == "timeline", "{sql}");
            }
        }
        assert!(tried > 80, "{tried}, but for {refused:?}");
    }

    fn one_changed_byte_of_an_event_is_mended_by_its_seal(world: &World) {
        for column in ["step", "at", "kind", "mission", "subject_kind", "subject", "actor", "epoch", "data", "change", "sha", "prev", "seal"] {
            let world = World::new(world.engine);
            let mut store = fill(&world);
            let sql = format!("UPDATE event SET {column} = {} WHERE project = {{project}} AND rev = 3", changed(column));
            world.forget();
            if !try_raw(&world, &sql) {
                continue;
            }
            let troubles = examine(&mut store, &mut |_, _| {}).unwrap().troubles;
            let trouble = troubles.iter().find(|trouble| trouble.rev == 3).unwrap();
            assert_eq!(store.write(|tx| tx.mend_event(trouble)).unwrap(), Mended::Healed, "{column}");
            assert_eq!(world.problems(), [] as [&str; 0], "{column}");
        }
    }

    fn one_changed_byte_of_the_projects_row_is_put_back_by_its_sum(world: &World) {
        for (column, said) in [
            ("name", "its name was restored, and its checksum proves it"),
            ("history", "its history was restored, and its checksum proves it"),
            ("created_at", "its creation time was restored, and its checksum proves it"),
            ("rev", "its counter was taken from the journal, and its sum proves the rest"),
            ("seal", "its counter was taken from the journal, and its sum proves the rest"),
        ] {
            let world = World::new(world.engine);
            let mut store = fill(&world);
            let row = |store: &mut Store| store.read(|tx| Ok::<_, StoreError>((tx.project_name().to_owned(), tx.history().to_owned(), tx.project_created_at())));
            let before = row(&mut store).unwrap();
            world.forget();
            assert!(try_raw(&world, &format!("UPDATE project SET {column} = {} WHERE id = {{project}}", changed(column))));
            let stale = examine(&mut store, &mut |_, _| {}).unwrap().stale;
            let done = store.write(|tx| tx.mend_beside(&stale[0])).unwrap();
            assert!(done.ends_with(said), "{column}: {done}");
            assert_eq!(row(&mut store).unwrap(), before, "{column}");
            assert_eq!(world.problems(), [] as [&str; 0], "{column}");
        }
        let mut store = fill(world);
        world.forget();
        assert!(try_raw(world, "UPDATE project SET name = 'another' WHERE id = {project}"));
        let stale = examine(&mut store, &mut |_, _| {}).unwrap().stale;
        let done = store.write(|tx| tx.mend_beside(&stale[0])).unwrap();
        assert!(done.ends_with("nothing proves its name, its history and when it was made, which stay as they are"), "{done}");
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn what_cannot_be_mended_is_set_aside_and_told_from_then_on(world: &World) {
        let mut store = fill(world);
        world.forget();
        assert!(try_raw(world, "UPDATE event SET data = '{}' WHERE project = {project} AND rev = 3"));
        let troubles = examine(&mut store, &mut |_, _| {}).unwrap().troubles;
        assert_eq!(troubles.iter().map(|trouble| (trouble.rev, trouble.what.clone())).collect::<Vec<_>>(), [(3, Wrong::Changed)]);
        assert_eq!(store.write(|tx| tx.mend_event(&troubles[0])).unwrap(), Mended::Refused);
        store.write(|tx| tx.set_aside(&troubles[0])).unwrap();
        assert_eq!(world.problems(), [] as [&str; 0]);
        let known = verify(&mut store).unwrap().into_iter().flat_map(|finding| finding.known).collect::<Vec<_>>();
        assert_eq!(known, ["the event of revision 3 is damaged; set aside"]);
        assert!(try_raw(world, "UPDATE event SET data = '[]' WHERE project = {project} AND rev = 3"));
        assert_eq!(world.problems(), ["the event of revision 3 is damaged"], "other damage is no known damage");
    }

    fn an_event_that_was_taken_out_or_put_in_shows(world: &World) {
        fill(world);
        world.forget();
        assert!(try_raw(world, "DELETE FROM event WHERE project = {project} AND rev = 4"));
        assert_eq!(world.problems(), ["no event before revision 5"]);
        let other = World::new(world.engine);
        fill(&other);
        other.forget();
        let swap = "UPDATE event SET data = '{\"where\":\"there\"}' WHERE project = {project} AND rev = 4";
        assert!(try_raw(&other, swap));
        assert_eq!(other.problems(), ["the event of revision 4 is damaged"]);
    }

    fn a_lost_event_that_is_brought_back_fits_the_chain(world: &World) {
        let mut store = fill(world);
        world.forget();
        assert!(try_raw(world, "DELETE FROM event WHERE project = {project} AND rev = 3"));
        let note = lesson(3, &mission(1, "One"), "Measure first");
        let damage = flightline_store::Damage { kind: Kind::Note, id: note.key(), rev: 3, place: flightline_store::CopyLocation::Journal };
        assert_eq!(store.write(|tx| tx.mend(&damage)).unwrap(), Mended::Healed);
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn savepoints_and_dropped_members_leave_the_chain(world: &World) {
        let mut store = fill(world);
        let note = |number, text: &str| lesson(number, &mission(1, "One"), text);
        store
            .write(|tx| {
                let place = tx.savepoint()?;
                tx.set(EventType::NoteAdded, &note(4, "Not this"), &json!({}))?;
                tx.roll_back_to(place)?;
                tx.set(EventType::NoteAdded, &note(5, "But this"), &json!({}))
            })
            .unwrap();
        store.begin_group().unwrap();
        store.write(|tx| tx.set(EventType::NoteAdded, &note(6, "First"), &json!({}))).unwrap();
        let dropped = store.write(|tx| {
            tx.set(EventType::NoteAdded, &note(7, "Dropped"), &json!({}))?;
            Err::<(), _>(StoreError::Corrupt("no".to_owned()))
        });
        assert!(dropped.is_err());
        store.write(|tx| tx.set(EventType::NoteAdded, &note(8, "Last"), &json!({}))).unwrap();
        store.commit_group().unwrap();
        assert_eq!(world.problems(), [] as [&str; 0]);
    }

    fn thinning_a_restore_and_a_new_history_leave_the_chain(world: &World) {
        let mut store = fill(world);
        store.write(|tx| tx.thin(&[1])).unwrap();
        assert_eq!(world.problems(), [] as [&str; 0]);
        let file = world.folder().join("backup.db");
        store.back_up(&file).unwrap();
        store.write(|tx| tx.set(EventType::MissionCreated, &mission(9, "Nine"), &json!({}))).unwrap();
        store.restore_above(&file, 0, |tx, _| tx.set(EventType::StoreRestored, &mission(1, "One"), &json!({}))).unwrap();
        assert_eq!(world.problems(), [] as [&str; 0]);
        let elsewhere = World::new(Engine::Sqlite);
        elsewhere.store().restore_above(&file, 0, |tx, _| tx.set(EventType::StoreRestored, &mission(1, "One"), &json!({}))).unwrap();
        assert_eq!(elsewhere.problems(), [] as [&str; 0], "in another project, too");
        if world.engine == Engine::Postgres {
            damage::fail_over(world);
        }
        world.store().write(|tx| tx.note(EventType::MissionTransitioned, &mission(1, "One"), &json!({}))).unwrap();
        assert_eq!(world.problems(), [] as [&str; 0]);
    }
}
