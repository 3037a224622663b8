//! The table of events: the journal.

pub(super) mod state;

pub(crate) use state::{ValuesAt, lost_between, state_at, values_at};

use flightline_core::event::{Change, Event, EventType, sha256_hex};
use flightline_core::{Kind, MissionId, Time};
use serde_json::Value as Json;

use super::statements;
use crate::delta::{self, Base};
use crate::engine::Driver;
use crate::error::StoreError;
use crate::seal;
use crate::tx::{EventMark, Trace};
use crate::value::{Row, SqlValue, params, values};

// Events are read with all their columns, in the order of `crate::seal`; in lists without the text of their values.
statements! {
    INSERT = "INSERT INTO event (project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, after, sha, prev, seal, base) \
              VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)";
    AFTER = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, CAST(NULL AS TEXT), sha, prev, seal FROM event \
             WHERE project = ?1 AND rev > ?2 AND (CAST(?3 AS TEXT) IS NULL OR mission = ?3) \
             AND (CAST(?4 AS TEXT) IS NULL OR subject = ?4) AND (CAST(?5 AS TEXT) IS NULL OR kind = ?5) \
             ORDER BY rev LIMIT ?6";
    BEFORE = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, CAST(NULL AS TEXT), sha, prev, seal FROM event \
              WHERE project = ?1 AND rev <= ?2 AND (CAST(?3 AS TEXT) IS NULL OR mission = ?3) \
              AND (CAST(?4 AS TEXT) IS NULL OR subject = ?4) AND (CAST(?5 AS TEXT) IS NULL OR kind = ?5) \
              AND at >= ?7 ORDER BY rev DESC LIMIT ?6";
    BEFORE_IN_MISSION = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, CAST(NULL AS TEXT), sha, prev, seal FROM event \
              WHERE project = ?1 AND mission = ?3 AND rev <= ?2 \
              AND (CAST(?4 AS TEXT) IS NULL OR subject = ?4) AND (CAST(?5 AS TEXT) IS NULL OR kind = ?5) \
              AND at >= ?7 ORDER BY rev DESC LIMIT ?6";
    // Literally as the index of these events has it, or it is not used.
    WORK_BEFORE = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, CAST(NULL AS TEXT), sha, prev, seal FROM event \
              WHERE project = ?1 AND mission = ?2 AND rev <= ?3 \
              AND actor <> 'flightline' AND subject_kind NOT IN ('briefing', 'checkpoint', 'milestone', 'recovery') \
              ORDER BY rev DESC LIMIT ?4";
    // The sum keeps PostgreSQL from merging both in the order of revisions, which goes through every event since.
    REMOVALS = "SELECT e.project, e.rev, e.step, e.at, e.kind, e.mission, e.subject_kind, e.subject, e.actor, e.epoch, e.data, e.change, CAST(NULL AS TEXT), e.sha, e.prev, e.seal \
              FROM subject s JOIN event e ON e.project = s.project AND e.rev = s.gone + 0 \
              WHERE s.project = ?1 AND s.gone IS NOT NULL AND s.gone <= ?3 AND s.kind = ?2 ORDER BY s.gone DESC LIMIT ?4";
    AFTER_ABOVE_WORK = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, CAST(NULL AS TEXT), sha, prev, seal FROM event \
             WHERE project = ?1 AND rev > ?2 AND subject_kind IN ('mission', 'checkpoint', 'recovery') ORDER BY rev LIMIT ?3";
    OF_SUBJECT = "SELECT project, rev, step, at, kind, mission, subject_kind, subject, actor, epoch, data, change, CAST(NULL AS TEXT), sha, prev, seal FROM event \
             WHERE project = ?1 AND subject_kind = ?2 AND subject = ?3 AND rev < ?5 ORDER BY rev DESC LIMIT ?4";
    BETWEEN = "SELECT CAST(count(*) AS BIGINT) FROM event WHERE project = ?1 AND rev >= ?2 AND rev <= ?3";
    TRACE = "SELECT rev, seal FROM event WHERE project = ?1 AND rev >= ?2 AND rev <= ?3 ORDER BY rev";
    NEXT = "SELECT rev FROM event WHERE project = ?1 AND rev >= ?2 ORDER BY rev LIMIT 1";
    STEP_OF = "SELECT step FROM event WHERE project = ?1 AND rev = ?2";
    LAST_WORK = "SELECT rev FROM event WHERE project = ?1 AND mission = ?2 AND kind <> 'context_compacted' \
                 AND actor <> 'flightline' AND subject_kind NOT IN ('briefing', 'checkpoint', 'milestone', 'recovery') \
                 ORDER BY rev DESC LIMIT 1";
    ANY_BETWEEN = "SELECT rev FROM event WHERE project = ?1 AND at >= ?2 AND at <= ?3 ORDER BY rev DESC LIMIT 1";
    REV_AT = "SELECT rev FROM event WHERE project = ?1 AND at <= ?2 ORDER BY rev DESC LIMIT 1";
    BASE = "SELECT b.rev, b.after, b.sha, (SELECT CAST(count(*) AS BIGINT) FROM event x WHERE x.project = ?1 AND x.subject_kind = ?2 \
            AND x.subject = ?3 AND x.rev > b.rev AND x.change <> 'none') \
            FROM subject s JOIN event e ON e.project = s.project AND e.rev = s.rev JOIN event b ON b.project = e.project AND b.rev = coalesce(e.base, e.rev) \
            WHERE s.project = ?1 AND s.kind = ?2 AND s.id = ?3 AND s.gone IS NULL AND b.subject_kind = ?2 AND b.subject = ?3 AND b.base IS NULL";
}

