//! The disk that a store is on: its free space, and a log that cannot be folded.

use flightline_store::{DiskSpace, Location};
use flightline_workspace::holders;

use super::{DoctorCheck, check};
use crate::error::Result;
use crate::fleet::Fleet;
use crate::status::Attention;

pub const DISK: &str = "the disk";

/// The disk's trouble that needs a person.
pub(crate) fn needs(disk: &DiskSpace) -> Vec<Attention> {
    let mut found = Vec::new();
    if disk.is_full {
        found.push(Attention::new(full(disk), "fleet checkpoints prune"));
    }
    if disk.log > DiskSpace::LONG_LOG {
        found.push(Attention::new(long_log(disk), "fleet doctor"));
    }
    found
}

fn full(disk: &DiskSpace) -> String {
    format!(
        "the disk is full ({} KB free): only writes that end trouble are accepted",
        disk.free / 1024
    )
}

/// The sentence about a log that has grown too long.
pub fn long_log(disk: &DiskSpace) -> String {
    format!(
        "the log of the store has grown to {} MB: a process is still reading old data",
        disk.log / (1024 * 1024)
    )
}

/// Checks the disk. Nothing when it is well, or a server's.
pub fn examine_disk(fleet: &mut Fleet) -> Result<Vec<DoctorCheck>> {
    let store = fleet.store()?;
    let Some(disk) = store.disk()? else {
        return Ok(Vec::new());
    };
    let mut findings = Vec::new();
    if disk.is_full {
        findings.push(full(&disk));
    }
    if disk.log > DiskSpace::LONG_LOG {
        findings.push(long_log(&disk));
        if let Location::Folder(folder) = store.location() {
            let shared = folder.join(flightline_store::FILE).with_extension("db-shm");
            findings.extend(holders(&shared).iter().map(|holder| {
                let stopped = if holder.stopped {
                    ", is stopped and"
                } else {
                    ""
                };
                format!(
                    "process {} (`{}`){stopped} has it open",
                    holder.pid, holder.command
                )
            }));
        }
    }
    Ok(match findings.is_empty() {
        true => Vec::new(),
        false => vec![check(DISK, findings)],
    })
}
