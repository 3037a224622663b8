//! The threads on which operations run: those that write, and a few that read, each with a connection of its own. All writes
//! of a project go to the same thread. Requests wait in bounded queues; a request that finds its queue full is answered 503.

mod task;
#[cfg(test)]
mod tests;
mod writer;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use flightline::core::policy::Policy;
use flightline::core::{Code, Refusal};
use flightline::registry::Commit;
use flightline::store::{Location, OpenOptions, Store};
use flightline::workspace::WorkTree;
use flightline::{Access, Fleet};
use tokio::sync::oneshot;

use crate::request_log;
use task::{ConnectionTask, WaitingRequest};

/// The most requests that may wait for a thread that writes.
const WRITES_WAITING: usize = 256;
/// The number of threads that write where projects do not wait for one another. SQLite has one writer at a time.
const WRITERS: usize = 4;
const READS_WAITING: usize = 1_024;
const READERS: usize = 4;

#[derive(Clone, Debug)]
pub(crate) struct StoreConfig {
    pub(crate) location: Location,
    /// The project whose repository the server runs in, if it runs in one.
    pub(crate) project: String,
    pub(crate) options: OpenOptions,
    pub(crate) policy: Policy,
    pub(crate) tree: Option<WorkTree>,
}

impl StoreConfig {
    /// Opens a further connection to the store, in that project.
    pub(crate) fn open(&self) -> Result<Fleet, Refusal> {
        self.connect(self.options.clone())
    }

    fn connect(&self, options: OpenOptions) -> Result<Fleet, Refusal> {
        let store = Store::open(&self.location, &self.project, options)?;
        let fleet = Fleet::new(store, self.policy.clone());
        Ok(match &self.tree {
            Some(tree) => fleet.in_tree(tree.clone()),
            None => fleet,
        })
    }

    /// Switches a connection to another project. The work tree belongs to the project whose repository the server runs in.
    pub(crate) fn enter(&self, fleet: &mut Fleet, project: &str) {
        let tree = self.tree.as_ref().filter(|_| project == self.project);
        fleet.enter(project, tree);
    }
}

impl StoreConfig {
    /// Opens a connection for a thread of requests. A store that is not there any more may come back. A thread that
    /// writes caches its writes, and looks after the log.
    fn reopen(&self, access: Access) -> Result<Fleet, Refusal> {
        let options = OpenOptions {
            remember: Arc::new(true.into()),
            keeps_log: access == Access::Write,
            ..self.options.clone()
        };
        self.connect(options).map_err(|refusal| match refusal.code {
            Code::NoProject => Refusal::new(Code::Unavailable, refusal.message).hint(
                "nothing was done: bring the store back; the server then continues by itself",
            ),
            _ => refusal,
        })
    }
}

enum WorkerMessage {
    Do(QueuedWork),
    End,
}

struct QueuedWork {
    task: Box<dyn ConnectionTask>,
    project: Arc<str>,
    commit: Commit,
}

/// Called after each commit with the number of its writes.
pub(crate) type OnCommit = Arc<dyn Fn(usize) + Send + Sync>;

pub(crate) struct Workers {
    queues: Queues,
    threads: Vec<JoinHandle<()>>,
}

/// A handle on the threads, for code that brings requests.
#[derive(Clone)]
pub(crate) struct Queues {
    writers: Vec<SyncSender<WorkerMessage>>,
    readers: SyncSender<WorkerMessage>,
    answer: Duration,
    /// The numbers of writes and of reads that wait or are being done.
    writes: Arc<AtomicUsize>,
    reads: Arc<AtomicUsize>,
}

