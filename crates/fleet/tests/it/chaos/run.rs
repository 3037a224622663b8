//! A run: clients and readers at work, trouble, and the reckoning.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chaos::chance::Chance;
use crate::chaos::client::{Client, Crowd};
use crate::chaos::http::{Http, Request, Said};
use crate::chaos::ledger::{Ledger, Resources};
use crate::chaos::node::{Node, Site};
use crate::chaos::stream::{Journal, StreamPosition};

/// How many clients write.
const CLIENTS: usize = 64;
/// How many follow the journal.
const READERS: usize = 6;
/// How long a server may take to be of use once there is no more trouble.
const RECOVERY: Duration = Duration::from_secs(45);

/// What a run came to.
pub struct Figures {
    pub acknowledged: usize,
    pub unanswered: usize,
    pub repeats: u64,
    pub replays: u64,
    pub locks: u64,
    pub turned_away: u64,
    pub revisions: u64,
    pub moves: u64,
    /// How often a history went on from another one.
    pub histories: usize,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} writes acknowledged, {} left open, asked again {} times, {} keys tried twice; \
             {} locks, {} late writers turned away; {} revisions read by {READERS} readers in {} visits",
            self.acknowledged,
            self.unanswered,
            self.repeats,
            self.replays,
            self.locks,
            self.turned_away,
            self.revisions,
            self.moves
        )
    }
}

/// Lets clients work and readers read while there is trouble, and checks everything that must hold.
pub fn run(
    site: &Site,
    nodes: &[Node],
    chance: &Chance,
    trouble: impl FnOnce(&Crowd<'_>),
) -> Figures {
    let http = Http::new(&site.token, chance.branch(1));
    let missions = http.read(&nodes[0], "list_missions", json!({ "limit": 1 }));
    let crowd = Crowd {
        nodes,
        token: &site.token,
        mission: missions[0]["id"].as_str().unwrap().to_owned(),
        ledger: Ledger::default(),
        resources: Resources::default(),
        over: AtomicBool::new(false),
        repeats: AtomicU64::new(0),
        replays: AtomicU64::new(0),
    };
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|number| Client::new(&crowd, number, chance))
        .collect();
    for client in &mut clients {
        client.register();
    }
    let journal = Journal::default();
    let start = place(&http, &nodes[0]);
    thread::scope(|scope| {
        // Whatever goes wrong in here, the others are told to end.
        let end = Ending(&crowd, &journal);
        for number in 0..READERS {
            let (journal, start, chance) = (&journal, &start, chance.branch(100 + number as u64));
            scope.spawn(move || journal.follow(nodes, &site.token, start, chance));
        }
        let workers: Vec<_> = clients
            .into_iter()
            .map(|client| scope.spawn(move || client.live()))
            .collect();
        trouble(&crowd);
        for node in nodes {
            serves_again(&http, node);
        }
        crowd.over.store(true, Ordering::SeqCst);
        for worker in workers {
            // What it died of is told at the end of the scope.
            let _ = worker.join();
        }
        let rev = quiet(&http, &nodes[0]);
        journal.end.store(rev, Ordering::SeqCst);
        drop(end);
    });
    reckon(site, &http, &crowd);
    let (locks, turned_away) = crowd.resources.figures();
    let (end, (left_out, histories)) = (journal.end.load(Ordering::SeqCst), journal.left_out());
    let revisions = journal.length();
    assert_eq!(revisions, end - start.rev - left_out);
    Figures {
        acknowledged: crowd.ledger.acknowledged(),
        unanswered: crowd.ledger.unanswered(),
        repeats: crowd.repeats.load(Ordering::SeqCst),
        replays: crowd.replays.load(Ordering::SeqCst),
        locks,
        turned_away,
        revisions,
        moves: journal.moves.load(Ordering::SeqCst),
        histories,
    }
}

struct Ending<'a>(&'a Crowd<'a>, &'a Journal);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::SeqCst);
        if thread::panicking() {
            self.1.end.store(1, Ordering::SeqCst);
        }
    }
}

/// Where the journal of a server is.
pub fn place(http: &Http, node: &Node) -> StreamPosition {
    let events = http.read(node, "list_events", json!({ "limit": 1 }));
    let cursor = &events["cursor"];
    StreamPosition {
        history: cursor["history"].as_str().unwrap().to_owned(),
        rev: cursor["rev"].as_u64().unwrap(),
    }
}

/// It is alive, and takes a write by itself.
pub fn serves_again(http: &Http, node: &Node) {
    let deadline = Instant::now() + RECOVERY;
    let request = Request {
        path: "/ops/heartbeat".to_owned(),
        body: json!({}),
        key: "a sign of life".to_owned(),
        agent: Some("agent-00".to_owned()),
    };
    loop {
        assert!(node.is_alive(), "a server has ended: {}", node.said());
        match http.ask(node, &request) {
            Said::Done(_) => return,
            Said::Refused(code, why) => panic!("{code}: {why}"),
            Said::Nothing(why) => assert!(
                Instant::now() < deadline,
                "a server does not come back: {why}: {}",
                node.said()
            ),
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// The last revision, once nothing is written any more: servers still tidy up after the last request.
fn quiet(http: &Http, node: &Node) -> u64 {
    let (mut last, mut since) = (0, Instant::now());
    let deadline = Instant::now() + RECOVERY;
    while since.elapsed() < Duration::from_secs(2) {
        let now = place(http, node).rev;
        if now != last {
            (last, since) = (now, Instant::now());
        }
        assert!(Instant::now() < deadline, "there is no end to writing");
        thread::sleep(Duration::from_millis(100));
    }
    last
}

/// Everything that must hold in the end, at every server.
fn reckon(site: &Site, http: &Http, crowd: &Crowd<'_>) {
    let mission = &crowd.mission;
    for node in crowd.nodes {
        let texts = |operation: &str, body: Value, field: &str| -> Vec<String> {
            let list = http.read(node, operation, body);
            let list = list.as_array().unwrap().iter();
            list.map(|it| it[field].as_str().unwrap().to_owned())
                .collect()
        };
        let mut there = texts("list_notes", json!({ "mission": mission }), "text");
        let all = json!({ "mission": mission, "limit": 1_000_000 });
        there.extend(texts("list_sorties", all, "title"));
        crowd.ledger.check(&there);
    }
    // A key gives its first answer, wherever it is asked for.
    let mut chance = http.chance.clone();
    let done = crowd.ledger.done();
    for _ in 0..100 {
        let (request, first) = &done[chance.place(done.len())];
        let node = &crowd.nodes[chance.place(crowd.nodes.len())];
        match http.ask(node, request) {
            Said::Done(again) => assert_eq!(&again, first, "{request:?}"),
            other => panic!("{request:?}: {other:?}"),
        }
    }
    let doctor = site.run(&["doctor"]);
    assert!(
        doctor.status.success(),
        "the doctor: {}{}",
        String::from_utf8_lossy(&doctor.stdout),
        String::from_utf8_lossy(&doctor.stderr)
    );
}
