//! Answers questions from the cache: subjects that fit, counts, and the content of a checkpoint.

use std::sync::Arc;

use flightline_core::Kind;
use flightline_core::checkpoint::SectionDigest;

use super::kind_index::KindIndex;
use super::{CachedSubject, MOST_BYTES, Undo, WriteCache, load};
use crate::engine::Driver;
use crate::error::StoreError;
use crate::table::subject::{self, CUT, Find};

impl WriteCache {
    /// Returns all subjects of a kind, if it is cached.
    fn index(
        &mut self,
        driver: &mut dyn Driver,
        kind: Kind,
    ) -> Result<Option<&KindIndex>, StoreError> {
        if !self.indexes.contains_key(&kind) {
            let indexes = self.indexes.values().flatten();
            let room = MOST_BYTES.saturating_sub(indexes.map(|index| index.bytes()).sum());
            let loaded = load(driver, &self.project, kind, room)?;
            self.indexes.insert(kind, loaded);
            // The index has the writes of this transaction, which may be dropped.
            if self.written.contains(&kind) {
                self.undo.push(Undo::Loaded(kind));
            }
        }
        Ok(self.indexes.get(&kind).and_then(Option::as_ref))
    }

    /// The length in bytes of the texts of all subjects that a checkpoint of any mission may name, with the whole values
    /// that are the bases of next deltas; `None` when one of the kinds is not cached, or one of its texts is damaged.
    pub(crate) fn cut_bytes(&mut self, driver: &mut dyn Driver) -> Result<Option<u64>, StoreError> {
        let mut bytes = 0;
        for kind in CUT {
            match self.index(driver, kind)? {
                Some(index) if index.is_sound() => bytes += index.bytes(),
                Some(_) | None => return Ok(None),
            }
        }
        Ok(Some(bytes))
    }

    /// The length in bytes of the texts that a checkpoint of `mission` names; `None` when one of the kinds is not cached.
    pub(crate) fn text_bytes_in_cut(
        &mut self,
        driver: &mut dyn Driver,
        mission: &str,
    ) -> Result<Option<u64>, StoreError> {
        let mut bytes = 0;
        for kind in CUT {
            match self.index(driver, kind)? {
                Some(index) => bytes += index.text_bytes_in_cut(kind, mission),
                None => return Ok(None),
            }
        }
        Ok(Some(bytes))
    }

    /// The digest of the subjects that a checkpoint of `mission` names, by kind; `None` when one of the kinds is not
    /// cached.
    pub(crate) fn digest(
        &mut self,
        driver: &mut dyn Driver,
        mission: &str,
    ) -> Result<Option<Vec<(Kind, SectionDigest)>>, StoreError> {
        let mut digests = Vec::with_capacity(CUT.len());
        for kind in CUT {
            if self.index(driver, kind)?.is_none() {
                return Ok(None);
            }
            let Some(Some(index)) = self.indexes.get_mut(&kind) else {
                return Ok(None);
            };
            digests.push((kind, index.digest(kind, mission)));
        }
        Ok(Some(digests))
    }

    /// Returns the subjects of a mission that have this status, oldest first, at most `limit`; `None` when their kind is
    /// not cached.
    pub(crate) fn of_status(
        &mut self,
        driver: &mut dyn Driver,
        kind: Kind,
        (mission, status): (&str, &str),
        limit: usize,
    ) -> Result<Option<Vec<&Arc<CachedSubject>>>, StoreError> {
        if self.index(driver, kind)?.is_none() {
            return Ok(None);
        }
        let index = self.indexes.get_mut(&kind).and_then(Option::as_mut);
        Ok(index.map(|index| index.of_status(mission, status, limit)))
    }

    /// Counts the subjects of a mission by status; `None` when their kind is not cached.
    pub(crate) fn counts(
        &mut self,
        driver: &mut dyn Driver,
        kind: Kind,
        mission: &str,
    ) -> Result<Option<Vec<(String, u64)>>, StoreError> {
        if self.index(driver, kind)?.is_none() {
            return Ok(None);
        }
        let index = self.indexes.get_mut(&kind).and_then(Option::as_mut);
        Ok(index.map(|index| index.counts(mission)))
    }

    /// The subject with this id; `None` when its kind is not loaded.
    pub(crate) fn loaded(&self, kind: Kind, id: &str) -> Option<Option<&Arc<CachedSubject>>> {
        let index = self.indexes.get(&kind)?.as_ref();
        index.map(|index| index.get(id))
    }

    /// The subject with this id; `None` when its kind is not remembered.
    pub(crate) fn get(
        &mut self,
        driver: &mut dyn Driver,
        kind: Kind,
        id: &str,
    ) -> Result<Option<Option<&Arc<CachedSubject>>>, StoreError> {
        let index = self.index(driver, kind)?;
        Ok(index.map(|index| index.get(id)))
    }

    /// The subjects that fit, oldest first; `None` when their kind is not remembered.
    pub(crate) fn find(
        &mut self,
        driver: &mut dyn Driver,
        kind: Kind,
        find: Find<'_>,
    ) -> Result<Option<Vec<&Arc<CachedSubject>>>, StoreError> {
        let index = self.index(driver, kind)?;
        Ok(index.map(|index| index.find(find)))
    }

    /// Returns the subjects of [`Self::find`] for which `fits` is true as well, likewise.
    pub(crate) fn find_those(
        &mut self,
        driver: &mut dyn Driver,
        kind: Kind,
        find: Find<'_>,
        fits: &mut dyn FnMut(&CachedSubject) -> bool,
    ) -> Result<Option<Vec<&Arc<CachedSubject>>>, StoreError> {
        let index = self.index(driver, kind)?;
        Ok(index.map(|index| index.find_those(find, fits)))
    }

    /// The subjects of a mission, or of none, in no order; `None` when their kind is not remembered.
    pub(crate) fn of_mission(
        &mut self,
        driver: &mut dyn Driver,
        kind: Kind,
        mission: Option<&str>,
    ) -> Result<Option<Vec<&Arc<CachedSubject>>>, StoreError> {
        let index = self.index(driver, kind)?;
        Ok(index.map(|index| index.of_mission(mission)))
    }

    /// Ids from `from` up to, not including, `to`.
    pub(crate) fn ids_between(
        &mut self,
        driver: &mut dyn Driver,
        kind: Kind,
        (from, to): (&str, &str),
    ) -> Result<Option<Vec<String>>, StoreError> {
        let index = self.index(driver, kind)?;
        Ok(index.filter(|_| from <= to).map(|index| {
            let ids = index.ids_between(from, to);
            ids.take(subject::FITTING).cloned().collect()
        }))
    }
}
