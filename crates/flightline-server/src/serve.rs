//! The server's life: it opens, announces itself, serves, and ends without losing an accepted request.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use flightline::checkpoint::take::TakeCheckpoint;
use flightline::core::checkpoint::Reason;
use flightline::core::mission::MissionStatus;
use flightline::core::policy::Policy;
use flightline::core::{Code, Refusal};
use flightline::mirror::Mirrors;
use flightline::mission::ListMissions;
use flightline::registry::Commit;
use flightline::store::clock::IdSource;
use flightline::store::{Location, OpenOptions};
use flightline::token::ListTokens;
use flightline::workspace::WorkTree;
use flightline::{Access, Caller, Fleet};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, Semaphore, watch};

use crate::connection::{Peers, WriteTimeout, turn_away};
use crate::health::Health;
use crate::metrics::Metrics;
use crate::middleware::without_port;
use crate::notify::Notifier;
use crate::projects::Projects;
use crate::route::events::watch_journals;
use crate::route::{Shared, router};
use crate::test_mode::TestMode;
use crate::trace::{Traces, Tracing};
use crate::upkeep::{SideFiles, Upkeep, UpkeepDeps};
use crate::workers::{OnCommit, Queues, StoreConfig, Workers};

pub const DEFAULT_ADDRESS: &str = "127.0.0.1:7878";

/// The most bytes of a request's head that are read.
const LARGEST_HEAD: usize = 64 * 1024;
/// The time that accepted requests may take once the server is to end.
const LAST_REQUESTS: Duration = Duration::from_secs(30);
/// The time that the rest of the end may take: last checkpoints, their files, and threads that are busy.
const LAST_RITES: Duration = Duration::from_secs(15);

pub struct Setup {
    /// The address to listen at; port 0 for any free one.
    pub address: SocketAddr,
    /// The host names of the server, beside those of this machine.
    pub hosts: Vec<String>,
    pub location: Location,
    pub project: String,
    pub options: OpenOptions,
    pub policy: Policy,
    /// The state folder, where checkpoints' files are.
    pub state: PathBuf,
    pub mirrors: Option<Mirrors>,
    /// The work tree of the project, when it is on this machine.
    pub tree: Option<WorkTree>,
    pub user: String,
    pub lifetime: Option<Duration>,
    pub limits: Limits,
    /// The protocol version of this end: [`flightline::remote::API`], but in tests of versions that do not fit.
    pub api: u32,
    /// In tests, the token and user of the tests.
    pub test_mode: Option<TestMode>,
    pub traces: Option<Traces>,
}

#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The time in which the head of a request must arrive.
    pub head: Duration,
    /// The time in which the body must arrive.
    pub body: Duration,
    /// The time for which an answer may lie unread, but for a trickle.
    pub unread: Duration,
    /// The time that the store may take for an answer. Work that takes long by its nature has ten times as long.
    pub answer: Duration,
    /// The most connections that are open at once; more wait until one ends.
    pub connections: usize,
    /// The most connections of one address: the rest is for others.
    pub of_one_peer: usize,
    /// The most connections that are streams of events: the rest is for requests.
    pub streams: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            body: Duration::from_secs(20),
            unread: Duration::from_secs(20),
            answer: Duration::from_secs(30),
            connections: 2_048,
            of_one_peer: 1_792,
            streams: 1_536,
        }
    }
}

pub enum ServerMessage {
    Ready(Ready),
    /// A trouble that fails no request.
    Warning(String),
    Served(AccessLogLine),
    Stopping,
}

#[derive(Clone, Debug)]
pub struct Ready {
    /// The address of the server, with the real port.
    pub address: SocketAddr,
    pub tokens: usize,
}

/// A request that was answered. It holds nothing of the request's content or of the answer.
#[derive(Clone, Debug)]
pub struct AccessLogLine {
    pub request_id: String,
    pub method: String,
    /// The route as it stands in the router, not as it was asked for.
    pub route: String,
    pub status: u16,
    pub code: Option<String>,
    pub micros: u64,
    /// The part of that time for which the request waited for a thread.
    pub queue_micros: u64,
    pub project: Option<String>,
    pub agent: Option<String>,
    pub operation: Option<&'static str>,
    /// The id of the trace, if the request was traced.
    pub trace_id: Option<String>,
}

pub type MessageSink = Arc<dyn Fn(ServerMessage) + Send + Sync>;

/// Ends a server from another thread.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<Notify>);

impl Stop {
    pub fn now(&self) {
        self.0.notify_one();
    }
}

