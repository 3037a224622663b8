//! Who follows the journal, from one server to the next.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::chaos::chance::Chance;
use crate::chaos::node::Node;

/// How long a server may be silent until a reader goes to another.
const SILENCE: Duration = Duration::from_secs(2);
/// How long a reader may be without anything new when there is something.
const PATIENCE: Duration = Duration::from_secs(60);

/// What all readers share.
#[derive(Default)]
pub struct Journal {
    /// What was seen at each revision: the same by all.
    seen: Mutex<BTreeMap<u64, String>>,
    /// Where a history went on from another, and how many revisions it left out.
    left_out: Mutex<BTreeMap<u64, u64>>,
    /// The last revision there will be, once it is known.
    pub end: AtomicU64,
    pub moves: AtomicU64,
}

/// A place in the journal.
#[derive(Clone, Debug)]
pub struct StreamPosition {
    pub history: String,
    pub rev: u64,
}

impl Journal {
    /// Reads from here to the end, and sees every revision once and in order.
    pub fn follow(&self, nodes: &[Node], token: &str, from: &StreamPosition, mut chance: Chance) {
        let mut at = from.clone();
        let mut moved = Instant::now();
        loop {
            let end = self.end.load(Ordering::SeqCst);
            if end != 0 && at.rev >= end {
                assert!(at.rev == end, "{at:?} is beyond the end, which is {end}");
                return;
            }
            if end == 0 {
                moved = Instant::now();
            }
            assert!(moved.elapsed() < PATIENCE, "a reader is stuck at {at:?}");
            let before = at.rev;
            let node = &nodes[chance.place(nodes.len())];
            let most = 1 + chance.below(300);
            self.visit(node, token, &mut at, most);
            self.moves.fetch_add(1, Ordering::SeqCst);
            if at.rev == before {
                thread::sleep(chance.millis(10, 60));
            } else {
                moved = Instant::now();
            }
        }
    }

    /// Reads at one server: so many events at most, and until it falls silent.
    fn visit(&self, node: &Node, token: &str, at: &mut StreamPosition, most: u64) {
        let Some(stream) = open(node, token, at) else {
            return;
        };
        let mut lines = BufReader::new(stream).lines();
        let Some(Ok(status)) = lines.next() else {
            return;
        };
        if !status.contains(" 200 ") {
            assert!(status.contains(" 503 "), "{status}");
            return;
        }
        let mut seen = 0;
        let mut block: BTreeMap<String, String> = BTreeMap::new();
        for line in lines.map_while(Result::ok) {
            if let Some((name, value)) = line.split_once(": ") {
                block.insert(name.to_owned(), value.to_owned());
            }
            if !line.is_empty() {
                continue;
            }
            let block = std::mem::take(&mut block);
            let (Some(id), Some(kind)) = (block.get("id"), block.get("event")) else {
                // The head of the answer, a sign of life; or the journal was replaced, which it was not.
                assert!(!block.contains_key("event"), "{block:?}");
                continue;
            };
            if kind == "hello" {
                continue;
            }
            let (history, rev) = id.rsplit_once('.').unwrap();
            let rev: u64 = rev.parse().unwrap();
            if kind == "history_begun" {
                self.pass_over(rev, at, history, &block["data"]);
            } else {
                assert_eq!(rev, at.rev + 1, "{block:?} came after {at:?}");
            }
            self.note(rev, &block["data"]);
            *at = StreamPosition {
                history: history.to_owned(),
                rev,
            };
            seen += 1;
            if seen >= most {
                return;
            }
        }
    }

    /// A history goes on from another one: from exactly the place where the reader is, so that it has missed nothing.
    fn pass_over(&self, rev: u64, at: &StreamPosition, history: &str, data: &str) {
        let data: Value = serde_json::from_str(data).unwrap();
        let before = &data["data"]["before"];
        assert_eq!(before["rev"], at.rev, "{data} came after {at:?}");
        assert!(before["history"] != history && data["data"]["history"] == history);
        assert!(rev > at.rev, "{data} came after {at:?}");
        let mut left_out = self.left_out.lock().unwrap();
        left_out.insert(rev, rev - at.rev - 1);
    }

    fn note(&self, rev: u64, data: &str) {
        let mut seen = self.seen.lock().unwrap();
        let first = seen.entry(rev).or_insert_with(|| data.to_owned());
        assert_eq!(first, data, "revision {rev} has changed");
    }

    /// How many revisions were seen.
    pub fn length(&self) -> u64 {
        self.seen.lock().unwrap().len() as u64
    }

    /// How many there never were, and how often some were left out.
    pub fn left_out(&self) -> (u64, usize) {
        let left_out = self.left_out.lock().unwrap();
        (left_out.values().sum(), left_out.len())
    }
}

/// Asks for the journal after this place.
fn open(node: &Node, token: &str, at: &StreamPosition) -> Option<TcpStream> {
    let address = node.url().replace("http://", "");
    let mut stream = TcpStream::connect(&address).ok()?;
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    // As of HTTP/1.0 an answer ends with its connection, and is not cut into pieces.
    let head = format!(
        "GET /api/v1/events/stream HTTP/1.0\r\nhost: {address}\r\nauthorization: Bearer {token}\r\n\
         last-event-id: {}.{}\r\n\r\n",
        at.history, at.rev
    );
    stream.write_all(head.as_bytes()).ok()?;
    Some(stream)
}

/// What a server says at once to a client that asks for the journal after this place.
///
/// A node whose connection to the store has just broken asks to try again, and is asked again.
pub fn peek(node: &Node, token: &str, at: &StreamPosition) -> String {
    let until = Instant::now() + PATIENCE;
    loop {
        let stream = open(node, token, at).unwrap();
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        let said = lines.collect::<Vec<_>>().join("\n");
        if !said.contains(" 503 ") || Instant::now() > until {
            return said;
        }
        thread::sleep(Duration::from_millis(100));
    }
}
