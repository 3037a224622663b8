//! One dialect's folder, and what we remember of it.

mod orchestrator;

use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use flightline_core::dialect::compress::unfolded;
use flightline_core::dialect::recovery::{self, CleanUp, FoundFile};
use flightline_core::dialect::{self, Dialect, MAX_BYTES, epic, sitebuilder};
use flightline_core::{Code, Refusal, Time};
use flightline_store::{Error as StoreError, Steps};
use flightline_workspace::beneath::{Dir, Replacing};

use super::{Mirrors, Said};
use crate::clock::NameHistory;
use crate::dialect::orchestrator::files::packed;
use crate::dialect::{ExportDocuments, GivenOut, ImportDocuments, Incoming, Outgoing, TakenIn};
use crate::error::{Error, Result};
use crate::fleet::{Caller, Fleet};

/// Files of a mirror are for everybody who works in the repository.
const SHARED: u32 = 0o644;
const PRIVATE: u32 = 0o600;
/// The file that says up to which revision everything is in its files. It only saves work.
const SEEN: &str = ".seen";
/// The file that says that every file is to be looked at.
const AGAIN: &str = ".again";
/// The folder of what was there before updates.
const BACKUPS: &str = "backups";
/// A history and a revision are shorter than this.
const LONGEST_SEEN: usize = 200;
/// What a document of seed E says when there is no checkpoint.
const NO_CHECKPOINT: &str = "{\"version\": \"1.0\", \"timestamp\": \"\"}";
/// How long another command's turn is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// One dialect's folder. While there is one, no other process has it.
pub(super) struct Folder {
    dialect: Dialect,
    /// The folder that its files are below.
    root: Dir,
    /// Where its files are, below that.
    place: PathBuf,
    /// The name of the place, as people know it.
    name: &'static str,
    /// Where their shadows are.
    shadows: Dir,
    _turn: File,
}

impl Folder {
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

