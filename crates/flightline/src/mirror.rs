//! Mirrors: the other systems' files, kept up to date beside the work.
//!
//! A mirror is shared ground: agents of those systems write the same files. So we remember what we last saw in
//! each file (its *shadow*, in the state folder). A file that is as its shadow is ours to replace; one that is not
//! was written by somebody else, and is taken in before anything is written. What cannot be taken in is kept
//! beside it as `.conflict`, and said.
//!
//! Nothing here fails the work: trouble is said, and the next command tries again.

mod folder;

use std::path::PathBuf;

use flightline_core::dialect::Dialect;

use crate::dialect::ExportDocuments;
use crate::error::Result;
use crate::fleet::{Caller, Fleet};

use folder::Folder;

/// Something worth knowing of a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    /// It was done.
    Done(String),
    /// It was not.
    Trouble(String),
}

/// Which mirrors are kept, and where.
#[derive(Clone, Debug)]
pub struct Mirrors {
    /// The folder that holds them: the repository, or a folder in it.
    pub root: PathBuf,
    /// Where we remember what we last saw.
    pub state: PathBuf,
    /// Which.
    pub dialects: Vec<Dialect>,
}

/// Takes in what others wrote since the last look. Says what is worth knowing.
///
/// # Errors
/// When the store fails.
pub fn take_in(fleet: &mut Fleet, mirrors: &Mirrors, caller: &Caller) -> Result<Vec<Said>> {
    let mut said = Vec::new();
    for dialect in &mirrors.dialects {
        match Folder::open(mirrors, *dialect) {
            Ok(folder) => folder.take_in(fleet, caller, &mut said)?,
            Err(error) => said.push(trouble(*dialect, &error)),
        }
    }
    Ok(said)
}

/// Writes what has changed in the store since the last time. Says what is worth knowing.
///
/// # Errors
/// When the store fails.
pub fn write_out(fleet: &mut Fleet, mirrors: &Mirrors, caller: &Caller) -> Result<Vec<Said>> {
    let mut said = Vec::new();
    for dialect in &mirrors.dialects {
        let folder = match Folder::open(mirrors, *dialect) {
            Ok(folder) => folder,
            Err(error) => {
                said.push(trouble(*dialect, &error));
                continue;
            }
        };
        let request = ExportDocuments {
            dialect: *dialect,
            mission: None,
            since: None,
        };
        let now = fleet.now()?;
        let given = fleet.run(&request, caller)?;
        folder.write_out(&given, now, &fleet.store().steps(), &mut said);
    }
    Ok(said)
}

fn trouble(dialect: Dialect, error: &std::io::Error) -> Said {
    Said::Trouble(format!(
        "the mirror `{}` is not kept: {error}",
        dialect.as_str()
    ))
}
