//! The upgrade of a store of the first version that dies at any of its steps: the store is as it was or upgraded, the next
//! command completes it, everything in it is there, and what it was before is kept.

use std::fs;

use flightline::core::event::sha256_hex;
use flightline::store::Location;
use flightline_testkit::{Engine, Schema};
use serde_json::json;

use crate::crash::beside;
use crate::crash::journal::texts;
use crate::crash::world::World;

const MISSION: &str = "msn-00000000-0000-4000-8000-000000000001";

/// What a store of the first version holds: missions, as it wrote them.
fn rows(project: &str) -> String {
    let mut sql = format!(
        "INSERT INTO project (id, name, history, rev, created_at, seen_at, awake_since) \
         VALUES ('{project}', 'old', 'h', 9, 1767528000000, 1767528000000, 1767528000000);"
    );
    for rev in 1..=9 {
        let id = format!("{}{rev}", &MISSION[..MISSION.len() - 1]);
        let mission = flightline_testkit::value::mission(1, &format!("Old {rev}"));
        let mut mission = serde_json::to_value(mission).unwrap();
        mission["id"] = json!(id);
        let (status, doc) = (mission["status"].as_str().unwrap(), mission.to_string());
        assert!(!doc.contains('\''), "it stands in quotes");
        let sha = sha256_hex(&doc);
        sql += &format!(
            "INSERT INTO event (project, rev, step, at, kind, mission, subject_kind, subject, actor, data, change, after, sha) \
             VALUES ('{project}', {rev}, {rev}, 1767528000000, 'mission_created', '{id}', 'mission', '{id}', 'user:somebody', '{{}}', 'set', '{doc}', '{sha}');\
             INSERT INTO subject (project, kind, id, mission, name, status, born, rev, at, sha, doc) \
             VALUES ('{project}', 'mission', '{id}', '{id}', 'Old {rev}', '{status}', {rev}, {rev}, 1767528000000, '{sha}', '{doc}');"
        );
    }
    sql
}

/// Everything that was there is there, and work goes on.
fn is_whole(world: &World, when: &str) {
    let mut titles = texts(&world.ask(&["missions", "list"]), "/title");
    titles.sort();
    let old: Vec<String> = (1..=9).map(|number| format!("Old {number}")).collect();
    assert_eq!(titles, old, "{when}");
    world
        .run(&["note", "lesson", "it goes on", "--mission", MISSION])
        .works();
    world.is_well();
}

#[test]
fn an_upgrade_that_dies_at_any_step_is_completed_by_the_next_command_on_sqlite() {
    let mut deaths = 0;
    for step in 1.. {
        let world = World::bare(Engine::Sqlite);
        world.run(&["init"]).works();
        let (project, newest) = (world.project(), world.sqlite("PRAGMA user_version"));
        for name in [
            "flightline.db",
            "flightline.db-wal",
            "flightline.db-shm",
            "anchor",
        ] {
            let _ = fs::remove_file(world.state().join(name));
        }
        let first = include_str!("../../../../flightline-store/src/schema/sqlite/0001_journal.sql");
        world.sqlite(&format!(
            ";{first};{} PRAGMA application_id = {}; PRAGMA user_version = 1;",
            rows(&project),
            0x464C_544C
        ));
        world.trust();
        let died = world.run(&["missions", "list"]).dies_at(step).ends();
        let version = world.sqlite("PRAGMA user_version");
        assert!(
            version == "1" || version == newest,
            "step {step}: {version}"
        );
        is_whole(&world, &format!("step {step}"));
        assert_eq!(world.sqlite("PRAGMA user_version"), newest, "step {step}");
        // One that died after its copy leaves that, and the next one makes another.
        let kept = beside::entries(&world.state().join("backups"));
        assert!((1..=2).contains(&kept.len()), "step {step}: {kept:?}");
        for copy in kept {
            let mut look = world.sealed("sqlite3");
            let seen = look
                .arg(&copy)
                .arg("PRAGMA user_version; SELECT count(*) FROM event");
            let seen = String::from_utf8(seen.output().unwrap().stdout).unwrap();
            assert_eq!(seen, "1\n9\n", "step {step}: {}", copy.display());
        }
        if !died.died() {
            assert_eq!(died.code(), Some(0), "step {step}: {died}");
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 3, "{deaths} steps to die at");
}

#[test]
fn an_upgrade_that_dies_at_any_step_is_completed_by_the_next_command_on_postgres() {
    let mut deaths = 0;
    for step in 1.. {
        let schema = Schema::new();
        let Location::Postgres(url) = &schema.location else {
            unreachable!("it is on PostgreSQL")
        };
        let folder = tempfile::tempdir().unwrap();
        let world = World::at(&folder.path().join("repo"), Some(url.clone()));
        world.run(&["init"]).works();
        let project = world.project();
        let version = || -> i64 {
            let version = "SELECT max(version) FROM schema_version";
            schema.client().query_one(version, &[]).unwrap().get(0)
        };
        let newest = version();
        schema.run("DO $$ DECLARE name TEXT; BEGIN \
             FOR name IN SELECT viewname FROM pg_views WHERE schemaname = current_schema() LOOP EXECUTE 'DROP VIEW IF EXISTS ' || quote_ident(name) || ' CASCADE'; END LOOP; \
             FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP EXECUTE 'DROP TABLE ' || quote_ident(name) || ' CASCADE'; END LOOP; END $$");
        schema.run(include_str!(
            "../../../../flightline-store/src/schema/postgres/0001_journal.sql"
        ));
        schema.run(&rows(&project));
        schema.run("CREATE TABLE schema_version (version BIGINT NOT NULL); INSERT INTO schema_version VALUES (1)");
        let died = world.run(&["missions", "list"]).dies_at(step).ends();
        is_whole(&world, &format!("step {step}"));
        assert_eq!(version(), newest, "step {step}");
        if !died.died() {
            assert_eq!(died.code(), Some(0), "step {step}: {died}");
            break;
        }
        deaths += 1;
    }
    assert!(deaths > 0, "{deaths} steps to die at");
}
