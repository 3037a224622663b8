//! The copy of a checkpoint in a file: whole, private, read back, and never in the way of the work.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use flightline_core::checkpoint::{Backup, Checkpoint, CheckpointStatus};
use flightline_core::event::sha256_hex;
use flightline_core::{CheckpointId, Code, Kind, MissionId, Refusal};
use flightline_store::Steps;
use serde::{Deserialize, Serialize};

use super::CheckpointDocument;
use super::backups::RecordBackups;
use crate::desk::Desk;
use crate::error::Result;
use crate::fleet::{Access, Caller, Fleet, Operation};

/// The largest file we read back.
pub(super) const MAX_FILE: u64 = 64 * 1024 * 1024;

/// Held by whoever writes a file in this process.
static WRITING: Mutex<()> = Mutex::new(());

/// What comes before a file's own checksum.
const SEAL: &str = "\"file_sha256\": \"";
/// What stands for the checksum while it is computed.
const UNSEALED: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What a backup file holds beside the checkpoint: enough to build the store anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct State {
    /// The project.
    pub project: String,
    /// The unbroken journal it comes from.
    pub history: String,
    /// The checkpoint's own record.
    pub checkpoint: Checkpoint,
    /// Every value of the cut.
    pub values: Vec<StateValue>,
    /// What the work tree looked like: no value of the cut, and with a hash of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<StateValue>,
}

/// A value of the cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StateValue {
    /// Its kind.
    pub kind: Kind,
    /// Its id.
    pub id: String,
    /// The revision that gave it.
    pub rev: u64,
    /// The SHA-256 of its text.
    pub sha: String,
    /// Its exact text.
    pub text: String,
}

/// Writes a checkpoint's file anew from the store.
pub(crate) fn rewrite(
    fleet: &mut Fleet,
    folder: &Path,
    id: CheckpointId,
) -> Result<std::result::Result<(), String>> {
    let caller = Caller::default();
    let document = fleet.run(&WholeCheckpoint { checkpoint: id }, &caller)?;
    let mission = document.mission_id;
    let other = fleet
        .store()?
        .read(|tx| tx.newest_written_backup(mission, id))?;
    let newest = is_newest(&document, other);
    let now = fleet.now()?;
    match write(folder, &document, newest, &fleet.steps()) {
        Ok((bytes, sha256)) => {
            let written = Backup::Written {
                at: now,
                bytes,
                sha256,
            };
            fleet.run(&RecordBackups::of(id, written), &caller)?;
            Ok(Ok(()))
        }
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// A checkpoint with every value it names.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct WholeCheckpoint {
    /// Which.
    pub checkpoint: CheckpointId,
}

impl Operation for WholeCheckpoint {
    const NAME: &'static str = "whole_checkpoint";
    const ACCESS: Access = Access::Read;
    type Outcome = CheckpointDocument;

    fn decide(&self, desk: &mut Desk<'_, '_>) -> Result<CheckpointDocument> {
        let checkpoint = super::find(desk, &self.checkpoint.to_string())?;
        whole(desk, &checkpoint)
    }
}

/// Whether a checkpoint is the newest of its mission that has a file; `other` is the revision of the record of the newest
/// other one.
pub(super) fn is_newest(document: &CheckpointDocument, other: Option<u64>) -> bool {
    // The record of a checkpoint comes right after the revision it names.
    document.status != CheckpointStatus::Archived
        && other.is_none_or(|born| born <= document.rev + 1)
}

/// Where a checkpoint's file is.
#[must_use]
pub fn path_of(folder: &Path, mission: MissionId, id: CheckpointId) -> PathBuf {
    folder
        .join("checkpoints")
        .join(mission.to_string())
        .join(format!("{id}.json"))
}

/// Writes a checkpoint's file: old or new, never half; private; read back. Returns its size and hash.
pub(super) fn write(
    folder: &Path,
    document: &CheckpointDocument,
    newest: bool,
    steps: &Steps,
) -> io::Result<(u64, String)> {
    let path = path_of(folder, document.mission_id, document.id);
    let home = path.parent().unwrap_or(folder);
    DirBuilder::new().recursive(true).mode(0o700).create(home)?;
    for place in [&folder.join("checkpoints"), home] {
        if !fs::symlink_metadata(place)?.is_dir() {
            let why = format!("{} is not a folder of ours", place.display());
            return Err(io::Error::other(why));
        }
    }
    let text = sealed(document)?;
    // Unfinished files are named after their process, so it writes one at a time.
    let _turn = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let aside = home.join(format!(".{}.{}", document.id, std::process::id()));
    // A process of the same number may have died here before; in a container it always has the same.
    let _ = fs::remove_file(&aside);
    steps.step();
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&aside)?;
    steps.step();
    let written = file
        .write_all(text.as_bytes())
        .inspect(|()| steps.step())
        .and_then(|()| file.sync_all())
        .inspect(|()| steps.step())
        .and_then(|()| fs::rename(&aside, &path))
        .inspect(|()| steps.step());
    if let Err(error) = written {
        let _ = fs::remove_file(&aside);
        return Err(error);
    }
    File::open(home)?.sync_all()?;
    steps.step();
    if fs::read_to_string(&path)? != text {
        return Err(io::Error::other("it does not read back as written"));
    }
    if newest {
        point_latest(home, document.id, steps)?;
    }
    super::leftovers::sweep(home, &path);
    Ok((text.len() as u64, sha256_hex(&text)))
}

