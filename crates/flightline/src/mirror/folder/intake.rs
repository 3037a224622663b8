//! Imports files that other programs wrote: the oldest first. A file that is being written is waited for; one that
//! cannot be imported is kept beside, and its agent is told.

use std::io;

use flightline_core::dialect::compress::unfolded;
use flightline_core::dialect::recovery::LATEST_FILE;
use flightline_core::dialect::{Dialect, Json, MAX_BYTES, epic};
use flightline_core::{Code, Refusal, Time};
use flightline_store::StoreError;
use flightline_workspace::beneath::Replacing;

use super::epic::DocumentOwner;
use super::{BACKUPS, FileContent, MirrorFolder, MirrorNotice, PRIVATE};
use crate::dialect::{ExportDocuments, ImportDocuments, ImportedDocument, Incoming, turn};
use crate::error::{Error, Result};
use crate::fleet::{Caller, Fleet};

/// The document of seed E when there is no checkpoint.
const NO_CHECKPOINT: &str = "{\"version\": \"1.0\", \"timestamp\": \"\"}";
/// A file that cannot be read and changed less than so many milliseconds ago may still be being written.
const SETTLING: u64 = 3_000;
/// Maximum length of a sighting: the time of a file's change, its size, and the time at which it was seen.
const LONGEST_SIGHT: usize = 100;

/// Maximum number of files that are taken in by one command: a folder full of files makes no command wait for long.
const TAKEN_AT_ONCE: usize = 200;
/// Maximum number of files that are set aside by one command.
const SET_ASIDE_AT_ONCE: usize = 50;
/// Maximum number of files, and of bytes, that are read to find the oldest.
const READ_AT_ONCE: usize = 1_000;
pub(super) const BYTES_AT_ONCE: usize = 64 * 1024 * 1024;

/// The name of the file after which the next look begins, where one command could not look at all of them.
const FROM: &str = ".from";
const LONGEST_NAME: usize = 255;

/// A file that another program wrote.
struct ForeignFile {
    file: String,
    bytes: Vec<u8>,
    incoming: Incoming,
}

impl MirrorFolder {
    /// Takes in every file that is not as we last saw it.
    pub(in crate::mirror) fn take_in(
        &self,
        fleet: &mut Fleet,
        caller: &Caller,
        said: &mut Vec<MirrorNotice>,
    ) -> Result<()> {
        self.remind(caller, said);
        let missing = self.not_there();
        self.note_moved(&missing, said);
        for name in missing {
            self.look_again();
            if self.dialect == Dialect::Recovery && name == LATEST_FILE {
                // The seed deletes it when it has resumed: that is to say that there is none.
                let before = self
                    .shadow(&name)
                    .and_then(|text| String::from_utf8(text).ok());
                let gone = self.incoming(&name, NO_CHECKPOINT.to_owned(), before);
                self.import(fleet, caller, gone)?;
            }
        }
        if self.dialect == Dialect::Orchestrator {
            self.compare_index(fleet.now()?, said);
        }
        let (mut found, all) = self.find_foreign(fleet, caller, said)?;
        if !all || found.len() > TAKEN_AT_ONCE {
            found.truncate(TAKEN_AT_ONCE);
            self.look_again();
            said.push(MirrorNotice::Trouble(format!(
                "{} holds many files that other programs wrote: the next command goes on with them",
                self.name
            )));
        }
        for found in found {
            self.take_in_one(fleet, caller, found, said)?;
        }
        self.take_in_conflicts(fleet, caller, said)
    }

