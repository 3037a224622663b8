//! The last value of each subject.

pub(super) mod cut;

pub(crate) use cut::{CUT, CUT_OF_ALL, cut_now, in_order, lines, nearest};

use std::str::FromStr;

use flightline_core::{AgentId, Kind, MissionId, Time};

use super::statements;
use crate::engine::Driver;
use crate::error::StoreError;
use crate::seal;
use crate::value::{Row, SqlValue, params, values};

statements! {
    UPSERT = "INSERT INTO subject (project, kind, id, mission, parent, agent, name, status, percent, born, rev, at, sha, doc, gone, sum) \
              VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?13, ?15, ?9, ?10, ?11, ?12, NULL, ?14) \
              ON CONFLICT (project, kind, id) DO UPDATE SET mission = excluded.mission, parent = excluded.parent, \
              agent = excluded.agent, name = excluded.name, status = excluded.status, percent = excluded.percent, rev = excluded.rev, \
              at = excluded.at, sha = excluded.sha, doc = excluded.doc, gone = NULL, sum = excluded.sum";
    UPDATE = "UPDATE subject SET rev = ?4, at = ?5, sha = ?6, doc = ?7 WHERE project = ?1 AND kind = ?2 AND id = ?3";
    REMOVE = "UPDATE subject SET gone = ?4, rev = ?4, at = ?5 WHERE project = ?1 AND kind = ?2 AND id = ?3";
    GET = "SELECT coalesce(doc, (SELECT e.after FROM event e WHERE e.project = subject.project AND e.rev = subject.rev)), sha, gone, id, rev FROM subject WHERE project = ?1 AND kind = ?2 AND id = ?3";
    BORN = "SELECT born FROM subject WHERE project = ?1 AND kind = ?2 AND id = ?3";
    CHANGED = "SELECT rev FROM subject WHERE project = ?1 AND kind = ?2 AND id = ?3";
    IDS = "SELECT id FROM subject WHERE project = ?1 AND kind = ?2 AND gone IS NULL ORDER BY id";
    GONE_IDS = "SELECT id FROM subject WHERE project = ?1 AND kind = ?2 AND gone IS NOT NULL ORDER BY id";
    BEGINNING = "SELECT id FROM subject WHERE project = ?1 AND kind = ?2 AND id >= ?3 AND id < ?4 AND gone IS NULL ORDER BY id LIMIT 11";
    COUNT = "SELECT status, CAST(count(*) AS BIGINT) FROM subject WHERE project = ?1 AND kind = ?2 AND mission = ?3 AND gone IS NULL \
             AND born >= ?4 GROUP BY status ORDER BY status";
    COUNT_ALL = "SELECT status, CAST(count(*) AS BIGINT) FROM subject WHERE project = ?1 AND kind = ?2 AND gone IS NULL \
             GROUP BY status ORDER BY status";
    SHARE = "SELECT CAST(count(*) FILTER (WHERE status = ?4) AS BIGINT), CAST(count(*) AS BIGINT) FROM subject \
             WHERE project = ?1 AND kind = ?2 AND mission = ?3 AND gone IS NULL";
    COUNT_PARTS = "SELECT status, CAST(count(*) AS BIGINT) FROM subject WHERE project = ?1 AND kind = ?2 AND parent = ?3 AND gone IS NULL \
             GROUP BY status ORDER BY status";
    COUNT_OF_AGENT = "SELECT status, CAST(count(*) AS BIGINT) FROM subject WHERE project = ?1 AND kind = ?2 AND agent = ?3 AND gone IS NULL \
             GROUP BY status ORDER BY status";
    ALL = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
           WHERE project = ?1 AND kind = ?2 AND gone IS NULL ORDER BY born, id";
    BY_MISSION = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
           WHERE project = ?1 AND kind = ?2 AND mission = ?3 AND gone IS NULL ORDER BY born";
    BY_PARENT = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
           WHERE project = ?1 AND kind = ?2 AND parent = ?3 AND gone IS NULL ORDER BY born";
    BY_AGENT = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
           WHERE project = ?1 AND kind = ?2 AND agent = ?3 AND (CAST(?4 AS TEXT) IS NULL OR status = ?4) AND gone IS NULL ORDER BY born, id";
    BY_AGENT_NAME = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
           WHERE project = ?1 AND kind = 'agent' AND name = ?2 AND gone IS NULL ORDER BY born, id";
    BY_EFFECT_KEY = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
           WHERE project = ?1 AND kind = 'effect' AND mission = ?2 AND name = ?3 AND gone IS NULL ORDER BY born, id";
    DOC_ALL = "SELECT coalesce(doc, (SELECT e.after FROM event e WHERE e.project = subject.project AND e.rev = subject.rev)), sha, gone, id, rev FROM subject WHERE project = ?1 AND kind = ?2 AND gone IS NULL ORDER BY born, id";
    DOC_BY_MISSION = "SELECT coalesce(doc, (SELECT e.after FROM event e WHERE e.project = subject.project AND e.rev = subject.rev)), sha, gone, id, rev FROM subject WHERE project = ?1 AND kind = ?2 AND mission = ?3 AND gone IS NULL ORDER BY born";
    HOLDING = "SELECT doc, sha, gone, id, rev FROM subject WHERE project = ?1 AND kind = ?2 AND gone IS NULL AND doc LIKE ?3 ESCAPE '!' ORDER BY born, id";
    HOLDING_OF_MISSION = "SELECT doc, sha, gone, id, rev FROM subject \
           WHERE project = ?1 AND kind = ?2 AND mission = ?3 AND gone IS NULL AND doc LIKE ?4 ESCAPE '!' ORDER BY born, id";
    NEWEST = "SELECT coalesce(doc, (SELECT e.after FROM event e WHERE e.project = subject.project AND e.rev = subject.rev)), sha, gone, id, rev FROM subject \
           WHERE project = ?1 AND kind = ?2 AND mission = ?3 AND gone IS NULL AND (CAST(?4 AS TEXT) IS NULL OR status <> ?4) \
           AND born < ?5 ORDER BY born DESC LIMIT CAST(?6 AS BIGINT)";
    NEWEST_OF_AGENT = "SELECT coalesce(doc, (SELECT e.after FROM event e WHERE e.project = subject.project AND e.rev = subject.rev)), sha, gone, id, rev FROM subject \
           WHERE project = ?1 AND kind = ?2 AND agent = ?3 AND status = ?4 AND gone IS NULL \
           ORDER BY born DESC LIMIT CAST(?5 AS BIGINT)";
    DOC_BY_PARENT = "SELECT coalesce(doc, (SELECT e.after FROM event e WHERE e.project = subject.project AND e.rev = subject.rev)), sha, gone, id, rev FROM subject WHERE project = ?1 AND kind = ?2 AND parent = ?3 AND gone IS NULL ORDER BY born";
    DOC_BY_AGENT = "SELECT coalesce(doc, (SELECT e.after FROM event e WHERE e.project = subject.project AND e.rev = subject.rev)), sha, gone, id, rev FROM subject WHERE project = ?1 AND kind = ?2 AND agent = ?3 \
           AND (CAST(?4 AS TEXT) IS NULL OR status = ?4) AND gone IS NULL ORDER BY born, id";
    DOC_BY_AGENT_NAME = "SELECT coalesce(doc, (SELECT e.after FROM event e WHERE e.project = subject.project AND e.rev = subject.rev)), sha, gone, id, rev FROM subject WHERE project = ?1 AND kind = 'agent' AND name = ?2 AND gone IS NULL ORDER BY born, id";
    DOC_BY_EFFECT_KEY = "SELECT coalesce(doc, (SELECT e.after FROM event e WHERE e.project = subject.project AND e.rev = subject.rev)), sha, gone, id, rev FROM subject WHERE project = ?1 AND kind = 'effect' AND mission = ?2 AND name = ?3 \
           AND gone IS NULL ORDER BY born, id";
}

