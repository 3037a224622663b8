//! Flightline in this process, without HTTP: a step is a change and its checkpoint in one commit.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use flightline::core::policy::Policy;
use flightline::sortie::report::UpdateSortie;
use flightline::store::{Location, OpenOptions, Store};
use flightline::{Caller, Fleet};

use crate::Speed;
use crate::ours::at_once;
use crate::work::Work;

/// The most steps that share a commit.
const GROUP: usize = 64;

/// Steps per second of so many threads: one works by itself, several share the commits of one thread that writes.
pub fn write(location: &Location, threads: usize, span: Duration) -> Speed {
    let options = OpenOptions {
        remember: std::sync::Arc::new(true.into()),
        keeps_log: true,
        ..OpenOptions::default()
    };
    let project = format!("prj-{}-{threads}-{}", std::process::id(), next_number());
    let store = Store::create(location, &project, "measured", options).unwrap();
    let mut fleet = Fleet::new(store, Policy::default());
    let mut all: Vec<Work> = (0..threads)
        .map(|number| Work::begin(&mut fleet, number).0)
        .collect();
    let step = |work: &mut Work| UpdateSortie {
        checkpoint: true,
        ..work.update()
    };
    if let [work] = &mut *all {
        let one = std::sync::Mutex::new(Some((fleet, work)));
        return at_once(1, span, |_| {
            let (mut fleet, work) = one.lock().unwrap().take().unwrap();
            move || {
                fleet.run(&step(work), &work.caller).unwrap();
            }
        });
    }
    let (sender, receiver) = channel();
    let writer = std::thread::spawn(move || serve(&mut fleet, &receiver));
    let works: Vec<_> = all
        .into_iter()
        .map(|work| std::sync::Mutex::new(Some((work, sender.clone()))))
        .collect();
    drop(sender);
    let speed = at_once(threads, span, |number| {
        let (mut work, sender) = works[number].lock().unwrap().take().unwrap();
        let (done, wait) = sync_channel(1);
        move || {
            ask(&sender, step(&mut work), work.caller.clone(), done.clone());
            wait.recv().unwrap();
        }
    });
    drop(works);
    writer.join().unwrap();
    speed
}

/// A step that a thread waits for.
struct Asked {
    step: UpdateSortie,
    caller: Caller,
    done: SyncSender<()>,
}

fn ask(sender: &Sender<Asked>, step: UpdateSortie, caller: Caller, done: SyncSender<()>) {
    let asked = Asked { step, caller, done };
    sender.send(asked).unwrap();
}

/// Writes what waits in one commit, and answers when it is durable.
fn serve(fleet: &mut Fleet, receiver: &Receiver<Asked>) {
    while let Ok(first) = receiver.recv() {
        let mut group = vec![first];
        group.extend(receiver.try_iter().take(GROUP - 1));
        fleet.store().unwrap().begin_group().unwrap();
        for asked in &group {
            fleet.run(&asked.step, &asked.caller).unwrap();
        }
        fleet.store().unwrap().commit_group().unwrap();
        for asked in group {
            let _ = asked.done.send(());
        }
    }
}

/// Distinguishes the projects of one run.
fn next_number() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
