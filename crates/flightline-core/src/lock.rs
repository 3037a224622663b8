//! Locks: one live grant per path, with a fence that only grows.

use crate::Schema;
use serde::{Deserialize, Serialize};

use crate::id::{AgentId, LockId, MissionId, SortieId};
use crate::path::RepoPath;
use crate::subject::{Keys, Kind, Subject};
use crate::text::Title;
use crate::time::{Millis, Time};

/// A lock. It has no expiry of its own: it lapses `timeout_ms` after its holder's last sign of life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct Lock {
    /// The lock's id.
    pub id: LockId,
    /// The file, folder or pattern that is locked.
    pub file: RepoPath,
    /// The agent that holds the lock.
    pub held_by: AgentId,
    /// The holder's incarnation at the grant.
    pub epoch: u64,
    /// The revision of the grant: larger than that of any grant before it.
    pub fence: u64,
    /// The sortie that the lock is held for.
    pub sortie_id: Option<SortieId>,
    /// The mission of that sortie.
    pub mission_id: Option<MissionId>,
    /// The holder's reason for the lock.
    pub purpose: Option<Title>,
    /// Time after the holder's last sign of life until the lock lapses, in milliseconds.
    pub timeout_ms: Millis,
    /// Time at which the lock was granted.
    pub acquired_at: Time,
}

impl Lock {
    /// Returns the time since which the holder is silent, as far as it can be known: since its last sign of life or the
    /// grant, but not before signs could be noticed. `awake` is the time since which Flightline itself could notice
    /// them, `watch` the time since which a waiting agent could.
    pub fn silent_since(
        &self,
        sign: Option<Time>,
        awake: Time,
        watch: Option<LockWatch>,
        now: Time,
    ) -> Time {
        let noticed = match watch {
            // The lock was granted before an agent began to wait for it, whatever the clock said then.
            Some(watch) => awake.max(self.acquired_at).min(watch.since),
            None => awake.max(self.granted(now)),
        };
        sign.map_or(noticed, |sign| sign.max(noticed))
    }

    /// Returns true when the lock has lapsed: its holder is silent for longer than the timeout.
    pub fn has_lapsed(&self, silent_since: Time, now: Time) -> bool {
        now.since(silent_since) > self.timeout_ms
    }

    /// Returns the time for which the lock will still be held if its holder gives no further sign of life.
    pub fn remaining(&self, silent_since: Time, now: Time) -> Millis {
        self.timeout_ms.saturating_sub(now.since(silent_since))
    }

    /// Returns the time of the grant. A grant that lies in the future was made by a clock that was wrong, and proves
    /// nothing.
    fn granted(&self, now: Time) -> Time {
        if self.acquired_at > now {
            Time::from_millis(0)
        } else {
            self.acquired_at
        }
    }
}

/// The time since which an agent has been waiting for a lock: an agent that is refused the lock looks whether its
/// holder gives a sign of life, however seldom it asks. The watch is kept in the store, beside the signs of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWatch {
    /// Time from which silence counts.
    pub since: Time,
    /// Time of a waiting agent's last look.
    pub at: Time,
}

impl LockWatch {
    /// Pauses of all writing that waiting for a lock bridges.
    const PAUSES: u64 = 6;

    /// The first look of a waiting agent: it counts as far back as signs of life could be noticed anyway.
    pub fn begun(lock: &Lock, awake: Time, now: Time) -> Self {
        Self {
            since: awake.max(lock.granted(now)).min(now),
            at: now,
        }
    }

    /// A further look. An agent that asks at least once in the time to live of the lock, or in six times the pause that
    /// counts as our own downtime, has been watching all the while. A longer gap proves little, because the machine may
    /// have slept and the holder with it: it counts as half the time to live and a moment, so that two of them are
    /// enough. After a clock that was ahead, watching begins anew.
    ///
    /// `sign` is the holder's last sign of life: the silence before it is over, so a gap after it is the first one.
    #[must_use]
    pub fn again(self, lock: &Lock, sign: Option<Time>, downtime: Millis, now: Time) -> Self {
        if self.at.since(now) > downtime {
            return Self {
                since: now,
                at: now,
            };
        }
        // A sign that came later than the last look lies behind the gap, or a wrong clock noted it.
        let sign = sign.filter(|sign| *sign <= self.at);
        let silent = sign.map_or(self.since, |sign| sign.max(self.since));
        let gap = now.since(self.at);
        let bridged = lock.timeout_ms.max(downtime.saturating_mul(Self::PAUSES));
        let since = if gap > bridged {
            silent.plus(gap - lock.timeout_ms / 2 - 1)
        } else {
            silent
        };
        Self {
            since: since.min(now),
            at: now,
        }
    }
}

impl Subject for Lock {
    const KIND: Kind = Kind::Lock;

    fn key(&self) -> String {
        self.id.to_string()
    }

