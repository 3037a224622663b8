//! One character or one number changed in every column of every table, one at a time: the doctor names it, and every
//! command answers truly or refuses.

use super::{Case, Damage, Doctor, Reach, copy, survive};
use crate::crash::world::World;

/// The tables of the store, but for those that the engine keeps for itself.
fn tables(world: &World) -> Vec<String> {
    let names = world.sqlite(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
    );
    names.lines().map(str::to_owned).collect()
}

/// The columns of a table, each with whether it holds numbers.
fn columns(world: &World, table: &str) -> Vec<(String, bool)> {
    let sql = format!("SELECT name || ' ' || type FROM pragma_table_info('{table}')");
    let columns = world.sqlite(&sql);
    let parts = columns.lines().filter_map(|line| line.split_once(' '));
    parts
        .map(|(name, kind)| (name.to_owned(), kind.contains("INT")))
        .collect()
}

/// The columns of a table's primary key.
fn keys(world: &World, table: &str) -> Vec<String> {
    let sql = format!("SELECT name FROM pragma_table_info('{table}') WHERE pk > 0 ORDER BY pk");
    world.sqlite(&sql).lines().map(str::to_owned).collect()
}

/// A value with its last character or its number changed.
fn changed(column: &str, is_number: bool) -> String {
    match is_number {
        true => format!("{column} + 1000000"),
        false => format!(
            "substr({column}, 1, length({column}) - 1) || char(unicode(substr({column}, -1)) + 1)"
        ),
    }
}

#[test]
fn one_byte_in_any_column_of_any_table_is_named_and_nothing_untrue_is_said() {
    let world = copy();
    let mut cases: Vec<Case> = Vec::new();
    for table in tables(&world) {
        let keys = keys(&world, &table);
        for (column, is_number) in columns(&world, &table) {
            for order in ["ASC", "DESC"] {
                let by = keys.join(&format!(" {order}, "));
                let keys = keys.join(", ");
                let row = format!(
                    "({keys}) = (SELECT {keys} FROM {table} WHERE {column} <> '' ORDER BY {by} {order} LIMIT 1)"
                );
                if world.sqlite(&format!("SELECT count(*) FROM {table} WHERE {row}")) == "0" {
                    continue;
                }
                let set = changed(&column, is_number);
                let sql = format!("UPDATE {table} SET {column} = {set} WHERE {row}");
                let damage = Damage {
                    name: sql.clone(),
                    reach: match (table.as_str(), column.as_str()) {
                        ("subject", "project" | "kind" | "id" | "mission" | "born") => Reach::Key,
                        _ => Reach::Fleet,
                    },
                    doctor: Doctor::Finds,
                };
                cases.push((
                    damage,
                    Box::new(move |world| {
                        world.sqlite(&format!("PRAGMA ignore_check_constraints = 1; {sql}"));
                    }),
                ));
            }
        }
    }
    assert!(cases.len() > 60, "{}", cases.len());
    survive(cases);
}
