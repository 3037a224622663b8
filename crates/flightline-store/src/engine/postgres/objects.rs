//! Finds the missing objects of the schema: a store goes on without an index, slowly and without a word.

use std::collections::BTreeSet;

use super::Postgres;
use super::opening::MIGRATIONS;
use crate::engine::Driver as _;
use crate::error::StoreError;

const FOUND: &str = "SELECT CAST(indexname AS TEXT) FROM pg_indexes WHERE schemaname = current_schema() \
     UNION ALL SELECT CAST(viewname AS TEXT) FROM pg_views WHERE schemaname = current_schema() \
     UNION ALL SELECT CAST(tablename AS TEXT) FROM pg_tables WHERE schemaname = current_schema()";
const TRIGGERS: &str = "SELECT CAST(t.tgname AS TEXT) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid \
     WHERE NOT t.tgisinternal AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) \
     AND c.relname IN ('project', 'event', 'subject', 'pulse', 'request', 'backup')";

/// An object that the migrations make and leave.
struct Wanted {
    kind: &'static str,
    name: &'static str,
    sql: &'static str,
}

/// Lists all such objects, in the order in which they are made: a view may read another.
fn wanted() -> Vec<Wanted> {
    let mut wanted: Vec<Wanted> = Vec::new();
    for migration in MIGRATIONS {
        for statement in migration.split(';') {
            let sql = without_comments(statement);
            let words: Vec<&'static str> = sql.split_whitespace().take(5).collect();
            let (kind, name) = match words[..] {
                ["CREATE", "UNIQUE", "INDEX", name, ..] => ("index", name),
                ["CREATE", "INDEX", name, ..] => ("index", name),
                ["CREATE", "VIEW", name, ..] => ("view", name),
                ["CREATE", "TABLE", name, ..] => ("table", name),
                ["DROP", "INDEX" | "VIEW", "IF", "EXISTS", name]
                | ["DROP", "INDEX" | "VIEW", name, ..] => {
                    wanted.retain(|it| it.name != name);
                    continue;
                }
                _ => continue,
            };
            wanted.push(Wanted { kind, name, sql });
        }
    }
    wanted
}

/// Returns the statement after the comments before it.
fn without_comments(statement: &str) -> &str {
    let mut rest = statement.trim();
    while rest.starts_with("--") {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest.trim());
    }
    rest
}

/// The missing objects, in words; and the statements that make them, by name.
type Troubles = (Vec<String>, Vec<(&'static str, &'static str)>);

impl Postgres {
    pub(super) fn objects(&mut self) -> Result<Troubles, StoreError> {
        let mut found = BTreeSet::new();
        for row in self.query(FOUND, &[])? {
            found.insert(row.text(0)?);
        }
        let (mut troubles, mut missing) = (Vec::new(), Vec::new());
        for Wanted { kind, name, sql } in wanted() {
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
