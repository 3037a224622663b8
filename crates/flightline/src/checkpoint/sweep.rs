//! Removing the files of checkpoints that are gone, whoever died on the way.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use flightline_core::{CheckpointId, Code, Kind, MissionId, Refusal};
use serde::{Deserialize, Serialize};

use super::files::{point_latest, written};
use crate::desk::Desk;
use crate::error::Result;
use crate::fleet::{Access, Caller, Fleet, Operation};

/// Which of these checkpoints were deleted. One that this store never knew was not.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoneCheckpoints {
    /// Of these.
    pub ids: Vec<CheckpointId>,
}

impl Operation for GoneCheckpoints {
    const NAME: &'static str = "gone_checkpoints";
    const ACCESS: Access = Access::Read;
    type Outcome = Vec<CheckpointId>;

    fn decide(&self, desk: &mut Desk<'_, '_>) -> Result<Vec<CheckpointId>> {
        let mut gone = Vec::new();
        for id in &self.ids {
            if desk.tx.is_gone(Kind::Checkpoint, &id.to_string())? {
                gone.push(*id);
            }
        }
        Ok(gone)
    }
}

/// Removes every file whose checkpoint was deleted, and lets `latest.json` point to the newest that is left.
///
/// # Errors
/// When the store fails, or a file cannot be removed.
pub fn sweep(fleet: &mut Fleet, folder: &Path) -> Result<()> {
    for mission in names::<MissionId>(&folder.join("checkpoints"), "") {
        let home = folder.join("checkpoints").join(mission.to_string());
        // A link in its place is not ours.
        if !fs::symlink_metadata(&home).is_ok_and(|seen| seen.is_dir()) {
            continue;
        }
        let ids = names::<CheckpointId>(&home, ".json");
        let gone = fleet.run(&GoneCheckpoints { ids }, &Caller::default())?;
        for id in &gone {
            let path = home.join(format!("{id}.json"));
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    let why = format!("cannot remove {}: {error}", path.display());
                    return Err(Refusal::new(Code::Failed, why).into());
                }
                _ => {}
            }
        }
        if !gone.is_empty() {
            mend_latest(fleet, &home, mission)?;
        }
    }
    Ok(())
}

fn mend_latest(fleet: &mut Fleet, home: &Path, mission: MissionId) -> Result<()> {
    let latest = home.join("latest.json");
    if fs::symlink_metadata(&latest).is_err() || fs::metadata(&latest).is_ok() {
        return Ok(());
    }
    let newest = written(fleet, mission)?
        .into_iter()
        .max_by_key(|(_, born, _)| *born);
    // It is for people only: what cannot be mended now is mended by the next checkpoint.
    let _ = match newest {
        Some((id, ..)) => point_latest(home, id),
        None => fs::remove_file(&latest),
    };
    Ok(())
}

/// The names in a folder that are ids, but for their ending.
fn names<T: std::str::FromStr>(folder: &Path, ending: &str) -> Vec<T> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            name.strip_suffix(ending)?.parse().ok()
        })
        .collect()
}
