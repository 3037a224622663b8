//! Replaces a whole store by another: checks that a store could take new content itself, and if not, moves its files aside
//! for a finished store.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use flightline_workspace::beneath::Dir;

use crate::copy::{Copied, copy_rows};
use crate::engine::queue::WriterQueue;
use crate::engine::{Durability, sqlite};
use crate::error::StoreError;
use crate::store::{OpenOptions, Store};
use crate::table::project::{self, ProjectRow};

impl Store {
    /// Returns true when the engine finds its files sound, and every table, index and view is exactly as in `fresh`, a
    /// store made just now. Only such a store may take other content in the place of its own.
    pub fn is_intact(&mut self, fresh: &mut Self) -> bool {
        let sound = self.driver().integrity();
        if !sound.is_ok_and(|problems| problems.is_empty()) {
            return false;
        }
        match (self.driver().definitions(), fresh.driver().definitions()) {
            (Ok(ours), Ok(theirs)) => ours == theirs,
            _ => false,
        }
    }

    /// The project's last revision, and its name.
    pub fn title(&mut self, id: &str) -> Result<(u64, String), StoreError> {
        let row = self.driver().take_project(id, false)?;
        let row = row.ok_or_else(|| StoreError::UnknownProject(id.to_owned()))?;
        let project = ProjectRow::from_row(self.driver(), id, &row)?;
        Ok((project.rev, project.name))
    }

    /// Takes a project over from another store, with its history and its counter, as it is. When this fails, nothing has
    /// changed.
    pub fn adopt(&mut self, from: &mut Self, id: &str) -> Result<Copied, StoreError> {
        let patience = self.patience();
        from.driver().begin_read()?;
        self.driver().begin_write(Durability::Full, patience)?;
        let copied = self.adopt_rows(from, id);
        from.driver().rollback();
        match copied {
            Ok(copied) => {
                self.driver().commit()?;
                Ok(copied)
            }
            Err(error) => {
                self.driver().rollback();
                Err(error)
            }
        }
    }

    fn adopt_rows(&mut self, from: &mut Self, id: &str) -> Result<Copied, StoreError> {
        let row = from.driver().take_project(id, false)?;
        let row = row.ok_or_else(|| StoreError::UnknownProject(id.to_owned()))?;
        let row = ProjectRow::from_row(from.driver(), id, &row)?;
        project::insert(self.driver(), &row)?;
        let copied = copy_rows(from.driver(), self.driver(), id, id)?;
        Ok(Copied {
            rev: row.rev,
            history: row.history,
            ..copied
        })
    }
}

/// Returns true when there is a database in this folder, be it damaged or something else. A database that was only begun,
/// and is empty, does not count.
pub fn holds_database(folder: &Path) -> bool {
    let seen = Dir::private(folder).and_then(|folder| folder.entry(sqlite::FILE));
    matches!(seen, Ok(Some(seen)) if !seen.is_file() || seen.size > 0)
}

/// The last revision of a project that was acknowledged in this folder, also when its database is lost.
pub fn last_acknowledged(folder: &Path, project: &str) -> u64 {
    let last = Dir::private(folder)
        .map(|folder| sqlite::anchor::AnchorFolder::new(Arc::new(folder)).read(project));
    last.map_or(0, |last| last.ok().flatten().map_or(0, |last| last.rev))
}

/// Moves the database of `folder` and the files that belong to it into `aside`, and the finished one in `new` into its
/// place; both are folders below it. No process writes meanwhile. The database goes first: should this end half-way,
/// there is no store, never one without its log, and calling it again completes it. Fails when another process writes for
/// too long.
pub fn put_in_place(
    folder: &Path,
    new: &Path,
    aside: &Path,
    options: &OpenOptions,
) -> Result<(), StoreError> {
    let step = || options.steps.step();
    let place = Dir::private(folder).map_err(|error| cannot("open", folder, &error))?;
    let place = Arc::new(place);
    let mut queue = WriterQueue::new(Arc::clone(&place), &options.purpose);
    let _turn = queue.wait(options.patience)?;
    // The last acknowledged revision belongs to the old store.
    let names = [
        sqlite::FILE,
        sqlite::LOG,
        sqlite::INDEX,
        sqlite::anchor::FILE,
    ];
    let is_there = |name: &&str| !matches!(place.entry(name), Ok(None));
    if names.iter().any(is_there) {
        place
            .make(aside, 0o700)
            .map_err(|error| cannot("make", aside, &error))?;
    }
    for name in names {
        step();
        match place.rename(name, aside.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(cannot("move away", &folder.join(name), &error));
            }
            _ => {}
        }
    }
    step();
    let synced = place.find(aside).and_then(|aside| match aside {
        Some(aside) => aside.sync(),
        None => Ok(()),
    });
    synced
        .and_then(|()| place.sync())
        .map_err(|error| cannot("write", folder, &error))?;
    step();
    let finished = new.join(sqlite::FILE);
    place
        .rename(&finished, sqlite::FILE)
        .map_err(|error| cannot("put in its place", &folder.join(&finished), &error))?;
    step();
    place
        .sync()
        .map_err(|error| cannot("write", folder, &error))
}

fn cannot(act: &str, path: &Path, error: &std::io::Error) -> StoreError {
    let said = format!("cannot {act} {}: {error}", path.display());
    match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => StoreError::ReadOnly(said),
        ErrorKind::StorageFull => StoreError::Full(said),
        _ => StoreError::Location(said),
    }
}
