//! Commits several writes together: one trip to the disk for all that wait, and a place to come back to for each, so that
//! a refused write takes nothing from its neighbours. Where a commit is a round trip, the writes are decided on the
//! remembered state of the project, and all of them are one round trip; where another process wrote meanwhile, they are
//! decided again.

use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::time::Instant;

use flightline_core::Time;

use super::{Ending, Store, TxAccess, Verdict, Work, Written};
use crate::clock::Clock;
use crate::engine::{Anchor, Durability, OptimisticCommit, OptimisticRow};
use crate::error::StoreError;
use crate::table::project::{self, ProjectRow};
use crate::tx::{Actor, Trace, Tx};

pub(super) struct Group {
    /// The project's row, as the earlier members have left it.
    project: ProjectRow,
    now: Time,
    trace: Trace,
    /// True when the place is marked that the next member can come back to.
    marked: bool,
    /// The place in the write cache to go back to when the next member is dropped.
    mark: usize,
    /// True when the transaction is gone, or in doubt: nothing of it may be committed.
    lost: bool,
}

/// The number of groups in a row that another process overtook after which the project is held from the beginning …
const OVERTAKEN: u32 = 2;
/// … and the number of groups for which it is: where several nodes write to one project all the time, waiting costs less
/// than deciding again.
const HOLDING: u32 = 16;

/// The record of groups that were decided without holding the project.
#[derive(Default)]
pub(super) struct OptimisticGroups {
    overtaken: u64,
    in_a_row: u32,
    /// The number of next groups that hold the project.
    holding: u32,
    /// True when the last group was overtaken.
    last: bool,
    /// The numbers of damaged values and losses that were noticed before the group: findings of an overtaken group may
    /// never have been true.
    noticed: (usize, usize),
}

impl OptimisticGroups {
    fn overtake(&mut self) {
        self.overtaken += 1;
        self.in_a_row += 1;
        self.last = true;
        if self.in_a_row >= OVERTAKEN {
            self.in_a_row = 0;
            self.holding = HOLDING;
        }
    }
}

impl Store {
    /// Makes further writes members of a group: they are done when [`Store::commit_group`] says so, and until then the
    /// results of their closures are promises. Reads see the writes of earlier members.
    pub fn begin_group(&mut self) -> Result<(), StoreError> {
        self.check_trust()?;
        self.ahead.last = false;
        self.ahead.noticed = (self.noticed.len(), self.losses.len());
        let begun = match self.begin_ahead() {
            Ok(None) => {
                self.driver
                    .begin_write(Durability::Full, self.options.patience)?;
                self.guarded(|store| {
                    let tx = store.transaction(TxAccess::Write)?;
                    Ok((tx.project, tx.now, tx.trace))
                })
            }
            Ok(Some((project, now))) => Ok((project, now, Trace::default())),
            Err(error) => Err(error),
        };
        let (project, now, trace) = begun.inspect_err(|_: &StoreError| self.driver.rollback())?;
        self.group = Some(Group {
            project,
            now,
            trace,
            marked: false,
            mark: 0,
            lost: false,
        });
        Ok(())
    }

    /// Returns true when writes had better be members of a group, be it of one: then they hold nothing while they are
    /// decided.
    pub fn prefers_groups(&self) -> bool {
        self.driver.name() == "postgres"
    }

    /// Returns true when the last group was not committed because another process wrote to the project meanwhile: it may
    /// be decided again.
    pub fn was_overtaken(&self) -> bool {
        self.ahead.last
    }

    /// The number of groups that another process overtook.
    pub fn times_overtaken(&self) -> u64 {
        self.ahead.overtaken
    }

