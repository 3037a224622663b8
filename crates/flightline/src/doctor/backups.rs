//! The health of checkpoints: both copies of each, and files that belong to none.

use std::collections::BTreeMap;
use std::path::Path;

use flightline_core::CheckpointId;
use flightline_core::checkpoint::{Backup, Checkpoint, CheckpointStatus};
use flightline_core::event::Change;
use flightline_store::Find;
use flightline_workspace::beneath::Dir;

use super::{Care, DoctorCheck, check};
use crate::checkpoint::files::{self, LATEST, name_of, rewrite};
use crate::checkpoint::inspect::{VerifyCheckpoint, unreadable};
use crate::checkpoint::readable;
use crate::error::Result;
use crate::fleet::{Caller, Fleet};
use crate::mission::short;

/// Checks every checkpoint in the store and in its file. With [`Care::Repair`], a file that is missing or
/// damaged is written anew from the store.
pub fn examine_backups(fleet: &mut Fleet, folder: &Path, care: Care) -> Result<Vec<DoctorCheck>> {
    let ((checkpoints, damaged), backups) = fleet.store()?.read(|tx| {
        let backups: BTreeMap<CheckpointId, Backup> = tx.backups()?.into_iter().collect();
        Ok::<_, crate::Error>((readable::<Checkpoint>(tx, Find::All)?, backups))
    })?;
    let (mut copies, mut repaired) = (Vec::new(), Vec::new());
    let mut cuts: Vec<String> = Vec::new();
    for row in &damaged {
        let mission = row.mission.as_deref().unwrap_or_default().parse()?;
        let name = name_of(mission, row.id.parse()?);
        let other = match files::read(folder, &name) {
            Ok(_) => "; its file is sound".to_owned(),
            Err(_) => format!(
                "; it has no sound file: `fleet checkpoints delete {} -y` drops it",
                short(&row.id)
            ),
        };
        cuts.push(format!("{}{other}", unreadable(&row.id)));
    }
    for checkpoint in &checkpoints {
        let caller = Caller::default();
        let verdict = fleet.run(
            &VerifyCheckpoint {
                checkpoint: checkpoint.id,
            },
            &caller,
        )?;
        let backup = backups.get(&checkpoint.id);
        let in_file = file_trouble(folder, checkpoint, backup);
        if let Some(problem) = &verdict.problem {
            let other = match (backup, &in_file) {
                (Some(Backup::Written { .. }), None) => "; its file is sound",
                _ if checkpoint.status == CheckpointStatus::Corrupted => "; it is quarantined",
                _ => "; it has no sound file",
            };
            cuts.push(format!("{problem}{other}"));
        }
        let Some(trouble) = in_file else { continue };
        match (care, verdict.sound) {
            (Care::Repair, true) => match rewrite(fleet, folder, checkpoint.id)? {
                Ok(()) => repaired.push(format!(
                    "{}: {trouble}; written anew from the store",
                    checkpoint.id
                )),
                Err(why) => copies.push(format!(
                    "{}: {trouble}, and cannot be written: {why}",
                    checkpoint.id
                )),
            },
            _ => copies.push(format!("{}: {trouble}", checkpoint.id)),
        }
    }
    let ids = checkpoints
        .iter()
        .map(|checkpoint| checkpoint.id.to_string());
    let known: Vec<String> = ids.chain(damaged.into_iter().map(|row| row.id)).collect();
    let orphans = orphans(fleet, folder, &known, care)?;
    let mut files = check("checkpoint files match the store", copies);
    files.findings.extend(repaired);
    Ok(vec![
        check("checkpoints match their hashes", cuts),
        files,
        orphans,
    ])
}

fn file_trouble(folder: &Path, checkpoint: &Checkpoint, backup: Option<&Backup>) -> Option<String> {
    let (sha256, node) = match backup {
        Some(Backup::Written { sha256, node, .. }) => (sha256, node.as_deref()),
        Some(Backup::Pending | Backup::Failed { .. } | Backup::Shared) => return None,
        None => return Some("nothing is known of its file".to_owned()),
    };
    let name = name_of(checkpoint.cut.mission_id, checkpoint.id);
    files::trouble(folder, &name, sha256, node)
}

/// Files that belong to no checkpoint of the store. A sound one is a spare copy, as after a restore: reported, and no
/// error; so is the leftover of a checkpoint that was deleted.
fn orphans(fleet: &mut Fleet, folder: &Path, known: &[String], care: Care) -> Result<DoctorCheck> {
    let (mut sound, mut strange) = (Vec::new(), Vec::new());
    let (state, found) = match (Dir::private_if_there(folder), files::each(folder)) {
        (Ok(Some(state)), Ok(found)) => (state, found),
        (Ok(None), _) => return Ok(check("no file without a checkpoint", Vec::new())),
        (Err(error), _) | (_, Err(error)) => {
            let problem = format!("{} cannot be looked at: {error}", folder.display());
            return Ok(check("no file without a checkpoint", vec![problem]));
        }
    };
    for file in found {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let id = name.strip_suffix(".json").unwrap_or_default();
        // A file with a hidden name is half written, and reported elsewhere.
        if name == LATEST || name.starts_with('.') || known.iter().any(|known| known == id) {
            continue;
        }
        if files::read(folder, &file).is_err() {
            let shown = folder.join(&file);
            strange.push(format!("{} is not a sound checkpoint", shown.display()));
            continue;
        }
        let told = fleet
            .store()?
            .read(|tx| tx.told(flightline_core::Kind::Checkpoint, id))?;
        let deleted = told.last().is_some_and(|last| last.change == Change::Gone);
        sound.push(match (deleted, care) {
            (false, _) => format!("{name} is a sound checkpoint that the store does not know"),
            (true, Care::Look) => format!("{name} is left of a checkpoint that was deleted"),
            (true, Care::Repair) => match state.remove(&file) {
                Ok(()) => format!("{name} was left of a checkpoint that was deleted; removed"),
                Err(error) => format!("{name} cannot be removed: {error}"),
            },
        });
    }
    let mut orphans = check("no file without a checkpoint", strange);
    orphans.findings.extend(sound);
    Ok(orphans)
}
