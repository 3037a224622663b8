//! What can happen in a fleet, and chance to choose from it.

use flightline_testkit::prelude::*;

use super::rules::Model;

pub const NAMES: [&str; 4] = ["ada", "bob", "eve", "dispatch"];
pub const PATHS: [&str; 8] = [
    "src/a.rs",
    "src/b.rs",
    "src",
    "src/lib/c.rs",
    "src/lib",
    "docs/x.md",
    "docs",
    ".",
];
const KEYS: [&str; 3] = ["deploy", "publish", "tag"];

/// An agent or a person acts.
#[derive(Clone, Debug)]
pub struct Step {
    /// How long after the step before, in milliseconds; the clock may go back.
    pub later: i64,
    /// An agent, or a person.
    pub who: Option<&'static str>,
    /// The incarnation it believes it is.
    pub epoch: Option<u64>,
    pub act: Act,
}

#[derive(Clone, Debug)]
pub enum Act {
    Create {
        sorties: usize,
    },
    Add {
        mission: usize,
        needs: Vec<usize>,
        files: Vec<&'static str>,
        priority: i32,
    },
    MoveMission {
        mission: usize,
        to: &'static str,
    },
    Claim {
        sortie: usize,
    },
    ClaimNext {
        mission: usize,
    },
    Move {
        sortie: usize,
        how: Move,
    },
    Error {
        sortie: usize,
        blocking: bool,
    },
    ClearErrors {
        sortie: usize,
    },
    Lock {
        paths: Vec<&'static str>,
        ttl: Option<i64>,
    },
    Renew {
        path: &'static str,
        fence: Option<u64>,
    },
    Release {
        path: &'static str,
        fence: Option<u64>,
    },
    ReleaseAll,
    Steal {
        path: &'static str,
    },
    Send {
        mission: usize,
        to: Vec<&'static str>,
    },
    Inbox,
    Acknowledge {
        message: usize,
    },
    AcknowledgeAll,
    Requeue {
        message: usize,
    },
    Reply {
        message: usize,
    },
    Heartbeat,
    Register {
        name: &'static str,
        role: Option<&'static str>,
    },
    Retire {
        name: &'static str,
    },
    Note {
        mission: usize,
    },
    Begin {
        mission: usize,
        key: &'static str,
        again: bool,
    },
    Done {
        mission: usize,
        key: &'static str,
    },
}

