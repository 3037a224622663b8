//! One dialect's folder, and what we remember of it.

mod orchestrator;

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use flightline_core::Time;
use flightline_core::dialect::compress::unfolded;
use flightline_core::dialect::recovery::{self, CleanUp, FoundFile};
use flightline_core::dialect::{self, Dialect, MAX_BYTES, epic, sitebuilder};
use flightline_store::Steps;

use super::{Mirrors, Said};
use crate::checkpoint::files::names_in;
use crate::dialect::orchestrator::files::packed;
use crate::dialect::{ExportDocuments, GivenOut, ImportDocuments, Incoming, Outgoing};
use crate::error::{Error, Result};
use crate::file::{Replacing, plain, put};
use crate::fleet::{Caller, Fleet};

/// Files of a mirror are for everybody who works in the repository.
const SHARED: u32 = 0o644;
const PRIVATE: u32 = 0o600;
/// The file that says up to which revision everything is in its files. It only saves work.
const SEEN: &str = ".seen";

/// One dialect's folder. While there is one, no other process has it.
pub(super) struct Folder {
    dialect: Dialect,
    /// Where its files are.
    place: PathBuf,
    /// The same, as people know it.
    name: &'static str,
    /// Where their shadows are.
    shadows: PathBuf,
    _turn: File,
}

