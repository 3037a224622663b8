//! The life of the thread that writes: whatever waits is committed together, and answered when it is durable.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::Receiver;

use flightline::Fleet;
use flightline::core::Refusal;
use flightline::store::Error;

use super::task::Task;
use super::{Company, Grouped, Hand, Order, Place};

/// How many writes share a commit at most.
const TOGETHER: usize = 64;

/// Takes what waits, commits it, answers; until it is told to end.
pub(super) fn live(orders: &Receiver<Order>, place: &Place, grouped: &Grouped) {
    let mut hand = Hand::at(place);
    // What came while a group was gathered, and has to wait for the next.
    let mut held = None;
    while let Some(Order::Do(first, company)) = held.take().or_else(|| orders.recv().ok()) {
        let mut tasks = vec![first];
        // Whatever came while the last commit was under way; nobody is waited for.
        while company == Company::Welcome && tasks.len() < TOGETHER {
            match orders.try_recv() {
                Ok(Order::Do(task, Company::Welcome)) => tasks.push(task),
                Ok(other) => {
                    held = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        grouped(tasks.len());
        run(&mut hand, &mut tasks, company);
        for task in tasks {
            task.answer();
        }
    }
}

/// Runs them in one transaction, or one by one when that cannot be.
fn run(hand: &mut Hand<'_>, tasks: &mut [Box<dyn Task>], company: Company) {
    if tasks.len() > 1 && together(hand, tasks) {
        return;
    }
    for task in tasks {
        hand.run(task.as_mut(), company);
    }
}

/// Whether all of them were done in one transaction: if not, none of them was.
fn together(hand: &mut Hand<'_>, tasks: &mut [Box<dyn Task>]) -> bool {
    let Some(fleet) = &mut hand.kept else {
        // The first write opens the connection, by itself.
        return false;
    };
    let done = group(fleet, tasks);
    match done {
        Ok(()) => true,
        // Whether it was made cannot be found out, or nobody gets to write: the same for all of them.
        Err(flightline::Error::Store(
            error @ (Error::CommitUnknown(_) | Error::Corrupt(_) | Error::Busy(_)),
        )) => {
            let refusal = Refusal::from(error);
            for task in tasks {
                task.refuse(refusal.clone());
            }
            hand.kept = None;
            true
        }
        Err(_) => false,
    }
}

fn group(fleet: &mut Fleet, tasks: &mut [Box<dyn Task>]) -> flightline::Result<()> {
    fleet.store()?.begin_group()?;
    for task in tasks.iter_mut() {
        // One that panics has its answer already, and took nothing from the others.
        let _ = catch_unwind(AssertUnwindSafe(|| task.run(fleet)));
        if !fleet.store()?.has_sound_group() {
            break;
        }
    }
    Ok(fleet.store()?.commit_group()?)
}