#[derive(Clone, Debug)]
pub enum Move {
    Assign(&'static str),
    Reassign(&'static str),
    Start,
    Block,
    Unblock,
    Resume,
    Complete,
    Fail,
    Release,
    Approve,
    Reject,
}

impl Move {
    /// What to ask of an operation.
    pub fn action(&self) -> SortieAction {
        match self {
            Move::Assign(to) => SortieAction::Assign {
                to: (*to).to_owned(),
            },
            Move::Reassign(to) => SortieAction::Reassign {
                to: (*to).to_owned(),
                reason: None,
            },
            Move::Start => SortieAction::Start,
            Move::Block => SortieAction::Block {
                reason: note("stuck"),
            },
            Move::Unblock => SortieAction::Unblock,
            Move::Resume => SortieAction::Resume,
            Move::Complete => DONE,
            Move::Fail => SortieAction::Fail {
                reason: note("enough"),
            },
            Move::Release => GIVEN_BACK,
            Move::Approve => SortieAction::Approve { reason: None },
            Move::Reject => SortieAction::Reject {
                reason: note("again"),
            },
        }
    }
}

/// A small xorshift: the same seed gives the same story.
pub struct Chance {
    state: u64,
    /// For so many steps more, agents hardly do anything but give signs of life while time passes.
    vigil: usize,
}

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self {
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            vigil: 0,
        }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state >> 11
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next()).unwrap_or(0) % end.max(1)
    }

    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn several<T: Copy + PartialEq>(&mut self, all: &[T], most: usize) -> Vec<T> {
        let count = self.below(most + 1).min(all.len());
        let mut chosen = Vec::new();
        while chosen.len() < count {
            let one = self.of(all);
            if !chosen.contains(&one) {
                chosen.push(one);
            }
        }
        chosen
    }

    /// The next step in a fleet that stands like the model.
    pub fn step(&mut self, model: &Model) -> Step {
        match self.vigil.checked_sub(1) {
            Some(left) => self.vigil = left,
            None if self.one_in(30) => self.vigil = 8,
            None => {}
        }
        let act = match self.vigil > 0 && !model.missions.is_empty() {
            true => self.quiet_act(model),
            false => self.act(model),
        };
        let mut who = (!self.one_in(6)).then(|| self.of(&NAMES));
        // Owners and holders mostly look after their own.
        let owner = match &act {
            Act::Move { sortie, .. } | Act::Error { sortie, .. } | Act::ClearErrors { sortie } => {
                model.sorties[*sortie].owner
            }
            Act::Renew { path, .. } | Act::Release { path, .. } => {
                let lock = model.locks.iter().find(|lock| lock.path == *path);
                lock.map(|lock| lock.holder)
            }
            _ => None,
        };
        if let Some(owner) = owner.filter(|_| !self.one_in(3)) {
            who = Some(model.agents[owner].name);
        }
        let known = who.and_then(|name| model.agent(name));
        let current = known.map_or(1, |agent| model.agents[agent].epoch);
        let epoch = match self.below(12) {
            0 => Some(current + 1),
            1 => Some(current.saturating_sub(1)),
            2..5 => Some(current),
            _ => None,
        };
        let minute = 60_000;
        let later = match self.below(40) {
            0 => 40 * minute,
            1 => 600 * minute,
            2 => -90 * minute,
            3..6 => 9 * minute,
            6..20 if self.vigil > 0 => 7 * minute,
            6..8 => 14 * minute,
            8..20 => 1 + i64::try_from(self.below(120_000)).unwrap_or(0),
            _ => 0,
        };
        Step {
            later,
            who,
            epoch,
            act,
        }
    }

    fn act(&mut self, model: &Model) -> Act {
        if model.missions.is_empty() {
            return Act::Create { sorties: 3 };
        }
        let mission = self.below(model.missions.len());
        let sortie = model
            .sorties
            .len()
            .checked_sub(1)
            .map(|last| self.below(last + 1));
        let message = model
            .mail
            .len()
            .checked_sub(1)
            .map(|last| self.below(last + 1));
        loop {
            let act = match self.below(100) {
                0..2 if model.missions.len() < 5 => Act::Create {
                    sorties: self.below(4),
                },
                2..8 if model.sorties.len() < 40 => self.add(model, mission),
                8..11 => Act::MoveMission {
                    mission,
                    to: self.of(&[
                        "in_progress",
                        "in_progress",
                        "in_progress",
                        "paused",
                        "completed",
                        "failed",
                        "archived",
                    ]),
                },
                11..18 => Act::ClaimNext { mission },
                18..23 => Act::Lock {
                    paths: self.paths(),
                    ttl: None,
                },
                23..30 => Act::Lock {
                    paths: self.paths(),
                    ttl: Some(self.of(&[60_000, 15 * 60_000, 7_200_000])),
                },
                30..34 => Act::Renew {
                    path: self.path(model),
                    fence: self.fence(model),
                },
                34..38 => Act::Release {
                    path: self.path(model),
                    fence: self.fence(model),
                },
                38 => Act::ReleaseAll,
                39..42 => Act::Steal {
                    path: self.of(&PATHS),
                },
                42..46 => Act::Send {
                    mission,
                    to: self.recipients(),
                },
                46..49 => Act::Inbox,
                49 => Act::AcknowledgeAll,
                50..54 => Act::Heartbeat,
                54..57 => Act::Register {
                    name: self.of(&NAMES),
                    role: self.of(&[None, None, None, Some("dispatch"), Some("specialist")]),
                },
                57 => Act::Retire {
                    name: self.of(&NAMES),
                },
                58..60 => Act::Note { mission },
                60..63 => Act::Begin {
                    mission,
                    key: self.of(&KEYS),
                    again: self.one_in(3),
                },
                63..65 => Act::Done {
                    mission,
                    key: self.of(&KEYS),
                },
                about @ 65..72 => match (message, about) {
                    (Some(message), 65..68) => Act::Acknowledge { message },
                    (Some(message), 68..70) => Act::Requeue { message },
                    (Some(message), _) => Act::Reply { message },
                    (None, _) => continue,
                },
                about => match (sortie, about) {
                    (Some(sortie), 72..78) => Act::Claim { sortie },
                    (Some(sortie), 78) => Act::Error {
                        sortie,
                        blocking: true,
                    },
                    (Some(sortie), 79) => Act::Error {
                        sortie,
                        blocking: false,
                    },
                    (Some(sortie), 80) => Act::ClearErrors { sortie },
                    (Some(sortie), _) => Act::Move {
                        sortie,
                        how: self.how(),
                    },
                    (None, _) => continue,
                },
            };
            return act;
        }
    }

    fn quiet_act(&mut self, model: &Model) -> Act {
        match self.below(10) {
            0..6 => Act::Heartbeat,
            6 => Act::Release {
                path: "nowhere",
                fence: None,
            },
            7 => Act::Renew {
                path: self.path(model),
                fence: None,
            },
            _ => Act::Lock {
                paths: self.paths(),
                ttl: Some(15 * 60_000),
            },
        }
    }

    fn how(&mut self) -> Move {
        match self.below(16) {
            0 | 1 => Move::Assign(self.of(&NAMES)),
            2 => Move::Reassign(self.of(&NAMES)),
            3 | 4 => Move::Start,
            5 => Move::Block,
            6 | 7 => Move::Unblock,
            8 => Move::Resume,
            9..12 => Move::Complete,
            12 => Move::Fail,
            13 => Move::Release,
            14 => Move::Approve,
            _ => Move::Reject,
        }
    }

    fn add(&mut self, model: &Model, mission: usize) -> Act {
        let same: Vec<usize> = (0..model.sorties.len())
            .filter(|at| model.sorties[*at].mission == mission)
            .collect();
        let needs = if self.one_in(3) {
            self.several(&same, 2)
        } else {
            Vec::new()
        };
        let files = self.several(&PATHS[..7], 1);
        let priority = i32::try_from(self.below(3)).unwrap_or(0) - 1;
        Act::Add {
            mission,
            needs,
            files,
            priority,
        }
    }

    fn paths(&mut self) -> Vec<&'static str> {
        let mut paths = self.several(&PATHS[..7], 2);
        if paths.is_empty() {
            paths.push(self.of(&PATHS));
        }
        paths
    }

    /// Mostly a path that is locked.
    fn path(&mut self, model: &Model) -> &'static str {
        let locked: Vec<&'static str> = model.locks.iter().map(|lock| lock.path).collect();
        match locked.is_empty() || self.one_in(5) {
            true => self.of(&PATHS),
            false => self.of(&locked),
        }
    }

    /// Mostly none, else the last one granted or any that ever was.
    fn fence(&mut self, model: &Model) -> Option<u64> {
        match self.below(4) {
            0 => model.fences.last().copied(),
            1 if !model.fences.is_empty() => Some(self.of(&model.fences)),
            _ => None,
        }
    }

    fn recipients(&mut self) -> Vec<&'static str> {
        let mut to = self.several(&NAMES, 2);
        if to.is_empty() {
            to.push("dispatch");
        }
        to
    }
}
