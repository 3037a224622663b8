//! Works out the time that it is at least. A clock may be years ahead for one command, and the checkpoints that it
//! deletes are gone; a fleet may also rest for weeks, and then grows old all the same. One clock alone cannot tell the
//! two apart, so that further evidence is asked for.

use crate::setting::LastPrune;
use crate::time::{Millis, Time, Uptime};

const DAY: Millis = 86_400_000;

/// The evidence of the present time, apart from the clock.
#[derive(Clone, Debug)]
pub struct ClockEvidence<'a> {
    pub created: Time,
    /// The notes of the last retention.
    pub last: Option<&'a LastPrune>,
    /// True when there was work in the time that [`ClockEvidence::work_that_confirms`] names.
    pub work_went_on: bool,
    pub uptime: Option<&'a Uptime>,
    pub now: Time,
}

impl ClockEvidence<'_> {
    /// Work that goes on for so long shows that a clock is right: a wrong clock is noticed earlier.
    pub const NOTICED: Millis = 600_000;
    /// A clock that is ahead of the evidence by no more than this is believed when pruning is asked for: fleets rest, and a
    /// wrong clock is wrong by years.
    pub const FAR: Millis = 60 * DAY;

    /// The time in which there must have been work so that the clock was right at the last retention.
    pub fn work_that_confirms(last: &LastPrune) -> (Time, Time) {
        (last.at.plus(Self::NOTICED), last.at.plus(2 * DAY))
    }

    /// The time it is at least, and never later than the clock says. Each piece of evidence is enough by itself:
    ///
    /// - what was sure when retention was last applied, and as much later as this machine has been running since;
    /// - the time of that last application, if work went on for a while after it and within the days that followed, or if this machine was booted
    ///   since, which sets its clock anew, and the clock says that it is at least a day later: one that was ahead would have been put right.
    pub fn least_time(&self) -> Time {
        let Some(last) = self.last else {
            return self.created.min(self.now);
        };
        let sure = last.sure.unwrap_or(self.created);
        let (passed, rebooted) = match (&last.uptime, self.uptime) {
            (Some(then), Some(now)) => (now.since(then), now.boot != then.boot),
            (Some(_) | None, _) => (None, false),
        };
        let mut least = sure.plus(passed.unwrap_or(0));
        if self.work_went_on || (rebooted && self.now.since(last.at) >= DAY) {
            least = least.max(last.at);
        }
        least.min(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start() -> Time {
        Time::from_millis(0).plus(20_000 * DAY)
    }

    fn uptime(boot: &str, days: u64) -> Uptime {
        Uptime {
            boot: boot.to_owned(),
            ms: days * DAY,
        }
    }

    /// The days after the start that are sure, when retention was last applied at day 10, two days of which were doubted.
    fn sure_days(then: Option<Uptime>, here: Option<Uptime>, worked: bool, now: u64) -> u64 {
        let last = LastPrune {
            at: start().plus(10 * DAY),
            thinned_to: 0,
            sure: Some(start().plus(8 * DAY)),
            uptime: then,
        };
        let evidence = ClockEvidence {
            created: start(),
            last: Some(&last),
            work_went_on: worked,
            uptime: here.as_ref(),
            now: start().plus(now * DAY),
        };
        evidence.least_time().since(start()) / DAY
    }

    #[test]
    fn a_machine_that_ran_on_knows_a_pause_from_a_jump() {
        let (then, here) = (Some(uptime("a", 1)), Some(uptime("a", 21)));
        assert_eq!(sure_days(then.clone(), here, false, 30), 28);
        let jumped = Some(uptime("a", 1));
        assert_eq!(sure_days(then, jumped, false, 3_660), 8);
    }

    #[test]
    fn a_boot_or_work_confirms_the_time_before_it_and_not_the_clock_now() {
        let (then, other) = (Some(uptime("a", 50)), Some(uptime("b", 0)));
        assert_eq!(sure_days(then.clone(), other.clone(), false, 3_660), 10);
        assert_eq!(sure_days(None, None, true, 3_660), 10);
        assert_eq!(sure_days(None, other.clone(), false, 30), 8, "nobody knows");
        // The clock says that hardly any time has passed: it may be ahead as it was then.
        assert_eq!(sure_days(then, other, false, 10), 8);
    }

    #[test]
    fn a_clock_that_was_put_right_is_right() {
        let (then, here) = (Some(uptime("a", 1)), Some(uptime("a", 1)));
        assert_eq!(sure_days(then, here, true, 5), 5);
        let evidence = ClockEvidence {
            created: start().plus(3_650 * DAY),
            last: None,
            work_went_on: false,
            uptime: None,
            now: start(),
        };
        assert_eq!(evidence.least_time(), start());
    }
}
