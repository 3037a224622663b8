//! Makes a write in one round trip. It is decided on the remembered state of the project without holding its row, and then
//! made by one statement, which is its transaction as well: everything in it hangs on the project's row, which must be the
//! very one that was known.

use std::time::{Duration, Instant};

use flightline_core::Time;
use postgres::Statement;
use postgres::types::{ToSql, Type};

use super::outbox::{StatementBatch, columns, of_rows, rows};
use super::{Postgres, Timeline, WireFault, classify, from_engine, numbered};
use crate::engine::{Driver, OptimisticCommit, OptimisticRow, written_table};
use crate::error::StoreError;
use crate::value::{Row, SqlValue, params, values};

/// The time for which the remembered state of a project is used without asking for the time and for the writes of others.
const FRESH: Duration = Duration::from_secs(1);
/// The most rows that are written in one round trip.
const MOST: usize = 4_096;
/// The most kinds of such statements that are prepared.
const KINDS: usize = 256;

// The number of the transaction that wrote the row stands for all that is in it: every writer of a project writes its row.
const PEEK: &str = "SELECT name, history, rev, created_at, seen_at, awake_since, timeline, seal, sum, \
     CAST(CAST(xmin AS TEXT) AS BIGINT), CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT) FROM project WHERE id = $1";
const HOLD: &str = "SELECT CAST(CAST(xmin AS TEXT) AS BIGINT), history, rev, sum FROM project WHERE id = $1 FOR NO KEY UPDATE";
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";

/// The condition on the update of the project's row: only the row that is known is changed.
const IF_KNOWN: &str = " AND history = ?9 AND rev = ?10 AND sum = ?11 AND CAST(CAST(xmin AS TEXT) AS BIGINT) = ?12 \
     RETURNING name, history, rev, created_at, seen_at, awake_since, timeline, seal, sum, CAST(CAST(xmin AS TEXT) AS BIGINT)";
/// The number of parameters before those of the rows.
const PARAMS: usize = 12;
/// The columns of the row, as the rest of the statement knows them.
const ROW: &str = "(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10)";
/// The outcome: the row, the time, and how many events were added.
const OUTCOME: &str = "SELECT a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, \
     CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT), ";

/// A project's row, as it was found or left.
#[derive(Clone)]
pub(super) struct CachedProjectRow {
    project: String,
    row: Row,
    /// The transaction that wrote it.
    version: i64,
    stamp: i64,
    seen: Instant,
}

impl CachedProjectRow {
    /// Reads a row with its version and the time behind it. The time was true when it was sent, so it is never ahead of
    /// the server's.
    fn new(project: &str, mut row: Row) -> Result<Self, StoreError> {
        let (version, stamp) = (row.int(9)?, row.int(10)?);
        row.0.truncate(9);
        Ok(Self {
            project: project.to_owned(),
            row,
            version,
            stamp,
            seen: Instant::now(),
        })
    }

    fn footing(&self) -> OptimisticRow {
        let passed = i64::try_from(self.seen.elapsed().as_millis()).unwrap_or(0);
        OptimisticRow {
            row: self.row.clone(),
            now: Time::from_millis(self.stamp.saturating_add(passed)),
        }
    }
}

impl Postgres {
    pub(super) fn look_ahead(
        &mut self,
        project: &str,
    ) -> Result<Option<OptimisticRow>, StoreError> {
        // The first write, which holds the project, shows which database this is.
        if self.timeline == Timeline::Unread {
            return Ok(None);
        }
        let known = self.standing.take();
        let known = known.filter(|it| it.project == project && it.seen.elapsed() < FRESH);
        let standing = match known {
            Some(known) => known,
            None => {
                let found = self.asked(PEEK, vec![SqlValue::from(project)])?;
                let Some(row) = found.first() else {
                    return Ok(None);
                };
                CachedProjectRow::new(project, from_engine(row)?)?
            }
        };
        self.failed = false;
        self.overtaken = false;
        self.outbox.clear();
        let footing = standing.footing();
        self.ahead = Some(standing);
        Ok(Some(footing))
    }

    fn asked(
        &mut self,
        sql: &'static str,
        params: Vec<SqlValue>,
    ) -> Result<Vec<postgres::Row>, StoreError> {
        let statement = self.statement(sql)?;
        let rows = self
            .wire
            .ask(move |client| client.query(&statement, &super::borrowed(&params)));
        rows.map_err(|fault| self.fail("cannot read the store", &fault))
    }

    /// Holds the project from now on, if its row is as it was when the write began.
    pub(super) fn hold_ahead(&mut self) -> Result<(), StoreError> {
        let Some(standing) = self.ahead.take() else {
            return Ok(());
        };
        self.run(BEGIN)?;
        let found = self.asked(HOLD, vec![SqlValue::from(standing.project.as_str())])?;
        let found = found.first().map(from_engine).transpose()?;
        let row = &standing.row;
        let known = params![standing.version, row.text(1)?, row.int(2)?, row.text(8)?];
        if found.is_some_and(|found| found.0 == known) {
            return Ok(());
        }
        // Nothing of this transaction can be gone on with.
        self.failed = true;
        self.overtaken = true;
        Err(overtaken())
    }

