//! Answers questions about a project as a whole: one query each, where there would be one per mission or per agent.

use flightline_core::{AgentId, Kind, MissionId};

use super::statements;
use super::subject::{Find, StoredDocument, SubjectRow, counted, document, rows_of, texts};
use crate::engine::Driver;
use crate::error::StoreError;
use crate::value::{SqlValue, params, values};

// The rule of what counts as work is that of `event::last_work`. Unknown words were damaged: rows that hold them are
// found as well, and their content is known when they are read.
statements! {
    // Not as a join: SQLite would make a filter of all missions first.
    LAST_OPEN = "SELECT e.mission FROM event e WHERE e.project = ?1 AND e.rev > ?2 AND e.mission IS NOT NULL \
        AND e.kind <> 'context_compacted' \
        AND e.actor <> 'flightline' AND e.subject_kind NOT IN ('briefing', 'checkpoint', 'milestone', 'recovery') \
        AND (SELECT s.status FROM subject s WHERE s.project = ?1 AND s.kind = 'mission' AND s.id = e.mission AND s.gone IS NULL) \
        IN ('pending', 'in_progress') ORDER BY e.rev DESC LIMIT 1";
    LAST_OVER = "SELECT e.mission FROM event e WHERE e.project = ?1 AND e.rev > ?2 AND e.mission IS NOT NULL \
        AND e.kind <> 'context_compacted' \
        AND e.actor <> 'flightline' AND e.subject_kind NOT IN ('briefing', 'checkpoint', 'milestone', 'recovery') \
        AND (SELECT s.status FROM subject s WHERE s.project = ?1 AND s.kind = 'mission' AND s.id = e.mission AND s.gone IS NULL) \
        NOT IN ('pending', 'in_progress', 'archived') ORDER BY e.rev DESC LIMIT 1";
    LAST_OF_EACH_OPEN = "SELECT s.id, coalesce((SELECT e.rev FROM event e WHERE e.project = ?1 AND e.mission = s.id \
        AND e.kind <> 'context_compacted' AND e.actor <> 'flightline' \
        AND e.subject_kind NOT IN ('briefing', 'checkpoint', 'milestone', 'recovery') ORDER BY e.rev DESC LIMIT 1), s.rev) AS last \
        FROM subject s WHERE s.project = ?1 AND s.kind = 'mission' AND s.gone IS NULL \
        AND s.status IN ('pending', 'in_progress') ORDER BY last DESC, s.id DESC LIMIT 1";
    LAST_OF_EACH_OVER = "SELECT s.id, coalesce((SELECT e.rev FROM event e WHERE e.project = ?1 AND e.mission = s.id \
        AND e.kind <> 'context_compacted' AND e.actor <> 'flightline' \
        AND e.subject_kind NOT IN ('briefing', 'checkpoint', 'milestone', 'recovery') ORDER BY e.rev DESC LIMIT 1), s.rev) AS last \
        FROM subject s WHERE s.project = ?1 AND s.kind = 'mission' AND s.gone IS NULL \
        AND s.status NOT IN ('pending', 'in_progress', 'archived') ORDER BY last DESC, s.id DESC LIMIT 1";
    OLDEST = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
        WHERE project = ?1 AND kind = ?2 AND gone IS NULL AND born > ?4 \
        AND length(replace(CAST(?3 AS TEXT), ',' || status || ',', '')) >= length(?3) ORDER BY born LIMIT CAST(?5 AS BIGINT)";
    OLDEST_OF_NO_MISSION = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
        WHERE project = ?1 AND kind = ?2 AND mission IS NULL AND gone IS NULL AND born > ?4 \
        AND length(replace(CAST(?3 AS TEXT), ',' || status || ',', '')) >= length(?3) ORDER BY born LIMIT CAST(?5 AS BIGINT)";
    OLDEST_OF_MISSION = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
        WHERE project = ?1 AND kind = ?2 AND mission = ?6 AND gone IS NULL AND born > ?4 \
        AND length(replace(CAST(?3 AS TEXT), ',' || status || ',', '')) >= length(?3) ORDER BY born LIMIT CAST(?5 AS BIGINT)";
    OLDEST_OF_AGENT = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
        WHERE project = ?1 AND kind = ?2 AND agent = ?6 AND gone IS NULL AND born > ?4 \
        AND length(replace(CAST(?3 AS TEXT), ',' || status || ',', '')) >= length(?3) ORDER BY born LIMIT CAST(?5 AS BIGINT)";
    NEWEST = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
        WHERE project = ?1 AND kind = ?2 AND gone IS NULL AND born < ?4 \
        AND length(replace(CAST(?3 AS TEXT), ',' || status || ',', '')) >= length(?3) ORDER BY born DESC LIMIT CAST(?5 AS BIGINT)";
    NEWEST_OF_MISSION = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
        WHERE project = ?1 AND kind = ?2 AND mission = ?6 AND gone IS NULL AND born < ?4 \
        AND length(replace(CAST(?3 AS TEXT), ',' || status || ',', '')) >= length(?3) ORDER BY born DESC LIMIT CAST(?5 AS BIGINT)";
    NEWEST_OF_NO_MISSION = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
        WHERE project = ?1 AND kind = ?2 AND mission IS NULL AND gone IS NULL AND born < ?4 \
        AND length(replace(CAST(?3 AS TEXT), ',' || status || ',', '')) >= length(?3) ORDER BY born DESC LIMIT CAST(?5 AS BIGINT)";
    NEWEST_OF_AGENT = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
        WHERE project = ?1 AND kind = ?2 AND agent = ?6 AND gone IS NULL AND born < ?4 \
        AND length(replace(CAST(?3 AS TEXT), ',' || status || ',', '')) >= length(?3) ORDER BY born DESC LIMIT CAST(?5 AS BIGINT)";
    ROW = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
        WHERE project = ?1 AND kind = ?2 AND id = ?3 AND gone IS NULL";
    OF_STATUS = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
        WHERE project = ?1 AND kind = ?2 AND mission = ?3 AND status = ?4 AND gone IS NULL ORDER BY born, id LIMIT CAST(?5 AS BIGINT)";
    UNDER_WAY = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
        WHERE project = ?1 AND kind = 'mission' AND gone IS NULL \
        AND status NOT IN ('pending', 'paused', 'completed', 'failed', 'archived') ORDER BY born, id";
    HELD = "SELECT id, mission, parent, agent, name, status, born, rev, at, sha, percent, sum FROM subject \
        WHERE project = ?1 AND kind = 'sortie' AND agent IS NOT NULL AND gone IS NULL \
        AND status NOT IN ('pending', 'completed', 'failed', 'skipped') ORDER BY born, id";
    UNREAD = "SELECT agent, CAST(count(*) AS BIGINT) FROM subject \
        WHERE project = ?1 AND kind = 'delivery' AND agent IS NOT NULL AND gone IS NULL AND status IN ('pending', 'delivered') \
        GROUP BY agent ORDER BY agent";
    NOT_HOLDING = "SELECT doc, sha, gone, id, rev FROM subject \
        WHERE project = ?1 AND kind = ?2 AND gone IS NULL AND doc NOT LIKE ?3 ESCAPE '!' ORDER BY born, id";
    TROUBLED = "SELECT DISTINCT m.id FROM subject m CROSS JOIN subject s WHERE m.project = ?1 AND m.kind = 'mission' AND m.gone IS NULL \
        AND m.status NOT IN ('completed', 'failed', 'archived') \
        AND s.project = ?1 AND s.kind = 'sortie' AND s.mission = m.id AND s.gone IS NULL \
        AND s.status NOT IN ('pending', 'assigned', 'in_progress', 'completed', 'skipped') ORDER BY m.id";
    NOTED = "SELECT DISTINCT m.id FROM subject m CROSS JOIN subject s WHERE m.project = ?1 AND m.kind = 'mission' AND m.gone IS NULL \
        AND m.status NOT IN ('completed', 'failed', 'archived') \
        AND s.project = ?1 AND s.kind = 'note' AND s.mission = m.id AND s.gone IS NULL AND s.status = ?2 ORDER BY m.id";
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissionFilter {
    /// Missions that wait or are under way.
    Open,
    /// The other missions, without archived ones.
    Over,
}

/// A list of subjects of one kind.
#[derive(Clone, Copy, Debug)]
pub struct RowList<'a> {
    pub kind: Kind,
    pub scope: ListScope,
    /// The statuses whose subjects are not listed. A damaged status is none of them, so that its row is not lost.
    pub without: &'a [&'a str],
}