impl Folder {
    pub(super) fn open(mirrors: &Mirrors, dialect: Dialect) -> io::Result<Self> {
        let name = Self::name(dialect);
        let shadows = mirrors.state.join(dialect.as_str());
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&shadows)?;
        let turn = File::create(shadows.join(".turn"))?;
        turn.lock()?;
        Ok(Self {
            dialect,
            place: match dialect {
                Dialect::Orchestrator => orchestrator::place(mirrors),
                Dialect::Sitebuilder | Dialect::Epic | Dialect::Recovery => mirrors.root.join(name),
            },
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
        for shadow in names_in(&self.shadows) {
            let name = shadow.file_name().and_then(|name| name.to_str());
            let missing = name.is_some_and(|name| {
                !name.starts_with('.') && fs::symlink_metadata(self.place.join(name)).is_err()
            });
            if missing {
                self.look_again();
            }
        }
        if self.dialect == Dialect::Orchestrator {
            self.compare_index(said);
        }
        for path in names_in(&self.place) {
            let Some(file) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            if !self.is_document(file) {
                continue;
            }
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
        self.look_again();
        match self.import(fleet, caller, file, &text, before) {
            Ok(warnings) => {
                said.push(Said::Done(format!(
                    "took in {}/{file}, which somebody else wrote",
                    self.name
                )));
                said.extend(warnings.into_iter().map(Said::Trouble));
                if let Err(error) = self.remember(file, bytes) {
                    said.push(Said::Trouble(format!("{}/{file}: {error}", self.name)));
                }
                Ok(())
            }
            Err(Error::Refused(refusal)) => {
                self.set_aside(fleet, caller, file, &refusal.message, said)
            }
            Err(error) => Err(error),
        }
    }

    fn import(
        &self,
        fleet: &mut Fleet,
        caller: &Caller,
        file: &str,
        text: &str,
        before: Option<String>,
    ) -> Result<Vec<String>> {
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
        let taken = fleet.run(&request, &caller)?;
        Ok(taken.into_iter().flat_map(|one| one.warnings).collect())
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
        let _ = fs::remove_file(self.shadows.join(file));
        self.look_again();
        if self.dialect != Dialect::Epic {
            return Ok(());
        }
        let request = ExportDocuments {
            dialect: self.dialect,
            mission: None,
            since: None,
        };
        let known = fleet.run(&request, caller)?.documents;
        if known.iter().any(|document| document.file == file) {
            return Ok(());
        }
        let folder = self.place.join("backups");
        let backups = names_in(&folder);
        let names = backups
            .iter()
            .filter_map(|path| path.file_name().and_then(|name| name.to_str()));
        let stem = file.trim_end_matches(".json");
        let Ok(Some(backup)) = epic::latest_backup(stem, names) else {
            return Ok(());
        };
        let found = plain(&folder.join(backup), MAX_BYTES).ok().flatten();
        let Some(text) = found.and_then(|bytes| String::from_utf8(bytes).ok()) else {
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
            match fs::hard_link(&from, self.place.join(&kept)) {
                Ok(()) => {
                    fs::remove_file(&from)?;
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
        // What did not succeed is tried again, and whatever else may have changed until then.
        if said.len() == troubles {
            let seen = format!("{} {}", given.history, given.rev);
            let _ = fs::write(self.shadows.join(SEEN), seen);
        }
    }

    /// Up to which revision of this journal everything is in its files.
    pub(super) fn seen(&self, fleet: &mut Fleet) -> Result<Option<u64>> {
        let history = fleet
            .store()
            .read(|tx| Ok::<_, Error>(tx.history().to_owned()))?;
        let text = fs::read_to_string(self.shadows.join(SEEN)).unwrap_or_default();
        let seen = text.split_once(' ').filter(|(of, _)| *of == history);
        let seen = seen.and_then(|(_, rev)| rev.parse().ok());
        // Of an orchestrator's checkpoints, what was archived or deleted has to be known as well.
        Ok(seen.or((self.dialect == Dialect::Orchestrator).then_some(0)))
    }

    /// The next time every file is looked at, whether or not the store changed.
    fn look_again(&self) {
        let _ = fs::remove_file(self.shadows.join(SEEN));
    }

    fn write_one(&self, document: &Outgoing, now: Time, steps: &Steps) -> io::Result<()> {
        let file = document.file.as_str();
        let path = self.place.join(file);
        let bytes = packed(document).map_err(io::Error::other)?;
        let seen = plain(&path, MAX_BYTES)?;
        let is_there = seen.as_ref() == Some(&bytes);
        if is_there && self.shadow(file).as_ref() == Some(&bytes) {
            return Ok(());
        }
        if matches!(self.look(file)?, Seen::Foreign { .. }) && !is_there {
            // Somebody wrote since we looked: the next command takes it in first.
            return Ok(());
        }
        fs::create_dir_all(&self.place)?;
        if self.dialect == Dialect::Epic
            && let Some(before) = &seen
        {
            self.back_up(file, before, now)?;
        }
        // Between the two writes the file is as its old shadow or as the next one: ours either way.
        put(&self.next(file), &bytes, Replacing::Yes, PRIVATE)?;
        steps.step();
        put(&path, &bytes, Replacing::Yes, self.mode())?;
        steps.step();
        fs::rename(self.next(file), self.shadows.join(file))?;
        steps.step();
        if let Some(replaced) = &document.replaces {
            self.retire(replaced)?;
        }
        Ok(())
    }

    /// Takes a file away that another has replaced, unless somebody else wrote it since.
    fn retire(&self, file: &str) -> io::Result<()> {
        if matches!(self.look(file)?, Seen::Ours) {
            fs::remove_file(self.place.join(file))?;
            let _ = fs::remove_file(self.shadows.join(file));
        }
        Ok(())
    }

    /// Keeps what was there before an update, and the last ten of those.
    fn back_up(&self, file: &str, before: &[u8], now: Time) -> io::Result<()> {
        let Ok(text) = std::str::from_utf8(before) else {
            return Ok(());
        };
        let folder = self.place.join("backups");
        fs::create_dir_all(&folder)?;
        let stem = file.trim_end_matches(".json");
        let refused = |refusal: flightline_core::Refusal| io::Error::other(refusal.message);
        let name = epic::backup_name(stem, now).map_err(refused)?;
        match put(&folder.join(name), text, Replacing::No, SHARED) {
            // Two updates in one second: the first backup is the older state, and stays.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
        let backups = names_in(&folder);
        let names = backups
            .iter()
            .filter_map(|path| path.file_name().and_then(|name| name.to_str()));
        for surplus in epic::surplus_backups(stem, names).map_err(refused)? {
            fs::remove_file(folder.join(surplus))?;
        }
        Ok(())
    }

    /// Moves the file of something that ended into the archive, whoever wrote it last.
    fn archive(&self, file: &str, archive: &str) -> io::Result<()> {
        let from = self.place.join(file);
        if fs::symlink_metadata(&from).is_err() {
            return Ok(());
        }
        let folder = self.place.join("archive");
        fs::create_dir_all(&folder)?;
        // A hard link fails where the name is taken: then it is there already, and this is the new one.
        match fs::hard_link(&from, folder.join(archive)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            linked => linked?,
        }
        fs::remove_file(&from)?;
        let _ = fs::remove_file(self.shadows.join(file));
        Ok(())
    }

    /// Seed E's rules: old backups go, five stay, emergencies are put apart.
    fn clean_up(&self, now: Time) -> io::Result<()> {
        let mut found = Vec::new();
        for path in names_in(&self.place) {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                continue;
            };
            let modified = fs::symlink_metadata(&path)?.modified()?;
            let since = modified.duration_since(std::time::UNIX_EPOCH);
            let millis = since.map_or(0, |since| since.as_millis());
            found.push(FoundFile {
                name: name.to_owned(),
                modified: Time::from_millis(i64::try_from(millis).unwrap_or(i64::MAX)),
            });
        }
        let plan = CleanUp::default().plan(&found, now);
        for name in &plan.archive {
            self.archive(name, name)?;
        }
        for name in &plan.delete {
            fs::remove_file(self.place.join(name))?;
            let _ = fs::remove_file(self.shadows.join(name));
        }
        Ok(())
    }

    /// What is in a file's place.
    fn look(&self, file: &str) -> io::Result<Seen> {
        let Some(bytes) = plain(&self.place.join(file), MAX_BYTES)? else {
            return Ok(Seen::Missing);
        };
        let before = self.shadow(file);
        if before.as_ref() == Some(&bytes) {
            return Ok(Seen::Ours);
        }
        let next = plain(&self.next(file), MAX_BYTES)?;
        if next.as_deref() == Some(&bytes) {
            // We died right after writing it.
            fs::rename(self.next(file), self.shadows.join(file))?;
            return Ok(Seen::Ours);
        }
        let before = before.and_then(|bytes| String::from_utf8(bytes).ok());
        Ok(Seen::Foreign { bytes, before })
    }

    fn shadow(&self, file: &str) -> Option<Vec<u8>> {
        plain(&self.shadows.join(file), MAX_BYTES).ok().flatten()
    }

    fn next(&self, file: &str) -> PathBuf {
        self.shadows.join(format!(".next.{file}"))
    }

    fn remember(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        put(&self.shadows.join(file), bytes, Replacing::Yes, PRIVATE)
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

    /// Files of a mirror are for everybody who works in the repository; those in our own folder are not.
    const fn mode(&self) -> u32 {
        match self.dialect {
            Dialect::Orchestrator => PRIVATE,
            Dialect::Sitebuilder | Dialect::Epic | Dialect::Recovery => SHARED,
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
