//! Writes that nobody waits for. Each would be a journey to the server and back; here they wait until something has to
//! see them, and then travel together, many rows in one statement.

use crate::engine::{Anchor, written_table};
use crate::value::Value;

/// How many rows one statement takes at most.
const MOST: usize = 256;

/// What waits to be sent, in order.
#[derive(Default)]
pub(super) struct Outbox(Vec<Letter>);

enum Letter {
    Write(Write),
    Save(Anchor),
    Release(Anchor),
}

struct Write {
    sql: &'static str,
    params: Vec<Value>,
}

/// What travels at once.
pub(super) enum Parcel {
    /// A statement, and the parameters of each row that it writes.
    Rows {
        sql: &'static str,
        rows: Vec<Vec<Value>>,
    },
    /// Marks a place, or forgets one.
    Mark(&'static str),
}

impl Outbox {
    pub(super) fn write(&mut self, sql: &'static str, params: Vec<Value>) {
        self.0.push(Letter::Write(Write { sql, params }));
    }

    pub(super) fn save(&mut self, anchor: Anchor) {
        self.0.push(Letter::Save(anchor));
    }

    /// Forgets a place, and those within it, if nobody has heard of it; false when it was sent.
    pub(super) fn unsave(&mut self, anchor: Anchor) -> bool {
        let Some(at) = self.position(anchor) else {
            return false;
        };
        let mut index = 0;
        self.0.retain(|letter| {
            index += 1;
            index <= at || matches!(letter, Letter::Write(_))
        });
        true
    }

    /// Forgets a place that was sent, in its turn.
    pub(super) fn release(&mut self, anchor: Anchor) {
        self.0.push(Letter::Release(anchor));
    }

    /// Whether anything waits but places.
    pub(super) fn has_writes(&self) -> bool {
        let mut letters = self.0.iter();
        letters.any(|letter| matches!(letter, Letter::Write(_)))
    }