/// Swaps `latest.json` in one step. It is for people: we ourselves read by verified id.
pub(crate) fn point_latest(home: &Path, id: CheckpointId, steps: &Steps) -> io::Result<()> {
    let aside = home.join(format!(".latest.{}", std::process::id()));
    let _ = fs::remove_file(&aside);
    symlink(format!("{id}.json"), &aside)?;
    steps.step();
    fs::rename(&aside, home.join("latest.json"))?;
    steps.step();
    File::open(home)?.sync_all()
}

/// The files of checkpoints that there are, in order of mission and id.
#[must_use]
pub fn all(folder: &Path) -> Vec<PathBuf> {
    let missions = names_in(&folder.join("checkpoints")).into_iter();
    let files = missions.flat_map(|mission| names_in(&mission));
    files.filter(|path| id_of(path).is_some()).collect()
}

/// What is in a folder, in order.
pub(crate) fn names_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The checkpoint whose file this is, by its name.
#[must_use]
pub fn id_of(path: &Path) -> Option<CheckpointId> {
    let name = path.file_name()?.to_str()?;
    name.strip_suffix(".json")?.parse().ok()
}

/// The text of a plain file of a sensible size. No link is followed, and nobody is waited for.
///
/// # Errors
/// When it cannot be read, or is something else.
pub fn text_of(path: &Path) -> io::Result<String> {
    let seen = fs::symlink_metadata(path)?;
    if !seen.is_file() || seen.len() > MAX_FILE {
        return Err(io::Error::other(
            "it is not a plain file of a sensible size",
        ));
    }
    fs::read_to_string(path)
}

/// Reads a checkpoint's file and checks everything in it.
///
/// # Errors
/// When it is missing, not ours, or fails its checks.
pub fn read(path: &Path) -> std::result::Result<CheckpointDocument, Refusal> {
    let damaged = |why: String| {
        Refusal::new(
            Code::Integrity,
            format!("{} is not a sound checkpoint: {why}", path.display()),
        )
    };
    let text = text_of(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Refusal::new(
            Code::NotFound,
            format!("{} cannot be read: {error}", path.display()),
        ),
        _ => damaged(error.to_string()),
    })?;
    parse(&text).map_err(|refusal| match refusal.code {
        Code::Integrity => damaged(refusal.message),
        _ => refusal,
    })
}

