//! Mirrors: the other systems' files, kept up to date beside the work.
//!
//! A mirror is shared ground: agents of those systems write the same files. So we remember the last seen content of
//! each file (its *shadow*, in the state folder). A file that equals its shadow is ours to replace; any other was
//! written by another program, and is taken in before anything is written. A file that cannot be taken in is kept
//! beside it as `.conflict`, and reported.
//!
//! Nothing here fails the work: trouble is said, and the next command tries again.

mod folder;

use std::io;
use std::path::{Path, PathBuf};

use flightline_core::dialect::sitebuilder::{STATUS_FILE, place_in_status};
use flightline_core::dialect::{Dialect, MAX_BYTES};
use flightline_core::redact::shown;
use flightline_core::{Code, Refusal};
use flightline_workspace::beneath::{Dir, Replacing};

use crate::dialect::{ExportDocuments, ImportedDocument};
use crate::error::{Error, Result};
use crate::fleet::{Caller, Fleet};
use crate::status::Attention;
use crate::task::ShowTaskTable;

use folder::MirrorFolder;
pub use folder::conflict::Conflict;

/// A notice about a mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MirrorNotice {
    Done(String),
    Trouble(String),
}

#[derive(Clone, Debug)]
pub struct Mirrors {
    pub root: PathBuf,
    /// The folder in the repository that holds them; empty when it is the repository itself.
    pub inside: PathBuf,
    /// The state folder: what we last saw is remembered there.
    pub state: PathBuf,
    pub dialects: Vec<Dialect>,
}

impl Mirrors {
    /// The files and folders that mirrors write, relative to their root.
    pub fn places(&self) -> Vec<&'static str> {
        let of = |dialect: &Dialect| match dialect {
            Dialect::Sitebuilder => vec![MirrorFolder::name(*dialect), STATUS_FILE],
            dialect => vec![MirrorFolder::name(*dialect)],
        };
        self.dialects.iter().flat_map(of).collect()
    }
}

/// Takes in the files that others wrote since the last look. Returns notices.
pub fn take_in(fleet: &mut Fleet, mirrors: &Mirrors, caller: &Caller) -> Result<Vec<MirrorNotice>> {
    let (mut said, caller) = (Vec::new(), &of_all_missions(caller));
    for dialect in &mirrors.dialects {
        match MirrorFolder::open(mirrors, *dialect) {
            Ok(folder) => folder.take_in(fleet, caller, &mut said)?,
            Err(error) => said.push(trouble(*dialect, &error)),
        }
    }
    Ok(said)
}

/// The first files that were put aside, what each says otherwise than the file in its place, and the number of the others.
pub fn conflicts(mirrors: &Mirrors) -> Result<(Vec<Conflict>, usize)> {
    let (mut all, mut others) = (Vec::new(), 0);
    for dialect in &mirrors.dialects {
        let folder =
            MirrorFolder::open(mirrors, *dialect).map_err(|error| unseen(*dialect, &error))?;
        let (found, more) = folder.conflicts();
        all.extend(found);
        others += more;
    }
    Ok((all, others))
}

/// Takes a file in that was put aside, though it is older than the store's knowledge: the caller has decided that it holds.
pub fn take_conflict(
    fleet: &mut Fleet,
    mirrors: &Mirrors,
    caller: &Caller,
    file: &str,
) -> Result<ImportedDocument> {
    let caller = &of_all_missions(caller);
    for dialect in &mirrors.dialects {
        let folder =
            MirrorFolder::open(mirrors, *dialect).map_err(|error| unseen(*dialect, &error))?;
        if let Some(taken) = folder.take_aside(fleet, caller, file)? {
            return Ok(taken);
        }
    }
    Err(no_conflict(file))
}

