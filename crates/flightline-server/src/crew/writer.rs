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

use super::{Errand, Grouped, Hand, Order, Place};

/// How many writes share a commit at most.
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
pub(super) fn live(orders: &Receiver<Order>, place: &Place, grouped: &Grouped) {
    let mut hand = Hand::at(place, Access::Write);
    let mut waiting = VecDeque::new();
    let mut ending = false;
    let mut pace = Pace::default();
    loop {
        if waiting.is_empty() {
            match orders.recv() {
                Ok(Order::Do(errand)) if !ending => waiting.push_back(errand),
                _ => return,
            }
        }
        // Takes the requests that came while the last commit was under way, and waits for no further ones.
        while !ending && waiting.len() < LOOKED_AT {
            match orders.try_recv() {
                Ok(Order::Do(errand)) => waiting.push_back(errand),
                Ok(Order::End) => ending = true,
                Err(_) => break,
            }
        }
        let mut group = gather(&mut waiting);
        let done = run(&mut hand, &mut group, &mut pace);
        grouped(done);
        put_back(group.split_off(done), &mut waiting);
        for errand in group {
            errand.task.answer();
        }
        if ending && waiting.is_empty() {
            return;
        }
    }
}

/// The longest waiting, and those of the same project that may share its commit. The order of a project's
/// writes stays as it is.
pub(super) fn gather(waiting: &mut VecDeque<Errand>) -> Vec<Errand> {
    let mut group: Vec<Errand> = waiting.pop_front().into_iter().collect();
    let Some(first) = group.first() else {
        return group;
    };
    let project = Arc::clone(&first.project);
    let mut open = first.commit == Commit::Grouped;
    let mut later = VecDeque::new();
    for errand in waiting.drain(..) {
        let ours = errand.project == project;
        if open && ours && errand.commit == Commit::Grouped && group.len() < TOGETHER {
            group.push(errand);
        } else {
            open &= !ours;
            later.push_back(errand);
        }
    }
    *waiting = later;
    group
}

/// Puts writes that did not fit into this commit back into the queue: ahead of newer writes of the same project, behind
/// other projects.
pub(super) fn put_back(rest: Vec<Errand>, waiting: &mut VecDeque<Errand>) {
    let Some(first) = rest.first() else {
        return;
    };
    let same = |errand: &Errand| errand.project == first.project;
    let place = waiting.iter().position(same).unwrap_or(waiting.len());
    for errand in rest.into_iter().rev() {
        waiting.insert(place, errand);
    }
}

/// How long a commit takes.
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
fn run(hand: &mut Hand<'_>, group: &mut [Errand], pace: &mut Pace) -> usize {
    if (group.len() > 1 || is_better_a_group(hand, group))
        && let Some(done) = together(hand, group, pace)
    {
        return done;
    }
    for errand in group.iter_mut() {
        hand.run(errand);
    }
    group.len()
}

/// Whether one alone is a group as well: then it delays no other writer while it is decided.
fn is_better_a_group(hand: &mut Hand<'_>, group: &[Errand]) -> bool {
    let welcome = |errand: &Errand| errand.commit == Commit::Grouped;
    let store = hand.kept.as_mut().and_then(|fleet| fleet.store().ok());
    group.first().is_some_and(welcome) && store.is_some_and(|store| store.prefers_groups())
}

/// How many of them were done in one transaction; nothing when none was.
fn together(hand: &mut Hand<'_>, group: &mut [Errand], pace: &mut Pace) -> Option<usize> {
    // The first write opens the connection, by itself.
    let fleet = hand.kept.as_mut()?;
    hand.place.enter(fleet, &group.first()?.project);
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
            for errand in group.iter_mut().take(told) {
                errand.task.refuse(refusal.clone());
            }
            hand.kept = None;
            Some(told)
        }
        Err(_) => None,
    }
}

/// Counts who took part.
fn in_one(
    fleet: &mut Fleet,
    group: &mut [Errand],
    pace: &mut Pace,
    done: &mut usize,
) -> flightline::Result<()> {
    fleet.store()?.begin_group()?;
    // Not from before it was our turn to write.
    let began = Instant::now();
    for errand in group.iter_mut() {
        *done += 1;
        // One that panics has its answer already, and took nothing from the others.
        let _ = catch_unwind(AssertUnwindSafe(|| errand.task.run(fleet)));
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
