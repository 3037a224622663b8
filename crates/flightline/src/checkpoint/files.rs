//! The copy of a checkpoint in a file: whole, private, read back, and never in the way of the work.

use crate::Schema;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use flightline_core::checkpoint::{Backup, Checkpoint, CheckpointStatus};
use flightline_core::event::sha256_hex;
use flightline_core::history::FollowedHistory;
use flightline_core::text::read_stored;
use flightline_core::{CheckpointId, Code, Kind, MissionId, Refusal};
use flightline_store::{CrashPoints, StoredEvent};
use flightline_workspace::beneath::{Dir, Replacing};
use serde::{Deserialize, Serialize};

use super::CheckpointDocument;
use super::backups::RecordBackups;
use crate::backup::followed_by;
use crate::error::Result;
use crate::fleet::{Access, ActsFor, Caller, Fleet, Operation, Scope};
use crate::op_context::OpContext;

/// The largest file we read back.
pub(super) const MAX_FILE: usize = 64 * 1024 * 1024;

/// Held by the thread that writes a file in this process.
static WRITING: Mutex<()> = Mutex::new(());

/// The text before a file's own checksum.
const SEAL: &str = "\"file_sha256\": \"";
/// The placeholder for the checksum while it is computed.
const UNSEALED: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The part of a backup file that is enough to build the store anew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, Schema)]
pub struct BackedUpState {
    /// The id of the project.
    pub project: String,
    /// The id of the unbroken journal from which the checkpoint comes.
    pub history: String,
    /// The journals that this one continues, nearest first. A journal that is not among them was left by a restore.
    /// None where they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Vec<FollowedHistory>>,
    /// The checkpoint's own record.
    pub checkpoint: Checkpoint,
    /// Every value of the cut.
    pub values: Vec<StateValue>,
    /// The work tree as it was seen: it is no value of the cut, and has a hash of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_system: Option<StateValue>,
}

/// A value of the cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Schema)]
pub struct StateValue {
    /// The kind of the subject.
    pub kind: Kind,
    /// The id of the subject.
    pub id: String,
    /// The revision that set the value.
    pub rev: u64,
    /// The SHA-256 of the value's text.
    pub sha: String,
    /// The exact text of the value.
    pub text: String,
}

impl From<&StateValue> for StoredEvent {
    fn from(value: &StateValue) -> Self {
        Self {
            kind: value.kind,
            id: value.id.clone(),
            rev: value.rev,
            text: value.text.clone(),
            sha: value.sha.clone(),
        }
    }
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
        .read(|tx| tx.backup_written_after(mission, document.rev + 1))?;
    let newest = is_newest(&document, other);
    let now = fleet.now()?;
    match write(folder, &document, newest, &fleet.steps()) {
        Ok((bytes, sha256)) => {
            let written = Backup::Written {
                at: now,
                bytes,
                sha256,
                node: node_of(fleet, folder)?,
            };
            fleet.run(&RecordBackups::of(id, written), &caller)?;
            Ok(Ok(()))
        }
        Err(error) => Ok(Err(error.to_string())),
    }
}

/// Shows a checkpoint with every value it names.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct WholeCheckpoint {
    /// The checkpoint's id.
    pub checkpoint: CheckpointId,
}

impl Operation for WholeCheckpoint {
    const NAME: &'static str = "whole_checkpoint";
    const ACCESS: Access = Access::Read;
    const SCOPE: Scope = Scope::Read;
    const ACTS_FOR: fn(&Self) -> ActsFor<'_> = |_| ActsFor::Caller;
    type Outcome = CheckpointDocument;

    fn decide(&self, ctx: &mut OpContext<'_, '_>) -> Result<CheckpointDocument> {
        let checkpoint = super::find(ctx, &self.checkpoint.to_string())?;
        whole(ctx, &checkpoint)
    }
}

/// Returns true when a checkpoint is the newest of its mission that has a file. `other` is the revision of the record
/// of the newest other one, where there is a newer one.
pub(super) fn is_newest(document: &CheckpointDocument, other: Option<u64>) -> bool {
    // The record of a checkpoint comes right after the revision it names.
    document.status != CheckpointStatus::Archived
        && other.is_none_or(|born| born <= document.rev + 1)
}

/// The folder of the state folder that holds the files of checkpoints.
pub(crate) const HOME: &str = "checkpoints";

/// The link to a mission's newest file.
pub(crate) const LATEST: &str = "latest.json";

/// Returns the name of this state folder among those of the nodes that share a store; none where the store is in it.
pub(crate) fn node_of(fleet: &mut Fleet, folder: &Path) -> Result<Option<String>> {
    match fleet.store()?.engine() {
        "sqlite" => Ok(None),
        _ => Ok(Some(node_name(folder))),
    }
}

/// Hashes the machine's name and the path: a folder that is copied to another machine gets another name.
fn node_name(folder: &Path) -> String {
    let host = flightline_workspace::host_name();
    let place = folder
        .canonicalize()
        .unwrap_or_else(|_| folder.to_path_buf());
    sha256_hex(&format!("{host} {place:?}"))[..16].to_owned()
}

/// Returns true when another node wrote a file, and answers for it.
pub(crate) fn is_elsewhere(folder: &Path, node: Option<&str>) -> bool {
    node.is_some_and(|node| node != node_name(folder))
}

