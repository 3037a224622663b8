//! Builds a whole new store from the files of checkpoints, when the store itself is lost.

mod history;
mod lineage;
mod prospect;
mod swap;

use crate::Schema;
use std::path::{Path, PathBuf};

use flightline_core::checkpoint::Reason;
use flightline_core::event::EventType;
use flightline_core::history::FollowedHistory;
use flightline_core::mission::Mission;
use flightline_core::policy::Policy;
use flightline_core::setting::Restoration;
use flightline_core::shell::shell_word;
use flightline_core::{CheckpointId, Code, Refusal};
use flightline_store::{Actor, Find, Location, OpenOptions, Store, StoreError};
use flightline_workspace::beneath::Dir;
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::history::History;
pub use self::prospect::{Prospect, prospect};
pub use self::swap::is_unfinished;
use crate::backup::{ReplacedStore, free_file, void_epochs, void_locks};
use crate::checkpoint::CheckpointDocument;
use crate::checkpoint::trigger::trigger;
use crate::checkpoint::{backups, files};
use crate::error::{Error, Result};
use crate::fleet::{Caller, Fleet, Scope};
use crate::mission::short;
use crate::op_context::OpContext;

/// Number of revisions that may have been given out since the newest file: no fence is ever given twice.
const FORGOTTEN: u64 = 1_000_000;

/// The beginning of the name of the folder in which a new store is built.
pub const REBUILD_FOLDER: &str = ".rebuild-";

/// The outcome of building a store anew.
#[derive(Clone, Debug, Serialize, Deserialize, Schema)]
pub struct Rebuilt {
    /// The checkpoints from which each mission's state is taken.
    pub from: Vec<CheckpointId>,
    /// The checkpoints that are in the store again, oldest first.
    pub checkpoints: Vec<CheckpointId>,
    /// Number of values that were restored.
    pub values: u64,
    /// Files that could not be used, each with the reason.
    pub skipped: Vec<String>,
    /// Data that files of checkpoints cannot hold, and that is lost.
    pub lost: Vec<String>,
    /// Paths where the old store's files are now.
    pub set_aside: Vec<PathBuf>,
}

pub struct Rebuild<'a> {
    pub state: &'a Path,
    /// The project's id and name.
    pub project: &'a str,
    pub name: &'a str,
    pub location: &'a Location,
    pub options: OpenOptions,
    /// A word for names of files that are set aside, such as the time.
    pub stamp: &'a str,
}

/// Builds a new store from the sound checkpoint files: to the side first, verified, with a checkpoint of each
/// mission. Missions, their work and their checkpoints keep their ids; the history is new, its counter and its
/// epochs above everything that was ever seen, so that no cursor, fence or epoch of before is accepted.
///
/// A rebuild needs nothing of the store that was there. An intact store takes the new content in one transaction,
/// after a copy of it was made. Any other gives way, with all its files, which are kept; its readable part tells how
/// high the new counters must be, and other projects in it come along. A process that dies on the way leaves the old
/// store, the new one, or one that the next rebuild puts in place. When no file is sound or the new store cannot be
/// written, the old one is as it was.
pub fn rebuild(request: &Rebuild<'_>, caller: &Caller) -> Result<Rebuilt> {
    if let Some(done) = swap::complete(request)? {
        write_files(request, caller)?;
        return Ok(done);
    }
    let (documents, mut skipped) = gather(request.state);
    let base = match request.location {
        Location::Folder(folder) => folder,
        Location::Postgres(_) => request.state,
    };
    clear_sides(base);
    let side = base.join(format!("{REBUILD_FOLDER}{}", request.stamp));
    let built = build(request, &side, &documents).and_then(|(history, mut store, file)| {
        if history.checkpoints.is_empty() {
            skipped.extend(history.skipped);
            return Err(Refusal::new(
                Code::NotFound,
                "there is no sound checkpoint file to build a store from",
            )
            .hint(without_files(request.location))
            .details(json!({ "skipped": skipped }))
            .into());
        }
        skipped.extend(history.skipped);
        let mut done = Rebuilt {
            from: history.newest.into_values().collect(),
            checkpoints: history.checkpoints,
            values: history.values,
            skipped,
            lost: LOST.iter().map(|lost| (*lost).to_owned()).collect(),
            set_aside: Vec::new(),
        };
        let revs = documents.iter().map(|document| document.rev);
        let newest = revs.chain(documents.iter().map(lineage::taken_at)).max();
        let built = Built {
            side: &side,
            file: &file,
            follows: lineage::followed_by(&documents),
            above: newest.unwrap_or(0) + FORGOTTEN,
        };
        match replace_content(request, &built, &mut store, caller)? {
            Some(kept) => done.set_aside = kept,
            None => swap::replace_files(request, &built, &mut done, caller)?,
        }
        Ok(done)
    });
    swap::remove_side(&side);
    let done = built?;
    write_files(request, caller)?;
    Ok(done)
}