/// The most ids that are read for the beginning of one: enough to list the candidates.
pub(crate) const FITTING: usize = 11;

/// The ways to look for subjects of a kind.
#[derive(Clone, Copy, Debug)]
pub enum Find<'a> {
    All,
    Mission(MissionId),
    Parent(&'a str),
    Agent(AgentId),
    AgentStatus(AgentId, &'a str),
    AgentName(&'a str),
    EffectKey(MissionId, &'a str),
}

/// A subject without its document: enough for a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubjectRow {
    pub id: String,
    pub mission: Option<String>,
    pub parent: Option<String>,
    pub agent: Option<String>,
    pub name: Option<String>,
    pub status: String,
    pub born: u64,
    /// The revision of the subject's last change.
    pub rev: u64,
    pub at: Time,
    pub sha: String,
}

impl SubjectRow {
    /// Parses the id as its type. An id that cannot be parsed shows that the row is damaged.
    pub fn typed_id<T: FromStr>(&self) -> Result<T, StoreError> {
        self.id
            .parse()
            .map_err(|_| StoreError::Corrupt("a row has an id that is none".to_owned()))
    }
}

pub(crate) struct NewValue<'a> {
    pub(crate) project: &'a str,
    pub(crate) kind: Kind,
    pub(crate) id: &'a str,
    pub(crate) keys: &'a flightline_core::Keys,
    pub(crate) rev: u64,
    pub(crate) at: Time,
    pub(crate) sha: &'a str,
    /// The document; none when the journal alone keeps it.
    pub(crate) doc: Option<&'a str>,
    /// True when the subject is known to be there, and to be found as before: then no index changes.
    pub(crate) in_place: bool,
}

pub(crate) struct StoredDocument {
    pub(crate) id: String,
    pub(crate) rev: u64,
    pub(crate) text: String,
    pub(crate) sha: String,
}

pub(crate) fn upsert(driver: &mut dyn Driver, value: &NewValue<'_>) -> Result<(), StoreError> {
    if value.in_place {
        let params = values![
            value.project,
            value.kind.as_str(),
            value.id,
            value.rev,
            value.at.as_millis(),
            value.sha,
            value.doc,
        ];
        // Unless it was taken away behind our back.
        if driver.post_change(UPDATE, params)? {
            return Ok(());
        }
    }
    driver.post(
        UPSERT,
        values![
            value.project,
            value.kind.as_str(),
            value.id,
            value.keys.mission.map(|id| id.to_string()),
            value.keys.parent.as_deref(),
            value.keys.agent.map(|id| id.to_string()),
            value.keys.name.as_deref(),
            value.keys.status,
            value.rev,
            value.at.as_millis(),
            value.sha,
            value.doc,
            value.keys.percent.map(u64::from),
            sum(value.kind, value.id, value.keys),
            // The revision that makes the subject: a parameter of its own, because a later value of the same commit
            // changes the other one alone.
            value.rev,
        ],
    )
}

/// The sum of the columns by which a subject is found. All others are in the journal, too.
pub(crate) fn sum(kind: Kind, id: &str, keys: &flightline_core::Keys) -> String {
    seal::sum(params![
        kind.as_str(),
        id,
        keys.mission.map(|id| id.to_string()),
        keys.parent.as_deref(),
        keys.agent.map(|id| id.to_string()),
        keys.name.as_deref(),
        keys.status,
        keys.percent.map(u64::from),
    ])
}

pub(crate) fn remove(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    id: &str,
    rev: u64,
    at: Time,
) -> Result<(), StoreError> {
    driver.post(
        REMOVE,
        values![project, kind.as_str(), id, rev, at.as_millis()],
    )
}

pub(crate) fn get(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    id: &str,
) -> Result<Option<StoredDocument>, StoreError> {
    let rows = driver.query(GET, params![project, kind.as_str(), id])?;
    first_document(rows)
}

/// The subject with this id, which the write that asks has not touched.
pub(crate) fn get_untouched(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    id: &str,
) -> Result<Option<StoredDocument>, StoreError> {
    let rows = driver.query_untouched(GET, params![project, kind.as_str(), id])?;
    first_document(rows)
}

fn first_document(rows: Vec<Row>) -> Result<Option<StoredDocument>, StoreError> {
    match rows.into_iter().next() {
        Some(row) if row.opt_int(2)?.is_none() => document(row).map(Some),
        _ => Ok(None),
    }
}

/// The revision of a subject's last change, also when that took it away.
pub(crate) fn changed(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    id: &str,
) -> Result<Option<u64>, StoreError> {
    number(driver, CHANGED, project, kind, id)
}

/// The revision that made a subject, also when it was taken away since.
pub(crate) fn born(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    id: &str,
) -> Result<Option<u64>, StoreError> {
    number(driver, BORN, project, kind, id)
}

fn number(
    driver: &mut dyn Driver,
    sql: &'static str,
    project: &str,
    kind: Kind,
    id: &str,
) -> Result<Option<u64>, StoreError> {
    let rows = driver.query(sql, params![project, kind.as_str(), id])?;
    rows.first().map(|row| row.unsigned(0)).transpose()
}

pub(crate) fn ids(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
) -> Result<Vec<String>, StoreError> {
    texts(&driver.query(IDS, params![project, kind.as_str()])?)
}

pub(crate) fn gone_ids(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
) -> Result<Vec<String>, StoreError> {
    texts(&driver.query(GONE_IDS, params![project, kind.as_str()])?)
}

/// Returns ids from `from` up to, not including, `to`; eleven at most, enough to list the candidates.
pub(crate) fn ids_between(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    from: &str,
    to: &str,
) -> Result<Vec<String>, StoreError> {
    texts(&driver.query(BEGINNING, params![project, kind.as_str(), from, to])?)
}

/// Reads rows of one text.
pub(crate) fn texts(rows: &[Row]) -> Result<Vec<String>, StoreError> {
    rows.iter().map(|row| row.text(0)).collect()
}

pub(crate) fn counts(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    find: Find<'_>,
) -> Result<Vec<(String, u64)>, StoreError> {
    let rows = match find {
        Find::Mission(mission) => return counts_from(driver, project, kind, mission, 0),
        Find::Parent(parent) => {
            driver.query(COUNT_PARTS, params![project, kind.as_str(), parent])?
        }
        Find::Agent(agent) | Find::AgentStatus(agent, _) => driver.query(
            COUNT_OF_AGENT,
            params![project, kind.as_str(), agent.to_string()],
        )?,
        Find::All => driver.query(COUNT_ALL, params![project, kind.as_str()])?,
        Find::AgentName(_) | Find::EffectKey(..) => return Ok(Vec::new()),
    };
    counted(&rows)
}

/// Counts the subjects of a mission that were made at a revision or after it, by status.
pub(crate) fn counts_from(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    mission: MissionId,
    born: u64,
) -> Result<Vec<(String, u64)>, StoreError> {
    let of = params![project, kind.as_str(), mission.to_string(), born];
    counted(&driver.query(COUNT, of)?)
}

/// Reads rows of a word and a number.
pub(crate) fn counted(rows: &[Row]) -> Result<Vec<(String, u64)>, StoreError> {
    rows.iter()
        .map(|row| Ok((row.text(0)?, row.unsigned(1)?)))
        .collect()
}

/// Counts the subjects of a mission with this status, and all of them. Grouping would take a sorter.
pub(crate) fn share(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    mission: MissionId,
    status: &str,
) -> Result<(u64, u64), StoreError> {
    let of = params![project, kind.as_str(), mission.to_string(), status];
    match driver.query(SHARE, of)?.first() {
        Some(row) => Ok((row.unsigned(0)?, row.unsigned(1)?)),
        None => Ok((0, 0)),
    }
}

/// Returns the rows that fit, each with true when its columns are as they were written.
pub(crate) fn rows(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    find: Find<'_>,
) -> Result<Vec<(SubjectRow, bool)>, StoreError> {
    let sql = [
        ALL,
        BY_MISSION,
        BY_PARENT,
        BY_AGENT,
        BY_AGENT_NAME,
        BY_EFFECT_KEY,
    ];
    let mut rows = Vec::new();
    search_each(driver, sql, project, kind, find, &mut |row| {
        rows.push(row_of(kind, row)?);
        Ok(())
    })?;
    Ok(rows)
}

/// Reads rows with the columns of [`rows`], each with true when those are as they were written.
pub(crate) fn rows_of(kind: Kind, rows: Vec<Row>) -> Result<Vec<(SubjectRow, bool)>, StoreError> {
    rows.into_iter().map(|row| row_of(kind, row)).collect()
}

fn row_of(kind: Kind, row: Row) -> Result<(SubjectRow, bool), StoreError> {
    let sound = has_its_sum(kind, &row);
    Ok((from_row(row)?, sound))
}

/// Returns true when a row of [`rows`] has the sum of the columns by which it is found.
fn has_its_sum(kind: Kind, row: &Row) -> bool {
    let kind = SqlValue::from(kind.as_str());
    let columns = std::iter::once(&kind)
        .chain(&row.0[..6])
        .chain(&row.0[10..11]);
    matches!(&row.0[11], SqlValue::Text(found) if seal::is_sum(found, columns))
}

pub(crate) fn documents(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    find: Find<'_>,
) -> Result<Vec<StoredDocument>, StoreError> {
    let sql = [
        DOC_ALL,
        DOC_BY_MISSION,
        DOC_BY_PARENT,
        DOC_BY_AGENT,
        DOC_BY_AGENT_NAME,
        DOC_BY_EFFECT_KEY,
    ];
    let mut documents = Vec::new();
    search_each(driver, sql, project, kind, find, &mut |row| {
        documents.push(document(row)?);
        Ok(())
    })?;
    Ok(documents)
}

/// Returns the newest subjects of a mission that were made before a revision, newest first, without those of one status.
pub(crate) fn newest(
    driver: &mut dyn Driver,
    project: &str,
    (kind, mission): (Kind, MissionId),
    without: Option<&str>,
    before: u64,
    limit: u64,
) -> Result<Vec<StoredDocument>, StoreError> {
    let (kind, mission) = (kind.as_str(), mission.to_string());
    let of = params![project, kind, mission, without, before, limit];
    driver
        .query(NEWEST, of)?
        .into_iter()
        .map(document)
        .collect()
}

/// Returns the newest subjects of an agent with one status, newest first.
pub(crate) fn newest_of_agent(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    agent: AgentId,
    status: &str,
    limit: u64,
) -> Result<Vec<StoredDocument>, StoreError> {
    let of = params![project, kind.as_str(), agent.to_string(), status, limit];
    let found = driver.query(NEWEST_OF_AGENT, of)?;
    found.into_iter().map(document).collect()
}

/// Returns the documents whose text holds this, in capitals or not; perhaps some more, which hold the most of it.
pub(crate) fn holding(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    mission: Option<MissionId>,
    text: &str,
) -> Result<Vec<StoredDocument>, StoreError> {
    let mut pattern = String::from("%");
    // Wherever the first character of a pattern stands in a text, the rest is compared. So it is a rare one where there is one: a
    // quotation mark is everywhere in JSON.
    let rare = text.find(|character: char| "jkqxz".contains(character));
    for character in text[rare.unwrap_or(0)..].chars() {
        if matches!(character, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(character);
    }
    pattern.push('%');
    let kind = kind.as_str();
    let rows = match mission {
        Some(mission) => driver.query(
            HOLDING_OF_MISSION,
            params![project, kind, mission.to_string(), pattern],
        ),
        None => driver.query(HOLDING, params![project, kind, pattern]),
    }?;
    rows.into_iter().map(document).collect()
}

fn search_each(
    driver: &mut dyn Driver,
    sql: [&'static str; 6],
    project: &str,
    kind: Kind,
    find: Find<'_>,
    each: &mut dyn FnMut(Row) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let [
        all,
        by_mission,
        by_parent,
        by_agent,
        by_agent_name,
        by_effect_key,
    ] = sql;
    let kind = kind.as_str();
    let (sql, params) = match find {
        Find::All => (all, values![project, kind]),
        Find::Mission(mission) => (by_mission, values![project, kind, mission.to_string()]),
        Find::Parent(parent) => (by_parent, values![project, kind, parent]),
        Find::Agent(agent) => (
            by_agent,
            values![project, kind, agent.to_string(), None::<&str>],
        ),
        Find::AgentStatus(agent, status) => {
            (by_agent, values![project, kind, agent.to_string(), status])
        }
        Find::AgentName(name) => (by_agent_name, values![project, name]),
        Find::EffectKey(mission, key) => {
            (by_effect_key, values![project, mission.to_string(), key])
        }
    };
    driver.query_each(sql, &params, each)
}

pub(crate) fn document(mut row: Row) -> Result<StoredDocument, StoreError> {
    Ok(StoredDocument {
        id: row.take_text(3)?,
        rev: row.unsigned(4)?,
        // An absent text matches no hash.
        text: row.take_opt_text(0)?.unwrap_or_default(),
        sha: row.take_text(1)?,
    })
}

pub(crate) fn from_row(mut row: Row) -> Result<SubjectRow, StoreError> {
    Ok(SubjectRow {
        id: row.take_text(0)?,
        mission: row.take_opt_text(1)?,
        parent: row.take_opt_text(2)?,
        agent: row.take_opt_text(3)?,
        name: row.take_opt_text(4)?,
        status: row.take_text(5)?,
        born: row.unsigned(6)?,
        rev: row.unsigned(7)?,
        at: Time::from_millis(row.int(8)?),
        sha: row.take_text(9)?,
    })
}
