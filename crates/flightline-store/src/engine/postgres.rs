//! PostgreSQL: for fleets that outgrow one machine.

mod ahead;
mod connect;
mod notify;
mod objects;
mod opening;
mod outbox;
mod tls;
mod wire;

pub(crate) use notify::{PgListener, PgNotifier};
pub(crate) use opening::open;

use std::collections::HashMap;
use std::error::Error as _;
use std::time::Duration;

use flightline_core::Time;
use postgres::Statement;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use self::ahead::CachedProjectRow;
use self::outbox::{Outbox, StatementBatch, columns, for_rows};
use self::wire::{Wire, WireFault};
use super::{Anchor, Compaction, Driver, Durability, OptimisticCommit, OptimisticRow, SpaceUsed};
use crate::crash_points::CrashPoints;
use crate::error::StoreError;
use crate::value::{Row, SqlValue};

const TAKE: &str = "SELECT name, history, rev, created_at, seen_at, awake_since, timeline, seal, sum FROM project WHERE id = $1";
// Not FOR UPDATE: the first heartbeat of an agent refers to this row and would wait for it.
const TAKE_AND_HOLD: &str = "SELECT name, history, rev, created_at, seen_at, awake_since, timeline, seal, sum FROM project WHERE id = $1 FOR NO KEY UPDATE";
const NOW: &str = "SELECT CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS BIGINT)";
// The timeline of the log that is being written, not of the last checkpoint: a replica that was promoted a moment ago
// has made none.
const TIMELINE: &str =
    "SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), CAST(0 AS BIGINT)";
// The identifier is the same on all replicas of a cluster, and on no other.
const CLUSTER_AND_TIMELINE: &str = "SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8), \
     CAST(system_identifier AS BIGINT) FROM pg_control_system()";
const COLUMNS: &str = "SELECT CAST(table_name AS TEXT), CAST(column_name AS TEXT) FROM information_schema.columns \
     WHERE table_schema = current_schema() AND table_name <> 'schema_version' \
     ORDER BY CAST(table_name AS TEXT) COLLATE \"C\", CAST(column_name AS TEXT) COLLATE \"C\"";

// Settings that a session can set are set when it begins.
const WEAKNESSES: &str = "SELECT CAST(name AS TEXT) FROM pg_settings \
     WHERE name IN ('fsync', 'full_page_writes') AND setting = 'off' ORDER BY CAST(name AS TEXT) COLLATE \"C\"";

const SPACE: &str = "SELECT CAST(coalesce(sum(pg_total_relation_size(c.oid)), 0) AS BIGINT) FROM pg_class c \
     WHERE c.relkind = 'r' AND c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) \
     AND c.relname IN ('project', 'event', 'subject', 'pulse', 'request', 'backup')";

pub(crate) struct Postgres {
    wire: Wire,
    /// The prepared statements, by their text and whether they are for many rows.
    prepared: HashMap<(&'static str, bool), Statement>,
    outbox: Outbox,
    /// True when a statement of this transaction failed: the server refuses all others until it is rolled back.
    failed: bool,
    steps: CrashPoints,
    timeline: Timeline,
    /// The project's row, as it was found by the write under way that does not hold it.
    ahead: Option<CachedProjectRow>,
    /// The project's row, as the last such write left it.
    standing: Option<CachedProjectRow>,
    /// True when another process wrote while the last such write was under way.
    overtaken: bool,
    /// The statements that make such writes, by the statements in each.
    landings: HashMap<Vec<&'static str>, Statement>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timeline {
    /// The timeline was not read yet, or the server was a replica then.
    Unread,
    /// The timeline is known for as long as the connection lives: a server that is replaced ends it.
    Known(u64),
    /// The server does not tell its timeline. Some servers that only speak like PostgreSQL have none.
    Untold,
}

impl Postgres {
    /// Asks for the timeline, once per connection and outside of transactions: a refusal would end one.
    fn read_timeline(&mut self) -> Result<(), StoreError> {
        if self.timeline != Timeline::Unread {
            return Ok(());
        }
        // Some servers do not let a role ask which cluster it is.
        for question in [CLUSTER_AND_TIMELINE, TIMELINE] {
            match self.wire.ask(|client| client.query_one(question, &[])) {
                Ok(row) => {
                    self.timeline = timeline(&row).map_or(Timeline::Untold, Timeline::Known);
                    return Ok(());
                }
                Err(fault) => match fault.code() {
                    // A replica, which takes no writes yet.
                    Some("55000") => return Ok(()),
                    Some(_) => {}
                    None => return Err(classify("cannot write to the store", &fault)),
                },
            }
        }
        self.timeline = Timeline::Untold;
        Ok(())
    }

    fn fail(&mut self, act: &'static str, fault: &WireFault) -> StoreError {
        self.failed = true;
        classify(act, fault)
    }