/// The subjects among which a list looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListScope {
    All,
    /// All of a kind whose subjects belong to no mission: an index has them in their order.
    NoMission,
    Mission(MissionId),
    Agent(AgentId),
}

impl ListScope {
    pub const fn find(self) -> Find<'static> {
        match self {
            Self::All | Self::NoMission => Find::All,
            Self::Mission(id) => Find::Mission(id),
            Self::Agent(id) => Find::Agent(id),
        }
    }
}

impl<'a> RowList<'a> {
    pub const fn new(kind: Kind, scope: ListScope, without: &'a [&'a str]) -> Self {
        Self {
            kind,
            scope,
            without,
        }
    }

    /// Returns true when this row is one of the list.
    pub fn has(&self, row: &SubjectRow) -> bool {
        let is_in_scope = match self.scope {
            ListScope::All | ListScope::NoMission => true,
            ListScope::Mission(id) => row.mission.as_deref() == Some(&*id.to_string()),
            ListScope::Agent(id) => row.agent.as_deref() == Some(&*id.to_string()),
        };
        is_in_scope && !self.without.contains(&&*row.status)
    }
}

/// The order of a list, and the place to go on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOrder {
    /// The oldest first, after the subject made at this revision.
    OldestAfter(u64),
    /// The newest first, before the subject made at this revision.
    NewestBefore(u64),
}

impl ListOrder {
    pub const NEWEST: Self = Self::NewestBefore(u64::MAX);
    pub const OLDEST: Self = Self::OldestAfter(0);

