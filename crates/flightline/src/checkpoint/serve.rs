//! Dual storage that serves: a value damaged or missing in the store is looked for in the files of
//! checkpoints, offered to the store as evidence, and said. Files are read here, outside of any
//! transaction; whether they fit is decided in one ([`MendCheckpoint`]), by the hashes that are stored.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use flightline_core::checkpoint::Backup;
use flightline_core::event::sha256_hex;
use flightline_core::{CheckpointId, Code, MissionId};
use flightline_workspace::beneath::Dir;

use super::CheckpointDocument;
use super::files::{self, StateValue, name_of};
use super::inspect::{DiffCheckpoints, ShowCheckpoint, VerifyCheckpoints};
use super::mend::{
    CheckpointsToRead, ExamineCheckpoints, ExaminedCheckpoint, ExaminedCheckpoints, MendCheckpoint,
};
use crate::error::{Error, Result};
use crate::event::Cursor;
use crate::fleet::{Access, Caller, Done, Fleet};
use crate::mission::short;
use crate::recovery::resume::Resume;
use crate::recovery::undo::Undo;
use crate::registry::Registered;

pub trait ReadsCheckpoints: Registered + Clone {
    fn wanted(&self) -> CheckpointsToRead;

    /// The request for a rehearsal: it also shows effects that the real run has only after a confirmation.
    fn rehearsed(&self) -> Self {
        self.clone()
    }

    /// Puts the warnings into the outcome. Returns those that have no place there.
    fn tell(_outcome: &mut Self::Outcome, said: Vec<String>) -> Vec<String> {
        said
    }
}

impl ReadsCheckpoints for Resume {
    fn rehearsed(&self) -> Self {
        Self {
            force: true,
            reopen: true,
            ..self.clone()
        }
    }

    fn wanted(&self) -> CheckpointsToRead {
        match &self.checkpoint {
            Some(reference) => named([Some(reference)]),
            None => CheckpointsToRead::Newest {
                mission: self.mission.clone(),
            },
        }
    }

    fn tell(outcome: &mut Self::Outcome, said: Vec<String>) -> Vec<String> {
        outcome.warnings.splice(0..0, said);
        Vec::new()
    }
}

impl ReadsCheckpoints for Undo {
    fn rehearsed(&self) -> Self {
        Self {
            force: true,
            ..self.clone()
        }
    }

    fn wanted(&self) -> CheckpointsToRead {
        CheckpointsToRead::BeforeRewind {
            mission: self.mission.clone(),
        }
    }

    fn tell(outcome: &mut Self::Outcome, said: Vec<String>) -> Vec<String> {
        outcome.warnings.splice(0..0, said);
        Vec::new()
    }
}

impl ReadsCheckpoints for ShowCheckpoint {
    fn wanted(&self) -> CheckpointsToRead {
        named([Some(&self.checkpoint)])
    }
}

impl ReadsCheckpoints for VerifyCheckpoints {
    fn wanted(&self) -> CheckpointsToRead {
        match &self.checkpoint {
            Some(reference) => named([Some(reference)]),
            None => CheckpointsToRead::All,
        }
    }
}

impl ReadsCheckpoints for DiffCheckpoints {
    fn wanted(&self) -> CheckpointsToRead {
        named([Some(&self.a), self.b.as_ref()])
    }
}

fn named<const N: usize>(references: [Option<&String>; N]) -> CheckpointsToRead {
    CheckpointsToRead::Named {
        checkpoints: references.into_iter().flatten().cloned().collect(),
    }
}

/// The outcome of an operation, with the warnings on the way to it.
pub struct OutcomeWithWarnings<T> {
    /// The outcome, and how it came about.
    pub done: Result<Done<T>>,
    /// Warnings, whether or not it succeeded.
    pub warnings: Vec<String>,
    pub written: bool,
}

/// Runs an operation that reads checkpoints, after mending them from files in `folder`.
pub fn serve<O: ReadsCheckpoints>(
    fleet: &mut Fleet,
    folder: &Path,
    caller: &Caller,
    operation: &O,
) -> OutcomeWithWarnings<O::Outcome> {
    // Files are where the store is, and are read there.
    if fleet.is_elsewhere() {
        let done = fleet.run_fully(operation, caller);
        return OutcomeWithWarnings::from_elsewhere(fleet, done, O::ACCESS != Access::Read);
    }
    let plan = match gather(fleet, folder, caller, &operation.wanted()) {
        Ok(plan) => plan,
        Err(error) => return OutcomeWithWarnings::refused(error, files::all(folder).len()),
    };
    let (warnings, unused) = (apply(fleet, caller, &plan), plan.unused);
    let written = !plan.mends.is_empty() || O::ACCESS != Access::Read;
    let done = fleet.run_fully(operation, caller);
    OutcomeWithWarnings::of::<O>(done, warnings, unused, written)
}

