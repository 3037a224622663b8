//! Copies the store before a newer version changes its tables: page by page, damage included.

use std::path::Path;
use std::time::Duration;

use flightline_workspace::beneath::Dir;
use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use super::Sqlite;
use super::failure::{classify, io};
use super::place::real_path;
use crate::error::StoreError;

/// The folder for copies, beside the database.
const FOLDER: &str = "backups";
/// The number of pages that are copied at a time.
const PAGES: i32 = 1024;

impl Sqlite {
    /// Copies the database as it is to `backups/before-upgrade-VERSION.db`, or a name like it that is free. Returns the
    /// name. When this fails, nothing was changed.
    pub(super) fn copy_before_upgrade(
        &self,
        folder: &Path,
        version: i64,
    ) -> Result<String, StoreError> {
        let act = "cannot copy the store before its upgrade";
        let cannot = |error: &std::io::Error| io(act, error);
        let backups = Dir::private(folder).and_then(|folder| folder.make(FOLDER, 0o700));
        let backups = backups.map_err(|error| cannot(&error))?;
        let half = format!(".before-upgrade-{version}-{}", std::process::id());
        let created = backups
            .remove(&half)
            .and_then(|()| backups.create(&half, 0o600))
            .and_then(|()| real_path(backups.path()));
        let file = created.map_err(|error| cannot(&error))?.join(&half);
        let copied = self
            .copy_pages(&file)
            .map_err(|error| classify(act, &error))
            .and_then(|()| settle(&half, &backups, version).map_err(|error| cannot(&error)));
        let _ = backups.remove(&half);
        copied
    }

    fn copy_pages(&self, file: &Path) -> Result<(), rusqlite::Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut copy = Connection::open_with_flags(file, flags)?;
        copy.pragma_update(None, "synchronous", "FULL")?;
        Backup::new(&self.connection, &mut copy)?.run_to_completion(
            PAGES,
            Duration::from_millis(1),
            None,
        )?;
        copy.close().map_err(|(_, error)| error)
    }
}

/// Gives the finished copy a name that is free.
fn settle(half: &str, backups: &Dir, version: i64) -> std::io::Result<String> {
    for number in 1.. {
        let name = match number {
            1 => format!("before-upgrade-{version}.db"),
            _ => format!("before-upgrade-{version}-{number}.db"),
        };
        match backups.hard_link(half, &name) {
            Ok(()) => return Ok(format!("{FOLDER}/{name}")),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(std::io::ErrorKind::AlreadyExists.into())
}