/// Data that files of checkpoints cannot hold.
const LOST: [&str; 6] = [
    "events: the journal starts again, with the changes from file to file",
    "changes acknowledged after each mission's newest checkpoint file",
    "locks: agents take them again",
    "mail that belongs to no mission, heartbeats, idempotency keys",
    "missions and checkpoints that never had a file",
    "pins and notes made after a file was written; rewinds that `fleet undo` could undo",
];

struct Built<'a> {
    /// The folder it was built in.
    side: &'a Path,
    /// The whole new store, as a backup.
    file: &'a Path,
    /// The counter begins above this.
    above: u64,
    follows: Vec<FollowedHistory>,
}

/// Returns the hint for a store that cannot be used when no file of a checkpoint is sound.
fn without_files(location: &Location) -> String {
    match location {
        Location::Folder(folder) => {
            let folder = folder.display().to_string();
            let folder = shell_word(&folder);
            format!(
                "bring a backup back: `mkdir {folder}/lost && mv {folder}/flightline.db* {folder}/lost/ && fleet init && fleet restore FILE`"
            )
        }
        Location::Postgres(_) => "restore a backup instead: `fleet restore FILE`".to_owned(),
    }
}

/// The sound files, oldest first, and why the others are not used.
fn gather(state: &Path) -> (Vec<CheckpointDocument>, Vec<String>) {
    let (mut documents, mut skipped) = (Vec::new(), Vec::new());
    for path in files::all(state) {
        match files::read(state, &path) {
            Ok(document) if path == files::name_of(document.mission_id, document.id) => {
                documents.push(document);
            }
            Ok(document) => skipped.push(format!(
                "{} is a copy of {}",
                path.display(),
                short(document.id)
            )),
            Err(refusal) => skipped.push(refusal.message),
        }
    }
    documents.sort_by_key(|document| (lineage::taken_at(document), document.id));
    let left = lineage::left_behind(&documents);
    documents.retain(|document| {
        let is_left = left.contains(&document.id);
        if is_left {
            skipped.push(format!(
                "{} belongs to a history that a restore or a rebuild left behind",
                short(document.id)
            ));
        }
        !is_left
    });
    (documents, skipped)
}

/// Removes the folders that a rebuild left when it died.
fn clear_sides(folder: &Path) {
    let place = Dir::private(folder);
    let names = place
        .as_ref()
        .ok()
        .and_then(|place| place.names_in("").ok());
    for name in names.unwrap_or_default() {
        if name.starts_with(REBUILD_FOLDER) {
            swap::remove_side(&folder.join(name));
        }
    }
}

