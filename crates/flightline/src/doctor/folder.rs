//! The health of the state folder: its modes, the newest files, and the files that dead processes left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flightline_core::checkpoint::{Backup, Checkpoint, CheckpointStatus};
use flightline_core::{CheckpointId, MissionId, Time};
use flightline_store::{CrashPoints, Find};
use flightline_workspace::beneath::{Dir, EntryKind};

use super::{Care, DoctorCheck, check};
use crate::checkpoint::files::{self, HOME, LATEST, home_of, name_of};
use crate::checkpoint::leftovers::is_unfinished;
use crate::checkpoint::readable;
use crate::error::Result;
use crate::fleet::Fleet;

/// Age from which a half-made file counts as left behind, in milliseconds.
const LEFT_AFTER_MS: u64 = 3_600_000;

/// Checks the state folder. With [`Care::Repair`], modes and `latest.json` are put right, and what processes
/// that died left behind is removed when it is older than an hour.
pub fn examine_folder(fleet: &mut Fleet, folder: &Path, care: Care) -> Result<Vec<DoctorCheck>> {
    let state = match Dir::make_private(folder) {
        Ok(state) => state,
        Err(error) => {
            let problem = format!("{} cannot be looked at: {error}", folder.display());
            return Ok(vec![check("files are private", vec![problem])]);
        }
    };
    let newest = newest_files(fleet, &state)?;
    let (now, steps) = (fleet.now()?, fleet.steps());
    Ok(vec![
        private(&state, care),
        latest(&state, &newest, care, &steps),
        left_behind(&state, now, care),
    ])
}

/// The checkpoints that `latest.json` may name.
struct Newest {
    /// The newest sound checkpoint of a mission that has a file.
    settled: CheckpointId,
    /// Newer ones whose files are being written, or were when a process died.
    unsettled: Vec<CheckpointId>,
}