    /// Begins a group on the cached state of the project, if that is enough: its last values are remembered, and a
    /// transaction would find nothing to do at its beginning.
    fn begin_ahead(&mut self) -> Result<Option<(ProjectRow, Time)>, StoreError> {
        self.ahead.holding = match self.ahead.holding {
            0 if self.options.remember.load(Ordering::Relaxed)
                && self.caches.of(&self.project).is_some() =>
            {
                0
            }
            0 => return Ok(None),
            left => {
                self.ahead.holding = left - 1;
                return Ok(None);
            }
        };
        let Some(footing) = self.driver.begin_ahead(&self.project)? else {
            return Ok(None);
        };
        let begun = self.stand_on(&footing)?;
        if begun.is_none() {
            self.driver.rollback();
        }
        Ok(begun)
    }

    fn stand_on(
        &mut self,
        footing: &OptimisticRow,
    ) -> Result<Option<(ProjectRow, Time)>, StoreError> {
        let driver = self.driver.as_mut();
        let mut project = ProjectRow::from_row(driver, &self.project, &footing.row)?;
        let now = match &self.options.clock {
            Clock::System => footing.now,
            fixed @ Clock::Fixed(_) => fixed.now(),
        };
        let usual = project.intact
            && now.is_plausible()
            && project.timeline == self.driver.timeline()
            && self.losses_of(&project).is_empty()
            && !self.is_pause(project.seen_at, now);
        if !usual {
            return Ok(None);
        }
        project.seen_at = now;
        self.caches.recall(self.driver.as_mut(), &project)?;
        if let Some(cache) = self.caches.of(&self.project) {
            cache.hear(self.driver.as_mut(), now)?;
        }
        Ok(Some((project, now)))
    }

    /// Commits a group that does not hold the project; none where it has to go on as one that does.
    fn commit_optimistic(&mut self, group: &Group) -> Option<Result<(), StoreError>> {
        let events = group.trace.len();
        let landed = match project::commit_optimistic(self.driver.as_mut(), &group.project, events)
        {
            Ok(OptimisticCommit::Held) => return None,
            Ok(OptimisticCommit::Made) => Ok(()),
            Ok(OptimisticCommit::Overtaken) => {
                self.go_back_overtaken();
                let by = "another writer changed the project in the meantime";
                return Some(Err(StoreError::Collision(by.to_owned())));
            }
            Err(StoreError::CommitUnknown(cause)) if self.can_settle() => {
                self.settle(&group.trace, &cause)
            }
            // One member caused the failure. Run by itself, each shows whether it was the one.
            Err(StoreError::Engine { cause, .. }) => Err(StoreError::Collision(cause)),
            Err(error) => Err(error),
        };
        if landed.is_ok() {
            self.ahead.in_a_row = 0;
        }
        self.remember(landed.is_ok(), &group.project);
        Some(landed)
    }

    fn go_back_overtaken(&mut self) {
        self.ahead.overtake();
        self.noticed.truncate(self.ahead.noticed.0);
        self.losses.truncate(self.ahead.noticed.1);
        if let Some(cache) = self.caches.of(&self.project) {
            cache.go_back(0);
        }
    }

    pub fn has_sound_group(&self) -> bool {
        self.group.as_ref().is_some_and(|group| !group.lost)
    }

    /// Commits the writes of the members. When this returns `Ok`, every one of them is durable and has been read back.
    /// After [`StoreError::Collision`] nothing was written and all of them may be run again; other errors are as with
    /// [`Store::write`].
    pub fn commit_group(&mut self) -> Result<(), StoreError> {
        let Some(group) = self.group.take() else {
            return Ok(());
        };
        if group.lost {
            if self.driver.was_overtaken() {
                self.go_back_overtaken();
            }
            self.roll_back();
            return Err(StoreError::Collision("a neighbour failed".to_owned()));
        }
        if self.driver.is_ahead()
            && let Some(landed) = self.commit_optimistic(&group)
        {
            return landed;
        }
        if let Err(error) = self.driver.deliver() {
            self.roll_back();
            // One member caused the failure. Run by itself, each shows whether it was the one.
            return Err(match error {
                StoreError::Corrupt(cause)
                | StoreError::Engine { cause, .. }
                | StoreError::Busy(cause) => StoreError::Collision(cause),
                error => error,
            });
        }
        if let Err(error) = project::advance(self.driver.as_mut(), &group.project) {
            self.roll_back();
            return Err(error);
        }
        let committed = self.commit(Durability::Full, &group.trace);
        self.remember(committed.is_ok(), &group.project);
        committed
    }

