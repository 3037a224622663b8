//! Locks: one live grant per path, with a fence that only grows.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, LockId, MissionId, SortieId};
use crate::path::RepoPath;
use crate::subject::{Keys, Kind, Subject};
use crate::text::Title;
use crate::time::{Millis, Time};

/// A lock. It has no expiry of its own: it lapses `timeout_ms` after its holder's last sign of life.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Lock {
    /// Its id.
    pub id: LockId,
    /// The file or folder.
    pub file: RepoPath,
    /// Who holds it.
    pub held_by: AgentId,
    /// The holder's incarnation at the grant.
    pub epoch: u64,
    /// The revision of the grant: larger than that of any grant before it.
    pub fence: u64,
    /// The sortie it is held for.
    pub sortie_id: Option<SortieId>,
    /// The mission of that sortie.
    pub mission_id: Option<MissionId>,
    /// Why.
    pub purpose: Option<Title>,
    /// How long after the holder's last sign of life it lapses.
    pub timeout_ms: Millis,
    /// When it was granted.
    pub acquired_at: Time,
}

impl Lock {
    /// Whether it has lapsed: its holder gave no sign of life for longer than the timeout.
    /// `sign` is the newest of the holder's last sign of life, the grant, and the moment since when
    /// Flightline itself has been able to notice signs.
    #[must_use]
    pub fn has_lapsed(&self, sign: Time, now: Time) -> bool {
        now.since(self.newest(sign, now)) > self.timeout_ms
    }

    /// How long it will still be held if its holder gives no further sign of life.
    #[must_use]
    pub fn remaining(&self, sign: Time, now: Time) -> Millis {
        self.timeout_ms
            .saturating_sub(now.since(self.newest(sign, now)))
    }

    /// A grant that lies in the future was made by a clock that was wrong, and proves nothing.
    fn newest(&self, sign: Time, now: Time) -> Time {
        if self.acquired_at > now {
            sign
        } else {
            sign.max(self.acquired_at)
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

    #[test]
    fn a_lock_lapses_after_silence_and_not_a_moment_earlier() {
        let at = Time::from_millis(1_000);
        let lock = Lock {
            id: "lck-00000000-0000-4000-8000-000000000001".parse().unwrap(),
            file: RepoPath::parse("src/a").unwrap(),
            held_by: "agt-00000000-0000-4000-8000-000000000001".parse().unwrap(),
            epoch: 1,
            fence: 7,
            sortie_id: None,
            mission_id: None,
            purpose: None,
            timeout_ms: 500,
            acquired_at: at,
        };
        let quiet = Time::from_millis(0);
        assert!(!lock.has_lapsed(quiet, at.plus(500)));
        assert!(lock.has_lapsed(quiet, at.plus(501)));
        assert!(
            !lock.has_lapsed(at.plus(400), at.plus(900)),
            "a sign of life keeps it"
        );
        assert!(
            !lock.has_lapsed(at.plus(400), at.minus(900)),
            "a clock that went backwards keeps it"
        );
        assert_eq!(lock.remaining(quiet, at.plus(200)), 300);
    }
}
