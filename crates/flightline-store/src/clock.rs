//! The clock and the source of ids: the only places where time and chance come in.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use flightline_core::Time;
use uuid::Uuid;

/// Where the time comes from.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clock; on PostgreSQL the server's, so that all nodes agree.
    #[default]
    System,
    /// A clock that stands still until it is set.
    Fixed(Arc<AtomicI64>),
}

impl Clock {
    /// A clock that stands at `time`.
    #[must_use]
    pub fn fixed(time: Time) -> Self {
        Self::Fixed(Arc::new(AtomicI64::new(time.as_millis())))
    }

    /// Moves a fixed clock by `millis`, which may be negative; the machine's clock stays as it is.
    pub fn advance(&self, millis: i64) {
        if let Self::Fixed(at) = self {
            at.fetch_add(millis, Ordering::SeqCst);
        }
    }

    /// The time, on this machine.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn now(&self) -> Time {
        match self {
            Self::System => {
                let elapsed = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                Time::from_millis(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
            }
            Self::Fixed(at) => Time::from_millis(at.load(Ordering::SeqCst)),
        }
    }
}

/// Where new ids come from.
#[derive(Clone, Debug, Default)]
pub enum Ids {
    /// Random UUIDs.
    #[default]
    Random,
    /// UUIDs that count up from a seed, for tests that show them.
    Counting(Arc<AtomicU64>),
}

impl Ids {
    /// Ids that count up from `seed`.
    #[must_use]
    pub fn counting(seed: u64) -> Self {
        Self::Counting(Arc::new(AtomicU64::new(seed)))
    }

    /// The number of the next one, where they count.
    #[must_use]
    pub fn upcoming(&self) -> Option<u64> {
        match self {
            Self::Random => None,
            Self::Counting(counter) => Some(counter.load(Ordering::SeqCst)),
        }
    }

    /// The next one.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the source of ids")]
    pub fn next(&self) -> Uuid {
        match self {
            Self::Random => Uuid::new_v4(),
            Self::Counting(counter) => {
                let number = counter.fetch_add(1, Ordering::SeqCst);
                // Spread the counter over the leading digits, so that short ids differ.
                let lead = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
                Uuid::from_u64_pair((lead & !0xF000) | 0x4000, 0x8000_0000_0000_0000 | number)
            }
        }
    }
}
