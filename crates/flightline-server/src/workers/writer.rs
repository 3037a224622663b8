//! The thread that writes: it commits waiting writes together, and answers them when they are durable.

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

/// The number of times that a group is decided again after another node's write; in the last run no other node can write.
const AGAIN: usize = 2;

/// The most waiting writes that are looked at for a group: those of other projects wait meanwhile.
const LOOKED_AT: usize = 128;

/// Writes are gathered for this many times as long as a commit takes. Then waiting for the disk is a small part of the
/// whole, and the first callers can be answered, and ask again, while the other writes are worked at.
const COMMITS: u32 = 6;
/// The number of writes that are worth a commit, however long they take.
const FEWEST: usize = 8;
/// The shortest and the longest time for gathering writes.
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_millis(50);

/// Takes the waiting writes, commits and answers them, until it is told to end.
pub(super) fn live(orders: &Receiver<WorkerMessage>, place: &StoreConfig, grouped: &OnCommit) {
    let mut connection = WorkerConnection::at(place, Access::Write);
    let mut queue = WriteQueue::new(orders);
    let mut pace = Pace::default();
    while let Some(mut group) = queue.next_group() {
        let done = run(&mut connection, &mut group, &mut queue, &mut pace);
        grouped(done);
        put_back(group.split_off(done), &mut queue.waiting);
        for work in group {
            work.task.answer();
        }
    }
}

/// The writes that wait: those that were taken from the channel and did not fit into a group yet, and the channel.
pub(super) struct WriteQueue<'a> {
    orders: &'a Receiver<WorkerMessage>,
    waiting: VecDeque<QueuedWork>,
    ending: bool,
}

impl<'a> WriteQueue<'a> {
    pub(super) fn new(orders: &'a Receiver<WorkerMessage>) -> Self {
        Self {
            orders,
            waiting: VecDeque::new(),
            ending: false,
        }
    }

    /// The next writes that may share a commit. Waits for the first of them, and for no further ones; none when the thread
    /// is to end and nothing waits.
    pub(super) fn next_group(&mut self) -> Option<Vec<QueuedWork>> {
        if self.waiting.is_empty() {
            match self.ending {
                true => return None,
                false => match self.orders.recv() {
                    Ok(WorkerMessage::Do(work)) => self.waiting.push_back(work),
                    Ok(WorkerMessage::End) | Err(_) => return None,
                },
            }
        }
        self.take_arrived();
        Some(gather(&mut self.waiting))
    }

    /// Adds the writes to a group that came since it was gathered. Returns true when there were any.
    pub(super) fn join(&mut self, group: &mut Vec<QueuedWork>) -> bool {
        let before = group.len();
        self.take_arrived();
        fill(group, &mut self.waiting);
        group.len() > before
    }

    fn take_arrived(&mut self) {
        while !self.ending && self.waiting.len() < LOOKED_AT {
            match self.orders.try_recv() {
                Ok(WorkerMessage::Do(work)) => self.waiting.push_back(work),
                Ok(WorkerMessage::End) => self.ending = true,
                Err(_) => break,
            }
        }
    }
}

/// Takes the write that waited longest, and the writes of the same project that may share its commit. The order of a
/// project's writes stays as it is.
pub(super) fn gather(waiting: &mut VecDeque<QueuedWork>) -> Vec<QueuedWork> {
    let mut group: Vec<QueuedWork> = waiting.pop_front().into_iter().collect();
    fill(&mut group, waiting);
    group
}

fn fill(group: &mut Vec<QueuedWork>, waiting: &mut VecDeque<QueuedWork>) {
    let Some(first) = group.first() else {
        return;
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

/// The time that commits take on this disk.
#[derive(Default)]
pub(super) struct Pace(pub(super) Duration);

impl Pace {
    /// The time for which the next group gathers writes.
    fn patience(&self) -> Duration {
        (self.0 * COMMITS).clamp(SHORTEST, LONGEST)
    }

    /// Returns true when a group that was worked at for so long is kept open for writes that come only now. While its
    /// work is shorter than the commit, they lose less by making the group wait than they would by waiting for the next
    /// commit: else the writers of a slow disk fall into two halves, each of which waits for the other's commit.
    pub(super) fn is_worth_joining(&self, worked: Duration) -> bool {
        worked < self.0
    }

    fn learn(&mut self, took: Duration) {
        self.0 = (self.0 * 3 + took) / 4;
    }
}

/// Runs as many writes in one transaction as there is time for, or all one by one when they cannot share one. Returns how
/// many, from the first on, were done.
fn run(
    connection: &mut WorkerConnection<'_>,
    group: &mut Vec<QueuedWork>,
    queue: &mut WriteQueue<'_>,
    pace: &mut Pace,
) -> usize {
    if (group.len() > 1 || is_better_a_group(connection, group))
        && let Some(done) = together(connection, group, queue, pace)
    {
        return done;
    }
    for work in group.iter_mut() {
        connection.run(work);
    }
    group.len()
}

/// Returns true when even a single write is better a group: then it delays no other writer while it is decided.
fn is_better_a_group(connection: &mut WorkerConnection<'_>, group: &[QueuedWork]) -> bool {
    let welcome = |work: &QueuedWork| work.commit == Commit::Grouped;
    let store = connection
        .kept
        .as_mut()
        .and_then(|fleet| fleet.store().ok());
    group.first().is_some_and(welcome) && store.is_some_and(|store| store.prefers_groups())
}

/// Runs a group in one transaction, and returns how many of its writes were done; none when they cannot share a
/// transaction.
fn together(
    connection: &mut WorkerConnection<'_>,
    group: &mut Vec<QueuedWork>,
    queue: &mut WriteQueue<'_>,
    pace: &mut Pace,
) -> Option<usize> {
    // The first write opens the connection, by itself.
    let fleet = connection.kept.as_mut()?;
    connection
        .store_config
        .enter(fleet, &group.first()?.project);
    let mut done = 0;
    let mut committed = in_one(fleet, group, queue, pace, &mut done);
    for _ in 0..AGAIN {
        let store = fleet.store().ok()?;
        match &committed {
            Err(flightline::Error::Store(StoreError::Collision(_))) if store.was_overtaken() => {}
            _ => break,
        }
        done = 0;
        committed = in_one(fleet, group, queue, pace, &mut done);
    }
    match committed {
        Ok(()) => Some(done),
        // The commit is in doubt, or the turn to write was not had: all members get this answer.
        Err(flightline::Error::Store(
            error @ (StoreError::CommitUnknown(_) | StoreError::Corrupt(_) | StoreError::Busy(_)),
        )) => {
            let refusal = Refusal::from(error);
            // When the turn to write did not come in time, all members have waited long enough.
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

/// Runs writes in one transaction, and counts in `done` those that took part.
fn in_one(
    fleet: &mut Fleet,
    group: &mut Vec<QueuedWork>,
    queue: &mut WriteQueue<'_>,
    pace: &mut Pace,
    done: &mut usize,
) -> flightline::Result<()> {
    fleet.store()?.begin_group()?;
    // The time before the turn to write does not count.
    let began = Instant::now();
    while *done < group.len() || (pace.is_worth_joining(began.elapsed()) && queue.join(group)) {
        let Some(work) = group.get_mut(*done) else {
            break;
        };
        *done += 1;
        // A write that panics has its answer already, and took nothing from the others.
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
