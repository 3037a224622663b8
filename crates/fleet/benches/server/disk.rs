//! A disk that takes as long as those of most machines.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::measure::{ms, p, time};

/// A library that makes every wait for the disk longer, and by how much.
#[derive(Clone)]
pub struct Slow {
    library: PathBuf,
    by: Duration,
}

impl Slow {
    pub fn build(folder: &Path, by: Duration) -> Self {
        let library = folder.join("slow_disk.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/server/slow_disk.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-o"])
            .arg(&library)
            .arg(source)
            .arg("-ldl")
            .status()
            .unwrap();
        assert!(built.success(), "the C compiler builds it");
        Self { library, by }
    }

    pub fn apply(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("SLOW_DISK_MS", self.by.as_millis().to_string());
    }
}

/// How long this machine's disk takes to keep 8 KB more of a file.
pub fn waits(folder: &Path) -> String {
    let mut file = File::create(folder.join("waits")).unwrap();
    let times = time(200, || {
        file.write_all(&[0; 8192]).unwrap();
        file.sync_data().unwrap();
    });
    format!(
        "8 KB appended and waited for (`fdatasync`): p50 {}, p95 {}",
        ms(p(&times, 50)),
        ms(p(&times, 95))
    )
}