pub(crate) struct NewEvent<'a> {
    pub(crate) project: &'a str,
    pub(crate) rev: u64,
    pub(crate) step: u64,
    pub(crate) at: Time,
    pub(crate) kind: EventType,
    pub(crate) mission: Option<String>,
    pub(crate) subject_kind: Kind,
    pub(crate) subject: &'a str,
    pub(crate) actor: &'a str,
    pub(crate) epoch: Option<u64>,
    pub(crate) data: &'a Json,
    pub(crate) change: Change,
    /// The text of the value, or the delta that makes it out of that of `base`.
    pub(crate) after: Option<&'a str>,
    pub(crate) base: Option<u64>,
    pub(crate) sha: Option<&'a str>,
    pub(crate) prev: &'a str,
}

#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    pub mission: Option<MissionId>,
    /// The id of the only wanted subject, in full.
    pub subject: Option<String>,
    pub kind: Option<String>,
    pub since: Option<Time>,
    /// The last wanted revision, of the newest events.
    pub up_to: Option<u64>,
    /// Maximum number of entries.
    pub limit: u64,
}

/// The value that a subject had at some revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    pub kind: Kind,
    pub id: String,
    pub rev: u64,
    pub text: String,
    pub sha: String,
}

/// Events that were read, with the revisions of damaged ones that were left out.
#[derive(Debug, Default)]
pub(crate) struct EventsRead<T> {
    pub(crate) events: Vec<T>,
    pub(crate) damaged: Vec<u64>,
}

/// Adds an event to the journal, and to the trace of what its transaction added. Returns its seal.
pub(crate) fn insert(
    driver: &mut dyn Driver,
    trace: &mut Trace,
    event: &NewEvent<'_>,
) -> Result<String, StoreError> {
    let mut columns = values![
        event.project,
        event.rev,
        event.step,
        event.at.as_millis(),
        event.kind.as_str(),
        event.mission.as_deref(),
        event.subject_kind.as_str(),
        event.subject,
        event.actor,
        event.epoch,
        event.data.to_string(),
        event.change.as_str(),
        event.after,
        event.sha,
    ];
    let seal = seal::of_event(&columns, event.prev);
    columns.reserve_exact(3);
    columns.push(SqlValue::from(event.prev));
    columns.push(SqlValue::from(seal.as_str()));
    columns.push(SqlValue::from(event.base));
    trace.add(EventMark {
        rev: event.rev,
        seal: seal.clone(),
    });
    driver.post(INSERT, columns)?;
    Ok(seal)
}

