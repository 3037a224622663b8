//! Points in time and spans, in milliseconds. Stored as integers, shown as RFC 3339 in UTC.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::redact::shown;

/// A point in time: milliseconds since the Unix epoch. Every value can be written down and read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

/// The first and the last moment that RFC 3339 text can be read back from: its years have four digits, and every
/// offset from UTC must fit as well.
const FIRST: i64 = -377_705_023_201_000;
const LAST: i64 = 253_402_207_200_000;

/// A span of time in milliseconds, never negative.
pub type Millis = u64;

/// The time for which a machine has been running, sleep included. No user can set it: between two looks during one boot
/// so much time has passed, whatever the clock says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Uptime {
    /// The boot of the machine, with the machine.
    pub boot: String,
    /// The time since that boot, in milliseconds.
    pub ms: Millis,
}

impl Uptime {
    /// Returns the time that has passed since an earlier look; none when the machine was booted in between, or is
    /// another.
    pub fn since(&self, earlier: &Self) -> Option<Millis> {
        match self.boot == earlier.boot {
            true => self.ms.checked_sub(earlier.ms),
            false => None,
        }
    }
}

/// The text was not a point in time that is let in.
#[derive(Debug, thiserror::Error)]
pub enum NotATime {
    #[error("`{0}` is not a time: write it as 2026-01-04T15:30:00Z")]
    Malformed(String),
    /// A time before or after all that can concern a fleet.
    #[error("`{0}` is out of range: times from 1970 to 2199 are accepted")]
    OutOfRange(String),
}

impl Time {
    /// The first moment that is let in from outside: the beginning of 1970, where a machine without a battery wakes up.
    pub const EARLIEST: Self = Self(0);
    /// The last moment that is let in from outside: the end of 2199. A clock that says more is wrong, and what is
    /// reckoned from a time (a deadline, a retention) still has thousands of years to fit in.
    pub const LATEST: Self = Self(7_258_118_399_999);

    /// The point `millis` milliseconds after the Unix epoch, or the nearest one that can be written down.
    pub const fn from_millis(millis: i64) -> Self {
        Self(if millis < FIRST {
            FIRST
        } else if millis > LAST {
            LAST
        } else {
            millis
        })
    }

    /// Returns true when the time is let in from outside: neither before [`Time::EARLIEST`] nor after [`Time::LATEST`].
    pub const fn is_plausible(self) -> bool {
        Self::EARLIEST.0 <= self.0 && self.0 <= Self::LATEST.0
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The point as text without fractions of a second, as seed A writes it.
    pub fn to_seconds(self) -> String {
        jiff::Timestamp::from_second(self.0.div_euclid(1000))
            .map_or_else(|_| self.to_string(), |stamp| stamp.to_string())
    }

    /// The time as short as it can be written without losing anything.
    pub fn to_shortest(self) -> String {
        match self.0.rem_euclid(1000) {
            0 => self.to_seconds(),
            _ => self.to_string(),
        }
    }

    /// Returns the time since `earlier`; zero when `earlier` lies in the future, as after a clock went backwards.
    pub fn since(self, earlier: Self) -> Millis {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }

    /// Returns this point moved forwards by `span`, but not beyond the last moment that can be written down.
    #[must_use]
    pub fn plus(self, span: Millis) -> Self {
        Self::from_millis(self.0.saturating_add_unsigned(span))
    }

    /// Returns this point moved back by `span`, but not beyond the first moment that can be written down.
    #[must_use]
    pub fn minus(self, span: Millis) -> Self {
        Self::from_millis(self.0.saturating_sub_unsigned(span))
    }

    /// Reads a time that a store or a server wrote, without bounds.
    fn read(text: &str) -> Result<Self, NotATime> {
        text.parse::<jiff::Timestamp>()
            .map(|stamp| Self::from_millis(stamp.as_millisecond()))
            .map_err(|_| NotATime::Malformed(shown(text)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Every value is within the bounds of the library: see FIRST and LAST.
        let stamp = jiff::Timestamp::from_millisecond(self.0).unwrap_or(jiff::Timestamp::MAX);
        write!(f, "{stamp:.3}")
    }
}

/// Reads a time from outside: only one that [`Time::is_plausible`] is accepted.
impl FromStr for Time {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        match Self::read(text)? {
            time if time.is_plausible() => Ok(time),
            _ => Err(NotATime::OutOfRange(shown(text))),
        }
    }
}

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <Cow<'_, str>>::deserialize(deserializer)?;
        Self::read(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time" })
    }
}

/// A span as people read it: `4s`, `12m`, `3h 5m`, `2d 4h`.
pub fn human_span(span: Millis) -> String {
    let seconds = span / 1000;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let pair = |big: u64, unit: char, small: u64, small_unit: char| {
        if small == 0 {
            format!("{big}{unit}")
        } else {
            format!("{big}{unit} {small}{small_unit}")
        }
    };
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m"),
        (0, _, _) => pair(hours, 'h', minutes % 60, 'm'),
        _ => pair(days, 'd', hours % 24, 'h'),
    }
}

