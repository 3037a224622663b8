//! What clients do all the time: they write notes and sorties, and take locks to write to things outside.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::chaos::chance::Chance;
use crate::chaos::http::{Http, Request, Said};
use crate::chaos::ledger::{Ledger, Resources, Write};
use crate::chaos::node::Node;

/// How long anybody waits for the answer to something once the trouble is over.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longer than any trouble: such a lock is given back, and never lapses.
const FOR_GOOD: u64 = 3_600_000;
/// The shortest there is: such a lock lapses under a silent holder.
const SHORT: u64 = 1_000;

/// What all clients share.
pub struct Crowd<'a> {
    pub nodes: &'a [Node],
    pub token: &'a str,
    pub mission: String,
    pub ledger: Ledger,
    pub resources: Resources,
    pub over: AtomicBool,
    pub repeats: AtomicU64,
    pub replays: AtomicU64,
}

/// One client, which is one agent.
pub struct Client<'a> {
    crowd: &'a Crowd<'a>,
    name: String,
    http: Http,
    acts: u64,
}

impl<'a> Client<'a> {
    pub fn new(crowd: &'a Crowd<'a>, number: usize, chance: &Chance) -> Self {
        Self {
            crowd,
            name: format!("agent-{number:02}"),
            http: Http::new(crowd.token, chance.branch(1_000 + number as u64)),
            acts: 0,
        }
    }

    /// Makes itself known.
    pub fn register(&mut self) {
        let mut request = self.request("/agents", json!({ "name": self.name }));
        request.agent = None;
        self.must(&request);
    }

    /// Works until it is over.
    pub fn live(mut self) {
        while !self.crowd.over.load(Ordering::SeqCst) {
            match self.http.chance.below(100) {
                0..60 => self.note(),
                60..75 => self.sortie(),
                75..93 => self.lock(),
                _ => self.lapsing_lock(),
            }
        }
        self.crowd
            .repeats
            .fetch_add(self.http.repeats, Ordering::SeqCst);
    }

    fn request(&mut self, path: &str, body: Value) -> Request {
        self.acts += 1;
        Request {
            path: path.to_owned(),
            body,
            key: format!("{}-{}", self.name, self.acts),
            agent: Some(self.name.clone()),
        }
    }

    fn settle(&mut self, request: &Request) -> Said {
        // Trouble ends long before this; a client that waits that long waits in vain.
        let until = Instant::now() + PATIENCE;
        let said = self.http.settle(self.crowd.nodes, request, until);
        if let Said::Nothing(why) = &said {
            panic!("{} waited in vain for {request:?}: {why}", self.name);
        }
        said
    }

    /// What cannot be refused.
    fn must(&mut self, request: &Request) -> Value {
        match self.settle(request) {
            Said::Done(answer) => answer,
            other => panic!("{}: {request:?}: {other:?}", self.name),
        }
    }

    fn note(&mut self) {
        let text = format!("note {} of {}", self.acts, self.name);
        let path = format!("/missions/{}/notes", self.crowd.mission);
        let request = self.request(&path, json!({ "kind": "lesson", "text": text }));
        self.write(&text, request);
    }

    fn sortie(&mut self) {
        let text = format!("sortie {} of {}", self.acts, self.name);
        let path = format!("/missions/{}/sorties", self.crowd.mission);
        let request = self.request(&path, json!({ "title": text }));
        self.write(&text, request);
    }

    fn write(&mut self, text: &str, request: Request) {
        let impatient = self.http.chance.percent(8);
        let said = if impatient {
            let node = self.http.chance.place(self.crowd.nodes.len());
            self.http.ask(&self.crowd.nodes[node], &request)
        } else {
            self.settle(&request)
        };
        match said {
            Said::Nothing(_) => self.crowd.ledger.leave_open(text),
            Said::Refused(..) => {
                self.crowd.ledger.refuse(text);
                panic!("{request:?}: {said:?}");
            }
            Said::Done(answer) => {
                self.crowd
                    .ledger
                    .acknowledge(text, request.clone(), answer.clone());
                if self.http.chance.percent(10) {
                    self.ask_again(&request, &answer);
                }
            }
        }
    }

    /// A request that is repeated gets the same answer; another request with its key is refused.
    fn ask_again(&mut self, request: &Request, first: &Value) {
        let again = self.must(request);
        assert_eq!(&again, first, "another answer to {request:?}");
        self.crowd.replays.fetch_add(1, Ordering::SeqCst);
        let other = Request {
            body: json!({ "kind": "lesson", "text": "something else", "title": "something else" }),
            path: request.path.replace("/sorties", "/notes"),
            ..request.clone()
        };
        match self.settle(&other) {
            Said::Refused(code, _) => assert!(code == "key_reused" || code == "invalid_input"),
            said => panic!("{other:?}: {said:?}"),
        }
    }

    /// Takes a lock: its id and fence, unless somebody has it.
    fn acquire(&mut self, path: &str, ttl: u64) -> Option<(String, u64)> {
        let request = self.request("/locks", json!({ "paths": [path], "ttl_ms": ttl }));
        match self.settle(&request) {
            Said::Done(answer) => {
                let lock = &answer[0]["lock"];
                let fence = lock["fence"].as_u64().unwrap();
                self.crowd.resources.granted(path, &self.name, fence);
                Some((lock["id"].as_str().unwrap().to_owned(), fence))
            }
            Said::Refused(code, _) if code == "lock_held" => None,
            other => panic!("{request:?}: {other:?}"),
        }
    }

    fn give_back(&mut self, id: &str, fence: u64) -> Said {
        let body = json!({ "locks": [id], "all": false, "fence": fence });
        let request = self.request("/ops/release_locks", body);
        self.settle(&request)
    }

    /// A lock that is held until it is given back: nobody else has it meanwhile.
    fn lock(&mut self) {
        let path = format!("src/shared-{}.rs", self.http.chance.below(6));
        let Some((id, fence)) = self.acquire(&path, FOR_GOOD) else {
            return;
        };
        let resources = &self.crowd.resources;
        resources.hold(&path, &self.name, fence);
        for _ in 0..self.http.chance.below(3) {
            assert_eq!(resources.write(&path, &self.name, fence), Write::Taken);
            thread::sleep(self.http.chance.millis(1, 30));
        }
        resources.let_go(&path);
        if let Said::Refused(_, why) = self.give_back(&id, fence) {
            panic!("{} could not give {path} back: {why}", self.name);
        }
    }

    /// A lock that may lapse while its holder is silent: a holder that comes too late is turned away by its fence.
    fn lapsing_lock(&mut self) {
        let path = format!("src/lapsing-{}.rs", self.http.chance.below(2));
        let Some((id, fence)) = self.acquire(&path, SHORT) else {
            return;
        };
        let resources = &self.crowd.resources;
        for _ in 0..3 {
            resources.write(&path, &self.name, fence);
            thread::sleep(self.http.chance.millis(1, 900));
        }
        // It may be somebody else's by now.
        self.give_back(&id, fence);
    }
}
