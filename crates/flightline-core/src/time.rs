//! Points in time and spans, in milliseconds. Stored as integers, shown as RFC 3339 in UTC.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A point in time: milliseconds since the Unix epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

/// A span of time in milliseconds, never negative.
pub type Millis = u64;

/// The text was not a point in time.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a time: write it as 2026-01-04T15:30:00Z")]
pub struct NotATime(String);

impl Time {
    /// The point `millis` milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The point as text without fractions of a second, as seed A writes it.
    #[must_use]
    pub fn to_seconds(self) -> String {
        jiff::Timestamp::from_second(self.0.div_euclid(1000))
            .map_or_else(|_| self.to_string(), |stamp| stamp.to_string())
    }

    /// How long ago `earlier` was; zero when it lies in the future, as after a clock went backwards.
    #[must_use]
    pub fn since(self, earlier: Self) -> Millis {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }

    /// This point moved forwards by `span`, but not beyond the last moment that can be written down.
    #[must_use]
    pub fn plus(self, span: Millis) -> Self {
        let moved = self
            .0
            .saturating_add(i64::try_from(span).unwrap_or(i64::MAX));
        Self(moved.min(jiff::Timestamp::MAX.as_second() * 1000))
    }

    /// This point moved back by `span`.
    #[must_use]
    pub fn minus(self, span: Millis) -> Self {
        let moved = self
            .0
            .saturating_sub(i64::try_from(span).unwrap_or(i64::MAX));
        Self(moved.max(jiff::Timestamp::MIN.as_second() * 1000))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(stamp) => write!(f, "{stamp:.3}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

impl FromStr for Time {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        text.parse::<jiff::Timestamp>()
            .map(|stamp| Self(stamp.as_millisecond()))
            .map_err(|_| NotATime(text.to_owned()))
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
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Time {
    fn schema_name() -> Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "format": "date-time" })
    }
}

/// A span as people read it: `4s`, `12m`, `3h 5m`, `2d 4h`.
#[must_use]
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
///
/// # Errors
/// When the text is not a number with one of those units, or does not fit.
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
    fn the_end_of_time_can_be_written_and_read() {
        for time in [
            Time::from_millis(0).plus(u64::MAX),
            Time::from_millis(0).minus(u64::MAX),
        ] {
            assert_eq!(time.to_string().parse::<Time>().unwrap(), time);
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
