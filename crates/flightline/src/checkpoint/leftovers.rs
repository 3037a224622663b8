//! What is left beside the store and belongs there no more: files of checkpoints that are gone, and what a
//! process that died was writing.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use flightline_core::{CheckpointId, Code, Kind, Refusal};
use flightline_store::Steps;

use super::files::{point_latest, read};
use crate::error::{Error, Result};
use crate::fleet::Fleet;

/// Nobody takes so long to write a file.
const ABANDONED_AFTER: Duration = Duration::from_secs(60);

/// The link to a mission's newest file.
const LATEST: &str = "latest.json";

/// Removes the files of checkpoints that are gone, those of earlier commands too that died on the way.
/// `latest.json` leads to the newest that stays, or goes with the last.
///
/// # Errors
/// When the store fails, or a file cannot be removed.
pub fn clear(fleet: &mut Fleet, folder: &Path) -> Result<()> {
    let steps = fleet.steps();
    let gone = fleet
        .store()?
        .read(|tx| Ok::<_, Error>(tx.gone_ids(Kind::Checkpoint)?))?;
    let gone: BTreeSet<String> = gone.into_iter().map(|id| format!("{id}.json")).collect();
    for home in entries(&folder.join("checkpoints")) {
        let (leaving, staying): (Vec<PathBuf>, Vec<PathBuf>) = entries(&home)
            .into_iter()
            .partition(|file| gone.contains(name(file)));
        if leaving.is_empty() {
            continue;
        }
        // The link first: whoever dies in between leaves none that leads nowhere.
        move_latest(&home, &gone, &staying, &steps)
            .map_err(|error| cannot("change", &home.join(LATEST), &error))?;
        for file in leaving {
            steps.step();
            match fs::remove_file(&file) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(cannot("remove", &file, &error));
                }
                _ => {}
            }
        }
        steps.step();
    }
    Ok(())
}

/// Removes what processes that died were writing beside `written`, a file that was written just now: the
/// file system's own time says how old the others are.
pub(super) fn sweep(home: &Path, written: &Path) {
    let time = |file: &Path| fs::symlink_metadata(file).and_then(|seen| seen.modified());
    let Ok(now) = time(written) else { return };
    for file in entries(home).iter().filter(|file| is_unfinished(file)) {
        let age = time(file).map(|begun| now.duration_since(begun).unwrap_or_default());
        if age.is_ok_and(|age| age > ABANDONED_AFTER) {
            // What stays is in nobody's way, and somebody else may have been faster.
            let _ = fs::remove_file(file);
        }
    }
}

/// Whether a file has a name that only files being written have.
fn is_unfinished(file: &Path) -> bool {
    let name = name(file).strip_prefix('.').unwrap_or_default();
    name.starts_with(CheckpointId::PREFIX) || name.starts_with("latest.")
}

/// Lets `latest.json` lead to the newest of the files that stay, when it leads to one that goes.
fn move_latest(
    home: &Path,
    gone: &BTreeSet<String>,
    staying: &[PathBuf],
    steps: &Steps,
) -> io::Result<()> {
    let link = home.join(LATEST);
    let Ok(target) = fs::read_link(&link) else {
        return Ok(());
    };
    if !target.to_str().is_some_and(|target| gone.contains(target)) {
        return Ok(());
    }
    let sound = staying
        .iter()
        .filter(|file| name(file).starts_with(CheckpointId::PREFIX))
        .filter_map(|file| read(file).ok());
    match sound.max_by_key(|document| document.rev) {
        Some(newest) => point_latest(home, newest.id, steps),
        None => fs::remove_file(&link),
    }
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    entries.sort();
    entries
}

fn name(file: &Path) -> &str {
    let name = file.file_name().and_then(|name| name.to_str());
    name.unwrap_or_default()
}

fn cannot(act: &str, file: &Path, error: &io::Error) -> Error {
    Refusal::new(
        Code::Failed,
        format!("cannot {act} {}: {error}", file.display()),
    )
    .into()
}
