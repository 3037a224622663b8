//! A whole new store from the files of checkpoints, when the store itself is lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use flightline_core::agent::{Agent, Step};
use flightline_core::checkpoint::Reason;
use flightline_core::effect::Effect;
use flightline_core::message::{Delivery, Message};
use flightline_core::mission::Mission;
use flightline_core::note::Note as MissionNote;
use flightline_core::setting::Restoration;
use flightline_core::sortie::{Review, Sortie, SortieError, SortieFile, Subtask};
use flightline_core::{CheckpointId, Code, Kind, MissionId, Refusal, Subject};
use flightline_store::{Actor, Find, Location, OpenOptions, Store, Tx};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::checkpoint::CheckpointDocument;
use crate::checkpoint::files::{self, StateValue};
use crate::checkpoint::take::TakeCheckpoint;
use crate::error::{Error, Result};
use crate::fleet::{Caller, Fleet};

/// A store was built anew.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Rebuilt {
    /// The checkpoints it was built from, one for each mission.
    pub from: Vec<CheckpointId>,
    /// How many values came back.
    pub values: u64,
    /// Files that could not be used, and why.
    pub skipped: Vec<String>,
    /// What files of checkpoints cannot hold.
    pub lost: Vec<String>,
    /// Where the old store's files are now.
    pub set_aside: Vec<PathBuf>,
}

/// What a rebuild is given.
pub struct Rebuild<'a> {
    /// The state folder.
    pub state: &'a Path,
    /// The project's id and name.
    pub project: &'a str,
    /// The project's name.
    pub name: &'a str,
    /// Where the store is.
    pub location: &'a Location,
    /// How it is opened.
    pub options: OpenOptions,
    /// A word for names of files that are set aside, such as the time.
    pub stamp: &'a str,
}

/// Builds a new store from the newest sound checkpoint file of each mission: to the side first, verified,
/// then put in place in one transaction. Ids stay the same; the history is new, its counter above
/// everything the files have seen, so that no cursor, fence or epoch of before is accepted.
///
/// # Errors
/// When no file is sound, or the new store cannot be written; then the old one is as it was.
pub fn rebuild(request: &Rebuild<'_>, caller: &Caller) -> Result<Rebuilt> {
    let (documents, skipped) = gather(request.state)?;
    let newest = newest_of_each(&documents);
    if newest.is_empty() {
        return Err(Refusal::new(
            Code::NotFound,
            "there is no sound checkpoint file to build a store from",
        )
        .hint("restore a backup instead: `fleet restore FILE`")
        .details(json!({ "skipped": skipped }))
        .into());
    }
    let values = merge(&newest);
    let side = request.state.join(format!(".rebuild-{}", request.stamp));
    let built = build(request, &side, &values).and_then(|file| {
        let set_aside = clear_the_way(request)?;
        let above = documents
            .iter()
            .map(|document| document.rev)
            .max()
            .unwrap_or(0)
            + 1_000;
        put_in_place(request, &file, above, caller)?;
        Ok(set_aside)
    });
    let _ = fs::remove_dir_all(&side);
    Ok(Rebuilt {
        from: newest.iter().map(|document| document.id).collect(),
        values: values.len() as u64,
        skipped,
        lost: vec![
            "events: the journal begins anew".to_owned(),
            "what was acknowledged after each mission's newest checkpoint file".to_owned(),
            "locks: agents take them again".to_owned(),
            "mail that belongs to no mission, heartbeats, idempotency keys".to_owned(),
            "missions that never had a checkpoint".to_owned(),
        ],
        set_aside: built?,
    })
}

fn gather(state: &Path) -> Result<(Vec<CheckpointDocument>, Vec<String>)> {
    let (mut documents, mut skipped) = (Vec::new(), Vec::new());
    for mission in fs::read_dir(state.join("checkpoints"))
        .into_iter()
        .flatten()
        .flatten()
    {
        for file in fs::read_dir(mission.path()).into_iter().flatten().flatten() {
            let name = file.file_name().to_string_lossy().into_owned();
            if !name.starts_with(CheckpointId::PREFIX) {
                continue;
            }
            match files::read(&file.path()) {
                Ok(document) => documents.push(document),
                Err(refusal) => skipped.push(refusal.message),
            }
        }
    }
    Ok((documents, skipped))
}

fn newest_of_each(documents: &[CheckpointDocument]) -> Vec<&CheckpointDocument> {
    let mut newest: BTreeMap<MissionId, &CheckpointDocument> = BTreeMap::new();
    for document in documents {
        let best = newest.entry(document.mission_id).or_insert(document);
        if document.rev > best.rev {
            *best = document;
        }
    }
    newest.into_values().collect()
}

/// Of what belongs to several missions, such as agents, the newest value counts.
fn merge(documents: &[&CheckpointDocument]) -> Vec<StateValue> {
    let mut values: BTreeMap<(Kind, String), &StateValue> = BTreeMap::new();
    for value in documents
        .iter()
        .filter_map(|document| document.state.as_ref())
        .flat_map(|state| &state.values)
    {
        let best = values
            .entry((value.kind, value.id.clone()))
            .or_insert(value);
        if value.rev > best.rev {
            *best = value;
        }
    }
    let mut values: Vec<StateValue> = values.into_values().cloned().collect();
    // Lists go by the order things came in: sorties by their place, everything else by its revision.
    values.sort_by_key(|value| (value.kind, place(value), value.rev));
    values
}