    /// The files that other programs wrote, the oldest first, and whether those are all. An unreadable one is waited for, or
    /// put aside when no program is writing it.
    fn find_foreign(
        &self,
        fleet: &mut Fleet,
        caller: &Caller,
        said: &mut Vec<MirrorNotice>,
    ) -> Result<(Vec<ForeignFile>, bool)> {
        let mut files = self.root.names_in(&self.place).unwrap_or_default();
        files.retain(|file| self.is_document(file));
        files.sort();
        let from = self.shadows.read_text(FROM, LONGEST_NAME).ok().flatten();
        if let Some(from) = &from {
            let before = files.partition_point(|file| file <= from);
            files.rotate_left(before);
        }
        let (mut found, mut last) = (Vec::new(), None);
        let (mut read, mut bytes_read, mut aside) = (0, 0, 0);
        for file in files {
            if read >= READ_AT_ONCE || bytes_read > BYTES_AT_ONCE || aside >= SET_ASIDE_AT_ONCE {
                let last = last.unwrap_or_default();
                let _ = self.shadows.put(FROM, last, Replacing::Yes, PRIVATE);
                found.sort_by_key(|found: &ForeignFile| turn(self.dialect, &found.incoming));
                return Ok((found, false));
            }
            let (bytes, before) = match self.look(&file) {
                Ok(FileContent::Ours | FileContent::Missing) => continue,
                Ok(FileContent::Foreign { bytes, before }) => (bytes, before),
                Err(error) => {
                    said.push(self.left_alone(&file, &error));
                    continue;
                }
            };
            (read, bytes_read) = (read + 1, bytes_read + bytes.len());
            last = Some(file.clone());
            match self.text_in(&file, &bytes) {
                Ok(text) => match self.whose(&file, &text) {
                    DocumentOwner::Own => found.push(ForeignFile {
                        incoming: self.incoming(&file, text, before),
                        file,
                        bytes,
                    }),
                    DocumentOwner::Ended => {}
                    DocumentOwner::Anothers { agent, file: name } => {
                        said.push(MirrorNotice::Trouble(format!(
                            "{0}/{file} is left alone: it is about {agent}, whose file is {0}/{name}",
                            self.name
                        )));
                        // Reported once, until the file changes.
                        let _ = self.remember(&file, &bytes);
                    }
                },
                Err(_) if !self.is_settled(&file, fleet.now()?) => self.look_again(),
                Err(refusal) => {
                    aside += 1;
                    self.set_aside(fleet, caller, (&file, &bytes), &refusal, said)?;
                }
            }
        }
        if from.is_some() {
            let _ = self.shadows.remove(FROM);
        }
        found.sort_by_key(|found| turn(self.dialect, &found.incoming));
        Ok((found, true))
    }

    /// The text of a file that is whole.
    pub(super) fn text_in(&self, file: &str, bytes: &[u8]) -> std::result::Result<String, Refusal> {
        let text = unfolded(bytes, file)?;
        let read = Json::parse(&text);
        read.map_err(|why| why.refusal(&format!("{}/{file}", self.name)))?;
        Ok(text)
    }

    /// Returns true when a file was not written for a while: a file that may still be written is not judged. Where
    /// its time is not of our clock, it is compared with how it was seen before.
    pub(super) fn is_settled(&self, file: &str, now: Time) -> bool {
        let Ok(Some(entry)) = self.root.entry(self.place.join(file)) else {
            return false;
        };
        let changed = Time::from_millis(entry.modified.saturating_mul(1_000));
        if now.since(changed) >= SETTLING {
            return true;
        }
        let sight = format!("{} {}", entry.modified, entry.size);
        let known = self.shadows.read_text(sighted(file), LONGEST_SIGHT);
        let known = known.ok().flatten().unwrap_or_default();
        match known.rsplit_once(' ') {
            Some((same, since)) if same == sight => since
                .parse()
                .is_ok_and(|since| now.since(Time::from_millis(since)) >= SETTLING),
            Some(_) | None => {
                let sight = format!("{sight} {}", now.as_millis());
                let _ = self
                    .shadows
                    .put(sighted(file), sight, Replacing::Yes, PRIVATE);
                false
            }
        }
    }

    fn take_in_one(
        &self,
        fleet: &mut Fleet,
        caller: &Caller,
        found: ForeignFile,
        said: &mut Vec<MirrorNotice>,
    ) -> Result<()> {
        let ForeignFile {
            file,
            bytes,
            incoming,
        } = found;
        self.look_again();
        let refusal = match self.import(fleet, caller, incoming) {
            Ok(taken) => {
                self.say_taken(&file, taken, said);
                let _ = self.shadows.remove(sighted(&file));
                if let Err(error) = self.remember(&file, &bytes) {
                    said.push(MirrorNotice::Trouble(format!(
                        "{}/{file}: {error}",
                        self.name
                    )));
                }
                return Ok(());
            }
            Err(error) => cannot_be_held(error)?,
        };
        self.set_aside(fleet, caller, (&file, &bytes), &refusal, said)
    }

