//! All remembered subjects of a kind, and how they are found.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use flightline_core::Kind;
use flightline_core::checkpoint::{KindDigest, Presence, SectionDigest};

use super::{CachedSubject, MOST_BYTES, MOST_ROWS};
use crate::table::subject::{CUT_OF_ALL, Find};

#[derive(Default)]
pub(super) struct KindIndex {
    by_id: BTreeMap<String, Arc<CachedSubject>>,
    /// By what they belong to, in the order in which they were made.
    by_owner: HashMap<Owner, BTreeSet<(u64, String)>>,
    named: bool,
    bytes: u64,
    /// How many of them have a text that is damaged, or in the journal alone.
    unsound: u64,
    /// By mission, of the missions that were asked for.
    following: HashMap<Option<String>, Following>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Nobody,
    Mission(String),
    Parent(String),
    Agent(String),
    /// Itself: agents are found by their names.
    Named(String),
}

impl KindIndex {
    pub(super) fn put(
        &mut self,
        id: &str,
        entry: Option<Arc<CachedSubject>>,
    ) -> Option<Arc<CachedSubject>> {
        let before = match &entry {
            Some(entry) => self.by_id.insert(id.to_owned(), Arc::clone(entry)),
            None => self.by_id.remove(id),
        };
        if let Some(before) = &before {
            self.bytes = self.bytes.saturating_sub(before.bytes());
            self.unsound -= u64::from(!before.is_sound());
            if let Some(following) = self.following.get_mut(&before.row.mission) {
                following.forget(id, before);
            }
            for owner in before.owners(self.named).into_iter().flatten() {
                if let Some(ids) = self.by_owner.get_mut(&owner) {
                    ids.remove(&(before.row.born, id.to_owned()));
                    if ids.is_empty() {
                        self.by_owner.remove(&owner);
                    }
                }
            }
        }
        if let Some(entry) = entry {
            self.bytes += entry.bytes();
            self.unsound += u64::from(!entry.is_sound());
            if let Some(following) = self.following.get_mut(&entry.row.mission) {
                following.learn(id, &entry);
            }
            for owner in entry.owners(self.named).into_iter().flatten() {
                let ids = self.by_owner.entry(owner).or_default();
                ids.insert((entry.row.born, id.to_owned()));
            }
        }
        before
    }

    pub(super) fn of(&self, owner: &Owner) -> Vec<&Arc<CachedSubject>> {
        let ids = self.by_owner.get(owner).into_iter().flatten();
        ids.filter_map(|(_, id)| self.by_id.get(id)).collect()
    }

    pub(super) fn find(&self, find: Find<'_>) -> Vec<&Arc<CachedSubject>> {
        match find {
            Find::All => {
                let mut all: Vec<_> = self.by_id.values().collect();
                all.sort_by(|a, b| age(a).cmp(&age(b)));
                all
            }
            Find::Mission(mission) => self.of(&Owner::Mission(mission.to_string())),
            Find::Parent(parent) => self.of(&Owner::Parent(parent.to_owned())),
            Find::Agent(agent) => self.of(&Owner::Agent(agent.to_string())),
            Find::AgentStatus(agent, status) => {
                let mut of = self.of(&Owner::Agent(agent.to_string()));
                of.retain(|entry| entry.row.status == status);
                of
            }
            Find::AgentName(name) => self.of(&Owner::Named(name.to_owned())),
            Find::EffectKey(mission, key) => {
                let mut of = self.of(&Owner::Mission(mission.to_string()));
                of.retain(|entry| entry.row.name.as_deref() == Some(key));
                of
            }
        }
    }

    /// The subjects that fit, oldest first. Those that do not are not put in order.
    pub(super) fn find_those(
        &self,
        find: Find<'_>,
        fits: &mut dyn FnMut(&CachedSubject) -> bool,
    ) -> Vec<&Arc<CachedSubject>> {
        match find {
            Find::All => {
                let fitting = self.by_id.values().filter(|entry| fits(entry));
                let mut all: Vec<_> = fitting.collect();
                all.sort_by(|a, b| age(a).cmp(&age(b)));
                all
            }
            find => {
                let mut found = self.find(find);
                found.retain(|entry| fits(entry));
                found
            }
        }
    }

    pub(super) fn is_too_large(&self) -> bool {
        self.by_id.len() as u64 > MOST_ROWS * 2 || self.bytes > MOST_BYTES * 2
    }

    pub(super) fn new(kind: Kind) -> Self {
        Self {
            named: kind == Kind::Agent,
            ..Self::default()
        }
    }

