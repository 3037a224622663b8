//! The power goes while a server is under load: a file system of our own loses everything that was not on the disk.
//! What was acknowledged is there when it comes back.

use std::sync::atomic::Ordering;

use flightline_testkit::power::TestDisk;

use crate::chaos::chance::{self, Chance};
use crate::chaos::kill::{Told, one_round};
use crate::chaos::node::Site;

/// How large the file system is.
const MIB: u64 = 96;

#[test]
fn what_a_server_acknowledged_survives_a_power_cut() {
    let Some(disk) = TestDisk::mount(MIB) else {
        return;
    };
    let (rounds, mut chance) = (chance::rounds(12), Chance::new(chance::seed()));
    let site = Site::below(&disk.path.join("site"));
    let (mut acknowledged, mut open, mut told) = (0, 0, Told::default());
    for round in 0..rounds {
        if round % 20 == 0 {
            site.json(&["mission", "create", &format!("From round {round}")]);
            told = Told::default();
        }
        let node = site.own_node();
        let (done, left) = one_round(&site, &node, round, &mut told, &mut chance, |gone| {
            // The kernel lets an fsync that is under way succeed when it must not.
            gone.store(true, Ordering::SeqCst);
            disk.cut_power();
        });
        drop(node);
        disk.come_back();
        told.check(&site);
        (acknowledged, open) = (acknowledged + done, open + left);
    }
    assert!(site.run(&["doctor"]).status.success());
    println!("{rounds} power cuts: {acknowledged} acknowledged and there once, {open} left open");
    assert!(acknowledged as u64 > rounds);
}