    /// What a dialect's folder is called.
    pub(super) const fn name(dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Sitebuilder => sitebuilder::FOLDER,
            Dialect::Epic => epic::FOLDER,
            Dialect::Orchestrator => dialect::orchestrator::FOLDER,
            Dialect::Recovery => recovery::FOLDER,
        }
    }

    /// Takes in every file that is not as we last saw it.
    pub(super) fn take_in(
        &self,
        fleet: &mut Fleet,
        caller: &Caller,
        said: &mut Vec<Said>,
    ) -> Result<()> {
        for name in self.not_there() {
            self.look_again();
            if self.dialect == Dialect::Recovery && name == recovery::LATEST_FILE {
                // The seed deletes it when it has resumed: that is to say that there is none.
                let before = self
                    .shadow(&name)
                    .and_then(|text| String::from_utf8(text).ok());
                self.import(fleet, caller, &name, NO_CHECKPOINT, before)?;
            }
        }
        if self.dialect == Dialect::Orchestrator {
            self.compare_index(said);
        }
        let mut files = self.root.names_in(&self.place).unwrap_or_default();
        files.retain(|file| self.is_document(file));
        // What is complete has the last word.
        files.sort_by_key(|file| sitebuilder::is_archive(file));
        for file in &files {
            match self.look(file) {
                Ok(Seen::Ours | Seen::Missing) => {}
                Ok(Seen::Foreign { bytes, before }) => {
                    self.take_in_one(fleet, caller, file, &bytes, before, said)?;
                }
                Err(error) => said.push(Said::Trouble(format!(
                    "{}/{file} is left alone: {error}",
                    self.name
                ))),
            }
        }
        Ok(())
    }

    fn take_in_one(
        &self,
        fleet: &mut Fleet,
        caller: &Caller,
        file: &str,
        bytes: &[u8],
        before: Option<String>,
        said: &mut Vec<Said>,
    ) -> Result<()> {
        let text = match unfolded(bytes, file) {
            Ok(text) => text,
            Err(refusal) => return self.set_aside(fleet, caller, file, &refusal.message, said),
        };
        if self.is_anothers(file, &text) {
            return Ok(());
        }
        self.look_again();
        match self.import(fleet, caller, file, &text, before) {
            Ok(taken) => {
                if taken.changed {
                    said.push(Said::Done(format!(
                        "took in {}/{file}, which somebody else wrote",
                        self.name
                    )));
                }
                said.extend(taken.warnings.into_iter().map(Said::Trouble));
                if let Err(error) = self.remember(file, bytes) {
                    said.push(Said::Trouble(format!("{}/{file}: {error}", self.name)));
                }
                Ok(())
            }
            Err(Error::Refused(refusal)) => {
                self.set_aside(fleet, caller, file, &refusal.message, said)
            }
            // One that the store cannot hold is no reason to look at no other.
            Err(Error::Store(error @ (StoreError::TooLarge { .. } | StoreError::Corrupt(_)))) => {
                self.set_aside(fleet, caller, file, &error.to_string(), said)
            }
            Err(error) => Err(error),
        }
    }

    /// An agent's document under another name, such as an archive of the seed's own, is not that agent's file.
    fn is_anothers(&self, file: &str, text: &str) -> bool {
        self.dialect == Dialect::Epic
            && epic::read(text).is_ok_and(|document| {
                epic::file_name(&document.agent_id).is_ok_and(|name| name != file)
            })
    }

    fn import(
        &self,
        fleet: &mut Fleet,
        caller: &Caller,
        file: &str,
        text: &str,
        before: Option<String>,
    ) -> Result<TakenIn> {
        let request = ImportDocuments {
            dialect: self.dialect,
            documents: vec![Incoming {
                file: format!("{}/{file}", self.name),
                text: text.to_owned(),
                before,
            }],
            mission: None,
        };
        // Whoever runs this command did not write that file, and its key is for what it asked for.
        let caller = Caller {
            agent: None,
            epoch: None,
            session: None,
            idempotency_key: None,
            ..caller.clone()
        };
        let taken = fleet.run(&request, &caller)?.into_iter().next();
        taken.ok_or_else(|| Refusal::new(Code::Failed, format!("{file} was not looked at")).into())
    }

    /// A file that cannot be taken in is kept beside, and what is in its place is made anew: from the store,
    /// or from its newest backup when the store does not know it.
    fn set_aside(
        &self,
        fleet: &mut Fleet,
        caller: &Caller,
        file: &str,
        why: &str,
        said: &mut Vec<Said>,
    ) -> Result<()> {
        let kept = match self.keep_beside(file) {
            Ok(kept) => kept,
            Err(error) => {
                said.push(Said::Trouble(format!(
                    "{}/{file} is left alone: {error}",
                    self.name
                )));
                return Ok(());
            }
        };
        said.push(Said::Trouble(format!(
            "{why}; it is kept as {}/{kept}",
            self.name
        )));
        let _ = self.shadows.remove(file);
        self.look_again();
        if self.dialect != Dialect::Epic {
            return Ok(());
        }
        let request = ExportDocuments {
            dialect: self.dialect,
            mission: None,
            since: None,
            ended_since: None,
        };
        let known = fleet.run(&request, caller)?.documents;
        if known.iter().any(|document| document.file == file) {
            return Ok(());
        }
        let folder = self.place.join(BACKUPS);
        let backups = self.root.names_in(&folder).unwrap_or_default();
        let names = backups.iter().map(String::as_str);
        let stem = file.trim_end_matches(".json");
        let Ok(Some(backup)) = epic::latest_backup(stem, names) else {
            return Ok(());
        };
        let found = self.root.read_text(folder.join(backup), MAX_BYTES);
        let Ok(Some(text)) = found else {
            return Ok(());
        };
        match self.import(fleet, caller, file, &text, None) {
            Ok(_) => said.push(Said::Done(format!(
                "{}/{file} is restored from {}/backups/{backup}",
                self.name, self.name
            ))),
            Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Moves a file out of the way, under a name that nothing has.
    fn keep_beside(&self, file: &str) -> io::Result<String> {
        let from = self.place.join(file);
        for number in 1..1000 {
            let kept = match number {
                1 => format!("{file}.conflict"),
                number => format!("{file}.conflict.{number}"),
            };
            // A hard link fails where the name is taken.
            match self.root.hard_link(&from, self.place.join(&kept)) {
                Ok(()) => {
                    self.root.remove(&from)?;
                    return Ok(kept);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("too many conflicts are kept beside it"))
    }

    /// Writes every document that is not in its place yet.
    pub(super) fn write_out(
        &self,
        given: &GivenOut,
        now: Time,
        steps: &Steps,
        said: &mut Vec<Said>,
    ) {
        let (mut taken, troubles) = (BTreeSet::new(), said.len());
        for ended in &given.ended {
            if let Err(error) = self.archive(&ended.file, &ended.archive) {
                said.push(Said::Trouble(format!(
                    "{}/{} is not in the archive: {error}",
                    self.name, ended.file
                )));
            }
        }
        for document in &given.documents {
            if !taken.insert(&document.file) {
                said.push(Said::Trouble(format!(
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
                said.push(Said::Trouble(format!(
                    "{}/{} is not up to date: {error}",
                    self.name, document.file
                )));
            }
        }
        if self.dialect == Dialect::Recovery
            && let Err(error) = self.clean_up(now)
        {
            said.push(Said::Trouble(format!("{}: {error}", self.name)));
        }
        if self.dialect == Dialect::Orchestrator {
            self.tidy(given, now, steps, said);
        }
        // Nobody will write these again.
        for name in self.not_there() {
            let _ = self.shadows.remove(name);
        }
        // What did not succeed is tried again, and whatever else may have changed until then.
        if said.len() == troubles {
            let seen = format!("{} {}", given.history, given.rev);
            let _ = self.shadows.put(SEEN, seen, Replacing::Yes, PRIVATE);
            let _ = self.shadows.remove(AGAIN);
        }
    }

    /// Files that we wrote and that are not there.
    fn not_there(&self) -> Vec<String> {
        let mut names = self.shadows.names_in("").unwrap_or_default();
        names.retain(|name| {
            !name.starts_with('.') && matches!(self.root.entry(self.place.join(name)), Ok(None))
        });
        names
    }

    /// Since which revision documents are wanted; none when all are.
    pub(super) fn since(&self, fleet: &mut Fleet) -> Result<Option<u64>> {
        let again = !matches!(self.shadows.entry(AGAIN), Ok(None));
        let since = self.seen(fleet)?.filter(|_| !again);
        // Of an orchestrator's checkpoints, what was archived or deleted has to be known as well.
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

    fn write_one(&self, document: &Outgoing, now: Time, steps: &Steps) -> io::Result<()> {
        let file = document.file.as_str();
        let path = self.place.join(file);
        let bytes = packed(document).map_err(io::Error::other)?;
        let seen = self.root.read(&path, MAX_BYTES)?;
        let is_there = seen.as_ref() == Some(&bytes);
        if is_there && self.shadow(file).as_ref() == Some(&bytes) {
            return self.retire_replaced(document);
        }
        if matches!(self.look(file)?, Seen::Foreign { .. }) && !is_there {
            // Somebody wrote since we looked: the next command takes it in first.
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
        self.root.put(&path, &bytes, Replacing::Yes, self.mode())?;
        steps.step();
        self.shadows.rename(next(file), file)?;
        steps.step();
        self.retire_replaced(document)
    }

    fn retire_replaced(&self, document: &Outgoing) -> io::Result<()> {
        let replaced = document.replaces.as_deref();
        replaced.map_or(Ok(()), |file| self.retire(file))
    }

    /// Takes a file away that another has replaced, unless somebody else wrote it since.
    fn retire(&self, file: &str) -> io::Result<()> {
        if matches!(self.look(file)?, Seen::Ours) {
            self.root.remove(self.place.join(file))?;
            let _ = self.shadows.remove(file);
        }
        Ok(())
    }

    /// Keeps what was there before an update, and the last ten of those.
    fn back_up(&self, file: &str, before: &[u8], now: Time) -> io::Result<()> {
        let Ok(text) = std::str::from_utf8(before) else {
            return Ok(());
        };
        let folder = self.root.make(self.place.join(BACKUPS), 0o755)?;
        let stem = file.trim_end_matches(".json");
        let refused = |refusal: flightline_core::Refusal| io::Error::other(refusal.message);
        let name = epic::backup_name(stem, now).map_err(refused)?;
        match folder.put(name, text, Replacing::No, SHARED) {
            // Two updates in one second: the first backup is the older state, and stays.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
        let backups = folder.names_in("")?;
        let names = backups.iter().map(String::as_str);
        for surplus in epic::surplus_backups(stem, names).map_err(refused)? {
            folder.remove(surplus)?;
        }
        Ok(())
    }

    /// Moves the file of something that ended into the archive, whoever wrote it last.
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
            // The time is in the name; what has none, or what we did not write, is somebody else's.
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

    /// What is in a file's place.
    fn look(&self, file: &str) -> io::Result<Seen> {
        let Some(bytes) = self.root.read(self.place.join(file), MAX_BYTES)? else {
            return Ok(Seen::Missing);
        };
        let before = self.shadow(file);
        if before.as_ref() == Some(&bytes) {
            return Ok(Seen::Ours);
        }
        let written = self.shadows.read(next(file), MAX_BYTES)?;
        if written.as_deref() == Some(&bytes) {
            // We died right after writing it.
            self.shadows.rename(next(file), file)?;
            return Ok(Seen::Ours);
        }
        let before = before.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(Seen::Foreign { bytes, before })
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
            // The others are copies of what was the latest once.
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

    /// Files of a mirror are for everybody who works in the repository; those in our own folder are not.
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

/// What is in a file's place.
enum Seen {
    /// Nothing.
    Missing,
    /// What we last saw there.
    Ours,
    /// What somebody else wrote.
    Foreign {
        bytes: Vec<u8>,
        /// What was there before, as we last saw it.
        before: Option<String>,
    },
}
