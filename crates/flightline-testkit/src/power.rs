//! A disk that loses its power: everything that was not on it is gone.
#![expect(
    clippy::disallowed_methods,
    reason = "tests look at files as others do"
)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A mounted ext4 file system in a file. It goes with this value.
pub struct TestDisk {
    pub path: PathBuf,
    image: PathBuf,
    _folder: TempDir,
}

impl TestDisk {
    /// Mounts a disk of `mib` MiB. Returns none where this user may not mount one, and prints that.
    pub fn mount(mib: u64) -> Option<Self> {
        let folder = TempDir::new().expect("a folder");
        let disk = Self {
            path: folder.path().join("disk"),
            image: folder.path().join("image"),
            _folder: folder,
        };
        fs::create_dir(&disk.path).expect("a folder");
        let file = fs::File::create(&disk.image).expect("a file");
        file.set_len(mib * 1024 * 1024).expect("room for it");
        let made = run("mkfs.ext4", &["-q".as_ref(), &disk.image]) && disk.attach();
        if made && run("perl", &["-e".as_ref(), "1".as_ref()]) {
            return Some(disk);
        }
        // Past the capture of a test's output: this must not be taken for tested.
        let _ = writeln!(
            std::io::stderr(),
            "NOT RUN: this user cannot mount a file system of its own, so nothing here met a power cut"
        );
        None
    }

    fn attach(&self) -> bool {
        run(
            "mount",
            &["-o".as_ref(), "loop".as_ref(), &self.image, &self.path],
        )
    }

    /// Cuts the power: from now on nothing reaches the disk any more, not even what the file system holds in memory
    /// (EXT4_IOC_SHUTDOWN, without flushing its log).
    pub fn cut_power(&self) {
        let cut = "open(my $f, '<', $ARGV[0]) or die; my $how = pack('L', 2); ioctl($f, 0x8004587d, $how) or die";
        assert!(run("perl", &["-e".as_ref(), cut.as_ref(), &self.path]));
    }

    /// Shows the disk's content, as after a start.
    pub fn come_back(&self) {
        assert!(run("umount", &[&self.path]), "nobody uses it any more");
        assert!(self.attach(), "it can be mounted again");
    }
}

impl Drop for TestDisk {
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
