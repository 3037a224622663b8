//! Three servers, 64 clients, and a storm.

use std::thread;
use std::time::Instant;

use rustix::process::Signal;

use crate::chaos::chance::{self, Chance};
use crate::chaos::cluster::{Cluster, url};
use crate::chaos::node::{Node, Site};
use crate::chaos::proxy::{Cut, Proxy};
use crate::chaos::run::run;

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// A server is killed, and started again.
    Kill,
    /// A server stands still for a while.
    Stop,
    /// All of a server's connections to the database break.
    CutAll,
    /// A commit breaks before the database hears of it.
    CutBefore,
    /// A commit is made, and its answer is lost.
    CutAfter,
    /// A commit is made long after its connection was lost.
    Ghost,
    /// The database is restarted in the middle of everything.
    Restart,
}

/// How often each comes, in one round.
const DECK: [(Trouble, usize); 7] = [
    (Trouble::Kill, 4),
    (Trouble::Stop, 2),
    (Trouble::CutAll, 3),
    (Trouble::CutBefore, 3),
    (Trouble::CutAfter, 4),
    (Trouble::Ghost, 4),
    (Trouble::Restart, 1),
];

#[test]
fn nothing_is_lost_doubled_or_out_of_order_whatever_happens() {
    let (seed, duration) = (chance::seed(), chance::duration(15));
    let chance = Chance::new(seed);
    let cluster = Cluster::start();
    let site = Site::new(cluster.url());
    let proxies: Vec<Proxy> = (0..3).map(|_| Proxy::to(cluster.port)).collect();
    let nodes: Vec<Node> = proxies
        .iter()
        .zip(["one", "two", "three"])
        .map(|(proxy, name)| site.node(name, url(proxy.port)))
        .collect();
    let mut happened = Vec::new();
    let figures = run(&site, &nodes, &chance, |_| {
        let until = Instant::now() + duration;
        let mut chance = chance.branch(2);
        loop {
            let mut deck: Vec<Trouble> = DECK
                .iter()
                .flat_map(|(trouble, times)| vec![*trouble; *times])
                .collect();
            chance.shuffle(&mut deck);
            for trouble in deck {
                let one = chance.place(nodes.len());
                strike(trouble, &cluster, &nodes[one], &proxies[one], &mut chance);
                happened.push(trouble);
                thread::sleep(chance.millis(100, 700));
            }
            if Instant::now() > until {
                return;
            }
        }
    });
    let broken: u64 = proxies.iter().map(Proxy::broken).sum();
    let times = |wanted| happened.iter().filter(|it| **it == wanted).count();
    println!(
        "{figures}\n{} kills, {} stops, {} cuts, {broken} commits broken, {} restarts of the database",
        times(Trouble::Kill),
        times(Trouble::Stop),
        times(Trouble::CutAll),
        times(Trouble::Restart)
    );
    assert!(broken >= 3, "{broken} commits were broken");
    assert!(figures.acknowledged >= 200, "{figures}");
    assert_eq!(figures.histories, 0, "nobody took the database's place");
    assert!(figures.locks >= 20 && figures.repeats >= 20, "{figures}");
}

fn strike(trouble: Trouble, cluster: &Cluster, node: &Node, proxy: &Proxy, chance: &mut Chance) {
    match trouble {
        Trouble::Kill => {
            node.kill();
            thread::sleep(chance.millis(0, 600));
            node.start();
        }
        Trouble::Stop => {
            node.send(Signal::STOP);
            thread::sleep(chance.millis(300, 2_500));
            node.send(Signal::CONT);
        }
        Trouble::CutAll => proxy.cut_all(),
        Trouble::CutBefore => proxy.break_commit(Cut::Before),
        Trouble::CutAfter => proxy.break_commit(Cut::After),
        Trouble::Ghost => proxy.break_commit(Cut::Ghost(chance.millis(50, 900))),
        Trouble::Restart => cluster.restart(),
    }
}
