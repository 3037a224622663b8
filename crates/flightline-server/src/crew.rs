//! The threads on which operations run: one that writes, a few that read, each with a connection of its
//! own. Requests wait for them in queues of limited length; who finds a queue full is told to come back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use flightline::core::policy::Policy;
use flightline::core::{Code, Refusal};
use flightline::store::{Location, OpenOptions, Store};
use flightline::workspace::WorkTree;
use flightline::{Access, Fleet};
use tokio::sync::oneshot;

/// How many requests may wait for the thread that writes.
const WRITES_WAITING: usize = 256;
/// How many may wait for those that read.
const READS_WAITING: usize = 1_024;
/// How many threads read.
const READERS: usize = 4;

/// Where the fleet is that is served.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) location: Location,
    pub(crate) project: String,
    pub(crate) options: OpenOptions,
    pub(crate) policy: Policy,
    pub(crate) tree: Option<WorkTree>,
}

impl Place {
    /// A connection of its own to the fleet.
    pub(crate) fn open(&self) -> Result<Fleet, Refusal> {
        let store = Store::open(&self.location, &self.project, self.options.clone())?;
        let fleet = Fleet::new(store, self.policy.clone());
        Ok(match &self.tree {
            Some(tree) => fleet.in_tree(tree.clone()),
            None => fleet,
        })
    }
}

/// What became of a thread's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connection {
    Sound,
    /// Perhaps lost: the next request gets a new one.
    Doubtful,
}

/// Something to be done with a connection, or to be refused for want of one.
type Job = Box<dyn FnOnce(Result<&mut Fleet, Refusal>) -> Connection + Send>;

/// What is sent to a thread.
enum Order {
    /// Do this.
    Do(Job),
    /// End.
    End,
}

/// The threads.
pub(crate) struct Crew {
    lines: Lines,
    threads: Vec<JoinHandle<()>>,
}

/// A way to the threads, for those who bring requests.
#[derive(Clone)]
pub(crate) struct Lines {
    writer: SyncSender<Order>,
    readers: SyncSender<Order>,
}

impl Crew {
    /// Starts the threads. The place must be one that opens.
    pub(crate) fn start(place: &Arc<Place>) -> Result<Self, Refusal> {
        let mut threads = Vec::new();
        let mut lane = |name: &str, waiting: usize, hands: usize| {
            let (sender, jobs) = sync_channel::<Order>(waiting);
            let jobs = Arc::new(Mutex::new(jobs));
            for _ in 0..hands {
                let (jobs, place) = (Arc::clone(&jobs), Arc::clone(place));
                let thread = std::thread::Builder::new()
                    .name(format!("fleet-{name}"))
                    .spawn(move || work(&jobs, &place))
                    .map_err(|error| {
                        Refusal::new(Code::Unavailable, format!("cannot start a thread: {error}"))
                    })?;
                threads.push(thread);
            }
            Ok::<_, Refusal>(sender)
        };
        let writer = lane("write", WRITES_WAITING, 1)?;
        let readers = lane("read", READS_WAITING, READERS)?;
        Ok(Self {
            lines: Lines { writer, readers },
            threads,
        })
    }

    /// A way to the threads.
    pub(crate) fn lines(&self) -> Lines {
        self.lines.clone()
    }

    /// Lets everything that waits be done, and ends the threads.
    pub(crate) fn dismiss(self) {
        let Self { lines, threads } = self;
        let ends = [(&lines.writer, 1), (&lines.readers, READERS)];
        for (lane, hands) in ends {
            for _ in 0..hands {
                // A lane that is closed has nobody left to tell.
                let _ = lane.send(Order::End);
            }
        }
        for thread in threads {
            // Whatever went wrong in there was said to whoever asked.
            let _ = thread.join();
        }
    }
}