/// Reads the text of a checkpoint's file and checks everything in it.
///
/// # Errors
/// When it was not written by us, not by a version we know, or fails its checks.
pub fn parse(text: &str) -> std::result::Result<CheckpointDocument, Refusal> {
    let damaged = |why: String| Refusal::new(Code::Integrity, why);
    if !is_sealed(text) {
        return Err(damaged("it does not match its own checksum".to_owned()));
    }
    let whole: serde_json::Value =
        serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
    // Before all else: what a newer version writes may have another shape.
    refuse_newer(whole["version"].as_str().unwrap_or_default())?;
    let document: CheckpointDocument =
        serde_json::from_value(whole).map_err(|error| damaged(error.to_string()))?;
    check(&document).map_err(damaged)?;
    Ok(document)
}

/// Refuses a document of a version that we do not know.
pub(crate) fn refuse_newer(version: &str) -> std::result::Result<(), Refusal> {
    if version.split('.').next() == Some("1") {
        return Ok(());
    }
    Err(Refusal::new(
        Code::NewerStore,
        format!("the checkpoint has version {version}, and this `fleet` reads versions 1.x"),
    )
    .hint("upgrade `fleet` on this machine"))
}

/// Checks a whole document against every hash in it.
pub(crate) fn check(document: &CheckpointDocument) -> std::result::Result<(), String> {
    let Some(state) = &document.state else {
        return Err("it holds no state".to_owned());
    };
    let checkpoint = &state.checkpoint;
    if checkpoint.cut.sha256() != checkpoint.sha256
        || checkpoint.id != document.id
        || checkpoint.cut.mission_id != document.mission_id
    {
        return Err("its header does not match its checksum".to_owned());
    }
    if let Some(value) = state
        .values
        .iter()
        .find(|value| sha256_hex(&value.text) != value.sha)
    {
        return Err(format!(
            "{} {} does not match its checksum",
            value.kind, value.id
        ));
    }
    let lines = state
        .values
        .iter()
        .map(|value| flightline_core::checkpoint::Line {
            kind: value.kind,
            id: value.id.clone(),
            rev: value.rev,
            sha: value.sha.clone(),
        });
    if flightline_core::checkpoint::sections(lines.collect()) != checkpoint.cut.sections {
        return Err("its values do not match its checksum".to_owned());
    }
    super::tree::check(document)?;
    Ok(())
}

/// The text of a file, with the checksum of all the rest of it at its end.
pub(super) fn sealed(document: &CheckpointDocument) -> io::Result<String> {
    let mut document = document.clone();
    document.warnings.clear();
    document.file_sha256 = Some(UNSEALED.to_owned());
    let open = serde_json::to_string_pretty(&document)?;
    document.file_sha256 = Some(sha256_hex(&open));
    Ok(serde_json::to_string_pretty(&document)?)
}

/// Whether the checksum at a file's end is that of all the rest of it.
fn is_sealed(text: &str) -> bool {
    let Some((body, end)) = text.rsplit_once(SEAL) else {
        return false;
    };
    let Some((sha, rest)) = end.split_at_checked(UNSEALED.len()) else {
        return false;
    };
    rest == "\"\n}" && sha256_hex(&format!("{body}{SEAL}{UNSEALED}{rest}")) == sha
}

/// A checkpoint's document with every value it names.
pub(crate) fn whole(
    desk: &mut Desk<'_, '_>,
    checkpoint: &Checkpoint,
) -> Result<CheckpointDocument> {
    let contents = super::load(desk, checkpoint)?;
    let backup = desk.tx.backup_of(checkpoint.id)?;
    let mut document = super::document_of(desk, checkpoint, &contents, backup)?;
    document.state = Some(State {
        project: desk.tx.project_id().to_owned(),
        history: desk.tx.history().to_owned(),
        checkpoint: checkpoint.clone(),
        values: contents
            .values
            .into_iter()
            .map(|value| StateValue {
                kind: value.kind,
                id: value.id,
                rev: value.rev,
                sha: value.sha,
                text: value.text,
            })
            .collect(),
        file_system: super::tree::value(desk, checkpoint.id)?,
    });
    Ok(document)
}
