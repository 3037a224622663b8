//! What somebody did last on a mission is found at once, however much Flightline noted since.

use flightline_core::event::{Change, Event, EventType};
use flightline_core::{Kind, Time};
use flightline_store::{Actor, Location, StoreError, statements};
use flightline_testkit::value::{lesson, mission};
use flightline_testkit::{World, both_engines, outside};
use rusqlite::StatementStatus;
use serde_json::json;

/// So many events come after the last work.
const LATER: usize = 3_000;

fn ada() -> Actor {
    Actor {
        name: "ada".to_owned(),
        epoch: Some(1),
    }
}

/// A lesson of ada's, and what Flightline noted after it.
fn long_idle(world: &World) {
    let of = mission(1, "One");
    let mut store = world.store();
    store
        .write(|tx| {
            tx.act_as(ada());
            tx.set(EventType::MissionCreated, &of, &json!({}))?;
            tx.set(
                EventType::NoteAdded,
                &lesson(1, &of, "Measure first"),
                &json!({}),
            )?;
            tx.act_as(Actor::flightline());
            for _ in 0..LATER {
                tx.note(EventType::ContextCompacted, &of, &json!({}))?;
            }
            Ok::<_, StoreError>(())
        })
        .unwrap();
}

/// The statements that look for work.
fn about_work() -> Vec<&'static str> {
    let all = statements().into_iter();
    let found: Vec<&str> = all
        .filter(|sql| sql.contains("actor <> 'flightline'"))
        .collect();
    assert!(found.len() >= 2, "{found:?}");
    found
}

/// How much of the journal a statement goes through, at least roughly: SQLite counts the steps of its machine, PostgreSQL the rows
/// of each part of its plan. The largest part counts, because a plan with a bitmap counts the same rows in two of them.
fn effort(world: &World, sql: &str) -> u64 {
    match &world.location {
        Location::Folder(folder) => {
            let database = rusqlite::Connection::open(folder.join("flightline.db")).unwrap();
            let mut statement = database.prepare(sql).unwrap();
            let mut rows = statement.query([]).unwrap();
            while rows.next().unwrap().is_some() {}
            drop(rows);
            let steps = statement.get_status(StatementStatus::VmStep);
            // A row that does not fit takes about ten.
            u64::from(steps.unsigned_abs() / 10)
        }
        Location::Postgres(_) => {
            let explain = format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {sql}");
            let lines = outside::query(world, &explain)
                .into_iter()
                .flatten()
                .flatten();
            let number = |line: &str, after: &str| -> Option<u64> {
                let rest = line.split_once(after)?.1;
                let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
                digits.parse().ok()
            };
            let mut looked_at = 0;
            for line in lines {
                let removed = number(&line, "Rows Removed by Filter: ");
                let rows = number(&line, "actual rows=");
                looked_at = looked_at.max(removed.or(rows).unwrap_or(0));
            }
            looked_at
        }
    }
}

both_engines! {
    fn the_last_work_is_found_past_any_number_of_other_events(world: &World) {
        long_idle(world);
        let of = mission(1, "One");
        // One that remembers nothing yet, and one that does.
        let mut store = world.store();
        for _ in 0..2 {
            let (mut shown, mut seen) = (0, Vec::new());
            let found = store
                .write(|tx| {
                    (shown, seen) = (0, Vec::new());
                    tx.newest_work(of.id, |event| {
                        shown += 1;
                        seen.push(event.rev);
                        true
                    })
                })
                .unwrap();
            let found: (Option<u64>, bool) = (found.event.map(|event| event.rev), found.past_others);
            assert_eq!(found, (Some(2), true));
            assert!(shown < 30, "{shown} events were looked at: {seen:?}");
        }
        assert_eq!(store.read(|tx| tx.last_work_rev(of.id)).unwrap(), Some(2));
    }

    fn what_was_taken_away_is_found_past_any_number_of_other_events(world: &World) {
        let of = mission(1, "One");
        let mut store = world.store();
        let lost = lesson(2, &of, "Guess");
        store.write(|tx| {
            tx.set(EventType::NoteAdded, &lost, &json!({}))?;
            tx.remove(EventType::NoteWithdrawn, &lost, &json!({}))
        }).unwrap();
        long_idle(world);
        let found = store.read(|tx| tx.removals(Kind::Note, 10)).unwrap();
        let found: Vec<(u64, &str)> = found.iter().map(|event| (event.rev, event.kind.as_str())).collect();
        assert_eq!(found, [(2, "note_withdrawn")]);
        assert!(store.read(|tx| tx.removals(Kind::Lock, 10)).unwrap().is_empty());
        let removals = statements().into_iter().filter(|sql| sql.contains("e.rev = s.gone"));
        for sql in removals {
            let sql = sql.replace("?1", &format!("'{}'", world.project)).replace("?2", "'note'");
            let sql = sql.replace("?3", "1000000").replace("?4", "5");
            let effort = effort(world, &sql);
            assert!(effort < 100, "{effort} rows for {sql}");
        }
    }

    fn no_statement_goes_through_what_came_after_the_work(world: &World) {
        long_idle(world);
        let (project, of) = (format!("'{}'", world.project), format!("'{}'", mission(1, "One").id));
        let rev = world.store().read(|tx| Ok::<_, StoreError>(tx.rev())).unwrap();
        let lately = format!("e.rev > {}", rev - 64);
        for sql in about_work() {
            let sql = sql.replace("e.rev > ?2", &lately).replace("?1", &project).replace("?2", &of).replace("?3", "1000000").replace("?4", "5");
            let effort = effort(world, &sql);
            assert!(effort < 100, "{effort} rows for {sql}");
        }
    }
}

/// The statements, which name the index's condition literally, say in SQL what [`Event::is_work`] says.
#[test]
fn sql_and_rust_agree_on_what_is_work() {
    let by = |actor: &str, subject_kind: Kind| Event {
        rev: 1,
        step: 1,
        kind: "told".to_owned(),
        timestamp: Time::from_millis(0),
        mission_id: None,
        subject_kind,
        subject: String::new(),
        actor: actor.to_owned(),
        epoch: None,
        change: Change::None,
        data: json!({}),
    };
    let all = Kind::ALL.into_iter();
    let left_out: Vec<String> = all
        .filter(|kind| !by("ada", *kind).is_work())
        .map(|kind| format!("'{}'", kind.as_str()))
        .collect();
    for sql in about_work() {
        let (_, rest) = sql.split_once("subject_kind NOT IN (").unwrap();
        let (listed, _) = rest.split_once(')').unwrap();
        let mut listed: Vec<&str> = listed.split(", ").collect();
        listed.sort_unstable();
        let mut expected: Vec<&str> = left_out.iter().map(String::as_str).collect();
        expected.sort_unstable();
        assert_eq!(listed, expected, "{sql}");
    }
    let flightline = Actor::flightline().name;
    assert!(
        Kind::ALL
            .into_iter()
            .all(|kind| !by(&flightline, kind).is_work())
    );
    assert_eq!(flightline, "flightline");
}