    pub(super) fn get(&self, id: &str) -> Option<&Arc<CachedSubject>> {
        self.by_id.get(id)
    }

    /// How long their texts are in all.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_sound(&self) -> bool {
        self.unsound == 0
    }

    /// Ids from `from` up to, not including, `to`.
    pub(super) fn ids_between<'s>(
        &'s self,
        from: &str,
        to: &str,
    ) -> impl Iterator<Item = &'s String> {
        let bounds = (Bound::Included(from), Bound::Excluded(to));
        self.by_id.range::<str, _>(bounds).map(|(id, _)| id)
    }

    /// What follows the subjects of a mission, or those of none, from now on.
    fn follow(&mut self, mission: Option<&str>) -> &mut Following {
        let mission = mission.map(str::to_owned);
        if !self.following.contains_key(&mission) {
            let owner = mission.clone().map_or(Owner::Nobody, Owner::Mission);
            let mut following = Following::default();
            for entry in self.of(&owner) {
                following.learn(&entry.row.id, entry);
            }
            self.following.insert(mission.clone(), following);
        }
        self.following.entry(mission).or_default()
    }

    /// The digest of what a checkpoint of `mission` names of this kind.
    pub(super) fn digest(&mut self, kind: Kind, mission: &str) -> SectionDigest {
        let of_all = CUT_OF_ALL.contains(&kind) && self.by_owner.contains_key(&Owner::Nobody);
        let owner = Owner::Mission(mission.to_owned());
        let of_mission = self.by_owner.contains_key(&owner);
        let from = match (of_all, of_mission) {
            // Those that are of this mission and those that are of none are hashed together: there are few of such kinds.
            (true, true) => {
                let (mut digest, both) = (KindDigest::default(), [owner, Owner::Nobody]);
                for entry in both.iter().flat_map(|owner| self.of(owner)) {
                    digest.touch(&entry.row.id, Presence::There);
                }
                return digest.finish(kind, |id| self.by_id.get(id).map(|entry| line(entry)));
            }
            (true, false) => None,
            (false, _) => Some(mission),
        };
        self.follow(from);
        let Self {
            by_id, following, ..
        } = self;
        match following.get_mut(&from.map(str::to_owned)) {
            Some(following) => {
                let digest = &mut following.digest;
                digest.finish(kind, |id| by_id.get(id).map(|entry| line(entry)))
            }
            None => SectionDigest::default(),
        }
    }

    /// The subjects of a mission that have this status, oldest first, so many at most.
    pub(super) fn of_status(
        &mut self,
        mission: &str,
        status: &str,
        limit: usize,
    ) -> Vec<&Arc<CachedSubject>> {
        self.follow(Some(mission));
        let following = self.following.get(&Some(mission.to_owned()));
        let ids = following.and_then(|it| it.by_status.get(status));
        let ids = ids.into_iter().flatten().take(limit);
        ids.filter_map(|(_, id)| self.by_id.get(id)).collect()
    }

    /// How many subjects of a mission there are of each status.
    pub(super) fn counts(&mut self, mission: &str) -> Vec<(String, u64)> {
        let by_status = &self.follow(Some(mission)).by_status;
        let counts = by_status.iter();
        counts
            .map(|(status, ids)| (status.clone(), ids.len() as u64))
            .collect()
    }
}

fn line(entry: &CachedSubject) -> (u64, &str) {
    (entry.row.rev, &entry.row.sha)
}

/// The digests that follow each change of the subjects of one mission, or of those without one, once they were asked for.
#[derive(Default)]
struct Following {
    digest: KindDigest,
    /// In the order in which they were made.
    by_status: BTreeMap<String, BTreeSet<(u64, String)>>,
}

impl Following {
    fn learn(&mut self, id: &str, entry: &CachedSubject) {
        self.digest.touch(id, Presence::There);
        let of_status = self.by_status.entry(entry.row.status.clone());
        of_status
            .or_default()
            .insert((entry.row.born, id.to_owned()));
    }

    fn forget(&mut self, id: &str, entry: &CachedSubject) {
        self.digest.touch(id, Presence::Gone);
        if let Some(ids) = self.by_status.get_mut(&entry.row.status) {
            ids.remove(&(entry.row.born, id.to_owned()));
            if ids.is_empty() {
                self.by_status.remove(&entry.row.status);
            }
        }
    }
}

/// What puts subjects into the order in which they were made.
fn age(entry: &CachedSubject) -> (u64, &str) {
    (entry.row.born, &entry.row.id)
}