    /// Drops what came after a place; false when that place was sent already, or never was.
    pub(super) fn go_back(&mut self, anchor: Anchor) -> bool {
        let at = self.position(anchor);
        self.0.truncate(at.map_or(0, |at| at + 1));
        at.is_some()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn position(&self, anchor: Anchor) -> Option<usize> {
        let is_it = |letter: &Letter| matches!(letter, Letter::Save(it) if *it == anchor);
        self.0.iter().rposition(is_it)
    }

    /// Whether a query may ask for what waits here.
    pub(super) fn concerns(&self, query: &str) -> bool {
        self.0.iter().any(|letter| match letter {
            Letter::Write(write) => query.contains(written_table(write.sql)),
            Letter::Save(_) | Letter::Release(_) => false,
        })
    }

    /// Everything up to the next place, as few parcels; nothing when all was sent. What was taken out is the sender's to
    /// deliver: if that fails, the places that are still in here were never reached.
    pub(super) fn next(&mut self) -> Vec<Parcel> {
        let is_mark = |letter: &Letter| !matches!(letter, Letter::Write(_));
        let end = match self.0.iter().position(is_mark) {
            Some(0) => 1,
            Some(end) => end,
            None => self.0.len(),
        };
        let mut writes: Vec<Write> = Vec::with_capacity(end);
        for letter in self.0.drain(..end) {
            match letter {
                Letter::Write(write) => writes.push(write),
                Letter::Save(anchor) => return vec![Parcel::Mark(anchor.save())],
                Letter::Release(anchor) => return vec![Parcel::Mark(anchor.release())],
            }
        }
        // No table knows of another's rows: only within one does the order count.
        writes.sort_by_key(|write| written_table(write.sql));
        pack(writes)
    }
}

fn pack(writes: Vec<Write>) -> Vec<Parcel> {
    let mut parcels = Vec::new();
    let mut together: Vec<Write> = Vec::new();
    for write in writes {
        let fits = together.first().is_none_or(|first| {
            first.sql == write.sql && is_insert(write.sql) && together.len() < MOST
        });
        let keys = conflict(write.sql);
        let again = keys > 0
            && together
                .iter()
                .any(|other| other.params.get(..keys) == write.params.get(..keys));
        if !fits || again {
            seal(&mut together, &mut parcels);
        }
        together.push(write);
    }
    seal(&mut together, &mut parcels);
    parcels
}

fn seal(together: &mut Vec<Write>, parcels: &mut Vec<Parcel>) {
    if let Some(sql) = together.first().map(|write| write.sql) {
        parcels.push(Parcel::Rows {
            sql,
            rows: together.drain(..).map(|write| write.params).collect(),
        });
    }
}

fn is_insert(sql: &str) -> bool {
    sql.starts_with("INSERT INTO ")
}

/// How many parameters, from the first, say which row it is that may be there already: no statement takes one twice.
fn conflict(sql: &str) -> usize {
    let keys = sql
        .split_once(" ON CONFLICT (")
        .and_then(|(_, rest)| rest.split(')').next());
    keys.map_or(0, |keys| keys.split(',').count())
}

/// An insert for any number of rows, each parameter of which is an array: of these types, by their names. Nothing when it is none.
pub(super) fn for_rows(sql: &str, types: &[&str]) -> Option<String> {
    let (head, rest) = sql.split_once(" VALUES (")?;
    let (tuple, tail) = rest.split_once(')')?;
    let values: Vec<String> = tuple
        .split(',')
        .map(|word| match word.trim().strip_prefix('?') {
            Some(number) => format!("r.p{number}"),
            None => word.trim().to_owned(),
        })
        .collect();
    let numbered = (1..).zip(types);
    let arrays: Vec<String> = { numbered.clone() }
        .map(|(number, name)| format!("?{number}::{name}[]"))
        .collect();
    let names: Vec<String> = numbered.map(|(number, _)| format!("p{number}")).collect();
    Some(format!(
        "{head} SELECT {} FROM unnest({}) AS r ({}){tail}",
        values.join(", "),
        arrays.join(", "),
        names.join(", ")
    ))
}

/// The parameters of many rows, each as an array.
pub(super) fn columns(rows: Vec<Vec<Value>>) -> Vec<Vec<Value>> {
    let width = rows.first().map_or(0, Vec::len);
    let mut columns: Vec<Vec<Value>> = (0..width).map(|_| Vec::with_capacity(rows.len())).collect();
    for row in rows {
        for (column, value) in columns.iter_mut().zip(row) {
            column.push(value);
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::all_statements;

    const ONE: &str =
        "INSERT INTO one (a, b, c) VALUES (?1, ?2, ?2, NULL) ON CONFLICT (a) DO NOTHING";
    const TWO: &str = "INSERT INTO two (a) VALUES (?1)";

    fn sent(outbox: &mut Outbox) -> Vec<String> {
        let mut said = Vec::new();
        loop {
            let parcels = outbox.next();
            if parcels.is_empty() {
                return said;
            }
            said.extend(parcels.into_iter().map(|parcel| match parcel {
                Parcel::Rows { sql, rows } => format!("{} {}", written_table(sql), rows.len()),
                Parcel::Mark(sql) => sql.to_owned(),
            }));
        }
    }

    fn written(outbox: &mut Outbox, sql: &'static str, keys: std::ops::Range<i64>) {
        for key in keys {
            let params = [Value::Int(key), Value::Null];
            let width = if sql == ONE { 2 } else { 1 };
            outbox.write(sql, params[..width].to_vec());
        }
    }

    #[test]
    fn what_goes_to_one_table_goes_together() {
        let mut outbox = Outbox::default();
        for key in 0..7 {
            written(&mut outbox, ONE, key..key + 1);
            written(&mut outbox, TWO, key..key + 1);
        }
        assert_eq!(sent(&mut outbox), ["one 7", "two 7"]);
        assert_eq!(
            for_rows(ONE, &["int8", "text"]).unwrap(),
            "INSERT INTO one (a, b, c) SELECT r.p1, r.p2, r.p2, NULL FROM unnest(?1::int8[], ?2::text[]) AS r (p1, p2) \
             ON CONFLICT (a) DO NOTHING"
        );
        assert_eq!(for_rows("DELETE FROM one WHERE a = ?1", &["int8"]), None);
        let row = |key: i64| vec![Value::Int(key), Value::Null];
        let whole = columns(vec![row(1), row(2)]);
        assert_eq!(
            whole,
            [[Value::Int(1), Value::Int(2)], [Value::Null, Value::Null]]
        );
    }

    #[test]
    fn no_statement_takes_a_row_twice() {
        let mut outbox = Outbox::default();
        written(&mut outbox, ONE, 0..2);
        written(&mut outbox, ONE, 1..3);
        assert_eq!(sent(&mut outbox), ["one 2", "one 2"]);
    }

    #[test]
    fn a_place_that_nobody_heard_of_leaves_no_trace() {
        let mut outbox = Outbox::default();
        for key in 0..3 {
            if key > 0 {
                assert!(outbox.unsave(Anchor::Member));
            }
            outbox.save(Anchor::Member);
            outbox.save(Anchor::Attempt);
            written(&mut outbox, ONE, key..key + 1);
        }
        assert!(outbox.go_back(Anchor::Member));
        assert!(outbox.unsave(Anchor::Member));
        assert_eq!(sent(&mut outbox), ["one 2"]);
        // What is within it and released goes with what is around it.
        outbox.save(Anchor::Attempt);
        assert!(!outbox.has_writes());
        written(&mut outbox, TWO, 0..1);
        assert!(outbox.has_writes());
        assert!(outbox.unsave(Anchor::Attempt));
        written(&mut outbox, TWO, 1..2);
        assert_eq!(sent(&mut outbox), ["two 2"]);
    }

    #[test]
    fn a_place_that_was_sent_is_come_back_to_where_it_is() {
        let mut outbox = Outbox::default();
        written(&mut outbox, ONE, 0..1);
        outbox.save(Anchor::Member);
        written(&mut outbox, ONE, 1..2);
        assert_eq!(sent(&mut outbox), ["one 1", "SAVEPOINT member", "one 1"]);
        written(&mut outbox, ONE, 2..3);
        assert!(!outbox.go_back(Anchor::Member));
        assert_eq!(sent(&mut outbox), Vec::<String>::new());
        assert!(!outbox.unsave(Anchor::Member));
        outbox.release(Anchor::Member);
        outbox.save(Anchor::Member);
        assert_eq!(
            sent(&mut outbox),
            ["RELEASE SAVEPOINT member", "SAVEPOINT member"]
        );
    }

    #[test]
    fn only_a_query_of_the_same_table_has_to_wait() {
        let mut outbox = Outbox::default();
        written(&mut outbox, TWO, 0..1);
        assert!(outbox.concerns("SELECT a FROM two"));
        assert!(!outbox.concerns("SELECT a FROM one"));
        outbox.write("TRUNCATE something", Vec::new());
        assert!(outbox.concerns("SELECT a FROM one"));
    }

    #[test]
    fn every_statement_names_its_key_first() {
        let mut looked_at = 0;
        for sql in all_statements() {
            let Some((_, keys)) = sql.split_once(" ON CONFLICT (") else {
                continue;
            };
            let keys = keys.split(')').next().unwrap();
            let columns = sql.split_once('(').unwrap().1;
            assert!(columns.starts_with(keys), "{sql}");
            let (_, params) = sql.split_once(" VALUES (").unwrap();
            let first: Vec<String> = (1..=conflict(sql))
                .map(|number| format!("?{number}"))
                .collect();
            assert!(params.starts_with(&first.join(", ")), "{sql}");
            looked_at += 1;
        }
        assert!(looked_at >= 3, "{looked_at}");
    }
}
