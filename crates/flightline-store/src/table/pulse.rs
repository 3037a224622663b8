//! Heartbeats: the last sign of life of each agent, beside the journal.

use flightline_core::{AgentId, Time};
use serde_json::Value as Json;

use super::statements;
use crate::engine::Driver;
use crate::error::StoreError;
use crate::seal;
use crate::value::{SqlValue, params, values};

statements! {
    // A pulse never moves an agent's last sign of life backwards, nor revives an older incarnation. One that
    // lies more than ten minutes ahead was noted by a clock that was wrong, and is put right.
    // Each column has its part of the sum, because each is kept or written by itself.
    BEAT = "INSERT INTO pulse (project, agent, epoch, at, data, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
            ON CONFLICT (project, agent) DO UPDATE SET epoch = excluded.epoch, \
            at = CASE WHEN excluded.at > pulse.at OR pulse.at > excluded.at + 600000 THEN excluded.at ELSE pulse.at END, \
            data = CASE WHEN excluded.data = '{}' AND excluded.epoch = pulse.epoch THEN pulse.data ELSE excluded.data END, \
            sum = substr(excluded.sum, 1, 8) \
            || (CASE WHEN excluded.at > pulse.at OR pulse.at > excluded.at + 600000 THEN substr(excluded.sum, 9, 8) ELSE substr(pulse.sum, 9, 8) END) \
            || (CASE WHEN excluded.data = '{}' AND excluded.epoch = pulse.epoch THEN substr(pulse.sum, 17, 8) ELSE substr(excluded.sum, 17, 8) END) \
            WHERE excluded.epoch >= pulse.epoch";
    // Told of later by a document: the signs of life since then stay, wherever the clock was.
    BEAT_THEN = "INSERT INTO pulse (project, agent, epoch, at, data, sum) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
                 ON CONFLICT (project, agent) DO UPDATE SET epoch = excluded.epoch, at = excluded.at, \
                 sum = substr(excluded.sum, 1, 16) || substr(pulse.sum, 17, 8) \
                 WHERE excluded.epoch >= pulse.epoch AND excluded.at > pulse.at";
    ALL = "SELECT agent, epoch, at, data, sum FROM pulse WHERE project = ?1 ORDER BY agent";
    OF = "SELECT agent, epoch, at, data, sum FROM pulse WHERE project = ?1 AND agent = ?2";
    OF_SOME = "SELECT agent, epoch, at, data, sum FROM pulse WHERE project = ?1 AND agent IN (?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ORDER BY agent";
    // Holds the row: a heartbeat that comes now waits, and one that came before makes this find nothing.
    TAKE = "UPDATE pulse SET data = data WHERE project = ?1 AND agent = ?2 AND at <= ?3";
    // Noted by a clock that was ahead. They are put right at once: else they would look like news when the clock comes there.
    AHEAD_OF = "SELECT agent FROM pulse WHERE project = ?1 AND at > ?2 ORDER BY agent";
    PUT_RIGHT = "UPDATE pulse SET at = ?3, sum = substr(sum, 1, 8) || ?4 || substr(sum, 17, 8) WHERE project = ?1 AND agent = ?2";
    NEWEST = "SELECT CAST(max(at) AS BIGINT) FROM pulse WHERE project = ?1";
}

/// An agent's last sign of life.
#[derive(Clone, Debug, PartialEq)]
pub struct Pulse {
    pub agent: String,
    pub epoch: u64,
    pub at: Time,
    /// The agent's report on itself: step, context, tokens.
    pub data: Json,
}

/// The report of a sign of life that tells nothing else.
const NOTHING: &str = "{}";
/// The lead in milliseconds above which a clock was wrong.
const AHEAD: u64 = 600_000;

impl Pulse {
    /// Applies a sign of life as [`BEAT`] does.
    pub(crate) fn hear(&mut self, epoch: u64, at: Time, data: &Json) {
        if epoch < self.epoch {
            return;
        }
        // The data of an older incarnation ends with it.
        if epoch > self.epoch || data.as_object().is_none_or(|data| !data.is_empty()) {
            self.data = data.clone();
        }
        self.epoch = epoch;
        if at > self.at || self.at > at.plus(AHEAD) {
            self.at = at;
        }
    }

    /// Applies a sign of life of the past as [`BEAT_THEN`] does.
    pub(crate) fn hear_of(&mut self, epoch: u64, at: Time) {
        if epoch >= self.epoch && at > self.at {
            self.epoch = epoch;
            self.at = at;
        }
    }
}

