//! The health of checkpoints: both copies of each, and files that belong to none.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use flightline_core::CheckpointId;
use flightline_core::checkpoint::{Backup, Checkpoint};
use flightline_core::event::sha256_hex;
use flightline_store::Find;

use super::{Care, Check, check};
use crate::checkpoint::files::{self, path_of, rewrite};
use crate::checkpoint::inspect::{VerifyCheckpoint, unreadable};
use crate::checkpoint::leftovers::is_unfinished;
use crate::checkpoint::readable;
use crate::error::Result;
use crate::fleet::{Caller, Fleet};

/// Checks every checkpoint in the store and in its file. With [`Care::Repair`], a file that is missing or
/// damaged is written anew from the store.
///
/// # Errors
/// When the store fails.
pub fn examine_backups(fleet: &mut Fleet, folder: &Path, care: Care) -> Result<Vec<Check>> {
    let ((checkpoints, damaged), backups) = fleet.store().read(|tx| {
        let backups: BTreeMap<CheckpointId, Backup> = tx.backups()?.into_iter().collect();
        Ok::<_, crate::Error>((readable::<Checkpoint>(tx, Find::All)?, backups))
    })?;
    let (mut copies, mut repaired) = (Vec::new(), Vec::new());
    let mut cuts: Vec<String> = damaged.iter().map(|row| unreadable(&row.id)).collect();
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
                _ => "",
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
    // A sound file that the store does not know is a spare copy, as after a rebuild: said, not held against anybody.
    let ids = checkpoints
        .iter()
        .map(|checkpoint| checkpoint.id.to_string());
    let known: Vec<String> = ids.chain(damaged.into_iter().map(|row| row.id)).collect();
    let (sound, strange) = orphans(folder, &known);
    let mut orphans = check("no file without a checkpoint", strange);
    orphans.findings.extend(sound);
    let mut files = check("checkpoint files match the store", copies);
    files.findings.extend(repaired);
    Ok(vec![
        check("checkpoints match their hashes", cuts),
        files,
        orphans,
    ])
}

fn file_trouble(folder: &Path, checkpoint: &Checkpoint, backup: Option<&Backup>) -> Option<String> {
    let Some(Backup::Written { sha256, .. }) = backup else {
        return None;
    };
    let path = path_of(folder, checkpoint.cut.mission_id, checkpoint.id);
    match files::text_of(&path) {
        Ok(text) if sha256_hex(&text) == *sha256 => None,
        Ok(_) => Some("its file does not match its checksum".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Some("its file is missing".to_owned())
        }
        Err(error) => Some(format!("its file cannot be read: {error}")),
    }
}

/// Files that belong to no checkpoint of the store: sound checkpoints, and everything else.
fn orphans(folder: &Path, known: &[String]) -> (Vec<String>, Vec<String>) {
    let (mut sound, mut strange) = (Vec::new(), Vec::new());
    for mission in fs::read_dir(folder.join("checkpoints"))
        .into_iter()
        .flatten()
        .flatten()
    {
        for file in fs::read_dir(mission.path()).into_iter().flatten().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            let id = name.strip_suffix(".json").unwrap_or_default();
            if name == "latest.json" || known.iter().any(|known| known == id) {
                continue;
            }
            if is_unfinished(&file.path()) {
                sound.push(format!(
                    "{name} is what a process that died was writing; it goes with the next checkpoint"
                ));
                continue;
            }
            match files::read(&file.path()) {
                Ok(_) => sound.push(format!(
                    "{name} is a sound checkpoint that the store does not know"
                )),
                Err(_) => strange.push(format!(
                    "{} is not a sound checkpoint",
                    file.path().display()
                )),
            }
        }
    }
    sound.sort();
    strange.sort();
    (sound, strange)
}