    /// Returns this order, going on from the subject made at this revision.
    #[must_use]
    pub const fn from(self, born: u64) -> Self {
        match self {
            Self::OldestAfter(_) => Self::OldestAfter(born),
            Self::NewestBefore(_) => Self::NewestBefore(born),
        }
    }
}

/// The numbers of revisions that are searched for the last work on any mission, first a few, before each mission is asked.
const LATELY: [u64; 2] = [8, 64];

/// Returns the mission of this state that was worked on last.
pub(crate) fn last_worked_on(
    driver: &mut dyn Driver,
    project: &str,
    rev: u64,
    state: MissionFilter,
) -> Result<Option<String>, StoreError> {
    let (lately, of_each) = match state {
        MissionFilter::Open => (LAST_OPEN, LAST_OF_EACH_OPEN),
        MissionFilter::Over => (LAST_OVER, LAST_OF_EACH_OVER),
    };
    // Almost always it is one of the newest events of all.
    for few in LATELY {
        let found = driver.query(lately, params![project, rev.saturating_sub(few)])?;
        if let Some(row) = found.first() {
            return row.text(0).map(Some);
        }
    }
    let found = driver.query(of_each, params![project])?;
    found.first().map(|row| row.text(0)).transpose()
}

/// Returns the next rows of a list, each with true when its columns are as they were written.
pub(crate) fn some(
    driver: &mut dyn Driver,
    project: &str,
    list: RowList<'_>,
    order: ListOrder,
    limit: u64,
) -> Result<Vec<(SubjectRow, bool)>, StoreError> {
    let (oldest, newest, of) = match list.scope {
        ListScope::All => (OLDEST, NEWEST, None),
        ListScope::NoMission => (OLDEST_OF_NO_MISSION, NEWEST_OF_NO_MISSION, None),
        ListScope::Mission(id) => (OLDEST_OF_MISSION, NEWEST_OF_MISSION, Some(id.to_string())),
        ListScope::Agent(id) => (OLDEST_OF_AGENT, NEWEST_OF_AGENT, Some(id.to_string())),
    };
    let (sql, from) = match order {
        ListOrder::OldestAfter(born) => (oldest, born),
        ListOrder::NewestBefore(born) => (newest, born),
    };
    let without: String = list.without.iter().flat_map(|word| [",", word]).collect();
    let without = without + ",";
    let mut params = values![project, list.kind.as_str(), without, from, limit];
    params.extend(of.map(SqlValue::from));
    rows_of(list.kind, driver.query(sql, &params)?)
}

pub(crate) fn row(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    id: &str,
) -> Result<Vec<(SubjectRow, bool)>, StoreError> {
    rows_of(
        kind,
        driver.query(ROW, params![project, kind.as_str(), id])?,
    )
}

/// Returns the rows of a mission that have this status, at most `limit`, likewise.
pub(crate) fn of_status(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    (mission, status): (MissionId, &str),
    limit: u64,
) -> Result<Vec<(SubjectRow, bool)>, StoreError> {
    let params = params![project, kind.as_str(), mission.to_string(), status, limit];
    rows_of(kind, driver.query(OF_STATUS, params)?)
}

/// Returns the missions that are under way, likewise.
pub(crate) fn under_way(
    driver: &mut dyn Driver,
    project: &str,
) -> Result<Vec<(SubjectRow, bool)>, StoreError> {
    rows_of(Kind::Mission, driver.query(UNDER_WAY, params![project])?)
}

/// Returns the sorties that agents hold, likewise.
pub(crate) fn held(
    driver: &mut dyn Driver,
    project: &str,
) -> Result<Vec<(SubjectRow, bool)>, StoreError> {
    rows_of(Kind::Sortie, driver.query(HELD, params![project])?)
}

/// Counts the messages that each agent has not acknowledged.
pub(crate) fn unread(
    driver: &mut dyn Driver,
    project: &str,
) -> Result<Vec<(String, u64)>, StoreError> {
    counted(&driver.query(UNREAD, params![project])?)
}

/// The missions that are not over and have sorties that are blocked or failed.
pub(crate) fn troubled(driver: &mut dyn Driver, project: &str) -> Result<Vec<String>, StoreError> {
    texts(&driver.query(TROUBLED, params![project])?)
}

/// The missions that are not over and have notes of this status.
pub(crate) fn noted(
    driver: &mut dyn Driver,
    project: &str,
    status: &str,
) -> Result<Vec<String>, StoreError> {
    texts(&driver.query(NOTED, params![project, status])?)
}

/// The documents of a kind whose text does not hold this, oldest first.
pub(crate) fn not_holding(
    driver: &mut dyn Driver,
    project: &str,
    kind: Kind,
    text: &str,
) -> Result<Vec<StoredDocument>, StoreError> {
    let mut pattern = String::from("%");
    for character in text.chars() {
        if matches!(character, '%' | '_' | '!') {
            pattern.push('!');
        }
        pattern.push(character);
    }
    pattern.push('%');
    let rows = driver.query(NOT_HOLDING, params![project, kind.as_str(), pattern])?;
    rows.into_iter().map(document).collect()
}