/// Shows what [`serve`] would do, without doing it.
pub fn rehearse<O: ReadsCheckpoints>(
    fleet: &mut Fleet,
    folder: &Path,
    caller: &Caller,
    operation: &O,
) -> OutcomeWithWarnings<O::Outcome> {
    if fleet.is_elsewhere() {
        let outcome = fleet.rehearse(operation, caller);
        return OutcomeWithWarnings::from_elsewhere(fleet, outcome.map(Done::plain), false);
    }
    let plan = match gather(fleet, folder, caller, &operation.wanted()) {
        Ok(plan) => plan,
        Err(error) => return OutcomeWithWarnings::refused(error, files::all(folder).len()),
    };
    let mut warnings = plan.warnings.clone();
    let operation = operation.rehearsed();
    let rehearsed = fleet.rehearse_acts(&operation, caller, |ctx| {
        let mut said = Vec::new();
        for mend in &plan.mends {
            said.extend(mend.apply(ctx)?.said);
        }
        Ok((said, operation.decide(ctx)?))
    });
    let done = rehearsed.map(|(said, outcome)| {
        warnings.extend(said.into_iter().map(would));
        Done::plain(outcome)
    });
    OutcomeWithWarnings::of::<O>(done, warnings, plan.unused, false)
}

/// The sentence about a repair that was only rehearsed.
fn would(said: String) -> String {
    said.replace("; repaired ", "; would repair ")
        .replace("is repaired", "would be repaired")
}

/// Mends checkpoints in the store from files in `folder`, as far as they are damaged and the files fit.
/// Returns the warnings.
pub fn mend(
    fleet: &mut Fleet,
    folder: &Path,
    caller: &Caller,
    wanted: &CheckpointsToRead,
) -> Result<Vec<String>> {
    let plan = gather(fleet, folder, caller, wanted)?;
    Ok(apply(fleet, caller, &plan))
}

/// Offers the store the values of files. A value that cannot be mended leads to a warning, never to a failure.
fn apply(fleet: &mut Fleet, caller: &Caller, plan: &OfferedValues) -> Vec<String> {
    let mut said = plan.warnings.clone();
    let housekeeping = Caller {
        agent: None,
        idempotency_key: None,
        ..caller.housekeeping()
    };
    for mend in &plan.mends {
        match fleet.run(mend, &housekeeping) {
            Ok(done) => said.extend(done.said),
            Err(error) => said.push(format!(
                "{} cannot be repaired: {}",
                short(mend.checkpoint),
                error.into_refusal().message
            )),
        }
    }
    said
}

impl<T> OutcomeWithWarnings<T> {
    fn from_elsewhere(fleet: &mut Fleet, done: Result<Done<T>>, written: bool) -> Self {
        Self {
            done,
            warnings: fleet.take_warnings(),
            written,
        }
    }

    fn of<O: ReadsCheckpoints<Outcome = T>>(
        done: Result<Done<T>>,
        warnings: Vec<String>,
        unused: usize,
        written: bool,
    ) -> Self {
        match done {
            Ok(mut done) => Self {
                warnings: O::tell(&mut done.outcome, warnings),
                done: Ok(done),
                written,
            },
            Err(error) => Self {
                warnings,
                written,
                ..Self::refused(error, unused)
            },
        }
    }

    /// A store that has lost the wanted checkpoint may be built anew, when there are files.
    fn refused(error: Error, files: usize) -> Self {
        let error = match error {
            Error::Refused(mut refusal) if refusal.code == Code::NotFound && files > 0 => {
                let noun = if files == 1 { "file" } else { "files" };
                let way = format!(
                    "if the store has lost it: `fleet doctor --rebuild` builds one from {files} checkpoint {noun}"
                );
                refusal.hint = Some(match refusal.hint.take() {
                    Some(hint) => format!("{hint}\n{way}"),
                    None => way,
                });
                Error::Refused(refusal)
            }
            error => error,
        };
        Self {
            done: Err(error),
            warnings: Vec::new(),
            written: false,
        }
    }
}

/// The values that files offer to the store, and the warnings on the way.
struct OfferedValues {
    mends: Vec<MendCheckpoint>,
    warnings: Vec<String>,
    /// Number of files of requested checkpoints that the store does not know.
    unused: usize,
}

fn gather(
    fleet: &mut Fleet,
    folder: &Path,
    caller: &Caller,
    wanted: &CheckpointsToRead,
) -> Result<OfferedValues> {
    let request = ExamineCheckpoints {
        wanted: wanted.clone(),
    };
    let examined = fleet.run(&request, caller)?;
    let sound = examined.checkpoints.iter();
    let sound = sound.filter(|checkpoint| checkpoint.problem.is_none());
    Ok(OfferedValues {
        mends: offers(folder, &examined),
        warnings: sound
            .filter_map(|checkpoint| file_trouble(folder, checkpoint))
            .collect(),
        unused: strangers(folder, &examined).len(),
    })
}

