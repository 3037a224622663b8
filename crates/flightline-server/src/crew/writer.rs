//! The life of the thread that writes: whatever waits is committed together, and answered when it is durable.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use flightline::Fleet;
use flightline::core::Refusal;
use flightline::store::Error;

use super::{Company, Errand, Grouped, Hand, Order, Place};

/// How many writes share a commit at most.
const TOGETHER: usize = 64;

/// How many are looked at for that: those of other projects wait meanwhile.
const LOOKED_AT: usize = 128;

/// Takes what waits, commits it, answers; until it is told to end.
pub(super) fn live(orders: &Receiver<Order>, place: &Place, grouped: &Grouped) {
    let mut hand = Hand::at(place);
    let mut waiting = VecDeque::new();
    let mut ending = false;
    loop {
        if waiting.is_empty() {
            match orders.recv() {
                Ok(Order::Do(errand)) if !ending => waiting.push_back(errand),
                _ => return,
            }
        }
        // Whatever came while the last commit was under way; nobody is waited for.
        while !ending && waiting.len() < LOOKED_AT {
            match orders.try_recv() {
                Ok(Order::Do(errand)) => waiting.push_back(errand),
                Ok(Order::End) => ending = true,
                Err(_) => break,
            }
        }
        let mut group = gather(&mut waiting);
        grouped(group.len());
        run(&mut hand, &mut group);
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
fn gather(waiting: &mut VecDeque<Errand>) -> Vec<Errand> {
    let mut group: Vec<Errand> = waiting.pop_front().into_iter().collect();
    let Some(first) = group.first() else {
        return group;
    };
    let project = Arc::clone(&first.project);
    let mut open = first.company == Company::Welcome;
    let mut later = VecDeque::new();
    for errand in waiting.drain(..) {
        let ours = errand.project == project;
        if open && ours && errand.company == Company::Welcome && group.len() < TOGETHER {
            group.push(errand);
        } else {
            open &= !ours;
            later.push_back(errand);
        }
    }
    *waiting = later;
    group
}

/// Runs them in one transaction, or one by one when that cannot be.
fn run(hand: &mut Hand<'_>, group: &mut [Errand]) {
    if group.len() > 1 && together(hand, group) {
        return;
    }
    for errand in group {
        hand.run(errand);
    }
}

/// Whether all of them were done in one transaction: if not, none of them was.
fn together(hand: &mut Hand<'_>, group: &mut [Errand]) -> bool {
    let Some(fleet) = &mut hand.kept else {
        // The first write opens the connection, by itself.
        return false;
    };
    let Some(first) = group.first() else {
        return true;
    };
    hand.place.enter(fleet, &first.project);
    let done = in_one(fleet, group);
    match done {
        Ok(()) => true,
        // Whether it was made cannot be found out, or nobody gets to write: the same for all of them.
        Err(flightline::Error::Store(
            error @ (Error::CommitUnknown(_) | Error::Corrupt(_) | Error::Busy(_)),
        )) => {
            let refusal = Refusal::from(error);
            for errand in group {
                errand.task.refuse(refusal.clone());
            }
            hand.kept = None;
            true
        }
        Err(_) => false,
    }
}

fn in_one(fleet: &mut Fleet, group: &mut [Errand]) -> flightline::Result<()> {
    fleet.store()?.begin_group()?;
    for errand in group.iter_mut() {
        // One that panics has its answer already, and took nothing from the others.
        let _ = catch_unwind(AssertUnwindSafe(|| errand.task.run(fleet)));
        if !fleet.store()?.has_sound_group() {
            break;
        }
    }
    Ok(fleet.store()?.commit_group()?)
}
