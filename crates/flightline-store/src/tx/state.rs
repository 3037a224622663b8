//! Reads every subject's value at a revision, and the values that a checkpoint names now or named then.

use std::collections::BTreeMap;

use flightline_core::MissionId;
use flightline_core::checkpoint::{Digest, DigestLine, SectionDigest, sections};
use flightline_core::event::sha256_hex;

use super::Tx;
use crate::error::StoreError;
use crate::loss::Loss;
use crate::table::event::{StoredEvent, ValuesAt};
use crate::table::{event, subject};

impl Tx<'_> {
    /// Every subject's value at `rev`; a revision in the middle of a request counts as the one before
    /// the request. Each text is checked against its hash; one that is damaged is read from its subject's
    /// row where that holds the same value, and noticed. Fails when no copy of a value is sound, or one that is needed was
    /// thinned away. Events whose loss leaves an older value here are noticed.
    pub fn state_at(
        &mut self,
        rev: u64,
        mission: Option<MissionId>,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let whole = event::whole_step(self.driver, &self.project.id, rev)?;
        let state = match event::state_at(self.driver, &self.project.id, whole, mission) {
            Err(StoreError::Thinned { subject, rev, .. }) => {
                let nearest = subject::nearest(self.driver, &self.project.id, rev, mission)?;
                return Err(StoreError::Thinned {
                    subject,
                    rev,
                    nearest,
                });
            }
            state => state?,
        };
        self.miss_events(&state, whole)?;
        self.all_sound(state.values)
    }

    /// Notices the first few events up to `rev` that are lost, or whose subject or change is damaged, if one of the values
    /// is older than it should be for that: the command that shows it says so.
    fn miss_events(&mut self, at: &ValuesAt, rev: u64) -> Result<Vec<u64>, StoreError> {
        let Some(first) = at.unsure_after else {
            return Ok(Vec::new());
        };
        let (driver, project) = (&mut *self.driver, &self.project.id);
        let lost = event::lost_between(driver, project, (first, rev), &at.values)?;
        for rev in &lost {
            self.miss(Loss::Event { rev: *rev });
        }
        Ok(lost.into_iter().collect())
    }

    fn all_sound(&mut self, values: Vec<StoredEvent>) -> Result<Vec<StoredEvent>, StoreError> {
        values
            .into_iter()
            .map(|value| self.sound_value(value))
            .collect()
    }

    /// Returns the lines of a checkpoint of `mission` taken now: each value by its revision and hash. Reads no documents.
    pub fn lines(&mut self, mission: MissionId) -> Result<Vec<DigestLine>, StoreError> {
        match self.cached_lines(mission)? {
            Some(known) => Ok(known),
            None => subject::lines(self.driver, &self.project.id, mission),
        }
    }

    /// Returns the sections of a checkpoint of `mission` taken now, in the form of new ones. Where the last values are
    /// remembered, only the changes since the last time are hashed.
    pub fn sections(
        &mut self,
        mission: MissionId,
    ) -> Result<BTreeMap<String, SectionDigest>, StoreError> {
        match self.cached_sections(mission)? {
            Some(known) => Ok(known),
            None => Ok(sections(self.lines(mission)?, Digest::NEW)),
        }
    }

    /// The values that a checkpoint of `mission` names when it is taken now, by kind and id; none when the copy of one
    /// in its subject's row is damaged: then [`Tx::values_at`] knows where another is.
    pub fn values_now(
        &mut self,
        mission: MissionId,
    ) -> Result<Option<Vec<StoredEvent>>, StoreError> {
        if let Some(known) = self.cached_cut(mission)? {
            return Ok(Some(known));
        }
        let values = subject::cut_now(self.driver, &self.project.id, mission)?;
        let sound = values
            .iter()
            .all(|value| sha256_hex(&value.text) == value.sha);
        Ok(sound.then_some(values))
    }

    /// The values that a checkpoint of `mission` at exactly `rev` names, each checked and read as in
    /// [`Tx::state_at`].
    pub fn values_at(
        &mut self,
        rev: u64,
        mission: MissionId,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let found = event::values_at(self.driver, &self.project.id, rev, mission)?;
        self.all_sound(found.values)
    }

    /// The values of [`Tx::values_at`], and the revisions of lost events for which one of them may be older than it should be;
    /// they are noticed, too.
    pub fn values_and_losses_at(
        &mut self,
        rev: u64,
        mission: MissionId,
    ) -> Result<(Vec<StoredEvent>, Vec<u64>), StoreError> {
        let found = event::values_at(self.driver, &self.project.id, rev, mission)?;
        let lost = self.miss_events(&found, rev)?;
        Ok((self.all_sound(found.values)?, lost))
    }
}
