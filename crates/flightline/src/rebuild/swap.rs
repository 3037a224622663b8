//! Replaces a store that cannot take new content, with all its files, by a finished one.

use std::path::{Path, PathBuf};

use flightline_core::{Code, Refusal};
use flightline_store::{Location, Store, aside};
use flightline_workspace::beneath::{Dir, Replacing};

use super::{Built, REBUILD_FOLDER, Rebuild, Rebuilt, fill};
use crate::backup::ReplacedStore;
use crate::error::Result;
use crate::fleet::Caller;

/// The folder of the finished store, below that in which it is built.
const WHOLE: &str = "whole";
/// Prefix of the folders that keep an old store.
const KEPT: &str = "lost-";
/// The largest report of a rebuild.
const LONGEST: usize = 16 * 1024 * 1024;
/// Name of the file that says that the store to the side is finished, with the report of the rebuild.
const READY: &str = "ready.json";

/// Finishes the new store to the side, with the knowledge that the old one still has. Then the old store's files go,
/// and the new store takes their place.
pub(super) fn replace_files(
    request: &Rebuild<'_>,
    built: &Built<'_>,
    done: &mut Rebuilt,
    caller: &Caller,
) -> Result<()> {
    let Location::Folder(folder) = request.location else {
        return Err(Refusal::new(Code::Failed, "the store is not in a folder").into());
    };
    let whole = built.side.join(WHOLE);
    let location = Location::Folder(whole.clone());
    let mut store = Store::create_empty(&location, request.project, request.options.clone())?;
    let old = salvage(request, &mut store, done);
    let built = Built {
        above: built.above.max(old.rev),
        follows: built.follows.clone(),
        ..*built
    };
    fill(&mut store, &built, &old.seen, caller)?;
    // The file alone is the whole store from here on.
    let left = store.fold_log(true)?;
    drop(store);
    if left > 0 {
        return Err(Refusal::new(Code::Failed, "the new store could not be finished").into());
    }
    if aside::holds_database(folder) {
        let set_aside = free_folder(folder, request.stamp);
        done.set_aside.push(folder.join(set_aside));
    }
    make_ready(built.side, done).map_err(|error| cannot("finish", built.side, &error))?;
    request.options.steps.step();
    put_in_place(request, folder, built.side, done)
}

/// Puts the finished store of a rebuild that died into its place.
pub(super) fn complete(request: &Rebuild<'_>) -> Result<Option<Rebuilt>> {
    let Location::Folder(folder) = request.location else {
        return Ok(None);
    };
    let Some((side, done)) = unfinished(folder) else {
        return Ok(None);
    };
    put_in_place(request, folder, &side, &done)?;
    remove_side(&side);
    Ok(Some(done))
}

/// Returns true when a rebuild died after the old store had given way and before the new one was in its place: the
/// next rebuild completes it.
pub fn is_unfinished(location: &Location) -> bool {
    match location {
        Location::Folder(folder) => unfinished(folder).is_some(),
        Location::Postgres(_) => false,
    }
}

fn unfinished(folder: &Path) -> Option<(PathBuf, Rebuilt)> {
    // While there is a database, nothing has given way, or all is done.
    if aside::holds_database(folder) {
        return None;
    }
    let place = Dir::private(folder).ok()?;
    let names = place.names_in("").ok()?.into_iter();
    names
        .filter(|name| name.starts_with(REBUILD_FOLDER))
        .find_map(|name| {
            let side = folder.join(&name);
            let ready = Path::new(&name).join(READY);
            let text = place.read_text(ready, LONGEST).ok()??;
            let done = serde_json::from_str(&text).ok()?;
            aside::holds_database(&side.join(WHOLE)).then_some((side, done))
        })
}

/// Removes the folder in which a store was built.
pub(super) fn remove_side(side: &Path) {
    if let (Some(above), Some(name)) = (side.parent(), side.file_name()) {
        let _ = Dir::private(above).and_then(|above| above.remove_folder(name));
    }
}

fn put_in_place(request: &Rebuild<'_>, folder: &Path, side: &Path, done: &Rebuilt) -> Result<()> {
    // Only the name of the noted path counts: the file is below the folder, whatever else the note says.
    let named = done.set_aside.first().and_then(|path| path.file_name());
    let named = named.filter(|name| name.to_string_lossy().starts_with(KEPT));
    let aside = named.map_or_else(|| free_folder(folder, request.stamp), PathBuf::from);
    let whole = Path::new(side.file_name().unwrap_or_default()).join(WHOLE);
    aside::put_in_place(folder, &whole, &aside, &request.options)?;
    Ok(())
}

struct Old {
    seen: ReplacedStore,
    rev: u64,
}

/// Reads the old store as far as that is possible, and takes over the other projects in it.
fn salvage(request: &Rebuild<'_>, new: &mut Store, done: &mut Rebuilt) -> Old {
    let acknowledged = match request.location {
        Location::Folder(folder) => aside::last_acknowledged(folder, request.project),
        Location::Postgres(_) => 0,
    };
    let mut old = Old {
        seen: ReplacedStore::NOTHING,
        rev: acknowledged,
    };
    let opened = Store::open(request.location, request.project, request.options.clone());
    let Ok(mut store) = opened else { return old };
    old.seen = ReplacedStore::by(&mut store).unwrap_or(ReplacedStore::NOTHING);
    let rev = store.title(request.project).map_or(0, |(rev, _)| rev);
    old.rev = old.rev.max(rev);
    for other in store.projects().unwrap_or_default() {
        if other == request.project {
            continue;
        }
        if let Err(error) = new.adopt(&mut store, &other) {
            done.lost.push(format!(
                "the project {other}, which was in the same store and cannot be copied: {error}"
            ));
        }
    }
    old
}

/// A name that is free yet for the folder in which the old store is kept, below `folder`.
fn free_folder(folder: &Path, stamp: &str) -> PathBuf {
    let name = |number: u32| match number {
        0 => PathBuf::from(format!("{KEPT}{stamp}")),
        _ => PathBuf::from(format!("{KEPT}{stamp}-{number}")),
    };
    let place = Dir::private(folder).ok();
    let is_free = |name: &PathBuf| {
        let seen = place.as_ref().map(|place| place.entry(name));
        matches!(seen, Some(Ok(None)) | None)
    };
    (0..1000).map(name).find(is_free).unwrap_or_else(|| name(0))
}

fn make_ready(side: &Path, done: &Rebuilt) -> std::io::Result<()> {
    let text = serde_json::to_string(done)?;
    Dir::private(side)?.put(READY, text, Replacing::No, 0o600)
}

fn cannot(act: &str, path: &Path, error: &std::io::Error) -> Refusal {
    Refusal::new(
        Code::Unavailable,
        format!("cannot {act} {}: {error}", path.display()),
    )
}