    /// Reports in one line the changes that a file made.
    pub(super) fn say_taken(
        &self,
        file: &str,
        taken: ImportedDocument,
        said: &mut Vec<MirrorNotice>,
    ) {
        if taken.changed {
            let (name, changes) = (&taken.name, taken.changes.join(", "));
            let mut line = format!("took in {}/{file} ({name})", self.name);
            if !changes.is_empty() {
                line = format!("{line}: {changes}");
            }
            said.push(MirrorNotice::Done(line));
        }
        said.extend(taken.warnings.into_iter().map(MirrorNotice::Trouble));
    }

    fn left_alone(&self, file: &str, error: &io::Error) -> MirrorNotice {
        MirrorNotice::Trouble(format!("{}/{file} is left alone: {error}", self.name))
    }

    pub(super) fn incoming(&self, file: &str, text: String, before: Option<String>) -> Incoming {
        Incoming {
            file: format!("{}/{file}", self.name),
            text,
            before,
            even_if_older: false,
        }
    }

    pub(super) fn import(
        &self,
        fleet: &mut Fleet,
        caller: &Caller,
        incoming: Incoming,
    ) -> Result<ImportedDocument> {
        let file = incoming.file.clone();
        let request = ImportDocuments {
            dialect: self.dialect,
            documents: vec![incoming],
            mission: None,
        };
        let taken = fleet
            .run(&request, &anonymous_caller(caller))?
            .into_iter()
            .next();
        taken.ok_or_else(|| Refusal::new(Code::Failed, format!("{file} was not looked at")).into())
    }

    /// A file that cannot be taken in is kept beside, and its agent is told. The file in its place is made anew: from the
    /// store, or from its newest backup when the store does not know it.
    fn set_aside(
        &self,
        fleet: &mut Fleet,
        caller: &Caller,
        (file, bytes): (&str, &[u8]),
        why: &Refusal,
        said: &mut Vec<MirrorNotice>,
    ) -> Result<()> {
        match self.keep_beside(file, file) {
            Ok(kept) => self.tell_of(fleet, caller, (file, bytes), (&kept, why), said)?,
            Err(error) => {
                said.push(self.left_alone(file, &error));
                return Ok(());
            }
        }
        let _ = self.shadows.remove(file);
        let _ = self.shadows.remove(sighted(file));
        self.look_again();
        match self.dialect {
            Dialect::Epic => self.restore_from_backup(fleet, caller, file, said),
            Dialect::Sitebuilder | Dialect::Orchestrator | Dialect::Recovery => Ok(()),
        }
    }

    fn restore_from_backup(
        &self,
        fleet: &mut Fleet,
        caller: &Caller,
        file: &str,
        said: &mut Vec<MirrorNotice>,
    ) -> Result<()> {
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
        match self.import(fleet, caller, self.incoming(file, text, None)) {
            Ok(_) => said.push(MirrorNotice::Done(format!(
                "{}/{file} is restored from {}/backups/{backup}",
                self.name, self.name
            ))),
            Err(Error::Refused(_)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// The user of a command did not write the files in a mirror, and the command's key is for its own request.
pub(super) fn anonymous_caller(caller: &Caller) -> Caller {
    Caller {
        agent: None,
        epoch: None,
        session: None,
        idempotency_key: None,
        ..caller.clone()
    }
}

/// Returns the refusal of a document that the store does not take in. One that it cannot hold does not keep it from
/// looking at others.
pub(super) fn cannot_be_held(error: Error) -> Result<Refusal> {
    match error {
        Error::Refused(refusal) => Ok(*refusal),
        error @ Error::Store(StoreError::TooLarge { .. } | StoreError::Corrupt(_)) => {
            Ok(error.into_refusal())
        }
        error @ Error::Store(_) => Err(error),
    }
}

/// Returns the name under which the sighting of an unreadable file is kept.
pub(super) fn sighted(file: &str) -> String {
    format!(".sighted.{file}")
}