/// A request that waits or is being done.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn in_line(line: &Arc<AtomicUsize>) -> Self {
        line.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(line))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Workers {
    /// Starts the threads. The store must be one that opens.
    pub(crate) fn start(
        store_config: &Arc<StoreConfig>,
        grouped: &OnCommit,
        answer: Duration,
    ) -> Result<Self, Refusal> {
        let mut threads = Vec::new();
        let mut writers = Vec::new();
        let hands = match store_config.location {
            Location::Folder(_) => 1,
            Location::Postgres(_) => WRITERS,
        };
        for _ in 0..hands {
            let (writer, orders) = sync_channel(WRITES_WAITING);
            let (to, told) = (Arc::clone(store_config), Arc::clone(grouped));
            threads.push(start("write", move || writer::live(&orders, &to, &told))?);
            writers.push(writer);
        }
        let (readers, orders) = sync_channel(READS_WAITING);
        let orders = Arc::new(Mutex::new(orders));
        for _ in 0..READERS {
            let (orders, from) = (Arc::clone(&orders), Arc::clone(store_config));
            threads.push(start("read", move || read(&orders, &from))?);
        }
        Ok(Self {
            queues: Queues {
                writers,
                readers,
                answer,
                writes: Arc::default(),
                reads: Arc::default(),
            },
            threads,
        })
    }

    pub(crate) fn queues(&self) -> Queues {
        self.queues.clone()
    }

    /// Lets everything that waits be done, and ends the threads.
    pub(crate) fn dismiss(self) {
        let Self { queues, threads } = self;
        let readers = std::iter::repeat_n(&queues.readers, READERS);
        for lane in queues.writers.iter().chain(readers) {
            // A closed lane has no thread left to tell.
            let _ = lane.send(WorkerMessage::End);
        }
        for thread in threads {
            // A panic in there was answered to its request.
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

impl Queues {
    /// Runs `f` on a thread for its kind of access, and waits for the result. `f` may run more than once: its earlier
    /// writes were rolled back then.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        project: &Arc<str>,
        access: Access,
        commit: Commit,
        mut f: impl FnMut(&mut Fleet) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (reply, outcome) = oneshot::channel();
        let wait = request_log::queue_wait(access);
        let done = wait.clone();
        self.send(
            project,
            access,
            commit,
            move |result| {
                done.inspect(|wait| wait.answer());
                // The receiver may have gone: then the answer is dropped.
                let _ = reply.send(result);
            },
            move |fleet| {
                wait.as_ref().inspect(|wait| wait.take());
                f(fleet)
            },
        )?;
        let patience = match commit {
            Commit::Grouped => self.answer,
            Commit::Own => self.answer * 10,
        };
        match tokio::time::timeout(patience, outcome).await {
            Ok(outcome) => outcome.map_err(|_| broken())?,
            // The request may be carried out yet.
            Err(_) => Err(unanswered(access, patience)),
        }
    }

    /// Runs `f` like `run`, for threads of ours, which may block.
    pub(crate) fn run_here<T: Send + 'static>(
        &self,
        project: &Arc<str>,
        access: Access,
        commit: Commit,
        f: impl FnMut(&mut Fleet) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<T, Refusal> {
        let (reply, outcome) = sync_channel(1);
        self.send(
            project,
            access,
            commit,
            move |result| {
                let _ = reply.send(result);
            },
            f,
        )?;
        outcome.recv().map_err(|_| broken())?
    }

    fn send<T: Send + 'static>(
        &self,
        project: &Arc<str>,
        access: Access,
        commit: Commit,
        reply: impl FnOnce(Result<T, Refusal>) + Send + 'static,
        f: impl FnMut(&mut Fleet) -> Result<T, Refusal> + Send + 'static,
    ) -> Result<(), Refusal> {
        let (lane, line) = match access {
            Access::Read => (&self.readers, &self.reads),
            Access::Write | Access::Pulse => (self.writer_of(project), &self.writes),
        };
        let counted = Counted::in_line(line);
        let reply = move |result| {
            drop(counted);
            reply(result);
        };
        let work = QueuedWork {
            task: Box::new(WaitingRequest::new(f, reply)),
            project: Arc::clone(project),
            commit,
        };
        lane.try_send(WorkerMessage::Do(work))
            .map_err(|error| match error {
                TrySendError::Full(_) => Refusal::new(
                    Code::Unavailable,
                    "too many requests are queued; this one was rejected",
                )
                .hint("nothing was done: retry in a second"),
                TrySendError::Disconnected(_) => {
                    Refusal::new(Code::Unavailable, "the server is about to stop")
                        .hint("nothing was done: retry when it runs again")
                }
            })
    }
}

impl Queues {
    /// Returns the thread that writes for this project: always the same, so that its writes keep their order.
    fn writer_of(&self, project: &str) -> &SyncSender<WorkerMessage> {
        let mut hasher = DefaultHasher::new();
        project.hash(&mut hasher);
        let lanes = self.writers.len();
        let lane = usize::try_from(hasher.finish() % lanes as u64).unwrap_or(0);
        &self.writers[lane]
    }

    /// The number of requests that wait or are being done, by the name of their queue.
    pub(crate) fn waiting(&self) -> Vec<(&'static str, usize)> {
        let length = |line: &AtomicUsize| line.load(Ordering::Relaxed);
        vec![
            ("write", length(&self.writes)),
            ("read", length(&self.reads)),
        ]
    }
}

/// Refusal for a thread that did not answer. It is not known whether the thread wrote anything: it may have failed
/// after its commit.
fn broken() -> Refusal {
    Refusal::new(
        Code::CommitUnknown,
        "the request failed inside the server, and it is not known whether it was done",
    )
    .hint("retry with the same Idempotency-Key")
}

/// Refusal for a store that does not answer: its disk or its database hangs.
fn unanswered(access: Access, waited: Duration) -> Refusal {
    let seconds = waited.as_secs();
    let message = format!("the store has not answered for {seconds} seconds");
    match access {
        Access::Read => Refusal::new(Code::Unavailable, message).hint("retry in a moment"),
        Access::Write | Access::Pulse => Refusal::new(
            Code::CommitUnknown,
            format!("{message}, and it is not known whether it was done"),
        )
        .hint("retry with the same Idempotency-Key"),
    }
}

/// The one connection that a thread keeps. It is opened anew when it was lost.
struct WorkerConnection<'a> {
    store_config: &'a StoreConfig,
    access: Access,
    kept: Option<Fleet>,
}

