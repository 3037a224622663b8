//! A whole new store from the files of checkpoints, when the store itself is lost.

mod history;

use std::fs;
use std::path::{Path, PathBuf};

use flightline_core::checkpoint::Reason;
use flightline_core::mission::Mission;
use flightline_core::policy::Policy;
use flightline_core::setting::Restoration;
use flightline_core::{CheckpointId, Code, Refusal};
use flightline_store::{Actor, Error as StoreError, Find, Location, OpenOptions, Store};
use serde::{Deserialize, Serialize};
use serde_json::json;

use self::history::History;
use crate::backup::{Seen, free_file, void_epochs, void_locks};
use crate::checkpoint::CheckpointDocument;
use crate::checkpoint::trigger::trigger;
use crate::checkpoint::{backups, files};
use crate::desk::Desk;
use crate::error::{Error, Result};
use crate::fleet::{Caller, Fleet, Scope};
use crate::mission::short;

/// So many revisions may have been given out since the newest file: no fence is ever given twice.
const FORGOTTEN: u64 = 1_000_000;

/// How the folder begins in which a new store is built.
const SIDE: &str = ".rebuild-";

/// A store was built anew.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Rebuilt {
    /// The checkpoints that each mission's state is from.
    pub from: Vec<CheckpointId>,
    /// The checkpoints that are in the store again, oldest first.
    pub checkpoints: Vec<CheckpointId>,
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

/// Builds a new store from the sound checkpoint files: to the side first, verified, then put in place in one
/// transaction, with a checkpoint of each mission. Missions, their work and their checkpoints keep their ids;
/// the history is new, its counter and its epochs above everything that was ever seen, so that no cursor,
/// fence or epoch of before is accepted. Whoever dies on the way leaves the old store or the new one, and can
/// begin again.
///
/// # Errors
/// When no file is sound, or the new store cannot be written; then the old one is as it was.
pub fn rebuild(request: &Rebuild<'_>, caller: &Caller) -> Result<Rebuilt> {
    let (documents, mut skipped) = gather(request.state);
    let side = request.state.join(format!("{SIDE}{}", request.stamp));
    clear_sides(request.state);
    let built = build(request, &side, &documents).and_then(|(history, file)| {
        if history.checkpoints.is_empty() {
            skipped.extend(history.skipped);
            return Err(Refusal::new(
                Code::NotFound,
                "there is no sound checkpoint file to build a store from",
            )
            .hint("restore a backup instead: `fleet restore FILE`")
            .details(json!({ "skipped": skipped }))
            .into());
        }
        let (seen, set_aside) = clear_the_way(request)?;
        let newest = documents.last().map_or(0, |document| document.rev);
        put_in_place(request, &file, newest + FORGOTTEN, &seen, caller)?;
        Ok((history, set_aside))
    });
    let _ = fs::remove_dir_all(&side);
    let (history, set_aside) = built?;
    skipped.extend(history.skipped);
    Ok(Rebuilt {
        from: history.newest.into_values().collect(),
        checkpoints: history.checkpoints,
        values: history.values,
        skipped,
        lost: vec![
            "events: the journal begins anew, with what changed from file to file".to_owned(),
            "what was acknowledged after each mission's newest checkpoint file".to_owned(),
            "locks: agents take them again".to_owned(),
            "mail that belongs to no mission, heartbeats, idempotency keys".to_owned(),
            "missions and checkpoints that never had a file".to_owned(),
            "what was pinned or noted after a file was written; what `fleet undo` would take back"
                .to_owned(),
        ],
        set_aside,
    })
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
    // Revisions grow through all histories of a project.
    documents.sort_by_key(|document| (document.rev, document.id));
    (documents, skipped)
}

/// Removes what a rebuild that died left behind.
fn clear_sides(state: &Path) {
    for entry in fs::read_dir(state).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(SIDE) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn build(
    request: &Rebuild<'_>,
    side: &Path,
    documents: &[CheckpointDocument],
) -> Result<(History, PathBuf)> {
    let location = Location::Folder(side.to_path_buf());
    let options = OpenOptions {
        rehearse: false,
        ..request.options.clone()
    };
    let mut store = Store::create(&location, request.project, request.name, options)?;
    let history = history::write(&mut store, documents)?;
    let file = side.join("rebuilt.db");
    store.back_up(&file)?;
    Ok((history, file))
}

/// Keeps what is there: a copy of a store that can be read, whose content is then replaced in one
/// transaction; else its files, moved out of the way. Says what it knew of epochs, too.
fn clear_the_way(request: &Rebuild<'_>) -> Result<(Seen, Vec<PathBuf>)> {
    let opened = Store::open(request.location, request.project, request.options.clone());
    let mut known = Seen::NOTHING;
    if let Ok(mut store) = opened {
        // A project that is not there, or whose row cannot be read, tells nothing.
        known = Seen::by(&mut store).unwrap_or(Seen::NOTHING);
        let stem = format!("before-rebuild-{}", request.stamp);
        let keep = free_file(request.state, &stem)?;
        let kept = match store.back_up(&keep) {
            Err(StoreError::Corrupt(_)) => store.back_up_as_it_is(&keep),
            kept => kept,
        };
        match (kept, request.location) {
            (Ok(_), _) => return Ok((known, vec![keep])),
            (Err(StoreError::UnknownProject(_)), _) => return Ok((known, Vec::new())),
            (Err(error), Location::Postgres(_)) => return Err(error.into()),
            (Err(_), Location::Folder(_)) => {}
        }
    }
    let Location::Folder(folder) = request.location else {
        return Ok((known, Vec::new()));
    };
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
    Ok((known, moved))
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
        void_locks(tx, "the store was rebuilt")?;
        void_epochs(tx, seen, "the store was rebuilt")?;
        let mut desk = Desk {
            tx,
            caller: &by_a_person,
            scope: Scope::Admin,
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