/// Notes a sign of life of the past, unless a later one is known.
pub(crate) fn record_past_pulse(
    driver: &mut dyn Driver,
    project: &str,
    agent: AgentId,
    epoch: u64,
    at: Time,
) -> Result<(), StoreError> {
    let (agent, data) = (agent.to_string(), NOTHING);
    let sum = sum(&agent, epoch, at.as_millis(), data);
    driver.post(
        BEAT_THEN,
        values![project, agent, epoch, at.as_millis(), data, sum],
    )
}

pub(crate) fn beat(
    driver: &mut dyn Driver,
    project: &str,
    agent: AgentId,
    epoch: u64,
    at: Time,
    data: &Json,
) -> Result<(), StoreError> {
    let (agent, data) = (agent.to_string(), data.to_string());
    let sum = sum(&agent, epoch, at.as_millis(), &data);
    driver.post(
        BEAT,
        values![project, agent, epoch, at.as_millis(), data, sum],
    )
}

/// The sum of a sign of life: a part for each of its columns, with the agent in each.
pub(crate) fn sum(agent: &str, epoch: u64, at: i64, data: &str) -> String {
    let parts = [
        seal::part(params![agent, epoch]),
        seal::part(params![agent, at]),
        seal::part(params![agent, data]),
    ];
    parts.concat()
}

pub(crate) fn all(driver: &mut dyn Driver, project: &str) -> Result<Vec<Pulse>, StoreError> {
    let rows = driver.query(ALL, params![project])?;
    let pulses = rows.iter().map(from_row).collect::<Result<Vec<_>, _>>()?;
    Ok(pulses.into_iter().flatten().collect())
}

pub(crate) fn of(
    driver: &mut dyn Driver,
    project: &str,
    agent: AgentId,
) -> Result<Option<Pulse>, StoreError> {
    let rows = driver.query(OF, params![project, agent.to_string()])?;
    Ok(rows.first().map(from_row).transpose()?.flatten())
}

/// The most agents whose signs of life are read by name; for more, all are read.
pub(crate) const SOME: usize = 8;

/// The signs of life of a few agents, [`SOME`] at most.
pub(crate) fn of_some(
    driver: &mut dyn Driver,
    project: &str,
    agents: &[AgentId],
) -> Result<Vec<Pulse>, StoreError> {
    let mut params = vec![SqlValue::from(project)];
    params.extend(agents.iter().map(|id| SqlValue::from(id.to_string())));
    params.resize(SOME + 1, SqlValue::from(""));
    let rows = driver.query(OF_SOME, &params)?;
    let pulses = rows.iter().map(from_row).collect::<Result<Vec<_>, _>>()?;
    Ok(pulses.into_iter().flatten().collect())
}

/// Holds the pulse of an agent that gave no sign of life after `since`; false when it did.
pub(crate) fn take(
    driver: &mut dyn Driver,
    project: &str,
    agent: AgentId,
    since: Time,
) -> Result<bool, StoreError> {
    Ok(driver.execute(TAKE, params![project, agent.to_string(), since.as_millis()])? == 1)
}

/// Sets signs of life that lie ahead of the clock to this moment.
pub(crate) fn put_right(
    driver: &mut dyn Driver,
    project: &str,
    now: Time,
) -> Result<(), StoreError> {
    for row in driver.query(AHEAD_OF, params![project, now.as_millis()])? {
        let agent = row.text(0)?;
        let part = seal::part(params![agent.as_str(), now.as_millis()]);
        driver.execute(PUT_RIGHT, params![project, agent, now.as_millis(), part])?;
    }
    Ok(())
}

pub(crate) fn newest(driver: &mut dyn Driver, project: &str) -> Result<Option<Time>, StoreError> {
    match driver.query(NEWEST, params![project])?.first() {
        Some(row) => Ok(row.opt_int(0)?.map(Time::from_millis)),
        None => Ok(None),
    }
}

/// Reads a sign of life; none when it is damaged: the next one puts it right.
fn from_row(row: &crate::value::Row) -> Result<Option<Pulse>, StoreError> {
    let (agent, at, data, found) = (row.text(0)?, row.int(2)?, row.text(3)?, row.text(4)?);
    let Ok(epoch) = row.unsigned(1) else {
        return Ok(None);
    };
    let sum = sum(&agent, epoch, at, &data);
    // The agent, its epoch and the time must match the sum; the data may be missing.
    let heard = sum.len() - sum.len() / 3;
    if found.get(..heard) != sum.get(..heard) {
        return Ok(None);
    }
    Ok(Some(Pulse {
        agent,
        epoch,
        at: Time::from_millis(at),
        data: match found == sum {
            true => serde_json::from_str(&data).unwrap_or_default(),
            false => Json::default(),
        },
    }))
}
