//! What the schema consists of, and what of it is missing: a store goes on without an index, slowly and without a word.

use std::collections::{BTreeMap, BTreeSet};

use super::{MIGRATIONS, Postgres};
use crate::engine::Driver as _;
use crate::error::Error;

const FOUND: &str = "SELECT CAST(indexname AS TEXT) FROM pg_indexes WHERE schemaname = current_schema() \
     UNION ALL SELECT CAST(viewname AS TEXT) FROM pg_views WHERE schemaname = current_schema() \
     UNION ALL SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = current_schema()";
const TRIGGERS: &str = "SELECT CAST(t.tgname AS TEXT) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid \
     WHERE NOT t.tgisinternal AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) \
     AND c.relname IN ('project', 'event', 'subject', 'pulse', 'request', 'backup')";

/// What the migrations make and leave, by name: its kind, and the statement that makes it.
fn wanted() -> BTreeMap<&'static str, (&'static str, &'static str)> {
    let mut wanted = BTreeMap::new();
    for migration in MIGRATIONS {
        for statement in migration.split(';') {
            let statement = without_comments(statement);
            let words: Vec<&str> = statement.split_whitespace().take(4).collect();
            match words[..] {
                ["CREATE", "UNIQUE", "INDEX", name] => wanted.insert(name, ("index", statement)),
                ["CREATE", "INDEX", name, ..] => wanted.insert(name, ("index", statement)),
                ["CREATE", "VIEW", name, ..] => wanted.insert(name, ("view", statement)),
                ["CREATE", "TABLE", name, ..] => wanted.insert(name, ("table", statement)),
                ["DROP", "INDEX" | "VIEW", name, ..] => wanted.remove(name),
                _ => None,
            };
        }
    }
    wanted
}

/// The statement after the comments before it.
fn without_comments(statement: &str) -> &str {
    let mut rest = statement.trim();
    while rest.starts_with("--") {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest.trim());
    }
    rest
}

/// What is missing, in words; and what makes it, by name.
type Troubles = (Vec<String>, Vec<(&'static str, &'static str)>);

impl Postgres {
    pub(super) fn objects(&mut self) -> Result<Troubles, Error> {
        let mut found = BTreeSet::new();
        for row in self.query(FOUND, &[])? {
            found.insert(row.text(0)?);
        }
        let (mut troubles, mut missing) = (Vec::new(), Vec::new());
        for (name, (kind, sql)) in wanted() {
            if !found.contains(name) {
                troubles.push(format!("the {kind} `{name}` is missing"));
                if kind != "table" {
                    missing.push((name, sql));
                }
            }
        }
        for row in self.query(TRIGGERS, &[])? {
            troubles.push(format!(
                "the trigger `{}` is not Flightline's",
                row.text(0)?
            ));
        }
        Ok((troubles, missing))
    }
}
