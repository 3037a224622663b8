//! Several writes that are committed together: one trip to the disk for all who wait, and a place to come back to for
//! each, so that one that is refused takes nothing from its neighbours.

use std::time::Instant;

use flightline_core::Time;

use super::{Access, Ending, Store, Verdict, Work, Written};
use crate::engine::{Anchor, Durability};
use crate::error::Error;
use crate::table::project::{self, Project};
use crate::tx::{Actor, Trace, Tx};

/// The writes that will be committed together.
pub(super) struct Group {
    /// The project's row, as the members before have left it.
    project: Project,
    /// One moment for all of them.
    now: Time,
    trace: Trace,
    /// Whether the place is marked that the next member can come back to.
    marked: bool,
    /// Where memory goes back to when the next member is dropped.
    mark: usize,
    /// The transaction is gone, or in doubt: nothing of it may be committed.
    lost: bool,
}

impl Store {
    /// From now on writes are members of a group: they are done when [`Store::commit_group`] says so, and
    /// what their closures return until then is a promise. Reads see what the members before have written.
    ///
    /// # Errors
    /// When the store fails.
    pub fn begin_group(&mut self) -> Result<(), Error> {
        self.check_trust()?;
        self.driver
            .begin_write(Durability::Full, self.options.patience)?;
        let begun = self.guarded(|store| {
            let tx = store.transaction(Access::Write)?;
            Ok((tx.project, tx.now, tx.trace))
        });
        let (project, now, trace) = begun.inspect_err(|_: &Error| self.driver.rollback())?;
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

    /// Whether there is a group that can still be committed.
    #[must_use]
    pub fn has_sound_group(&self) -> bool {
        self.group.as_ref().is_some_and(|group| !group.lost)
    }

    /// Commits what the members wrote. When this returns `Ok`, every one of them is durable and has been
    /// read back.
    ///
    /// # Errors
    /// [`Error::Collision`] when nothing was written and all of them may be run again; others as with
    /// [`Store::write`].
    pub fn commit_group(&mut self) -> Result<(), Error> {
        let Some(group) = self.group.take() else {
            return Ok(());
        };
        if group.lost {
            self.roll_back();
            return Err(Error::Collision("a neighbour failed".to_owned()));
        }
        if let Err(error) = self.driver.deliver() {
            self.roll_back();
            // One of them did it: each by itself will show which.
            return Err(match error {
                Error::Corrupt(cause) | Error::Engine { cause, .. } | Error::Busy(cause) => {
                    Error::Collision(cause)
                }
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

    /// Drops what the members wrote.
    pub fn abandon_group(&mut self) {
        if self.group.take().is_some() {
            self.roll_back();
        }
    }

    /// Runs a read inside the group.
    pub(super) fn look_in_group(&mut self, look: &mut dyn FnMut(&mut Tx<'_>)) -> Result<(), Error> {
        let mut tx = self.member()?;
        look(&mut tx);
        let (noticed, losses) = (tx.take_noticed(), tx.take_losses());
        self.notice(noticed, losses);
        if !self.driver.is_sound() {
            self.lose();
        }
        Ok(())
    }

    /// Runs a write inside the group.
    pub(super) fn attempt_in_group(
        &mut self,
        ending: Ending,
        work: &mut Work<'_>,
    ) -> Result<Verdict, Error> {
        self.mark()?;
        let ran = self.guarded(|store| {
            let mut tx = store.member()?;
            let verdict = work(&mut tx);
            let (noticed, losses) = (tx.take_noticed(), tx.take_losses());
            let (trace, project) = (tx.trace, tx.project);
            store.notice(noticed, losses);
            Ok::<_, Error>((verdict, Written { trace, project }))
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
    fn mark(&mut self) -> Result<(), Error> {
        let Some(group) = &mut self.group else {
            return Ok(());
        };
        if group.lost {
            return Err(Error::Collision("a neighbour failed".to_owned()));
        }
        let marked = match group.marked {
            true => Ok(()),
            false => self.driver.savepoint(Anchor::Member),
        };
        group.marked = true;
        group.lost = marked.is_err();
        let memory = self.memories.of(&self.project);
        group.mark = memory.map_or(0, |memory| memory.mark());
        marked
    }

    /// Drops what the member that just ran has written.
    pub(super) fn drop_member(&mut self) {
        let Some(group) = &mut self.group else { return };
        // Not to a place that the member made and left open: that would keep half of it.
        if !group.lost && self.driver.roll_back_to(Anchor::Member).is_err() {
            group.lost = true;
        }
        if let Some(memory) = self.memories.of(&self.project) {
            memory.go_back(group.mark);
        }
    }

    fn lose(&mut self) {
        if let Some(group) = &mut self.group {
            group.lost = true;
        }
    }

    fn member(&mut self) -> Result<Tx<'_>, Error> {
        let Some(group) = &self.group else {
            return Err(Error::Collision("there is no group".to_owned()));
        };
        Ok(Tx {
            step: group.project.rev + 1,
            driver: self.driver.as_mut(),
            project: group.project.clone(),
            ids: self.options.ids.clone(),
            clock: self.options.clock.clone(),
            now: group.now,
            happened: None,
            actor: Actor::flightline(),
            began: Instant::now(),
            noticed: Vec::new(),
            losses: Vec::new(),
            trace: Trace::default(),
            memory: self.memories.of(&self.project),
            seen: None,
        })
    }
}