/// Returns events after `rev`, oldest first.
pub(crate) fn after(
    driver: &mut dyn Driver,
    project: &str,
    rev: u64,
    filter: &EventFilter,
) -> Result<EventsRead<Event>, StoreError> {
    let mission = filter.mission.map(|id| id.to_string());
    list(filter.limit, |last, limit| {
        driver.query(
            AFTER,
            params![
                project,
                last.unwrap_or(rev),
                mission.as_deref(),
                filter.subject.as_deref(),
                filter.kind.as_deref(),
                limit
            ],
        )
    })
}

/// Returns events up to `rev`, newest first.
pub(crate) fn before(
    driver: &mut dyn Driver,
    project: &str,
    rev: u64,
    filter: &EventFilter,
) -> Result<EventsRead<Event>, StoreError> {
    let mission = filter.mission.map(|id| id.to_string());
    let since = filter.since.map_or(i64::MIN, Time::as_millis);
    // By the index of the mission: else the events of all others are looked through.
    let statement = match mission {
        Some(_) => BEFORE_IN_MISSION,
        None => BEFORE,
    };
    let up_to = filter.up_to.map_or(rev, |up_to| up_to.min(rev));
    list(filter.limit, |last, limit| {
        driver.query(
            statement,
            params![
                project,
                last.map_or(up_to, |last| last.saturating_sub(1)),
                mission.as_deref(),
                filter.subject.as_deref(),
                filter.kind.as_deref(),
                limit,
                since
            ],
        )
    })
}

/// Returns the work on a mission up to `rev`, newest first: the events for which [`Event::is_work`] is true.
pub(crate) fn work_before(
    driver: &mut dyn Driver,
    project: &str,
    mission: MissionId,
    rev: u64,
    limit: u64,
) -> Result<EventsRead<Event>, StoreError> {
    let mission = mission.to_string();
    list(limit, |last, limit| {
        let up_to = last.map_or(rev, |last| last.saturating_sub(1));
        driver.query(
            WORK_BEFORE,
            params![project, mission.as_str(), up_to, limit],
        )
    })
}

/// The events that took subjects of a kind away, up to `rev`, newest first.
pub(crate) fn removals(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    rev: u64,
    limit: u64,
) -> Result<EventsRead<Event>, StoreError> {
    list(limit, |last, limit| {
        let up_to = last.map_or(rev, |last| last.saturating_sub(1));
        driver.query(REMOVALS, params![project, kind.as_str(), up_to, limit])
    })
}

/// Events after `rev` about missions, checkpoints and recoveries, oldest first.
pub(crate) fn after_above_work(
    driver: &mut dyn Driver,
    project: &str,
    rev: u64,
    limit: u64,
) -> Result<EventsRead<Event>, StoreError> {
    list(limit, |last, limit| {
        let after = last.unwrap_or(rev);
        driver.query(AFTER_ABOVE_WORK, params![project, after, limit])
    })
}

/// The newest events about one subject, newest first.
pub(crate) fn of_subject(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    subject: &str,
    limit: u64,
) -> Result<EventsRead<Event>, StoreError> {
    list(limit, |last, limit| {
        let before = last.map_or(i64::MAX.unsigned_abs(), |last| last);
        driver.query(
            OF_SUBJECT,
            params![project, kind.as_str(), subject, limit, before],
        )
    })
}

fn list(
    limit: u64,
    fetch: impl FnMut(Option<u64>, u64) -> Result<Vec<Row>, StoreError>,
) -> Result<EventsRead<Event>, StoreError> {
    let listed = intact_rows(limit, fetch)?;
    Ok(EventsRead {
        events: listed.events.into_iter().map(|(event, _)| event).collect(),
        damaged: listed.damaged,
    })
}

