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
use flightline_core::policy::Policy;
use flightline_core::setting::Restoration;
use flightline_core::sortie::{Review, Sortie, SortieError, SortieFile, Subtask};
use flightline_core::{CheckpointId, Code, Kind, MissionId, Refusal, Subject};
use flightline_store::{Actor, Find, Location, OpenOptions, Store, Tx};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::backup::{Seen, void_epochs};
use crate::checkpoint::CheckpointDocument;
use crate::checkpoint::files::{self, StateValue};
use crate::checkpoint::take::trigger;
use crate::desk::Desk;
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

/// So many revisions may have been given out since the newest file: no fence is ever given twice.
const FORGOTTEN: u64 = 1_000_000;

/// How the folder begins in which a new store is built.
const SIDE: &str = ".rebuild-";

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
/// then put in place in one transaction, with a checkpoint of each mission. Ids stay the same; the history
/// is new, its counter and its epochs above everything that was ever seen, so that no cursor, fence or
/// epoch of before is accepted. Whoever dies on the way leaves the old store or the new one, and can begin
/// again.
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
    let side = request.state.join(format!("{SIDE}{}", request.stamp));
    clear_sides(request.state);
    let built = build(request, &side, &values).and_then(|file| {
        let (seen, set_aside) = clear_the_way(request)?;
        let highest = documents.iter().map(|document| document.rev).max();
        let above = highest.unwrap_or(0) + FORGOTTEN;
        put_in_place(request, &file, above, &seen, caller)?;
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
    for path in files::all(state) {
        match files::read(&path) {
            Ok(document) => documents.push(document),
            Err(refusal) => skipped.push(refusal.message),
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

/// Removes what a rebuild that died left behind.
fn clear_sides(state: &Path) {
    for entry in fs::read_dir(state).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(SIDE) {
            let _ = fs::remove_dir_all(entry.path());
        }
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
        | Kind::Briefing => Ok(()),
    }
}

/// Looks at the old store. One that cannot be opened is moved out of the way; one that can be opened
/// stays: its content is replaced in one transaction. Says what it knew of epochs, too.
fn clear_the_way(request: &Rebuild<'_>) -> Result<(Seen, Vec<PathBuf>)> {
    let opened = Store::open(request.location, request.project, request.options.clone())
        .and_then(|mut store| Ok((store.projects()?, store)));
    if let Ok((_, mut store)) = opened {
        // A project that is not there, or whose row cannot be read, tells nothing.
        return Ok((Seen::by(&mut store).unwrap_or(Seen::NOTHING), Vec::new()));
    }
    let Location::Folder(folder) = request.location else {
        return Ok((Seen::NOTHING, Vec::new()));
    };
    let mut moved = Vec::new();
    for name in ["flightline.db", "flightline.db-wal", "flightline.db-shm"] {
        let (from, to) = (
            folder.join(name),
            folder.join(format!("{name}.lost-{}", request.stamp)),
        );
        request.options.steps.step();
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
    Ok((Seen::NOTHING, moved))
}

fn put_in_place(
    request: &Rebuild<'_>,
    file: &Path,
    above: u64,
    seen: &Seen,
    caller: &Caller,
) -> Result<()> {
    let (location, options) = (request.location, request.options.clone());
    let mut store = Store::create_empty(location, request.project, options)?;
    let policy = Policy::default();
    let by_a_person = Caller {
        agent: None,
        ..caller.clone()
    };
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
        void_epochs(tx, seen, "the store was rebuilt")?;
        let mut desk = Desk {
            tx,
            caller: &by_a_person,
            policy: &policy,
            agent: None,
        };
        for mission in desk.tx.find::<Mission>(Find::All)? {
            let why = "The store was rebuilt".to_owned();
            trigger(&mut desk, &mission, Reason::Manual, why, Vec::new())?;
        }
        Ok::<_, Error>(())
    })?;
    let mut fleet = Fleet::new(store, policy);
    files::settle(&mut fleet, request.state, caller)
}