impl<'a> WorkerConnection<'a> {
    fn at(store_config: &'a StoreConfig, access: Access) -> Self {
        Self {
            store_config,
            access,
            kept: None,
        }
    }

    /// Runs a task by itself, and once more over a new connection when the kept one turns out to be lost: nothing was
    /// written then.
    fn run(&mut self, work: &mut QueuedWork) {
        let task = work.task.as_mut();
        // A task of several transactions may have done one of them.
        let once_more = self.kept.is_some() && work.commit == Commit::Grouped;
        for again in [once_more, false] {
            let opened = match self.kept.take() {
                Some(fleet) => Ok(fleet),
                None => self.store_config.reopen(self.access),
            };
            let mut closed = false;
            match opened {
                Err(refusal) => task.refuse(refusal),
                Ok(mut fleet) => {
                    self.store_config.enter(&mut fleet, &work.project);
                    let ran = catch_unwind(AssertUnwindSafe(|| task.run(&mut fleet)));
                    closed = fleet.store().is_ok_and(|store| store.is_closed());
                    if ran.is_ok() && !task.failed().is_some_and(is_lost) {
                        self.kept = Some(fleet);
                    }
                }
            }
            // A request that was refused for another reason, such as a busy store, has waited long enough.
            if !(again && closed && task.failed() == Some(Code::Unavailable)) {
                return;
            }
        }
    }
}

/// Returns true when a refusal with this code may mean that the connection is lost.
fn is_lost(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::CommitUnknown)
}

/// The life of a thread that reads: tasks in order.
fn read(orders: &Mutex<Receiver<WorkerMessage>>, store_config: &StoreConfig) {
    let mut connection = WorkerConnection::at(store_config, Access::Read);
    loop {
        // Held while waiting: the thread that holds the lock gets the next request.
        let next = orders.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(WorkerMessage::Do(mut work)) = next else {
            return;
        };
        connection.run(&mut work);
        work.task.answer();
    }
}
