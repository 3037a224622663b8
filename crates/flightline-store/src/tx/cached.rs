//! Answers questions of a transaction from the cache. In builds for tests the database is asked all the same, and both
//! answers must agree.

use std::collections::BTreeMap;
use std::sync::Arc;

use flightline_core::checkpoint::{Digest, DigestLine, SectionDigest, sections, sections_of_kinds};
use flightline_core::event::Event;
use flightline_core::{Kind, MissionId, Subject};

use super::Tx;
use crate::engine::Driver;
use crate::error::StoreError;
use crate::table::event::{self, EventFilter, StoredEvent};
use crate::table::subject::{self, CUT, CUT_OF_ALL, Find, SubjectRow};
use crate::write_cache::{CachedSubject, RecentLookup};

/// The number of events that are looked at before only work is.
const NEAR: u64 = 4;
/// The most work that is read at once.
const MOST_AT_ONCE: u64 = 256;

/// The newest work on a mission that fits a question.
#[derive(Debug)]
pub struct NewestWork {
    /// The event; none when none fits.
    pub event: Option<Event>,
    /// True when newer events were passed without being shown: none of them is work.
    pub past_others: bool,
}

/// Returns true when the cached values can be checked against the database: not while writes wait that would have to be
/// sent first.
fn is_checked(driver: &dyn Driver) -> bool {
    cfg!(debug_assertions) && !driver.is_blind()
}

/// Checks that the cached value is the one that was found, or that another process wrote to the project meanwhile.
fn check<T: PartialEq + std::fmt::Debug>(
    driver: &mut dyn Driver,
    (known, found): (&T, &T),
    of: std::fmt::Arguments<'_>,
) -> Result<(), StoreError> {
    if known != found {
        driver.hold()?;
        assert_eq!(known, found, "{of}");
    }
    Ok(())
}

