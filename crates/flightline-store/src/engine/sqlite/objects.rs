//! Finds the missing and differing objects of the schema: a store goes on without an index, slowly and without an error.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::opening::{CHAIN, CHAIN_END, MIGRATIONS};
use super::{Sqlite, classify};
use crate::error::StoreError;

const OBJECTS: &str =
    "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' AND sql IS NOT NULL";

/// The statements that made the objects, by kind and name.
type Objects = BTreeMap<(String, String), String>;

fn wanted() -> Result<Objects, rusqlite::Error> {
    let fresh = Connection::open_in_memory()?;
    for (number, migration) in (1..).zip(MIGRATIONS) {
        fresh.execute_batch(migration)?;
        if number == CHAIN {
            fresh.execute_batch(CHAIN_END)?;
        }
    }
    found(&fresh)
}

fn found(connection: &Connection) -> Result<Objects, rusqlite::Error> {
    let mut statement = connection.prepare(OBJECTS)?;
    let rows = statement.query_map([], |row| Ok(((row.get(0)?, row.get(1)?), row.get(2)?)))?;
    rows.collect()
}

impl Sqlite {
    /// The missing and differing objects, in words; and the statements that make the missing ones.
    pub(super) fn objects(&self) -> Result<(Vec<String>, Vec<String>), StoreError> {
        let said = |error: rusqlite::Error| classify("cannot read the schema", &error);
        let (wanted, mut found) = (
            wanted().map_err(said)?,
            found(&self.connection).map_err(said)?,
        );
        let (mut troubles, mut missing) = (Vec::new(), Vec::new());
        for ((kind, name), sql) in wanted {
            match found.remove(&(kind.clone(), name.clone())) {
                Some(there) if there == sql => {}
                Some(_) => troubles.push(format!("the {kind} `{name}` is not as it should be")),
                None => {
                    troubles.push(format!("the {kind} `{name}` is missing"));
                    if kind != "table" {
                        missing.push(sql);
                    }
                }
            }
        }
        // A foreign index or view does nothing by itself.
        for (kind, name) in found.into_keys().filter(|(kind, _)| kind == "trigger") {
            troubles.push(format!("the {kind} `{name}` is not Flightline's"));
        }
        Ok((troubles, missing))
    }
}