/// Serves until it is told to end: by a signal, by `stop`, or by the clock. Every request that was taken
/// on is answered before this returns, and every mission under way has its checkpoint.
pub fn serve(setup: Setup, say: MessageSink, stop: &Stop) -> Result<(), Refusal> {
    allow_files();
    let store_config = Arc::new(StoreConfig {
        location: setup.location,
        project: setup.project,
        options: setup.options,
        policy: setup.policy,
        tree: setup.tree,
    });
    let caller = Caller {
        user: setup.user,
        ..Caller::default()
    };
    let mut opened = store_config.open()?;
    let tokens = count_tokens(&mut opened, &caller)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("fleet-http")
        .enable_all()
        .build()
        .map_err(|error| cannot("start", &error))?;
    let listener = runtime.block_on(listen(setup.address))?;
    let address = listener
        .local_addr()
        .map_err(|error| cannot("listen", &error))?;
    let projects = Arc::new(Projects::new(&store_config.project, &setup.state));
    let metrics = Arc::new(Metrics::default());
    let counted = Arc::clone(&metrics);
    let grouped: OnCommit = Arc::new(move |size| counted.group(size));
    let workers = Workers::start(&store_config, &grouped, setup.limits.answer)?;
    let (queues, health) = (workers.queues(), Arc::new(Health::default()));
    let beside = SideFiles {
        mirrors: setup.mirrors,
        caller: caller.clone(),
    };
    for weakness in opened.store()?.weaknesses().map_err(Refusal::from)? {
        say(ServerMessage::Warning(weakness));
    }
    // From here on it is counted what happens.
    metrics.look(&mut opened)?;
    drop(opened);
    let tracing = Tracing::start(setup.traces, address, &say);
    let upkeep = Upkeep::start(UpkeepDeps {
        store_config: Arc::clone(&store_config),
        beside,
        queues: queues.clone(),
        projects: Arc::clone(&projects),
        health: Arc::clone(&health),
        say: Arc::clone(&say),
        tracing: tracing.clone(),
        idle: setup.test_mode.is_some(),
        folded_at: AtomicU64::new(0),
    })?;
    let wrote = Arc::new(Notify::new());
    let office = {
        let (projects, wrote) = (Arc::clone(&projects), Arc::clone(&wrote));
        Notifier::open(&store_config.location, move |project| {
            let told = match project {
                Some(project) => projects.find(project).into_iter().collect(),
                None => projects.all(),
            };
            for project in told {
                project.note_news();
            }
            wrote.notify_one();
        })?
    };
    let shared = Arc::new(Shared {
        queues: queues.clone(),
        nudge: upkeep.nudger(),
        health: Arc::clone(&health),
        metrics,
        tracing: tracing.clone(),
        hosts: names(address, &setup.hosts),
        api: setup.api,
        test_mode: setup.test_mode,
        ids: IdSource::Random,
        say: Arc::clone(&say),
        streams: Arc::new(Semaphore::new(setup.limits.streams)),
        wrote,
        post: office.as_ref().map(Notifier::post),
        projects: Arc::clone(&projects),
        stopping: watch::Sender::new(false),
        limits: setup.limits,
    });
    let ended = runtime.block_on(async {
        let ending = Ending::listen(stop.clone(), setup.lifetime)?;
        say(ServerMessage::Ready(Ready { address, tokens }));
        tokio::spawn(watch_journals(Arc::clone(&shared)));
        accept(&listener, &shared, ending).await;
        Ok::<_, Refusal>(())
    });
    // Connections that would not end are cut; their requests are carried out all the same.
    runtime.shutdown_timeout(Duration::from_secs(1));
    let (told, traces) = (Arc::clone(&say), tracing.clone());
    let in_time = within(LAST_RITES, move || {
        for project in projects.all() {
            save(&queues, &project.id, &caller, &told);
        }
        upkeep.dismiss();
        if let Some(office) = office {
            office.close();
        }
        workers.dismiss();
        traces.end();
    });
    if !in_time {
        let seconds = LAST_RITES.as_secs();
        say(ServerMessage::Warning(format!(
            "the store does not answer: this server ends without the last checkpoints, after {seconds} seconds"
        )));
    }
    ended
}

/// Does `work`, but waits for it no longer than `at_most`. Returns true when it was done.
fn within(at_most: Duration, work: impl FnOnce() + Send + 'static) -> bool {
    let (done, is_done) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().name("fleet-end".to_owned());
    let started = thread.spawn(move || {
        work();
        let _ = done.send(());
    });
    started.is_ok() && is_done.recv_timeout(at_most).is_ok()
}

