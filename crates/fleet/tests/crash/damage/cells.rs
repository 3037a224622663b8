//! One byte changed in a column of any table: a list holds nothing that is not so, or its command says that something is
//! damaged; work that does not need the damaged thing goes on, and what it wrote is there after the repair.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{copy, sound};
use crate::world::World;

/// The tables, and a row of each.
const ROWS: [(&str, &str); 13] = [
    ("event", "rev = 5"),
    ("event", "rev = (SELECT max(rev) FROM event)"),
    (
        "subject",
        "id = (SELECT max(id) FROM subject WHERE kind = 'sortie')",
    ),
    (
        "subject",
        "id = (SELECT max(id) FROM subject WHERE kind = 'agent')",
    ),
    (
        "subject",
        "id = (SELECT max(id) FROM subject WHERE kind = 'lock')",
    ),
    (
        "subject",
        "id = (SELECT max(id) FROM subject WHERE kind = 'message')",
    ),
    (
        "subject",
        "id = (SELECT max(id) FROM subject WHERE kind = 'note')",
    ),
    (
        "subject",
        "id = (SELECT max(id) FROM subject WHERE kind = 'mission')",
    ),
    ("pulse", "agent = (SELECT max(agent) FROM pulse)"),
    ("request", "key = (SELECT max(key) FROM request)"),
    (
        "backup",
        "checkpoint = (SELECT max(checkpoint) FROM backup)",
    ),
    ("project", "1"),
    ("watch", "1"),
];

/// Columns by which rows are found. A row that is damaged there is not found, and its list does not miss it; the doctor does.
const FOUND_BY: [&str; 9] = [
    "project", "kind", "id", "mission", "parent", "agent", "name", "status", "rev",
];

/// Lists, and where their items have an id and what must be true of them.
const LISTS: [(&[&str], &str, &[&str]); 5] = [
    (
        &["sorties", "list"],
        "/id",
        &["/title", "/status", "/assigned_to"],
    ),
    (&["note", "list"], "/id", &["/text", "/kind"]),
    (&["locks", "list"], "/lock/id", &["/lock/file", "/holder"]),
    (
        &["agents", "list"],
        "/agent/id",
        &["/agent/name", "/agent/role"],
    ),
    (&["missions", "list"], "/id", &["/title", "/status"]),
];

type Items = BTreeMap<String, Vec<Value>>;

/// The items of a list by id, with what must be true of them.
fn items(list: &Value, id: &str, fields: &[&str]) -> Items {
    let items = list.as_array().unwrap().iter();
    let item = |item: &Value| {
        let fields = fields.iter().map(|field| item.pointer(field).cloned());
        let id = item.pointer(id)?.as_str()?.to_owned();
        Some((id, fields.map(Option::unwrap_or_default).collect()))
    };
    items.filter_map(item).collect()
}

#[test]
fn one_changed_byte_lets_no_command_say_what_is_not_so_and_others_go_on() {
    let search = sound().search.id.as_str();
    let ask = |words: &[&'static str]| [words, &["--mission", search]].concat();
    let truth: Vec<Items> = LISTS
        .iter()
        .map(|(words, id, fields)| items(&sound().world.ask(&ask(words)), id, fields))
        .collect();
    let (mut tried, mut went_on, mut refused) = (0, 0, 0);
    for (place, (table, row, column, kind)) in cells().into_iter().enumerate() {
        if place % stride() != 0 {
            continue;
        }
        let world = copy();
        let value = match kind.as_str() {
            "INTEGER" => format!("coalesce({column}, 0) + 65536"),
            _ => format!(
                "CASE coalesce({column}, '') WHEN '' THEN 'x' ELSE \
                 substr({column}, 1, length({column}) / 2) || char(unicode(substr({column}, length({column}) / 2 + 1, 1)) + 1) \
                 || substr({column}, length({column}) / 2 + 2) END"
            ),
        };
        let damage = format!("UPDATE {table} SET {column} = {value} WHERE {row}");
        let done = world.sqlite(&format!(
            "PRAGMA ignore_check_constraints = ON; {damage}; SELECT changes()"
        ));
        if done == "0" {
            continue;
        }
        tried += 1;
        for ((words, id, fields), truth) in LISTS.iter().zip(&truth) {
            let answer = world.run(&ask(words)).in_json().ends();
            let said = format!("{damage}: {words:?}: {answer}");
            assert!(!answer.err.contains("panicked"), "{said}");
            let told = answer.err.contains("warning: ");
            match answer.code() {
                Some(0) => {
                    let list = items(&serde_json::from_str(&answer.out).unwrap(), id, fields);
                    for (id, item) in &list {
                        let so = truth.get(id) == Some(item);
                        assert!(so || told, "{said}");
                    }
                    let found_by = FOUND_BY.contains(&column.as_str());
                    assert!(list.len() == truth.len() || found_by || told, "{said}");
                }
                code => assert_eq!(code, Some(6), "{said}"),
            }
        }
        let wrote = writes(&world, search, &damage);
        went_on += wrote.iter().filter(|wrote| **wrote).count();
        refused += wrote.iter().filter(|wrote| !**wrote).count();
        world.run(&["doctor", "--fix"]).ends();
        let notes = world.run(&ask(&["note", "list"])).json().to_string();
        assert_eq!(notes.contains("Later"), wrote[0], "{damage}");
        let sorties = world.run(&ask(&["sorties", "list"])).json().to_string();
        assert_eq!(sorties.contains("Another"), wrote[1], "{damage}");
    }
    assert!(tried * stride() > 100, "{tried}");
    assert!(
        went_on > refused * 4,
        "{went_on} went on, {refused} were refused"
    );
}

/// Work that has nothing to do with the damaged row: whether each was done, which it says.
fn writes(world: &World, mission: &str, damage: &str) -> Vec<bool> {
    let deeds: [&[&str]; 4] = [
        &["note", "lesson", "Later"],
        &["sorties", "add", "Another"],
        &["mail", "send", "--to", "ada", "--subject", "Later"],
        &["locks", "acquire", "free.rs", "--agent", "bob"],
    ];
    let done = deeds.iter().map(|words| {
        let words = [words, &["--mission", mission][..]].concat();
        let answer = world.run(&words).ends();
        let said = format!("{damage}: {words:?}: {answer}");
        assert!(!answer.err.contains("panicked"), "{said}");
        // A thing that cannot be found is another matter than one that is damaged.
        assert!(matches!(answer.code(), Some(0 | 3 | 4 | 6)), "{said}");
        answer.code() == Some(0)
    });
    done.collect()
}

/// Every column of every row: the table, the row, the column and its type.
fn cells() -> Vec<(&'static str, &'static str, String, String)> {
    let mut cells = Vec::new();
    for (table, row) in ROWS {
        let columns = sound().world.sqlite(&format!(
            "SELECT name || ' ' || type FROM pragma_table_info('{table}')"
        ));
        for column in columns.lines() {
            let (column, kind) = column.split_once(' ').unwrap();
            // A project that goes by another name is another project.
            if !matches!((table, column), (_, "project") | ("project", "id")) {
                cells.push((table, row, column.to_owned(), kind.to_owned()));
            }
        }
    }
    cells
}

/// Every so many-th cell is tried; all of them with `FLEET_HOSTILE=all`.
fn stride() -> usize {
    match crate::hostile::all_of_them() {
        true => 1,
        false => 5,
    }
}