/// The trouble with a file that should have this hash. A file that another node wrote need not be here; if this node
/// wrote one as well, it is held to its own content, because a file tells of the moment it was written.
pub(crate) fn trouble(
    folder: &Path,
    file: &Path,
    sha256: &str,
    node: Option<&str>,
) -> Option<String> {
    let elsewhere = is_elsewhere(folder, node);
    match text_of(folder, file) {
        Ok(text) if sha256_hex(&text) == *sha256 => None,
        Ok(text) if elsewhere && parse(&text).is_ok() => None,
        Ok(_) => Some("its file does not match its checksum".to_owned()),
        Err(error) if elsewhere && error.kind() == io::ErrorKind::NotFound => None,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Some("its file is missing".to_owned())
        }
        Err(error) => Some(format!("its file cannot be read: {error}")),
    }
}

/// The name of a checkpoint's file, below the state folder.
pub fn name_of(mission: MissionId, id: CheckpointId) -> PathBuf {
    home_of(mission).join(format!("{id}.json"))
}

/// The folder of a mission's files, below the state folder.
pub(crate) fn home_of(mission: MissionId) -> PathBuf {
    Path::new(HOME).join(mission.to_string())
}

/// Writes a checkpoint's file: old or new, never half; private; read back. Returns its size and hash.
pub(super) fn write(
    folder: &Path,
    document: &CheckpointDocument,
    newest: bool,
    steps: &CrashPoints,
) -> io::Result<(u64, String)> {
    let home = Dir::make_private(folder)?.make(home_of(document.mission_id), 0o700)?;
    let text = sealed(document)?;
    // Unfinished files are named after their process, so it writes one at a time.
    let _turn = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let name = format!("{}.json", document.id);
    let step = || steps.step();
    home.put_in_steps(
        Path::new(&name),
        text.as_bytes(),
        Replacing::Yes,
        0o600,
        &step,
    )?;
    if newest {
        home.point(LATEST, &name, &step)?;
    }
    super::leftovers::sweep(&home, &name);
    Ok((text.len() as u64, sha256_hex(&text)))
}

/// The files of checkpoints that there are, by their names below the state folder, in order of mission and id.
pub fn all(folder: &Path) -> Vec<PathBuf> {
    let mut files = each(folder).unwrap_or_default();
    files.retain(|file| id_of(file).is_some());
    files
}

/// Lists everything in the folders of missions, by its name below the state folder.
pub(crate) fn each(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let Some(state) = Dir::private_if_there(folder)? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for mission in state.names_in(HOME)? {
        let home = Path::new(HOME).join(mission);
        // A folder that is not ours holds none of our files.
        let names = state.names_in(&home).unwrap_or_default();
        found.extend(names.iter().map(|name| home.join(name)));
    }
    Ok(found)
}

pub fn id_of(path: &Path) -> Option<CheckpointId> {
    let name = path.file_name()?.to_str()?;
    name.strip_suffix(".json")?.parse().ok()
}

/// The text of a file below the state folder, when it is a plain one of a sensible size.
pub fn text_of(folder: &Path, file: &Path) -> io::Result<String> {
    let text = Dir::private(folder)?.read_text(file, MAX_FILE)?;
    text.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Reads a checkpoint's file below the state folder, and checks everything in it.
pub fn read(folder: &Path, file: &Path) -> std::result::Result<CheckpointDocument, Refusal> {
    let shown = folder.join(file);
    let damaged = |why: String| {
        Refusal::new(
            Code::Integrity,
            format!("{} is not a sound checkpoint: {why}", shown.display()),
        )
    };
    let text = text_of(folder, file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Refusal::new(
            Code::NotFound,
            format!("{} cannot be read: {error}", shown.display()),
        ),
        _ => damaged(error.to_string()),
    })?;
    parse(&text).map_err(|refusal| match refusal.code {
        Code::Integrity => damaged(refusal.message),
        _ => refusal,
    })
}

/// Reads the text of a checkpoint's file and checks everything in it.
pub fn parse(text: &str) -> std::result::Result<CheckpointDocument, Refusal> {
    let damaged = |why: String| Refusal::new(Code::Integrity, why);
    if !is_sealed(text) {
        return Err(damaged("it does not match its own checksum".to_owned()));
    }
    let whole: serde_json::Value =
        serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
    // The version is checked before all else: a document of a newer one may have another shape.
    refuse_newer(whole["version"].as_str().unwrap_or_default())?;
    let document: CheckpointDocument =
        read_stored(text).map_err(|error| damaged(error.to_string()))?;
    check(&document).map_err(damaged)?;
    Ok(document)
}

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
        .map(|value| flightline_core::checkpoint::DigestLine {
            kind: value.kind,
            id: value.id.clone(),
            rev: value.rev,
            sha: value.sha.clone(),
        });
    let cut = &checkpoint.cut;
    if flightline_core::checkpoint::sections(lines.collect(), cut.digest) != cut.sections {
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

/// Returns true when the checksum at a file's end is that of all the rest of the file.
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
    ctx: &mut OpContext<'_, '_>,
    checkpoint: &Checkpoint,
) -> Result<CheckpointDocument> {
    let contents = super::load(ctx, checkpoint)?;
    let backup = ctx.tx.backup_of(checkpoint.id)?;
    let mut document = super::document_of(ctx, checkpoint, &contents, backup)?;
    let history = ctx.tx.history().to_owned();
    let follows = followed_by(ctx.tx, &history)?;
    document.state = Some(BackedUpState {
        project: ctx.tx.project_id().to_owned(),
        history,
        follows,
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
        file_system: super::tree::value(ctx, checkpoint.id)?,
    });
    Ok(document)
}
