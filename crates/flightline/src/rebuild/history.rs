//! The history of a new store, written from the files of checkpoints in the order they were taken: per file
//! what changed since the one before, then the checkpoint itself, at its new revision.

use std::collections::{BTreeMap, BTreeSet};

use flightline_core::agent::{Agent, Step};
use flightline_core::checkpoint::{Backup, Checkpoint, CheckpointStatus, Cut, Milestone, sections};
use flightline_core::effect::Effect;
use flightline_core::event::EventType;
use flightline_core::file_system::RecordedFiles;
use flightline_core::lock::Lock;
use flightline_core::message::{Delivery, Message};
use flightline_core::mission::{Mission, Progress};
use flightline_core::note::Note as MissionNote;
use flightline_core::policy::Policy;
use flightline_core::sortie::{Review, Sortie, SortieError, SortieFile, SortieStatus, Subtask};
use flightline_core::subject::keys_of;
use flightline_core::text::read_stored;
use flightline_core::{CheckpointId, Keys, Kind, MissionId, Subject};
use flightline_store::{Actor, Store, Tx};
use serde_json::json;

use super::lineage;
use crate::checkpoint::CheckpointDocument;
use crate::checkpoint::files::StateValue;
use crate::error::{Error, Result};
use crate::mission::short;

#[derive(Default)]
pub(super) struct History {
    /// The checkpoints that are in the store again, oldest first.
    pub(super) checkpoints: Vec<CheckpointId>,
    pub(super) newest: BTreeMap<MissionId, CheckpointId>,
    /// Number of values at the end, locks not counted: they are released.
    pub(super) values: u64,
    /// Files that could not be used, and why.
    pub(super) skipped: Vec<String>,
}

/// Writes the history that `documents` tell, oldest first. One that cannot be written is left out.
pub(super) fn write(store: &mut Store, documents: &[CheckpointDocument]) -> Result<History> {
    let (mut history, mut held) = (History::default(), Held::default());
    for document in documents {
        let plan = match held.plan(document) {
            Ok(plan) => plan,
            Err(why) => {
                history.skipped.push(why);
                continue;
            }
        };
        let written = store.write(|tx| {
            tx.act_as(Actor::flightline());
            plan.apply(tx)
        });
        match written {
            Ok(()) => {
                held.take(&plan);
                history.checkpoints.push(document.id);
                history.newest.insert(document.mission_id, document.id);
            }
            Err(error) if error.is_damage() => history.skipped.push(format!(
                "{}: {}",
                short(document.id),
                error.into_refusal().message
            )),
            Err(error) => return Err(error),
        }
    }
    let kinds = held.values.keys().filter(|(kind, _)| *kind != Kind::Lock);
    history.values = kinds.count() as u64;
    Ok(history)
}

/// The content of the new store so far.
#[derive(Default)]
struct Held {
    values: BTreeMap<(Kind, String), (String, Keys)>,
    milestones: BTreeSet<String>,
}

struct FileChanges<'a> {
    checkpoint: &'a Checkpoint,
    history: &'a str,
    gone: Vec<(Kind, String)>,
    set: Vec<(&'a StateValue, Keys)>,
    milestones: Vec<Milestone>,
    file_system: Option<&'a StateValue>,
}

impl Held {
    /// Plans the changes that a file makes, or returns the reason why it cannot be used.
    fn plan<'a>(
        &self,
        document: &'a CheckpointDocument,
    ) -> std::result::Result<FileChanges<'a>, String> {
        let no = |why: String| format!("{} is not used: {why}", short(document.id));
        let state = document.state.as_ref();
        let state = state.ok_or_else(|| no("it holds no state".to_owned()))?;
        let cut = &state.checkpoint.cut;
        if cut.version.split('.').next() != Some("1") {
            return Err(no("this `fleet` does not know its version".to_owned()));
        }
        let mut set = Vec::new();
        for value in &state.values {
            let keys = keys_of(value.kind, &value.text)
                .map_err(|error| no(format!("{} {}: {error}", value.kind, value.id)))?;
            let now = self.values.get(&(value.kind, value.id.clone()));
            if now.is_none_or(|(sha, _)| *sha != value.sha) {
                set.push((value, keys));
            }
        }
        let named: BTreeSet<(Kind, &str)> = state
            .values
            .iter()
            .map(|value| (value.kind, value.id.as_str()))
            .collect();
        let gone = self.values.iter().filter(|((kind, id), (_, keys))| {
            let absent = is_of_cut(*kind, keys, cut) && !named.contains(&(*kind, id.as_str()));
            // An absent subject with a unique name makes way for the one that has the name now.
            absent
                || set
                    .iter()
                    .any(|(value, new)| are_rivals((*kind, id, keys), (value, new)))
        });
        let gone = gone.map(|(key, _)| key.clone()).collect();
        // Lists go by the order things came in: sorties by their place, everything else by its revision.
        set.sort_by_key(|(value, _)| (value.kind, place(value), value.rev));
        let reached = Policy::default()
            .milestones
            .into_iter()
            .map(|percent| Milestone {
                mission_id: cut.mission_id,
                timeline: cut.timeline,
                percent,
                at: cut.timestamp,
                owed: false,
            });
        let progress = progress(cut);
        let milestones = reached
            .filter(|one| progress.reached(u64::from(one.percent)))
            .filter(|one| !self.milestones.contains(&one.key()))
            .collect();
        Ok(FileChanges {
            checkpoint: &state.checkpoint,
            history: &state.history,
            gone,
            set,
            milestones,
            file_system: state.file_system.as_ref(),
        })
    }

    fn take(&mut self, plan: &FileChanges<'_>) {
        for key in &plan.gone {
            self.values.remove(key);
        }
        for (value, keys) in &plan.set {
            let key = (value.kind, value.id.clone());
            self.values.insert(key, (value.sha.clone(), keys.clone()));
        }
        let keys = plan.milestones.iter().map(Subject::key);
        self.milestones.extend(keys);
    }
}