fn place(value: &StateValue) -> u64 {
    match value.kind {
        Kind::Sortie => {
            serde_json::from_str::<Sortie>(&value.text).map_or(u64::MAX, |sortie| sortie.position)
        }
        _ => 0,
    }
}

fn build(request: &Rebuild<'_>, side: &Path, values: &[StateValue]) -> Result<PathBuf> {
    let location = Location::Folder(side.to_path_buf());
    let options = OpenOptions {
        rehearse: false,
        ..request.options.clone()
    };
    let mut store = Store::create(&location, request.project, request.name, options)?;
    store.write(|tx| {
        tx.act_as(Actor::flightline());
        for value in values {
            set(tx, value)?;
        }
        Ok::<_, Error>(())
    })?;
    let file = side.join("rebuilt.db");
    store.back_up(&file)?;
    Ok(file)
}

/// Gives a value back, as a new event of its own type.
fn set(tx: &mut Tx<'_>, value: &StateValue) -> Result<()> {
    fn as_type<S: Subject>(tx: &mut Tx<'_>, value: &StateValue) -> Result<()> {
        let subject: S = serde_json::from_str(&value.text).map_err(|error| {
            flightline_store::Error::Corrupt(format!(
                "{} {} cannot be read: {error}",
                value.kind, value.id
            ))
        })?;
        tx.set("value_rebuilt", &subject, &json!({ "rev": value.rev }))?;
        Ok(())
    }
    match value.kind {
        Kind::Mission => as_type::<Mission>(tx, value),
        Kind::Sortie => as_type::<Sortie>(tx, value),
        Kind::Subtask => as_type::<Subtask>(tx, value),
        Kind::File => as_type::<SortieFile>(tx, value),
        Kind::Error => as_type::<SortieError>(tx, value),
        Kind::Review => as_type::<Review>(tx, value),
        Kind::Agent => as_type::<Agent>(tx, value),
        Kind::Step => as_type::<Step>(tx, value),
        Kind::Message => as_type::<Message>(tx, value),
        Kind::Delivery => as_type::<Delivery>(tx, value),
        Kind::Note => as_type::<MissionNote>(tx, value),
        Kind::Effect => as_type::<Effect>(tx, value),
        // Restoring grants nothing old; the others are in no cut.
        Kind::Lock
        | Kind::Setting
        | Kind::Checkpoint
        | Kind::Milestone
        | Kind::Recovery
        | Kind::Briefing
        | Kind::Import => Ok(()),
    }
}

/// Moves a store that cannot be opened out of the way. One that can be opened stays: its content is
/// replaced in one transaction.
fn clear_the_way(request: &Rebuild<'_>) -> Result<Vec<PathBuf>> {
    let Location::Folder(folder) = request.location else {
        return Ok(Vec::new());
    };
    if Store::open(request.location, request.project, request.options.clone())
        .and_then(|mut store| store.projects())
        .is_ok()
    {
        return Ok(Vec::new());
    }
    let mut moved = Vec::new();
    for name in ["flightline.db", "flightline.db-wal", "flightline.db-shm"] {
        let (from, to) = (
            folder.join(name),
            folder.join(format!("{name}.lost-{}", request.stamp)),
        );
        match fs::rename(&from, &to) {
            Ok(()) => moved.push(to),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(Refusal::new(
                    Code::Unavailable,
                    format!("cannot move {} away: {error}", from.display()),
                )
                .into());
            }
        }
    }
    Ok(moved)
}

fn put_in_place(request: &Rebuild<'_>, file: &Path, above: u64, caller: &Caller) -> Result<()> {
    let mut store = Store::create(
        request.location,
        request.project,
        request.name,
        request.options.clone(),
    )?;
    let actor = caller.person();
    store.restore_above(file, above, |tx, copied| {
        tx.act_as(Actor {
            name: actor.clone(),
            epoch: None,
        });
        let restoration = Restoration {
            at: tx.now(),
            rev: copied.rev,
            events: copied.events,
        };
        tx.set("store_restored", &restoration, &json!({ "rebuilt": true }))?;
        for mut agent in tx.find::<Agent>(Find::All)? {
            if agent.epoch > 0 {
                agent.epoch += 1;
                agent.session_id = None;
                agent.process = None;
                agent.updated_at = tx.now();
                tx.set(
                    "agent_session_ended",
                    &agent,
                    &json!({ "reason": "the store was rebuilt" }),
                )?;
            }
        }
        Ok::<_, Error>(())
    })?;
    let mut fleet = Fleet::new(store, flightline_core::policy::Policy::default());
    let missions = fleet
        .store()
        .read(|tx| Ok::<_, Error>(tx.find::<Mission>(Find::All)?))?;
    for mission in missions {
        let details = flightline_core::text::Note::parse("details", "The store was rebuilt")?;
        let request = TakeCheckpoint {
            mission: Some(mission.id.to_string()),
            reason: Some(Reason::Manual),
            details: Some(details),
            note: None,
        };
        fleet.run(
            &request,
            &Caller {
                agent: None,
                ..caller.clone()
            },
        )?;
    }
    files::settle(&mut fleet, request.state, caller)
}
