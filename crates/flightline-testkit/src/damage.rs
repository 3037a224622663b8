//! Damage done behind the store's back, as a bad disk or a careless hand does it.

use std::sync::atomic::Ordering;

use flightline::core::Kind;
use flightline::store::Location;
use postgres::{Client, NoTls};

use crate::World;

/// Damages the last value of a subject: its text no longer matches its checksum. The subject's events stay as they were,
/// except for a kind that is kept in the journal alone.
pub fn live(world: &World, kind: Kind, id: &str) {
    if kind.is_kept_once() {
        return journal(world, kind, id, 0);
    }
    let sql = format!(
        "UPDATE subject SET doc = doc || ' ' WHERE project = '{}' AND kind = '{kind}' AND id = '{id}'",
        world.project
    );
    assert!(run(world, &sql) > 0, "there is no {kind} {id}");
}

/// Damages the events of a subject after revision `after`, and so every checkpoint that needs one of those values which is
/// not the last.
pub fn journal(world: &World, kind: Kind, id: &str, after: u64) {
    let sql = format!(
        "UPDATE event SET after = after || ' ' WHERE project = '{}' AND subject_kind = '{kind}' \
         AND subject = '{id}' AND change = 'set' AND rev > {after}",
        world.project
    );
    assert!(
        run(world, &sql) > 0,
        "the journal does not know {kind} {id}"
    );
}

/// Damages both copies that the store has of a subject's values after revision `after`.
pub fn everywhere(world: &World, kind: Kind, id: &str, after: u64) {
    journal(world, kind, id, after);
    if !kind.is_kept_once() {
        live(world, kind, id);
    }
}

/// Damages every value in the store, in both places.
pub fn everything(world: &World) {
    for spoil in [
        "UPDATE subject SET doc = doc || ' ' WHERE project = {project}",
        "UPDATE event SET after = after || ' ' WHERE project = {project}",
    ] {
        assert!(raw(world, spoil) > 0, "there is nothing to damage");
    }
}

/// Runs SQL behind the store's back; `{project}` stands for the world's. Returns how many rows it changed.
pub fn raw(world: &World, sql: &str) -> u64 {
    run(
        world,
        &sql.replace("{project}", &format!("'{}'", world.project)),
    )
}

fn run(world: &World, sql: &str) -> u64 {
    world.remember.store(false, Ordering::Relaxed);
    match &world.location {
        Location::Folder(folder) => {
            let database = rusqlite::Connection::open(folder.join("flightline.db"));
            let rows = database.and_then(|database| database.execute(sql, []));
            rows.expect("the database takes it") as u64
        }
        Location::Postgres(url) => {
            let mut client = Client::connect(url, NoTls).expect("the server answers");
            client.execute(sql, &[]).expect("the server takes it")
        }
    }
}

/// Makes a PostgreSQL store look as if a replica had taken the place of the database since the last write. Does nothing to
/// a file.
pub fn fail_over(world: &World) {
    let another =
        "UPDATE project SET timeline = coalesce(timeline, 0) + 1000000 WHERE id = {project}";
    assert_eq!(raw(world, another), 1);
}
