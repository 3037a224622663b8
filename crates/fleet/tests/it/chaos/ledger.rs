//! What clients were told, and the thing that locks are for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::chaos::http::Request;

/// Longer than anything takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was acknowledged, and what nobody answered for.
#[derive(Default)]
pub struct Ledger {
    inside: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    acknowledged: BTreeMap<String, (Request, Value)>,
    unanswered: BTreeSet<String>,
    refused: BTreeSet<String>,
}

impl Ledger {
    pub fn acknowledge(&self, text: &str, request: Request, answer: Value) {
        let mut entries = self.inside.lock().unwrap();
        entries
            .acknowledged
            .insert(text.to_owned(), (request, answer));
    }

    pub fn leave_open(&self, text: &str) {
        self.inside
            .lock()
            .unwrap()
            .unanswered
            .insert(text.to_owned());
    }

    pub fn refuse(&self, text: &str) {
        self.inside.lock().unwrap().refused.insert(text.to_owned());
    }

    pub fn acknowledged(&self) -> usize {
        self.inside.lock().unwrap().acknowledged.len()
    }

    /// Waits until so many more are acknowledged; how long that took.
    pub fn wait_for(&self, more: usize) -> Duration {
        let (began, before) = (Instant::now(), self.acknowledged());
        while self.acknowledged() < before + more {
            assert!(
                began.elapsed() < PATIENCE,
                "nothing is acknowledged any more"
            );
            thread::sleep(Duration::from_millis(5));
        }
        began.elapsed()
    }

    pub fn unanswered(&self) -> usize {
        self.inside.lock().unwrap().unanswered.len()
    }

    /// What was done, and what was answered then.
    pub fn done(&self) -> Vec<(Request, Value)> {
        let entries = self.inside.lock().unwrap();
        entries.acknowledged.values().cloned().collect()
    }

    /// Holds what is there against what was said: everything acknowledged once, everything else at most
    /// once if nobody answered for it, and nothing that nobody asked for.
    pub fn check(&self, there: &[String]) {
        let entries = self.inside.lock().unwrap();
        let mut times: BTreeMap<&str, u64> = BTreeMap::new();
        for text in there {
            *times.entry(text).or_default() += 1;
        }
        let doubled: Vec<_> = times.iter().filter(|(_, times)| **times > 1).collect();
        assert!(doubled.is_empty(), "doubled: {doubled:?}");
        let is_there = |text: &&String| times.contains_key(text.as_str());
        let known = &entries.acknowledged;
        let lost: Vec<_> = known.keys().filter(|text| !is_there(text)).collect();
        assert!(lost.is_empty(), "acknowledged, and lost: {lost:?}");
        let refused: Vec<_> = entries.refused.iter().filter(is_there).collect();
        assert!(refused.is_empty(), "refused, and done: {refused:?}");
        for text in there {
            assert!(
                known.contains_key(text) || entries.unanswered.contains(text),
                "nobody asked for {text}"
            );
        }
    }
}

/// Things outside that are written to under a lock. They know nothing of locks but the fence, and refuse
/// every holder with a lower one than they have seen.
#[derive(Default)]
pub struct Resources {
    inside: Mutex<Inside>,
}

#[derive(Default)]
struct Inside {
    holders: BTreeMap<String, (String, u64)>,
    /// Who got which fence: nobody else ever gets it.
    fences: BTreeMap<u64, (String, String)>,
    /// The highest fence that wrote to each.
    highest: BTreeMap<String, u64>,
    grants: u64,
    turned_away: u64,
}

/// What became of a write to a thing outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    Taken,
    TurnedAway,
}

impl Resources {
    /// A client was told that it has this lock.
    pub fn granted(&self, path: &str, client: &str, fence: u64) {
        let mut inside = self.inside.lock().unwrap();
        inside.grants += 1;
        let owner = (path.to_owned(), client.to_owned());
        let had = inside.fences.insert(fence, owner.clone());
        assert!(
            had.is_none(),
            "fence {fence} on {path} was granted to {client}, and before that to {had:?}"
        );
    }

    /// From here on nobody else may have it, until it is given back.
    pub fn hold(&self, path: &str, client: &str, fence: u64) {
        let mut inside = self.inside.lock().unwrap();
        let held = inside
            .holders
            .insert(path.to_owned(), (client.to_owned(), fence));
        assert!(
            held.is_none(),
            "{client} got {path} with fence {fence} while {held:?} had it"
        );
        let highest = inside.highest.get(path).copied().unwrap_or_default();
        assert!(
            fence > highest,
            "{client} got {path} with fence {fence} after {highest}"
        );
    }

    /// It is about to be given back.
    pub fn let_go(&self, path: &str) {
        self.inside.lock().unwrap().holders.remove(path);
    }

    /// Writes to it.
    pub fn write(&self, path: &str, client: &str, fence: u64) -> Write {
        let mut inside = self.inside.lock().unwrap();
        let (of, owner) = &inside.fences[&fence];
        assert_eq!(
            (of.as_str(), owner.as_str()),
            (path, client),
            "not its fence"
        );
        let highest = inside.highest.entry(path.to_owned()).or_default();
        if fence < *highest {
            inside.turned_away += 1;
            return Write::TurnedAway;
        }
        *highest = fence;
        Write::Taken
    }

    /// How many locks were granted, and how many late writers turned away.
    pub fn figures(&self) -> (u64, u64) {
        let inside = self.inside.lock().unwrap();
        (inside.grants, inside.turned_away)
    }
}
