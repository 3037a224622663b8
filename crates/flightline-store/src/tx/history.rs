//! The histories of this journal: begins new ones, and knows the places of earlier ones that are part of it.

use flightline_core::Subject;
use flightline_core::agent::Agent;
use flightline_core::event::EventType;
use flightline_core::history::{Branch, LEFT_OUT};
use flightline_core::setting::EpochFloor;
use serde_json::json;

use super::Tx;
use crate::error::StoreError;
use crate::loss::Loss;
use crate::table::subject::Find;
use crate::table::{event, subject};

/// The number of histories that are followed back. A reader from further back starts again.
const FOLLOWED: usize = 64;

impl Tx<'_> {
    /// The id of the unbroken journal this store holds.
    pub fn history(&self) -> &str {
        &self.project.history
    }

    /// Returns true when this is a place in the journal as it is: in its own history, or in one that it continues, before
    /// it was left.
    pub fn has_place(&mut self, history: &str, rev: u64) -> Result<bool, StoreError> {
        Ok(self.part_of(history)?.is_some_and(|last| rev <= last))
    }

    /// The last revision of a history that is part of this journal; none when this journal does not continue that history.
    pub fn part_of(&mut self, history: &str) -> Result<Option<u64>, StoreError> {
        if self.project.history == history {
            return Ok(Some(self.project.rev));
        }
        let branches = self.branches()?;
        let left = branches.iter().find(|branch| branch.before == history);
        Ok(left.map(|branch| branch.left_at))
    }

    /// The branches from earlier histories to this one, newest first.
    pub fn branches(&mut self) -> Result<Vec<Branch>, StoreError> {
        let (mut branches, mut history) = (Vec::new(), self.project.history.clone());
        while branches.len() < FOLLOWED
            && let Some(branch) = self.get::<Branch>(&Branch::key_of(&history))?
        {
            history.clone_from(&branch.before);
            branches.push(branch);
        }
        Ok(branches)
    }

    /// The epoch up to which none may be handed out any more: a part of the journal that was lost may have done so.
    pub fn epochs_above(&mut self) -> Result<u64, StoreError> {
        let branch = self.get::<Branch>(&Branch::key_of(&self.project.history))?;
        Ok(branch.map_or(0, |branch| branch.epochs_above))
    }

    /// The first existing revision at `rev` or after it.
    pub fn next_there(&mut self, rev: u64) -> Result<Option<u64>, StoreError> {
        event::next(self.driver, &self.project.id, rev)
    }

    /// Begins another history, whose counter lies above `above`. No sign of life from before it is missed.
    pub(crate) fn begin_history(&mut self, above: u64) {
        self.project.rev = above;
        self.project.history = self.ids.next().to_string();
        self.project.awake_since = self.now;
        self.project.timeline = self.driver.timeline();
        self.step = self.next_rev();
    }

    /// Returns true when a replica replaced the database since the last write. Only a database that tells its timeline can
    /// show it.
    pub(crate) fn was_replaced(&self) -> bool {
        match (self.project.timeline, self.driver.timeline()) {
            (Some(written), Some(now)) => written != now,
            (None, _) | (_, None) => false,
        }
    }

    /// Begins a new history where a replica replaced the database, or where the database lost its end. The last
    /// acknowledged data may be lost, and places, fences and epochs that were handed out then must never mean anything
    /// else.
    pub(crate) fn go_on(&mut self) -> Result<(), StoreError> {
        let lost = self.losses.iter().find_map(|loss| match loss {
            Loss::Tail { from, to } => Some(json!({ "from": from, "to": to })),
            Loss::Event { .. } | Loss::Project => None,
        });
        if !self.was_replaced() && lost.is_none() {
            // A file has none, whatever its row says.
            if self.project.timeline.is_none() || self.driver.name() == "sqlite" {
                self.project.timeline = self.driver.timeline();
            }
            return Ok(());
        }
        let (before, left_at) = (self.project.history.clone(), self.project.rev);
        let (was, highest) = (self.project.timeline, self.highest_epoch()?);
        self.begin_history(left_at.saturating_add(LEFT_OUT));
        let history = self.project.history.clone();
        let branch = Branch::new(history, before, left_at, highest, self.now);
        let mut data = json!({
            "history": branch.history,
            "before": { "history": branch.before, "rev": branch.left_at },
        });
        match lost {
            Some(lost) => {
                data["reason"] = "the end of the database was lost".into();
                data["lost"] = lost;
            }
            None => {
                data["reason"] = "a replica replaced the database".into();
                data["database"] = json!({ "before": was, "now": self.project.timeline });
            }
        }
        self.set(EventType::HistoryBegun, &branch, &data)?;
        // Whatever is written next is a request of its own.
        self.step = self.next_rev();
        Ok(())
    }

    /// The highest epoch that any agent has, or must lie above. A record that cannot be read hides no other.
    fn highest_epoch(&mut self) -> Result<u64, StoreError> {
        let floor = self.get::<EpochFloor>(EpochFloor::KEY)?;
        let floor = floor.map_or(0, |floor| floor.epoch);
        let mut highest = self.epochs_above()?.max(floor);
        let project = &self.project.id;
        for document in subject::documents(self.driver, project, Agent::KIND, Find::All)? {
            match self.read_document::<Agent>(Agent::KIND, document) {
                Ok(agent) => highest = highest.max(agent.epoch),
                Err(StoreError::Corrupt(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(highest)
    }
}
