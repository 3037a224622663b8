//! Damage done behind the store's back is found, and each kind by its check.

use std::collections::BTreeMap;

use flightline_core::Subject;
use flightline_core::event::EventType;
use flightline_core::mission::Mission;
use flightline_store::verify::verify;
use flightline_store::{Location, StoreError};
use flightline_testkit::value::{lesson, mission};
use flightline_testkit::{World, both_engines};
use postgres::{Client, NoTls};
use serde_json::json;

const JOURNAL: &str = "journal";
const FOLD: &str = "state equals fold of events";
const SUMS: &str = "checksums";
const COLUMNS: &str = flightline_store::verify::COLUMNS;
const BESIDE: &str = "beside the journal";

/// Writes six revisions in three requests: two missions, one of them gone, and a lesson.
fn fill(world: &World) {
    let mut store = world.store();
    let (one, two) = (mission(1, "One"), mission(2, "Two"));
    store
        .write(|tx| tx.set(EventType::MissionCreated, &one, &json!({})))
        .unwrap();
    store
        .write(|tx| {
            tx.set(EventType::MissionCreated, &two, &json!({}))?;
            tx.set(
                EventType::NoteAdded,
                &lesson(3, &one, "Measure first"),
                &json!({}),
            )?;
            tx.note(EventType::MissionTransitioned, &one, &json!({}))
        })
        .unwrap();
    store
        .write(|tx| {
            tx.remove(EventType::MissionArchived, &two, &json!({}))?;
            tx.set(EventType::MissionUpdated, &mission(1, "Won"), &json!({}))
        })
        .unwrap();
}

/// Runs SQL behind the store's back; `{project}` stands for the world's.
fn run_raw(world: &World, sql: &str) {
    let sql = sql.replace("{project}", &format!("'{}'", world.project));
    match &world.location {
        Location::Folder(folder) => {
            let database = rusqlite::Connection::open(folder.join("flightline.db")).unwrap();
            assert_eq!(database.execute(&sql, []).unwrap(), 1, "{sql}");
        }
        Location::Postgres(url) => {
            let mut client = Client::connect(url, NoTls).unwrap();
            assert_eq!(client.execute(&sql, &[]).unwrap(), 1, "{sql}");
        }
    }
}

/// Which checks found something, and what.
fn findings(world: &World) -> BTreeMap<&'static str, Vec<String>> {
    verify(&mut world.store())
        .unwrap()
        .into_iter()
        .filter(|finding| !finding.problems.is_empty())
        .map(|finding| (finding.check, finding.problems))
        .collect()
}

