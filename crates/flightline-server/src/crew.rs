//! The threads on which operations run: one that writes, a few that read, each with a connection of its
//! own. Requests wait for them in queues of limited length; who finds a queue full is told to come back.

mod task;
mod writer;

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

use task::{Request, Task};

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

/// Whether a write may share its commit with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// It may: it is short.
    Welcome,
    /// It takes long, or is more than one transaction.
    Alone,
}

/// What is sent to a thread.
enum Order {
    /// Do this.
    Do(Box<dyn Task>, Company),
    /// End.
    End,
}

/// Hears how many writes a commit was for.
pub(crate) type Grouped = Arc<dyn Fn(usize) + Send + Sync>;

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
    pub(crate) fn start(place: &Arc<Place>, grouped: &Grouped) -> Result<Self, Refusal> {
        let mut threads = Vec::new();
        let (writer, orders) = sync_channel(WRITES_WAITING);
        let (to, told) = (Arc::clone(place), Arc::clone(grouped));
        threads.push(start("write", move || writer::live(&orders, &to, &told))?);
        let (readers, orders) = sync_channel(READS_WAITING);
        let orders = Arc::new(Mutex::new(orders));
        for _ in 0..READERS {
            let (orders, from) = (Arc::clone(&orders), Arc::clone(place));
            threads.push(start("read", move || read(&orders, &from))?);
        }
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

fn start(name: &str, life: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, Refusal> {
    std::thread::Builder::new()
        .name(format!("fleet-{name}"))
        .spawn(life)
        .map_err(|error| Refusal::new(Code::Unavailable, format!("cannot start a thread: {error}")))
}

impl Lines {
    /// Has `f` run where its kind of access is at home, and waits for what comes of it. It may run more
    /// than once: what it wrote the first time is gone then.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        access: Access,
        company: Company,
        f: impl FnMut(&mut Fleet) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (reply, outcome) = oneshot::channel();
        self.send(
            access,
            company,
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
        company: Company,
        f: impl FnMut(&mut Fleet) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (reply, outcome) = sync_channel(1);
        self.send(
            access,
            company,
            move |result| {
                let _ = reply.send(result);
            },
            f,
        )?;
        outcome.recv().map_err(|_| broken())?
    }

    fn send<T: Send + 'static>(
        &self,
        access: Access,
        company: Company,
        reply: impl FnOnce(Result<T, Refusal>) + Send + 'static,
        f: impl FnMut(&mut Fleet) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<(), Refusal> {
        let lane = match access {
            Access::Read => &self.readers,
            Access::Write | Access::Pulse => &self.writer,
        };
        let task = Box::new(Request::new(f, reply));
        lane.try_send(Order::Do(task, company))
            .map_err(|error| match error {
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

/// The thread that was asked did not answer. Whether it wrote anything is not known: it may have failed
/// after its commit.
fn broken() -> Refusal {
    Refusal::new(
        Code::CommitUnknown,
        "the request failed inside the server, and it is not known whether it was done",
    )
    .hint("ask again with the same Idempotency-Key")
}

/// The one connection a thread keeps, opened anew when it was lost.
struct Hand<'a> {
    place: &'a Place,
    kept: Option<Fleet>,
}

impl<'a> Hand<'a> {
    fn at(place: &'a Place) -> Self {
        Self { place, kept: None }
    }

    /// Runs a task by itself, and once more over a new connection when the kept one turns out to be lost:
    /// nothing was written then.
    fn run(&mut self, task: &mut dyn Task, company: Company) {
        // What is more than one transaction may have done one of them.
        let once_more = self.kept.is_some() && company == Company::Welcome;
        for again in [once_more, false] {
            let opened = match self.kept.take() {
                Some(fleet) => Ok(fleet),
                None => self.place.open(),
            };
            match opened {
                Err(refusal) => task.refuse(refusal),
                Ok(mut fleet) => {
                    let ran = catch_unwind(AssertUnwindSafe(|| task.run(&mut fleet)));
                    if ran.is_ok() && !task.failed().is_some_and(is_lost) {
                        self.kept = Some(fleet);
                    }
                }
            }
            if !(again && task.failed() == Some(Code::Unavailable)) {
                return;
            }
        }
    }
}

/// Whether a refusal for this reason may mean that the connection is lost.
fn is_lost(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::CommitUnknown)
}

/// The life of a thread that reads: tasks in order.
fn read(orders: &Mutex<Receiver<Order>>, place: &Place) {
    let mut hand = Hand::at(place);
    loop {
        // Held while waiting: whoever has it gets the next one.
        let next = orders.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Order::Do(mut task, company)) = next else {
            return;
        };
        hand.run(task.as_mut(), company);
        task.answer();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use flightline_testkit::{Engine, World};

    use super::*;

    fn crew(world: &World) -> Crew {
        crew_that(world, Arc::new(drop))
    }

    fn crew_that(world: &World, grouped: Grouped) -> Crew {
        let place = Arc::new(Place {
            location: world.location.clone(),
            project: world.project.clone(),
            options: world.options(),
            policy: Policy::default(),
            tree: None,
        });
        Crew::start(&place, &grouped).unwrap()
    }

    fn write(lines: &Lines) -> Result<(), Refusal> {
        lines.send(Access::Write, Company::Welcome, drop, |fleet| {
            fleet
                .store()?
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
            .send(Access::Write, Company::Welcome, drop, move |_| {
                let _ = busy.send(());
                let _ = may_go.recv();
                Ok(())
            })
            .unwrap();
        is_busy.recv().unwrap();
        let (done, is_done) = channel();
        for _ in 0..WRITES_WAITING {
            let done = done.clone();
            let taken = lines.send(Access::Write, Company::Welcome, drop, move |_| {
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
                .run_here(Access::Read, Company::Welcome, |fleet| Ok(fleet
                    .now()
                    .is_ok()))
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
        let failed: Result<(), Refusal> = lines.run_here(Access::Write, Company::Welcome, |_| {
            panic!("a test of ours")
        });
        assert_eq!(failed.unwrap_err().code, Code::CommitUnknown);
        let written = lines.run_here(Access::Write, Company::Welcome, |fleet| {
            fleet
                .store()?
                .write(|_| Ok::<_, flightline::store::Error>(()))
                .map_err(Refusal::from)
        });
        written.unwrap();
        crew.dismiss();
    }

    /// Keeps the thread that writes busy until the answer, so that what is sent meanwhile waits.
    fn hold(lines: &Lines) -> std::sync::mpsc::Sender<()> {
        let (busy, is_busy) = channel();
        let (go, may_go) = channel::<()>();
        lines
            .send(Access::Write, Company::Alone, drop, move |fleet| {
                let opened = fleet.now().is_ok();
                let _ = busy.send(opened);
                let _ = may_go.recv();
                Ok(())
            })
            .unwrap();
        assert!(is_busy.recv().unwrap());
        go
    }

    fn learn(fleet: &mut Fleet, text: &str, key: Option<&str>) -> Result<(), Refusal> {
        let text = flightline::core::text::Note::parse("text", text)?;
        let note = flightline::note::AddNote::of(flightline::core::note::NoteKind::Lesson, text);
        let caller = flightline::Caller {
            agent: Some("ada".to_owned()),
            user: "tester".to_owned(),
            idempotency_key: key.map(str::to_owned),
            ..flightline::Caller::default()
        };
        let added = fleet.run(&note, &caller);
        added.map(drop).map_err(flightline::Error::into_refusal)
    }

    fn begin(world: &World) {
        let mission = serde_json::json!({ "title": "One" });
        let mission: flightline::mission::CreateMission = serde_json::from_value(mission).unwrap();
        world.run("", &mission).unwrap();
    }

    fn lessons(world: &World) -> Vec<String> {
        let all = flightline::note::ListNotes {
            mission: None,
            kind: None,
        };
        let listed = world.run("", &all).unwrap();
        listed.iter().map(|note| note.text.to_string()).collect()
    }

    flightline_testkit::both_engines! {
        fn what_waits_is_committed_together_and_each_has_its_own_answer(world: &World) {
            begin(world);
            let sizes: Arc<Mutex<Vec<usize>>> = Arc::default();
            let seen = Arc::clone(&sizes);
            let crew = crew_that(world, Arc::new(move |size| seen.lock().unwrap().push(size)));
            let lines = crew.lines();
            let go = hold(&lines);
            let (told, answers) = channel();
            let ask = |number: usize, key: Option<&'static str>| {
                let told = told.clone();
                lines.send(
                    Access::Write,
                    Company::Welcome,
                    move |result: Result<(), Refusal>| {
                        let _ = told.send((number, result.map_err(|refusal| refusal.code)));
                    },
                    move |fleet| match number {
                        3 => Err(Refusal::invalid("no")),
                        4 => panic!("a test of ours"),
                        _ => learn(fleet, &format!("lesson {number}"), key),
                    },
                ).unwrap();
            };
            ask(1, None);
            ask(2, Some("key"));
            ask(3, None);
            ask(4, None);
            ask(2, Some("key"));
            ask(5, Some("key"));
            ask(6, None);
            drop(told);
            go.send(()).unwrap();
            let mut answered: Vec<_> = (0..7).map(|_| answers.recv().unwrap()).collect();
            answered.sort_by_key(|(number, _)| *number);
            assert_eq!(answered, [
                (1, Ok(())),
                (2, Ok(())),
                (2, Ok(())),
                (3, Err(Code::InvalidInput)),
                (4, Err(Code::CommitUnknown)),
                (5, Err(Code::KeyReused)),
                (6, Ok(())),
            ]);
            crew.dismiss();
            assert_eq!(*sizes.lock().unwrap(), [1, 7]);
            assert_eq!(lessons(world), ["lesson 1", "lesson 2", "lesson 6"]);
            assert_eq!(world.problems(), Vec::<String>::new());
        }

        fn what_takes_long_has_a_commit_of_its_own_and_order_is_kept(world: &World) {
            begin(world);
            let sizes: Arc<Mutex<Vec<usize>>> = Arc::default();
            let seen = Arc::clone(&sizes);
            let crew = crew_that(world, Arc::new(move |size| seen.lock().unwrap().push(size)));
            let lines = crew.lines();
            let go = hold(&lines);
            for number in 1..=6 {
                let company = if number == 4 { Company::Alone } else { Company::Welcome };
                lines
                    .send(Access::Write, company, drop, move |fleet| learn(fleet, &format!("lesson {number}"), None))
                    .unwrap();
            }
            go.send(()).unwrap();
            crew.dismiss();
            assert_eq!(*sizes.lock().unwrap(), [1, 3, 1, 2]);
            let all: Vec<String> = (1..=6).map(|number| format!("lesson {number}")).collect();
            assert_eq!(lessons(world), all);
        }
    }
}