/// Reads a span such as `90s`, `15m`, `12h`, `7d` or `250ms`; a bare number counts `default_unit`s.
pub fn parse_span(text: &str, default_unit: &str) -> Result<Millis, String> {
    let wrong = || format!("`{text}` is not a duration: write `90s`, `15m`, `12h` or `7d`");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let unit = if digits == text.len() {
        default_unit
    } else {
        &text[digits..]
    };
    let factor = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(factor)
        .filter(|span| *span <= 3_650 * 86_400_000)
        .ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_reads_back_what_it_writes() {
        let time: Time = "2026-01-04T15:30:00Z".parse().unwrap();
        assert_eq!(time.to_string(), "2026-01-04T15:30:00.000Z");
        assert_eq!(
            serde_json::to_string(&time).unwrap(),
            "\"2026-01-04T15:30:00.000Z\""
        );
        assert_eq!(
            serde_json::from_str::<Time>("\"2026-01-04T15:30:00.000Z\"").unwrap(),
            time
        );
        assert!("yesterday".parse::<Time>().is_err());
    }

    #[test]
    fn a_clock_that_goes_backwards_gives_no_negative_age() {
        assert_eq!(Time::from_millis(5).since(Time::from_millis(9)), 0);
    }

    #[test]
    fn only_plausible_times_come_in_and_what_is_stored_is_read_anyway() {
        for (text, said) in [
            ("1969-12-31T23:59:59.999Z", "out of range"),
            ("2200-01-01T00:00:00Z", "out of range"),
            ("9999-12-30T21:00:00Z", "out of range"),
            ("9999-12-31T23:59:59Z", "is not a time"),
        ] {
            let error = text.parse::<Time>().unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        for text in ["1970-01-01T00:00:00.000Z", "2199-12-31T23:59:59.999Z"] {
            assert_eq!(text.parse::<Time>().unwrap().to_string(), text);
        }
        let stored = "\"9999-12-30T21:00:00.000Z\"";
        let time: Time = serde_json::from_str(stored).unwrap();
        assert_eq!(serde_json::to_string(&time).unwrap(), stored);
    }

    #[test]
    fn the_bounds_are_those_of_the_text() {
        let takes = |millis| jiff::Timestamp::from_millisecond(millis).is_ok();
        assert_eq!((takes(FIRST - 1), takes(FIRST)), (false, true));
        assert_eq!((takes(LAST), takes(LAST + 1)), (true, false));
        assert_eq!(Time::LATEST.plus(1).to_string(), "2200-01-01T00:00:00.000Z");
    }

    proptest::proptest! {
        #[test]
        fn every_time_that_can_be_made_can_be_written_and_read(millis: i64, span: u64, near in -5_000..5_000_i64) {
            let ends = [FIRST, LAST, 0, Time::LATEST.0].map(|end| Time::from_millis(end.saturating_add(near)));
            let made = Time::from_millis(millis);
            for time in ends.into_iter().chain([made, made.plus(span), made.minus(span)]) {
                let json = serde_json::to_string(&time).unwrap();
                assert_eq!(serde_json::from_str::<Time>(&json).unwrap(), time, "{json}");
                assert_eq!(time.to_string().parse::<Time>().ok(), time.is_plausible().then_some(time));
                assert!(Time::read(&time.to_seconds()).is_ok(), "{time}");
            }
        }
    }

    #[test]
    fn spans_are_short_and_readable() {
        for (span, text) in [
            (4_200, "4s"),
            (125_000, "2m"),
            (3_600_000, "1h"),
            (11_100_000, "3h 5m"),
            (187_200_000, "2d 4h"),
        ] {
            assert_eq!(human_span(span), text);
        }
    }

    #[test]
    fn spans_parse_with_and_without_units() {
        assert_eq!(parse_span("15m", "s"), Ok(900_000));
        assert_eq!(parse_span("7", "d"), Ok(604_800_000));
        assert!(parse_span("soon", "s").is_err());
        assert!(parse_span("", "s").is_err());
        assert!(parse_span("99999999999999999999d", "s").is_err());
    }
}
