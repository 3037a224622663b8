//! A server is killed under load, again and again. What it acknowledged is there when the next one starts;
//! what it left open is there once at most, and once when it is asked for again with the same key.
//! `FLEET_KILL_ROUNDS=2000` does it longer.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flightline_testkit::postgres_url;

use crate::chaos::chance::{self, Chance};
use crate::chaos::commits::note;
use crate::chaos::http::{Http, Request, Said};
use crate::chaos::node::{Node, Site};

const CLIENTS: usize = 8;
/// How many rounds write to one mission: each round reads all of its notes.
const ROUNDS_OF_A_MISSION: u64 = 20;
/// How many a server acknowledges at most before it is killed.
const MOST: u64 = 40;

#[test]
fn a_server_that_is_killed_keeps_what_it_acknowledged_on_sqlite() {
    survive(&Site::here());
}

#[test]
fn a_server_that_is_killed_keeps_what_it_acknowledged_on_postgres() {
    survive(&Site::new(postgres_url()));
}

fn survive(site: &Site) {
    let (rounds, mut chance) = (chance::rounds(30), Chance::new(chance::seed()));
    let node = site.own_node();
    node.kill();
    let mut told = Told::default();
    let (mut acknowledged, mut open) = (0, 0);
    for round in 0..rounds {
        if round % ROUNDS_OF_A_MISSION == 0 {
            site.json(&["mission", "create", &format!("From round {round}")]);
            told = Told::default();
        }
        node.start();
        let (done, left) = one_round(site, &node, round, &mut told, &mut chance, |_| {});
        acknowledged += done;
        open += left;
        told.check(site);
        if round % 100 == 99 || round + 1 == rounds {
            let doctor = site.run(&["doctor"]);
            let said = String::from_utf8_lossy(&doctor.stderr);
            assert!(doctor.status.success(), "round {round}: the doctor: {said}");
        }
        if round % 100 == 99 {
            println!(
                "{} rounds, {acknowledged} acknowledged, {open} left open",
                round + 1
            );
        }
    }
    println!(
        "{rounds} rounds of kill -9: {acknowledged} acknowledged and there once, {open} left open"
    );
    assert!(acknowledged as u64 > rounds && open as u64 > rounds / 4);
}

/// What clients were told, of one mission.
#[derive(Default)]
pub struct Told {
    done: BTreeSet<String>,
    open: BTreeSet<String>,
}

impl Told {
    /// Holds what is there against it.
    pub fn check(&self, site: &Site) {
        let notes = site.json(&["note", "list"]);
        let there: Vec<&str> = notes
            .as_array()
            .unwrap()
            .iter()
            .map(|note| note["text"].as_str().unwrap())
            .collect();
        let once: BTreeSet<&str> = there.iter().copied().collect();
        assert_eq!(once.len(), there.len(), "something is there twice");
        let lost = |text: &&String| !once.contains(text.as_str());
        let lost: Vec<&String> = self.done.iter().filter(lost).collect();
        assert!(lost.is_empty(), "acknowledged, and lost: {lost:?}");
        for text in once {
            let known = self.done.contains(text) || self.open.contains(text);
            assert!(known, "nobody asked for {text}");
        }
    }
}

/// Clients write until the server is gone, before which `end` is called: it may say that nothing counts any more. How many were acknowledged, and how many left open.
pub fn one_round(
    site: &Site,
    node: &Node,
    round: u64,
    told: &mut Told,
    chance: &mut Chance,
    end: impl FnOnce(&AtomicBool),
) -> (usize, usize) {
    let enough = usize::try_from(chance.below(MOST)).unwrap();
    // What the round before left open is asked for again.
    let again: Vec<Request> = told.open.iter().map(|text| note(text)).collect();
    let (again, done) = (Mutex::new(again), AtomicUsize::new(0));
    let said: Mutex<Vec<(String, bool)>> = Mutex::default();
    let (gone, at_it) = (AtomicBool::new(false), AtomicUsize::new(CLIENTS));
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let mut http = Http::new(&site.token, chance.branch(client as u64));
            http.forgives = true;
            let (again, said, done) = (&again, &said, &done);
            let (gone, at_it) = (&gone, &at_it);
            scope.spawn(move || {
                for number in 0.. {
                    let old = again.lock().unwrap().pop();
                    let request = old.unwrap_or_else(|| {
                        note(&format!("round {round} client {client} number {number}"))
                    });
                    let answer = http.ask(node, &request);
                    // A client that is gone has said nothing; a disk without power may still claim that it wrote.
                    let is_done = matches!(answer, Said::Done(_)) && !gone.load(Ordering::SeqCst);
                    assert!(!matches!(answer, Said::Refused(..)), "{answer:?}");
                    said.lock().unwrap().push((request.key, is_done));
                    if !is_done {
                        at_it.fetch_sub(1, Ordering::SeqCst);
                        return;
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let deadline = Instant::now() + Duration::from_secs(60);
        // On a machine under load all of them may have given up.
        while done.load(Ordering::SeqCst) < enough && at_it.load(Ordering::SeqCst) > 0 {
            assert!(Instant::now() < deadline, "the server does nothing");
            thread::sleep(Duration::from_micros(100));
        }
        thread::sleep(Duration::from_micros(chance.below(6_000)));
        end(&gone);
        node.kill();
    });
    let mut left = 0;
    for (text, is_done) in said.into_inner().unwrap() {
        if is_done {
            told.open.remove(&text);
            told.done.insert(text);
        } else {
            left += 1;
            told.open.insert(text);
        }
    }
    (done.into_inner(), left)
}