    fn keys(&self) -> Keys {
        Keys {
            mission: self.mission_id,
            parent: self.sortie_id.map(|id| id.to_string()),
            agent: Some(self.held_by),
            name: Some(self.file.to_string()),
            status: "held",
            ..Keys::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(timeout_ms: Millis, acquired_at: Time) -> Lock {
        Lock {
            id: "lck-00000000-0000-4000-8000-000000000001".parse().unwrap(),
            file: RepoPath::parse("src/a").unwrap(),
            held_by: "agt-00000000-0000-4000-8000-000000000001".parse().unwrap(),
            epoch: 1,
            fence: 7,
            sortie_id: None,
            mission_id: None,
            purpose: None,
            timeout_ms,
            acquired_at,
        }
    }

    #[test]
    fn a_lock_lapses_after_silence_and_not_a_moment_earlier() {
        let at = Time::from_millis(1_000);
        let lock = lock(500, at);
        let lapsed = |sign: Time, now: Time| {
            let since = lock.silent_since(Some(sign), Time::from_millis(0), None, now);
            lock.has_lapsed(since, now)
        };
        let quiet = Time::from_millis(0);
        assert!(!lapsed(quiet, at.plus(500)));
        assert!(lapsed(quiet, at.plus(501)));
        assert!(
            !lapsed(at.plus(400), at.plus(900)),
            "a sign of life keeps it"
        );
        let (awake, now) = (at.plus(300), at.plus(700));
        let since = lock.silent_since(Some(quiet), awake, None, now);
        assert_eq!(lock.remaining(since, now), 100, "what nobody could notice");
    }

    #[test]
    fn a_grant_that_lies_in_the_future_proves_nothing() {
        let (now, awake) = (Time::from_millis(5_000), Time::from_millis(4_000));
        let ahead = lock(500, now.plus(60_000));
        assert_eq!(ahead.silent_since(None, awake, None, now), awake);
        // Nor when the clock has come there, as long as an agent waits for it.
        let watch = LockWatch::begun(&ahead, awake, now);
        assert_eq!(watch.since, awake);
        let there = now.plus(70_000);
        assert_eq!(ahead.silent_since(None, awake, Some(watch), there), awake);
    }

    #[test]
    fn a_grant_counts_though_its_holder_was_silent_before() {
        let now = Time::from_millis(50_000);
        let granted = lock(500, now.minus(100));
        let (sign, awake) = (Some(now.minus(9_000)), Time::from_millis(0));
        assert_eq!(granted.silent_since(sign, awake, None, now), now.minus(100));
        let watch = LockWatch::begun(&granted, awake, now);
        let later = now.plus(300);
        assert_eq!(
            granted.silent_since(sign, awake, Some(watch), later),
            now.minus(100)
        );
    }

    /// Returns the time from the first look until a lock of a silent holder lapses, for an agent that asks every so
    /// often.
    fn lapses_after(timeout_ms: Millis, every: Millis) -> Millis {
        let (downtime, start) = (600_000, Time::from_millis(1_000_000_000));
        let lock = lock(timeout_ms, start.minus(5));
        let (mut watch, mut now) = (LockWatch::begun(&lock, start, start), start);
        // Every look of an agent that asks seldom is the first write in a long time.
        while !lock.has_lapsed(lock.silent_since(None, now, Some(watch), now), now) {
            now = now.plus(every);
            watch = watch.again(&lock, None, downtime, now);
        }
        now.since(start)
    }

    #[test]
    fn a_waiting_agent_gets_a_lock_one_time_to_live_and_one_look_later() {
        const MINUTE: Millis = 60_000;
        for timeout in [30_000, 30 * MINUTE, 300 * MINUTE] {
            for every in [200, 11 * MINUTE, 25 * MINUTE, 60 * MINUTE] {
                let lapsed = lapses_after(timeout, every);
                assert!(
                    lapsed > timeout && lapsed <= timeout + every,
                    "{timeout} {every}: {lapsed}"
                );
            }
            let day = 24 * 60 * MINUTE;
            assert_eq!(lapses_after(timeout, day), 2 * day, "seldom is not never");
        }
    }

    #[test]
    fn a_pause_or_a_clock_that_jumped_proves_little() {
        let (downtime, start) = (600_000, Time::from_millis(1_000_000_000));
        let lock = lock(1_800_000, start);
        let watch = LockWatch::begun(&lock, start, start);
        let night = start.plus(8 * 3_600_000);
        let woken = watch.again(&lock, None, downtime, night);
        assert_eq!(
            woken.since,
            night.minus(900_001),
            "half of its time is left"
        );
        let years = start.plus(10 * 365 * 86_400_000);
        assert!(!lock.has_lapsed(watch.again(&lock, None, downtime, years).since, years));
        let right = LockWatch::begun(&lock, years, years).again(&lock, None, downtime, start);
        assert_eq!((right.since, right.at), (start, start));
        let back = start.minus(5_000);
        let step = watch.again(&lock, None, downtime, back);
        assert_eq!((step.since, step.at), (back, back), "never ahead");
    }
    #[test]
    fn a_night_after_a_day_of_watching_takes_no_lock_from_a_holder_that_worked_until_then() {
        const MINUTE: Millis = 60_000;
        let (downtime, start) = (10 * MINUTE, Time::from_millis(1_000_000_000));
        let lock = lock(30 * MINUTE, start);
        let (mut watch, mut now) = (LockWatch::begun(&lock, start, start), start);
        for _ in 0..12 {
            now = now.plus(5 * MINUTE);
            watch = watch.again(&lock, Some(now), downtime, now);
        }
        let (sign, slept) = (Some(now), now.plus(8 * 60 * MINUTE));
        watch = watch.again(&lock, sign, downtime, slept);
        let lapsed = |watch: LockWatch, now: Time| {
            lock.has_lapsed(lock.silent_since(sign, now, Some(watch), now), now)
        };
        assert!(!lapsed(watch, slept), "the first look after the night");
        let later = slept.plus(16 * MINUTE);
        watch = watch.again(&lock, sign, downtime, later);
        assert!(lapsed(watch, later), "silent since the night");
    }
}
