//! A connection on a thread of its own. The driver waits for an answer for as long as the connection stands, and a server
//! that is frozen keeps it standing; here the wait is bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::time::{Duration, Instant};

use postgres::error::SqlState;
use postgres::{Client, Config, NoTls};

use super::root_cause;
use super::tls::Tls;
use crate::error::StoreError;

/// The time without an answer after which another connection is made to ask whether the server is still there.
const SUSPICIOUS: Duration = Duration::from_secs(5);
/// The time that such a probe may take.
const PROBE: Duration = Duration::from_secs(5);
/// The longest time that a statement takes: the server itself ends it after a minute.
const LONGEST: Duration = Duration::from_secs(70);
/// The time for which the end of a connection is waited for.
const FAREWELL: Duration = Duration::from_secs(1);

// A role or a database may have `synchronous_commit` off: then a commit is answered before it is on a disk. A setting
// that also waits for replicas to apply the commit is kept.
const BEGIN: &str = "SELECT pg_backend_pid(), set_config('synchronous_commit', \
     CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false)";
/// The settings with which a commit is on a disk.
const DURABLE: [&str; 2] = ["on", "remote_apply"];
const IS_THERE: &str = "SELECT 1 FROM pg_stat_activity WHERE pid = $1";

type Job = Box<dyn FnOnce(&mut Client) + Send>;

#[derive(Debug)]
pub(super) enum WireFault {
    Said(postgres::Error),
    Silent,
}

impl WireFault {
    /// The server's code for the error; none when it said nothing.
    pub(super) fn code(&self) -> Option<&str> {
        match self {
            Self::Said(error) => error.code().map(SqlState::code),
            Self::Silent => None,
        }
    }

    pub(super) fn cause(&self) -> String {
        match self {
            Self::Said(error) => root_cause(error),
            Self::Silent => "PostgreSQL stopped answering".to_owned(),
        }
    }
}

/// The settings for making a connection, as often as it is needed.
#[derive(Clone)]
pub(super) struct ConnectPlan {
    pub(super) config: Config,
    pub(super) tls: Tls,
}

impl ConnectPlan {
    fn connect(&self) -> Result<Client, postgres::Error> {
        match self.tls.clone() {
            Tls::Off => self.config.connect(NoTls),
            Tls::On(tls) => self.config.connect(*tls),
        }
    }
}

pub(super) struct Wire {
    plan: ConnectPlan,
    /// The process id of the connection's backend at the server.
    backend: i32,
    /// The queue of the connection's thread; none once the connection was given up.
    jobs: Option<Sender<Job>>,
    closed: Arc<AtomicBool>,
    /// A channel that ends when the connection has.
    end: Receiver<()>,
    /// The number of requests over the connection.
    round_trips: u64,
}