    fn statement(&mut self, sql: &'static str) -> Result<Statement, StoreError> {
        match self.prepared.get(&(sql, false)) {
            Some(statement) => Ok(statement.clone()),
            None => self.prepare_as(sql, false, sql),
        }
    }

    /// Prepares an insert for any number of rows.
    fn statement_for_rows(&mut self, sql: &'static str) -> Result<Statement, StoreError> {
        if let Some(statement) = self.prepared.get(&(sql, true)) {
            return Ok(statement.clone());
        }
        let one = self.statement(sql)?;
        let types: Vec<&str> = one.params().iter().map(Type::name).collect();
        let text = for_rows(sql, &types).ok_or_else(|| StoreError::Engine {
            act: "cannot prepare a statement",
            cause: "it is no insert".to_owned(),
        })?;
        self.prepare_as(sql, true, &text)
    }

    fn prepare_as(
        &mut self,
        sql: &'static str,
        many: bool,
        text: &str,
    ) -> Result<Statement, StoreError> {
        let text = numbered(text);
        let prepared = self.wire.ask(move |client| client.prepare(&text));
        let statement =
            prepared.map_err(|fault| self.fail("cannot prepare a statement", &fault))?;
        self.prepared.insert((sql, many), statement.clone());
        Ok(statement)
    }

    fn send(&mut self, sql: &'static str, params: Vec<SqlValue>) -> Result<u64, StoreError> {
        let statement = self.statement(sql)?;
        self.steps.step();
        let executed = self
            .wire
            .ask(move |client| client.execute(&statement, &borrowed(&params)));
        executed.map_err(|fault| self.fail("cannot write to the store", &fault))
    }

    fn send_rows(
        &mut self,
        sql: &'static str,
        mut rows: Vec<Vec<SqlValue>>,
    ) -> Result<(), StoreError> {
        if rows.len() < 2 {
            let one = rows.pop().map(|params| self.send(sql, params));
            return one.transpose().map(drop);
        }
        let statement = self.statement_for_rows(sql)?;
        self.steps.step();
        let columns = columns(rows);
        let executed = self.wire.ask(move |client| {
            let columns: Vec<&(dyn ToSql + Sync)> = columns.iter().map(|it| it as _).collect();
            client.execute(&statement, &columns)
        });
        let executed = executed.map_err(|fault| self.fail("cannot write to the store", &fault));
        executed.map(drop)
    }

    /// Sends all waiting writes and places.
    fn empty_outbox(&mut self) -> Result<(), StoreError> {
        self.hold_ahead()?;
        loop {
            let parcels = self.outbox.next();
            if parcels.is_empty() {
                return Ok(());
            }
            for parcel in parcels {
                match parcel {
                    StatementBatch::Rows { sql, rows } => self.send_rows(sql, rows)?,
                    StatementBatch::Mark(sql) => self.run(sql)?,
                }
            }
        }
    }

    fn run(&mut self, sql: &'static str) -> Result<(), StoreError> {
        let ran = self.wire.ask(|client| client.batch_execute(sql));
        ran.map_err(|fault| self.fail("cannot write to the store", &fault))
    }
}

impl Driver for Postgres {
    fn begin_read(&mut self) -> Result<(), StoreError> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        self.wire
            .ask(|client| client.batch_execute(begin))
            .map_err(|fault| classify("cannot read the store", &fault))
    }

    fn begin_write(
        &mut self,
        durability: Durability,
        _patience: Duration,
    ) -> Result<(), StoreError> {
        let begin = match durability {
            Durability::Full => "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE",
            Durability::Pulse => {
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL synchronous_commit = off"
            }
        };
        self.read_timeline()?;
        self.steps.step();
        self.failed = false;
        self.overtaken = false;
        self.standing = None;
        self.outbox.clear();
        self.wire
            .ask(|client| client.batch_execute(begin))
            .map_err(|fault| classify("cannot write to the store", &fault))
    }

    fn begin_ahead(&mut self, project: &str) -> Result<Option<OptimisticRow>, StoreError> {
        self.look_ahead(project)
    }

    fn is_ahead(&self) -> bool {
        self.ahead.is_some()
    }

    fn is_blind(&self) -> bool {
        self.ahead.is_some() && self.outbox.has_writes()
    }

    fn hold(&mut self) -> Result<(), StoreError> {
        self.hold_ahead()
    }

    fn was_overtaken(&self) -> bool {
        self.overtaken
    }

    fn commit_optimistic(
        &mut self,
        advance: &'static str,
        params: Vec<SqlValue>,
        events: u64,
    ) -> Result<OptimisticCommit, StoreError> {
        self.land_ahead(advance, params, events)
    }

