//! Leftovers beside the store: files of checkpoints that are gone, and files that a process was writing when it died.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use flightline_core::{CheckpointId, Code, Kind, MissionId, Refusal};
use flightline_store::{CrashPoints, Find};
use flightline_workspace::beneath::Dir;

use super::files::{HOME, LATEST, home_of, read};
use crate::error::{Error, Result};
use crate::fleet::Fleet;

/// No process takes so long to write a file.
const ABANDONED_AFTER_S: i64 = 60;

/// Removes the files of checkpoints that are gone, those of earlier commands too that died on the way.
/// `latest.json` leads to the newest that stays, or goes with the last.
pub fn clear(fleet: &mut Fleet, folder: &Path) -> Result<()> {
    let steps = fleet.steps();
    let gone = fleet
        .store()?
        .read(|tx| Ok::<_, Error>(tx.gone_ids(Kind::Checkpoint)?))?;
    let gone: BTreeSet<String> = gone.into_iter().map(|id| format!("{id}.json")).collect();
    let cannot = |act: &str, place: &Path, error: &io::Error| {
        let what = format!("cannot {act} {}: {error}", folder.join(place).display());
        Error::from(Refusal::new(Code::Failed, what))
    };
    let top = Path::new(HOME);
    let state = Dir::private_if_there(folder).map_err(|error| cannot("look at", top, &error))?;
    let Some(state) = state else {
        return Ok(());
    };
    let missions = state.names_in(top);
    for mission in missions.map_err(|error| cannot("look at", top, &error))? {
        let home = top.join(mission);
        // A folder that is not ours holds none of our files.
        let Ok(Some(place)) = state.find(&home) else {
            continue;
        };
        let names = place.names_in("").unwrap_or_default();
        let (leaving, staying): (Vec<String>, Vec<String>) =
            names.into_iter().partition(|name| gone.contains(name));
        if leaving.is_empty() {
            continue;
        }
        // The link first: a process that dies in between leaves none that leads nowhere.
        move_latest(&place, &gone, &staying, &steps)
            .map_err(|error| cannot("change", &home.join(LATEST), &error))?;
        for name in leaving {
            steps.step();
            place
                .remove(&name)
                .map_err(|error| cannot("remove", &home.join(&name), &error))?;
        }
        steps.step();
    }
    Ok(())
}

/// Maximum number of files of deleted checkpoints that wait in a mission's folder.
const WAITING: usize = 20;

/// Removes the files of checkpoints that are gone, when those of one of these missions have become many: the maximum
/// that the policy names holds for files, too, but for a few.
pub(super) fn clear_when_many(
    fleet: &mut Fleet,
    folder: &Path,
    missions: impl Iterator<Item = MissionId>,
) -> Result<()> {
    for mission in missions {
        let state = Dir::private(folder);
        let files = state.and_then(|state| state.names_in(home_of(mission)));
        let mut files = files.unwrap_or_default();
        files.retain(|file| file.starts_with(CheckpointId::PREFIX));
        if files.len() <= WAITING {
            continue;
        }
        let known = fleet.store()?.read(|tx| {
            let rows = tx.rows(Kind::Checkpoint, Find::Mission(mission))?;
            let names = rows.iter().map(|row| format!("{}.json", row.id));
            Ok::<BTreeSet<String>, Error>(names.collect())
        })?;
        files.retain(|file| !known.contains(file));
        if files.len() > WAITING {
            return clear(fleet, folder);
        }
    }
    Ok(())
}

/// Removes what processes that died were writing beside `written`, a file that was written just now: the
/// file system's own time says how old the others are.
pub(super) fn sweep(home: &Dir, written: &str) {
    let time = |name: &str| home.entry(name).ok().flatten().map(|seen| seen.modified);
    let Some(now) = time(written) else { return };
    let names = home.names_in("").unwrap_or_default();
    for name in names.iter().filter(|name| is_unfinished(name)) {
        if time(name).is_some_and(|begun| now.saturating_sub(begun) > ABANDONED_AFTER_S) {
            // A leftover does no harm, and another process may have been faster.
            let _ = home.remove(name);
        }
    }
}

/// Returns true when a file has a name that only files being written have.
pub(crate) fn is_unfinished(name: &str) -> bool {
    let name = name.strip_prefix('.').unwrap_or_default();
    name.starts_with(CheckpointId::PREFIX) || name.starts_with("latest.")
}

/// Lets `latest.json` lead to the newest of the files that stay, when it leads to one that goes.
fn move_latest(
    home: &Dir,
    gone: &BTreeSet<String>,
    staying: &[String],
    steps: &CrashPoints,
) -> io::Result<()> {
    let Ok(Some(target)) = home.link_target(LATEST) else {
        return Ok(());
    };
    if !target.to_str().is_some_and(|target| gone.contains(target)) {
        return Ok(());
    }
    let sound = staying
        .iter()
        .filter(|name| name.starts_with(CheckpointId::PREFIX))
        .filter_map(|name| read(home.path(), Path::new(name)).ok());
    match sound.max_by_key(|document| document.rev) {
        Some(newest) => home.point(LATEST, &format!("{}.json", newest.id), &|| steps.step()),
        None => home.remove(LATEST),
    }
}
