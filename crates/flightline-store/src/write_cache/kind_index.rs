//! Indexes all cached subjects of a kind by the keys they are found by.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use flightline_core::Kind;
use flightline_core::checkpoint::{KindDigest, Presence, SectionDigest};

use super::of_mission::{InOrder, OfMission};
use super::{CachedSubject, MOST_BYTES, MOST_ROWS};
use crate::table::subject::{CUT_OF_ALL, Find, SubjectRow};

#[derive(Default)]
pub(super) struct KindIndex {
    by_id: BTreeMap<String, Arc<CachedSubject>>,
    by_mission: HashMap<String, OfMission>,
    of_no_mission: OfMission,
    by_parent: ByOwner,
    by_agent: ByOwner,
    /// Agents by their names.
    by_name: ByOwner,
    named: bool,
    bytes: u64,
    /// The number of subjects with a text that is damaged, or in the journal alone.
    unsound: u64,
}

/// The value of a subject, before a change or after it.
type CachedValue<'a> = Option<&'a Arc<CachedSubject>>;

/// Subjects by their owner: a parent, an agent or a name.
#[derive(Default)]
struct ByOwner(HashMap<String, InOrder>);

impl ByOwner {
    fn of(&self, owner: &str) -> Vec<&Arc<CachedSubject>> {
        let all = self.0.get(owner).into_iter();
        all.flat_map(InOrder::entries).collect()
    }

    fn put(
        &mut self,
        (before, entry): (CachedValue<'_>, CachedValue<'_>),
        owner_of: fn(&SubjectRow) -> Option<&str>,
    ) {
        let owner =
            |entry: CachedValue<'_>| entry.and_then(|it| owner_of(&it.row)).map(str::to_owned);
        if let (Some(before), Some(entry)) = (before, entry)
            && is_in_place(before, entry)
            && owner_of(&before.row) == owner_of(&entry.row)
        {
            let all = owner_of(&entry.row).and_then(|owner| self.0.get_mut(owner));
            if let Some(all) = all {
                all.replace(entry);
            }
            return;
        }
        if let (Some(owner), Some(before)) = (owner(before), before)
            && let Some(all) = self.0.get_mut(&owner)
        {
            all.remove(before);
            if all.is_empty() {
                self.0.remove(&owner);
            }
        }
        if let (Some(owner), Some(entry)) = (owner(entry), entry) {
            self.0.entry(owner).or_default().insert(entry);
        }
    }
}

/// Returns true when a value keeps the place of the one before in the order of creation.
fn is_in_place(before: &CachedSubject, entry: &CachedSubject) -> bool {
    before.row.born == entry.row.born
}

