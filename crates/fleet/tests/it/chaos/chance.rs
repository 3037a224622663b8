//! Chance that can be had again: everything random in a run comes from its seed.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// A source of numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Another source, the same for the same number.
    pub fn branch(&self, number: u64) -> Self {
        let mut branch = Self(self.0 ^ number.wrapping_mul(0xd134_2543_de82_ef95));
        branch.next();
        branch
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A place in a list that long.
    pub fn place(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }

    /// True so many times of a hundred.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }

    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.place(last + 1));
        }
    }
}

/// The seed that was asked for, or a new one; printed, so that it can be asked for.
pub fn seed() -> u64 {
    let seed =
        asked_for("FLEET_CHAOS_SEED").unwrap_or_else(|| RandomState::new().hash_one(0) % 1_000_000);
    println!("FLEET_CHAOS_SEED={seed}");
    seed
}

/// How long trouble lasts.
pub fn duration(usual: u64) -> Duration {
    Duration::from_secs(asked_for("FLEET_CHAOS_SECONDS").unwrap_or(usual))
}

/// How often something is done.
pub fn rounds(usual: u64) -> u64 {
    asked_for("FLEET_KILL_ROUNDS").unwrap_or(usual)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the caller of the test says for how long"
)]
fn asked_for(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} is not a number: {text}")),
    )
}
