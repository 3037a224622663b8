//! The health of the state folder: what is private, what is newest, and what dead processes left.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use flightline_core::checkpoint::{Backup, Checkpoint, CheckpointStatus};
use flightline_core::{CheckpointId, MissionId, Time};
use flightline_store::{Find, Steps};

use super::{Care, Check, check};
use crate::checkpoint::files::{self, path_of, point_latest};
use crate::checkpoint::readable;
use crate::error::Result;
use crate::fleet::Fleet;

/// How old something half made must be before it is taken for left behind.
const LEFT_AFTER_MS: u64 = 3_600_000;

/// Checks the state folder. With [`Care::Repair`], modes and `latest.json` are put right, and what processes
/// that died left behind is removed when it is older than an hour.
///
/// # Errors
/// When the store fails.
pub fn examine_folder(fleet: &mut Fleet, folder: &Path, care: Care) -> Result<Vec<Check>> {
    let newest = newest_files(fleet, folder)?;
    let (now, steps) = (fleet.now()?, fleet.steps());
    Ok(vec![
        private(folder, care),
        latest(folder, &newest, care, &steps),
        left_behind(folder, now, care),
    ])
}

/// What `latest.json` may name.
struct Newest {
    /// The newest sound checkpoint of a mission that has a file.
    settled: CheckpointId,
    /// Newer ones whose files are being written, or were when a process died.
    unsettled: Vec<CheckpointId>,
}

fn newest_files(fleet: &mut Fleet, folder: &Path) -> Result<BTreeMap<MissionId, Newest>> {
    let found = fleet.store()?.read(|tx| {
        let (checkpoints, _) = readable::<Checkpoint>(tx, Find::All)?;
        let backups: BTreeMap<CheckpointId, Backup> = tx.backups()?.into_iter().collect();
        Ok::<_, crate::Error>((checkpoints, backups))
    });
    let (mut checkpoints, backups) = found?;
    checkpoints.retain(|checkpoint| {
        checkpoint.status != CheckpointStatus::Corrupted
            && path_of(folder, checkpoint.cut.mission_id, checkpoint.id).is_file()
    });
    checkpoints.sort_by_key(|checkpoint| checkpoint.cut.rev);
    let mut newest: BTreeMap<MissionId, Newest> = BTreeMap::new();
    for checkpoint in checkpoints {
        let mission = checkpoint.cut.mission_id;
        match (backups.get(&checkpoint.id), newest.get_mut(&mission)) {
            (Some(Backup::Written { .. }), _) => {
                let only = Newest {
                    settled: checkpoint.id,
                    unsettled: Vec::new(),
                };
                newest.insert(mission, only);
            }
            (Some(Backup::Pending | Backup::Failed { .. }), Some(newest)) => {
                newest.unsettled.push(checkpoint.id);
            }
            (Some(Backup::Pending | Backup::Failed { .. } | Backup::Shared) | None, _) => {}
        }
    }
    Ok(newest)
}

/// Files are 0600 and folders 0700, or stricter.
fn private(folder: &Path, care: Care) -> Check {
    let (mut open, mut repaired) = (Vec::new(), Vec::new());
    for top in ["checkpoints", "backups"] {
        let top = folder.join(top);
        let mut paths = vec![top.clone()];
        for inner in files::names_in(&top) {
            paths.extend(files::names_in(&inner));
            paths.push(inner);
        }
        for path in paths {
            let Ok(seen) = fs::symlink_metadata(&path) else {
                continue;
            };
            let wanted = if seen.is_dir() { 0o700 } else { 0o600 };
            let mode = seen.mode() & 0o777;
            if seen.file_type().is_symlink() || mode & !wanted == 0 {
                continue;
            }
            let name = path
                .strip_prefix(folder)
                .unwrap_or(&path)
                .display()
                .to_string();
            let mended = match care {
                Care::Look => Err(String::new()),
                Care::Repair => fs::set_permissions(&path, fs::Permissions::from_mode(wanted))
                    .map_err(|error| format!(" and cannot be changed: {error}")),
            };
            match mended {
                Ok(()) => repaired.push(format!(
                    "`{name}` was open to others (mode {mode:o}); made it {wanted:o}"
                )),
                Err(why) => open.push(format!("`{name}` is open to others (mode {mode:o}){why}")),
            }
        }
    }
    let mut private = check("files are private", open);
    private.findings.extend(repaired);
    private
}