/// Returns true when a cut holds everything there is of a subject like this one.
fn is_of_cut(kind: Kind, keys: &Keys, cut: &Cut) -> bool {
    match keys.mission {
        Some(mission) => mission == cut.mission_id,
        None => matches!(kind, Kind::Agent | Kind::Step | Kind::Lock),
    }
}

fn are_rivals(old: (Kind, &String, &Keys), (value, new): (&StateValue, &Keys)) -> bool {
    let (kind, id, keys) = old;
    let unique = match kind {
        Kind::Agent | Kind::Lock => true,
        Kind::Effect => keys.mission == new.mission,
        _ => false,
    };
    unique && kind == value.kind && *id != value.id && keys.name == new.name
}

fn place(value: &StateValue) -> u64 {
    match value.kind {
        Kind::Sortie => {
            read_stored::<Sortie>(&value.text).map_or(u64::MAX, |sortie| sortie.position)
        }
        _ => 0,
    }
}

fn progress(cut: &Cut) -> Progress {
    let completed = cut.sorties.get(SortieStatus::Completed.as_str());
    Progress {
        completed: completed.copied().unwrap_or(0),
        total: cut.sortie_count(),
    }
}

impl FileChanges<'_> {
    fn apply(&self, tx: &mut Tx<'_>) -> Result<()> {
        let id = self.checkpoint.id;
        for (kind, key) in &self.gone {
            act(tx, *kind, &Act::Remove(key))?;
        }
        for (value, _) in &self.set {
            act(tx, value.kind, &Act::Set(value))?;
        }
        for reached in &self.milestones {
            let data = json!({ "percent": reached.percent, "checkpoint_id": id });
            tx.set(EventType::MilestoneKept, reached, &data)?;
        }
        let old = &self.checkpoint.cut;
        let cut = Cut {
            rev: tx.rev(),
            sections: sections(tx.lines(old.mission_id)?, old.digest),
            ..old.clone()
        };
        let checkpoint = Checkpoint {
            sha256: cut.sha256(),
            status: match self.checkpoint.status {
                CheckpointStatus::Archived => CheckpointStatus::Archived,
                // The file's content is sound, whatever its status was when it was written.
                CheckpointStatus::Creating
                | CheckpointStatus::Valid
                | CheckpointStatus::Corrupted
                | CheckpointStatus::Expired => CheckpointStatus::Valid,
            },
            cut,
            taken_in: Some(lineage::taken_in(self.checkpoint, self.history)),
            ..self.checkpoint.clone()
        };
        let data = json!({ "checkpoint_id": id, "rev": old.rev, "history": self.history });
        tx.set(EventType::CheckpointRebuilt, &checkpoint, &data)?;
        tx.set_backup(id, &Backup::Pending)?;
        if let Some(seen) = self.file_system {
            act(tx, Kind::FileSystem, &Act::Set(seen))?;
        }
        Ok(())
    }
}

enum Act<'a> {
    Set(&'a StateValue),
    Remove(&'a str),
}

/// Carries out one change, as an event about a subject of its own type.
fn act(tx: &mut Tx<'_>, kind: Kind, act: &Act<'_>) -> Result<()> {
    fn to<S: Subject>(tx: &mut Tx<'_>, act: &Act<'_>) -> Result<()> {
        match act {
            Act::Set(value) => {
                let subject: S = read_stored(&value.text).map_err(|error| {
                    Error::from(flightline_store::StoreError::Corrupt(format!(
                        "{} {} cannot be read: {error}",
                        value.kind, value.id
                    )))
                })?;
                tx.set(
                    EventType::ValueRebuilt,
                    &subject,
                    &json!({ "rev": value.rev }),
                )?;
            }
            Act::Remove(id) => {
                if let Some(subject) = tx.get::<S>(id)? {
                    tx.remove(EventType::ValueRebuilt, &subject, &json!({}))?;
                }
            }
        }
        Ok(())
    }
    match kind {
        Kind::Mission => to::<Mission>(tx, act),
        Kind::Sortie => to::<Sortie>(tx, act),
        Kind::Subtask => to::<Subtask>(tx, act),
        Kind::File => to::<SortieFile>(tx, act),
        Kind::Error => to::<SortieError>(tx, act),
        Kind::Review => to::<Review>(tx, act),
        Kind::Agent => to::<Agent>(tx, act),
        Kind::Step => to::<Step>(tx, act),
        Kind::Lock => to::<Lock>(tx, act),
        Kind::Message => to::<Message>(tx, act),
        Kind::Delivery => to::<Delivery>(tx, act),
        Kind::Note => to::<MissionNote>(tx, act),
        Kind::Effect => to::<Effect>(tx, act),
        // Subjects of these kinds are in no cut.
        Kind::Setting
        | Kind::Checkpoint
        | Kind::Milestone
        | Kind::Recovery
        | Kind::Briefing
        | Kind::Import
        | Kind::Original
        | Kind::Token => Ok(()),
        Kind::FileSystem => to::<RecordedFiles>(tx, act),
    }
}
