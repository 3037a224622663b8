//! Caches the newest events of each mission, and the signs of life: every checkpoint asks for them.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use flightline_core::event::Event;
use flightline_core::{MissionId, Time};
use serde_json::Value as Json;

use crate::table::event::NewEvent;
use crate::table::pulse::Pulse;

/// The number of events of a mission that are remembered.
const MOST: usize = 16;
/// The number of missions whose events are remembered.
const MISSIONS: usize = 1_000;

#[derive(Default)]
pub(super) struct RecentEvents {
    missions: HashMap<MissionId, Recent>,
    /// The signs of life as this transaction, or one shortly before, read them, with those noted since.
    pulses: Option<Vec<Pulse>>,
    /// The time at which the signs of life were read.
    heard: Option<(Instant, Time)>,
    /// The version of the database in which the signs of life are known, if it has one.
    version: Option<u64>,
}

/// The age from which on signs of life are read again.
const FRESH: Duration = Duration::from_secs(1);

/// The newest events of a mission, newest first, without gaps.
struct Recent {
    events: VecDeque<Event>,
    /// True when the mission has no older events.
    whole: bool,
}

/// The cache's answer about an event that was looked for.
pub(crate) enum RecentLookup<'a> {
    It(&'a Event),
    None,
    /// The event may be older than the remembered ones.
    Unknown,
}

impl RecentEvents {
    /// The newest event of a mission that fits.
    pub(super) fn newest(
        &self,
        mission: MissionId,
        fits: &mut dyn FnMut(&Event) -> bool,
    ) -> RecentLookup<'_> {
        let Some(recent) = self.missions.get(&mission) else {
            return RecentLookup::Unknown;
        };
        match recent.events.iter().find(|event| fits(event)) {
            Some(event) => RecentLookup::It(event),
            None if recent.whole => RecentLookup::None,
            None => RecentLookup::Unknown,
        }
    }

    /// Remembers the newest events of a mission, newest first.
    pub(super) fn learn(&mut self, mission: MissionId, events: &[Event], whole: bool) {
        if self.missions.len() >= MISSIONS {
            self.missions.clear();
        }
        let recent = Recent {
            events: events.iter().take(MOST).cloned().collect(),
            whole: whole && events.len() <= MOST,
        };
        self.missions.insert(mission, recent);
    }

    /// Adds an event that was just recorded. Returns its mission when the events of that are cached.
    pub(super) fn add(&mut self, event: &NewEvent<'_>) -> Option<MissionId> {
        let mission: MissionId = event.mission.as_deref()?.parse().ok()?;
        let recent = self.missions.get_mut(&mission)?;
        recent.events.push_front(Event {
            rev: event.rev,
            step: event.step,
            kind: event.kind.to_string(),
            timestamp: event.at,
            mission_id: Some(mission),
            subject_kind: event.subject_kind,
            subject: event.subject.to_owned(),
            actor: event.actor.to_owned(),
            epoch: event.epoch,
            change: event.change,
            data: event.data.clone(),
        });
        if recent.events.len() > MOST {
            recent.events.pop_back();
            recent.whole = false;
        }
        Some(mission)
    }

    /// Drops the last event of a mission.
    pub(super) fn take_back(&mut self, mission: MissionId) {
        if let Some(recent) = self.missions.get_mut(&mission) {
            recent.events.pop_front();
        }
    }

    /// Forgets the newest events of a mission: some of them were dropped.
    pub(super) fn forget_mission(&mut self, mission: MissionId) {
        self.missions.remove(&mission);
    }

    /// Forgets everything: events were changed, or added, that the cache does not know.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    pub(super) fn pulses(&self) -> Option<&Vec<Pulse>> {
        self.pulses.as_ref()
    }

    pub(super) fn learn_pulses(&mut self, pulses: Vec<Pulse>, now: Time) {
        self.pulses = Some(pulses);
        self.heard = Some((Instant::now(), now));
    }

    pub(super) fn forget_pulses(&mut self) {
        self.pulses = None;
    }

    pub(super) fn follows_pulses(&self) -> bool {
        self.pulses.is_some() || self.version.is_some()
    }

    pub(super) fn keep_pulses(&mut self, version: Option<u64>) {
        if version.is_none() || version != self.version {
            self.pulses = None;
        }
        self.version = version;
    }

    /// Returns true when the signs of life are known, and were read a moment ago by all clocks.
    pub(super) fn has_fresh_pulses(&self, now: Time) -> bool {
        let is_fresh = |(read, at): (Instant, Time)| {
            let by_time = now.since(at).max(at.since(now));
            read.elapsed() < FRESH && u128::from(by_time) < FRESH.as_millis()
        };
        self.pulses.is_some() && self.heard.is_some_and(is_fresh)
    }

    /// Notes a sign of life as the table does it. Returns the sign known before, if this one is newer.
    pub(super) fn beat(&mut self, agent: &str, epoch: u64, at: Time, data: &Json) -> PulseNews {
        let Some(pulses) = &mut self.pulses else {
            return PulseNews::Unknown;
        };
        match pulses.binary_search_by(|pulse| pulse.agent.as_str().cmp(agent)) {
            Err(place) => {
                let pulse = Pulse {
                    agent: agent.to_owned(),
                    epoch,
                    at,
                    data: data.clone(),
                };
                pulses.insert(place, pulse);
                PulseNews::News(None)
            }
            Ok(place) => {
                let before = pulses[place].clone();
                pulses[place].hear(epoch, at, data);
                match pulses[place] == before {
                    true => PulseNews::Known,
                    false => PulseNews::News(Some(before)),
                }
            }
        }
    }

    /// Puts back the sign of life that was known before one that was dropped.
    pub(super) fn restore_pulse(&mut self, agent: &str, before: Option<Pulse>) {
        let Some(pulses) = &mut self.pulses else {
            return;
        };
        let found = pulses.binary_search_by(|pulse| pulse.agent.as_str().cmp(agent));
        match (found, before) {
            (Ok(place), Some(before)) => pulses[place] = before,
            (Ok(place), None) => drop(pulses.remove(place)),
            (Err(place), Some(before)) => pulses.insert(place, before),
            (Err(_), None) => {}
        }
    }

    /// Notes a sign of life of the past, as the table does it.
    pub(super) fn record_past_pulse(&mut self, agent: &str, epoch: u64, at: Time) -> PulseNews {
        let pulses = self.pulses.as_mut();
        let known = pulses.and_then(|pulses| pulses.iter_mut().find(|it| it.agent == agent));
        match known {
            Some(pulse) => {
                let before = pulse.clone();
                pulse.hear_of(epoch, at);
                PulseNews::News(Some(before))
            }
            None => self.beat(agent, epoch, at, &Json::Object(serde_json::Map::new())),
        }
    }
}

/// The news in a sign of life.
pub(super) enum PulseNews {
    /// The sign of life tells nothing new.
    Known,
    /// The sign of life tells something new; the sign known before comes with it, if there was one.
    News(Option<Pulse>),
    /// The signs of other agents are not in the cache.
    Unknown,
}
