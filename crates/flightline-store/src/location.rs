//! The location of a store: a folder for SQLite, or a PostgreSQL URL.

use std::fmt;
use std::path::PathBuf;

use flightline_core::redact::redact;

#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    Folder(PathBuf),
    Postgres(String),
}

impl Location {
    /// Reads `postgres://…` as a server and anything else as a folder.
    pub fn parse(text: &str) -> Self {
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            Self::Postgres(text.to_owned())
        } else {
            Self::Folder(PathBuf::from(text))
        }
    }

    /// The number of bytes that the store's disk has left; none where that is not ours to know.
    pub fn room(&self) -> Option<u64> {
        match self {
            Self::Folder(path) => {
                let seen = rustix::fs::statvfs(path).ok()?;
                Some(seen.f_bavail.saturating_mul(seen.f_frsize))
            }
            Self::Postgres(_) => None,
        }
    }
}

// The URL may hold a password: it is never printed whole.
impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "{}", path.display()),
            Self::Postgres(url) => f.write_str(&redact(url)),
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
