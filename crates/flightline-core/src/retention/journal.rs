//! Tells which old values of the journal a checkpoint that stays still needs.

use std::collections::{BTreeMap, BTreeSet};

use crate::checkpoint::section_of;
use crate::id::MissionId;
use crate::subject::Kind;

/// A value of the journal that a later one has replaced, or that ended with its subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superseded {
    pub rev: u64,
    pub next: u64,
    pub kind: Kind,
    /// The mission that its subject belonged to when it got this value.
    pub mission: Option<MissionId>,
    pub bytes: u64,
}

/// The revisions that the checkpoints name which stay.
#[derive(Clone, Debug, Default)]
pub struct KeptCuts {
    all: BTreeSet<u64>,
    of: BTreeMap<MissionId, BTreeSet<u64>>,
}

impl KeptCuts {
    /// Adds a checkpoint of `mission` that names `rev`.
    pub fn add(&mut self, mission: MissionId, rev: u64) {
        self.all.insert(rev);
        self.of.entry(mission).or_default().insert(rev);
    }

    /// Returns true when a checkpoint that stays needs the value: it was its subject's when that checkpoint was taken,
    /// and the checkpoint includes the subject. Values that belong to the project are in the checkpoints of every
    /// mission.
    pub fn need(&self, value: &Superseded) -> bool {
        let cuts = match (value.mission, value.kind) {
            _ if section_of(value.kind).is_none() => None,
            (Some(mission), _) => self.of.get(&mission),
            (None, Kind::Agent | Kind::Step | Kind::Lock) => Some(&self.all),
            (None, _) => None,
        };
        cuts.is_some_and(|cuts| cuts.range(value.rev..value.next).next().is_some())
    }
}
