//! Checks and repairs the rows beside the journal: each has its sum.

use flightline_core::AgentId;
use flightline_core::agent::Agent;
use flightline_core::checkpoint::Backup;
use flightline_core::{CheckpointId, Kind};

use super::{VerifyPart, VerifyProgress};
use crate::engine::Driver;
use crate::error::StoreError;
use crate::seal;
use crate::table::project::RowRepair;
use crate::table::{backup, project, pulse, statements};
use crate::tx::Tx;
use crate::value::{Row, params};

statements! {
    PULSES = "SELECT agent, epoch, at, data, sum FROM pulse WHERE project = ?1 ORDER BY agent";
    REQUESTS = "SELECT actor, key, hash, outcome, at, sum FROM request \
                WHERE project = ?1 AND (actor, key) > (?2, ?3) ORDER BY actor, key LIMIT 500";
    BACKUPS = "SELECT checkpoint, state, at, bytes, sha, why, sum FROM backup \
                WHERE project = ?1 AND checkpoint > ?2 ORDER BY checkpoint LIMIT 500";
    WATCHES = "SELECT lock, since, at, sum FROM watch WHERE project = ?1 ORDER BY lock";
    DROP_WATCH = "DELETE FROM watch WHERE project = ?1 AND lock = ?2";
    DROP_PULSE = "DELETE FROM pulse WHERE project = ?1 AND agent = ?2";
    DROP_REQUEST = "DELETE FROM request WHERE project = ?1 AND actor = ?2 AND key = ?3";
    DROP_BACKUP = "DELETE FROM backup WHERE project = ?1 AND checkpoint = ?2";
}

/// A row beside the journal that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stale {
    /// The last sign of life of this agent.
    Pulse(String),
    Watch(String),
    /// A remembered request: its author, and its key.
    Request(String, String),
    /// The state of the file of this checkpoint.
    Backup(String),
    Project,
}

impl std::fmt::Display for Stale {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pulse(agent) => write!(f, "the last sign of life of {agent} is damaged"),
            Self::Watch(lock) => write!(f, "the start of the wait for {lock} is damaged"),
            Self::Request(actor, key) => {
                let key: String = key.chars().take(12).collect();
                write!(f, "the outcome of request {key} of {actor} is damaged")
            }
            Self::Backup(checkpoint) => {
                write!(f, "the record of the file of {checkpoint} is damaged")
            }
            Self::Project => f.write_str("the project's row is damaged"),
        }
    }
}

/// Returns every row beside the journal that is not as it was written.
pub(crate) fn walk(
    driver: &mut dyn Driver,
    project: &str,
    watch: &mut VerifyProgress<'_>,
) -> Result<Vec<Stale>, StoreError> {
    let mut found = Vec::new();
    for row in driver.query(PULSES, params![project])? {
        if !is_sound_pulse(&row)? {
            found.push(Stale::Pulse(row.text(0)?));
        }
    }
    for row in driver.query(WATCHES, params![project])? {
        if !seal::has_its_sum(&row)? {
            found.push(Stale::Watch(row.text(0)?));
        }
    }
    let (mut actor, mut key, mut seen) = (String::new(), String::new(), 0);
    loop {
        let rows = driver.query(REQUESTS, params![project, actor.as_str(), key.as_str()])?;
        let Some(last) = rows.last() else { break };
        (actor, key) = (last.text(0)?, last.text(1)?);
        for row in &rows {
            if !seal::has_its_sum(row)? {
                found.push(Stale::Request(row.text(0)?, row.text(1)?));
            }
        }
        seen += rows.len() as u64;
        watch.tell(VerifyPart::Beside, seen);
    }
    let mut checkpoint = String::new();
    loop {
        let rows = driver.query(BACKUPS, params![project, checkpoint.as_str()])?;
        let Some(last) = rows.last() else { break };
        checkpoint = last.text(0)?;
        for row in &rows {
            if !seal::has_its_sum(row)? {
                found.push(Stale::Backup(row.text(0)?));
            }
        }
    }
    Ok(found)
}

fn is_sound_pulse(row: &Row) -> Result<bool, StoreError> {
    let Ok(epoch) = row.unsigned(1) else {
        return Ok(false);
    };
    let sum = pulse::sum(&row.text(0)?, epoch, row.int(2)?, &row.text(3)?);
    Ok(sum == row.text(4)?)
}

impl Tx<'_> {
    /// Repairs damaged rows beside the journal. An agent counts as heard now, and loses nothing; a request that cannot be
    /// answered is forgotten; a file whose state is unknown is written anew. Returns a sentence about the repair.
    pub fn mend_beside(&mut self, stale: &Stale) -> Result<String, StoreError> {
        let project = self.project.id.clone();
        let done = match stale {
            Stale::Pulse(agent) => {
                self.driver
                    .execute(DROP_PULSE, params![project.as_str(), agent.as_str()])?;
                let known = match agent.parse::<AgentId>() {
                    Ok(id) => self.get::<Agent>(agent).unwrap_or(None).map(|it| (id, it)),
                    Err(_) => None,
                };
                let done = match known {
                    Some((id, known)) => {
                        self.beat(id, known.epoch, &serde_json::json!({}))?;
                        "the agent counts as heard now"
                    }
                    None => "removed, because there is no such agent",
                };
                self.record_mending(Kind::Agent, agent, 0, "sign of life", done)?;
                done
            }
            Stale::Watch(lock) => {
                self.driver
                    .execute(DROP_WATCH, params![project.as_str(), lock.as_str()])?;
                self.record_mending(Kind::Lock, lock, 0, "watch", "forgotten")?;
                "forgotten"
            }
            Stale::Request(actor, key) => {
                let row = params![project.as_str(), actor.as_str(), key.as_str()];
                self.driver.execute(DROP_REQUEST, row)?;
                self.record_mending(Kind::Setting, key, 0, "request", actor)?;
                "forgotten"
            }
            Stale::Backup(checkpoint) => {
                let row = params![project.as_str(), checkpoint.as_str()];
                self.driver.execute(DROP_BACKUP, row)?;
                let known = match checkpoint.parse::<CheckpointId>() {
                    Ok(id) => self.changed(Kind::Checkpoint, checkpoint)?.map(|_| id),
                    Err(_) => None,
                };
                let done = match known {
                    Some(id) => {
                        backup::set(self.driver, &project, id, &Backup::Pending, self.now)?;
                        "the file is to be written anew"
                    }
                    None => "removed, because there is no such checkpoint",
                };
                self.record_mending(Kind::Checkpoint, checkpoint, 0, "backup", done)?;
                done
            }
            Stale::Project => {
                // Before any write: its sum is of the old rows.
                let proven = self.project.heal();
                let place = "the project's row";
                self.record_mending(Kind::Setting, "project", 0, place, "journal")?;
                self.project.intact = true;
                project::mend(self.driver, &self.project)?;
                project::advance(self.driver, &self.project)?;
                self.losses.retain(|loss| *loss != crate::Loss::Project);
                match proven {
                    RowRepair::Rest => {
                        "its counter was taken from the journal, and its sum proves the rest"
                    }
                    RowRepair::Name => "its name was restored, and its checksum proves it",
                    RowRepair::History => "its history was restored, and its checksum proves it",
                    RowRepair::Created => {
                        "its creation time was restored, and its checksum proves it"
                    }
                    RowRepair::Nothing => {
                        "its counter was taken from the journal; nothing proves its name, its history and when it was made, which stay as they are"
                    }
                }
            }
        };
        Ok(format!("{stale}; {done}"))
    }
}