impl Wire {
    /// Connects, in at most this time. `counted` is held until the server has answered.
    pub(super) fn connect(
        plan: ConnectPlan,
        at_most: Duration,
        counted: impl Send + 'static,
    ) -> Result<Self, StoreError> {
        let (ready, connected) = sync_channel(1);
        let (jobs, todo) = channel::<Job>();
        let (gone, end) = sync_channel(1);
        let closed = Arc::new(AtomicBool::new(false));
        let (making, noticed) = (plan.clone(), Arc::clone(&closed));
        let thread = std::thread::Builder::new().name("fleet-postgres".to_owned());
        let started = thread.spawn(move || {
            let _gone = gone;
            let made = making.connect().and_then(|mut client| {
                let begun = client.query_one(BEGIN, &[])?;
                let (backend, commits) = (begun.try_get(0)?, begun.try_get(1)?);
                Ok((client, backend, commits))
            });
            drop(counted);
            let (mut client, backend, commits): (Client, i32, String) = match made {
                Ok(made) => made,
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return;
                }
            };
            // When the caller no longer waits, the connection ends here.
            if ready.send(Ok((backend, commits))).is_err() {
                return;
            }
            for job in todo {
                job(&mut client);
                noticed.store(client.is_closed(), Ordering::SeqCst);
            }
        });
        started
            .map_err(|error| StoreError::Unreachable(format!("cannot start a thread: {error}")))?;
        match connected.recv_timeout(at_most) {
            Ok(Ok((_, commits))) if !DURABLE.contains(&commits.as_str()) => {
                Err(StoreError::NotDurable(format!(
                    "PostgreSQL keeps `synchronous_commit` at `{commits}`"
                )))
            }
            Ok(Ok((backend, _))) => Ok(Self {
                plan,
                backend,
                jobs: Some(jobs),
                closed,
                end,
                round_trips: 0,
            }),
            Ok(Err(error)) => Err(super::connect::refused(&error)),
            Err(RecvTimeoutError::Timeout) => Err(super::connect::silent(at_most)),
            Err(RecvTimeoutError::Disconnected) => {
                Err(StoreError::Unreachable("the connection broke".to_owned()))
            }
        }
    }

    pub(super) fn round_trips(&self) -> u64 {
        self.round_trips
    }

    /// Runs a job over the connection, in at most the time that a statement may take.
    pub(super) fn ask<T: Send + 'static>(
        &mut self,
        what: impl FnOnce(&mut Client) -> Result<T, postgres::Error> + Send + 'static,
    ) -> Result<T, WireFault> {
        self.ask_within(Some(LONGEST), what)
    }

    /// Runs a job that may take as long as it does, while the server is there.
    pub(super) fn ask_patiently<T: Send + 'static>(
        &mut self,
        what: impl FnOnce(&mut Client) -> Result<T, postgres::Error> + Send + 'static,
    ) -> Result<T, WireFault> {
        self.ask_within(None, what)
    }

    fn ask_within<T: Send + 'static>(
        &mut self,
        at_most: Option<Duration>,
        what: impl FnOnce(&mut Client) -> Result<T, postgres::Error> + Send + 'static,
    ) -> Result<T, WireFault> {
        self.round_trips += 1;
        let (sender, answer) = sync_channel(1);
        let job: Job = Box::new(move |client| {
            // The caller may no longer wait for it.
            let _ = sender.send(what(client));
        });
        let jobs = self.jobs.as_ref().ok_or(WireFault::Silent)?;
        if jobs.send(job).is_err() {
            return Err(self.give_up());
        }
        let began = Instant::now();
        loop {
            match answer.recv_timeout(SUSPICIOUS) {
                Ok(done) => return done.map_err(WireFault::Said),
                Err(RecvTimeoutError::Disconnected) => return Err(self.give_up()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let in_time = at_most.is_none_or(|at_most| began.elapsed() < at_most);
            if in_time && self.is_served() {
                continue;
            }
            return match answer.try_recv() {
                Ok(done) => done.map_err(WireFault::Said),
                Err(_) => Err(self.give_up()),
            };
        }
    }

    /// Asks over another connection whether the server still has this one.
    fn is_served(&self) -> bool {
        let (plan, backend) = (self.plan.clone(), self.backend);
        let (sender, answer) = sync_channel(1);
        let thread = std::thread::Builder::new().name("fleet-probe".to_owned());
        let started = thread.spawn(move || {
            let asked = plan
                .connect()
                .and_then(|mut client| client.query_opt(IS_THERE, &[&backend]));
            let _ = sender.send(match asked {
                Ok(row) => row.is_some(),
                // A server that refuses the query is alive.
                Err(error) => error.code().is_some(),
            });
        });
        // Without a thread nothing is known.
        started.is_err() || answer.recv_timeout(PROBE).unwrap_or(false)
    }

    /// Leaves the connection to its thread, which ends when the server does, or speaks again.
    fn give_up(&mut self) -> WireFault {
        self.jobs = None;
        self.closed.store(true, Ordering::SeqCst);
        WireFault::Silent
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // A connection that was given up is not waited for.
        if let Some(jobs) = self.jobs.take() {
            drop(jobs);
            let _ = self.end.recv_timeout(FAREWELL);
        }
    }
}
