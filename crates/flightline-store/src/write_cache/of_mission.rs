//! Keeps subjects in the order of their creation, and facts about those of one mission that follow each change, so that a
//! checkpoint costs what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use flightline_core::Kind;
use flightline_core::checkpoint::{KindDigest, Presence, SectionDigest};

use super::CachedSubject;

/// Subjects in the order in which they were made.
#[derive(Default)]
pub(super) struct InOrder(BTreeMap<(u64, String), Arc<CachedSubject>>);

impl InOrder {
    pub(super) fn insert(&mut self, entry: &Arc<CachedSubject>) {
        self.0.insert(age_of(entry), Arc::clone(entry));
    }

    pub(super) fn remove(&mut self, entry: &CachedSubject) {
        self.0.remove(&age_of(entry));
    }

    /// Puts the next value of a subject, which is as old, into its place.
    pub(super) fn replace(&mut self, entry: &Arc<CachedSubject>) {
        let row = &entry.row;
        let mut as_old = self.0.range_mut((row.born, String::new())..);
        if let Some((_, place)) = as_old.find(|((_, id), _)| *id == row.id) {
            *place = Arc::clone(entry);
        }
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Arc<CachedSubject>> {
        self.0.values()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn age_of(entry: &CachedSubject) -> (u64, String) {
    (entry.row.born, entry.row.id.clone())
}

/// The subjects of one mission, or those without one.
#[derive(Default)]
pub(super) struct OfMission {
    all: InOrder,
    /// The length of the texts in bytes.
    text_bytes: u64,
    /// The facts about the subjects, kept once they were asked for.
    following: Option<Following>,
}

impl OfMission {
    pub(super) fn insert(&mut self, entry: &Arc<CachedSubject>) {
        self.text_bytes += length(entry);
        if let Some(following) = &mut self.following {
            following.learn(entry);
        }
        self.all.insert(entry);
    }

    pub(super) fn remove(&mut self, entry: &CachedSubject) {
        self.text_bytes = self.text_bytes.saturating_sub(length(entry));
        if let Some(following) = &mut self.following {
            following.forget(entry);
        }
        self.all.remove(entry);
    }

    /// Puts the next value of a subject, which is as old, into its place.
    pub(super) fn replace(&mut self, before: &CachedSubject, entry: &Arc<CachedSubject>) {
        self.text_bytes = self.text_bytes.saturating_sub(length(before)) + length(entry);
        if let Some(following) = &mut self.following {
            following.replace(before, entry);
        }
        self.all.replace(entry);
    }

    pub(super) fn all(&self) -> &InOrder {
        &self.all
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn text_bytes(&self) -> u64 {
        self.text_bytes
    }

    /// The digest of all of them; `line` says the revision and the hash of a value.
    pub(super) fn digest<'v>(
        &mut self,
        kind: Kind,
        line: impl Fn(&str) -> Option<(u64, &'v str)>,
    ) -> SectionDigest {
        self.follow().digest.finish(kind, line)
    }

    /// Returns the ids of the subjects that have this status, oldest first.
    pub(super) fn of_status(&mut self, status: &str) -> impl Iterator<Item = &String> {
        let ids = self.follow().by_status.get(status).into_iter().flatten();
        ids.map(|(_, id)| id)
    }

    /// Counts the subjects by status.
    pub(super) fn counts(&mut self) -> Vec<(String, u64)> {
        let counts = self.follow().by_status.iter();
        counts
            .map(|(status, ids)| (status.clone(), ids.len() as u64))
            .collect()
    }

    fn follow(&mut self) -> &mut Following {
        self.following.get_or_insert_with(|| {
            let mut following = Following::default();
            for entry in self.all.entries() {
                following.learn(entry);
            }
            following
        })
    }
}

fn length(entry: &CachedSubject) -> u64 {
    entry.text.len() as u64
}

/// The facts that follow each change of the subjects of one mission, or of those without one.
#[derive(Default)]
struct Following {
    digest: KindDigest,
    /// The ids by status, in the order of creation.
    by_status: BTreeMap<String, BTreeSet<(u64, String)>>,
}

impl Following {
    fn learn(&mut self, entry: &CachedSubject) {
        let row = &entry.row;
        self.digest.touch(&row.id, Presence::There);
        match self.by_status.get_mut(&row.status) {
            Some(of_status) => drop(of_status.insert(age_of(entry))),
            None => {
                let of_status = BTreeSet::from([age_of(entry)]);
                self.by_status.insert(row.status.clone(), of_status);
            }
        }
    }

    fn forget(&mut self, entry: &CachedSubject) {
        self.digest.touch(&entry.row.id, Presence::Gone);
        self.leave_status(entry);
    }

    fn replace(&mut self, before: &CachedSubject, entry: &CachedSubject) {
        if before.row.status == entry.row.status {
            self.digest.touch(&entry.row.id, Presence::There);
        } else {
            self.leave_status(before);
            self.learn(entry);
        }
    }

    fn leave_status(&mut self, entry: &CachedSubject) {
        let status = &entry.row.status;
        if let Some(ids) = self.by_status.get_mut(status) {
            ids.remove(&age_of(entry));
            if ids.is_empty() {
                self.by_status.remove(status);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use flightline_core::Time;

    use super::*;
    use crate::table::subject::SubjectRow;

    fn entry(id: &str, born: u64, status: &str, text: &str) -> Arc<CachedSubject> {
        let row = SubjectRow {
            id: id.to_owned(),
            mission: None,
            parent: None,
            agent: None,
            name: None,
            status: status.to_owned(),
            born,
            rev: born,
            at: Time::from_millis(0),
            sha: String::new(),
        };
        Arc::new(CachedSubject::new(row, text.into(), true))
    }

    #[test]
    fn what_they_amount_to_follows_each_change() {
        let (old, young) = (entry("b", 1, "open", "123"), entry("a", 2, "open", "12"));
        let mut of = OfMission::default();
        of.insert(&young);
        assert_eq!(of.counts(), [("open".to_owned(), 1)]);
        of.insert(&old);
        let next = entry("b", 1, "done", "1234567");
        of.replace(&old, &next);
        assert_eq!(of.text_bytes(), 9);
        let counts = [("done".to_owned(), 1), ("open".to_owned(), 1)];
        assert_eq!(of.counts(), counts);
        let texts: Vec<&str> = of.all().entries().map(|it| &*it.text).collect();
        assert_eq!(texts, ["1234567", "12"]);
        of.remove(&next);
        of.remove(&young);
        assert_eq!((of.text_bytes(), of.is_empty()), (0, true));
        assert!(of.counts().is_empty());
    }
}