    fn take_project(&mut self, project: &str, hold: bool) -> Result<Option<Row>, StoreError> {
        Ok(self
            .query(
                if hold { TAKE_AND_HOLD } else { TAKE },
                &[SqlValue::from(project)],
            )?
            .pop())
    }

    fn execute(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<u64, StoreError> {
        self.empty_outbox()?;
        self.send(sql, params.to_vec())
    }

    fn post(&mut self, sql: &'static str, params: Vec<SqlValue>) -> Result<(), StoreError> {
        self.outbox.write(sql, params);
        Ok(())
    }

    fn compares_keys(&self) -> bool {
        true
    }

    fn is_near(&self) -> bool {
        false
    }

    fn deliver(&mut self) -> Result<(), StoreError> {
        match self.outbox.has_writes() {
            true => self.empty_outbox(),
            // A place before which and after which nothing was written need not be marked.
            false => Ok(()),
        }
    }

    fn query(&mut self, sql: &'static str, params: &[SqlValue]) -> Result<Vec<Row>, StoreError> {
        if self.outbox.concerns(sql, params) {
            self.empty_outbox()?;
        }
        let statement = self.statement(sql)?;
        let params = params.to_vec();
        let rows = self
            .wire
            .ask(move |client| client.query(&statement, &borrowed(&params)));
        let rows = rows.map_err(|fault| self.fail("cannot read the store", &fault))?;
        self.steps.read(sql, rows.len(), 0);
        rows.iter().map(from_engine).collect()
    }

    fn savepoint(&mut self, anchor: Anchor) -> Result<(), StoreError> {
        if anchor == Anchor::Attempt {
            // A write that fails from now on is one of the attempt.
            self.deliver()?;
        }
        self.outbox.save(anchor);
        Ok(())
    }

    fn release(&mut self, anchor: Anchor) -> Result<(), StoreError> {
        if self.outbox.unsave(anchor) {
            return Ok(());
        }
        match anchor {
            Anchor::Member => {
                self.outbox.release(anchor);
                Ok(())
            }
            // Attempts lie within one another and have one name: a rollback to the outer one must not find the inner one
            // there.
            Anchor::Attempt => self.run(anchor.release()),
        }
    }

    fn roll_back_to(&mut self, anchor: Anchor) -> Result<(), StoreError> {
        if self.outbox.go_back(anchor) {
            // Something failed, and the server has not heard of that place: there is nothing to come back to.
            return match self.failed {
                true => Err(StoreError::Collision("an earlier write failed".to_owned())),
                false => Ok(()),
            };
        }
        self.run(anchor.back())?;
        self.failed = false;
        Ok(())
    }

    fn is_sound(&self) -> bool {
        !self.failed
    }

    fn timeline(&self) -> Option<u64> {
        match self.timeline {
            Timeline::Known(number) => Some(number),
            Timeline::Unread | Timeline::Untold => None,
        }
    }

    fn is_closed(&self) -> bool {
        self.wire.is_closed()
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.deliver().inspect_err(|_| self.rollback())?;
        self.steps.step();
        let committed = self.wire.ask(|client| client.batch_execute("COMMIT"));
        let committed = committed.map_err(|fault| {
            match fault.code() {
                // No answer from the server, or it was shut down while it committed: the commit may
                // have been made.
                None | Some("57P01" | "57P02") => StoreError::CommitUnknown(fault.cause()),
                Some(_) => classify("cannot commit to the store", &fault),
            }
        });
        self.steps.step();
        committed
    }

    fn rollback(&mut self) {
        self.outbox.clear();
        // A write that held nothing has nothing to roll back.
        if self.ahead.take().is_some() {
            return;
        }
        // A broken connection has rolled back already.
        let _ = self.wire.ask(|client| client.batch_execute("ROLLBACK"));
    }

    fn server_time(&mut self) -> Result<Option<Time>, StoreError> {
        match self.query(NOW, &[])?.first() {
            Some(row) => Ok(Some(Time::from_millis(row.int(0)?))),
            None => Ok(None),
        }
    }

    fn integrity(&mut self) -> Result<Vec<String>, StoreError> {
        // The server looks after its own files. The checks that we can make are in `verify`.
        Ok(Vec::new())
    }

    fn schema_troubles(&mut self) -> Result<Vec<String>, StoreError> {
        Ok(self.objects()?.0)
    }

    fn mend_schema(&mut self, patience: Duration) -> Result<Vec<String>, StoreError> {
        let (_, missing) = self.objects()?;
        self.begin_write(Durability::Full, patience)?;
        let mut done = Vec::new();
        for (name, sql) in missing {
            if let Err(error) = self.run(sql) {
                self.rollback();
                return Err(error);
            }
            done.push(format!("{name}: made anew"));
        }
        self.commit()?;
        Ok(done)
    }

    fn space(&mut self) -> Result<SpaceUsed, StoreError> {
        let rows = self.query(SPACE, &[])?;
        Ok(SpaceUsed {
            database: rows.first().map_or(Ok(0), |row| row.unsigned(0))?,
            log: 0,
            free: None,
        })
    }

    fn compact(&mut self, _loose: u64, _most: u64) -> Result<Compaction, StoreError> {
        // The tables are shared by all projects and may belong to another role; autovacuum makes room.
        Ok(Compaction::ByServer)
    }

    fn fold_log(&mut self, _truncate: bool) -> Result<u64, StoreError> {
        // The server looks after its own.
        Ok(0)
    }

    fn weaknesses(&mut self) -> Result<Vec<String>, StoreError> {
        let told = self.query(WEAKNESSES, &[])?.into_iter().map(|row| {
            Ok(format!(
                "PostgreSQL runs with `{} = off`: a power cut or a crash of its machine can lose or damage acknowledged data",
                row.text(0)?
            ))
        });
        told.collect()
    }

    fn columns(&mut self) -> Result<Vec<(String, String)>, StoreError> {
        self.query(COLUMNS, &[])?
            .iter()
            .map(|row| Ok((row.text(0)?, row.text(1)?)))
            .collect()
    }

    fn prepare(&mut self, sql: &'static str) -> Result<(), StoreError> {
        self.statement(sql).map(drop)
    }

    fn statements(&self) -> u64 {
        self.wire.round_trips()
    }

    fn name(&self) -> &'static str {
        "postgres"
    }
}

