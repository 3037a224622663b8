//! The life of the thread that writes: whatever waits is committed together, and answered when it is durable.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use flightline::core::Refusal;
use flightline::registry::Commit;
use flightline::store::StoreError;
use flightline::{Access, Fleet};

use super::{OnCommit, QueuedWork, StoreConfig, WorkerConnection, WorkerMessage};

const TOGETHER: usize = 64;

/// How often they are decided again when another node wrote meanwhile; the last time no other node can.
const AGAIN: usize = 2;

/// How many are looked at for that: those of other projects wait meanwhile.
const LOOKED_AT: usize = 128;

/// For so many times as long as a commit takes, writes are gathered for the next one: then waiting for the disk is a
/// small part of it all, and those who came first can be answered, and ask again, while the others are worked at.
const COMMITS: u32 = 6;
/// So many are worth a commit, however long they take.
const FEWEST: usize = 8;
/// At least and at most so long.
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(50);

/// Takes what waits, commits it, answers; until it is told to end.
pub(super) fn live(orders: &Receiver<WorkerMessage>, place: &StoreConfig, grouped: &OnCommit) {
    let mut connection = WorkerConnection::at(place, Access::Write);
    let mut waiting = VecDeque::new();
    let mut ending = false;
    let mut pace = Pace::default();
    loop {
        if waiting.is_empty() {
            match orders.recv() {
                Ok(WorkerMessage::Do(work)) if !ending => waiting.push_back(work),
                _ => return,
            }
        }
        // Takes the requests that came while the last commit was under way, and waits for no further ones.
        while !ending && waiting.len() < LOOKED_AT {
            match orders.try_recv() {
                Ok(WorkerMessage::Do(work)) => waiting.push_back(work),
                Ok(WorkerMessage::End) => ending = true,
                Err(_) => break,
            }
        }
        let mut group = gather(&mut waiting);
        let done = run(&mut connection, &mut group, &mut pace);
        grouped(done);
        put_back(group.split_off(done), &mut waiting);
        for work in group {
            work.task.answer();
        }
        if ending && waiting.is_empty() {
            return;
        }
    }
}

/// The longest waiting, and those of the same project that may share its commit. The order of a project's
/// writes stays as it is.
pub(super) fn gather(waiting: &mut VecDeque<QueuedWork>) -> Vec<QueuedWork> {
    let mut group: Vec<QueuedWork> = waiting.pop_front().into_iter().collect();
    let Some(first) = group.first() else {
        return group;
    };
    let project = Arc::clone(&first.project);
    let mut open = first.commit == Commit::Grouped;
    let mut later = VecDeque::new();
    for work in waiting.drain(..) {
        let ours = work.project == project;
        if open && ours && work.commit == Commit::Grouped && group.len() < TOGETHER {
            group.push(work);
        } else {
            open &= !ours;
            later.push_back(work);
        }
    }
    *waiting = later;
    group
}

/// Puts writes that did not fit into this commit back into the queue: ahead of newer writes of the same project, behind
/// other projects.
pub(super) fn put_back(rest: Vec<QueuedWork>, waiting: &mut VecDeque<QueuedWork>) {
    let Some(first) = rest.first() else {
        return;
    };
    let same = |work: &QueuedWork| work.project == first.project;
    let place = waiting.iter().position(same).unwrap_or(waiting.len());
    for work in rest.into_iter().rev() {
        waiting.insert(place, work);
    }
}

#[derive(Default)]
struct Pace(Duration);

impl Pace {
    /// How long to go on before the next one.
    fn patience(&self) -> Duration {
        (self.0 * COMMITS).clamp(SHORTEST, LONGEST)
    }

    fn learn(&mut self, took: Duration) {
        self.0 = (self.0 * 3 + took) / 4;
    }
}

/// Runs as many of them in one transaction as there is time for, or all one by one when that cannot be. Says how many,
/// from the first on, were done.
fn run(connection: &mut WorkerConnection<'_>, group: &mut [QueuedWork], pace: &mut Pace) -> usize {
    if (group.len() > 1 || is_better_a_group(connection, group))
        && let Some(done) = together(connection, group, pace)
    {
        return done;
    }
    for work in group.iter_mut() {
        connection.run(work);
    }
    group.len()
}

/// Whether one alone is a group as well: then it delays no other writer while it is decided.
fn is_better_a_group(connection: &mut WorkerConnection<'_>, group: &[QueuedWork]) -> bool {
    let welcome = |work: &QueuedWork| work.commit == Commit::Grouped;
    let store = connection
        .kept
        .as_mut()
        .and_then(|fleet| fleet.store().ok());
    group.first().is_some_and(welcome) && store.is_some_and(|store| store.prefers_groups())
}

/// How many of them were done in one transaction; nothing when none was.
fn together(
    connection: &mut WorkerConnection<'_>,
    group: &mut [QueuedWork],
    pace: &mut Pace,
) -> Option<usize> {
    // The first write opens the connection, by itself.
    let fleet = connection.kept.as_mut()?;
    connection
        .store_config
        .enter(fleet, &group.first()?.project);
    let mut done = 0;
    let mut committed = in_one(fleet, group, pace, &mut done);
    for _ in 0..AGAIN {
        let store = fleet.store().ok()?;
        match &committed {
            Err(flightline::Error::Store(StoreError::Collision(_))) if store.was_overtaken() => {}
            _ => break,
        }
        done = 0;
        committed = in_one(fleet, group, pace, &mut done);
    }
    match committed {
        Ok(()) => Some(done),
        // The commit is in doubt, or the turn to write was not had: all members get this answer.
        Err(flightline::Error::Store(
            error @ (StoreError::CommitUnknown(_) | StoreError::Corrupt(_) | StoreError::Busy(_)),
        )) => {
            let refusal = Refusal::from(error);
            // Where the turn to write was not had, all of them have waited long enough.
            let told = if done > 0 { done } else { group.len() };
            for work in group.iter_mut().take(told) {
                work.task.refuse(refusal.clone());
            }
            connection.kept = None;
            Some(told)
        }
        Err(_) => None,
    }
}

/// Counts who took part.
fn in_one(
    fleet: &mut Fleet,
    group: &mut [QueuedWork],
    pace: &mut Pace,
    done: &mut usize,
) -> flightline::Result<()> {
    fleet.store()?.begin_group()?;
    // Not from before it was our turn to write.
    let began = Instant::now();
    for work in group.iter_mut() {
        *done += 1;
        // One that panics has its answer already, and took nothing from the others.
        let _ = catch_unwind(AssertUnwindSafe(|| work.task.run(fleet)));
        let long = *done >= FEWEST && began.elapsed() > pace.patience();
        if long || !fleet.store()?.has_sound_group() {
            break;
        }
    }
    let worked = Instant::now();
    fleet.store()?.commit_group()?;
    pace.learn(worked.elapsed());
    Ok(())
}
