//! Keeps one dialect's folder, and remembers the files that were last seen there.

pub(super) mod conflict;
mod epic;
mod intake;
mod orchestrator;

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use flightline_core::Time;
use flightline_core::dialect::epic as agents;
use flightline_core::dialect::recovery::{self, CleanUp, FoundFile};
use flightline_core::dialect::{self, Dialect, MAX_BYTES, sitebuilder};
use flightline_store::CrashPoints;
use flightline_workspace::beneath::{Dir, Replacing};

use super::{MirrorNotice, Mirrors};
use crate::clock::NameHistory;
use crate::dialect::orchestrator::files::packed;
use crate::dialect::{ExportedDocuments, Outgoing};
use crate::error::Result;
use crate::fleet::{Caller, Fleet};

/// The mode of a mirror's files: readable by all users of the repository.
const SHARED: u32 = 0o644;
const PRIVATE: u32 = 0o600;
/// The file that says up to which revision everything is in its files. It only saves work.
const SEEN: &str = ".seen";
/// The file that says that every file is to be looked at.
const AGAIN: &str = ".again";
/// The folder of the versions before updates.
const BACKUPS: &str = "backups";
/// A history and a revision are shorter than this.
const LONGEST_SEEN: usize = 200;
/// Time to wait for another command's turn.
const PATIENCE: Duration = Duration::from_secs(1);

/// The folder of one dialect. While one is open, no other process has it.
pub(super) struct MirrorFolder {
    dialect: Dialect,
    root: Dir,
    place: PathBuf,
    /// The name of the place, as people know it.
    name: &'static str,
    shadows: Dir,
    _turn: File,
}

impl MirrorFolder {
    pub(super) fn open(mirrors: &Mirrors, dialect: Dialect) -> io::Result<Self> {
        let name = Self::name(dialect);
        // Where a server keeps the fleet, nothing may have been kept here yet.
        let state = Dir::make_private(&mirrors.state)?;
        let shadows = state.make(Path::new("mirrors").join(dialect.as_str()), 0o700)?;
        let turn = shadows.lock_file(".turn")?;
        wait_for(&turn)?;
        let (root, place) = match dialect {
            Dialect::Orchestrator => (state, orchestrator::place()),
            Dialect::Sitebuilder | Dialect::Epic | Dialect::Recovery => {
                (Dir::shared(&mirrors.root)?, mirrors.inside.join(name))
            }
        };
        // Said now, and not for each file.
        root.find(&place)?;
        Ok(Self {
            dialect,
            root,
            place,
            name,
            shadows,
            _turn: turn,
        })
    }