fn newest_files(fleet: &mut Fleet, state: &Dir) -> Result<BTreeMap<MissionId, Newest>> {
    let found = fleet.store()?.read(|tx| {
        let (checkpoints, _) = readable::<Checkpoint>(tx, Find::All)?;
        let backups: BTreeMap<CheckpointId, Backup> = tx.backups()?.into_iter().collect();
        Ok::<_, crate::Error>((checkpoints, backups))
    });
    let (mut checkpoints, backups) = found?;
    checkpoints.retain(|checkpoint| {
        checkpoint.status != CheckpointStatus::Corrupted
            && has_file(state, name_of(checkpoint.cut.mission_id, checkpoint.id))
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

fn has_file(state: &Dir, name: PathBuf) -> bool {
    state
        .entry(name)
        .is_ok_and(|seen| seen.is_some_and(|seen| seen.is_file()))
}

/// Files are 0600 and folders 0700, or stricter; and no link is in the place of one.
fn private(state: &Dir, care: Care) -> DoctorCheck {
    let (mut wrong, mut repaired) = (Vec::new(), Vec::new());
    for name in names_below(state, &mut wrong) {
        let shown = name.display();
        let seen = match state.entry(&name) {
            Ok(Some(seen)) => seen,
            Ok(None) => continue,
            Err(error) => {
                wrong.push(format!("`{shown}` cannot be looked at: {error}"));
                continue;
            }
        };
        let wanted = match seen.kind {
            EntryKind::Folder => 0o700,
            EntryKind::File => 0o600,
            // What a process that died was making is told elsewhere.
            EntryKind::Link if is_latest(&name) || is_half_made(&name) => continue,
            EntryKind::Link | EntryKind::Other => {
                wrong.push(format!("`{shown}` is neither a file nor a folder"));
                continue;
            }
        };
        if seen.mode & !wanted == 0 {
            continue;
        }
        let mode = seen.mode;
        let mended = match care {
            Care::Look => Err(String::new()),
            Care::Repair => state
                .set_mode(&name, wanted)
                .map_err(|error| format!(" and cannot be changed: {error}")),
        };
        match mended {
            Ok(()) => repaired.push(format!(
                "`{shown}` was open to others (mode {mode:o}); made it {wanted:o}"
            )),
            Err(why) => wrong.push(format!("`{shown}` is open to others (mode {mode:o}){why}")),
        }
    }
    let mut private = check("files are private", wrong);
    private.findings.extend(repaired);
    private
}

fn is_half_made(name: &Path) -> bool {
    let name = name.file_name().and_then(|name| name.to_str());
    name.is_some_and(is_unfinished)
}

fn is_latest(name: &Path) -> bool {
    name.starts_with(HOME) && name.file_name().is_some_and(|name| name == LATEST)
}

/// The content of the folders that hold copies, and these folders, by their names below the state folder.
fn names_below(state: &Dir, wrong: &mut Vec<String>) -> Vec<PathBuf> {
    let mut names = Vec::new();
    for top in [HOME, "backups"] {
        let inside = match state.names_in(top) {
            Ok(inside) => inside,
            Err(error) => {
                wrong.push(format!("`{top}` cannot be looked at: {error}"));
                continue;
            }
        };
        for name in inside {
            let inner = Path::new(top).join(name);
            let is_folder = |name: &Path| {
                let seen = state.entry(name).ok().flatten();
                seen.is_some_and(|seen| seen.kind == EntryKind::Folder)
            };
            if is_folder(&inner) {
                match state.names_in(&inner) {
                    Ok(inside) => names.extend(inside.iter().map(|name| inner.join(name))),
                    Err(error) => wrong.push(format!("`{}`: {error}", inner.display())),
                }
            }
            names.push(inner);
        }
        names.push(PathBuf::from(top));
    }
    names
}

/// `latest.json` is for people, and should not mislead them.
fn latest(
    state: &Dir,
    newest: &BTreeMap<MissionId, Newest>,
    care: Care,
    steps: &CrashPoints,
) -> DoctorCheck {
    let (mut wrong, mut repaired) = (Vec::new(), Vec::new());
    for (
        mission,
        Newest {
            settled: id,
            unsettled,
        },
    ) in newest
    {
        let home = home_of(*mission);
        let link = home.join(LATEST);
        let target = PathBuf::from(format!("{id}.json"));
        let trouble = match state.link_target(&link) {
            Ok(Some(found)) if found == target => continue,
            // The next command settles it.
            Ok(Some(found)) if files::id_of(&found).is_some_and(|id| unsettled.contains(&id)) => {
                continue;
            }
            Ok(Some(found)) => format!("names {}", found.display()),
            Ok(None) => "is missing".to_owned(),
            // A copy of the folder may have a file in place of the link.
            Err(_) if same_text(state, &link, &home.join(&target)) => continue,
            // Another program's file has the name: it is not ours to replace.
            Err(_) => {
                let shown = state.path().join(&link);
                wrong.push(format!("{} is not the link we made", shown.display()));
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
            Care::Repair => match state.point(&link, &format!("{id}.json"), &|| steps.step()) {
                Ok(()) => repaired.push(format!("{said}; put right")),
                Err(error) => wrong.push(format!("{said}, and cannot be changed: {error}")),
            },
        }
    }
    let mut latest = check("`latest.json` names the newest file", wrong);
    latest.findings.extend(repaired);
    latest
}

fn same_text(state: &Dir, one: &Path, other: &Path) -> bool {
    let text = |name: &Path| files::text_of(state.path(), name);
    matches!((text(one), text(other)), (Ok(one), Ok(other)) if one == other)
}

/// The half-written file of a backup, a restore or a checkpoint whose process died. It does no harm, so it is reported
/// and no error.
fn left_behind(state: &Dir, now: Time, care: Care) -> DoctorCheck {
    let mut found = Vec::new();
    for place in ["", "backups"] {
        let inside = state.names_in(place).unwrap_or_default().into_iter();
        let sides = inside.filter(|name| is_side_folder(name));
        found.extend(sides.map(|name| (Path::new(place).join(name), EntryKind::Folder)));
    }
    let files = files::each(state.path()).unwrap_or_default().into_iter();
    let half = files.filter(|file| is_half_made(file));
    found.extend(half.map(|file| (file, EntryKind::File)));
    found.retain(|(name, kind)| {
        let seen = state.entry(name).ok().flatten();
        seen.is_some_and(|seen| {
            let changed = Time::from_millis(seen.modified.saturating_mul(1000));
            (seen.kind == EntryKind::Folder) == (*kind == EntryKind::Folder)
                && now.since(changed) > LEFT_AFTER_MS
        })
    });
    let said = found.into_iter().map(|(path, kind)| {
        let name = path.display();
        let removed = match (care, kind) {
            (Care::Look, _) => return format!("`{name}` was left by a process that died"),
            (Care::Repair, EntryKind::Folder) => state.remove_folder(&path),
            (Care::Repair, _) => state.remove(&path),
        };
        match removed {
            Ok(()) => format!("`{name}` was left by a process that died; removed"),
            Err(error) => {
                format!("`{name}` was left by a process that died, and cannot be removed: {error}")
            }
        }
    });
    DoctorCheck {
        name: "nothing is left behind".to_owned(),
        ok: true,
        findings: said.collect(),
    }
}

/// The folder beside a copy in the making, or a rebuilt store.
fn is_side_folder(name: &str) -> bool {
    let is_copy = name
        .strip_prefix(".flightline-")
        .is_some_and(|rest| rest.len() == 36 && rest.chars().all(is_of_uuid));
    is_copy || name.starts_with(".rebuild-")
}

fn is_of_uuid(c: char) -> bool {
    c.is_ascii_hexdigit() || c == '-'
}
