//! The clock and the source of ids: the only places where time and chance come in.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use flightline_core::Time;
use flightline_core::time::{Millis, Uptime};
use uuid::Uuid;

#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clock; on PostgreSQL the server's, so that all nodes agree.
    #[default]
    System,
    /// A clock that stands still until it is set.
    Fixed(Arc<Fixed>),
}

/// The time and the uptime of a clock that stands still.
#[derive(Debug)]
pub struct Fixed {
    at: AtomicI64,
    uptime: Mutex<Option<Uptime>>,
}

impl Clock {
    /// A clock that stands at `time`, of a machine that has been running since 1970.
    pub fn fixed(time: Time) -> Self {
        let uptime = Uptime {
            boot: "fixed".to_owned(),
            ms: time.since(Time::EARLIEST),
        };
        Self::Fixed(Arc::new(Fixed {
            at: AtomicI64::new(time.as_millis()),
            uptime: Mutex::new(Some(uptime)),
        }))
    }

    /// Lets time pass by a fixed clock; the machine's clock goes by itself.
    pub fn pass(&self, span: Millis) {
        if let Self::Fixed(fixed) = self {
            self.advance(i64::try_from(span).unwrap_or(i64::MAX));
            if let Some(uptime) = &mut *unpoisoned(&fixed.uptime) {
                uptime.ms = uptime.ms.saturating_add(span);
            }
        }
    }

    /// Sets a fixed clock ahead by `millis`, or back, without any time passing; the machine's clock stays as it is.
    pub fn advance(&self, millis: i64) {
        if let Self::Fixed(fixed) = self {
            fixed.at.fetch_add(millis, Ordering::SeqCst);
        }
    }

    /// Sets how long the machine of a fixed clock has been running; none when it is not known.
    pub fn set_uptime(&self, uptime: Option<Uptime>) {
        if let Self::Fixed(fixed) = self {
            *unpoisoned(&fixed.uptime) = uptime;
        }
    }

    /// Sets for how long the machine of a fixed clock has been running, since the boot that it knows.
    pub fn set_uptime_ms(&self, ms: Millis) {
        if let Self::Fixed(fixed) = self
            && let Some(uptime) = &mut *unpoisoned(&fixed.uptime)
        {
            uptime.ms = ms;
        }
    }

    /// The uptime of this machine, where it can be known.
    pub fn uptime(&self) -> Option<Uptime> {
        match self {
            Self::System => flightline_workspace::uptime(),
            Self::Fixed(fixed) => unpoisoned(&fixed.uptime).clone(),
        }
    }

    /// The time, on this machine.
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn now(&self) -> Time {
        match self {
            Self::System => {
                let elapsed = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                Time::from_millis(i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX))
            }
            Self::Fixed(fixed) => Time::from_millis(fixed.at.load(Ordering::SeqCst)),
        }
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone, Debug, Default)]
pub enum IdSource {
    #[default]
    Random,
    /// UUIDs that count up from a seed, for tests that show them.
    Counting(Arc<AtomicU64>),
}

impl IdSource {
    /// Ids that count up from `seed`.
    pub fn counting(seed: u64) -> Self {
        Self::Counting(Arc::new(AtomicU64::new(seed)))
    }

    /// The number of the next id, where ids are counted.
    pub fn upcoming(&self) -> Option<u64> {
        match self {
            Self::Random => None,
            Self::Counting(counter) => Some(counter.load(Ordering::SeqCst)),
        }
    }

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