/// Deletes a file that was put aside.
pub fn drop_conflict(mirrors: &Mirrors, file: &str) -> Result<()> {
    for dialect in &mirrors.dialects {
        let folder =
            MirrorFolder::open(mirrors, *dialect).map_err(|error| unseen(*dialect, &error))?;
        if folder.drop_aside(file)? {
            return Ok(());
        }
    }
    Err(no_conflict(file))
}

fn no_conflict(file: &str) -> Error {
    let message = format!("there is no conflicting file `{}`", shown(file));
    Refusal::new(Code::NotFound, message)
        .hint("list conflicting files with `fleet conflicts list`")
        .into()
}

fn unseen(dialect: Dialect, error: &io::Error) -> Refusal {
    let name = MirrorFolder::name(dialect);
    Refusal::new(Code::Failed, format!("cannot look at `{name}`: {error}"))
}

/// Writes the changes in the store since the last time. Returns notices.
pub fn write_out(
    fleet: &mut Fleet,
    mirrors: &Mirrors,
    caller: &Caller,
) -> Result<Vec<MirrorNotice>> {
    let (mut said, caller) = (Vec::new(), &of_all_missions(caller));
    for dialect in &mirrors.dialects {
        let folder = match MirrorFolder::open(mirrors, *dialect) {
            Ok(folder) => folder,
            Err(error) => {
                said.push(trouble(*dialect, &error));
                continue;
            }
        };
        let request = ExportDocuments {
            dialect: *dialect,
            mission: None,
            since: folder.since(fleet)?,
            ended_since: folder.seen(fleet)?,
        };
        let now = fleet.now()?;
        let given = fleet.run(&request, caller)?;
        folder.write_out(&given, now, &fleet.steps(), &mut said);
        if *dialect == Dialect::Sitebuilder {
            status_page(fleet, mirrors, caller, &mut said)?;
        }
    }
    Ok(said)
}

/// The files put aside in the mirrors that need a person; none where the mirrors cannot be read, which every command
/// reports.
pub fn attention(mirrors: &Mirrors) -> Vec<Attention> {
    let (found, _) = conflicts(mirrors).unwrap_or_default();
    let told = found.into_iter().filter_map(|conflict| {
        let mut next = conflict.next.iter();
        let attention = Attention::new(conflict.line(), next.next()?.clone());
        Some(next.fold(attention, |attention, other| {
            attention.otherwise(other.clone())
        }))
    });
    told.collect()
}

/// Mirrors are of all missions, whichever the command is about.
fn of_all_missions(caller: &Caller) -> Caller {
    Caller {
        mission: None,
        ..caller.clone()
    }
}

/// Brings the table in `progress/STATUS.md` up to date, and nothing else of that page.
fn status_page(
    fleet: &mut Fleet,
    mirrors: &Mirrors,
    caller: &Caller,
    said: &mut Vec<MirrorNotice>,
) -> Result<()> {
    let table = fleet.run(&ShowTaskTable { mission: None }, caller)?;
    let file = mirrors.inside.join(STATUS_FILE);
    let written = Dir::shared(&mirrors.root).and_then(|root| {
        let bytes = root.read(&file, MAX_BYTES)?;
        let page = String::from_utf8(bytes.unwrap_or_default()).map_err(io::Error::other)?;
        let new = place_in_status(&page, &table.text)
            .map_err(|refusal| io::Error::other(refusal.message))?;
        if new == page || (page.is_empty() && table.tasks.is_empty()) {
            return Ok(());
        }
        root.make(file.parent().unwrap_or(Path::new("")), 0o755)?;
        root.put(&file, &new, Replacing::Yes, 0o644)
    });
    if let Err(error) = written {
        said.push(MirrorNotice::Trouble(format!(
            "{STATUS_FILE} is not up to date: {error}"
        )));
    }
    Ok(())
}

fn trouble(dialect: Dialect, error: &std::io::Error) -> MirrorNotice {
    MirrorNotice::Trouble(format!(
        "the mirror `{}` is not kept: {error}",
        dialect.as_str()
    ))
}