    pub(super) fn land_ahead(
        &mut self,
        advance: &'static str,
        params: Vec<SqlValue>,
        events: u64,
    ) -> Result<OptimisticCommit, StoreError> {
        let Some(standing) = self.ahead.as_ref() else {
            return Ok(OptimisticCommit::Held);
        };
        let row = &standing.row;
        let mut params = params;
        params.extend(values![
            row.text(1)?,
            row.int(2)?,
            row.text(8)?,
            standing.version
        ]);
        let project = standing.project.clone();
        let parcels = match self.is_in_one() {
            true => self.outbox.whole(),
            false => None,
        };
        let Some(parcels) = parcels else {
            return match self.hold_ahead() {
                Ok(()) => Ok(OptimisticCommit::Held),
                Err(_) if self.overtaken => {
                    self.rollback();
                    Ok(OptimisticCommit::Overtaken)
                }
                Err(error) => Err(error),
            };
        };
        let (kinds, arrays): (Vec<_>, Vec<_>) = parcels
            .into_iter()
            .filter_map(|parcel| match parcel {
                StatementBatch::Rows { sql, rows } => Some((sql, columns(rows))),
                StatementBatch::Mark(_) => None,
            })
            .unzip();
        let statement = self.statement_of_all(advance, kinds)?;
        self.ahead = None;
        self.steps.step();
        let made = self.wire.ask(move |client| {
            let one = params.iter().map(|it| it as &(dyn ToSql + Sync));
            let many = arrays.iter().flatten().map(|it| it as &(dyn ToSql + Sync));
            let all: Vec<&(dyn ToSql + Sync)> = one.chain(many).collect();
            client.query(&statement, &all)
        });
        let made = made.map_err(|fault| in_doubt(&fault))?;
        self.steps.step();
        let Some(row) = made.first() else {
            self.overtaken = true;
            return Ok(OptimisticCommit::Overtaken);
        };
        let row = from_engine(row)?;
        // The statement itself counts the events that it added. It was committed before it was answered.
        if row.unsigned(11)? != events {
            let problem = "the written data cannot be read back";
            return Err(StoreError::Corrupt(problem.to_owned()));
        }
        self.standing = Some(CachedProjectRow::new(&project, row)?);
        Ok(OptimisticCommit::Made)
    }

    fn is_in_one(&self) -> bool {
        self.outbox.len() <= MOST && self.landings.len() < KINDS
    }

    /// Prepares the statement that writes the project's row and, if it was the known one, rows by each of these
    /// statements.
    fn statement_of_all(
        &mut self,
        advance: &'static str,
        kinds: Vec<&'static str>,
    ) -> Result<Statement, StoreError> {
        if let Some(statement) = self.landings.get(&kinds) {
            return Ok(statement.clone());
        }
        let mut parts = vec![format!("WITH ahead {ROW} AS ({advance}{IF_KNOWN})")];
        let (mut first, mut count, mut cleared) = (PARAMS, "CAST(0 AS BIGINT)".to_owned(), None);
        for (number, sql) in kinds.iter().enumerate() {
            let one = self.statement(sql)?;
            let types: Vec<&str> = one.params().iter().map(Type::name).collect();
            let after = cleared.filter(|(table, _)| *table == written_table(sql));
            let part = for_known(sql, &rows(&types, first), after.map(|(_, number)| number));
            let part = part.ok_or_else(|| StoreError::Engine {
                act: "cannot prepare a statement",
                cause: "it has another form".to_owned(),
            })?;
            parts.push(format!("w{number} AS ({part} RETURNING 1)"));
            first += types.len();
            match written_table(sql) {
                "event" => count = format!("(SELECT CAST(count(*) AS BIGINT) FROM w{number})"),
                table if !sql.starts_with("INSERT ") => cleared = Some((table, number)),
                _ => {}
            }
        }
        let parts = parts.join(", ");
        let text = numbered(&format!("{parts} {OUTCOME}{count} FROM ahead"));
        let prepared = self.wire.ask(move |client| client.prepare(&text));
        let statement =
            prepared.map_err(|fault| self.fail("cannot prepare a statement", &fault))?;
        self.landings.insert(kinds, statement.clone());
        Ok(statement)
    }
}

/// Rewrites a statement so that it writes such rows if the project's row was the known one; after another statement has
/// made room.
fn for_known(sql: &str, rows: &str, after: Option<usize>) -> Option<String> {
    let room = after.map_or_else(String::new, |number| {
        format!(" WHERE (SELECT count(*) FROM w{number}) >= 0")
    });
    if let Some((head, rest)) = sql.split_once(" VALUES (") {
        let (tuple, tail) = rest.split_once(')')?;
        let values = of_rows(tuple);
        return Some(format!(
            "{head} SELECT {values} FROM ahead, {rows}{room}{tail}"
        ));
    }
    let (head, named) = sql.split_once(" WHERE ")?;
    let others = if head.starts_with("DELETE ") {
        "USING"
    } else {
        "FROM"
    };
    let (head, named) = (of_rows(head), of_rows(named));
    Some(format!("{head} {others} ahead, {rows} WHERE {named}"))
}

/// Classifies the error of such a write. Without an answer, or where the server was shut down meanwhile, the write may
/// have been made.
fn in_doubt(fault: &WireFault) -> StoreError {
    match fault.code() {
        None | Some("57P01" | "57P02") => StoreError::CommitUnknown(fault.cause()),
        // A conflict of one member fails all of them: run by itself, each shows whether it was the one.
        Some("23505" | "23514") => StoreError::Collision(fault.cause()),
        Some(_) => classify("cannot commit to the store", fault),
    }
}

fn overtaken() -> StoreError {
    StoreError::Collision("another writer changed the project in the meantime".to_owned())
}
