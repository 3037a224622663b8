//! The folder and the file of a store: private, and on a disk of this machine.

use std::io;
use std::path::{Path, PathBuf};

use flightline_workspace::beneath::{Dir, DirEntry};

use super::{FILE, anchor, failure};
use crate::engine::queue::QUEUE;
use crate::error::StoreError;

pub(super) fn create_private(folder: &Path) -> Result<(), StoreError> {
    let cannot = |error: io::Error| failure::io("cannot create the store", &error);
    let place = Dir::make_private(folder).map_err(cannot)?;
    match place.create(FILE, 0o600) {
        // The file is there already, and was not opened.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.map_err(cannot),
    }
}

/// The folder's path without links on the way to it; its own name stays, so that a link in its place is seen.
pub(super) fn real_path(folder: &Path) -> io::Result<PathBuf> {
    let Some(name) = folder.file_name() else {
        return folder.canonicalize();
    };
    let above = match folder.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    };
    Ok(above.canonicalize()?.join(name))
}

/// Takes the rights of other users to the store's files away. The files of the database were checked before.
pub(super) fn repair_modes(
    place: &Dir,
    mut files: Vec<(&'static str, DirEntry)>,
    repaired: &mut Vec<String>,
) {
    let own = place.path().file_name().unwrap_or_default();
    for name in [QUEUE, anchor::FILE] {
        let seen = place.entry(name).ok().flatten();
        files.extend(seen.map(|seen| (name, seen)));
    }
    let folder = place.seen().ok().map(|seen| (None, seen, 0o700));
    let files = files
        .into_iter()
        .map(|(name, seen)| (Some(name), seen, 0o600));
    for (name, seen, wanted) in folder.into_iter().chain(files) {
        let mode = seen.mode;
        if mode & !wanted == 0 {
            continue;
        }
        let shown = name.map_or_else(|| own.to_string_lossy().into_owned(), str::to_owned);
        repaired.push(match place.set_mode(name.unwrap_or("."), wanted) {
            Ok(()) => format!("`{shown}` was open to others (mode {mode:o}); made it {wanted:o}"),
            Err(error) => format!(
                "`{shown}` is open to others (mode {mode:o}) and cannot be changed: {error}"
            ),
        });
    }
}

/// Refuses a network file system: SQLite's locks do not hold over a network.
pub(super) fn refuse_network(folder: &Path) -> Result<(), StoreError> {
    const NETWORK: [(i64, &str); 6] = [
        (0x6969, "NFS"),
        (0x517B, "SMB"),
        (0xFE53_4D42, "SMB2"),
        (0xFF53_4D42, "CIFS"),
        (0x5346_414F, "AFS"),
        (0x0102_1997, "9P"),
    ];
    let Ok(statistics) = rustix::fs::statfs(folder) else {
        return Ok(());
    };
    #[expect(
        clippy::unnecessary_cast,
        reason = "its type differs between platforms"
    )]
    let kind = statistics.f_type as i64;
    match NETWORK.iter().find(|(magic, _)| *magic == kind) {
        None => Ok(()),
        Some((_, name)) => Err(StoreError::Location(format!(
            "{} is on a network file system ({name}), where SQLite's locks do not hold: use `--location postgres://…`",
            folder.display()
        ))),
    }
}