/// Raises the limit of open files to the most that the system allows: each connection is one, and the usual limit is
/// lower.
fn allow_files() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum || limit.maximum.is_none() {
        limit.current = limit.maximum;
        // With fewer open files there are fewer connections, and it is said when they run out.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

fn cannot(act: &str, error: &dyn std::fmt::Display) -> Refusal {
    Refusal::new(Code::Unavailable, format!("cannot {act}: {error}"))
}

fn count_tokens(fleet: &mut Fleet, caller: &Caller) -> Result<usize, Refusal> {
    let tokens = fleet.run(&ListTokens::default(), caller);
    tokens
        .map(|tokens| tokens.len())
        .map_err(flightline::Error::into_refusal)
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Refusal> {
    TcpListener::bind(address).await.map_err(|error| {
        let refusal = cannot(&format!("listen at {address}"), &error);
        match error.kind() {
            std::io::ErrorKind::AddrInUse => refusal.hint(
                "stop the program that listens there, or choose another with `--addr 127.0.0.1:0`",
            ),
            _ => refusal.hint("choose another address with `--addr 127.0.0.1:0`"),
        }
    })
}

/// The host names by which a request may call this server.
fn names(address: SocketAddr, more: &[String]) -> Vec<String> {
    let mut names = vec![
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "[::1]".to_owned(),
    ];
    if !address.ip().is_unspecified() {
        names.push(without_port(&address.to_string()).to_ascii_lowercase());
    }
    names.extend(more.iter().map(|name| name.to_ascii_lowercase()));
    names
}

struct Ending {
    stop: Stop,
    lifetime: Option<Duration>,
    terminate: Signal,
    interrupt: Signal,
}

impl Ending {
    fn listen(stop: Stop, lifetime: Option<Duration>) -> Result<Self, Refusal> {
        let on = |kind| signal(kind).map_err(|error| cannot("listen to signals", &error));
        Ok(Self {
            stop,
            lifetime,
            terminate: on(SignalKind::terminate())?,
            interrupt: on(SignalKind::interrupt())?,
        })
    }

    async fn wait(mut self) {
        let lifetime = self.lifetime;
        let over = async {
            match lifetime {
                Some(span) => tokio::time::sleep(span).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            () = self.stop.0.notified() => {}
            () = over => {}
        }
    }
}

/// Takes connections until the end, then lets those that are open finish what they have begun.
async fn accept(listener: &TcpListener, shared: &Arc<Shared>, ending: Ending) {
    let service = TowerToHyperService::new(router(shared));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(shared.limits.head)
        .max_buf_size(LARGEST_HEAD);
    let (graceful, room) = (
        GracefulShutdown::new(),
        Arc::new(Semaphore::new(shared.limits.connections)),
    );
    let peers = Peers::new(shared.limits.of_one_peer);
    let taking = async {
        loop {
            let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
                return;
            };
            let (stream, address) = match listener.accept().await {
                Ok(taken) => taken,
                Err(error) => {
                    // There may be too many open files, for example: the open connections go on, and will end.
                    (shared.say)(ServerMessage::Warning(format!(
                        "cannot take a connection: {error}"
                    )));
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Some(peer) = peers.admit(address.ip()) else {
                turn_away(&stream);
                continue;
            };
            // An answer is small and waited for.
            let _ = stream.set_nodelay(true);
            let stream = WriteTimeout::new(stream, shared.limits.unread);
            let connection = http.serve_connection(TokioIo::new(stream), service.clone());
            let watched = graceful.watch(connection);
            tokio::spawn(async move {
                // An error at the end of a connection is its client's business.
                let _ = watched.await;
                drop((peer, permit));
            });
        }
    };
    tokio::select! {
        () = taking => {}
        () = ending.wait() => {}
    }
    shared.health.stop();
    shared.stopping.send_replace(true);
    (shared.say)(ServerMessage::Stopping);
    let _ = tokio::time::timeout(LAST_REQUESTS, graceful.shutdown()).await;
}

/// Takes a checkpoint of every mission under way. One that fails stops no other, and not the end either.
fn save(queues: &Queues, project: &Arc<str>, caller: &Caller, say: &MessageSink) {
    let caller = caller.clone();
    let saved = queues.run_here(project, Access::Write, Commit::Own, move |fleet| {
        let refused = flightline::Error::into_refusal;
        if !fleet.policy().triggers.has(Reason::Shutdown) {
            return Ok(Vec::new());
        }
        let every = ListMissions {
            archived: false,
            limit: u64::MAX,
        };
        let missions = fleet.run(&every, &caller).map_err(refused)?;
        let mut failed = Vec::new();
        let under_way = missions
            .iter()
            .filter(|mission| mission.status == MissionStatus::InProgress.as_str());
        for mission in under_way {
            let request = TakeCheckpoint {
                mission: Some(mission.id.to_string()),
                reason: Some(Reason::Shutdown),
                details: None,
                note: None,
            };
            if let Err(error) = fleet.run(&request, &caller) {
                failed.push(error.into_refusal().message);
            }
        }
        Ok(failed)
    });
    match saved {
        Ok(failed) => failed
            .into_iter()
            .for_each(|message| say(ServerMessage::Warning(message))),
        Err(refusal) => say(ServerMessage::Warning(refusal.message)),
    }
}
