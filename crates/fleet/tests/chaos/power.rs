//! The power goes while a server is under load: a file system of our own loses everything that was not on the disk.
//! What was acknowledged is there when it comes back.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;

use tempfile::TempDir;

use crate::chance::{self, Chance};
use crate::kill::{Told, one_round};
use crate::node::Site;

/// How large the file system is.
const MIB: u64 = 96;

#[test]
fn what_a_server_acknowledged_survives_a_power_cut() {
    let Some(disk) = Disk::mount() else { return };
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

/// An ext4 of our own in a file. It goes with this value.
struct Disk {
    path: PathBuf,
    image: PathBuf,
    _folder: TempDir,
}

impl Disk {
    /// Nothing where this user may not mount one, which is said.
    fn mount() -> Option<Self> {
        let folder = TempDir::new().unwrap();
        let disk = Self {
            path: folder.path().join("disk"),
            image: folder.path().join("image"),
            _folder: folder,
        };
        fs::create_dir(&disk.path).unwrap();
        let file = fs::File::create(&disk.image).unwrap();
        file.set_len(MIB * 1024 * 1024).unwrap();
        let made = run("mkfs.ext4", &["-q".as_ref(), &disk.image]) && disk.attach();
        if made && run("perl", &["-e".as_ref(), "1".as_ref()]) {
            return Some(disk);
        }
        // Past the capture of a test's output: nobody may take this for tested.
        let _ = writeln!(
            std::io::stderr(),
            "NOT RUN: this user cannot mount a file system of its own, so no server met a power cut here"
        );
        None
    }

    fn attach(&self) -> bool {
        run(
            "mount",
            &["-o".as_ref(), "loop".as_ref(), &self.image, &self.path],
        )
    }

    /// From now on nothing reaches the disk any more, not even what the file system holds in memory
    /// (EXT4_IOC_SHUTDOWN, without flushing its log).
    fn cut_power(&self) {
        let cut = "open(my $f, '<', $ARGV[0]) or die; my $how = pack('L', 2); ioctl($f, 0x8004587d, $how) or die";
        assert!(run("perl", &["-e".as_ref(), cut.as_ref(), &self.path]));
    }

    /// What is on the disk, as after a start.
    fn come_back(&self) {
        assert!(run("umount", &[&self.path]));
        assert!(self.attach());
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        run("umount", &["--lazy".as_ref(), &self.path]);
    }
}

fn run(program: &str, arguments: &[&Path]) -> bool {
    let path = "/usr/sbin:/usr/bin:/sbin:/bin";
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", path)
        .output();
    output.is_ok_and(|output| output.status.success())
}