    pub(super) const fn name(dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Sitebuilder => sitebuilder::FOLDER,
            Dialect::Epic => agents::FOLDER,
            Dialect::Orchestrator => dialect::orchestrator::FOLDER,
            Dialect::Recovery => recovery::FOLDER,
        }
    }

    /// Writes every document that is not in its place yet.
    pub(super) fn write_out(
        &self,
        given: &ExportedDocuments,
        now: Time,
        steps: &CrashPoints,
        said: &mut Vec<MirrorNotice>,
    ) {
        let (mut taken, troubles) = (BTreeSet::new(), said.len());
        for ended in &given.ended {
            if let Err(error) = self.archive(&ended.file, &ended.archive) {
                said.push(MirrorNotice::Trouble(format!(
                    "{}/{} is not in the archive: {error}",
                    self.name, ended.file
                )));
            }
        }
        for document in &given.documents {
            if !taken.insert(&document.file) {
                said.push(MirrorNotice::Trouble(format!(
                    "{} has no file of its own: {}/{} is another's",
                    document.of, self.name, document.file
                )));
                continue;
            }
            let written = match self.dialect {
                Dialect::Orchestrator => self.write_checkpoint(document, now, steps),
                Dialect::Sitebuilder | Dialect::Epic | Dialect::Recovery => {
                    self.write_one(document, now, steps)
                }
            };
            if let Err(error) = written {
                said.push(MirrorNotice::Trouble(format!(
                    "{}/{} is not up to date: {error}",
                    self.name, document.file
                )));
            }
        }
        if self.dialect == Dialect::Recovery
            && let Err(error) = self.clean_up(now)
        {
            said.push(MirrorNotice::Trouble(format!("{}: {error}", self.name)));
        }
        if self.dialect == Dialect::Orchestrator {
            self.tidy(given, now, steps, said);
        }
        // These files are not written again.
        for name in self.not_there() {
            let _ = self.shadows.remove(name);
        }
        // Only a revision without failures is noted as seen: otherwise the next update tries again.
        if said.len() == troubles {
            let seen = format!("{} {}", given.history, given.rev);
            let _ = self.shadows.put(SEEN, seen, Replacing::Yes, PRIVATE);
            let _ = self.shadows.remove(AGAIN);
        }
    }

    fn not_there(&self) -> Vec<String> {
        let mut names = self.shadows.names_in("").unwrap_or_default();
        names.retain(|name| {
            !name.starts_with('.') && matches!(self.root.entry(self.place.join(name)), Ok(None))
        });
        names
    }

    /// Returns the revision since which documents are wanted; none when all are.
    pub(super) fn since(&self, fleet: &mut Fleet) -> Result<Option<u64>> {
        // The latest is always given; the others are written once, so that a cleaned-up file stays away.
        let again =
            self.dialect != Dialect::Recovery && !matches!(self.shadows.entry(AGAIN), Ok(None));
        let since = self.seen(fleet)?.filter(|_| !again);
        // An orchestrator's mirror needs the archived and deleted checkpoints as well.
        Ok(since.or((self.dialect == Dialect::Orchestrator).then_some(0)))
    }

    /// Up to which revision of this journal everything is in its files.
    pub(super) fn seen(&self, fleet: &mut Fleet) -> Result<Option<u64>> {
        let history = fleet.run(&NameHistory {}, &Caller::default())?;
        let text = self.shadows.read_text(SEEN, LONGEST_SEEN).ok().flatten();
        let text = text.unwrap_or_default();
        let seen = text.split_once(' ').filter(|(of, _)| *of == history);
        Ok(seen.and_then(|(_, rev)| rev.parse().ok()))
    }

    /// The next time every file is looked at, whether or not the store changed.
    fn look_again(&self) {
        let _ = self.shadows.put(AGAIN, "", Replacing::Yes, PRIVATE);
    }

    fn write_one(&self, document: &Outgoing, now: Time, steps: &CrashPoints) -> io::Result<()> {
        let file = document.file.as_str();
        let path = self.place.join(file);
        let bytes = packed(document).map_err(io::Error::other)?;
        let seen = self.root.read(&path, MAX_BYTES)?;
        let is_there = seen.as_ref() == Some(&bytes);
        if is_there && self.shadow(file).as_ref() == Some(&bytes) {
            return self.retire_replaced(document);
        }
        if seen.is_none() && self.stays_away(document) {
            return Ok(());
        }
        if matches!(self.look(file)?, FileContent::Foreign { .. }) && !is_there {
            // Another program wrote since we looked: the next command takes it in first.
            return Ok(());
        }
        self.root.make(&self.place, self.folder_mode())?;
        if self.dialect == Dialect::Epic
            && let Some(before) = &seen
        {
            self.back_up(file, before, now)?;
        }
        // Between the two writes the file is as its old shadow or as the next one: ours either way.
        self.shadows
            .put(next(file), &bytes, Replacing::Yes, PRIVATE)?;
        steps.step();
        if !self.replace(file, &bytes, seen.as_deref())? {
            // Another program wrote meanwhile: the next command takes it in first.
            self.shadows.remove(next(file))?;
            return Ok(());
        }
        steps.step();
        self.shadows.rename(next(file), file)?;
        steps.step();
        self.retire_replaced(document)
    }

    /// Puts a file in the place of the one `seen` there. Returns false when another program wrote there meanwhile, or
    /// has only opened the file to write into it: that file keeps its place.
    fn replace(&self, file: &str, bytes: &[u8], seen: Option<&[u8]>) -> io::Result<bool> {
        let path = self.place.join(file);
        let Some(seen) = seen else {
            return match self.root.put(&path, bytes, Replacing::No, self.mode()) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
                put => put.map(|()| true),
            };
        };
        let aside = self.place.join(format!(".{file}.new"));
        self.root.put(&aside, bytes, Replacing::Yes, self.mode())?;
        let is = |path: &Path, bytes: &[u8]| {
            let there = self.root.read(path, MAX_BYTES);
            matches!(there, Ok(Some(there)) if there == bytes)
        };
        match self.root.swap(&aside, &path) {
            Ok(()) => {}
            // Not every file system can.
            Err(error) if error.kind() == io::ErrorKind::Unsupported && is(&path, seen) => {
                return self.root.rename(&aside, &path).map(|()| true);
            }
            Err(error) => {
                self.root.remove(&aside)?;
                return match error.kind() {
                    io::ErrorKind::Unsupported => Ok(false),
                    _ => Err(error),
                };
            }
        }
        // Opening a file to write it anew empties it: a file that is as it was seen is open in no other program.
        if is(&aside, seen) {
            self.root.remove(&aside)?;
            return Ok(true);
        }
        self.root.swap(&aside, &path)?;
        match is(&aside, bytes) {
            true => self.root.remove(&aside)?,
            // Our file was in its place for a moment, and another program opened it there.
            false => drop(self.keep_beside(&format!(".{file}.new"), file)?),
        }
        Ok(false)
    }

    fn retire_replaced(&self, document: &Outgoing) -> io::Result<()> {
        let replaced = document.replaces.as_deref();
        replaced.map_or(Ok(()), |file| self.retire(file))
    }

    /// Removes a file that another has replaced, unless another program wrote it since.
    fn retire(&self, file: &str) -> io::Result<()> {
        if matches!(self.look(file)?, FileContent::Ours) {
            self.root.remove(self.place.join(file))?;
            let _ = self.shadows.remove(file);
        }
        Ok(())
    }

    /// Keeps the version before an update, and the last ten of those.
    fn back_up(&self, file: &str, before: &[u8], now: Time) -> io::Result<()> {
        let Ok(text) = std::str::from_utf8(before) else {
            return Ok(());
        };
        let folder = self.root.make(self.place.join(BACKUPS), 0o755)?;
        let stem = file.trim_end_matches(".json");
        let refused = |refusal: flightline_core::Refusal| io::Error::other(refusal.message);
        let name = agents::backup_name(stem, now).map_err(refused)?;
        match folder.put(name, text, Replacing::No, SHARED) {
            // Two updates in one second: the first backup is the older state, and stays.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
        let backups = folder.names_in("")?;
        let names = backups.iter().map(String::as_str);
        for surplus in agents::surplus_backups(stem, names).map_err(refused)? {
            folder.remove(surplus)?;
        }
        Ok(())
    }

    /// Moves the file of an ended agent or task into the archive, whichever program wrote it last.
    fn archive(&self, file: &str, archive: &str) -> io::Result<()> {
        let from = self.place.join(file);
        if self.root.entry(&from)?.is_none() {
            return Ok(());
        }
        let folder = self.place.join("archive");
        self.root.make(&folder, 0o755)?;
        // A hard link fails where the name is taken: then it is there already, and this is the new one.
        match self.root.hard_link(&from, folder.join(archive)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            linked => linked?,
        }
        self.root.remove(&from)?;
        let _ = self.shadows.remove(file);
        Ok(())
    }

    /// Seed E's rules: old backups go, five stay, emergencies are put apart.
    fn clean_up(&self, now: Time) -> io::Result<()> {
        let mut found = Vec::new();
        for name in self.root.names_in(&self.place)? {
            // The time is in the name; a file without one, or one that we did not write, belongs to another program.
            let modified = recovery::time_in(&name).filter(|_| self.shadow(&name).is_some());
            if let Some(modified) = modified {
                found.push(FoundFile { name, modified });
            }
        }
        let plan = CleanUp::default().plan(&found, now);
        for name in &plan.archive {
            self.archive(name, name)?;
        }
        for name in &plan.delete {
            self.root.remove(self.place.join(name))?;
            let _ = self.shadows.remove(name);
        }
        Ok(())
    }

    /// The content at a file's place.
    fn look(&self, file: &str) -> io::Result<FileContent> {
        let Some(bytes) = self.root.read(self.place.join(file), MAX_BYTES)? else {
            return Ok(FileContent::Missing);
        };
        let before = match self.shadows.read(file, MAX_BYTES) {
            // A copy that the disk does not give us says nothing about whose the file is.
            Err(error) if error.raw_os_error().is_some() => return Err(error),
            read => read.ok().flatten(),
        };
        if before.as_ref() == Some(&bytes) {
            return Ok(FileContent::Ours);
        }
        let written = self.shadows.read(next(file), MAX_BYTES)?;
        if written.as_deref() == Some(&bytes) {
            // We died right after writing it.
            self.shadows.rename(next(file), file)?;
            return Ok(FileContent::Ours);
        }
        let before = before.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(FileContent::Foreign { bytes, before })
    }

    fn shadow(&self, file: &str) -> Option<Vec<u8>> {
        self.shadows.read(file, MAX_BYTES).ok().flatten()
    }

    fn remember(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        self.shadows.put(file, bytes, Replacing::Yes, PRIVATE)
    }

    fn is_document(&self, file: &str) -> bool {
        match self.dialect {
            Dialect::Orchestrator => dialect::orchestrator::is_document(file),
            // The others are copies of former latest files.
            Dialect::Recovery => file == recovery::LATEST_FILE,
            Dialect::Sitebuilder | Dialect::Epic => {
                file.ends_with(".json") && !file.starts_with('.')
            }
        }
    }

    const fn folder_mode(&self) -> u32 {
        match self.dialect {
            Dialect::Orchestrator => 0o700,
            Dialect::Sitebuilder | Dialect::Epic | Dialect::Recovery => 0o755,
        }
    }

    /// Files of a mirror are readable by all users of the repository; those in our own folder are not.
    const fn mode(&self) -> u32 {
        match self.dialect {
            Dialect::Orchestrator => PRIVATE,
            Dialect::Sitebuilder | Dialect::Epic | Dialect::Recovery => SHARED,
        }
    }
}

/// The shadow of a file that is being written.
fn next(file: &str) -> String {
    format!(".next.{file}")
}

/// Waits for a turn, but not for ever: a command that was stopped must not stop all others.
fn wait_for(turn: &File) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match turn.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() >= deadline => {
                return Err(io::Error::other("another command is at it"));
            }
            Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// The content at a file's place.
enum FileContent {
    Missing,
    /// The content that we last saw there.
    Ours,
    /// A file that another program wrote.
    Foreign {
        bytes: Vec<u8>,
        /// The content before, as we last saw it.
        before: Option<String>,
    },
}