impl Tx<'_> {
    /// Returns the subject with this id; `None` when the database has to be asked.
    pub(super) fn cached_value<S: Subject>(
        &mut self,
        id: &str,
    ) -> Result<Option<Option<Arc<S>>>, StoreError> {
        let Some(cache) = &mut self.cache else {
            return Ok(None);
        };
        let Some(entry) = cache.get(self.driver, S::KIND, id)? else {
            return Ok(None);
        };
        if is_checked(self.driver) {
            let found = subject::get(self.driver, &self.project.id, S::KIND, id)?;
            let found = found.map(|found| (found.rev, found.sha));
            let known = entry.map(|entry| (entry.row.rev, entry.row.sha.clone()));
            check(
                self.driver,
                (&known, &found),
                format_args!("{} {id}", S::KIND),
            )?;
        }
        Ok(match entry {
            None => Some(None),
            Some(entry) => entry.shared_value().map(Some),
        })
    }

    /// The length of the texts that a checkpoint of `mission` taken now names, or an upper bound of it that is at most
    /// `enough`; `None` when they are not remembered, or one of them is damaged.
    pub fn remembered_cut_bytes(
        &mut self,
        mission: MissionId,
        enough: u64,
    ) -> Result<Option<u64>, StoreError> {
        let Some(cache) = &mut self.cache else {
            return Ok(None);
        };
        match cache.cut_bytes(self.driver)? {
            Some(all) if all > enough => cache.text_bytes_in_cut(self.driver, &mission.to_string()),
            all => Ok(all),
        }
    }

    /// The subjects of one kind that a checkpoint of `mission` taken now names, by id; `None` when they are not remembered.
    pub fn remembered_in_cut<S: Subject>(
        &mut self,
        mission: MissionId,
    ) -> Result<Option<Vec<Arc<S>>>, StoreError> {
        let Some(cache) = &mut self.cache else {
            return Ok(None);
        };
        let mission = mission.to_string();
        let of_all = CUT_OF_ALL.contains(&S::KIND).then_some(None);
        let mut known: Vec<(String, Arc<S>)> = Vec::new();
        for owner in [Some(Some(mission.as_str())), of_all].into_iter().flatten() {
            let Some(entries) = cache.of_mission(self.driver, S::KIND, owner)? else {
                return Ok(None);
            };
            for entry in entries {
                match entry.shared_value::<S>() {
                    Some(value) => known.push((entry.row.id.clone(), value)),
                    None => return Ok(None),
                }
            }
        }
        known.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(Some(known.into_iter().map(|(_, value)| value).collect()))
    }

    /// The subjects that fit, oldest first.
    pub(super) fn cached_values<S: Subject>(
        &mut self,
        find: Find<'_>,
        fits: impl Fn(&S) -> bool,
    ) -> Result<Option<Vec<Arc<S>>>, StoreError> {
        let Some(cache) = &mut self.cache else {
            return Ok(None);
        };
        if is_checked(self.driver)
            && let Some(entries) = cache.find(self.driver, S::KIND, find)?
        {
            let known = entries.iter().map(|it| (it.row.id.clone(), it.row.rev));
            let known: Vec<_> = known.collect();
            let found = subject::documents(self.driver, &self.project.id, S::KIND, find)?;
            let found: Vec<_> = found.into_iter().map(|it| (it.id, it.rev)).collect();
            check(
                self.driver,
                (&known, &found),
                format_args!("{} {find:?}", S::KIND),
            )?;
        }
        // The cache holds no damaged value.
        let mut damaged = false;
        let mut is_wanted = |entry: &CachedSubject| match entry.value::<S>() {
            Some(value) => fits(value),
            None => {
                damaged = true;
                false
            }
        };
        let found = cache.find_those(self.driver, S::KIND, find, &mut is_wanted)?;
        let known = found.map(|found| {
            let values = found.into_iter();
            values.filter_map(|entry| entry.shared_value()).collect()
        });
        Ok(known.filter(|_| !damaged))
    }

    /// The rows that fit, oldest first.
    pub(super) fn cached_rows(
        &mut self,
        kind: Kind,
        find: Find<'_>,
    ) -> Result<Option<Vec<SubjectRow>>, StoreError> {
        let Some(cache) = &mut self.cache else {
            return Ok(None);
        };
        let Some(entries) = cache.find(self.driver, kind, find)? else {
            return Ok(None);
        };
        let known: Vec<SubjectRow> = entries.iter().map(|entry| entry.row.clone()).collect();
        if is_checked(self.driver) {
            let found = self.sound_rows(kind, find)?;
            check(
                self.driver,
                (&known, &found),
                format_args!("{kind} {find:?}"),
            )?;
        }
        Ok(Some(known))
    }

    pub(super) fn cached_counts(
        &mut self,
        kind: Kind,
        find: Find<'_>,
    ) -> Result<Option<Vec<(String, u64)>>, StoreError> {
        let Some(cache) = &mut self.cache else {
            return Ok(None);
        };
        let known = match find {
            Find::Mission(mission) => cache.counts(self.driver, kind, &mission.to_string())?,
            Find::Parent(_) | Find::Agent(_) => {
                let entries = cache.find(self.driver, kind, find)?;
                entries.map(|entries| {
                    let mut counts = BTreeMap::new();
                    for entry in entries {
                        *counts.entry(entry.row.status.clone()).or_insert(0) += 1;
                    }
                    counts.into_iter().collect()
                })
            }
            // No write counts by the other ways.
            Find::All | Find::AgentStatus(..) | Find::AgentName(_) | Find::EffectKey(..) => None,
        };
        let Some(known): Option<Vec<(String, u64)>> = known else {
            return Ok(None);
        };
        if is_checked(self.driver) {
            let found = subject::counts(self.driver, &self.project.id, kind, find)?;
            check(
                self.driver,
                (&known, &found),
                format_args!("{kind} {find:?}"),
            )?;
        }
        Ok(Some(known))
    }

    /// Ids of a kind from `from` up to, not including, `to`.
    pub(super) fn cached_ids(
        &mut self,
        kind: Kind,
        from: &str,
        to: &str,
    ) -> Result<Option<Vec<String>>, StoreError> {
        let Some(cache) = &mut self.cache else {
            return Ok(None);
        };
        let known = cache.ids_between(self.driver, kind, (from, to))?;
        if is_checked(self.driver)
            && let Some(known) = &known
        {
            let found = subject::ids_between(self.driver, &self.project.id, kind, from, to)?;
            check(
                self.driver,
                (known, &found),
                format_args!("{kind} {from} {to}"),
            )?;
        }
        Ok(known)
    }

    /// The revision of a subject's last change.
    pub(super) fn cached_change(
        &mut self,
        kind: Kind,
        id: &str,
    ) -> Result<Option<u64>, StoreError> {
        let Some(cache) = &mut self.cache else {
            return Ok(None);
        };
        let entry = cache.get(self.driver, kind, id)?.flatten();
        Ok(entry.map(|entry| entry.row.rev))
    }

    /// The newest work on a mission that fits, however much came after it. Events are shown to `fits` from the newest on, perhaps more than
    /// once; an event that is no work ([`Event::is_work`]) does not fit.
    pub fn newest_work(
        &mut self,
        mission: MissionId,
        mut fits: impl FnMut(&Event) -> bool,
    ) -> Result<NewestWork, StoreError> {
        let mut fits = |event: &Event| {
            let shown = fits(event);
            shown && event.is_work()
        };
        let known = match &self.cache {
            None => RecentLookup::Unknown,
            Some(cache) => cache.newest_event(mission, &mut fits),
        };
        let known = match known {
            RecentLookup::It(event) => Some(Some(event.clone())),
            RecentLookup::None => Some(None),
            RecentLookup::Unknown => None,
        };
        match known {
            Some(event) if !is_checked(self.driver) => Ok(NewestWork {
                event,
                past_others: false,
            }),
            Some(known) => {
                let newest = self.near(mission)?;
                let found = self.look_for_work(mission, newest, &mut fits)?;
                // Another process may have thinned the journal meanwhile, which is no event.
                let rev = |event: &Event| event.rev;
                let (told, stored) = (known.as_ref().map(rev), found.event.as_ref().map(rev));
                check(self.driver, (&told, &stored), format_args!("{mission}"))?;
                Ok(NewestWork {
                    event: known,
                    past_others: false,
                })
            }
            None => {
                let newest = self.near(mission)?;
                if let Some(cache) = &mut self.cache {
                    let all = (newest.len() as u64) < NEAR;
                    cache.learn_events(mission, &newest, all);
                }
                self.look_for_work(mission, newest, &mut fits)
            }
        }
    }

    /// The work on a mission before `rev`, newest first.
    pub fn work_before(
        &mut self,
        mission: MissionId,
        rev: u64,
        limit: u64,
    ) -> Result<Vec<Event>, StoreError> {
        let up_to = rev.saturating_sub(1);
        let listed = event::work_before(self.driver, &self.project.id, mission, up_to, limit)?;
        Ok(self.intact(listed))
    }

    /// The few newest events of a mission: work is rarely far back.
    fn near(&mut self, mission: MissionId) -> Result<Vec<Event>, StoreError> {
        self.newest_events(&EventFilter {
            mission: Some(mission),
            limit: NEAR,
            ..EventFilter::default()
        })
    }

    /// Looks through the newest events, and from there on through work alone.
    fn look_for_work(
        &mut self,
        mission: MissionId,
        newest: Vec<Event>,
        fits: &mut dyn FnMut(&Event) -> bool,
    ) -> Result<NewestWork, StoreError> {
        let all = (newest.len() as u64) < NEAR;
        let mut before = newest.last().map_or(0, |oldest| oldest.rev);
        let mut event = newest.into_iter().find(&mut *fits);
        let past_others = event.is_none() && !all;
        let (mut is_more, mut limit) = (past_others, NEAR);
        while is_more && event.is_none() {
            let work = self.work_before(mission, before, limit)?;
            is_more = work.len() as u64 == limit;
            before = work.last().map_or(0, |oldest| oldest.rev);
            event = work.into_iter().find(&mut *fits);
            limit = (limit * 8).min(MOST_AT_ONCE);
        }
        Ok(NewestWork { event, past_others })
    }

    /// Returns the lines of a checkpoint of `mission` taken now: its values by revision and hash.
    pub(super) fn cached_lines(
        &mut self,
        mission: MissionId,
    ) -> Result<Option<Vec<DigestLine>>, StoreError> {
        let known = self.cached_in_cut(mission, |kind, entry| {
            Some(DigestLine {
                kind,
                id: entry.row.id.clone(),
                rev: entry.row.rev,
                sha: entry.row.sha.clone(),
            })
        })?;
        if is_checked(self.driver)
            && let Some(known) = &known
        {
            let found = subject::lines(self.driver, &self.project.id, mission)?;
            let in_order = |mut lines: Vec<DigestLine>| {
                lines.sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
                lines
            };
            let (known, found) = (in_order(known.clone()), in_order(found));
            check(self.driver, (&known, &found), format_args!("{mission}"))?;
        }
        Ok(known)
    }

    /// The sections of a checkpoint of `mission` taken now.
    pub(super) fn cached_sections(
        &mut self,
        mission: MissionId,
    ) -> Result<Option<BTreeMap<String, SectionDigest>>, StoreError> {
        let Some(cache) = &mut self.cache else {
            return Ok(None);
        };
        let Some(kinds) = cache.digest(self.driver, &mission.to_string())? else {
            return Ok(None);
        };
        let known = sections_of_kinds(kinds);
        if is_checked(self.driver) {
            let lines = subject::lines(self.driver, &self.project.id, mission)?;
            let found = sections(lines, Digest::NEW);
            check(self.driver, (&known, &found), format_args!("{mission}"))?;
        }
        Ok(Some(known))
    }

    /// Returns the subjects of a mission that have this status, oldest first, at most `limit`.
    pub(super) fn cached_of_status(
        &mut self,
        kind: Kind,
        mission: MissionId,
        status: &str,
        limit: u64,
    ) -> Result<Option<Vec<SubjectRow>>, StoreError> {
        let Some(cache) = &mut self.cache else {
            return Ok(None);
        };
        let (id, most) = (
            mission.to_string(),
            usize::try_from(limit).unwrap_or(usize::MAX),
        );
        let entries = cache.of_status(self.driver, kind, (&id, status), most)?;
        let Some(entries) = entries else {
            return Ok(None);
        };
        let known: Vec<SubjectRow> = entries.iter().map(|entry| entry.row.clone()).collect();
        if is_checked(self.driver) {
            let found = self.found_of_status(kind, mission, status, limit)?;
            check(
                self.driver,
                (&known, &found),
                format_args!("{kind} {mission} {status}"),
            )?;
        }
        Ok(Some(known))
    }

    /// Returns the lines of a cut with the texts, by kind and id; `None` when one of them is damaged.
    pub(super) fn cached_cut(
        &mut self,
        mission: MissionId,
    ) -> Result<Option<Vec<StoredEvent>>, StoreError> {
        let known = self.cached_in_cut(mission, |kind, entry| {
            entry.is_sound().then(|| StoredEvent {
                kind,
                id: entry.row.id.clone(),
                rev: entry.row.rev,
                text: entry.text.to_string(),
                sha: entry.row.sha.clone(),
            })
        })?;
        Ok(known.map(subject::in_order))
    }

    fn cached_in_cut<T>(
        &mut self,
        mission: MissionId,
        tell: impl Fn(Kind, &CachedSubject) -> Option<T>,
    ) -> Result<Option<Vec<T>>, StoreError> {
        let Some(cache) = &mut self.cache else {
            return Ok(None);
        };
        let (mission, mut known) = (mission.to_string(), Vec::new());
        let of_mission = CUT.iter().map(|kind| (*kind, Some(mission.as_str())));
        for (kind, mission) in of_mission.chain(CUT_OF_ALL.iter().map(|kind| (*kind, None))) {
            let Some(entries) = cache.of_mission(self.driver, kind, mission)? else {
                return Ok(None);
            };
            for entry in entries {
                match tell(kind, entry) {
                    Some(told) => known.push(told),
                    None => return Ok(None),
                }
            }
        }
        Ok(Some(known))
    }
}