fn build(
    request: &Rebuild<'_>,
    side: &Path,
    documents: &[CheckpointDocument],
) -> Result<(History, Store, PathBuf)> {
    let location = Location::Folder(side.to_path_buf());
    let options = OpenOptions {
        rehearse: false,
        ..request.options.clone()
    };
    let mut store = Store::create(&location, request.project, request.name, options)?;
    let history = history::write(&mut store, documents)?;
    let file = side.join("rebuilt.db");
    store.back_up(&file)?;
    Ok((history, store, file))
}

/// Replaces the content of a store that is intact, in one transaction, and says where it is kept as it was. Nothing
/// when it is not, or turns out not to be.
fn replace_content(
    request: &Rebuild<'_>,
    built: &Built<'_>,
    fresh: &mut Store,
    caller: &Caller,
) -> Result<Option<Vec<PathBuf>>> {
    let is_folder = matches!(request.location, Location::Folder(_));
    let opened = Store::open(request.location, request.project, request.options.clone());
    let mut store = match opened {
        Ok(store) => store,
        Err(_) if is_folder => return Ok(None),
        // The database is a server's, and may have no tables yet.
        Err(_) => Store::create_empty(request.location, request.project, request.options.clone())?,
    };
    if is_folder && !store.is_intact(fresh) {
        return Ok(None);
    }
    // A project that is not there, or whose row cannot be read, tells nothing.
    let seen = ReplacedStore::by(&mut store).unwrap_or(ReplacedStore::NOTHING);
    let stem = format!("before-rebuild-{}", request.stamp);
    let keep = free_file(request.state, &stem)?;
    let kept = match store.back_up(&keep) {
        Err(StoreError::Corrupt(_)) => store.back_up_as_it_is(&keep),
        kept => kept,
    };
    let kept = match kept {
        Ok(_) => vec![keep],
        Err(StoreError::UnknownProject(_)) => Vec::new(),
        Err(_) if is_folder => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match fill(&mut store, built, &seen, caller) {
        Ok(()) => Ok(Some(kept)),
        Err(Error::Store(StoreError::Corrupt(_) | StoreError::Engine { .. })) if is_folder => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Gives a store the content that was built, in one transaction.
fn fill(store: &mut Store, built: &Built<'_>, seen: &ReplacedStore, caller: &Caller) -> Result<()> {
    let policy = Policy::default();
    let by_a_person = Caller {
        agent: None,
        ..caller.clone()
    };
    let actor = caller.person();
    store.restore_above(built.file, built.above, |tx, copied| {
        tx.act_as(Actor {
            name: actor.clone(),
            epoch: None,
        });
        let restoration = Restoration {
            at: tx.now(),
            rev: copied.rev,
            events: copied.events,
            history: Some(tx.history().to_owned()),
            follows: built.follows.clone(),
        };
        tx.set(
            EventType::StoreRestored,
            &restoration,
            &json!({ "rebuilt": true }),
        )?;
        void_locks(tx, "the store was rebuilt")?;
        void_epochs(tx, seen, "the store was rebuilt")?;
        let mut ctx = OpContext {
            tx,
            caller: &by_a_person,
            scope: Scope::Admin,
            policy: &policy,
            agent: None,
        };
        for mission in ctx.tx.find::<Mission>(Find::All)? {
            let why = "The store was rebuilt".to_owned();
            trigger(&mut ctx, &mission, Reason::Manual, why, Vec::new())?;
        }
        Ok::<_, Error>(())
    })
}

/// Writes the files of all checkpoints anew: their hashes are those of the new history.
fn write_files(request: &Rebuild<'_>, caller: &Caller) -> Result<()> {
    let store = Store::open(request.location, request.project, request.options.clone())?;
    let mut fleet = Fleet::new(store, Policy::default());
    // Each call writes a few.
    let files = fleet.store()?.read(|tx| tx.unsettled_backups())?.len();
    for _ in 0..=files {
        if fleet.store()?.read(|tx| tx.unsettled_backups())?.is_empty() {
            break;
        }
        backups::settle(&mut fleet, request.state, caller)?;
    }
    Ok(())
}