    pub fn abandon_group(&mut self) {
        if self.group.take().is_some() {
            self.roll_back();
        }
    }

    pub(super) fn look_in_group(
        &mut self,
        look: &mut dyn FnMut(&mut Tx<'_>),
    ) -> Result<(), StoreError> {
        let mut tx = self.member()?;
        look(&mut tx);
        let (noticed, losses) = (tx.take_noticed(), tx.take_losses());
        self.notice(noticed, losses);
        if !self.driver.is_sound() {
            self.lose();
        }
        Ok(())
    }

    pub(super) fn attempt_in_group(
        &mut self,
        ending: Ending,
        work: &mut Work<'_>,
    ) -> Result<Verdict, StoreError> {
        self.mark()?;
        let ran = self.guarded(|store| {
            let mut tx = store.member()?;
            let verdict = work(&mut tx);
            let (noticed, losses) = (tx.take_noticed(), tx.take_losses());
            let (trace, project) = (tx.trace, tx.project);
            store.notice(noticed, losses);
            Ok::<_, StoreError>((verdict, Written { trace, project }))
        });
        match (ran, ending) {
            (Ok((Verdict::Keep, Written { trace, project })), Ending::Commit) => {
                let kept = self.driver.release(Anchor::Member);
                // A closure that passed over a failure would fail at its own commit as well.
                let sound = kept.is_ok() && self.driver.is_sound();
                if let Some(group) = &mut self.group {
                    group.project = project;
                    group.trace.follow(trace);
                    group.marked = false;
                    group.lost |= !sound;
                }
                kept.map(|()| Verdict::Keep)
            }
            (ran, _) => {
                self.drop_member();
                ran.map(|(verdict, _)| verdict)
            }
        }
    }

    /// Marks the place where the next member begins.
    fn mark(&mut self) -> Result<(), StoreError> {
        let Some(group) = &mut self.group else {
            return Ok(());
        };
        if group.lost {
            return Err(StoreError::Collision("a neighbour failed".to_owned()));
        }
        let marked = match group.marked {
            true => Ok(()),
            false => self.driver.savepoint(Anchor::Member),
        };
        group.marked = true;
        group.lost = marked.is_err();
        let cache = self.caches.of(&self.project);
        group.mark = cache.map_or(0, |cache| cache.mark());
        marked
    }

    /// Drops the writes of the member that just ran.
    pub(super) fn drop_member(&mut self) {
        let Some(group) = &mut self.group else { return };
        // The rollback does not go to a place that the member made and left open: that would keep half of it.
        if !group.lost && self.driver.roll_back_to(Anchor::Member).is_err() {
            group.lost = true;
        }
        if let Some(cache) = self.caches.of(&self.project) {
            cache.go_back(group.mark);
        }
    }

    fn lose(&mut self) {
        if let Some(group) = &mut self.group {
            group.lost = true;
        }
    }

    fn member(&mut self) -> Result<Tx<'_>, StoreError> {
        let Some(group) = &self.group else {
            return Err(StoreError::Collision("there is no group".to_owned()));
        };
        Ok(Tx {
            step: group.project.rev + 1,
            driver: self.driver.as_mut(),
            project: group.project.clone(),
            ids: self.options.ids.clone(),
            drawn: RefCell::default(),
            clock: self.options.clock.clone(),
            now: group.now,
            happened: None,
            actor: Actor::flightline(),
            began: Instant::now(),
            noticed: Vec::new(),
            losses: Vec::new(),
            trace: Trace::default(),
            cache: self.caches.of(&self.project),
            seen: None,
        })
    }
}
