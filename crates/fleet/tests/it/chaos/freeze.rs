//! A server that stands still in the middle of a transaction holds the project's row: the database takes it
//! back, and the others go on.

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::chaos::chance::Chance;
use crate::chaos::cluster::{Cluster, url};
use crate::chaos::commits::{note, notes};
use crate::chaos::http::{Http, Said};
use crate::chaos::node::Site;
use crate::chaos::proxy::{Cut, Proxy};

/// How long a frozen server may hold the others up: what connections ask of the database, and some.
const HELD_UP: Duration = Duration::from_secs(25);

#[test]
fn a_frozen_server_does_not_freeze_the_project() {
    let cluster = Cluster::start();
    let site = Site::new(cluster.url());
    let proxy = Proxy::to(cluster.port);
    let frozen = site.node("frozen", url(proxy.port));
    let others = [site.node("other", cluster.url())];
    let mut http = Http::new(&site.token, Chance::new(1));
    let (held, is_held) = channel();
    let (go_on, may_go_on) = channel();
    proxy.break_commit(Cut::Held(held, may_go_on));
    thread::scope(|scope| {
        let first = Http::new(&site.token, Chance::new(2));
        let asked = scope.spawn(|| {
            let first = first;
            first.ask(&frozen, &note("from the frozen one"))
        });
        // It has written everything, and is about to commit.
        is_held.recv_timeout(HELD_UP).unwrap();
        frozen.send(Signal::STOP);
        let began = Instant::now();
        let said = http.settle(&others, &note("meanwhile"), began + HELD_UP);
        assert!(matches!(said, Said::Done(_)), "{said:?}");
        assert!(
            matches!(asked.join().unwrap(), Said::Nothing(_)),
            "nobody may say that it was done"
        );
        frozen.send(Signal::CONT);
        go_on.send(()).unwrap();
    });
    // It goes on by itself, and what was asked of it happens once.
    let both = [frozen];
    let until = Instant::now() + HELD_UP;
    let said = http.settle(&both, &note("from the frozen one"), until);
    assert!(matches!(said, Said::Done(_)), "{said:?}");
    let mut found = notes(&http, &others[0]);
    found.sort();
    assert_eq!(found, ["from the frozen one", "meanwhile"]);
    assert!(site.run(&["doctor"]).status.success());
}