/// Reads up to a limit of events that are as they were written, with their rows, however many damaged ones lie between
/// them. `fetch` reads a page of events beyond a revision, in its own order.
pub(crate) fn intact_rows(
    limit: u64,
    mut fetch: impl FnMut(Option<u64>, u64) -> Result<Vec<Row>, StoreError>,
) -> Result<EventsRead<(Event, Row)>, StoreError> {
    let (mut events, mut damaged, mut last) = (Vec::new(), Vec::new(), None);
    loop {
        let wanted = limit.saturating_sub(events.len() as u64);
        let rows = fetch(last, wanted)?;
        let all = (rows.len() as u64) < wanted;
        for mut row in rows {
            let rev = row.unsigned(seal::REV)?;
            last = Some(rev);
            match take_from_row(&mut row) {
                Some(event) => events.push((event, row)),
                None => damaged.push(rev),
            }
        }
        if all || events.len() as u64 >= limit {
            return Ok(EventsRead { events, damaged });
        }
    }
}

pub(crate) fn between(
    driver: &mut dyn Driver,
    project: &str,
    first: u64,
    last: u64,
) -> Result<u64, StoreError> {
    match driver
        .query(BETWEEN, params![project, first, last])?
        .first()
    {
        Some(row) => row.unsigned(0),
        None => Ok(0),
    }
}

/// Returns the marks of the events with these revisions.
pub(crate) fn trace(
    driver: &mut dyn Driver,
    project: &str,
    first: u64,
    last: u64,
) -> Result<Trace, StoreError> {
    let mut trace = Trace::default();
    for row in driver.query(TRACE, params![project, first, last])? {
        trace.add(EventMark {
            rev: row.unsigned(0)?,
            seal: row.text(1)?,
        });
    }
    Ok(trace)
}

/// Returns the first existing revision at `rev` or after it.
pub(crate) fn next(
    driver: &mut dyn Driver,
    project: &str,
    rev: u64,
) -> Result<Option<u64>, StoreError> {
    let rows = driver.query(NEXT, params![project, rev])?;
    rows.first().map(|row| row.unsigned(0)).transpose()
}

/// The first revision of the request that a revision belongs to.
pub(crate) fn step_of(
    driver: &mut dyn Driver,
    project: &str,
    rev: u64,
) -> Result<Option<u64>, StoreError> {
    match driver.query(STEP_OF, params![project, rev])?.first() {
        Some(row) => row.unsigned(0).map(Some),
        None => Ok(None),
    }
}

/// The last revision at or before `rev` at which a request was complete.
pub(crate) fn whole_step(
    driver: &mut dyn Driver,
    project: &str,
    rev: u64,
) -> Result<u64, StoreError> {
    match step_of(driver, project, rev.saturating_add(1))? {
        Some(step) if step <= rev => Ok(step - 1),
        _ => Ok(rev),
    }
}

/// The last revision that was written at this time or before.
pub(crate) fn rev_at(driver: &mut dyn Driver, project: &str, at: Time) -> Result<u64, StoreError> {
    match driver
        .query(REV_AT, params![project, at.as_millis()])?
        .first()
    {
        Some(row) => row.unsigned(0),
        None => Ok(0),
    }
}

/// Returns true when an event happened between two times.
pub(crate) fn any_between(
    driver: &mut dyn Driver,
    project: &str,
    from: Time,
    to: Time,
) -> Result<bool, StoreError> {
    let rows = driver.query(
        ANY_BETWEEN,
        params![project, from.as_millis(), to.as_millis()],
    )?;
    Ok(!rows.is_empty())
}

/// The last revision of the work on a mission.
pub(crate) fn last_work(
    driver: &mut dyn Driver,
    project: &str,
    mission: &str,
) -> Result<Option<u64>, StoreError> {
    match driver.query(LAST_WORK, params![project, mission])?.first() {
        Some(row) => row.opt_unsigned(0),
        None => Ok(None),
    }
}

