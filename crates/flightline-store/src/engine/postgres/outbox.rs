//! The queue of writes whose result no caller needs. Each would be a round trip to the server; here they wait until a
//! question has to see them, and then travel together, many rows in one statement.

mod statement;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use self::statement::{AskedRows, conflict, inserted, is_insert, last_changes};
use crate::engine::{Anchor, written_table};
use crate::value::SqlValue;

const MOST: usize = 256;

/// The waiting writes and places, in order.
#[derive(Default)]
pub(super) struct Outbox(Vec<QueuedStatement>);

enum QueuedStatement {
    Write(Write),
    Save(Anchor),
    Release(Anchor),
}

struct Write {
    sql: &'static str,
    params: Vec<SqlValue>,
}

/// A batch that is sent at once.
pub(super) enum StatementBatch {
    /// A statement, and the parameters of each row that it writes.
    Rows {
        sql: &'static str,
        rows: Vec<Vec<SqlValue>>,
    },
    /// Marks a place, or forgets one.
    Mark(&'static str),
}

impl Outbox {
    pub(super) fn write(&mut self, sql: &'static str, params: Vec<SqlValue>) {
        self.0.push(QueuedStatement::Write(Write { sql, params }));
    }

    pub(super) fn save(&mut self, anchor: Anchor) {
        self.0.push(QueuedStatement::Save(anchor));
    }

    /// Forgets a savepoint, and those within it, if it was not sent yet; false when it was sent.
    pub(super) fn unsave(&mut self, anchor: Anchor) -> bool {
        let Some(at) = self.position(anchor) else {
            return false;
        };
        let mut index = 0;
        self.0.retain(|letter| {
            index += 1;
            index <= at || matches!(letter, QueuedStatement::Write(_))
        });
        true
    }

    /// Forgets a place that was sent, in its turn.
    pub(super) fn release(&mut self, anchor: Anchor) {
        self.0.push(QueuedStatement::Release(anchor));
    }

    /// Returns true when writes wait, and not only places.
    pub(super) fn has_writes(&self) -> bool {
        let mut letters = self.0.iter();
        letters.any(|letter| matches!(letter, QueuedStatement::Write(_)))
    }

