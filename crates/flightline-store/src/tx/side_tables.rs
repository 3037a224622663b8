//! Reads and writes the rows beside the journal: files of checkpoints, signs of life, answered requests.

use flightline_core::checkpoint::Backup;
use flightline_core::event::sha256_hex;
use flightline_core::lock::LockWatch;
use flightline_core::{AgentId, CheckpointId, LockId, MissionId, Time};
use serde_json::Value as Json;

use super::{Past, Tx};
use crate::error::StoreError;
use crate::table::backup::{WaitingBackup, WrittenBackup};
use crate::table::pulse::Pulse;
use crate::table::request::Remembered;
use crate::table::{backup, pulse, request, watch};
use crate::write_cache::WriteCache;

impl Tx<'_> {
    /// Records the state of a checkpoint's copy in a file.
    pub fn set_backup(
        &mut self,
        checkpoint: CheckpointId,
        backup: &Backup,
    ) -> Result<(), StoreError> {
        backup::set(self.driver, &self.project.id, checkpoint, backup, self.now)
    }

    /// The state of a checkpoint's file. Without a row the file is still to be written.
    pub fn backup_of(&mut self, checkpoint: CheckpointId) -> Result<Backup, StoreError> {
        let found = backup::of(self.driver, &self.project.id, checkpoint)?;
        Ok(found.unwrap_or(Backup::Pending))
    }

    /// The state of every checkpoint's copy in a file.
    pub fn backups(&mut self) -> Result<Vec<(CheckpointId, Backup)>, StoreError> {
        backup::all(self.driver, &self.project.id)
    }

    /// The states of the copies in files of a mission's newest checkpoints that were made before a revision, without those
    /// of one status.
    pub fn backups_of_newest(
        &mut self,
        mission: MissionId,
        without: Option<&str>,
        before: u64,
        limit: u64,
    ) -> Result<Vec<(CheckpointId, Backup)>, StoreError> {
        backup::of_newest(
            self.driver,
            &self.project.id,
            mission,
            without,
            before,
            limit,
        )
    }

    /// Checkpoints whose copy in a file is yet to be written.
    pub fn unsettled_backups(&mut self) -> Result<Vec<CheckpointId>, StoreError> {
        backup::unsettled(self.driver, &self.project.id)
    }

    /// Returns the checkpoints whose files are not settled, those first that were never tried.
    pub fn waiting_backups(&mut self, limit: u64) -> Result<Vec<WaitingBackup>, StoreError> {
        backup::waiting(self.driver, &self.project.id, limit)
    }

    /// Returns those of a mission's newest checkpoints that have their copies in files.
    pub fn written_backups(
        &mut self,
        mission: MissionId,
        newest: u64,
    ) -> Result<Vec<WrittenBackup>, StoreError> {
        backup::written(self.driver, &self.project.id, mission, newest)
    }

    /// Returns the revision of the record of a mission's newest checkpoint that has its copy in a file, if that is after
    /// `born`. When very many are newer and none of those looked at has a file, the newest of them counts as if it had
    /// one.
    pub fn backup_written_after(
        &mut self,
        mission: MissionId,
        born: u64,
    ) -> Result<Option<u64>, StoreError> {
        backup::written_after(self.driver, &self.project.id, mission, born)
    }

    /// Forgets the copy of a checkpoint that is gone.
    pub fn forget_backup(&mut self, checkpoint: CheckpointId) -> Result<(), StoreError> {
        backup::forget(self.driver, &self.project.id, checkpoint)
    }

    /// Notes a sign of life.
    pub fn beat(&mut self, agent: AgentId, epoch: u64, data: &Json) -> Result<(), StoreError> {
        let cache = self.cache.as_mut();
        let news = cache.is_none_or(|it| it.beat(&agent.to_string(), epoch, self.now, data));
        match news {
            true => pulse::beat(self.driver, &self.project.id, agent, epoch, self.now, data),
            // An agent may have several writes in one commit: the first sign of life is enough.
            false => Ok(()),
        }
    }

    /// Notes a sign of life that an agent gave at [`Tx::now`], the moment that is reported. A later one stays.
    pub fn record_past_pulse(&mut self, agent: AgentId, epoch: u64) -> Result<(), StoreError> {
        let at = self.now();
        pulse::record_past_pulse(self.driver, &self.project.id, agent, epoch, at)?;
        if let Some(cache) = &mut self.cache {
            cache.record_past_pulse(&agent.to_string(), epoch, at);
        }
        Ok(())
    }

    /// The last sign of life of every agent.
    pub fn pulses(&mut self) -> Result<Vec<Pulse>, StoreError> {
        match &self.cache {
            Some(_) => self.known_pulses().cloned(),
            None => pulse::all(self.driver, &self.project.id),
        }
    }

    /// Returns the last sign of life of every agent, ordered by agent, from the cache.
    fn known_pulses(&mut self) -> Result<&Vec<Pulse>, StoreError> {
        // Elsewhere others may have been heard meanwhile.
        let is_checked = cfg!(debug_assertions) && self.driver.name() == "sqlite";
        let known = self.cache.as_deref().and_then(WriteCache::pulses);
        if known.is_none() || is_checked {
            let found = pulse::all(self.driver, &self.project.id)?;
            if let Some(known) = self.cache.as_deref().and_then(WriteCache::pulses) {
                assert_eq!(*known, found, "signs of life");
            } else if let Some(cache) = &mut self.cache {
                cache.learn_pulses(found, self.now);
            }
        }
        let known = self.cache.as_deref().and_then(WriteCache::pulses);
        known.ok_or_else(|| StoreError::Corrupt("no sign of life is remembered".to_owned()))
    }

    /// The last signs of life of these agents, ordered by agent; perhaps others' as well.
    pub fn pulses_of(&mut self, agents: &[AgentId]) -> Result<Vec<Pulse>, StoreError> {
        match agents {
            [] => Ok(Vec::new()),
            few if few.len() <= pulse::SOME => match &self.cache {
                // The signs of life of all agents are read once and followed from then on: the question would have to
                // see this write's own.
                Some(cache) if cache.follows_pulses() => {
                    let mut ids: Vec<String> = few.iter().map(ToString::to_string).collect();
                    ids.sort_unstable();
                    ids.dedup();
                    let all = self.known_pulses()?;
                    let of = |id: &String| all.binary_search_by(|it| it.agent.cmp(id)).ok();
                    Ok(ids
                        .iter()
                        .filter_map(of)
                        .map(|at| all[at].clone())
                        .collect())
                }
                _ => pulse::of_some(self.driver, &self.project.id, few),
            },
            _ => self.pulses(),
        }
    }

    /// The last sign of life of one agent.
    pub fn pulse(&mut self, agent: AgentId) -> Result<Option<Pulse>, StoreError> {
        pulse::of(self.driver, &self.project.id, agent)
    }

    /// Makes sure, until the end of this transaction, that an agent gave no sign of life after `since`. Returns false when
    /// it did: it is alive after all.
    pub fn hold_pulse(&mut self, agent: AgentId, since: Time) -> Result<bool, StoreError> {
        pulse::take(self.driver, &self.project.id, agent, since)
    }

    /// The time since which an agent has been waiting for a lock; none when no agent has.
    pub fn watch_of(&mut self, lock: LockId) -> Result<Option<LockWatch>, StoreError> {
        watch::of(self.driver, &self.project.id, lock)
    }

    /// Notes that an agent waits for a lock, and forgets its earlier note.
    pub fn set_watch(&mut self, lock: LockId, watch: LockWatch) -> Result<(), StoreError> {
        if watch.since == watch.at {
            watch::forget(self.driver, &self.project.id)?;
        }
        watch::set(self.driver, &self.project.id, lock, watch)
    }

    /// Ends the watch of a lock: it was granted anew.
    pub fn end_watch(&mut self, lock: LockId) -> Result<(), StoreError> {
        watch::end(self.driver, &self.project.id, lock)
    }

    /// Looks up an earlier request of this actor with this key.
    pub fn past(&mut self, actor: &str, key: &str, request: &str) -> Result<Past, StoreError> {
        let found = request::get(self.driver, &self.project.id, actor, &sha256_hex(key))?;
        Ok(match found {
            None => Past::Unknown,
            Some(remembered) if remembered.hash == sha256_hex(request) => {
                Past::Same(remembered.outcome)
            }
            Some(_) => Past::Other,
        })
    }

    /// Returns true when outcomes are remembered whose time is over, by the clock.
    pub fn has_old_requests(&mut self) -> Result<bool, StoreError> {
        request::any_old(self.driver, &self.project, self.now)
    }

    /// Forgets requests that were remembered for long enough as of this time.
    pub fn forget_requests(&mut self, as_of: Time) -> Result<u64, StoreError> {
        request::forget(self.driver, &self.project, as_of.min(self.now))
    }

    /// Remembers a request and its outcome under a key.
    pub fn remember(
        &mut self,
        actor: &str,
        key: &str,
        request: &str,
        outcome: String,
    ) -> Result<(), StoreError> {
        let remembered = Remembered {
            hash: sha256_hex(request),
            outcome,
        };
        request::insert(
            self.driver,
            &self.project.id,
            actor,
            &sha256_hex(key),
            &remembered,
            self.now,
        )
    }
}