/// Runs a query for values: of each row, the column `at` is a value as it is stored, and the last two are the revision of
/// its base and the text there. The returned rows have whole texts, and end before those two. A text that cannot be put
/// together is empty, and matches no hash.
pub(crate) fn query_values(
    driver: &mut dyn Driver,
    sql: &'static str,
    params: &[SqlValue],
    at: usize,
) -> Result<Vec<Row>, StoreError> {
    let mut rows = driver.query(sql, params)?;
    for row in &mut rows {
        put_together(row, at);
    }
    Ok(rows)
}

/// Puts the whole text of a value into a row of [`query_values`]. Returns true when the value was stored as a delta.
pub(crate) fn put_together(row: &mut Row, at: usize) -> bool {
    let (text, base) = (row.0.pop(), row.0.pop());
    if matches!(base, None | Some(SqlValue::Null)) {
        return false;
    }
    if let Some(SqlValue::Text(stored)) = row.0.get_mut(at) {
        let whole = match text {
            Some(SqlValue::Text(text)) => delta::apply(&text, stored),
            _ => None,
        };
        *stored = whole.unwrap_or_default();
    }
    true
}

/// Returns the whole value that the next delta of a subject can be based on: the base of its last value, or that value
/// itself. None when there is none, or it is damaged.
pub(crate) fn base_of(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    id: &str,
) -> Result<Option<Base>, StoreError> {
    let rows = driver.query(BASE, params![project, kind.as_str(), id])?;
    let Some(mut row) = rows.into_iter().next() else {
        return Ok(None);
    };
    let (text, sha) = (row.take_opt_text(1)?, row.take_opt_text(2)?);
    Ok(match (text, sha) {
        (Some(text), Some(sha)) if sha256_hex(&text) == sha => Some(Base {
            rev: row.unsigned(0)?,
            text: text.into(),
            deltas: row.unsigned(3)?,
        }),
        _ => None,
    })
}

/// Reads the event in a row with all columns of one, or without the text of its value; none when it is not as it was
/// written.
pub(crate) fn from_row(row: &Row) -> Option<Event> {
    take_from_row(&mut row.clone())
}

/// Reads the event in such a row. Its texts are taken out of the row, but for the text of its value and its hash.
fn take_from_row(row: &mut Row) -> Option<Event> {
    if !seal::is_intact(row) {
        return None;
    }
    take(row).ok()
}

fn take(row: &mut Row) -> Result<Event, StoreError> {
    let mission = row.take_opt_text(seal::MISSION)?;
    Ok(Event {
        rev: row.unsigned(seal::REV)?,
        step: row.unsigned(seal::STEP)?,
        timestamp: Time::from_millis(row.int(seal::AT)?),
        kind: row.take_text(seal::KIND)?,
        mission_id: mission.map(|id| id.parse()).transpose().map_err(|_| {
            StoreError::Corrupt("an event names a mission that is no id".to_owned())
        })?,
        subject_kind: kind(&row.take_text(seal::SUBJECT_KIND)?)?,
        subject: row.take_text(seal::SUBJECT)?,
        actor: row.take_text(seal::ACTOR)?,
        epoch: row.opt_unsigned(seal::EPOCH)?,
        data: serde_json::from_str(&row.take_text(seal::DATA)?)
            .map_err(|error| StoreError::Corrupt(format!("an event's data: {error}")))?,
        change: change(&row.take_text(seal::CHANGE)?)?,
    })
}

pub(crate) fn kind(word: &str) -> Result<Kind, StoreError> {
    word.parse()
        .map_err(|error: flightline_core::subject::UnknownKind| {
            StoreError::Corrupt(error.to_string())
        })
}

pub(crate) fn change(word: &str) -> Result<Change, StoreError> {
    Change::from_word(word).ok_or_else(|| StoreError::Corrupt(format!("`{word}` is not a change")))
}