fn borrowed(params: &[SqlValue]) -> Vec<&(dyn ToSql + Sync)> {
    params.iter().map(|value| value as _).collect()
}

/// Reads the timeline: its number in the lower half, and the cluster's identity in the upper half.
fn timeline(row: &postgres::Row) -> Option<u64> {
    let digits: String = row.try_get(0).ok()?;
    let cluster = row.try_get::<_, i64>(1).ok()?.cast_unsigned();
    let number = u64::from(u32::from_str_radix(&digits, 16).ok()?);
    Some(((cluster ^ (cluster >> 32)) & 0x7fff_ffff) << 32 | number)
}

/// Rewrites a statement for PostgreSQL, which reads `$1` where both engines' statements have `?1`.
fn numbered(sql: &str) -> String {
    sql.replace('?', "$")
}

fn from_engine(row: &postgres::Row) -> Result<Row, StoreError> {
    let act = "cannot read the store";
    let values = row.columns().iter().enumerate().map(|(at, column)| {
        let value = match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(at).map(SqlValue::from),
            Type::INT4 => row
                .try_get::<_, Option<i32>>(at)
                .map(|value| value.map(i64::from).into()),
            Type::BOOL => row
                .try_get::<_, Option<bool>>(at)
                .map(|value| value.map(i64::from).into()),
            _ => row.try_get::<_, Option<String>>(at).map(SqlValue::from),
        };
        value.map_err(|error| classify(act, &WireFault::Said(error)))
    });
    values.collect::<Result<Vec<_>, _>>().map(Row)
}

impl ToSql for SqlValue {
    fn to_sql(
        &self,
        wanted: &Type,
        out: &mut postgres::types::private::BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Int(value) if *wanted == Type::INT4 => i32::try_from(*value)?.to_sql(wanted, out),
            Self::Int(value) => value.to_sql(wanted, out),
            Self::Text(value) => value.to_sql(wanted, out),
        }
    }

    fn accepts(wanted: &Type) -> bool {
        matches!(
            *wanted,
            Type::INT8 | Type::INT4 | Type::TEXT | Type::VARCHAR
        )
    }

    to_sql_checked!();
}

fn classify(act: &'static str, fault: &WireFault) -> StoreError {
    let cause = fault.cause();
    match fault.code() {
        Some("40001" | "40P01") => StoreError::Collision(cause),
        Some("55P03" | "57014") => StoreError::Busy(
            "another node has been writing to this project for too long".to_owned(),
        ),
        Some("53100") => StoreError::Full(cause),
        // Writers of a project come one after the other: a duplicate was damaged before.
        Some("23505" | "23514") => StoreError::Corrupt(cause),
        Some("25006" | "42501") => StoreError::ReadOnly(cause),
        // 25P03: we were silent in the middle of a transaction, which the server has rolled back.
        Some("25P03" | "57P01" | "57P02" | "57P03" | "57P05" | "53300") => {
            StoreError::Unreachable(cause)
        }
        Some(_) => StoreError::Engine { act, cause },
        None => StoreError::Unreachable(cause),
    }
}

fn root_cause(error: &postgres::Error) -> String {
    if let Some(said) = error.as_db_error() {
        return said.message().to_owned();
    }
    error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string)
}