fn expected<const N: usize>(
    findings: [(&'static str, &[&str]); N],
) -> BTreeMap<&'static str, Vec<String>> {
    findings
        .into_iter()
        .map(|(check, problems)| {
            (
                check,
                problems.iter().map(|said| String::from(*said)).collect(),
            )
        })
        .collect()
}

both_engines! {
    fn a_sound_store_passes_every_check(world: &World) {
        fill(world);
        let checks: Vec<&str> = verify(&mut world.store()).unwrap().iter().map(|finding| finding.check).collect();
        assert_eq!(checks, ["engine", "schema", JOURNAL, "last acknowledged revision", FOLD, SUMS, COLUMNS, BESIDE]);
        assert_eq!(findings(world), expected([]));
    }

    fn a_changed_document_is_found_and_not_given_out(world: &World) {
        fill(world);
        run_raw(world, "UPDATE subject SET doc = replace(doc, 'Won', 'Two') WHERE project = {project} AND kind = 'mission' AND gone IS NULL");
        let key = mission(1, "x").key();
        assert_eq!(findings(world), expected([(FOLD, &[&format!("mission {key} differs from what its events say")])]));
        let read = world.store().read(|tx| tx.get::<Mission>(&key));
        assert_eq!(read.unwrap(), Some(mission(1, "Won")), "what the journal says");
        run_raw(world, "UPDATE event SET after = replace(after, 'Won', 'Two') WHERE project = {project} AND rev = 6");
        let read = world.store().read(|tx| tx.get::<Mission>(&key));
        assert!(matches!(read, Err(StoreError::Corrupt(_))), "{read:?}");
    }

    fn a_changed_document_with_its_checksum_made_to_fit_is_found(world: &World) {
        fill(world);
        let forged = serde_json::to_string(&mission(1, "Forged")).unwrap();
        let sha = flightline_core::event::sha256_hex(&forged);
        run_raw(world, &format!("UPDATE subject SET doc = '{forged}', sha = '{sha}' WHERE project = {{project}} AND kind = 'mission' AND gone IS NULL"));
        assert_eq!(findings(world).into_keys().collect::<Vec<_>>(), [FOLD]);
    }

    fn a_changed_checksum_of_a_value_is_found(world: &World) {
        fill(world);
        run_raw(world, "UPDATE subject SET sha = 'abc' WHERE project = {project} AND kind = 'note'");
        assert_eq!(findings(world).into_keys().collect::<Vec<_>>(), [FOLD]);
    }

    fn a_changed_checksum_in_the_journal_is_found(world: &World) {
        fill(world);
        // The first value of a mission that has a newer one: only the journal still knows it.
        run_raw(world, "UPDATE event SET sha = 'abc' WHERE project = {project} AND rev = 1");
        assert_eq!(
            findings(world),
            expected([
                (SUMS, &["the value at revision 1 does not match its checksum"]),
                (JOURNAL, &["the event of revision 1 is damaged: its `sha`, which is known"]),
            ])
        );
        let past = world.store().read(|tx| tx.state_at(1, None));
        assert!(matches!(past, Err(StoreError::Corrupt(_))), "{past:?}");
    }

    fn a_changed_value_in_the_journal_is_found(world: &World) {
        fill(world);
        run_raw(world, "UPDATE event SET after = replace(after, 'Measure', 'Guess') WHERE project = {project} AND rev = 3");
        assert_eq!(findings(world).into_keys().collect::<Vec<_>>(), [SUMS, FOLD]);
    }

    fn a_value_missing_from_the_journal_is_found(world: &World) {
        fill(world);
        run_raw(world, "UPDATE event SET after = NULL, sha = NULL WHERE project = {project} AND rev = 3");
        assert_eq!(findings(world).into_keys().collect::<Vec<_>>(), [SUMS, JOURNAL]);
    }

    fn a_deleted_event_is_found(world: &World) {
        fill(world);
        run_raw(world, "DELETE FROM event WHERE project = {project} AND rev = 4");
        assert_eq!(findings(world), expected([(JOURNAL, &["no event before revision 5"])]));
    }

    fn the_first_event_deleted_is_found(world: &World) {
        fill(world);
        run_raw(world, "DELETE FROM event WHERE project = {project} AND rev = 1");
        assert_eq!(findings(world).remove(JOURNAL).unwrap(), ["no event before revision 2"]);
    }

    fn the_beginning_of_a_request_deleted_is_found(world: &World) {
        fill(world);
        run_raw(world, "DELETE FROM event WHERE project = {project} AND rev = 2");
        let journal = findings(world).remove(JOURNAL).unwrap();
        assert_eq!(
            journal,
            [
                "no event before revision 3",
                "revision 3 belongs to a request whose beginning is missing",
                "revision 4 belongs to a request whose beginning is missing",
            ]
        );
    }

    fn the_last_event_deleted_is_found(world: &World) {
        fill(world);
        run_raw(world, "DELETE FROM event WHERE project = {project} AND rev = 6");
        let key = mission(1, "x").key();
        assert_eq!(
            findings(world),
            expected([
                (JOURNAL, &["the counter is at 6, the last event at 5"]),
                (FOLD, &[&format!("mission {key} differs from what its events say")]),
            ])
        );
    }

    fn a_counter_that_is_off_is_found(world: &World) {
        fill(world);
        for (counter, said) in [
            (7, "the counter is at 7, the last event at 6"),
            (5, "the counter is at 5, the last event at 6"),
        ] {
            run_raw(world, &format!("UPDATE project SET rev = {counter} WHERE id = {{project}}"));
            assert_eq!(findings(world), expected([(JOURNAL, &[said]), (BESIDE, &["the project's row is damaged"])]));
        }
    }

    fn a_removed_value_is_found(world: &World) {
        fill(world);
        run_raw(world, "DELETE FROM subject WHERE project = {project} AND kind = 'note'");
        let key = lesson(3, &mission(1, "x"), "x").key();
        assert_eq!(findings(world), expected([(FOLD, &[&format!("note {key} has events and no value")])]));
    }

    fn a_value_that_no_event_made_is_found(world: &World) {
        fill(world);
        run_raw(
            world,
            "INSERT INTO subject (project, kind, id, status, born, rev, at, sha, doc) \
             VALUES ({project}, 'note', 'nte-x', 'lesson', 99, 99, 0, '', '')",
        );
        assert_eq!(findings(world), expected([(FOLD, &["note nte-x differs from what its events say"])]));
    }

    fn something_gone_that_was_brought_back_is_found(world: &World) {
        fill(world);
        run_raw(world, "UPDATE subject SET gone = NULL WHERE project = {project} AND gone IS NOT NULL");
        assert_eq!(findings(world).into_keys().collect::<Vec<_>>(), [FOLD]);
    }

    fn something_hidden_is_found(world: &World) {
        fill(world);
        run_raw(world, "UPDATE subject SET gone = 6 WHERE project = {project} AND kind = 'note'");
        assert_eq!(findings(world).into_keys().collect::<Vec<_>>(), [FOLD]);
    }

    fn a_value_moved_to_another_mission_or_birthday_is_found(world: &World) {
        for column in ["mission = 'msn-x'", "mission = NULL", "born = 1", "born = 5"] {
            let world = World::new(world.engine);
            fill(&world);
            run_raw(&world, &format!("UPDATE subject SET {column} WHERE project = {{project}} AND kind = 'note'"));
            let found = findings(&world);
            assert!(found.contains_key(FOLD), "{column}");
            assert_eq!(found.contains_key(COLUMNS), column.starts_with("mission"), "{column}");
        }
    }

    fn a_value_that_missed_its_last_event_is_found(world: &World) {
        fill(world);
        let old = serde_json::to_string(&mission(1, "One")).unwrap();
        let sha = flightline_core::event::sha256_hex(&old);
        run_raw(world, &format!("UPDATE subject SET doc = '{old}', sha = '{sha}', rev = 1 WHERE project = {{project}} AND kind = 'mission' AND gone IS NULL"));
        assert_eq!(findings(world).into_keys().collect::<Vec<_>>(), [FOLD]);
    }

    fn a_thinned_value_is_told_and_never_an_older_one_given(world: &World) {
        let mut store = world.store();
        for title in ["One", "Two", "Three"] {
            store.write(|tx| tx.set(EventType::MissionUpdated, &mission(1, title), &json!({}))).unwrap();
        }
        run_raw(world, "UPDATE event SET change = 'thinned', after = NULL, base = NULL WHERE project = {project} AND rev = 2");
        let state = |rev| world.store().read(|tx| tx.state_at(rev, None));
        assert!(matches!(state(2), Err(StoreError::Thinned { rev: 2, .. })), "{:?}", state(2));
        assert_eq!(state(1).unwrap().len(), 1);
        assert_eq!(state(3).unwrap().len(), 1);
        assert_eq!(findings(world), expected([]), "thinning is no damage");
    }
}