impl KindIndex {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            named: kind == Kind::Agent,
            ..Self::default()
        }
    }

    pub(super) fn put(
        &mut self,
        id: &str,
        entry: Option<Arc<CachedSubject>>,
    ) -> Option<Arc<CachedSubject>> {
        let before = match &entry {
            Some(entry) => match self.by_id.get_mut(id) {
                Some(known) => Some(std::mem::replace(known, Arc::clone(entry))),
                None => self.by_id.insert(id.to_owned(), Arc::clone(entry)),
            },
            None => self.by_id.remove(id),
        };
        if let Some(before) = &before {
            self.bytes = self.bytes.saturating_sub(before.bytes());
            self.unsound -= u64::from(!before.is_sound());
        }
        if let Some(entry) = &entry {
            self.bytes += entry.bytes();
            self.unsound += u64::from(!entry.is_sound());
        }
        let change = (before.as_ref(), entry.as_ref());
        self.put_of_mission(change);
        self.by_parent.put(change, |row| row.parent.as_deref());
        self.by_agent.put(change, |row| row.agent.as_deref());
        if self.named {
            self.by_name.put(change, |row| row.name.as_deref());
        }
        before
    }

    fn put_of_mission(&mut self, (before, entry): (CachedValue<'_>, CachedValue<'_>)) {
        if let (Some(before), Some(entry)) = (before, entry)
            && is_in_place(before, entry)
            && before.row.mission == entry.row.mission
        {
            if let Some(of) = self.of_mission_mut(entry.row.mission.as_deref()) {
                of.replace(before, entry);
            }
            return;
        }
        if let Some(before) = before {
            let mission = before.row.mission.as_deref();
            if let Some(of) = self.of_mission_mut(mission) {
                of.remove(before);
                if let Some(mission) = mission.filter(|_| of.is_empty()) {
                    self.by_mission.remove(mission);
                }
            }
        }
        if let Some(entry) = entry {
            let of = match &entry.row.mission {
                Some(mission) => self.by_mission.entry(mission.clone()).or_default(),
                None => &mut self.of_no_mission,
            };
            of.insert(entry);
        }
    }

    fn of_mission_mut(&mut self, mission: Option<&str>) -> Option<&mut OfMission> {
        match mission {
            Some(mission) => self.by_mission.get_mut(mission),
            None => Some(&mut self.of_no_mission),
        }
    }

    /// The subjects of a mission, or of none, oldest first.
    pub(super) fn of_mission(&self, mission: Option<&str>) -> Vec<&Arc<CachedSubject>> {
        let of = match mission {
            Some(mission) => self.by_mission.get(mission),
            None => Some(&self.of_no_mission),
        };
        let all = of.into_iter().flat_map(|of| of.all().entries());
        all.collect()
    }

    pub(super) fn find(&self, find: Find<'_>) -> Vec<&Arc<CachedSubject>> {
        match find {
            Find::All => {
                let mut all: Vec<_> = self.by_id.values().collect();
                all.sort_by(|a, b| age(a).cmp(&age(b)));
                all
            }
            Find::Mission(mission) => self.of_mission(Some(&mission.to_string())),
            Find::Parent(parent) => self.by_parent.of(parent),
            Find::Agent(agent) => self.by_agent.of(&agent.to_string()),
            Find::AgentStatus(agent, status) => {
                let mut of = self.by_agent.of(&agent.to_string());
                of.retain(|entry| entry.row.status == status);
                of
            }
            Find::AgentName(name) => self.by_name.of(name),
            Find::EffectKey(mission, key) => {
                let mut of = self.of_mission(Some(&mission.to_string()));
                of.retain(|entry| entry.row.name.as_deref() == Some(key));
                of
            }
        }
    }

    /// Returns the subjects that fit, oldest first. Only these are put in order.
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

    pub(super) fn get(&self, id: &str) -> Option<&Arc<CachedSubject>> {
        self.by_id.get(id)
    }

    /// The length of all texts in bytes, with the whole values that are the bases of next deltas.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The length in bytes of the texts of this kind that a checkpoint of `mission` names.
    pub(super) fn text_bytes_in_cut(&self, kind: Kind, mission: &str) -> u64 {
        let of_mission = self
            .by_mission
            .get(mission)
            .map_or(0, OfMission::text_bytes);
        match CUT_OF_ALL.contains(&kind) {
            true => of_mission + self.of_no_mission.text_bytes(),
            false => of_mission,
        }
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

    /// The digest of the values of this kind that a checkpoint of `mission` names.
    pub(super) fn digest(&mut self, kind: Kind, mission: &str) -> SectionDigest {
        let of_all = CUT_OF_ALL.contains(&kind) && !self.of_no_mission.is_empty();
        let Self {
            by_id,
            by_mission,
            of_no_mission,
            ..
        } = self;
        let line = |id: &str| by_id.get(id).map(|entry| line(entry));
        match (of_all, by_mission.get_mut(mission)) {
            // Subjects of this mission and of none are hashed together: there are few of such kinds.
            (true, Some(of_mission)) => {
                let mut digest = KindDigest::default();
                let both = of_mission.all().entries();
                for entry in both.chain(of_no_mission.all().entries()) {
                    digest.touch(&entry.row.id, Presence::There);
                }
                digest.finish(kind, line)
            }
            (true, None) => of_no_mission.digest(kind, line),
            (false, Some(of_mission)) => of_mission.digest(kind, line),
            (false, None) => SectionDigest::default(),
        }
    }

    /// Returns the subjects of a mission that have this status, oldest first, at most `limit`.
    pub(super) fn of_status(
        &mut self,
        mission: &str,
        status: &str,
        limit: usize,
    ) -> Vec<&Arc<CachedSubject>> {
        let of = self.by_mission.get_mut(mission).into_iter();
        let ids = of.flat_map(|of| of.of_status(status)).take(limit);
        ids.filter_map(|id| self.by_id.get(id)).collect()
    }

    /// Counts the subjects of a mission by status.
    pub(super) fn counts(&mut self, mission: &str) -> Vec<(String, u64)> {
        let of = self.by_mission.get_mut(mission);
        of.map_or_else(Vec::new, OfMission::counts)
    }
}

fn line(entry: &CachedSubject) -> (u64, &str) {
    (entry.row.rev, &entry.row.sha)
}

/// The key that orders subjects by their creation.
fn age(entry: &CachedSubject) -> (u64, &str) {
    (entry.row.born, &entry.row.id)
}