/// `latest.json` is for people, and should not mislead them.
fn latest(folder: &Path, newest: &BTreeMap<MissionId, Newest>, care: Care, steps: &Steps) -> Check {
    let (mut wrong, mut repaired) = (Vec::new(), Vec::new());
    for (
        mission,
        Newest {
            settled: id,
            unsettled,
        },
    ) in newest
    {
        let home = folder.join("checkpoints").join(mission.to_string());
        let link = home.join("latest.json");
        let target = PathBuf::from(format!("{id}.json"));
        let trouble = match fs::read_link(&link) {
            Ok(found) if found == target => continue,
            // The next command settles it.
            Ok(found) if files::id_of(&found).is_some_and(|id| unsettled.contains(&id)) => continue,
            Ok(found) => format!("names {}", found.display()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => "is missing".to_owned(),
            // As a copy of the folder may have it.
            Err(_) if same_text(&link, &home.join(&target)) => continue,
            // Somebody else's file has the name: it is not ours to replace.
            Err(_) => {
                wrong.push(format!("{} is not the link we made", link.display()));
                continue;
            }
        };
        let said = format!(
            "`latest.json` of {} {trouble}, and the newest file is {}",
            crate::mission::short(mission),
            target.display()
        );
        match care {
            Care::Look => wrong.push(said),
            Care::Repair => match point_latest(&home, *id, steps) {
                Ok(()) => repaired.push(format!("{said}; put right")),
                Err(error) => wrong.push(format!("{said}, and cannot be changed: {error}")),
            },
        }
    }
    let mut latest = check("`latest.json` names the newest file", wrong);
    latest.findings.extend(repaired);
    latest
}

fn same_text(one: &Path, other: &Path) -> bool {
    matches!((fs::read(one), fs::read(other)), (Ok(one), Ok(other)) if one == other)
}

/// What a backup, a restore or a checkpoint file was when its process died. It harms nobody, and so it is
/// said and not held against anybody.
fn left_behind(folder: &Path, now: Time, care: Care) -> Check {
    let mut found = Vec::new();
    for place in [folder.to_path_buf(), folder.join("backups")] {
        let inside = files::names_in(&place).into_iter();
        found.extend(inside.filter(|path| path.is_dir() && is_side_folder(path)));
    }
    for mission in files::names_in(&folder.join("checkpoints")) {
        let inside = files::names_in(&mission).into_iter();
        found.extend(inside.filter(|path| !path.is_dir() && is_half_written(path)));
    }
    found.retain(|path| age(path, now).is_some_and(|age| age > LEFT_AFTER_MS));
    let said = found.into_iter().map(|path| {
        let name = path.strip_prefix(folder).unwrap_or(&path).display();
        let removed = match care {
            Care::Look => return format!("`{name}` was left by a process that died"),
            Care::Repair if path.is_dir() => fs::remove_dir_all(&path),
            Care::Repair => fs::remove_file(&path),
        };
        match removed {
            Ok(()) => format!("`{name}` was left by a process that died; removed"),
            Err(error) => {
                format!("`{name}` was left by a process that died, and cannot be removed: {error}")
            }
        }
    });
    Check {
        name: "nothing is left behind".to_owned(),
        ok: true,
        findings: said.collect(),
    }
}

fn name_of(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

/// The folder beside a copy in the making, or a rebuilt store.
fn is_side_folder(path: &Path) -> bool {
    let name = name_of(path);
    let is_copy = name
        .strip_prefix(".flightline-")
        .is_some_and(|rest| rest.len() == 36 && rest.chars().all(is_of_uuid));
    let is_link = fs::symlink_metadata(path).is_ok_and(|seen| seen.file_type().is_symlink());
    (is_copy || name.starts_with(".rebuild-")) && !is_link
}

fn is_of_uuid(c: char) -> bool {
    c.is_ascii_hexdigit() || c == '-'
}

fn is_half_written(path: &Path) -> bool {
    let name = name_of(path);
    name.starts_with(".chk-") || name.starts_with(".latest.")
}

fn age(path: &Path, now: Time) -> Option<u64> {
    let seen = fs::symlink_metadata(path).ok()?;
    let changed = Time::from_millis(seen.mtime().saturating_mul(1000));
    Some(now.since(changed))
}
