//! Classifies errors of SQLite and of files.

use rusqlite::ErrorCode;

use crate::error::StoreError;

pub(super) fn io(act: &'static str, error: &std::io::Error) -> StoreError {
    match error.kind() {
        std::io::ErrorKind::PermissionDenied | std::io::ErrorKind::ReadOnlyFilesystem => {
            StoreError::ReadOnly(error.to_string())
        }
        std::io::ErrorKind::StorageFull => StoreError::Full(error.to_string()),
        _ => StoreError::Engine {
            act,
            cause: error.to_string(),
        },
    }
}

pub(super) fn classify(act: &'static str, error: &rusqlite::Error) -> StoreError {
    let cause = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            StoreError::Busy("another program holds the database".to_owned())
        }
        Some(ErrorCode::DiskFull) => StoreError::Full(cause),
        Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            StoreError::ReadOnly(cause)
        }
        Some(ErrorCode::SystemIoFailure) if was_writing(error) => StoreError::ReadOnly(cause),
        // Writers of a project come one after the other: a duplicate was damaged before.
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::ConstraintViolation) => {
            StoreError::Corrupt(cause)
        }
        Some(ErrorCode::NotADatabase) => StoreError::NotOurs("the file".to_owned()),
        _ => StoreError::Engine { act, cause },
    }
}

/// Returns true when a file did not take the write. Nothing is committed then: the mark of the commit would have been
/// written last. (Data that may not have reached the disk, because waiting for that failed, is another matter.)
fn was_writing(error: &rusqlite::Error) -> bool {
    let extended = error.sqlite_error().map(|error| error.extended_code);
    extended == Some(rusqlite::ffi::SQLITE_IOERR_WRITE)
}
