//! The folder and the file of a store: private, and on a disk of this machine.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::failure::io;
use crate::error::Error;

pub(super) fn create_private(folder: &Path, file: &Path) -> Result<(), Error> {
    let cannot = |error: &std::io::Error| io("cannot create the store", error);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| cannot(&error))?;
    let created = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(file);
    match created {
        Ok(_) => Ok(()),
        // It is there already, and was not opened: `create_new` fails before that.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(cannot(&error)),
    }
}

pub(super) fn repair_mode(path: &Path, mode: u32, repaired: &mut Vec<String>) {
    let Ok(seen) = fs::symlink_metadata(path) else {
        return;
    };
    let found = seen.mode() & 0o777;
    if seen.file_type().is_symlink() || found & !mode & 0o777 == 0 {
        return;
    }
    let name = path
        .file_name()
        .map_or_else(|| path.to_path_buf(), PathBuf::from);
    repaired.push(
        match fs::set_permissions(path, fs::Permissions::from_mode(mode)) {
            Ok(()) => format!(
                "`{}` was open to others (mode {found:o}); made it {mode:o}",
                name.display()
            ),
            Err(error) => format!(
                "`{}` is open to others (mode {found:o}) and cannot be changed: {error}",
                name.display()
            ),
        },
    );
}

/// SQLite's locks do not hold over a network.
pub(super) fn refuse_network(folder: &Path) -> Result<(), Error> {
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
        Some((_, name)) => Err(Error::Location(format!(
            "{} is on a network file system ({name}), where SQLite's locks do not hold: use `--location postgres://…`",
            folder.display()
        ))),
    }
}
