//! One SQL text and one schema for both engines.

use std::collections::BTreeSet;

use flightline_store::statements;
use flightline_testkit::{Engine, World, both_engines};
use postgres::{Client, NoTls};

both_engines! {
    fn every_statement_prepares(world: &World) {
        let mut store = world.store();
        assert!(statements().len() > 50, "the list of statements is there");
        for sql in statements() {
            store.prepare(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
        }
    }

    fn a_statement_that_is_none_does_not_prepare(world: &World) {
        for sql in ["SELECT nothing FROM nowhere", "SELECT rev FROM event WHERE rev = ?1 ORDER"] {
            assert!(world.store().prepare(sql).is_err(), "{sql}");
        }
    }

    fn the_missions_view_has_the_columns_that_others_read(world: &World) {
        let columns = world.store().columns().unwrap();
        let missions: Vec<&str> = columns
            .iter()
            .filter(|(table, _)| table == "missions")
            .map(|(_, column)| column.as_str())
            .collect();
        assert_eq!(
            missions,
            ["completed_at", "created_at", "id", "metadata_json", "project", "status", "title", "updated_at"]
        );
    }
}

#[test]
fn the_schemas_of_both_engines_have_the_same_tables_and_columns() {
    let columns = |engine| World::new(engine).store().columns().unwrap();
    let sqlite = columns(Engine::Sqlite);
    assert_eq!(sqlite, columns(Engine::Postgres));
    for table in [
        "project", "event", "subject", "pulse", "request", "missions",
    ] {
        assert!(sqlite.iter().any(|(name, _)| name == table), "{table}");
    }
}

#[test]
fn the_schemas_of_both_engines_have_the_same_indexes() {
    let world = World::new(Engine::Sqlite);
    let database = rusqlite::Connection::open(world.folder().join(".flightline/flightline.db"));
    let sqlite: BTreeSet<String> = database
        .unwrap()
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let postgres: BTreeSet<String> = server()
        .query(
            "SELECT CAST(indexname AS TEXT) FROM pg_indexes WHERE schemaname = current_schema() AND indexname NOT LIKE '%_pkey'",
            &[],
        )
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert!(sqlite.contains("event_by_subject"));
    assert_eq!(sqlite, postgres);
}

#[test]
fn postgres_compares_every_text_by_its_bytes() {
    let rows = server()
        .query(
            "SELECT CAST(c.table_name AS TEXT), CAST(c.column_name AS TEXT), CAST(c.collation_name AS TEXT) \
             FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name) \
             WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' AND data_type = 'text'",
            &[],
        )
        .unwrap();
    assert!(rows.len() > 20, "the columns are there");
    for row in rows {
        let (table, column, collation): (String, String, Option<String>) =
            (row.get(0), row.get(1), row.get(2));
        assert_eq!(collation.as_deref(), Some("C"), "{table}.{column}");
    }
}

fn server() -> Client {
    // A world first: the schema may not be there yet.
    let world = World::new(Engine::Postgres);
    drop(world);
    Client::connect(&flightline_testkit::postgres_url(), NoTls).unwrap()
}

/// The steps in which SQLite carries a statement out.
fn plan(database: &rusqlite::Connection, sql: &str) -> Vec<String> {
    let mut explain = database
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .unwrap();
    let nothing = vec![rusqlite::types::Null; explain.parameter_count()];
    let steps = explain
        .query_map(rusqlite::params_from_iter(nothing), |row| row.get(3))
        .unwrap();
    steps.collect::<Result<_, _>>().unwrap()
}

/// Only what counts all rows of a table looks at all of them one after the other, without an index.
#[test]
fn no_statement_looks_through_a_whole_table() {
    let world = World::new(Engine::Sqlite);
    let database =
        rusqlite::Connection::open(world.folder().join(".flightline/flightline.db")).unwrap();
    let looks_through = |sql: &str| {
        let plan = plan(&database, sql);
        let is_made_here = |name: &str| {
            let made = [format!("CO-ROUTINE {name}"), format!("MATERIALIZE {name}")];
            plan.iter().any(|step| made.contains(step))
        };
        // A filter that tells which rows need not be looked for is made of all rows of a table.
        let is_filtered = plan.iter().any(|step| step.starts_with("BLOOM FILTER"));
        let is_scanned = plan.iter().any(|step| {
            step.strip_prefix("SCAN ").is_some_and(|name| {
                !name.contains(" USING ") && !name.contains("CONSTANT ROW") && !is_made_here(name)
            })
        });
        is_filtered || is_scanned
    };
    let found: Vec<&str> = statements()
        .into_iter()
        .filter(|sql| looks_through(sql))
        .collect();
    assert_eq!(
        found,
        [
            "SELECT state, CAST(count(*) AS BIGINT) FROM backup WHERE project = ?1 GROUP BY state ORDER BY state"
        ]
    );
}

/// However large the journal is: what is about one subject or one mission is found by its index.
#[test]
fn no_statement_about_one_thing_looks_through_a_whole_project() {
    let world = World::new(Engine::Sqlite);
    let database =
        rusqlite::Connection::open(world.folder().join(".flightline/flightline.db")).unwrap();
    let cases = [
        (
            "FROM event WHERE project = ?1 AND subject_kind = ?2 AND subject = ?3",
            "event_by_subject",
        ),
        ("FROM event WHERE project = ?1 AND mission = ?", "event_"),
        ("AND actor <> 'flightline'", "event_of_work"),
        (
            "FROM ( SELECT kind, id, rev, gone FROM subject",
            "subject_gone",
        ),
    ];
    for (about, index) in cases {
        let statements: Vec<&str> = statements()
            .into_iter()
            .filter(|sql| sql.contains(about))
            .collect();
        assert!(!statements.is_empty(), "{about}");
        for sql in statements {
            let plan = plan(&database, sql);
            assert!(
                plan.iter().any(|step| step.contains(index)),
                "{sql}\n{plan:?}"
            );
        }
    }
}
