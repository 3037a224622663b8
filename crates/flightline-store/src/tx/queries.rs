//! Looks subjects up: by id, by keys, by text.

use std::sync::Arc;

use flightline_core::text::read_stored;
use flightline_core::{AgentId, Kind, MissionId, Subject, SubjectKey};
use serde::de::DeserializeOwned;

use super::Tx;
use crate::error::StoreError;
use crate::table::subject::{self, Find, StoredDocument, SubjectRow};

impl Tx<'_> {
    /// Returns the subject with this id, when there is one. Its text is checked against its hash; a damaged one is read
    /// from the journal, and noticed. Fails when both copies are damaged.
    pub fn get<'k, S: Subject>(
        &mut self,
        key: impl Into<SubjectKey<'k, S>>,
    ) -> Result<Option<S>, StoreError> {
        let key = key.into();
        let id = key.as_str();
        if let Some(known) = self.cached_value::<S>(id)? {
            return Ok(known.map(|known| (*known).clone()));
        }
        self.get_stored(id)
    }

    /// Returns the subject with this id, as [`Tx::get`] finds it: shared with the write cache, where that knows it.
    pub fn get_shared<'k, S: Subject>(
        &mut self,
        key: impl Into<SubjectKey<'k, S>>,
    ) -> Result<Option<Arc<S>>, StoreError> {
        let key = key.into();
        let id = key.as_str();
        match self.cached_value::<S>(id)? {
            Some(known) => Ok(known),
            None => Ok(self.get_stored(id)?.map(Arc::new)),
        }
    }

    fn get_stored<S: Subject>(&mut self, id: &str) -> Result<Option<S>, StoreError> {
        let known = self.cache.as_deref().and_then(|it| it.loaded(S::KIND, id));
        let is_untouched = known
            .flatten()
            .is_some_and(|entry| entry.row.rev < self.step);
        let (driver, project) = (&mut *self.driver, &self.project.id);
        let found = match is_untouched {
            true => subject::get_untouched(driver, project, S::KIND, id)?,
            false => subject::get(driver, project, S::KIND, id)?,
        };
        found
            .map(|found| self.read_document(S::KIND, found))
            .transpose()
    }

    /// Returns the subjects that fit, oldest first; a damaged one is read from the journal, and noticed. Fails when both
    /// copies of one are damaged.
    pub fn find<S: Subject>(&mut self, find: Find<'_>) -> Result<Vec<S>, StoreError> {
        self.find_those(find, |_| true)
    }

    /// Returns those of the subjects of [`Tx::find`] for which `fits` is true as well.
    pub fn find_those<S: Subject>(
        &mut self,
        find: Find<'_>,
        fits: impl Fn(&S) -> bool,
    ) -> Result<Vec<S>, StoreError> {
        if let Some(known) = self.cached_values(find, &fits)? {
            return Ok(known.iter().map(|it| S::clone(it)).collect());
        }
        self.find_stored(find, fits)
    }

    /// Returns the subjects that [`Tx::find`] finds: shared with the write cache, where that knows them.
    pub fn find_shared<S: Subject>(&mut self, find: Find<'_>) -> Result<Vec<Arc<S>>, StoreError> {
        match self.cached_values(find, |_| true)? {
            Some(known) => Ok(known),
            None => Ok(self
                .find_stored(find, |_| true)?
                .into_iter()
                .map(Arc::new)
                .collect()),
        }
    }

    fn find_stored<S: Subject>(
        &mut self,
        find: Find<'_>,
        fits: impl Fn(&S) -> bool,
    ) -> Result<Vec<S>, StoreError> {
        let mut read = Vec::new();
        for found in subject::documents(self.driver, &self.project.id, S::KIND, find)? {
            read.extend(Some(self.read_document(S::KIND, found)?).filter(&fits));
        }
        Ok(read)
    }

    /// Returns the subjects, of one mission or of all, whose stored text holds this, oldest first: for questions without
    /// an index. Capitals may differ, and the beginning of the text, so the caller compares. A damaged subject is left
    /// out, and hides no other.
    pub fn find_holding<S: Subject>(
        &mut self,
        mission: Option<MissionId>,
        text: &str,
    ) -> Result<Vec<S>, StoreError> {
        let (driver, project) = (&mut *self.driver, &self.project.id);
        let found = subject::holding(driver, project, S::KIND, mission, text)?;
        self.read_sound_ones(found)
    }

    /// Returns the newest subjects of a mission, newest first, without those of one status. A damaged subject is left out,
    /// and hides no other.
    pub fn newest<S: Subject>(
        &mut self,
        mission: MissionId,
        without: Option<&str>,
        limit: u64,
    ) -> Result<Vec<S>, StoreError> {
        let (driver, project) = (&mut *self.driver, &self.project.id);
        let found = subject::newest(
            driver,
            project,
            (S::KIND, mission),
            without,
            u64::MAX,
            limit,
        )?;
        self.read_sound_ones(found)
    }

    /// Returns the newest subjects of an agent with one status, newest first. A damaged subject is left out, and hides no
    /// other.
    pub fn newest_of_agent<S: Subject>(
        &mut self,
        agent: AgentId,
        status: &str,
        limit: u64,
    ) -> Result<Vec<S>, StoreError> {
        let known = self.cached_values(Find::AgentStatus(agent, status), |_| true)?;
        if let Some(known) = known {
            let most = usize::try_from(limit).unwrap_or(usize::MAX);
            let newest = known.iter().rev().take(most);
            return Ok(newest.map(|it| S::clone(it)).collect());
        }
        let (driver, project) = (&mut *self.driver, &self.project.id);
        let found = subject::newest_of_agent(driver, project, S::KIND, agent, status, limit)?;
        self.read_sound_ones(found)
    }

    /// The documents of these rows, which are the newest of a mission before a revision without those of one status, read as
    /// a type that leaves out fields it does not need. A damaged one is left out. One that was read and found sound before
    /// is not read again, where that is remembered.
    pub fn documents_of<T: DeserializeOwned + Clone + Send + 'static>(
        &mut self,
        (kind, mission): (Kind, MissionId),
        without: Option<&str>,
        rows: &[SubjectRow],
    ) -> Result<Vec<T>, StoreError> {
        if let Some(seen) = &mut self.seen {
            let known: Option<Vec<T>> = rows.iter().map(|row| seen.get(&row.sha)).collect();
            if let Some(known) = known {
                return Ok(known);
            }
        }
        let before = rows.first().map_or(0, |newest| newest.born + 1);
        let (driver, project, limit) = (&mut *self.driver, &self.project.id, rows.len() as u64);
        let found = subject::newest(driver, project, (kind, mission), without, before, limit)?;
        let mut sound: Vec<T> = Vec::with_capacity(found.len());
        for document in found {
            let sha = document.sha.clone();
            if let Some(known) = self.seen.as_ref().and_then(|seen| seen.get(&sha)) {
                sound.push(known);
                continue;
            }
            let noticed = self.noticed.len();
            let Some(read) = self.read_sound::<T>(kind, document)? else {
                continue;
            };
            // A document that was read from another copy need not have this hash.
            if let Some(seen) = &mut self.seen
                && self.noticed.len() == noticed
            {
                seen.keep(sha, read.clone());
            }
            sound.push(read);
        }
        Ok(sound)
    }

    fn read_sound_ones<S: Subject>(
        &mut self,
        found: Vec<StoredDocument>,
    ) -> Result<Vec<S>, StoreError> {
        let read = found.into_iter().map(|it| self.read_sound(S::KIND, it));
        read.filter_map(Result::transpose).collect()
    }

    /// Reads a document; none when it is damaged.
    fn read_sound<T: DeserializeOwned>(
        &mut self,
        kind: Kind,
        document: StoredDocument,
    ) -> Result<Option<T>, StoreError> {
        match self.read_document(kind, document) {
            Ok(read) => Ok(Some(read)),
            Err(StoreError::Corrupt(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn read_document<T: DeserializeOwned>(
        &mut self,
        kind: Kind,
        document: StoredDocument,
    ) -> Result<T, StoreError> {
        let id = document.id.clone();
        let text = self.sound_text(kind, &id, document)?;
        read_stored(&text)
            .map_err(|error| StoreError::Corrupt(format!("{kind} {id} cannot be read: {error}")))
    }

    /// The rows that fit, without their documents, oldest first.
    pub fn rows(&mut self, kind: Kind, find: Find<'_>) -> Result<Vec<SubjectRow>, StoreError> {
        match self.cached_rows(kind, find)? {
            Some(known) => Ok(known),
            None => self.sound_rows(kind, find),
        }
    }

    pub fn counts(&mut self, kind: Kind, find: Find<'_>) -> Result<Vec<(String, u64)>, StoreError> {
        match self.cached_counts(kind, find)? {
            Some(known) => Ok(known),
            None => subject::counts(self.driver, &self.project.id, kind, find),
        }
    }

    /// Counts the subjects of a mission that were made at this revision or after it, by status.
    pub fn counts_from(
        &mut self,
        kind: Kind,
        mission: MissionId,
        born: u64,
    ) -> Result<Vec<(String, u64)>, StoreError> {
        subject::counts_from(self.driver, &self.project.id, kind, mission, born)
    }

    /// Counts the subjects of a mission with this status, and all of them.
    pub fn share(
        &mut self,
        kind: Kind,
        mission: MissionId,
        status: &str,
    ) -> Result<(u64, u64), StoreError> {
        let Some(counts) = self.cached_counts(kind, Find::Mission(mission))? else {
            return subject::share(self.driver, &self.project.id, kind, mission, status);
        };
        let of_status = counts.iter().filter(|(found, _)| found == status);
        let of_status = of_status.map(|(_, count)| count).sum();
        Ok((of_status, counts.iter().map(|(_, count)| count).sum()))
    }

    /// Every id of a kind, in byte order.
    pub fn ids(&mut self, kind: Kind) -> Result<Vec<String>, StoreError> {
        subject::ids(self.driver, &self.project.id, kind)
    }

    /// Every id of a kind that was taken away, in byte order.
    pub fn gone_ids(&mut self, kind: Kind) -> Result<Vec<String>, StoreError> {
        subject::gone_ids(self.driver, &self.project.id, kind)
    }

    /// Ids of a kind from `from` up to, not including, `to`; eleven at most.
    pub fn ids_between(
        &mut self,
        kind: Kind,
        from: &str,
        to: &str,
    ) -> Result<Vec<String>, StoreError> {
        match self.cached_ids(kind, from, to)? {
            Some(known) => Ok(known),
            None => subject::ids_between(self.driver, &self.project.id, kind, from, to),
        }
    }

    /// The revision of a subject's last change, also when that took it away.
    pub fn changed(&mut self, kind: Kind, id: &str) -> Result<Option<u64>, StoreError> {
        match self.cached_change(kind, id)? {
            Some(known) => Ok(Some(known)),
            None => subject::changed(self.driver, &self.project.id, kind, id),
        }
    }
}