impl Lines {
    /// Has `f` run where its kind of access is at home, and waits for what comes of it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        access: Access,
        f: impl FnOnce(&mut Fleet) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (reply, outcome) = oneshot::channel();
        self.send(
            access,
            move |result| {
                // Whoever asked may have gone: then nobody reads it.
                let _ = reply.send(result);
            },
            f,
        )?;
        outcome.await.map_err(|_| broken())?
    }

    /// The same for threads of ours, which may wait without harm.
    pub(crate) fn run_here<T: Send + 'static>(
        &self,
        access: Access,
        f: impl FnOnce(&mut Fleet) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (reply, outcome) = sync_channel(1);
        self.send(
            access,
            move |result| {
                let _ = reply.send(result);
            },
            f,
        )?;
        outcome.recv().map_err(|_| broken())?
    }

    fn send<T: 'static>(
        &self,
        access: Access,
        reply: impl FnOnce(Result<T, Refusal>) + Send + 'static,
        f: impl FnOnce(&mut Fleet) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<(), Refusal> {
        let lane = match access {
            Access::Read => &self.readers,
            Access::Write | Access::Pulse => &self.writer,
        };
        let job: Job = Box::new(move |fleet| {
            let result = fleet.and_then(f);
            let connection = match &result {
                Err(refusal) if is_lost(refusal.code) => Connection::Doubtful,
                _ => Connection::Sound,
            };
            reply(result);
            connection
        });
        lane.try_send(Order::Do(job)).map_err(|error| match error {
            TrySendError::Full(_) => Refusal::new(
                Code::Unavailable,
                "too many requests wait already; this one was not taken",
            )
            .hint("nothing was done: come back in a second"),
            TrySendError::Disconnected(_) => {
                Refusal::new(Code::Unavailable, "the server is about to stop")
                    .hint("nothing was done: come back when it is there again")
            }
        })
    }
}

fn is_lost(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::CommitUnknown)
}

/// The thread that was asked did not answer. Whether it wrote anything is not known: it may have failed
/// after its commit.
fn broken() -> Refusal {
    Refusal::new(
        Code::CommitUnknown,
        "the request failed inside the server, and it is not known whether it was done",
    )
    .hint("ask again with the same Idempotency-Key")
}

/// A thread's life: jobs in order, each with the one connection it keeps. The writer will take several at
/// once from here, for one commit.
fn work(jobs: &Mutex<Receiver<Order>>, place: &Place) {
    let mut kept: Option<Fleet> = None;
    loop {
        // Held while waiting: whoever has it gets the next one.
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Order::Do(job)) = next else { return };
        let opened = match kept.take() {
            Some(fleet) => Ok(fleet),
            None => place.open(),
        };
        match opened {
            Err(refusal) => {
                job(Err(refusal));
            }
            Ok(mut fleet) => {
                let ran = catch_unwind(AssertUnwindSafe(|| job(Ok(&mut fleet))));
                if matches!(ran, Ok(Connection::Sound)) {
                    kept = Some(fleet);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use flightline_testkit::{Engine, World};

    use super::*;

    fn crew(world: &World) -> Crew {
        Crew::start(&Arc::new(Place {
            location: world.location.clone(),
            project: world.project.clone(),
            options: world.options(),
            policy: Policy::default(),
            tree: None,
        }))
        .unwrap()
    }

    fn write(lines: &Lines) -> Result<(), Refusal> {
        lines.send(Access::Write, drop, |fleet| {
            fleet
                .store()
                .write(|_| Ok::<_, flightline::store::Error>(()))
                .map_err(Refusal::from)
        })
    }

    #[test]
    fn who_finds_the_queue_full_is_told_at_once_and_what_waits_is_done() {
        let world = World::new(Engine::Sqlite);
        let crew = crew(&world);
        let lines = crew.lines();
        let (busy, is_busy) = channel();
        let (go, may_go) = channel::<()>();
        lines
            .send(Access::Write, drop, move |_| {
                let _ = busy.send(());
                let _ = may_go.recv();
                Ok(())
            })
            .unwrap();
        is_busy.recv().unwrap();
        let (done, is_done) = channel();
        for _ in 0..WRITES_WAITING {
            let done = done.clone();
            let taken = lines.send(Access::Write, drop, move |_| {
                let _ = done.send(());
                Ok(())
            });
            taken.unwrap();
        }
        drop(done);
        let refused = write(&lines).unwrap_err();
        assert_eq!((refused.code, refused.retryable), (Code::Unavailable, true));
        // Reading goes on beside it.
        assert!(
            lines
                .run_here(Access::Read, |fleet| Ok(fleet.now().is_ok()))
                .unwrap()
        );
        go.send(()).unwrap();
        crew.dismiss();
        assert_eq!(is_done.iter().count(), WRITES_WAITING);
        assert_eq!(write(&lines).unwrap_err().code, Code::Unavailable);
    }

    #[test]
    fn a_panic_fails_its_own_request_only() {
        let world = World::new(Engine::Sqlite);
        let crew = crew(&world);
        let lines = crew.lines();
        let failed: Result<(), Refusal> =
            lines.run_here(Access::Write, |_| panic!("a test of ours"));
        assert_eq!(failed.unwrap_err().code, Code::CommitUnknown);
        let written = lines.run_here(Access::Write, |fleet| {
            fleet
                .store()
                .write(|_| Ok::<_, flightline::store::Error>(()))
                .map_err(Refusal::from)
        });
        written.unwrap();
        crew.dismiss();
    }
}