/// Returns the mends that files offer for the checkpoints with a problem in the store.
pub(crate) fn offers(folder: &Path, examined: &ExaminedCheckpoints) -> Vec<MendCheckpoint> {
    let known = examined.checkpoints.iter().filter_map(|checkpoint| {
        match (&checkpoint.problem, checkpoint.mendable) {
            (Some(_), _) => Some(offer(folder, checkpoint)),
            (None, true) => Some(nothing(checkpoint.id)),
            (None, false) => None,
        }
    });
    let unknown = strangers(folder, examined).into_iter().filter_map(|path| {
        let document = files::read(folder, &path).ok()?;
        let (history, rev) = (&document.state.as_ref()?.history, document.rev);
        let left = |place: &Cursor| place.history == *history && rev <= place.rev;
        let ours = *history == examined.history || examined.before.iter().any(left);
        (ours && files::id_of(&path) == Some(document.id)).then(|| whole(folder, document))
    });
    known.chain(unknown).collect()
}

/// The trouble with the file of a checkpoint that is sound in the store, as far as a look from outside tells.
fn file_trouble(folder: &Path, checkpoint: &ExaminedCheckpoint) -> Option<String> {
    let Backup::Written {
        bytes, ref node, ..
    } = checkpoint.backup
    else {
        return None;
    };
    if files::is_elsewhere(folder, node.as_deref()) {
        return None;
    }
    let name = name_of(checkpoint.mission_id, checkpoint.id);
    let seen = Dir::private(folder).and_then(|folder| folder.entry(name));
    let trouble = match seen {
        Ok(Some(seen)) if seen.is_file() && seen.size == bytes => return None,
        Ok(None) => "is missing",
        Ok(Some(_)) | Err(_) => "is not as it was written",
    };
    Some(format!(
        "the file of {} {trouble}; the store has it: rewrite it with `fleet doctor --fix`",
        short(checkpoint.id)
    ))
}

fn nothing(checkpoint: CheckpointId) -> MendCheckpoint {
    MendCheckpoint {
        checkpoint,
        record: None,
        values: Vec::new(),
        file_system: None,
        file: None,
        quarantine: false,
    }
}

/// Returns the mend that files offer for a checkpoint that is damaged in the store.
fn offer(folder: &Path, checkpoint: &ExaminedCheckpoint) -> MendCheckpoint {
    let path = name_of(checkpoint.mission_id, checkpoint.id);
    match files::read(folder, &path) {
        Ok(document) if document.id == checkpoint.id => whole(folder, document),
        _ => MendCheckpoint {
            values: from_others(folder, checkpoint.mission_id, &checkpoint.lacks),
            ..nothing(checkpoint.id)
        },
    }
}

/// Returns everything that a file holds of a checkpoint.
fn whole(folder: &Path, document: CheckpointDocument) -> MendCheckpoint {
    let name = name_of(document.mission_id, document.id);
    let text = files::text_of(folder, &name).ok();
    let (record, values, file_system) = match document.state {
        Some(state) => (Some(state.checkpoint), state.values, state.file_system),
        None => (None, Vec::new(), None),
    };
    MendCheckpoint {
        checkpoint: document.id,
        record,
        values,
        file_system,
        file: text.map(|text| (text.len() as u64, sha256_hex(&text))),
        quarantine: false,
    }
}

/// The values of these revisions, from the files of other checkpoints: the mission's own first.
fn from_others(folder: &Path, mission: MissionId, lacks: &[u64]) -> Vec<StateValue> {
    let mut paths = files::all(folder);
    let own = files::home_of(mission);
    paths.sort_by_key(|path| !path.starts_with(&own));
    values_in(folder, paths, lacks.iter().copied().collect())
}

/// The values of these revisions, each from the first of the files that has it.
pub(crate) fn values_in(
    folder: &Path,
    paths: Vec<PathBuf>,
    mut lacking: BTreeSet<u64>,
) -> Vec<StateValue> {
    let mut found = Vec::new();
    for path in paths {
        if lacking.is_empty() {
            break;
        }
        let state = files::read(folder, &path)
            .ok()
            .and_then(|document| document.state);
        let values = state.into_iter().flat_map(|state| state.values);
        found.extend(values.filter(|value| lacking.remove(&value.rev)));
    }
    found
}

/// The files of checkpoints that were asked for and that the store does not know, not even as deleted.
/// The store takes in those that were written in its own history; before a restore or a rebuild there was another.
fn strangers(folder: &Path, examined: &ExaminedCheckpoints) -> Vec<PathBuf> {
    let home = examined.mission_id.map(files::home_of);
    let is_stranger = |path: &PathBuf| {
        files::id_of(path).is_some_and(|id| {
            let named = |reference: &String| id.to_string().starts_with(reference.as_str());
            let of_mission = home.as_ref().is_some_and(|home| path.starts_with(home));
            (of_mission && !examined.known.contains(&id)) || examined.unknown.iter().any(named)
        })
    };
    files::all(folder).into_iter().filter(is_stranger).collect()
}