    /// Drops the writes after a place; false when that place was sent already, or never was.
    pub(super) fn go_back(&mut self, anchor: Anchor) -> bool {
        let at = self.position(anchor);
        self.0.truncate(at.map_or(0, |at| at + 1));
        at.is_some()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn position(&self, anchor: Anchor) -> Option<usize> {
        let is_it =
            |letter: &QueuedStatement| matches!(letter, QueuedStatement::Save(it) if *it == anchor);
        self.0.iter().rposition(is_it)
    }

    /// Returns true when a query may ask for a waiting write: for a row of the same table that may be among the rows it
    /// asks for.
    pub(super) fn concerns(&self, query: &str, params: &[SqlValue]) -> bool {
        let mut asked = None;
        self.0.iter().any(|letter| match letter {
            QueuedStatement::Write(write) => {
                let table = written_table(write.sql);
                query.contains(table)
                    && match asked.get_or_insert_with(|| AskedRows::by(query)) {
                        Some(asked) => table == asked.table && !write.is_apart(asked, params),
                        None => true,
                    }
            }
            QueuedStatement::Save(_) | QueuedStatement::Release(_) => false,
        })
    }

    /// Takes all waiting writes, with every row in them once, one parcel for each statement. Returns none when they cannot
    /// be written so: then all of them go on waiting.
    pub(super) fn whole(&mut self) -> Option<Vec<StatementBatch>> {
        let fits = self
            .0
            .iter()
            .all(|letter| !matches!(letter, QueuedStatement::Release(_)));
        if !fits || !self.has_rows_of_their_own() {
            return None;
        }
        let writes = self.0.drain(..).filter_map(|letter| match letter {
            QueuedStatement::Write(write) => Some(write),
            // A savepoint that was never sent is never returned to.
            QueuedStatement::Save(_) | QueuedStatement::Release(_) => None,
        });
        Some(gather(writes.collect()))
    }

    /// Returns true when no row is written by two statements, nor twice by one statement that cannot be reduced to the
    /// last value.
    fn has_rows_of_their_own(&self) -> bool {
        let mut rows: HashMap<(&str, &[SqlValue]), &str> = HashMap::new();
        self.0.iter().all(|letter| match letter {
            QueuedStatement::Write(write) => match write.key() {
                [] => true,
                key => match rows.insert((written_table(write.sql), key), write.sql) {
                    None => true,
                    Some(before) => before == write.sql && last_changes(write.sql).is_some(),
                },
            },
            QueuedStatement::Save(_) | QueuedStatement::Release(_) => true,
        })
    }

    /// Takes everything up to the next place, as few parcels; none when all was sent. A parcel taken out is the sender's
    /// to deliver: if that fails, the places that are still in here were never reached.
    pub(super) fn next(&mut self) -> Vec<StatementBatch> {
        let is_mark = |letter: &QueuedStatement| !matches!(letter, QueuedStatement::Write(_));
        let end = match self.0.iter().position(is_mark) {
            Some(0) => 1,
            Some(end) => end,
            None => self.0.len(),
        };
        let mut writes: Vec<Write> = Vec::with_capacity(end);
        for letter in self.0.drain(..end) {
            match letter {
                QueuedStatement::Write(write) => writes.push(write),
                QueuedStatement::Save(anchor) => return vec![StatementBatch::Mark(anchor.save())],
                QueuedStatement::Release(anchor) => {
                    return vec![StatementBatch::Mark(anchor.release())];
                }
            }
        }
        // No table knows of another's rows: only within one does the order count.
        writes.sort_by_key(|write| written_table(write.sql));
        pack(writes)
    }
}

fn pack(writes: Vec<Write>) -> Vec<StatementBatch> {
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

fn seal(together: &mut Vec<Write>, parcels: &mut Vec<StatementBatch>) {
    if let Some(sql) = together.first().map(|write| write.sql) {
        parcels.push(StatementBatch::Rows {
            sql,
            rows: together.drain(..).map(|write| write.params).collect(),
        });
    }
}

/// Gathers the rows of each statement. A row that is written again has its last value.
fn gather(writes: Vec<Write>) -> Vec<StatementBatch> {
    let mut parcels: Vec<(&'static str, Vec<Vec<SqlValue>>)> = Vec::new();
    let mut places: HashMap<(usize, Vec<SqlValue>), usize> = HashMap::new();
    for write in writes {
        let at = match parcels.iter().position(|(sql, _)| *sql == write.sql) {
            Some(at) => at,
            None => {
                parcels.push((write.sql, Vec::new()));
                parcels.len() - 1
            }
        };
        let rows = &mut parcels[at].1;
        let key = write.key().to_vec();
        let again = match key.is_empty() {
            true => None,
            false => match places.entry((at, key)) {
                Entry::Occupied(place) => Some(*place.get()),
                Entry::Vacant(place) => {
                    place.insert(rows.len());
                    None
                }
            },
        };
        match again.and_then(|row| rows.get_mut(row)) {
            Some(row) => *row = merged(write.sql, row, write.params),
            None => rows.push(write.params),
        }
    }
    // Statements that delete rows come first: they make room for new rows of the same name.
    parcels.sort_by_key(|(sql, _)| is_insert(sql));
    let parcels = parcels.into_iter();
    parcels
        .map(|(sql, rows)| StatementBatch::Rows { sql, rows })
        .collect()
}

impl Write {
    /// The parameters that identify the row; none for an insert that is always a new row.
    fn key(&self) -> &[SqlValue] {
        let width = match self.sql.split_once(" WHERE ") {
            Some((_, named)) if !is_insert(self.sql) => named.split(" AND ").count(),
            _ => conflict(self.sql),
        };
        self.params.get(..width).unwrap_or_default()
    }

    /// The values of columns that identify the row, or that a new row begins with. Other columns of the row may have had
    /// other values before.
    fn fixed(&self) -> Vec<(&str, &SqlValue)> {
        let value = |number: &str| {
            let number: usize = number.strip_prefix('?')?.parse().ok()?;
            self.params.get(number.checked_sub(1)?)
        };
        if !is_insert(self.sql) {
            let named = self.sql.split_once(" WHERE ").map(|(_, named)| named);
            let named = named.into_iter().flat_map(|named| named.split(" AND "));
            return named
                .filter_map(|named| {
                    let (column, number) = named.split_once(" = ")?;
                    Some((column, value(number)?))
                })
                .collect();
        }
        let most = match conflict(self.sql) {
            0 => usize::MAX,
            keys => keys,
        };
        let columns = inserted(self.sql).into_iter().take(most);
        columns
            .filter_map(|(column, number)| Some((column, value(number)?)))
            .collect()
    }

    /// Returns true when its row cannot be among those that are asked for with these parameters.
    fn is_apart(&self, asked: &AskedRows<'_>, params: &[SqlValue]) -> bool {
        let asked_for = |column: &str| {
            let (_, number) = asked.equal.iter().find(|(asked, _)| *asked == column)?;
            params.get(number.checked_sub(1)?)
        };
        let mut fixed = self.fixed().into_iter();
        fixed.any(|(column, value)| asked_for(column).is_some_and(|asked| asked != value))
    }
}

/// Merges two inserts of one row into one that leaves the row as both would: columns that the second does not change are
/// the first's.
fn merged(sql: &str, first: &[SqlValue], mut second: Vec<SqlValue>) -> Vec<SqlValue> {
    let changed = last_changes(sql).unwrap_or_default();
    for (column, number) in inserted(sql) {
        let number: Option<usize> = number.strip_prefix('?').and_then(|it| it.parse().ok());
        let at = number.and_then(|number| number.checked_sub(1));
        if let Some(at) = at
            && !changed.contains(&column)
            && let (Some(first), Some(second)) = (first.get(at), second.get_mut(at))
        {
            first.clone_into(second);
        }
    }
    second
}

/// Makes an insert for any number of rows, each parameter of which is an array of these types. Returns none when `sql` is
/// no insert.
pub(super) fn for_rows(sql: &str, types: &[&str]) -> Option<String> {
    let (head, rest) = sql.split_once(" VALUES (")?;
    let (tuple, tail) = rest.split_once(')')?;
    let (values, rows) = (of_rows(tuple), rows(types, 0));
    Some(format!("{head} SELECT {values} FROM {rows}{tail}"))
}

/// Makes the rows of arrays, the first of which is the parameter after `first`, with a column for each.
pub(super) fn rows(types: &[&str], first: usize) -> String {
    let numbered = (1..).zip(types);
    let arrays: Vec<String> = { numbered.clone() }
        .map(|(number, name)| format!("?{}::{name}[]", first + number))
        .collect();
    let names: Vec<String> = numbered.map(|(number, _)| format!("p{number}")).collect();
    format!("unnest({}) AS r ({})", arrays.join(", "), names.join(", "))
}

/// Rewrites a statement's parameters as the columns of such rows.
pub(super) fn of_rows(sql: &str) -> String {
    sql.replace('?', "r.p")
}

/// Turns the parameters of many rows into one array for each column.
pub(super) fn columns(rows: Vec<Vec<SqlValue>>) -> Vec<Vec<SqlValue>> {
    let width = rows.first().map_or(0, Vec::len);
    let mut columns: Vec<Vec<SqlValue>> =
        (0..width).map(|_| Vec::with_capacity(rows.len())).collect();
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
                StatementBatch::Rows { sql, rows } => {
                    format!("{} {}", written_table(sql), rows.len())
                }
                StatementBatch::Mark(sql) => sql.to_owned(),
            }));
        }
    }

    fn written(outbox: &mut Outbox, sql: &'static str, keys: std::ops::Range<i64>) {
        for key in keys {
            let params = [SqlValue::Int(key), SqlValue::Null];
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
        let row = |key: i64| vec![SqlValue::Int(key), SqlValue::Null];
        let whole = columns(vec![row(1), row(2)]);
        assert_eq!(
            whole,
            [
                [SqlValue::Int(1), SqlValue::Int(2)],
                [SqlValue::Null, SqlValue::Null]
            ]
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
        // Writes within a released savepoint go with those around it.
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
        assert!(outbox.concerns("SELECT a FROM two", &[]));
        assert!(!outbox.concerns("SELECT a FROM one", &[]));
        outbox.write("TRUNCATE something", Vec::new());
        assert!(outbox.concerns("SELECT a FROM one", &[]));
    }

    #[test]
    fn a_query_by_key_or_for_another_part_need_not_wait() {
        let mut outbox = Outbox::default();
        let insert = "INSERT INTO event (project, rev, mission) VALUES (?1, ?2, ?3)";
        outbox.write(insert, vec!["p".into(), SqlValue::Int(7), "m1".into()]);
        let of_mission = "SELECT rev FROM event WHERE project = ?1 AND (CAST(?4 AS TEXT) IS NULL OR kind = ?4) \
                          AND mission = ?2 AND rev <= ?3 ORDER BY rev DESC";
        let asks = |mission: &str| ["p".into(), mission.into(), SqlValue::Int(9), SqlValue::Null];
        assert!(outbox.concerns(of_mission, &asks("m1")));
        assert!(!outbox.concerns(of_mission, &asks("m2")));
        let either = "SELECT rev FROM event WHERE project = ?1 OR mission = ?2 AND rev <= ?3";
        assert!(outbox.concerns(either, &asks("m2")));
        let within =
            "SELECT a FROM one WHERE project = ?1 AND mission = ?2 AND b = (SELECT rev FROM event)";
        assert!(outbox.concerns(within, &asks("m2")));
        // The earlier state of a row that may be there already is not known here.
        let upsert = "INSERT INTO subject (project, id, mission) VALUES (?1, ?2, ?3) ON CONFLICT (project, id) DO UPDATE SET mission = excluded.mission";
        outbox.write(upsert, vec!["p".into(), "a".into(), "m1".into()]);
        let by_id = "SELECT born FROM subject WHERE project = ?1 AND id = ?2";
        assert!(outbox.concerns(by_id, &["p".into(), "a".into()]));
        assert!(!outbox.concerns(by_id, &["p".into(), "b".into()]));
        let by_mission = "SELECT born FROM subject WHERE project = ?1 AND mission = ?2";
        assert!(outbox.concerns(by_mission, &["p".into(), "m2".into()]));
        let with_text = "SELECT coalesce(doc, (SELECT e.after FROM event e WHERE e.project = subject.project AND e.rev = subject.rev)), sha \
                         FROM subject WHERE project = ?1 AND id = ?2";
        assert!(outbox.concerns(with_text, &["p".into(), "a".into()]));
        assert!(!outbox.concerns(with_text, &["p".into(), "b".into()]));
        let removal = "UPDATE subject SET gone = ?3 WHERE project = ?1 AND id = ?2";
        outbox.write(removal, vec!["p".into(), "c".into(), SqlValue::Int(8)]);
        assert!(outbox.concerns(by_id, &["p".into(), "c".into()]));
        assert!(!outbox.concerns(by_id, &["p".into(), "b".into()]));
    }

    #[test]
    fn a_whole_has_every_row_once() {
        const UPSERT: &str = "INSERT INTO one (a, b, c) VALUES (?1, ?2, ?3) ON CONFLICT (a) DO UPDATE SET b = excluded.b";
        const MORE: &str =
            "INSERT INTO two (a, b) VALUES (?1, ?2) ON CONFLICT (a) DO UPDATE SET b = two.b + 1";
        const REMOVE: &str = "DELETE FROM one WHERE a = ?1";
        let numbers = |row: &[i64]| row.iter().map(|it| SqlValue::Int(*it)).collect::<Vec<_>>();
        let mut outbox = Outbox::default();
        outbox.write(UPSERT, numbers(&[1, 2, 3]));
        outbox.save(Anchor::Member);
        outbox.write(UPSERT, numbers(&[4, 5, 6]));
        outbox.write(UPSERT, numbers(&[1, 7, 8]));
        outbox.write(REMOVE, numbers(&[9]));
        let whole = outbox.whole().unwrap().into_iter();
        let whole: Vec<_> = whole
            .map(|parcel| match parcel {
                StatementBatch::Rows { sql, rows } => (sql, rows),
                StatementBatch::Mark(sql) => (sql, Vec::new()),
            })
            .collect();
        assert_eq!(
            whole,
            [
                (REMOVE, vec![numbers(&[9])]),
                (UPSERT, vec![numbers(&[1, 7, 3]), numbers(&[4, 5, 6])])
            ]
        );
        for (one, other) in [
            ((UPSERT, [1, 2, 3]), (REMOVE, [1, 0, 0])),
            ((MORE, [1, 2, 0]), (MORE, [1, 2, 0])),
            ((REMOVE, [1, 0, 0]), (REMOVE, [1, 0, 0])),
        ] {
            for (sql, params) in [one, other] {
                outbox.write(sql, numbers(&params));
            }
            assert!(outbox.whole().is_none(), "{one:?} {other:?}");
            assert!(outbox.has_writes());
            outbox.clear();
        }
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
